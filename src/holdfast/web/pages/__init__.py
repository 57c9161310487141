"""The pages, one module each. A page is made of named regions: pieces of HTML, sent again only when they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper


class PageContent(NamedTuple):
    """The content of a page at a moment."""

    # By name, the HTML of each region: one element whose id is the name.
    regions: Mapping[str, str]
    # By the id of an element, the names of the regions in it, in order. Regions in no list have a fixed place.
    lists: Mapping[str, tuple[str, ...]] = {}


class PageRequest(NamedTuple):
    """Which part of a page is wanted, by its address."""

    # The variable parts of the path: `id` of a session.
    path: Mapping[str, str] = {}
    query: Mapping[str, str] = {}

    def text(self, name: str, otherwise: str = "") -> str:
        return self.query.get(name, otherwise).strip()


class PageExtra(NamedTuple):
    """Something a page asks for later: more rows, the page as it was, a download."""

    content: bytes
    media_type: str = "application/json"
    # The file name of a download.
    filename: str | None = None


class Page(Protocol):
    name: str  # of its template, and in the navigation
    title: str

    def content(self, keeper: Keeper, request: PageRequest, /) -> PageContent:
        """Its content now. Raises `NotFound` if there is no such page."""

    def concerns(self, change: Changes, request: PageRequest, /) -> bool:
        """Whether a change may affect what it shows."""

    def extras(self, keeper: Keeper, request: PageRequest, /) -> dict[str, object]:
        """Further values for its template that do not change while the page is open."""


# Gives such a part, by `app.PARTS`.
PartProvider = Callable[["Keeper", PageRequest], PageExtra]
