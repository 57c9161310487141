"""What becomes of a signal: the events it makes of the session it belongs to.

A generator over the live state: each event is recorded before the next is asked for, so later ones see what earlier
ones did. Nothing is told twice that is so already; agents, files and to-dos have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from holdfast.capture.headless import is_headless
from holdfast.capture.interface import Heard
from holdfast.capture.plain import fits, goal_of, kept, plain
from holdfast.capture.signals import (
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
    Waits,
)
from holdfast.core import agents, view
from holdfast.core.canonical import Json
from holdfast.core.failures import CATEGORIES
from holdfast.core.registers import value_of
from holdfast.core.state import State
from holdfast.core.times import MINUTE
from holdfast.core.vocabulary import (
    AgentInterrupted,
    CommandRan,
    ContextCompressed,
    ContextMeasured,
    ConversationUpdated,
    Data,
    ErrorNoted,
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
    WaitingEnded,
    WaitingStarted,
)
from holdfast.keeper.captures import telling_agents, telling_files, telling_plan
from holdfast.keeper.captures.belonging import began, placeholder
from holdfast.keeper.captures.opened import Opening
from holdfast.keeper.captures.telling_agents import Timed
from holdfast.keeper.replacing import was_put_away
from holdfast.keeper.waits import wait_name, waits_of
from holdfast.machine.process import words_of

if TYPE_CHECKING:
    from holdfast.machine.worktree import Place

LIMIT = "Usage limit"
# What a tool call without other traces says more often than this adds nothing to working time.
_SELDOM = MINUTE
_SAME_COMPRESSION = 15 * MINUTE
_SAME_WAIT = MINUTE // 2
_QUIET = (Opened, Closed, Measured, Chosen, Waits)


class Ground(NamedTuple):
    """Where a conversation is: its work tree, and the process of the agent program."""

    place: Place
    process: Process | None
    # What it said of itself before it had a session.
    opening: Opening | None = None
    # Whether the person's prompt ends the pause that lasts.
    message_ends_pause: Callable[[State], bool] = lambda _state: True
    # Whether a device of ours said already that the conversation belongs to the session.
    is_linked: bool = True
    # Whether a device of ours is the writer.
    is_own: Callable[[str], bool] = lambda _writer: True


def told(state: State, heard: Heard, at: int, ground: Ground) -> Iterator[Data | Timed]:
    """The events that a payload makes of its session, in order."""
    yield from _linked(state, heard, at, ground)
    if ground.opening is not None:
        yield from _chosen(state, heard, Chosen(model=ground.opening.model, permission=ground.opening.permission))
        for event, rest in ground.opening.rest.items():
            yield from _kept(state, f"{heard.agent}.{event}", rest)
    for signal in heard.signals:
        if not isinstance(signal, _QUIET):
            yield from _waited(state, heard, signal)
        yield from _told(state, heard, signal, at, ground)
    if heard.rest:
        yield from _kept(state, f"{heard.agent}.{plain(heard.event, 60)}", heard.rest)


def _told(state: State, heard: Heard, signal: AnySignal, at: int, ground: Ground) -> Iterator[Data | Timed]:
    match signal:
        case Opened():
            yield from _settled(state, heard, signal, at, ground)
            if signal.how == "compact":
                yield from _compacted(state, Compacted(), at)
        case Prompted():
            if signal.agent is None and signal.person:
                yield from _unreported(state, heard, at, ground, background=False)
            yield from _prompted(state, heard, signal, ground)
        case Replied():
            if signal.agent is None:
                yield from _unreported(state, heard, at, ground, background=False)
            yield MessageExchanged(role="assistant")
        case Active():
            if at - view.last_sign(state) >= _SELDOM:
                yield MessageExchanged(role="assistant")
        case Called() | AgentBegan() | AgentEnded():
            name = view.native_name(heard.agent, heard.conversation)
            yield from telling_agents.told(state, signal, at, ground.process, name)
        case Edited():
            yield from telling_files.told(state, heard, signal, at, ground.place)
        case Ran():
            who = telling_agents.known(state, signal.agent)
            yield CommandRan(
                command=plain(signal.command) or "?", code=signal.code, agent=who, duration_ms=signal.took_ms
            )
        case Planned():
            yield from telling_plan.told(state, heard, signal, at)
        case Compacting():
            yield SessionSaved()
            if signal.surely:
                yield ContextCompressed()
        case Compacted():
            yield from _compacted(state, signal, at)
        case Chosen():
            yield from _chosen(state, heard, signal)
        case Waits():
            name = _wait_name(heard, signal.agent)
            if name not in state.waiting or state.waiting[name].for_ != signal.what:
                yield WaitingStarted(id=name, for_=signal.what, text=plain(signal.text, 500) if signal.text else None)
        case Limited():
            if view.status_of(state) == "in_progress":
                yield SessionPaused(reason=plain(f"{LIMIT}: {signal.reason}", 300))
        case Erred():
            category = signal.category if signal.category in CATEGORIES else "logical"
            who = telling_agents.known(state, signal.agent)
            yield ErrorNoted(message=plain(signal.message, 500) or "?", category=category, agent=who)
        case Measured():
            yield from _measured(state, heard, signal)
        case Closed():
            if signal.agent is None:
                yield from _unreported(state, heard, at, ground, background=True)
            for name in waits_of(state, heard.agent, heard.conversation):
                yield WaitingEnded(id=name)
            yield NativeClosed(
                agent=heard.agent, id=heard.conversation, reason=plain(signal.reason, 100) if signal.reason else None
            )


def _linked(state: State, heard: Heard, at: int, ground: Ground) -> Iterator[Data]:
    """The conversation is part of the session from its first word on; opened again, it may run in another process."""
    known = state.native.get(f"{heard.agent}\n{heard.conversation}") if ground.is_linked else None
    if known is not None:
        # What was said before it closed, and is heard only now, does not open it again.
        over = known.closed_at is not None and at <= known.closed_at
        closed = known.closed_at is not None and not all(isinstance(one, Closed) for one in heard.signals)
        if over:
            return
        moved = ground.process is not None and known.process != ground.process
        if not closed and not moved:
            return
    process = ground.process or (None if known is None else known.process)
    yield NativeLinked(agent=heard.agent, id=heard.conversation, resume=heard.resume, process=process)


def _unreported(state: State, heard: Heard, at: int, ground: Ground, *, background: bool) -> Iterator[Data]:
    name = view.native_name(heard.agent, heard.conversation)
    yield from telling_agents.unreported(state, name, at, is_own=ground.is_own, background=background)


def _settled(state: State, heard: Heard, signal: Opened, at: int, ground: Ground) -> Iterator[Data]:
    """A conversation opens: who was at work or waited in a process that is gone by now does so no longer.

    Nor does any agent that this conversation asked for before, unless its process is known to run.
    """
    from holdfast.keeper.resuming import broken, lost

    for one in broken(state):
        for name in waits_of(state, one.agent, one.id):
            yield WaitingEnded(id=name)
    found, unseen = lost(state)
    gone = {one.id for one in found}
    for agent in list(state.agents.values()):
        if agent.id in gone and agents.status_of(agent) in ("pending", "running", "paused"):
            yield AgentInterrupted(id=agent.id, ref=agent.ref, last_seen=agent.touched_at)
    if signal.agent is None and signal.how != "compact":
        unknown = {one.id for one in unseen}
        for ended in _unreported(state, heard, at, ground, background=True):
            if isinstance(ended, AgentInterrupted) and ended.id in unknown:
                yield ended


def _prompted(state: State, heard: Heard, signal: Prompted, ground: Ground) -> Iterator[Data]:
    """Somebody asks for something: what paused by itself goes on by itself, and whoever writes is at work."""
    status = view.status_of(state)
    if status == "paused":
        by_itself = view.pause_reason(state).startswith(LIMIT) or was_put_away(state)
        if signal.person and (by_itself or _ends_pause(state, heard, ground)):
            yield SessionResumed()
    elif status in ("created", "error"):
        yield SessionResumed()
    if state.archived:
        yield SessionUnarchived()
    goal = goal_of(signal.text)
    if goal is not None and view.word(state, "goal") == placeholder(heard.agent):
        yield SessionEdited(goal=goal)
    yield from _named(state, heard, goal)
    yield MessageExchanged(role="user" if signal.person else "assistant")


def _named(state: State, heard: Heard, goal: str | None) -> Iterator[Data]:
    """A conversation in somebody's session is found by its first prompt until its transcript has a title."""
    known = f"{heard.agent}\n{heard.conversation}" in state.conversations
    if goal is not None and not known and not began(state, heard.agent, heard.conversation):
        yield ConversationUpdated(agent=heard.agent, id=heard.conversation, name=goal)


