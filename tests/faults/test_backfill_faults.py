"""F2, F3 and F13 for `backfill`: killed, refused, or led astray while it reads somebody's years of transcripts.

What was told stays, what was not is told by the next run, nothing twice; and not one byte of the agents' own files
is written, whatever they hold and wherever they lead.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness.figures import tell
from tests.faults.harness.room import Room
from tests.faults.harness.tracing import WATCH, injected, need_strace
from tests.faults.harness.trials import Clean, decent, look_aside, sampled, undisturbed
from tests.faults.harness.verbs import VERBS
from tests.faults.program import Desk, tree
from tests.faults.test_fuzz import changed
from tests.support.scale import scale

BACKFILL = next(verb for verb in VERBS if verb.argv[0] == "backfill")
KILLS = scale(8, 10_000, 10_000)
FAULTS = scale(8, 100, 10_000)
_ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "EMFILE")


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    need_strace()
    with Room() as made:
        yield made


def finished(room: Room, clean: Clean) -> None:
    """The next run finishes it, the one after that has nothing to do; the agents' files are as they were."""
    again = room.run(BACKFILL.argv)
    assert again.code == 0, again.err
    found = look_aside(room)
    assert found.shape == clean.after.shape, "the next run led elsewhere"
    assert room.run(BACKFILL.argv).code == 0
    assert look_aside(room).shape == clean.after.shape, "a run with nothing to do did something"
    assert found.agents == clean.before.agents
    assert room.run(("note", "what comes next")).code == 0


def test_killed(room: Room) -> None:
    """Killed at any call that changes a disk."""
    clean = undisturbed(room, BACKFILL)
    chosen = sampled(clean.calls, KILLS, seed=8)
    for call in chosen:
        room.prepare(BACKFILL.before)
        words = ("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}")
        answer = room.run(BACKFILL.argv, strace=words)
        try:
            assert answer.code == -9, f"it did not come: {answer.code} {answer.err}"
            finished(room, clean)
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    tell(fault="F2", verb="backfill", kills=len(chosen))


