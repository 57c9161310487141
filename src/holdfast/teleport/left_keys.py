"""Looking for keys that were left for this device.

Whoever can write to the remote can leave some, and as many as they like. Those whose names only a member of the vault
can make are opened first; of the rest some are, chosen anew each time, so that no number of them hides the right one.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.teleport import sealing, wraps
from holdfast.teleport.remotes.interface import Missing, TooLarge

if TYPE_CHECKING:
    from holdfast.teleport.vault import Vault
    from holdfast.teleport.wraps import Wrapped

_AT_ONCE: Final = 1_000
# Wraps of which no entry names a key yet: perhaps of an epoch that we have not heard of.
_MOST_UNNAMED: Final = 32
# And keys in one wrap that no entry names yet: as many epochs may have passed us by.
_MOST_UNNAMED_KEYS: Final = 256
_MOST_PASSED_OVER: Final = 20_000
_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_PASSED: Final = "passed over"
_UNNAMED: Final = "a key was left that no member of the vault has named"
_shuffled: Final = random.SystemRandom()


class _Sorted(NamedTuple):
    """What was read: wraps with a key that an entry names, others that may prove useful, and what is of no use."""

    named: dict[str, bytes]
    unnamed: dict[str, bytes]
    useless: set[str]


def take(vault: Vault) -> bool:
    """Keep the wraps for this device and vault that are new; True when there were any."""
    memory = vault.memory
    before = memory.read(set[str], _PASSED) or set()
    kept = memory.raw_under("wrap").keys()
    prefix = wraps.prefix_of(vault.here.keys.public.age)
    listed = {one.name.removeprefix(prefix): one.size for one in vault.remote.list(prefix)}
    unknown = [
        name
        for name, size in listed.items()
        if name not in kept and name not in before and size >= wraps.SMALLEST and _NAME.fullmatch(name)
    ]
    _shuffled.shuffle(unknown)
    unknown.sort(key=lambda name: not vault.is_by_member(name))
    found = _read(vault, prefix, unknown[:_AT_ONCE])
    unnamed = _unnamed(vault)
    # The room is given to those that came, by turns: whichever is the right one has its turn.
    chosen = sorted([*found.unnamed, *unnamed], key=lambda name: not vault.is_by_member(name))[:_MOST_UNNAMED]
    new = {**found.named, **{name: blob for name, blob in found.unnamed.items() if name in chosen}}
    if new or found.useless:
        with vault.here.transaction() as transaction:
            for name in unnamed:
                if name not in chosen:
                    memory.forget(transaction, "wrap", name)
            for name, blob in new.items():
                memory.write_raw(transaction, blob, "wrap", name)
            passed = (before & listed.keys()) | found.useless
            memory.write(transaction, sorted(passed)[:_MOST_PASSED_OVER], _PASSED)
        vault.forget_wraps(set(unnamed) - set(chosen))
    return bool(new)


def _unnamed(vault: Vault) -> list[str]:
    """The wraps that are kept though no entry names a key of theirs."""
    named = {key.id for key in vault.membership.keys}
    return [name for name, one in vault.opened().items() if named.isdisjoint(map(sealing.key_id, one.keys))]


def _read(vault: Vault, prefix: str, names: list[str]) -> _Sorted:
    named = {key.id for key in vault.membership.keys}
    have = {sealing.key_id(key) for one in vault.wrapped() for key in one.keys} & named
    found = _Sorted({}, {}, set())
    for name in names:
        try:
            blob = vault.remote.get(prefix + name, wraps.LARGEST)
        except Missing:
            continue
        except TooLarge:
            blob = b""
        opened = wraps.unwrap(blob, [vault.here.keys.identity])
        reason = _objection(vault, opened, len(named))
        if opened is None or opened.vault != vault.id or reason is not None:
            if reason is not None:
                vault.report.reject(prefix + name, "", reason)
            found.useless.add(name)
            continue
        ids = {sealing.key_id(key) for key in opened.keys}
        if ids & named - have or (opened.box is not None and vault.box() is None and ids & named):
            found.named[name] = blob
            have |= ids & named
        elif ids <= have:
            found.useless.add(name)  # it says nothing new
        elif len(found.unnamed) < _MOST_UNNAMED:
            found.unnamed[name] = blob
        else:
            vault.report.reject(prefix + name, "", _UNNAMED)
    return found


def _objection(vault: Vault, opened: Wrapped | None, named: int) -> str | None:
    """What is to be said about something that is of no use."""
    if opened is None:
        return "what was left for this device is no key that it can open"
    if opened.vault == vault.id and len(opened.keys) > named + _MOST_UNNAMED_KEYS:
        return "more keys were left at once than a vault has"
    return None
