"""Folding and showing n events takes time proportional to n, not to its square, whatever their types.

Members of a shared session can record any events, and every command of the others folds them. These tests count the
lines that Python runs; they do not measure time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

import msgspec
import pytest

from holdfast.core import view
from holdfast.core.canonical import canonical_json, digest
from holdfast.core.envelope import Event, make_event
from holdfast.core.events import (
    EVENT_TYPES,
    TYPE_OF,
    AgentAborted,
    AgentCompleted,
    AgentEdited,
    AgentFailed,
    AgentInterrupted,
    AgentPaused,
    AgentProgressed,
    AgentResumed,
    AgentRetried,
    AgentStarted,
    AgentTimedOut,
    AliasGiven,
    AwayRecorded,
    CommandRan,
    CommitRecorded,
    ConflictDetected,
    ConflictResolved,
    ContextCompressed,
    ContextMeasured,
    ConversationUpdated,
    DecisionMade,
    DeviceJoined,
    ErrorNoted,
    EventData,
    EventErased,
    ExtraKept,
    FileChanged,
    GitPositionNoted,
    HillMoved,
    MessageExchanged,
    NativeClosed,
    NativeLinked,
    NativeMoved,
    NoteAdded,
    PhaseAdded,
    ReminderReached,
    SessionAborted,
    SessionArchived,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    SessionTimedOut,
    SessionUnarchived,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskEdited,
    TaskReopened,
    TaskStarted,
    WaitingEnded,
    WaitingStarted,
    WorkedRecorded,
    WorkRecorded,
)
from holdfast.core.fold import apply, read_data
from holdfast.core.state import State
from tests.support.histories import MINUTE, NOON, PROJECT, SESSION

Maker = Callable[[int], EventData]
Order = Callable[[int], list[EventData]]

MAX_GROWTH: Final = 2.2  # times more lines for twice as many events
DAY = 24 * 60 * MINUTE
GAP = 11 * MINUTE  # longer than the thresholds of idle and task pauses


def _at(number: int) -> int:
    return NOON + number * GAP


# The data of each type's event with this number, about a subject of its own where possible.
DATA_OF_TYPE: dict[str, Maker] = {
    "session.started": lambda number: SessionStarted(goal=f"g{number}", project=PROJECT, device="laptop"),
    "session.edited": lambda number: SessionEdited(goal=f"g{number}", tags=(f"tag{number}",)),
    "session.paused": lambda number: SessionPaused(reason=f"r{number}"),
    "session.resumed": lambda number: SessionResumed(),
    "session.saved": lambda number: SessionSaved(),
    "session.completed": lambda number: SessionCompleted(summary=f"s{number}"),
    "session.failed": lambda number: SessionFailed(message=f"m{number}"),
    "session.aborted": lambda number: SessionAborted(),
    "session.timed_out": lambda number: SessionTimedOut(),
    "session.archived": lambda number: SessionArchived(),
    "session.unarchived": lambda number: SessionUnarchived(),
    "session.deleted": lambda number: SessionDeleted(),
    "event.erased": lambda number: EventErased(hashes=(digest(str(number).encode()),)),
    "device.joined": lambda number: DeviceJoined(device=f"d{number}"),
    "alias.given": lambda number: AliasGiven(format=f"f{number}", id=f"x{number}"),
    "extra.kept": lambda number: ExtraKept(name=f"x{number}", value=number),
    "native.linked": lambda number: NativeLinked(agent="claude", id=f"c{number}"),
    "native.closed": lambda number: NativeClosed(agent="claude", id=f"c{number}"),
    "native.moved": lambda number: NativeMoved(agent="claude", id=f"c{number}", to=SESSION),
    "conversation.updated": lambda number: ConversationUpdated(agent="claude", id=f"c{number}", cost_usd=1.5),
    "ground.noted": lambda number: GitPositionNoted(branch=f"b{number}"),
    "message.exchanged": lambda number: MessageExchanged(),
    "note.added": lambda number: NoteAdded(text=f"n{number}"),
    "away.recorded": lambda number: AwayRecorded(
        since=_at(number), until=_at(number) + number % 2 * MINUTE, kind="task"
    ),
    "worked.recorded": lambda number: WorkedRecorded(since=_at(number), until=_at(number) + MINUTE),
    "work.recorded": lambda number: WorkRecorded(since=_at(number), until=_at(number) + MINUTE, counted=True),
    "error.noted": lambda number: ErrorNoted(message=f"m{number}", agent=f"a{number}"),
    "reminder.reached": lambda number: ReminderReached(line=f"l{number}"),
    "waiting.started": lambda number: WaitingStarted(id=f"w{number}", for_="permission"),
    "waiting.ended": lambda number: WaitingEnded(id=f"w{number}"),
    "agent.started": lambda number: AgentStarted(id=f"a{number}", type="coder"),
    "agent.progressed": lambda number: AgentProgressed(id=f"a{number}", progress=0.5),
    "agent.completed": lambda number: AgentCompleted(id=f"a{number}", tokens=number),
    "agent.failed": lambda number: AgentFailed(id=f"a{number}", category="logical", message="m"),
    "agent.timed_out": lambda number: AgentTimedOut(id=f"a{number}"),
    "agent.retried": lambda number: AgentRetried(id=f"a{number}"),
    "agent.paused": lambda number: AgentPaused(id=f"a{number}"),
    "agent.resumed": lambda number: AgentResumed(id=f"a{number}"),
    "agent.aborted": lambda number: AgentAborted(id=f"a{number}"),
    "agent.interrupted": lambda number: AgentInterrupted(id=f"a{number}", last_seen=_at(number)),
    "agent.edited": lambda number: AgentEdited(id=f"a{number}", summary="s"),
    "phase.added": lambda number: PhaseAdded(id=f"p{number % 10}", name=f"n{number}"),
    "task.added": lambda number: TaskAdded(id=f"t{number}", text="x"),
    "task.started": lambda number: TaskStarted(id=f"t{number}"),
    "task.completed": lambda number: TaskCompleted(id=f"t{number}"),
    "task.blocked": lambda number: TaskBlocked(id=f"t{number}"),
    "task.reopened": lambda number: TaskReopened(id=f"t{number}"),
    "task.dropped": lambda number: TaskDropped(id=f"t{number}"),
    "task.edited": lambda number: TaskEdited(id="t1", artifacts=(f"f{number}",)),
    "decision.made": lambda number: DecisionMade(chosen=f"c{number}"),
    "file.changed": lambda number: FileChanged(path=f"f{number}", action="modified", agent=f"a{number}"),
    "commit.recorded": lambda number: CommitRecorded(sha=f"{number:040x}", replaces=f"{number - 1:040x}"),
    "command.ran": lambda number: CommandRan(command=f"c{number}", code=1),
    "context.measured": lambda number: ContextMeasured(tokens=number, agent=f"a{number}"),
    "context.compressed": lambda number: ContextCompressed(tokens=number),
    "hill.moved": lambda number: HillMoved(scope=f"s{number}", position=number),
    "conflict.resolved": lambda number: ConflictResolved(field=f"agents.a{number}.status", chosen="", overruled=()),
    "conflict.found": lambda number: ConflictDetected(field=f"agents.a{number}.status", value="completed"),
}  # fmt: skip

# The event that has to come first where a type refers to something.
PREREQUISITES = {
    "agent": "agent.started",
    "task": "task.added",
    "native": "native.linked",
    "waiting": "waiting.started",
}


def events(datas: Iterable[EventData], step: int, writers: int = 1) -> list[Event]:
    """A log in which the writers take turns, `step` apart, each having seen everything before."""
    log: list[Event] = []
    start = SessionStarted(goal="g", project=PROJECT, device="laptop")
    for number, data in enumerate([start, *datas]):
        kind = TYPE_OF[type(data)]
        before = log[-writers] if number >= writers else None
        event = make_event(
            session=SESSION, writer=f"w{number % writers}", seq=number // writers + 1,
            prev=None if before is None else before.hash, clock=NOON * 1000 + number,
            at=NOON + (30 * DAY + number * step if number else 0), actor="ada", type=kind.name, version=kind.version,
            data=canonical_json(msgspec.to_builtins(data)), salt=bytes(16),
            seen=() if writers == 1 or not log else (log[-1].head,), key=None,
        )  # fmt: skip
        log.append(event)
    return log


class Compared(str):
    """A text whose comparisons run a Python line, so that they are counted."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True

    def __hash__(self) -> int:
        return str.__hash__(self)


