"""Times as agents write them, millions of them: the same hours come again and again."""

from __future__ import annotations

from holdfast.core.errors import Invalid
from holdfast.core.times import LATEST, parse_time

_hours: dict[str, int] = {}


def moment(written: str | None) -> int | None:
    """Milliseconds of a time as a program writes it; None for anything else."""
    if written is None:
        return None
    if len(written) == 24 and written[23] == "Z" and written[16] == ":" and written[19] == ".":
        # Taking a calendar date apart costs more than the rest of a line.
        hour = _hours.get(written[:14])
        if hour is None:
            hour = _hour(written[:14])
        minute, second = written[14:16], written[17:19] + written[20:23]
        if hour is not None and minute.isdecimal() and second.isdecimal() and written.isascii():
            return hour + min(int(minute), 59) * 60_000 + min(int(second), 59_999)
    try:
        return parse_time(written)
    except Invalid:
        return None


def in_millis(value: object) -> int | None:
    """A time that a program writes as a number of milliseconds; None for anything else."""
    number = value if type(value) is int or type(value) is float else 0
    return int(number) if 0 < number < LATEST else None


def _hour(written: str) -> int | None:
    if len(_hours) > 10_000:
        _hours.clear()
    try:
        _hours[written] = parse_time(f"{written}00:00Z")
    except Invalid:
        return None
    return _hours[written]
