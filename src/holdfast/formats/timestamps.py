"""Times in documents: read in any usual spelling, written as each specification requires."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.times import EARLIEST, LATEST, SECOND, format_time, parse_time
from holdfast.formats.base import ImportContext

_MILLISECOND: Final = timedelta(milliseconds=1)
_NAIVE: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?\Z", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d{1,9})?Z\Z", re.ASCII)


class Moment(NamedTuple):
    """A time, with what was assumed to read it."""

    ms: int
    assumed: str | None = None


def is_utc(written: str) -> bool:
    """Is this a valid time in UTC, spelled with `T` and `Z`?"""
    if _UTC.match(written) is None:
        return False
    try:
        datetime.fromisoformat(written)
    except ValueError:
        return is_time(written)  # a leap second is one
    return True


def utc_ms(written: Json) -> int | None:
    """The milliseconds of such a time; None for anything else."""
    return parse_time(written) if isinstance(written, str) and is_utc(written) else None


def is_time(written: str) -> bool:
    """Is this a valid RFC 3339 time with a zone?"""
    try:
        parse_time(written)
    except Invalid:
        return False
    return True


def read_time(written: str, context: ImportContext) -> Moment:
    """A time as programs and people write it. Raises `Invalid` for anything else.

    Without a zone it is local time, and a date alone is its first moment; both are noted.
    """
    stripped = written.strip()
    if _DAY.match(stripped):
        return Moment(
            _local(f"{stripped}T00:00:00", context), "a date without a time is taken as its first moment, local"
        )
    if _NAIVE.match(stripped):
        return Moment(_local(stripped, context), "a time without a zone is taken as local time")
    return Moment(parse_time(stripped))


def _local(plain: str, context: ImportContext) -> int:
    naive_ms = parse_time(plain + "Z")
    shift = int(context.offset(naive_ms) / _MILLISECOND)
    # The offset at that time counts: near a change of the clocks the first guess may be wrong.
    ms = naive_ms - int(context.offset(naive_ms - shift) / _MILLISECOND)
    if not EARLIEST <= ms <= LATEST:
        raise Invalid(f"{plain!r} is not a time: in UTC it is outside the years 1 to 9999")
    return ms


def in_seconds(ms: int) -> str:
    """`2026-11-15T09:52:11Z`, truncated to seconds."""
    return format_time(ms // SECOND * SECOND)[:19] + "Z"


def in_millis(ms: int) -> str:
    """`2026-11-15T09:52:11.123Z`."""
    return format_time(ms)


def in_shortest_form(ms: int) -> str:
    """Without milliseconds if they are zero."""
    return in_millis(ms) if ms % SECOND else in_seconds(ms)
