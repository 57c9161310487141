"""Removing a device: what it wrote up to now stays, what it writes from now on does not count, and it reads no more.

The entry says how far each of its streams was accepted. Whoever holds more of them takes that out of the log again,
so that all devices end up with the same; a device that may do so can let it in later (`let_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.event import Event
from holdfast.core.reading import erasures
from holdfast.store.interface import Transaction
from holdfast.teleport import packs
from holdfast.teleport.entries import Cut, Remove, Restore
from holdfast.teleport.hearing import name_of
from holdfast.teleport.keys import certifies
from holdfast.teleport.memory import Vouched
from holdfast.teleport.packs import Stretch
from holdfast.teleport.vault import Change, Vault


def cut_of(vault: Vault, device: str) -> Cut:
    """How far this store has each stream that the device vouched for."""
    cut: Cut = {}
    for session, writer, known in vault.memory.streams():
        if device in known.by:
            last = known.by[device]
            if not vault.membership.is_member(device):
                last = Vouched({device: last}).accepted(vault.membership, session, writer)
            cut.setdefault(writer, {})[session] = last
    return cut


def remove(vault: Vault, devices: Iterable[str], change: Change | None = None) -> Change:
    """Say that these no longer belong here, and begin a new key that they do not get. To be committed."""
    change = change or vault.change()
    for device in devices:
        change.say(Remove, device=device, cut=cut_of(vault, device))
        # From now on somebody else must vouch for what was accepted: those who come later trust no removed device.
        change.remember(True, "adopt", device)
    change.new_key()
    return change


def let_in(vault: Vault, device: str) -> None:
    """Accept what this store has read of a removed device, also what it held back."""
    cut = cut_of(vault, device)
    for session, writer, held in _held(vault):
        if held.device == device:
            known = cut.setdefault(writer, {}).get(session, 0)
            cut[writer][session] = max(known, held.events[-1].seq)
    change = vault.change()
    change.say(Restore, device=device, cut=cut)
    change.remember(True, "adopt", device)
    change.commit()
    obey(vault)


def obey(vault: Vault, beside: Callable[[], Iterable[Vault]] = tuple) -> None:
    """Take out of the log what removed devices wrote beyond what was accepted of them; and back in what is, by now.

    `beside` are the other vaults that this store takes part in: what is accepted in one of them stays.
    """
    memory, members = vault.memory, vault.membership
    cuts = {device: one.cut for device, one in sorted(members.removed.items())}
    wanted = msgspec.msgpack.encode(cuts, order="deterministic")
    before = memory.raw("obeyed")
    if before == wanted or (before is None and not cuts) or not members.is_member(vault.me):
        return
    others, held = list(beside()), list(_held(vault))
    with vault.here.transaction() as transaction:
        for session, writer, known in list(memory.streams()):
            if not cuts.keys() & known.by.keys() or certifies(writer, vault.here.keys.public.signing):
                continue
            last = known.accepted(members, session, writer)
            for other in others:
                there = other.memory.vouched(session, writer)
                last = max(last, there.accepted(other.membership, session, writer))
            if last < max(known.by.values()):
                _hold_back(vault, transaction, session, writer, last)
        for session, writer, back in held:
            last = memory.vouched(session, writer).accepted(members, session, writer)
            _take_back(vault, transaction, session, writer, back, last)
        if members.is_admin(vault.me):
            for device in cuts.keys() - (memory.read(dict[str, Cut], "obeyed") or {}).keys():
                memory.write(transaction, True, "adopt", device)
        memory.write_raw(transaction, wanted, "obeyed")


def _hold_back(vault: Vault, transaction: Transaction, session: str, writer: str, last: int) -> None:
    events = transaction.withdraw(session, writer, last)
    if not events:
        return
    memory, removed = vault.memory, vault.membership.removed
    by = memory.vouched(session, writer).by
    device = max((one for one in by if one in removed), key=lambda one: by[one])
    known = {one.hash for one in events}
    more = [
        event
        for where, of, held in _held(vault)
        if (where, of) == (session, writer)
        for event in held.events
        if event.hash not in known
    ]
    _write_held(vault, transaction, session, writer, device, [*events, *more])
    for life, cursor in memory.cursors().items():
        if cursor.device == device:
            # Should the device be let in again, all of it is read anew.
            memory.write(transaction, replace(cursor, applied=0, holes=(), held=True), "life", life)
    vault.report.reject(
        "", name_of(vault, device),
        f"{len(events)} events were not yet accepted when the device was removed, and are held back",
    )  # fmt: skip


def _take_back(vault: Vault, transaction: Transaction, session: str, writer: str, held: Stretch, last: int) -> None:
    accepted = [event for event in held.events if event.seq <= last]
    if accepted:
        transaction.receive(accepted)
        vault.here.received(transaction, {session})
        rest = [event for event in held.events if event.seq > last]
        _write_held(vault, transaction, session, writer, held.device, rest)


# ── what is held back ────────────────────────────────────────────────────────────────────────────────────


def _held(vault: Vault) -> Iterable[tuple[str, str, Stretch]]:
    for name, packed in vault.memory.raw_under("held").items():
        session, _, writer = name.partition("/")
        stretches = packs.unpack(packed)
        events = [event for one in stretches for event in one.events]
        if events:
            yield session, writer, Stretch(session, writer, stretches[0].device, b"", events)


def _write_held(
    vault: Vault, transaction: Transaction, session: str, writer: str, device: str, events: Sequence[Event]
) -> None:
    if not events:
        vault.memory.forget(transaction, "held", session, writer)
        return
    # One by one: where a stream forks they do not follow each other.
    stretches = [Stretch(session, writer, device, b"", [event]) for event in events]
    vault.memory.write_raw(transaction, packs.pack(stretches), "held", session, writer)


def scrub(vault: Vault, sessions: Iterable[str]) -> None:
    """What was erased goes from what is held back, too."""
    for session, writer, held in list(_held(vault)):
        if session not in sessions:
            continue
        found = [one for one in vault.here.store.events(session) if one.type in ("event.erased", "session.deleted")]
        deleted = any(one.type == "session.deleted" for one in found)
        erased = erasures(found).hashes
        kept = [
            replace(event, data=None, salt=None) if deleted or event.hash in erased else event
            for event in held.events
        ]
        with vault.here.transaction() as transaction:
            _write_held(vault, transaction, session, writer, held.device, kept)
