"""Pull: read new heads and their packs, and store every event that a member rightly vouches for.

Nothing is read of removed devices and revoked guests; see `removal`. Whatever is wrong stays at the remote and
is reported, and everything else is stored: one bad pack does not stop the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.core.envelope import Event
from holdfast.core.errors import Damaged, HoldfastError, Invalid, Refused
from holdfast.core.text import printable, shorten
from holdfast.core.view import text_value
from holdfast.store import origin
from holdfast.store.store_copy import is_refused, refusal
from holdfast.sync import provenance
from holdfast.sync.event_rights import NOT_YET_READ, EventRights, RefusedEvents
from holdfast.sync.outbox import may_vouch
from holdfast.sync.protocol import packs
from holdfast.sync.protocol.heads import HeadName, IndexedPack, PublishedHead, SignedHead
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.protocol.sealing import Unsealable, life_tag
from holdfast.sync.read_heads import NOT_ACCEPTED, HeadListing, HeadReader, name_of
from holdfast.sync.remotes.wrappers import OverLimit
from holdfast.sync.state import PushGap, ReadPosition
from holdfast.sync.sync_report import DeletedSession, Progress, silent
from holdfast.sync.vault import Vault
from holdfast.workspace.keys.device_keys import STREAM, verify

PACK_LIMIT: Final = 128 << 20
# Packs of one head that cannot be read in one sync, before the rest of them is left for the next.
_MAX_FAILED: Final = 64


class Pull:
    """One pull from a vault."""

    def __init__(
        self, vault: Vault, listing: HeadListing, *, progress: Progress = silent, patient: bool = True
    ) -> None:
        self.vault = vault
        self._progress = progress
        self._cursors = vault.memory.cursors()
        # `patient`: a person waits for this, and what could not be read before is tried again.
        self.heads = HeadReader(vault, listing, self._cursors, patient=patient)
        self.own_life = self.heads.own_life
        # Pushes that others could not read, by the life that made them.
        self.wanted: dict[str, set[tuple[int, int]]] = {}
        # The newest head of ours that any member reports to have seen.
        self.own_seen = 0
        # Packs with events that can be judged only when everything is read: see `event_rights.NOT_YET_READ`.
        self._dependent: list[tuple[str, SignedHead, IndexedPack]] = []
        self._everything_read = False

    # ── packs ────────────────────────────────────────────────────────────────────────────────────────────

    def packs(self) -> None:
        """Store what the heads name and we do not have."""
        due = list(self._due())
        total = sum(len(packs) for *_, packs in due)
        done = 0
        for listed, signed, digest, cursor, unread in due:
            failed = 0
            for number, pack in enumerate(unread):
                if failed >= _MAX_FAILED:
                    cursor = self._postpone_rest(signed.head, unread[number:], cursor)  # noqa: PLW2901 (as below)
                    break
                cursor = self._pack(signed, pack, cursor)  # noqa: PLW2901 (it moves on with each)
                failed += _has_gap(pack, cursor)
                done += 1
                self._progress(done, total, "packs read")
            head = signed.head
            self._save(
                listed.life,
                ReadPosition(
                    writer=head.writer, device=head.device, counter=head.counter, digest=digest,
                    applied=max(cursor.applied, head.packs[-1].last if head.packs else 0), gaps=cursor.gaps,
                    published_at=head.at, read_at=self.vault.local.now(),
                ),
            )  # fmt: skip
            # A guest could make us renew our writer each time.
            if self.vault.membership.members[head.device].kind != "guest":
                self.own_seen = max(
                    [self.own_seen, *(item.counter for item in head.seen if item.life == self.own_life)]
                )
        self._everything_read = True
        for life, signed, pack in self._dependent:
            self._save(life, self._pack(signed, pack, self._cursors[life]))

    def _due(self) -> Iterator[tuple[HeadName, SignedHead, bytes, ReadPosition, list[IndexedPack]]]:
        for listed, signed, digest in self.heads.verified:
            head = signed.head
            cursor = self._cursors.get(listed.life) or ReadPosition(writer=head.writer, device=head.device)
            if not self.vault.takes_part(head.device):
                self._skip_removed_device(listed, head, digest, cursor)
                continue
            for pushes in head.wanting:
                self.wanted.setdefault(pushes.life, set()).add((pushes.first, pushes.last))
            unread = [pack for pack in head.packs if pack.last > cursor.applied or _has_gap(pack, cursor)]
            yield listed, signed, digest, cursor, unread

    def _skip_removed_device(
        self, listed: HeadName, head: PublishedHead, digest: bytes, cursor: ReadPosition
    ) -> None:
        """Read nothing of a removed device, but remember and report that there is something."""
        last = head.packs[-1].last if head.packs else 0
        unread = max(0, last - max(cursor.applied, cursor.read))
        if cursor.read and not cursor.counter:
            unread = max(unread, 1)  # replaced since: it may hold anything
        is_unaccepted = cursor.unaccepted or unread > 0
        if is_unaccepted:
            self._reject(listed.name, head.device, NOT_ACCEPTED)
        self._save(
            listed.life, replace(cursor, counter=head.counter, digest=digest, unaccepted=is_unaccepted, unread=unread)
        )

    def _pack(self, signed: SignedHead, pack: IndexedPack, cursor: ReadPosition) -> ReadPosition:
        """Read and store one pack; what cannot be read becomes a gap, to be tried again."""
        vault, head = self.vault, signed.head
        name = vault.pack_name(pack.name)
        try:
            stretches = read_pack(vault, pack, foreign=self._is_foreign(head.device))
        except HoldfastError as error:
            return self._note_unreadable(head, pack, cursor, error)
        vouched = [stretch for stretch in stretches if self._is_vouched(stretch, name)]
        accepted, refused = EventRights(vault, everything_read=self._everything_read).accept(vouched)
        try:
            return self._store(signed, pack, cursor, accepted, refused)
        except Damaged as error:
            return self._note_unreadable(head, pack, cursor, error)
        except Refused:
            # The team's store keeps sessions with these ids for another member: the others are stored.
            theirs = {stretch.session for stretch in accepted if is_refused(vault.local.store, stretch.events)}
            if not theirs:
                raise
            reasons = {session: f"session {session[:8]}: {refusal(vault.local.store, session)}" for session in theirs}
            refused += [
                RefusedEvents(stretch.device, reasons[stretch.session])
                for stretch in accepted
                if stretch.session in theirs
            ]
            accepted = [stretch for stretch in accepted if stretch.session not in theirs]
            return self._store(signed, pack, cursor, accepted, refused)

    def _is_foreign(self, device: str) -> bool:
        """Whether another person's device packed it: a guest, or the owner of a share."""
        members = self.vault.membership
        if members.session is not None and self.vault.main is None:
            return True
        member = members.members.get(device)
        return member is not None and member.kind == "guest"

    def _store(
        self,
        signed: SignedHead,
        pack: IndexedPack,
        cursor: ReadPosition,
        accepted: Sequence[Stretch],
        refused: Sequence[RefusedEvents],
    ) -> ReadPosition:
        vault, head = self.vault, signed.head
        name = vault.pack_name(pack.name)
        position = _advanced(cursor, pack, _gaps_without(cursor.gaps, pack))
        if any(reason == NOT_YET_READ for _, reason in refused):
            self._dependent.append((life_tag(vault.id, head.writer), signed, pack))
        if refused:
            # Tried again: by then, what it follows may be here, or its author may be no guest any more.
            gap = PushGap(pack.first, pack.last, name, reason=refused[0].reason)
            position = replace(position, gaps=(*position.gaps, gap))
            for device, reason in refused:
                if reason != NOT_YET_READ:
                    self._reject(name, device, reason)
        store = vault.local.store
        self._withdraw_shares_of_own(accepted)
        deletions = self._find_deletions(accepted)
        repeated = [
            stretch
            for stretch in accepted
            if store.stream(stretch.session, stretch.writer, stretch.events[0].seq, stretch.events[0].seq)
        ]
        with vault.local.transaction() as transaction:
            for session in {stretch.session for stretch in accepted}:
                events = (event for stretch in accepted if stretch.session == session for event in stretch.events)
                provenance.note_arrival(transaction, vault, session, events)
            new = transaction.receive((event for stretch in accepted for event in stretch.events), own_only=True)
            for stretch in accepted:
                vault.memory.vouch(
                    transaction, stretch.session, stretch.writer, stretch.device, stretch.events[-1].seq
                )
            vault.memory.write(transaction, position, "life", life_tag(vault.id, head.writer))
            if new:
                vault.local.received(transaction, {stretch.session for stretch in accepted})
        self._cursors[life_tag(vault.id, head.writer)] = position
        vault.report.pulled += new
        for deletion in deletions:
            now = store.state(deletion.session)
            if now is None or now.deleted:
                vault.report.deleted.append(deletion)
                about = f", {deletion.goal}," if deletion.goal else ""
                vault.report.note(f"Session {deletion.session[:8]}{about} was deleted on {deletion.device}.")
        if new:
            vault.report.sessions |= {events.session for events in accepted}
            for item in repeated:
                self._note_fork(item)
        return position

    def _withdraw_shares_of_own(self, stretches: Sequence[Stretch]) -> None:
        """Give up a share when a device of ours started a session with the same id."""
        vault = self.vault
        if vault.membership.session is not None:
            return
        for session in {stretch.session for stretch in stretches}:
            if origin.share_of(vault.local.store, session) is None:
                continue
            origins = vault.membership.origins.get(session)
            guests = frozenset[str]() if origins is None else origins.guests
            known = {event.hash for event in vault.local.store.events(session)}
            if any(
                event.type == "session.started" and event.hash not in known
                for stretch in stretches
                if stretch.session == session and stretch.device not in guests
                for event in stretch.events
            ):
                provenance.withdraw_share(vault, session, None)

    def _find_deletions(self, stretches: Sequence[Stretch]) -> list[DeletedSession]:
        """The sessions that these events are about to delete."""
        deletions: dict[str, DeletedSession] = {}
        for stretch in stretches:
            if all(event.type != "session.deleted" for event in stretch.events):
                continue
            state = self.vault.local.store.state(stretch.session)
            if state is not None and not state.deleted:
                goal = shorten(printable(text_value(state, "goal") or ""), 60)
                by = self._author(stretch.writer) or stretch.device
                places = tuple(self.vault.local.store.places(stretch.session))
                deletions[stretch.session] = DeletedSession(stretch.session, goal, name_of(self.vault, by), places)
        return list(deletions.values())

    def _author(self, writer: str) -> str | None:
        """The device that a certified writer id names, if it was ever let in."""
        device = self.vault.membership.author_of(writer)
        return None if device is None else device.keys.id

    def _note_fork(self, stretch: Stretch) -> None:
        """Report once that a stream forked. Both branches are signed, and both are kept."""
        vault, (session, writer) = self.vault, stretch[:2]
        stored = vault.local.store.stream(session, writer, stretch.events[0].seq, stretch.events[-1].seq)
        if len({event.seq for event in stored}) == len(stored) or vault.memory.raw("forked", session, writer):
            return
        with vault.local.transaction() as transaction:
            vault.memory.write(transaction, True, "forked", session, writer)
        author = self._author(writer)
        vault.report.note(
            f"Two copies of one home continued session {session[:8]} at once"
            f"{'' if author is None else f' on {name_of(vault, author)}'}: both are kept; holdfast doctor lists it."
        )

    def _note_unreadable(
        self, head: PublishedHead, pack: IndexedPack, cursor: ReadPosition, error: HoldfastError
    ) -> ReadPosition:
        """Note a pack that cannot be read. It is tried again, and asked for if that fails too."""
        if error.retry_helps or isinstance(error, OverLimit):
            raise error
        name = self.vault.pack_name(pack.name)
        reason = error.reason if isinstance(error, Unsealable) else f"cannot be read: {error.message}"
        self._reject(name, head.device, f"a pack {reason}")
        again = _has_gap(pack, cursor)
        position = _advanced(
            cursor, pack, (*_gaps_without(cursor.gaps, pack), PushGap(pack.first, pack.last, name, again))
        )
        self._save(life_tag(self.vault.id, head.writer), position)
        return position

    def _postpone_rest(self, head: PublishedHead, packs: Sequence[IndexedPack], cursor: ReadPosition) -> ReadPosition:
        """Leave the rest of a head for the next sync after too many unreadable packs."""
        first, last = packs[0].first, packs[-1].last
        name = self.vault.pack_name(packs[0].name)
        self._reject(name, head.device, "many packs cannot be read, and those after them were not fetched")
        again = any(_has_gap(pack, cursor) for pack in packs)
        rest = IndexedPack(packs[0].name, first, last, 1, b"")
        position = _advanced(cursor, rest, (*_gaps_without(cursor.gaps, rest), PushGap(first, last, name, again)))
        self._save(life_tag(self.vault.id, head.writer), position)
        return position

    def _is_vouched(self, stretch: Stretch, where: str) -> bool:
        """Whether a device that is entitled to it vouches for these events."""
        vault, members = self.vault, self.vault.membership
        signing = members.signing_of(stretch.device)
        last: Event = stretch.events[-1]
        message = packs.stream_message(vault.id, stretch.session, stretch.writer, last.seq, last.hash)
        reason: str | None = None
        if members.session not in (None, stretch.session):
            reason = "it holds a session that is not shared here"
        elif signing is None or not vault.takes_part(stretch.device):
            reason = "it is signed by a device that does not belong to the vault"
        elif not verify(signing, STREAM, message, stretch.signature):
            reason = "a signature in it is wrong"
        elif not may_vouch(members, stretch.device, stretch.writer):
            reason = "it contains a stream that its device may not vouch for"
        if reason is not None:
            self._reject(where, stretch.device, reason)
        return reason is None

    def _save(self, life: str, cursor: ReadPosition) -> None:
        if self._cursors.get(life) != cursor:
            with self.vault.local.transaction() as transaction:
                self.vault.memory.write(transaction, cursor, "life", life)
            self._cursors[life] = cursor

    def _reject(self, name: str, device: str, reason: str) -> None:
        self.vault.report.reject(name, name_of(self.vault, device), reason)


