"""A state as the timer's file, as of its last event: every pause, and sums that are exact whatever was recorded.

An ended session has no file in a mirror; exported, its clock stands at the end and says PAUSED, since nothing is
counted any more.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core import agents, view
from holdfast.core.canonical import Json
from holdfast.core.state import State
from holdfast.core.times import EARLIEST, LATEST
from holdfast.core.worktime import WorkPause
from holdfast.formats.base import Document
from holdfast.formats.timer.names import REMINDERS, TIMEOUT, is_id
from holdfast.formats.timestamps import shortest
from holdfast.sessions import format_names

_TYPES: Final = {"manual": "MANUAL", "idle": "AUTO_IDLE", "task": "AUTO_TASK", "timeout": "AUTO_TASK"}
_STOPPED: Final = frozenset({"paused", "error", "completed", "aborted"})
# How work time names a foreground agent's run, and how this format does.
_OURS: Final = "Agent at work: "
THEIRS: Final = "Task agent: "


def rendered(state: State) -> Document:
    work = view.worktime(state, _last_moment(state))
    start = _start(state)
    end = _written(start + work.elapsed)
    start = _written(start)
    # What a status alone said is shown as that: PAUSED, and no entry for it.
    pauses = [
        _pause(rest, end) for rest in work.pauses if rest.length or rest.kind != "idle" or rest.reason is not None
    ]
    paused = sum(length for _, length in pauses)
    lasts = any(rest.until is None for rest in work.pauses)
    name = session_id(state)
    return {
        "sessionId": name,
        "scope": format_names.scope(state),
        "task": format_names.task(state),
        "branchName": f"session/{name}",
        "status": "PAUSED" if lasts or view.shown_status(state) in _STOPPED else "IN_PROGRESS",
        "startTime": shortest(start),
        "lastMessageTime": shortest(end),
        "actualWorkingMs": end - start - paused,
        "totalPausedMs": paused,
        "pauses": [pause for pause, _ in pauses],
        "reminders": {flag: line in state.time.reached for flag, line, _ in REMINDERS},
        "summary": view.text_value(state, "summary") or view.text_value(state, "goal") or format_names.task(state),
    }


def session_id(state: State) -> str:
    """The id it came with, or one made of day, scope and task. What is not an id of this format is not used."""
    name = format_names.timer_id(state)
    return name if is_id(name) else format_names.timer_id(msgspec.structs.replace(state, aliases={}))


def _start(state: State) -> int:
    """Where work time counts from: the beginning, or, while that has not arrived, the first sign."""
    if state.created_at is not None:
        return state.time.start
    return state.time.active[0].since if state.time.active else state.updated_at


def _last_moment(state: State) -> int:
    """Until when the file counts. While the session goes on, that is the last thing done in it: what is recorded and
    is no work, such as the end of a conversation or a correction, adds no minute.
    """
    if view.status_of(state) != "in_progress" or agents.running(state):
        return state.updated_at
    entered = (mark.at if mark.until is None else mark.until for mark in state.time.marks)
    return min(max(view.last_activity(state), *entered, state.time.start), state.updated_at)


def _written(ms: int) -> int:
    """A moment that can be written. A clock beyond the calendar shows its edge, and the sums follow."""
    return min(max(ms, EARLIEST), LATEST)


def _pause(rest: WorkPause, end: int) -> tuple[Json, int]:
    since = _written(rest.since)
    until = end if rest.until is None else _written(rest.until)
    shown: Json = {
        "type": _TYPES[rest.kind],
        "reason": _reason(rest),
        "startTime": shortest(since),
        "endTime": None if rest.until is None else shortest(until),
        "durationMs": until - since,
    }
    return shown, until - since


def _reason(rest: WorkPause) -> str:
    match rest.kind:
        case "timeout":
            return TIMEOUT
        case "idle":
            return "User idle" if rest.reason is None else rest.reason
        case "task":
            if rest.reason is None:
                return "Task agent"
            ours = rest.reason.startswith(_OURS)
            return THEIRS + rest.reason.removeprefix(_OURS) if ours else rest.reason
    return "Paused" if rest.reason is None else rest.reason
