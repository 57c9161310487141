"""What this store remembers of a vault: how far it was read and published, its members, and what was rejected.

The memory is part of the store and is written in the same transaction as the events it is about, so it never claims
more than the log holds. All of it can be read again from the remote.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.core.decode import decodable
from holdfast.store.interface import Store, Transaction
from holdfast.sync.protocol.heads import IndexedPack, WantedPushes

if TYPE_CHECKING:
    from holdfast.sync.protocol.membership import Membership


class StreamSpan(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A stretch of one stream, by its numbers."""

    session: str
    writer: str
    first: int
    last: int


class Published(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one of our own lives published."""

    counter: int = 0
    # The newest head that is known to have been there; the outcome of later ones is unknown.
    there: int = 0
    pushes: int = 0
    packs: tuple[IndexedPack, ...] = ()
    # Events that arrived in the store up to this place were looked at.
    place: int = 0
    tips: tuple[str, ...] = ()
    # Packs that no head of ours names any more: removed with the next push.
    stale: tuple[str, ...] = ()
    # Packs that are too large to be merged again.
    large: tuple[str, ...] = ()
    # What our head reports as unreadable to us.
    wanting: tuple[WantedPushes, ...] = ()
    # In a share's vault: how many erasures were carried out.
    erasures: int = 0


class Intent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A push about to happen, stored before it does: after a crash it says what may be at the remote."""

    own: Published
    made: dict[str, tuple[StreamSpan, ...]] = {}
    published: tuple[StreamSpan, ...] = ()
    # Of the sealed head.
    digest: bytes = b""
    # Objects to remove once the push is there.
    obsolete: tuple[str, ...] = msgspec.field(default=(), name="gone")
    # Of streams that a copy of this home continued too: session/writer, and the events' hashes.
    forks: dict[str, tuple[str, ...]] = {}


class PushGap(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Pushes that could not be read, and the pack that should hold them."""

    first: int
    last: int
    pack: str
    # Failed twice: the first time it may just have been replaced. Only these are asked for.
    again: bool = False
    # Read, but not all of it was accepted: why not.
    reason: str = ""


class ReadPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far another life has been read."""

    writer: str
    device: str
    counter: int = 0
    digest: bytes = b""
    applied: int = 0
    gaps: tuple[PushGap, ...] = msgspec.field(default=(), name="holes")
    # Its device was removed, and not all of it was accepted: read again if the device is let in again.
    unaccepted: bool = msgspec.field(default=False, name="held")
    # Then also: how many of its pushes were read, and how many at the remote were not.
    read: int = 0
    unread: int = 0
    # When its author wrote the newest head, by the author's clock; and when we read it.
    published_at: int = msgspec.field(default=0, name="said_at")
    read_at: int = msgspec.field(default=0, name="heard_at")


class VouchedStream(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How far each device vouches for a stream in the vault: the same events may come from several."""

    by: dict[str, int] = {}

    def with_voucher(self, device: str, seq: int) -> VouchedStream:
        return VouchedStream({**self.by, device: max(seq, self.by.get(device, 0))})

    def accepted(self, members: Membership, session: str, writer: str) -> int:
        """How far the stream counts: all that members vouch for, and what was accepted of removed devices."""
        return max((members.accepted(device, writer, session, seq) for device, seq in self.by.items()), default=0)

    def by_members(self, members: Membership) -> int:
        """How far present members vouch for the stream."""
        return max((seq for device, seq in self.by.items() if members.is_member(device)), default=0)


class PastRejection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object that was rejected, and when."""

    pack: str
    device: str
    reason: str
    at: int


class DeviceStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """This device's status in the vault, as of the last sync."""

    # `pending`: asked to join. `member`: may read, and write unless it only reads. `out`: was removed.
    place: str = "pending"
    # Until a person confirms the vault, sessions that were here before are not uploaded.
    confirmed: bool = False
    last_sync: int | None = None
    error: str | None = None
    # The request we left, to remove it once it was approved.
    request: str | None = None
    # Whether it may vouch for what others wrote.
    admin: bool = False
    # What others wrote last is sealed with keys we were not given: we were most likely removed.
    shut_out: bool = False
    # The id of the device this is about: a home that lost its keys continues as another device.
    device: str = ""


_D = TypeVar("_D")
_encode = msgspec.msgpack.Encoder().encode
FOUNDING: Final = "founding"


class VaultState:
    def __init__(self, store: Store, vault: str) -> None:
        self._store = store
        self._root = f"vault/{vault}/"

    def name(self, *parts: str) -> str:
        return self._root + "/".join(parts)

    def read(self, kind: type[_D], *parts: str) -> _D | None:
        data = self._store.remembered(self.name(*parts))
        return None if data is None else decode_or_none(kind, data)

    def raw(self, *parts: str) -> bytes | None:
        return self._store.remembered(self.name(*parts))

    def under(self, kind: type[_D], *parts: str) -> Iterator[tuple[str, _D]]:
        """Everything under a name, with the rest of its name; what cannot be decoded is skipped."""
        prefix = self.name(*parts, "")
        for name, value in self._store.remembered_under(prefix).items():
            read = decode_or_none(kind, value)
            if read is not None:
                yield name.removeprefix(prefix), read

    def raw_under(self, *parts: str) -> dict[str, bytes]:
        prefix = self.name(*parts, "")
        return {name.removeprefix(prefix): value for name, value in self._store.remembered_under(prefix).items()}

    def write(self, transaction: Transaction, value: object, *parts: str) -> None:
        transaction.remember(self.name(*parts), _encode(value))

    def write_raw(self, transaction: Transaction, value: bytes, *parts: str) -> None:
        transaction.remember(self.name(*parts), value)

    def forget(self, transaction: Transaction, *parts: str) -> None:
        transaction.remember(self.name(*parts), None)

    # ── common values ────────────────────────────────────────────────────────────────────────

    def status(self) -> DeviceStatus:
        return self.read(DeviceStatus, "standing") or DeviceStatus()

    def own(self, writer: str) -> Published:
        return self.read(Published, "own", writer) or Published()

    def cursors(self) -> dict[str, ReadPosition]:
        return dict(self.under(ReadPosition, "life"))

    def vouched(self, session: str, writer: str) -> VouchedStream:
        return self.read(VouchedStream, "stream", session, writer) or VouchedStream()

    def vouch(self, transaction: Transaction, session: str, writer: str, device: str, seq: int) -> None:
        """Record that a device vouches for a stream up to `seq`, unless it did for more already."""
        before = (
            decode_or_none(VouchedStream, transaction.remembered(self.name("stream", session, writer)) or b"")
            or VouchedStream()
        )
        if before.by.get(device, 0) < seq:
            self.write(transaction, before.with_voucher(device, seq), "stream", session, writer)

    def forks(self, session: str, writer: str) -> tuple[str, ...]:
        """The hashes of published events of a stream of ours that forked."""
        return self.read(tuple[str, ...], "fork", session, writer) or ()

    def streams(self, session: str | None = None) -> Iterator[tuple[str, str, VouchedStream]]:
        """Session, writer, and who vouches for how much of the stream."""
        parts = ("stream",) if session is None else ("stream", session)
        for name, known in self.under(VouchedStream, *parts):
            where = name if session is None else f"{session}/{name}"
            session_id, _, writer = where.partition("/")
            yield session_id, writer, known

    def rejections(self) -> list[PastRejection]:
        return [rejection for _, rejection in self.under(PastRejection, "turned")]


def decode_or_none(kind: type[_D], value: bytes) -> _D | None:
    """The decoded value; None where another version wrote it differently: it can be read from the remote again."""
    try:
        return msgspec.msgpack.decode(value, type=decodable(kind))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
