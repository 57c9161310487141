"""The event: an immutable fact, and its link to the events before it.

The envelope is frozen. `hash` covers the envelope with `body`, the salted digest of the data, and never the data
itself: so data and salt can be erased, and the chain still verifies. `v` is the version of the event's data; `LAYOUT`
names the layout of the envelope and is part of what is hashed.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from holdfast.core import times
from holdfast.core.canonical import MAX_SAFE_INTEGER, Json, digest

LAYOUT = b"holdfast event 1\n"
SALT_BYTES = 16

_in_order = msgspec.json.Encoder()


class StreamHead(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The last event of a stream: its writer, number and hash."""

    writer: str
    # Snapshots cannot store larger numbers.
    seq: Annotated[int, msgspec.Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
    hash: str


Position: TypeAlias = tuple[int, str, int, str]


class Event(msgspec.Struct, frozen=True, gc=False):
    v: int
    session: str
    writer: str
    seq: int
    clock: int
    at: int
    seen: tuple[StreamHead, ...]
    key: str | None
    actor: str
    type: str
    body: str
    prev: str | None
    hash: str
    data: bytes | None
    salt: bytes | None

    @property
    def written(self) -> Position:
        """Its position by the written clock. `clock.log_position` gives its position in the log."""
        return (self.clock, self.writer, self.seq, self.hash)

    @property
    def head(self) -> StreamHead:
        return StreamHead(self.writer, self.seq, self.hash)


class _Envelope(msgspec.Struct, gc=False):
    # Fields are sorted by name: encoded in this order, they are canonical JSON.
    actor: str
    at: str
    body: str
    clock: int
    key: str | None
    prev: str | None
    seen: tuple[StreamHead, ...]
    seq: int
    session: str
    type: str
    v: int
    writer: str


def body_of(data: bytes, salt: bytes) -> str:
    return digest(salt, data)


def hash_of(event: Event) -> str:
    """What `event.hash` must be. The envelope has no fractions and ASCII keys, so this is RFC 8785."""
    envelope = _Envelope(
        event.actor, times.format_time(event.at), event.body, event.clock, event.key, event.prev,
        event.seen, event.seq, event.session, event.type, event.v, event.writer,
    )  # fmt: skip
    return digest(LAYOUT, _in_order.encode(envelope))


def make_event(
    *,
    session: str,
    writer: str,
    seq: int,
    prev: str | None,
    clock: int,
    at: int,
    actor: str,
    type: str,  # noqa: A002 (the envelope's own word)
    version: int,
    data: bytes,
    salt: bytes,
    seen: tuple[StreamHead, ...] = (),
    key: str | None = None,
) -> Event:
    """Make the next event of a stream. `data` is canonical JSON, `salt` fresh random bytes."""
    at = min(max(at, times.EARLIEST), times.LATEST)  # hash only a time that can be written
    return event_with_hash(
        version, session, writer, seq, clock, at, seen, key, actor, type, body_of(data, salt), prev, data, salt
    )


def event_with_hash(
    v: int,
    session: str,
    writer: str,
    seq: int,
    clock: int,
    at: int,
    seen: tuple[StreamHead, ...],
    key: str | None,
    actor: str,
    type: str,  # noqa: A002 (the envelope's own word)
    body: str,
    prev: str | None,
    data: bytes | None,
    salt: bytes | None,
) -> Event:
    """An event with the hash of all its other fields."""
    envelope = _Envelope(actor, times.format_time(at), body, clock, key, prev, seen, seq, session, type, v, writer)
    hash_ = digest(LAYOUT, _in_order.encode(envelope))
    return Event(v, session, writer, seq, clock, at, seen, key, actor, type, body, prev, hash_, data, salt)


def find_problem(event: Event) -> str | None:
    """What is wrong with this event by itself, or None. Checks the hash, and the data unless it is erased."""
    if not times.EARLIEST <= event.at <= times.LATEST:
        return "its time is not within the years 1 to 9999"
    if hash_of(event) != event.hash:
        return "its hash does not match its content"
    if event.data is not None and (
        event.salt is None or len(event.salt) != SALT_BYTES or body_of(event.data, event.salt) != event.body
    ):  # a fixed length, or bytes could move between salt and data unnoticed
        return "its data does not match its digest"
    return None


def hash_matches(event: Event) -> bool:
    """Whether its hash matches its envelope; if not, another event may have that hash."""
    return times.EARLIEST <= event.at <= times.LATEST and hash_of(event) == event.hash


def event_document(event: Event) -> dict[str, Json]:
    """Every field, as in `log --json`."""
    return {
        "v": event.v, "session": event.session, "writer": event.writer, "seq": event.seq,
        "clock": event.clock, "at": times.format_time(event.at),
        "seen": [[head.writer, head.seq, head.hash] for head in event.seen],
        "key": event.key, "actor": event.actor, "type": event.type, "body": event.body,
        "prev": event.prev, "hash": event.hash,
        "data": _data_for_display(event.data),
        "salt": None if event.salt is None else event.salt.hex(),
    }  # fmt: skip


def _data_for_display(data: bytes | None) -> Json:
    """The decoded data; bytes that are not JSON, from another program, as text."""
    if data is None:
        return None
    try:
        decoded: Json = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data.decode(errors="replace")
    return decoded
