"""Times are read as RFC 3339 means them, and written in one way."""

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
def test_written_and_read(ms: int, written: str) -> None:
    """Literal examples, from the first to the last year there is."""
    assert format_time(ms) == written
    assert parse_time(written) == ms


@pytest.mark.parametrize("ms", [LATEST + 1, 10**18, 2**63, 10**400])
def test_far_beyond_the_calendar(ms: int) -> None:
    """Times no calendar has are shown as the last or first one, never as an exception."""
    assert format_time(ms) == "9999-12-31T23:59:59.999Z"
    assert format_time(-ms) == "0001-01-01T00:00:00.000Z"


@given(st.integers(EARLIEST, LATEST))
def test_the_two_are_inverse(ms: int) -> None:
    """Every millisecond of every year reads back as itself, and as Python's own calendar writes it."""
    assert parse_time(format_time(ms)) == ms
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert format_time(ms) == moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


@given(st.integers(EARLIEST, LATEST), st.integers(EARLIEST, LATEST))
def test_text_sorts_as_time(one: int, two: int) -> None:
    """Comparing what is written compares the times."""
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
def test_spellings(written: str, meant: int) -> None:
    """Offsets, fractions of any length and small letters are understood; what is finer is cut off."""
    assert parse_time(written) == meant


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("2016-12-31T23:59:60.5Z", "2016-12-31T23:59:59.5Z"),
        ("2017-01-01T00:59:60+01:00", "2016-12-31T23:59:59Z"),
    ],
)
def test_a_leap_second_is_the_last_of_its_minute(written: str, same: str) -> None:
    """A leap second is accepted, and no later than the minute it belongs to."""
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
def test_what_is_not_a_time_is_refused(written: str) -> None:
    """Everything else is invalid and says so: other digits, missing zones, days that do not exist."""
    with pytest.raises(Invalid):
        parse_time(written)


@given(st.text(max_size=30) | st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:?\d\d)"))
def test_reading_never_does_anything_else(written: str) -> None:
    """Any text is a time within the calendar, or `Invalid`."""
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
def test_as_a_person_types_it(written: str, offset: int, meant: str) -> None:
    """Without an offset it is of the person's own zone, HH:MM of today; with one it is what it says."""
    assert parse_typed_time(written, now=NOON, local=lambda _: timedelta(minutes=offset)) == parse_time(meant)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("2026-07-01 12:00", "2026-07-01T10:00:00Z"), ("2026-10-25 01:59", "2026-10-24T23:59:00Z"),
     ("2026-10-25 03:00", "2026-10-25T02:00:00Z"), ("12:00", "2026-11-15T11:00:00Z")],
)  # fmt: skip
def test_the_offset_is_that_of_the_moment_when_clocks_were_changed_since(written: str, meant: str) -> None:
    change = parse_time("2026-10-25T01:00:00Z")
    assert parse_typed_time(
        written, now=NOON, local=lambda at: timedelta(hours=2 if at < change else 1)
    ) == parse_time(meant)


def test_today_is_the_persons_today() -> None:
    """Just after midnight east of Greenwich, today has begun although UTC's has not."""
    now = parse_time("2026-11-15T23:30:00Z")
    assert parse_typed_time("00:15", now=now, local=lambda _: timedelta(hours=1)) == parse_time(
        "2026-11-15T23:15:00Z"
    )
    assert parse_typed_time("00:15", now=now, local=lambda _: timedelta(0)) == parse_time("2026-11-15T00:15:00Z")


@pytest.mark.parametrize(
    "written",
    ["24:00", "12:60", "1:2", "٠٩:٣٠", "1٢:30", "٩:3٠", "１２:00", "12:00\n", "-1:00", "12:00:00", "012:00"],
)
def test_other_clock_times_are_refused(written: str) -> None:
    """There is no minute 60, no hour 24, and digits are ASCII."""
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
def test_lengths_for_people(ms: int, shown: str) -> None:
    """A length of time is rounded down to what people would say."""
    assert format_duration(ms) == shown
