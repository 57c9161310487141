"""F7: many concurrent processes, killed at random, during constant checkpoints: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.faults.sandbox import CommandResult, Sandbox, assert_well_formed, kill
from tests.support.scale import scale

WRITER = textwrap.dedent("""
    import os, sys
    from holdfast import Keeper
    home, session, name, events, acks = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5]
    acks_fd = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with Keeper.open(".", home=home, actor=name) as keeper:
        kept = keeper.session(session)
        # A kill may come between recording and acknowledging: the log decides.
        done = sum(note.text.startswith(name + " ") for note in kept.document().notes)
        for number in range(done, events):
            kept.note(f"{name} {number}")
            os.write(acks_fd, b"%d\\n" % number)
""")
CHECKPOINTS = textwrap.dedent("""
    import sys, apsw, itertools
    for mode in itertools.cycle(["PASSIVE", "FULL", "RESTART", "TRUNCATE"]):
        connection = apsw.Connection(sys.argv[1])
        connection.set_busy_timeout(50)
        try:
            connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except apsw.BusyError:
            pass
        connection.close()
""")


def start(sandbox: Sandbox, code: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=sandbox.project, env=sandbox.environ, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def run_writers(sandbox: Sandbox, seed: int, writers: int, events: int) -> None:
    rng = random.Random(seed)
    with sandbox.keeper() as keeper:
        session = keeper.start(f"Run {seed}", replace=True).id
    names = [f"w{number}" for number in range(writers)]
    acks = {name: sandbox.root / f"acks-{seed}-{name}" for name in names}

    def writer(name: str) -> subprocess.Popen[bytes]:
        return start(sandbox, WRITER, str(sandbox.home), session, name, str(events), str(acks[name]))

    checkpoints = start(sandbox, CHECKPOINTS, str(sandbox.store))
    running = {name: writer(name) for name in names}
    kills = writers
    try:
        while running:
            time.sleep(rng.uniform(0.02, 0.15))
            victim = rng.choice(sorted(running))
            if kills and running[victim].poll() is None:
                kills -= 1
                kill(running[victim])
                stderr = running[victim].stderr
                assert stderr is not None
                stderr.close()
                running[victim] = writer(victim)
            for name, process in list(running.items()):
                if process.poll() is not None:
                    _, err = process.communicate()
                    assert (process.returncode, err) == (0, b""), (name, err)
                    del running[name]
    finally:
        kill(checkpoints)
        assert checkpoints.stderr is not None
        checkpoints.stderr.close()
        for process in running.values():
            kill(process)
    assert_all_recorded(sandbox, session, names, events, acks)


def assert_all_recorded(sandbox: Sandbox, session: str, names: list[str], events: int, acks: dict[str, Path]) -> None:
    with sandbox.keeper() as keeper:
        document = keeper.session(session).document()
        log = keeper.events(session)
    texts = [note.text for note in document.notes]
    assert len(texts) == len(set(texts)) == len(names) * events
    for name in names:
        own = [text for text in texts if text.startswith(name + " ")]
        assert own == [f"{name} {number}" for number in range(events)]
        acknowledged = [int(line) for line in acks[name].read_text().split()]
        assert len(acknowledged) == len(set(acknowledged))
        assert set(acknowledged) <= set(range(events))
    assert len(log) == len({(event.writer, event.seq) for event in log}) == len({event.hash for event in log})
    sandbox.assert_sound()


def test_concurrent_writers_survive_kills_and_checkpoints(tmp_path: Path) -> None:
    """Exact count, no duplicates, each process's own order; no process reports a lock."""
    sandbox = Sandbox(tmp_path)
    for seed in range(scale(1, 20, 200)):
        writers = random.Random(seed).randrange(2, 17) if scale(0, 1, 1) else 3
        run_writers(sandbox, seed, writers, scale(40, 1_000, 1_000))


def test_concurrent_commands_leave_one_consistent_session(tmp_path: Path) -> None:
    """Whole `holdfast` processes, from the first one on: one starts the session, the others get a conflict."""
    sandbox = Sandbox(tmp_path)
    many = scale(6, 16, 16)

    def run_all(*words: str) -> list[int]:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "holdfast", *(word.replace("N", str(number)) for word in words)],
                cwd=sandbox.project, env=sandbox.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for number in range(many)
        ]  # fmt: skip
        codes = []
        for process in processes:
            out, err = process.communicate()
            answer = CommandResult(process.returncode, out.decode(), err.decode())
            assert_well_formed(answer)
            assert "lock" not in answer.err
            codes.append(answer.code)
        return sorted(codes)

    assert run_all("start", "Goal N") == [0] + [5] * (many - 1)
    assert run_all("note", "note N") == [0] * many
    assert run_all("agent", "start", "same", "--type", "t") == [0] + [5] * (many - 1)
    assert run_all("pause") == [0] + [1] * (many - 1)
    assert run_all("resume") == [0] * many
    assert run_all("task", "add", "task N") == [0] * many
    first, *others = run_all("stop")
    assert first == 0
    assert set(others) <= {1, 3}  # it had ended before they looked, or while they did
    with sandbox.keeper() as keeper:
        document = keeper.session(keeper.history()[0].id).document()
    assert sorted(note.text for note in document.notes) == sorted(f"note {number}" for number in range(many))
    assert len({task.id for task in document.tasks}) == many
    assert sorted(os.listdir(sandbox.home)) == ["store.db", "writer.json"]
    sandbox.assert_sound()


def test_reader_sees_only_whole_transactions(tmp_path: Path) -> None:
    """Every state that is read while others write was once the state."""
    sandbox = Sandbox(tmp_path)
    with sandbox.keeper() as keeper:
        session = keeper.start("G").id
        writer = start(
            sandbox, WRITER, str(sandbox.home), session, "w", str(scale(80, 500, 5_000)), str(tmp_path / "acks")
        )
        before = 0
        while writer.poll() is None:
            notes = keeper.session(session).document().notes
            assert [note.text for note in notes] == [f"w {number}" for number in range(len(notes))]
            assert len(notes) >= before
            before = len(notes)
        _, err = writer.communicate()
    assert err == b""
    sandbox.assert_sound()


@pytest.mark.parametrize("verb", [["delete", "@", "--confirm", "--force"], ["backup", "copy.db"]])
def test_erasing_and_backup_work_while_another_process_writes(tmp_path: Path, verb: list[str]) -> None:
    """Neither harms the other."""
    sandbox = Sandbox(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    with sandbox.keeper(other) as keeper:
        session = keeper.start("Other").id
    events = scale(60, 500, 5_000)
    writer = start(sandbox, WRITER, str(sandbox.home), session, "w", str(events), str(tmp_path / "acks"))
    try:
        for number in range(scale(2, 20, 100)):
            assert sandbox.call("start", f"unmistakable{number}").code in (0, 5)
            words = [word.replace("copy.db", str(tmp_path / f"copy{number}.db")) for word in verb]
            answer = sandbox.call(*words)
            assert answer.code == 0, answer
    finally:
        _, err = writer.communicate()
    assert (writer.returncode, err) == (0, b"")
    with sandbox.keeper(other) as keeper:
        assert len(keeper.session(session).document().notes) == events
    if verb[0] == "delete":
        assert b"unmistakable" not in b"".join(path.read_bytes() for path in sandbox.home.iterdir())
    sandbox.assert_sound()
