"""The wall clock: usually right, replaced when it is absurd, and never a reason to stop."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.machine.wall import BUILD_DATE, Wall, local_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = 86_400_000
YEAR = 365 * DAY
LATER = BUILD_DATE + 30 * DAY
ABSURD = [0, -1, -(10**15), 1, BUILD_DATE - 1, BUILD_DATE, BUILD_DATE + 21 * YEAR, BUILD_DATE + 100 * YEAR, 10**18]


class Clocks:
    """A wall clock and a stopwatch that a test sets, in ms."""

    def __init__(self, wall: int) -> None:
        self.wall = wall
        self.passed = 5_000_000

    def make(self) -> Wall:
        return Wall(lambda: self.wall * 1_000_000, lambda: self.passed * 1_000_000)


def test_build_date_matches_its_literal() -> None:
    assert datetime.fromtimestamp(BUILD_DATE / 1000, UTC) == datetime(2026, 11, 1, tzinfo=UTC)


def test_wall_clock_reads_the_systems() -> None:
    before = time.time_ns()
    wall = Wall()
    read = wall.micros()
    after = time.time_ns()
    if wall.problem() is None:
        assert before // 1000 <= read <= after // 1000
        assert abs(wall.now() * 1000 - read) < 10**9


@pytest.mark.parametrize("ms", [BUILD_DATE + 1, LATER, BUILD_DATE + 19 * YEAR])
def test_plausible_clock_is_used(ms: int) -> None:
    """Even when the store knows a later time, which the logical clock orders."""
    wall = Clocks(ms).make()
    wall.note_time(LATER + YEAR)
    assert wall.now() == ms
    assert wall.micros() == ms * 1000


@pytest.mark.parametrize("ms", ABSURD)
def test_absurd_clock_is_replaced_by_the_last_known_time(ms: int) -> None:
    """Plus the time since it was noted."""
    clocks = Clocks(ms)
    wall = clocks.make()
    wall.note_time(LATER)
    assert wall.now() == LATER
    clocks.passed += 1234
    assert wall.now() == LATER + 1234
    assert wall.micros() == (LATER + 1234) * 1000


@pytest.mark.parametrize("ms", ABSURD)
def test_absurd_clock_without_a_known_time_starts_at_the_build_date(ms: int) -> None:
    clocks = Clocks(ms)
    wall = clocks.make()
    clocks.passed += 50
    assert wall.now() == BUILD_DATE + 50


@pytest.mark.parametrize("ms", ABSURD)
def test_absurd_known_time_is_ignored(ms: int) -> None:
    """It comes from a peer's broken clock."""
    clocks = Clocks(0)
    wall = clocks.make()
    wall.note_time(LATER)
    wall.note_time(ms)
    assert wall.now() == LATER


def test_known_time_never_decreases() -> None:
    """An older time changes nothing, and the elapsed time is kept."""
    clocks = Clocks(0)
    wall = clocks.make()
    wall.note_time(LATER)
    clocks.passed += 1000
    wall.note_time(LATER - DAY)
    assert wall.now() == LATER + 1000
    wall.note_time(LATER + 500)
    assert wall.now() == LATER + 1000
    wall.note_time(LATER + 2000)
    assert wall.now() == LATER + 2000


def test_wall_clock_follows_a_clock_that_recovers() -> None:
    """Absurd for a while within one process."""
    clocks = Clocks(LATER)
    wall = clocks.make()
    wall.note_time(LATER - 10)
    clocks.wall = 0
    clocks.passed += 100
    assert wall.now() == LATER + 90
    clocks.wall = LATER + 200
    assert wall.now() == LATER + 200


def test_wall_clock_tolerates_a_stopwatch_that_goes_back() -> None:
    """As on some virtual machines."""
    clocks = Clocks(0)
    wall = clocks.make()
    wall.note_time(LATER)
    clocks.passed -= 4000
    assert wall.now() == LATER


