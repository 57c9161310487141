"""Accept what a removed device wrote after the cut, when an admin decides so.

Events must be signed by the device and follow what is stored here: nothing is accepted behind a gap. Each pack is
stored by itself, and the entry that accepts all of them comes last. If this is interrupted, the next sync withdraws
the events again, and the admin can start over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from holdfast.core.envelope import Event
from holdfast.core.errors import Conflict, HoldfastError, NotFound, Refused
from holdfast.core.wording import count
from holdfast.sync import devices, removal, retired_writers
from holdfast.sync.protocol.entries import Cut, Restore
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.pull import read_pack
from holdfast.sync.read_heads import HeadListing, name_of, read_listing
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remotes.base import Missing
from holdfast.sync.remotes.wrappers import OverLimit
from holdfast.sync.state import ReadPosition
from holdfast.sync.vault import Vault

if TYPE_CHECKING:
    from holdfast.sync.protocol.membership import RemovedDevice
    from holdfast.sync.removal import UnacceptedCount
    from holdfast.workspace.workspace import Workspace


class AcceptedEvents(NamedTuple):
    # The session of each newly accepted event, by its hash.
    events: dict[str, str]
    # Pushes that cannot be read here, are not the device's own, or follow events that are not here.
    left: int


def admit_at_vault(vault: Vault, device: str) -> AcceptedEvents:
    """Accept everything readable of a removed device. The vault was just synced, and this device is an admin."""
    return _LateAcceptor(vault, device).run()


class _LateAcceptor:
    def __init__(self, vault: Vault, device: str) -> None:
        self._vault = vault
        self._memory = vault.memory
        self._author = removal.RemovedAuthor(vault, device)
        self._device = device
        self._before = vault.membership.removed[device].cut
        self._cut: Cut = {}
        self._new: dict[str, str] = {}

    def run(self) -> AcceptedEvents:
        vault = self._vault
        self._accept_kept()
        listing = read_listing(vault.remote.list("h/"), vault.tag)
        left = sum(
            self._accept_life(life, cursor, listing)
            for life, cursor in self._memory.cursors().items()
            if cursor.device == self._device and life in listing.rivals
        )
        self._accept_kept()  # what was read by now may be what it follows
        change = vault.change()
        if self._cut:
            change.add(Restore, device=self._device, cut=self._cut)
        # From now on we vouch for it, so what the device left at the remote is no longer needed.
        change.remember(True, "adopt", self._device)
        change.commit()
        return AcceptedEvents(self._new, left)

    def _accept_kept(self) -> None:
        """Accept unaccepted events that were read before."""
        for session, writer, stretch in list(removal.list_unaccepted(self._memory)):
            if stretch.device == self._device:
                rest = self._store([(session, writer, stretch.events)])
                with self._vault.local.transaction() as transaction:
                    removal.replace_unaccepted(self._memory, transaction, session, writer, self._device, rest)

    def _accept_life(self, life: str, cursor: ReadPosition, listing: HeadListing) -> int:
        """Read and accept the unread pushes of one life; return how many are left."""
        vault = self._vault
        verified = retired_writers.newest_verified(vault, listing.rivals[life], cursor)
        if verified is None:
            return cursor.unread or 1
        head, digest = verified
        left = 0
        for pack in head.packs:
            has_gap = any(pack.overlaps(gap.first, gap.last) for gap in cursor.gaps)
            if pack.last <= cursor.applied and not has_gap:
                continue
            try:
                stretches = read_pack(vault, pack)
            except HoldfastError as error:
                if error.retry_helps or isinstance(error, OverLimit):
                    raise
                # If we purged the pack ourselves, the rest of it is here, unaccepted.
                if not (isinstance(error, Missing) and self._memory.raw("purged", pack.name)):
                    self._reject(vault.pack_name(pack.name), f"a pack cannot be read: {error.message}")
                    left += pack.last - pack.first + 1
                continue
            if self._accept_stretches(stretches, vault.pack_name(pack.name)):
                left += pack.last - pack.first + 1
        last = head.packs[-1].last if head.packs else 0
        position = replace(cursor, counter=head.counter, digest=digest, unread=left)
        if not left:
            position = replace(
                position, applied=max(cursor.applied, last), read=0, gaps=(), unaccepted=False, published_at=head.at
            )
        with vault.local.transaction() as transaction:
            self._memory.write(transaction, position, "life", life)
        return left

    def _accept_stretches(self, stretches: Iterable[Stretch], name: str) -> bool:
        """Accept what is acceptable of these; True when something is left."""
        good, objections = [], set()
        for stretch in stretches:
            objection = self._author.objection(stretch)
            if objection is None:
                good.append((stretch.session, stretch.writer, stretch.events))
            else:
                objections.add(objection)
        if self._store(good):
            objections.add("the events it follows are not here")
        for objection in sorted(objections):
            self._reject(name, objection)
        return bool(objections)

    def _store(self, streams: Iterable[tuple[str, str, Sequence[Event]]]) -> list[Event]:
        """Store the events that follow what is here; return the others."""
        vault, store = self._vault, self._vault.local.store
        streams_to_store: list[tuple[str, str, list[Event], set[str]]] = []
        rest: list[Event] = []
        hashes: dict[tuple[str, str], set[str]] = {}
        for session, writer, events in streams:
            ordered = sorted(events, key=lambda event: event.seq)
            first, last = max(1, ordered[0].seq - 1), ordered[-1].seq
            stored = {event.hash for event in store.stream(session, writer, first, last)}
            known_hashes = hashes.setdefault((session, writer), set())
            known_hashes |= stored
            connected = []
            for event in ordered:
                if event.prev is None or event.prev in known_hashes:
                    known_hashes.add(event.hash)
                    connected.append(event)
                else:
                    rest.append(event)
            if connected:
                streams_to_store.append((session, writer, connected, stored))
        if streams_to_store:
            with vault.local.transaction() as transaction:
                # If this is interrupted, the next sync withdraws what was not accepted.
                cuts = {device: item.cut for device, item in vault.membership.removed.items()}
                self._memory.write(transaction, {**cuts, self._device: {"": {}}}, "obeyed")
                if transaction.receive(
                    (event for _, _, events, _ in streams_to_store for event in events), own_only=True
                ):
                    vault.local.received(transaction, {session for session, *_ in streams_to_store})
                for session, writer, events, stored in streams_to_store:
                    vouched = self._memory.vouched(session, writer).by_members(vault.membership)
                    if any(event.seq <= vouched and event.hash not in stored for event in events):
                        self._memory.write(transaction, True, "branch", session, writer)
                    self._memory.vouch(transaction, session, writer, self._device, events[-1].seq)
            for session, writer, events, stored in streams_to_store:
                self._count_new(session, writer, events, stored)
        return rest

    def _count_new(self, session: str, writer: str, events: Iterable[Event], stored: set[str]) -> None:
        accepted = self._before.get(writer, {}).get(session, 0)
        for event in events:
            if event.seq > accepted or event.hash not in stored:
                self._new[event.hash] = session
            if event.seq > accepted:
                cut = self._cut.setdefault(writer, {})
                cut[session] = max(event.seq, cut.get(session, 0))

    def _reject(self, name: str, reason: str) -> None:
        self._vault.report.reject(name, name_of(self._vault, self._device), reason)


class LateAcceptance(NamedTuple):
    """What was accepted of a removed device."""

    name: str
    fingerprint: str
    remotes: list[str]
    events: int
    sessions: int
    # Pushes that cannot be read here, are not the device's own, or follow events that are not here: they stay.
    left: int


def describe_unaccepted(pending: UnacceptedCount) -> str:
    """The counts in words."""
    parts = [count(pending.events, "event")] if pending.events else []
    return ", ".join(parts + ([f"{count(pending.pushes, 'push', 'pushes')} not read"] if pending.pushes else []))


def admit(ws: Workspace, name_or_words: str) -> LateAcceptance:
    """Accept what a removed device wrote after its removal, at every vault where this device is an admin."""
    remotes: list[str] = []
    removed_devices: list[RemovedDevice] = []
    admissions: list[AcceptedEvents] = []
    refused = is_member = False

    def act(remote: KnownRemote, vault: Vault) -> bool:
        nonlocal refused, is_member
        done = False
        vaults = [vault, *devices.share_vaults(vault)]
        device = _find_removed(vaults, name_or_words)
        is_member = is_member or (device is None and devices.find_member(vault, name_or_words) is not None)
        for item in vaults if device is not None else ():
            removed = item.membership.removed.get(device or "")
            if device is None or removed is None:
                continue
            if not item.membership.is_admin(item.me):
                refused = True
                continue
            removed_devices.append(removed)
            admissions.append(admit_at_vault(item, device))
            done = True
        if done:
            remotes.append(remote.name)
        return done

    devices.for_each_vault(ws, act)
    if removed_devices:
        # The same events may have come by several vaults.
        events = {event: session for admitted in admissions for event, session in admitted.events.items()}
        left = sum(admitted.left for admitted in admissions)
        return LateAcceptance(
            removed_devices[0].name,
            removed_devices[0].keys.words,
            remotes,
            len(events),
            len(set(events.values())),
            left,
        )
    if refused:
        raise Refused("this device is not an admin of the vault", hint=devices.ON_ADMIN_DEVICE)
    raise NotFound(
        f"no device called {name_or_words[:60]!a} was removed",
        hint="It belongs to the vault: what it writes is accepted."
        if is_member
        else "holdfast device list shows the devices.",
    )


def _find_removed(vaults: Sequence[Vault], name_or_words: str) -> str | None:
    """The id of the removed device with this name or fingerprint, if any."""
    members = vaults[0].membership
    matches = {
        device: item
        for vault in vaults
        for device, item in vault.membership.removed.items()
        if devices.is_meant(item.name, item.keys, name_or_words) and not members.is_member(device)
    }
    if len(matches) > 1:
        # If only one of them has unaccepted events, that one is meant.
        with_pending = [
            device for device in matches if any(device in removal.count_unaccepted(vault.memory) for vault in vaults)
        ]
        if len(with_pending) != 1:
            choices = ", ".join(device.keys.words for device in matches.values())
            raise Conflict(
                f"several devices called {name_or_words[:60]!a} were removed", hint=f"Give the fingerprint: {choices}"
            )
        return with_pending[0]
    return next(iter(matches), None)
