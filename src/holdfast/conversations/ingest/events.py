"""Turn the signals of a payload into events of its session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.conversations.adapters.base import HookEvent
from holdfast.conversations.adapters.clean_text import bounded, goal_of, is_small, plain
from holdfast.conversations.ingest import files, subagents
from holdfast.conversations.ingest.routing import Opening, placeholder, was_started_by
from holdfast.conversations.ingest.subagents import Timed
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Called,
    Chosen,
    Closed,
    Compacted,
    Compacting,
    Edited,
    Erred,
    Limited,
    Measured,
    Opened,
    Planned,
    Prompted,
    Ran,
    Replied,
    Todo,
    Waits,
)
from holdfast.core import agents, tasks, view
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.core.canonical import Json, digest
from holdfast.core.events import (
    AgentInterrupted,
    CommandRan,
    ContextCompressed,
    ContextMeasured,
    ConversationUpdated,
    ErrorNoted,
    EventData,
    ExtraKept,
    MessageExchanged,
    NativeClosed,
    NativeLinked,
    Process,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionUnarchived,
    TaskAdded,
    TaskCompleted,
    TaskDropped,
    TaskEdited,
    TaskReopened,
    TaskStarted,
    WaitingEnded,
    WaitingStarted,
)
from holdfast.core.failures import CATEGORIES
from holdfast.core.registers import current_value
from holdfast.core.state import State
from holdfast.core.times import MINUTE
from holdfast.machine.process import command_line_of
from holdfast.sessions.resume import wait_name, waits_of
from holdfast.sessions.start import was_replaced

if TYPE_CHECKING:
    from holdfast.machine.git.worktree import WorkTree

USAGE_LIMIT: Final = "Usage limit"
_MAX_TODOS: Final = 500
# Tool calls without other events are recorded at most this often: more adds nothing to working time.
_MIN_ACTIVITY_GAP: Final = MINUTE
_SAME_COMPRESSION: Final = 15 * MINUTE
_SAME_WAIT: Final = MINUTE // 2
# Signals that do not show that the person has answered.
_KEEPS_WAITING: Final = (Opened, Closed, Measured, Chosen, Waits)


def is_headless(agent: str, arguments: Sequence[str]) -> bool:
    """Whether a program runs without a person, by its command line; if that is unknown, it does not."""
    headless = AGENT_PROGRAMS[agent].headless if agent in AGENT_PROGRAMS else ()
    names = [argument.partition("=")[0] for argument in arguments]
    return any(name in headless for place, name in enumerate(names) if name.startswith("-") or 1 <= place <= 3)


def plan_events(state: State, event: HookEvent, signal: Planned, at: int) -> Iterator[EventData]:
    # Each agent has its own list.
    source = f"{event.agent}-{_short(event.conversation + (signal.agent or ''), 4)}-"
    agent = subagents.known_agent(state, signal.agent)
    listed: dict[str, int] = {}
    for todo in signal.todos[:_MAX_TODOS]:
        text = plain(todo.text, 500).strip()
        name = source + _short(text if todo.id is None else f"#{todo.id}", 8)
        if not text and tasks.find(state, name) is None:
            continue
        occurrence = listed[name] = listed.get(name, 0) + 1
        if occurrence > 1 and todo.id is None:  # the same words twice are two to-dos
            name = f"{name}-{occurrence}"
            listed[name] = 1
        yield from _update_task(state, name, text, todo, at, agent)
    if signal.whole and (listed or not signal.todos):
        # Replanned: unfinished to-dos that are no longer listed are dropped.
        for task in list(state.tasks.values()):
            if (
                task.id.startswith(source)
                and task.id not in listed
                and tasks.status_of(task) in ("pending", "in_progress")
            ):
                yield TaskDropped(id=task.id, ref=task.ref)


def _update_task(state: State, name: str, text: str, todo: Todo, at: int, agent: str | None) -> Iterator[EventData]:
    if tasks.find(state, name) is None:
        yield TaskAdded(id=name, text=text, agent=agent)
    task = tasks.find(state, name)
    if task is None or max(task.created_at, task.started_at or 0, task.completed_at or 0) > at:
        return  # a later change is already recorded
    if text and text != task.text:
        yield TaskEdited(id=task.id, ref=task.ref, text=text)
    status = tasks.status_of(task)
    if status == todo.status:
        return
    if status in ("completed", "dropped") and todo.status in ("pending", "in_progress"):
        yield TaskReopened(id=task.id, ref=task.ref)
    if status == "dropped" and todo.status == "completed":
        yield TaskReopened(id=task.id, ref=task.ref)
    match todo.status:
        case "in_progress":
            yield TaskStarted(id=task.id, ref=task.ref)
        case "completed":
            yield TaskCompleted(id=task.id, ref=task.ref)
        case "dropped" if status != "completed":
            yield TaskDropped(id=task.id, ref=task.ref)
        case "pending" if status == "in_progress":
            pass  # listed as pending again, but it was started


def _short(words: str, length: int) -> str:
    return digest(words.encode(errors="surrogatepass"))[:length]


class IngestContext(NamedTuple):
    """What else events depend on: the work tree, the agent's process, and what is known of the conversation."""

    place: WorkTree
    process: Process | None
    # What the conversation reported before it had a session.
    opening: Opening | None = None
    # Whether a prompt ends the present pause.
    message_ends_pause: Callable[[State], bool] = lambda _state: True
    # Whether one of our devices recorded that the conversation belongs to the session.
    is_linked: bool = True
    # Whether a writer is one of our devices.
    is_own: Callable[[str], bool] = lambda _writer: True