def test_refused(room: Room) -> None:
    """Whatever call fails, reading among them: a sentence or a named problem, and the next run finishes it."""
    clean = undisturbed(room, BACKFILL)
    room.prepare(BACKFILL.before)
    answer = room.run(BACKFILL.argv, strace=("-e", WATCH))
    cases = [(call.name, call.nth, error) for call in clean.calls for error in _ERRORS if not call.to_person]
    opened = [line for line in answer.trace if line.startswith("openat(")]
    reading = [number for number, line in enumerate(opened, 1) if ".jsonl" in line]
    assert len(reading) >= 2
    cases += [("openat", number, error) for number in reading for error in _ERRORS for _ in range(scale(3, 1, 1))]
    for name, nth, error in sampled(cases, FAULTS, seed=9):
        room.prepare(BACKFILL.before)
        words = ("-e", WATCH, "-e", f"inject={name}:error={error}:when={nth}")
        answer = room.run(BACKFILL.argv, strace=words)
        try:
            assert injected(answer.trace), "the call did not come"
            decent(answer)
            assert 0 <= answer.code <= 7
            finished(room, clean)
        except Exception as found:
            found.add_note(f"{error} at {name} number {nth}; it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    tell(fault="F3", verb="backfill", injections=min(FAULTS, len(cases)))


# ── what the files hold ──────────────────────────────────────────────────────────────────────────────────


class Past(Desk):
    """Somebody's transcripts, and a place where backfill reads them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root)
        self.me = root / "me"
        self.transcripts = self.me / ".claude" / "projects" / "-p"
        self.transcripts.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(self.me))

    def write(self, talk: str, data: bytes | None = None) -> Path:
        path = self.transcripts / f"{talk}.jsonl"
        path.write_bytes(self.lines(talk) if data is None else data)
        return path

    def lines(self, talk: str) -> bytes:
        said = []
        for number in range(1, 5):
            role = ("assistant", "user")[number % 2]
            said.append({
                "type": role, "uuid": f"{talk}-{number}", "timestamp": f"2026-01-0{number}T10:00:00Z",
                "sessionId": talk, "cwd": str(self.project),
                "message": {"role": role, "id": f"m{number}", "content": [{"type": "text", "text": f"Add {talk}"}]},
            })  # fmt: skip
        return b"".join(json.dumps(entry).encode() + b"\n" for entry in said)


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Past:
    return Past(tmp_path, monkeypatch)


def test_transcripts_that_are_damaged(past: Past) -> None:
    """Cut, flipped, glued, with NUL tails: every file is read as far as it goes, and none keeps the others back."""
    chance = random.Random(22)
    count = scale(40, 400, 4_000)
    for number in range(count):
        whole = past.lines(f"talk-{number}")
        torn = [changed(whole, chance), whole[: chance.randrange(len(whole))], whole + bytes(1_728),
                whole.replace(b"\n", b"", 1), b"\xff\xfe" + whole, whole + b'{"type":"user"']  # fmt: skip
        past.write(f"talk-{number}", chance.choice(torn))
    past.write("sound")
    before = tree(past.me)
    assert past.call("backfill", "claude").code == 0
    assert past.call("backfill", "claude").code == 0
    assert tree(past.me) == before
    goals = past.call("history", "--all-projects", "--limit", "100000", "--json").document["sessions"]
    assert "Add sound" in [item["goal"] for item in goals]
    past.sound()
    tell(fault="F22", transcripts=count)


def test_what_is_planted_among_transcripts(past: Past) -> None:
    """Links, pipes, devices, directories that are called like transcripts: none is waited for or written to."""
    outside = past.root / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(past.lines("precious"))
    past.write("sound")
    os.mkfifo(past.transcripts / "fifo.jsonl")
    (past.transcripts / "zero.jsonl").symlink_to("/dev/zero")
    (past.transcripts / "dir.jsonl").mkdir()
    (past.transcripts / "loop.jsonl").symlink_to("loop.jsonl")
    (past.transcripts / "away.jsonl").symlink_to(outside / "precious")
    (past.transcripts / "nothing.jsonl").symlink_to(outside / "nothing")
    answer = past.run("backfill", "claude", env={"HOME": str(past.me)}, timeout=60)
    assert answer.code == 0, answer
    assert (outside / "precious").read_bytes() == past.lines("precious")
    assert sorted(os.listdir(outside)) == ["precious"]
    past.sound()


def test_secrets_in_transcripts(past: Past) -> None:
    """What agents wrote down in plain text is not in the store in plain text."""
    secret = b"ghp_" + b"c4n4ry0" * 5 + b"x"
    past.write("talk", past.lines("talk").replace(b"Add talk", b"Add " + secret))
    assert past.call("backfill", "claude").code == 0
    assert past.call("history", "--all-projects", "--json").document["sessions"]
    assert [path.name for path in past.home.rglob("*") if path.is_file() and secret in path.read_bytes()] == []


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_what_it_keeps_is_private(past: Past, mask: int) -> None:
    """Whatever the umask."""
    past.write("talk")
    old = os.umask(mask)
    try:
        assert past.call("backfill", "claude").code == 0
    finally:
        os.umask(old)
    assert [path.name for path in past.home.rglob("*") if path.stat().st_mode & 0o077] == []


def test_files_that_go_while_they_are_read(past: Past) -> None:
    """An agent cleans up meanwhile: what is gone is passed over, what was told stays."""
    for number in range(20):
        past.write(f"talk-{number}")
    assert past.call("backfill", "claude").code == 0
    shutil.rmtree(past.transcripts)
    assert past.call("backfill", "claude").code == 0
    found = past.call("history", "--all-projects", "--limit", "100", "--json").document["sessions"]
    assert len(found) == 20
