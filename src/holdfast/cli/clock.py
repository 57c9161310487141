"""Moments as a person reads them: in their own zone, and no longer than they need to be today."""

from __future__ import annotations

from holdfast.core.times import format_time, parse_time
from holdfast.core.wording import age, ago
from holdfast.machine.wall import local_offset

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def local(ms: int) -> str:
    """The moment in this machine's zone, in the form of `times.format_time`, without its `Z`."""
    offset = local_offset(ms)
    return format_time(ms + (offset.days * 86_400 + offset.seconds) * 1000)[:-1]


def stamp(ms: int) -> str:
    """`2026-11-15 09:02:11`, local."""
    return local(ms)[:19].replace("T", " ")


class Clock:
    """What a person calls a moment, seen from `now`."""

    __slots__ = ("_day", "now")

    def __init__(self, now: int) -> None:
        self.now = now
        self._day = local(now)[:10]

    def at(self, moment: str | int) -> str:
        """`14:02` today, `Nov 12 14:02` this year, `2025-11-12 14:02` before."""
        local_time = local(moment if isinstance(moment, int) else parse_time(moment))
        if local_time[:10] == self._day:
            return local_time[11:16]
        return f"{_day(local_time, self._day)} {local_time[11:16]}"

    def ago(self, moment: str) -> str:
        return ago(self.now - parse_time(moment))

    def age(self, moment: str) -> str:
        return age(self.now - parse_time(moment))


def with_seconds(ms: int) -> str:
    """A length of time whose seconds are seen to pass: `0:00:42`, `1:05:09`, `76:00:00`."""
    minutes, seconds = divmod(max(ms, 0) // 1000, 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


def day_name(ms: int, now: int) -> str:
    """`Nov 12` this year, `2025-11-12` in another."""
    return _day(local(ms), local(now))


def _day(local_time: str, now: str) -> str:
    return (
        f"{MONTHS[int(local_time[5:7]) - 1]} {int(local_time[8:10])}"
        if local_time[:4] == now[:4]
        else local_time[:10]
    )
