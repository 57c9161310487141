"""Turn the agents and errors of a document into events, in an order in which they can have happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from holdfast.core import agents as agents_of
from holdfast.core.canonical import Json
from holdfast.core.events import (
    TYPE_OF,
    AgentAborted,
    AgentCompleted,
    AgentEdited,
    AgentEvent,
    AgentFailed,
    AgentInterrupted,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    ContextMeasured,
    EventData,
)
from holdfast.core.failures import CATEGORIES
from holdfast.core.lifecycle import AGENT, allows, refusal
from holdfast.core.state import AgentState
from holdfast.core.text import shorten
from holdfast.core.times import SECOND
from holdfast.formats.base import TimedEvent
from holdfast.formats.orchestrator.fields import ENDED, integer, nonblank, time_ms, time_of

# Order at one moment: the start, ordinary events, errors in their own order, the final status.
FIRST: Final = 0
ORDINARY: Final = 1
ERRORS: Final = 2
LAST: Final = 3


class EventTimeline:
    """Collects events and puts them in order: by time, causes before effects, none before the start or after now."""

    def __init__(self, begin: int, now: int) -> None:
        self._begin = min(begin, now)
        self._now = now
        self._entries: list[tuple[int, int, int, int, EventData]] = []

    @property
    def latest(self) -> int:
        return max((entry[0] for entry in self._entries), default=self._begin)

    def bounded(self, at: int) -> int:
        return min(max(at, self._begin), self._now)

    def add(self, at: int, data: EventData, rank: int = ORDINARY, position: int = 0) -> int:
        """Add an event; returns its time: `at`, bounded."""
        bounded = self.bounded(at)
        self._entries.append((bounded, rank, position, len(self._entries), data))
        return bounded

    def events(self) -> list[TimedEvent]:
        return [TimedEvent(entry[0], entry[4]) for entry in sorted(self._entries, key=lambda entry: entry[:4])]

    def __bool__(self) -> bool:
        return bool(self._entries)


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────

_MESSAGES = ("message", "error", "description", "detail", "text", "reason")
_TIMES = ("timestamp", "time", "at", "date", "occurred_at")
_AGENTS = ("agent", "agent_id", "source")
_MAX_MESSAGE_LENGTH = 500


class ErrorEntry(NamedTuple):
    at: int | None
    agent: str | None
    message: str
    category: str | None
    # Position in the list, which orders errors at one moment.
    position: int


def read_error(entry: Json, position: int) -> ErrorEntry:
    if not isinstance(entry, dict):
        return ErrorEntry(None, None, entry if isinstance(entry, str) else _text(entry), None, position)
    at = next((time for key in _TIMES if (time := time_ms(entry.get(key))) is not None), None)
    message = _first(entry, _MESSAGES)
    category = entry.get("category")
    return ErrorEntry(
        at, _first(entry, _AGENTS) or None, _text(entry) if message is None else message,
        category if isinstance(category, str) else None, position,
    )  # fmt: skip


def _first(entry: dict[str, Json], keys: Iterable[str]) -> str | None:
    return next((value for key in keys if isinstance(value := entry.get(key), str)), None)


def _text(entry: Json) -> str:
    return shorten(json.dumps(entry, ensure_ascii=False), _MAX_MESSAGE_LENGTH)


class ErrorEntries:
    """The new error entries; those that describe an agent's failure are taken out.

    The specification leaves their shape open: text and objects of any kind are read.
    """

    def __init__(self, entries: Iterable[ErrorEntry]) -> None:
        self._left = {entry.position: entry for entry in entries}

    def take(self, agent: str, ended: int | None) -> ErrorEntry | None:
        """The entry about this agent's failure: the one from the moment it ended, else its latest."""
        own = [entry for entry in self._left.values() if entry.agent == agent]
        then = [
            error
            for error in own
            if ended is not None and error.at is not None and _second(error.at) == _second(ended)
        ]
        plain = [error for error in then if error.category in CATEGORIES]
        match = plain[0] if plain else then[0] if then else own[-1] if own else None
        if match is not None:
            del self._left[match.position]
        return match

    def left(self) -> list[ErrorEntry]:
        return list(self._left.values())


