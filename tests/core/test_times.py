"""Times are read as in RFC 3339 and written in one form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.core.times import (
    DAY,
    EARLIEST,
    HOUR,
    LATEST,
    MINUTE,
    SECOND,
    format_duration,
    format_time,
    parse_time,
    parse_typed_time,
)

NOON = 1_794_744_000_000


@pytest.mark.parametrize(
    ("ms", "written"),
    [
        (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"), (NOON + 7, "2026-11-15T12:00:00.007Z"),
        (EARLIEST, "0001-01-01T00:00:00.000Z"), (LATEST, "9999-12-31T23:59:59.999Z"),
        (-62_104_060_800_000, "0002-01-01T00:00:00.000Z"), (-30_610_224_000_000, "1000-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    ],
)  # fmt: skip
def test_time_is_written_and_read_in_one_form(ms: int, written: str) -> None:
    """From the first to the last possible year."""
    assert format_time(ms) == written
    assert parse_time(written) == ms


@pytest.mark.parametrize("ms", [LATEST + 1, 10**18, 2**63, 10**400])
def test_time_beyond_the_calendar_is_clamped(ms: int) -> None:
    """It never raises."""
    assert format_time(ms) == "9999-12-31T23:59:59.999Z"
    assert format_time(-ms) == "0001-01-01T00:00:00.000Z"


@given(st.integers(EARLIEST, LATEST))
def test_writing_and_reading_are_inverse(ms: int) -> None:
    """For every millisecond, and equal to Python's own calendar."""
    assert parse_time(format_time(ms)) == ms
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert format_time(ms) == moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


@given(st.integers(EARLIEST, LATEST), st.integers(EARLIEST, LATEST))
def test_written_times_sort_like_the_times(one: int, two: int) -> None:
    assert (format_time(one) < format_time(two)) == (one < two)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-11-15T12:00:00Z", NOON), ("2026-11-15t12:00:00z", NOON), ("2026-11-15 12:00:00Z", NOON),
        ("2026-11-15T06:00:00-06:00", NOON), ("2026-11-15T17:30:00+05:30", NOON), ("2026-11-15T17:30:00+0530", NOON),
        ("2026-11-15T12:00:00-00:00", NOON), ("2026-11-16T01:45:00+13:45", NOON), ("2026-11-15T12:00Z", NOON),
        ("2026-11-15T12:00:00.1Z", NOON + 100), ("2026-11-15T12:00:00.0019999Z", NOON + 1),
        ("2026-11-15T12:00:00.123456789Z", NOON + 123), ("1969-12-31T23:59:59.9999Z", -1),
    ],
)  # fmt: skip
def test_rfc_3339_spellings_are_accepted(written: str, meant: int) -> None:
    """Offsets, fractions of any length and lower-case letters; digits beyond milliseconds are dropped."""
    assert parse_time(written) == meant


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("2016-12-31T23:59:60.5Z", "2016-12-31T23:59:59.5Z"),
        ("2017-01-01T00:59:60+01:00", "2016-12-31T23:59:59Z"),
    ],
)
def test_leap_second_counts_as_the_last_second_of_its_minute(written: str, same: str) -> None:
    assert parse_time(written) == parse_time(same)


@pytest.mark.parametrize(
    "written",
    [
        "", "now", "12:00", "2026-11-15", "2026-11-15T12Z", "2026-11-15T12:00", "2026-11-15T12:00:00",
        "20261115T120000Z", "2026-11-15T24:00:00Z", "2026-11-15T12:60:00Z", "2026-11-15T12:00:61Z",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z", "2026-00-01T12:00:00Z", "0000-01-01T00:00:00Z", "2026-11-15T12:00:00+25:00",
        "2026-11-15T12:00:00+24:00", "2026-11-15T12:00:00.Z", "2026-11-15T12:00:00.1234567890Z",
        "2026-11-15T12:00:00Z\n", " 2026-11-15T12:00:00Z", "12026-11-15T12:00:00Z", "-026-11-15T12:00:00Z",
        "2026-11-15T12:00:00 Z", "2026-W46-7T12:00:00Z", "２０２６-11-15T12:00:00Z", "2026-11-15T1٢:00:00Z",
        "2026-11-15T12:00:00.٥Z", "2026-11-15T12:00:00+0٥:00", "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01", "2026-11-15T12:00:00Z" + "0" * 10_000, "\ud800", "2026-11-15T12:00:00\0Z",
    ],
)  # fmt: skip
def test_invalid_times_are_refused(written: str) -> None:
    """Other digits, missing zones, dates that do not exist."""
    with pytest.raises(Invalid):
        parse_time(written)


