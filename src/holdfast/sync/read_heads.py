"""Read the heads at a remote: which are genuine, and which are missing although somebody saw them.

Anyone with write access to a remote can put anything under any name, and junk with a higher number must not hide a
device's newest head. So the heads of a life are tried from the newest down until one is signed by the device it
belongs to.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.core.errors import Invalid
from holdfast.core.text import printable
from holdfast.sync.protocol import heads
from holdfast.sync.protocol.heads import HeadName, SignedHead
from holdfast.sync.protocol.sealing import NO_KEY, Unsealable, life_tag
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge
from holdfast.sync.state import ReadPosition
from holdfast.sync.vault import Vault
from holdfast.workspace.keys.device_keys import certifies, is_fingerprint

HEAD_LIMIT: Final = 16 << 20
NOT_ACCEPTED: Final = "it comes from a removed device"
_MAX_LIVES: Final = 100_000
# Heads of one life that are tried, and unreadable heads in one sync: more is an attempt to keep us busy.
_MAX_RIVALS: Final = 16
_MAX_UNREADABLE: Final = 1_000
_SHOWN_WORDS: Final = 3  # of a fingerprint, where names are equal
_MAX_NAMED: Final = 50  # missing entries that one device can name


class HeadListing(NamedTuple):
    """The heads of one vault in a listing, by life, newest first; and requests to join."""

    newest: dict[str, HeadName]
    joins: list[str]
    rivals: dict[str, list[HeadName]]


def read_listing(objects: Sequence[ObjectInfo], tag: str) -> HeadListing:
    lives: dict[str, set[HeadName]] = {}
    joins: dict[str, None] = {}
    for item in objects:
        if item.name.startswith(heads.JOINS):
            joins[item.name] = None
            continue
        listed = heads.parse_name(item.name)
        if listed is not None and listed.vault == tag and (listed.life in lives or len(lives) < _MAX_LIVES):
            lives.setdefault(listed.life, set()).add(listed)
    rivals = {life: sorted(names, key=lambda name: -name.counter) for life, names in lives.items()}
    newest = {life: names[0] for life, names in rivals.items()}
    return HeadListing(newest, list(joins), rivals)


class VerifiedHead(NamedTuple):
    """A head whose signature was checked, and its digest."""

    listed: HeadName
    claimed: SignedHead
    digest: bytes


class HeadReader:
    """Reads the heads of a vault once."""

    def __init__(
        self, vault: Vault, listing: HeadListing, cursors: Mapping[str, ReadPosition], *, patient: bool
    ) -> None:
        self.vault = vault
        self.listing = listing
        self._cursors = cursors
        self._patient = patient
        self.own_life = life_tag(vault.id, vault.local.writer())
        self.verified: list[VerifiedHead] = []
        # Listed, but not there when fetched.
        self.absent: set[str] = set()
        # A head is sealed with a key we do not have, although we have others.
        self.locked_out = False
        # And the one that we could read was removed: only its author had a reason to replace it.
        self.shut_out = False
        self._locked: set[str] = set()
        self._unreadable = 0

    def read_all(self) -> None:
        """Read new heads, and with them new membership entries. Known lives come first."""
        vault = self.vault
        lives = sorted(self.listing.newest.keys() - {self.own_life}, key=lambda key: (key not in self._cursors, key))
        rivals = {life: self._unread_heads(life) for life in lives}
        first = {life: head for life in lives if (head := self._first_readable(rivals[life])) is not None}
        named = vault.memory.read(dict[str, tuple[str, ...]], "named") or {}
        tips: dict[str, list[str]] = {}
        for life, head in first.items():
            tips.setdefault(self._device(life), []).extend(head.claimed.head.tips)
        for device, names_of in named.items():
            tips.setdefault(device, []).extend(names_of)
        # One device after the other, admins first: no device can name so many entries that others' are not fetched.
        for device in sorted(tips, key=lambda key: (self._rank(key), key)):
            vault.fetch_entries(tips[device], most_bad=_MAX_NAMED)
        missing = vault.missing()
        for device in sorted(missing, key=lambda key: (self._rank(key), key)):
            names = random.sample(missing[device], len(missing[device]))
            vault.fetch_entries(names, most_bad=_MAX_NAMED, by=device)
        for life, head in first.items():
            candidate: VerifiedHead | None = head
            while candidate is not None and not self._is_genuine(candidate):
                candidate = self._first_readable(rivals[life])
                if candidate is not None:
                    vault.fetch_entries(candidate.claimed.head.tips)
            if candidate is not None:
                self.verified.append(candidate)
        locked = {
            life
            for life in self._locked - {head.listed.life for head in self.verified}
            if self._may_mean_removal(life)
        }
        self.locked_out = bool(locked)
        self.shut_out = any(self._is_replaced(life) for life in locked)
        self._remember_named(named)

    def _device(self, life: str) -> str:
        cursor = self._cursors.get(life)
        return "" if cursor is None else cursor.device

    def _rank(self, device: str) -> int:
        """The order of fetching entries: those named by admins, by other members, by anybody else."""
        member = self.vault.membership.members.get(device)
        return 2 if member is None or member.kind == "guest" else 0 if member.admin else 1

    def _may_mean_removal(self, life: str) -> bool:
        """Whether a head that we cannot open could mean that we were removed: only members other than guests remove
        devices, and only admins remove an admin. Otherwise it is junk.
        """
        members = self.vault.membership
        member = members.members.get(self._cursors[life].device) if life in self._cursors else None
        return member is not None and member.kind != "guest" and (member.admin or not members.is_admin(self.vault.me))

    def _is_replaced(self, life: str) -> bool:
        """Whether a member's head that we have read was removed."""
        cursor = self._cursors[life]
        shown = {name.counter for name in self.listing.rivals[life]}
        return cursor.counter not in shown and self.vault.membership.is_member(cursor.device)

    def _remember_named(self, before: Mapping[str, tuple[str, ...]]) -> None:
        """Remember entries that a member's head names and that could not be fetched, to try again."""
        vault = self.vault
        named = dict(before)
        for item in self.verified:
            head = item.claimed.head
            named[head.device] = (*head.tips, *named.get(head.device, ()))
        missing: dict[str, tuple[str, ...]] = {}
        for device in sorted(named):
            unknown = [
                tip for tip in dict.fromkeys(named[device]) if tip not in vault.known and tip not in vault.over_limit
            ]
            if unknown and vault.membership.is_member(device):
                missing[device] = tuple(unknown[:_MAX_NAMED])
        if missing != before:
            with vault.local.transaction() as transaction:
                vault.memory.write(transaction, missing, "named")

    def _unread_heads(self, life: str) -> Iterator[HeadName]:
        """The heads of a life that may bring something new, newest first."""
        cursor = self._cursors.get(life)
        for listed in self.listing.rivals[life][:_MAX_RIVALS]:
            if cursor is None or listed.counter > cursor.counter:
                yield listed
                continue
            member = self.vault.membership.is_member(cursor.device)
            if listed.counter < cursor.counter:
                if member:
                    self.reject(listed.name, cursor.device, "the remote shows an older head than before")
                return
            if cursor.unaccepted and not member:
                self.reject(listed.name, cursor.device, NOT_ACCEPTED)
            if cursor.gaps and member and not self._patient:
                for gap in cursor.gaps:
                    self.reject(gap.pack, cursor.device, gap.reason or "a pack could not be read")
            if member and (cursor.unaccepted or (cursor.gaps and self._patient)):
                yield listed
            return

    def _first_readable(self, rivals: Iterator[HeadName]) -> VerifiedHead | None:
        """The first well-formed head; its signature is checked once its author is known."""
        for listed in rivals:
            if self._unreadable >= _MAX_UNREADABLE:
                self.reject(f"h/{self.vault.tag}", "", "there are too many heads that cannot be read")
                return None
            head = self._read(listed)
            if head is not None:
                return head
        return None

    def _read(self, listed: HeadName) -> VerifiedHead | None:
        vault, cursor = self.vault, self._cursors.get(listed.life)
        device = "" if cursor is None else cursor.device
        try:
            sealed = vault.remote.get(listed.name, HEAD_LIMIT)
            # Any key that was wrapped for us may open it: its signature is checked afterwards.
            plain = vault.open("head", listed.name, sealed, vault.candidates)
            return VerifiedHead(listed, heads.read(plain, vault.id, listed), hashlib.sha256(sealed).digest()[:8])
        except Missing:
            self.absent.add(listed.name)  # perhaps replaced by a newer one meanwhile
        except Unsealable as error:
            if error.reason == NO_KEY and cursor is not None:
                self._locked.add(listed.life)
            # Removed devices may continue among themselves, with keys of their own.
            was_removed = device in vault.membership.removed
            self.reject(listed.name, device, NOT_ACCEPTED if was_removed else f"a head {error.reason}")
        except (ObjectTooLarge, Invalid) as error:
            self.reject(listed.name, device, f"a head cannot be read: {error.message}")
        self._unreadable += 1
        return None

    def _is_genuine(self, candidate: VerifiedHead) -> bool:
        head = candidate.claimed.head
        signing = self.vault.membership.signing_of(head.device)
        if signing is not None and certifies(head.writer, signing) and candidate.claimed.is_by(signing):
            return True
        self._unreadable += 1
        self.reject(candidate.listed.name, head.device, "a head is not signed by a device of the vault")
        return False

    # ── withheld heads ────────────────────────────────────────────────────────────────────────────────

    def withheld(self) -> list[tuple[str, str]]:
        """Lives, with their devices, whose newest head somebody saw and the remote does not show."""
        members, cursors = self.vault.membership, self._cursors
        # What removed devices published is deleted once somebody else vouches for it.
        retired = {life_tag(self.vault.id, writer) for device in members.removed.values() for writer in device.cut}
        missing = {
            life: known.device
            for life, known in cursors.items()
            if life not in self.listing.newest and members.is_member(known.device)
        }
        for seen in self._unseen_heads().values():
            for life in seen:
                cursor = cursors.get(life)
                if life not in retired and (cursor is None or members.is_member(cursor.device)):
                    missing[life] = "" if cursor is None else cursor.device
        return sorted(missing.items())

    def _unseen_heads(self) -> dict[str, dict[str, int]]:
        """Heads that members report and we are not shown, by reporting life. Remembered until we are."""
        members, memory = self.vault.membership, self.vault.memory
        before = memory.read(dict[str, dict[str, int]], "told") or {}
        reported = dict(before)
        for verified in self.verified:
            if members.is_member(verified.claimed.head.device):
                reported[verified.listed.life] = {head.life: head.counter for head in verified.claimed.head.seen}
                self._compare_digests(verified.claimed)
        unseen_by_life = {}
        for life, seen in reported.items():
            cursor = self._cursors.get(life)
            unseen = {name: counter for name, counter in seen.items() if self._is_unseen(name, counter)}
            if unseen and (cursor is None or members.is_member(cursor.device)):
                unseen_by_life[life] = unseen
        if unseen_by_life != before:
            with self.vault.local.transaction() as transaction:
                memory.write(transaction, unseen_by_life, "told")
        return unseen_by_life

    def _is_unseen(self, life: str, counter: int) -> bool:
        cursor, shown = self._cursors.get(life), self.listing.newest.get(life)
        if life == self.own_life or (cursor is not None and cursor.counter >= counter):
            return False
        return shown is None or shown.counter < counter

    def _compare_digests(self, claimed: SignedHead) -> None:
        for seen in claimed.head.seen:
            cursor = self._cursors.get(seen.life)
            if cursor is not None and cursor.counter == seen.counter and cursor.digest != seen.digest:
                where = heads.name_of(self.vault.id, cursor.writer, cursor.counter)
                self.reject(where, cursor.device, "the remote showed other devices different data")

    def reject(self, name: str, device: str, reason: str) -> None:
        self.vault.report.reject(name, name_of(self.vault, device), reason)


def name_of(vault: Vault, device: str) -> str:
    """The name of a device, on one line; its id where it is unknown.

    Anybody can choose another's name: guests are marked, and names that are equal, or look like a fingerprint, get
    words of their own fingerprint.
    """
    members = vault.membership
    known = members.members.get(device) or members.removed.get(device)
    if known is None:
        return device
    marks = ["guest"] if known.kind == "guest" else []
    if sum(other.name == known.name for other in members.everybody()) > 1 or is_fingerprint(known.name):
        marks.append("-".join(known.keys.words.split("-")[:_SHOWN_WORDS]) + "…")
    return printable(known.name) + (f" ({', '.join(marks)})" if marks else "")
