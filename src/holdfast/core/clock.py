"""The hybrid logical clock: it orders events, and never goes back.

One whole number of microseconds. It follows the wall clock while that runs ahead, and otherwise counts on from
the largest value it has seen, its own or a received one. So an event is always later than every event its
writer knew of, whatever the machines' clocks say. It tells order, not time; `at` tells time.
"""

from __future__ import annotations

from holdfast.core.canonical import LARGEST


def tick(last: int, wall_micros: int) -> int:
    """The clock of the next event, after `last` (the largest known) at this wall time."""
    return min(max(last + 1, wall_micros, 1), LARGEST)
