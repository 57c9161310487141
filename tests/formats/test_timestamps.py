"""Times in documents: naive ones near changes of the clocks, days alone, leap seconds, and years nobody meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.core.events import ProjectFacts
from holdfast.core.times import EARLIEST, HOUR, LATEST, MINUTE, format_time, parse_time
from holdfast.formats.base import ImportContext
from holdfast.formats.timestamps import in_millis, in_seconds, in_shortest_form, is_time, is_utc, read_time

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _offset(zone: str, ms: int) -> timedelta:
    shift = (_EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(zone)).utcoffset()
    assert shift is not None
    return shift


def here(zone: str) -> ImportContext:
    return _context(lambda ms: _offset(zone, ms))


def fixed(hours: int) -> ImportContext:
    return _context(lambda _: timedelta(hours=hours))


def _context(offset: object) -> ImportContext:
    project = ProjectFacts(id="p", name="shop", path="/shop")
    return ImportContext(project, "desk", parse_time("2026-11-15T12:00:00Z"), offset)  # type: ignore[arg-type]


def naive(ms: int, zone: str) -> str:
    """What a clock on the wall shows there."""
    return (_EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat()


# Around the days when clocks change, and any other day since the zones settled down.
_CHANGES = [
    parse_time(f"{day}T00:00:00Z") for day in ("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05")
]
_MOMENTS = st.one_of(
    st.builds(lambda day, minutes: day + minutes * MINUTE, st.sampled_from(_CHANGES), st.integers(-1500, 3000)),
    st.integers(parse_time("2015-01-01T00:00:00Z"), parse_time("2037-01-01T00:00:00Z")),
)


@given(_MOMENTS, st.sampled_from(ZONES))
def test_time_without_a_zone_is_local_clock_time(ms: int, zone: str) -> None:
    """Read back it is that moment, or, in the hour that clocks showed twice, the other one that looks the same."""
    shown = naive(ms, zone)
    moment = read_time(shown, here(zone))
    assert moment.assumed is not None
    assert naive(moment.ms, zone) == shown
    assert moment.ms == ms or abs(moment.ms - ms) in (HOUR, HOUR // 2)


@pytest.mark.parametrize(
    ("zone", "written", "utc"),
    [
        ("Europe/Berlin", "2026-03-29T01:59:59", "2026-03-29T00:59:59.000Z"),
        ("Europe/Berlin", "2026-03-29T03:00:00", "2026-03-29T01:00:00.000Z"),
        ("Europe/Berlin", "2026-10-25T01:59:59", "2026-10-24T23:59:59.000Z"),
        ("Europe/Berlin", "2026-10-25T03:00:00", "2026-10-25T02:00:00.000Z"),
        ("America/New_York", "2026-03-08T01:59:59", "2026-03-08T06:59:59.000Z"),
        ("America/New_York", "2026-03-08T03:00:00", "2026-03-08T07:00:00.000Z"),
        ("America/New_York", "2026-11-01T00:59:59", "2026-11-01T04:59:59.000Z"),
        ("America/New_York", "2026-11-01T02:00:00", "2026-11-01T07:00:00.000Z"),
        ("Asia/Kolkata", "2026-01-01 05:30", "2026-01-01T00:00:00.000Z"),
    ],
)
def test_hours_around_a_change_of_the_clocks(zone: str, written: str, utc: str) -> None:
    assert format_time(read_time(written, here(zone)).ms) == utc


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_skipped_hour_is_read_within_an_hour_of_what_was_meant(zone: str) -> None:
    day = "2026-03-29" if zone == "Europe/Berlin" else "2026-03-08"
    before, after = (read_time(f"{day}T{clock}:00", here(zone)).ms for clock in ("01:59", "03:00"))
    assert before - HOUR <= read_time(f"{day}T02:30:00", here(zone)).ms <= after + HOUR


def test_date_alone_is_its_first_local_moment() -> None:
    moment = read_time(" 2026-10-25 ", here("Europe/Berlin"))
    assert format_time(moment.ms) == "2026-10-24T22:00:00.000Z"
    assert moment.assumed == "a date without a time is taken as its first moment, local"


@pytest.mark.parametrize(
    ("written", "utc"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01t00:00:00.5z", "2026-01-01T00:00:00.500Z"),
        ("2026-01-01T00:00:00-06:00", "2026-01-01T06:00:00.000Z"),
        ("2026-01-01 00:00+0530", "2025-12-31T18:30:00.000Z"),
        ("\t2026-01-01T00:00:00.123456789Z\n", "2026-01-01T00:00:00.123Z"),
    ],
)
def test_time_with_a_zone_needs_no_assumption(written: str, utc: str) -> None:
    assert read_time(written, fixed(9)) == (parse_time(utc), None)


@pytest.mark.parametrize("written", ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.9Z", "2016-12-31T23:59:60"])
def test_leap_second_is_the_last_second_of_its_minute(written: str) -> None:
    assert in_seconds(read_time(written, fixed(0)).ms) == "2016-12-31T23:59:59Z"
    assert is_utc(written) == written.endswith("Z")


@pytest.mark.parametrize(
    "written",
    [
        "", " ", "yesterday", "10:30", "2026", "2026-1-1", "2026-02-30", "2026-02-29T10:00:00",
        "2026-13-01T00:00:00Z", "2026-01-01T24:00:00", "2026-01-01T10:60:00Z", "2026-01-01T10:00:61", "0000-01-01",
        "2026-01-01T10:00:00.Z", "0000-00-00T00:00:00Z", "10000-01-01T00:00:00Z", "-0001-01-01", "٢٠٢٦-01-01",
        "2026-01-01T10:00:00+25:00", "2026-01-01T10:00:00 UTC", "1763200000", "2026-01-01T10:00:00Z\0",
        "2026-01-01\n2026-01-02",
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(written: str) -> None:
    with pytest.raises(Invalid):
        read_time(written, fixed(0))
    assert not is_time(written)
    assert not is_utc(written)


@pytest.mark.parametrize(("written", "hours"), [("0001-01-01T00:00:00", 14), ("0001-01-01", 1), ("9999-12-31", -25)])
def test_year_that_ends_up_outside_the_calendar_is_refused(written: str, hours: int) -> None:
    with pytest.raises(Invalid, match="years 1 to 9999"):
        read_time(written, fixed(hours))


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00Z", "0001-01-01", "9999-12-31T23:59:59.999", "9999-12-31"])
def test_first_and_the_last_year_are_years(written: str) -> None:
    assert EARLIEST <= read_time(written, fixed(0)).ms <= LATEST


def test_strict_reader_accepts_only_times_with_a_zone() -> None:
    assert is_time("2026-01-01T00:00:00+01:00")
    assert not is_time("2026-01-01T00:00:00")
    assert is_utc("2026-01-01T00:00:00.5Z")
    for odd in ("2026-01-01T00:00:00+00:00", "2026-01-01t00:00:00Z", "2026-01-01 00:00:00Z", "2026-01-01T00:00Z"):
        assert not is_utc(odd)
    assert not is_utc("2026-02-30T00:00:00Z")


@given(st.integers(EARLIEST, LATEST))
def test_what_is_written_is_read_again(ms: int) -> None:
    assert read_time(in_millis(ms), fixed(5)) == (ms, None)
    assert read_time(in_shortest_form(ms), fixed(5)) == (ms, None)
    assert read_time(in_seconds(ms), fixed(5)).ms == ms // 1000 * 1000
    assert all(is_utc(written) for written in (in_millis(ms), in_seconds(ms), in_shortest_form(ms)))


@given(st.integers())
def test_any_number_can_be_written_as_a_time(ms: int) -> None:
    """Clamped to the calendar: a state may hold anything, and rendering never fails."""
    assert is_utc(in_millis(ms))
    assert is_utc(in_seconds(ms))
    assert is_utc(in_shortest_form(ms))


def test_shortest_spelling_leaves_out_no_milliseconds() -> None:
    assert in_shortest_form(1_763_200_000_000) == "2025-11-15T09:46:40Z"
    assert in_shortest_form(1_763_200_000_010) == "2025-11-15T09:46:40.010Z"
