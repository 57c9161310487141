"""Publishing: what this store holds and the vault does not, as one pack and one head.

A push is written down before it happens (`Intent`), so that whoever comes after a crash knows whether it did. Nothing
is ever changed at a remote: a new head is put beside the old one, which is removed then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from holdfast.core.event import Event
from holdfast.store.interface import Arrival
from holdfast.teleport import heads, packs, sealing
from holdfast.teleport.heads import Head, Indexed, Seen, Wanted
from holdfast.teleport.keys import STREAM, certifies, is_certified
from holdfast.teleport.memory import Intent, Own, Span, Vouched
from holdfast.teleport.packs import Stretch
from holdfast.teleport.pulling import HEAD_LIMIT, Listing, spans
from holdfast.teleport.remotes.interface import Missing, TooLarge
from holdfast.teleport.report import Progress, silent
from holdfast.teleport.vault import Vault

Objects: TypeAlias = list[tuple[str, bytes]]
# Which stretches each new pack holds.
Made: TypeAlias = dict[str, tuple[Span, ...]]

EVENTS_AT_ONCE: Final = 20_000
BYTES_AT_ONCE: Final = 16 << 20
_ERASING: Final = frozenset({"session.deleted", "event.erased"})


class Push:
    """One publishing to a vault, after it was read."""

    def __init__(self, vault: Vault, listing: Listing, *, progress: Progress = silent) -> None:
        self.vault = vault
        self.memory = vault.memory
        self.writer = vault.here.writer()
        self._listing = listing
        self._progress = progress
        self._scope: dict[str, bool] = {}
        self._earlier = frozenset(vault.memory.read(tuple[str, ...], "earlier") or ())
        self._projects = frozenset(vault.memory.read(tuple[str, ...], "projects") or ())
        # Looked up once: how far each stream is known in the vault, and whose streams we may vouch for.
        self._known: dict[tuple[str, str], int] = {}
        self._mine: dict[str, bool] = {}
        # Packs of a push that never happened: taken away with the next one.
        self._orphans: list[str] = []
        self.own = self.memory.own(self.writer)

    # ── finding out where we are ─────────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """Go on after a crash, or after this store was put back to an earlier state."""
        intent = self.memory.read(Intent, "intent", self.writer)
        shown = self._listing.newest.get(sealing.life_tag(self.vault.id, self.writer))
        if intent is not None:
            if shown is not None and shown.counter == intent.own.counter and self._is_ours(shown.name, intent):
                self._done(intent)
            else:
                self._orphans = [f"p/{self.vault.tag}/{name}" for name in intent.made]
        if shown is not None and shown.counter > self.own.counter:
            # The remote knows more of this life than this store does: it was restored, cloned or rolled back. What
            # the other life published is read like anybody's; we go on as somebody new.
            self.writer = self.vault.here.renew()
            self.own = self.memory.own(self.writer)

    def _is_ours(self, name: str, intent: Intent) -> bool:
        try:
            return hashlib.sha256(self.vault.remote.get(name, HEAD_LIMIT)).digest() == intent.digest
        except (Missing, TooLarge):
            return False

    def lost(self) -> bool:
        """Whether the remote does not show what we published last."""
        shown = self._listing.newest.get(sealing.life_tag(self.vault.id, self.writer))
        return self.own.counter > 0 and (shown is None or shown.counter < self.own.counter)

    # ── publishing ───────────────────────────────────────────────────────────────────────────────────────

    def everything(self, wanted: Iterable[tuple[int, int]] = (), *, events: bool = True) -> None:
        """Publish all that is due, in as many pushes as it takes; or, where nobody reads events, our word alone."""
        again = self._again(wanted)
        while True:
            stretches, place, purge, more = self._next() if events else ([], self.own.place, frozenset(), False)
            adopted = self._adopted()
            rewritten = again | self._holding(purge)
            due = stretches or adopted or rewritten or self.own.tips != self._tips() or self._orphans or self.lost()
            if due:
                self._publish([*stretches, *adopted], place, rewritten)
            elif place != self.own.place:
                self._note_place(place)
            again = frozenset()
            self._progress(self.vault.report.pushed, 0, "events sent")
            if not more:
                return

    def _next(self) -> tuple[list[Stretch], int, frozenset[str], bool]:
        """The events to publish next, how far that reaches, and sessions of which something was erased."""
        place, size = self.own.place, 0
        found: dict[tuple[str, str], list[Event]] = {}
        purge: set[str] = set()
        arrived = self._arrived(place)
        whole = self.vault.membership.session is not None
        for one in arrived:
            event = one.event
            if event.type in _ERASING:
                purge.add(event.session)
            if self._is_due(event):
                found.setdefault((event.session, event.writer), []).append(event)
                size += len(event.data or b"")
            place = one.place
            if size >= BYTES_AT_ONCE and not whole:
                break
        more = bool(arrived) and (place < arrived[-1].place or (len(arrived) == EVENTS_AT_ONCE and not whole))
        return [piece for events in found.values() for piece in self._signed(events)], place, frozenset(purge), more

    def _arrived(self, place: int) -> list[Arrival]:
        """What came into the store since; of a vault with one session, that session's events: they are few."""
        store, session = self.vault.here.store, self.vault.membership.session
        if session is None:
            return store.arrived(place, EVENTS_AT_ONCE)
        return [Arrival(place, event) for event in store.events(session)]

    def _is_due(self, event: Event) -> bool:
        return self._in_scope(event.session) and self._may_vouch(event.writer) and not self._is_there(event)

    def _is_there(self, event: Event) -> bool:
        known = self._known.get((event.session, event.writer))
        if known is None:
            found = self.memory.vouched(event.session, event.writer)
            known = self._known[event.session, event.writer] = 0 if found is None else found.seq
        return event.seq <= known

    def _may_vouch(self, writer: str) -> bool:
        may = self._mine.get(writer)
        if may is None:
            members, me = self.vault.membership, self.vault.me
            signing = self.vault.here.keys.public.signing
            may = certifies(writer, signing) or members.is_admin(me) or not is_certified(writer)
            self._mine[writer] = may
        return may

    def _in_scope(self, session: str) -> bool:
        found = self._scope.get(session)
        if found is None:
            found = session not in self._earlier and self.vault.membership.session in (None, session)
            if found and self._projects:
                state = self.vault.here.store.state(session)
                found = state is not None and (state.project is None or state.project.id in self._projects)
            self._scope[session] = found
        return found

    def _signed(self, events: list[Event]) -> list[Stretch]:
        """Stretches without gaps, each vouched for by us."""
        events.sort(key=lambda event: event.seq)
        pieces: list[list[Event]] = []
        for event in events:
            if pieces and pieces[-1][-1].seq + 1 == event.seq and pieces[-1][-1].hash == event.prev:
                pieces[-1].append(event)
            else:
                pieces.append([event])
        return [self._stretch(piece) for piece in pieces]

    def _stretch(self, events: Sequence[Event]) -> Stretch:
        last = events[-1]
        words = packs.stream_words(self.vault.id, last.session, last.writer, last.seq, last.hash)
        return Stretch(last.session, last.writer, self.vault.me, self.vault.here.keys.sign(STREAM, words), events)

    # ── packing again ────────────────────────────────────────────────────────────────────────────────────

    def _again(self, wanted: Iterable[tuple[int, int]]) -> frozenset[str]:
        """Packs of ours that others could not read, or that are no longer where we put them."""
        ranges = list(wanted)
        found = {
            pack.name
            for pack in self.own.packs
            if any(pack.first <= last and first <= pack.last for first, last in ranges)
        }
        if self.lost():
            there = {one.name for one in self.vault.remote.list(f"p/{self.vault.tag}/")}
            found |= {pack.name for pack in self.own.packs if f"p/{self.vault.tag}/{pack.name}" not in there}
        return frozenset(found)

    def _holding(self, sessions: frozenset[str]) -> frozenset[str]:
        """Packs of ours with events of these sessions: their data was erased, and must go from there too."""
        if not sessions:
            return frozenset()
        return frozenset(
            pack.name for pack in self.own.packs if any(span.session in sessions for span in self._spans(pack.name))
        )

    def _spans(self, pack: str) -> tuple[Span, ...]:
        return self.memory.read(tuple[Span, ...], "pack", pack) or ()

    def _adopted(self) -> list[Stretch]:
        """Streams of removed devices that we removed: from now on we vouch for what was accepted of them."""
        flagged = self.memory.raw_under("adopt")
        if not flagged:
            return []
        found = []
        for session, writer, known in self.memory.streams():
            if known.device in flagged:
                events = self.vault.here.store.stream(session, writer, 1, known.seq)
                found += self._signed(list(events))
        return found

    def _repacked(
        self, names: Iterable[str], own: Own
    ) -> tuple[Own, list[tuple[str, bytes]], dict[str, tuple[Span, ...]]]:
        """The same pushes in new packs, made from what the store holds now: one new pack for each old one."""
        objects: Objects = []
        made: Made = {}
        index = {pack.name: pack for pack in own.packs}
        for name in names:
            old = index[name]
            new, spans_of = self._merged([old], objects)
            index[name] = new
            made[new.name] = spans_of
        stale = tuple(pack.name for pack in own.packs if index[pack.name] is not pack)
        packs_now = tuple(index[pack.name] for pack in own.packs)
        return replace(own, packs=packs_now, stale=(*own.stale, *stale)), objects, made

    def _merged(self, old: Sequence[Indexed], objects: Objects) -> tuple[Indexed, tuple[Span, ...]]:
        """One pack that covers the pushes of several."""
        ranges: dict[tuple[str, str], tuple[int, int]] = {}
        for pack in old:
            for span in self._spans(pack.name):
                first, last = ranges.get((span.session, span.writer), (span.first, span.last))
                ranges[span.session, span.writer] = min(first, span.first), max(last, span.last)
        stretches: list[Stretch] = []
        for (session, writer), (first, last) in ranges.items():
            stretches += self._signed(list(self.vault.here.store.stream(session, writer, first, last)))
        new = self._pack(stretches, old[0].first, old[-1].last, objects)
        return new, spans(stretches)

    def _pack(self, stretches: Sequence[Stretch], first: int, last: int, objects: Objects) -> Indexed:
        vault = self.vault
        name = os.urandom(20).hex()
        full = f"p/{vault.tag}/{name}"
        sealed = sealing.seal(self._key(), "pack", vault.id, full, packs.pack(stretches))
        objects.append((full, sealed))
        return Indexed(name, first, last, len(sealed), hashlib.sha256(sealed).digest())

    # ── one push ─────────────────────────────────────────────────────────────────────────────────────────

    def _publish(self, stretches: Sequence[Stretch], place: int, rewritten: Iterable[str]) -> None:
        vault = self.vault
        before = self.own
        own, objects, made = self._repacked(rewritten, before)
        if stretches:
            push = own.pushes + 1
            new = self._pack(stretches, push, push, objects)
            made[new.name] = spans(stretches)
            own = replace(own, pushes=push, packs=(*own.packs, new))
        own = self._tiered(own, objects, made)
        own = replace(own, counter=before.counter + 1, place=place, tips=self._tips())
        head = self._head(own)
        name = heads.name_of(vault.id, self.writer, own.counter)
        sealed = sealing.seal(self._key(), "head", vault.id, name, heads.signed(vault.here.keys, head))
        objects.append((name, sealed))
        gone = [heads.name_of(vault.id, self.writer, before.counter)] if before.counter else []
        gone += [f"p/{vault.tag}/{one}" for one in before.stale]
        own = replace(own, stale=tuple(one for one in own.stale if one not in before.stale))
        intent = Intent(own=own, made=made, published=spans(stretches), digest=hashlib.sha256(sealed).digest())
        with vault.here.transaction() as transaction:
            self.memory.write(transaction, intent, "intent", self.writer)
        taken = vault.remote.put(objects, remove=[*gone, *self._orphans])
        if name in taken:
            # Somebody publishes under our life: a copy of this home. Our packs are there, but no head names them.
            self._orphans = [one for one, _ in objects if one != name]
            self.writer = vault.here.renew()
            self.own = self.memory.own(self.writer)
            self._known.clear()
            return
        self._orphans = []
        self._done(intent)
        vault.report.pushed += sum(span.last - span.first + 1 for span in intent.published)

    def _done(self, intent: Intent) -> None:
        """A push happened: remember it."""
        vault, memory = self.vault, self.memory
        kept = {pack.name for pack in intent.own.packs}
        with vault.here.transaction() as transaction:
            memory.write(transaction, intent.own, "own", self.writer)
            for name, held in intent.made.items():
                if name in kept:
                    memory.write(transaction, held, "pack", name)
            for name in intent.own.stale:
                memory.forget(transaction, "pack", name)
            for span in intent.published:
                self._known[span.session, span.writer] = span.last
                memory.write(transaction, Vouched(span.last, vault.me), "stream", span.session, span.writer)
            for device in memory.raw_under("adopt"):
                memory.forget(transaction, "adopt", device)
            memory.forget(transaction, "intent", self.writer)
        self.own = intent.own

    def _note_place(self, place: int) -> None:
        self.own = replace(self.own, place=place)
        with self.vault.here.transaction() as transaction:
            self.memory.write(transaction, self.own, "own", self.writer)

    def _head(self, own: Own) -> Head:
        vault = self.vault
        cursors = sorted(self.memory.cursors().items(), key=lambda item: -item[1].heard_at)
        return Head(
            vault=vault.id, device=vault.me, writer=self.writer, counter=own.counter, at=vault.here.now(),
            packs=own.packs, tips=own.tips,
            seen=tuple(Seen(life, one.counter, one.digest) for life, one in cursors[: heads.MOST_SEEN]),
            wanting=tuple(Wanted(life, hole.first, hole.last) for life, one in cursors for hole in one.holes),
        )  # fmt: skip

    def _tiered(self, own: Own, objects: Objects, made: Made) -> Own:
        from holdfast.teleport.merging import due

        run = due(own.packs)
        # What this very push made has no memory yet; its tier is the lowest, so the next push merges it.
        if not run or any(pack.name in made for pack in run):
            return own
        new, held = self._merged(run, objects)
        made[new.name] = held
        names = {pack.name for pack in run}
        place = own.packs.index(run[0])
        rest = [pack for pack in own.packs if pack.name not in names]
        rest.insert(place, new)
        return replace(own, packs=tuple(rest), stale=(*own.stale, *names))

    def _tips(self) -> tuple[str, ...]:
        return tuple(sorted(self.vault.membership.tips))

    def _key(self) -> bytes:
        key = self.vault.sealing_key()
        assert key is not None, "whoever pushes has seen to it that there is a key"
        return key
