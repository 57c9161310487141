"""Looking for damage: the file, the chains, and whether everything derived is what the log says."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import msgspec

from holdfast.core.event import Event
from holdfast.core.fold import apply, in_log_order, read
from holdfast.core.search import words
from holdfast.core.state import FOLD_VERSION, State, thaw
from holdfast.core.vocabulary import TYPE_OF, searched_text
from holdfast.store.interface import Finding
from holdfast.store.journal import summary
from holdfast.store.sqlite.tables import SqliteTables
from holdfast.store.sqlite.trouble import speaking
from holdfast.store.verify import flaws


def check(connection: apsw.Connection, tables: SqliteTables, path: str) -> Iterator[Finding]:
    with speaking("check the store", path):
        for (said,) in connection.execute("PRAGMA integrity_check(20)"):
            if said != "ok":
                yield Finding("file", str(said))
        for (name,) in connection.execute("SELECT DISTINCT session FROM events EXCEPT SELECT ref FROM sessions"):
            yield Finding("listing", f"events of session number {name} have no session")
        asides = {row[0] for row in connection.execute("SELECT name FROM facts WHERE name LIKE 'aside:%'")}
        for ref, session in list(connection.execute("SELECT ref, id FROM sessions ORDER BY ref")):
            yield from _session(connection, tables, ref, session, asides)


def _session(
    connection: apsw.Connection, tables: SqliteTables, ref: int, session: str, asides: set[str]
) -> Iterator[Finding]:
    try:
        events = list(tables.read(session))
    except (msgspec.MsgspecError, AttributeError, TypeError, ValueError) as error:
        yield Finding("chain", f"an event cannot be read: {error}", session)
        return
    for flaw in flaws(events):
        set_aside = f"aside:{session}:{flaw.writer}:{flaw.seq}" in asides
        yield Finding("aside" if set_aside else "chain", flaw.detail, session)
    if any(event.data is not None for event in events if event.type != "session.deleted") and any(
        event.type == "session.deleted" for event in events
    ):
        yield Finding("erasure", "the session was deleted, but data of it is still there", session)
    yield from _derived(connection, ref, session, events)


def _derived(connection: apsw.Connection, ref: int, session: str, events: list[Event]) -> Iterator[Finding]:
    rows = connection.execute("SELECT count, fold, state FROM snapshots WHERE session = ?", (ref,))
    snapshots = {count: frozen for count, fold, frozen in rows if fold == FOLD_VERSION}
    state, found = State(session=session), set()
    for event in in_log_order(events):
        data = read(event)
        apply(state, event, data)
        if data is not None and TYPE_OF[type(data)].searched:
            found.update(words(searched_text(TYPE_OF[type(data)], data)))
        frozen = snapshots.pop(state.count, None)
        if frozen is not None and not _same(frozen, state):
            yield Finding("state", f"the snapshot at event {state.count} differs from the log", session)
    for count in snapshots:
        yield Finding("state", f"the snapshot at event {count} is of a log that is not here", session)
    listed = connection.execute(
        "SELECT project, created_at, updated_at, ended_at, goal, status, progress, name, device, working_ms, archived,"
        " deleted FROM sessions WHERE ref = ?",
        (ref,),
    ).fetchall()[0]  # fmt: skip
    if listed != summary(state):
        yield Finding("listing", "the listing does not show what the log adds up to", session)
    indexed = {row[0] for row in connection.execute("SELECT word FROM words WHERE session = ?", (ref,))}
    if indexed != (set() if state.deleted else found):
        yield Finding("search", "the search index does not hold the words of the log", session)


def _same(frozen: bytes, state: State) -> bool:
    try:
        return thaw(frozen) == state
    except msgspec.MsgspecError:
        return False
