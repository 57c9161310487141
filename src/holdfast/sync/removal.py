"""Remove a device, or revoke a guest, and withdraw its unaccepted events from the log.

The entry says how far each of its streams was accepted. Every device withdraws later events, so that all have the
same log. They are not lost: they are kept outside the log as unaccepted, or stay unread at the remote, until an admin
accepts them (`accept_late`). `pull` reads nothing more of the removed device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core.envelope import Event
from holdfast.core.event_data import ERASING, collect_erasures
from holdfast.sync import event_rights
from holdfast.sync.protocol import entries, packs
from holdfast.sync.protocol.entries import Admit, Cut, Remove
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.read_heads import name_of
from holdfast.sync.state import VouchedStream
from holdfast.workspace.keys.device_keys import STREAM, certifies, is_certified, verify

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.sync.read_heads import HeadListing
    from holdfast.sync.state import VaultState
    from holdfast.sync.vault import Vault, VaultChange

# Streams that one removal names: fewer than fit into an entry, by number and by size.
_MAX_STREAMS: Final = 40_000
# For a guest, who writes one session only.
_MAX_STREAMS_OF_GUEST: Final = 4_000


def accepted_cut(vault: Vault, device: str) -> Cut:
    """How far this store has each stream that the device vouched for."""
    cut: Cut = {}
    for session, writer, known in vault.memory.streams():
        if device in known.by:
            last = known.by[device]
            if not vault.membership.is_member(device):
                last = VouchedStream({device: last}).accepted(vault.membership, session, writer)
            cut.setdefault(writer, {})[session] = last
    return _bounded(cut, _MAX_STREAMS if vault.membership.session is None else _MAX_STREAMS_OF_GUEST)


def _bounded(cut: Cut, limit: int) -> Cut:
    """The cut, limited to what fits into an entry: of too many streams the longest are accepted."""
    streams = [(last, writer, session) for writer, sessions in cut.items() for session, last in sessions.items()]
    if len(streams) <= limit:
        return cut
    bounded: Cut = {}
    for last, writer, session in sorted(streams, reverse=True)[:limit]:
        bounded.setdefault(writer, {})[session] = last
    return bounded


def remove(vault: Vault, devices: Iterable[str], change: VaultChange | None = None) -> VaultChange:
    """Remove these devices, and make a new key that they do not get. To be committed by the caller."""
    change = change or vault.change()
    for device in devices:
        change.add(Remove, device=device, cut=accepted_cut(vault, device))
        # Later members trust no removed device: a member must vouch for what was accepted.
        change.remember(True, "adopt", device)
    change.new_key()
    return change


def apply_removals(vault: Vault, other_vaults: Callable[[], Iterable[Vault]] = tuple) -> None:
    """Withdraw events of removed devices beyond their cut from the log, and restore those accepted by now.

    `other_vaults` are those that this store takes part in too: what is accepted in one of them stays.
    """
    memory, members = vault.memory, vault.membership
    cuts = {device: item.cut for device, item in sorted(members.removed.items())}
    encoded_cuts = msgspec.msgpack.encode(cuts, order="deterministic")
    applied = memory.raw("obeyed")
    if applied == encoded_cuts or (applied is None and not cuts) or not members.is_member(vault.me):
        return
    others, unaccepted = list(other_vaults()), list(list_unaccepted(memory))
    withdrawn: dict[str, dict[str, int]] = {}
    with vault.local.transaction() as transaction:
        for session, writer, known in list(memory.streams()):
            if not cuts.keys() & known.by.keys() or certifies(writer, vault.local.keys.public.signing):
                continue
            last = known.accepted(members, session, writer)
            for other in others:
                vouched = other.memory.vouched(session, writer)
                last = max(last, vouched.accepted(other.membership, session, writer))
            if last < max(known.by.values()):
                withdrawn.setdefault(session, {})[writer] = last
        _withdraw_unaccepted(vault, transaction, withdrawn)
        for session, writer, stretch in unaccepted:
            last = memory.vouched(session, writer).accepted(members, session, writer)
            _restore_accepted(vault, transaction, session, writer, stretch, last)
        if members.is_admin(vault.me):
            for device in cuts.keys() - (memory.read(dict[str, Cut], "obeyed") or {}).keys():
                memory.write(transaction, True, "adopt", device)
        memory.write_raw(transaction, encoded_cuts, "obeyed")


def _withdraw_unaccepted(vault: Vault, transaction: Transaction, withdrawn: dict[str, dict[str, int]]) -> None:
    """Move events after these numbers, by session and writer, out of the log to the unaccepted ones."""
    memory, removed = vault.memory, vault.membership.removed
    counts: Counter[str] = Counter()
    for session, after in withdrawn.items():
        for writer, events in groupby(transaction.withdraw(session, after), key=lambda event: event.writer):
            by = memory.vouched(session, writer).by
            device = max((name for name in by if name in removed), key=lambda device_id: by[device_id])
            withdrawn_events = list(events)
            add_unaccepted(memory, transaction, session, writer, device, withdrawn_events)
            counts[device] += len(withdrawn_events)
    for life, cursor in memory.cursors().items() if counts else ():
        if cursor.device in counts:
            # If the device is admitted again, all of it is read again.
            again = replace(cursor, applied=0, read=max(cursor.read, cursor.applied), gaps=(), unaccepted=True)
            memory.write(transaction, again, "life", life)
    for device, count in counts.items():
        vault.report.reject(
            "", name_of(vault, device),
            f"{count} event{'s' * (count > 1)} not accepted before the device was removed",
        )  # fmt: skip


def _restore_accepted(
    vault: Vault, transaction: Transaction, session: str, writer: str, stretch: Stretch, last: int
) -> None:
    accepted = [event for event in stretch.events if event.seq <= last]
    if accepted:
        transaction.receive(accepted, own_only=True)
        vault.local.received(transaction, {session})
        rest = [event for event in stretch.events if event.seq > last]
        replace_unaccepted(vault.memory, transaction, session, writer, stretch.device, rest)


class UnacceptedCount(NamedTuple):
    """How much of a device is unaccepted: events that were read, and pushes that were not."""

    events: int
    pushes: int


class ErasedEvents(NamedTuple):
    """What has to be erased of a session: everything, or the data of some events."""

    deleted: bool
    hashes: Collection[str]


def count_unaccepted(memory: VaultState) -> dict[str, UnacceptedCount]:
    """How much is unaccepted, by device, as of the last sync."""
    pushes = memory.read(dict[str, int], "unread") or {}
    events: dict[str, int] = {}
    for _, _, stretch in list_unaccepted(memory):
        events[stretch.device] = events.get(stretch.device, 0) + len(stretch.events)
    devices = sorted(events.keys() | pushes.keys())
    return {device: UnacceptedCount(events.get(device, 0), pushes.get(device, 0)) for device in devices}


def remember_unread(vault: Vault, listing: HeadListing) -> None:
    """Remember which removed devices have unread pushes, so that it can be shown without asking the remote."""
    unread: dict[str, int] = {}
    for life, cursor in vault.memory.cursors().items():
        if cursor.unread and cursor.device in vault.membership.removed and life in listing.newest:
            unread[cursor.device] = unread.get(cursor.device, 0) + cursor.unread
    if unread != (vault.memory.read(dict[str, int], "unread") or {}):
        with vault.local.transaction() as transaction:
            vault.memory.write(transaction, unread, "unread")


# ── unaccepted events ────────────────────────────────────────────────────────────────────────────────────


def list_unaccepted(memory: VaultState) -> Iterator[tuple[str, str, Stretch]]:
    """Session, writer and unaccepted events of each stream, in no particular order."""
    for name, packed in memory.raw_under("held").items():
        session, _, writer = name.partition("/")
        stretches = packs.unpack(packed)
        events = [event for stretch in stretches for event in stretch.events]
        if events:
            yield session, writer, Stretch(session, writer, stretches[0].device, b"", events)


def replace_unaccepted(
    memory: VaultState, transaction: Transaction, session: str, writer: str, device: str, events: Sequence[Event]
) -> None:
    """Make exactly these events of a stream the unaccepted ones."""
    if not events:
        memory.forget(transaction, "held", session, writer)
        return
    # One stretch each: where a stream forks they do not follow each other.
    stretches = [Stretch(session, writer, device, b"", [event]) for event in events]
    memory.write_raw(transaction, packs.pack(stretches), "held", session, writer)


def add_unaccepted(
    memory: VaultState, transaction: Transaction, session: str, writer: str, device: str, events: Sequence[Event]
) -> None:
    """Add these events to the unaccepted ones of a stream."""
    known = {event.hash for event in events}
    before = [
        event
        for where, author, stretch in list_unaccepted(memory)
        if (where, author) == (session, writer)
        for event in stretch.events
        if event.hash not in known
    ]
    replace_unaccepted(memory, transaction, session, writer, device, [*events, *before])


# ── what was erased ──────────────────────────────────────────────────────────────────────────────────────


def erase_unaccepted(vault: Vault, sessions: Iterable[str]) -> None:
    """Erase from unaccepted events what the log erased."""
    for session, writer, stretch in list(list_unaccepted(vault.memory)):
        if session in sessions:
            events = without_erased(find_erased(vault, session), stretch.events)
            with vault.local.transaction() as transaction:
                replace_unaccepted(vault.memory, transaction, session, writer, stretch.device, events)


def find_erased(vault: Vault, session: str) -> ErasedEvents:
    """What the log of a session erases."""
    erasing = [event for event in vault.local.store.events(session) if event.type in ERASING]
    return ErasedEvents(any(event.type == "session.deleted" for event in erasing), collect_erasures(erasing).hashes)


def without_erased(erased_events: ErasedEvents, events: Iterable[Event]) -> list[Event]:
    """These events of a session, without erased data."""
    return [
        replace(event, data=None, salt=None)
        if event.type not in ERASING and (erased_events.deleted or event.hash in erased_events.hashes)
        else event
        for event in events
    ]


# ── authorship ───────────────────────────────────────────────────────────────────────────────────────────


class RemovedAuthor:
    """A removed device, and what it could vouch for while it belonged to the vault."""

    def __init__(self, vault: Vault, device: str) -> None:
        self._vault = vault
        self.device = device
        self._signing = vault.membership.removed[device].keys.signing
        invalid = {entry_hash for entry_hash, _ in vault.membership.rejected} | set(vault.membership.waiting)
        self._admin = device == vault.membership.founder
        self._own = self._admin
        self._rights = event_rights.EventRights(vault, everything_read=True)
        for entry_hash, signed in vault.known.items():
            entry = entries.read(signed.payload)
            if isinstance(entry, Admit) and entry.device.id == device and entry_hash not in invalid:
                self._admin |= entry.admin
                self._own |= entry.role != "guest"

    def objection(self, stretch: Stretch) -> str | None:
        """Why this stretch cannot be accepted as the device's own; None when it can."""
        members, last = self._vault.membership, stretch.events[-1]
        message = packs.stream_message(self._vault.id, stretch.session, stretch.writer, last.seq, last.hash)
        if members.session not in (None, stretch.session):
            return "it holds a session that is not shared here"
        if stretch.device != self.device:
            return "it is signed by a device that does not belong to the vault"
        if not verify(self._signing, STREAM, message, stretch.signature):
            return "a signature in it is wrong"
        author = self._rights.author(stretch.session, stretch.writer, stretch.device)
        forbidden = None if author is None else self._rights.objection(stretch, author)
        if forbidden is not None:
            return forbidden
        if certifies(stretch.writer, self._signing) or (not is_certified(stretch.writer) and self._own):
            return None
        # Present members vouch for themselves.
        if not self._admin or any(
            certifies(stretch.writer, member.keys.signing) for member in members.members.values()
        ):
            return "it contains a stream that its device may not vouch for"
        return None
