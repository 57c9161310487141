"""How each session came to a store: as its own, or through somebody's share.

Authority follows from that and never from an id: whoever knows the id of a session can offer another one by the same
id. The record stands in the store's memory; a session that has none is its own. With it stands which streams of a
shared session are other people's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from holdfast.core.decoding import decodable

if TYPE_CHECKING:
    from holdfast.store.interface import Store, Transaction

_SHARES: Final = "origin/share/"
OWN: Final = "origin/own/"
_GUESTS: Final = "origin/guests/"


class Memory(Protocol):
    """What a store keeps beside its log."""

    def remembered(self, name: str) -> bytes | None: ...


class Owned(msgspec.Struct, frozen=True):
    """One of our own sessions: the vault it was received in, if in any, and the writer that began it there."""

    vault: str = ""
    began: str = ""


def share_of(memory: Memory, session: str) -> str | None:
    """The vault of the share that a session came through; None for one of our own."""
    found = memory.remembered(_SHARES + session)
    return None if found is None else found.decode("ascii", "replace")


def owned(memory: Memory, session: str) -> Owned | None:
    """What is recorded of one of our own; None where nothing is: begun here, or received by an earlier version."""
    found = memory.remembered(OWN + session)
    try:
        return None if found is None else msgspec.json.decode(found, type=decodable(Owned))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def guests(memory: Memory, session: str) -> frozenset[str]:
    """The writers of a session that are guests of its share, but this device: their keys take nobody's place."""
    found = memory.remembered(_GUESTS + session)
    try:
        return frozenset() if found is None else msgspec.json.decode(found, type=decodable(frozenset[str]))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return frozenset()


def record_guests(transaction: Transaction, session: str, writers: Collection[str]) -> None:
    transaction.remember(_GUESTS + session, msgspec.json.encode(sorted(writers)) if writers else None)


def through_shares(store: Store) -> dict[str, str]:
    """Every session that came through a share, with the share's vault."""
    found = store.remembered_under(_SHARES)
    return {name.removeprefix(_SHARES): value.decode("ascii", "replace") for name, value in found.items()}


def record_share(transaction: Transaction, session: str, share: str) -> None:
    transaction.remember(_SHARES + session, share.encode("ascii", "replace"))
    transaction.remember(OWN + session, None)


def record_own(transaction: Transaction, session: str, vault: str = "", began: str = "") -> None:
    transaction.remember(OWN + session, msgspec.json.encode(Owned(vault, began)))
    transaction.remember(_SHARES + session, None)


def forget(transaction: Transaction, session: str) -> None:
    transaction.remember(_GUESTS + session, None)
    transaction.remember(_SHARES + session, None)
    transaction.remember(OWN + session, None)


def differs(here: Memory, there: Memory, session: str) -> bool:
    """Whether a session of another store is another one than ours of the same id, as far as that store says."""
    ours, theirs = share_of(here, session), share_of(there, session)
    if ours == theirs:
        return False
    # Earlier versions kept no record: where nothing is said of it, it may well be the same.
    return theirs is not None or owned(there, session) is not None
