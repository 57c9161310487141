"""Mending a session: events that are not what their hash says are mended or set aside, the rest is derived anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.envelope import Event, find_problem
from holdfast.core.errors import HoldfastError
from holdfast.core.times import format_time
from holdfast.store import derived_checks
from holdfast.store.chain_checks import flaws, mended, unentitled_erasure
from holdfast.store.interface import row_key
from holdfast.store.postgres import check

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

# What is derived, by the check that finds it wrong.
_ANEW: Final = {
    "erasure": "data of it that was erased is gone now.",
    "listing": "its listing was made anew from the log.",
    "search": "its search index was made anew from the log.",
    "state": "its state was made anew from the log.",
}


def repair(store: PostgresStore) -> list[str]:
    """Session by session, each in a transaction of its own; those that one may only read are left as they are."""
    report: list[str] = []
    forgotten = not any(known.evidence for known in store.local_state().projects)
    for session, _ in store.listed_sessions():
        if store.may_write(session):
            try:
                wrong = _derived_wrong(store, session)
                report += _mend(store, session, forgotten=forgotten)
                right = wrong - _derived_wrong(store, session) if wrong else wrong
                report += [f"Session {session}: {_ANEW[name]}" for name in sorted(right)]
            except HoldfastError as error:
                report.append(f"Session {session}: it could not be repaired: {error.message}")
    return report


def _mend(store: PostgresStore, session: str, *, forgotten: bool) -> list[str]:
    report: list[str] = []
    with store.transaction() as transaction:
        tables = store.tables
        tables.lock((session,))
        events = [event for event, _ in tables.tail(session, 0)]
        sql = "SELECT owner = CURRENT_USER, updated_at FROM sessions WHERE ref = %s"
        ((own, until),) = tables.talk.ask(sql, (tables.ref(session),))
        others = tables.put_by_others(session)
        for flaw in flaws(events):
            if flaw.damaged is not None and own:
                # What is mended is put there by whoever mends it: nobody else's event becomes one's own that way.
                whole = None if row_key(flaw.damaged) in others else _whole(flaw.damaged, events)
                report.append(_put_right(store, flaw.damaged, whole))
            elif flaw.damaged is not None:
                report.append(f"Session {session}: {flaw.detail}; only its owner can repair that.")
        for event in tables.unentitled(session) if own else ():
            _take_aside(store, event)
            report.append(f"Session {session}: {unentitled_erasure(event).detail}. It was set aside.")
        # Without a key nothing was told twice; of those with one, the refold sees to it.
        sql = "UPDATE events SET double = 0 WHERE session = %s AND double <> 0 AND key IS NULL"
        tables.talk.tell(sql, (tables.ref(session),))
        if events or transaction.state(session).last is not None:
            store.journal.refold(session)
            missing = list(_note_missing(store, session)) if own else []
            report += missing
            project = transaction.state(session).project
            if forgotten and project is not None and not transaction.state(session).deleted:
                transaction.remember_project(project)
            # Until then it was worked on, the listing said: what is later than the log is lost.
            if not missing and until > transaction.state(session).updated_at:
                report.append(
                    f"Session {session}: what happened last, up to {format_time(until)}, could not be saved."
                )
    return report


def _derived_wrong(store: PostgresStore, session: str) -> set[str]:
    """Which of what is derived is not what the log says."""

    def look() -> set[str]:
        tables = store.tables
        unlisted = tables.version(session) <= 0 and next(tables.tail(session, 0), None) is not None
        failed = {finding.check for finding in check.findings(tables, session)}
        return {name for name in _ANEW if name in failed or (unlisted and name == "listing")}

    return store.read(look)


def _whole(event: Event, events: list[Event]) -> Event | None:
    """A damaged event as it once was, when that is certain."""
    named = {event.prev for event in events}
    before = [item.hash for item in events if (item.writer, item.seq) == (event.writer, event.seq - 1)]
    fitting = (guess for guess in mended(event, before, named.__contains__) if find_problem(guess) is None)
    return next(fitting, None)


def _put_right(store: PostgresStore, event: Event, whole: Event | None) -> str:
    """As it once was, where that is known; otherwise out of the log, and kept as it was."""
    tables = store.tables
    subject = f"Session {event.session}: event {event.seq} ({event.type})"
    if whole is None:
        _take_aside(store, event)
        return f"{subject} is damaged and was set aside."
    tables.take_out([event])
    tables.insert(tables.missing(event.session, [whole]))
    return f"{subject} was damaged and is mended."


def _take_aside(store: PostgresStore, event: Event) -> None:
    store.tables.take_out([event])
    _set_aside(store, event.session, f"event {event.hash[:12]}", msgspec.json.encode(event))


def _note_missing(store: PostgresStore, session: str) -> Iterator[str]:
    """What cannot be brought back is missed from now on, and said once."""
    tables = store.tables
    ref = tables.ref(session)
    known = {name for (name,) in tables.talk.ask("SELECT name FROM aside WHERE session = %s", (ref,))}
    for flaw in flaws(event for event, _ in tables.tail(session, 0)):
        name = derived_checks.aside(session, flaw.writer, flaw.seq)
        if name not in known:
            _set_aside(store, session, name, b"")
            yield f"Session {session}: {flaw.detail}; it could not be saved."


def _set_aside(store: PostgresStore, session: str, name: str, content: bytes) -> None:
    tables = store.tables
    sql = "INSERT INTO aside (session, name, found) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
    tables.talk.tell(sql, (tables.ref(session), name, content))
