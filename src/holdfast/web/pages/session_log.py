"""The events of a session as its page shows them: the latest, earlier ones on request, and the moments between
which time travel moves.

Newest first, in the order of the log, which every device agrees on. Of a long session only the ends of its streams
are read, not all of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.clock import log_position
from holdfast.core.envelope import Event, event_document
from holdfast.core.errors import NotFound
from holdfast.core.event_line import describe_event
from holdfast.core.state import State
from holdfast.core.wording import visible
from holdfast.web.encoding import encoded
from holdfast.web.pages import PageExtra, PageRequest
from holdfast.web.render import render

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

MOST: Final = 100


class Log(NamedTuple):
    # Newest first.
    latest: list[Event]
    # How many there were at the moment that is looked at, and how many there are.
    then: int
    total: int


def latest(keeper: Keeper, state: State) -> Log:
    """The latest events there are."""
    store = keeper.store()
    ends = [
        event
        for head in state.heads.values()
        for event in store.stream(state.session, head.writer, max(head.seq - MOST + 1, 1), head.seq)
    ]
    total = sum(head.seq for head in state.heads.values())
    newest = sorted(ends, key=lambda event: log_position(event, state.moved), reverse=True)
    return Log(newest[:MOST], total, total)


def as_of(keeper: Keeper, session: str, at: int) -> Log:
    """The latest of those that had happened at a moment."""
    events = keeper.events(session)
    then = [event for event in reversed(events) if event.at <= at]
    return Log(then[:MOST], len(then), len(events))


def row(event: Event) -> str:
    return render("session-event.html", event=event, told=entry_text(event), name=name(event))


def name(event: Event) -> str:
    """Of its region."""
    return f"event-{event.hash[:20]}"


def entry_text(event: Event) -> str:
    try:
        return describe_event(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "(cannot be read)"  # no program of ours wrote it


# ── what is asked for later ──────────────────────────────────────────────────────────────────────────────


def earlier(keeper: Keeper, asked: PageRequest) -> PageExtra:
    """Events before the one named by `before`, and how many are left then."""
    session = keeper.session(asked.path["id"])
    before, at = asked.text("before"), asked.text("until")
    limit = int(at) if at.isascii() and at.isdigit() and len(at) < 20 else None
    events = [event for event in reversed(keeper.events(session.id)) if limit is None or event.at <= limit]
    place = next((number for number, event in enumerate(events) if event.hash == before), None)
    if place is None:
        raise NotFound("there is no such event", hint="Load the page again.", session=session.id)
    page = events[place + 1 : place + 1 + MOST]
    return PageExtra(encoded({"rows": [row(event) for event in page], "left": len(events) - place - 1 - len(page)}))


def one(keeper: Keeper, asked: PageRequest) -> PageExtra:
    """One event whole, as text for people's eyes."""
    session, wanted = keeper.session(asked.path["id"]), asked.path["hash"]
    for event in keeper.events(session.id):
        if event.hash == wanted:
            whole = msgspec.json.format(msgspec.json.encode(event_document(event)), indent=2).decode()
            return PageExtra(encoded({"text": visible(whole, lines=True)}))
    raise NotFound("there is no such event", hint="Load the page again.", session=session.id)


# ── moments to travel between ────────────────────────────────────────────────────────────────────────────


def moment_of(keeper: Keeper, session: str, number: int, come_from: int) -> int | None:
    """When the event of this number, counted by time, happened; None where that is the present.

    Events of one moment happened together: the next number is the last of the next moment, seen from where one
    comes, or of the one before.
    """
    events = keeper.events(session)
    begun = keeper.state(session).created_at
    times = sorted(event.at if begun is None else max(event.at, begun) for event in events)
    if not times or number >= len(times):
        return None
    number = max(number, 1)
    at = times[number - 1]
    if number < come_from and bisect_right(times, at) > number:  # back, into the middle of a moment
        first = bisect_left(times, at)
        at = times[first - 1] if first else at
    return None if at == times[-1] else at
