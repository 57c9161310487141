"""What the page of a session shows, gathered: now, or as of a moment. `session_regions` draws it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.times import EARLIEST, LATEST, asked
from holdfast.keeper import elsewhere, overview
from holdfast.keeper.conflicts import Disagreement
from holdfast.machine.wall import local_offset, midnight
from holdfast.web.pages import session_log as log
from holdfast.web.pages.session_log import Log

if TYPE_CHECKING:
    from holdfast.core.model import Session
    from holdfast.core.state import State
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.overview import Glance
    from holdfast.web.pages import Asked

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Sight(NamedTuple):
    one: Glance
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


def moment(keeper: Keeper, words: Asked) -> int | None:
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
    return asked(written, now=keeper.now(), local=local_offset)


def sight(keeper: Keeper, reference: str, at: int | None) -> Sight:
    """One look at a session. Raises `NotFound` where it is not, or had not begun."""
    session = keeper.session(reference, at=at)
    state = keeper.state(session.id, at=at)
    one = overview.with_names(overview.glance(keeper, session.id, at=at, state=state))
    found = log.latest(keeper, state) if at is None else log.as_of(keeper, session.id, at)
    disputed = session.conflicts(at=at) if one.session.conflicts else []
    return Sight(one, state, at, _now(keeper, one, state, at), found, disputed, _root(keeper, session.id, one, at))


def _now(keeper: Keeper, one: Glance, state: State, at: int | None) -> int:
    """The moment that the session was described at: what counts on from it must not waver between two looks."""
    if at is not None:
        return at
    if one.session.ended_at is None and state.created_at is not None:
        return state.time.start + one.session.time.elapsed_ms
    return keeper.now()


def _root(keeper: Keeper, session: str, one: Glance, at: int | None) -> str | None:
    if at is not None or not one.here:
        return None
    try:
        return elsewhere.at_its_place(keeper, session).place.root
    except HoldfastError:
        return None
