"""F2, F3 and F13 for `backfill`: killed, refused, or given hostile files while it reads years of transcripts.

Recorded events stay, the next run records the rest, nothing twice; and not one byte of the agents' own files is
written, whatever they contain and wherever they lead.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness.figures import record_figures
from tests.faults.harness.tracing import WATCH, injected, require_strace
from tests.faults.harness.verb_checks import Baseline, assert_no_traceback, record_baseline, sampled, view_of_copy
from tests.faults.harness.verbs import VERBS
from tests.faults.harness.warm_sandbox import WarmSandbox
from tests.faults.sandbox import Sandbox, tree
from tests.faults.test_fuzz import mutated
from tests.support.scale import scale

BACKFILL = next(verb for verb in VERBS if verb.argv[0] == "backfill")
KILLS = scale(8, 10_000, 10_000)
FAULTS = scale(8, 100, 10_000)
_ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "EMFILE")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[WarmSandbox]:
    require_strace()
    with WarmSandbox() as made:
        yield made


def assert_next_run_finishes(sandbox: WarmSandbox, baseline: Baseline) -> None:
    """The next run finishes it, another run has nothing to do, and the agents' files are unchanged."""
    again = sandbox.run(BACKFILL.argv)
    assert again.code == 0, again.err
    view = view_of_copy(sandbox)
    assert view.shape == baseline.after.shape, "the next run led to another state"
    assert sandbox.run(BACKFILL.argv).code == 0
    assert view_of_copy(sandbox).shape == baseline.after.shape, "a run with nothing to do changed something"
    assert view.agents == baseline.before.agents
    assert sandbox.run(("note", "what comes next")).code == 0


def test_backfill_is_finished_by_the_next_run_after_a_kill(sandbox: WarmSandbox) -> None:
    """Killed at any call that changes a disk."""
    baseline = record_baseline(sandbox, BACKFILL)
    chosen = sampled(baseline.calls, KILLS, seed=8)
    for call in chosen:
        sandbox.prepare(BACKFILL.before)
        words = ("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}")
        answer = sandbox.run(BACKFILL.argv, strace=words)
        try:
            assert answer.code == -9, f"the kill was not injected: {answer.code} {answer.err}"
            assert_next_run_finishes(sandbox, baseline)
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    record_figures(fault="F2", verb="backfill", kills=len(chosen))


def test_backfill_is_finished_by_the_next_run_after_a_failed_call(sandbox: WarmSandbox) -> None:
    """Whatever call fails, reading included: an error message or a named problem."""
    baseline = record_baseline(sandbox, BACKFILL)
    sandbox.prepare(BACKFILL.before)
    answer = sandbox.run(BACKFILL.argv, strace=("-e", WATCH))
    cases = [(call.name, call.nth, error) for call in baseline.calls for error in _ERRORS if not call.to_person]
    opened = [line for line in answer.trace if line.startswith("openat(")]
    reading = [number for number, line in enumerate(opened, 1) if ".jsonl" in line]
    assert len(reading) >= 2
    cases += [("openat", number, error) for number in reading for error in _ERRORS for _ in range(scale(3, 1, 1))]
    for name, nth, error in sampled(cases, FAULTS, seed=9):
        sandbox.prepare(BACKFILL.before)
        words = ("-e", WATCH, "-e", f"inject={name}:error={error}:when={nth}")
        answer = sandbox.run(BACKFILL.argv, strace=words)
        try:
            assert injected(answer.trace), "the error was not injected"
            assert_no_traceback(answer)
            assert 0 <= answer.code <= 7
            assert_next_run_finishes(sandbox, baseline)
        except Exception as failure:
            failure.add_note(
                f"{error} at {name} number {nth}; it ended with {answer.code}: {answer.out} {answer.err}"
            )
            raise
    record_figures(fault="F3", verb="backfill", injections=min(FAULTS, len(cases)))


# ── content of the files ──────────────────────────────────────────────────────────────────────────────────