def _ends_pause(state: State, heard: Heard, ground: Ground) -> bool:
    """Whether the prompt is the person's own word, in a conversation that somebody sits at."""
    if not ground.message_ends_pause(state):
        return False
    return ground.process is None or not is_headless(heard.agent, words_of(ground.process.pid))


def _compacted(state: State, signal: Compacted, at: int) -> Iterator[Data]:
    """Told before and after, a compression is one; told only after, it counts then."""
    if state.last_compression is None or at - state.last_compression > _SAME_COMPRESSION:
        yield ContextCompressed(tokens=signal.tokens)
    elif signal.tokens is not None and signal.tokens != state.tokens:
        yield ContextMeasured(tokens=signal.tokens)


def _chosen(state: State, heard: Heard, signal: Chosen) -> Iterator[Data]:
    """Two agents in one session have a model each: only what changed for this one is told."""
    for name, value in (("model", signal.model), ("permission_mode", signal.permission)):
        if value is None:
            continue
        word = plain(value, 100)
        known = state.extra.get(f"{name}s")
        by_agent = dict(known) if isinstance(known, dict) else {}
        if not word or by_agent.get(heard.agent) == word:
            continue
        by_agent[heard.agent] = word
        yield ExtraKept(name=f"{name}s", value=by_agent)
        if name == "model":
            yield SessionEdited(model=word)


