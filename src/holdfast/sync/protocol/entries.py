"""Membership entries: signed statements about who belongs to a vault and which keys it uses.

An entry's payload is signed and named by its hash; its bytes are kept and passed on unchanged. An entry by a newer
program that cannot be read here keeps its place among the others, and has no effect.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid
from holdfast.workspace.keys.device_keys import ENTRY, DeviceKeys, PublicKeys, verify

# Bytes. A removal or a restoration names up to `_MAX_STREAMS` streams, every other kind says little.
LIMIT: Final = 8 << 20
_MAX_OTHER: Final = 512 << 10
_LARGE: Final = frozenset({"remove", "restore"})
# Limits on what a sealed entry may decompress to: names, keys and hashes do not compress well.
_MIN_UNPACKED_LIMIT: Final = 64 << 10
_MAX_UNPACKED_RATIO: Final = 32
FOUNDING_LIMIT: Final = 16 << 10
_MAX_STREAMS: Final = 100_000
_HASH: Final = b"holdfast entry\n"

Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
DeviceId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Tag = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Time = Annotated[int, Meta(ge=0, le=1 << 53)]
Name = Annotated[str, Meta(max_length=200)]
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Parents = Annotated[tuple[Hash, ...], Meta(max_length=10_000)]
Cut = dict[Word, dict[Word, Annotated[int, Meta(ge=0, le=1 << 53)]]]


class EntryHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every entry, also of an unknown kind."""

    kind: Annotated[str, Meta(max_length=40)]
    vault: Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
    parents: Parents
    by: DeviceId
    at: Time


class MembershipEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """`parents` are the entries known to the author that no other entry follows, sorted; `at` is milliseconds."""

    vault: Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
    parents: Parents
    by: DeviceId
    at: Time


class VaultFounded(MembershipEntry, frozen=True, kw_only=True, tag="found"):
    """The first entry. It is public, so it has no names; with `session` it is the vault of that one session."""

    device: PublicKeys
    nonce: Annotated[bytes, Meta(min_length=16, max_length=16)]
    box: Annotated[str, Meta(min_length=1, max_length=200)]
    session: Word | None


class Admit(MembershipEntry, frozen=True, kw_only=True, tag="admit"):
    """`possession` proves that the device has the signing key it names; earlier versions gave none."""

    device: PublicKeys
    name: Name
    admin: bool
    role: Literal["device", "recovery", "guest"]
    invite: Hash | None = None
    possession: Annotated[bytes, Meta(min_length=64, max_length=64)] | None = None


class Rename(MembershipEntry, frozen=True, kw_only=True, tag="rename"):
    device: DeviceId
    name: Name


class Remove(MembershipEntry, frozen=True, kw_only=True, tag="remove"):
    """`cut` says, by writer and session, up to where the removed device's events are accepted."""

    device: DeviceId
    cut: Cut


class Restore(MembershipEntry, frozen=True, kw_only=True, tag="restore"):
    """Accepts events beyond the cut of a removal."""

    device: DeviceId
    cut: Cut


class NewKey(MembershipEntry, frozen=True, kw_only=True, tag="key"):
    id: Tag
    recipients: Annotated[tuple[Tag, ...], Meta(max_length=10_000)]


class ShareEntry(MembershipEntry, frozen=True, kw_only=True, tag="share"):
    """`share` is the id of the vault that holds the one session, `founding` its packed founding entry."""

    share: Hash
    founding: Annotated[bytes, Meta(max_length=FOUNDING_LIMIT)]
    session: Word


class Origin(MembershipEntry, frozen=True, kw_only=True, tag="origin"):
    """How a session came to this vault: through the share of this id, or None, as its own."""

    session: Word
    share: Hash | None


class Guests(MembershipEntry, frozen=True, kw_only=True, tag="guests"):
    """Signing keys of guests of a session's share at another remote, whose streams are passed on to this vault."""

    session: Word
    keys: Annotated[tuple[Annotated[bytes, Meta(min_length=32, max_length=32)], ...], Meta(max_length=1000)]


class Invite(MembershipEntry, frozen=True, kw_only=True, tag="invite"):
    email: Annotated[str, Meta(max_length=320)]
    recipients: Annotated[tuple[Annotated[str, Meta(max_length=2000)], ...], Meta(max_length=1000)]
    write: bool
    secret: Annotated[bytes, Meta(max_length=64)]
    expires: Time | None = None


