"""Mending a session: events that are not what their hash says are set aside, everything derived is made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.event import Event
from holdfast.store import derived
from holdfast.store.verify import flaws

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore


def repair(store: PostgresStore) -> list[str]:
    """Session by session, each in a transaction of its own; those that one may only read are left as they are."""
    said: list[str] = []
    for session, _ in store.listed_sessions():
        if store.may_write(session):
            try:
                said += _mend(store, session)
            except HoldfastError as error:
                said.append(f"session {session[:8]} could not be repaired: {error.message}")
    return said


def _mend(store: PostgresStore, session: str) -> list[str]:
    said: list[str] = []
    with store.transaction() as transaction:
        tables = store.tables
        tables.lock((session,))
        events = [event for event, _ in tables.tail(session, 0)]
        found = list(flaws(events))
        damaged = [flaw.damaged for flaw in found if flaw.damaged is not None]
        for event in damaged:
            _set_aside(store, event)
            said.append(
                f"event {event.seq} of session {session[:8]} is damaged and was set aside; it could not be saved"
            )
        if events or transaction.state(session).last is not None:
            store.journal.refold(session)
    return said


def _set_aside(store: PostgresStore, event: Event) -> None:
    tables = store.tables
    ref = tables.ref(event.session)
    found = msgspec.json.encode(event)
    for name in (derived.aside(event.session, event.writer, event.seq), f"event {event.hash[:12]}"):
        tables.talk.tell(
            "INSERT INTO aside (session, name, found) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (ref, name, found)
        )
    tables.take_out([event])
