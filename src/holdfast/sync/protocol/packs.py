"""A pack: stretches (consecutive events of one stream, signed as a whole), encoded as bytes to be sealed.

Derived values are left out: the reader computes numbers, hashes and links again, and the signature over the last hash
vouches for all. A pack does not refer to other packs: any member may pack the same events again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from holdfast.core import times
from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.decode import decodable
from holdfast.core.envelope import SALT_BYTES, Event, StreamHead, body_of, event_with_hash
from holdfast.core.errors import Invalid

VERSION: Final = 1
# What one pack may hold: honest writers stay well below.
MAX_PLAIN_BYTES: Final = 128 << 20
MAX_EVENTS: Final = 400_000
# For packs of guests, or of the owner of a share: the largest honest push, or this multiple of the sealed size.
_MIN_UNPACKED_LIMIT: Final = 24 << 20
_MAX_UNPACKED_RATIO: Final = 300
_HASH: Final = 32
# Session and writer become parts of names in the store's memory: a closed alphabet keeps them unambiguous.
SESSION: Final = r"\A[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z"
WRITER: Final = r"\A[0-9a-f]{20}([0-9a-f]{16})?\Z"


class Stretch(NamedTuple):
    """Consecutive events of one stream, with the signature that vouches for the last, and so for all before it."""

    session: str
    writer: str
    device: str
    signature: bytes
    events: Sequence[Event]


class _Packed(msgspec.Struct, array_like=True, gc=False, frozen=True):
    v: int
    clock: int
    at: int
    seen: tuple[StreamHead, ...] | None
    key: str | None
    actor: str
    type: str
    data: bytes | None
    salt: bytes | None
    # Only where data was erased: otherwise it follows from data and salt.
    body: bytes | None


class _Stretch(msgspec.Struct, array_like=True, gc=False, frozen=True):
    session: Annotated[str, Meta(pattern=SESSION)]
    writer: Annotated[str, Meta(pattern=WRITER)]
    first: int
    prev: bytes | None
    device: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    signature: Annotated[bytes, Meta(max_length=64)]
    events: Annotated[tuple[_Packed, ...], Meta(max_length=MAX_EVENTS)]


class _Version(msgspec.Struct, array_like=True, gc=False, frozen=True):
    version: int


class _Pack(msgspec.Struct, array_like=True, gc=False, frozen=True):
    version: int
    # Decoded one by one: events of a hostile pack are counted before all are in memory.
    stretches: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=MAX_EVENTS)]


_encode = msgspec.msgpack.Encoder().encode
_read_version = msgspec.msgpack.Decoder(decodable(_Version))
_read = msgspec.msgpack.Decoder(decodable(_Pack))
_read_stretch = msgspec.msgpack.Decoder(decodable(_Stretch))


def unpacked_limit(sealed: int, *, foreign: bool) -> int:
    """How many bytes a sealed pack of this size may decompress to."""
    return (
        min(MAX_PLAIN_BYTES, max(_MIN_UNPACKED_LIMIT, _MAX_UNPACKED_RATIO * sealed)) if foreign else MAX_PLAIN_BYTES
    )


def stream_message(vault: str, session: str, writer: str, seq: int, last: str) -> bytes:
    """The bytes a device signs to vouch for a stream up to an event."""
    return f"{vault}\n{session}\n{writer}\n{seq}\n{last}".encode()


def pack(stretches: Iterable[Stretch]) -> bytes:
    """The bytes of a pack."""
    packed = [
        (
            stretch.session, stretch.writer, stretch.events[0].seq,
            None if stretch.events[0].prev is None else bytes.fromhex(stretch.events[0].prev),
            stretch.device, stretch.signature,
            [
                (event.v, event.clock, event.at, event.seen or None, event.key, event.actor, event.type, event.data,
                 event.salt, bytes.fromhex(event.body) if event.data is None else None)
                for event in stretch.events
            ],
        )
        for stretch in stretches
    ]  # fmt: skip
    return _encode((VERSION, packed))


def unpack(plain: bytes) -> list[Stretch]:
    """The stretches of a pack. Only their structure is checked here, not who vouches for them."""
    try:
        version = _read_version.decode(plain).version
        if version > VERSION:
            raise Invalid("it was written by a newer Holdfast", hint="Upgrade Holdfast on this device.")
        if version < VERSION:
            raise Invalid("it has an unknown version")
        stretches, events = [], 0
        for raw in _read.decode(plain).stretches:
            stretch = _read_stretch.decode(raw)
            events += len(stretch.events)
            if events > MAX_EVENTS:
                raise Invalid("it holds more events than a pack can")
            stretches.append(_stretch(stretch))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Invalid("it is not a valid pack") from None
    return stretches


def _stretch(packed: _Stretch) -> Stretch:
    if not packed.events or not 0 < packed.first <= MAX_SAFE_INTEGER - len(packed.events):
        raise Invalid("a stream in it is empty, or its numbers are too large")
    if (packed.prev is None) != (packed.first == 1) or (packed.prev is not None and len(packed.prev) != _HASH):
        raise Invalid("a stream in it does not say which event it follows")
    prev = None if packed.prev is None else packed.prev.hex()
    events: list[Event] = []
    for seq, item in enumerate(packed.events, packed.first):
        if not (
            times.EARLIEST <= item.at <= times.LATEST
            and 0 < item.clock <= MAX_SAFE_INTEGER
            and 0 < item.v <= MAX_SAFE_INTEGER
        ):
            raise Invalid("an event in it has an impossible time or number")
        if item.seen and not all(
            0 < head.seq <= MAX_SAFE_INTEGER and len(head.hash) == 2 * _HASH for head in item.seen
        ):
            raise Invalid("an event in it names impossible heads")
        event = event_with_hash(
            item.v, packed.session, packed.writer, seq, item.clock, item.at, item.seen or (), item.key, item.actor,
            item.type, _body(item), prev, item.data, item.salt,
        )  # fmt: skip
        events.append(event)
        prev = event.hash
    return Stretch(packed.session, packed.writer, packed.device, packed.signature, events)


def _body(event: _Packed) -> str:
    if event.data is None:
        if event.salt is not None or event.body is None or len(event.body) != _HASH:
            raise Invalid("an erased event in it is not fully erased")
        return event.body.hex()
    if event.salt is None or len(event.salt) != SALT_BYTES or event.body is not None:
        raise Invalid("an event in it has no salt, or an extra digest")
    return body_of(event.data, event.salt)
