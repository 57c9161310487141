"""What a timer's file tells as events: all of it when it is imported, the differences when somebody changed it.

Pauses that are over are recorded as such. One that lasts is opened the way it would have been here: by the person,
by the limit, by an agent at work, or by silence. Of the last two the file knows more than our thresholds would say,
so an `away` of no length marks where the pause began (see `core.worktime`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.core import agents, view
from holdfast.core.errors import Invalid, Refused
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    AwayRecorded,
    EventData,
    MessageExchanged,
    ReminderReached,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    SessionTimedOut,
    WorkRecorded,
)
from holdfast.core.lifecycle import FINISHED, refusal
from holdfast.core.state import State
from holdfast.formats.base import Document, ImportContext, TimedEvent
from holdfast.formats.timer.fields import Stop, TimerValues, reading
from holdfast.formats.timer.names import REMINDERS, TIMEOUT
from holdfast.formats.timer.render import THEIRS

# Agents that only a pause in a file tells of. They end with the pause; others end when they say so.
_AGENT: Final = "timer-task"
_KINDS: Final = {"MANUAL": "manual", "AUTO_IDLE": "idle", "AUTO_TASK": "task"}


def imported(document: Document, ground: ImportContext) -> list[TimedEvent]:
    """Everything the file tells, oldest first."""
    seen = _read(document)
    begin = min(seen.start, ground.now)
    last = min(seen.last, ground.now)
    told = _Telling(begin, ground.now)
    task, summary = _text(document, "task"), _text(document, "summary")
    told.first(
        SessionStarted(
            goal=task or summary or seen.session, project=ground.project, device=ground.device,
            scope=_text(document, "scope"), task=task, branch=seen.branch, aliases={"timer": seen.session},
            timer=ground.timer,
        )
    )  # fmt: skip
    for stop in seen.pauses:
        if stop.until is not None:
            told.over(stop, stop.until)
    told.message(seen)
    if summary is not None:
        told.say(seen.message, SessionEdited(summary=summary))
    told.opened(seen, seen.lasting, _AGENT + "-1")
    if seen.status == "PAUSED" and seen.lasting is None:
        told.paused(seen)
    for _, line in _given(seen):
        told.say(last, ReminderReached(line=line))
    told.counted(seen, begin)
    return told.in_order()


def counted(before: Document, after: Document, state: State, ground: ImportContext) -> list[TimedEvent]:
    """Working time that whoever wrote `after` counted since `before`: its pauses are true, the rest is work."""
    was, now = _read(before), _read(after)
    told = _Telling(was.start if state.created_at is None else state.created_at, ground.now)
    if _paused_itself(now) and now.last >= max(state.updated_at, was.last + 1):
        told.paused(now)  # whatever version the writer had: this is what they say of the last moment we know
    told.counted(now, was.last)
    return told.in_order()


def changed(before: Document, after: Document, state: State, ground: ImportContext) -> list[TimedEvent]:
    """What somebody did between the two, oldest first. Raises `Refused` for what cannot have happened."""
    was, now = _read(before), _read(after)
    begin = was.start if state.created_at is None else state.created_at
    told = _Telling(begin, ground.now)
    _facts(told, before, after, now)
    known, there = _by_beginning(was), _by_beginning(now)
    for name, stop in there.items():
        old = known.get(name)
        if old is None and stop.until is not None:
            told.over(stop, stop.until)
        elif old is not None and old.until != stop.until:
            _ended(told, old, stop, state)
    if now.message > was.message:
        told.message(now)
    for name, stop in there.items():
        begun = name not in known
        # An idle pause that messages did not end goes on: that has to be said again.
        goes_on = stop.type == "AUTO_IDLE" and now.message > was.message and now.status == "PAUSED"
        if stop.until is None and (begun or goes_on):
            told.opened(now, stop, _free_agent(state))
    for flag, line in _given(now):
        if flag not in {name for name, _ in _given(was)}:
            told.say(now.last, ReminderReached(line=line))
    _flipped(told, was, now, view.status_of(state))
    return _possible(told, state, in_a_pause=was.lasting is not None)


def _read(document: Document) -> TimerValues:
    seen = reading(document)
    if seen is None:
        raise Invalid(
            "this is not a document of the timer format", hint="`holdfast validate` says what is wrong with it."
        )
    return seen


def _text(document: Document, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _given(seen: TimerValues) -> Iterator[tuple[str, str]]:
    for (name, line, _), flag in zip(REMINDERS, seen.reminders or (False, False, False), strict=True):
        if flag:
            yield name, line


def _by_beginning(seen: TimerValues) -> dict[tuple[str, int, int], Stop]:
    """The pauses by type and beginning, and by a number where two are alike: one of them has no length."""
    found: dict[tuple[str, int, int], Stop] = {}
    for stop in seen.pauses:
        number = 0
        while (stop.type, stop.since, number) in found:
            number += 1
        found[stop.type, stop.since, number] = stop
    return found


class _Telling:
    """The events gathered so far. No moment lies before the session or after now."""

    def __init__(self, begin: int, now: int) -> None:
        self._begin, self._now = begin, now
        self.heard: list[TimedEvent] = []

    def first(self, data: EventData) -> None:
        self.heard.append(TimedEvent(self._begin, data))

    def say(self, at: int, data: EventData) -> None:
        self.heard.append(TimedEvent(self.within(at), data))

    def within(self, at: int) -> int:
        return min(max(at, self._begin), self._now)

    def in_order(self) -> list[TimedEvent]:
        """Oldest first; the same thing told twice of one moment is told once."""
        once = [event for place, event in enumerate(self.heard) if event not in self.heard[:place]]
        return sorted(once, key=lambda one: one.at)

    def message(self, seen: TimerValues) -> None:
        """The last message: the person's, unless an agent's pause that lasts was not ended by it."""
        goes_on = seen.lasting is not None and seen.lasting.type == "AUTO_TASK"
        self.say(seen.message, MessageExchanged(role="assistant" if goes_on else "user"))

    def over(self, stop: Stop, until: int) -> None:
        """A pause that began and ended. One of no length tells nothing."""
        if until > stop.since:
            kind = "timeout" if _is_limit(stop) else _KINDS[stop.type]
            reason = None if kind == "timeout" else stop.reason
            self.say(until, AwayRecorded(since=stop.since, until=until, reason=reason, kind=kind))

    def counted(self, seen: TimerValues, since: int) -> None:
        """Working time up to the last event: all that is none of the file's own pauses."""
        last = self.within(seen.last)
        low = self.within(since)
        for stop in sorted(seen.pauses, key=lambda stop: stop.since):
            if low < (high := min(stop.since, last)):
                self.say(last, WorkRecorded(since=low, until=high, counted=True))
            low = max(low, last if stop.until is None else stop.until)
        if low < last:
            self.say(last, WorkRecorded(since=low, until=last, counted=True))

    def paused(self, seen: TimerValues) -> None:
        """The status alone says so: until the next message, after a pause that the program found by itself, and that
        is none of its pauses; else somebody paused.
        """
        if _paused_itself(seen):
            self.stopped(seen)
        else:
            self.say(seen.last, SessionPaused())

    def resumed(self, was: TimerValues, seen: TimerValues) -> None:
        """By the message that came with it; without one, when the file was changed."""
        self.say(seen.last if seen.last > was.last else self._now, SessionResumed())

    def stopped(self, seen: TimerValues) -> None:
        """The clock stands from the last event to the next."""
        since = self.within(seen.last)
        self.say(since, AwayRecorded(since=since, until=since, kind="idle"))

    def opened(self, seen: TimerValues, stop: Stop | None, agent: str) -> None:
        """A pause that began and lasts."""
        if stop is None:
            return
        since = self.within(stop.since)
        if stop.type == "MANUAL":
            self.say(since, SessionPaused(reason=stop.reason))
        elif _is_limit(stop):
            self.say(since, SessionTimedOut())
        elif stop.type == "AUTO_TASK":
            task = stop.reason.removeprefix(THEIRS)
            self.say(since, AgentStarted(id=agent, type="task", task=task if task.strip() else None))
            self.say(since, AwayRecorded(since=since, until=since, reason=stop.reason, kind="task"))
        else:
            # A message did not end it, or it would have been ended: what had passed is told, and that it goes on.
            self.over(stop._replace(since=since), self.within(seen.last))
            self.say(seen.last, AwayRecorded(since=since, until=since, reason=stop.reason, kind="idle"))


