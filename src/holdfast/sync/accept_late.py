"""Accept what a removed device wrote and nobody has accepted yet: shown in words, decided by an admin.

What is read must be signed by the device, and follow what is here: nothing is taken in behind a gap. Each pack is
taken in by itself, and the entry that accepts all of them comes last. Who is stopped in between holds the events back
again with the next sync, and can begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from holdfast.core.envelope import Event
from holdfast.core.errors import Conflict, HoldfastError, NotFound, Refused
from holdfast.core.wording import count
from holdfast.sync import device_removal, devices, retired_writers
from holdfast.sync.protocol.entries import Cut, Restore
from holdfast.sync.protocol.packs import PackedEvents
from holdfast.sync.pull import read_pack
from holdfast.sync.read_heads import HeadListing, look, name_of
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remotes.base import Missing
from holdfast.sync.remotes.wrappers import OverLimit
from holdfast.sync.state import ReadPosition
from holdfast.sync.vault import Vault

if TYPE_CHECKING:
    from holdfast.sync.device_removal import Unaccepted
    from holdfast.sync.protocol.membership import RemovedDevice
    from holdfast.workspace.workspace import Workspace


class Admitted(NamedTuple):
    # Events that were not accepted before, and of which session they are.
    events: dict[str, str]
    # Pushes that cannot be read here, are not its own word, or go on from something that is not here.
    left: int


def admit_at_vault(vault: Vault, device: str) -> Admitted:
    """Accept everything of a removed device that can be had. The vault was synced just now, and we are an admin."""
    return _Admission(vault, device).run()


class _Admission:
    def __init__(self, vault: Vault, device: str) -> None:
        self._vault = vault
        self._memory = vault.memory
        self._author = device_removal.RemovedAuthor(vault, device)
        self._device = device
        self._before = vault.membership.removed[device].cut
        self._cut: Cut = {}
        self._new: dict[str, str] = {}

    def run(self) -> Admitted:
        vault = self._vault
        self._kept()
        listing = look(vault.remote.list("h/"), vault.tag)
        left = sum(
            self._life(life, cursor, listing)
            for life, cursor in self._memory.cursors().items()
            if cursor.device == self._device and life in listing.rivals
        )
        self._kept()  # what was read by now may be what it goes on from
        change = vault.change()
        if self._cut:
            change.say(Restore, device=self._device, cut=self._cut)
        # From now on we vouch for it; then what the device left at the remote is in nobody's use any more.
        change.remember(True, "adopt", self._device)
        change.commit()
        return Admitted(self._new, left)

    def _kept(self) -> None:
        """What was read before, and kept aside."""
        for session, writer, stretch in list(device_removal.kept(self._memory)):
            if stretch.device == self._device:
                rest = self._take([(session, writer, stretch.events)])
                with self._vault.here.transaction() as transaction:
                    device_removal.keep(self._memory, transaction, session, writer, self._device, rest)

    def _life(self, life: str, cursor: ReadPosition, listing: HeadListing) -> int:
        """Everything of one life that was not read, as far as it goes; how many pushes are left."""
        vault = self._vault
        found = retired_writers.genuine(vault, listing.rivals[life], cursor)
        if found is None:
            return cursor.unread or 1
        head, digest = found
        left = 0
        for pack in head.packs:
            missing = any(pack.overlaps(hole.first, hole.last) for hole in cursor.holes)
            if pack.last <= cursor.applied and not missing:
                continue
            try:
                stretches = read_pack(vault, pack)
            except HoldfastError as error:
                if error.retry_helps or isinstance(error, OverLimit):
                    raise
                # Of what we took away ourselves the rest is kept aside here.
                if not (isinstance(error, Missing) and self._memory.raw("purged", pack.name)):
                    self._reject(vault.pack_name(pack.name), f"a pack cannot be read: {error.message}")
                    left += pack.last - pack.first + 1
                continue
            if self._stretches(stretches, vault.pack_name(pack.name)):
                left += pack.last - pack.first + 1
        last = head.packs[-1].last if head.packs else 0
        now = replace(cursor, counter=head.counter, digest=digest, unread=left)
        if not left:
            now = replace(now, applied=max(cursor.applied, last), read=0, holes=(), held=False, said_at=head.at)
        with vault.here.transaction() as transaction:
            self._memory.write(transaction, now, "life", life)
        return left

    def _stretches(self, stretches: Iterable[PackedEvents], name: str) -> bool:
        """Take in what can be of these; True when something is left."""
        good, objections = [], set()
        for stretch in stretches:
            objection = self._author.objection(stretch)
            if objection is None:
                good.append((stretch.session, stretch.writer, stretch.events))
            else:
                objections.add(objection)
        if self._take(good):
            objections.add("what it goes on from is not here")
        for objection in sorted(objections):
            self._reject(name, objection)
        return bool(objections)

    def _take(self, streams: Iterable[tuple[str, str, Sequence[Event]]]) -> list[Event]:
        """Take in what follows what is here; gives what does not."""
        vault, store = self._vault, self._vault.here.store
        good: list[tuple[str, str, list[Event], set[str]]] = []
        rest: list[Event] = []
        known: dict[tuple[str, str], set[str]] = {}
        for session, writer, events in streams:
            ordered = sorted(events, key=lambda one: one.seq)
            first, last = max(1, ordered[0].seq - 1), ordered[-1].seq
            there = {event.hash for event in store.stream(session, writer, first, last)}
            before = known.setdefault((session, writer), set())
            before |= there
            taken = []
            for event in ordered:
                if event.prev is None or event.prev in before:
                    before.add(event.hash)
                    taken.append(event)
                else:
                    rest.append(event)
            if taken:
                good.append((session, writer, taken, there))
        if good:
            with vault.here.transaction() as transaction:
                # Should the end of it not be reached, what was not accepted is taken out again.
                cuts = {device: item.cut for device, item in vault.membership.removed.items()}
                self._memory.write(transaction, {**cuts, self._device: {"": {}}}, "obeyed")
                if transaction.receive((event for _, _, events, _ in good for event in events), own_only=True):
                    vault.here.received(transaction, {session for session, *_ in good})
                for session, writer, events, there in good:
                    vouched = self._memory.vouched(session, writer).by_members(vault.membership)
                    if any(event.seq <= vouched and event.hash not in there for event in events):
                        self._memory.write(transaction, True, "branch", session, writer)
                    self._memory.vouch(transaction, session, writer, self._device, events[-1].seq)
            for session, writer, events, there in good:
                self._count(session, writer, events, there)
        return rest

    def _count(self, session: str, writer: str, events: Iterable[Event], there: set[str]) -> None:
        accepted = self._before.get(writer, {}).get(session, 0)
        for event in events:
            if event.seq > accepted or event.hash not in there:
                self._new[event.hash] = session
            if event.seq > accepted:
                cut = self._cut.setdefault(writer, {})
                cut[session] = max(event.seq, cut.get(session, 0))

    def _reject(self, name: str, reason: str) -> None:
        self._vault.report.reject(name, name_of(self._vault, self._device), reason)


class TakenIn(NamedTuple):
    """What a removed device wrote and was accepted now."""

    name: str
    fingerprint: str
    remotes: list[str]
    events: int
    sessions: int
    # Pushes that cannot be read here, are not its own word, or go on from something that is not here: they stay.
    left: int


def held_back(waits: Unaccepted) -> str:
    """In words."""
    told = [count(waits.events, "event")] if waits.events else []
    return ", ".join(told + ([f"{count(waits.pushes, 'push', 'pushes')} not read"] if waits.pushes else []))


def admit(ws: Workspace, which: str) -> TakenIn:
    """Take in what a removed device wrote and nobody has accepted, at every vault where this one may decide that."""
    at: list[str] = []
    whose: list[RemovedDevice] = []
    taken: list[Admitted] = []
    refused = member = False

    def act(remote: KnownRemote, vault: Vault) -> bool:
        nonlocal refused, member
        done = False
        vaults = [vault, *devices.shares(vault)]
        device = _gone(vaults, which)
        member = member or (device is None and devices.meant(vault, which) is not None)
        for item in vaults if device is not None else ():
            removed = item.membership.removed.get(device or "")
            if device is None or removed is None:
                continue
            if not item.membership.is_admin(item.me):
                refused = True
                continue
            whose.append(removed)
            taken.append(admit_at_vault(item, device))
            done = True
        if done:
            at.append(remote.name)
        return done

    devices.at_each(ws, act)
    if whose:
        # The same events may have come by several vaults.
        events = {event: session for admitted in taken for event, session in admitted.events.items()}
        left = sum(admitted.left for admitted in taken)
        return TakenIn(whose[0].name, whose[0].keys.words, at, len(events), len(set(events.values())), left)
    if refused:
        raise Refused("this device may not decide what is accepted", hint=devices.ON_ANOTHER)
    raise NotFound(
        f"no device called {which[:60]!a} was removed",
        hint="It belongs to the vault: what it writes is taken in." if member else "holdfast device list shows them.",
    )


def _gone(vaults: Sequence[Vault], which: str) -> str | None:
    """The id of the removed device with this name or fingerprint; None when there is none."""
    here = vaults[0].membership
    found = {
        device: item
        for vault in vaults
        for device, item in vault.membership.removed.items()
        if (item.name == which or devices.fits(item.keys, which)) and not here.is_member(device)
    }
    if len(found) > 1:
        # The one of which something waits is meant, if it is one.
        some = [device for device in found if any(device in device_removal.waiting(vault.memory) for vault in vaults)]
        if len(some) != 1:
            choices = ", ".join(device.keys.words for device in found.values())
            raise Conflict(
                f"several devices called {which[:60]!a} were removed", hint=f"Give the fingerprint: {choices}"
            )
        return some[0]
    return next(iter(found), None)
