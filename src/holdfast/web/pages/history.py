"""History: every session, searched as the person types.

The first page of results is kept up to date, row by row; the rest is loaded while scrolling, after the last row
present. Unchanged rows are not drawn again, and most never change. The row of a session in progress says since when:
the browser counts, and the row stays the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup, escape

from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import format_duration, parse_time
from holdfast.core.wording import STATUS, one_line, percent
from holdfast.machine.wall import midnight
from holdfast.sessions import history
from holdfast.store.interface import Filter
from holdfast.web.pages import PageContent, PageExtra, PageRequest
from holdfast.web.render import encoded, local, render

if TYPE_CHECKING:
    from holdfast.core.model import Row
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper

ROWS_PER_PAGE: Final = 60
_MAX_ROWS: Final = 1_200  # when the browser returns to where it was scrolled to
_MAX_GOAL_LENGTH: Final = 300  # characters of a goal
_MAX_NAME_LENGTH: Final = 60
_MAX_NAMES: Final = 500
_ROW_SEPARATOR: Final = Markup("\x1e")  # occurs in no text: invisible characters are spelled out
_GROWING_TIME: Final = re.compile(r'(data-since="(\d+)">)[^<]*')
_FILTERS: Final = ("q", "status", "project", "archived", "since")
UNFINISHED: Final = "unfinished"


class _Line(NamedTuple):
    """A row in the words it is shown with."""

    row: Row
    goal: str
    done: str
    # How long was worked, and from which moment it grows, if it does.
    worked: str
    since: int | None
    day: str
    clock: str


class History:
    name = "history"
    title = "History"

    def __init__(self) -> None:
        self._drawn: dict[object, Markup] = {}
        self._projects: tuple[object, list[str]] = (None, [])

    def content(self, keeper: Keeper, request: PageRequest) -> PageContent:
        rows = matching_rows(keeper, request, ROWS_PER_PAGE + 1)
        shown = rows[:ROWS_PER_PAGE]
        last = shown[-1].id if len(rows) > ROWS_PER_PAGE else None
        drawn = self.rows(keeper, shown)
        about = {
            "history-count": render("history-count.html", shown=len(shown), more=last is not None),
            "history-state": render("history-state.html", any=bool(shown), narrowed=bool(_filters(request))),
            "history-more": render("history-more.html", href=None if last is None else _address(request, last)),
        }
        return PageContent({**about, **drawn}, {"history-latest": tuple(drawn)})

    def concerns(self, _: Changes, __: PageRequest) -> bool:
        return True

    def extras(self, keeper: Keeper, request: PageRequest) -> dict[str, object]:
        # Values that return to the server must stay unchanged; what is shown is made visible.
        filters = {name: escape(request.text(name)) for name in _FILTERS}
        names = self._names(keeper)
        chosen = request.text("project")
        if chosen and chosen not in names:
            names = [chosen, *names]
        projects = [(escape(name), shorten(one_line(name), _MAX_NAME_LENGTH)) for name in names[:_MAX_NAMES]]
        now = keeper.now()
        return {
            "words": filters, "statuses": STATUS, "projects": projects, "at_once": ROWS_PER_PAGE,
            "counted": lambda row: with_times(row, now),
        }  # fmt: skip

    def rows(self, keeper: Keeper, rows: list[Row]) -> dict[str, Markup]:
        """Each row drawn, by name."""
        if len(self._drawn) > 20 * _MAX_ROWS:
            self._drawn.clear()
        drawn = self._drawn
        timed_rows = _with_time_worked(keeper, rows)
        keys = [(since, msgspec.msgpack.encode(row)) for row, since in timed_rows]
        new = {key: item for item, key in zip(timed_rows, keys, strict=True) if key not in drawn}
        if new:
            html = render("history-rows.html", rows=[_line(*item) for item in new.values()], between=_ROW_SEPARATOR)
            drawn.update(zip(new, html.split(_ROW_SEPARATOR), strict=True))
        return {f"row-{row.id}": drawn[key] for (row, _), key in zip(timed_rows, keys, strict=True)}

    def _names(self, keeper: Keeper) -> list[str]:
        """Project names, cached: they change only with events, and reading them takes longer than the page."""
        store = keeper.existing_store()
        known = None if store is None else (keeper.address.key, store.latest_place())
        if self._projects[0] != known:
            self._projects = (known, keeper.project_names())
        return self._projects[1]


def matching_rows(keeper: Keeper, request: PageRequest, limit: int) -> list[Row]:
    status, archived, since = request.text("status"), request.text("archived"), request.text("since")
    if archived not in ("", "yes", "no"):
        raise Invalid("archived is yes or no", hint="Leave it out for both.")
    keeper.collect()
    row_filter = Filter(
        search=request.text("q") or None,
        status=None if status in ("", UNFINISHED) else status,
        unfinished=status == UNFINISHED,
        name=request.text("project") or None,
        archived={"yes": True, "no": False}.get(archived),
        since=midnight(since[:20]) if since else None,
        before=history.place_of(keeper.existing_store(), request.text("before") or None),
        limit=limit,
    )
    return history.list_rows(keeper, row_filter)


def more(keeper: Keeper, request: PageRequest) -> PageExtra:
    """For the page's script: the first page of another search, or the rows after the last one."""
    if not request.text("before"):
        content = HISTORY.content(keeper, request)
        names = content.lists["history-latest"]
        html = "".join(content.regions[name] for name in names)
        put = {name: region for name, region in content.regions.items() if name.startswith("history-")}
        return _part({"rows": html, "put": put, "more": 'href="' in put["history-more"]})
    limit_text = request.text("limit")
    limit = (
        min(max(int(limit_text), 1), _MAX_ROWS)
        if limit_text.isdecimal() and len(limit_text) < len("10000")
        else ROWS_PER_PAGE
    )
    rows = matching_rows(keeper, request, limit + 1)
    drawn = HISTORY.rows(keeper, rows[:limit])
    return _part({"rows": "".join(drawn.values()), "more": len(rows) > limit})


