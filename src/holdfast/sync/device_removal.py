"""Remove a device, and keep aside what it wrote beyond what was accepted.

The entry says how far each of its streams was accepted. Every device takes what goes beyond that out of its log
again, so that all end up with the same. It is not lost: it is kept aside, or stays unread at the remote, until an
admin accepts it (`accept_late`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core.envelope import Event
from holdfast.core.event_data import collect_erasures
from holdfast.store.interface import Transaction
from holdfast.sync import authority
from holdfast.sync.outbox import ERASING
from holdfast.sync.protocol import entries, packs
from holdfast.sync.protocol.entries import Admit, Cut, Remove
from holdfast.sync.protocol.packs import PackedEvents
from holdfast.sync.read_heads import name_of
from holdfast.sync.state import Vouched
from holdfast.sync.vault import Vault, VaultChange
from holdfast.workspace.keys.device_keys import STREAM, certifies, is_certified, verify

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.sync.read_heads import HeadListing
    from holdfast.sync.state import VaultState
    from holdfast.sync.vault import Vault

# Streams that one removal names: fewer than an entry may hold, by their number and by their size.
_MOST_ACCEPTED: Final = 40_000
# And of a guest, who writes one session only.
_MOST_ACCEPTED_OF_GUEST: Final = 4_000


def cut_of(vault: Vault, device: str) -> Cut:
    """How far this store has each stream that the device vouched for."""
    cut: Cut = {}
    for session, writer, known in vault.memory.streams():
        if device in known.by:
            last = known.by[device]
            if not vault.membership.is_member(device):
                last = Vouched({device: last}).accepted(vault.membership, session, writer)
            cut.setdefault(writer, {})[session] = last
    return _bounded(cut, _MOST_ACCEPTED if vault.membership.session is None else _MOST_ACCEPTED_OF_GUEST)


def _bounded(cut: Cut, most: int) -> Cut:
    """As much as an entry may say. Of a device that wrote more streams than anybody can, the longest are accepted."""
    streams = [(last, writer, session) for writer, of in cut.items() for session, last in of.items()]
    if len(streams) <= most:
        return cut
    bounded: Cut = {}
    for last, writer, session in sorted(streams, reverse=True)[:most]:
        bounded.setdefault(writer, {})[session] = last
    return bounded


def remove(vault: Vault, devices: Iterable[str], change: VaultChange | None = None) -> VaultChange:
    """Say that these no longer belong here, and begin a new key that they do not get. To be committed."""
    change = change or vault.change()
    for device in devices:
        change.say(Remove, device=device, cut=cut_of(vault, device))
        # From now on somebody else must vouch for what was accepted: those who come later trust no removed device.
        change.remember(True, "adopt", device)
    change.new_key()
    return change


def obey(vault: Vault, beside: Callable[[], Iterable[Vault]] = tuple) -> None:
    """Take out of the log what removed devices wrote beyond what was accepted of them; and back in what is, by now.

    `beside` are the other vaults that this store takes part in: what is accepted in one of them stays.
    """
    memory, members = vault.memory, vault.membership
    cuts = {device: item.cut for device, item in sorted(members.removed.items())}
    wanted = msgspec.msgpack.encode(cuts, order="deterministic")
    before = memory.raw("obeyed")
    if before == wanted or (before is None and not cuts) or not members.is_member(vault.me):
        return
    others, aside = list(beside()), list(kept(memory))
    withdrawn: dict[str, dict[str, int]] = {}
    with vault.here.transaction() as transaction:
        for session, writer, known in list(memory.streams()):
            if not cuts.keys() & known.by.keys() or certifies(writer, vault.here.keys.public.signing):
                continue
            last = known.accepted(members, session, writer)
            for other in others:
                there = other.memory.vouched(session, writer)
                last = max(last, there.accepted(other.membership, session, writer))
            if last < max(known.by.values()):
                withdrawn.setdefault(session, {})[writer] = last
        _hold_back(vault, transaction, withdrawn)
        for session, writer, back in aside:
            last = memory.vouched(session, writer).accepted(members, session, writer)
            _take_back(vault, transaction, session, writer, back, last)
        if members.is_admin(vault.me):
            for device in cuts.keys() - (memory.read(dict[str, Cut], "obeyed") or {}).keys():
                memory.write(transaction, True, "adopt", device)
        memory.write_raw(transaction, wanted, "obeyed")


def _hold_back(vault: Vault, transaction: Transaction, withdrawn: dict[str, dict[str, int]]) -> None:
    """Keep events out of the log, apart: of these sessions and writers, what is beyond a number each."""
    memory, removed = vault.memory, vault.membership.removed
    counts: Counter[str] = Counter()
    for session, after in withdrawn.items():
        for writer, events in groupby(transaction.withdraw(session, after), key=lambda event: event.writer):
            by = memory.vouched(session, writer).by
            device = max((name for name in by if name in removed), key=lambda one: by[one])
            some = list(events)
            add(memory, transaction, session, writer, device, some)
            counts[device] += len(some)
    for life, cursor in memory.cursors().items() if counts else ():
        if cursor.device in counts:
            # Should the device be let in again, all of it is read anew.
            again = replace(cursor, applied=0, read=max(cursor.read, cursor.applied), holes=(), held=True)
            memory.write(transaction, again, "life", life)
    for device, count in counts.items():
        vault.report.reject(
            "", name_of(vault, device),
            f"{count} events were not yet accepted when the device was removed, and are held back",
        )  # fmt: skip


def _take_back(
    vault: Vault, transaction: Transaction, session: str, writer: str, back: PackedEvents, last: int
) -> None:
    accepted = [event for event in back.events if event.seq <= last]
    if accepted:
        transaction.receive(accepted, own_only=True)
        vault.here.received(transaction, {session})
        rest = [event for event in back.events if event.seq > last]
        keep(vault.memory, transaction, session, writer, back.device, rest)


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
    return Erased(any(event.type == "session.deleted" for event in found), collect_erasures(found).hashes)


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
