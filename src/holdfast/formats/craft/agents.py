"""What a document tells of an agent, as events: its whole story, or what happened between two versions of it."""

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
from holdfast.formats.craft import fields, names

# A count in a file is somebody's word; a log is not filled with it.
MOST_RETRIES: Final = 20
_ENDED: Final = frozenset({"completed", "error", "timeout", "aborted"})

# From one status to another, by the verbs of the lifecycle table. What is not here is refused.
_WAYS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
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
    """When things may have happened: `usual` is for what names no time of its own."""

    begin: int
    usual: int
    now: int

    def clamped(self, at: int | None, *, least: int | None = None) -> int:
        """A time within the span; the usual one when none is given."""
        return min(max(self.usual if at is None else at, self.begin if least is None else least), self.now)


class _Telling:
    """An agent's words, and the events made of them."""

    def __init__(self, agent: Document, span: TimeSpan, tokens: int | None, ref: str | None = None) -> None:
        self.name = str(agent.get("id"))
        self.status = names.agent_status(str(agent.get("status")), agent.get("result"))
        self.error = fields.part(agent, "error")
        self.retries = min(fields.whole(self.error, "retry_count") or 0, MOST_RETRIES)
        self.progress = fields.number(agent, "progress")
        self._agent, self._tokens, self._ref = agent, tokens, ref
        self.started, self.ended = self._when(span)
        start = span.begin if self.started is None else self.started
        retried = fields.moment(self.error, "last_retry_at")
        self.retried = min(span.clamped(start if retried is None else retried, least=start), self.end(span))

    def _when(self, span: TimeSpan) -> tuple[int | None, int | None]:
        """Beginning and end; each from the other and the duration, where it is not told."""
        started, ended = fields.moment(self._agent, "started_at"), fields.moment(self._agent, "completed_at")
        seconds = fields.whole(self._agent, "duration_seconds")
        took = None if seconds is None else seconds * SECOND
        if self.status not in _ENDED:
            if started is None and self.status == "running":
                started = span.usual
            return None if started is None else span.clamped(started), None
        if ended is None and started is not None and took is not None:
            ended = started + took
        if started is None and ended is not None and took is not None:
            started = ended - took
        if started is None and self.status in ("completed", "timeout"):
            started = span.usual if ended is None else ended
        started = None if started is None else span.clamped(started)
        return started, span.clamped(ended, least=started)

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
                    id=self.name, ref=self._ref, category=category, message=message or names.UNKNOWN_FAILURE
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

    def noted(self) -> EventData:
        return ErrorNoted(
            message=fields.text(self.error, "message") or names.UNKNOWN_FAILURE,
            category=fields.text(self.error, "category"),
            agent=self.name,
        )

    def progressed(self) -> EventData:
        return AgentProgressed(id=self.name, ref=self._ref, progress=min(max(self.progress or 0.0, 0.0), 1.0))


def ended(agent: Document, span: TimeSpan) -> int:
    """When the agent ended, or was last heard of."""
    return _Telling(agent, span, None).end(span)


def story(agent: Document, span: TimeSpan, tokens: int | None) -> Iterator[TimedEvent]:
    """Everything a document says of an agent, from its beginning."""
    told = _Telling(agent, span, tokens)
    if told.started is None and told.retries:
        told.started = told.retried  # what was tried again has begun, by then at the latest
    end = told.end(span)
    yield TimedEvent(
        span.begin if told.started is None else told.started,
        AgentStarted(
            id=told.name,
            type=str(agent.get("type")),
            blocking_on=fields.text(agent, "blocking_on"),
            pending=told.started is None,
        ),
    )
    failed = "timed_out" if told.status == "timeout" else "failed"
    for _ in range(told.retries):
        yield TimedEvent(told.retried, told.event(failed))
        yield TimedEvent(told.retried, told.event("retried"))
    ran = told.started is not None
    if told.progress is not None and ran and told.status != "completed":
        yield TimedEvent(end, told.progressed())
    if told.error and told.status in ("pending", "running", "completed") and not told.retries:
        yield TimedEvent(end, told.noted())
    if told.status in ("error", "timeout") or (told.status == "aborted" and told.error):
        yield TimedEvent(end, told.event(failed))
    if told.status in ("completed", "aborted"):
        yield TimedEvent(end, told.event(told.status))
    if told.status == "pending" and ran:
        yield TimedEvent(end, told.event("paused"))


