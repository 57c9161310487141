"""Push: publish what this store holds and the vault lacks, as a pack and a head."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from holdfast.core.errors import Invalid, Unreachable
from holdfast.sync import removal, retired_writers
from holdfast.sync.outbox import Batch, Outbox, sign_stretches
from holdfast.sync.protocol import heads, packs, sealing
from holdfast.sync.protocol.heads import HeadName, IndexedPack, PublishedHead, SeenHead, WantedPushes
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.protocol.sealing import NEWER, NO_KEY, Unsealable
from holdfast.sync.read_heads import HEAD_LIMIT, HeadListing
from holdfast.sync.remotes.base import Missing, ObjectTooLarge
from holdfast.sync.state import Intent, Published, StreamSpan, VouchedStream
from holdfast.sync.sync_report import Progress, silent
from holdfast.sync.vault import Vault

MERGED_TOGETHER: Final = 16
# A pack of this size is not merged: sixteen of them would be more than a device reads at once.
LARGE_PACK_BYTES: Final = 4 << 20


def tier(pack: IndexedPack) -> int:
    """0 for one push, 1 for up to 16 of them, 2 for up to 256…"""
    covered, level = pack.last - pack.first + 1, 0
    while covered > 1:
        covered = -(-covered // MERGED_TOGETHER)
        level += 1
    return level


def packs_to_merge(packs: Sequence[IndexedPack], large: Collection[str] = ()) -> list[IndexedPack]:
    """Sixteen neighbouring packs of one tier to merge, the lowest tier first; empty when there are none.

    `large` are the packs that hold `LARGE_PACK_BYTES` bytes or more before sealing.
    """
    runs: dict[int, list[IndexedPack]] = {}
    previous_level: int | None = None
    full_runs: list[list[IndexedPack]] = []
    for pack in packs:
        level = tier(pack)
        if pack.name in large:
            previous_level = None
            runs.clear()
            continue
        if level != previous_level:
            runs[level] = []
        runs[level].append(pack)
        previous_level = level
        if len(runs[level]) == MERGED_TOGETHER:
            full_runs.append(runs[level])
            runs[level] = []
            previous_level = None
    return min(full_runs, key=lambda run: (tier(run[0]), run[0].first), default=[])


Objects: TypeAlias = list[tuple[str, bytes]]
# The spans in each new pack.
NewSpans: TypeAlias = dict[str, tuple[StreamSpan, ...]]

_MAX_RENEWALS: Final = 5
_MAX_RIVALS: Final = 64
_MAX_DOUBTS: Final = 3


class Publisher:
    """Publishes to a vault, after it was read."""

    def __init__(self, vault: Vault, listing: HeadListing, *, progress: Progress = silent) -> None:
        self.vault = vault
        self.memory = vault.memory
        self.writer = vault.local.writer()
        self._listing = listing
        self._progress = progress
        self._outbox = Outbox(vault)
        self._newest_shown = 0
        self._in_doubt = False
        self.own = self.memory.own(self.writer)

    # ── where we are ─────────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """Recover after a crash, or after this store was restored to an earlier state."""
        for writer, intent in list(self.memory.under(Intent, "intent")):
            # Asked for by name: a listing may be out of date.
            ours = self._is_ours(heads.name_of(self.vault.id, writer, intent.own.counter), intent)
            if ours:
                self.vault.remote.put([], remove=intent.obsolete)
                self._complete_push(intent, writer)
            elif ours is None and writer == self.writer:
                self._skip_push(intent)
            else:
                self._discard_push(intent, writer)
        self._newest_shown = self._newest_own_counter()
        if self._newest_shown > self.own.counter:
            # The remote knows more of this life than this store does: it was restored, cloned or rolled back. What
            # the old life published is read like anybody's, and we continue under a new one.
            if self._in_doubt:
                self._republish_in_doubt()
            self.renew()

    @property
    def life(self) -> str:
        return sealing.life_tag(self.vault.id, self.writer)

    def renew(self) -> None:
        """Continue under a new writer id: somebody else publishes under the present one, or did."""
        self.writer = self.vault.local.renew()
        self.own = self.memory.own(self.writer)
        self._newest_shown = 0
        self._outbox.forget()

    def _republish_in_doubt(self) -> None:
        """Publish again under the new life whatever we vouched for: what is under our name may be anything."""
        with self.vault.local.transaction() as transaction:
            doubts = (self.memory.read(int, "doubts") or 0) + 1
            self.memory.write(transaction, doubts, "doubts")
        self.republish_all()

    def republish_all(self) -> None:
        """Publish again all that we vouched for, when it is unknown what the remote lost of it."""
        with self.vault.local.transaction() as transaction:
            for session, writer, known in list(self.memory.streams()):
                others = {device: seq for device, seq in known.by.items() if device != self.vault.me}
                if others != known.by:
                    self.memory.write(transaction, VouchedStream(others), "stream", session, writer)
        self.rescan_store()
        self._outbox.forget()

    def _newest_own_counter(self) -> int:
        """The number of the newest head of this life that may be ours; certainly planted ones are removed."""
        planted = []
        newest = 0
        for listed in self._listing.rivals.get(self.life, ())[:_MAX_RIVALS]:
            ours = listed.counter <= self.own.counter or self._may_be_ours(listed)
            if ours is None:
                continue  # not there any more, or not yet
            if ours:
                newest = listed.counter
                break
            planted.append(listed.name)
            self.vault.report.reject(
                listed.name, self.vault.local.name, "an object under this device's name was not written by it"
            )
        if planted:
            self.vault.remote.put([], remove=planted)
        return newest

    def _may_be_ours(self, listed: HeadName) -> bool | None:
        vault = self.vault
        try:
            plain = vault.open("head", listed.name, vault.remote.get(listed.name, HEAD_LIMIT), vault.candidates)
            return heads.read(plain, vault.id, listed).is_by(vault.local.keys.public.signing)
        except Unsealable as error:
            # It may be of an epoch whose keys this store lost, or by a newer program. Believing it is expensive, and
            # anybody can make such an object: so it is believed a few times only.
            self._in_doubt = error.reason in (NO_KEY, NEWER) and (self.memory.read(int, "doubts") or 0) < _MAX_DOUBTS
            return self._in_doubt
        except Missing:
            return None
        except (ObjectTooLarge, Invalid):
            return False

    def _discard_push(self, intent: Intent, writer: str) -> None:
        """Remove the packs of a push that did not happen, then forget it."""
        self.vault.remote.put([], remove=[self.vault.pack_name(name) for name in intent.made])
        with self.vault.local.transaction() as transaction:
            self.memory.forget(transaction, "intent", writer)

    def _skip_push(self, intent: Intent) -> None:
        """Skip a push that is not visible but may still turn up: its numbers are never used again.

        The next push covers them too, so that a device which did see it reads that one as well.
        """
        own = self.memory.own(self.writer)
        made = [name for name in intent.made if name not in own.stale]
        own = replace(
            own, counter=max(own.counter, intent.own.counter), pushes=max(own.pushes, intent.own.pushes),
            stale=(*own.stale, *made),
        )  # fmt: skip
        with self.vault.local.transaction() as transaction:
            self.memory.write(transaction, own, "own", self.writer)
            self.memory.forget(transaction, "intent", self.writer)
        self.own = own

    def _is_ours(self, name: str, intent: Intent) -> bool | None:
        """Whether the head at the remote is the one we sent; None when there is none."""
        try:
            return hashlib.sha256(self.vault.remote.get(name, HEAD_LIMIT)).digest() == intent.digest
        except Missing:
            return None
        except ObjectTooLarge:
            return False

    def lost(self) -> bool:
        """Whether the remote no longer shows what we published last."""
        return self.own.there > 0 and self._newest_shown < self.own.there

    # ── publishing ───────────────────────────────────────────────────────────────────────────────────────

    def publish_all(
        self, unreadable: Iterable[tuple[int, int]] = (), *, events: bool = True, put_back: bool = False
    ) -> None:
        """Publish everything due, in as many pushes as it takes; without `events`, only a head."""
        repacked = self._lost_packs(unreadable, check_remote=put_back or self.lost())
        lost, renewals = self.lost(), 0
        while True:
            batch = self._outbox.next(self.own, events=events)
            adopted, more_to_adopt = self._outbox.streams_to_adopt()
            if batch.purge:
                removal.erase_unaccepted(self.vault, batch.purge)
                retired_writers.rewrite(self, self._listing, batch.purge)
            to_repack = repacked | self._packs_with(batch.purge)
            head_changed = self.own.tips != self.tips() or self.own.wanting != self._unread_pushes()
            if batch.stretches or adopted or to_repack or head_changed or lost:
                if not self._push_once(batch, adopted, to_repack):
                    # A copy of this home publishes under our life: continue under a new one.
                    renewals += 1
                    if renewals < _MAX_RENEWALS:
                        self.renew()
                        repacked = frozenset()
                        continue
                    return
            elif batch.place != self.own.place or batch.erasures != self.own.erasures:
                self._save_published(replace(self.own, place=batch.place, erasures=batch.erasures))
            repacked, lost = frozenset(), False
            self._progress(self.vault.report.pushed, 0, "events sent")
            if not batch.more and not more_to_adopt:
                break
        retired_writers.remove_unused_objects(self.vault, self._listing)
        self._note_members()

    def _note_members(self) -> None:
        """Report what was not sent because it is another team member's."""
        unsent = ", ".join(sorted(session[:8] for session in self._outbox.of_members))
        if unsent:
            self.vault.report.note(f"Not sent, because they belong to another member of the team's store: {unsent}.")
        incomplete = ", ".join(sorted(session[:8] for session in self._outbox.with_members))
        if incomplete:
            self.vault.report.note(f"Sent without what other members of the team's store added: {incomplete}.")

    def rescan_store(self) -> None:
        """Look through the whole store again."""
        if self.own.place:
            self._save_published(replace(self.own, place=0))

    def _lost_packs(self, unreadable: Iterable[tuple[int, int]], *, check_remote: bool) -> frozenset[str]:
        """Packs of ours that others could not read, or that the remote lost."""
        ranges = list(unreadable)
        names = {pack.name for pack in self.own.packs if any(pack.overlaps(*item) for item in ranges)}
        if check_remote:
            listed = {item.name for item in self.vault.remote.list(f"p/{self.vault.tag}/")}
            names |= {pack.name for pack in self.own.packs if self.vault.pack_name(pack.name) not in listed}
        return frozenset(names)

    def _packs_with(self, sessions: frozenset[str]) -> frozenset[str]:
        """Packs of ours with events of these sessions, whose data was erased."""
        if not sessions:
            return frozenset()
        return frozenset(
            pack.name for pack in self.own.packs if any(span.session in sessions for span in self.spans_in(pack.name))
        )

    def spans_in(self, pack: str) -> tuple[StreamSpan, ...]:
        """What a pack of ours holds."""
        return self.memory.read(tuple[StreamSpan, ...], "pack", pack) or ()

    # ── packing ──────────────────────────────────────────────────────────────────────────────────────────

    def _repack(self, names: Iterable[str], own: Published, objects: Objects, made: NewSpans) -> Published:
        """Replace each of these packs by a new one with what the store holds now."""
        new = {}
        for old in own.packs:
            if old.name in names:
                new[old.name], own = self._merge([old], own, objects, made)
        packs_now = tuple(new.get(pack.name, pack) for pack in own.packs)
        return replace(own, packs=packs_now, stale=(*own.stale, *new))

    def _merge(
        self, old: Sequence[IndexedPack], own: Published, objects: Objects, made: NewSpans
    ) -> tuple[IndexedPack, Published]:
        """One pack that covers the pushes of several."""
        ranges: dict[tuple[str, str], tuple[int, int]] = {}
        for pack in old:
            for span in self.spans_in(pack.name):
                first, last = ranges.get((span.session, span.writer), (span.first, span.last))
                ranges[span.session, span.writer] = min(first, span.first), max(last, span.last)
        stretches: list[Stretch] = []
        for (session, writer), (first, last) in ranges.items():
            stretches += sign_stretches(self.vault, self.vault.local.store.stream(session, writer, first, last))
        return self._new_pack(stretches, old[0].first, old[-1].last, own, objects, made)

    def _new_pack(
        self, stretches: Sequence[Stretch], first: int, last: int, own: Published, objects: Objects, made: NewSpans
    ) -> tuple[IndexedPack, Published]:
        new, size = self.pack(stretches, first, last, objects)
        made[new.name] = _spans(stretches)
        return new, replace(own, large=(*own.large, new.name)) if size >= LARGE_PACK_BYTES else own

    def pack(self, stretches: Sequence[Stretch], first: int, last: int, objects: Objects) -> tuple[IndexedPack, int]:
        """Seal one pack; return it with its size before sealing."""
        vault = self.vault
        pack_id = os.urandom(20).hex()
        name = vault.pack_name(pack_id)
        plain = packs.pack(stretches)
        sealed = sealing.seal(self.key(), "pack", vault.id, name, plain)
        objects.append((name, sealed))
        return IndexedPack(pack_id, first, last, len(sealed), hashlib.sha256(sealed).digest()), len(plain)

    def _merge_tier(self, own: Published, objects: Objects, made: NewSpans) -> Published:
        run = packs_to_merge(own.packs, own.large)
        # A pack of this push is not remembered yet; the next push merges it.
        if not run or any(pack.name in made for pack in run):
            return own
        new, own = self._merge(run, own, objects, made)
        names = {pack.name for pack in run}
        place = own.packs.index(run[0])
        rest = [pack for pack in own.packs if pack.name not in names]
        rest.insert(place, new)
        return replace(own, packs=tuple(rest), stale=(*own.stale, *names))

    # ── one push ─────────────────────────────────────────────────────────────────────────────────────────

    def _push_once(self, batch: Batch, adopted: Sequence[Stretch], to_repack: frozenset[str]) -> bool:
        """Make one push; False when somebody else took its number."""
        vault, before = self.vault, self.own
        stretches = [*batch.stretches, *adopted]
        objects: Objects = []
        made: NewSpans = {}
        own = self._repack(to_repack, before, objects, made)
        if stretches:
            push = own.pushes + 1
            first = own.packs[-1].last + 1 if own.packs else 1
            new, own = self._new_pack(stretches, first, push, own, objects, made)
            own = replace(own, pushes=push, packs=(*own.packs, new))
        own = self._merge_tier(own, objects, made)
        # Packs with erased data go at once; merged ones may still be read, and go with the next push.
        expiring = own.stale if batch.purge else before.stale
        names = {pack.name for pack in own.packs}
        own = replace(
            own, counter=before.counter + 1, there=before.counter + 1, place=batch.place, erasures=batch.erasures,
            tips=self.tips(), wanting=self._unread_pushes(),
            stale=tuple(name for name in own.stale if name not in expiring),
            large=tuple(name for name in own.large if name in names),
        )  # fmt: skip
        name = heads.name_of(vault.id, self.writer, own.counter)
        sealed = self.seal_head(self._head(own))
        objects.append((name, sealed))
        obsolete = [heads.name_of(vault.id, self.writer, number) for number in {before.there, before.counter} - {0}]
        obsolete += [vault.pack_name(name) for name in expiring]
        forks = {
            f"{stretch.session}/{stretch.writer}": tuple(event.hash for event in stretch.events)
            for stretch in stretches
            if (stretch.session, stretch.writer) in self._outbox.forked
        }
        intent = Intent(
            own=own, made=made, published=_spans(stretches), digest=hashlib.sha256(sealed).digest(),
            obsolete=tuple(obsolete), forks=forks,
        )  # fmt: skip
        with vault.local.transaction() as transaction:
            self.memory.write(transaction, intent, "intent", self.writer)
        if name in vault.remote.put(objects, remove=obsolete):
            ours = self._is_ours(name, intent)
            if ours is None:
                raise Unreachable(
                    "the remote contradicts itself", hint="Sync again: nothing is lost.", operation="sync"
                )
            if not ours:
                self._discard_push(intent, self.writer)
                return False
        self._complete_push(intent, self.writer)
        vault.report.pushed += sum(span.last - span.first + 1 for span in intent.published)
        vault.report.sent |= {span.session for span in intent.published}
        return True

    def _complete_push(self, intent: Intent, writer: str) -> None:
        """Remember a push that happened."""
        vault, memory = self.vault, self.memory
        names = {pack.name for pack in intent.own.packs}
        with vault.local.transaction() as transaction:
            for pack in memory.own(writer).packs:
                if pack.name not in names:
                    memory.forget(transaction, "pack", pack.name)
            for name, spans in intent.made.items():
                if name in names:
                    memory.write(transaction, spans, "pack", name)
            for span in intent.published:
                memory.vouch(transaction, span.session, span.writer, vault.me, span.last)
            for stream, hashes in intent.forks.items():
                session, _, forked = stream.partition("/")
                memory.write(transaction, (*memory.forks(session, forked), *hashes), "fork", session, forked)
            memory.write(transaction, intent.own, "own", writer)
            memory.forget(transaction, "intent", writer)
        self._outbox.forget()
        if writer == self.writer:
            self.own = intent.own

    def _save_published(self, own: Published) -> None:
        self.own = own
        with self.vault.local.transaction() as transaction:
            self.memory.write(transaction, self.own, "own", self.writer)

    def _head(self, own: Published) -> PublishedHead:
        vault = self.vault
        return PublishedHead(
            vault=vault.id, device=vault.me, writer=self.writer, counter=own.counter, at=vault.local.now(),
            packs=own.packs, tips=own.tips, seen=self.seen(), wanting=own.wanting,
        )  # fmt: skip

    def seal_head(self, head: PublishedHead) -> bytes:
        vault = self.vault
        name = heads.name_of(vault.id, head.writer, head.counter)
        return sealing.seal(self.key(), "head", vault.id, name, heads.sign(vault.local.keys, head))

    def seen(self) -> tuple[SeenHead, ...]:
        """The newest heads of others that we know: a remote that shows older ones deceives."""
        members = self.vault.membership
        cursors = [
            (life, cursor) for life, cursor in self.memory.cursors().items() if members.is_member(cursor.device)
        ]
        cursors.sort(key=lambda item: -item[1].read_at)
        return tuple(SeenHead(life, cursor.counter, cursor.digest) for life, cursor in cursors[: heads.MAX_SEEN])

    def _unread_pushes(self) -> tuple[WantedPushes, ...]:
        """Pushes that we failed to read twice."""
        members = self.vault.membership
        wanting = [
            WantedPushes(life, gap.first, gap.last)
            for life, cursor in sorted(self.memory.cursors().items())
            if members.is_member(cursor.device)
            for gap in cursor.gaps
            if gap.again
        ]
        return tuple(wanting[: heads.MAX_WANTED])

    def tips(self) -> tuple[str, ...]:
        return tuple(sorted(self.vault.membership.tips))

    def key(self) -> bytes:
        key = self.vault.sealing_key()
        assert key is not None, "maintain() made a key before the push"
        return key


def _spans(stretches: Sequence[Stretch]) -> tuple[StreamSpan, ...]:
    return tuple(
        StreamSpan(stretch.session, stretch.writer, stretch.events[0].seq, stretch.events[-1].seq)
        for stretch in stretches
    )
