"""Hours: how much was worked, day by day, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup, escape

from holdfast.core.errors import Invalid
from holdfast.core.times import MINUTE, SECOND
from holdfast.machine.wall import midnight
from holdfast.sessions.hours.cache import CachedHours, HoursMemo, hours
from holdfast.sessions.hours.table import Line, csv_of, worked_days
from holdfast.web.charts import heat
from holdfast.web.pages import Page, PageContent, PageExtra, PageRequest
from holdfast.web.render import local, render

if TYPE_CHECKING:
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper

# By the word in the address: its name, and how many days it has.
PERIODS: Final[dict[str, tuple[str, int | None]]] = {
    "7d": ("7 days", 7), "30d": ("30 days", 30), "year": ("a year", 365), "all": ("all time", None),
}  # fmt: skip
_DEFAULT_PERIOD: Final = "30d"
_COMPLETE: Final = "whole"  # in the stream's address: wait until everything is added up
_MAX_QUICK: Final = 500  # sessions that are added up while the person waits
_QUARTER: Final = 15 * MINUTE
_MAX_CACHED: Final = 200  # months as they were drawn
_MAX_ROWS: Final = 40
_MAX_MONTHS: Final = 14  # months with a list of days; earlier ones show only the sum


class HoursRow(NamedTuple):
    """A line of a table with its times as shown: in full seconds, which add up to the table's total."""

    line: Line
    working: int


class Month(NamedTuple):
    name: str
    total: Line
    days: Sequence[tuple[str, HoursRow]]
    most: int


class HoursMemory:
    """What was added up in this home."""

    def __init__(self) -> None:
        self.memo = HoursMemo()
        self.warm = False


class HoursPage:
    name = "hours"
    title = "Hours"

    def __init__(self) -> None:
        self._memories: dict[str, HoursMemory] = {}
        self._drawn: dict[object, Markup] = {}

    def content(self, keeper: Keeper, request: PageRequest, /) -> PageContent:
        chosen = _choice(request)
        memory = self._memory(keeper)
        if not memory.warm and _COMPLETE not in request.query and (count := _count_sessions(keeper)) > _MAX_QUICK:
            return PageContent(
                {"hours-heading": render("hours-heading.html", adding=count, hours=None, ever=True, chosen=chosen)}
            )
        now = keeper.now()
        today = local(now).date()
        cached, year = self._add_up(
            keeper, chosen.project, _since(chosen.period, today), midnight(heat.first_day(today).isoformat())
        )
        nothing = not cached.total.sessions and not year.total.sessions
        has_sessions = not nothing or bool(keeper.project_names())
        regions = {
            "hours-heading": render("hours-heading.html", adding=0, hours=cached, ever=has_sessions, chosen=chosen),
        }
        if nothing:
            return PageContent(regions, {"hours-days": ()})
        drawn = heat.calendar({_date(line): _worked_day(line) for line in year.days if line.key}, today)
        days = worked_days(cached.days)
        months = _by_month(days)
        months_by_region = {
            f"month-{month}": self._month(month, of, latest=not at) for at, (month, of) in enumerate(months)
        }
        regions |= {
            "heat-past": drawn.past,
            "heat-week": drawn.this_week,
            "heat-legend": render("hours-legend.html", steps=drawn.steps),
            **{
                f"hours-{table}s": render("hours-table.html", by=table, chosen=chosen, **_table(lines))
                for table, lines in (("project", cached.projects), ("scope", cached.scopes))
            },
            "hours-days-heading": render("hours-days-heading.html", chosen=chosen, days=len(days)),
            **months_by_region,
        }
        return PageContent(regions, {"hours-days": tuple(months_by_region)})

    def concerns(self, change: Changes, _: PageRequest, /) -> bool:
        return bool(change.sessions) or change.other_changes

    def extras(self, keeper: Keeper, request: PageRequest, /) -> dict[str, object]:
        chosen = _choice(request)
        return {
            "chosen": chosen,
            "periods": [(word, title) for word, (title, _) in PERIODS.items()],
            # Values that return to the server must stay unchanged.
            "projects": [(escape(name), name) for name in keeper.project_names()],
            "whole": "/hours?" + urlencode({**request.query, _COMPLETE: "yes"}),
        }

    def csv(self, keeper: Keeper, request: PageRequest) -> PageExtra:
        """The page's table, chosen by `by`, as a download."""
        chosen = _choice(request)
        by = request.text("by", "day")
        today = local(keeper.now()).date()
        (cached,) = self._add_up(keeper, chosen.project, _since(chosen.period, today))
        tables = {"day": cached.days, "scope": cached.scopes, "project": cached.projects}
        if by not in tables:
            raise Invalid("unknown table", hint=f"By {', '.join(tables)}.")
        name = f"hours-by-{by}-{chosen.period}-to-{today.isoformat()}.csv"
        return PageExtra(csv_of(by, tables[by]).encode(), "text/csv; charset=utf-8", name)

    def _month(self, month: str, of: Month, *, latest: bool) -> Markup:
        """Cached: most months are over."""
        lines = (of.total, *(row.line for _, row in of.days))
        key = (month, of.most, latest, *(msgspec.structs.astuple(line) for line in lines))
        if key not in self._drawn:
            if len(self._drawn) > _MAX_CACHED:
                self._drawn.clear()
            self._drawn[key] = render("hours-month.html", month=month, of=of, latest=latest)
        return self._drawn[key]

    def _memory(self, keeper: Keeper) -> HoursMemory:
        return self._memories.setdefault(keeper.home.path, HoursMemory())

    def _add_up(self, keeper: Keeper, project: str | None, *since: int | None) -> list[CachedHours]:
        memory = self._memory(keeper)
        cached = [hours(keeper, memory.memo, project=project, since=moment) for moment in since]
        memory.warm = True
        return cached


