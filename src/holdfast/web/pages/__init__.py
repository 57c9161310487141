"""The pages, one module each. A page is named regions: pieces of HTML that are sent again only when they changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper


class Shot(NamedTuple):
    """What a page shows at a moment."""

    # By name, the HTML of each region: one element whose id is the name.
    regions: Mapping[str, str]
    # By the id of an element, the names of the regions that it holds, in order. What is in no list has a fixed place.
    lists: Mapping[str, tuple[str, ...]] = {}


class PageRequest(NamedTuple):
    """What of a page is asked for: its address says it."""

    # The words of the path that are not the page's own: `id` of a session.
    path: Mapping[str, str] = {}
    query: Mapping[str, str] = {}

    def text(self, name: str, otherwise: str = "") -> str:
        return self.query.get(name, otherwise).strip()


class PageExtra(NamedTuple):
    """Something that a page asks for later: more rows, the page as it was, a file to keep."""

    content: bytes
    media_type: str = "application/json"
    # For a download: what the file is called.
    filename: str | None = None


class Page(Protocol):
    name: str  # of its template, and in the navigation
    title: str

    def shot(self, keeper: Keeper, asked: PageRequest, /) -> Shot:
        """What it shows now. Raises `NotFound` where there is no such page."""

    def concerns(self, change: Changes, asked: PageRequest, /) -> bool:
        """Whether a change may have changed what it shows."""

    def extras(self, keeper: Keeper, asked: PageRequest, /) -> dict[str, object]:
        """What its template is told besides the regions, once: it does not change while the page is open."""


# What gives such a part, by `map.PARTS`.
GivesPart = Callable[["Keeper", PageRequest], PageExtra]