def _waited(state: State, heard: Heard, signal: AnySignal) -> Iterator[Data]:
    """Something else is heard of whoever waited: the person has answered. With a prompt, everything is."""
    if isinstance(signal, Prompted) and signal.agent is None and signal.person:
        for name in waits_of(state, heard.agent, heard.conversation):
            yield WaitingEnded(id=name)
        return
    name = _wait_name(heard, signal.agent)
    if name not in state.waiting:
        return
    ended = state.waiting[name]
    yield WaitingEnded(id=name)
    # What a subagent waits for is also told without its name.
    whole = _wait_name(heard, None)
    if whole in state.waiting and abs(state.waiting[whole].at - ended.at) <= _SAME_WAIT:
        yield WaitingEnded(id=whole)


def _wait_name(heard: Heard, agent: str | None) -> str:
    return wait_name(heard.agent, heard.conversation, agent)


def _measured(state: State, heard: Heard, signal: Measured) -> Iterator[Data]:
    who = None if signal.agent is None else telling_agents.known(state, signal.agent)
    standing = state.tokens if who is None else state.by_agent.get(who)
    if signal.tokens is not None and (
        signal.tokens != standing or (signal.window is not None and signal.window != state.window)
    ):
        yield ContextMeasured(tokens=signal.tokens, window=signal.window or None, agent=who)
    if signal.cost_usd is not None:
        known = state.extra.get("costs")
        costs: dict[str, Json] = dict(known) if isinstance(known, dict) else {}
        name = view.native_name(heard.agent, heard.conversation)
        if costs.get(name) != signal.cost_usd:
            costs[name] = signal.cost_usd
            yield ExtraKept(name="costs", value=costs)
            total = round(sum(one for one in costs.values() if isinstance(one, (int, float))), 6)
            if value_of(state.registers.get("cost_usd", ())) != total:
                yield SessionEdited(cost_usd=total)
    if signal.limits is not None:
        yield from _kept(state, "rate_limits", signal.limits)


def _kept(state: State, name: str, value: Json) -> Iterator[Data]:
    """What the model has no place for: without secrets, within bounds, and only when it is news."""
    from holdfast.core.secret_documents import redact_document

    clean, found = redact_document(kept(value))
    if state.extra.get(name) != clean and fits(clean):
        yield ExtraKept(name=name, value=clean, redacted=found)
