"""Apply events to the agents of a session."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.activity import last_message
from holdfast.core.envelope import Event
from holdfast.core.events import (
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
    AgentTimedOut,
)
from holdfast.core.lifecycle import FINISHED
from holdfast.core.registers import add_contradiction, current_write, write_status
from holdfast.core.state import AgentFailure, AgentRun, AgentState, State, Write

FAILED = frozenset({"error", "timeout", "interrupted"})
_ENDED = frozenset({"completed", "error", "timeout", "aborted", "interrupted"})


def find(state: State, agent_id: str, ref: str | None = None) -> AgentState | None:
    """An agent by the event that created it; by id alone, the one created last."""
    if ref is not None and ref in state.agents:
        return state.agents[ref]
    refs = state.agent_refs.get(agent_id)
    return state.agents[refs[-1]] if refs else None


def status_of(agent: AgentState) -> str:
    current = current_write("agent", agent.status)
    return "pending" if current is None else str(current.value)


def running(state: State) -> list[AgentState]:
    return [agent for agent in state.agents.values() if status_of(agent) == "running"]


class FailedAgents(NamedTuple):
    """The ids of agents that failed or were interrupted, unless the person has written since."""

    recent: frozenset[str] = frozenset()
    # Those nobody follows up: a conversation takes care of the agents that it interrupted itself.
    unattended: frozenset[str] = frozenset()
    # Those of the unattended that no conversation started: they may be retried.
    retry: frozenset[str] = frozenset()


def failed_agents(state: State) -> FailedAgents:
    message = last_message(state.time)
    resumed = {mark.at for mark in state.time.marks if mark.kind == "resumed"}
    recent = [
        agent
        for agent in state.agents.values()
        if status_of(agent) in FAILED and (message is None or message <= _concluded_at(agent))
    ]
    unattended = [
        agent
        for agent in recent
        if agent.conversation is None or status_of(agent) != "interrupted" or _concluded_at(agent) in resumed
    ]
    return FailedAgents(
        frozenset(agent.id for agent in recent),
        frozenset(agent.id for agent in unattended),
        frozenset(agent.id for agent in unattended if agent.conversation is None),
    )


def _concluded_at(agent: AgentState) -> int:
    current = current_write("agent", agent.status)
    return agent.touched_at if current is None else current.at


def apply_started(state: State, event: Event, data: AgentStarted) -> None:
    existing = find(state, data.id)
    made = Write(data.task or data.type, event.writer, event.seq, event.hash, event.at)
    if existing is not None:
        add_contradiction(state, f"agents.{data.id}", existing.made, made.value, event)
    agent = AgentState(
        ref=event.hash, id=data.id, type=data.type, writer=event.writer, made=made, task=data.task,
        blocking_on=data.blocking_on, background=data.background, pid=data.pid, process=data.process,
        conversation=data.conversation, touched_at=event.at,
    )  # fmt: skip
    agent.status = [Write("pending" if data.pending else "running", event.writer, event.seq, event.hash, event.at)]
    if not data.pending:
        agent.started_at = event.at
        agent.runs = [AgentRun(event.at)]
    state.agents[event.hash] = agent
    state.agent_refs.setdefault(agent.id, []).append(agent.ref)


def apply_change(state: State, event: Event, data: AgentEvent) -> None:
    agent = find(state, data.id, data.ref)
    if agent is None:
        state.not_applied += 1
        return
    if not isinstance(data, AgentInterrupted):
        agent.touched_at = max(agent.touched_at, event.at)
    if isinstance(data, AgentProgressed):
        # A measurement, not a status: the later one counts, and there is no conflict.
        if status_of(agent) not in FINISHED:
            agent.progress = min(max(data.progress, 0.0), 1.0)
        return
    if isinstance(data, AgentEdited):  # a correction: the later one counts here too
        agent.type = data.type if data.type is not None else agent.type
        agent.task = data.task if data.task is not None else agent.task
        agent.blocking_on = data.blocking_on if data.blocking_on is not None else agent.blocking_on
        agent.summary = data.summary if data.summary is not None else agent.summary
        agent.tokens = data.tokens if data.tokens is not None else agent.tokens
        agent.background = data.background if data.background is not None else agent.background
        return
    concluded = current_write("agent", agent.status)
    if not write_status(state, "agent", agent.status, f"agents.{agent.id}.status", event):
        return
    if isinstance(data, AgentCompleted | AgentFailed) and concluded is not None and concluded.value == "interrupted":
        _reopen(state, agent, concluded.at)
    match data:
        case AgentCompleted():
            agent.summary = data.summary if data.summary is not None else agent.summary
            agent.progress = 1.0
            if data.tokens is not None:
                agent.tokens = data.tokens
                state.by_agent[agent.id] = data.tokens
            _end(agent, event.at)
        case AgentFailed():
            _fail(state, agent, event.at, data.message, data.category)
        case AgentTimedOut():
            _fail(state, agent, event.at, data.message, "transient")
        case AgentInterrupted():
            last_seen = min(data.last_seen, event.at)
            _end(agent, last_seen if agent.started_at is None else max(last_seen, agent.started_at))
        case AgentAborted():
            _end(agent, event.at)
        case AgentPaused():
            _close(agent, event.at)
        case AgentResumed() | AgentRetried():
            if isinstance(data, AgentRetried):
                agent.retries += 1
                agent.last_retry_at = event.at
                agent.pid, agent.process = None, None  # those of the last attempt
            agent.started_at = event.at if agent.started_at is None else agent.started_at
            agent.ended_at = None
            if not agent.runs or agent.runs[-1].until is not None:  # two devices may have started it at once
                agent.runs.append(AgentRun(event.at))
            if data.pid is not None:
                agent.pid = data.pid
            if data.process is not None:
                agent.process = data.process


def _reopen(state: State, agent: AgentState, concluded_at: int) -> None:
    """Reopen the last run of an agent that was taken for dead and now reports its end: it ran until now.

    Does nothing if the person has worked since, so that working time does not change.
    """
    attended = state.time.attended
    if agent.runs and not (attended and (attended[-1].until or attended[-1].since) >= concluded_at):
        agent.runs[-1].until = None


def close_run(agent: AgentState, at: int) -> None:
    """Close the run of an agent whose ending a person chose in a conflict."""
    if status_of(agent) in _ENDED and agent.runs and agent.runs[-1].until is None:
        _end(agent, at)


def _fail(state: State, agent: AgentState, at: int, message: str, category: str) -> None:
    agent.failure = AgentFailure(at, message, category, agent.id)
    agent.failed_attempts.append(at)
    state.failures.append(agent.failure)
    _end(agent, at)


def _end(agent: AgentState, at: int) -> None:
    agent.ended_at = at
    _close(agent, at)


def _close(agent: AgentState, at: int) -> None:
    if agent.runs and agent.runs[-1].until is None:
        agent.runs[-1].until = max(at, agent.runs[-1].since)
