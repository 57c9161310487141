"""F2 for `doctor --repair`: SIGKILL at every call of a repair, which is what runs when things are bad already.

Whatever moment it dies at, repairing again saves what an undisturbed repair saves, and the damaged file is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import apsw
import pytest

from holdfast.store.sqlite import SqliteStore
from tests.faults.harness import judge
from tests.faults.harness.figures import tell
from tests.faults.harness.room import Room, Tree
from tests.faults.harness.tracing import WATCH, need_strace, record
from tests.faults.harness.trials import sampled
from tests.faults.harness.verbs import VERBS
from tests.support.scale import scale

REPAIR = ("doctor", "--repair")
CALLS = scale(6, 10_000, 10_000)
PAGE = 4096


@pytest.fixture
def room() -> Iterator[Room]:
    need_strace()
    with Room() as made:
        yield made


def a_page(room: Room) -> None:
    """The second page of the log's table is noise: the file has to be replaced."""
    with open(room.store, "r+b") as file:
        file.seek(2 * PAGE)
        file.write(bytes(range(256)) * (PAGE // 256))


def a_listing(room: Room) -> None:
    """What is derived differs from the log: it is rebuilt in place."""
    connection = apsw.Connection(room.store)
    connection.execute("UPDATE sessions SET goal = 'another'; DELETE FROM words")
    connection.close()


def saved(room: Room) -> set[str]:
    """The hashes of all events, after a check that may find nothing but that something was set aside."""
    store = SqliteStore(room.store, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        wrong = [finding for finding in store.check() if finding.check != "aside"]
        assert not wrong, f"repaired, the check found {wrong}"
        return {event.hash for session in store.sessions() for event in store.events(session)}
    finally:
        store.close()


def aside(room: Room) -> bytes:
    """The largest file that was set aside."""
    place = os.path.join(room.home, "aside")
    held = [b""]
    for name in os.listdir(place) if os.path.isdir(place) else ():
        with open(os.path.join(place, name), "rb") as file:
            held.append(file.read())
    return max(held, key=len)


@pytest.mark.parametrize("damage", [a_page, a_listing])
def test_a_killed_repair_is_repaired_by_the_next(room: Room, damage: object) -> None:
    """Killed at any call, a repair leaves what the next one needs to save as much, and the damaged file as it was."""
    assert callable(damage)
    room.prepare(VERBS[1].before)
    damage(room)
    damaged: Tree = room.take()
    code, calls, said = record(room, REPAIR)
    assert code == 0, said
    whole, kept = saved(room), aside(room)
    assert whole
    chosen = sampled(calls, CALLS, seed=1)
    for call in chosen:
        room.put(damaged)
        answer = room.run(REPAIR, strace=("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}"))
        try:
            assert answer.code == -9, f"it did not come: {answer.code} {answer.err}"
            again = room.run(REPAIR)
            assert again.code == 0, f"repairing again ended with {again.code}: {again.out} {again.err}"
            assert saved(room) == whole, "repairing again saved something else"
            assert len(aside(room)) == len(kept), "what was damaged is not kept"
            assert judge.leftovers(room.home) == []
            assert room.run(("start", "what comes next", "--replace")).code == 0
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    tell(fault="F2", verb="doctor --repair", kills=len(chosen))
