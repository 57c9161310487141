"""Copying a store into another: interrupted anywhere, from a store in use, two copies at once; every difference is
noticed.
"""

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import apsw
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.envelope import Event, find_problem
from holdfast.core.errors import Damaged, Refused
from holdfast.core.events import EventErased, ProjectFacts
from holdfast.core.state import State
from holdfast.store import store_copy
from holdfast.store.conformance import (
    ANNA,
    BEN,
    CARO,
    OTHER,
    SESSION,
    START,
    THIRD,
    Ticks,
    assert_sound,
    everything,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import CopyResult
from holdfast.store.sqlite import SqliteStore
from holdfast.store.sqlite.store import SqliteTransaction
from holdfast.store.store_copy import CURSORS, Progress, copy
from tests.support.histories import History, histories


class Killed(BaseException):
    """Simulates the death of the process at a chosen place."""


class FailingStore(SqliteStore):
    """Ends at its n-th transaction: just before it commits, or right after."""

    left: int | None = None
    done = False

    def transaction(self, *, patience: float | None = None, about: str | None = None) -> SqliteTransaction:
        if self.left is not None:
            self.left -= 1
        if self.left is None or self.left >= 0:
            return super().transaction(patience=patience, about=about)
        return FailingTransaction(self._connection, self._tables, self._journal, self.path, done=self.done)


class FailingTransaction(SqliteTransaction):
    def __init__(self, *parts: object, done: bool) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._done = done

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._done:
            super().__exit__(kind, error, trace)
            raise Killed
        super().__exit__(Killed, Killed(), trace)


def opened(path: Path, writer: str = ANNA, kind: type[SqliteStore] = SqliteStore) -> SqliteStore:
    return kind(str(path), writer=lambda: writer, wall=Ticks())


@contextmanager
def two_stores(place: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    source, target = opened(place / "source.db"), opened(place / "target.db", BEN)
    try:
        yield source, target
    finally:
        source.close()
        target.close()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteStore]:
    """Three sessions of two writers, events that came late, a project, work trees and something kept."""
    store = opened(tmp_path / "source.db")
    for number in range(12):
        put(store, SESSION, note(f"note {number}") if number else started(), at=START + number)
        put(store, OTHER, note(f"paint {number}") if number else started("Other"), at=START + number)
    late = foreign(CARO, 1, note("late"), clock=START * 1000 + 5)
    take(store, [late, foreign(CARO, 2, note("later"), clock=START * 1000 + 9, prev=late)])
    secret = put(store, THIRD, started("Third"), note("secret"))[-1]
    put(store, THIRD, EventErased(hashes=(secret.hash,)))
    with store.transaction() as transaction:
        transaction.remember_project(ProjectFacts(id="p", name="shop", path="/shop", roots=("r",)))
        transaction.set_current("/shop", SESSION)
        transaction.remember("kept", b"1")
    yield store
    store.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[FailingStore]:
    store = opened(tmp_path / "target.db", BEN, FailingStore)
    assert isinstance(store, FailingStore)
    yield store
    store.close()


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_copy, "PORTION", 5)


def assert_copied(source: SqliteStore, target: SqliteStore) -> None:
    assert everything(target) == everything(source)
    assert target.local_state().places == source.local_state().places
    assert target.local_state().projects == source.local_state().projects
    assert target.remembered("kept") == source.remembered("kept")
    assert_sound(target)


@pytest.mark.parametrize("done", [False, True])
def test_interrupted_copy_continues(source: SqliteStore, target: FailingStore, done: bool) -> None:
    """Interrupted at any transaction and restarted until it ends, it copies each event once."""
    events = sum(len(list(source.events(session))) for session in source.sessions())
    target.done = done
    starts = 0
    reached = -1
    while True:
        target.left = 1 if done else starts % 2
        starts += 1
        try:
            last = copy(source, target)
        except Killed:
            (kept,) = target.remembered_under(CURSORS).values() or [b"0"]
            assert int(kept) >= reached
            reached = int(kept)
            assert starts < 40
            target.left = None
            for session in target.sessions():
                assert len(list(target.events(session))) <= len(list(source.events(session)))
        else:
            break
    assert starts > 3
    assert last == (3, 0, ())
    target.left = None
    assert len(target.arrived(0, 1000)) == events
    assert_copied(source, target)