# ── what is asked for ────────────────────────────────────────────────────────────────────────────────────


class HoursChoice(NamedTuple):
    period: str
    project: str | None

    def address(self, **other: str) -> str:
        """This page with another choice."""
        query = {"period": self.period, "project": self.project or "", **other}
        return "/hours?" + urlencode({name: word for name, word in query.items() if word})

    def download(self, by: str) -> str:
        query = {"by": by, "period": self.period, "project": self.project or ""}
        return "/hours.csv?" + urlencode({name: word for name, word in query.items() if word})

    @property
    def words(self) -> str:
        title, days = PERIODS[self.period]
        return title if days is None else f"the last {title.removeprefix('a ')}"


def _choice(request: PageRequest) -> HoursChoice:
    period = request.text("period", _DEFAULT_PERIOD)
    return HoursChoice(period if period in PERIODS else _DEFAULT_PERIOD, request.text("project") or None)


def _since(period: str, today: date) -> int | None:
    days = PERIODS[period][1]
    return None if days is None else midnight((today - timedelta(days=days - 1)).isoformat())


def _count_sessions(keeper: Keeper) -> int:
    store = keeper.existing_store()
    return 0 if store is None else sum(1 for _ in store.sessions())


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────


def _date(line: Line) -> date:
    return date.fromisoformat(line.key or "0001-01-01")


def _in_month(line: Line) -> str:
    """`Tue 3 Nov`: the year is in the heading."""
    return heat.in_words(_date(line)).rpartition(" ")[0]


def _worked_day(line: Line) -> heat.WorkedDay:
    return heat.WorkedDay(line.working_ms, line.sessions)


def _sum_lines(lines: Sequence[Line], key: str | None = None) -> Line:
    total = Line(key=key)
    for line in lines:
        total.sessions += line.sessions
        total.working_ms += line.working_ms
    return total


def _table(lines: Sequence[Line]) -> dict[str, object]:
    worked_lines = [line for line in lines if line.sessions]  # a scope may have a hill and no session
    others = worked_lines[_MAX_ROWS:]
    rows = _rows([*worked_lines[:_MAX_ROWS], *([_sum_lines(others)] if others else [])])
    return {
        "lines": rows[:_MAX_ROWS],
        "rest": rows[_MAX_ROWS] if others else None,
        "others": len(others),
        "most": max((row.working for row in rows[:_MAX_ROWS]), default=0),
    }


def _rows(lines: Sequence[Line]) -> list[HoursRow]:
    total = _sum_lines(lines)
    working = _whole_seconds([line.working_ms for line in lines], total.working_ms)
    return [HoursRow(line, shown) for line, shown in zip(lines, working, strict=True)]


def _whole_seconds(parts: Sequence[int], whole: int) -> list[int]:
    """Parts of a length of time in full seconds that add up to the whole: the largest remainders are rounded up."""
    shown = [part // SECOND for part in parts]
    missing = whole // SECOND - sum(shown)
    for number in sorted(range(len(parts)), key=lambda number: -(parts[number] % SECOND))[: max(missing, 0)]:
        shown[number] += 1
    return [seconds * SECOND for seconds in shown]


def _by_month(lines: Sequence[Line]) -> list[tuple[str, Month]]:
    """Days by month, the latest first."""
    months: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.key or "", reverse=True):
        months.setdefault((line.key or "")[:7], []).append(line)
    # Relative to a round length of time: a new longest day does not redraw all others.
    longest = max((line.working_ms for line in lines), default=0)
    scale = _QUARTER << max((-(-longest // _QUARTER) - 1).bit_length(), 0)
    return [
        (
            month,
            Month(
                f"{date.fromisoformat(month + '-01'):%B %Y}", _sum_lines(days),
                [(_in_month(row.line), row) for row in _rows(days)] if number < _MAX_MONTHS else [], scale,
            ),
        )
        for number, (month, days) in enumerate(months.items())
    ]  # fmt: skip


_PAGE: Final = HoursPage()
HOURS: Final[Page] = _PAGE
HOURS_CSV: Final = _PAGE.csv