class Uninvite(MembershipEntry, frozen=True, kw_only=True, tag="uninvite"):
    invite: Hash


_HEADER: Final = msgspec.msgpack.Decoder(decodable(EntryHeader))
_ENTRY: Final = msgspec.msgpack.Decoder(
    decodable(
        VaultFounded | Admit | Rename | Remove | Restore | NewKey | ShareEntry | Origin | Guests | Invite | Uninvite
    )
)
_PACKED: Final = msgspec.msgpack.Decoder(decodable(tuple[bytes, bytes]))


class SignedEntry(NamedTuple):
    payload: bytes
    signature: bytes


def sign(keys: DeviceKeys, entry: MembershipEntry) -> SignedEntry:
    payload = msgspec.msgpack.encode(entry)
    return SignedEntry(payload, keys.sign(ENTRY, payload))


def hash_of(payload: bytes) -> str:
    return hashlib.sha256(_HASH + payload).hexdigest()


def unpacked_limit(sealed: int) -> int:
    """How many bytes a sealed entry of this size may decompress to."""
    return min(LIMIT, max(_MIN_UNPACKED_LIMIT, _MAX_UNPACKED_RATIO * sealed))


def header_of(payload: bytes) -> EntryHeader | None:
    """The part of an entry that every version understands; None when it is no entry."""
    if len(payload) > LIMIT:
        return None
    try:
        header = _HEADER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(payload) > _MAX_OTHER and header.kind not in _LARGE:
        return None
    return header if list(header.parents) == sorted(set(header.parents)) else None


def read(payload: bytes) -> MembershipEntry | None:
    """The entry; None when it is of an unknown kind, malformed, or too large."""
    if header_of(payload) is None:
        return None
    try:
        entry: MembershipEntry = _ENTRY.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(entry, Remove | Restore) and sum(map(len, entry.cut.values())) > _MAX_STREAMS:
        return None
    return entry


def pack(signed: SignedEntry) -> bytes:
    return msgspec.msgpack.encode((signed.payload, signed.signature))


def unpack(data: bytes) -> SignedEntry:
    signed = unpack_or_none(data)
    if signed is None:
        raise Invalid("this is not a membership entry", hint="It is ignored; other data is not affected.")
    return signed


def unpack_or_none(data: bytes) -> SignedEntry | None:
    try:
        payload, signature = _PACKED.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return SignedEntry(payload, signature) if len(signature) == 64 and len(payload) <= LIMIT else None


# --- the founding entry, which anybody may read --------------------------------------------------------


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    holdfast: int
    entry: str
    signature: str


def founding_of(signed: SignedEntry) -> VaultFounded | None:
    """The founding entry, if it is one and is signed by the device it names."""
    entry = read(signed.payload)
    if not isinstance(entry, VaultFounded) or entry.vault or entry.parents or entry.by != entry.device.id:
        return None
    return entry if verify(entry.device.signing, ENTRY, signed.payload, signed.signature) else None


def founding_document(signed: SignedEntry) -> bytes:
    entry, signature = (base64.b64encode(part).decode("ascii") for part in signed)
    return msgspec.json.encode(_Document(1, entry, signature))


def read_founding(data: bytes) -> SignedEntry:
    """Read the object `vault` of a remote; `Invalid` for anything but a genuine founding entry."""
    hint = "The address may be wrong, or somebody put another file there."
    if len(data) > FOUNDING_LIMIT:
        raise Invalid("the founding entry of the vault at this remote is too large", hint=hint)
    try:
        version = msgspec.json.decode(data, type=decodable(dict[str, object])).get("holdfast")
        if isinstance(version, int) and version > 1:
            raise Invalid("the vault at this remote was written by a newer Holdfast", hint="Update Holdfast.")
        document = msgspec.json.decode(data, type=decodable(_Document))
        if document.holdfast != 1:
            raise Invalid("there is no Holdfast vault at this remote", hint=hint)
        signed = SignedEntry(
            base64.b64decode(document.entry, validate=True), base64.b64decode(document.signature, validate=True)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, binascii.Error, ValueError):
        raise Invalid("there is no Holdfast vault at this remote", hint=hint) from None
    if founding_of(signed) is None:
        raise Invalid("the founding entry of the vault at this remote is not genuine", hint=hint)
    return signed
