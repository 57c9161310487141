"""Hours of all projects are the same from the cache as computed, and add up in every line."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.core.events import (
    EventData,
    HillMoved,
    NoteAdded,
    ProjectFacts,
    SessionCompleted,
    SessionPaused,
    SessionResumed,
    SessionStarted,
)
from holdfast.core.times import DAY, HOUR, MINUTE, parse_time
from holdfast.machine.wall import Wall, local_offset
from holdfast.sessions.hours.cache import CachedHours, HoursMemo, hours
from holdfast.sessions.hours.overlaps import messages_in
from holdfast.sessions.hours.table import Line, day_of, table
from holdfast.store.interface import Draft
from holdfast.store.sqlite import SqliteStore

NOW = parse_time("2027-02-05T21:30:00.000Z")
STEPS: Sequence[EventData] = (
    SessionPaused(), SessionResumed(), NoteAdded(text="x"), HillMoved(scope="auth", position=3),
    SessionCompleted(outcome="kept"), SessionCompleted(outcome="discarded"), SessionCompleted(),
)  # fmt: skip


def opened(where: Path) -> Keeper:
    where.joinpath("desk").mkdir(exist_ok=True)
    wall = Wall(lambda: NOW * 1_000_000)
    return Keeper.open(str(where / "desk"), home=str(where / "home"), wall=wall)


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with opened(tmp_path) as keeper:
        yield keeper


def record(
    keeper: Keeper, number: int, project: str, scope: str | None, began: int, *steps: tuple[int, EventData]
) -> str:
    """A session that began `began` minutes ago; each step comes so many minutes after the one before."""
    session = f"{number:08d}-0000-4000-8000-000000000000"
    at = NOW - began * MINUTE
    named = ProjectFacts(id=f"p-{project}", name=project, path=f"/{project}")
    with keeper.store().transaction() as transaction:
        if not transaction.state(session).count:
            started = SessionStarted(goal="x", project=named, device="d", scope=scope)
            transaction.record(session, Draft(started, at, "ada"))
        for minutes, data in steps:
            at = min(at + minutes * MINUTE, NOW)
            transaction.record(session, Draft(data, at, "ada"))
    return session


def computed(keeper: Keeper, project: str | None = None) -> dict[str, object]:
    rows = keeper.history(limit=None, all_projects=True, project=project)
    states = [keeper.state(row.id) for row in rows]
    others = [keeper.state(row.id) for row in keeper.history(limit=None, all_projects=True) if row not in rows]
    made = {
        by: table(
            states, by, now=NOW, offset=local_offset, mixed=True, others=others,
            messages=messages_in(keeper),
        )
        for by in ("day", "scope", "project")
    }  # fmt: skip
    return {by: (item.lines, item.total) for by, item in made.items()}


def cached(cached_hours: CachedHours) -> dict[str, object]:
    return {
        "day": (cached_hours.days, cached_hours.total), "scope": (cached_hours.scopes, cached_hours.total),
        "project": (cached_hours.projects, cached_hours.total),
    }  # fmt: skip


def assert_adds_up(cached_hours: CachedHours) -> None:
    for line in (*cached_hours.days, *cached_hours.scopes, *cached_hours.projects, cached_hours.total):
        assert line.working_ms + line.paused_ms == line.elapsed_ms
        assert min(line.working_ms, line.paused_ms) >= 0
    for lines in (cached_hours.days, cached_hours.scopes, cached_hours.projects):
        for what in ("elapsed_ms", "working_ms", "paused_ms", "kept", "discarded"):
            assert sum(getattr(line, what) for line in lines) == getattr(cached_hours.total, what)


SESSIONS = st.tuples(
    st.integers(0, 5), st.sampled_from(["shop", "house"]), st.sampled_from([None, "auth", "search"]),
    st.integers(0, 5 * 24 * 60), st.lists(st.tuples(st.integers(0, 2000), st.sampled_from(STEPS)), max_size=5),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(rounds=st.lists(st.lists(SESSIONS, max_size=4), min_size=1, max_size=3), ago=st.integers(0, 6 * 24 * 60))
def test_cached_hours_equal_the_table_whatever_is_cached(
    rounds: list[list[tuple[int, str, str | None, int, list[tuple[int, EventData]]]]], ago: int
) -> None:
    """With a cache that has seen any earlier state or with a new one; also with a first day."""
    with tempfile.TemporaryDirectory() as where, opened(Path(where)) as keeper:
        memo = HoursMemo()
        for made in rounds:
            for number, project, scope, began, steps in made:
                record(keeper, number, project, scope, began, *steps)
            keeper.store()
            for name in (None, "shop"):
                cached_hours = hours(keeper, memo, project=name)
                assert (
                    cached(cached_hours) == computed(keeper, name) == cached(hours(keeper, HoursMemo(), project=name))
                )
                assert_adds_up(cached_hours)
            since = NOW - ago * MINUTE
            later = hours(keeper, memo, since=since)
            assert_adds_up(later)
            whole = {line.key: line for line in hours(keeper, memo).days}
            first = day_of(since, local_offset)
            assert later.days == [line for day, line in sorted(whole.items()) if day is not None and day >= first]
            assert later.total.elapsed_ms == sum(line.elapsed_ms for line in later.days)


def test_scope_of_two_projects_has_no_hill(keeper: Keeper) -> None:
    """Its line adds up both; within one project it has that project's hill."""
    record(keeper, 1, "shop", "auth", 300, (5, HillMoved(scope="auth", position=3)), (5, SessionCompleted()))
    record(keeper, 2, "house", "auth", 200, (5, HillMoved(scope="auth", position=8)))
    record(keeper, 3, "house", "cellar", 100, (5, HillMoved(scope="cellar", position=2)))
    memo = HoursMemo()
    for _ in range(2):
        assert {line.key: line.hill for line in hours(keeper, memo).scopes} == {"auth": None, "cellar": 2}
    assert [line.hill for line in hours(keeper, memo, project="shop").scopes] == [3]