def _paused_itself(seen: TimerValues) -> bool:
    """PAUSED by the end of an automatic pause, as a program of the text does on finding one. One of no length tells
    nothing, and no program finds it.
    """
    last = max(seen.pauses, key=lambda stop: stop.since, default=None)
    return (
        seen.status == "PAUSED"
        and last is not None
        and last.type != "MANUAL"
        and last.since < seen.last
        and last.until == seen.last
    )


def _is_limit(stop: Stop) -> bool:
    return stop.type == "AUTO_TASK" and stop.reason == TIMEOUT


def _facts(told: _Telling, before: Document, after: Document, now: TimerValues) -> None:
    new: Mapping[str, str] = {
        name: value
        for name in ("scope", "task", "summary")
        if isinstance(value := after.get(name), str) and value != before.get(name)
    }
    if new:
        told.say(
            now.last,
            SessionEdited(scope=new.get("scope"), task=new.get("task"), summary=new.get("summary")),
        )


def _ended(told: _Telling, old: Stop, new: Stop, state: State) -> None:
    """A pause we knew has another end now."""
    if new.until is None:
        raise Refused(f"the pause that ended cannot be open again: {new.reason}", hint="Begin a new pause instead.")
    if old.until is None:
        if new.type == "MANUAL" or _is_limit(new):
            told.say(new.until, SessionResumed())
        elif new.type == "AUTO_IDLE":
            told.over(new, new.until)
            told.say(new.until, SessionResumed())
        elif (agent := _agent_since(state, new.since)) is not None:
            told.say(new.until, AgentCompleted(id=agent))
        else:  # an agent of ours is at work, and it says itself when it is done
            told.say(new.until, MessageExchanged())
    elif new.until > old.until:
        told.over(new, new.until)
    else:
        raise Refused(f"the pause that ended cannot be made shorter: {new.reason}")


