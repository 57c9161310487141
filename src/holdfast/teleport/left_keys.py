"""Looking for keys that were left for this device.

Whoever can write to the remote can leave some, and as many as they like: what is of no use is passed over for good,
so that nobody can keep us from coming to the right ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.teleport import sealing, wraps
from holdfast.teleport.remotes.interface import Missing, TooLarge

if TYPE_CHECKING:
    from holdfast.teleport.vault import Vault

_AT_ONCE: Final = 1_000
# Wraps of which no entry names a key yet: perhaps of an epoch that we have not heard of.
_MOST_UNNAMED: Final = 32
_MOST_PASSED_OVER: Final = 20_000
_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_PASSED: Final = "passed over"


def take(vault: Vault) -> bool:
    """Keep the wraps for this device and vault that are new; True when there were any."""
    memory = vault.memory
    before = memory.read(set[str], _PASSED) or set()
    known = memory.raw_under("wrap").keys() | before
    prefix = f"k/{sealing.recipient_tag(vault.here.keys.public.age)}-"
    names = {one.name.removeprefix(prefix) for one in vault.remote.list(prefix)}
    unknown = sorted(name for name in names - known if _NAME.fullmatch(name))
    found, useless = _read(vault, prefix, unknown[:_AT_ONCE])
    if found or useless:
        with vault.here.transaction() as transaction:
            for name, blob in found.items():
                memory.write_raw(transaction, blob, "wrap", name)
            memory.write(transaction, sorted(before & names | useless)[:_MOST_PASSED_OVER], _PASSED)
    return bool(found)


def _read(vault: Vault, prefix: str, names: list[str]) -> tuple[dict[str, bytes], set[str]]:
    """The wraps for this vault; and the names of those that are none, or for another vault."""
    named = {key.id for key in vault.membership.keys}
    kept = [[sealing.key_id(key) for key in one.keys] for one in vault.wrapped()]
    room = _MOST_UNNAMED - sum(named.isdisjoint(ids) for ids in kept)
    found: dict[str, bytes] = {}
    useless: set[str] = set()
    for name in names:
        try:
            opened = wraps.unwrap(blob := vault.remote.get(prefix + name, wraps.LARGEST), [vault.here.keys.identity])
        except Missing:
            continue
        except TooLarge:
            opened = None
        if opened is None:
            vault.report.reject(prefix + name, "", "what was left for this device is no key that it can open")
            useless.add(name)
        elif opened.vault != vault.id:
            useless.add(name)
        elif not named.isdisjoint(sealing.key_id(key) for key in opened.keys):
            found[name] = blob
        elif room > 0:
            found[name] = blob
            room -= 1
        else:
            vault.report.reject(prefix + name, "", "a key was left that no member of the vault has named")
            useless.add(name)
    return found, useless
