"""What this store remembers of a vault: how far it was read and published, who belongs to it, what was rejected.

It lies in the store itself, in the same transaction as the events it speaks of: whatever becomes of the store, its
memory never claims more than its log holds. All of it can be had again from the remote.
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
    """What one of our own lives has published."""

    counter: int = 0
    # The newest head that is known to have been there: those after it were sent, and nobody answered.
    there: int = 0
    pushes: int = 0
    packs: tuple[IndexedPack, ...] = ()
    # Events that came into the store up to this place were looked at.
    place: int = 0
    tips: tuple[str, ...] = ()
    # Packs that no head of ours names any more: removed with the next push, when nobody reads them any longer.
    stale: tuple[str, ...] = ()
    # Packs that hold so much that they are not merged again.
    large: tuple[str, ...] = ()
    # What our head says that we could not read.
    wanting: tuple[WantedPushes, ...] = ()
    # Of a vault with one session: how many erasures in it were heeded.
    erasures: int = 0


class Intent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A push about to happen, written down before it does: whoever finds it knows what a crash left behind."""

    own: Published
    made: dict[str, tuple[StreamSpan, ...]] = {}
    published: tuple[StreamSpan, ...] = ()
    # Of the head as it was sent.
    digest: bytes = b""
    # Objects that go once it is there.
    obsolete: tuple[str, ...] = msgspec.field(default=(), name="gone")
    # What it holds of streams that a copy of this home went on with too: session/writer, and the events' hashes.
    forks: dict[str, tuple[str, ...]] = {}


class PushGap(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Pushes that could not be read, and where they were said to be."""

    first: int
    last: int
    pack: str
    # Not read the first time: perhaps it was only just replaced. Only what fails again is asked for.
    again: bool = False
    # Read, and not all of it taken in: why not.
    reason: str = ""


class ReadPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far another life has been read."""

    writer: str
    device: str
    counter: int = 0
    digest: bytes = b""
    applied: int = 0
    gaps: tuple[PushGap, ...] = msgspec.field(default=(), name="holes")
    # Its device was removed, and not all of it was accepted: read anew should the device be let in again.
    unaccepted: bool = msgspec.field(default=False, name="held")
    # Then also: how many of its pushes had been read, and how many of those at the remote have not.
    read: int = 0
    unread: int = 0
    # When its author wrote the newest head, by the author's own clock; and when we read it.
    published_at: int = msgspec.field(default=0, name="said_at")
    read_at: int = msgspec.field(default=0, name="heard_at")


class VouchedStream(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How far each device has vouched for a stream in the vault: the same events may come from several."""

    by: dict[str, int] = {}

    def and_by(self, device: str, seq: int) -> VouchedStream:
        return VouchedStream({**self.by, device: max(seq, self.by.get(device, 0))})

    def accepted(self, members: Membership, session: str, writer: str) -> int:
        """How far it counts: all that a member vouches for, and of the others what was accepted of them."""
        return max((members.accepted(device, writer, session, seq) for device, seq in self.by.items()), default=0)

    def by_members(self, members: Membership) -> int:
        """How far those vouch for it who belong to the vault now."""
        return max((seq for device, seq in self.by.items() if members.is_member(device)), default=0)


class PastRejection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that was not taken in."""

    pack: str
    device: str
    reason: str
    at: int


class DeviceStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where this device stands in the vault."""

    # `pending`: asked to join. `member`: may read, and write unless it only reads. `out`: was removed.
    place: str = "pending"
    # Sessions that were here before a person confirmed the vault are not uploaded.
    confirmed: bool = False
    last_sync: int | None = None
    error: str | None = None
    # The request we left, to take it away once it was heard.
    request: str | None = None
    # Whether it may vouch for what others wrote, as of the last sync.
    admin: bool = False
    # What others wrote last is sealed with keys that we were not given: as good as being told that we were removed.
    shut_out: bool = False
    # The device that all this is about, by its keys: a home that lost its keys goes on as another one.
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
        return None if data is None else decoded(kind, data)

    def raw(self, *parts: str) -> bytes | None:
        return self._store.remembered(self.name(*parts))

    def under(self, kind: type[_D], *parts: str) -> Iterator[tuple[str, _D]]:
        """Everything under a name, with the rest of its name; what cannot be read is as good as forgotten."""
        prefix = self.name(*parts, "")
        for name, value in self._store.remembered_under(prefix).items():
            read = decoded(kind, value)
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

    # ── the things most asked for ────────────────────────────────────────────────────────────────────────

    def status(self) -> DeviceStatus:
        return self.read(DeviceStatus, "standing") or DeviceStatus()

    def own(self, writer: str) -> Published:
        return self.read(Published, "own", writer) or Published()

    def cursors(self) -> dict[str, ReadPosition]:
        return dict(self.under(ReadPosition, "life"))

    def vouched(self, session: str, writer: str) -> VouchedStream:
        return self.read(VouchedStream, "stream", session, writer) or VouchedStream()

    def vouch(self, transaction: Transaction, session: str, writer: str, device: str, seq: int) -> None:
        """A device vouches for a stream up to here; that it did so for less before stays true."""
        before = (
            decoded(VouchedStream, transaction.remembered(self.name("stream", session, writer)) or b"")
            or VouchedStream()
        )
        if before.by.get(device, 0) < seq:
            self.write(transaction, before.and_by(device, seq), "stream", session, writer)

    def forks(self, session: str, writer: str) -> tuple[str, ...]:
        """Of a stream of ours that forked: the events that are published, whatever their numbers."""
        return self.read(tuple[str, ...], "fork", session, writer) or ()

    def streams(self, session: str | None = None) -> Iterator[tuple[str, str, VouchedStream]]:
        """Session, writer, and how far the stream is known in the vault."""
        parts = ("stream",) if session is None else ("stream", session)
        for name, known in self.under(VouchedStream, *parts):
            where = name if session is None else f"{session}/{name}"
            found_session, _, writer = where.partition("/")
            yield found_session, writer, known

    def rejections(self) -> list[PastRejection]:
        return [rejection for _, rejection in self.under(PastRejection, "turned")]


def decoded(kind: type[_D], value: bytes) -> _D | None:
    """What was remembered; None where an older or newer program wrote it otherwise: it can be asked for again."""
    try:
        return msgspec.msgpack.decode(value, type=decodable(kind))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
