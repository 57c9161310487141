"""Sessions that overlap: a person cannot work twice at once.

Time in which several sessions of one person were worked on counts for the session with the person's latest message.
So rows by day, project or session add up to the total, and nothing is counted twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from holdfast.core.event_data import read_data
from holdfast.core.events import MessageExchanged
from holdfast.sessions.ownership import own_test
from holdfast.store import origin

if TYPE_CHECKING:
    from holdfast.sessions.hours.table import SessionHours
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace

# The times of the person's messages in a session, in order.
Messages: TypeAlias = Callable[[str], Sequence[int]]


class Overlap(NamedTuple):
    """Time worked in this session that counts for another one."""

    hours: SessionHours
    since: int
    until: int


class OverlapTimeline:
    """Which session each moment counts for: disjoint stretches, in order."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._known: dict[str, Sequence[int]] = {}
        self._since: list[int] = []
        self._until: list[int] = []
        self._owners: list[SessionHours] = []

    def copy(self) -> OverlapTimeline:
        other = OverlapTimeline(self._messages)
        other._known = self._known
        other._since, other._until, other._owners = list(self._since), list(self._until), list(self._owners)
        return other

    def add(self, hours: SessionHours) -> list[Overlap]:
        """Add the work of a session; gives the overlaps, in which it or another session no longer counts."""
        return [overlap for since, until in hours.blocks for overlap in self._add(hours, since, until)]

    def _add(self, hours: SessionHours, since: int, until: int) -> list[Overlap]:
        first = last = bisect_right(self._until, since)
        made: list[tuple[int, int, SessionHours]] = []
        lost: list[Overlap] = []
        while last < len(self._since) and self._since[last] < until:
            begin, end, owner = self._since[last], self._until[last], self._owners[last]
            low, high = max(since, begin), min(until, end)
            made += [(begin, low, owner), (since, low, hours)]
            for low_, high_, winner in self._divide_contested(owner, hours, low, high):
                made.append((low_, high_, winner))
                lost.append(Overlap(hours if winner is owner else owner, low_, high_))
            if high < end:
                made.append((high, end, owner))
            since, last = high, last + 1
        made.append((since, until, hours))
        made = [stretch for stretch in made if stretch[0] < stretch[1]]
        self._since[first:last] = [low for low, _, _ in made]
        self._until[first:last] = [high for _, high, _ in made]
        self._owners[first:last] = [owner for _, _, owner in made]
        return lost

    def _divide_contested(
        self, first: SessionHours, second: SessionHours, since: int, until: int
    ) -> Iterator[tuple[int, int, SessionHours]]:
        """Divide a stretch that two sessions claim: pieces, each with its session."""
        moments = {
            moment for hours in (first, second) for moment in self._messages_of(hours) if since < moment < until
        }
        cuts = [since, *sorted(moments), until]
        for low, high in pairwise(cuts):
            yield low, high, max((first, second), key=lambda hours: (self._latest(hours, low), hours.session))

    def _latest(self, hours: SessionHours, moment: int) -> int:
        moments = self._messages_of(hours)
        place = bisect_right(moments, moment)
        return moments[place - 1] if place else hours.start

    def _messages_of(self, hours: SessionHours) -> Sequence[int]:
        if hours.session not in self._known:
            self._known[hours.session] = self._messages(hours.session)
        return self._known[hours.session]


def messages_in(ws: Workspace) -> Messages:
    """The messages of sessions in the store, read from the log, and only for sessions that overlap.

    In our sessions only messages from our devices count: others could date theirs to claim the time of a session that
    they cannot even read.
    """
    store = ws.store()

    def messages(session: str) -> list[int]:
        by_writer: dict[str, list[int]] = {}
        for event in store.events(session):
            if event.type == "message.exchanged":
                data = read_data(event)
                if isinstance(data, MessageExchanged) and data.role == "user":
                    by_writer.setdefault(event.writer, []).append(event.at)
        if origin.share_of(store, session) is None:
            is_own = own_test(ws, session)
            by_writer = {writer: moments for writer, moments in by_writer.items() if is_own(writer)}
        return sorted(moment for moments in by_writer.values() for moment in moments)

    return messages


def person_of(store: Store, session: str) -> str:
    """Whose time it is: ours, or that of the person who shares the session."""
    return origin.share_of(store, session) or ""
