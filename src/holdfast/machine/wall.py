"""The wall clock: the only module that reads it. Everything else gets the time as an argument.

A dead battery or a mistyped year must neither stop anyone's work nor put an event into another century: a clock that
is plainly wrong is replaced by the last known time, plus the time that has passed since.
"""
# ruff: noqa: TID251 -- this is the one place the ban points to

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # status lines must load this module quickly
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Final, overload

    from holdfast.core.times import Moment

BUILD_DATE: Final = 1_793_491_200_000  # 2026-11-01T00:00:00Z, in ms
LATEST: Final = BUILD_DATE + 7305 * 86_400_000  # 20 years later: any later time is certainly wrong
_DAY: Final = 86_400_000
_CYCLE: Final = 146_097 * 86_400  # the calendar repeats after 400 years, weekdays included


def monotonic() -> float:
    """Like `time.monotonic`, but never fails."""
    return monotonic_ns() / 1_000_000_000


def monotonic_ns() -> int:
    try:
        return time.monotonic_ns()
    except OverflowError:  # a system whose clocks all count from an absurd date
        return _time_past_64_bits("CLOCK_MONOTONIC")


def _system_time() -> int:
    """Nanoseconds since 1970 by the system clock."""
    try:
        return time.time_ns()
    except OverflowError:  # after 2262 they do not fit into 64 bits
        return _time_past_64_bits("CLOCK_REALTIME")


def _time_past_64_bits(clock: str) -> int:
    """Nanoseconds of a clock that overflows 64 bits, precise to about a microsecond."""
    read = getattr(time, "clock_gettime", None)  # not on Windows
    return 2**63 if read is None else int(read(getattr(time, clock)) * 1_000_000) * 1000


class Wall:
    """This machine's clock, corrected where it is plainly wrong."""

    def __init__(self, read: Callable[[], int] = _system_time, elapsed: Callable[[], int] = monotonic_ns) -> None:
        self._read = read
        self._elapsed = elapsed
        self._known = BUILD_DATE * 1000  # µs: it cannot be earlier
        self._known_since = elapsed()
        self._is_confirmed = False

    def now(self) -> int:
        """Milliseconds since 1970, UTC."""
        return self.micros() // 1000

    def micros(self) -> int:
        """Microseconds since 1970, UTC."""
        read = self._read() // 1000
        return read if _possible(read // 1000) else self._estimated()

    def note_time(self, ms: int) -> None:
        """Take note of a time that has certainly passed: the latest in the store. Absurd ones are ignored."""
        estimated = self._estimated()
        if _possible(ms) and ms * 1000 > estimated:
            estimated = ms * 1000
            self._is_confirmed = True
        self._known, self._known_since = estimated, self._elapsed()

    def problem(self) -> str | None:
        """What is wrong with the clock, or None."""
        read = self._read() // 1_000_000
        if not _possible(read):
            problem = "before Holdfast was built" if read <= BUILD_DATE else "too far in the future"
            return (
                f"the clock of this machine says {_day(read)}, which is {problem}: "
                "Holdfast continues from the last time it knows"
            )
        known = self._known // 1000
        if self._is_confirmed and read < known - _DAY:
            return (
                f"the clock of this machine says {_day(read)}, "
                f"but the store already has events of {_day(known)}: one of them is wrong"
            )
        return None

    def _estimated(self) -> int:
        return self._known + max(0, self._elapsed() - self._known_since) // 1000


def local_offset(ms: int) -> timedelta:
    """The offset of this machine's zone at a moment. Never fails, whatever the year."""
    from datetime import timedelta

    seconds = ms // 1000
    # Beyond the range of the system's calendar, use the same day of an equivalent year.
    for moment in (seconds, seconds % _CYCLE):
        try:
            return timedelta(seconds=time.localtime(moment).tm_gmtoff)
        except (OverflowError, OSError, ValueError):
            continue
    return timedelta(0)


def zone(ms: int) -> str:
    """The offset of this machine's zone at a moment, `+01:00`."""
    minutes = round(local_offset(ms).total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def local_text(ms: int) -> str:
    """A moment as people read and type it: `2026-11-15 10:30:00+01:00`."""
    from datetime import timedelta

    from holdfast.core.times import format_time

    text = format_time(ms + local_offset(ms) // timedelta(milliseconds=1))[:-1]
    return text.replace("T", " ").removesuffix(".000") + zone(ms)


def midnight(date: str) -> int:
    """The first moment of a day in this machine's zone, `2026-11-15`."""
    return local_moment(f"{date}T00:00:00.000")


def local_moment(text: str) -> int:
    """A time of this machine's zone without its offset, `2026-11-15T09:30:00`."""
    from holdfast.core.times import from_local, parse_time

    return from_local(parse_time(f"{text}Z"), local_offset)


if TYPE_CHECKING:

    @overload
    def as_ms(at: Moment) -> int: ...
    @overload
    def as_ms(at: Moment | None) -> int | None: ...


def as_ms(at: Moment | None) -> int | None:
    """The milliseconds of a time that a program gives; a datetime without an offset is in this machine's zone."""
    if at is None or isinstance(at, int):
        return at
    from datetime import datetime

    from holdfast.core.times import ms_of

    if not isinstance(at, datetime):
        raise TypeError(f"expected a datetime or whole milliseconds since 1970, got {at!r}")
    return ms_of(at, local_offset)


def _possible(ms: int) -> bool:
    return BUILD_DATE < ms < LATEST


def _day(ms: int) -> str:
    from datetime import UTC, datetime, timedelta

    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms):%Y-%m-%d}"
    except OverflowError:
        return f"{ms} ms after 1970"