def _second(ms: int) -> int:
    return ms // SECOND


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────

AgentFields = dict[str, Json]


class AgentEvents:
    def __init__(self, timeline: EventTimeline, errors: ErrorEntries, usual: int) -> None:
        self._timeline = timeline
        self._errors = errors
        # The time of changes that the document does not date.
        self._usual = timeline.bounded(usual)

    # ── new ──────────────────────────────────────────────────────────────────────────────────────────────

    def import_agent(self, entry: AgentFields, default: int) -> int:
        """Add every event of a new agent. Returns its start, `default` if unknown."""
        name = nonblank(entry, "id") or ""
        status = entry.get("status")
        completed = time_of(entry, "completed")
        started = time_of(entry, "started")
        if started is None:
            started = default if completed is None else min(default, completed)
        started_at = self._timeline.add(
            started,
            AgentStarted(
                id=name,
                type=nonblank(entry, "type") or "agent",
                task=nonblank(entry, "task"),
                pending=status == "pending",
            ),
        )
        tokens = integer(entry, "context_tokens")
        if tokens is not None and status != "complete":
            self._timeline.add(self._usual, ContextMeasured(tokens=tokens, agent=name))
        if status == "pending":
            return started_at
        ended, error = self._ending(entry, name, started_at)
        progress = integer(entry, "progress")
        if progress is not None and status != "complete":
            self._timeline.add(ended, AgentProgressed(id=name, progress=progress / 100))
        if status != "in_progress":
            self._end(ended, _final_event(status)(entry, name, None, ended, error), error)
        return started_at

    def _ending(self, entry: AgentFields, name: str, began: int) -> tuple[int, ErrorEntry | None]:
        """When it reached its status, and the error entry about it."""
        completed = time_of(entry, "completed") if entry.get("status") in ENDED else None
        error = self._errors.take(name, completed) if entry.get("status") == "failed" else None
        if completed is None:
            completed = error.at if error is not None else None
        return max(began, self._timeline.bounded(self._usual if completed is None else completed)), error

    def _end(self, at: int, data: AgentEvent, error: ErrorEntry | None) -> None:
        if isinstance(data, AgentFailed):
            # Errors of one moment keep the order of the list.
            self._timeline.add(at, data, ERRORS, -1 if error is None else error.position)
        else:
            self._timeline.add(at, data, ORDINARY)

    # ── changed ──────────────────────────────────────────────────────────────────────────────────────────

    def change_agent(self, before: AgentFields, after: AgentFields, agent: AgentState) -> None:
        name, ref = agent.id, agent.ref
        now = agents_of.status_of(agent)
        self._correct(before, after, agent)
        status = after.get("status")
        tokens = integer(after, "context_tokens")
        finishes = status == "complete" and before.get("status") != "complete"
        if tokens is not None and tokens != integer(before, "context_tokens") and not finishes:
            self._timeline.add(self._usual, ContextMeasured(tokens=tokens, agent=name))
        progress = integer(after, "progress")
        progressed: AgentProgressed | None = None
        if progress is not None and progress != integer(before, "progress") and status not in ("complete", "pending"):
            progressed = AgentProgressed(id=name, ref=ref, progress=progress / 100)
        if status != before.get("status"):
            self._change_status(after, agent, now, progressed)
        elif progressed is not None and now == "running":
            self._timeline.add(self._usual, progressed)
        elif progressed is not None and now == "paused":
            # Only a running agent progresses: it was running in between.
            self._timeline.add(self._usual, AgentResumed(id=name, ref=ref))
            self._timeline.add(self._usual, progressed)
            self._timeline.add(self._usual, AgentPaused(id=name, ref=ref))

    def _correct(self, before: AgentFields, after: AgentFields, agent: AgentState) -> None:
        """Add changes other than of the status."""
        new = {
            key: value
            for key in ("type", "task", "result_summary")
            if (value := nonblank(after, key)) is not None and value != nonblank(before, key)
        }
        if before.get("status") != after.get("status") and after.get("status") in ("complete", "failed"):
            new.pop("result_summary", None)  # the final event has it
        edit = AgentEdited(
            id=agent.id, ref=agent.ref, type=new.get("type"), task=new.get("task"), summary=new.get("result_summary")
        )
        if edit != AgentEdited(id=agent.id, ref=agent.ref):
            self._timeline.add(self._usual, edit)

    def _change_status(
        self, after: AgentFields, agent: AgentState, now: str, progressed: AgentProgressed | None
    ) -> None:
        """Add the change to the document's status, resumed first where there is no direct transition."""
        name, ref, status = agent.id, agent.ref, after.get("status")
        since = agent.started_at if agent.started_at is not None else self._timeline.bounded(agent.made.at)
        ended, error = self._ending(after, nonblank(after, "id") or name, since)
        if status == "pending":
            raise refusal(f"agent {name}", now, "agent.pending")
        if status == "in_progress":
            resumed = _back_to_work(now, name, ref)
            if resumed is None:
                raise refusal(f"agent {name}", now, "agent.resumed")
            started = time_of(after, "started") if now == "pending" else None
            at = self._timeline.add(self._usual if started is None else started, resumed)
            if progressed is not None:
                self._timeline.add(max(at, self._usual), progressed)
            return
        final = _final_event(status)(after, name, ref, ended, error)
        kind = TYPE_OF[type(final)].name
        if not allows(AGENT, now, kind):
            via = _back_to_work(now, name, ref)
            if via is None:
                raise refusal(f"agent {name}", now, kind)
            started = time_of(after, "started") if now == "pending" else None
            self._timeline.add(ended if started is None else min(started, ended), via)
            now = "running"
        if progressed is not None and now == "running":
            self._timeline.add(ended, progressed)
        self._end(ended, final, error)


