"""Render a state as a timer file as of its last event, with all pauses and exact sums.

A mirror has no file for an ended session; exported, it is PAUSED at its end, since nothing is counted any more.
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
from holdfast.formats.timer.fields import REMINDERS, TIMEOUT, is_id
from holdfast.formats.timestamps import in_shortest_form
from holdfast.sessions import format_names

_TYPES: Final = {"manual": "MANUAL", "idle": "AUTO_IDLE", "task": "AUTO_TASK", "timeout": "AUTO_TASK"}
_STOPPED: Final = frozenset({"paused", "error", "completed", "aborted"})
# The reason of a pause for a foreground agent: in our work time, and in this format.
_OWN_AGENT_PREFIX: Final = "Agent at work: "
FILE_AGENT_PREFIX: Final = "Task agent: "


def render(state: State) -> Document:
    work = view.worktime(state, _last_moment(state))
    start = _start(state)
    end = _format_time(start + work.elapsed)
    start = _format_time(start)
    # A pause that only the status expressed is shown as PAUSED without an entry.
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
        "startTime": in_shortest_form(start),
        "lastMessageTime": in_shortest_form(end),
        "actualWorkingMs": end - start - paused,
        "totalPausedMs": paused,
        "pauses": [pause for pause, _ in pauses],
        "reminders": {flag: line in state.time.reached for flag, line, _ in REMINDERS},
        "summary": view.text_value(state, "summary") or view.text_value(state, "goal") or format_names.task(state),
    }


def session_id(state: State) -> str:
    """The id it was imported with, if valid here, or one made of date, scope and task."""
    name = format_names.timer_id(state)
    return name if is_id(name) else format_names.timer_id(msgspec.structs.replace(state, aliases={}))


def _start(state: State) -> int:
    """Where work time starts: at the session's start, or, before that event has arrived, at the first activity."""
    if state.created_at is not None:
        return state.time.start
    return state.time.active[0].since if state.time.active else state.updated_at


def _last_moment(state: State) -> int:
    """Until when the file counts. While the session is in progress, that is the last activity: events that are not
    work, such as the end of a conversation or a correction, add no time.
    """
    if view.status_of(state) != "in_progress" or agents.running(state):
        return state.updated_at
    entered = (mark.at if mark.until is None else mark.until for mark in state.time.marks)
    return min(max(view.last_activity(state), *entered, state.time.start), state.updated_at)


def _format_time(ms: int) -> int:
    """The nearest time that can be written; the sums follow it."""
    return min(max(ms, EARLIEST), LATEST)


def _pause(rest: WorkPause, end: int) -> tuple[Json, int]:
    since = _format_time(rest.since)
    until = end if rest.until is None else _format_time(rest.until)
    shown: Json = {
        "type": _TYPES[rest.kind],
        "reason": _reason(rest),
        "startTime": in_shortest_form(since),
        "endTime": None if rest.until is None else in_shortest_form(until),
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
            ours = rest.reason.startswith(_OWN_AGENT_PREFIX)
            return FILE_AGENT_PREFIX + rest.reason.removeprefix(_OWN_AGENT_PREFIX) if ours else rest.reason
    return "Paused" if rest.reason is None else rest.reason
