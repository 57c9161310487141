"""Forking: a session of one's own that goes on where another one stands, while that one stays as it is.

What a person needs to go on separately comes along: the goal and its facts, the part of the plan that is still open,
what was decided and noted. What happened stays where it happened: agents, files, hours, finished tasks. Where devices
disagree, the fork takes what this device said.
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
    """Begin a session that continues this one with what is open of it, and make it current here; gives its id."""
    ws.existing_store()  # which knows the time where the machine's clock does not
    moment = ws.recorder.moment(at, None)
    seen = projects.observe(ws.place, "", ws.notices)
    forked = new_id()
    with ws.transaction() as transaction:
        state = transaction.state(session)
        if not state.count or state.deleted:
            raise NotFound("there is no such session", session=session)
        names = device_names(state, origin.guests(transaction, session))
        taken = _Taken(state, transaction.writer(), ws.device(), names)
        project = projects.find_project(ws.store(), seen)
        begins = taken.start(project, ws.settings.timer, gathers=gathers)
        begins = _storable(begins)
        transaction.record(forked, Draft(ws.recorder.prepare(begins), moment, ws.recorder.actor))
        transaction.remember_project(project)
        ws.recorder.within(transaction, forked, lambda _: map(_storable, taken.rest()), at=at)
        make_current(ws, transaction, forked)
    return forked


def carried(state: State, writer: str, device: str) -> Iterator[EventData]:
    """What a session that continues this one takes over: the part of the plan that is still open."""
    if tasks.open_count(state):
        yield from map(_storable, _Taken(state, writer, device, device_names(state)).plan())


_Kind = TypeVar("_Kind", bound=EventData)


def _storable(data: _Kind) -> _Kind:
    """What others wrote may hold what nobody can record here: it must not keep a person from going on."""

    def storable(value: object) -> object:
        if isinstance(value, str):
            return value.replace("\0", "")[:MAX_TEXT_LENGTH]
        if isinstance(value, tuple):
            return tuple(kept for item in value if (kept := storable(item)) != "")
        return value

    changes = {
        name: storable(value) for name in data.__struct_fields__ if (value := getattr(data, name)) != storable(value)
    }
    return msgspec.structs.replace(data, **changes) if changes else data


class _Taken:
    """What a fork takes over, seen from one device."""

    def __init__(self, state: State, writer: str, device: str, names: Mapping[str, str]) -> None:
        """`names`: what each writer's device is called."""
        self._state = state
        self._names = names
        self._writer = writer
        self._device = device

    def start(self, project: ProjectFacts, timer: TimerRules, *, gathers: bool) -> SessionStarted:
        mode = self._word("mode")
        return SessionStarted(
            goal=self._word("goal") or "", project=project, device=self._device, continues=self._state.session,
            mode=mode if mode in MODES else "default", model=self._word("model"), scope=self._word("scope"),
            task=self._word("task"), tags=tuple(self._state.tags), timer=timer, gathers=gathers,
        )  # fmt: skip

    def rest(self) -> Iterator[EventData]:
        state, progress = self._state, self._value("progress")
        summary = self._word("summary")
        if summary is not None or isinstance(progress, (int, float)):
            yield SessionEdited(
                summary=summary, progress=float(progress) if isinstance(progress, (int, float)) else None
            )
        yield from self.plan()
        for made in state.decisions:
            yield DecisionMade(chosen=made.chosen, context=made.context, options=made.options, why=made.why)
        for note in state.notes:
            yield NoteAdded(text=note.text)

    def plan(self) -> Iterator[EventData]:
        """Open tasks, under their ids; of twins made at once, this device's, or both under ids of their own."""
        for id_, name in self._state.phases.items():
            yield PhaseAdded(id=id_, name=name)
        alike = Counter(task.id for task in self._state.tasks.values())
        ours = {task.id for task in self._state.tasks.values() if alike[task.id] > 1 and self._own([task.made])}
        given = set(alike)
        met: set[str] = set()
        for task in self._state.tasks.values():
            if task.id in ours and not self._own([task.made]):
                continue
            status = self._status(task)
            if status not in ("pending", "in_progress", "blocked"):
                continue
            id_ = task.id if task.id not in met else _free(given)
            met.add(id_)
            given.add(id_)
            yield TaskAdded(id=id_, text=task.text, phase=task.phase, agent=task.agent)
            if status == "in_progress":
                yield TaskStarted(id=id_, outcome=task.outcome, artifacts=tuple(task.artifacts))
            elif status == "blocked":
                yield TaskBlocked(id=id_, outcome=task.outcome, artifacts=tuple(task.artifacts))

    def _status(self, task: TaskState) -> str:
        own = self._own(task.status) if is_disputed(task.status) else None
        return tasks.status_of(task) if own is None else str(own.value)

    def _word(self, name: str) -> str | None:
        value = self._value(name)
        return value if isinstance(value, str) else None

    def _value(self, name: str) -> Json:
        writes = self._state.registers.get(name, [])
        own = self._own(writes) if is_disputed(writes) else None
        if own is not None:
            return own.value
        return writes[-1].value if writes else None

    def _own(self, writes: Sequence[Write]) -> Write | None:
        """This device's word: of its present life, else of an earlier one."""
        now = [write for write in writes if write.writer == self._writer]
        before = [write for write in writes if self._names.get(write.writer) == self._device]
        return next(iter((now or before)[::-1]), None)


def _free(given: set[str]) -> str:
    number = len(given) + 1
    while f"t{number}" in given:
        number += 1
    return f"t{number}"
