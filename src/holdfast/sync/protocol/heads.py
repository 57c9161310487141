"""The head: a device's signed statement of what it published in a vault under one writer id, and of what it saw.

A *life* (one writer id in a vault) numbers its pushes 1, 2, 3…; each pack covers some of them without gaps, so that a
device that has read up to a number knows from the head alone which packs are new. Heads are numbered too, and the
numbers only grow: a replayed older head, or a withheld one that others have seen, is noticed.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid
from holdfast.sync.protocol.sealing import life_tag, vault_tag
from holdfast.workspace.keys.device_keys import HEAD, DeviceKeys, verify

VERSION: Final = 1
MAX_PLAIN_BYTES: Final = 4 << 20  # bytes: more than the largest honest head
MAX_SEEN: Final = 256
MAX_WANTED: Final = 256
_MAX_PACKS: Final = 20_000
_MAX_TIPS: Final = 1_000
_NAME: Final = re.compile(r"h/([0-9a-f]{16})\.([0-9a-f]{20})-([0-9]{12})", re.ASCII)
JOINS: Final = "h/join-"


# The author of a head may be hostile: nothing in it leads elsewhere, or is larger than in an honest one.
Life = Annotated[str, Meta(pattern=r"\A[0-9a-f]{20}\Z")]
PackName = Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}\Z")]
Number = Annotated[int, Meta(ge=1, le=1 << 53)]


class IndexedPack(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A pack in a head: its name, the pushes it covers, its size and digest."""

    name: PackName
    first: Number
    last: Number
    size: Number
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]

    def overlaps(self, first: int, last: int) -> bool:
        """Whether it covers any of these pushes."""
        return self.first <= last and first <= self.last


class SeenHead(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The newest head of another life that the author had seen."""

    life: Life
    counter: Number
    digest: Annotated[bytes, Meta(max_length=32)]


class WantedPushes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Pushes of another life that the author could not read: their author packs them again."""

    life: Life
    first: Number
    last: Number


class PublishedHead(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    v: int = VERSION
    vault: str
    device: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    writer: Annotated[str, Meta(max_length=100)]
    counter: int
    at: Annotated[int, Meta(ge=0, le=1 << 53)]
    packs: Annotated[tuple[IndexedPack, ...], Meta(max_length=_MAX_PACKS)] = ()
    seen: Annotated[tuple[SeenHead, ...], Meta(max_length=MAX_SEEN)] = ()
    tips: Annotated[tuple[Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")], ...], Meta(max_length=_MAX_TIPS)] = ()
    wanting: Annotated[tuple[WantedPushes, ...], Meta(max_length=MAX_WANTED)] = ()


class _Version(msgspec.Struct, frozen=True, gc=False):
    v: int


class HeadName(NamedTuple):
    """The parts of a head's name."""

    name: str
    vault: str
    life: str
    counter: int


_encode = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(decodable(PublishedHead))
_read_version = msgspec.msgpack.Decoder(decodable(_Version))
_read_signed = msgspec.msgpack.Decoder(decodable(tuple[bytes, bytes]))


def name_of(vault: str, writer: str, counter: int) -> str:
    return f"h/{vault_tag(vault)}.{life_tag(vault, writer)}-{counter:012}"


def parse_name(name: str) -> HeadName | None:
    """Parse a name in a listing; None when it is not the name of a head."""
    match = _NAME.fullmatch(name)
    return None if match is None else HeadName(name, match[1], match[2], int(match[3]))


def sign(keys: DeviceKeys, head: PublishedHead) -> bytes:
    payload = _encode(head)
    return _encode((payload, keys.sign(HEAD, payload)))


class SignedHead(NamedTuple):
    """A head as read: nothing of it is believed before its signature is checked."""

    head: PublishedHead
    payload: bytes
    signature: bytes

    def is_by(self, signing: bytes) -> bool:
        return verify(signing, HEAD, self.payload, self.signature)


def read(plain: bytes, vault: str, name: HeadName) -> SignedHead:
    """Read a head; `Invalid` unless it belongs under this name."""
    try:
        payload, signature = _read_signed.decode(plain)
        version = _read_version.decode(payload).v
        if version > VERSION:
            raise Invalid("it was written by a newer Holdfast", hint="Upgrade Holdfast on this device.")
        if version < VERSION:
            raise Invalid("it has an unknown version")
        head = _read.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Invalid("it is not a valid head") from None
    if head.vault != vault or head.counter != name.counter or life_tag(vault, head.writer) != name.life:
        raise Invalid("its content does not match its name")
    if not _in_order(head.packs):
        raise Invalid("its packs do not cover its pushes in order, without gaps")
    return SignedHead(head, payload, signature)


def _in_order(packs: tuple[IndexedPack, ...]) -> bool:
    expected = 1
    for pack in packs:
        if pack.first != expected or pack.last < pack.first:
            return False
        expected = pack.last + 1
    return True
