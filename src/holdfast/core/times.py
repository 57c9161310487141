"""Times as text, and as whole milliseconds since 1970, UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from holdfast.core.errors import Invalid

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# A time as programs give it: whole milliseconds since 1970, UTC, or a datetime.
Moment = int | datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\Z", re.ASCII)
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ](?:[01]\d|2[0-3]):\d\d(?::(\d\d)(\.\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)?\Z", re.ASCII
)
LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


_dates: dict[int, str] = {}


def format_time(ms: int) -> str:
    """A time as Holdfast writes it: `2026-11-15T09:52:11.123Z`."""
    seconds, milli = divmod(min(max(ms, EARLIEST), LATEST), SECOND)
    day, rest = divmod(seconds, 86_400)
    date = _dates.get(day)
    if date is None:  # the same few days recur
        if len(_dates) > 1000:
            _dates.clear()
        date = _dates[day] = (_EPOCH + timedelta(days=day)).date().isoformat()
    minutes, second = divmod(rest, 60)
    return f"{date}T{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{milli:03d}Z"


def file_stamp(ms: int) -> str:
    """A moment in a file's name: `20261115T093000Z`."""
    return format_time(ms)[:19].replace("-", "").replace(":", "") + "Z"


def parse_time(text: str) -> int:
    """The milliseconds of any RFC 3339 time. Raises `Invalid` for anything else."""
    match = _RFC3339.match(text)
    if match is None or match[3] is None:
        raise Invalid(
            f"{text[:60]!r} is not a time",
            hint="Write it as RFC 3339, for example 2026-11-15T09:30:00Z; in commands also in local time, as "
            "2026-11-15 09:30 or as HH:MM of today.",
        )
    # A leap second (":60") counts as the last moment of its minute.
    plain = text[:17] + "59" + text[19:] if match[1] == "60" else text
    try:
        moment = datetime.fromisoformat(plain.replace("t", "T").replace("z", "Z"))
        ms = (moment - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        raise Invalid(f"{text[:60]!r} is not a date and time that exists") from None
    if not EARLIEST <= ms <= LATEST:
        raise Invalid(f"{text[:60]!r} is not a time: in UTC it is outside the years 1 to 9999")
    return ms


def parse_typed_time(text: str, *, now: int, local: Callable[[int], timedelta]) -> int:
    """A time as a person types it: RFC 3339; without an offset in their own zone; or `HH:MM` of today.

    `local` gives the offset of their zone at a moment: the core has neither a clock nor a zone.
    """
    clock = _CLOCK.match(text)
    if clock is not None:
        today = (now + local(now) // _MILLISECOND) // DAY * DAY
        return from_local(today + int(clock[1]) * HOUR + int(clock[2]) * MINUTE, local)
    match = _RFC3339.match(text)
    return parse_time(text) if match is None or match[3] else from_local(parse_time(f"{text}Z"), local)


def from_local(as_utc: int, local: Callable[[int], timedelta]) -> int:
    """The moment of a local time, which is given as if it were UTC.

    Where clocks were set back, the first of the two moments; where they were set forward over the time, that much
    later.
    """
    offsets = {local(as_utc + day) // _MILLISECOND for day in (-DAY, 0, DAY)}
    moments = sorted(as_utc - offset for offset in offsets)
    existing = [moment for moment in moments if moment + local(moment) // _MILLISECOND == as_utc]
    return min(max(existing[0] if existing else moments[-1], EARLIEST), LATEST)


def ms_of(moment: datetime, local: Callable[[int], timedelta]) -> int:
    """The milliseconds of a datetime; without an offset, it is local time."""
    if moment.utcoffset() is None:
        return from_local((moment.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND, local)
    return (moment - _EPOCH) // _MILLISECOND


def format_duration(ms: int) -> str:
    """A duration for people: `0s`, `42s`, `12 min`, `1 h 05 min`, `3 d 4 h`."""
    seconds = max(ms, 0) // SECOND
    if seconds < 60:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