@given(
    st.lists(st.tuples(st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70), st.integers(0, DAY)), max_size=20)
)
def test_wall_time_is_plausible_for_any_clock_and_noted_time(steps: list[tuple[int, int, int]]) -> None:
    clocks = Clocks(0)
    wall = clocks.make()
    for shown, noted, passed in steps:
        clocks.wall = shown
        clocks.passed += passed
        wall.note_time(noted)
        assert BUILD_DATE <= wall.now() < BUILD_DATE + 21 * YEAR


def test_plausible_clock_has_no_problem() -> None:
    """Also when the store is a few hours ahead."""
    wall = Clocks(LATER).make()
    assert wall.problem() is None
    wall.note_time(LATER + DAY // 2)
    assert wall.problem() is None


@pytest.mark.parametrize("ms", ABSURD)
def test_absurd_clock_is_reported_in_a_sentence(ms: int) -> None:
    """Also when its year cannot be written as a date."""
    problem = Clocks(ms).make().problem()
    assert problem is not None
    assert problem.startswith("the clock of this machine says")
    assert "\n" not in problem


def test_report_of_a_wrong_clock_names_date_and_direction() -> None:
    assert "1970-01-01, which is before Holdfast was built" in (Clocks(0).make().problem() or "")
    assert "2126-" in (Clocks(BUILD_DATE + 100 * YEAR).make().problem() or "")
    assert "too far in the future" in (Clocks(BUILD_DATE + 100 * YEAR).make().problem() or "")


def test_store_days_ahead_of_the_clock_is_reported() -> None:
    """Either may be wrong."""
    wall = Clocks(LATER).make()
    wall.note_time(LATER + 3 * DAY)
    assert "the store already has events of" in (wall.problem() or "")


# --- zones -------------------------------------------------------------------------------------------


@pytest.fixture
def zone() -> Iterator[None]:
    """Restores the machine's time zone afterwards."""
    before = os.environ.get("TZ")
    yield
    if before is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = before
    time.tzset()


def set_zone(name: str) -> None:
    os.environ["TZ"] = name
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_offset_is_the_one_in_force_at_that_time() -> None:
    """Summer and winter time, by a rule that needs no zone files."""
    set_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    winter = int(datetime(2027, 1, 15, tzinfo=UTC).timestamp() * 1000)
    summer = int(datetime(2027, 7, 15, tzinfo=UTC).timestamp() * 1000)
    assert local_offset(winter) == timedelta(hours=1)
    assert local_offset(summer) == timedelta(hours=2)


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(("rule", "minutes"), [("XXX+9:30", -570), ("XXX-5:45", 345), ("UTC0", 0)])
def test_offset_of_half_and_quarter_hours_is_exact(rule: str, minutes: int) -> None:
    """East and west."""
    set_zone(rule)
    assert local_offset(LATER) == timedelta(minutes=minutes)


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("ms", [-(10**30), -(10**18), -(10**14), -1, 0, 10**14, 10**18, 2**63, 10**30])
def test_offset_of_distant_years_is_less_than_a_day(ms: int) -> None:
    """And never an error."""
    set_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    assert abs(local_offset(ms)) < timedelta(days=1)


def test_offset_is_zero_when_the_system_has_no_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(seconds: float) -> time.struct_time:
        raise OSError("no")

    monkeypatch.setattr(time, "localtime", refuse)
    assert local_offset(LATER) == timedelta(0)


@pytest.mark.usefixtures("zone")
def test_offset_beyond_the_systems_calendar_keeps_the_season(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of the same day 400 years earlier."""
    set_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    real = time.localtime
    first_refused = 32_535_215_999  # the year 3001, where Windows ends

    def windows(seconds: float) -> time.struct_time:
        if not 0 <= seconds < first_refused:
            raise OSError(22, "Invalid argument")
        return real(seconds)

    monkeypatch.setattr(time, "localtime", windows)
    summer = int((datetime(4027, 7, 15, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    assert local_offset(summer) == timedelta(hours=2)
