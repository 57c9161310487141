"""A calendar of the last 53 weeks: a square for each day, darker for more work.

Two drawings side by side, of past weeks and of this one: during work only the small one is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from markupsafe import Markup

from holdfast.core.times import HOUR, MINUTE, format_duration
from holdfast.core.wording import count

WEEKS: Final = 53
_PITCH: Final = 14  # from one square to the next; hours.css knows their size and the resulting widths
_SQUARE_SIZE: Final = 11
_LEFT: Final = 30
_TOP: Final = 16
_HEIGHT: Final = _TOP + 7 * _PITCH + 2
_PAST_WIDTH: Final = _LEFT + (WEEKS - 1) * _PITCH
_WEEK_WIDTH: Final = _PITCH + 2
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# The amount of work that one step represents: the scale changes rarely, and its limits are round.
_UNITS: Final = (15 * MINUTE, 30 * MINUTE, *(hours * HOUR for hours in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)))


class WorkedDay(NamedTuple):
    working_ms: int
    sessions: int


class Calendar(NamedTuple):
    # Each with its own id: `heat-past`, `heat-week`.
    past: Markup
    this_week: Markup
    # The five steps in words, the lightest first.
    steps: tuple[str, ...]


def first_day(today: date) -> date:
    """The Monday on which the calendar begins."""
    return today - timedelta(days=today.weekday(), weeks=WEEKS - 1)


def calendar(days: Mapping[date, WorkedDay], today: date) -> Calendar:
    """Days outside the calendar are left out; a day without work has a square too."""
    first = first_day(today)
    shown = [first + timedelta(days=number) for number in range((today - first).days + 1)]
    unit = _unit(days[day].working_ms for day in shown if day in days)
    first_this_week = (WEEKS - 1) * 7
    squares = [
        _square(day, days.get(day), unit, number // 7, this_week=number >= first_this_week, now=day == today)
        for number, day in enumerate(shown)
    ]
    past, this_week = Markup("").join(squares[:first_this_week]), Markup("").join(squares[first_this_week:])
    names = Markup("").join(
        Markup('<text x="0" y="{}">{}</text>').format(_TOP + row * _PITCH + _SQUARE_SIZE - 2, _WEEKDAYS[row])
        for row in (0, 2, 4)
    )
    return Calendar(
        _drawing(
            "heat-past", _PAST_WIDTH, f"Hours worked each day from {in_words(first)}", names + _months(first) + past
        ),
        _drawing("heat-week", _WEEK_WIDTH, "Hours worked each day of this week", this_week),
        ("nothing", *(f"up to {_length(unit * step)}" for step in (1, 2, 3)), "more"),
    )


def in_words(day: date) -> str:
    """`Tue 3 Nov 2026`, whatever the machine's language."""
    return f"{_WEEKDAYS[day.weekday()]} {day.day} {_MONTHS[day.month - 1]} {day.year}"


def day_text(day: date, worked: WorkedDay | None) -> str:
    """`Tue 3 Nov 2026: 4 h 12 min worked, 3 sessions`"""
    if worked is None or not worked.working_ms:
        return f"{in_words(day)}: nothing"
    return f"{in_words(day)}: {format_duration(worked.working_ms)} worked, {count(worked.sessions, 'session')}"


def step(working_ms: int, unit: int) -> int:
    """Which of the five steps: 0 only for no work at all."""
    return 0 if working_ms <= 0 else min(-(-working_ms // unit), 4)


def _unit(amounts: Iterable[int]) -> int:
    """The smallest unit with which nine of ten days fit the scale."""
    worked = sorted(amount for amount in amounts if amount > 0)
    typical = worked[(len(worked) - 1) * 9 // 10] if worked else 0
    return next((unit for unit in _UNITS if typical <= 4 * unit), _UNITS[-1])


def _length(ms: int) -> str:
    return f"{ms // MINUTE} min" if ms < HOUR else f"{ms / HOUR:g} h"


@lru_cache(maxsize=4096)
def _square(day: date, worked: WorkedDay | None, unit: int, column: int, *, this_week: bool, now: bool) -> Markup:
    """Cached: most days never change again, and the calendar is drawn often."""
    return Markup(
        '<rect{} class="s{}{}" x="{}" y="{}" role="img" tabindex="{}" data-day="{}"><title>{}</title></rect>'
    ).format(
        # Days that are sent again have ids, so that the focus stays.
        Markup(' id="at-{}"').format(day.isoformat()) if this_week else "",
        step(worked.working_ms, unit) if worked else 0, " today" if now else "",
        1 if this_week else _LEFT + column * _PITCH, _TOP + day.weekday() * _PITCH, 0 if now else -1, day.isoformat(),
        day_text(day, worked) + (" (today)" if now else ""),
    )  # fmt: skip


def _months(first: date) -> Markup:
    """The name of a month, above the week in which it begins."""
    begins = [
        (column, end.month) for column in range(WEEKS - 1) if (end := first + timedelta(days=7 * column + 6)).day <= 7
    ]
    if begins[0][0] > 2:  # there is room for the month that had begun before
        begins.insert(0, (0, first.month))
    return Markup("").join(
        Markup('<text x="{}" y="9">{}</text>').format(_LEFT + column * _PITCH, _MONTHS[month - 1])
        for column, month in begins
        if column < WEEKS - 2
    )


def _drawing(name: str, width: int, label: str, inside: Markup) -> Markup:
    return Markup('<svg class="days" id="{}" viewBox="0 0 {} {}" role="group" aria-label="{}">{}</svg>').format(
        name, width, _HEIGHT, label, inside
    )
