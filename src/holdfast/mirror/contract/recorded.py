"""What a feature's history holds: its lines, those that cannot be used, and the events that are missing among them.

Every event of Holdfast has its number in its writer's stream, from 1, and names what its writer had seen of other
streams: so a line that somebody took out leaves a gap that shows. What was cut off at the very end does not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.event import Event
from holdfast.formats import places
from holdfast.formats.contract import FORMAT
from holdfast.formats.contract.documents import HISTORY, OWN
from holdfast.formats.contract.history import event_of, events_of
from holdfast.mirror.contract import history
from holdfast.mirror.contract.history import Line


class Span(NamedTuple):
    """Numbers of one writer's events, the first and the last of them included."""

    writer: str
    first: int
    last: int


class Lacking(NamedTuple):
    """The events that a history lacks of its session."""

    session: str
    spans: list[Span]

    @property
    def number(self) -> int:
        return sum(one.last - one.first + 1 for one in self.spans)

    def has(self, event: Event) -> bool:
        return event.session == self.session and any(
            one.writer == event.writer and one.first <= event.seq <= one.last for one in self.spans
        )


class Recorded(NamedTuple):
    """A history as it was found. Lines are named by their number, from 1."""

    lines: list[Line]
    unreadable: list[int]  # without those that were cut off and stand whole further below
    changed: list[int]  # no longer what Holdfast wrote
    wrong: list[tuple[int, str]]  # not what the contract wants of a line
    lacking: Lacking | None


def recorded(path: str, *, strict: bool = False) -> Recorded:
    """What the history at a path holds; nothing when there is none. `strict` asks the contract about every line."""
    lines: list[Line] = []
    unreadable: list[int] = []
    changed: list[int] = []
    wrong: list[tuple[int, str]] = []
    for number, line in history.read(path) if os.path.lexists(path) else ():
        if isinstance(line, Invalid):
            unreadable.append(number)
            continue
        lines.append(line)
        if OWN in line and event_of(line) is None:
            changed.append(number)
        why = _wrong(line) if strict else None
        if why is not None:
            wrong.append((number, why))
    if unreadable:
        again = history.told_again(path, unreadable)
        unreadable = [number for number in unreadable if number not in again]
    return Recorded(lines, unreadable, changed, wrong, lacking(events_of(lines)))


def _wrong(line: Mapping[str, Json]) -> str | None:
    if FORMAT.is_sound(msgspec.json.encode(line), HISTORY):
        return None
    errors = [one for one in FORMAT.problems(dict(line), HISTORY) if one.severity == "error"]
    return f"{places.written(errors[0].place)} {errors[0].message}" if errors else None


def lacking(events: list[Event]) -> Lacking | None:
    """What is missing of the session that most of these events are about; None when nothing is."""
    if not events:
        return None
    session = Counter(event.session for event in events).most_common(1)[0][0]
    there: dict[str, set[int]] = {}
    tops: dict[str, int] = {}
    for event in (one for one in events if one.session == session):
        there.setdefault(event.writer, set()).add(event.seq)
        for head in (event.head, *event.seen):
            tops[head.writer] = max(tops.get(head.writer, 0), head.seq)
    spans = [span for writer, top in tops.items() for span in _gaps(writer, there.get(writer, set()), top)]
    return Lacking(session, spans) if spans else None


def _gaps(writer: str, numbers: set[int], top: int) -> list[Span]:
    found: list[Span] = []
    expected = 1
    for number in [*sorted(one for one in numbers if one >= 1), top + 1]:
        if number > expected:
            found.append(Span(writer, expected, number - 1))
        expected = max(expected, number + 1)
    return found