@given(st.text(max_size=30) | st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:?\d\d)"))
def test_reading_any_text_gives_a_time_or_invalid(written: str) -> None:
    try:
        ms = parse_time(written)
    except Invalid:
        return
    assert EARLIEST <= ms <= LATEST


@pytest.mark.parametrize(
    ("written", "offset", "meant"),
    [
        ("12:00", 0, "2026-11-15T12:00:00Z"), ("9:05", 0, "2026-11-15T09:05:00Z"),
        ("00:00", 60, "2026-11-14T23:00:00Z"), ("23:59", -360, "2026-11-16T05:59:00Z"),
        ("08:00", 330, "2026-11-15T02:30:00Z"), ("2026-11-14T08:00:00Z", 330, "2026-11-14T08:00:00Z"),
        ("2027-03-02 10:21", 60, "2027-03-02T09:21:00Z"), ("2027-03-02T10:21", 60, "2027-03-02T09:21:00Z"),
        ("2027-03-02 10:21:30", -300, "2027-03-02T15:21:30Z"),
        ("2027-03-02T10:21+01:00", 330, "2027-03-02T09:21:00Z"),
        ("0001-01-01 00:00", 60, "0001-01-01T00:00:00Z"),
    ],
)  # fmt: skip
def test_typed_time_without_an_offset_is_in_the_persons_zone(written: str, offset: int, meant: str) -> None:
    """HH:MM means today; a given offset counts."""
    assert parse_typed_time(written, now=NOON, local=lambda _: timedelta(minutes=offset)) == parse_time(meant)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("2026-07-01 12:00", "2026-07-01T10:00:00Z"), ("2026-10-25 01:59", "2026-10-24T23:59:00Z"),
     ("2026-10-25 03:00", "2026-10-25T02:00:00Z"), ("12:00", "2026-11-15T11:00:00Z")],
)  # fmt: skip
def test_typed_time_uses_the_offset_in_force_at_that_time(written: str, meant: str) -> None:
    change = parse_time("2026-10-25T01:00:00Z")
    assert parse_typed_time(
        written, now=NOON, local=lambda at: timedelta(hours=2 if at < change else 1)
    ) == parse_time(meant)


def test_typed_clock_time_means_today_in_the_persons_zone() -> None:
    """Just after midnight east of Greenwich, UTC's date is still yesterday."""
    now = parse_time("2026-11-15T23:30:00Z")
    assert parse_typed_time("00:15", now=now, local=lambda _: timedelta(hours=1)) == parse_time(
        "2026-11-15T23:15:00Z"
    )
    assert parse_typed_time("00:15", now=now, local=lambda _: timedelta(0)) == parse_time("2026-11-15T00:15:00Z")


@pytest.mark.parametrize(
    "written",
    ["24:00", "12:60", "1:2", "٠٩:٣٠", "1٢:30", "٩:3٠", "１２:00", "12:00\n", "-1:00", "12:00:00", "012:00"],
)
def test_invalid_clock_times_are_refused(written: str) -> None:
    """Minute 60, hour 24, digits outside ASCII."""
    with pytest.raises(Invalid):
        parse_typed_time(written, now=NOON, local=lambda _: timedelta(0))


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (-5, "0s"), (0, "0s"), (999, "0s"), (42 * SECOND, "42s"), (MINUTE - 1, "59s"), (MINUTE, "1 min"),
        (12 * MINUTE, "12 min"), (HOUR - 1, "59 min"), (HOUR + 5 * MINUTE, "1 h 05 min"),
        (2 * DAY - 1, "47 h 59 min"), (3 * DAY + 4 * HOUR, "3 d 4 h"),
    ],
)  # fmt: skip
def test_duration_is_rounded_down_for_people(ms: int, shown: str) -> None:
    assert format_duration(ms) == shown
