"""Hours of all projects at once, for a page that is looked at again and again.

What a finished session adds up to does not change any more, so it is remembered; what is being worked on is added up
anew each time. The sums are those of `keeper.statistics`: the lines of every table add up to the same total, and in
each line working + paused = elapsed. Sessions are known by their version in the store: one that changes after its end
(an event that came late) is added up again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.keeper.overlaps import Overlap, Timeline, messages_in, person_of
from holdfast.keeper.statistics import Line, Share, Sums, day_of, share
from holdfast.machine.wall import local_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Store

_MOST: Final = 16  # questions whose sums of finished sessions are kept


class Hours(NamedTuple):
    days: list[Line]
    scopes: list[Line]
    projects: list[Line]
    total: Line


class HoursMemo:
    """What finished sessions of a store add up to. May be asked by several threads at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._versions: dict[str, int] = {}
        self._finished: dict[str, Share] = {}
        self.unfinished: set[str] = set()
        # Of finished sessions, by person: whose each moment is, and what is counted once only.
        self._timelines: dict[str, Timeline] | None = None
        self._overlaps: list[Overlap] = []
        # The sums of what is finished, by project and first day.
        self._sums: dict[tuple[str | None, str], Sums] = {}

    def refresh(self, store: Store, now: int) -> None:
        """Add up what has changed since it was last asked."""
        versions = store.versions()
        if versions == self._versions:
            return
        for one in {name for name, _ in versions.items() ^ self._versions.items()}:
            self.unfinished.discard(one)
            if self._finished.pop(one, None) is not None:
                self._forget()
            state = store.state(one) if one in versions else None
            if state is None or state.deleted:
                continue
            if view.status_of(state) in FINISHED:
                self._finished[one] = share(state, now=now, offset=local_offset)
                self._forget()
            else:
                self.unfinished.add(one)  # what it adds up to grows with the time
        self._versions = versions

    def _forget(self) -> None:
        self._sums.clear()
        self._timelines = None

    def timelines(self, keeper: Keeper) -> dict[str, Timeline]:
        """Whose each moment of what is finished is, by person, for the caller to go on with."""
        if self._timelines is None:
            self._timelines, self._overlaps = {}, []
            for one in self._finished.values():
                self._overlaps += _timeline(self._timelines, keeper, one).add(one)
        return {person: timeline.copy() for person, timeline in self._timelines.items()}

    def sums(self, project: str | None, since: str) -> Sums:
        """Of everything finished, for the caller to go on with; `timelines` come first."""
        asked = (project, since)
        if asked not in self._sums:
            sums = Sums(since)
            for one in self._finished.values():
                if project in (None, one.project):
                    sums.add(one)
            _take(sums, self._overlaps, project)
            while len(self._sums) >= _MOST:
                del self._sums[next(iter(self._sums))]
            self._sums[asked] = sums
        return self._sums[asked].copy()


def hours(keeper: Keeper, memo: HoursMemo, *, project: str | None = None, since: int | None = None) -> Hours:
    """Hours by day, by scope and by project: of all projects or those of a name, all or from a moment's day on."""
    keeper.absorb()
    store, now = keeper.existing_store(), keeper.now()
    first = "" if since is None else day_of(since, local_offset)
    sums = Sums(first)
    if store is not None:
        with memo.lock:
            memo.refresh(store, now)
            timelines = memo.timelines(keeper)
            sums, unfinished = memo.sums(project, first), sorted(memo.unfinished)
        for one in _shares(store, unfinished, now):
            if project in (None, one.project):
                sums.add(one)
            _take(sums, _timeline(timelines, keeper, one).add(one), project)
    return Hours(sums.days(), sums.scopes(), sums.projects(), sums.total)


def _timeline(timelines: dict[str, Timeline], keeper: Keeper, one: Share) -> Timeline:
    return timelines.setdefault(person_of(keeper.store(), one.session), Timeline(messages_in(keeper)))


def _take(sums: Sums, overlaps: list[Overlap], project: str | None) -> None:
    for overlap in overlaps:
        if project in (None, overlap.share.project):
            sums.take(overlap, local_offset)


def _shares(store: Store, sessions: list[str], now: int) -> Iterator[Share]:
    for one in sessions:
        state = store.state(one)
        if state is not None and not state.deleted:
            yield share(state, now=now, offset=local_offset)
