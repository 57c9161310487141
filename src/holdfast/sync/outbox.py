"""What to publish next: events in this store that the vault lacks and this device may vouch for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.envelope import Event
from holdfast.core.event_data import ERASING
from holdfast.store import origin
from holdfast.store.interface import Arrival, RowKey, row_key
from holdfast.sync.protocol import packs
from holdfast.sync.protocol.packs import Stretch
from holdfast.workspace.keys.device_keys import STREAM, certifies, is_certified

if TYPE_CHECKING:
    from holdfast.sync.protocol.membership import Membership
    from holdfast.sync.state import Published
    from holdfast.sync.vault import Vault

MAX_EVENTS: Final = 20_000
MAX_BYTES: Final = 16 << 20
_ENVELOPE_BYTES: Final = 200  # bytes, about


class Batch(NamedTuple):
    """The stretches for one push, and how far they reach."""

    stretches: list[Stretch]
    place: int
    # Sessions with new erasures; and, in a share's vault, how many erasures there are by now.
    purge: frozenset[str]
    erasures: int
    more: bool


class Outbox:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._scope: dict[str, bool] = {}
        self._earlier = frozenset(vault.memory.read(tuple[str, ...], "earlier") or ())
        self._projects = frozenset(vault.memory.read(tuple[str, ...], "projects") or ())
        # Caches: how far the vault knows each stream, and whose streams we may vouch for.
        self._known: dict[tuple[str, str], int] = {}
        self._vouchable: dict[str, bool] = {}
        self._unsound: dict[str, frozenset[RowKey]] = {}
        self._own_streams: dict[tuple[str, str], bool] = {}
        # Sessions of other team members, and our own with streams of theirs: we vouch for neither.
        self.of_members: set[str] = set()
        self.with_members: set[str] = set()
        # Streams of ours that a copy of this home continued too.
        self.forked: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """Drop cached values after the memory was written."""
        self._known.clear()

    def next(self, own: Published, *, events: bool) -> Batch:
        if self._vault.membership.session is not None:
            return self._next_of_share(own, self._vault.membership.session, events=events)
        place, size = own.place, 0
        streams: dict[tuple[str, str], list[Event]] = {}
        purge: set[str] = set()
        arrived: list[Arrival] = self._vault.local.store.arrived(place, MAX_EVENTS)
        for arrival in arrived:
            event = arrival.event
            if size and size + _size(event) > MAX_BYTES:
                break  # others read no more than this at once
            if event.type in ERASING and self._is_own(event.session, event.writer):
                purge.add(event.session)
            streams.setdefault((event.session, event.writer), []).append(event)
            size += _size(event)
            place = arrival.place
        more = bool(arrived) and (place < arrived[-1].place or len(arrived) == MAX_EVENTS)
        due = (self._unpublished(session, writer, events_of) for (session, writer), events_of in streams.items())
        stretches = [piece for events_of in due for piece in sign_stretches(self._vault, events_of)]
        return Batch(stretches, place, frozenset(purge), 0, more)

    def _next_of_share(self, own: Published, session: str, *, events: bool) -> Batch:
        """The next batch of a share's vault, which holds one session only."""
        vault, store = self._vault, self._vault.local.store
        latest = store.latest_place()
        if latest == own.place and own.tips == tuple(sorted(vault.membership.tips)):
            return Batch([], own.place, frozenset(), own.erasures, more=False)
        streams: dict[tuple[str, str], list[Event]] = {}
        erasures = 0
        for event in store.events(session):
            erasures += event.type in ERASING and self._is_own(session, event.writer)
            streams.setdefault((event.session, event.writer), []).append(event)
        stretches: list[Stretch] = []
        size, more = 0, False
        for (_, writer), events_of in streams.items() if events else ():
            due = self._unpublished(session, writer, events_of)
            batch = []
            for event in sorted(due, key=lambda event: event.seq):
                more = size > 0 and size + _size(event) > MAX_BYTES
                if more:
                    break
                batch.append(event)
                size += _size(event)
            stretches += sign_stretches(vault, batch)
            if more:
                break
        purge = frozenset({session} if erasures > own.erasures else ())
        place = latest if events and not more else own.place
        return Batch(stretches, place, purge, erasures, more)

    def _unpublished(self, session: str, writer: str, events: list[Event]) -> list[Event]:
        """The events of a stream that we may publish here and that are not there yet."""
        if not (self._in_scope(session) and self._may_vouch(writer) and self._is_own(session, writer)):
            return []
        events = self._without_unsound(session, writer, events)
        known = self._known.get((session, writer))
        if known is None:
            vouched = self._vault.memory.vouched(session, writer)
            known = self._known[session, writer] = vouched.by_members(self._vault.membership)
        due = [event for event in events if event.seq > known]
        if len(due) < len(events) and certifies(writer, self._vault.local.keys.public.signing):
            due += self._fork_events(session, writer, [event for event in events if event.seq <= known])
        return due

    def _is_own(self, session: str, writer: str) -> bool:
        """Whether we may vouch for a stream: not if another team member wrote it into the store."""
        stream = session, writer
        if stream not in self._own_streams:
            store = self._vault.local.store
            members = origin.is_members(store, session)
            self._own_streams[stream] = not members and origin.is_own_stream(store, session, writer)
            if members:
                self.of_members.add(session)
            elif not self._own_streams[stream]:
                self.with_members.add(session)
        return self._own_streams[stream]

    def _without_unsound(self, session: str, writer: str, events: list[Event]) -> list[Event]:
        """The events that we may vouch for: not those that other people had no right to write."""
        if certifies(writer, self._vault.local.keys.public.signing):
            return events
        if session not in self._unsound:
            unsound = self._vault.local.store.unsound(session)
            self._unsound[session] = frozenset() if unsound is None else unsound.rows
        return [event for event in events if row_key(event) not in self._unsound[session]]

    def _fork_events(self, session: str, writer: str, events: list[Event]) -> list[Event]:
        """Events that differ from published ones with the same number: a copy of this home continued as well."""
        seqs = [event.seq for event in self._vault.local.store.stream(session, writer, 1, MAX_SAFE_INTEGER)]
        if len(set(seqs)) == len(seqs):
            return []
        self.forked.add((session, writer))
        fork = min(seq for seq, after in pairwise(seqs) if seq == after)
        published = self._vault.memory.forks(session, writer)
        return [event for event in events if event.seq >= fork and event.hash not in published]

    def _may_vouch(self, writer: str) -> bool:
        allowed = self._vouchable.get(writer)
        if allowed is None:
            allowed = self._vouchable[writer] = may_vouch(self._vault.membership, self._vault.me, writer)
        return allowed

    def _in_scope(self, session: str) -> bool:
        in_scope = self._scope.get(session)
        if in_scope is None:
            # Others would reject the whole pack because of a session id that is not valid.
            in_scope = re.match(packs.SESSION, session) is not None
            in_scope = in_scope and session not in self._earlier and self._vault.membership.session in (None, session)
            if in_scope and self._projects:
                in_scope = self._is_project_sent(session)
            self._scope[session] = in_scope
        return in_scope

    def _is_project_sent(self, session: str) -> bool:
        """Whether its project is sent there. A deleted session has none: it is sent where it was before."""
        state = self._vault.local.store.state(session)
        if state is not None and state.project is not None:
            return state.project.id in self._projects
        known = any(True for _ in self._vault.memory.streams(session))
        return state is not None and (known or not state.deleted)

    # ── streams of removed devices ───────────────────────────────────────────────────────────────────

    def streams_to_adopt(self) -> tuple[list[Stretch], bool]:
        """Streams that only removed devices vouch for, to be vouched for by us; and whether there are more."""
        vault, members = self._vault, self._vault.membership
        flagged = vault.memory.raw_under("adopt")
        stretches: list[Stretch] = []
        size = 0
        if not flagged or not members.is_admin(vault.me):
            return [], False
        for session, writer, known in vault.memory.streams():
            if not flagged.keys() & known.by.keys() or not self._is_own(session, writer):
                continue
            events = self._unadopted(
                session, writer, known.by_members(members), known.accepted(members, session, writer)
            )
            batch = []
            for event in events:
                if size and size + _size(event) > MAX_BYTES:
                    break
                batch.append(event)
                size += _size(event)
            stretches += sign_stretches(vault, batch)
            if len(batch) < len(events):
                return stretches, True
        return stretches, False

    def _unadopted(self, session: str, writer: str, vouched: int, last: int) -> list[Event]:
        """The events of a stream that no member vouches for, with an accepted branch."""
        store, memory = self._vault.local.store, self._vault.memory
        if memory.raw("branch", session, writer) is None:
            return store.stream(session, writer, vouched + 1, last) if vouched < last else []
        events: list[Event] = store.stream(session, writer, 1, last)
        return [event for event in events if event.seq > vouched] + self._fork_events(
            session, writer, [event for event in events if event.seq <= vouched]
        )


def _size(event: Event) -> int:
    return len(event.data or b"") + _ENVELOPE_BYTES


def may_vouch(members: Membership, device: str, writer: str) -> bool:
    """A member vouches for its own streams, an admin for all; anybody but guests for streams without keys."""
    member = members.members.get(device)
    if member is None:
        return False
    return (
        certifies(writer, member.keys.signing) or member.admin or not (is_certified(writer) or member.kind == "guest")
    )


def sign_stretches(vault: Vault, events: Iterable[Event]) -> list[Stretch]:
    """Stretches without gaps, each signed by us. Where a stream forks, each branch is one."""
    pieces: list[list[Event]] = []
    ends: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.seq):
        piece = ends.pop(event.prev, None) if event.prev is not None else None
        if piece is None:
            piece = []
            pieces.append(piece)
        piece.append(event)
        ends[event.hash] = piece
    return [_stretch(vault, piece) for piece in pieces]


def _stretch(vault: Vault, events: list[Event]) -> Stretch:
    last = events[-1]
    message = packs.stream_message(vault.id, last.session, last.writer, last.seq, last.hash)
    return Stretch(last.session, last.writer, vault.me, vault.local.keys.sign(STREAM, message), events)
