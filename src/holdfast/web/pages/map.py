"""Which page is at which address."""

from __future__ import annotations

import re
from typing import Final

from holdfast.web.pages import GivesPart, Page
from holdfast.web.pages.devices import DEVICES
from holdfast.web.pages.hill import HILL
from holdfast.web.pages.history import HISTORY, more
from holdfast.web.pages.hours import HOURS, HOURS_CSV
from holdfast.web.pages.now import NOW
from holdfast.web.pages.session import SESSION, as_of
from holdfast.web.pages.session_log import earlier
from holdfast.web.pages.session_log import one as one_event

ADDRESSES: Final[dict[str, Page]] = {
    "/now": NOW,
    "/session/{id}": SESSION,
    "/history": HISTORY,
    "/devices": DEVICES,
    "/hours": HOURS,
    "/hill": HILL,
}
# What pages ask for later, by GET.
PARTS: Final[dict[str, GivesPart]] = {
    "/session/{id}/as-of": as_of,
    "/session/{id}/events": earlier,
    "/session/{id}/events/{hash}": one_event,
    "/history/rows": more,
    "/hours.csv": HOURS_CSV,
}
_SHAPES: Final = [
    (re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(where))), page)
    for where, page in ADDRESSES.items()
]


def parts(path: str) -> tuple[Page, dict[str, str]] | None:
    """The page at a path, and the words of the path that are not the page's own."""
    for shape, page in _SHAPES:
        found = shape.fullmatch(path)
        if found is not None:
            return page, found.groupdict()
    return None
