"""Turn contract documents into events: all of them on import, or the differences between two versions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Refused
from holdfast.core.events import (
    TYPE_OF,
    CommandRan,
    EventData,
    PhaseAdded,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskEdited,
    TaskReopened,
    TaskStarted,
)
from holdfast.core.lifecycle import FINAL, SESSION, TASK, allows, refusal
from holdfast.core.state import State, TaskState
from holdfast.core.times import parse_time
from holdfast.formats.base import Document, ImportContext, Place, TimedEvent
from holdfast.formats.contract import fields, render
from holdfast.formats.contract.fields import OWN_MODEL, as_list, as_object, as_text, is_dropped
from holdfast.formats.entries import entries_by_name


def target_status(task: dict[str, Json]) -> str:
    return "dropped" if is_dropped(task) else as_text(task.get("status")) or "pending"


_TRANSITIONS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("pending", "in_progress"): ("start",),
    ("pending", "completed"): ("maybe start", "complete"),
    ("pending", "blocked"): ("maybe start", "block"),
    ("pending", "dropped"): ("maybe start", "drop"),
    ("in_progress", "completed"): ("complete",),
    ("in_progress", "blocked"): ("block",),
    ("in_progress", "dropped"): ("drop",),
    ("blocked", "in_progress"): ("start",),
    ("blocked", "pending"): ("reopen",),
    ("blocked", "completed"): ("start", "complete"),
    ("blocked", "dropped"): ("drop",),
}


def status_change_events(
    task: dict[str, Json], status: str, target: str, first: int, last: int, known: TaskState | None = None
) -> list[TimedEvent]:
    """The events that take a task from one status to another, in order, at the times the document gives.

    `first` is the earliest time the task can have existed; `last` is when it is known to have had the later status.
    """
    if status == target:
        return []
    id_, ref = (id_of(task), None) if known is None else (known.id, known.ref)
    steps = _TRANSITIONS.get((status, target))
    if steps is None:
        raise Refused(
            f"the task {id_} is {status.replace('_', ' ')} and cannot become {target.replace('_', ' ')}",
            hint=f"To reopen it: holdfast task reopen {id_}" if status in FINAL["task"] else None,
        )
    artifacts = artifacts_of(task)
    started, completed = time_ms(task.get("started_at")), time_ms(task.get("completed_at"))
    events: list[TimedEvent] = []
    now = first
    for step in steps:
        match step:
            case "maybe start" if started is None:
                continue
            case "start" | "maybe start":
                now = max(now, started) if started is not None else _assumed_start(now, last, completed, target)
                files = artifacts if target == "in_progress" else ()
                events.append(TimedEvent(now, TaskStarted(id=id_, ref=ref, artifacts=files)))
            case "complete":
                now = max(now, last if completed is None else completed)
                events.append(TimedEvent(now, TaskCompleted(id=id_, ref=ref, artifacts=artifacts)))
            case "block":
                now = max(now, last)
                events.append(TimedEvent(now, TaskBlocked(id=id_, ref=ref, artifacts=artifacts)))
            case "drop":
                now = max(now, last)
                events.append(TimedEvent(now, TaskDropped(id=id_, ref=ref, artifacts=artifacts)))
            case _:
                now = max(now, last)
                events.append(TimedEvent(now, TaskReopened(id=id_, ref=ref)))
    return events


def _assumed_start(now: int, last: int, completed: int | None, target: str) -> int:
    """A start for a task without one: not after its completion."""
    return max(now, min(last, completed) if target == "completed" and completed is not None else last)


def correction_events(
    phase: dict[str, Json],
    task: dict[str, Json],
    before_entry: tuple[dict[str, Json], dict[str, Json]] | None,
    known: TaskState,
    at: int,
    *,
    status_moved: bool,
) -> list[TimedEvent]:
    """Changes other than of status: text, phase, agent, and artifacts that no status event carries."""
    before = {} if before_entry is None else before_entry[1]
    description, agent = as_text(task.get("description")), as_text(task.get("agent"))
    phase_id = as_text(phase.get("phase_id"))
    current_phase = known.phase or fields.LOOSE_PHASE
    listed = {*known.artifacts, *artifacts_of(before)}
    files = () if status_moved else tuple(path for path in artifacts_of(task) if path not in listed)
    edit = TaskEdited(
        id=known.id,
        ref=known.ref,
        text=description
        if (description or "").strip() and description not in (before.get("description"), known.text)
        else None,
        phase=phase_id
        if before_entry is not None and phase_id not in (None, before_entry[0].get("phase_id"), current_phase)
        else None,
        agent=agent if agent and agent not in (before.get("agent"), known.agent) else None,
        artifacts=files,
    )
    return [] if edit == TaskEdited(id=known.id, ref=known.ref) else [TimedEvent(at, edit)]


def artifacts_of(task: dict[str, Json]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for path in as_list(task.get("artifacts")) if isinstance(path, str) and path))


def id_of(task: dict[str, Json]) -> str:
    return as_text(task.get("task_id")) or ""


def time_ms(value: Json) -> int | None:
    return parse_time(value) if isinstance(value, str) else None


_STATUS_EVENTS: Final[dict[str, type[EventData]]] = {
    "active": SessionResumed,
    "paused": SessionPaused,
    "completed": SessionCompleted,
}
_IDENTITIES: Final[Mapping[Place, tuple[str, ...]]] = {("history",): ()}


# ── import ───────────────────────────────────────────────────────────────────────────────────────────────


def import_events(document: Document, context: ImportContext) -> list[TimedEvent]:
    """Every event of a document that is imported."""
    current, feature, entry = (
        fields.current_state(document),
        fields.feature(document),
        as_object(document.get("entry")),
    )
    tasks = [task for _, task in fields.tasks_with_phases(document)]
    task_times = [
        time for task in tasks for time in (time_ms(task.get("started_at")), time_ms(task.get("completed_at")))
    ]
    commands_run = [
        event for line in fields.history_lines(document) if (event := _foreign_line_event(line)) is not None
    ]
    last_times = [time_ms(current.get("last_updated")), time_ms(entry.get("last_active"))]
    start_times = [
        time_ms(current.get("started_at")),
        time_ms(feature.get("created_at")),
        time_ms(entry.get("started_at")),
    ]
    known = [
        time for time in (*task_times, *last_times, *start_times, *(at for at, _ in commands_run)) if time is not None
    ]
    begin = min([*known, context.now])
    end = min(max([*known, begin]), context.now)
    # The plan existed before its first task started, whatever its own date says.
    plan = min(
        [time for time in (*task_times, time_ms(feature.get("created_at"))) if time is not None], default=begin
    )
    last = max((time for time in last_times if time is not None), default=end)

    events = [TimedEvent(begin, _start(document, context)), *_about(document, plan)]
    events += _phases_and_tasks(document, plan, last)
    events += _unplanned_task_events(document, begin)
    events += commands_run
    status = entry.get("status")
    if status == "paused":
        events.append(TimedEvent(time_ms(entry.get("last_active")) or last, SessionPaused()))
    ordered = sorted((TimedEvent(min(max(at, begin), end), data) for at, data in events), key=lambda event: event.at)
    if status == "completed":
        ordered.append(TimedEvent(end, SessionCompleted()))
    elif ordered[-1].at < end:
        ordered.append(TimedEvent(end, SessionSaved()))
    return ordered


def _start(document: Document, context: ImportContext) -> SessionStarted:
    name = as_text(as_object(document.get("state")).get("feature_id")) or ""
    slug = (fields.feature_parts(name) or (name, ""))[0]
    current = fields.current_state(document)
    return SessionStarted(
        goal=as_text(fields.feature(document).get("name")) or slug.replace("-", " "),
        project=context.project,
        device=context.device,
        timer=context.timer,
        model=as_text(current.get(OWN_MODEL)) or as_text(current.get("model_in_use")),
        feature=slug,
        aliases={"contract": name},
    )


def _about(document: Document, at: int) -> list[TimedEvent]:
    feature = fields.feature(document)
    description = as_text(feature.get("description")) or ""
    return (
        [TimedEvent(at, SessionEdited(summary=description))]
        if description.strip() and description != feature.get("name")
        else []
    )


def _phases_and_tasks(document: Document, plan: int, last: int) -> list[TimedEvent]:
    events = [TimedEvent(plan, PhaseAdded(id=id_, name=name)) for id_, name in _new_phases(document)]
    active = fields.current_state(document).get("active_task")
    for phase, task in fields.tasks_with_phases(document):
        events += _task_added_events(phase, task, plan)
        is_active = task.get("status") == "pending" and task.get("task_id") == active
        events += status_change_events(
            task, "pending", "in_progress" if is_active else target_status(task), plan, last
        )
    return events


def _new_phases(document: Document) -> Iterable[tuple[str, str]]:
    for phase in fields.phases(document):
        id_, name = as_text(phase.get("phase_id")) or "", as_text(phase.get("name")) or ""
        if not _is_loose_phase(phase) or not as_list(phase.get("tasks")):
            yield id_, name


def _is_loose_phase(phase: dict[str, Json]) -> bool:
    """Is this the phase that shows tasks without a phase?"""
    return phase.get("phase_id") == fields.LOOSE_PHASE and phase.get("name") == fields.LOOSE_PHASE_NAME


def _task_added_events(phase: dict[str, Json], task: dict[str, Json], at: int) -> list[TimedEvent]:
    added = TaskAdded(
        id=id_of(task),
        text=as_text(task.get("description")) or id_of(task),
        phase=None if _is_loose_phase(phase) else as_text(phase.get("phase_id")),
        agent=as_text(task.get("agent")),
    )
    files = artifacts_of(task) if target_status(task) == "pending" else ()  # later statuses carry them themselves
    return [TimedEvent(at, added), *([TimedEvent(at, TaskEdited(id=added.id, artifacts=files))] if files else ())]


def _unplanned_task_events(document: Document, at: int) -> list[TimedEvent]:
    """The active task, if the plan does not have it."""
    active = as_text(fields.current_state(document).get("active_task"))
    if active is None or any(task.get("task_id") == active for _, task in fields.tasks_with_phases(document)):
        return []
    return [TimedEvent(at, TaskAdded(id=active, text=active)), TimedEvent(at, TaskStarted(id=active))]


# ── changes between two versions ─────────────────────────────────────────────────────────────────────────


def change_events(before: Document, after: Document, state: State, context: ImportContext) -> list[TimedEvent]:
    """The events between two versions that the state does not have yet."""
    _same_feature(before, after)
    began = state.created_at if state.created_at is not None else state.updated_at
    at = _changed_at(before, after, context)
    events = [*_facts(before, after, state, at, context.models), *_plan_changes(before, after, state, at)]
    old = {name for name, _ in entries_by_name(fields.history_lines(before), ("history",), _IDENTITIES)}
    for name, line in entries_by_name(fields.history_lines(after), ("history",), _IDENTITIES):
        command = _foreign_line_event(line)
        if name not in old and command is not None:
            events.append(command)
    low, high = min(began, context.now), context.now
    ordered = sorted(
        (TimedEvent(min(max(time, low), high), data) for time, data in events), key=lambda event: event.at
    )
    final = max([at, *(event.at for event in ordered)])
    return [
        *ordered,
        *(TimedEvent(min(max(final, low), high), data) for data in _status_events(before, after, state)),
    ]


def _same_feature(before: Document, after: Document) -> None:
    old, new = (as_object(entry.get("state")).get("feature_id") for entry in (before, after))
    if old != new:
        raise Refused(
            "the feature id identifies the session and cannot be changed",
            hint=f"Put it back to {old}, or start a feature of its own: holdfast start GOAL --feature SLUG",
        )


def _changed_at(before: Document, after: Document, context: ImportContext) -> int:
    old, new = (time_ms(fields.current_state(entry).get("last_updated")) for entry in (before, after))
    return new if new is not None and (old is None or new > old) else context.now


def _new_model(old: dict[str, Json], new: dict[str, Json], models: Mapping[str, str]) -> str | None:
    """The model a document newly names: its own name if the contract has none for it."""
    model, own_name, old_name = (
        as_text(new.get("model_in_use")),
        as_text(new.get(OWN_MODEL)),
        as_text(old.get(OWN_MODEL)),
    )
    # If we changed the model too, the document has ours, and theirs is a conflict.
    if own_name not in (None, old_name) and (old_name is not None or fields.model_name(own_name, models) == model):
        return own_name
    return model if model != old.get("model_in_use") else None


def _facts(before: Document, after: Document, state: State, at: int, models: Mapping[str, str]) -> list[TimedEvent]:
    edits: list[EventData] = []
    model = _new_model(fields.current_state(before), fields.current_state(after), models)
    if model is not None and model != view.text_value(state, "model"):
        edits.append(SessionEdited(model=model))
    feature_before, feature_after = fields.feature(before), fields.feature(after)
    goal = as_text(feature_after.get("name"))
    if goal is not None and goal != feature_before.get("name") and goal != render.goal(state):
        edits.append(SessionEdited(goal=goal))
    description = as_text(feature_after.get("description")) or ""
    is_new = description != feature_before.get("description") and description != feature_after.get("name")
    if description.strip() and is_new and description != view.text_value(state, "summary"):
        edits.append(SessionEdited(summary=description))
    return [TimedEvent(at, edit) for edit in edits]


def _plan_changes(before: Document, after: Document, state: State, at: int) -> list[TimedEvent]:
    events: list[TimedEvent] = [
        TimedEvent(at, PhaseAdded(id=id_, name=name)) for id_, name in _new_phases(after) if id_ not in state.phases
    ]
    shown = render.shown_tasks(state)
    old = {id_of(task): (phase, task) for phase, task in fields.tasks_with_phases(before)}
    moved = _changed_phases(old, after)
    statuses: dict[str, str] = {}
    for phase, task in fields.tasks_with_phases(after):
        name = id_of(task)
        known = shown.get(name)
        if name in moved and phase.get("phase_id") != moved[name]:
            continue  # the entry in its old phase: a moved task is not in two phases
        if known is None and name not in statuses:
            begun = [
                time
                for time in (time_ms(task.get("started_at")), time_ms(task.get("completed_at")))
                if time is not None
            ]
            first = min([at, *begun])
            events += [
                *_task_added_events(phase, task, first),
                *status_change_events(task, "pending", target_status(task), first, at),
            ]
            statuses[name] = target_status(task)
        elif known is not None:
            status = statuses.setdefault(name, tasks_of.status_of(known))
            entry_before = old.get(name)
            steps: list[TimedEvent] = []
            if entry_before is None or target_status(entry_before[1]) != target_status(task):
                steps = status_change_events(task, status, target_status(task), known.created_at, at, known)
                statuses[name] = target_status(task)
            events += [*correction_events(phase, task, entry_before, known, at, status_moved=bool(steps)), *steps]
    # After all events of the plan.
    final = max([at, *(event.at for event in events)])
    return [*events, *_started_task_events(before, after, state, statuses, final)]


def _changed_phases(old: Mapping[str, tuple[dict[str, Json], dict[str, Json]]], after: Document) -> dict[str, Json]:
    """Tasks that moved to another phase, with that phase."""
    moved: dict[str, Json] = {}
    for phase, task in fields.tasks_with_phases(after):
        entry_before = old.get(id_of(task))
        if entry_before is not None and entry_before[0].get("phase_id") != phase.get("phase_id"):
            moved[id_of(task)] = phase.get("phase_id")
    return moved


def _started_task_events(
    before: Document, after: Document, state: State, statuses: dict[str, str], at: int
) -> list[TimedEvent]:
    active = as_text(fields.current_state(after).get("active_task"))
    if active is None or active == fields.current_state(before).get("active_task"):
        return []
    known = render.shown_tasks(state).get(active)
    if known is None and active not in statuses:
        return _unplanned_task_events(after, at)
    status = statuses.get(active) or ("pending" if known is None else tasks_of.status_of(known))
    if not allows(TASK, status, "task.started"):
        return []
    return [
        TimedEvent(
            at, TaskStarted(id=active if known is None else known.id, ref=None if known is None else known.ref)
        )
    ]


def _status_events(before: Document, after: Document, state: State) -> list[EventData]:
    """Events for the status in the registry."""
    new_status = as_object(after.get("entry")).get("status")
    old_status = as_object(before.get("entry")).get("status") or render.registry_status(state)
    if new_status is None or new_status in (old_status, render.registry_status(state)):
        return []
    status = view.status_of(state)
    steps: list[EventData] = [_STATUS_EVENTS[str(new_status)]()]
    if status == "created" and new_status != "active":
        steps, status = [SessionResumed(), *steps], "in_progress"
    event = TYPE_OF[type(steps[-1])].name
    if not allows(SESSION, status, event):
        raise refusal("the session", status, event, state.session)
    return steps


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────


def foreign_line_events(document: Document) -> Iterator[tuple[str, TimedEvent]]:
    """The event of each history line that another program wrote, with a name derived from its content.

    The model is not part of the name: one that the contract does not know may be spelled in several ways.
    """
    occurrences: Counter[str] = Counter()
    for line in fields.history_lines(document):
        command = _foreign_line_event(line)
        if command is None or not isinstance(line, dict):
            continue
        identifying = {key: value for key, value in line.items() if key != "model"}
        name = digest(json.dumps(identifying, sort_keys=True).encode(errors="surrogatepass"))[:32]
        occurrences[name] += 1
        yield (name if occurrences[name] == 1 else f"{name}:{occurrences[name]}"), command


def _foreign_line_event(line: Json) -> TimedEvent | None:
    """The event of a history line that another program wrote."""
    if not isinstance(line, dict) or not fields.is_foreign(line):
        return None
    at = time_ms(line.get("timestamp"))
    if at is None:
        return None
    spent = line.get("duration_ms")
    return TimedEvent(
        at,
        CommandRan(
            command=f"{line.get('command')} {as_text(line.get('arguments')) or ''}".strip(),
            code=0 if line.get("status") == "success" else 1,
            agent=as_text(line.get("agent")),
            duration_ms=spent if isinstance(spent, int) else None,
        ),
    )
