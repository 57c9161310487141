"""The hybrid logical clock: it orders the events of a session, and never goes back.

One whole number of microseconds. It follows the wall clock while that runs ahead, and otherwise counts on from the
largest value in the session. So an event is always later than every event its writer knew of, whatever the machines'
clocks say. It tells order, not time; `at` tells time.

A peer can write any clock. What orders is therefore the *effective* clock, a function of the log alone: the clock as
written, unless that is beyond `BOUND` or not after everything the event follows (`prev` and `seen`); then it is one
more than the largest effective clock among those. In a log that honest programs wrote, both are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.core.envelope import Event, Position
    from holdfast.core.state import State

# 2200-01-01. The same for everyone and for ever: devices that disagreed about it would order one log differently.
MAX_CLOCK: Final = 7_258_118_400_000_000


def tick(last: int, wall_micros: int) -> int:
    """The clock of the next event, after `last` (the largest effective one of its session) at this wall time.

    Beyond the bound it counts on by one. Whoever writes such an event names the last one of the session as seen: its
    effective clock is then what was written.
    """
    return max(last + 1, min(wall_micros, MAX_CLOCK), 1)


def adjusted_clocks(events: Iterable[Event]) -> dict[str, int]:
    """The effective clocks, by hash, of those events of a session whose written clock is another.

    What `prev` and `seen` name counts as far as it is among the events. A clock can move when what it names arrives.
    """
    known = {event.hash: event for event in events}
    found: dict[str, int] = {}
    for event in sorted(known.values(), key=lambda event: event.written):  # nearly always, causes come first
        waiting, visited = [event], set[str]()
        while waiting:
            one = waiting[-1]
            if one.hash in found:
                waiting.pop()
                continue
            causes = [cause for cause in predecessors(one) if cause in known]
            missing = [known[cause] for cause in causes if cause not in found]
            # Only damaged hashes can lead round in a circle: what was visited is not waited for again.
            if missing and one.hash not in visited:
                visited.add(one.hash)
                waiting += missing
                continue
            clock = one.clock if one.clock <= MAX_CLOCK else 1
            found[one.hash] = max([clock, *(found[cause] + 1 for cause in causes if cause in found)])
    return {name: clock for name, clock in found.items() if clock != known[name].clock}


def predecessors(event: Event) -> tuple[str | None, ...]:
    """The hashes of the events that this one directly comes after."""
    return (event.prev, *(head.hash for head in event.seen))


def log_position(event: Event, moved: Mapping[str, int]) -> Position:
    """Where the event stands in the log: the one order every device agrees on."""
    clock = moved.get(event.hash) if moved else None
    return event.written if clock is None else (clock, *event.written[1:])


def keeps_written_clock(state: State, event: Event) -> bool:
    """Whether this event, not in the state yet, comes after all that is and has the clock that it was written with.

    False also where only all events together could tell: then `moved` has to look at them.
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
