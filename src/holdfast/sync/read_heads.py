"""Which heads a remote shows, which are genuine, and which are missing although somebody saw them.

Whoever can write to a remote can put anything under any name: bytes that stand above a device's newest head must not
hide it. So the heads of a life are tried from the newest down until one is signed by the device the life belongs to.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.core.errors import Invalid
from holdfast.core.text import printable
from holdfast.sync.protocol import heads
from holdfast.sync.protocol.heads import Claimed, HeadName
from holdfast.sync.protocol.sealing import NO_KEY, Unsealable, life_tag
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge
from holdfast.sync.state import ReadPosition
from holdfast.sync.vault import Vault
from holdfast.workspace.keys.device_keys import certifies

HEAD_LIMIT: Final = 16 << 20
HELD_BACK: Final = "it comes from a device that was removed, and is held back"
_MOST_LIVES: Final = 100_000
# Heads of one life that are tried, and heads that cannot be read in one sync: more is somebody keeping us busy.
_MOST_RIVALS: Final = 16
_MOST_BAD: Final = 1_000
_WORDS: Final = 3  # of a fingerprint, where names are equal
_MOST_NAMED: Final = 50  # entries of which one device says that they are there


class HeadListing(NamedTuple):
    """What a listing of the heads shows of one vault: the heads of each life, newest first; and requests to join."""

    newest: dict[str, HeadName]
    joins: list[str]
    rivals: dict[str, list[HeadName]]


def look(found: Sequence[ObjectInfo], tag: str) -> HeadListing:
    lives: dict[str, set[HeadName]] = {}
    joins: dict[str, None] = {}
    for item in found:
        if item.name.startswith(heads.JOINS):
            joins[item.name] = None
            continue
        listed = heads.listed(item.name)
        if listed is not None and listed.vault == tag and (listed.life in lives or len(lives) < _MOST_LIVES):
            lives.setdefault(listed.life, set()).add(listed)
    rivals = {life: sorted(some, key=lambda one: -one.counter) for life, some in lives.items()}
    newest = {life: some[0] for life, some in rivals.items()}
    return HeadListing(newest, list(joins), rivals)


class VerifiedHead(NamedTuple):
    """A genuine head."""

    listed: HeadName
    claimed: Claimed
    digest: bytes


class Hearing:
    """One reading of the heads of a vault."""

    def __init__(
        self, vault: Vault, listing: HeadListing, cursors: Mapping[str, ReadPosition], *, patient: bool
    ) -> None:
        self.vault = vault
        self.listing = listing
        self._cursors = cursors
        self._patient = patient
        self.own_life = life_tag(vault.id, vault.here.writer())
        self.good: list[VerifiedHead] = []
        # Listed, and not there when it was asked for.
        self.absent: set[str] = set()
        # A head is sealed with a key we do not have, though we have others.
        self.locked_out = False
        # And the one that we could read is gone: nobody but its author had a reason to replace it.
        self.shut_out = False
        self._locked: set[str] = set()
        self._bad = 0

    def listen(self) -> None:
        """Read the heads that are new, and with them who belongs to the vault. Those we know of come first."""
        vault = self.vault
        lives = sorted(self.listing.newest.keys() - {self.own_life}, key=lambda one: (one not in self._cursors, one))
        rivals = {life: self._worth_reading(life) for life in lives}
        first = {life: found for life in lives if (found := self._first(rivals[life])) is not None}
        named = vault.memory.read(dict[str, tuple[str, ...]], "named") or {}
        tips: dict[str, list[str]] = {}
        for life, found in first.items():
            tips.setdefault(self._device(life), []).extend(found.claimed.head.tips)
        for device, some in named.items():
            tips.setdefault(device, []).extend(some)
        # One device after the other, admins first: nobody can name so much that others are not heard.
        for device in sorted(tips, key=lambda one: (self._rank(one), one)):
            vault.learn(tips[device], most_bad=_MOST_NAMED)
        missing = vault.missing()
        for device in sorted(missing, key=lambda one: (self._rank(one), one)):
            names = random.sample(missing[device], len(missing[device]))
            vault.learn(names, most_bad=_MOST_NAMED, by=device)
        for life, found in first.items():
            heard: VerifiedHead | None = found
            while heard is not None and not self._genuine(heard):
                heard = self._first(rivals[life])
                if heard is not None:
                    vault.learn(heard.claimed.head.tips)
            if heard is not None:
                self.good.append(heard)
        locked = {life for life in self._locked - {head.listed.life for head in self.good} if self._decides(life)}
        self.locked_out = bool(locked)
        self.shut_out = any(self._is_replaced(life) for life in locked)
        self._remember_named(named)

    def _device(self, life: str) -> str:
        cursor = self._cursors.get(life)
        return "" if cursor is None else cursor.device

    def _rank(self, device: str) -> int:
        """Whose word is fetched first: an admin's, that of another device, and then what nobody has confirmed."""
        member = self.vault.membership.members.get(device)
        return 2 if member is None or member.kind == "guest" else 0 if member.admin else 1

    def _decides(self, life: str) -> bool:
        """Whether a head that we cannot open could mean that we were removed. A guest, or who was removed, removes
        nobody, and an admin is removed by another one only: without that it is junk.
        """
        members = self.vault.membership
        member = members.members.get(self._cursors[life].device) if life in self._cursors else None
        return member is not None and member.kind != "guest" and (member.admin or not members.is_admin(self.vault.me))

    def _is_replaced(self, life: str) -> bool:
        """Whether a member's head that we have read is not there any more."""
        cursor = self._cursors[life]
        shown = {name.counter for name in self.listing.rivals[life]}
        return cursor.counter not in shown and self.vault.membership.is_member(cursor.device)

    def _remember_named(self, before: Mapping[str, tuple[str, ...]]) -> None:
        """Entries that a member's genuine head stands on and that could not be had: they are asked for again."""
        vault = self.vault
        wanted = dict(before)
        for item in self.good:
            head = item.claimed.head
            wanted[head.device] = (*head.tips, *wanted.get(head.device, ()))
        now: dict[str, tuple[str, ...]] = {}
        for device in sorted(wanted):
            left = [tip for tip in dict.fromkeys(wanted[device]) if tip not in vault.known and tip not in vault.over]
            if left and vault.membership.is_member(device):
                now[device] = tuple(left[:_MOST_NAMED])
        if now != before:
            with vault.here.transaction() as transaction:
                vault.memory.write(transaction, now, "named")

    def _worth_reading(self, life: str) -> Iterator[HeadName]:
        """The heads of a life behind which there may be something new, newest first."""
        cursor = self._cursors.get(life)
        for listed in self.listing.rivals[life][:_MOST_RIVALS]:
            if cursor is None or listed.counter > cursor.counter:
                yield listed
                continue
            member = self.vault.membership.is_member(cursor.device)
            if listed.counter < cursor.counter:
                if member:
                    self.reject(listed.name, cursor.device, "an older head is shown than was there before")
                return
            if cursor.held and not member:
                self.reject(listed.name, cursor.device, HELD_BACK)
            if cursor.holes and member and not self._patient:
                for hole in cursor.holes:
                    self.reject(hole.pack, cursor.device, hole.reason or "a pack could not be read")
            if member and (cursor.held or (cursor.holes and self._patient)):
                yield listed
            return

    def _first(self, rivals: Iterator[HeadName]) -> VerifiedHead | None:
        """The first that is a head at all; whether it is genuine is known once its author is."""
        for listed in rivals:
            if self._bad >= _MOST_BAD:
                self.reject(f"h/{self.vault.tag}", "", "there are more heads that cannot be read than are looked at")
                return None
            found = self._read(listed)
            if found is not None:
                return found
        return None

    def _read(self, listed: HeadName) -> VerifiedHead | None:
        vault, cursor = self.vault, self._cursors.get(listed.life)
        device = "" if cursor is None else cursor.device
        try:
            sealed = vault.remote.get(listed.name, HEAD_LIMIT)
            # Any key that was wrapped for us may open it: what it says is signed, and the signature is checked.
            plain = vault.open("head", listed.name, sealed, vault.candidates)
            return VerifiedHead(listed, heads.read(plain, vault.id, listed), hashlib.sha256(sealed).digest()[:8])
        except Missing:
            self.absent.add(listed.name)  # perhaps replaced by a newer one while we looked
        except Unsealable as error:
            if error.reason == NO_KEY and cursor is not None:
                self._locked.add(listed.life)
            # Whoever was removed may go on among themselves, with keys of their own.
            gone = device in vault.membership.removed
            self.reject(listed.name, device, HELD_BACK if gone else f"a head {error.reason}")
        except (ObjectTooLarge, Invalid) as error:
            self.reject(listed.name, device, f"a head cannot be read: {error.message}")
        self._bad += 1
        return None

    def _genuine(self, heard: VerifiedHead) -> bool:
        head = heard.claimed.head
        signing = self.vault.membership.signing_of(head.device)
        if signing is not None and certifies(head.writer, signing) and heard.claimed.is_by(signing):
            return True
        self._bad += 1
        self.reject(heard.listed.name, head.device, "a head is not signed by a device of the vault")
        return False

    # ── what is not shown ────────────────────────────────────────────────────────────────────────────────

    def withheld(self) -> list[tuple[str, str]]:
        """Lives whose newest head somebody saw and the remote does not show: the life, and whose it is."""
        members, cursors = self.vault.membership, self._cursors
        # What removed devices published goes, once somebody else vouches for it.
        gone = {life_tag(self.vault.id, writer) for device in members.removed.values() for writer in device.cut}
        missing = {
            life: known.device
            for life, known in cursors.items()
            if life not in self.listing.newest and members.is_member(known.device)
        }
        for said in self._told().values():
            for life in said:
                cursor = cursors.get(life)
                if life not in gone and (cursor is None or members.is_member(cursor.device)):
                    missing[life] = "" if cursor is None else cursor.device
        return sorted(missing.items())

    def _told(self) -> dict[str, dict[str, int]]:
        """What members say they have seen and we are not shown, by who says so. It stays said until we are."""
        members, memory = self.vault.membership, self.vault.memory
        before = memory.read(dict[str, dict[str, int]], "told") or {}
        told = dict(before)
        for heard in self.good:
            if members.is_member(heard.claimed.head.device):
                told[heard.listed.life] = {head.life: head.counter for head in heard.claimed.head.seen}
                self._compare(heard.claimed)
        now = {}
        for life, said in told.items():
            cursor = self._cursors.get(life)
            unseen = {name: counter for name, counter in said.items() if self._is_unseen(name, counter)}
            if unseen and (cursor is None or members.is_member(cursor.device)):
                now[life] = unseen
        if now != before:
            with self.vault.here.transaction() as transaction:
                memory.write(transaction, now, "told")
        return now

    def _is_unseen(self, life: str, counter: int) -> bool:
        cursor, shown = self._cursors.get(life), self.listing.newest.get(life)
        if life == self.own_life or (cursor is not None and cursor.counter >= counter):
            return False
        return shown is None or shown.counter < counter

    def _compare(self, claimed: Claimed) -> None:
        for seen in claimed.head.seen:
            cursor = self._cursors.get(seen.life)
            if cursor is not None and cursor.counter == seen.counter and cursor.digest != seen.digest:
                where = heads.name_of(self.vault.id, cursor.writer, cursor.counter)
                self.reject(where, cursor.device, "it showed others something else")

    def reject(self, name: str, device: str, reason: str) -> None:
        self.vault.report.reject(name, name_of(self.vault, device), reason)


def name_of(vault: Vault, device: str) -> str:
    """What people call a device, on one line; its fingerprint when nobody knows it.

    Anybody can call theirs as another is called: guests are marked, and equal names have words of the fingerprint.
    """
    members = vault.membership
    known = members.members.get(device) or members.removed.get(device)
    if known is None:
        return device
    marks = ["guest"] if known.kind == "guest" else []
    if sum(other.name == known.name for other in members.everybody()) > 1:
        marks.append("-".join(known.keys.words.split("-")[:_WORDS]) + "…")
    return printable(known.name) + (f" ({', '.join(marks)})" if marks else "")
