"""What removed devices wrote beyond what was accepted of them: read and kept aside, or unread at the remote.

It is nobody's until an admin takes it in (`letting_in`), and it is not lost before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from holdfast.core.envelope import Event
from holdfast.core.event_data import erasures
from holdfast.sync import authority
from holdfast.sync.outbox import ERASING
from holdfast.sync.protocol import entries, packs
from holdfast.sync.protocol.entries import Admit
from holdfast.sync.protocol.packs import PackedEvents
from holdfast.workspace.keys.device_keys import STREAM, certifies, is_certified, verify

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.sync.read_heads import HeadListing
    from holdfast.sync.state import VaultState
    from holdfast.sync.vault import Vault


class Unaccepted(NamedTuple):
    """What of a device waits for somebody to decide: events that were read, and pushes that nobody here has read."""

    events: int
    pushes: int


class Erased(NamedTuple):
    """What of a session has to go: everything, or the data of some events."""

    deleted: bool
    hashes: Collection[str]


def waiting(memory: VaultState) -> dict[str, Unaccepted]:
    """By device, as of the last sync."""
    pushes = memory.read(dict[str, int], "unread") or {}
    events: dict[str, int] = {}
    for _, _, stretch in kept(memory):
        events[stretch.device] = events.get(stretch.device, 0) + len(stretch.events)
    return {key: Unaccepted(events.get(key, 0), pushes.get(key, 0)) for key in sorted(events.keys() | pushes.keys())}


def remember_unread(vault: Vault, listing: HeadListing) -> None:
    """Which removed devices have something at the remote that was not read: to be told without asking it."""
    found: dict[str, int] = {}
    for life, cursor in vault.memory.cursors().items():
        if cursor.unread and cursor.device in vault.membership.removed and life in listing.newest:
            found[cursor.device] = found.get(cursor.device, 0) + cursor.unread
    if found != (vault.memory.read(dict[str, int], "unread") or {}):
        with vault.here.transaction() as transaction:
            vault.memory.write(transaction, found, "unread")


# ── what is kept aside ───────────────────────────────────────────────────────────────────────────────────


def kept(memory: VaultState) -> Iterator[tuple[str, str, PackedEvents]]:
    """Session, writer, and the events: all of a stream that are kept aside, in no particular order."""
    for name, packed in memory.raw_under("held").items():
        session, _, writer = name.partition("/")
        stretches = packs.unpack(packed)
        events = [event for stretch in stretches for event in stretch.events]
        if events:
            yield session, writer, PackedEvents(session, writer, stretches[0].device, b"", events)


def keep(
    memory: VaultState, transaction: Transaction, session: str, writer: str, device: str, events: Sequence[Event]
) -> None:
    """From now on just these of a stream."""
    if not events:
        memory.forget(transaction, "held", session, writer)
        return
    # One by one: where a stream forks they do not follow each other.
    stretches = [PackedEvents(session, writer, device, b"", [event]) for event in events]
    memory.write_raw(transaction, packs.pack(stretches), "held", session, writer)


def add(
    memory: VaultState, transaction: Transaction, session: str, writer: str, device: str, events: Sequence[Event]
) -> None:
    """These too."""
    known = {event.hash for event in events}
    before = [
        event
        for where, of, stretch in kept(memory)
        if (where, of) == (session, writer)
        for event in stretch.events
        if event.hash not in known
    ]
    keep(memory, transaction, session, writer, device, [*events, *before])


# ── what was erased ──────────────────────────────────────────────────────────────────────────────────────


def scrub(vault: Vault, sessions: Iterable[str]) -> None:
    """What was erased goes from what is kept aside, too."""
    for session, writer, stretch in list(kept(vault.memory)):
        if session in sessions:
            events = without(erased(vault, session), stretch.events)
            with vault.here.transaction() as transaction:
                keep(vault.memory, transaction, session, writer, stretch.device, events)


def erased(vault: Vault, session: str) -> Erased:
    """What the log of a session says is erased."""
    found = [event for event in vault.here.store.events(session) if event.type in ERASING]
    return Erased(any(event.type == "session.deleted" for event in found), erasures(found).hashes)


def without(gone: Erased, events: Iterable[Event]) -> list[Event]:
    """These events of a session, without what is erased."""
    return [
        replace(event, data=None, salt=None)
        if event.type not in ERASING and (gone.deleted or event.hash in gone.hashes)
        else event
        for event in events
    ]


# ── whose word it is ─────────────────────────────────────────────────────────────────────────────────────


class RemovedAuthor:
    """A removed device, and what it could speak for while it belonged to the vault."""

    def __init__(self, vault: Vault, device: str) -> None:
        self._vault = vault
        self.device = device
        self._signing = vault.membership.removed[device].keys.signing
        wrong = {own for own, _ in vault.membership.rejected} | set(vault.membership.waiting)
        self._admin = device == vault.membership.founder
        self._own = self._admin
        self._authority = authority.Authority(vault, everything_read=True)
        for own, signed in vault.known.items():
            entry = entries.read(signed.payload)
            if isinstance(entry, Admit) and entry.device.id == device and own not in wrong:
                self._admin |= entry.admin
                self._own |= entry.role != "guest"

    def objection(self, stretch: PackedEvents) -> str | None:
        """Why this stretch cannot be its word; None when it is."""
        members, last = self._vault.membership, stretch.events[-1]
        words = packs.stream_words(self._vault.id, stretch.session, stretch.writer, last.seq, last.hash)
        if members.session not in (None, stretch.session):
            return "it holds a session that is not shared here"
        if stretch.device != self.device:
            return "it is signed by a device that does not belong to the vault"
        if not verify(self._signing, STREAM, words, stretch.signature):
            return "a signature in it is wrong"
        author = self._authority.author(stretch.session, stretch.writer, stretch.device)
        forbidden = None if author is None else self._authority.objection(stretch, author)
        if forbidden is not None:
            return forbidden
        if certifies(stretch.writer, self._signing) or (not is_certified(stretch.writer) and self._own):
            return None
        # Those who are still here speak for themselves.
        if not self._admin or any(
            certifies(stretch.writer, member.keys.signing) for member in members.members.values()
        ):
            return "a device speaks in it for another one"
        return None
