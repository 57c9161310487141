"""Strict rules of the timer file beyond its schema: names agree, pauses are in order, sums are exact.

The rules check `TimerValues` lazily: for a sound document no message is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.text import shorten
from holdfast.core.times import MINUTE
from holdfast.formats.base import Problem
from holdfast.formats.timer.fields import REMINDERS, TimerPause, TimerValues, is_id
from holdfast.formats.timestamps import is_time, is_utc

_SLUG: Final = re.compile(r"[0-9]{8}(?:-[a-z0-9]+){2,}\Z")


def check(values: TimerValues) -> Iterator[Problem]:
    """Every violation."""
    yield from _names(values)
    yield from _words(values)
    yield from _times(values)
    yield from _sums(values)
    yield from _flags(values)


def _names(values: TimerValues) -> Iterator[Problem]:
    if not is_id(values.session):
        yield Problem(("sessionId",), f"{shorten(values.session, 60)!a} does not begin with a date that exists")
    elif _SLUG.match(values.session) is None:
        yield Problem(("sessionId",), "is not date, scope and task in lower case with dashes", "warning")
    if values.branch != f"session/{values.session}":
        yield Problem(
            ("branchName",), f"must be session/ and the session's id: session/{shorten(values.session, 60)}"
        )


def _words(values: TimerValues) -> Iterator[Problem]:
    if values.task is not None and not 2 <= (words := len(values.task.split())) <= 4:
        yield Problem(("task",), f"has {words} word{'' if words == 1 else 's'}; expected two to four", "warning")
    if values.summary is not None and len(values.summary.splitlines()) > 1:
        yield Problem(("summary",), "is more than one line", "warning")


def _times(values: TimerValues) -> Iterator[Problem]:
    if values.message < values.start:
        yield Problem(("lastMessageTime",), "is before startTime")
    reached, last = values.start, values.last
    for position, pause in enumerate(values.pauses):
        if pause.since < reached:
            message = "begins before the previous one has ended" if position else "begins before the session"
            yield Problem(("pauses", position, "startTime"), message)
        if pause.until is None:
            if position < len(values.pauses) - 1:
                yield Problem(("pauses", position, "endTime"), "is open, although another pause follows")
            elif values.status != "PAUSED":
                yield Problem(("status",), "must be PAUSED while a pause is open")
        elif pause.until < pause.since:
            yield Problem(("pauses", position, "endTime"), "is before startTime")
            continue
        if pause.length is not None and pause.length != (by_times := _counted(pause, last)):
            yield Problem(("pauses", position, "durationMs"), f"is {pause.length:,}, but its times give {by_times:,}")
        reached = max(reached, pause.since if pause.until is None else pause.until)
    if values.status == "PAUSED" and values.open_pause is None:
        yield Problem(("status",), "is PAUSED, but no pause is open", "warning")


def _counted(pause: TimerPause, last: int) -> int:
    return max(0, (last if pause.until is None else pause.until) - pause.since)


def _sums(values: TimerValues) -> Iterator[Problem]:
    last = values.last
    added = sum(_counted(pause, last) if pause.length is None else pause.length for pause in values.pauses)
    if added != values.paused:
        yield Problem(("totalPausedMs",), f"is {values.paused:,}, but the pauses add up to {added:,}")
    if values.working + values.paused != last - values.start:
        yield Problem(
            ("actualWorkingMs",),
            f"with totalPausedMs makes {values.working + values.paused:,}, but from startTime to the last event "
            f"{last - values.start:,} passed",
        )


def _flags(values: TimerValues) -> Iterator[Problem]:
    if values.reminders is None:
        return
    previous = True
    for (name, _, minutes), flag in zip(REMINDERS, values.reminders, strict=True):
        if flag and not previous:
            yield Problem(("reminders", name), "is true, although an earlier reminder is not", "warning")
        if not flag and values.working >= minutes * MINUTE:
            yield Problem(("reminders", name), f"is false, although {minutes} minutes were worked", "warning")
        previous = flag


def check_spelling(document: dict[str, Json]) -> Iterator[Problem]:
    """Valid times that are not in UTC, as the specification prefers."""
    for name in ("startTime", "lastMessageTime"):
        if _is_not_utc(document.get(name)):
            yield Problem((name,), "is not in UTC with a Z, as preferred", "warning")
    pauses = document.get("pauses")
    for position, pause in enumerate(pauses if isinstance(pauses, list) else ()):
        for name in ("startTime", "endTime"):
            if isinstance(pause, dict) and _is_not_utc(pause.get(name)):
                yield Problem(("pauses", position, name), "is not in UTC with a Z, as preferred", "warning")


def _is_not_utc(written: Json) -> bool:
    return isinstance(written, str) and is_time(written) and not is_utc(written)
