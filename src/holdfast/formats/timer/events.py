"""Turn a timer file into events: all of it on import, or the differences between two versions.

Finished pauses are recorded as such. An open one is opened the way it would have been here: by the person, by the
limit, by a working agent, or by silence. Of the last two the file knows the start better than our thresholds do, so
an `away` of no length marks it (see `core.worktime`).
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
from holdfast.formats.timer.fields import REMINDERS, TIMEOUT, TimerPause, TimerValues, read_values
from holdfast.formats.timer.render import FILE_AGENT_PREFIX

# Agents known only from a pause in a file. They end with the pause; others end themselves.
_AGENT: Final = "timer-task"
_KINDS: Final = {"MANUAL": "manual", "AUTO_IDLE": "idle", "AUTO_TASK": "task"}


def import_events(document: Document, context: ImportContext) -> list[TimedEvent]:
    """All events of the file, oldest first."""
    values = _read(document)
    begin = min(values.start, context.now)
    last = min(values.last, context.now)
    builder = _EventBuilder(begin, context.now)
    task, summary = _text(document, "task"), _text(document, "summary")
    builder.add_first(
        SessionStarted(
            goal=task or summary or values.session, project=context.project, device=context.device,
            scope=_text(document, "scope"), task=task, branch=values.branch, aliases={"timer": values.session},
            timer=context.timer,
        )
    )  # fmt: skip
    for pause in values.pauses:
        if pause.until is not None:
            builder.add_pause(pause, pause.until)
    builder.add_message(values)
    if summary is not None:
        builder.add(values.message, SessionEdited(summary=summary))
    builder.add_open_pause(values, values.open_pause, _AGENT + "-1")
    if values.status == "PAUSED" and values.open_pause is None:
        builder.add_stop(values)
    for _, line in _given_reminders(values):
        builder.add(last, ReminderReached(line=line))
    builder.add_work(values, begin)
    return builder.in_order()


def worked_between(before: Document, after: Document, state: State, context: ImportContext) -> list[TimedEvent]:
    """The working time that the writer of `after` counted since `before`: all time but its pauses."""
    earlier, later = _read(before), _read(after)
    builder = _EventBuilder(earlier.start if state.created_at is None else state.created_at, context.now)
    if _paused_by_program(later) and later.last >= max(state.updated_at, earlier.last + 1):
        builder.add_stop(later)  # whichever version the writer started from: this describes the last moment we know
    builder.add_work(later, earlier.last)
    return builder.in_order()


def change_events(before: Document, after: Document, state: State, context: ImportContext) -> list[TimedEvent]:
    """The events between two versions, oldest first. Raises `Refused` for impossible changes."""
    earlier, later = _read(before), _read(after)
    begin = earlier.start if state.created_at is None else state.created_at
    builder = _EventBuilder(begin, context.now)
    _add_edits(builder, before, after, later)
    known, pauses = _pauses_by_start(earlier), _pauses_by_start(later)
    for name, pause in pauses.items():
        old = known.get(name)
        if old is None and pause.until is not None:
            builder.add_pause(pause, pause.until)
        elif old is not None and old.until != pause.until:
            _add_pause_end(builder, old, pause, state)
    if later.message > earlier.message:
        builder.add_message(later)
    for name, pause in pauses.items():
        begun = name not in known
        # An idle pause that messages did not end goes on: it has to be opened again.
        goes_on = pause.type == "AUTO_IDLE" and later.message > earlier.message and later.status == "PAUSED"
        if pause.until is None and (begun or goes_on):
            builder.add_open_pause(later, pause, _free_agent_id(state))
    for flag, line in _given_reminders(later):
        if flag not in {name for name, _ in _given_reminders(earlier)}:
            builder.add(later.last, ReminderReached(line=line))
    _add_status_change(builder, earlier, later, view.status_of(state))
    return _check_allowed(builder, state, in_a_pause=earlier.open_pause is not None)


def _read(document: Document) -> TimerValues:
    values = read_values(document)
    if values is None:
        raise Invalid(
            "this is not a document of the timer format", hint="`holdfast validate` says what is wrong with it."
        )
    return values


def _text(document: Document, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _given_reminders(values: TimerValues) -> Iterator[tuple[str, str]]:
    for (name, line, _), flag in zip(REMINDERS, values.reminders or (False, False, False), strict=True):
        if flag:
            yield name, line


def _pauses_by_start(values: TimerValues) -> dict[tuple[str, int, int], TimerPause]:
    """Pauses by type, start and a number: of two that start together, one has no length."""
    pauses: dict[tuple[str, int, int], TimerPause] = {}
    for pause in values.pauses:
        number = 0
        while (pause.type, pause.since, number) in pauses:
            number += 1
        pauses[pause.type, pause.since, number] = pause
    return pauses


class _EventBuilder:
    """Collects events, none before the session's start or after now."""

    def __init__(self, begin: int, now: int) -> None:
        self._begin, self._now = begin, now
        self.events: list[TimedEvent] = []

    def add_first(self, data: EventData) -> None:
        self.events.append(TimedEvent(self._begin, data))

    def add(self, at: int, data: EventData) -> None:
        self.events.append(TimedEvent(self.within(at), data))

    def within(self, at: int) -> int:
        return min(max(at, self._begin), self._now)

    def in_order(self) -> list[TimedEvent]:
        """Oldest first, without duplicates."""
        once = [event for place, event in enumerate(self.events) if event not in self.events[:place]]
        return sorted(once, key=lambda item: item.at)

    def add_message(self, values: TimerValues) -> None:
        """The last message: the person's, unless an agent's pause goes on after it."""
        goes_on = values.open_pause is not None and values.open_pause.type == "AUTO_TASK"
        self.add(values.message, MessageExchanged(role="assistant" if goes_on else "user"))

    def add_pause(self, pause: TimerPause, until: int) -> None:
        """A finished pause. One of no length is ignored."""
        if until > pause.since:
            kind = "timeout" if _is_timeout(pause) else _KINDS[pause.type]
            reason = None if kind == "timeout" else pause.reason
            self.add(until, AwayRecorded(since=pause.since, until=until, reason=reason, kind=kind))

    def add_work(self, values: TimerValues, since: int) -> None:
        """Working time up to the last event: everything outside the file's pauses."""
        last = self.within(values.last)
        low = self.within(since)
        for pause in sorted(values.pauses, key=lambda pause: pause.since):
            if low < (high := min(pause.since, last)):
                self.add(last, WorkRecorded(since=low, until=high, counted=True))
            low = max(low, last if pause.until is None else pause.until)
        if low < last:
            self.add(last, WorkRecorded(since=low, until=last, counted=True))

    def add_stop(self, values: TimerValues) -> None:
        """PAUSED without an open pause: if the program detected a pause by itself, until the next message; else the
        person paused.
        """
        if _paused_by_program(values):
            self.add_idle(values)
        else:
            self.add(values.last, SessionPaused())

    def add_resume(self, earlier: TimerValues, values: TimerValues) -> None:
        """At the message that came with it; without one, when the file was changed."""
        self.add(values.last if values.last > earlier.last else self._now, SessionResumed())

    def add_idle(self, values: TimerValues) -> None:
        """The clock stops from the last event until the next."""
        since = self.within(values.last)
        self.add(since, AwayRecorded(since=since, until=since, kind="idle"))

    def add_open_pause(self, values: TimerValues, pause: TimerPause | None, agent: str) -> None:
        """An open pause."""
        if pause is None:
            return
        since = self.within(pause.since)
        if pause.type == "MANUAL":
            self.add(since, SessionPaused(reason=pause.reason))
        elif _is_timeout(pause):
            self.add(since, SessionTimedOut())
        elif pause.type == "AUTO_TASK":
            task = pause.reason.removeprefix(FILE_AGENT_PREFIX)
            self.add(since, AgentStarted(id=agent, type="task", task=task if task.strip() else None))
            self.add(since, AwayRecorded(since=since, until=since, reason=pause.reason, kind="task"))
        else:
            # No message ended it: record what has passed, and that it goes on.
            self.add_pause(pause._replace(since=since), self.within(values.last))
            self.add(values.last, AwayRecorded(since=since, until=since, reason=pause.reason, kind="idle"))


