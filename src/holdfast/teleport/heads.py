"""The head: a device's signed word on what it has published in a vault under one life, and on what it has seen there.

A life (one writer id) numbers its pushes 1, 2, 3…; each pack covers some of them without gaps, so that whoever has
taken in all up to a number knows from the head alone which packs are new. Heads are numbered too, and only ever grow:
an older one shown again, or one that others have seen and that is not shown, is noticed.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from holdfast.core.errors import Invalid
from holdfast.teleport.keys import HEAD, DeviceKeys, verify
from holdfast.teleport.sealing import life_tag, vault_tag

VERSION: Final = 1
MOST_SEEN: Final = 256
_MOST_PACKS: Final = 100_000
_NAME: Final = re.compile(r"h/([0-9a-f]{16})\.([0-9a-f]{20})-([0-9]{12})", re.ASCII)
JOINS: Final = "h/join-"


class Indexed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A pack in a head: where it is, which pushes it covers, and what it must be."""

    name: str
    first: int
    last: int
    size: int
    digest: bytes


class Seen(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The newest head of another life that the author had seen."""

    life: str
    counter: int
    digest: bytes


class Wanted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Pushes of another life that the author could not read: whoever has them packs them again."""

    life: str
    first: int
    last: int


class Head(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    v: int = VERSION
    vault: str
    device: str
    writer: str
    counter: int
    at: int
    packs: tuple[Indexed, ...] = ()
    seen: tuple[Seen, ...] = ()
    tips: tuple[str, ...] = ()
    wanting: tuple[Wanted, ...] = ()


class Listed(NamedTuple):
    """A head's name, taken apart."""

    name: str
    vault: str
    life: str
    counter: int


_encode = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(Head)
_read_signed = msgspec.msgpack.Decoder(tuple[bytes, bytes])


def name_of(vault: str, writer: str, counter: int) -> str:
    return f"h/{vault_tag(vault)}.{life_tag(vault, writer)}-{counter:012}"


def listed(name: str) -> Listed | None:
    """What a name in a listing says; None when it is no head's."""
    found = _NAME.fullmatch(name)
    return None if found is None else Listed(name, found[1], found[2], int(found[3]))


def signed(keys: DeviceKeys, head: Head) -> bytes:
    payload = _encode(head)
    return _encode((payload, keys.sign(HEAD, payload)))


class Claimed(NamedTuple):
    """A head as read: nothing of it is believed before its signature is checked."""

    head: Head
    payload: bytes
    signature: bytes

    def is_by(self, signing: bytes) -> bool:
        return verify(signing, HEAD, self.payload, self.signature)


def read(plain: bytes, vault: str, where: Listed) -> Claimed:
    """A head that says it belongs where it was found."""
    try:
        payload, signature = _read_signed.decode(plain)
        head = _read.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Invalid("it is no head") from None
    if head.v > VERSION:
        raise Invalid("it was written by a newer Holdfast", hint="Upgrade Holdfast on this device.")
    if head.vault != vault or head.counter != where.counter or life_tag(vault, head.writer) != where.life:
        raise Invalid("it belongs somewhere else")
    if len(head.packs) > _MOST_PACKS or not _in_order(head.packs):
        raise Invalid("its packs do not cover its pushes one after the other")
    return Claimed(head, payload, signature)


def _in_order(packs: tuple[Indexed, ...]) -> bool:
    expected = 1
    for one in packs:
        if one.first != expected or one.last < one.first:
            return False
        expected = one.last + 1
    return True
