"""F2 and F3 for hooks: killed, or refused by the system, at every call that changes a disk.

A hook is killed while it hands over, a drain while it makes events of what waits, with mirrors that follow. What a
hook had handed over is an event afterwards, once, in its place; what it had not is nothing at all, or put aside; and
the next hook and the next command need no help. Where the system refuses, a hook is silent and a payload waits.
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
from tests.faults.connected_agent import HANGING, Hooked, asked, install, ran
from tests.faults.harness import judge
from tests.faults.harness.figures import tell
from tests.faults.harness.room import Answer, Room
from tests.faults.harness.tracing import CHANGING, WATCH, Call, calls, injected, need_strace
from tests.faults.harness.trials import decent, look_aside, mirrors_are_right, sampled
from tests.support.scale import scale

KILLS = scale(7, 10_000, 10_000)
FAULTS = scale(8, 400, 10_000)
_NAMES = ("EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "EMFILE")
_ERRORS = {"write": ("EIO", "ENOSPC", "EINTR"), "pwrite64": ("EIO", "ENOSPC"), "fsync": ("EIO", "ENOSPC", "EROFS"),
           "fdatasync": ("EIO", "ENOSPC")}  # fmt: skip
BEGUN = (("start", "the goal"), ("mirror", "on", "craft"), ("mirror", "on", "timer"))


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    need_strace()
    with Room() as made:
        yield made


def payloads(project: str) -> list[bytes]:
    """An hour of an agent in two conversations: every kind of thing that is told, each with a mark of its own."""

    def said(event: str, talk: str = "talk-1", **more: object) -> bytes:
        known = {"session_id": talk, "cwd": project, "hook_event_name": event}
        return json.dumps(known | more).encode()

    return [
        said("SessionStart", source="startup", model="opus"),
        asked("Add login", cwd=project, prompt_id="p1"),
        ran(0, cwd=project),
        said("PostToolUse", tool_name="TodoWrite", tool_use_id="u1", tool_response={},
             tool_input={"todos": [{"content": "one", "status": "in_progress", "activeForm": "doing one"}]}),
        said("SubagentStart", agent_id="helper", agent_type="Explore"),
        ran(0, cwd=project, talk="talk-2"),
        said("SubagentStop", agent_id="helper", agent_type="Explore", last_assistant_message="done"),
        ran(1, cwd=project),
        said("PreCompact", trigger="auto"),
        ran(1, cwd=project, talk="talk-2"),
        said("SessionEnd", reason="exit"),
    ]  # fmt: skip


def waiting(project: str) -> tuple[tuple[str, ...], ...]:
    """Steps that leave them in the spool; written in the order of their names, which is that of their processes."""
    return tuple(
        ("write", f"../home/spool/claude.user.1.{2**30 + number}", payload.decode())
        for number, payload in enumerate(payloads(project))
    )


def heard(room: Room) -> list[str]:
    """The commands in the log, in order; the store is checked on the way."""
    judge.look(room.home, room.project, room.project)
    store = SqliteStore(room.store, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        events = [event for session in store.sessions() for event in store.events(session)]
    finally:
        store.close()
    return [msgspec.json.decode(event.data or b"{}")["command"] for event in events if event.type == "command.ran"]


def settled(room: Room, *, unread: int = 0) -> None:
    assert spool.list_entries(room.home) == [], "something still waits"
    assert len(spool.list_unread(room.home)) <= unread, "something was put aside"
    assert judge.leftovers(room.home) == [], f"left behind unnamed: {judge.leftovers(room.home)}"


def works(room: Room, *argv: str) -> Answer:
    answer = room.run(argv)
    assert answer.code == 0, f"{argv} ended with {answer.code}: {answer.err}"
    return answer


def options(call: Call, what: str) -> tuple[str, ...]:
    return ("-e", WATCH, "-e", f"inject={call.name}:{what}:when={call.nth}")


def errors(found: list[Call]) -> list[tuple[Call, str]]:
    return [
        (call, error)
        for call in found
        for error in _ERRORS.get(call.name, _NAMES)
        # A payload that may not be read is put aside: waiting would change nothing.
        if not (error == "EACCES" and call.name == "openat" and "O_RDONLY" in call.line)
    ]


# ── draining ─────────────────────────────────────────────────────────────────────────────────────────────


def drained(room: Room) -> tuple[judge.View, list[Call]]:
    """What a drain does when nothing goes wrong."""
    room.prepare((*BEGUN, *waiting(room.project)))
    answer = room.run(("status",), strace=("-e", WATCH))
    assert answer.code == 0, answer.err
    settled(room)
    assert heard(room) == ["make 0", "make 0", "make 1", "make 1"]
    mirrors_are_right(room)
    found = calls(answer.trace, room.root)
    # Reading what waits can fail as well, though it changes nothing.
    opened = Counter[str]()
    for line in answer.trace:
        name = line.partition("(")[0].split()[-1]
        opened[name] += 1
        if name == "openat" and "/spool/claude." in line:
            found.append(Call(name, opened[name], line))
    return look_aside(room), found


def test_a_drain_that_is_killed(room: Room) -> None:
    """Killed at any call, what waited is in the log exactly once after the next command, and mirrors are right."""
    after, found = drained(room)
    chosen = sampled(found, 2 * KILLS, seed=2)
    for call in chosen:
        room.prepare((*BEGUN, *waiting(room.project)))
        answer = room.run(("status",), strace=options(call, "signal=KILL"))
        try:
            assert answer.code == -9, f"it ended with {answer.code}: {answer.err}"
            works(room, "status")
            settled(room)
            assert heard(room) == ["make 0", "make 0", "make 1", "make 1"]
            assert look_aside(room).kinds == after.kinds
            mirrors_are_right(room)
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    tell(fault="F2", verb="drain", kills=len(chosen))


def test_a_drain_that_is_refused(room: Room) -> None:
    """Whatever call fails, no payload is lost or told twice; the command it happened in says at most a sentence."""
    after, found = drained(room)
    chosen = sampled(errors(found), 2 * FAULTS, seed=3)
    for call, error in chosen:
        room.prepare((*BEGUN, *waiting(room.project)))
        answer = room.run(("status",), strace=options(call, f"error={error}"))
        try:
            assert injected(answer.trace), "the call did not come"
            decent(answer, silent=call.to_person)
            assert 0 <= answer.code <= 7
            works(room, "status")
            settled(room)
            assert heard(room) == ["make 0", "make 0", "make 1", "make 1"]
            assert look_aside(room).kinds == after.kinds
            mirrors_are_right(room)
        except Exception as found_wrong:
            found_wrong.add_note(f"{error} at {call.name} number {call.nth}: {call.line}")
            found_wrong.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    tell(fault="F3", verb="drain", injections=len(chosen))


def _sessions(hooked: Hooked) -> set[str]:
    return {row["id"] for row in hooked.call("history", "--json").document["sessions"]}


def test_what_was_taken_in_and_did_not_go_begins_nothing_new(tmp_path: Path) -> None:
    """Killed before the files went, and the session stopped meanwhile: they are still what was told already."""
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
    # Without the opening, which left no trace in the log and so goes before it is written.
    for path in sorted(aside.iterdir())[1:]:
        shutil.copy2(path, hooked.home / "spool" / path.name)
    assert hooked.commands() == before
    assert _sessions(hooked) == kept
    hooked.settled()


# ── holdfast hook ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answering", [False, True], ids=["tells", "asks"])
def test_a_hook_that_is_killed(room: Room, answering: bool, tmp_path: Path) -> None:
    """Killed at any call, its payload was handed over whole or is nothing; what it took in before is there once."""
    given, before = _given(room, tmp_path, answering=answering)
    room.prepare(before)
    first = room.run(("hook", "claude"), stdin=str(given), strace=("-e", WATCH))
    assert (first.code, first.err) == (0, "")
    found = calls(first.trace, room.root)
    assert any("spool" in call.line for call in found)
    chosen = sampled(found, KILLS, seed=4)
    for call in chosen:
        room.prepare(before)
        answer = room.run(("hook", "claude"), stdin=str(given), strace=options(call, "signal=KILL"))
        try:
            assert answer.code == -9 or not injected(answer.trace), f"it ended with {answer.code}: {answer.err}"
            _goes_on(room, tmp_path)
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    tell(fault="F2", verb="hook", answering=answering, kills=len(chosen))


@pytest.mark.parametrize("answering", [False, True], ids=["tells", "asks"])
def test_a_hook_that_is_refused(room: Room, answering: bool, tmp_path: Path) -> None:
    """Whatever call fails, once or from there on: exit 0, not a word, and nothing before it is lost."""
    given, before = _given(room, tmp_path, answering=answering)
    room.prepare(before)
    first = room.run(("hook", "claude"), stdin=str(given), strace=("-e", WATCH))
    found = [call for call in calls(first.trace, room.root) if not call.to_person]
    chosen = sampled([(*error, lasting) for error in errors(found) for lasting in ("", "+")], FAULTS, seed=5)
    for call, error, lasting in chosen:
        if error == "EINTR" and lasting:
            continue  # to repeat for ever is right then
        room.prepare(before)
        what = f"inject={call.name}:error={error}:when={call.nth}{lasting}"
        answer = room.run(("hook", "claude"), stdin=str(given), strace=("-e", WATCH, "-e", what))
        try:
            assert (answer.code, answer.err) == (0, "")
            assert answer.out in ("", first.out)
            _goes_on(room, tmp_path)
        except Exception as found_wrong:
            found_wrong.add_note(f"{what}: {call.line}")
            raise
    tell(fault="F3", verb="hook", answering=answering, injections=len(chosen))


def _given(room: Room, where: Path, *, answering: bool) -> tuple[Path, tuple[tuple[str, ...], ...]]:
    """A payload, and a room in which two others wait: they must be there afterwards, before it."""
    given = where / "given"
    given.write_bytes(asked("Go on", cwd=room.project) if answering else ran("it", cwd=room.project))
    steps = [
        ("write", f"../home/spool/claude.user.1.{2**30 + number}", ran(number, cwd=room.project).decode())
        for number in range(2)
    ]
    return given, (("start", "the goal"), *steps)


def _goes_on(room: Room, where: Path) -> None:
    following = where / "following"
    following.write_bytes(ran("next", cwd=room.project))
    half = len(spool.list_entries(room.home))
    answer = room.run(("hook", "claude"), stdin=str(following))
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    # What a killed hook had only begun to write is of a process that is gone: it can be put aside at once.
    works(room, "status")
    settled(room, unread=1)
    found = heard(room)
    assert found in (["make 0", "make 1", "make next"], ["make 0", "make 1", "make it", "make next"]), half
    works(room, "note", "what comes next")


# ── the script ───────────────────────────────────────────────────────────────────────────────────────────

_LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")
_SIGNAL = re.compile(r"\+\+\+ killed by SIGKILL")
_TEAM = "sqlite:////srv/team.db"  # a store that a variable names


def test_a_script_that_is_killed(tmp_path: Path) -> None:
    """The shell or its `dd`, killed at any of their calls: one payload or none, never a part that is taken in."""
    need_strace()
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    hook = install(str(home))
    traced = _strace(tmp_path, hook, ran("it", cwd=project), (), _TEAM)
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
        payload = ran("it", cwd=project, unknown="x" * 300_000)
        store = _TEAM if number % 2 else ""
        _strace(tmp_path, hook, payload, ("-e", f"inject={name}:signal=KILL:when={nth}"), store)
        kills += len(_SIGNAL.findall((tmp_path / "trace").read_text()))
        left = [Path(entry.path).read_bytes() for entry in spool.list_entries(str(home))]
        assert len(left) <= 1
        assert all(_whole(payload, store).startswith(rest) for rest in left)
        following = ran("next", cwd=project)
        done = subprocess.run([hook, "claude", "tell", "user"], input=following, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert following in [Path(entry.path).read_bytes() for entry in spool.list_entries(str(home))]
    assert kills
    assert files.temporaries(str(home)) == []
    tell(fault="F2", verb="script", kills=kills)


def test_a_script_that_is_refused(tmp_path: Path) -> None:
    """Whatever call fails under the shell or its `dd`: exit 0, silence, the whole payload or none of it."""
    need_strace()
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    hook = install(str(home))
    payload = ran("it", cwd=project, unknown="x" * 300_000)
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
        # What fails before the script is begun is the shell's own affair: it could not load its library.
        if name not in ("openat", "close"):
            assert (done.returncode, done.stdout) == (0, b""), (name, error, nth)
        left = [Path(entry.path).read_bytes() for entry in spool.list_entries(str(home))]
        assert left in ([], [_whole(payload, store)]), (name, error, nth, [len(rest) for rest in left])
        kept += len(left)
    assert kept
    tell(fault="F3", verb="script", injections=len(chosen), kept=kept)


def _whole(payload: bytes, store: str) -> bytes:
    """What the file of a payload holds that is meant for a store; empty for the home's own."""
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
