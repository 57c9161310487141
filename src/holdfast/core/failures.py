"""Failures of agents: categories, delays before a retry, and when to stop retrying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from holdfast.core.times import SECOND

Category = Literal["transient", "resource", "configuration", "logical", "permanent"]
CATEGORIES: tuple[Category, ...] = ("transient", "resource", "configuration", "logical", "permanent")

_WAITS = (0, 2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND)

OPENS_AFTER = 3  # consecutive failures of one agent type
STAYS_OPEN = 60 * SECOND
CLOSES_AFTER = 2  # successes after it was open


def delay_before(attempt: int) -> int:
    """Milliseconds to wait before the given attempt, counted from 1."""
    return _WAITS[min(max(attempt, 1), len(_WAITS)) - 1]


def category_of(
    code: int, *, signal: int | None = None, timed_out: bool = False, out_of_resources: bool = False
) -> Category:
    """The category of a command that failed, from how it ended."""
    if out_of_resources:
        return "resource"
    if timed_out or signal is not None or code < 0 or 128 < code < 160:
        return "transient"
    if code in (126, 127):
        return "configuration"
    if code == 77:
        return "permanent"
    return "logical"


class Attempt(NamedTuple):
    ended_at: int
    succeeded: bool


class Circuit(NamedTuple):
    """Whether agents of one type may run: `closed` yes, `open` not before `until`, `half-open` once."""

    state: Literal["closed", "open", "half-open"]
    until: int | None = None


def circuit(attempts: Sequence[Attempt], now: int) -> Circuit:
    """The circuit of one agent type after these attempts, oldest first."""
    tripped_at: int | None = None
    failures = successes = 0
    for attempt in attempts:
        if attempt.succeeded:
            failures = 0
            if tripped_at is None or attempt.ended_at >= tripped_at + STAYS_OPEN:
                successes += 1  # an attempt that ended while the circuit was open does not count
            if tripped_at is not None and successes >= CLOSES_AFTER:
                tripped_at = None
        else:
            failures += 1
            successes = 0
            if failures >= OPENS_AFTER or tripped_at is not None:
                tripped_at = attempt.ended_at
    if tripped_at is None:
        return Circuit("closed")
    if now < tripped_at + STAYS_OPEN:
        return Circuit("open", tripped_at + STAYS_OPEN)
    return Circuit("half-open")
