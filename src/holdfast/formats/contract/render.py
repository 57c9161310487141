"""A state as the contract's documents: state.yaml, the plan, and the entry in the registry.

Total: whatever events add up to is shown as documents the contract allows. Tasks without a phase stand in a phase of
their own; a task that was dropped is shown as blocked, with a key of ours beside it, because the contract has no word
for it. History is no part of a state: its lines are made from events, in `history`.
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
from holdfast.formats.contract import fields as words
from holdfast.formats.timestamps import in_seconds
from holdfast.sessions import format_names

_REGISTRY_STATUS: Final = {"paused": "paused", "completed": "completed", "aborted": "completed"}


def rendered(state: State, models: Mapping[str, str]) -> Document:
    """The state's documents, as of its last event."""
    name = feature_id(state)
    began = in_seconds(format_names.began(state))
    last = in_seconds(max(state.updated_at, format_names.began(state)))
    shown = shown_tasks(state)
    return {
        "state": {
            "version": words.VERSION,
            "feature_id": name,
            "implementation_plan": words.PLAN_FILE,
            "history_log": words.HISTORY_FILE,
            "current_state": {
                "active_task": active_task(state),
                "model_in_use": words.model_name(view.text_value(state, "model"), models),
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
    """The model's real name, where the contract has another for it."""
    return {} if real is None or real in words.MODELS else {words.OWN_MODEL: real}


def feature_id(state: State) -> str:
    """`slug-YYYY-MM-DD`, whatever the session was called elsewhere."""
    known = format_names.feature_id(state)
    if words.is_feature_id(known):
        return known
    return f"session-{digest(state.session.encode())[:8]}-{format_time(format_names.began(state))[:10]}"


def goal(state: State) -> str:
    said = view.text_value(state, "goal") or ""
    return said if said.strip() else "Work"


def registry_status(state: State) -> str:
    return _REGISTRY_STATUS.get(view.shown_status(state), "active")


def active_task(state: State) -> str | None:
    """The task that was begun last of those in progress."""
    best: tuple[int, str] | None = None
    # In the order and the precision of the document, so that reading it again finds the same one.
    for _, entries in _by_phase(state, shown_tasks(state)):
        for name, task in entries:
            since = (task.started_at or 0) // SECOND
            if tasks_of.status_of(task) == "in_progress" and (best is None or since >= best[0]):
                best = since, name
    return None if best is None else best[1]


def shown_tasks(state: State) -> dict[str, TaskState]:
    """Every task under the id it is shown with: its own, unless two devices gave one id to two tasks."""
    shown: dict[str, TaskState] = {}
    own = {task.id for task in state.tasks.values()}
    for task in state.tasks.values():
        shown[_free(task.id or "task", shown, own)] = task
    return shown


def _free(name: str, taken: Mapping[str, object], reserved: Iterable[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while (made := f"{name}-{number}") in taken or made in reserved:
        number += 1
    return made


def _phases(state: State, shown: Mapping[str, TaskState]) -> list[Json]:
    made: list[Json] = []
    for phase, entries in _by_phase(state, shown):
        name = state.phases.get(phase) or (words.LOOSE_NAME if phase == words.LOOSE else phase)
        made.append(
            {
                "phase_id": phase,
                "name": name if name.strip() else "Phase",
                "tasks": [_task(name, task) for name, task in entries],
            }
        )
    return made


def _by_phase(state: State, shown: Mapping[str, TaskState]) -> list[tuple[str, list[tuple[str, TaskState]]]]:
    found: dict[str, list[tuple[str, TaskState]]] = {phase: [] for phase in state.phases if phase}
    for name, task in shown.items():
        found.setdefault(task.phase or words.LOOSE, []).append((name, task))
    return list(found.items())


def _task(name: str, task: TaskState) -> Json:
    status = tasks_of.status_of(task)
    started, completed = task.started_at, task.completed_at if status == "completed" else None
    if status == "completed" and completed is None:
        completed = task.created_at if started is None else started
    if started is not None and completed is not None:
        completed = max(started, completed)
    made: dict[str, Json] = {
        "task_id": name,
        "description": task.text if task.text.strip() else name,
        "agent": task.agent,
        "status": "blocked" if status == "dropped" else status,
        "started_at": None if started is None else in_seconds(started),
        "completed_at": None if completed is None else in_seconds(completed),
        "artifacts": [path for path in task.artifacts if path],
    }
    if status == "dropped":
        made[words.OWN_STATUS] = "dropped"
    return made
