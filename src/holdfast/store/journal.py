"""Record events, in the same way for every kind of store: chain, clock, causality, fold, search, snapshots.

A kind of store brings the tables (`store.tables`), the journal the rules. States are cached between transactions and
trusted only while the session's version in the tables is the one they were folded to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from holdfast.core import view
from holdfast.core.canonical import MAX_SAFE_INTEGER, canonical_json
from holdfast.core.clock import MAX_CLOCK, adjusted_clocks, keeps_written_clock, log_position, tick
from holdfast.core.envelope import Event, StreamHead, find_problem, make_event
from holdfast.core.errors import Damaged, NotFound
from holdfast.core.event_data import ERASING, collect_erasures, with_data_or_replacement
from holdfast.core.events import TYPE_OF, EventData, EventErased, ProjectFacts, SessionDeleted, searched_text
from holdfast.core.fold import apply, read_data, skip_duplicate
from holdfast.core.state import State, freeze, thaw
from holdfast.core.text import MAX_NAME_LENGTH, split_words
from holdfast.store import origin
from holdfast.store.interface import Draft, KnownProject
from holdfast.store.tables import StoredState, Tables, is_due, snapshots_to_keep, summary

_MAX_CACHED = 64
_HASH = re.compile("[0-9a-f]{64}").fullmatch


class _CachedState(NamedTuple):
    version: int
    state: State
    snapshot_at: int
    snapshot_size: int
    # What the session is looked up by, as last written; None when that is unknown.
    names: tuple[object, ...] | None = None


class Journal:
    def __init__(
        self, tables: Tables, *, writer: Callable[[], str], wall: Callable[[], int], salt: Callable[[], bytes]
    ) -> None:
        self._tables = tables
        self.writer = writer
        self._wall = wall
        self._salt = salt
        self._cached: dict[str, _CachedState] = {}
        self._changed: set[str] = set()
        # Those of them that were folded from all events again.
        self._rebuilt: set[str] = set()
        # Written but perhaps not committed: if that fails, their cached states are wrong.
        self._flushed: set[str] = set()
        # Sessions whose version was looked up: within a transaction, no other process changes it.
        self._writing = False
        self._current: set[str] = set()
        # Data was dropped from rows: the store must erase its bytes too.
        self.erased = False

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────

    def state(self, session: str) -> State:
        cached = self._cached.get(session)
        if cached is not None and session in self._current:
            return cached.state
        if self._writing:
            self._current.add(session)
        version = self._tables.version(session)
        if cached is not None and cached.version == version:
            return cached.state
        if cached is not None and self._can_catch_up(cached, version):
            self._cached[session] = cached._replace(version=version, names=None)
            return cached.state
        cached = self._load(session, version)
        self._make_room()
        self._cached[session] = cached
        return cached.state

    def existing(self, session: str) -> State | None:
        """The state of a session that has events; None for any other."""
        state = self.state(session)
        return None if state.last is None else state

    def _can_catch_up(self, cached: _CachedState, version: int) -> bool:
        """Whether a cached state could be brought up to date with the events of others, by changing it in place.

        Only in a transaction, which changes cached states in place anyway.
        """
        return (
            self._writing
            and cached.state.last is not None
            and 0 < cached.version < version
            and self._tables.only_added(cached.state.session, cached.version)
            and self._catch_up(cached.state)
        )

    def _make_room(self) -> None:
        while len(self._cached) >= _MAX_CACHED:
            stale = next((name for name in self._cached if name not in self._changed), None)
            if stale is None:
                break
            del self._cached[stale]

    def _load(self, session: str, version: int) -> _CachedState:
        if version <= 0:
            return _CachedState(version, State(session=session), 0, 0)
        for snapshot in self._tables.snapshots(session):
            try:
                state = thaw(snapshot.frozen)
            except (msgspec.MsgspecError, RecursionError, ValueError):
                continue  # damaged, as doctor reports: use an older one, or the log itself
            if state.session != session or state.last is None:
                continue  # not written by this program: other members of a team can write here
            if self._catch_up(state):
                return _CachedState(version, state, snapshot.events, len(snapshot.frozen))
            break
        state = State(session=session)
        return _CachedState(version, state if self._catch_up(state) else self._fold_all(session), 0, 0)

    def _catch_up(self, state: State) -> bool:
        """Add the events after a snapshot, or all events to an empty state.

        False if that is not enough: part of the snapshot is erased, or an event is not placed by its written clock.
        """
        snapshot = state.last
        for event, double in self._tail_with_replacements(state.session, snapshot[0] if snapshot else 0):
            if event.hash in state.moved or (snapshot is not None and event.written <= snapshot):
                continue
            if snapshot is not None and event.type == "event.erased" and not double:
                return False
            if not keeps_written_clock(state, event):
                return False
            (skip_duplicate if double else apply)(state, event)
        return True

    def _fold_all(self, session: str) -> State:
        """The state folded from all events in order of their effective clocks, where that is not the rows' order."""
        rows = list(self._tail_with_replacements(session, 0))
        clocks = adjusted_clocks(event for event, _ in rows)
        state = State(session=session)
        for event, double in sorted(rows, key=lambda row: log_position(row[0], clocks)):
            if double:
                skip_duplicate(state, event, clocks.get(event.hash))
            else:
                apply(state, event, clock=clocks.get(event.hash))
        return state

    def events(self, session: str, since: int) -> list[Event]:
        """The events in log order, from this effective clock on."""
        clocks = self.state(session).moved
        if not clocks:
            return [event for event, _ in self._tables.tail(session, since)]
        events = [event for event, _ in self._tables.tail(session, 0)]
        placed = sorted((log_position(event, clocks), event) for event in events)
        return [event for (clock, *_), event in placed if clock >= since]

    def _tail_with_replacements(self, session: str, clock: int) -> Iterable[tuple[Event, bool]]:
        """The tail, with replacements for erased events: these are looked up at the first erased event."""
        instead: Mapping[str, bytes] | None = None
        for event, double in self._tables.tail(session, clock):
            if event.data is not None or double:
                yield event, double
                continue
            if instead is None:
                instead = collect_erasures(self._erasures(session)).instead
            yield with_data_or_replacement(event, instead), double

    def _erasures(self, session: str) -> list[Event]:
        """In log order; the order of effective clocks matters only where an erasure was erased itself."""
        events = list(self._tables.erasures(session))
        if len(events) > 1 and any(event.data is None for event in events):
            clocks = adjusted_clocks(event for event, _ in self._tables.tail(session, 0))
            events.sort(key=lambda event: log_position(event, clocks))
        return events

    def begin(self) -> None:
        """A transaction has begun."""
        self._writing = True
        self._current.clear()
        self._flushed.clear()
        self.erased = False

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────

    def record(self, session: str, draft: Draft) -> Event | None:
        key = None if draft.key is None else self.free_key(session, draft.key)
        if key is None and draft.key is not None:
            return None
        state = self.state(session)
        if state.deleted and not isinstance(draft.data, SessionDeleted):
            raise NotFound("there is no such session", session=session)
        writer = self.writer()
        kind = TYPE_OF[type(draft.data)]
        own = state.heads.get(writer)
        clock = tick(state.last[0] if state.last else 0, self._wall())
        event = make_event(
            session=session,
            writer=writer,
            seq=own.seq + 1 if own else 1,
            prev=own.hash if own else None,
            clock=clock,
            at=draft.at,
            actor=draft.actor,
            type=kind.name,
            version=kind.version,
            data=canonical_json(msgspec.to_builtins(draft.data)),
            salt=self._salt(),
            seen=_unseen_heads(state, writer, clock),
            key=key,
        )
        self._tables.insert((event,))
        self._changed.add(session)
        apply(state, event)  # read from its bytes, as other devices do: -0.0 becomes 0 there
        searched = _words(draft.data)
        if searched:
            self._tables.add_words(session, searched)
        if isinstance(draft.data, (EventErased, SessionDeleted)):
            self.refold(session)
        return event

    def free_key(self, session: str, key: str) -> str | None:
        """The key to record something under; None when it is recorded already.

        Of equal keys the first counts, and a guest can use any key beforehand. What only guests recorded is recorded
        again under the key with the first free number, which is the same on every device of the owner.
        """
        tables, number, candidate = self._tables, 0, key
        while tables.has_key(session, candidate):
            if tables.recorded_by(session, candidate) - origin.guests(tables, session):
                return None
            number += 1
            candidate = f"{key}+{number}"
        return candidate

    def receive(self, events: Iterable[Event]) -> int:
        """Check each event by itself, insert all of them, and update their sessions."""
        by_session: dict[str, list[Event]] = {}
        for event in events:
            problem = _storage_problem(event) or find_problem(event)
            if problem is not None:
                raise Damaged(f"an event was refused: {problem}", session=event.session)
            by_session.setdefault(event.session, []).append(event)
        return sum(self._insert_events(session, group) for session, group in by_session.items())

    def _insert_events(self, session: str, events: list[Event]) -> int:
        """Insert events of one session: added to its state if they come after it, else it is folded again."""
        tables = self._tables
        unique = {event.hash: event for event in events}
        new = sorted(tables.missing(session, list(unique.values())), key=lambda event: event.written)
        if not new:
            return 0
        state = self.state(session)
        only_adds = self._only_adds(state, new)
        self._changed.add(session)  # from here on the cached state changes, even if the transaction fails
        tables.insert(new)
        if not (only_adds and self._extend_state(state, new)):
            # An erasure may name any earlier event, and its replacement changes all that follows.
            self.refold(session, 0 if any(event.type in ERASING for event in new) else new[0].clock)
        return len(new)

    def _only_adds(self, state: State, new: list[Event]) -> bool:
        """Whether these events only add to the session: no key recurs, and nothing is erased."""
        if state.deleted or state.erasing:
            return False
        keys = [event.key for event in new if event.key is not None]
        return (
            len(set(keys)) == len(keys)
            and not any(event.type in ERASING for event in new)
            and not self._tables.has_any_key(state.session, keys)
        )

    def _extend_state(self, state: State, new: list[Event]) -> bool:
        """Apply these events to the state; False at the first that does not come after all events in it."""
        searched: set[str] = set()
        for event in new:
            if not keeps_written_clock(state, event):
                return False
            data = read_data(event)
            apply(state, event, data)
            if data is not None:
                searched.update(_words(data))
        if searched:
            self._tables.add_words(state.session, sorted(searched))
        return True

    def withdraw(self, session: str, after: Mapping[str, int]) -> list[Event]:
        """Remove the ends of streams from the log. Rare, so everything is derived again from what is left."""
        tail = self._tables.tail(session, 0)
        withdrawn = [event for event, _ in tail if event.seq > after.get(event.writer, MAX_SAFE_INTEGER)]
        if not withdrawn:
            return []
        self._tables.remove(withdrawn)
        self.refold(session)
        if self._cached[session].state.last is None:
            self._tables.clear_places(session)
        return sorted(withdrawn, key=lambda event: (event.writer, event.seq))

    def refold(self, session: str, clock: int = 0) -> None:
        """Derive a session again: its state from the last snapshot before `clock`, its words from `clock` on."""
        tables = self._tables
        self._rebuilt.add(session)
        tables.drop_snapshots(session, clock)
        if tables.mark_duplicates(session):
            clock = 0
            tables.drop_snapshots(session, 0)  # by effective clock, the duplicates may be anywhere
        if self._apply_erasures(session):
            clock = 0
        if not clock:
            tables.drop_words(session)
        self._cached[session] = self._load(session, abs(tables.version(session)) or 1)
        if self._cached[session].state.moved and not self._cached[session].snapshot_at:
            tables.drop_snapshots(session, 0)  # they may lack events that come before their ends
        self._changed.add(session)
        self._current.add(session)
        searched: set[str] = set()
        for event, double in self._tail_with_replacements(session, clock):
            data = None if double else read_data(event)
            if data is not None:
                searched.update(_words(data))
        if searched:
            tables.add_words(session, sorted(searched))

    def _apply_erasures(self, session: str) -> bool:
        """Drop the data that the log erases, whenever it arrived; True if there was any."""
        dropped = False
        while True:  # the replacement of an erasure may name more events
            erasures = self._erasures(session)
            deleted = any(event.type == "session.deleted" for event in erasures)
            erased = None if deleted else collect_erasures(erasures).hashes
            if (not deleted and not erased) or not self._tables.erase_data(session, erased):
                break
            dropped = self.erased = True
        return dropped

    def flush(self) -> None:
        """Write what the transaction changed. Called once, just before it commits."""
        for session in self._changed:
            cached = self._cached[session]
            state = cached.state
            # A session whose events were all withdrawn keeps counting, below zero, so that caches notice.
            version = abs(cached.version) + 1 if state.last is not None else -abs(cached.version) - 1
            listed = summary(state)
            self._tables.save(session, version, listed, rebuilt=session in self._rebuilt)
            names = view.lookup_names(state)
            written = (listed.project, listed.created_at, listed.deleted, *names)
            if written != cached.names:
                self._tables.save_names(session, listed, names)
            at, size = cached.snapshot_at, cached.snapshot_size
            if is_due(state.count - at, size) and not state.deleted and state.last is not None:
                snapshot = StoredState(state.count, freeze(state))
                self._tables.save_snapshot(session, snapshot, state.last[0], snapshots_to_keep)
                at, size = snapshot.events, len(snapshot.frozen)
            self._cached[session] = _CachedState(version, state, at, size, written)
        self._flushed |= self._changed
        self._changed.clear()
        self._rebuilt.clear()
        self._current.clear()
        self._writing = False
        self._make_room()

    def being_changed(self) -> frozenset[str]:
        """The sessions that the transaction under way has changed so far."""
        return frozenset(self._changed)

    def changed(self) -> frozenset[str]:
        """The sessions that the last transaction changed."""
        return frozenset(self._flushed)

    def forget(self) -> None:
        """The transaction failed: what was folded in memory did not happen."""
        for session in self._changed | self._flushed:
            self._cached.pop(session, None)
        self._changed.clear()
        self._rebuilt.clear()
        self._current.clear()
        self._writing = False