def events_of(state: State, event: HookEvent, at: int, context: IngestContext) -> Iterator[EventData | Timed]:
    """The events that a payload makes, in order."""
    yield from _link_conversation(state, event, at, context)
    if context.opening is not None:
        yield from _record_choice(
            state, event, Chosen(model=context.opening.model, permission=context.opening.permission)
        )
        for name, rest in context.opening.rest.items():
            yield from _keep_rest(state, f"{event.agent}.{name}", rest)
    for signal in event.signals:
        if not isinstance(signal, _KEEPS_WAITING):
            yield from _end_wait(state, event, signal)
        yield from _events_of_signal(state, event, signal, at, context)
    if event.rest:
        yield from _keep_rest(state, f"{event.agent}.{plain(event.event, 60)}", event.rest)


def _events_of_signal(
    state: State, event: HookEvent, signal: AnySignal, at: int, context: IngestContext
) -> Iterator[EventData | Timed]:
    match signal:
        case Opened():
            yield from _end_lost_work(state, event, signal, at, context)
            if signal.how == "compact":
                yield from _record_compression(state, Compacted(), at)
        case Prompted():
            if signal.agent is None and signal.person:
                yield from _end_unreported(state, event, at, context, background=False)
            yield from _events_of_prompt(state, event, signal, context)
        case Replied():
            if signal.agent is None:
                yield from _end_unreported(state, event, at, context, background=False)
            yield MessageExchanged(role="assistant")
        case Active():
            if at - view.last_activity(state) >= _MIN_ACTIVITY_GAP:
                yield MessageExchanged(role="assistant")
        case Called() | AgentBegan() | AgentEnded():
            name = view.native_name(event.agent, event.conversation)
            yield from subagents.subagent_events(state, signal, at, context.process, name)
        case Edited():
            yield from files.file_events(state, event, signal, at, context.place)
        case Ran():
            agent = subagents.known_agent(state, signal.agent)
            yield CommandRan(
                command=plain(signal.command) or "?", code=signal.code, agent=agent, duration_ms=signal.took_ms
            )
        case Planned():
            yield from plan_events(state, event, signal, at)
        case Compacting():
            yield SessionSaved()
            if signal.surely:
                yield ContextCompressed()
        case Compacted():
            yield from _record_compression(state, signal, at)
        case Chosen():
            yield from _record_choice(state, event, signal)
        case Waits():
            name = _wait_name(event, signal.agent)
            if name not in state.waiting or state.waiting[name].for_ != signal.what:
                yield WaitingStarted(id=name, for_=signal.what, text=plain(signal.text, 500) if signal.text else None)
        case Limited():
            if view.status_of(state) == "in_progress":
                yield SessionPaused(reason=plain(f"{USAGE_LIMIT}: {signal.reason}", 300))
        case Erred():
            category = signal.category if signal.category in CATEGORIES else "logical"
            agent = subagents.known_agent(state, signal.agent)
            yield ErrorNoted(message=plain(signal.message, 500) or "?", category=category, agent=agent)
        case Measured():
            yield from _record_measurement(state, event, signal)
        case Closed():
            if signal.agent is None:
                yield from _end_unreported(state, event, at, context, background=True)
            for name in waits_of(state, event.agent, event.conversation):
                yield WaitingEnded(id=name)
            yield NativeClosed(
                agent=event.agent, id=event.conversation, reason=plain(signal.reason, 100) if signal.reason else None
            )