def test_cached_hours_are_empty_without_a_store(keeper: Keeper, tmp_path: Path) -> None:
    """And none is created."""
    assert hours(keeper, HoursMemo()) == CachedHours([], [], [], Line(key=None))
    assert not (tmp_path / "home").exists()


def test_cached_hours_read_a_finished_session_once(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later reads load only unfinished and changed sessions."""
    for number in range(5):
        record(keeper, number, "shop", "auth", 300, (20, SessionCompleted()))
    at_work = record(keeper, 9, "shop", "auth", 60)
    memo = HoursMemo()
    before = hours(keeper, memo)
    read: list[str] = []
    state = SqliteStore.state

    def counting(self: SqliteStore, session: str) -> object:
        read.append(session)
        return state(self, session)

    monkeypatch.setattr(SqliteStore, "state", counting)
    assert hours(keeper, memo) == before
    assert set(read) == {at_work}
    late = record(keeper, 3, "shop", "auth", 290, (0, NoteAdded(text="heard of late")))
    read.clear()
    hours(keeper, memo)
    assert set(read) == {late, at_work}


def test_cached_hours_forget_a_deleted_session(keeper: Keeper) -> None:
    gone = record(keeper, 1, "shop", "auth", 300, (20, SessionCompleted()))
    record(keeper, 2, "house", "search", 300, (20, SessionCompleted()))
    memo = HoursMemo()
    assert hours(keeper, memo).total.sessions == 2
    keeper.delete(gone, force=True)
    cached_hours = hours(keeper, memo)
    assert [line.key for line in cached_hours.scopes] == ["search"]
    assert cached_hours.total.sessions == 1


def test_session_that_began_before_the_first_day_counts_with_later_days(keeper: Keeper) -> None:
    """Its hours are cut exactly at midnight."""
    record(keeper, 1, "shop", "auth", 3 * 24 * 60, (3 * 24 * 60, SessionCompleted()))
    cached_hours = hours(keeper, HoursMemo(), since=NOW - DAY)
    assert cached_hours.total.sessions == 1
    assert [line.key for line in cached_hours.days] == [day_of(NOW - DAY, local_offset), day_of(NOW, local_offset)]
    assert DAY - HOUR < cached_hours.total.elapsed_ms < 3 * DAY
    assert_adds_up(cached_hours)