def test_copy_includes_events_recorded_meanwhile(source: SqliteStore, target: SqliteStore, tmp_path: Path) -> None:
    """New events, new sessions and late events, while it checks, copies and compares."""
    other = opened(tmp_path / "source.db", CARO)
    reported: list[Progress] = []

    def on_progress(progress: Progress) -> None:
        reported.append(progress)
        if len(reported) % 3 == 1 and len(reported) < 30:
            put(other, SESSION, note(f"meanwhile {len(reported)}"))
            fresh = f"{len(reported):08}-2222-4333-8444-555555555555"
            put(other, fresh, started(f"Session {len(reported)}"))
            take(other, [foreign("d" * 20, 1, note("long ago"), clock=len(reported), session=fresh)])

    done = copy(source, target, on_progress=on_progress)
    other.close()
    assert_copied(source, target)
    assert done.sessions == len(list(source.sessions()))
    assert {progress.doing for progress in reported} == {"checking", "copying", "comparing"}
    assert all(0 < progress.done <= progress.of for progress in reported)


def test_copy_ends_although_the_source_keeps_changing(source: SqliteStore, target: SqliteStore) -> None:
    """Everything that it saw is in the target."""
    noted: list[str] = []

    def on_progress(progress: Progress) -> None:
        if progress.doing == "comparing":
            noted.append(put(source, SESSION, note("again"))[0].hash)

    copy(source, target, on_progress=on_progress)
    there = {event.hash for event in target.events(SESSION)}
    assert set(noted[:-1]) <= there
    copy(source, target)
    assert_copied(source, target)


def test_concurrent_copies_end_with_each_event_once(source: SqliteStore, target: SqliteStore, tmp_path: Path) -> None:
    second, again = opened(tmp_path / "source.db"), opened(tmp_path / "target.db", CARO)
    ends: list[CopyResult] = []

    def on_progress(progress: Progress) -> None:
        if progress.doing == "copying" and not ends:
            ends.append(copy(second, again))

    first = copy(source, target, on_progress=on_progress)
    second.close()
    again.close()
    events = sum(len(list(source.events(session))) for session in source.sessions())
    assert first.events + ends[0].events == events == len(target.arrived(0, 1000))
    assert_copied(source, target)


@pytest.mark.parametrize("damage", ["data = x'7b7d'", "actor = 'eve'", "clock = clock + 1", "hash = body"])
def test_copy_refuses_a_damaged_source_before_writing(source: SqliteStore, target: SqliteStore, damage: str) -> None:
    """The error has the session and the number of the event."""
    before = target.latest_place(), target.remembered_under("")
    connection = apsw.Connection(source.path)
    connection.execute(f"UPDATE events SET {damage} WHERE ord = (SELECT max(ord) FROM events WHERE session = 2)")
    connection.close()
    with pytest.raises(Damaged, match=r"nothing was copied: event 12 ") as caught:
        copy(source, target)
    assert (caught.value.session, caught.value.exit_code) == (OTHER, 6)
    assert caught.value.hint
    assert (target.latest_place(), target.remembered_under("")) == before


