"""What removed devices wrote and nobody has accepted: told in words, and taken in when a person says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import Conflict, NotFound, Refused
from holdfast.keeper.teleports import devices
from holdfast.keeper.teleports.remotes import Remote
from holdfast.keeper.wording import count
from holdfast.teleport import held, letting_in
from holdfast.teleport.vault import Vault

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.teleport.held import Waiting
    from holdfast.teleport.membership import Removed


class TakenIn(NamedTuple):
    """What a removed device wrote and was accepted now."""

    name: str
    fingerprint: str
    remotes: list[str]
    events: int
    sessions: int
    # Pushes that cannot be read here, are not its own word, or go on from something that is not here: they stay.
    left: int


def held_back(waits: Waiting) -> str:
    """In words."""
    told = [count(waits.events, "event")] if waits.events else []
    return ", ".join(told + ([f"{count(waits.pushes, 'push', 'pushes')} not read"] if waits.pushes else []))


def admit(keeper: Keeper, which: str) -> TakenIn:
    """Take in what a removed device wrote and nobody has accepted, at every vault where this one may decide that."""
    at: list[str] = []
    whose: list[Removed] = []
    taken: list[letting_in.Admitted] = []
    refused = member = False

    def act(remote: Remote, vault: Vault) -> bool:
        nonlocal refused, member
        done = False
        vaults = [vault, *devices.shares(vault)]
        device = _gone(vaults, which)
        member = member or (device is None and devices.meant(vault, which) is not None)
        for one in vaults if device is not None else ():
            removed = one.membership.removed.get(device or "")
            if device is None or removed is None:
                continue
            if not one.membership.is_admin(one.me):
                refused = True
                continue
            whose.append(removed)
            taken.append(letting_in.admit(one, device))
            done = True
        if done:
            at.append(remote.name)
        return done

    devices.at_each(keeper, act)
    if whose:
        # The same events may have come by several vaults.
        events = {event: session for one in taken for event, session in one.events.items()}
        left = sum(one.left for one in taken)
        return TakenIn(whose[0].name, whose[0].keys.words, at, len(events), len(set(events.values())), left)
    if refused:
        raise Refused("this device may not decide what is taken in", hint=devices.ON_ANOTHER)
    raise NotFound(
        f"no device called {which[:60]!a} was removed",
        hint="It belongs to the vault: what it writes is taken in." if member else "holdfast device list shows them.",
    )


def _gone(vaults: Sequence[Vault], which: str) -> str | None:
    """The id of the removed device with this name or fingerprint; None when there is none."""
    here = vaults[0].membership
    found = {
        device: one
        for vault in vaults
        for device, one in vault.membership.removed.items()
        if (one.name == which or devices.fits(one.keys, which)) and not here.is_member(device)
    }
    if len(found) > 1:
        # The one of which something waits is meant, if it is one.
        some = [device for device in found if any(device in held.waiting(one.memory) for one in vaults)]
        if len(some) != 1:
            choices = ", ".join(one.keys.words for one in found.values())
            raise Conflict(
                f"several devices called {which[:60]!a} were removed", hint=f"Give the fingerprint: {choices}"
            )
        return some[0]
    return next(iter(found), None)
