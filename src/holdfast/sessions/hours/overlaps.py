"""Sessions that overlap: a person cannot work twice at once.

Time in which several sessions of one person were worked on belongs to the session with the person's latest message
then. So rows by day, project or session add up to what was worked in all, and nothing is counted twice.
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

# When the person said something in a session, in order.
Messages: TypeAlias = Callable[[str], Sequence[int]]


class Overlap(NamedTuple):
    """Worked in this session, and counted in another one."""

    share: SessionHours
    since: int
    until: int


class OverlapTimeline:
    """Whose session each moment belongs to: stretches that do not overlap, in order."""

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

    def add(self, share: SessionHours) -> list[Overlap]:
        """Add what was worked in a session; what of it, or of others, is counted elsewhere from now on."""
        return [overlap for since, until in share.blocks for overlap in self._add(share, since, until)]

    def _add(self, share: SessionHours, since: int, until: int) -> list[Overlap]:
        first = last = bisect_right(self._until, since)
        made: list[tuple[int, int, SessionHours]] = []
        lost: list[Overlap] = []
        while last < len(self._since) and self._since[last] < until:
            begin, end, owner = self._since[last], self._until[last], self._owners[last]
            low, high = max(since, begin), min(until, end)
            made += [(begin, low, owner), (since, low, share)]
            for low_, high_, winner in self._contested(owner, share, low, high):
                made.append((low_, high_, winner))
                lost.append(Overlap(share if winner is owner else owner, low_, high_))
            if high < end:
                made.append((high, end, owner))
            since, last = high, last + 1
        made.append((since, until, share))
        made = [stretch for stretch in made if stretch[0] < stretch[1]]
        self._since[first:last] = [low for low, _, _ in made]
        self._until[first:last] = [high for _, high, _ in made]
        self._owners[first:last] = [owner for _, _, owner in made]
        return lost

    def _contested(
        self, first: SessionHours, second: SessionHours, since: int, until: int
    ) -> Iterator[tuple[int, int, SessionHours]]:
        """A stretch that two sessions share, in pieces: of each, whose it is."""
        moments = {
            moment for share in (first, second) for moment in self._messages_of(share) if since < moment < until
        }
        cuts = [since, *sorted(moments), until]
        for low, high in pairwise(cuts):
            yield low, high, max((first, second), key=lambda share: (self._latest(share, low), share.session))

    def _latest(self, share: SessionHours, moment: int) -> int:
        moments = self._messages_of(share)
        place = bisect_right(moments, moment)
        return moments[place - 1] if place else share.start

    def _messages_of(self, share: SessionHours) -> Sequence[int]:
        if share.session not in self._known:
            self._known[share.session] = self._messages(share.session)
        return self._known[share.session]


def messages_in(ws: Workspace) -> Messages:
    """Of the sessions in the keeper's store. Read from the log, and only of those that overlap.

    In a session of ours only our own devices' count: whoever else writes there dates as they like, and could take the
    time of a session that they may not even read.
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
    """Whose time it is: ours, or that of whoever shares the session with us."""
    return origin.share_of(store, session) or ""
