"""A plan's tasks as events: what brings one from a status to another, and which facts about it were corrected."""

from __future__ import annotations

from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINAL
from holdfast.core.state import TaskState
from holdfast.core.times import millis
from holdfast.core.vocabulary import TaskBlocked, TaskCompleted, TaskDropped, TaskEdited, TaskReopened, TaskStarted
from holdfast.formats.contract import documents as words
from holdfast.formats.contract.documents import is_dropped, lst, text
from holdfast.formats.interface import Heard


def target(task: dict[str, Json]) -> str:
    return "dropped" if is_dropped(task) else text(task.get("status")) or "pending"


_WAYS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
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


def moves(
    task: dict[str, Json], status: str, target: str, first: int, last: int, known: TaskState | None = None
) -> list[Heard]:
    """What brings a task from one status to another, each at the time the document says, never before the one before.

    `first` is when it was there at the earliest; `last` when it is known to have had the status it is told with.
    """
    if status == target:
        return []
    id_, ref = (id_of(task), None) if known is None else (known.id, known.ref)
    ways = _WAYS.get((status, target))
    if ways is None:
        raise Refused(
            f"the task {id_} is {status.replace('_', ' ')} and cannot become {target.replace('_', ' ')}",
            hint=f"Only reopening leads back: holdfast task reopen {id_}" if status in FINAL["task"] else None,
        )
    artifacts = artifacts_of(task)
    started, completed = ms(task.get("started_at")), ms(task.get("completed_at"))
    heard: list[Heard] = []
    now = first
    for way in ways:
        match way:
            case "maybe start" if started is None:
                continue
            case "start" | "maybe start":
                now = max(now, started) if started is not None else _unsaid(now, last, completed, target)
                files = artifacts if target == "in_progress" else ()
                heard.append(Heard(now, TaskStarted(id=id_, ref=ref, artifacts=files)))
            case "complete":
                now = max(now, last if completed is None else completed)
                heard.append(Heard(now, TaskCompleted(id=id_, ref=ref, artifacts=artifacts)))
            case "block":
                now = max(now, last)
                heard.append(Heard(now, TaskBlocked(id=id_, ref=ref, artifacts=artifacts)))
            case "drop":
                now = max(now, last)
                heard.append(Heard(now, TaskDropped(id=id_, ref=ref, artifacts=artifacts)))
            case _:
                now = max(now, last)
                heard.append(Heard(now, TaskReopened(id=id_, ref=ref)))
    return heard


def _unsaid(now: int, last: int, completed: int | None, target: str) -> int:
    """When a task was begun that does not say so: not after it was done."""
    return max(now, min(last, completed) if target == "completed" and completed is not None else last)


def corrected(
    phase: dict[str, Json],
    task: dict[str, Json],
    was: tuple[dict[str, Json], dict[str, Json]] | None,
    known: TaskState,
    at: int,
    *,
    told: bool,
) -> list[Heard]:
    """Other facts about a task: its words, its phase, who does it, and files that no change of status tells of."""
    before = {} if was is None else was[1]
    about, agent = text(task.get("description")), text(task.get("agent"))
    there = text(phase.get("phase_id"))
    stood = known.phase or words.LOOSE
    stale = {*known.artifacts, *artifacts_of(before)}
    files = () if told else tuple(path for path in artifacts_of(task) if path not in stale)
    edit = TaskEdited(
        id=known.id,
        ref=known.ref,
        text=about if (about or "").strip() and about not in (before.get("description"), known.text) else None,
        phase=there if was is not None and there not in (None, was[0].get("phase_id"), stood) else None,
        agent=agent if agent and agent not in (before.get("agent"), known.agent) else None,
        artifacts=files,
    )
    return [] if edit == TaskEdited(id=known.id, ref=known.ref) else [Heard(at, edit)]


def artifacts_of(task: dict[str, Json]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for path in lst(task.get("artifacts")) if isinstance(path, str) and path))


def id_of(task: dict[str, Json]) -> str:
    return text(task.get("task_id")) or ""


def ms(value: Json) -> int | None:
    return millis(value) if isinstance(value, str) else None