def _paused_by_program(values: TimerValues) -> bool:
    """Is it PAUSED because an automatic pause ended at the last event? The specification's program writes that when
    it detects a pause; a pause of no length does not count.
    """
    last = max(values.pauses, key=lambda pause: pause.since, default=None)
    return (
        values.status == "PAUSED"
        and last is not None
        and last.type != "MANUAL"
        and last.since < values.last
        and last.until == values.last
    )


def _is_timeout(pause: TimerPause) -> bool:
    return pause.type == "AUTO_TASK" and pause.reason == TIMEOUT


def _add_edits(builder: _EventBuilder, before: Document, after: Document, now: TimerValues) -> None:
    new: Mapping[str, str] = {
        name: value
        for name in ("scope", "task", "summary")
        if isinstance(value := after.get(name), str) and value != before.get(name)
    }
    if new:
        builder.add(
            now.last,
            SessionEdited(scope=new.get("scope"), task=new.get("task"), summary=new.get("summary")),
        )


def _add_pause_end(builder: _EventBuilder, old: TimerPause, new: TimerPause, state: State) -> None:
    """A known pause has another end now."""
    if new.until is None:
        raise Refused(f"the pause that ended cannot be open again: {new.reason}", hint="Begin a new pause instead.")
    if old.until is None:
        if new.type == "MANUAL" or _is_timeout(new):
            builder.add(new.until, SessionResumed())
        elif new.type == "AUTO_IDLE":
            builder.add_pause(new, new.until)
            builder.add(new.until, SessionResumed())
        elif (agent := _agent_of_pause(state, new.since)) is not None:
            builder.add(new.until, AgentCompleted(id=agent))
        else:  # one of our agents is at work and ends itself
            builder.add(new.until, MessageExchanged())
    elif new.until > old.until:
        builder.add_pause(new, new.until)
    else:
        raise Refused(f"the pause that ended cannot be made shorter: {new.reason}")


