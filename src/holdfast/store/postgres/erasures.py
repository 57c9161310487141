"""Which erasures of a session are obeyed: its owner erases any event, everybody else only what they put there.

The server refuses other erasures (`erase_own`, rights.sql). Those that came in under earlier versions, or before the
event that they name, are passed over here. A row proves by its hash that it is the event which is named: nobody can
make another one with that hash, and no other row counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from holdfast.core.envelope import Event, hash_matches
from holdfast.core.event_data import erased_hashes, read_data
from holdfast.core.events import EventErased
from holdfast.store.postgres.pipeline import Talk
from holdfast.store.postgres.rows import ORDER, OWN, event_of

_HEX: Final = re.compile("(?:[0-9A-Fa-f]{2})+").fullmatch  # as it is written, without the spaces that Python allows


class Erasure(NamedTuple):
    event: Event
    # Who put it there, and whether they own the session.
    person: str
    by_owner: bool
    # An earlier event has its key: it does not count.
    double: bool
    # Every event that it names, at any depth.
    names: frozenset[bytes]


def erasures(talk: Talk, ref: int | None, session: str) -> list[Erasure]:
    """Every event of the session that says that data is erased, in log order, obeyed or not."""
    rows = talk.ask(
        f"SELECT {OWN}, e.put_by, e.put_by = s.owner, e.double FROM events e JOIN sessions s ON s.ref = e.session"  # noqa: S608
        f" WHERE e.session = %s AND e.type IN ('event.erased', 'session.deleted') {ORDER}",
        (ref,),
    )
    result = []
    for *row, person, by_owner, double in rows:
        event = event_of(session, row)
        data = read_data(event)
        names = hashes(erased_hashes(data)) if isinstance(data, EventErased) else frozenset[bytes]()
        result.append(Erasure(event, person, by_owner, bool(double), names))
    return result


def unentitled(talk: Talk, ref: int | None, session: str, candidates: Iterable[Erasure]) -> list[Event]:
    """Those of these erasures that name an event which another person put there and whose data is there. Where the
    data is gone already, it was erased by somebody who may: perhaps an earlier owner.
    """
    asked = [erasure for erasure in candidates if erasure.names and not erasure.by_owner]
    if not asked:
        return []
    rows = talk.ask(
        f"SELECT {OWN}, e.put_by FROM events e"  # noqa: S608 (constants)
        " WHERE e.session = %s AND e.data IS NOT NULL AND e.hash = ANY(%s::bytea[])",
        (ref, sorted(frozenset[bytes]().union(*(erasure.names for erasure in asked)))),
    )
    authors = {}
    for *row, person in rows:
        event = event_of(session, row)
        if hash_matches(event):
            authors[bytes.fromhex(event.hash)] = person
    return [
        erasure.event
        for erasure in asked
        if any(authors.get(name, erasure.person) != erasure.person for name in erasure.names)
    ]


def obeyed(talk: Talk, ref: int | None, session: str) -> list[Erasure]:
    every = erasures(talk, ref, session)
    passed_over = {event.written for event in unentitled(talk, ref, session, every)}
    return [erasure for erasure in every if not erasure.double and erasure.event.written not in passed_over]


def erasable(talk: Talk, ref: int | None, session: str, wanted: Iterable[str]) -> list[tuple[int, bytes]]:
    """The rows, by clock and hash, of the events with these hashes that still have data. A row whose hash is not its
    own is erased only by whoever put it there, and by the owner.
    """
    rows = talk.ask(
        f"SELECT {OWN}, e.put_by FROM events e"  # noqa: S608 (constants)
        " WHERE e.session = %s AND coalesce(e.data, e.salt) IS NOT NULL AND e.hash = ANY(%s::bytea[])",
        (ref, sorted(hashes(wanted))),
    )
    orders = obeyed(talk, ref, session) if rows else []
    erasable_rows = []
    for *row, person in rows:
        event = event_of(session, row)
        own = bytes.fromhex(event.hash)
        if hash_matches(event) or any(
            own in erasure.names and (erasure.by_owner or erasure.person == person) for erasure in orders
        ):
            erasable_rows.append((event.clock, own))
    return erasable_rows


def hashes(names: Iterable[str]) -> frozenset[bytes]:
    """As columns hold them; what is no hash names nothing."""
    return frozenset(bytes.fromhex(name) for name in names if _HEX(name))
