"""Find damage and repair it, session by session: chains of events, and what is derived from them.

Only sessions that the caller can see are checked, and only those they may write to are repaired. Damaged events are
restored where that is certain and otherwise quarantined; the server's own files are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.envelope import Event, find_problem
from holdfast.core.errors import Damaged, HoldfastError
from holdfast.core.state import FOLD_VERSION
from holdfast.core.times import format_time
from holdfast.store import checks
from holdfast.store.checks import StoredSession, flaws, repair_candidates, unentitled_erasure
from holdfast.store.interface import Damage, UnsoundEvents, row_key
from holdfast.store.postgres.tables import TRUSTED, PostgresTables
from holdfast.store.tables import SessionSummary

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

# ── checking ─────────────────────────────────────────────────────────────────────────────────────────────


_LISTED: Final = f"SELECT {', '.join(SessionSummary._fields)} FROM sessions WHERE ref = %s"  # noqa: S608


def check(store: PostgresStore) -> Iterator[Damage]:
    """Everything that is wrong, session by session, while others may go on writing."""
    listed = store.listed_sessions()
    for session, version in listed:
        if version <= 0:
            # Its events were withdrawn, or none ever came.
            try:
                if next(store.events(session), None) is None:
                    continue
            except Damaged:  # reported below
                pass
            yield Damage("listing", "the session is not listed", session)
        try:
            yield from store.read(lambda: list(_session_damage(store.tables, session)))  # noqa: B023 (called at once)
        except Damaged as error:
            yield Damage("chain", f"it cannot be read: {error.message}", session)


def _session_damage(tables: PostgresTables, session: str) -> Iterator[Damage]:
    events = list(tables.tail(session, 0))
    query, ref = tables.pipeline.query, tables.ref(session)
    known = {name for (name,) in query("SELECT name FROM aside WHERE session = %s", (ref,))}
    for name in sorted(item for item in known if not item.startswith("aside:")):
        yield Damage("aside", f"{name} was set aside by a repair", session)
    trusted = f"SELECT count, state FROM snapshots WHERE session = %s AND {TRUSTED} AND fold = %s"  # noqa: S608
    snapshots = query(trusted, (ref, FOLD_VERSION))
    stored = StoredSession(
        snapshots={count: bytes(frozen) for count, frozen in snapshots},
        listed=next(iter(query(_LISTED, (ref,))), None),
        words={word for (word,) in query("SELECT holdfast.words_of(%s)", (ref,))},
        aliases={alias for (alias,) in query("SELECT holdfast.aliases_of(%s)", (ref,))},
    )
    authors = tables.put_by_others(session)
    yield from checks.session_damage(session, events, stored, known, authors, tables.unentitled_erasures(session))


def unsound(tables: PostgresTables, session: str, *, own: bool) -> UnsoundEvents | None:
    """What others recorded in a session and no copy takes over. Damage to somebody else's session is for
    its owner to repair, and all of it is left out.
    """
    authors = tables.put_by_others(session)
    if not authors:
        return None
    events = [event for event, _ in tables.tail(session, 0)]
    flawed = [*(flaws(events) if own else ()), *map(unentitled_erasure, tables.unentitled_erasures(session))]
    reason: str | None = None
    first_unsound: dict[tuple[str, str], int] = {}
    for flaw in flawed:
        author = None if flaw.damaged is None else authors.get(row_key(flaw.damaged))
        if author is not None:
            stream = flaw.writer, author
            first_unsound[stream] = min(flaw.seq, first_unsound.get(stream, flaw.seq))
            reason = reason or f"{flaw.detail} (recorded by {author})"
    if reason is None:
        return None
    rows = (
        row_key(event)
        for event in events
        if event.seq >= first_unsound.get((event.writer, authors.get(row_key(event), "")), MAX_SAFE_INTEGER + 1)
    )
    return UnsoundEvents(reason, frozenset(rows))


# ── repairing ────────────────────────────────────────────────────────────────────────────────────────────


# What repairing derived data did, by the check that had failed.
_REBUILT: Final = {
    "erasure": "erased data that was still there was removed.",
    "listing": "its listing was rebuilt from the log.",
    "search": "its search index was rebuilt from the log.",
    "state": "its state was rebuilt from the log.",
}


def repair(store: PostgresStore) -> list[str]:
    """Repair each session in a separate transaction; what is read-only for the caller stays as it is."""
    report: list[str] = []
    no_evidence = not any(project.evidence for project in store.local_state().projects)
    for session, _ in store.listed_sessions():
        if store.may_write(session):
            try:
                wrong = _wrong_derived_data(store, session)
                report += _repair_session(store, session, no_evidence=no_evidence)
                right = wrong - _wrong_derived_data(store, session) if wrong else wrong
                report += [f"Session {session}: {_REBUILT[name]}" for name in sorted(right)]
            except HoldfastError as error:
                report.append(f"Session {session}: it could not be repaired: {error.message}")
    return report


def _repair_session(store: PostgresStore, session: str, *, no_evidence: bool) -> list[str]:
    report: list[str] = []
    with store.transaction() as transaction:
        tables = store.tables
        tables.lock((session,))
        events = [event for event, _ in tables.tail(session, 0)]
        sql = "SELECT owner = CURRENT_USER, updated_at FROM sessions WHERE ref = %s"
        ((own, until),) = tables.pipeline.query(sql, (tables.ref(session),))
        others = tables.put_by_others(session)
        for flaw in flaws(events):
            if flaw.damaged is not None and own:
                # A repaired event belongs to who repairs it: another person's event must not become one's own.
                restored = None if row_key(flaw.damaged) in others else _restored(flaw.damaged, events)
                report.append(_replace(store, flaw.damaged, restored))
            elif flaw.damaged is not None:
                report.append(f"Session {session}: {flaw.detail}; only its owner can repair that.")
        for event in tables.unentitled_erasures(session) if own else ():
            _quarantine(store, event)
            report.append(f"Session {session}: {unentitled_erasure(event).detail}. It was set aside.")
        # Events without a key are never duplicates; the refold marks those with one.
        sql = "UPDATE events SET double = 0 WHERE session = %s AND double <> 0 AND key IS NULL"
        tables.pipeline.send(sql, (tables.ref(session),))
        if events or transaction.state(session).last is not None:
            store.journal.refold(session)
            missing = list(_note_missing(store, session)) if own else []
            report += missing
            project = transaction.state(session).project
            if no_evidence and project is not None and not transaction.state(session).deleted:
                transaction.remember_project(project)
            # The listing says until when the session was worked on: what is later than the log is lost.
            if not missing and until > transaction.state(session).updated_at:
                report.append(
                    f"Session {session}: what happened last, up to {format_time(until)}, could not be saved."
                )
    return report


def _wrong_derived_data(store: PostgresStore, session: str) -> set[str]:
    """The checks of derived data that fail."""

    def failing() -> set[str]:
        tables = store.tables
        unlisted = tables.version(session) <= 0 and next(tables.tail(session, 0), None) is not None
        failed = {finding.check for finding in _session_damage(tables, session)}
        return {name for name in _REBUILT if name in failed or (unlisted and name == "listing")}

    return store.read(failing)


def _restored(event: Event, events: list[Event]) -> Event | None:
    """A damaged event as it once was, where that is certain."""
    named = {event.prev for event in events}
    before = [item.hash for item in events if (item.writer, item.seq) == (event.writer, event.seq - 1)]
    fitting = (guess for guess in repair_candidates(event, before, named.__contains__) if find_problem(guess) is None)
    return next(fitting, None)


def _replace(store: PostgresStore, event: Event, restored: Event | None) -> str:
    """Replace a damaged event with the restored one, if there is one; otherwise quarantine it."""
    tables = store.tables
    subject = f"Session {event.session}: event {event.seq} ({event.type})"
    if restored is None:
        _quarantine(store, event)
        return f"{subject} is damaged and was set aside."
    tables.remove([event])
    tables.insert(tables.missing(event.session, [restored]))
    return f"{subject} was damaged and is repaired."


def _quarantine(store: PostgresStore, event: Event) -> None:
    store.tables.remove([event])
    _set_aside(store, event.session, f"event {event.hash[:12]}", msgspec.json.encode(event))


def _note_missing(store: PostgresStore, session: str) -> Iterator[str]:
    """Record the events that cannot be brought back; each is reported once."""
    tables = store.tables
    ref = tables.ref(session)
    known = {name for (name,) in tables.pipeline.query("SELECT name FROM aside WHERE session = %s", (ref,))}
    for flaw in flaws(event for event, _ in tables.tail(session, 0)):
        name = checks.missing_event_name(session, flaw.writer, flaw.seq)
        if name not in known:
            _set_aside(store, session, name, b"")
            yield f"Session {session}: {flaw.detail}; it could not be saved."


def _set_aside(store: PostgresStore, session: str, name: str, content: bytes) -> None:
    tables = store.tables
    sql = "INSERT INTO aside (session, name, found) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
    tables.pipeline.send(sql, (tables.ref(session), name, content))