def _agent_of_pause(state: State, since: int) -> str | None:
    """The agent that was started for a pause in a file."""
    for agent in agents.running(state):
        if agent.id.startswith(_AGENT) and agent.runs and agent.runs[-1].since == since:
            return agent.id
    return None


def _free_agent_id(state: State) -> str:
    taken = {agent.id for agent in state.agents.values()}
    return next(name for number in range(1, len(taken) + 2) if (name := f"{_AGENT}-{number}") not in taken)


def _add_status_change(builder: _EventBuilder, before: TimerValues, after: TimerValues, status: str) -> None:
    """Add a change of status that no pause accounts for."""
    types = {type(event.data) for event in builder.events}
    if before.status == "PAUSED" and after.status == "IN_PROGRESS":
        if SessionResumed not in types and (status in ("paused", "error") or before.open_pause is None):
            builder.add_resume(before, after)
    elif after.status == "PAUSED" and after.open_pause is None:
        if before.status != "PAUSED" or before.open_pause is not None:
            builder.add_stop(after)
        elif after.message > before.message and status == "in_progress":
            builder.add_idle(after)  # the message would have ended a pause that nobody made


def _check_allowed(builder: _EventBuilder, state: State, *, in_a_pause: bool) -> list[TimedEvent]:
    """The events in order, with those the lifecycle needs in between. Raises for a session that has ended."""
    status = view.status_of(state)
    checked: list[TimedEvent] = []
    for at, data in builder.in_order():
        if status in FINISHED:
            raise refusal("the session", status, "session.edited", state.session)
        if isinstance(data, (SessionPaused, SessionTimedOut)):
            if status == "paused" and in_a_pause:
                continue  # already paused: the first pause goes on
            if status != "in_progress":
                checked.append(TimedEvent(at, SessionResumed()))
            status = "paused"
        elif isinstance(data, SessionResumed):
            status = "in_progress"
        checked.append(TimedEvent(at, data))
    return checked