def _back_to_work(status: str, name: str, ref: str) -> AgentResumed | AgentRetried | None:
    if allows(AGENT, status, "agent.resumed"):
        return AgentResumed(id=name, ref=ref)
    return AgentRetried(id=name, ref=ref) if allows(AGENT, status, "agent.retried") else None


# ── final events ─────────────────────────────────────────────────────────────────────────────────────────

_Final = Callable[[AgentFields, str, str | None, int, ErrorEntry | None], AgentEvent]


def _completed(
    entry: AgentFields, name: str, ref: str | None, _at: int, _error_entry: ErrorEntry | None
) -> AgentEvent:
    summary = entry.get("result_summary")
    return AgentCompleted(
        id=name,
        ref=ref,
        summary=summary if isinstance(summary, str) else None,
        tokens=integer(entry, "context_tokens"),
    )


def _failed(entry: AgentFields, name: str, ref: str | None, _at: int, error: ErrorEntry | None) -> AgentEvent:
    if error is None:
        return AgentFailed(
            id=name, ref=ref, category="logical", message=nonblank(entry, "result_summary") or "failed"
        )
    category = error.category if error.category in CATEGORIES else "logical"
    return AgentFailed(id=name, ref=ref, category=category, message=error.message)


def _paused(_entry: AgentFields, name: str, ref: str | None, _at: int, _error_entry: ErrorEntry | None) -> AgentEvent:
    return AgentPaused(id=name, ref=ref)


def _aborted(
    _entry: AgentFields, name: str, ref: str | None, _at: int, _error_entry: ErrorEntry | None
) -> AgentEvent:
    return AgentAborted(id=name, ref=ref)


def _interrupted(
    _entry: AgentFields, name: str, ref: str | None, at: int, _error_entry: ErrorEntry | None
) -> AgentEvent:
    return AgentInterrupted(id=name, ref=ref, last_seen=at)


def _final_event(status: Json) -> _Final:
    known: dict[Json, _Final] = {
        "complete": _completed, "failed": _failed, "paused": _paused, "aborted": _aborted,
        "interrupted": _interrupted,
    }  # fmt: skip
    return known[status]
