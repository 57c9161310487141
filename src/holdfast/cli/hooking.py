"""The entry point of hooks: fast and silent, and never a reason for an agent to fail.

The hook script and `holdfast hook` call it, with only the standard library loaded. It puts a payload into the spool
before it tries anything else; only an event that may be answered loads the rest. Whatever happens, the exit code is
0 and nothing is printed that an agent could take for an answer; errors go to the error log, which `doctor` shows.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # not at run time: hooks must start fast
    from typing import Final, TextIO

    from holdfast.conversations.adapters.base import Occasion, Reply

BLOCKED: Final = 86  # for the hook script, which makes 2 of it: Python itself ends with 2 when it is broken
OWN_WORDS: Final = ("drain", "status", "tell", "trailer", "unkept")  # in place of an agent's name
TIME_LIMIT_SECONDS: Final = 0.9  # no agent waits longer
_MAX_PAYLOAD: Final = 64 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_TOO_LARGE: Final = "dropped a payload from {!a}: it was larger than 64 MiB"
_CONVERSATION_FIELDS: Final = ("session_id", "conversation_id", "sessionId", "taskId")


def main(words: list[str], home: str | None = None) -> int:
    """Run `AGENT SOURCE PARENT` (spool the payload, and answer), `tell AGENT SOURCE PARENT`, `status AGENT`,
    `drain FORMAT`, `trailer FILE`, or `unkept AGENT FILE`.
    """
    try:
        home = home or _home()
        _use_connected_store(home)
        if words[:1] == ["drain"]:
            return _drain(home, *words[1:2])
        if words[:1] == ["unkept"]:
            return _note_unkept(home, *words[1:3])
        if words[:1] == ["trailer"]:
            return _add_trailer(home, *words[1:2])
        if words[:1] == ["status"]:
            _start_timer()
            from holdfast.cli.statusline import show

            return show(home, words[1] if len(words) > 1 else "claude")
        return _hook(home, words[1:] if words[:1] == ["tell"] else words, answer=words[:1] != ["tell"])
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 (an agent is at work: nothing may disturb it)
        _note(home or "", f"{type(error).__name__}: {error}")
        return 0
    finally:
        _stop_timer()


def drain(home: str) -> int:
    """Drain the spool; the entry point of a background process."""
    from holdfast.workspace import spool

    return main(["drain", spool.FORMAT], home)


def prepare(home: str) -> int:
    """Write the hook script; the entry point of a background process."""
    from holdfast.conversations.hooks.install import install

    try:
        install(home, system=sys.platform)
    except Exception as error:  # noqa: BLE001 (the next one tries again)
        _note(home, f"{type(error).__name__}: {error}")
    return 0


def _hook(home: str, words: list[str], *, answer: bool) -> int:
    agent, source, parent = (*words, "", "", "")[:3]
    payload = sys.stdin.buffer.read(_MAX_PAYLOAD + 1)
    agent, source = (word[:40] if word.isalnum() else "" for word in (agent, source))
    if len(payload) > _MAX_PAYLOAD:
        _read_to_end()
        _note(home, _TOO_LARGE.format(agent))
        return 0
    if not payload.strip():
        _note(home, f"empty payload from {agent}'s hook" if agent else "empty payload from an unnamed agent's hook")
        return 0
    from holdfast.cli.home_location import without_password
    from holdfast.workspace import server_outage, spool

    if source == "plugin" and not os.path.lexists(os.path.join(home, "hooks", "ask.py")):
        # Connected by the plugin alone, there is no hook script yet: with it, the next hooks are quicker.
        from holdfast.machine import background_process

        background_process.start("holdfast.cli.hooking", "prepare", home)
    pid = int(parent) if parent.isdecimal() and len(parent) < 11 else os.getppid()
    store = os.environ.get("HOLDFAST_STORE") or ""
    path = spool.add_payload(
        home, agent or "unknown", source or "hand", pid, payload, store=without_password(store)
    )  # fmt: skip
    if not answer or not _may_be(payload, ("start", "prompt", "compact")):
        return 0
    if server_outage.is_away(home, store) or _needs_no_answer(home, agent, payload):
        # A process in the background has time to wait for a slow server.
        if not server_outage.is_away(home, store, server_outage.BACKGROUND_PATIENCE):
            from holdfast.machine import background_process

            background_process.start("holdfast.cli.hooking", "drain", home)
        return 0
    _start_timer()
    reply = _answer(home, os.path.basename(path), payload)
    if reply is None:
        return 0
    _print(sys.stderr, reply.stderr)
    _print(sys.stdout, reply.stdout)
    return BLOCKED if reply.code else 0


def _may_be(payload: bytes, occasions: tuple[Occasion, ...]) -> bool:
    """Whether a payload has the name of such an event. Cheaper than reading JSON; a false alarm costs only time."""
    from holdfast.core.agent_programs import asking_events

    return any(f'"{event}"'.encode() in payload for event, occasion in asking_events() if occasion in occasions)


def _needs_no_answer(home: str, agent: str, payload: bytes) -> bool:
    """Whether this is a prompt that needs no answer, as nearly all are, by the cached status of its session.

    This saves loading everything else; another process drains the spool.
    """
    if _may_be(payload, ("start", "compact")):
        return False
    import json

    from holdfast.conversations import status_cache
    from holdfast.machine.wall import Wall

    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    ids = [fields.get(name) for name in _CONVERSATION_FIELDS] if isinstance(fields, dict) else []
    conversation = next((name for name in ids if isinstance(name, str)), None)
    if conversation is None:
        return False
    status = status_cache.find_session(home, f"{agent}:{conversation}")
    return status is not None and status_cache.is_silent(status, Wall().now())


def _read_to_end() -> None:
    """Read the rest: a closed pipe would be an error for the agent."""
    while sys.stdin.buffer.read(_CHUNK):
        pass


def _note_unkept(home: str, agent: str, path: str) -> int:
    """Note why the script could not write all of a payload; it removes the file after this."""
    try:
        too_large = os.lstat(path).st_size >= _MAX_PAYLOAD
    except OSError:
        too_large = False
    _read_to_end()
    _note(home, _TOO_LARGE.format(agent[:40]) if too_large else f"could not write a payload from {agent[:40]!a}")
    return 0


def _print(stream: TextIO, text: str) -> None:
    """Print in UTF-8, whatever the terminal's encoding: an agent reads it. That the agent has ended is no error."""
    try:
        stream.buffer.write(text.encode(errors="replace"))
        stream.flush()
    except (OSError, ValueError):
        # What is left in the buffer would fail again as Python exits, with another exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _answer(home: str, name: str, payload: bytes) -> Reply | None:
    import holdfast.cli.fast_msgspec_import  # noqa: F401 (first: it makes the other imports cheaper)
    from holdfast.keeper.hook_process import answer_hook

    return answer_hook(home, name, store=os.environ.get("HOLDFAST_STORE") or None, payload=payload)


