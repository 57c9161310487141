"""The data a session page shows, now or as of a moment. `session_regions` draws it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.text import shorten
from holdfast.core.times import EARLIEST, LATEST, format_time, parse_typed_time
from holdfast.core.wording import one_line
from holdfast.machine.wall import local_offset, midnight
from holdfast.sessions import overview, work_trees
from holdfast.sessions.conflicts import Disagreement
from holdfast.web.encoding import encoded
from holdfast.web.pages import Page, PageExtra, PageRequest, Shot, session_log
from holdfast.web.pages import session_log as log
from holdfast.web.pages.session_log import Log
from holdfast.web.pages.session_regions import shot

if TYPE_CHECKING:
    from holdfast.core.model import Session
    from holdfast.core.state import State
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper
    from holdfast.sessions.overview import SessionCard

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Sight(NamedTuple):
    one: SessionCard
    state: State
    # The moment that is looked at; None for now.
    at: int | None
    # That moment, or the present.
    now: int
    log: Log
    conflicts: list[Disagreement]
    # The directory of the project, where it is on this machine and the present is looked at.
    root: str | None

    @property
    def session(self) -> Session:
        return self.one.session

    @property
    def live(self) -> bool:
        """Whether time goes on in it."""
        return self.at is None and self.session.ended_at is None


def moment(keeper: Keeper, words: PageRequest) -> int | None:
    """The moment that an address asks for: RFC 3339, a day (its first moment), `HH:MM` of today, or milliseconds."""
    written = words.text("at")
    if not written:
        return None
    if written.isascii() and written.lstrip("-").isdigit() and len(written) < 20:
        number = int(written)
        if not EARLIEST <= number <= LATEST:
            raise Invalid("that is not a time", hint="Milliseconds since 1970, or for instance 2026-11-15T09:30:00Z.")
        return number
    if _DAY.fullmatch(written):
        return midnight(written)
    return parse_typed_time(written, now=keeper.now(), local=local_offset)


def sight(keeper: Keeper, reference: str, at: int | None) -> Sight:
    """One look at a session. Raises `NotFound` where it is not, or had not begun."""
    session = keeper.session(reference, at=at)
    state = keeper.state(session.id, at=at)
    one = overview.with_names(overview.session_card(keeper, session.id, at=at, state=state))
    found = log.latest(keeper, state) if at is None else log.as_of(keeper, session.id, at)
    disputed = session.conflicts(at=at) if one.session.conflicts else []
    return Sight(one, state, at, _now(keeper, one, state, at), found, disputed, _root(keeper, session.id, one, at))


def _now(keeper: Keeper, one: SessionCard, state: State, at: int | None) -> int:
    """The moment that the session was described at: what counts on from it must not waver between two looks."""
    if at is not None:
        return at
    if one.session.ended_at is None and state.created_at is not None:
        return state.time.start + one.session.time.elapsed_ms
    return keeper.now()


def _root(keeper: Keeper, session: str, one: SessionCard, at: int | None) -> str | None:
    if at is not None or not one.here:
        return None
    try:
        return work_trees.at_its_place(keeper, session).place.root
    except HoldfastError:
        return None


_WHOLE: Final = 36  # characters of a session's own id


class SessionPage:
    name = "session"
    title = "Session"

    def shot(self, keeper: Keeper, asked: PageRequest) -> Shot:
        return shot(keeper, sight(keeper, asked.path["id"], moment(keeper, asked)))

    def concerns(self, change: Changes, asked: PageRequest) -> bool:
        if asked.text("at"):
            return False  # what was so stays so
        wanted = asked.path["id"].lower()
        return change.beyond or len(wanted) != _WHOLE or wanted in change.sessions

    def extras(self, keeper: Keeper, asked: PageRequest) -> dict[str, object]:
        at = moment(keeper, asked)
        session = keeper.session(asked.path["id"], at=at)
        goal = view.text_value(session.state(), "goal") or ""
        return {"id": session.id, "goal": shorten(one_line(goal), 120), "past": at is not None}


def as_of(keeper: Keeper, asked: PageRequest) -> PageExtra:
    """The whole page as of a moment: `at`, or `n`, the event of that number, for who comes `from` another one."""
    session = keeper.session(asked.path["id"])
    at = moment(keeper, asked)
    if at is None and asked.text("n"):
        at = session_log.moment_of(keeper, session.id, _number(asked, "n"), _number(asked, "from"))
    seen = sight(keeper, session.id, at)
    found = shot(keeper, seen)
    return PageExtra(
        encoded({
            "at": None if at is None else format_time(at), "n": seen.log.then, "of": seen.log.total,
            "put": found.regions, "lists": found.lists,
        })
    )  # fmt: skip


def _number(asked: PageRequest, name: str) -> int:
    written = asked.text(name, "0")
    if not (written.isascii() and written.isdigit() and len(written) < 12):
        raise Invalid(f"{shorten(written, 40)!a} is not the number of an event")
    return int(written)


SESSION: Final[Page] = SessionPage()