def read_pack(vault: Vault, pack: IndexedPack, *, foreign: bool = False) -> list[Stretch]:
    """The contents of a pack if it matches the head; who vouches for them is not checked here."""
    name = vault.pack_name(pack.name)
    sealed = vault.remote.get(name, min(PACK_LIMIT, pack.size))
    if hashlib.sha256(sealed).digest() != pack.digest:
        raise Invalid("its SHA-256 differs from the one in the head")
    limit = packs.unpacked_limit(len(sealed), foreign=foreign)
    return packs.unpack(vault.open("pack", name, sealed, vault.ring, limit=limit))


def _has_gap(pack: IndexedPack, cursor: ReadPosition) -> bool:
    """Whether some of its pushes could not be read before."""
    return any(pack.overlaps(gap.first, gap.last) for gap in cursor.gaps)


def _gaps_without(gaps: tuple[PushGap, ...], pack: IndexedPack) -> tuple[PushGap, ...]:
    """The gaps that are left once these pushes were read."""
    left: list[PushGap] = []
    for gap in gaps:
        if not pack.overlaps(gap.first, gap.last):
            left.append(gap)
            continue
        if gap.first < pack.first:
            left.append(replace(gap, last=pack.first - 1))
        if pack.last < gap.last:
            left.append(replace(gap, first=pack.last + 1))
    return tuple(left)


def _advanced(cursor: ReadPosition, pack: IndexedPack, gaps: tuple[PushGap, ...]) -> ReadPosition:
    return replace(cursor, applied=max(cursor.applied, pack.last), gaps=gaps)