def _drain(home: str, script_format: str = "") -> int:
    """`script_format` is that of the calling script; the first version did not pass it."""
    import holdfast.cli.fast_msgspec_import  # noqa: F401
    from holdfast.keeper.hook_process import drain_spool
    from holdfast.workspace import spool
    from holdfast.workspace.agent_dirs import AgentDirs

    if script_format != spool.FORMAT:
        _renew_scripts(home)
    places = AgentDirs(os.path.expanduser("~"), os.curdir, os.environ, sys.platform)
    drain_spool(home, store=os.environ.get("HOLDFAST_STORE") or None, places=places)
    return 0


def _add_trailer(home: str, path: str) -> int:
    """Name the session in the message of the commit that is being made."""
    import holdfast.cli.fast_msgspec_import  # noqa: F401
    from holdfast.keeper.hook_process import name_session_in_commit

    name_session_in_commit(home, path, store=os.environ.get("HOLDFAST_STORE") or None)
    return 0


def _renew_scripts(home: str) -> None:
    """Replace scripts of an earlier version, which does not say which store a payload is for."""
    from holdfast.conversations.hooks.install import install

    try:
        install(home, system=sys.platform)
    except Exception:  # noqa: BLE001 (the old ones still work, and doctor names them)
        return


def _use_connected_store(home: str) -> None:
    """Use the store that `connect` wrote down: agents lack the variables of the shell that connected them."""
    if not os.environ.get("HOLDFAST_STORE"):
        try:
            with open(os.path.join(home, "hooks", "store"), encoding="utf-8") as file:
                os.environ["HOLDFAST_STORE"] = file.read(4096)
        except (OSError, ValueError):
            return


def _home() -> str:
    """The home, as for every command; the hook script passes its own."""
    from holdfast.cli.home_location import home

    return home(os.environ)


def _start_timer() -> None:
    """Exit at the time limit, whatever blocks (a locked store, a slow disk): the payload is in the spool by then."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_SECONDS)
    else:
        import threading

        timer = threading.Timer(TIME_LIMIT_SECONDS, os._exit, (0,))
        timer.daemon = True
        timer.start()


def _stop_timer() -> None:
    """Stop the timer: as Python exits, signals go back to the system, and an alarm then would set the exit code."""
    signal = sys.modules.get("signal")
    if signal is not None and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _note(home: str, message: str) -> None:
    try:
        from holdfast.machine import error_log

        if os.path.isdir(home):
            error_log.note(home, "hook", message)
    except BaseException:  # noqa: BLE001, S110 (nowhere is left to report it)
        pass
