"""Events in the order in which they can have happened.

A document tells its things list by list, with times here and there. A story puts them in order of time, causes
before effects, the session's own fate last, and nothing before the beginning or after now.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.events import EventData
from holdfast.formats.base import TimedEvent

# Within one moment: the beginning, whatever happened, errors in their own order, how the session stands afterwards.
FIRST: Final = 0
ORDINARY: Final = 1
ERRORS: Final = 2
LAST: Final = 3


class EventOrder:
    def __init__(self, begin: int, now: int) -> None:
        self._begin = min(begin, now)
        self._now = now
        self._told: list[tuple[int, int, int, int, EventData]] = []

    @property
    def latest(self) -> int:
        return max((line[0] for line in self._told), default=self._begin)

    def bounded(self, at: int) -> int:
        return min(max(at, self._begin), self._now)

    def tell(self, at: int, data: EventData, rank: int = ORDINARY, position: int = 0) -> int:
        """Returns when it happened: `at`, unless that is impossible."""
        when = self.bounded(at)
        self._told.append((when, rank, position, len(self._told), data))
        return when

    def heard(self) -> list[TimedEvent]:
        return [TimedEvent(line[0], line[4]) for line in sorted(self._told, key=lambda one: one[:4])]

    def __bool__(self) -> bool:
        return bool(self._told)
