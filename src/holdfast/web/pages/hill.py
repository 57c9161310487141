"""Hill: how far the scopes of each project are. A dot is dragged to where the scope is now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from markupsafe import Markup, escape

from holdfast.core.times import DAY
from holdfast.core.wording import one_line
from holdfast.sessions.history import latest
from holdfast.sessions.overview import Hill, hills
from holdfast.web.charts import hill as chart
from holdfast.web.pages import Page, PageContent, PageRequest
from holdfast.web.render import render

if TYPE_CHECKING:
    from holdfast.core.model import Row
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper

_MAX_OTHERS: Final = 20  # projects in progress without a hill
_FOLDED_AFTER: Final = 7 * DAY  # a scope done for this long is folded away


class Scope(NamedTuple):
    """A line of the list."""

    dot: chart.Dot
    words: str
    moved_at: int | None


class HillPage:
    name = "hill"
    title = "Hill"

    def content(self, keeper: Keeper, _: PageRequest, /) -> PageContent:
        open_rows = _latest(keeper)
        now = keeper.now()
        projects: dict[str, list[Hill]] = {}
        for hill in hills(keeper):
            projects.setdefault(hill.project, []).append(hill)
        regions: dict[str, Markup] = {}
        # In a fixed order, so that nothing moves under the person's hand.
        for name in sorted(projects, key=lambda name: (one_line(name).casefold(), name)):
            key = _key(name)
            regions[f"hill-{key}"] = _project(key, name, projects[name], open_rows.get(name), now)
        others = [(_key(name), row) for name, row in sorted(open_rows.items()) if name not in projects]
        about = {
            "hill-heading": render(
                "hill-heading.html", scopes=sum(map(len, projects.values())), projects=len(projects)
            ),
            "hill-others": render(
                "hill-others.html", others=others[:_MAX_OTHERS], words=list(enumerate(chart.WORDS))
            ),
        }
        return PageContent({**about, **regions}, {"hills": tuple(regions)})

    def concerns(self, change: Changes, _: PageRequest, /) -> bool:
        return bool(change.sessions) or change.other_changes

    def extras(self, _keeper: Keeper, _request: PageRequest, /) -> dict[str, object]:
        return {}


def _latest(keeper: Keeper) -> dict[str, Row]:
    """By project, the session worked on last: a new scope is added there."""
    projects: dict[str, dict[str, Row]] = {}
    for row in keeper.history(limit=None, all_projects=True, unfinished=True, aliases=False):
        if not row.archived:
            projects.setdefault(row.project, {})[row.id] = row
    latest_ids = {name: latest(keeper, rows.values()) for name, rows in projects.items()}
    return {name: projects[name][session] for name, session in latest_ids.items() if session is not None}


def _project(key: str, name: str, scopes: Sequence[Hill], latest_session: Row | None, now: int) -> Markup:
    done = [scope for scope in scopes if scope.position == chart.LAST and now - (scope.moved_at or 0) > _FOLDED_AFTER]
    shown = sorted((scope for scope in scopes if scope not in done), key=_sort_key)
    keys = _keys(name, shown)
    dots = [
        chart.Dot(keys[number], hill.scope, hill.position, hill.session, number + 1)
        for number, hill in enumerate(shown)
    ]
    label = f"Hill of {one_line(name)}"
    return render(
        "hill-project.html",
        key=key,
        name=name,
        lines=[Scope(dot, chart.WORDS[dot.position], item.moved_at) for dot, item in zip(dots, shown, strict=True)],
        done=done,
        wide=chart.drawing(dots, chart.WIDE, label) if dots else None,
        narrow=chart.drawing(dots, chart.NARROW, label) if dots else None,
        at=latest_session,
        words=list(enumerate(chart.WORDS)),
        names=[escape(hill.scope) for hill in shown],
    )


def _sort_key(hill: Hill) -> tuple[list[tuple[int, str]], str]:
    """By name, with numbers compared as numbers: `part 2` comes before `part 10`."""
    pieces = re.split(r"([0-9]{1,18})", one_line(hill.scope).casefold())
    return [(int(piece), "") if number % 2 else (-1, piece) for number, piece in enumerate(pieces)], hill.scope


def _keys(name: str, scopes: Sequence[Hill]) -> list[str]:
    """An element name for each. Two projects of one name may have scopes of one name."""
    counts: Counter[str] = Counter()
    keys = []
    for scope in scopes:
        counts[scope.scope] += 1
        keys.append(_key(f"{name}\0{scope.scope}\0{counts[scope.scope]}"))
    return keys


def _key(text: str) -> str:
    """An element name for any text."""
    return sha256(text.encode(errors="replace")).hexdigest()[:12]


HILL: Final[Page] = HillPage()