def _link_conversation(state: State, event: HookEvent, at: int, context: IngestContext) -> Iterator[EventData]:
    """Link the conversation to the session, again when it is reopened or runs in another process."""
    known = state.native.get(f"{event.agent}\n{event.conversation}") if context.is_linked else None
    if known is not None:
        # A late payload from before it closed does not reopen it.
        is_late = known.closed_at is not None and at <= known.closed_at
        closed = known.closed_at is not None and not all(isinstance(signal, Closed) for signal in event.signals)
        if is_late:
            return
        has_new_process = context.process is not None and known.process != context.process
        if not closed and not has_new_process:
            return
    process = context.process or (None if known is None else known.process)
    yield NativeLinked(agent=event.agent, id=event.conversation, resume=event.resume, process=process)


def _end_unreported(
    state: State, event: HookEvent, at: int, context: IngestContext, *, background: bool
) -> Iterator[EventData]:
    name = view.native_name(event.agent, event.conversation)
    yield from subagents.end_unreported(state, name, at, is_own=context.is_own, background=background)


def _end_lost_work(
    state: State, event: HookEvent, signal: Opened, at: int, context: IngestContext
) -> Iterator[EventData]:
    """A conversation opens: end the agents and waits of processes that have ended.

    Also interrupt agents that this conversation started before, unless their process is known to run.
    """
    from holdfast.sessions.resume import crashed_conversations, find_lost_agents

    for item in crashed_conversations(state):
        for name in waits_of(state, item.agent, item.id):
            yield WaitingEnded(id=name)
    dead, unseen = find_lost_agents(state)
    dead_ids = {item.id for item in dead}
    for agent in list(state.agents.values()):
        if agent.id in dead_ids and agents.status_of(agent) in ("pending", "running", "paused"):
            yield AgentInterrupted(id=agent.id, ref=agent.ref, last_seen=agent.touched_at)
    if signal.agent is None and signal.how != "compact":
        unknown = {item.id for item in unseen}
        for ended in _end_unreported(state, event, at, context, background=True):
            if isinstance(ended, AgentInterrupted) and ended.id in unknown:
                yield ended


def _events_of_prompt(
    state: State, event: HookEvent, signal: Prompted, context: IngestContext
) -> Iterator[EventData]:
    """A prompt: resume a session that paused by itself, or whose pause a message ends."""
    status = view.status_of(state)
    if status == "paused":
        by_itself = view.pause_reason(state).startswith(USAGE_LIMIT) or was_replaced(state)
        if signal.person and (by_itself or _ends_pause(state, event, context)):
            yield SessionResumed()
    elif status in ("created", "error"):
        yield SessionResumed()
    if state.archived:
        yield SessionUnarchived()
    goal = goal_of(signal.text)
    if goal is not None and view.text_value(state, "goal") == placeholder(event.agent):
        yield SessionEdited(goal=goal)
    yield from _name_conversation(state, event, goal)
    yield MessageExchanged(role="user" if signal.person else "assistant")


