"""Record how each session came to a store: as its own, through a share, or from another member of a server.

Authority follows from that and never from an id: anyone who knows the id of a session can offer another one with it.
The record is in the store's memory, together with which streams of a shared session are other people's; a session
without a record is the store's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from holdfast.core.decode import decodable

if TYPE_CHECKING:
    from holdfast.store.interface import Store, Transaction

_SHARES: Final = "origin/share/"
OWN: Final = "origin/own/"
_GUESTS: Final = "origin/guests/"
_GUEST_KEYS: Final = "origin/guest-keys/"
_KEY_SIZE: Final = 32  # bytes
# By the vault of ours that shares the session with them.
GuestKeys = dict[str, frozenset[bytes]]
RECORDS: Final = "origin/"  # what all names here begin with
MEMBERS: Final = "origin/member/"
_STREAMS: Final = f"{MEMBERS}streams/"


class StoreMemory(Protocol):
    """Values that a store or a transaction keeps outside of the log."""

    def remembered(self, name: str) -> bytes | None: ...


class Owned(msgspec.Struct, frozen=True):
    """One of our own sessions: the vault it was received in, if in any, and the writer that began it there."""

    vault: str = ""
    began: str = ""


def share_of(memory: StoreMemory, session: str) -> str | None:
    """The vault of the share that a session came through; None for one of our own."""
    return _text(memory, _SHARES + session)


def member_of(memory: StoreMemory, session: str) -> str | None:
    """The server, by a digest of its address, from which another member's session was copied; None for any other."""
    return _text(memory, MEMBERS + session)


def member_streams(memory: StoreMemory, session: str) -> frozenset[str]:
    """The writers whose streams other members of a team had recorded where the session was copied from."""
    return _writers(memory, _STREAMS + session)


def record_member_streams(transaction: Transaction, session: str, writers: Collection[str]) -> None:
    transaction.remember(_STREAMS + session, msgspec.json.encode(sorted(writers)))


def is_own_stream(store: Store, session: str, writer: str) -> bool:
    """Whether no other member of a team recorded events in this stream, here or where it was copied from."""
    return store.is_own_stream(session, writer) and writer not in member_streams(store, session)


def is_members(store: Store, session: str) -> bool:
    """Whether the session is another member's: its row on a server is, or it was copied from such a row."""
    return not store.may_repair(session) or member_of(store, session) is not None


def record_members(transaction: Transaction, session: str, server: str) -> None:
    transaction.remember(MEMBERS + session, server.encode("ascii", "replace"))


def owned(memory: StoreMemory, session: str) -> Owned | None:
    """The record of one of our own sessions; None where it began here or an earlier version received it."""
    record = memory.remembered(OWN + session)
    try:
        return None if record is None else msgspec.json.decode(record, type=decodable(Owned))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def guests(memory: StoreMemory, session: str) -> frozenset[str]:
    """The writers of a session that are guests, this device excluded: their keys do not block those of others."""
    return _writers(memory, _GUESTS + session)


def record_guests(transaction: Transaction, session: str, writers: Collection[str]) -> None:
    transaction.remember(_GUESTS + session, msgspec.json.encode(sorted(writers)) if writers else None)


def guest_keys(store: Store) -> dict[str, GuestKeys]:
    """By session, the signing keys of guests that wrote in it."""
    keys: dict[str, GuestKeys] = {}
    for name, value in store.remembered_under(_GUEST_KEYS).items():
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            known = msgspec.json.decode(value, type=decodable(GuestKeys))
            if all(len(key) == _KEY_SIZE for signing in known.values() for key in signing):
                keys[name.removeprefix(_GUEST_KEYS)] = known
    return keys


def record_guest_keys(transaction: Transaction, session: str, keys: GuestKeys) -> None:
    transaction.remember(_GUEST_KEYS + session, msgspec.json.encode(keys) if keys else None)


def through_shares(store: Store) -> dict[str, str]:
    """Every session that came through a share, with the share's vault."""
    shares = store.remembered_under(_SHARES)
    return {name.removeprefix(_SHARES): value.decode("ascii", "replace") for name, value in shares.items()}


def copy_record(source: StoreMemory, transaction: Transaction, session: str) -> None:
    """Record of a session that another store says how it came to that one."""
    for prefix in (_SHARES, OWN, _GUESTS, _GUEST_KEYS):
        value = source.remembered(prefix + session)
        if value is not None:
            transaction.remember(prefix + session, value)


def record_share(transaction: Transaction, session: str, share: str) -> None:
    transaction.remember(_SHARES + session, share.encode("ascii", "replace"))
    transaction.remember(OWN + session, None)


def record_own(transaction: Transaction, session: str, vault: str = "", began: str = "") -> None:
    transaction.remember(OWN + session, msgspec.json.encode(Owned(vault, began)))
    transaction.remember(_SHARES + session, None)


def forget(transaction: Transaction, session: str) -> None:
    transaction.remember(_GUESTS + session, None)
    transaction.remember(_GUEST_KEYS + session, None)
    transaction.remember(MEMBERS + session, None)
    transaction.remember(_STREAMS + session, None)
    transaction.remember(_SHARES + session, None)
    transaction.remember(OWN + session, None)


def differs(memory: StoreMemory, other: StoreMemory, session: str) -> bool:
    """Whether the session of this id in another store is a different one, as far as that store says."""
    share = share_of(other, session)
    if share == share_of(memory, session):
        return False
    # Earlier versions kept no record: without one, it may well be the same session.
    return share is not None or owned(other, session) is not None


def _text(memory: StoreMemory, name: str) -> str | None:
    value = memory.remembered(name)
    return None if value is None else value.decode("ascii", "replace")


def _writers(memory: StoreMemory, name: str) -> frozenset[str]:
    value = memory.remembered(name)
    try:
        return frozenset() if value is None else msgspec.json.decode(value, type=decodable(frozenset[str]))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return frozenset()
