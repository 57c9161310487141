"""The agents of a document: what a new one tells, and what a changed one does."""

from __future__ import annotations

from collections.abc import Callable

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
)
from holdfast.core.failures import CATEGORIES
from holdfast.core.lifecycle import AGENT, allows, refusal
from holdfast.core.state import AgentState
from holdfast.formats.orchestrator.error_entries import Mishap, Mishaps
from holdfast.formats.orchestrator.event_order import ERRORS, ORDINARY, EventOrder
from holdfast.formats.orchestrator.fields import when, whole, words
from holdfast.formats.orchestrator.statuses import ENDED

Entry = dict[str, Json]


class Agents:
    def __init__(self, story: EventOrder, mishaps: Mishaps, moment: int) -> None:
        self._story = story
        self._mishaps = mishaps
        # When things happened of which the document tells no time.
        self._moment = story.bounded(moment)

    # ── new ──────────────────────────────────────────────────────────────────────────────────────────────

    def begun(self, entry: Entry, otherwise: int) -> int:
        """A new agent with everything that became of it. Returns when it began: `otherwise`, if nobody said."""
        name = words(entry, "id") or ""
        status = entry.get("status")
        completed = when(entry, "completed")
        started = when(entry, "started")
        if started is None:
            started = otherwise if completed is None else min(otherwise, completed)
        began = self._story.tell(
            started,
            AgentStarted(
                id=name, type=words(entry, "type") or "agent", task=words(entry, "task"), pending=status == "pending"
            ),
        )
        tokens = whole(entry, "context_tokens")
        if tokens is not None and status != "complete":
            self._story.tell(self._moment, ContextMeasured(tokens=tokens, agent=name))
        if status == "pending":
            return began
        ended, mishap = self._ending(entry, name, began)
        progress = whole(entry, "progress")
        if progress is not None and status != "complete":
            self._story.tell(ended, AgentProgressed(id=name, progress=progress / 100))
        if status != "in_progress":
            self._end(ended, _final(status)(entry, name, None, ended, mishap), mishap)
        return began

    def _ending(self, entry: Entry, name: str, began: int) -> tuple[int, Mishap | None]:
        """When it came to stand as it does, and the error that tells of it."""
        completed = when(entry, "completed") if entry.get("status") in ENDED else None
        mishap = self._mishaps.take(name, completed) if entry.get("status") == "failed" else None
        if completed is None:
            completed = mishap.at if mishap is not None else None
        return max(began, self._story.bounded(self._moment if completed is None else completed)), mishap

    def _end(self, at: int, data: AgentEvent, mishap: Mishap | None) -> None:
        if isinstance(data, AgentFailed):
            # Among errors of one moment, the order is that of the list.
            self._story.tell(at, data, ERRORS, -1 if mishap is None else mishap.position)
        else:
            self._story.tell(at, data, ORDINARY)

    # ── changed ──────────────────────────────────────────────────────────────────────────────────────────

    def changed(self, before: Entry, after: Entry, agent: AgentState) -> None:
        name, ref = agent.id, agent.ref
        now = agents_of.status_of(agent)
        self._correct(before, after, agent)
        status = after.get("status")
        tokens = whole(after, "context_tokens")
        finishes = status == "complete" and before.get("status") != "complete"
        if tokens is not None and tokens != whole(before, "context_tokens") and not finishes:
            self._story.tell(self._moment, ContextMeasured(tokens=tokens, agent=name))
        progress = whole(after, "progress")
        moved: AgentProgressed | None = None
        if progress is not None and progress != whole(before, "progress") and status not in ("complete", "pending"):
            moved = AgentProgressed(id=name, ref=ref, progress=progress / 100)
        if status != before.get("status"):
            self._move(after, agent, now, moved)
        elif moved is not None and now == "running":
            self._story.tell(self._moment, moved)
        elif moved is not None and now == "paused":
            # Only who is at work gets on: it was, in between.
            self._story.tell(self._moment, AgentResumed(id=name, ref=ref))
            self._story.tell(self._moment, moved)
            self._story.tell(self._moment, AgentPaused(id=name, ref=ref))

    def _correct(self, before: Entry, after: Entry, agent: AgentState) -> None:
        """Other facts about it, whatever became of its status."""
        new = {
            key: said
            for key in ("type", "task", "result_summary")
            if (said := words(after, key)) is not None and said != words(before, key)
        }
        if before.get("status") != after.get("status") and after.get("status") in ("complete", "failed"):
            new.pop("result_summary", None)  # its end says it
        edit = AgentEdited(
            id=agent.id, ref=agent.ref, type=new.get("type"), task=new.get("task"), summary=new.get("result_summary")
        )
        if edit != AgentEdited(id=agent.id, ref=agent.ref):
            self._story.tell(self._moment, edit)

    def _move(self, after: Entry, agent: AgentState, now: str, moved: AgentProgressed | None) -> None:
        """From the status it has to the one it is said to have, by way of work where there is no direct way."""
        name, ref, status = agent.id, agent.ref, after.get("status")
        since = agent.started_at if agent.started_at is not None else self._story.bounded(agent.made.at)
        ended, mishap = self._ending(after, words(after, "id") or name, since)
        if status == "pending":
            raise refusal(f"agent {name}", now, "agent.pending")
        if status == "in_progress":
            again = _going_on(now, name, ref)
            if again is None:
                raise refusal(f"agent {name}", now, "agent.resumed")
            started = when(after, "started") if now == "pending" else None
            at = self._story.tell(self._moment if started is None else started, again)
            if moved is not None:
                self._story.tell(max(at, self._moment), moved)
            return
        final = _final(status)(after, name, ref, ended, mishap)
        kind = TYPE_OF[type(final)].name
        if not allows(AGENT, now, kind):
            via = _going_on(now, name, ref)
            if via is None:
                raise refusal(f"agent {name}", now, kind)
            started = when(after, "started") if now == "pending" else None
            self._story.tell(ended if started is None else min(started, ended), via)
            now = "running"
        if moved is not None and now == "running":
            self._story.tell(ended, moved)
        self._end(ended, final, mishap)


