"""Turn reports about subagents into agents of the session.

Programs report a subagent's task with the call, its id when it starts, and its tokens when the call returns. Calls
whose agent has not started are kept in the session meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.conversations.adapters import errors
from holdfast.conversations.adapters.clean_text import id_of, plain
from holdfast.conversations.signals import AgentBegan, AgentEnded, Called
from holdfast.core import agents
from holdfast.core.canonical import Json
from holdfast.core.events import (
    AgentAborted,
    AgentCompleted,
    AgentEdited,
    AgentFailed,
    AgentInterrupted,
    AgentStarted,
    EventData,
    ExtraKept,
    Process,
)
from holdfast.core.secrets.patterns import redact
from holdfast.core.state import AgentState, State


class Timed(NamedTuple):
    """An event with another time than its report."""

    at: int
    data: EventData


_CALLS = ".calls"
_MAX_CALLS = 50
_UNFINISHED = ("pending", "running", "paused", "interrupted")


def known_agent(state: State, name: str | None) -> str | None:
    """The id of a program's subagent in the session, if it is known."""
    agent = None if name is None else _find(state, name)
    return None if agent is None else agent.id


def end_unreported(
    state: State, conversation: str, at: int, *, is_own: Callable[[str], bool], background: bool
) -> Iterator[AgentInterrupted]:
    """End agents of the conversation whose end was not reported: its present activity shows that they have ended.

    Agents in the `background` outlive a turn. Agents recorded by others' devices stay: they may name any
    conversation.
    """
    for agent in list(state.agents.values()):
        if (
            agent.conversation == conversation
            and agents.status_of(agent) in ("pending", "running", "paused")
            and (background or not agent.background)
            and agent.made.at <= at
            and is_own(agent.writer)
        ):
            yield AgentInterrupted(id=agent.id, ref=agent.ref, last_seen=min(agent.touched_at, at))


def subagent_events(
    state: State, signal: Called | AgentBegan | AgentEnded, at: int, process: Process | None, conversation: str
) -> Iterator[EventData | Timed]:
    match signal:
        case Called(begins=True):
            began = AgentBegan(agent=signal.call, type=signal.type, task=signal.task, background=signal.background)
            yield from _events_of_start(state, began, at, process, conversation)
        case Called():
            calls = _calls(state)
            task, counts = redact(plain(signal.task or "", 500))
            calls[plain(signal.call, 100)] = [plain(signal.type, 100), task, signal.background, None, at]
            yield _keep_calls(calls, counts)
        case AgentBegan():
            yield from _events_of_start(state, signal, at, process, conversation)
        case AgentEnded():
            yield from _events_of_end(state, signal, at, conversation)


def _events_of_start(
    state: State, signal: AgentBegan, at: int, process: Process | None, conversation: str
) -> Iterator[EventData]:
    name = signal.agent or signal.type
    agent = _find(state, name)
    calls = _calls(state)
    if agent is not None and (
        signal.call is not None
        or agents.status_of(agent) == "running"
        or (agent.ended_at is not None and at <= agent.ended_at)
    ):
        # Already known. The returned call is more reliable than the order of calls.
        yield from _correct(agent, signal)
        if signal.call is not None and calls.pop(plain(signal.call, 100), None) is not None:
            yield _keep_calls(calls)
        return
    call = plain(signal.call, 100) if signal.call is not None else _next_call(calls, signal.type)
    known_call = calls.get(call) if call is not None else None
    task, background = signal.task, signal.background
    if known_call is not None:
        task = task or str(known_call[1] or "") or None
        background = background or known_call[2] is True
        known_call[3] = id_of(name)
    yield AgentStarted(
        id=_free_name(state, id_of(name)), type=plain(signal.type, 100) or "agent",
        task=plain(task, 500) if task else None, background=background,
        pid=None if process is None else process.pid, process=process, conversation=conversation,
    )  # fmt: skip
    if known_call is not None:
        yield _keep_calls(calls)


def _next_call(calls: dict[str, list[Json]], kind: str) -> str | None:
    """The oldest call for an agent of this type without a started agent."""
    return next((key for key, (asked_kind, _, _, by, _) in calls.items() if by is None and asked_kind == kind), None)


