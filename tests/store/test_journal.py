"""The cost of the journal: appending reads no earlier events, whatever the length of the log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from holdfast.core.envelope import Event
from holdfast.core.errors import Failed
from holdfast.core.events import FileChanged, NoteAdded, SessionEdited
from holdfast.core.fold import fold
from holdfast.core.state import State, freeze
from holdfast.store.conformance import BEN, SESSION, START, Ticks, draft, foreign, note, put, started, take
from holdfast.store.sqlite import SqliteStore
from holdfast.store.sqlite.tables import SqliteTables
from holdfast.store.tables import BYTES_PER_EVENT, SNAPSHOT_EVERY, StoredState, snapshots_to_keep


class Counting(SqliteTables):
    """Tables that count what the journal reads from them and writes to them."""

    read_events = 0
    written: list[tuple[int, int]]

    def tail(self, session: str, clock: int) -> Iterator[tuple[Event, bool]]:
        for item in super().tail(session, clock):
            self.read_events += 1
            yield item

    def save_snapshot(self, session: str, snapshot: StoredState, clock: int, keep: object) -> None:
        self.written.append((snapshot.events, len(snapshot.frozen)))
        super().save_snapshot(session, snapshot, clock, keep)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.setattr("holdfast.store.sqlite.store.SqliteTables", Counting)
    store = opened(tmp_path)
    yield store
    store.close()


def opened(place: Path) -> SqliteStore:
    return SqliteStore(str(place / "store.db"), writer=lambda: "a" * 20, wall=Ticks())


def tables(store: SqliteStore) -> Counting:
    tables_ = store._tables
    assert isinstance(tables_, Counting)
    if "written" not in vars(tables_):
        tables_.written = []
    return tables_


def counts(store: SqliteStore) -> list[int]:
    return [row[0] for row in store._connection.execute("SELECT count FROM snapshots ORDER BY count")]


def test_append_reads_no_events_within_one_process(store: SqliteStore) -> None:
    """Between transactions the state stays in memory."""
    tables(store)
    put(store, SESSION, started())
    for number in range(400):
        put(store, SESSION, note(f"note {number}"))
    assert tables(store).read_events == 0


def test_open_reads_a_bounded_tail(store: SqliteStore, tmp_path: Path) -> None:
    """Opening, appending and closing reads at most the events since the last snapshot."""
    tables(store)
    put(store, SESSION, started())
    worst: list[int] = []
    for length in (100, 400, 1000):
        while (state := store.state(SESSION)) is not None and state.count < length:
            with store.transaction() as transaction:
                for number in range(10):
                    transaction.record(SESSION, draft(SessionEdited(progress=number / 10)))
        reads = []
        for _ in range(SNAPSHOT_EVERY + 2):
            other = opened(tmp_path)
            tables(other)
            put(other, SESSION, SessionEdited(progress=0.5))
            reads.append(tables(other).read_events)
            other.close()
        worst.append(max(reads))
    assert max(worst) <= SNAPSHOT_EVERY + 10
    assert worst[-1] <= worst[0] + 10


def test_snapshots_are_kept_at_growing_distances(store: SqliteStore) -> None:
    """The newest always stays, their number grows with the logarithm of the length."""
    tables(store)
    put(store, SESSION, started())
    for length in (200, 800, 3200):
        with store.transaction() as transaction:
            while transaction.state(SESSION).count < length - SNAPSHOT_EVERY * 20:
                transaction.record(SESSION, draft(SessionEdited(progress=0.1)))
        while (state := store.state(SESSION)) is not None and state.count < length:
            put(store, SESSION, *[SessionEdited(progress=0.2)] * 8)
        kept = counts(store)
        assert length - kept[-1] < SNAPSHOT_EVERY + 8
        assert len(kept) <= 2 + (length // SNAPSHOT_EVERY).bit_length()


def test_ladder_keeps_snapshots_at_growing_distances() -> None:
    """Each older snapshot is at least twice as far away as the next newer one."""
    kept: set[int] = set()
    for count in range(32, 32 * 2000, 32):
        kept = snapshots_to_keep([*kept, count])
        newest, *older = sorted(kept, reverse=True)
        assert newest == count
        distances = [newest - number for number in older]
        assert all(far >= 2 * near for near, far in pairwise(distances))
        assert len(kept) <= 2 + (count // 32).bit_length()
    assert snapshots_to_keep([7]) == {7}


def test_late_event_discards_later_snapshots(store: SqliteStore) -> None:
    """Snapshots before its clock stay and are used; those at or after it are removed."""
    tables(store)
    made = put(store, SESSION, started())
    for number in range(300):
        made += put(store, SESSION, note(f"note {number}"), at=START + number)
    before = counts(store)
    middle = made[before[-2] + 3]
    tables(store).read_events = 0
    take(store, [foreign(BEN, 1, note("late"), clock=middle.clock)])
    after = counts(store)
    assert before[-2] in after
    assert before[-1] not in after
    assert store.state(SESSION) == fold(store.events(SESSION), SESSION)
    take(store, [foreign(BEN, 2, note("earliest"), clock=1)])
    assert [count for count in counts(store) if count <= before[-2]] == []
    assert store.state(SESSION) == fold(store.events(SESSION), SESSION)


def test_damaged_snapshot_is_ignored(store: SqliteStore, tmp_path: Path) -> None:
    """An older snapshot, or the log itself, gives the same state."""
    tables(store)
    put(store, SESSION, started())
    for number in range(200):
        put(store, SESSION, note(f"note {number}"))
    expected = store.state(SESSION)
    assert len(counts(store)) > 1
    for where in (f"count = {counts(store)[-1]}", "1"):
        store._connection.execute(f"UPDATE snapshots SET state = x'c1' WHERE {where}")
        other = opened(tmp_path)
        assert other.state(SESSION) == expected
        other.close()


def test_large_states_are_saved_rarely(store: SqliteStore) -> None:
    """A snapshot costs at most a constant per event since the last one."""
    tables(store)
    put(store, SESSION, started())
    with store.transaction() as transaction:
        for number in range(3000):
            path = f"src/some/where/deep/module_{number}.py"
            transaction.record(SESSION, draft(FileChanged(path=path, action="created", hash_after="0" * 64)))
    for number in range(1500):
        put(store, SESSION, FileChanged(path=f"f{number}", action="created"))
    sizes = tables(store).written
    assert sizes[-1][1] > 100 * BYTES_PER_EVENT
    for (at, size), (next_at, _) in pairwise(sizes):
        assert next_at - at >= size // BYTES_PER_EVENT
    assert store.state(SESSION) == fold(store.events(SESSION), SESSION)


def test_states_in_memory_are_limited(store: SqliteStore) -> None:
    """Touching many sessions keeps only some of their states, and loses no change."""
    tables(store)
    sessions = [f"{number:08x}-2222-4333-8444-555555555555" for number in range(200)]
    with store.transaction() as transaction:
        for session in sessions:
            transaction.record(session, draft(started(session[:8])))
    for session in sessions:
        assert store.state(session) == fold(store.events(session), session)
    for session in sessions:
        put(store, session, NoteAdded(text="again"))
    assert len(store._journal._cached) <= 64 + 1
    assert all((state := store.state(session)) is not None and state.count == 2 for session in sessions)


def test_empty_state_round_trips_through_a_snapshot() -> None:
    from holdfast.core.state import thaw

    assert thaw(freeze(State(session=SESSION))) == State(session=SESSION)


class _FullAtCommit:
    """A connection whose next COMMIT fails with a full disk."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: object) -> object:
        if sql == "COMMIT":
            raise apsw.FullError("the disk is full")
        return self._connection.execute(sql, *values)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def test_failed_commit_is_forgotten_when_another_process_takes_its_number(tmp_path: Path) -> None:
    """The other process's event gets the number that ours would have had; ours then follows it, not the lost one."""
    one, two = opened(tmp_path), opened(tmp_path)
    put(one, SESSION, started("Goal"))
    real = one._connection
    one._connection = _FullAtCommit(real)  # type: ignore[assignment]
    with pytest.raises(Failed, match="full"):
        put(one, SESSION, note("lost"))
    one._connection = real
    put(two, SESSION, note("theirs"))
    put(one, SESSION, note("ours"))
    state = one.state(SESSION)
    assert state is not None
    assert [kept.text for kept in state.notes] == ["theirs", "ours"]
    assert list(one.check()) == []
    one.close()
    two.close()
