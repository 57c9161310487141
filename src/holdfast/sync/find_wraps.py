"""Find the key wraps that were left for this device.

Anyone with write access to the remote can leave any number of them. So files are opened in turn from each device
whose mark their names carry, and each is opened once: no number of useless files hides the right one for long.
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
    from holdfast.sync.protocol.wraps import KeyWrap
    from holdfast.sync.vault import Vault

_MAX_READ: Final = 2_000
# Wraps with no key that an entry names: perhaps of an epoch that is not known here yet.
_MAX_UNNAMED: Final = 32
# Keys in one wrap that no entry names: as many epochs may be unknown here.
_MAX_UNNAMED_KEYS: Final = 256
_MAX_NAMES: Final = 50_000
_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_USELESS_NAMES: Final = "passed over"
# Opened before, with keys that no entry named: retried, a few at a time.
_TRIED_NAMES: Final = "tried"
_UNNAMED_KEY: Final = "a wrap holds a key that no membership entry names"
_shuffled: Final = random.SystemRandom()


class _WrapsRead(NamedTuple):
    """Wraps by usefulness: with a key that an entry names, possibly useful, and useless."""

    named: dict[str, bytes]
    # With a key that opens the entry they name, although what it follows is not read yet.
    proven: dict[str, bytes]
    unnamed: dict[str, bytes]
    tried: set[str]
    useless: set[str]


def fetch_wraps(vault: Vault) -> bool:
    """Fetch and keep the new wraps for this device and vault; True when there were any."""
    memory = vault.memory
    before = memory.read(set[str], _USELESS_NAMES) or set()
    tried = memory.read(list[str], _TRIED_NAMES) or []
    stored = memory.raw_under("wrap").keys()
    prefix = wraps.prefix_of(vault.local.keys.public.age)
    listed = {item.name.removeprefix(prefix): item.size for item in vault.remote.list(prefix)}
    unknown = [
        name
        for name, size in listed.items()
        if name not in stored and name not in before and size >= wraps.MIN_BYTES and _NAME.fullmatch(name)
    ]
    _shuffled.shuffle(unknown)
    tried_before = set(tried)
    unread = set(unknown)
    retried = [name for name in tried if name in unread][:_MAX_UNNAMED]
    names = in_reading_order(vault, (name for name in unknown if name not in tried_before))[:_MAX_READ] + retried
    reading = _WrapReader(vault, prefix, flooded=len(unknown) > _MAX_UNNAMED)
    result = reading.read(names)
    unnamed = _kept_unnamed(vault)
    # Proven wraps come first, then the others by turns.
    proven = [name for name, wrapped in unnamed.items() if reading.proves(wrapped)]
    chosen = [*result.proven, *proven, *in_reading_order(vault, dict.fromkeys([*result.unnamed, *unnamed]))]
    chosen = list(dict.fromkeys(chosen))[:_MAX_UNNAMED]
    new = {
        **result.named,
        **{name: blob for name, blob in (result.proven | result.unnamed).items() if name in chosen},
    }
    dropped = (unnamed.keys() | result.unnamed.keys() | result.proven.keys()) - set(chosen)
    passed = (before & listed.keys()) | result.useless
    # Those tried just now come last: each gets its turn, however many there are.
    remaining = (tried_before & listed.keys()) | result.tried | dropped
    waiting = remaining - {*names, *dropped}
    tried_next = [name for name in tried if name in waiting] + sorted(remaining - waiting)
    if new or passed != before or tried_next != tried:
        with vault.local.transaction() as transaction:
            for name in unnamed.keys() & dropped:
                memory.forget(transaction, "wrap", name)
            for name, blob in new.items():
                memory.write_raw(transaction, blob, "wrap", name)
            memory.write(transaction, sorted(passed)[:_MAX_NAMES], _USELESS_NAMES)
            memory.write(transaction, tried_next[:_MAX_NAMES], _TRIED_NAMES)
        vault.forget_wraps(unnamed.keys() & dropped)
    return bool(new)


def in_reading_order(vault: Vault, names: Iterable[str]) -> list[str]:
    """Wraps in the order to open them: in turn from each author, admins first, then other devices."""
    by_author: dict[str, list[str]] = {}
    for name in names:
        by_author.setdefault(vault.wrap_author(name), []).append(name)
    members = vault.membership.members

    def rank(author: str) -> tuple[bool, bool, bool, str]:
        known = members.get(author)
        return known is None, known is None or known.kind == "guest", known is None or not known.admin, author

    turns = zip_longest(*(by_author[author] for author in sorted(by_author, key=rank)))
    return [name for turn in turns for name in turn if name is not None]


def _kept_unnamed(vault: Vault) -> dict[str, KeyWrap]:
    """The wraps that are kept only for a key that no entry names."""
    members, opened = vault.membership, vault.opened_wraps()
    named = {key.id for key in members.keys}
    ids = {name: {sealing.key_id(key) for key in wrapped.keys} for name, wrapped in opened.items()}
    unnamed: dict[str, KeyWrap] = {}
    known_ids: set[str] = set()
    lacks_box = True
    for name in sorted(opened, key=lambda name: (-len(ids[name] & named), name)):
        box, named_ids = opened[name].box, ids[name] & named
        brings_box = bool(named_ids) and lacks_box and box is not None and age.public_of(box) == members.box
        if name == "accepted" or ids[name] <= named or named_ids - known_ids or brings_box:
            known_ids |= named_ids
            lacks_box = lacks_box and not brings_box
        else:
            unnamed[name] = opened[name]
    return unnamed


class _WrapReader:
    """Reads the wraps for this device once."""

    def __init__(self, vault: Vault, prefix: str, *, flooded: bool) -> None:
        self._vault = vault
        self._prefix = prefix
        # More came than are kept: proven ones are preferred.
        self._flooded = flooded
        self._named_ids = {key.id for key in vault.membership.keys}
        self._known_ids = {
            sealing.key_id(key) for wrapped in vault.wrapped() for key in wrapped.keys
        } & self._named_ids
        self._lacks_box = vault.box() is None
        self._listed: frozenset[str] | None = None
        self._entries: dict[str, bytes] = {}

    def read(self, names: list[str]) -> _WrapsRead:
        vault, named = self._vault, self._named_ids
        result = _WrapsRead({}, {}, {}, set(), set())
        for name in names:
            try:
                blob = vault.remote.get(self._prefix + name, wraps.MAX_BYTES)
            except Missing:
                continue
            except ObjectTooLarge:
                blob = b""
            opened = wraps.unwrap(blob, [vault.local.keys.identity])
            reason = _rejection_reason(vault, opened, len(named))
            if opened is None or opened.vault != vault.id or reason is not None:
                if reason is not None:
                    vault.report.reject(self._prefix + name, "", reason)
                result.useless.add(name)
                continue
            ids = {sealing.key_id(key) for key in opened.keys}
            if ids & named - self._known_ids or (ids & named and self._brings_box(opened)):
                result.named[name] = blob
                self._known_ids |= ids & named
                self._lacks_box = self._lacks_box and not self._brings_box(opened)
            elif ids <= self._known_ids:
                result.useless.add(name)  # it says nothing new
            elif len(result.proven) < _MAX_UNNAMED and self.proves(opened):
                result.proven[name] = blob
            elif len(result.unnamed) < _MAX_UNNAMED:
                result.unnamed[name] = blob
            else:
                if not result.tried:
                    vault.report.reject(self._prefix + name, "", _UNNAMED_KEY)
                result.tried.add(name)
        return result

    def _brings_box(self, opened: KeyWrap) -> bool:
        public = self._vault.membership.box
        return self._lacks_box and opened.box is not None and age.public_of(opened.box) == public

    def proves(self, opened: KeyWrap) -> bool:
        """Whether a new key opens the entry that the wrap names; checked only in a flood."""
        vault = self._vault
        if not self._flooded or opened.entry is None:
            return False
        name = vault.entry_name(opened.entry)
        keys = [key for key in opened.keys if sealing.key_id(key) not in self._known_ids]
        try:
            sealed = self._entry(name)
            limit = entries.unpacked_limit(len(sealed))
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
            self._entries = {name: vault.remote.get(name, entries.LIMIT)}  # many wraps may name one entry
        return self._entries[name]


def _rejection_reason(vault: Vault, opened: KeyWrap | None, named: int) -> str | None:
    """Why a wrap is useless, if that is worth reporting."""
    if opened is None:
        return "a wrap for this device cannot be opened"
    if opened.vault == vault.id and len(opened.keys) > named + _MAX_UNNAMED_KEYS:
        return "a wrap holds more keys than a vault has"
    return None
