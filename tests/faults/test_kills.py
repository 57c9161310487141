"""F1: `kill -9` at random moments.

Processes write as fast as they can, and note in a file what has been acknowledged to them; each is killed after a
random time, and the next one goes on with the same home, unaided. Most are forked from a warm process, which costs
little; some are started cold, as a person would. What a kill cannot show is whether anything reached the disk: the
page cache survives it. That is the subject of test_power_loss.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec
import pytest

from holdfast.store.sqlite import SqliteStore
from tests.faults.harness import judge
from tests.faults.harness.figures import tell
from tests.faults.harness.room import Room
from tests.support.scale import scale

LIBRARY = scale(24, 800, 8_000)
COMMANDS = scale(8, 152, 1_520)
COLD = scale(4, 52, 528)
SHARDS = scale(1, 4, 16)  # for several processes to share
LIVES = 20  # kills of one home


def _seeds(count: int) -> list[tuple[int, int]]:
    return [(seed, count // SHARDS) for seed in range(SHARDS)]


def notes(room: Room) -> list[str]:
    """All notes in the log, in order, after checking everything the store can check."""
    judge.look(room.home, room.project, room.project)
    store = SqliteStore(room.store, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        events = [event for session in store.sessions() for event in store.events(session)]
    finally:
        store.close()
    return [msgspec.json.decode(event.data or b"{}")["text"] for event in events if event.type == "note.added"]


def settle(found: list[str], acked: list[str], life: str) -> None:
    """Of one life: everything acknowledged is there, in order, once, and at most one more that was under way."""
    mine = [text for text in found if text.startswith(f"{life}-")]
    assert mine[: len(acked)] == acked, f"acknowledged and lost: {[name for name in acked if name not in mine]}"
    assert len(mine) <= len(acked) + 1, f"never acknowledged: {mine[len(acked) :]}"


@pytest.mark.parametrize(("seed", "kills"), _seeds(LIBRARY))
def test_killed_while_appending_through_the_library(seed: int, kills: int, tmp_path: Path) -> None:
    """A process killed while it appends has lost nothing that was acknowledged, and the next one goes on."""
    chance = random.Random(seed)
    acknowledged = 0
    # On a real disk: there a commit takes long enough to be hit in its middle.
    with Room(str(tmp_path)) as room:
        for life in range(kills):
            if life % LIVES == 0:
                room.put({})
            acked = room.write_until_killed(chance.uniform(0, 0.08), life=life, notes=1_000)
            acknowledged += len(acked)
            settle(notes(room) if (Path(room.store)).exists() else [], acked, str(life))
            assert judge.leftovers(room.home) == []
        assert room.run(("start", "what comes next", "--replace")).code == 0
    tell(fault="F1", how="library", kills=kills, acknowledged=acknowledged)


@pytest.mark.parametrize(("seed", "kills"), _seeds(COMMANDS))
def test_killed_while_running_commands(seed: int, kills: int) -> None:
    """A process killed in the middle of commands has lost nothing that a command had answered."""
    chance = random.Random(seed)
    acknowledged = 0
    with Room() as room:
        for life in range(kills):
            if life % LIVES == 0:
                room.put({})
            acked = room.write_until_killed(chance.uniform(0, 0.1), argvs=_commands(life))
            acknowledged += len(acked)
            done = [name for name in acked if "-" in name]
            settle(notes(room) if Path(room.store).exists() else [], done, str(life))
            assert judge.leftovers(room.home) == []
        assert room.run(("start", "what comes next", "--replace")).code == 0
    tell(fault="F1", how="commands", kills=kills, acknowledged=acknowledged)


def _commands(life: int) -> list[tuple[str, list[str]]]:
    argvs: list[tuple[str, list[str]]] = [("start", ["start", "to be killed", "--replace"])]
    for number in range(100):
        argvs += [
            (f"{life}-{number}", ["note", f"{life}-{number}"]),
            ("task", ["task", "add", "something to do"]),
            ("agent", ["agent", "start", f"a{number}", "--type", "coder"]),
            ("setting", ["config", "set", "history.limit", str(number + 1)]),
        ]
    return argvs


@pytest.mark.parametrize(("seed", "kills"), _seeds(COLD))
def test_killed_when_started_cold(seed: int, kills: int, tmp_path: Path) -> None:
    """A command killed at any moment of its life, from the start of the interpreter on, has happened or has not."""
    chance = random.Random(seed)
    answered: list[str] = []
    killed = 0
    with Room(str(tmp_path)) as room:
        assert room.run(("start", "to be killed")).code == 0
        begin = time.monotonic()
        undisturbed = room.cold(("note", "undisturbed"))
        undisturbed.communicate()
        assert undisturbed.returncode == 0
        usual = time.monotonic() - begin
        for number in range(10 * kills):
            text = f"0-{number}"
            process = room.cold(("note", text))
            try:
                process.wait(chance.uniform(0, usual))
            except TimeoutExpired:
                process.kill()
            process.communicate()
            killed += process.returncode == -9
            if process.returncode == 0:
                answered.append(text)
            found = notes(room)
            assert [name for name in answered if name not in found] == []
            assert len(found) == len(set(found))
            if killed == kills:
                break
    tell(fault="F1", how="cold", kills=killed, acknowledged=len(answered))