def _going_on(status: str, name: str, ref: str) -> AgentResumed | AgentRetried | None:
    if allows(AGENT, status, "agent.resumed"):
        return AgentResumed(id=name, ref=ref)
    return AgentRetried(id=name, ref=ref) if allows(AGENT, status, "agent.retried") else None


# ── how an agent comes to stand as it does ───────────────────────────────────────────────────────────────

_Final = Callable[[Entry, str, str | None, int, Mishap | None], AgentEvent]


def _completed(entry: Entry, name: str, ref: str | None, _at: int, _mishap: Mishap | None) -> AgentEvent:
    summary = entry.get("result_summary")
    return AgentCompleted(
        id=name, ref=ref, summary=summary if isinstance(summary, str) else None, tokens=whole(entry, "context_tokens")
    )


def _failed(entry: Entry, name: str, ref: str | None, _at: int, mishap: Mishap | None) -> AgentEvent:
    if mishap is None:
        return AgentFailed(id=name, ref=ref, category="logical", message=words(entry, "result_summary") or "failed")
    category = mishap.category if mishap.category in CATEGORIES else "logical"
    return AgentFailed(id=name, ref=ref, category=category, message=mishap.message)


def _paused(_entry: Entry, name: str, ref: str | None, _at: int, _mishap: Mishap | None) -> AgentEvent:
    return AgentPaused(id=name, ref=ref)


def _aborted(_entry: Entry, name: str, ref: str | None, _at: int, _mishap: Mishap | None) -> AgentEvent:
    return AgentAborted(id=name, ref=ref)


def _interrupted(_entry: Entry, name: str, ref: str | None, at: int, _mishap: Mishap | None) -> AgentEvent:
    return AgentInterrupted(id=name, ref=ref, last_seen=at)


def _final(status: Json) -> _Final:
    known: dict[Json, _Final] = {
        "complete": _completed, "failed": _failed, "paused": _paused, "aborted": _aborted,
        "interrupted": _interrupted,
    }  # fmt: skip
    return known[status]
