"""Histories as real devices make them, and as no honest device would: what the fold has to handle.

`Device` records events as the journal does: it knows its own stream and what it has received, names the heads that
moved in `seen`, and ticks a hybrid clock. `histories` draws whole histories of one to four devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from hypothesis import strategies as st

from holdfast.core.canonical import canonical_json, digest
from holdfast.core.clock import tick
from holdfast.core.envelope import Event, StreamHead, make_event
from holdfast.core.events import (
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
    Process,
    ProjectFacts,
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
    TimerRules,
    WaitingEnded,
    WaitingStarted,
    WorkedRecorded,
    WorkRecorded,
)
from holdfast.core.fold import fold
from holdfast.core.state import State

SESSION = "0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b"
NOON = 1_794_744_000_000  # 2026-11-15T12:00:00Z
MINUTE = 60_000
PROJECT = ProjectFacts(id="p1", name="shop", path="/home/ada/shop")


class Device:
    """One writer, with its own clock and the events it has received."""

    def __init__(self, writer: str = "w1", *, now: int = NOON) -> None:
        self.writer = writer
        self.now = now
        self.known: dict[str, Event] = {}
        # The causal past of each of its own events, which `seen` only summarizes.
        self.past: dict[str, frozenset[str]] = {}
        self._named: dict[str, int] = {}
        self._head: StreamHead | None = None

    def record(
        self,
        data: EventData,
        *,
        at: int | None = None,
        key: str | None = None,
        written: bytes | None = None,
        kind: str | None = None,
        version: int | None = None,
    ) -> Event:
        """The next event of its stream; `written`, `kind` and `version` make it one that this version does not
        understand.
        """
        own = TYPE_OF[type(data)]
        heads = self._moved_heads()
        event = make_event(
            session=SESSION,
            writer=self.writer,
            seq=self._head.seq + 1 if self._head else 1,
            prev=self._head.hash if self._head else None,
            clock=tick(max((event.clock for event in self.known.values()), default=0), self.now * 1000),
            at=self.now if at is None else at,
            actor="ada",
            type=kind or own.name,
            version=own.version if version is None else version,
            data=canonical_json(msgspec.to_builtins(data)) if written is None else written,
            salt=digest(f"{self.writer} {len(self.known)}".encode())[:16].encode(),
            seen=heads,
            key=key,
        )
        self.past[event.hash] = frozenset(self.known)
        self._named.update({head.writer: head.seq for head in heads})
        self.known[event.hash] = event
        self._head = event.head
        return event

    def fork(self) -> None:
        """Forget the last event of its own stream, as a restored home does: the next one takes its number."""
        if self._head is None:
            return
        last = self.known[self._head.hash]
        self._head = None if last.prev is None else StreamHead(self.writer, last.seq - 1, last.prev)

    def receive(self, other: Device, *, up_to: int | None = None) -> None:
        """Receives the other's events; of the other's own stream only the first `up_to`."""
        for event in other.known.values():
            if up_to is None or event.writer != other.writer or event.seq <= up_to:
                self.known.setdefault(event.hash, event)

    def wait(self, ms: int) -> None:
        self.now += ms

    def state(self) -> State:
        return fold(self.known.values(), SESSION)

    def _moved_heads(self) -> tuple[StreamHead, ...]:
        heads: dict[str, StreamHead] = {}
        for event in self.known.values():
            if event.writer != self.writer and (event.writer not in heads or heads[event.writer].seq < event.seq):
                heads[event.writer] = event.head
        return tuple(sorted(head for head in heads.values() if head.seq > self._named.get(head.writer, 0)))


def started(now: int = NOON, *, timer: TimerRules | None = None, status: str = "in_progress") -> Device:
    """A device that has just started the session."""
    device = Device(now=now)
    device.record(
        SessionStarted(
            goal="Add login", project=PROJECT, device="laptop", timer=timer or TimerRules(), status=status,
        )
    )  # fmt: skip
    return device


def joined(other: Device, writer: str = "w2", device: str = "desktop") -> Device:
    """Another device that received everything the first one has."""
    second = Device(writer, now=other.now)
    second.receive(other)
    second.record(DeviceJoined(device=device))
    return second


def together(*devices: Device) -> list[Event]:
    return list({event.hash: event for device in devices for event in device.known.values()}.values())


def erased(event: Event) -> Event:
    return msgspec.structs.replace(event, data=None, salt=None)


# ── Drawing histories ────────────────────────────────────────────────────────────────────────────────────

_PROCESS = Process(7, "1", "b", "n", "m")
_FAR = (0, -(2**53 - 1), 2**53 - 1, NOON - 40 * 365 * 86_400_000)


def _pool() -> list[EventData]:
    """At least one event of every type, about few enough subjects for devices to conflict."""
    pool: list[EventData] = [
        SessionStarted(goal="Another start", project=PROJECT, device="phone", tags=("x", "x"), status="odd"),
        SessionEdited(goal="One goal"), SessionEdited(goal="Other goal"), SessionEdited(goal="Third", mode="debug"),
        SessionEdited(progress=1e308), SessionEdited(progress=0.5), SessionEdited(tags=("b", "a")),
        SessionEdited(cost_usd=-0.0, summary="s"),
        SessionPaused(reason="lunch"), SessionPaused(), SessionResumed(), SessionResumed(), SessionSaved(),
        SessionCompleted(summary="done", outcome="kept"), SessionFailed(message="no", category="logical"),
        SessionAborted(), SessionTimedOut(), SessionArchived(), SessionUnarchived(), SessionDeleted(),
        EventErased(hashes=("00" * 32,)), AliasGiven(format="timer", id="20261115-shop-login"),
        ExtraKept(name="x", value={"deep": [1, 1e17, "é", None]}), NativeLinked(agent="claude", id="1\n2"),
        NativeClosed(agent="claude", id="1\n2", reason="over"),
        NativeMoved(agent="claude", id="1\n2", to="e1b9e8a4-4c6f-4a39-8df5-0c0a8a7f6d12"),
        SessionResumed(gathers=False),
        ConversationUpdated(agent="claude", id="1\n2", name="Carts", model="opus", prompts=2, input=7, cost_usd=0.5),
        GitPositionNoted(branch="feat/é", commit="ab" * 20), GitPositionNoted(commit="cd" * 20),
        GitPositionNoted(branch="main"),
        MessageExchanged(), MessageExchanged(role="assistant"), NoteAdded(text="n", redacted={"npm_token": 2}),
        ReminderReached(line="break_40"), ReminderReached(line="anything"),
        WaitingStarted(id="q", for_="permission"), WaitingEnded(id="q"), DeviceJoined(device="phone"),
        PhaseAdded(id="p", name="Plan"), PhaseAdded(id="p", name="Ground"),
        DecisionMade(chosen="c", options=("a", "b")), CommandRan(command="make", code=2),
        FileChanged(path="a.py", action="modified", agent="a1"),
        FileChanged(path="b.py", action="created", by="unknown", among=("claude:1", "codex:2")),
        CommitRecorded(sha="c" * 40, message="Begin", conversation="claude:1"),
        CommitRecorded(sha="d" * 40, message="Begin it", replaces="c" * 40, certainty="likely"),
        HillMoved(scope="s", position=2**53 - 1),
        ContextMeasured(tokens=2**53 - 1, window=1), ContextMeasured(tokens=-5, window=-1, agent="a1"),
        ErrorNoted(message="no", agent="a1"), ConflictDetected(field="goal", value="theirs"),
        ConflictDetected(field="status", value="paused"), ConflictDetected(field="agents.a1.status", value=7),
        ConflictDetected(field="agents.a2.status", value="completed"),
        ConflictDetected(field="status", value={"a": 1}),
        ConflictDetected(field="agents.a1.summary", value={"a": [1]}, stood="ours"),
        ContextMeasured(tokens=9, window=0), ContextCompressed(tokens=1), ContextCompressed(),
    ]  # fmt: skip
    for since in _FAR:
        pool.append(AwayRecorded(since=since, until=NOON + 90 * MINUTE))
        pool.append(AwayRecorded(since=NOON, until=since, kind="idle"))
        pool.append(WorkedRecorded(since=NOON, until=since))
        pool.append(WorkRecorded(since=since, until=NOON + 50 * MINUTE))
    for agent in ("a1", "a2"):
        pool += [
            AgentStarted(id=agent, type="coder", pid=3, process=_PROCESS),
            AgentStarted(id=agent, type="t", pending=True), AgentStarted(id=agent, type="t", background=True),
            AgentProgressed(id=agent, progress=-1e308), AgentEdited(id=agent, summary="s", type="u"),
            AgentCompleted(id=agent, tokens=5), AgentFailed(id=agent, category="odd", message="m"),
            AgentTimedOut(id=agent), AgentRetried(id=agent, pid=4, process=_PROCESS), AgentPaused(id=agent),
            AgentResumed(id=agent), AgentAborted(id=agent),
            *(AgentInterrupted(id=agent, last_seen=at) for at in _FAR),
        ]  # fmt: skip
    for task in ("t1", "t2"):
        pool += [
            TaskAdded(id=task, text="one"), TaskAdded(id=task, text="two"), TaskStarted(id=task),
            TaskCompleted(id=task, outcome="o", artifacts=("f", "f")), TaskBlocked(id=task), TaskReopened(id=task),
            TaskDropped(id=task, outcome="o"), TaskEdited(id=task, text="other", artifacts=("g",)),
        ]  # fmt: skip
    return pool


POOL = _pool()


def _groups(pool: list[EventData]) -> list[list[EventData]]:
    """By subject, so that rare types are not outnumbered by those that conflict most often."""
    parts: dict[str, list[EventData]] = {}
    for data in pool:
        kind = TYPE_OF[type(data)].name
        about = kind.partition(".")[0]
        moves = kind in ("session.edited", "session.started")
        parts.setdefault(kind if moves else about if about in ("session", "agent", "task") else "rest", []).append(
            data
        )
    return list(parts.values())


_HOSTILE = _groups(POOL)
_HONEST = _groups([data for data in POOL if not isinstance(data, (SessionStarted, SessionDeleted))])

GARBAGE = (
    b"", b"\xff", b"null", b"[]", b'"x"', b'{"goal":NaN}', b'{"goal":1}', b'{"goal":"\xff"}', b'{"text":"\\ud800"}',
    b'{"goal":"x"', b'{"since":1e999,"until":1}', b'{"since":' + b"9" * 30 + b',"until":1}', b'{"tokens":1.5}',
    b'{"name":"x","value":' + b"[" * 3000 + b"]" * 3000 + b"}", b'{"name":"x","value":' + b"9" * 400 + b"}",
    b'{"name":"x","value":"' + b"[" * 500 + b'\\""}', b'{"id":"a1","last_seen":18446744073709551615}',
    b'{"redacted":{"x":99999999999999999999}}', b'{"text":"fine","unknown":{"from":"a later version"}}',
)  # fmt: skip

_WAITS = (0, 1, 1000, MINUTE, 5 * MINUTE, 5 * MINUTE + 1, 11 * MINUTE, 86_400_000, -86_400_000)
_WALLS = (NOON, NOON, NOON + 3 * 365 * 86_400_000, NOON - 9 * 365 * 86_400_000, 0)
_ATS = (None, None, None, None, 0, -(10**13), NOON - 86_400_000, NOON + 10**13, 10**18, -(10**18))


class Step(NamedTuple):
    who: int
    act: int
    what: int
    wait: int
    more: int


_STEP = st.builds(
    Step, st.integers(0, 3), st.integers(0, 11), st.integers(0, 997), st.integers(0, 8), st.integers(0, 99)
)


class History(NamedTuple):
    devices: tuple[Device, ...]
    events: tuple[Event, ...]


def play(steps: Iterable[Step], *, wall: int = 0, hostile: bool = True) -> History:
    """Runs the steps on up to four devices. Hostile ones also erase, forge, fork and write invalid data."""
    first = started(_WALLS[wall % len(_WALLS)] if hostile else NOON)
    devices = [first]
    for step in steps:
        number = step.who % 4
        while len(devices) <= number:
            other = Device(f"w{len(devices) + 1}", now=_WALLS[(step.more + wall) % len(_WALLS)] if hostile else NOON)
            if not hostile or step.more % 5:
                other.receive(first)
            devices.append(other)
        device = devices[number]
        device.wait(_WAITS[step.wait % len(_WAITS)])
        if step.act <= 2:
            other = devices[step.what % len(devices)]
            device.receive(other, up_to=step.more if step.act == 0 else None)
            continue
        if hostile and step.act == 3:
            device.fork()
        _record(device, step, hostile=hostile)
    events = together(*devices)
    if hostile:
        events = [_spoiled(event, place, wall) for place, event in enumerate(events)]
    return History(tuple(devices), tuple(events))


def _record(device: Device, step: Step, *, hostile: bool) -> None:
    groups = _HOSTILE if hostile else _HONEST
    group = groups[step.what % len(groups)]
    data = group[step.what // len(groups) % len(group)]
    key = f"k{step.more % 4}" if step.act == 4 else None
    hashes = list(device.known)
    if step.act == 5 and hashes:
        chosen, over = hashes[step.more % len(hashes)], hashes[step.what % len(hashes)]
        field = ("goal", "status", "agents.a1.status", "tasks.t1.status", "agents.a1", "x")[step.what % 6]
        data = ConflictResolved(field=field, chosen=chosen, overruled=(over,))
    elif step.act == 6 and hashes and hasattr(data, "ref"):
        data = msgspec.structs.replace(data, ref=hashes[step.more % len(hashes)])
    at = _ATS[step.more % len(_ATS)] if hostile else None
    if hostile and step.act == 7:
        device.record(data, at=at, written=GARBAGE[step.more % len(GARBAGE)])
    elif hostile and step.act == 8:
        device.record(data, at=at, version=max(1, step.more))
    elif hostile and step.act == 9:
        device.record(data, at=at, kind=("session.dreamt", "", "agent.ünknown")[step.more % 3])
    else:
        device.record(data, at=at, key=key)


def _spoiled(event: Event, place: int, wall: int) -> Event:
    if (place * 7 + wall) % 11 == 0:
        return erased(event)
    if (place * 5 + wall) % 17 == 0:  # claims to have seen an event that nobody wrote
        return msgspec.structs.replace(event, seen=(*event.seen, StreamHead("nobody", 2**53 - 1, "00" * 32)))
    return event


@st.composite
def histories(draw: st.DrawFn, *, hostile: bool = True, longest: int = 40) -> History:
    size = draw(st.integers(1, longest))
    steps = draw(st.lists(_STEP, min_size=size, max_size=size))
    return play(steps, wall=draw(st.integers(0, 30)), hostile=hostile)
