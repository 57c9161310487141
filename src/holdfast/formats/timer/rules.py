"""What the timer's file must keep to beyond its schema: names that agree, pauses in order, sums that are exact.

The rules look at a `Reading` and yield what is broken, lazily: over a sound document no sentence is ever made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.text import shorten
from holdfast.core.times import MINUTE
from holdfast.formats.base import Problem
from holdfast.formats.timer.fields import Stop, TimerValues
from holdfast.formats.timer.names import REMINDERS, is_id
from holdfast.formats.timestamps import is_time, is_utc

_SLUG: Final = re.compile(r"[0-9]{8}(?:-[a-z0-9]+){2,}\Z")


def broken(seen: TimerValues) -> Iterator[Problem]:
    """Every rule that is not kept."""
    yield from _names(seen)
    yield from _words(seen)
    yield from _clock(seen)
    yield from _sums(seen)
    yield from _flags(seen)


def _names(seen: TimerValues) -> Iterator[Problem]:
    if not is_id(seen.session):
        yield Problem(("sessionId",), f"{shorten(seen.session, 60)!a} does not begin with a day that exists")
    elif _SLUG.match(seen.session) is None:
        yield Problem(("sessionId",), "is not the day, scope and task in small letters with dashes", "warning")
    if seen.branch != f"session/{seen.session}":
        yield Problem(("branchName",), f"must be session/ and the session's id: session/{shorten(seen.session, 60)}")


def _words(seen: TimerValues) -> Iterator[Problem]:
    if seen.task is not None and not 2 <= (words := len(seen.task.split())) <= 4:
        yield Problem(
            ("task",), f"has {words} word{'' if words == 1 else 's'}, where two to four are wanted", "warning"
        )
    if seen.summary is not None and len(seen.summary.splitlines()) > 1:
        yield Problem(("summary",), "is more than one line", "warning")


def _clock(seen: TimerValues) -> Iterator[Problem]:
    if seen.message < seen.start:
        yield Problem(("lastMessageTime",), "is before startTime")
    reached, last = seen.start, seen.last
    for position, stop in enumerate(seen.pauses):
        if stop.since < reached:
            what = "begins before the one before it has ended" if position else "begins before the session"
            yield Problem(("pauses", position, "startTime"), what)
        if stop.until is None:
            if position < len(seen.pauses) - 1:
                yield Problem(("pauses", position, "endTime"), "is open, although another pause follows")
            elif seen.status != "PAUSED":
                yield Problem(("status",), "must be PAUSED while a pause lasts")
        elif stop.until < stop.since:
            yield Problem(("pauses", position, "endTime"), "is before startTime")
            continue
        if stop.length is not None and stop.length != (counted := _counted(stop, last)):
            yield Problem(
                ("pauses", position, "durationMs"), f"is {stop.length:,}, where its times make it {counted:,}"
            )
        reached = max(reached, stop.since if stop.until is None else stop.until)
    if seen.status == "PAUSED" and seen.lasting is None:
        yield Problem(("status",), "is PAUSED, but no pause lasts", "warning")


def _counted(stop: Stop, last: int) -> int:
    return max(0, (last if stop.until is None else stop.until) - stop.since)


def _sums(seen: TimerValues) -> Iterator[Problem]:
    last = seen.last
    added = sum(_counted(stop, last) if stop.length is None else stop.length for stop in seen.pauses)
    if added != seen.paused:
        yield Problem(("totalPausedMs",), f"is {seen.paused:,}, but the pauses add up to {added:,}")
    if seen.working + seen.paused != last - seen.start:
        yield Problem(
            ("actualWorkingMs",),
            f"with totalPausedMs makes {seen.working + seen.paused:,}, but from startTime to the last event "
            f"{last - seen.start:,} passed",
        )


def _flags(seen: TimerValues) -> Iterator[Problem]:
    if seen.reminders is None:
        return
    given = True
    for (name, _, minutes), flag in zip(REMINDERS, seen.reminders, strict=True):
        if flag and not given:
            yield Problem(("reminders", name), "is true, although an earlier reminder is not", "warning")
        if not flag and seen.working >= minutes * MINUTE:
            yield Problem(("reminders", name), f"is false, although {minutes} minutes were worked", "warning")
        given = flag


def spelled(document: dict[str, Json]) -> Iterator[Problem]:
    """Times that are right and not in UTC, as the text prefers them."""
    for name in ("startTime", "lastMessageTime"):
        if _is_elsewhere(document.get(name)):
            yield Problem((name,), "is not in UTC with a Z, as preferred", "warning")
    pauses = document.get("pauses")
    for position, pause in enumerate(pauses if isinstance(pauses, list) else ()):
        for name in ("startTime", "endTime"):
            if isinstance(pause, dict) and _is_elsewhere(pause.get(name)):
                yield Problem(("pauses", position, name), "is not in UTC with a Z, as preferred", "warning")


def _is_elsewhere(written: Json) -> bool:
    return isinstance(written, str) and is_time(written) and not is_utc(written)
