"""The hybrid logical clock: it orders the events of a session, and never goes back.

A number of microseconds. It follows the wall clock while that is ahead, and otherwise counts on from the largest
value in the session. So an event is later than every event its writer knew of, whatever the machines' clocks say. It
gives the order of events; `at` gives their time.

A peer can write any clock. So events are ordered by the *effective* clock, a function of the log alone: the clock as
written, unless it exceeds `MAX_CLOCK` or is not after everything the event follows (`prev` and `seen`); then it is
one more than the largest effective clock of those. In a log that honest programs wrote, the two are always the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.core.envelope import Event, Position
    from holdfast.core.state import State

# 2200-01-01. Never to be changed: devices that disagree about it would order one log differently.
MAX_CLOCK: Final = 7_258_118_400_000_000


def tick(last: int, wall_micros: int) -> int:
    """The clock of the next event, after `last` (the largest effective one of its session) at this wall time.

    Beyond `MAX_CLOCK` it counts on by one. The writer of such an event names the session's last event as seen, so its
    effective clock is the written one.
    """
    return max(last + 1, min(wall_micros, MAX_CLOCK), 1)


def adjusted_clocks(events: Iterable[Event]) -> dict[str, int]:
    """The effective clocks, by hash, of the events of a session that were written with another clock.

    Only events that are given count for `prev` and `seen`; a clock can change when one that it names arrives.
    """
    known = {start.hash: start for start in events}
    effective: dict[str, int] = {}
    for start in sorted(
        known.values(), key=lambda start: start.written
    ):  # an event's predecessors nearly always come first
        waiting, visited = [start], set[str]()
        while waiting:
            event = waiting[-1]
            if event.hash in effective:
                waiting.pop()
                continue
            causes = [cause for cause in predecessors(event) if cause in known]
            missing = [known[cause] for cause in causes if cause not in effective]
            # Only damaged hashes can form a cycle: visit no event twice.
            if missing and event.hash not in visited:
                visited.add(event.hash)
                waiting += missing
                continue
            clock = event.clock if event.clock <= MAX_CLOCK else 1
            effective[event.hash] = max([clock, *(effective[cause] + 1 for cause in causes if cause in effective)])
    return {name: clock for name, clock in effective.items() if clock != known[name].clock}


def predecessors(event: Event) -> tuple[str | None, ...]:
    """The hashes of the events that this one directly follows."""
    return (event.prev, *(head.hash for head in event.seen))


def log_position(event: Event, moved: Mapping[str, int]) -> Position:
    """The event's position in the log, the order that every device agrees on."""
    clock = moved.get(event.hash) if moved else None
    return event.written if clock is None else (clock, *event.written[1:])


def keeps_written_clock(state: State, event: Event) -> bool:
    """Whether this new event follows all events in the state, with the clock it was written with.

    Also False if the state alone cannot tell: then `adjusted_clocks` has to look at all events.
    """
    if state.last is None:
        return event.clock <= MAX_CLOCK
    last_clock, _, _, last_hash = state.last
    if event.clock <= last_clock:
        return False
    if event.clock > MAX_CLOCK and (event.clock != last_clock + 1 or last_hash not in predecessors(event)):
        return False
    head = state.heads.get(event.writer)
    if head is not None and head.seq >= event.seq:
        return False
    return not any(seen.get(event.writer, 0) >= event.seq for seen in state.seen.values())
