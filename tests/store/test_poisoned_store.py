"""A store whose clock a guest drove to the maximum under an earlier version (`make_poisoned_store`) recovers by
itself.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.clock import MAX_CLOCK
from holdfast.core.events import EventData, NoteAdded, SessionEdited, SessionPaused, SessionResumed
from holdfast.core.fold import fold
from holdfast.core.registers import current_value, disputes
from holdfast.core.view import status_of
from holdfast.store.interface import Draft, Filter, Store
from holdfast.store.sqlite import SqliteStore
from tests.store.make_poisoned_store import DESKTOP, GUEST, LAPTOP, PRIVATE, SHARED, START

Opening = Callable[[], Store]
FIXTURE = lzma.decompress((Path(__file__).parent / "poisoned_store.db.xz").read_bytes())


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Opening]:
    """Opens the store again each time."""
    path = tmp_path / "store.db"
    path.write_bytes(FIXTURE)
    opened: list[SqliteStore] = []
    ticking = count((START + 10_000) * 1000, 1000)

    def opening() -> Store:
        """Opens the store again each time."""
        for store in opened:
            store.close()
        opened[:] = [SqliteStore(str(path), writer=lambda: LAPTOP, wall=lambda: next(ticking))]
        return opened[0]

    yield opening
    for store in opened:
        store.close()


def put(store: Store, session: str, data: EventData) -> int:
    with store.transaction() as transaction:
        event = transaction.record(session, Draft(data, START + 10_000, "anna", None))
    assert event is not None
    return event.clock


def shown(store: Store, session: str) -> tuple[object, str, int]:
    """The goal, the status, and how many conflicts are open."""
    state = store.state(session)
    assert state is not None
    assert state == fold(store.events(session), session)
    open_ones = [dispute for dispute in disputes(state) if dispute.chosen is None]
    return current_value(state.registers["goal"]), status_of(state), len(open_ones)


def test_fixture_has_the_largest_clock_everywhere(tmp_path: Path) -> None:
    """Every event since the guest's has it, in the private session too; so has the store itself."""
    path = tmp_path / "store.db"
    path.write_bytes(FIXTURE)
    connection = apsw.Connection(str(path))
    asked = "SELECT count(*) FROM events WHERE clock = ? GROUP BY session"
    assert connection.execute(asked, (MAX_SAFE_INTEGER,)).fetchall() == [(4,), (6,)]
    assert connection.execute("SELECT value FROM facts WHERE name = 'clock'").fetchall() == [(MAX_SAFE_INTEGER,)]
    listed = connection.execute("SELECT goal, status FROM sessions ORDER BY ref").fetchall()
    assert listed == [("Guest's goal", "paused"), ("Private, from the desktop", "in_progress")]
    connection.close()


def test_earlier_edits_take_effect(opening: Opening) -> None:
    """The owner's last action counts in both sessions, and no conflict is left."""
    store = opening()
    assert shown(store, SHARED) == ("Shared, edited", "paused", 0)
    assert shown(store, PRIVATE) == ("Private, edited", "paused", 0)
    listed = {row.id: (row.goal, row.status) for row in store.rows(Filter())}
    assert listed == {SHARED: ("Shared, edited", "paused"), PRIVATE: ("Private, edited", "paused")}
    assert {finding.check for finding in store.check()} == {"clocks"}


def test_new_events_take_effect_with_plausible_clocks(opening: Opening) -> None:
    """Through many events, snapshots and reopenings; the check reports the old clocks and nothing else."""
    for number in range(3):
        for session in (SHARED, PRIVATE):
            store = opening()
            assert START * 1000 < put(store, session, SessionResumed()) < MAX_CLOCK
            put(store, session, SessionEdited(goal=f"Goal {number}"))
            assert shown(store, session) == (f"Goal {number}", "in_progress", 0)
            for note in range(40):
                assert put(store, session, NoteAdded(text=f"later {note}")) < MAX_CLOCK
            put(store, session, SessionPaused())
            assert shown(opening(), session) == (f"Goal {number}", "paused", 0)
    damage = list(opening().check())
    assert {finding.check for finding in damage} == {"clocks"}
    named = {
        (finding.session, writer)
        for finding in damage
        for writer in (LAPTOP, DESKTOP, GUEST)
        if writer in finding.detail
    }
    assert named == {(SHARED, GUEST), (SHARED, LAPTOP), (PRIVATE, LAPTOP), (PRIVATE, DESKTOP)}
    assert all(str(MAX_SAFE_INTEGER) in finding.detail and "2255-06-05" in finding.detail for finding in damage)


def test_repair_keeps_the_recovered_state(opening: Opening) -> None:
    """Everything is derived again, and the store's old clock is forgotten."""
    store = opening()
    store.repair()
    assert shown(store, PRIVATE) == ("Private, edited", "paused", 0)
    assert put(store, PRIVATE, SessionResumed()) < MAX_CLOCK
    assert {finding.check for finding in store.check()} == {"clocks"}
