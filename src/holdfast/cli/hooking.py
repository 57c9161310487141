"""The entry point of hooks: quick, silent, and harmless whatever is wrong.

Called by the hook script (`capture.script`) and by `holdfast hook`, with only the standard library loaded. A payload
is handed over before anything else is tried; only an event that may be answered loads the rest. Whatever happens,
the exit code is 0 and nothing is printed that an agent could take for an answer; what went wrong is noted in the
error log, which `doctor` shows.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # this module is loaded in a hurry
    from typing import Final, TextIO

    from holdfast.conversations.adapters.base import Reply

BLOCKED: Final = 86  # for the hook script, which makes 2 of it: Python itself ends with 2 when it is broken
OWN_WORDS: Final = ("drain", "status", "tell", "trailer", "unkept")  # what stands where else an agent is named
HELD_UP: Final = 0.9  # seconds: an agent is never held up for longer
_LARGEST: Final = 64 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_TOO_LARGE: Final = "a payload of {!a} was larger than 64 MiB: nothing of it was kept"
# Words that stand in every payload that may be answered. Cheaper than reading JSON; a false alarm costs only time.
_ASKING: Final = (
    b'"SessionStart"', b'"UserPromptSubmit"', b'"PreCompact"', b'"BeforeAgent"', b'"PreCompress"', b'"TaskStart"',
    b'"TaskResume"', b'"sessionStart"', b'"beforeSubmitPrompt"', b'"preCompact"', b'"chat.message"',
    b'"session.created"', b'"session.resumed"', b'"session.compacting"',
)  # fmt: skip
_PROMPTS: Final = (
    b'"UserPromptSubmit"', b'"BeforeAgent"', b'"beforeSubmitPrompt"', b'"chat.message"'
)  # fmt: skip
_TALKS: Final = ("session_id", "conversation_id", "sessionId", "taskId")


def main(words: list[str], home: str | None = None) -> int:
    """`AGENT SOURCE PARENT` (hand over, and answer), `tell AGENT SOURCE PARENT`, `status AGENT`, `drain FORMAT`,
    `trailer FILE`, or `unkept AGENT FILE`.
    """
    try:
        home = home or _home()
        _find_store(home)
        if words[:1] == ["drain"]:
            return _drain(home, *words[1:2])
        if words[:1] == ["unkept"]:
            return _unkept(home, *words[1:3])
        if words[:1] == ["trailer"]:
            return _trailer(home, *words[1:2])
        if words[:1] == ["status"]:
            _watch_the_time()
            from holdfast.cli.statusline import show

            return show(home, words[1] if len(words) > 1 else "claude")
        return _hook(home, words[1:] if words[:1] == ["tell"] else words, answer=words[:1] != ["tell"])
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 (an agent is at work: nothing may disturb it)
        _note(home or "", f"{type(error).__name__}: {error}")
        return 0
    finally:
        _watch_no_longer()


def drain(home: str) -> int:
    """Take in what waits: for a process of its own."""
    from holdfast.workspace import spool

    return main(["drain", spool.FORMAT], home)


def prepare(home: str) -> int:
    """Make the hook script: for a process of its own."""
    from holdfast.conversations.hooks.install import install

    try:
        install(home, system=sys.platform)
    except Exception as error:  # noqa: BLE001 (the next one tries again)
        _note(home, f"{type(error).__name__}: {error}")
    return 0


def _hook(home: str, words: list[str], *, answer: bool) -> int:
    agent, source, parent = (*words, "", "", "")[:3]
    payload = sys.stdin.buffer.read(_LARGEST + 1)
    agent, source = (word[:40] if word.isalnum() else "" for word in (agent, source))
    if len(payload) > _LARGEST:
        _read_to_the_end()
        _note(home, _TOO_LARGE.format(agent))
        return 0
    if not payload.strip():
        _note(home, f"a hook of {agent or 'no agent'!a} came with nothing")
        return 0
    from holdfast.cli.home_location import without_password
    from holdfast.workspace import server_outage, spool

    if source == "plugin" and not os.path.lexists(os.path.join(home, "hooks", "ask.py")):
        # Whoever came by the plugin alone has no hook script yet: from the next hook on it is quicker.
        from holdfast.machine import background_process

        background_process.start("holdfast.cli.hooking", "prepare", home)
    pid = int(parent) if parent.isdecimal() and len(parent) < 11 else os.getppid()
    store = os.environ.get("HOLDFAST_STORE") or ""
    path = spool.add_payload(
        home, agent or "unknown", source or "hand", pid, payload, store=without_password(store)
    )  # fmt: skip
    if not answer or not any(word in payload for word in _ASKING):
        return 0
    away = server_outage.is_away(home, store)
    if away or _nothing_due(home, agent, payload):
        # It has the time to wait for a server that is only slow.
        if not server_outage.is_away(home, store, server_outage.BACKGROUND_PATIENCE):
            from holdfast.machine import background_process

            background_process.start("holdfast.cli.hooking", "drain", home)
        return 0
    _watch_the_time()
    reply = _answer(home, os.path.basename(path), payload)
    if reply is None:
        return 0
    _say(sys.stderr, reply.stderr)
    _say(sys.stdout, reply.stdout)
    return BLOCKED if reply.code else 0


def _nothing_due(home: str, agent: str, payload: bytes) -> bool:
    """Whether this is a prompt to which there is nothing to say, as nearly all are: the glance of its session knows.

    Saves loading everything else; what was handed over is taken in by a process of its own.
    """
    if any(word in payload for word in _ASKING if word not in _PROMPTS):
        return False
    import json

    from holdfast.conversations import status_cache
    from holdfast.machine.wall import Wall

    try:
        said = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    names = [said.get(name) for name in _TALKS] if isinstance(said, dict) else []
    talk = next((name for name in names if isinstance(name, str)), None)
    glance = None if talk is None else status_cache.of_talk(home, f"{agent}:{talk}")
    return glance is not None and status_cache.is_silent(glance, Wall().now())


def _read_to_the_end() -> None:
    """The agent says all it has to say: a pipe that nobody reads would be an error to it."""
    while sys.stdin.buffer.read(_PIECE):
        pass


def _unkept(home: str, agent: str, path: str) -> int:
    """The script could not write a payload to its end, and removes its file after this: say why."""
    try:
        too_large = os.lstat(path).st_size >= _LARGEST
    except OSError:
        too_large = False
    _read_to_the_end()
    _note(home, _TOO_LARGE.format(agent[:40]) if too_large else f"a payload of {agent[:40]!a} could not be written")
    return 0


def _say(stream: TextIO, text: str) -> None:
    """In UTF-8, whatever the terminal speaks: it is an agent that listens. If it has gone, that is no failure."""
    try:
        stream.buffer.write(text.encode(errors="replace"))
        stream.flush()
    except (OSError, ValueError):
        # What is left in the buffer would fail once more as Python ends, with a code of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _answer(home: str, name: str, payload: bytes) -> Reply | None:
    import holdfast.cli.quick  # noqa: F401 (first: it makes the other imports cheaper)
    from holdfast.keeper.hook_process import answered

    return answered(home, name, store=os.environ.get("HOLDFAST_STORE") or None, payload=payload)


def _drain(home: str, made: str = "") -> int:
    """`made` is the format of the script that calls; the first one did not say it."""
    import holdfast.cli.quick  # noqa: F401
    from holdfast.keeper.hook_process import drained
    from holdfast.workspace import spool
    from holdfast.workspace.agent_dirs import AgentDirs

    if made != spool.FORMAT:
        _renew_scripts(home)
    places = AgentDirs(os.path.expanduser("~"), os.curdir, os.environ, sys.platform)
    drained(home, store=os.environ.get("HOLDFAST_STORE") or None, places=places)
    return 0


def _trailer(home: str, path: str) -> int:
    """A commit is being made: its message is to name the session."""
    import holdfast.cli.quick  # noqa: F401
    from holdfast.keeper.hook_process import named_in_commit

    named_in_commit(home, path, store=os.environ.get("HOLDFAST_STORE") or None)
    return 0


def _renew_scripts(home: str) -> None:
    """The scripts here are of an earlier version, which does not say for which store a payload is."""
    from holdfast.conversations.hooks.install import install

    try:
        install(home, system=sys.platform)
    except Exception:  # noqa: BLE001 (the old ones go on working, and doctor names them)
        return


def _find_store(home: str) -> None:
    """Agents do not have the variables of the shell from which they were connected: `connect` wrote this one down."""
    if not os.environ.get("HOLDFAST_STORE"):
        try:
            with open(os.path.join(home, "hooks", "store"), encoding="utf-8") as file:
                os.environ["HOLDFAST_STORE"] = file.read(4096)
        except (OSError, ValueError):
            return


def _home() -> str:
    """As for every command; the hook script says where it stands itself."""
    from holdfast.cli.home_location import home

    return home(os.environ)


def _watch_the_time() -> None:
    """Whatever holds us up (a locked store, a slow disk), the agent goes on: the payload is handed over by then."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, HELD_UP)
    else:
        import threading

        timer = threading.Timer(HELD_UP, os._exit, (0,))
        timer.daemon = True
        timer.start()


def _watch_no_longer() -> None:
    """As it ends, Python hands signals back to the system: an alarm that comes then would be the end, with a code."""
    signal = sys.modules.get("signal")
    if signal is not None and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _note(home: str, message: str) -> None:
    try:
        from holdfast.machine import error_log

        if os.path.isdir(home):
            error_log.note(home, "hook", message)
    except BaseException:  # noqa: BLE001, S110 (nobody is left to be told)
        pass
