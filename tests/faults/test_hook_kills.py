"""F2 and F3 for hooks: killed, or refused by the system, at every call that changes a disk.

A hook is killed while it hands over, a drain while it records what waits, with mirrors on. What a hook had handed
over is recorded afterwards, once, in its place; what it had not is nothing at all, or set aside; and the next hook
and the next command need no help. When the system refuses, a hook is silent and a payload waits.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.machine import files
from holdfast.store.sqlite import SqliteStore
from holdfast.workspace import spool
from tests.faults.connected_agent import HANGING, Hooked, command_payload, install, prompt_payload
from tests.faults.harness import invariants
from tests.faults.harness.figures import record_figures
from tests.faults.harness.tracing import CHANGING, WATCH, Call, calls, injected, require_strace
from tests.faults.harness.verb_checks import assert_mirrors_match, assert_no_traceback, sampled, view_of_copy
from tests.faults.harness.warm_sandbox import Answer, WarmSandbox
from tests.support.scale import scale

KILLS = scale(7, 10_000, 10_000)
FAULTS = scale(8, 400, 10_000)
_NAMES = ("EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "EMFILE")
_ERRORS = {"write": ("EIO", "ENOSPC", "EINTR"), "pwrite64": ("EIO", "ENOSPC"), "fsync": ("EIO", "ENOSPC", "EROFS"),
           "fdatasync": ("EIO", "ENOSPC")}  # fmt: skip
BEGUN = (("start", "the goal"), ("mirror", "on", "craft"), ("mirror", "on", "timer"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[WarmSandbox]:
    require_strace()
    with WarmSandbox() as made:
        yield made


def payloads(project: str) -> list[bytes]:
    """An hour of an agent in two conversations, with every kind of payload."""

    def payload(event: str, conversation: str = "talk-1", **more: object) -> bytes:
        known = {"session_id": conversation, "cwd": project, "hook_event_name": event}
        return json.dumps(known | more).encode()

    return [
        payload("SessionStart", source="startup", model="opus"),
        prompt_payload("Add login", cwd=project, prompt_id="p1"),
        command_payload(0, cwd=project),
        payload("PostToolUse", tool_name="TodoWrite", tool_use_id="u1", tool_response={},
             tool_input={"todos": [{"content": "one", "status": "in_progress", "activeForm": "doing one"}]}),
        payload("SubagentStart", agent_id="helper", agent_type="Explore"),
        command_payload(0, cwd=project, conversation="talk-2"),
        payload("SubagentStop", agent_id="helper", agent_type="Explore", last_assistant_message="done"),
        command_payload(1, cwd=project),
        payload("PreCompact", trigger="auto"),
        command_payload(1, cwd=project, conversation="talk-2"),
        payload("SessionEnd", reason="exit"),
    ]  # fmt: skip


def spool_steps(project: str) -> tuple[tuple[str, ...], ...]:
    """Steps that put them into the spool, in the order of their names, which is that of their processes."""
    return tuple(
        ("write", f"../home/spool/claude.user.1.{2**30 + number}", payload.decode())
        for number, payload in enumerate(payloads(project))
    )


def recorded_commands(sandbox: WarmSandbox) -> list[str]:
    """The commands in the log, in order; the store is checked too."""
    invariants.read_view(sandbox.home, sandbox.project, sandbox.project)
    store = SqliteStore(sandbox.store, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        events = [event for session in store.sessions() for event in store.events(session)]
    finally:
        store.close()
    return [msgspec.json.decode(event.data or b"{}")["command"] for event in events if event.type == "command.ran"]


def assert_drained(sandbox: WarmSandbox, *, unread: int = 0) -> None:
    assert spool.list_entries(sandbox.home) == [], "payloads are still waiting"
    assert len(spool.list_unread(sandbox.home)) <= unread, "a payload was set aside"
    assert invariants.leftovers(sandbox.home) == [], f"left behind unnamed: {invariants.leftovers(sandbox.home)}"


def run_ok(sandbox: WarmSandbox, *argv: str) -> Answer:
    answer = sandbox.run(argv)
    assert answer.code == 0, f"{argv} ended with {answer.code}: {answer.err}"
    return answer


def options(call: Call, what: str) -> tuple[str, ...]:
    return ("-e", WATCH, "-e", f"inject={call.name}:{what}:when={call.nth}")


def errors(calls: list[Call]) -> list[tuple[Call, str]]:
    return [
        (call, error)
        for call in calls
        for error in _ERRORS.get(call.name, _NAMES)
        # A payload without read permission is set aside: waiting would change nothing.
        if not (error == "EACCES" and call.name == "openat" and "O_RDONLY" in call.line)
    ]


# ── draining ─────────────────────────────────────────────────────────────────────────────────────────────


def drain_baseline(sandbox: WarmSandbox) -> tuple[invariants.View, list[Call]]:
    """What a drain does without a fault."""
    sandbox.prepare((*BEGUN, *spool_steps(sandbox.project)))
    answer = sandbox.run(("status",), strace=("-e", WATCH))
    assert answer.code == 0, answer.err
    assert_drained(sandbox)
    assert recorded_commands(sandbox) == ["make 0", "make 0", "make 1", "make 1"]
    assert_mirrors_match(sandbox)
    injectable = calls(answer.trace, sandbox.root)
    # Reading a payload can fail as well, though it changes nothing.
    opened = Counter[str]()
    for line in answer.trace:
        name = line.partition("(")[0].split()[-1]
        opened[name] += 1
        if name == "openat" and "/spool/claude." in line:
            injectable.append(Call(name, opened[name], line))
    return view_of_copy(sandbox), injectable


def test_drain_continues_after_a_kill_at_any_call(sandbox: WarmSandbox) -> None:
    """Every waiting payload is recorded exactly once after the next command, and mirrors match."""
    after, injectable = drain_baseline(sandbox)
    chosen = sampled(injectable, 2 * KILLS, seed=2)
    for call in chosen:
        sandbox.prepare((*BEGUN, *spool_steps(sandbox.project)))
        answer = sandbox.run(("status",), strace=options(call, "signal=KILL"))
        try:
            assert answer.code == -9, f"it ended with {answer.code}: {answer.err}"
            run_ok(sandbox, "status")
            assert_drained(sandbox)
            assert recorded_commands(sandbox) == ["make 0", "make 0", "make 1", "make 1"]
            assert view_of_copy(sandbox).kinds == after.kinds
            assert_mirrors_match(sandbox)
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    record_figures(fault="F2", verb="drain", kills=len(chosen))


def test_drain_continues_after_any_failed_call(sandbox: WarmSandbox) -> None:
    """No payload is lost or recorded twice; the command prints at most one message."""
    after, injectable = drain_baseline(sandbox)
    chosen = sampled(errors(injectable), 2 * FAULTS, seed=3)
    for call, error in chosen:
        sandbox.prepare((*BEGUN, *spool_steps(sandbox.project)))
        answer = sandbox.run(("status",), strace=options(call, f"error={error}"))
        try:
            assert injected(answer.trace), "the error was not injected"
            assert_no_traceback(answer, silent=call.to_person)
            assert 0 <= answer.code <= 7
            run_ok(sandbox, "status")
            assert_drained(sandbox)
            assert recorded_commands(sandbox) == ["make 0", "make 0", "make 1", "make 1"]
            assert view_of_copy(sandbox).kinds == after.kinds
            assert_mirrors_match(sandbox)
        except Exception as failure:
            failure.add_note(f"{error} at {call.name} number {call.nth}: {call.line}")
            failure.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    record_figures(fault="F3", verb="drain", injections=len(chosen))


def _sessions(hooked: Hooked) -> set[str]:
    return {row["id"] for row in hooked.call("history", "--json").document["sessions"]}


def test_recorded_payloads_that_reappear_start_no_session(tmp_path: Path) -> None:
    """Killed before their files were removed, and the session stopped meanwhile: they count as recorded."""
    hooked = Hooked(tmp_path)
    for number, payload in enumerate(payloads(str(hooked.project))):
        (hooked.home / "spool" / f"claude.user.1.{2**30 + number}").write_bytes(payload)
    aside = tmp_path / "aside"
    shutil.copytree(hooked.home / "spool", aside, copy_function=shutil.copy2)
    before = hooked.commands()
    kept = _sessions(hooked)
    assert len(kept) == 2
    for session in kept:
        assert hooked.call("resume", session).code == 0
        assert hooked.call("stop").code == 0
    # Without the session start, which records nothing and is removed first.
    for path in sorted(aside.iterdir())[1:]:
        shutil.copy2(path, hooked.home / "spool" / path.name)
    assert hooked.commands() == before
    assert _sessions(hooked) == kept
    hooked.assert_drained()


# ── holdfast hook ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answering", [False, True], ids=["tells", "asks"])
def test_hook_hands_over_its_payload_or_nothing_when_killed(
    sandbox: WarmSandbox, answering: bool, tmp_path: Path
) -> None:
    """At any call; what it drained before is recorded once."""
    payload, before = _with_waiting_payloads(sandbox, tmp_path, answering=answering)
    sandbox.prepare(before)
    first = sandbox.run(("hook", "claude"), stdin=str(payload), strace=("-e", WATCH))
    assert (first.code, first.err) == (0, "")
    injectable = calls(first.trace, sandbox.root)
    assert any("spool" in call.line for call in injectable)
    chosen = sampled(injectable, KILLS, seed=4)
    for call in chosen:
        sandbox.prepare(before)
        answer = sandbox.run(("hook", "claude"), stdin=str(payload), strace=options(call, "signal=KILL"))
        try:
            assert answer.code == -9 or not injected(answer.trace), f"it ended with {answer.code}: {answer.err}"
            _assert_recovers(sandbox, tmp_path)
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    record_figures(fault="F2", verb="hook", answering=answering, kills=len(chosen))


@pytest.mark.parametrize("answering", [False, True], ids=["tells", "asks"])
def test_hook_is_silent_when_any_call_fails(sandbox: WarmSandbox, answering: bool, tmp_path: Path) -> None:
    """Once or permanently: exit code 0, no output, and no earlier payload is lost."""
    payload, before = _with_waiting_payloads(sandbox, tmp_path, answering=answering)
    sandbox.prepare(before)
    first = sandbox.run(("hook", "claude"), stdin=str(payload), strace=("-e", WATCH))
    injectable = [call for call in calls(first.trace, sandbox.root) if not call.to_person]
    chosen = sampled([(*error, lasting) for error in errors(injectable) for lasting in ("", "+")], FAULTS, seed=5)
    for call, error, lasting in chosen:
        if error == "EINTR" and lasting:
            continue  # retrying for ever is correct then
        sandbox.prepare(before)
        what = f"inject={call.name}:error={error}:when={call.nth}{lasting}"
        answer = sandbox.run(("hook", "claude"), stdin=str(payload), strace=("-e", WATCH, "-e", what))
        try:
            assert (answer.code, answer.err) == (0, "")
            assert answer.out in ("", first.out)
            _assert_recovers(sandbox, tmp_path)
        except Exception as failure:
            failure.add_note(f"{what}: {call.line}")
            raise
    record_figures(fault="F3", verb="hook", answering=answering, injections=len(chosen))


def _with_waiting_payloads(
    sandbox: WarmSandbox, where: Path, *, answering: bool
) -> tuple[Path, tuple[tuple[str, ...], ...]]:
    """A payload, and steps that put two others into the spool: they must be recorded before it."""
    payload = where / "given"
    payload.write_bytes(
        prompt_payload("Go on", cwd=sandbox.project) if answering else command_payload("it", cwd=sandbox.project)
    )
    steps = [
        (
            "write",
            f"../home/spool/claude.user.1.{2**30 + number}",
            command_payload(number, cwd=sandbox.project).decode(),
        )
        for number in range(2)
    ]
    return payload, (("start", "the goal"), *steps)


def _assert_recovers(sandbox: WarmSandbox, where: Path) -> None:
    following = where / "following"
    following.write_bytes(command_payload("next", cwd=sandbox.project))
    half = len(spool.list_entries(sandbox.home))
    answer = sandbox.run(("hook", "claude"), stdin=str(following))
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    # The partial payload of a killed hook belongs to a dead process: it can be set aside at once.
    run_ok(sandbox, "status")
    assert_drained(sandbox, unread=1)
    commands = recorded_commands(sandbox)
    assert commands in (["make 0", "make 1", "make next"], ["make 0", "make 1", "make it", "make next"]), half
    run_ok(sandbox, "note", "what comes next")


# ── the script ───────────────────────────────────────────────────────────────────────────────────────────

_LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")
_SIGNAL = re.compile(r"\+\+\+ killed by SIGKILL")
_TEAM = "sqlite:////srv/team.db"  # a store that a variable names


def test_hook_script_leaves_at_most_one_payload_when_killed(tmp_path: Path) -> None:
    """The shell or its `dd`, killed at any call: a partial payload is never recorded."""
    require_strace()
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    hook = install(str(home))
    traced = _strace(tmp_path, hook, command_payload("it", cwd=project), (), _TEAM)
    assert traced.returncode == 0
    counted: dict[str, int] = {}
    per_process: Counter[tuple[str, str]] = Counter()
    for line in (tmp_path / "trace").read_text().splitlines():
        match = _LINE.match(line)
        if match is not None:
            per_process[match[1], match[2]] += 1
            counted[match[2]] = max(counted.get(match[2], 0), per_process[match[1], match[2]])
    assert {"fsync", "write"} <= counted.keys()
    points = [(name, nth) for name, many in counted.items() for nth in range(1, many + 1)]
    kills = 0
    for number, (name, nth) in enumerate(sampled(points, scale(8, 400, 400), seed=6)):
        shutil.rmtree(home / "spool", ignore_errors=True)
        payload = command_payload("it", cwd=project, unknown="x" * 300_000)
        store = _TEAM if number % 2 else ""
        _strace(tmp_path, hook, payload, ("-e", f"inject={name}:signal=KILL:when={nth}"), store)
        kills += len(_SIGNAL.findall((tmp_path / "trace").read_text()))
        left = [Path(entry.path).read_bytes() for entry in spool.list_entries(str(home))]
        assert len(left) <= 1
        assert all(_file_content(payload, store).startswith(rest) for rest in left)
        following = command_payload("next", cwd=project)
        done = subprocess.run([hook, "claude", "tell", "user"], input=following, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert following in [Path(entry.path).read_bytes() for entry in spool.list_entries(str(home))]
    assert kills
    assert files.temporaries(str(home)) == []
    record_figures(fault="F2", verb="script", kills=kills)


def test_hook_script_is_silent_when_any_call_fails(tmp_path: Path) -> None:
    """Under the shell or its `dd`: exit code 0, no output, the complete payload or nothing."""
    require_strace()
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    hook = install(str(home))
    payload = command_payload("it", cwd=project, unknown="x" * 300_000)
    chosen = sampled(
        [(name, error, nth) for name in ("openat", "write", "fsync", "mkdir", "dup2", "dup3", "clone", "close")
         for error in ("EIO", "ENOSPC", "EACCES", "EMFILE", "EROFS", "EINTR", "ENOMEM") for nth in (1, 2, 3, 4)],
        scale(16, 252, 252), seed=7,
    )  # fmt: skip
    kept = 0
    for number, (name, error, nth) in enumerate(chosen):
        shutil.rmtree(home / "spool", ignore_errors=True)
        if name != "mkdir":
            (home / "spool").mkdir(mode=0o700)
        store = _TEAM if number % 2 else ""
        done = _strace(tmp_path, hook, payload, ("-e", f"inject={name}:error={error}:when={nth}"), store)
        # A failure before the script starts is the shell's own: it could not load its library.
        if name not in ("openat", "close"):
            assert (done.returncode, done.stdout) == (0, b""), (name, error, nth)
        left = [Path(entry.path).read_bytes() for entry in spool.list_entries(str(home))]
        assert left in ([], [_file_content(payload, store)]), (name, error, nth, [len(rest) for rest in left])
        kept += len(left)
    assert kept
    record_figures(fault="F3", verb="script", injections=len(chosen), kept=kept)


def _file_content(payload: bytes, store: str) -> bytes:
    """The content of a payload's file: with the store it is meant for, unless that is the home's own."""
    return store.encode() + b"\n" + payload if store else payload


def _strace(
    where: Path, hook: str, payload: bytes, inject: tuple[str, ...], store: str
) -> subprocess.CompletedProcess[bytes]:
    words = ["strace", "-f", "-q", "-o", str(where / "trace"), "-e", f"trace={','.join((*CHANGING, 'dup2', 'dup3'))}"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(where), "HOLDFAST_STORE": store}
    return subprocess.run(
        [*words, *inject, hook, "claude", "tell", "user"], input=payload, capture_output=True, check=False,
        env=environ, timeout=HANGING,
    )  # fmt: skip