def with_compared_texts(data: EventData) -> EventData:
    counted: dict[str, Any] = {}
    for name in data.__struct_fields__:
        value = getattr(data, name)
        if isinstance(value, str):
            counted[name] = Compared(value)
        elif isinstance(value, tuple):
            counted[name] = tuple(Compared(item) for item in value)
    return msgspec.structs.replace(data, **counted)


def lines_run(log: list[Event]) -> int:
    """How many Python lines it takes to fold and to show these events."""
    count = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return local

    state = State(session=SESSION)
    decoded = [(event, with_compared_texts(data)) for event in log if (data := read_data(event)) is not None]
    assert len(decoded) == len(log)
    before = sys.gettrace()
    sys.settrace(local)
    try:
        for event, data in decoded:
            apply(state, event, data)
        view.session(state, NOON + 365 * DAY)
    finally:
        sys.settrace(before)
    return count


def growth(order: Order, step: int, writers: int = 1, n: int = 50) -> float:
    """How many times more lines twice as many events take."""
    lines_run(events(order(2), step, writers))  # builds caches that must not be counted
    return lines_run(events(order(2 * n), step, writers)) / lines_run(events(order(n), step, writers))


def in_turn(*makers: str | Maker) -> Order:
    """All events of the first maker, then all of the next."""
    return lambda n: [_make(maker, number) for maker in makers for number in range(n)]


