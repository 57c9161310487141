"""Apply events to the tasks of a session's plan."""

from __future__ import annotations

from holdfast.core.envelope import Event
from holdfast.core.events import (
    TaskAdded,
    TaskCompleted,
    TaskEdited,
    TaskEvent,
    TaskReopened,
    TaskStarted,
)
from holdfast.core.lifecycle import FINAL
from holdfast.core.registers import add_contradiction, current_write, write_status
from holdfast.core.state import State, TaskState, Write


def find(state: State, task_id: str, ref: str | None = None) -> TaskState | None:
    """A task by the event that created it; by id alone, the one created last."""
    if ref is not None and ref in state.tasks:
        return state.tasks[ref]
    refs = state.task_refs.get(task_id)
    return state.tasks[refs[-1]] if refs else None


def status_of(task: TaskState) -> str:
    current = current_write("task", task.status)
    return "pending" if current is None else str(current.value)


def next_id(state: State) -> str:
    """The first unused id of `t1`, `t2`, …"""
    used = {task.id for task in state.tasks.values()}
    number = len(used) + 1
    while f"t{number}" in used:
        number += 1
    return f"t{number}"


def apply_added(state: State, event: Event, data: TaskAdded) -> None:
    existing = find(state, data.id)
    made = Write(data.text, event.writer, event.seq, event.hash, event.at)
    if existing is not None:
        add_contradiction(state, f"tasks.{data.id}", existing.made, data.text, event)
    task = TaskState(
        ref=event.hash, id=data.id, text=data.text, made=made, phase=data.phase, agent=data.agent,
        created_at=event.at,
    )  # fmt: skip
    task.status = [Write("pending", event.writer, event.seq, event.hash, event.at)]
    state.tasks[event.hash] = task
    state.task_refs.setdefault(task.id, []).append(task.ref)


def set_completion_time(task: TaskState, at: int) -> None:
    """Set the completion time of a task whose completion a person chose in a conflict."""
    if status_of(task) == "completed" and task.completed_at is None:
        task.completed_at = at


def apply_change(state: State, event: Event, data: TaskEvent) -> None:
    task = find(state, data.id, data.ref)
    if task is None:
        state.not_applied += 1
        return
    if isinstance(data, TaskEdited):
        # A correction, not a status: the later one counts.
        task.text = data.text if data.text is not None else task.text
        task.phase = data.phase if data.phase is not None else task.phase
        task.agent = data.agent if data.agent is not None else task.agent
    elif not write_status(state, "task", task.status, f"tasks.{task.id}.status", event):
        return
    task.outcome = data.outcome if data.outcome is not None else task.outcome
    task.artifacts.update(dict.fromkeys(data.artifacts))
    task.started_at = data.started_at if data.started_at is not None else task.started_at
    match data:
        case TaskStarted():
            task.started_at = event.at if task.started_at is None else task.started_at
            task.completed_at = None
        case TaskCompleted():
            task.completed_at = event.at if data.completed_at is None else data.completed_at
        case TaskReopened():
            task.completed_at = None
            task.outcome = data.outcome  # the earlier outcome is no longer true


def open_count(state: State) -> int:
    """How many tasks are neither completed nor dropped."""
    return sum(status_of(task) not in FINAL["task"] for task in state.tasks.values())
