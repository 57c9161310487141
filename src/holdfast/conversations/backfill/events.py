"""The events of a past conversation, from its transcript: the part that lies in a window of time.

Of to-do lists only the end matters, and when each entry first appeared. Entries have the ids that `ingest.events`
gives them, so that hooks which report the conversation later change the same tasks.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.clean_text import goal_of, id_of, plain
from holdfast.conversations.adapters.errors import categorize
from holdfast.conversations.adapters.transcript import TimedSignal, Transcript
from holdfast.conversations.signals import (
    AgentBegan,
    AgentEnded,
    Compacted,
    Edited,
    Erred,
    Limited,
    Measured,
    Planned,
    Prompted,
    Ran,
    Todo,
)
from holdfast.core import view
from holdfast.core.canonical import MAX_SAFE_INTEGER, digest
from holdfast.core.errors import Invalid
from holdfast.core.events import (
    AgentCompleted,
    AgentFailed,
    AgentInterrupted,
    AgentStarted,
    AwayRecorded,
    CommandRan,
    ContextCompressed,
    ContextMeasured,
    ErrorNoted,
    EventData,
    FileChanged,
    SessionEdited,
    TaskAdded,
    TaskCompleted,
    TaskDropped,
    TaskEvent,
    TaskReopened,
    TaskStarted,
    TimerRules,
    WorkRecorded,
)
from holdfast.core.text import check_relative_path
from holdfast.core.times import DAY, MINUTE
from holdfast.core.worktime import join_spans

_MAX_TODOS: Final = 500
_MOVES: Final[dict[str, type[TaskEvent]]] = {
    "pending": TaskReopened, "in_progress": TaskStarted, "completed": TaskCompleted, "dropped": TaskDropped,
}  # fmt: skip


class _Entry(msgspec.Struct):
    text: str
    since: int
    status: str = "pending"
    at: int = 0


def planned_tasks(transcript: Transcript, signals: list[TimedSignal]) -> Iterator[tuple[int, EventData, str]]:
    """Each to-do once, with its outcome: time, event, mark."""
    source = f"{transcript.agent}-{_short(transcript.conversation, 4)}-"
    entries: dict[str, _Entry] = {}
    for timed in signals:
        if isinstance(timed.signal, Planned):
            _fold(entries, timed.signal, timed.at)
    for name, entry in entries.items():
        task = source + name
        yield entry.since, TaskAdded(id=task, text=entry.text), f"task:{name}"
        if entry.at:
            yield entry.at, _MOVES[entry.status](id=task), f"task:{name}:{entry.status}:{entry.at}"


def _fold(entries: dict[str, _Entry], signal: Planned, at: int) -> None:
    listed: set[str] = set()
    for todo in signal.todos[:_MAX_TODOS]:
        words = plain(todo.text, 500).strip()
        name = _short(words if todo.id is None else f"#{todo.id}", 8)
        entry = entries.get(name)
        if entry is None:
            if not words or len(entries) >= _MAX_TODOS:
                continue
            entry = entries[name] = _Entry(words, at)
        entry.text = words or entry.text
        listed.add(name)
        _move(entry, todo, at)
    if signal.whole and listed:
        for name, entry in entries.items():
            if name not in listed and entry.status in ("pending", "in_progress"):
                entry.status, entry.at = "dropped", at


def _move(entry: _Entry, todo: Todo, at: int) -> None:
    # Listed as pending again, but it was started.
    if entry.status != todo.status and not (entry.status == "in_progress" and todo.status == "pending"):
        entry.status, entry.at = todo.status, at


def _short(words: str, length: int) -> str:
    return digest(words.encode(errors="surrogatepass"))[:length]


_MAX_COMMAND: Final = 1_000
_MIN_TIME: Final = (
    1_420_070_400_000  # 2015: earlier times are those of wrong clocks, since none of these programs existed
)


class KeyedEvent(NamedTuple):
    """An event to be recorded, and what its key ends with."""

    at: int
    data: EventData
    mark: str


class Window(NamedTuple):
    """A part of a transcript: between two times, both excluded."""

    after: int = -(1 << 60)
    before: int = 1 << 60

    def has(self, at: int) -> bool:
        return self.after < at < self.before


class TranscriptPart(NamedTuple):
    """The part of a transcript in a window: its begin and end, its goal, its events."""

    began: int
    ended: int
    goal: str | None
    events: list[KeyedEvent]
    # Agents without an end, and when each was last seen.
    open: dict[str, int]


def make_part(
    transcript: Transcript, window: Window, *, roots: tuple[str, ...], timer: TimerRules, now: int
) -> TranscriptPart | None:
    """None if nothing happened in the window. Times in the future come from a wrong clock, and become now."""
    signs = sorted(min(at, now) for at in transcript.signs if window.has(at) and _MIN_TIME < at < now + DAY)
    shown = [timed for timed in transcript.signals if window.has(timed.at) and _MIN_TIME < timed.at < now + DAY]
    if not signs and not shown:
        return None
    times = [*signs[:1], *signs[-1:], *(min(timed.at, now) for timed in shown)]
    began, ended = min(times), max(times)
    agents = _Agents(transcript)
    events = list(_events_of_signals(shown, agents, signs, roots, transcript.cwd, began, now))
    events += [
        KeyedEvent(until, WorkRecorded(since=since, until=until), f"work:{since}:{until}")
        for since, until in join_spans(((at, at) for at in signs), timer.idle)
        if until > began  # the start is a sign by itself
    ]
    prompts = sorted(
        min(timed.at, now)
        for timed in shown
        if isinstance(timed.signal, Prompted) and timed.signal.person and timed.signal.agent is None
    )
    events += agents.unreported(prompts)
    events += [KeyedEvent(min(at, now), data, mark) for at, data, mark in planned_tasks(transcript, shown)]
    events += _facts(transcript, shown, ended, now)
    events.sort(key=lambda event: event.at)
    goals = (goal_of(timed.signal.text) for timed in shown if isinstance(timed.signal, Prompted))
    return TranscriptPart(began, ended, next((goal for goal in goals if goal), None), events, agents.open())


def end_open_agents(part: TranscriptPart) -> Iterator[KeyedEvent]:
    """Interrupt open agents: the conversation is over."""
    for name, last_seen in part.open.items():
        yield _interruption(name, part.ended, last_seen)


def _interruption(name: str, at: int, last_seen: int) -> KeyedEvent:
    return KeyedEvent(at, AgentInterrupted(id=name, last_seen=last_seen), f"{name}:interrupted")


class _Agents:
    """The ids of subagents in the session: the program's own, numbered for further runs.

    They are assigned over the whole transcript, so that they are unique in any part of it.
    """

    def __init__(self, transcript: Transcript) -> None:
        self.conversation = view.native_name(transcript.agent, transcript.conversation)
        self._runs: dict[str, str] = {}  # by the marks of a run's start and end
        self._latest: dict[str, str] = {}
        self._begun: set[str] = set()
        # When each open agent was seen, from its start on.
        self._open: dict[str, list[int]] = {}
        self._background: set[str] = set()
        latest: dict[str, str] = {}
        taken: set[str] = set()
        for timed in transcript.signals:
            if isinstance(timed.signal, AgentBegan | AgentEnded):
                own = _own_id(timed.signal)
                # An end belongs to the last start with that name; reported twice, it is still one end.
                if isinstance(timed.signal, AgentBegan) or own not in latest:
                    latest[own] = _free_name(own, taken)
                    taken.add(latest[own])
                self._runs[timed.mark] = latest[own]

    def begin(self, timed: TimedSignal, signal: AgentBegan | AgentEnded, at: int) -> str:
        name = self._runs[timed.mark]
        self._latest[_own_id(signal)] = name
        self._begun.add(name)
        self._open[name] = [at]
        if isinstance(signal, AgentBegan) and signal.background:
            self._background.add(name)
        return name

    def end(self, timed: TimedSignal) -> str:
        name = self._runs[timed.mark]
        self._open.pop(name, None)
        return name

    def has_begun(self, timed: TimedSignal) -> bool:
        """Whether the start of the agent that ends here was reported."""
        return self._runs[timed.mark] in self._begun

    def of(self, agent: str | None) -> str | None:
        return None if agent is None else self._latest.get(id_of(agent))

    def at_work(self, agent: str | None, at: int) -> str | None:
        """Note that an agent did something at this time; gives its id."""
        name = self.of(agent)
        if name in self._open:
            self._open[name].append(at)
        return name

    def unreported(self, prompts: list[int]) -> Iterator[KeyedEvent]:
        """End foreground agents without a reported end at the person's next prompt."""
        for name, times in self._open.items():
            ended = next((at for at in prompts if at > times[0]), None)
            if ended is not None and name not in self._background:
                yield _interruption(name, ended, max(at for at in times if at <= ended))

    def open(self) -> dict[str, int]:
        return {name: max(times) for name, times in self._open.items()}


