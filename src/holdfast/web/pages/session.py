"""Session: one session whole, now and at any moment of its life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import text
from holdfast.keeper.wording import one_line
from holdfast.web.encoding import encoded
from holdfast.web.pages import Asked, Page, Part, Shot, session_log
from holdfast.web.pages.session_regions import shot
from holdfast.web.pages.session_sight import moment, sight

if TYPE_CHECKING:
    from holdfast.keeper.following import Change
    from holdfast.keeper.keeper import Keeper

_WHOLE: Final = 36  # characters of a session's own id


class SessionPage:
    name = "session"
    title = "Session"

    def shot(self, keeper: Keeper, asked: Asked) -> Shot:
        return shot(keeper, sight(keeper, asked.path["id"], moment(keeper, asked)))

    def concerns(self, change: Change, asked: Asked) -> bool:
        if asked.text("at"):
            return False  # what was so stays so
        wanted = asked.path["id"].lower()
        return change.beyond or len(wanted) != _WHOLE or wanted in change.sessions

    def extras(self, keeper: Keeper, asked: Asked) -> dict[str, object]:
        at = moment(keeper, asked)
        session = keeper.session(asked.path["id"], at=at)
        goal = view.word(session.state(), "goal") or ""
        return {"id": session.id, "goal": shorten(one_line(goal), 120), "past": at is not None}


def as_of(keeper: Keeper, asked: Asked) -> Part:
    """The whole page as of a moment: `at`, or `n`, the event of that number, for who comes `from` another one."""
    session = keeper.session(asked.path["id"])
    at = moment(keeper, asked)
    if at is None and asked.text("n"):
        at = session_log.moment_of(keeper, session.id, _number(asked, "n"), _number(asked, "from"))
    seen = sight(keeper, session.id, at)
    found = shot(keeper, seen)
    return Part(
        encoded({
            "at": None if at is None else text(at), "n": seen.log.then, "of": seen.log.total,
            "put": found.regions, "lists": found.lists,
        })
    )  # fmt: skip


def _number(asked: Asked, name: str) -> int:
    written = asked.text(name, "0")
    if not (written.isascii() and written.isdigit() and len(written) < 12):
        raise Invalid(f"{shorten(written, 40)!a} is no number of an event")
    return int(written)


SESSION: Final[Page] = SessionPage()