def _name_conversation(state: State, event: HookEvent, goal: str | None) -> Iterator[EventData]:
    """Name a conversation in an existing session after its first prompt, until its transcript has a title."""
    known = f"{event.agent}\n{event.conversation}" in state.conversations
    if goal is not None and not known and not was_started_by(state, event.agent, event.conversation):
        yield ConversationUpdated(agent=event.agent, id=event.conversation, name=goal)


def _ends_pause(state: State, event: HookEvent, context: IngestContext) -> bool:
    """Whether the prompt ends the pause: it comes from a person, in an interactive conversation."""
    if not context.message_ends_pause(state):
        return False
    return context.process is None or not is_headless(event.agent, command_line_of(context.process.pid))


def _record_compression(state: State, signal: Compacted, at: int) -> Iterator[EventData]:
    """A compression that is reported before and after counts once."""
    if state.last_compression is None or at - state.last_compression > _SAME_COMPRESSION:
        yield ContextCompressed(tokens=signal.tokens)
    elif signal.tokens is not None and signal.tokens != state.tokens:
        yield ContextMeasured(tokens=signal.tokens)


def _record_choice(state: State, event: HookEvent, signal: Chosen) -> Iterator[EventData]:
    """Models by agent: several agents in one session have one each, and only changes are recorded."""
    for name, value in (("model", signal.model), ("permission_mode", signal.permission)):
        if value is None:
            continue
        word = plain(value, 100)
        known = state.extra.get(f"{name}s")
        by_agent = dict(known) if isinstance(known, dict) else {}
        if not word or by_agent.get(event.agent) == word:
            continue
        by_agent[event.agent] = word
        yield ExtraKept(name=f"{name}s", value=by_agent)
        if name == "model":
            yield SessionEdited(model=word)


def _end_wait(state: State, event: HookEvent, signal: AnySignal) -> Iterator[EventData]:
    """End the wait of an agent that reports something else: the person has answered. A prompt ends all waits."""
    if isinstance(signal, Prompted) and signal.agent is None and signal.person:
        for name in waits_of(state, event.agent, event.conversation):
            yield WaitingEnded(id=name)
        return
    name = _wait_name(event, signal.agent)
    if name not in state.waiting:
        return
    ended = state.waiting[name]
    yield WaitingEnded(id=name)
    # A subagent's wait may also be reported without its name.
    of_conversation = _wait_name(event, None)
    if of_conversation in state.waiting and abs(state.waiting[of_conversation].at - ended.at) <= _SAME_WAIT:
        yield WaitingEnded(id=of_conversation)


def _wait_name(event: HookEvent, agent: str | None) -> str:
    return wait_name(event.agent, event.conversation, agent)


def _record_measurement(state: State, event: HookEvent, signal: Measured) -> Iterator[EventData]:
    agent = None if signal.agent is None else subagents.known_agent(state, signal.agent)
    known_tokens = state.tokens if agent is None else state.by_agent.get(agent)
    if signal.tokens is not None and (
        signal.tokens != known_tokens or (signal.window is not None and signal.window != state.window)
    ):
        yield ContextMeasured(tokens=signal.tokens, window=signal.window or None, agent=agent)
    if signal.cost_usd is not None:
        known = state.extra.get("costs")
        costs: dict[str, Json] = dict(known) if isinstance(known, dict) else {}
        name = view.native_name(event.agent, event.conversation)
        if costs.get(name) != signal.cost_usd:
            costs[name] = signal.cost_usd
            yield ExtraKept(name="costs", value=costs)
            total = round(sum(item for item in costs.values() if isinstance(item, (int, float))), 6)
            if current_value(state.registers.get("cost_usd", ())) != total:
                yield SessionEdited(cost_usd=total)
    if signal.limits is not None:
        yield from _keep_rest(state, "rate_limits", signal.limits)


def _keep_rest(state: State, name: str, value: Json) -> Iterator[EventData]:
    """Keep other fields, without secrets, within limits, and only when they changed."""
    from holdfast.core.secrets.patterns import redact_document

    clean, counts = redact_document(bounded(value))
    if state.extra.get(name) != clean and is_small(clean):
        yield ExtraKept(name=name, value=clean, redacted=counts)