def in_pairs(*makers: str | Maker) -> Order:
    """One event of each maker, then one of each again."""
    return lambda n: [_make(maker, number) for number in range(n) for maker in makers]


def _make(maker: str | Maker, number: int) -> EventData:
    return (DATA_OF_TYPE[maker] if isinstance(maker, str) else maker)(number)


LAYOUTS = {"close": (1000, 1), "apart": (GAP, 1), "backwards": (-GAP, 1), "two writers": (GAP, 2)}


def test_table_of_data_covers_every_event_type() -> None:
    assert set(DATA_OF_TYPE) == set(EVENT_TYPES)


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_cost_is_linear_for_every_event_type(name: str) -> None:
    needed = PREREQUISITES.get(name.partition(".")[0], name)
    order = in_turn(name) if needed == name else in_turn(needed, name)
    for layout, (step, writers) in LAYOUTS.items():
        assert growth(order, step, writers) < MAX_GROWTH, layout


def _twin(number: int) -> EventData:
    return AgentStarted(id="a", type=f"t{number}")


COMBINATIONS: dict[str, Order] = {
    "conversations closed one by one": in_pairs("native.linked", "native.closed"),
    "conversations that the last one keeps open": lambda n: in_turn("native.linked", "native.closed")(n)[:-1],
    "pauses and resumes": in_pairs("session.paused", "session.resumed"),
    "pauses, then messages": lambda n: [
        *in_pairs("session.paused", "session.resumed")(n), *in_turn("message.exchanged")(n),
    ],
    "an agent's pauses that began, then messages": in_turn("away.recorded", "message.exchanged"),
    "pauses corrected": in_turn("away.recorded", "worked.recorded"),
    "agents and messages": in_pairs("agent.started", "message.exchanged"),
    "agents of one id": in_turn(_twin),
    "agents of one id, and files in conflict": in_turn(_twin, lambda _: ConflictDetected(field="agents.a.status")),
    "tasks of one id": in_turn(lambda number: TaskAdded(id="t", text=f"x{number}")),
    "agents in conflict": in_turn("agent.started", "conflict.found"),
    "conflicts of agents resolved": in_turn("agent.started", "conflict.found", "conflict.resolved"),
    "conflicts of nothing known": in_turn(
        lambda number: ConflictDetected(field="x", value=number),
        lambda _: ConflictResolved(field="x", chosen="", overruled=()),
    ),
    "values of the status in conflict, then notes": in_turn(
        lambda _: ConflictDetected(field="status", value="paused"), "note.added"
    ),
    "files of agents": in_turn("agent.started", "file.changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMBINATIONS)
def test_cost_is_linear_for_types_that_interact(name: str) -> None:
    for layout, (step, writers) in LAYOUTS.items():
        assert growth(COMBINATIONS[name], step, writers) < MAX_GROWTH, layout
