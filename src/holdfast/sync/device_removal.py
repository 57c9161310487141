"""Removing a device: what it wrote up to now stays, what it writes from now on does not count, and it reads no more.

The entry says how far each of its streams was accepted. Whoever holds more of them takes that out of the log again,
so that all devices end up with the same; an admin can let it in later (`letting_in`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.store.interface import Transaction
from holdfast.sync import unaccepted
from holdfast.sync.protocol.entries import Cut, Remove
from holdfast.sync.protocol.packs import PackedEvents
from holdfast.sync.read_heads import name_of
from holdfast.sync.state import Vouched
from holdfast.sync.vault import Vault, VaultChange
from holdfast.workspace.keys.device_keys import certifies

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
    others, aside = list(beside()), list(unaccepted.kept(memory))
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
            unaccepted.add(memory, transaction, session, writer, device, some)
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
        unaccepted.keep(vault.memory, transaction, session, writer, back.device, rest)