def _part(content: dict[str, object]) -> PageExtra:
    return PageExtra(encoded({"holdfast": 1, **content}), "application/json")


def _filters(request: PageRequest) -> dict[str, str]:
    return {name: text for name in _FILTERS if (text := request.text(name))}


def _address(request: PageRequest, last: str) -> str:
    """The address of the rest, for a browser without scripts."""
    return "/history?" + urlencode({**_filters(request), "before": last})


def _with_time_worked(keeper: Keeper, rows: list[Row]) -> list[tuple[Row, int | None]]:
    """Rows with the time worked until now; if it grows, with zero and the moment it counts from."""
    now = keeper.now()
    history.mark_inactive(keeper, rows)
    worked = history.worked_since(keeper, rows, now)
    timed_rows: list[tuple[Row, int | None]] = []
    for row in rows:
        time = worked.get(row.id)
        if time is None:
            timed_rows.append((row, None))
        elif any(pause.until is None for pause in time.pauses):
            timed_rows.append((msgspec.structs.replace(row, working_ms=time.working), None))
        else:
            timed_rows.append((msgspec.structs.replace(row, working_ms=0), now - time.working))
    return timed_rows


def with_times(html: str, now: int) -> Markup:
    """A row with the time worked written out: the page itself may be read without scripts."""
    replaced = _GROWING_TIME.sub(lambda match: f"{match[1]}{format_duration(now - int(match[2]))}", html)
    return Markup(replaced)  # noqa: S704 (it was drawn by our own template, and a length of time is put into it)


def _line(row: Row, since: int | None) -> _Line:
    began = local(parse_time(row.created_at))
    return _Line(
        row=row, goal=shorten(one_line(row.goal), _MAX_GOAL_LENGTH), done=percent(row.progress),
        worked=format_duration(row.working_ms), since=since, day=f"{began.day} {began:%b %Y}", clock=f"{began:%H:%M}",
    )  # fmt: skip


HISTORY: Final = History()
