"""F7: many processes at once, killed at random, with a storm of checkpoints: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.faults.program import Desk, Out, kill, typed
from tests.support.scale import scale

WRITER = textwrap.dedent("""
    import os, sys
    from holdfast import Keeper
    home, session, name, events, acks = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5]
    told = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with Keeper.open(".", home=home, actor=name) as keeper:
        kept = keeper.session(session)
        # After a kill, an event may be there that nobody was told of: the log knows.
        done = sum(note.text.startswith(name + " ") for note in kept.document().notes)
        for number in range(done, events):
            kept.note(f"{name} {number}")
            os.write(told, b"%d\\n" % number)
""")
STORM = textwrap.dedent("""
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


def start(desk: Desk, code: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=desk.project, env=desk.environ, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def run(desk: Desk, seed: int, writers: int, events: int) -> None:
    rng = random.Random(seed)
    with desk.keeper() as keeper:
        session = keeper.start(f"Run {seed}", replace=True).id
    names = [f"w{number}" for number in range(writers)]
    acks = {name: desk.root / f"acks-{seed}-{name}" for name in names}

    def writer(name: str) -> subprocess.Popen[bytes]:
        return start(desk, WRITER, str(desk.home), session, name, str(events), str(acks[name]))

    storm = start(desk, STORM, str(desk.store))
    running = {name: writer(name) for name in names}
    kills = writers
    try:
        while running:
            time.sleep(rng.uniform(0.02, 0.15))
            victim = rng.choice(sorted(running))
            if kills and running[victim].poll() is None:
                kills -= 1
                kill(running[victim])
                said = running[victim].stderr
                assert said is not None
                said.close()
                running[victim] = writer(victim)
            for name, process in list(running.items()):
                if process.poll() is not None:
                    _, err = process.communicate()
                    assert (process.returncode, err) == (0, b""), (name, err)
                    del running[name]
    finally:
        kill(storm)
        assert storm.stderr is not None
        storm.stderr.close()
        for process in running.values():
            kill(process)
    judge(desk, session, names, events, acks)


def judge(desk: Desk, session: str, names: list[str], events: int, acks: dict[str, Path]) -> None:
    with desk.keeper() as keeper:
        document = keeper.session(session).document()
        log = keeper.events(session)
    texts = [note.text for note in document.notes]
    assert len(texts) == len(set(texts)) == len(names) * events
    for name in names:
        own = [text for text in texts if text.startswith(name + " ")]
        assert own == [f"{name} {number}" for number in range(events)]
        told = [int(line) for line in acks[name].read_text().split()]
        assert len(told) == len(set(told))
        assert set(told) <= set(range(events))
    assert len(log) == len({(event.writer, event.seq) for event in log}) == len({event.hash for event in log})
    desk.sound()


def test_writers_at_once_with_kills_and_checkpoints(tmp_path: Path) -> None:
    """Exact count, no duplicates, each process's own order; nobody ever hears of a lock."""
    desk = Desk(tmp_path)
    for seed in range(scale(1, 20, 200)):
        writers = random.Random(seed).randrange(2, 17) if scale(0, 1, 1) else 3
        run(desk, seed, writers, scale(40, 1_000, 1_000))


def test_commands_at_once(tmp_path: Path) -> None:
    """Whole `holdfast` processes, from the very first: one starts the session, the others are told."""
    desk = Desk(tmp_path)
    many = scale(6, 16, 16)

    def together(*words: str) -> list[int]:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "holdfast", *(word.replace("N", str(number)) for word in words)],
                cwd=desk.project, env=desk.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for number in range(many)
        ]  # fmt: skip
        codes = []
        for process in processes:
            out, err = process.communicate()
            answer = Out(process.returncode, out.decode(), err.decode())
            typed(answer)
            assert "lock" not in answer.err
            codes.append(answer.code)
        return sorted(codes)

    assert together("start", "Goal N") == [0] + [5] * (many - 1)
    assert together("note", "note N") == [0] * many
    assert together("agent", "start", "same", "--type", "t") == [0] + [5] * (many - 1)
    assert together("pause") == [0] + [1] * (many - 1)
    assert together("resume") == [0] * many
    assert together("task", "add", "task N") == [0] * many
    first, *others = together("stop")
    assert first == 0
    assert set(others) <= {1, 3}  # it had ended before they looked, or while they did
    with desk.keeper() as keeper:
        document = keeper.session(keeper.history()[0].id).document()
    assert sorted(note.text for note in document.notes) == sorted(f"note {number}" for number in range(many))
    assert len({task.id for task in document.tasks}) == many
    assert sorted(os.listdir(desk.home)) == ["store.db", "writer.json"]
    desk.sound()


def test_a_reader_sees_only_whole_transactions(tmp_path: Path) -> None:
    """While writers write: every state that is read is one that was true."""
    desk = Desk(tmp_path)
    with desk.keeper() as keeper:
        session = keeper.start("G").id
        writer = start(desk, WRITER, str(desk.home), session, "w", str(scale(80, 500, 5_000)), str(tmp_path / "acks"))
        before = 0
        while writer.poll() is None:
            notes = keeper.session(session).document().notes
            assert [note.text for note in notes] == [f"w {number}" for number in range(len(notes))]
            assert len(notes) >= before
            before = len(notes)
        _, err = writer.communicate()
    assert err == b""
    desk.sound()


@pytest.mark.parametrize("verb", [["delete", "@", "--confirm", "--force"], ["backup", "copy.db"]])
def test_rewriting_the_whole_file_beside_writers(tmp_path: Path, verb: list[str]) -> None:
    """Erasing and copying while another process writes to another session: neither harms the other."""
    desk = Desk(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    with desk.keeper(other) as keeper:
        session = keeper.start("Other").id
    events = scale(60, 500, 5_000)
    writer = start(desk, WRITER, str(desk.home), session, "w", str(events), str(tmp_path / "acks"))
    try:
        for number in range(scale(2, 20, 100)):
            assert desk.call("start", f"unmistakable{number}").code in (0, 5)
            words = [word.replace("copy.db", str(tmp_path / f"copy{number}.db")) for word in verb]
            answer = desk.call(*words)
            assert answer.code == 0, answer
    finally:
        _, err = writer.communicate()
    assert (writer.returncode, err) == (0, b"")
    with desk.keeper(other) as keeper:
        assert len(keeper.session(session).document().notes) == events
    if verb[0] == "delete":
        assert b"unmistakable" not in b"".join(path.read_bytes() for path in desk.home.iterdir())
    desk.sound()
