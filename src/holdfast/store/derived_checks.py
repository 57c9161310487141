"""Is everything derived what the log says? The checks of one session that are the same in every kind of store.

A kind of store reads its rows; here they are compared with what the events add up to.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core import view
from holdfast.core.clock import adjusted_clocks, log_position
from holdfast.core.envelope import Event
from holdfast.core.event_data import collect_erasures
from holdfast.core.events import TYPE_OF, searched_text
from holdfast.core.fold import apply, in_log_order, read_data, skip_duplicate
from holdfast.core.state import State, thaw
from holdfast.core.text import split_words
from holdfast.core.times import format_time
from holdfast.machine.wall import LATEST
from holdfast.store.chain_checks import flaws, forks, unentitled_erasure
from holdfast.store.interface import Damage, RowKey, row_key
from holdfast.store.summary import SessionSummary, summary


class StoredSession(NamedTuple):
    """What a store keeps of one session beside its events. None: it could not be read, and that was said already."""

    # Those of this fold version, by the number of events in them.
    snapshots: dict[int, bytes]
    # The columns of `Summary`, in its order.
    listed: tuple[object, ...] | None
    words: set[str] | None
    aliases: set[str] | None


def aside(session: str, writer: str, seq: int) -> str:
    """The name under which a store notes that a repair could not bring this event back."""
    return f"aside:{session}:{writer}:{seq}"


def findings(
    session: str,
    events: Sequence[tuple[Event, bool]],
    stored: StoredSession,
    known: Container[str] = (),
    authors: Mapping[RowKey, str] | None = None,
    unentitled: Sequence[Event] = (),
) -> Iterator[Damage]:
    """All that is wrong with a session: its events in any order, True with those marked as told twice before.

    `known` holds the names (`aside`) of what is missing since a repair. Where several people write: `authors` says
    who else put which event there, `unentitled` are erasures of what is not their author's.
    """
    clocks = adjusted_clocks(event for event, _ in events)
    log = sorted((event for event, _ in events), key=lambda event: log_position(event, clocks))
    if not log:
        yield Damage("listing", "the session has no events", session)
    for flaw in (*flaws(log), *map(unentitled_erasure, unentitled)):
        # What a repair could not bring back is known: it is no news, but still worth a word.
        repaired = flaw.damaged is None and aside(session, flaw.writer, flaw.seq) in known
        author = None if authors is None or flaw.damaged is None else authors.get(row_key(flaw.damaged))
        detail = flaw.detail if author is None else f"{flaw.detail} (put there by {author})"
        yield Damage("aside" if repaired else "chain", detail, session)
    for fork in forks(log):
        yield Damage("copies", fork.detail, session)
    deleted = any(event.type == "session.deleted" for event in log)
    if deleted and any(event.data is not None for event in log if event.type != "session.deleted"):
        yield Damage("erasure", "the session was deleted, but data of it is still there", session)
    counting = {event.hash: event for event in in_log_order(log)}
    passed_over = {event.hash for event in unentitled}
    erased = collect_erasures(event for event in counting.values() if event.hash not in passed_over).hashes
    if any(event.data is not None and event.hash in erased for event in log):
        yield Damage("erasure", "events were erased, but data of them is still there", session)
    if any(double == (event.hash in counting) for event, double in events):
        yield Damage("state", "events are counted twice, or not at all", session)
    yield from _added_up(session, log, clocks, counting, stored)


def _added_up(
    session: str, log: list[Event], clocks: Mapping[str, int], counting: dict[str, Event], stored: StoredSession
) -> Iterator[Damage]:
    state, indexed = State(session=session), set[str]()
    sound: set[int] = set()
    for event in log:
        counted = counting.get(event.hash)
        if counted is None:
            skip_duplicate(state, event, clocks.get(event.hash))
        else:
            data = read_data(counted)
            apply(state, counted, data, clock=clocks.get(event.hash))
            if data is not None and TYPE_OF[type(data)].searched_fields:
                indexed.update(split_words(searched_text(TYPE_OF[type(data)], data)))
        count = state.count
        if count in stored.snapshots and count not in sound and _same(stored.snapshots[count], state):
            sound.add(count)
    for count in sorted(stored.snapshots.keys() - sound):
        yield Damage("state", f"the snapshot at event {count} differs from the log", session)
    if stored.listed is not None and all(stored.listed != row for row in _rows_of_earlier_versions(state)):
        yield Damage("listing", "the listing does not show what the log adds up to", session)
    if stored.words is not None and stored.words != (set() if state.deleted else indexed):
        yield Damage("search", "the search index does not hold the words of the log", session)
    if stored.aliases is not None and stored.aliases != (set() if state.deleted else set(view.lookup_names(state))):
        yield Damage("search", "the aliases are not those of the log", session)
    yield from _implausible(session, log, state)


def _implausible(session: str, log: list[Event], state: State) -> Iterator[Damage]:
    """Clocks that no machine with a right time gives, by writer. The log is in order all the same."""
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
    """The row as versions wrote it that knew no disconnected sessions, or did not let the person's messages cut
    agents' runs: nothing is wrong with it, and the next event brings it up to date.
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
