"""To-do lists: what an agent plans, made tasks of the session.

A to-do goes by the id its program gave it, or by its text: the same text in the same conversation is the same task.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.capture.interface import Heard
from holdfast.capture.plain import plain
from holdfast.capture.signals import Planned, Todo
from holdfast.core import tasks
from holdfast.core.canonical import digest
from holdfast.core.state import State, TaskState
from holdfast.core.vocabulary import (
    Data,
    TaskAdded,
    TaskCompleted,
    TaskDropped,
    TaskEdited,
    TaskReopened,
    TaskStarted,
)
from holdfast.keeper.captures import telling_agents

_MOST = 500


def told(state: State, heard: Heard, signal: Planned, at: int) -> Iterator[Data]:
    # Each agent has a list of its own.
    source = f"{heard.agent}-{_short(heard.conversation + (signal.agent or ''), 4)}-"
    who = telling_agents.known(state, signal.agent)
    listed: dict[str, int] = {}
    for todo in signal.todos[:_MOST]:
        words = plain(todo.text, 500).strip()
        name = source + _short(words if todo.id is None else f"#{todo.id}", 8)
        if not words and tasks.find(state, name) is None:
            continue
        again = listed[name] = listed.get(name, 0) + 1
        if again > 1 and todo.id is None:  # the same words twice are two to-dos
            name = f"{name}-{again}"
            listed[name] = 1
        yield from _placed(state, name, words, todo, at, who)
    if signal.whole and (listed or not signal.todos):
        # Replanned: what stands no longer on the list and is not done will not be done.
        for task in list(state.tasks.values()):
            if task.id.startswith(source) and task.id not in listed and _status(task) in ("pending", "in_progress"):
                yield TaskDropped(id=task.id, ref=task.ref)


def _placed(state: State, name: str, words: str, todo: Todo, at: int, who: str | None) -> Iterator[Data]:
    if tasks.find(state, name) is None:
        yield TaskAdded(id=name, text=words, agent=who)
    task = tasks.find(state, name)
    if task is None or max(task.created_at, task.started_at or 0, task.completed_at or 0) > at:
        return  # something later was said of it already
    if words and words != task.text:
        yield TaskEdited(id=task.id, ref=task.ref, text=words)
    status = _status(task)
    if status == todo.status:
        return
    if status in ("completed", "dropped") and todo.status in ("pending", "in_progress"):
        yield TaskReopened(id=task.id, ref=task.ref)
    if status == "dropped" and todo.status == "completed":
        yield TaskReopened(id=task.id, ref=task.ref)
    match todo.status:
        case "in_progress":
            yield TaskStarted(id=task.id, ref=task.ref)
        case "completed":
            yield TaskCompleted(id=task.id, ref=task.ref)
        case "dropped" if status != "completed":
            yield TaskDropped(id=task.id, ref=task.ref)
        case "pending" if status == "in_progress":
            pass  # put back on the list: it was begun all the same


def _status(task: TaskState) -> str:
    return tasks.status_of(task)


def _short(words: str, length: int) -> str:
    return digest(words.encode(errors="surrogatepass"))[:length]
