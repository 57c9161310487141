"""Fork a session: start one that continues another, which stays as it is.

The fork takes over the goal and its facts, the open part of the plan, decisions and notes. Agents, files, hours and
finished tasks stay with the original. Where devices disagree, this device's value is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.core import tasks
from holdfast.core.canonical import Json
from holdfast.core.display_names import device_names
from holdfast.core.errors import NotFound
from holdfast.core.events import (
    DecisionMade,
    EventData,
    NoteAdded,
    PhaseAdded,
    ProjectFacts,
    SessionEdited,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskStarted,
    TimerRules,
)
from holdfast.core.modes import MODES
from holdfast.core.registers import is_disputed
from holdfast.core.state import State, TaskState, Write
from holdfast.core.text import MAX_TEXT_LENGTH
from holdfast.sessions.start import new_id
from holdfast.sessions.work_trees import make_current
from holdfast.store import origin
from holdfast.store.interface import Draft
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


def fork(ws: Workspace, session: str, *, gathers: bool = True, at: int | None = None) -> str:
    """Start a session that continues this one with its open tasks, and make it current here; returns its id."""
    ws.existing_store()  # opening the store corrects a wrong clock
    moment = ws.recorder.moment(at, None)
    observed = projects.observe(ws.place, "", ws.notices)
    forked = new_id()
    with ws.transaction() as transaction:
        state = transaction.state(session)
        if not state.count or state.deleted:
            raise NotFound("there is no such session", session=session)
        names = device_names(state, origin.guests(transaction, session))
        events = _ForkEvents(state, transaction.writer(), ws.device(), names)
        project = projects.find_project(ws.store(), observed)
        begins = events.start(project, ws.settings.timer, gathers=gathers)
        begins = _storable(begins)
        transaction.record(forked, Draft(ws.recorder.prepare(begins), moment, ws.recorder.actor))
        transaction.remember_project(project)
        ws.recorder.within(transaction, forked, lambda _: map(_storable, events.other_events()), at=at)
        make_current(ws, transaction, forked)
    return forked


def open_plan_events(state: State, writer: str, device: str) -> Iterator[EventData]:
    """The open part of the plan, as events for a session that continues this one."""
    if tasks.open_count(state):
        yield from map(_storable, _ForkEvents(state, writer, device, device_names(state)).plan_events())


_Kind = TypeVar("_Kind", bound=EventData)


def _storable(data: _Kind) -> _Kind:
    """Make the texts of an event storable: other writers' texts may break limits that are checked here."""

    def storable(value: object) -> object:
        if isinstance(value, str):
            return value.replace("\0", "")[:MAX_TEXT_LENGTH]
        if isinstance(value, tuple):
            return tuple(text for item in value if (text := storable(item)) != "")
        return value

    changes = {
        name: storable(value) for name in data.__struct_fields__ if (value := getattr(data, name)) != storable(value)
    }
    return msgspec.structs.replace(data, **changes) if changes else data


class _ForkEvents:
    """The events that a fork takes over, as one device sees the session."""

    def __init__(self, state: State, writer: str, device: str, names: Mapping[str, str]) -> None:
        """`names`: the device name of each writer."""
        self._state = state
        self._names = names
        self._writer = writer
        self._device = device

    def start(self, project: ProjectFacts, timer: TimerRules, *, gathers: bool) -> SessionStarted:
        mode = self._text("mode")
        return SessionStarted(
            goal=self._text("goal") or "", project=project, device=self._device, continues=self._state.session,
            mode=mode if mode in MODES else "default", model=self._text("model"), scope=self._text("scope"),
            task=self._text("task"), tags=tuple(self._state.tags), timer=timer, gathers=gathers,
        )  # fmt: skip

    def other_events(self) -> Iterator[EventData]:
        state, progress = self._state, self._value("progress")
        summary = self._text("summary")
        if summary is not None or isinstance(progress, (int, float)):
            yield SessionEdited(
                summary=summary, progress=float(progress) if isinstance(progress, (int, float)) else None
            )
        yield from self.plan_events()
        for decision in state.decisions:
            yield DecisionMade(
                chosen=decision.chosen, context=decision.context, options=decision.options, why=decision.why
            )
        for note in state.notes:
            yield NoteAdded(text=note.text)

    def plan_events(self) -> Iterator[EventData]:
        """The open tasks, under their ids.

        Of two tasks that were added at once under one id: this device's, else both, one with a new id.
        """
        for id_, name in self._state.phases.items():
            yield PhaseAdded(id=id_, name=name)
        counts = Counter(task.id for task in self._state.tasks.values())
        own_ids = {task.id for task in self._state.tasks.values() if counts[task.id] > 1 and self._own([task.made])}
        used = set(counts)
        taken_over: set[str] = set()
        for task in self._state.tasks.values():
            if task.id in own_ids and not self._own([task.made]):
                continue
            status = self._status(task)
            if status not in ("pending", "in_progress", "blocked"):
                continue
            id_ = task.id if task.id not in taken_over else _unused_id(used)
            taken_over.add(id_)
            used.add(id_)
            yield TaskAdded(id=id_, text=task.text, phase=task.phase, agent=task.agent)
            if status == "in_progress":
                yield TaskStarted(id=id_, outcome=task.outcome, artifacts=tuple(task.artifacts))
            elif status == "blocked":
                yield TaskBlocked(id=id_, outcome=task.outcome, artifacts=tuple(task.artifacts))

    def _status(self, task: TaskState) -> str:
        own = self._own(task.status) if is_disputed(task.status) else None
        return tasks.status_of(task) if own is None else str(own.value)

    def _text(self, name: str) -> str | None:
        value = self._value(name)
        return value if isinstance(value, str) else None

    def _value(self, name: str) -> Json:
        writes = self._state.registers.get(name, [])
        own = self._own(writes) if is_disputed(writes) else None
        if own is not None:
            return own.value
        return writes[-1].value if writes else None

    def _own(self, writes: Sequence[Write]) -> Write | None:
        """The latest value this device wrote: as its present writer, else as an earlier one."""
        now = [write for write in writes if write.writer == self._writer]
        before = [write for write in writes if self._names.get(write.writer) == self._device]
        return next(iter((now or before)[::-1]), None)


def _unused_id(used: set[str]) -> str:
    number = len(used) + 1
    while f"t{number}" in used:
        number += 1
    return f"t{number}"
