"""One vault at one remote, as this device knows it: its members, its keys, and changes to it.

Data from a remote is used only once its signature is verified. Changes are stored here first and sent afterwards, so
that a crash in between only delays them: `flush` sends what is still waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid, Refused
from holdfast.core.text import printable
from holdfast.store.interface import Store, Transaction
from holdfast.sync import find_wraps
from holdfast.sync.protocol import entries, heads, sealing, wraps
from holdfast.sync.protocol.ancestry import followed, over_missing_limit, over_size_limit, trace
from holdfast.sync.protocol.entries import MembershipEntry, NewKey, SignedEntry
from holdfast.sync.protocol.membership import Membership, evaluate
from holdfast.sync.protocol.sealing import NO_KEY, Unsealable
from holdfast.sync.protocol.wraps import KeyWrap
from holdfast.sync.remotes.base import Missing, ObjectTooLarge, RemoteStore
from holdfast.sync.state import FOUNDING, VaultState
from holdfast.sync.sync_report import SyncReport
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import ENTRY, DeviceKeys, verify

# The owner of the remote decides how many objects there are: limits for one sync; the next one continues.
_MAX_ENTRIES: Final = 20_000
_MAX_BAD_ENTRIES: Final = 500
# How many of them are reported one by one.
_MAX_REPORTED: Final = 3
_MAX_UNNAMED_KEYS: Final = 1_000
# Larger entries, and how many bytes of them are read in one sync.
_LARGE_ENTRY: Final = 4 << 10
_MAX_LARGE_ENTRY_BYTES: Final = 64 << 20
# Entries over their author's limit whose names are remembered, so that they are not fetched again.
_MAX_OVER: Final = 5_000
_MAX_VERIFIED: Final = 100_000
# The author of a wrap of which only this is known: they have the vault's box.
SOMEBODY: Final = "somebody"
# Signatures that this process verified, by the hash of what is signed and the signature.
_verified: set[str] = set()


class LocalDevice(NamedTuple):
    """This device, as a vault needs it."""

    keys: DeviceKeys
    name: str
    store: Store
    transaction: Callable[[], AbstractContextManager[Transaction]]
    # The writer id of recorded events, and a new one once the present one is used elsewhere.
    writer: Callable[[], str]
    renew: Callable[[], str]
    now: Callable[[], int]
    # Called in the transaction that stores events from elsewhere, with their sessions.
    received: Callable[[Transaction, Iterable[str]], None]
    # Whether a writer is certainly this device, or another device of a vault of ours.
    is_ours: Callable[[str], bool]
    # The vaults of ours that a session is sent to, the oldest first; None where that is not known.
    vaults: Callable[[str], tuple[str, ...] | None]


class Vault:
    def __init__(
        self,
        local: LocalDevice,
        remote: RemoteStore,
        vault: str,
        *,
        main: Vault | None = None,
        max_unpacked: int | None = None,
    ) -> None:
        """`main`: for the vault of a session that we share ourselves, our own vault.

        `max_unpacked`: how many bytes all objects together may decompress to.
        """
        self.local = local
        self.remote = remote
        self.id = vault
        self.main = main
        self.tag = sealing.vault_tag(vault)
        self.memory = VaultState(local.store, vault)
        self.report = SyncReport()
        self._entries: dict[str, SignedEntry] | None = None
        self._membership: Membership | None = None
        self._opened: dict[str, KeyWrap] = {}
        # Made here and not stored yet: for a new vault or a new epoch.
        self._new_wraps: list[KeyWrap] = []
        # Secrets this device shares with the vault's box and with its devices, by their age keys.
        self._shared_secrets: dict[str, bytes | None] = {}
        # The author of each wrap, and the membership this was derived from.
        self._wrap_authors: tuple[Membership, dict[str, str]] | None = None
        self._asked_for_wraps = False
        self._fetched = self._bad_entries = self._unpacked_bytes = self._absent = 0
        # The entries that the remote lists; asked for once some were missing.
        self._listed: set[str] | None = None
        self._unpack_left = max_unpacked
        self._over_limit: dict[str, str] | None = None

    @property
    def me(self) -> str:
        return self.local.keys.public.id

    def reload(self) -> None:
        """Drop cached values after somebody else wrote to the memory."""
        self._entries = None
        self._membership = None
        self._over_limit = None
        self._opened.clear()
        self._new_wraps.clear()
        self._asked_for_wraps = False

    # ── membership ────────────────────────────────────────────────────────────────────────────────

    @property
    def known(self) -> dict[str, SignedEntry]:
        """Every entry this device has, by hash."""
        if self._entries is None:
            stored = (entries.unpack(packed) for packed in self.memory.raw_under("entry").values())
            self._entries = {entries.hash_of(signed.payload): signed for signed in stored}
            founding = self.founding()
            if founding is not None:
                self._entries[entries.hash_of(founding.payload)] = founding
        return self._entries

    def founding(self) -> SignedEntry | None:
        packed = self.memory.raw(FOUNDING)
        if packed is not None:
            return entries.unpack(packed)
        # A store that lost its memory: the wraps for this device hold the founding entry.
        foundings = (entries.unpack_or_none(wrapped.founding) for wrapped in self.wrapped())
        return next(
            (signed for signed in foundings if signed is not None and entries.hash_of(signed.payload) == self.id),
            None,
        )

    @property
    def membership(self) -> Membership:
        if self._membership is None:
            if len(_verified) > _MAX_VERIFIED:
                _verified.clear()
            self._membership = evaluate(self.known.values(), self.id, verified=_verified)
        return self._membership

    def add(self, signed: SignedEntry) -> str:
        """Count an entry of our own before it is stored; return its hash."""
        entry_hash = entries.hash_of(signed.payload)
        self.known[entry_hash] = signed
        self._membership = None
        return entry_hash

    def store_entries(self, received: Iterable[SignedEntry]) -> None:
        """Store these entries. Whether they count depends on all of them together."""
        new = {entries.hash_of(signed.payload): signed for signed in received}
        # A wrongly signed copy is replaced: the right one may have come later.
        wrong = {name for name, _ in self.membership.rejected}
        new = {name: signed for name, signed in new.items() if name not in self.known or name in wrong}
        new = self._valid_new_entries(new)
        if new:
            with self.local.transaction() as transaction:
                for name, signed in new.items():
                    self.memory.write_raw(transaction, entries.pack(signed), "entry", name)
            self.known.update(new)
            self._membership = None

    def _valid_new_entries(self, new: dict[str, SignedEntry]) -> dict[str, SignedEntry]:
        """Those signed by a device of the vault. The rest is reported, not stored: anybody can make any amount."""
        if not new:
            return new
        ancestry = trace({**self.known, **new}.values(), self.id, _verified)
        wrong = dict(ancestry.rejected)
        for name in ancestry.waiting:
            header = entries.header_of(new[name].payload) if name in new else None
            keys = None if header is None else ancestry.keys.get(header.by)
            if keys is None or not verify(keys.signing, ENTRY, *new[name]):
                wrong.setdefault(name, "an entry that it follows is missing")
        for name in new.keys() & wrong.keys():
            self.report.reject(self.entry_name(name), "", f"a membership entry does not count: {wrong[name]}")
        valid = {name: signed for name, signed in new.items() if name not in wrong}
        main = None if self.main is None else self.main.membership
        excess = over_size_limit(
            self.known, valid, ancestry,
            lambda: evaluate({**self.known, **valid}.values(), self.id, verified=_verified), main,
        ) | over_missing_limit(self.known, valid, ancestry, main or self.membership)  # fmt: skip
        if excess:
            self._ignore_excess(excess)
        return {name: signed for name, signed in valid.items() if name not in excess}

    # ── limits for one device ──────────────────────────────────────────────────────────────────────────

    @property
    def over_limit(self) -> dict[str, str]:
        """Entries that are not stored because their author is over the limit, and the author of each."""
        if self._over_limit is None:
            self._over_limit = self.memory.read(dict[str, str], "over") or {}
        return self._over_limit

    def _ignore_excess(self, excess: dict[str, str]) -> None:
        with self.local.transaction() as transaction:
            self._over_limit = dict([*self.over_limit.items(), *excess.items()][-_MAX_OVER:])
            self.memory.write(transaction, self._over_limit, "over")
        for author in sorted(set(excess.values())):
            known = self.membership.members.get(author) or self.membership.removed.get(author)
            self.report.reject(
                "", author if known is None else printable(known.name),
                "it made more membership entries than any device needs, and the rest is ignored",
            )  # fmt: skip

    def entry_name(self, entry_hash: str) -> str:
        """The name of an entry at the remote, by its hash."""
        return f"m/{self.tag}/{sealing.entry_name(self.id, entry_hash)}"

    def missing(self) -> dict[str, list[str]]:
        """The missing entries that waiting ones depend on, by author of the latter."""
        absent = set(self.membership.missing)
        if not absent:
            return {}
        headers = {name: entries.header_of(self.known[name].payload) for name in self.membership.waiting}
        by_author: dict[str, list[str]] = {}
        for name, header in headers.items():
            if header is not None:
                by_author.setdefault(header.by, []).append(name)
        return {by: sorted(followed(headers.get, names) & absent) for by, names in by_author.items()}

    def has_waiting_removal(self) -> bool:
        """Whether a waiting entry of an admin removes somebody."""
        members = self.membership
        invites = {invite.hash for invite in members.invites if invite.live}
        for name in members.waiting:
            entry = entries.read(self.known[name].payload)
            if entry is None or not members.is_admin(entry.by):
                continue
            if isinstance(entry, entries.Remove) and members.is_member(entry.device):
                return True
            if isinstance(entry, entries.Uninvite) and entry.invite in invites:
                return True
        return False

    def fetch_entries(self, hashes: Iterable[str], *, most_bad: int = _MAX_BAD_ENTRIES, by: str = "") -> None:
        """Fetch entries by their hashes, with all that they follow, until `most_bad` could not be fetched.

        `by`: the device whose entries follow them. Once a few are missing, only those that the remote lists are
        fetched: anybody can make up names.
        """
        # Each with the device whose entry follows it.
        wanted = [(item, by) for item in hashes if item not in self.known][::-1]
        fetched: dict[str, SignedEntry] = {}
        tried: set[str] = set()
        bad_before, unlisted = self._bad_entries, 0
        while wanted and self._bad_entries - bad_before < most_bad:
            wanted_hash, follower = wanted.pop()
            if (
                wanted_hash in tried
                or wanted_hash in self.known
                or (wanted_hash in self.over_limit and follower in ("", self.over_limit[wanted_hash]))
            ):
                continue
            tried.add(wanted_hash)
            name = self.entry_name(wanted_hash)
            if not self._is_listed(name):
                unlisted += 1
                continue
            entry = self._fetch(name, wanted_hash, quiet=self._bad_entries - bad_before >= _MAX_REPORTED)
            if entry is not None:
                fetched[wanted_hash] = entry
                header = entries.header_of(entry.payload)  # also of an unknown kind
                if header is not None:
                    wanted += [(parent, follower or header.by) for parent in header.parents]
        self.store_entries(fetched.values())
        count = self._bad_entries - bad_before + unlisted
        if count > _MAX_REPORTED:
            self.report.reject(f"m/{self.tag}", "", f"{count} membership entries that somebody names cannot be read")

    def _is_listed(self, name: str) -> bool:
        if self._listed is None and self._absent >= _MAX_REPORTED:
            self._listed = {listed.name for listed in self.remote.list(f"m/{self.tag}/")}
        return self._listed is None or name in self._listed

    def fetch_all_entries(self) -> None:
        """Fetch every entry there is: for a device that knows none."""
        fetched = []
        names = {self.entry_name(name) for name in (*self.known, *self.over_limit)}
        for listed in self.remote.list(f"m/{self.tag}/"):
            entry = None if listed.name in names else self._fetch(listed.name)
            if entry is not None:
                fetched.append(entry)
        self.store_entries(fetched)

    def fetch_admission(self) -> None:
        """Fetch the entries that admit this device: those named by its wraps, or else all."""
        opened = self.opened_wraps()
        names = find_wraps.in_reading_order(self, opened)
        admissions = [entry for name in names if (entry := opened[name].entry) and self.wrap_author(name)]
        self.fetch_entries(admissions)
        if not self.membership.is_member(self.me):
            self.fetch_all_entries()

    def _fetch(self, name: str, expected: str | None = None, *, quiet: bool = False) -> SignedEntry | None:
        if (
            self._fetched >= _MAX_ENTRIES
            or self._bad_entries >= _MAX_BAD_ENTRIES
            or self._unpacked_bytes >= _MAX_LARGE_ENTRY_BYTES
        ):
            self.report.reject(f"m/{self.tag}", "", "there are more membership entries than are read in one sync")
            return None
        self._fetched += 1
        try:
            entry = entries.unpack(self.open("entry", name, self.remote.get(name, entries.LIMIT), self.candidates))
        except (Missing, ObjectTooLarge, Unsealable, Invalid) as error:
            reason = error.reason if isinstance(error, Unsealable) else f"cannot be read: {error.message}"
            if not (quiet and isinstance(error, Missing)):
                self.report.reject(name, "", f"a membership entry {reason}")
            self._bad_entries += 1
            self._absent += isinstance(error, Missing)
            return None
        if len(entry.payload) > _LARGE_ENTRY:
            self._unpacked_bytes += len(entry.payload)
        entry_hash = entries.hash_of(entry.payload)
        if self.entry_name(entry_hash) != name or expected not in (None, entry_hash):
            self._bad_entries += 1
            self.report.reject(name, "", "a membership entry has a wrong name")
            return None
        return entry

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────────────

    def wrapped(self) -> list[KeyWrap]:
        """The key wraps for this device, opened."""
        return [*self.opened_wraps().values(), *self._new_wraps]

    def opened_wraps(self) -> dict[str, KeyWrap]:
        """The stored wraps, opened, by the end of their names."""
        for name, blob in self.memory.raw_under("wrap").items():
            if name not in self._opened:
                wrapped = wraps.unwrap(blob, [self.local.keys.identity])
                if wrapped is not None and wrapped.vault == self.id:
                    self._opened[name] = wrapped
        return self._opened

    def forget_wraps(self, names: Iterable[str]) -> None:
        """Drop opened wraps that are no longer stored."""
        for name in names:
            self._opened.pop(name, None)

    def wrap_author(self, wrap: str) -> str:
        """The id of the member that left a wrap for this device, by the wrap's name.

        `SOMEBODY` for anyone else with the vault's box: a removed device, or one not known here yet. Else empty.
        """
        members = self.membership
        if self._wrap_authors is None or self._wrap_authors[0] is not members:
            self._wrap_authors = members, {"accepted": self.me}
        known = self._wrap_authors[1]
        if wrap not in known:
            authors = (
                device
                for device, member in members.members.items()
                if wraps.is_by_author(self._shared_secret(member.keys.age), wrap)
            )
            by_box = wraps.is_by_box(self._shared_secret(members.box), wrap)
            known[wrap] = next(authors, SOMEBODY if by_box else "")
        return known[wrap]

    def _shared_secret(self, public: str) -> bytes | None:
        if public not in self._shared_secrets:
            self._shared_secrets[public] = age.shared_secret(self.local.keys.identity, public)
        return self._shared_secrets[public]

    def use_new_keys(self, wrapped: KeyWrap) -> None:
        """Use keys that we just made; they are stored with the change they belong to."""
        self._new_wraps.append(wrapped)

    def forget_new_keys(self) -> None:
        """Drop those keys: by now they are stored, wrapped for this device."""
        self._new_wraps.clear()

    def candidates(self) -> list[bytes]:
        """Every key that was wrapped for us. Anybody can wrap one, so what they open must be checked by signature.

        Keys that entries name come first, then some others: each costs time with each object.
        """
        opened = self.opened_wraps()
        stored = [opened[name].keys for name in find_wraps.in_reading_order(self, opened)]
        keys_by_wrap = [[*reversed(keys)] for keys in (*(wrapped.keys for wrapped in self._new_wraps), *stored)]
        keys = dict.fromkeys(key for turn in zip_longest(*keys_by_wrap) for key in turn if key is not None)
        named = {key.id for key in self.membership.keys}
        named_keys = [key for key in keys if sealing.key_id(key) in named]
        return named_keys + [key for key in keys if sealing.key_id(key) not in named][:_MAX_UNNAMED_KEYS]

    def ring(self) -> list[bytes]:
        """The keys that a valid entry names: only these open packs."""
        named = {key.id for key in self.membership.keys}
        return [key for key in self.candidates() if sealing.key_id(key) in named]

    def sealing_key(self) -> bytes | None:
        """The key to seal with; None when none is known to members only."""
        known_keys = {sealing.key_id(key): key for key in self.candidates()}
        return next((known_keys[key.id] for key in self.membership.usable_keys() if key.id in known_keys), None)

    def takes_part(self, device: str) -> bool:
        """Whether what a device publishes is read: in a share of ours, not if the main vault removed it."""
        member = self.membership.members.get(device)
        if member is None:
            return False
        return self.main is None or member.kind == "guest" or self.main.membership.is_member(device)

    def box(self) -> str | None:
        """The secret that opens requests to join."""
        public = self.membership.box
        return next(
            (wrapped.box for wrapped in self.wrapped() if wrapped.box and age.public_of(wrapped.box) == public), None
        )

    def open(
        self, kind: str, name: str, sealed: bytes, ring: Callable[[], list[bytes]], *, limit: int | None = None
    ) -> bytes:
        """Unseal an object, fetching new keys if need be. `limit`: bytes it may decompress to."""
        if limit is None:
            limit = entries.unpacked_limit(len(sealed)) if kind == "entry" else heads.MAX_PLAIN_BYTES
        if self._unpack_left is not None:
            limit = min(limit, self._unpack_left)
        try:
            plain = sealing.unseal(ring(), kind, self.id, name, sealed, limit=limit)
        except Unsealable as error:
            if error.reason != NO_KEY or not self.ask_for_wraps():
                raise
            plain = sealing.unseal(ring(), kind, self.id, name, sealed, limit=limit)
        if self._unpack_left is not None:
            self._unpack_left -= len(plain)
        return plain

    def ask_for_wraps(self) -> bool:
        """Look once for new wraps for this device; True when there were any."""
        if self._asked_for_wraps:
            return False
        self._asked_for_wraps = True
        return find_wraps.fetch_wraps(self)

    def reject_entries(self) -> None:
        """Report entries by devices of the vault that were not entitled to them."""
        for entry_hash, reason in self.membership.rejected:
            header = entries.header_of(self.known[entry_hash].payload)
            member = None if header is None else self.membership.members.get(header.by)
            by = "" if header is None else header.by if member is None else member.name
            self.report.reject(self.entry_name(entry_hash), by, f"a membership entry does not count: {reason}")

    def reject_planted(self) -> None:
        """Report keys that were wrapped for us and that no valid entry names: no member made them."""
        named = {key.id for key in self.membership.keys}
        if not self.membership.is_member(self.me):
            return
        for name, wrapped in self._opened.items():
            # The wrap of an accepted offer holds all keys that were left then, and is at no remote.
            if name != "accepted" and not all(sealing.key_id(key) in named for key in wrapped.keys):
                self.report.reject(f"k/…-{name}", "", "a wrap holds a key that no membership entry names")

    # ── objects at the remote ──────────────────────────────────────────────────────────────────────────

    def pack_name(self, pack: str) -> str:
        """The name of a pack at the remote, by its name in a head."""
        return f"p/{self.tag}/{pack}"

    def sealed_entry(self, key: bytes, signed: SignedEntry) -> tuple[str, bytes]:
        """An entry as the object it is at the remote."""
        name = self.entry_name(entries.hash_of(signed.payload))
        return name, sealing.seal(key, "entry", self.id, name, entries.pack(signed))

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────

    def change(self) -> VaultChange:
        return VaultChange(self)

    def waiting(self) -> list[tuple[str, bytes]]:
        """Objects that are stored here and not sent yet, in order."""
        objects = self.memory.raw_under("out").values()
        return [msgspec.msgpack.decode(packed, type=decodable(tuple[str, bytes])) for packed in objects]

    def flush(self, *, remove: Iterable[str] = ()) -> None:
        """Send the waiting objects, in order."""
        waiting = self.memory.raw_under("out")
        removed = list(remove)
        if not waiting and not removed:
            return
        self.remote.put(self.waiting(), remove=removed)
        if waiting:
            with self.local.transaction() as transaction:
                for name in waiting:
                    self.memory.forget(transaction, "out", name)


class VaultChange:
    """Entries and key wraps that belong together: stored in one transaction, then sent."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._entries: list[SignedEntry] = []
        self._wraps: list[tuple[str, bytes]] = []
        self._notes: list[tuple[object, tuple[str, ...]]] = []

    def add(self, kind: type[MembershipEntry], **fields: Any) -> str:
        """Sign an entry that follows all that is known; return its hash."""
        vault = self._vault
        # It follows the invitation it names, even if that is no tip.
        named = [fields["invite"]] if fields.get("invite") else []
        parents = tuple(sorted({*vault.membership.tips, *named}))
        entry = kind(vault=vault.id, parents=parents, by=vault.me, at=vault.local.now(), **fields)
        signed = entries.sign(vault.local.keys, entry)
        self._entries.append(signed)
        return vault.add(signed)

    def wrap(self, recipient: str, wrapped: KeyWrap) -> None:
        """Leave keys for a recipient."""
        vault = self._vault
        name = wraps.new_name(recipient, vault.box(), vault.local.keys.identity)
        self._wraps.append((name, wraps.wrap(recipient, wrapped)))

    def remember(self, value: object, *parts: str) -> None:
        """Write a value to the vault's memory together with this change."""
        self._notes.append((value, parts))

    def new_key(self) -> None:
        """Begin a new epoch, with a key for exactly the present members."""
        vault = self._vault
        key = sealing.new_key()
        recipients = vault.membership.recipients()
        self.add(NewKey, id=sealing.key_id(key), recipients=tuple(sorted(recipients)))
        keys = [*vault.ring(), key]
        for recipient in vault.membership.recipient_keys():
            self.wrap(recipient, self.wrapped(keys))
        # Needed at once: what follows is sealed with it.
        vault.use_new_keys(self.wrapped(keys))

    def wrapped(self, keys: list[bytes], *, secret: bytes | None = None) -> KeyWrap:
        vault = self._vault
        founding = vault.founding()
        assert founding is not None
        # The last entry follows all that is known.
        entry = (
            entries.hash_of(self._entries[-1].payload) if self._entries else next(iter(vault.membership.tips), None)
        )
        return KeyWrap(
            vault=vault.id, founding=entries.pack(founding), keys=keys, box=vault.box(),
            session=vault.membership.session, secret=secret, entry=entry,
        )  # fmt: skip

    def commit(self, *, remove: Iterable[str] = ()) -> None:
        """Store the change, then send it."""
        self.store()
        self._vault.flush(remove=remove)

    def _refuse_unacceptable(self) -> None:
        """Refuse a change that no device of the vault would accept."""
        members = self._vault.membership
        wrong = {
            **dict.fromkeys((*members.waiting, *members.overtaken), "its parents are missing or no longer valid"),
            **dict(members.rejected),
        }
        too_large = "it is larger than an entry can be"
        reasons = [
            reason
            for signed in self._entries
            if (
                reason := wrong.get(entries.hash_of(signed.payload))
                or ("" if entries.read(signed.payload) else too_large)
            )
        ]
        if reasons:
            raise Refused(
                f"the vault would not accept this: {reasons[0]}",
                hint="Nothing was changed. Sync and try again; if it stays, please report it.",
            )

    def store(self) -> None:
        """Store the change, to be sent: wraps before the entries that name them."""
        vault, memory = self._vault, self._vault.memory
        self._refuse_unacceptable()
        if vault.sealing_key() is None:
            self.new_key()
        key = vault.sealing_key()
        assert key is not None
        objects = [*self._wraps, *(vault.sealed_entry(key, signed) for signed in self._entries)]
        own_prefix = wraps.prefix_of(vault.local.keys.public.age)
        with vault.local.transaction() as transaction:
            start = max((int(name) for name in memory.raw_under("out")), default=-1) + 1
            for number, item in enumerate(objects, start):
                memory.write(transaction, item, "out", f"{number:06}")
                if item[0].startswith(own_prefix):
                    memory.write_raw(transaction, item[1], "wrap", item[0].removeprefix(own_prefix))
            for signed in self._entries:
                memory.write_raw(transaction, entries.pack(signed), "entry", entries.hash_of(signed.payload))
            for value, parts in self._notes:
                memory.write(transaction, value, *parts)
        vault.forget_new_keys()