def _own_id(signal: AgentBegan | AgentEnded) -> str:
    call = signal.call if isinstance(signal, AgentEnded) else None
    return id_of(signal.agent or call or signal.type or "agent")


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[:90]}-{number}"
    return free


def _events_of_signals(
    signals: list[TimedSignal],
    agents: _Agents,
    signs: list[int],
    roots: tuple[str, ...],
    cwd: str | None,
    began: int,
    now: int,
) -> Iterator[KeyedEvent]:
    for timed in signals:
        at, signal, mark = min(timed.at, now), timed.signal, timed.mark
        match signal:
            case Ran():
                yield KeyedEvent(at, _command(signal, agents.at_work(signal.agent, at)), mark)
            case Edited():
                path = project_path(signal.path, cwd, roots)
                if path is not None:
                    by = agents.at_work(signal.agent, at)
                    yield KeyedEvent(at, _change(signal, path, by, agents.conversation), mark)
            case AgentBegan():
                yield KeyedEvent(at, _start(agents.begin(timed, signal, at), signal, agents.conversation), mark)
            case AgentEnded():
                if not agents.has_begun(timed):
                    since = max(began, at - (signal.took_ms or 0))
                    begun = _start(agents.begin(timed, signal, since), signal, agents.conversation)
                    yield KeyedEvent(since, begun, f"{mark}:began")
                yield KeyedEvent(at, _end(agents.end(timed), signal), mark)
            case Compacted():
                yield KeyedEvent(at, ContextCompressed(tokens=exact_int(signal.tokens)), mark)
            case Erred():
                by = agents.of(signal.agent)
                yield KeyedEvent(
                    at, ErrorNoted(message=plain(signal.message), category=signal.category, agent=by), mark
                )
            case Limited():
                yield from _limited(at, signal, signs, mark)
            case _:
                pass  # only a sign of activity, or recorded with the whole transcript


