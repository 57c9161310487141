"""Removing a device: what it wrote up to now stays, what it writes from now on does not count, and it reads no more.

The entry says how far each of its streams was accepted. Whoever holds more of them takes that out of the log again,
so that all devices end up with the same; a device that may do so can let it in later (`let_in`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.teleport import packs
from holdfast.teleport.entries import Remove, Restore
from holdfast.teleport.memory import Vouched
from holdfast.teleport.packs import Stretch
from holdfast.teleport.pulling import name_of
from holdfast.teleport.vault import Change, Vault


def cut_of(vault: Vault, device: str) -> dict[str, dict[str, int]]:
    """How far this store has each stream that the device vouched for."""
    cut: dict[str, dict[str, int]] = {}
    for session, writer, known in vault.memory.streams():
        if known.device == device:
            cut.setdefault(writer, {})[session] = known.seq
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
    """Accept what this store has meanwhile read of a removed device."""
    change = vault.change()
    change.say(Restore, device=device, cut=cut_of(vault, device))
    change.remember(True, "adopt", device)
    change.commit()


def obey(vault: Vault) -> None:
    """Take out of the log what removed devices wrote beyond what was accepted of them."""
    memory, removed = vault.memory, vault.membership.removed
    wanted = msgspec.msgpack.encode(
        {device: one.cut for device, one in sorted(removed.items())}, order="deterministic"
    )
    if not removed or memory.raw("obeyed") == wanted:
        return
    streams = [(session, writer, known) for session, writer, known in memory.streams() if known.device in removed]
    with vault.here.transaction() as transaction:
        for session, writer, known in streams:
            last = removed[known.device].cut.get(writer, {}).get(session, 0)
            if known.seq > last:
                events = transaction.withdraw(session, writer, last)
                if events:
                    held = packs.pack([Stretch(session, writer, known.device, b"", events)])
                    memory.write_raw(transaction, held, "held", session, writer)
                    vault.report.reject(
                        "", name_of(vault, known.device),
                        f"{len(events)} events were not yet accepted when the device was removed, and are held back",
                    )  # fmt: skip
                memory.write(transaction, Vouched(last, known.device), "stream", session, writer)
        memory.write_raw(transaction, wanted, "obeyed")
