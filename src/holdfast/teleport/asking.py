"""Who asks to be let in, as the last sync saw it: remembered, so that it can be told without asking the remote."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.teleport import joining

if TYPE_CHECKING:
    from holdfast.teleport.hearing import Listing
    from holdfast.teleport.memory import Memory
    from holdfast.teleport.vault import Vault

# Anybody who can write to the remote can leave requests: what nobody would read through is not fetched by each sync.
_MOST: Final = 20
_NAME: Final = "asking"


class Asks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A device that asks to be let in."""

    object: str
    device: str
    words: str
    name: str
    at: int


def remembered(memory: Memory) -> tuple[Asks, ...]:
    return memory.read(tuple[Asks, ...], _NAME) or ()


def remember(vault: Vault, listing: Listing) -> None:
    """Those that are still there are kept, those that came are read; whoever may not let others in keeps none."""
    members, before = vault.membership, remembered(vault.memory)
    there = set(listing.joins) if members.session is None and members.is_admin(vault.me) else set()
    known = [one for one in before if one.object in there and not members.is_member(one.device)]
    new = sorted(there - {one.object for one in before})
    if new:
        new = random.SystemRandom().sample(new, min(len(new), max(0, _MOST - len(known))))
        known += [
            Asks(object=one.object, device=one.keys.id, words=one.keys.words, name=one.name, at=one.at)
            for one in joining.requests(vault, new)
        ]
    if tuple(known) != before:
        with vault.here.transaction() as transaction:
            vault.memory.write(transaction, tuple(known), _NAME)
