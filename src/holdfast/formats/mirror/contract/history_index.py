"""What a feature's history holds: its lines, those that cannot be used, and which events are missing.

Every event of Holdfast has its number in its writer's stream, from 1, and names what its writer had seen of other
streams: so a line that somebody took out leaves a gap that shows. What was cut off at the very end does not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from holdfast.core import limits
from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.errors import Invalid
from holdfast.formats import document_paths
from holdfast.formats.contract import FORMAT
from holdfast.formats.contract.fields import HISTORY, OWN
from holdfast.formats.contract.history import carried, event_of
from holdfast.formats.mirror.contract import history

_KEPT: Final = 100  # line numbers of each kind of fault


class EventNumbers(NamedTuple):
    """Numbers of one writer's events, the first and the last of them included."""

    writer: str
    first: int
    last: int


class Lacking(NamedTuple):
    """The events that a history lacks of its session."""

    session: str
    spans: list[EventNumbers]

    @property
    def number(self) -> int:
        return sum(span.last - span.first + 1 for span in self.spans)

    def has(self, event: Event) -> bool:
        return event.session == self.session and any(
            span.writer == event.writer and span.first <= event.seq <= span.last for span in self.spans
        )


class Faults:
    """How many lines have a fault, and the first of them."""

    def __init__(self) -> None:
        self.number = 0
        self.first: list[int] = []

    def add(self, line: int) -> None:
        self.number += 1
        if len(self.first) < _KEPT:
            self.first.append(line)


class HistoryIndex(NamedTuple):
    """A history as it was found. Lines are named by their number, from 1."""

    unreadable: Faults  # without those that were cut off and stand whole further below
    changed: Faults  # no longer what Holdfast wrote
    wrong: Faults  # not what the contract wants of a line
    why: str  # what is wrong with the first of these
    lacking: Lacking | None
    untaken: int | None  # the first line of another program that is beyond what is taken in


def recorded(path: str, *, strict: bool = False) -> HistoryIndex:
    """What the history at a path holds; nothing when there is none. `strict` asks the contract about every line.

    Line by line: a history may be large, and what is remembered of it here does not grow with it.
    """
    unreadable, changed, wrong = Faults(), Faults(), Faults()
    why = ""
    present = Present()
    untaken: int | None = None
    room = limits.MAX_DOCUMENT_SIZE
    for number, line in history.read(path) if os.path.lexists(path) else ():
        if isinstance(line, Invalid):
            unreadable.add(number)
            continue
        if OWN in line:
            if event_of(line) is None:
                changed.add(number)
            for event in carried(line):
                present.add(event)
        elif untaken is None:
            room -= history.size_of(line)
            untaken = number if room < 0 else None
        # Whoever has that many wrong lines need not know of all.
        said = _wrong(line) if strict and wrong.number < _KEPT else None
        if said is not None:
            why = why or said
            wrong.add(number)
    if unreadable.number:
        again = history.told_again(path, unreadable.first)
        unreadable.number -= len(again)
        unreadable.first = [number for number in unreadable.first if number not in again]
    return HistoryIndex(unreadable, changed, wrong, why, present.lacking(), untaken)


def _wrong(line: Mapping[str, Json]) -> str | None:
    if FORMAT.is_sound(msgspec.json.encode(line), HISTORY):
        return None
    errors = [problem for problem in FORMAT.problems(dict(line), HISTORY) if problem.severity == "error"]
    return f"{document_paths.written(errors[0].place)} {errors[0].message}" if errors else None


class Present:
    """Which events are there, of each session, and the last that any of them knows of."""

    def __init__(self) -> None:
        self._sessions: Counter[str] = Counter()
        self._numbers: dict[tuple[str, str], set[int]] = {}
        self._tops: dict[str, dict[str, int]] = {}

    def add(self, event: Event) -> None:
        self._numbers.setdefault((event.session, event.writer), set()).add(event.seq)
        self._sessions[event.session] += 1
        tops = self._tops.setdefault(event.session, {})
        for head in (event.head, *event.seen):
            tops[head.writer] = max(tops.get(head.writer, 0), head.seq)

    def lacking(self) -> Lacking | None:
        """What is missing of the session that most of the events are about; None when nothing is."""
        if not self._sessions:
            return None
        session = self._sessions.most_common(1)[0][0]
        spans = [
            span
            for writer, top in self._tops[session].items()
            for span in _gaps(writer, self._numbers.get((session, writer), set()), top)
        ]
        return Lacking(session, spans) if spans else None


def _gaps(writer: str, numbers: set[int], top: int) -> list[EventNumbers]:
    found: list[EventNumbers] = []
    expected = 1
    for number in [*sorted(number for number in numbers if number >= 1), top + 1]:
        if number > expected:
            found.append(EventNumbers(writer, expected, number - 1))
        expected = max(expected, number + 1)
    return found