def changed(
    before: Document, after: Document, agent: AgentState, span: TimeSpan, tokens: int | None
) -> Iterator[TimedEvent]:
    """What happened to an agent between two versions of a document, each thing no earlier than the one before."""
    at = span.begin
    for event in _changed(before, after, agent, span, tokens):
        at = max(at, event.at)
        yield TimedEvent(at, event.data)


def _changed(
    before: Document, after: Document, agent: AgentState, span: TimeSpan, tokens: int | None
) -> Iterator[TimedEvent]:
    told = _Telling({**after, "id": agent.id}, span, tokens, agent.ref)
    was = _Telling(before, span, tokens)
    status = agents_of.status_of(agent)
    steps: tuple[str, ...] = ()
    if told.status not in (was.status, status):
        way = _WAYS.get(status, {}).get(told.status)
        if way is None:
            raise refusal(f"agent {agent.id}", status, f"agent.{_VERBS.get(told.status, 'changed')}")
        steps = way
    start = span.begin if agent.started_at is None else agent.started_at
    end = span.clamped(told.ended if told.status in _ENDED else None, least=min(start, span.now))
    more = min(max(told.retries - was.retries, 0), MOST_RETRIES)
    for verb in steps:
        status = {"resumed": "running", "retried": "running"}.get(verb, told.status)
        if verb == "resumed" and agent.started_at is None:
            yield TimedEvent(min(span.clamped(told.started), end), told.event(verb))
        elif verb == "retried":
            yield TimedEvent(min(told.retried, end), told.event(verb))
            more -= 1
        else:
            if verb in ("completed", "failed", "timed_out"):
                # Attempts in between that nobody recorded.
                yield from _attempts(told, "failed", "retried", more if _runs(agent, steps) else 0, end)
                more = 0
            yield TimedEvent(end, told.event(verb))
    if not steps and status in ("error", "timeout"):
        yield from _attempts(told, "retried", "failed" if status == "error" else "timed_out", more, end)
    elif status == "running":
        yield from _attempts(told, "failed", "retried", more, end)
    if not steps and told.error and not more and _words(told.error) != _words(was.error):
        yield TimedEvent(end, told.noted())
    if status == "running" and told.progress is not None and told.progress != was.progress:
        yield TimedEvent(end, told.progressed())
    yield from _corrected(before, after, agent, span)  # last: what names no time pushes nothing aside


def _corrected(before: Document, after: Document, agent: AgentState, span: TimeSpan) -> Iterator[TimedEvent]:
    """Other facts about an agent, whatever became of its status."""
    new = {
        key: said
        for key in ("type", "blocking_on", "output_summary")
        if (said := fields.said(after, key)) is not None and said != fields.text(before, key)
    }
    if before.get("status") != "completed" and after.get("status") == "completed":
        new.pop("output_summary", None)  # its end says it
    edit = AgentEdited(
        id=agent.id, ref=agent.ref, type=new.get("type"), blocking_on=new.get("blocking_on"),
        summary=new.get("output_summary"),
    )  # fmt: skip
    if edit != AgentEdited(id=agent.id, ref=agent.ref):
        yield TimedEvent(span.usual, edit)


def _runs(agent: AgentState, steps: tuple[str, ...]) -> bool:
    """Does the agent run just before the last of these steps?"""
    return len(steps) > 1 or agents_of.status_of(agent) == "running"


def _attempts(told: _Telling, first: str, then: str, count: int, end: int) -> Iterator[TimedEvent]:
    for _ in range(count):
        yield TimedEvent(min(told.retried, end), told.event(first))
        yield TimedEvent(min(told.retried, end), told.event(then))


def _words(error: Document) -> tuple[str | None, str | None]:
    return fields.text(error, "category"), fields.text(error, "message")