def _storage_problem(event: Event) -> str | None:
    """Why an event cannot even be stored; None if it can."""
    if not all(0 < number <= MAX_SAFE_INTEGER for number in (event.clock, event.seq, event.v)):
        return "its clock, number or version is out of range"
    hashes = (event.body, event.hash, event.hash if event.prev is None else event.prev)
    if not all(map(_HASH, hashes)) or (event.data is None and event.salt is not None):
        return "it has no hash, or a salt without data"
    if not 0 < len(event.writer) <= MAX_NAME_LENGTH:
        return "its writer has no name, or one that is too long"
    if not all(0 < head.seq <= MAX_SAFE_INTEGER for head in event.seen):
        return "the heads it has seen are out of range"
    return None


def _words(data: EventData) -> list[str]:
    kind = TYPE_OF[type(data)]
    return split_words(searched_text(kind, data)) if kind.searched_fields else []


def _unseen_heads(state: State, writer: str, clock: int) -> tuple[StreamHead, ...]:
    """The heads of other streams that moved since this writer's previous event; beyond the bound also the last event,
    which the clock continues from.
    """
    if len(state.heads) < 2 and writer in state.heads and clock <= MAX_CLOCK:
        return ()
    known_numbers = state.seen.get(writer, {})
    heads = {
        head
        for head in state.heads.values()
        if head.writer != writer and head.seq > known_numbers.get(head.writer, 0)
    }
    if clock > MAX_CLOCK and state.last is not None:
        last = StreamHead(*state.last[1:])
        if last != state.heads.get(writer):
            heads.add(last)
    return tuple(sorted(heads))


