"""The data of a session page, now or as of a moment, and its events. `session_regions` draws it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core import view
from holdfast.core.clock import log_position
from holdfast.core.envelope import Event, event_document
from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.core.text import shorten
from holdfast.core.times import EARLIEST, LATEST, format_time, parse_typed_time
from holdfast.core.wording import one_line, visible
from holdfast.machine.wall import local_offset, midnight
from holdfast.sessions import overview, work_trees
from holdfast.sessions.conflicts import ShownConflict
from holdfast.web.pages import Page, PageContent, PageExtra, PageRequest
from holdfast.web.pages.session_regions import event_row, page_content
from holdfast.web.render import encoded

if TYPE_CHECKING:
    from holdfast.core.model import Session
    from holdfast.core.state import State
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper
    from holdfast.sessions.overview import SessionCard

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


MAX_EVENTS: Final = 100


class Log(NamedTuple):
    # Newest first.
    latest: list[Event]
    # How many events there were at that moment, and how many there are.
    then: int
    total: int


class SessionPageData(NamedTuple):
    card: SessionCard
    state: State
    # The past moment that is shown; None for now.
    at: int | None
    # That moment, or the present.
    now: int
    log: Log
    conflicts: list[ShownConflict]
    # The project's directory, if it is on this machine and the present is shown.
    root: str | None

    @property
    def session(self) -> Session:
        return self.card.session

    @property
    def live(self) -> bool:
        """Whether its times grow."""
        return self.at is None and self.session.ended_at is None


def moment(keeper: Keeper, request: PageRequest) -> int | None:
    """The moment in an address: RFC 3339, a day (its first moment), `HH:MM` of today, or milliseconds."""
    text = request.text("at")
    if not text:
        return None
    if text.isascii() and text.lstrip("-").isdigit() and len(text) < 20:
        number = int(text)
        if not EARLIEST <= number <= LATEST:
            raise Invalid("not a time", hint="Milliseconds since 1970, or for example 2026-11-15T09:30:00Z.")
        return number
    if _DAY.fullmatch(text):
        return midnight(text)
    return parse_typed_time(text, now=keeper.now(), local=local_offset)


def page_data(keeper: Keeper, reference: str, at: int | None) -> SessionPageData:
    """The data of a session's page. Raises `NotFound` if the session does not exist, or had not begun."""
    session = keeper.session(reference, at=at)
    state = keeper.state(session.id, at=at)
    card = overview.with_names(overview.session_card(keeper, session.id, at=at, state=state))
    session_log = _latest_events(keeper, state) if at is None else _events_as_of(keeper, session.id, at)
    disputed = session.conflicts(at=at) if card.session.conflicts else []
    return SessionPageData(
        card, state, at, _now(keeper, card, state, at), session_log, disputed, _root(keeper, session.id, card, at)
    )


def _now(keeper: Keeper, card: SessionCard, state: State, at: int | None) -> int:
    """The moment the session was described at: what counts on from it must not waver between two looks."""
    if at is not None:
        return at
    if card.session.ended_at is None and state.created_at is not None:
        return state.time.start + card.session.time.elapsed_ms
    return keeper.now()


def _root(keeper: Keeper, session: str, card: SessionCard, at: int | None) -> str | None:
    if at is not None or not card.here:
        return None
    try:
        return work_trees.workspace_of_session(keeper, session).place.root
    except HoldfastError:
        return None


def _latest_events(keeper: Keeper, state: State) -> Log:
    """The latest events."""
    store = keeper.store()
    stream_ends = [
        event
        for head in state.heads.values()
        for event in store.stream(state.session, head.writer, max(head.seq - MAX_EVENTS + 1, 1), head.seq)
    ]
    total = sum(head.seq for head in state.heads.values())
    newest = sorted(stream_ends, key=lambda event: log_position(event, state.moved), reverse=True)
    return Log(newest[:MAX_EVENTS], total, total)


def _events_as_of(keeper: Keeper, session: str, at: int) -> Log:
    """The latest events as of a moment."""
    events = keeper.events(session)
    events_then = [event for event in reversed(events) if event.at <= at]
    return Log(events_then[:MAX_EVENTS], len(events_then), len(events))