def _agent_since(state: State, since: int) -> str | None:
    """The agent that a pause in a file told of."""
    for agent in agents.running(state):
        if agent.id.startswith(_AGENT) and agent.runs and agent.runs[-1].since == since:
            return agent.id
    return None


def _free_agent(state: State) -> str:
    taken = {agent.id for agent in state.agents.values()}
    return next(name for number in range(1, len(taken) + 2) if (name := f"{_AGENT}-{number}") not in taken)


def _flipped(told: _Telling, was: TimerValues, now: TimerValues, status: str) -> None:
    """The status says what no pause says."""
    said = {type(event.data) for event in told.heard}
    if was.status == "PAUSED" and now.status == "IN_PROGRESS":
        if SessionResumed not in said and (status in ("paused", "error") or was.lasting is None):
            told.resumed(was, now)
    elif now.status == "PAUSED" and now.lasting is None:
        if was.status != "PAUSED" or was.lasting is not None:
            told.paused(now)
        elif now.message > was.message and status == "in_progress":
            told.stopped(now)  # the message would have ended what nobody paused


def _possible(told: _Telling, state: State, *, in_a_pause: bool) -> list[TimedEvent]:
    """In order, and with what the lifecycle wants in between. A session that has ended takes nothing."""
    status = view.status_of(state)
    made: list[TimedEvent] = []
    for at, data in told.in_order():
        if status in FINISHED:
            raise refusal("the session", status, "session.edited", state.session)
        if isinstance(data, (SessionPaused, SessionTimedOut)):
            if status == "paused" and in_a_pause:
                continue  # nobody pauses twice: the first goes on
            if status != "in_progress":
                made.append(TimedEvent(at, SessionResumed()))
            status = "paused"
        elif isinstance(data, SessionResumed):
            status = "in_progress"
        made.append(TimedEvent(at, data))
    return made
