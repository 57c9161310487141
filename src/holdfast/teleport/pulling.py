"""Taking in what others published: heads that are new, their packs, and every event that somebody may vouch for.

What is wrong is left where it is and reported, and everything else is taken in: one bad pack holds up nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from holdfast.core.errors import Damaged, HoldfastError, Invalid
from holdfast.core.event import Event
from holdfast.teleport import heads, packs
from holdfast.teleport.heads import Claimed, Head, Indexed, Listed
from holdfast.teleport.keys import STREAM, certifies, is_certified, verify
from holdfast.teleport.memory import Cursor, Hole, Span, Turned
from holdfast.teleport.packs import Stretch
from holdfast.teleport.remotes.interface import Found, Missing, TooLarge
from holdfast.teleport.report import Progress, silent
from holdfast.teleport.sealing import NO_KEY, Unsealable, life_tag
from holdfast.teleport.vault import Vault

HEAD_LIMIT: Final = 16 << 20
PACK_LIMIT: Final = 128 << 20
_MOST_HEADS: Final = 100_000
HELD_BACK: Final = "it comes from a device that was removed, and is held back"


class Listing(NamedTuple):
    """What a listing of the heads shows of one vault: the newest head of each life, and requests to join."""

    newest: dict[str, Listed]
    older: list[str]
    joins: list[str]


def look(found: Sequence[Found], tag: str) -> Listing:
    newest: dict[str, Listed] = {}
    older: list[str] = []
    joins: list[str] = []
    for one in found[:_MOST_HEADS]:
        if one.name.startswith(heads.JOINS):
            joins.append(one.name)
            continue
        listed = heads.listed(one.name)
        if listed is None or listed.vault != tag:
            continue
        before = newest.get(listed.life)
        if before is None or before.counter < listed.counter:
            newest[listed.life] = listed
            listed = before
        if listed is not None:
            older.append(listed.name)
    return Listing(newest, older, joins)


class Pull:
    """One reading of a vault."""

    def __init__(self, vault: Vault, listing: Listing, *, progress: Progress = silent, patient: bool = True) -> None:
        self.vault = vault
        self.listing = listing
        self._progress = progress
        # Whether a person waits for this: then what could not be read before is tried again.
        self._patient = patient
        self._cursors = vault.memory.cursors()
        self.own_life = life_tag(vault.id, vault.here.writer())
        # Pushes of ours that others could not read.
        self.wanted: set[tuple[int, int]] = set()
        # The newest head of ours that anybody says to have seen.
        self.own_seen = 0
        self._claims: list[tuple[Listed, Claimed, bytes]] = []
        # A head is sealed with a key we do not have, though we have others.
        self.locked_out = False

    # ── heads ────────────────────────────────────────────────────────────────────────────────────────────

    def heads(self) -> None:
        """Read the heads that are new, and with them who belongs to the vault."""
        for life, listed in sorted(self.listing.newest.items()):
            if life != self.own_life and self._is_new(listed, self._cursors.get(life)):
                found = self._head(listed)
                if found is not None:
                    self._claims.append(found)
        untold = self.vault.memory.read(tuple[str, ...], "untold") or ()
        self.vault.learn([*untold, *(tip for _, claimed, _ in self._claims for tip in claimed.head.tips)])

    def _is_new(self, listed: Listed, cursor: Cursor | None) -> bool:
        """Whether there is something to be read behind a head."""
        if cursor is None:
            return True
        member = self.vault.membership.is_member(cursor.device)
        if cursor.counter > listed.counter:
            if member:
                self._reject(listed.name, cursor.device, "an older head is shown than was there before")
            return False
        if cursor.counter < listed.counter:
            return True
        if cursor.held:
            if not member:
                self._reject(listed.name, cursor.device, HELD_BACK)
            return member
        if cursor.holes and member and not self._patient:
            for hole in cursor.holes:
                self._reject(hole.pack, cursor.device, "a pack could not be read")
        return bool(cursor.holes) and member and self._patient

    def _head(self, listed: Listed) -> tuple[Listed, Claimed, bytes] | None:
        vault = self.vault
        try:
            sealed = vault.remote.get(listed.name, HEAD_LIMIT)
            # Any key that was wrapped for us may open it: what it says is signed, and the signature is checked.
            plain = vault.open("head", listed.name, sealed, vault.candidates)
            return listed, heads.read(plain, vault.id, listed), hashlib.sha256(sealed).digest()[:8]
        except Missing:
            return None  # replaced by a newer one while we looked: the next sync sees that
        except Unsealable as error:
            self.locked_out |= error.reason == NO_KEY
            self._reject(listed.name, self._said_by(listed.life), f"a head {error.reason}")
        except (TooLarge, Invalid) as error:
            self._reject(listed.name, self._said_by(listed.life), f"a head cannot be read: {error.message}")
        return None

    def _said_by(self, life: str) -> str:
        cursor = self._cursors.get(life)
        return "" if cursor is None else cursor.device

    # ── packs ────────────────────────────────────────────────────────────────────────────────────────────

    def packs(self) -> None:
        """Take in what the heads name and we do not have."""
        due = list(self._due())
        total = sum(len(packs) for *_, packs in due)
        done = 0
        for listed, claimed, digest, cursor, wanted in due:
            for pack in wanted:
                cursor = self._pack(claimed, pack, cursor)  # noqa: PLW2901 (it moves on with each)
                done += 1
                self._progress(done, total, "packs read")
            head = claimed.head
            self._save(
                listed.life,
                Cursor(
                    writer=head.writer, device=head.device, counter=head.counter, digest=digest,
                    applied=max(cursor.applied, head.packs[-1].last if head.packs else 0), holes=cursor.holes,
                    said_at=head.at, heard_at=self.vault.here.now(),
                ),
            )  # fmt: skip
            self.own_seen = max([self.own_seen, *(one.counter for one in head.seen if one.life == self.own_life)])

    def _due(self) -> Iterator[tuple[Listed, Claimed, bytes, Cursor, list[Indexed]]]:
        members = self.vault.membership
        for listed, claimed, digest in self._claims:
            head = claimed.head
            signing = members.signing_of(head.device)
            if signing is None or not claimed.is_by(signing) or not certifies(head.writer, signing):
                self._reject(listed.name, head.device, "a head is not signed by a device of the vault")
                continue
            cursor = self._cursors.get(listed.life) or Cursor(writer=head.writer, device=head.device)
            if not members.is_member(head.device):
                self._reject(listed.name, head.device, HELD_BACK)
                self._save(listed.life, replace(cursor, counter=head.counter, digest=digest, held=True))
                continue
            self.wanted |= {(one.first, one.last) for one in head.wanting if one.life == self.own_life}
            holes = {(hole.first, hole.last) for hole in cursor.holes}
            wanted = [pack for pack in head.packs if pack.last > cursor.applied or _overlaps(pack, holes)]
            yield listed, claimed, digest, cursor, wanted

    def _pack(self, claimed: Claimed, pack: Indexed, cursor: Cursor) -> Cursor:
        """Take one pack in; what of it cannot be read becomes a hole, to be tried again."""
        vault, head = self.vault, claimed.head
        name = f"p/{vault.tag}/{pack.name}"
        try:
            stretches = self._read(name, pack)
        except HoldfastError as error:
            return self._missed(head, pack, cursor, error)
        good = [one for one in stretches if self._vouched(one, name)]
        moved = _moved(cursor, pack, _without(cursor.holes, pack))
        try:
            with vault.here.transaction() as transaction:
                new = transaction.receive(event for one in good for event in one.events)
                for one in good:
                    vault.memory.vouch(transaction, one.session, one.writer, one.device, one.events[-1].seq)
                vault.memory.write(transaction, moved, "life", life_tag(vault.id, head.writer))
                if new:
                    vault.here.received(transaction, {one.session for one in good})
        except Damaged as error:
            return self._missed(head, pack, cursor, error)
        self._cursors[life_tag(vault.id, head.writer)] = moved
        vault.report.pulled += new
        if new:
            vault.report.sessions |= {one.session for one in good}
        return moved

    def _missed(self, head: Head, pack: Indexed, cursor: Cursor, error: HoldfastError) -> Cursor:
        """A pack that cannot be taken in. The others can: it is tried again, and asked for if that fails too."""
        if error.retry_helps:
            raise error
        name = f"p/{self.vault.tag}/{pack.name}"
        reason = error.reason if isinstance(error, Unsealable) else f"cannot be read: {error.message}"
        self._reject(name, head.device, f"a pack {reason}")
        again = any(pack.first <= hole.first and hole.last <= pack.last for hole in cursor.holes)
        moved = _moved(cursor, pack, (*_without(cursor.holes, pack), Hole(pack.first, pack.last, name, again)))
        self._save(life_tag(self.vault.id, head.writer), moved)
        return moved

    def _read(self, name: str, pack: Indexed) -> list[Stretch]:
        vault = self.vault
        sealed = vault.remote.get(name, min(PACK_LIMIT, pack.size))
        if hashlib.sha256(sealed).digest() != pack.digest:
            raise Invalid("it is not what its author put there")
        return packs.unpack(vault.open("pack", name, sealed, vault.ring))

    def _vouched(self, stretch: Stretch, where: str) -> bool:
        """Whether someone who may do so vouches for these events."""
        vault, members = self.vault, self.vault.membership
        signing = members.signing_of(stretch.device)
        last: Event = stretch.events[-1]
        words = packs.stream_words(vault.id, stretch.session, stretch.writer, last.seq, last.hash)
        reason: str | None = None
        if members.session not in (None, stretch.session):
            reason = "it holds a session that is not shared here"
        elif signing is None or not members.is_member(stretch.device):
            reason = "it is signed by a device that does not belong to the vault"
        elif not verify(signing, STREAM, words, stretch.signature):
            reason = "a signature in it is wrong"
        elif not (
            certifies(stretch.writer, signing) or members.is_admin(stretch.device) or not is_certified(stretch.writer)
        ):
            reason = "a device speaks in it for another one"
        if reason is not None:
            self._reject(where, stretch.device, reason)
        return reason is None

    # ── what is not shown ────────────────────────────────────────────────────────────────────────────────

    def withheld(self) -> list[tuple[str, str]]:
        """Lives whose newest head somebody saw and the remote does not show: the life, and whose it is."""
        missing: dict[str, str] = {}
        # What removed devices published goes, once somebody else vouches for it.
        gone = {
            life_tag(self.vault.id, writer)
            for one in self.vault.membership.removed.values()
            for writer in one.cut
        }
        for life, known in self._cursors.items():
            if life not in self.listing.newest and self.vault.membership.is_member(known.device):
                missing[life] = known.device
        for _, claimed, _ in self._claims:
            for seen in claimed.head.seen:
                shown = self.listing.newest.get(seen.life)
                cursor = self._cursors.get(seen.life)
                if cursor is not None and cursor.counter == seen.counter and cursor.digest != seen.digest:
                    self._reject(shown.name if shown else seen.life, cursor.device, "it showed others something else")
                unseen = seen.life not in gone and seen.life != self.own_life and (shown is None or shown.counter < seen.counter)
                if unseen and (cursor is None or self.vault.membership.is_member(cursor.device)):
                    missing[seen.life] = cursor.device if cursor is not None else ""
        return sorted(missing.items())

    def _save(self, life: str, cursor: Cursor) -> None:
        if self._cursors.get(life) != cursor:
            with self.vault.here.transaction() as transaction:
                self.vault.memory.write(transaction, cursor, "life", life)
            self._cursors[life] = cursor

    def _reject(self, name: str, device: str, reason: str) -> None:
        self.vault.report.reject(name, name_of(self.vault, device), reason)


def name_of(vault: Vault, device: str) -> str:
    """What people call a device; its fingerprint when nobody knows it."""
    members = vault.membership
    known = members.members.get(device) or members.removed.get(device)
    return known.name if known is not None else device


def remember_rejected(vault: Vault) -> None:
    """Keep what was turned away for the doctor; what is in order again is forgotten."""
    now = {
        hashlib.sha256("\n".join(one).encode()).hexdigest()[:16]: Turned(
            pack=one.pack, device=one.device, reason=one.reason, at=vault.here.now()
        )
        for one in vault.report.rejected
    }
    before = vault.memory.raw_under("turned")
    if set(now) == set(before):
        return
    with vault.here.transaction() as transaction:
        for name in before.keys() - now.keys():
            vault.memory.forget(transaction, "turned", name)
        for name in now.keys() - before.keys():
            vault.memory.write(transaction, now[name], "turned", name)


def spans(stretches: Sequence[Stretch]) -> tuple[Span, ...]:
    return tuple(Span(one.session, one.writer, one.events[0].seq, one.events[-1].seq) for one in stretches)


def _overlaps(pack: Indexed, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(pack.first <= last and first <= pack.last for first, last in ranges)


def _without(holes: tuple[Hole, ...], pack: Indexed) -> tuple[Hole, ...]:
    return tuple(hole for hole in holes if not (pack.first <= hole.first and hole.last <= pack.last))


def _moved(cursor: Cursor, pack: Indexed, holes: tuple[Hole, ...]) -> Cursor:
    return replace(cursor, applied=max(cursor.applied, pack.last), holes=holes)
