"""Render a state as the contract's documents: state.yaml, the plan, and the entry in the registry.

Any state gives valid documents. Tasks without a phase share a phase of their own; a dropped task is shown as blocked
with a key of ours, because the contract has no such status. History lines are made from events, in `history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.state import State, TaskState
from holdfast.core.times import SECOND, format_time
from holdfast.formats.base import Document
from holdfast.formats.contract import fields
from holdfast.formats.timestamps import in_seconds
from holdfast.sessions import format_names

_REGISTRY_STATUS: Final = {"paused": "paused", "completed": "completed", "aborted": "completed"}


def render_documents(state: State, models: Mapping[str, str]) -> Document:
    """The documents as of the last event."""
    name = feature_id(state)
    began = in_seconds(format_names.began(state))
    last = in_seconds(max(state.updated_at, format_names.began(state)))
    shown = shown_tasks(state)
    return {
        "state": {
            "version": fields.VERSION,
            "feature_id": name,
            "implementation_plan": fields.PLAN_FILE,
            "history_log": fields.HISTORY_FILE,
            "current_state": {
                "active_task": active_task(state),
                "model_in_use": fields.model_name(view.text_value(state, "model"), models),
                "started_at": began,
                "last_updated": last,
                **_real_model(view.text_value(state, "model")),
            },
        },
        "plan": {
            "feature": {
                "id": name,
                "name": goal(state),
                "description": view.text_value(state, "summary") or goal(state),
                "created_at": began,
            },
            "phases": _phases(state, shown),
        },
        "entry": {
            "feature_id": name,
            "started_at": began,
            "last_active": last,
            "status": registry_status(state),
        },
    }


def _real_model(real: str | None) -> dict[str, Json]:
    """The model's own name, if the contract has none for it."""
    return {} if real is None or real in fields.MODELS else {fields.OWN_MODEL: real}


def feature_id(state: State) -> str:
    """`slug-YYYY-MM-DD`, whatever the session's id is elsewhere."""
    known = format_names.feature_id(state)
    if fields.is_feature_id(known):
        return known
    return f"session-{digest(state.session.encode())[:8]}-{format_time(format_names.began(state))[:10]}"


def goal(state: State) -> str:
    value = view.text_value(state, "goal") or ""
    return value if value.strip() else "Work"


def registry_status(state: State) -> str:
    return _REGISTRY_STATUS.get(view.shown_status(state), "active")


def active_task(state: State) -> str | None:
    """The task in progress that was started last."""
    best: tuple[int, str] | None = None
    # In the document's order and precision, so that an import of it gives the same task.
    for _, entries in _by_phase(state, shown_tasks(state)):
        for name, task in entries:
            since = (task.started_at or 0) // SECOND
            if tasks_of.status_of(task) == "in_progress" and (best is None or since >= best[0]):
                best = since, name
    return None if best is None else best[1]


def shown_tasks(state: State) -> dict[str, TaskState]:
    """Tasks by the id they are shown with: their own, unless two devices used the same one."""
    shown: dict[str, TaskState] = {}
    own = {task.id for task in state.tasks.values()}
    for task in state.tasks.values():
        shown[_free(task.id or "task", shown, own)] = task
    return shown


def _free(name: str, taken: Mapping[str, object], reserved: Iterable[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while (free := f"{name}-{number}") in taken or free in reserved:
        number += 1
    return free


def _phases(state: State, shown: Mapping[str, TaskState]) -> list[Json]:
    result: list[Json] = []
    for phase, entries in _by_phase(state, shown):
        name = state.phases.get(phase) or (fields.LOOSE_PHASE_NAME if phase == fields.LOOSE_PHASE else phase)
        result.append(
            {
                "phase_id": phase,
                "name": name if name.strip() else "Phase",
                "tasks": [_task(name, task) for name, task in entries],
            }
        )
    return result


def _by_phase(state: State, shown: Mapping[str, TaskState]) -> list[tuple[str, list[tuple[str, TaskState]]]]:
    by_phase: dict[str, list[tuple[str, TaskState]]] = {phase: [] for phase in state.phases if phase}
    for name, task in shown.items():
        by_phase.setdefault(task.phase or fields.LOOSE_PHASE, []).append((name, task))
    return list(by_phase.items())


def _task(name: str, task: TaskState) -> Json:
    status = tasks_of.status_of(task)
    started, completed = task.started_at, task.completed_at if status == "completed" else None
    if status == "completed" and completed is None:
        completed = task.created_at if started is None else started
    if started is not None and completed is not None:
        completed = max(started, completed)
    result: dict[str, Json] = {
        "task_id": name,
        "description": task.text if task.text.strip() else name,
        "agent": task.agent,
        "status": "blocked" if status == "dropped" else status,
        "started_at": None if started is None else in_seconds(started),
        "completed_at": None if completed is None else in_seconds(completed),
        "artifacts": [path for path in task.artifacts if path],
    }
    if status == "dropped":
        result[fields.OWN_STATUS] = "dropped"
    return result