class TranscriptSandbox(Sandbox):
    """Agents' transcripts, and a home for backfill."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root)
        self.me = root / "me"
        self.directory = self.me / ".claude" / "projects" / "-p"
        self.directory.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(self.me))

    def write(self, conversation: str, data: bytes | None = None) -> Path:
        path = self.directory / f"{conversation}.jsonl"
        path.write_bytes(self.lines(conversation) if data is None else data)
        return path

    def lines(self, conversation: str) -> bytes:
        entries = []
        for number in range(1, 5):
            role = ("assistant", "user")[number % 2]
            entries.append({
                "type": role, "uuid": f"{conversation}-{number}", "timestamp": f"2026-01-0{number}T10:00:00Z",
                "sessionId": conversation, "cwd": str(self.project),
                "message": {"role": role, "id": f"m{number}",
                            "content": [{"type": "text", "text": f"Add {conversation}"}]},
            })  # fmt: skip
        return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


@pytest.fixture
def transcripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TranscriptSandbox:
    return TranscriptSandbox(tmp_path, monkeypatch)


def test_backfill_reads_damaged_transcripts_as_far_as_possible(transcripts: TranscriptSandbox) -> None:
    """Truncated, flipped, joined, with NUL tails: none keeps the others from being read."""
    rng = random.Random(22)
    count = scale(40, 400, 4_000)
    for number in range(count):
        whole = transcripts.lines(f"talk-{number}")
        torn = [mutated(whole, rng), whole[: rng.randrange(len(whole))], whole + bytes(1_728),
                whole.replace(b"\n", b"", 1), b"\xff\xfe" + whole, whole + b'{"type":"user"']  # fmt: skip
        transcripts.write(f"talk-{number}", rng.choice(torn))
    transcripts.write("sound")
    before = tree(transcripts.me)
    assert transcripts.call("backfill", "claude").code == 0
    assert transcripts.call("backfill", "claude").code == 0
    assert tree(transcripts.me) == before
    goals = transcripts.call("history", "--all-projects", "--limit", "100000", "--json").document["sessions"]
    assert "Add sound" in [item["goal"] for item in goals]
    transcripts.assert_sound()
    record_figures(fault="F22", transcripts=count)


def test_backfill_skips_planted_links_and_pipes(transcripts: TranscriptSandbox) -> None:
    """It neither waits for them nor writes through them."""
    outside = transcripts.root / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(transcripts.lines("precious"))
    transcripts.write("sound")
    os.mkfifo(transcripts.directory / "fifo.jsonl")
    (transcripts.directory / "zero.jsonl").symlink_to("/dev/zero")
    (transcripts.directory / "dir.jsonl").mkdir()
    (transcripts.directory / "loop.jsonl").symlink_to("loop.jsonl")
    (transcripts.directory / "away.jsonl").symlink_to(outside / "precious")
    (transcripts.directory / "nothing.jsonl").symlink_to(outside / "nothing")
    answer = transcripts.run("backfill", "claude", env={"HOME": str(transcripts.me)}, timeout=60)
    assert answer.code == 0, answer
    assert (outside / "precious").read_bytes() == transcripts.lines("precious")
    assert sorted(os.listdir(outside)) == ["precious"]
    transcripts.assert_sound()


def test_backfill_stores_no_secret_of_a_transcript(transcripts: TranscriptSandbox) -> None:
    secret = b"ghp_" + b"c4n4ry0" * 5 + b"x"
    transcripts.write("talk", transcripts.lines("talk").replace(b"Add talk", b"Add " + secret))
    assert transcripts.call("backfill", "claude").code == 0
    assert transcripts.call("history", "--all-projects", "--json").document["sessions"]
    assert [path.name for path in transcripts.home.rglob("*") if path.is_file() and secret in path.read_bytes()] == []


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_backfill_creates_private_files(transcripts: TranscriptSandbox, mask: int) -> None:
    """Whatever the umask."""
    transcripts.write("talk")
    old = os.umask(mask)
    try:
        assert transcripts.call("backfill", "claude").code == 0
    finally:
        os.umask(old)
    assert [path.name for path in transcripts.home.rglob("*") if path.stat().st_mode & 0o077] == []


def test_backfill_keeps_sessions_when_transcripts_disappear(transcripts: TranscriptSandbox) -> None:
    """An agent deletes its transcripts between two runs."""
    for number in range(20):
        transcripts.write(f"talk-{number}")
    assert transcripts.call("backfill", "claude").code == 0
    shutil.rmtree(transcripts.directory)
    assert transcripts.call("backfill", "claude").code == 0
    sessions = transcripts.call("history", "--all-projects", "--limit", "100", "--json").document["sessions"]
    assert len(sessions) == 20