_ID_LENGTH: Final = 36  # characters of a session's id; a shorter reference may mean another one


class SessionPage:
    name = "session"
    title = "Session"

    def content(self, keeper: Keeper, request: PageRequest) -> PageContent:
        return page_content(keeper, page_data(keeper, request.path["id"], moment(keeper, request)))

    def concerns(self, change: Changes, request: PageRequest) -> bool:
        if request.text("at"):
            return False  # the past does not change
        session_id = request.path["id"].lower()
        return change.other_changes or len(session_id) != _ID_LENGTH or session_id in change.sessions

    def extras(self, keeper: Keeper, request: PageRequest) -> dict[str, object]:
        at = moment(keeper, request)
        session = keeper.session(request.path["id"], at=at)
        goal = view.text_value(session.state(), "goal") or ""
        return {"id": session.id, "goal": shorten(one_line(goal), 120), "past": at is not None}


def as_of(keeper: Keeper, request: PageRequest) -> PageExtra:
    """The whole page as of a moment: `at`, or the event of number `n`, when coming `from` another one."""
    session = keeper.session(request.path["id"])
    at = moment(keeper, request)
    if at is None and request.text("n"):
        at = _moment_of(keeper, session.id, _number(request, "n"), _number(request, "from"))
    data = page_data(keeper, session.id, at)
    content = page_content(keeper, data)
    return PageExtra(
        encoded({
            "at": None if at is None else format_time(at), "n": data.log.then, "of": data.log.total,
            "put": content.regions, "lists": content.lists,
        })
    )  # fmt: skip


def _number(request: PageRequest, name: str) -> int:
    text = request.text(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise Invalid(f"{shorten(text, 40)!a} is not the number of an event")
    return int(text)


SESSION: Final[Page] = SessionPage()


# ── what is asked for later ──────────────────────────────────────────────────────────────────────────────


def earlier(keeper: Keeper, request: PageRequest) -> PageExtra:
    """Events before the one given by `before`, and how many remain."""
    session = keeper.session(request.path["id"])
    before, until = request.text("before"), request.text("until")
    limit = int(until) if until.isascii() and until.isdigit() and len(until) < 20 else None
    events = [event for event in reversed(keeper.events(session.id)) if limit is None or event.at <= limit]
    place = next((number for number, event in enumerate(events) if event.hash == before), None)
    if place is None:
        raise NotFound("no such event", hint="Reload the page.", session=session.id)
    page = events[place + 1 : place + 1 + MAX_EVENTS]
    return PageExtra(
        encoded({"rows": [event_row(event) for event in page], "left": len(events) - place - 1 - len(page)})
    )


def event_text(keeper: Keeper, request: PageRequest) -> PageExtra:
    """One whole event, as text for people."""
    session, event_hash = keeper.session(request.path["id"]), request.path["hash"]
    for event in keeper.events(session.id):
        if event.hash == event_hash:
            whole = msgspec.json.format(msgspec.json.encode(event_document(event)), indent=2).decode()
            return PageExtra(encoded({"text": visible(whole, lines=True)}))
    raise NotFound("no such event", hint="Reload the page.", session=session.id)


# ── moments to travel between ────────────────────────────────────────────────────────────────────────────


def _moment_of(keeper: Keeper, session: str, number: int, previous: int) -> int | None:
    """When the event of this number, counted by time, happened; None if that is the present.

    Events at one moment happened together: stepping forward leads to the last event of the next moment, stepping back
    to the last one of the previous moment.
    """
    events = keeper.events(session)
    began = keeper.state(session).created_at
    times = sorted(event.at if began is None else max(event.at, began) for event in events)
    if not times or number >= len(times):
        return None
    number = max(number, 1)
    at = times[number - 1]
    if number < previous and bisect_right(times, at) > number:  # backwards, into the middle of a moment
        first = bisect_left(times, at)
        at = times[first - 1] if first else at
    return None if at == times[-1] else at