def _start(name: str, signal: AgentBegan | AgentEnded, conversation: str) -> AgentStarted:
    kind = plain(signal.type or "", 100).strip() or "agent"
    task = None if signal.task is None else plain(signal.task, 500)
    background = isinstance(signal, AgentBegan) and signal.background
    return AgentStarted(id=name, type=kind, task=task, background=background, conversation=conversation)


def _end(name: str, signal: AgentEnded) -> EventData:
    if signal.failed is not None:
        message = plain(signal.failed, 500) or "failed"
        return AgentFailed(id=name, category=categorize(None, signal.failed), message=message)
    return AgentCompleted(
        id=name, summary=None if signal.summary is None else plain(signal.summary), tokens=exact_int(signal.tokens)
    )


def _command(signal: Ran, agent: str | None) -> CommandRan:
    return CommandRan(
        command=plain(signal.command, _MAX_COMMAND), code=exact_int(signal.code), agent=agent,
        duration_ms=exact_int(signal.took_ms),
    )  # fmt: skip


def _change(signal: Edited, path: str, agent: str | None, conversation: str) -> FileChanged:
    return FileChanged(
        path=path, action=signal.action, agent=agent, lines_added=exact_int(signal.lines_added),
        lines_removed=exact_int(signal.lines_removed),
        hash_before=None if signal.action == "created" else signal.before,
        hash_after=None if signal.action == "deleted" else signal.after, by="tool", among=(conversation,),
    )  # fmt: skip


def _limited(at: int, signal: Limited, signs: list[int], mark: str) -> Iterator[KeyedEvent]:
    """A usage limit: no work is possible from then until the next sign of activity."""
    reason = plain(signal.reason, 500)
    yield KeyedEvent(at, ErrorNoted(message=reason, category="resource"), mark)
    lifted = next((sign for sign in signs if sign > at), None)
    if lifted is not None and lifted - at > MINUTE:
        yield KeyedEvent(lifted, AwayRecorded(since=at, until=lifted, reason=reason), f"{mark}:away")


def _facts(transcript: Transcript, signals: list[TimedSignal], ended: int, now: int) -> Iterator[KeyedEvent]:
    """Facts about the whole part, under keys that change with them."""
    measured = [(timed.at, timed.signal) for timed in signals if isinstance(timed.signal, Measured)]
    for at, signal in reversed(measured):
        if signal.tokens is not None:
            tokens = ContextMeasured(tokens=exact_int(signal.tokens) or 0, window=exact_int(signal.window))
            yield KeyedEvent(min(at, now), tokens, f"context:{at}:{signal.tokens}")
            break
    edited = SessionEdited(model=None if transcript.model is None else plain(transcript.model, 200) or None)
    if edited != SessionEdited():
        words = f"{edited.model}\nNone\n{edited.summary}"  # in between, earlier versions had the cost
        yield KeyedEvent(ended, edited, f"facts:{digest(words.encode())[:16]}")


def exact_int(number: int | None) -> int | None:
    """A number within the range that every JSON reader keeps exact."""
    return None if number is None else min(max(number, -MAX_SAFE_INTEGER), MAX_SAFE_INTEGER)


def project_path(path: str, cwd: str | None, roots: tuple[str, ...]) -> str | None:
    """The path of a file in the project; None if it is elsewhere. Only names are compared: many files no longer
    exist.
    """
    windows = (ntpath.isabs(path) and not path.startswith("/")) or bool(cwd and cwd[1:3] in (":\\", ":/"))
    rules = ntpath if windows else posixpath if os.sep == "/" else os.path
    try:
        full = rules.normpath(path if rules.isabs(path) or not cwd else rules.join(cwd, path))
        for root in roots:
            base = rules.normpath(root)
            if rules.normcase(full).startswith(rules.normcase(base).rstrip("/\\") + rules.sep):
                return check_relative_path(
                    full[len(base.rstrip("/\\")) + 1 :].replace("\\", "/" if windows else "\\")
                )
    except (Invalid, ValueError):
        return None
    return None
