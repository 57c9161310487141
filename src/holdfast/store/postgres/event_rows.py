"""Events as rows of the log: read, inserted, and erased.

The owner of a session may erase any of its events, everybody else only what they put there. The server refuses other
erasures (`erase_own`, rights.sql); those that came in under earlier versions, or before the event that they name, are
ignored here. Only a row whose hash is true counts as the named event: another one with that hash cannot be made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.envelope import Event, StreamHead, hash_matches
from holdfast.core.errors import Damaged
from holdfast.core.event_data import erased_hashes, read_data
from holdfast.core.events import EventErased
from holdfast.store.postgres.pipeline import StatementPipeline, encode_text

COLUMNS: Final = (
    "e.writer, e.seq, e.clock, e.at, e.v, e.type, e.actor, e.key, e.seen, e.body, e.prev, e.hash, e.data, e.salt"
)
ORDER: Final = "ORDER BY e.clock, e.writer, e.seq, e.hash"
_heads = msgspec.json.Decoder(decodable(tuple[StreamHead, ...]))
_write_heads = msgspec.json.Encoder().encode


def row_of(ref: int, event: Event) -> tuple[Any, ...]:
    return (
        ref, event.writer, event.seq, event.clock, event.at, event.v, event.type, event.actor, event.key,
        _write_heads(event.seen) if event.seen else None, bytes.fromhex(event.body),
        None if event.prev is None else bytes.fromhex(event.prev), bytes.fromhex(event.hash), event.data, event.salt,
    )  # fmt: skip


def _decode_heads(encoded: bytes | None) -> tuple[StreamHead, ...]:
    """Unreadable heads count as none: then the hash does not fit, and verifying the chain reports it. Anybody who may
    write can put them there, and one bad event must not make all others unreadable.
    """
    try:
        return _heads.decode(encoded) if encoded else ()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return ()


def event_of(session: str, row: Sequence[Any]) -> Event:
    """An event from its row; its hash is not checked here."""
    writer, seq, clock, at, v, kind, actor, key, seen, body, prev, own, data, salt = row
    try:
        return Event(
            v=v, session=session, writer=writer, seq=seq, clock=clock, at=at,
            seen=_decode_heads(seen), key=key, actor=actor, type=kind,
            body=body.hex(), prev=None if prev is None else prev.hex(), hash=own.hex(),
            data=None if data is None else bytes(data), salt=None if salt is None else bytes(salt),
        )  # fmt: skip
    except (AttributeError, TypeError, ValueError, msgspec.MsgspecError):
        raise Damaged("the store is damaged (an event cannot be read)", session=session) from None


# ── inserting ────────────────────────────────────────────────────────────────────────────────────────────


_COLUMNS: Final = "session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt"
_INSERT_ONE: Final = f"INSERT INTO events ({_COLUMNS}) VALUES ({', '.join(['%s'] * 15)})"  # noqa: S608 (constants)
# Rows get their places in the order given.
_INSERT_MANY: Final = (
    f"INSERT INTO events ({_COLUMNS})"  # noqa: S608 (constants)
    " SELECT %s, given.* FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[],"
    " %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[]) AS given"
)
_INSERT_WORDS: Final = (
    "INSERT INTO words (session, word) SELECT %s, word FROM unnest(%s::text[]) AS given (word) ON CONFLICT DO NOTHING"
)
MAX_BATCH: Final = 500  # events that wait


class EventBatch:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.words: list[str] = []

    def is_of(self, session: str) -> bool:
        return bool(self.events) and self.events[0].session == session

    def accepts(self, session: str) -> bool:
        """Whether an event of this session can go with what is here."""
        return not self.events or (self.is_of(session) and len(self.events) < MAX_BATCH)

    def clear(self) -> None:
        self.events, self.words = [], []

    def send(self, pipeline: StatementPipeline, ref: int) -> None:
        events, words = self.events, self.words
        self.clear()
        send_events(pipeline, ref, events)
        if words:
            send_words(pipeline, ref, words)


def send_events(pipeline: StatementPipeline, ref: int, events: Sequence[Event]) -> None:
    """Insert events of the session with this number."""
    if len(events) == 1:
        pipeline.send(_INSERT_ONE, row_of(ref, events[0]))
        return
    rows = [row_of(ref, event)[1:] for event in events]
    columns = ([encode_text(item) for item in column] for column in zip(*rows, strict=True))
    pipeline.send(_INSERT_MANY, (ref, *columns))


def send_words(pipeline: StatementPipeline, ref: int, words: Sequence[str]) -> None:
    pipeline.send(_INSERT_WORDS, (ref, sorted(set(words))))


# ── erasures ─────────────────────────────────────────────────────────────────────────────────────────────


_HEX: Final = re.compile("(?:[0-9A-Fa-f]{2})+").fullmatch  # `bytes.fromhex` would allow spaces


class Erasure(NamedTuple):
    event: Event
    # Who recorded it, and whether they own the session.
    person: str
    by_owner: bool
    # An earlier event has its key: it does not count.
    double: bool
    # The hashes of every event that it names, at any depth.
    names: frozenset[bytes]


def erasures(pipeline: StatementPipeline, ref: int | None, session: str) -> list[Erasure]:
    """Every erasure and deletion in the log of the session, in log order, obeyed or not."""
    rows = pipeline.query(
        f"SELECT {COLUMNS}, e.put_by, e.put_by = s.owner, e.double FROM events e JOIN sessions s ON s.ref = e.session"  # noqa: S608
        f" WHERE e.session = %s AND e.type IN ('event.erased', 'session.deleted') {ORDER}",
        (ref,),
    )
    result = []
    for *row, person, by_owner, double in rows:
        event = event_of(session, row)
        data = read_data(event)
        names = hash_bytes(erased_hashes(data)) if isinstance(data, EventErased) else frozenset[bytes]()
        result.append(Erasure(event, person, by_owner, bool(double), names))
    return result


def unentitled_erasures(
    pipeline: StatementPipeline, ref: int | None, session: str, candidates: Iterable[Erasure]
) -> list[Event]:
    """Those that name an event which another person recorded and whose data is there. Where the data is erased
    already, somebody did who may: perhaps an earlier owner.
    """
    candidates = [erasure for erasure in candidates if erasure.names and not erasure.by_owner]
    if not candidates:
        return []
    rows = pipeline.query(
        f"SELECT {COLUMNS}, e.put_by FROM events e"  # noqa: S608 (constants)
        " WHERE e.session = %s AND e.data IS NOT NULL AND e.hash = ANY(%s::bytea[])",
        (ref, sorted(frozenset[bytes]().union(*(erasure.names for erasure in candidates)))),
    )
    authors = {}
    for *row, person in rows:
        event = event_of(session, row)
        if hash_matches(event):
            authors[bytes.fromhex(event.hash)] = person
    return [
        erasure.event
        for erasure in candidates
        if any(authors.get(name, erasure.person) != erasure.person for name in erasure.names)
    ]


def obeyed_erasures(pipeline: StatementPipeline, ref: int | None, session: str) -> list[Erasure]:
    recorded = erasures(pipeline, ref, session)
    ignored = {event.written for event in unentitled_erasures(pipeline, ref, session, recorded)}
    return [erasure for erasure in recorded if not erasure.double and erasure.event.written not in ignored]


def erasable_rows(
    pipeline: StatementPipeline, ref: int | None, session: str, hashes: Iterable[str]
) -> list[tuple[int, bytes]]:
    """The rows, by clock and hash, of the events with these hashes that still have data. A row whose hash is not true
    is erased only by the person who recorded it, and by the owner.
    """
    rows = pipeline.query(
        f"SELECT {COLUMNS}, e.put_by FROM events e"  # noqa: S608 (constants)
        " WHERE e.session = %s AND coalesce(e.data, e.salt) IS NOT NULL AND e.hash = ANY(%s::bytea[])",
        (ref, sorted(hash_bytes(hashes))),
    )
    orders = obeyed_erasures(pipeline, ref, session) if rows else []
    erasable = []
    for *row, person in rows:
        event = event_of(session, row)
        own = bytes.fromhex(event.hash)
        if hash_matches(event) or any(
            own in erasure.names and (erasure.by_owner or erasure.person == person) for erasure in orders
        ):
            erasable.append((event.clock, own))
    return erasable


def hash_bytes(names: Iterable[str]) -> frozenset[bytes]:
    """Hashes as columns hold them; strings that are none are left out."""
    return frozenset(bytes.fromhex(name) for name in names if _HEX(name))
