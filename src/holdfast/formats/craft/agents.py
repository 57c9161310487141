"""Turn one agent of a craft document into events: all of it on import, or what changed between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.core import agents as agents_of
from holdfast.core.events import (
    AgentAborted,
    AgentCompleted,
    AgentEdited,
    AgentFailed,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    AgentTimedOut,
    ErrorNoted,
    EventData,
)
from holdfast.core.lifecycle import refusal
from holdfast.core.state import AgentState
from holdfast.core.times import SECOND
from holdfast.formats.base import Document, TimedEvent
from holdfast.formats.craft import fields

# A retry count in a file is not verified: no more retries than this go into the log.
MAX_RETRIES: Final = 20
_ENDED: Final = frozenset({"completed", "error", "timeout", "aborted"})

# From one status to another, as verbs of the lifecycle table. A pair that is missing is refused.
_TRANSITIONS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "pending": {
        "running": ("resumed",), "completed": ("resumed", "completed"), "error": ("failed",),
        "timeout": ("resumed", "timed_out"), "aborted": ("aborted",),
    },
    "running": {
        "pending": ("paused",), "completed": ("completed",), "error": ("failed",), "timeout": ("timed_out",),
        "aborted": ("aborted",),
    },
    "paused": {
        "pending": (), "running": ("resumed",), "completed": ("completed",), "error": ("failed",),
        "timeout": ("timed_out",), "aborted": ("aborted",),
    },
    "error": {
        "pending": ("retried", "paused"), "running": ("retried",), "completed": ("retried", "completed"),
        "timeout": ("retried", "timed_out"), "aborted": ("aborted",),
    },
    "timeout": {
        "pending": ("retried", "paused"), "running": ("retried",), "completed": ("retried", "completed"),
        "error": ("retried", "failed"), "aborted": ("aborted",),
    },
    "interrupted": {
        "pending": ("retried", "paused"), "running": ("retried",), "completed": ("completed",),
        "error": ("failed",), "timeout": ("retried", "timed_out"), "aborted": ("aborted",),
    },
    "completed": {},
    "aborted": {},
}  # fmt: skip
_VERBS: Final = {
    "pending": "paused", "running": "resumed", "completed": "completed", "error": "failed", "timeout": "timed_out",
    "aborted": "aborted",
}  # fmt: skip


class TimeSpan(NamedTuple):
    """When events may have happened; `usual` is for those without a time of their own."""

    begin: int
    usual: int
    now: int

    def clamped(self, at: int | None, *, least: int | None = None) -> int:
        """A time within the span; the usual one when none is given."""
        return min(max(self.usual if at is None else at, self.begin if least is None else least), self.now)


class _AgentEntry:
    """An agent as the document has it, and the events made from it."""

    def __init__(self, agent: Document, span: TimeSpan, tokens: int | None, ref: str | None = None) -> None:
        self.name = str(agent.get("id"))
        self.status = fields.agent_status(str(agent.get("status")), agent.get("result"))
        self.error = fields.obj(agent, "error")
        self.retries = min(fields.integer(self.error, "retry_count") or 0, MAX_RETRIES)
        self.progress = fields.number(agent, "progress")
        self._agent, self._tokens, self._ref = agent, tokens, ref
        self.started, self.ended = self._times(span)
        start = span.begin if self.started is None else self.started
        retried = fields.time(self.error, "last_retry_at")
        self.retried = min(span.clamped(start if retried is None else retried, least=start), self.end(span))

    def _times(self, span: TimeSpan) -> tuple[int | None, int | None]:
        """Start and end; a missing one follows from the other and the duration."""
        started, ended_at = fields.time(self._agent, "started_at"), fields.time(self._agent, "completed_at")
        seconds = fields.integer(self._agent, "duration_seconds")
        took = None if seconds is None else seconds * SECOND
        if self.status not in _ENDED:
            if started is None and self.status == "running":
                started = span.usual
            return None if started is None else span.clamped(started), None
        if ended_at is None and started is not None and took is not None:
            ended_at = started + took
        if started is None and ended_at is not None and took is not None:
            started = ended_at - took
        if started is None and self.status in ("completed", "timeout"):
            started = span.usual if ended_at is None else ended_at
        started = None if started is None else span.clamped(started)
        return started, span.clamped(ended_at, least=started)

    def end(self, span: TimeSpan) -> int:
        return span.clamped(self.ended, least=self.started)

    def event(self, verb: str) -> EventData:
        category = fields.text(self.error, "category") or "logical"
        message = fields.text(self.error, "message")
        match verb:
            case "completed":
                summary = fields.text(self._agent, "output_summary")
                return AgentCompleted(id=self.name, ref=self._ref, summary=summary, tokens=self._tokens)
            case "failed":
                return AgentFailed(
                    id=self.name, ref=self._ref, category=category, message=message or fields.UNKNOWN_FAILURE
                )
            case "timed_out":
                return AgentTimedOut(id=self.name, ref=self._ref, message=message or "timed out")
            case "retried":
                return AgentRetried(id=self.name, ref=self._ref)
            case "paused":
                return AgentPaused(id=self.name, ref=self._ref)
            case "resumed":
                return AgentResumed(id=self.name, ref=self._ref)
        return AgentAborted(id=self.name, ref=self._ref)

    def error_noted(self) -> EventData:
        return ErrorNoted(
            message=fields.text(self.error, "message") or fields.UNKNOWN_FAILURE,
            category=fields.text(self.error, "category"),
            agent=self.name,
        )

    def progressed(self) -> EventData:
        return AgentProgressed(id=self.name, ref=self._ref, progress=min(max(self.progress or 0.0, 0.0), 1.0))


def ended_at(agent: Document, span: TimeSpan) -> int:
    """When the agent ended, or was last mentioned."""
    return _AgentEntry(agent, span, None).end(span)


def import_events(agent: Document, span: TimeSpan, tokens: int | None) -> Iterator[TimedEvent]:
    """Every event of an agent that is new in a document."""
    entry = _AgentEntry(agent, span, tokens)
    if entry.started is None and entry.retries:
        entry.started = entry.retried  # an agent that was retried has started by then
    end = entry.end(span)
    yield TimedEvent(
        span.begin if entry.started is None else entry.started,
        AgentStarted(
            id=entry.name,
            type=str(agent.get("type")),
            blocking_on=fields.text(agent, "blocking_on"),
            pending=entry.started is None,
        ),
    )
    failed = "timed_out" if entry.status == "timeout" else "failed"
    for _ in range(entry.retries):
        yield TimedEvent(entry.retried, entry.event(failed))
        yield TimedEvent(entry.retried, entry.event("retried"))
    ran = entry.started is not None
    if entry.progress is not None and ran and entry.status != "completed":
        yield TimedEvent(end, entry.progressed())
    if entry.error and entry.status in ("pending", "running", "completed") and not entry.retries:
        yield TimedEvent(end, entry.error_noted())
    if entry.status in ("error", "timeout") or (entry.status == "aborted" and entry.error):
        yield TimedEvent(end, entry.event(failed))
    if entry.status in ("completed", "aborted"):
        yield TimedEvent(end, entry.event(entry.status))
    if entry.status == "pending" and ran:
        yield TimedEvent(end, entry.event("paused"))


def change_events(
    before: Document, after: Document, agent: AgentState, span: TimeSpan, tokens: int | None
) -> Iterator[TimedEvent]:
    """What happened to an agent between two versions of a document, in order of time."""
    at = span.begin
    for event in _changes(before, after, agent, span, tokens):
        at = max(at, event.at)
        yield TimedEvent(at, event.data)


def _changes(
    before: Document, after: Document, agent: AgentState, span: TimeSpan, tokens: int | None
) -> Iterator[TimedEvent]:
    entry = _AgentEntry({**after, "id": agent.id}, span, tokens, agent.ref)
    earlier = _AgentEntry(before, span, tokens)
    status = agents_of.status_of(agent)
    steps: tuple[str, ...] = ()
    if entry.status not in (earlier.status, status):
        transition = _TRANSITIONS.get(status, {}).get(entry.status)
        if transition is None:
            raise refusal(f"agent {agent.id}", status, f"agent.{_VERBS.get(entry.status, 'change_events')}")
        steps = transition
    start = span.begin if agent.started_at is None else agent.started_at
    end = span.clamped(entry.ended if entry.status in _ENDED else None, least=min(start, span.now))
    new_retries = min(max(entry.retries - earlier.retries, 0), MAX_RETRIES)
    for verb in steps:
        status = {"resumed": "running", "retried": "running"}.get(verb, entry.status)
        if verb == "resumed" and agent.started_at is None:
            yield TimedEvent(min(span.clamped(entry.started), end), entry.event(verb))
        elif verb == "retried":
            yield TimedEvent(min(entry.retried, end), entry.event(verb))
            new_retries -= 1
        else:
            if verb in ("completed", "failed", "timed_out"):
                # Attempts in between, of which only the count is known.
                yield from _attempt_events(
                    entry, "failed", "retried", new_retries if _is_running(agent, steps) else 0, end
                )
                new_retries = 0
            yield TimedEvent(end, entry.event(verb))
    if not steps and status in ("error", "timeout"):
        yield from _attempt_events(entry, "retried", "failed" if status == "error" else "timed_out", new_retries, end)
    elif status == "running":
        yield from _attempt_events(entry, "failed", "retried", new_retries, end)
    if not steps and entry.error and not new_retries and _error_text(entry.error) != _error_text(earlier.error):
        yield TimedEvent(end, entry.error_noted())
    if status == "running" and entry.progress is not None and entry.progress != earlier.progress:
        yield TimedEvent(end, entry.progressed())
    yield from _correction_events(before, after, agent, span)  # last, since these have no time of their own


def _correction_events(before: Document, after: Document, agent: AgentState, span: TimeSpan) -> Iterator[TimedEvent]:
    """Changes other than of the status."""
    new = {
        key: value
        for key in ("type", "blocking_on", "output_summary")
        if (value := fields.nonblank(after, key)) is not None and value != fields.text(before, key)
    }
    if before.get("status") != "completed" and after.get("status") == "completed":
        new.pop("output_summary", None)  # the completion has it
    edit = AgentEdited(
        id=agent.id, ref=agent.ref, type=new.get("type"), blocking_on=new.get("blocking_on"),
        summary=new.get("output_summary"),
    )  # fmt: skip
    if edit != AgentEdited(id=agent.id, ref=agent.ref):
        yield TimedEvent(span.usual, edit)


def _is_running(agent: AgentState, steps: tuple[str, ...]) -> bool:
    """Does the agent run just before the last of these steps?"""
    return len(steps) > 1 or agents_of.status_of(agent) == "running"


def _attempt_events(entry: _AgentEntry, first: str, second: str, count: int, end: int) -> Iterator[TimedEvent]:
    for _ in range(count):
        yield TimedEvent(min(entry.retried, end), entry.event(first))
        yield TimedEvent(min(entry.retried, end), entry.event(second))


def _error_text(error: Document) -> tuple[str | None, str | None]:
    return fields.text(error, "category"), fields.text(error, "message")
