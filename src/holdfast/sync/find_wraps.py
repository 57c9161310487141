"""Find the key wraps that were left for this device.

Whoever can write to the remote can leave some, and as many as they like. So files are opened by turns from each
device whose names they have, and each is opened once: no number of them, by whomever, hides the right one for long.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.errors import Invalid
from holdfast.sync.protocol import entries, sealing, wraps
from holdfast.sync.protocol.sealing import Unsealable
from holdfast.sync.remotes.base import Missing, ObjectTooLarge
from holdfast.workspace.keys import age

if TYPE_CHECKING:
    from holdfast.sync.protocol.wraps import Wrapped
    from holdfast.sync.vault import Vault

_AT_ONCE: Final = 2_000
# Wraps of which no entry names a key yet: perhaps of an epoch that we have not heard of.
_MOST_UNNAMED: Final = 32
# And keys in one wrap that no entry names yet: as many epochs may have passed us by.
_MOST_UNNAMED_KEYS: Final = 256
_MOST_PASSED_OVER: Final = 50_000
_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_PASSED: Final = "passed over"
# Opened before, with keys that no entry named: looked at again, a few at a time.
_TRIED: Final = "tried"
_UNNAMED: Final = "a key was left that no member of the vault has named"
_shuffled: Final = random.SystemRandom()


class _Sorted(NamedTuple):
    """What was read: wraps with a key that an entry names, others that may prove useful, and what is of no use."""

    named: dict[str, bytes]
    # With a key that opens the entry they name, though we have not read what it follows.
    proven: dict[str, bytes]
    unnamed: dict[str, bytes]
    tried: set[str]
    useless: set[str]


def take(vault: Vault) -> bool:
    """Keep the wraps for this device and vault that are new; True when there were any."""
    memory = vault.memory
    before = memory.read(set[str], _PASSED) or set()
    tried = memory.read(list[str], _TRIED) or []
    kept = memory.raw_under("wrap").keys()
    prefix = wraps.prefix_of(vault.here.keys.public.age)
    listed = {item.name.removeprefix(prefix): item.size for item in vault.remote.list(prefix)}
    unknown = [
        name
        for name, size in listed.items()
        if name not in kept and name not in before and size >= wraps.SMALLEST and _NAME.fullmatch(name)
    ]
    _shuffled.shuffle(unknown)
    known = set(tried)
    left = set(unknown)
    again = [name for name in tried if name in left][:_MOST_UNNAMED]
    names = by_turns(vault, (name for name in unknown if name not in known))[:_AT_ONCE] + again
    reading = _Reading(vault, prefix, flooded=len(unknown) > _MOST_UNNAMED)
    found = reading.read(names)
    unnamed = _unnamed(vault)
    # The room is given to those that prove themselves, and to those that came, by turns.
    proven = [name for name, wrapped in unnamed.items() if reading.proves(wrapped)]
    chosen = [*found.proven, *proven, *by_turns(vault, dict.fromkeys([*found.unnamed, *unnamed]))]
    chosen = list(dict.fromkeys(chosen))[:_MOST_UNNAMED]
    new = {**found.named, **{name: blob for name, blob in (found.proven | found.unnamed).items() if name in chosen}}
    dropped = (unnamed.keys() | found.unnamed.keys() | found.proven.keys()) - set(chosen)
    passed = (before & listed.keys()) | found.useless
    # Those that were tried just now come last: each has its turn, however many there are.
    still = (known & listed.keys()) | found.tried | dropped
    waiting = still - {*names, *dropped}
    now = [name for name in tried if name in waiting] + sorted(still - waiting)
    if new or passed != before or now != tried:
        with vault.here.transaction() as transaction:
            for name in unnamed.keys() & dropped:
                memory.forget(transaction, "wrap", name)
            for name, blob in new.items():
                memory.write_raw(transaction, blob, "wrap", name)
            memory.write(transaction, sorted(passed)[:_MOST_PASSED_OVER], _PASSED)
            memory.write(transaction, now[:_MOST_PASSED_OVER], _TRIED)
        vault.forget_wraps(unnamed.keys() & dropped)
    return bool(new)


def by_turns(vault: Vault, names: Iterable[str]) -> list[str]:
    """Wraps in the order to look at them: by turns from each who left some, admins and then other devices first."""
    by: dict[str, list[str]] = {}
    for name in names:
        by.setdefault(vault.left_by(name), []).append(name)
    members = vault.membership.members

    def rank(author: str) -> tuple[bool, bool, bool, str]:
        known = members.get(author)
        return known is None, known is None or known.kind == "guest", known is None or not known.admin, author

    turns = zip_longest(*(by[author] for author in sorted(by, key=rank)))
    return [name for turn in turns for name in turn if name is not None]


def _unnamed(vault: Vault) -> dict[str, Wrapped]:
    """The wraps that are kept for a key that no entry names, and for nothing else."""
    members, opened = vault.membership, vault.opened()
    named = {key.id for key in members.keys}
    ids = {name: {sealing.key_id(key) for key in wrapped.keys} for name, wrapped in opened.items()}
    found: dict[str, Wrapped] = {}
    have: set[str] = set()
    lacks_box = True
    for name in sorted(opened, key=lambda name: (-len(ids[name] & named), name)):
        box, good = opened[name].box, ids[name] & named
        brings_box = bool(good) and lacks_box and box is not None and age.public_of(box) == members.box
        if name == "accepted" or ids[name] <= named or good - have or brings_box:
            have |= good
            lacks_box = lacks_box and not brings_box
        else:
            found[name] = opened[name]
    return found


class _Reading:
    """One look at the wraps for this device."""

    def __init__(self, vault: Vault, prefix: str, *, flooded: bool) -> None:
        self._vault = vault
        self._prefix = prefix
        # More came than there is room for: then those that prove themselves are preferred.
        self._flooded = flooded
        self._named = {key.id for key in vault.membership.keys}
        self._have = {sealing.key_id(key) for wrapped in vault.wrapped() for key in wrapped.keys} & self._named
        self._lacks_box = vault.box() is None
        self._listed: frozenset[str] | None = None
        self._entries: dict[str, bytes] = {}

    def read(self, names: list[str]) -> _Sorted:
        vault, named = self._vault, self._named
        found = _Sorted({}, {}, {}, set(), set())
        for name in names:
            try:
                blob = vault.remote.get(self._prefix + name, wraps.LARGEST)
            except Missing:
                continue
            except ObjectTooLarge:
                blob = b""
            opened = wraps.unwrap(blob, [vault.here.keys.identity])
            reason = _objection(vault, opened, len(named))
            if opened is None or opened.vault != vault.id or reason is not None:
                if reason is not None:
                    vault.report.reject(self._prefix + name, "", reason)
                found.useless.add(name)
                continue
            ids = {sealing.key_id(key) for key in opened.keys}
            if ids & named - self._have or (ids & named and self._brings_box(opened)):
                found.named[name] = blob
                self._have |= ids & named
                self._lacks_box = self._lacks_box and not self._brings_box(opened)
            elif ids <= self._have:
                found.useless.add(name)  # it says nothing new
            elif len(found.proven) < _MOST_UNNAMED and self.proves(opened):
                found.proven[name] = blob
            elif len(found.unnamed) < _MOST_UNNAMED:
                found.unnamed[name] = blob
            else:
                if not found.tried:
                    vault.report.reject(self._prefix + name, "", _UNNAMED)
                found.tried.add(name)
        return found

    def _brings_box(self, opened: Wrapped) -> bool:
        public = self._vault.membership.box
        return self._lacks_box and opened.box is not None and age.public_of(opened.box) == public

    def proves(self, opened: Wrapped) -> bool:
        """Whether a key that is new here opens the entry that the wrap names; asked where there is a choice."""
        vault = self._vault
        if not self._flooded or opened.entry is None:
            return False
        name = vault.entry_name(opened.entry)
        keys = [key for key in opened.keys if sealing.key_id(key) not in self._have]
        try:
            sealed = self._entry(name)
            limit = entries.unfolded_limit(len(sealed))
            signed = entries.unpack(sealing.unseal(keys, "entry", vault.id, name, sealed, limit=limit))
        except (Missing, ObjectTooLarge, Unsealable, Invalid):
            return False
        return entries.hash_of(signed.payload) == opened.entry

    def _entry(self, name: str) -> bytes:
        vault = self._vault
        if self._listed is None:
            self._listed = frozenset(item.name for item in vault.remote.list(f"m/{vault.tag}/"))
        if name not in self._listed:
            return b""
        if name not in self._entries:
            self._entries = {name: vault.remote.get(name, entries.LIMIT)}  # the last one: many may name the same
        return self._entries[name]


def _objection(vault: Vault, opened: Wrapped | None, named: int) -> str | None:
    """What is to be said about something that is of no use."""
    if opened is None:
        return "what was left for this device is not a key that it can open"
    if opened.vault == vault.id and len(opened.keys) > named + _MOST_UNNAMED_KEYS:
        return "more keys were left at once than a vault has"
    return None
