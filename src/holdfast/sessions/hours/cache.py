"""Hours of all projects, cached for a page that refreshes.

The hours of a finished session are cached by its version in the store: one that changes after its end (a late event)
is added up again. Unfinished sessions are added up each time. The sums are those of `table`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.machine.wall import local_offset
from holdfast.sessions.hours.overlaps import Overlap, OverlapTimeline, messages_in, person_of
from holdfast.sessions.hours.table import Line, SessionHours, Sums, day_of, session_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace

_MAX_CACHED: Final = 16  # cached combinations of project and first day


class CachedHours(NamedTuple):
    days: list[Line]
    scopes: list[Line]
    projects: list[Line]
    total: Line


class HoursMemo:
    """The hours of a store's finished sessions. Safe for several threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._versions: dict[str, int] = {}
        self._finished: dict[str, SessionHours] = {}
        self.unfinished: set[str] = set()
        # Of finished sessions, by person: their timelines, and the overlaps.
        self._timelines: dict[str, OverlapTimeline] | None = None
        self._overlaps: list[Overlap] = []
        # The sums of finished sessions, by project and first day.
        self._sums: dict[tuple[str | None, str], Sums] = {}

    def refresh(self, store: Store, now: int) -> None:
        """Add up the sessions that changed since the last call."""
        versions = store.versions()
        if versions == self._versions:
            return
        for version in {name for name, _ in versions.items() ^ self._versions.items()}:
            self.unfinished.discard(version)
            if self._finished.pop(version, None) is not None:
                self._forget()
            state = store.state(version) if version in versions else None
            if state is None or state.deleted:
                continue
            if view.status_of(state) in FINISHED:
                self._finished[version] = session_hours(state, now=now, offset=local_offset)
                self._forget()
            else:
                self.unfinished.add(version)  # its hours grow with time
        self._versions = versions

    def _forget(self) -> None:
        self._sums.clear()
        self._timelines = None

    def timelines(self, ws: Workspace) -> dict[str, OverlapTimeline]:
        """Copies of the timelines of finished sessions, by person, for the caller to extend."""
        if self._timelines is None:
            self._timelines, self._overlaps = {}, []
            for item in self._finished.values():
                self._overlaps += _timeline(self._timelines, ws, item).add(item)
        return {person: timeline.copy() for person, timeline in self._timelines.items()}

    def sums(self, project: str | None, since: str) -> Sums:
        """A copy of the sums of finished sessions, for the caller to extend; call `timelines` first."""
        key = (project, since)
        if key not in self._sums:
            sums = Sums(since)
            for item in self._finished.values():
                if project in (None, item.project):
                    sums.add(item)
            _take(sums, self._overlaps, project)
            while len(self._sums) >= _MAX_CACHED:
                del self._sums[next(iter(self._sums))]
            self._sums[key] = sums
        return self._sums[key].copy()


def hours(ws: Workspace, memo: HoursMemo, *, project: str | None = None, since: int | None = None) -> CachedHours:
    """Hours by day, scope and project: of all projects or those with a name, optionally from a day on."""
    ws.collect()
    store, now = ws.existing_store(), ws.now()
    first = "" if since is None else day_of(since, local_offset)
    sums = Sums(first)
    if store is not None:
        with memo.lock:
            memo.refresh(store, now)
            timelines = memo.timelines(ws)
            sums, unfinished = memo.sums(project, first), sorted(memo.unfinished)
        for item in _hours_of(store, unfinished, now):
            if project in (None, item.project):
                sums.add(item)
            _take(sums, _timeline(timelines, ws, item).add(item), project)
    return CachedHours(sums.days(), sums.scopes(), sums.projects(), sums.total)


def _timeline(timelines: dict[str, OverlapTimeline], ws: Workspace, hours: SessionHours) -> OverlapTimeline:
    return timelines.setdefault(person_of(ws.store(), hours.session), OverlapTimeline(messages_in(ws)))


def _take(sums: Sums, overlaps: list[Overlap], project: str | None) -> None:
    for overlap in overlaps:
        if project in (None, overlap.hours.project):
            sums.subtract(overlap, local_offset)


def _hours_of(store: Store, sessions: list[str], now: int) -> Iterator[SessionHours]:
    for session in sessions:
        state = store.state(session)
        if state is not None and not state.deleted:
            yield session_hours(state, now=now, offset=local_offset)