def _correct(agent: AgentState, signal: AgentBegan | AgentEnded) -> Iterator[EventData]:
    """Correct what was guessed about an agent."""
    reliable = signal.call is not None or not agent.task
    task = plain(signal.task, 500) if signal.task and reliable else None
    background = True if isinstance(signal, AgentBegan) and signal.background and not agent.background else None
    edited = AgentEdited(
        id=agent.id, ref=agent.ref, task=None if task == agent.task else task, background=background
    )  # fmt: skip
    if edited != AgentEdited(id=agent.id, ref=agent.ref):
        yield edited


def _events_of_end(state: State, signal: AgentEnded, at: int, conversation: str) -> Iterator[EventData | Timed]:
    calls = _calls(state)
    call = calls.pop(plain(signal.call, 100), None) if signal.call is not None else None
    name = signal.agent or (call[3] if call is not None and isinstance(call[3], str) else None) or signal.call
    if name is None:
        return
    agent = _find(state, name)
    if agent is None:
        yield from _start_unreported(state, signal, call, name, at, conversation)
        agent = _find(state, name)
    if agent is not None:
        yield from _end_agent(agent, signal)
    if call is not None:
        yield _keep_calls(calls)


def _end_agent(agent: AgentState, signal: AgentEnded) -> Iterator[EventData]:
    summary = plain(signal.summary, 1_000) if signal.summary else None
    yield from _correct(agent, signal)
    if agents.status_of(agent) in _UNFINISHED:
        if signal.stopped:
            yield AgentAborted(id=agent.id, ref=agent.ref, reason="Stopped by the person")
        elif signal.failed is not None:
            message = plain(signal.failed, 500) or "failed"
            yield AgentFailed(id=agent.id, ref=agent.ref, message=message, category=errors.categorize(None, message))
        else:
            yield AgentCompleted(id=agent.id, ref=agent.ref, summary=summary)
    # Whether or not the end was known: the result of the call adds to it.
    edit = AgentEdited(
        id=agent.id, ref=agent.ref, summary=summary if agent.summary is None else None,
        tokens=signal.tokens if signal.tokens != agent.tokens else None,
    )  # fmt: skip
    if edit != AgentEdited(id=agent.id, ref=agent.ref):
        yield edit


def _start_unreported(
    state: State, signal: AgentEnded, call: list[Json] | None, name: str, at: int, conversation: str
) -> Iterator[Timed]:
    """Start a subagent that is known only by its end."""
    kind = signal.type or (str(call[0]) if call else None) or "agent"
    task = signal.task or (str(call[1]) if call and call[1] else None)
    began = AgentStarted(
        id=_free_name(state, id_of(name)), type=plain(kind, 100) or "agent", task=plain(task, 500) if task else None,
        conversation=conversation,
    )  # fmt: skip
    since = call[4] if call is not None and not signal.took_ms else at - (signal.took_ms or 0)
    yield Timed(max(min(since if isinstance(since, int) else at, at), state.time.start), began)


def _find(state: State, name: str) -> AgentState | None:
    """The latest run of a subagent; later runs are numbered."""
    wanted_id = id_of(name)
    for agent in reversed(state.agents.values()):
        if agent.id == wanted_id or (
            agent.id.startswith(f"{wanted_id}-") and agent.id[len(wanted_id) + 1 :].isdecimal()
        ):
            return agent
    return None


def _free_name(state: State, name: str) -> str:
    taken = {agent.id for agent in state.agents.values()}
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[:90]}-{number}"
    return free


def _calls(state: State) -> dict[str, list[Json]]:
    value = state.extra.get(_CALLS)
    calls = value if isinstance(value, dict) else {}
    return {key: list(call) for key, call in calls.items() if isinstance(call, list) and len(call) == 5}


def _keep_calls(calls: dict[str, list[Json]], redacted: dict[str, int] | None = None) -> ExtraKept:
    latest = list(calls.items())[-_MAX_CALLS:]
    return ExtraKept(name=_CALLS, value=dict(latest) or None, redacted=redacted or {})
