"""Looking for damage: whether every chain holds, and whether everything derived is what the log says.

Only what whoever asks can see is looked at. The server's own files are the server's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.errors import Damaged
from holdfast.core.state import FOLD_VERSION
from holdfast.store import derived_checks
from holdfast.store.chain_checks import flaws, unentitled_erasure
from holdfast.store.derived_checks import StoredSession
from holdfast.store.interface import Damage, UnsoundEvents, row_key
from holdfast.store.postgres.tables import BELIEVED, PostgresTables

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

_LISTED: Final = (
    "SELECT project, created_at, updated_at, ended_at, goal, status, progress, name, device, working_ms, archived,"
    " deleted FROM sessions WHERE ref = %s"
)


def check(store: PostgresStore) -> Iterator[Damage]:
    """Everything that is wrong, session by session: others may go on writing."""
    listed = store.listed_sessions()
    for session, version in listed:
        if version <= 0:
            # All its events were taken out again; or it was made, and nothing came in.
            try:
                if next(store.events(session), None) is None:
                    continue
            except Damaged:  # said below
                pass
            yield Damage("listing", "the session is not listed", session)
        try:
            yield from store.read(lambda: list(findings(store.tables, session)))  # noqa: B023 (called at once)
        except Damaged as error:
            yield Damage("chain", f"it cannot be read: {error.message}", session)


def findings(tables: PostgresTables, session: str) -> Iterator[Damage]:
    """All that is wrong with one session."""
    events = list(tables.tail(session, 0))
    ask, ref = tables.talk.ask, tables.ref(session)
    known = {name for (name,) in ask("SELECT name FROM aside WHERE session = %s", (ref,))}
    for name in sorted(item for item in known if not item.startswith("aside:")):
        yield Damage("aside", f"{name} was set aside by a repair", session)
    believed = f"SELECT count, state FROM snapshots WHERE session = %s AND {BELIEVED} AND fold = %s"  # noqa: S608
    snapshots = ask(believed, (ref, FOLD_VERSION))
    kept = StoredSession(
        snapshots={count: bytes(frozen) for count, frozen in snapshots},
        listed=next(iter(ask(_LISTED, (ref,))), None),
        words={word for (word,) in ask("SELECT holdfast.words_of(%s)", (ref,))},
        aliases={alias for (alias,) in ask("SELECT holdfast.aliases_of(%s)", (ref,))},
    )
    authors = tables.put_by_others(session)
    yield from derived_checks.findings(session, events, kept, known, authors, tables.unentitled(session))


def unsound(tables: PostgresTables, session: str, *, own: bool) -> UnsoundEvents | None:
    """Of what others put into a session: what no copy takes over. Damage to a session that is not one's own is for
    its owner, and leaves all of it out.
    """
    authors = tables.put_by_others(session)
    if not authors:
        return None
    events = [event for event, _ in tables.tail(session, 0)]
    flawed = [*(flaws(events) if own else ()), *map(unentitled_erasure, tables.unentitled(session))]
    reason: str | None = None
    first: dict[tuple[str, str], int] = {}
    for flaw in flawed:
        author = None if flaw.damaged is None else authors.get(row_key(flaw.damaged))
        if author is not None:
            stream = flaw.writer, author
            first[stream] = min(flaw.seq, first.get(stream, flaw.seq))
            reason = reason or f"{flaw.detail} (put there by {author})"
    if reason is None:
        return None
    rows = (
        row_key(event)
        for event in events
        if event.seq >= first.get((event.writer, authors.get(row_key(event), "")), MAX_SAFE_INTEGER + 1)
    )
    return UnsoundEvents(reason, frozenset(rows))
