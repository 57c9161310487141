"""Check a session: whether its chains of events are intact, and whether everything derived follows from them.

Each kind of store reads its own rows; the rules are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core import view
from holdfast.core.clock import adjusted_clocks, log_position
from holdfast.core.envelope import Event, body_of, find_problem, hash_of
from holdfast.core.event_data import collect_erasures
from holdfast.core.events import TYPE_OF, searched_text
from holdfast.core.fold import apply, in_log_order, read_data, skip_duplicate
from holdfast.core.state import State, thaw
from holdfast.core.text import split_words
from holdfast.core.times import format_time
from holdfast.machine.wall import LATEST
from holdfast.store.interface import Damage, RowKey, row_key
from holdfast.store.tables import SessionSummary, summary

# ── chains ───────────────────────────────────────────────────────────────────────────────────────────────


class Flaw(NamedTuple):
    """What is wrong with which event of which stream."""

    writer: str
    seq: int
    detail: str
    # Set if the event itself is damaged: repairing sets it aside.
    damaged: Event | None = None


def flaws(events: Iterable[Event]) -> Iterator[Flaw]:
    """Every flaw in the streams of one session, given in log order."""
    streams: dict[str, list[Event]] = {}
    for event in events:
        streams.setdefault(event.writer, []).append(event)
    for writer, stream in streams.items():
        stream.sort(key=lambda event: (event.seq, event.clock, event.hash))
        yield from _stream(writer, stream)


def unentitled_erasure(event: Event) -> Flaw:
    """The flaw of an erasure that its author had no right to."""
    detail = f"event {event.seq} would erase events of another person, and is ignored"
    return Flaw(event.writer, event.seq, detail, event)


def repair_candidates(event: Event, before: Iterable[str], is_named: Callable[[str], bool]) -> Iterator[Event]:
    """Guesses at what a damaged event was. Most of the log is redundant: a digest can be computed again, a hash is
    that of the event before, or the next event repeats it. The event's own hash tells which guess is right.

    `before` are the hashes of the events before it in its stream; `is_named` tells whether an event names a hash as
    its predecessor.
    """
    if event.data is not None and event.salt is not None:
        yield msgspec.structs.replace(event, body=body_of(event.data, event.salt))
    for name in before:
        yield msgspec.structs.replace(event, prev=name)
    yield msgspec.structs.replace(event, prev=None)
    computed = hash_of(event)
    if is_named(computed):
        yield msgspec.structs.replace(event, hash=computed)


def forks(events: Iterable[Event]) -> Iterator[Flaw]:
    """Where a stream forks, because two copies of one home wrote. Both branches are intact, and count."""
    places: dict[str, dict[int, list[Event]]] = {}
    for event in events:
        places.setdefault(event.writer, {}).setdefault(event.seq, []).append(event)
    for writer, numbers in places.items():
        for seq, events_at in sorted(numbers.items()):
            if len(events_at) > 1 and len({event.hash for event in events_at if find_problem(event) is None}) > 1:
                detail = f"two copies of one home both continued from event {seq - 1} of {writer}; both are kept"
                yield Flaw(writer, seq, detail)
                break


def _stream(writer: str, stream: list[Event]) -> Iterator[Flaw]:
    hashes: dict[int, set[str | None]] = {0: {None}}
    expected = 1
    for event in stream:
        problem = find_problem(event)
        if problem is not None:
            yield Flaw(writer, event.seq, f"event {event.seq} is damaged: {problem}", event)
            if hash_of(event) != event.hash:
                continue  # its position in the stream cannot be trusted either
        elif event.hash in hashes.get(event.seq, ()):
            yield Flaw(writer, event.seq, f"event {event.seq} is stored twice", event)
        if event.seq > expected:
            last = event.seq - 1
            numbers = f"event {expected} is" if last == expected else f"events {expected} to {last} are"
            yield Flaw(writer, expected, f"{numbers} missing")
        elif problem is None and event.prev not in hashes.get(event.seq - 1, {event.prev}):
            yield Flaw(writer, event.seq, f"event {event.seq} does not follow event {event.seq - 1}")
        hashes.setdefault(event.seq, set()).add(event.hash)
        expected = max(expected, event.seq + 1)


# ── what is derived ──────────────────────────────────────────────────────────────────────────────────────


class StoredSession(NamedTuple):
    """What a store holds of one session besides its events. None where it could not be read, which is reported."""

    # Snapshots of this fold version, by their number of events.
    snapshots: dict[int, bytes]
    # The columns of `SessionSummary`, in its order.
    listed: tuple[object, ...] | None
    words: set[str] | None
    aliases: set[str] | None


def missing_event_name(session: str, writer: str, seq: int) -> str:
    """The name under which a store notes that a repair could not bring this event back."""
    return f"aside:{session}:{writer}:{seq}"


def session_damage(
    session: str,
    events: Sequence[tuple[Event, bool]],
    stored: StoredSession,
    known: Container[str] = (),
    authors: Mapping[RowKey, str] | None = None,
    unentitled: Sequence[Event] = (),
) -> Iterator[Damage]:
    """All that is wrong with a session, given its events in any order, True with those marked as duplicates.

    `known` holds the names (`missing_event_name`) of what is missing since a repair. Where several people write,
    `authors` tells who else recorded which event, and `unentitled` are erasures that their authors had no right to.
    """
    clocks = adjusted_clocks(event for event, _ in events)
    log = sorted((event for event, _ in events), key=lambda event: log_position(event, clocks))
    if not log:
        yield Damage("listing", "the session has no events", session)
    for flaw in (*flaws(log), *map(unentitled_erasure, unentitled)):
        # Events that a repair could not restore are known to be missing: only a warning.
        repaired = flaw.damaged is None and missing_event_name(session, flaw.writer, flaw.seq) in known
        author = None if authors is None or flaw.damaged is None else authors.get(row_key(flaw.damaged))
        detail = flaw.detail if author is None else f"{flaw.detail} (recorded by {author})"
        yield Damage("aside" if repaired else "chain", detail, session)
    for fork in forks(log):
        yield Damage("copies", fork.detail, session)
    deleted = any(event.type == "session.deleted" for event in log)
    if deleted and any(event.data is not None for event in log if event.type != "session.deleted"):
        yield Damage("erasure", "the session was deleted, but not all of its data is erased", session)
    counting = {event.hash: event for event in in_log_order(log)}
    passed_over = {event.hash for event in unentitled}
    erased = collect_erasures(event for event in counting.values() if event.hash not in passed_over).hashes
    if any(event.data is not None and event.hash in erased for event in log):
        yield Damage("erasure", "events were erased, but not all of their data", session)
    if any(double == (event.hash in counting) for event, double in events):
        yield Damage("state", "events are counted twice, or not at all", session)
    yield from _check_derived_data(session, log, clocks, counting, stored)


def _check_derived_data(
    session: str, log: list[Event], clocks: Mapping[str, int], counting: dict[str, Event], stored: StoredSession
) -> Iterator[Damage]:
    state, indexed = State(session=session), set[str]()
    sound: set[int] = set()
    for event in log:
        effective = counting.get(event.hash)
        if effective is None:
            skip_duplicate(state, event, clocks.get(event.hash))
        else:
            data = read_data(effective)
            apply(state, effective, data, clock=clocks.get(event.hash))
            if data is not None and TYPE_OF[type(data)].searched_fields:
                indexed.update(split_words(searched_text(TYPE_OF[type(data)], data)))
        count = state.count
        if count in stored.snapshots and count not in sound and _same(stored.snapshots[count], state):
            sound.add(count)
    for count in sorted(stored.snapshots.keys() - sound):
        yield Damage("state", f"the snapshot at event {count} differs from the log", session)
    if stored.listed is not None and all(stored.listed != row for row in _rows_of_earlier_versions(state)):
        yield Damage("listing", "the listing does not match the log", session)
    if stored.words is not None and stored.words != (set() if state.deleted else indexed):
        yield Damage("search", "the search index does not match the log", session)
    if stored.aliases is not None and stored.aliases != (set() if state.deleted else set(view.lookup_names(state))):
        yield Damage("search", "the aliases are not those of the log", session)
    yield from _implausible(session, log, state)


def _implausible(session: str, log: list[Event], state: State) -> Iterator[Damage]:
    """Clocks that no machine with the right time gives, by writer. The order of the log is not affected."""
    absurd: dict[str, list[int]] = {}
    for event in log:
        if event.clock > LATEST * 1000:
            absurd.setdefault(event.writer, []).append(event.clock)
    for writer, clocks in absurd.items():
        count, largest = f"{len(clocks)} event{'s' * (len(clocks) > 1)}", max(clocks)
        device = state.devices.get(writer) or "unknown device"
        detail = (
            f"{count} of {device} (writer {writer}) with a clock of {format_time(largest // 1000)[:10]} ({largest})"
        )
        yield Damage("clocks", detail, session)


def _rows_of_earlier_versions(state: State) -> Iterator[SessionSummary]:
    """The row, and rows as earlier versions wrote it, without disconnected sessions or without messages that cut
    agents' runs. Those are not wrong, and the next event brings them up to date.
    """
    uncut = replace(state, time=replace(state.time, attended=[]))
    for row in (summary(state), summary(uncut)):
        yield row
        yield row._replace(status=view.status_of(state))


def _same(frozen: bytes, state: State) -> bool:
    try:
        return thaw(frozen) == state
    except (msgspec.MsgspecError, TypeError, ValueError):
        return False
