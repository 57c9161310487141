"""What this store holds and a vault does not, as far as this device may vouch for it: what to publish next."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.envelope import Event
from holdfast.store import origin
from holdfast.store.interface import Arrival, RowKey, row_key
from holdfast.sync.protocol import packs
from holdfast.sync.protocol.packs import PackedEvents
from holdfast.workspace.keys.device_keys import STREAM, certifies, is_certified

if TYPE_CHECKING:
    from holdfast.sync.protocol.membership import Membership
    from holdfast.sync.state import Published
    from holdfast.sync.vault import Vault

EVENTS_AT_ONCE: Final = 20_000
BYTES_AT_ONCE: Final = 16 << 20
ERASING: Final = frozenset({"session.deleted", "event.erased"})
_ENVELOPE: Final = 200  # bytes, about


class Batch(NamedTuple):
    """Stretches for one push, and how far that reaches."""

    stretches: list[PackedEvents]
    place: int
    # Sessions of which something was erased since, and how many erasures a vault with one session knows now.
    purge: frozenset[str]
    erasures: int
    more: bool


class Due:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._scope: dict[str, bool] = {}
        self._earlier = frozenset(vault.memory.read(tuple[str, ...], "earlier") or ())
        self._projects = frozenset(vault.memory.read(tuple[str, ...], "projects") or ())
        # Looked up once: how far each stream is known in the vault, and whose streams we may vouch for.
        self._known: dict[tuple[str, str], int] = {}
        self._mine: dict[str, bool] = {}
        self._unsound: dict[str, frozenset[RowKey]] = {}
        self._own_streams: dict[tuple[str, str], bool] = {}
        # Sessions of other members of a team, and own ones with streams of theirs: none of it is our word.
        self.of_members: set[str] = set()
        self.with_members: set[str] = set()
        # Streams of ours that a copy of this home went on with too.
        self.forked: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """Somebody wrote to the memory this was read from."""
        self._known.clear()

    def next(self, own: Published, *, events: bool) -> Batch:
        if self._vault.membership.session is not None:
            return self._of_session(own, self._vault.membership.session, events=events)
        place, size = own.place, 0
        found: dict[tuple[str, str], list[Event]] = {}
        purge: set[str] = set()
        arrived: list[Arrival] = self._vault.here.store.arrived(place, EVENTS_AT_ONCE)
        for arrival in arrived:
            event = arrival.event
            if size and size + _size(event) > BYTES_AT_ONCE:
                break  # with a large one it would be more than others read at once
            if event.type in ERASING and self._is_own(event.session, event.writer):
                purge.add(event.session)
            found.setdefault((event.session, event.writer), []).append(event)
            size += _size(event)
            place = arrival.place
        more = bool(arrived) and (place < arrived[-1].place or len(arrived) == EVENTS_AT_ONCE)
        due = (self._of_stream(session, writer, events_of) for (session, writer), events_of in found.items())
        stretches = [piece for events_of in due for piece in signed(self._vault, events_of)]
        return Batch(stretches, place, frozenset(purge), 0, more)

    def _of_session(self, own: Published, session: str, *, events: bool) -> Batch:
        """Of a vault with one session that session alone is looked at, whatever else came into the store."""
        vault, store = self._vault, self._vault.here.store
        latest = store.latest_place()
        if latest == own.place and own.tips == tuple(sorted(vault.membership.tips)):
            return Batch([], own.place, frozenset(), own.erasures, more=False)
        found: dict[tuple[str, str], list[Event]] = {}
        erasures = 0
        for event in store.events(session):
            erasures += event.type in ERASING and self._is_own(session, event.writer)
            found.setdefault((event.session, event.writer), []).append(event)
        stretches: list[PackedEvents] = []
        size, more = 0, False
        for (_, writer), events_of in found.items() if events else ():
            due = self._of_stream(session, writer, events_of)
            taken = []
            for event in sorted(due, key=lambda one: one.seq):
                more = size > 0 and size + _size(event) > BYTES_AT_ONCE
                if more:
                    break
                taken.append(event)
                size += _size(event)
            stretches += signed(vault, taken)
            if more:
                break
        purge = frozenset({session} if erasures > own.erasures else ())
        place = latest if events and not more else own.place
        return Batch(stretches, place, purge, erasures, more)

    def _of_stream(self, session: str, writer: str, events: list[Event]) -> list[Event]:
        """Those of a stream that we may publish here, and that are not there yet."""
        if not (self._in_scope(session) and self._may_vouch(writer) and self._is_own(session, writer)):
            return []
        events = self._sound(session, writer, events)
        known = self._known.get((session, writer))
        if known is None:
            found = self._vault.memory.vouched(session, writer)
            known = self._known[session, writer] = found.by_members(self._vault.membership)
        due = [event for event in events if event.seq > known]
        if len(due) < len(events) and certifies(writer, self._vault.here.keys.public.signing):
            due += self._forked(session, writer, [event for event in events if event.seq <= known])
        return due

    def _is_own(self, session: str, writer: str) -> bool:
        """Whether it is our word: what other members of a team put there is not, in whoever's name they put it."""
        stream = session, writer
        if stream not in self._own_streams:
            store = self._vault.here.store
            members = origin.is_members(store, session)
            self._own_streams[stream] = not members and origin.is_own_stream(store, session, writer)
            if members:
                self.of_members.add(session)
            elif not self._own_streams[stream]:
                self.with_members.add(session)
        return self._own_streams[stream]

    def _sound(self, session: str, writer: str, events: list[Event]) -> list[Event]:
        """Without what other people put into the session and may not say there: it would count as our word."""
        if certifies(writer, self._vault.here.keys.public.signing):
            return events
        if session not in self._unsound:
            found = self._vault.here.store.unsound(session)
            self._unsound[session] = frozenset() if found is None else found.rows
        return [event for event in events if row_key(event) not in self._unsound[session]]

    def _forked(self, session: str, writer: str, events: list[Event]) -> list[Event]:
        """Of events whose numbers are taken, those that are not the same: a copy of this home went on as well."""
        seqs = [event.seq for event in self._vault.here.store.stream(session, writer, 1, MAX_SAFE_INTEGER)]
        if len(set(seqs)) == len(seqs):
            return []
        self.forked.add((session, writer))
        fork = min(seq for seq, after in pairwise(seqs) if seq == after)
        there = self._vault.memory.forks(session, writer)
        return [event for event in events if event.seq >= fork and event.hash not in there]

    def _may_vouch(self, writer: str) -> bool:
        may = self._mine.get(writer)
        if may is None:
            may = self._mine[writer] = may_vouch(self._vault.membership, self._vault.me, writer)
        return may

    def _in_scope(self, session: str) -> bool:
        found = self._scope.get(session)
        if found is None:
            # What others would not take in is not sent: they would turn away the whole pack.
            found = re.match(packs.SESSION, session) is not None
            found = found and session not in self._earlier and self._vault.membership.session in (None, session)
            if found and self._projects:
                found = self._of_project(session)
            self._scope[session] = found
        return found

    def _of_project(self, session: str) -> bool:
        """Whether it is of a project that goes there. Of a deleted one nobody knows: it goes where it was."""
        state = self._vault.here.store.state(session)
        if state is not None and state.project is not None:
            return state.project.id in self._projects
        known = any(True for _ in self._vault.memory.streams(session))
        return state is not None and (known or not state.deleted)

    # ── what removed devices published ───────────────────────────────────────────────────────────────────

    def adopted(self) -> tuple[list[PackedEvents], bool]:
        """Streams that only devices vouch for which are gone: from now on we do; whether that is not yet all."""
        vault, members = self._vault, self._vault.membership
        flagged = vault.memory.raw_under("adopt")
        found: list[PackedEvents] = []
        size = 0
        if not flagged or not members.is_admin(vault.me):
            return [], False
        for session, writer, known in vault.memory.streams():
            if not flagged.keys() & known.by.keys() or not self._is_own(session, writer):
                continue
            events = self._unadopted(
                session, writer, known.by_members(members), known.accepted(members, session, writer)
            )
            taken = []
            for event in events:
                if size and size + _size(event) > BYTES_AT_ONCE:
                    break
                taken.append(event)
                size += _size(event)
            found += signed(vault, taken)
            if len(taken) < len(events):
                return found, True
        return found, False

    def _unadopted(self, session: str, writer: str, vouched: int, last: int) -> list[Event]:
        """What no member vouches for of a stream; where a branch was let in, all of that."""
        store, memory = self._vault.here.store, self._vault.memory
        if memory.raw("branch", session, writer) is None:
            return store.stream(session, writer, vouched + 1, last) if vouched < last else []
        events: list[Event] = store.stream(session, writer, 1, last)
        return [event for event in events if event.seq > vouched] + self._forked(
            session, writer, [event for event in events if event.seq <= vouched]
        )


def _size(event: Event) -> int:
    return len(event.data or b"") + _ENVELOPE


def may_vouch(members: Membership, device: str, writer: str) -> bool:
    """Its own streams a member vouches for; an admin for all; those of days without keys whoever is no guest."""
    member = members.members.get(device)
    if member is None:
        return False
    return (
        certifies(writer, member.keys.signing) or member.admin or not (is_certified(writer) or member.kind == "guest")
    )


def signed(vault: Vault, events: Iterable[Event]) -> list[PackedEvents]:
    """Stretches without gaps, each vouched for by us. Where a stream forks, each branch is one."""
    pieces: list[list[Event]] = []
    ends: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda one: one.seq):
        piece = ends.pop(event.prev, None) if event.prev is not None else None
        if piece is None:
            piece = []
            pieces.append(piece)
        piece.append(event)
        ends[event.hash] = piece
    return [_stretch(vault, piece) for piece in pieces]


def _stretch(vault: Vault, events: list[Event]) -> PackedEvents:
    last = events[-1]
    words = packs.stream_words(vault.id, last.session, last.writer, last.seq, last.hash)
    return PackedEvents(last.session, last.writer, vault.me, vault.here.keys.sign(STREAM, words), events)