# ── a transaction ────────────────────────────────────────────────────────────────────────────────────────


def evidence_of(project: ProjectFacts) -> KnownProject:
    """A project with its evidence. Part of a repository has other evidence than the whole."""
    pieces = [("path", project.path), ("remote", project.remote), *(("root", root) for root in project.roots)]
    return KnownProject(
        project.id,
        project.name,
        tuple(
            (kind, f"{value}\n{project.inside}" if kind != "path" and project.inside else value)
            for kind, value in pieces
            if value
        ),
    )


_Tables = TypeVar("_Tables", bound=Tables)


class JournalTransaction(Generic[_Tables]):
    """The part of a transaction that every kind of store shares; each adds how it begins and ends."""

    def __init__(self, journal: Journal, tables: _Tables) -> None:
        self._journal = journal
        self._tables = tables

    def writer(self) -> str:
        return self._journal.writer()

    def state(self, session: str) -> State:
        return self._journal.state(session)

    def record(self, session: str, draft: Draft) -> Event | None:
        return self._journal.record(session, draft)

    def knows(self, session: str, key: str) -> bool:
        return self._journal.free_key(session, key) is None

    def expect(self, session: str, keys: Iterable[str]) -> None:
        self._tables.expect(session, keys)

    def withdraw(self, session: str, after: Mapping[str, int]) -> list[Event]:
        return self._journal.withdraw(session, after)

    def changed(self) -> frozenset[str]:
        return self._journal.changed()

    def remembered(self, name: str) -> bytes | None:
        return self._tables.remembered(name)

    def remember(self, name: str, value: bytes | None) -> None:
        self._tables.remember(name, value)

    def remember_project(self, project: ProjectFacts) -> None:
        self.remember_evidence(evidence_of(project))

    def remember_evidence(self, known: KnownProject) -> None:
        raise NotImplementedError