def test_copy_leaves_out_damage_that_another_member_must_repair(
    source: SqliteStore, target: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other sessions are copied; this one follows with the first copy after its repair."""
    monkeypatch.setattr(source, "may_repair", lambda session: session != OTHER)
    connection = apsw.Connection(source.path)
    (before,) = connection.execute("SELECT data FROM events WHERE session = 2 AND seq = 12")
    connection.execute("UPDATE events SET data = x'7b7d' WHERE session = 2 AND seq = 12")
    done = copy(source, target)
    ((session, reason, _),) = done.left_out
    assert (session, done.sessions) == (OTHER, 2)
    assert "event 12 is damaged" in reason
    assert "its owner repairs it" in reason
    assert sorted(target.sessions()) == sorted((SESSION, THIRD))
    connection.execute("UPDATE events SET data = ? WHERE session = 2 AND seq = 12", before)
    connection.close()
    assert copy(source, target) == (3, 12, ())
    assert_copied(source, target)


def test_copy_fails_when_the_target_refuses_all_writing(
    source: SqliteStore, target: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left out by name then."""

    def refusing(**_: object) -> SqliteTransaction:
        raise Refused("you are not a member")

    monkeypatch.setattr(target, "transaction", refusing)
    with pytest.raises(Refused, match="not a member"):
        copy(source, target)


def test_copy_refuses_damage_that_appears_meanwhile(source: SqliteStore, target: SqliteStore) -> None:
    """Every event is checked again when it is received."""

    def on_progress(progress: Progress) -> None:
        if progress.doing == "copying":
            connection = apsw.Connection(source.path)
            connection.execute("UPDATE events SET data = x'7b7d' WHERE session = 2 AND seq = 12")
            connection.close()

    with pytest.raises(Damaged) as caught:
        copy(source, target, on_progress=on_progress)
    assert caught.value.session == OTHER


def test_gap_in_the_source_is_a_gap_in_the_copy(source: SqliteStore, target: SqliteStore) -> None:
    """Everything that exists is copied, and the target reports the same gap."""
    connection = apsw.Connection(source.path)
    connection.execute("DELETE FROM events WHERE session = 2 AND seq = 7")
    connection.close()
    source.repair()
    copy(source, target)
    assert everything(target) == everything(source)
    assert [finding.detail for finding in target.check()] == ["event 7 is missing"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda events: events[:-1], "is missing"),
        (lambda events: [events[1], events[0], *events[2:]], "another order"),
        (lambda events: [msgspec.structs.replace(events[0], data=b"{}"), *events[1:]], "differs"),
        (lambda events: [msgspec.structs.replace(events[0], data=None, salt=None), *events[1:]], "lost its data"),
        (lambda events: [msgspec.structs.replace(events[0], salt=bytes(16)), *events[1:]], "differs"),
        (
            lambda events: [*events, foreign(CARO, 9, note("x"), clock=10**17, session=events[0].session)],
            "does not match its events",
        ),
    ],
)
def test_copy_notices_any_difference_in_the_target(
    source: SqliteStore,
    target: SqliteStore,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[list[Event]], list[Event]],
    message: str,
) -> None:
    """A lost, reordered or changed event, or its data, is reported with the session."""
    read = target.events
    monkeypatch.setattr(
        target, "events", lambda session: iter(spoil(list(read(session))) if session == OTHER else read(session))
    )
    with pytest.raises(Damaged, match=message) as caught:
        copy(source, target)
    assert caught.value.session == OTHER


def test_copy_notices_a_different_state(
    source: SqliteStore, target: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On either side, even when the events are equal."""
    for store in (target, source):
        with monkeypatch.context() as patched:
            patched.setattr(store, "state", lambda session: State(session=session))
            with pytest.raises(Damaged, match="state"):
                copy(source, target)


def test_copy_brings_back_what_was_withdrawn_from_the_target(source: SqliteStore, target: SqliteStore) -> None:
    """Although the copy was complete before; an invalid cursor does no harm."""
    copy(source, target)
    with target.transaction() as transaction:
        withdrawn = transaction.withdraw(SESSION, {ANNA: 3})
    assert copy(source, target).events == len(withdrawn) > 0
    assert_copied(source, target)
    with target.transaction() as transaction:
        for name in target.remembered_under(CURSORS):
            transaction.remember(name, b"no number")
    assert copy(source, target).events == 0
    assert_copied(source, target)


def test_copy_keeps_data_when_the_target_has_events_without_it(source: SqliteStore, target: SqliteStore) -> None:
    """An event whose text only the target has is no difference."""
    whole = foreign("d" * 20, 1, note("text"), clock=START * 1000 + 7)
    take(source, [msgspec.structs.replace(whole, data=None, salt=None)])
    take(target, [whole])
    copy(source, target)
    assert whole in list(target.events(SESSION))
    assert_sound(target)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(longest=25), st.randoms(use_true_random=False), st.integers(1, 30), st.integers(0, 6))
def test_copy_of_any_history_is_equal(history: History, rng: random.Random, portion: int, stop: int) -> None:
    """Whatever devices recorded, erased and forked, in any order of arrival, interrupted and continued."""
    events = [event for event in history.events if find_problem(event) is None]
    rng.shuffle(events)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_copy, "PORTION", portion)
        with two_stores(Path(place)) as (source, target):
            while events:
                size = rng.choice((1, 3, 20))
                take(source, events[:size])
                del events[:size]

            def on_progress(progress: Progress) -> None:
                if progress.done == stop:
                    raise Killed

            try:
                copy(source, target, on_progress=on_progress)
            except Killed:
                copy(source, target)
            assert everything(target) == everything(source)
            for session in source.sessions():
                assert list(target.events(session)) == list(source.events(session))
            assert {damage.check for damage in target.check()} == {damage.check for damage in source.check()}
