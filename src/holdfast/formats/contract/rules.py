"""Rules of the contract that concern several fields of a file, or the files of one feature together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import parse_time
from holdfast.formats.base import Document, Place, Problem
from holdfast.formats.contract import fields
from holdfast.formats.contract.fields import as_list, as_object, as_text

_MAX_LISTED: Final = 1_000  # lines out of order that are listed


def problems_together(document: Document) -> list[Problem]:
    """Contradictions between the files of one feature."""
    return [*_names(document), *_active(document), *islice(_order(document), _MAX_LISTED)]


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────


def state(state: Document) -> Iterator[Problem]:
    if "version" not in state:
        yield Problem(("version",), "is missing: 1.0 is assumed", "warning")
    yield from _day(state.get("feature_id"), ("feature_id",))
    now = as_object(state.get("current_state"))
    yield from _spelling(now.get("active_task"), ("current_state", "active_task"))
    yield from _in_order(now, "started_at", "last_updated", ("current_state",))


def plan(plan: Document) -> Iterator[Problem]:
    yield from _day(as_object(plan.get("feature")).get("id"), ("feature", "id"))
    phases: set[str] = set()
    tasks: set[str] = set()
    for number, phase in enumerate(map(as_object, as_list(plan.get("phases")))):
        place: Place = ("phases", number)
        yield from _once(phase.get("phase_id"), phases, (*place, "phase_id"))
        for position, task in enumerate(map(as_object, as_list(phase.get("tasks")))):
            task_place = (*place, "tasks", position)
            yield from _once(task.get("task_id"), tasks, (*task_place, "task_id"))
            yield from _task(task, task_place)


def _task(task: Document, place: Place) -> Iterator[Problem]:
    yield from _spelling(task.get("task_id"), (*place, "task_id"))
    if task.get("status") == "completed" and task.get("completed_at", "") is None:
        yield Problem((*place, "completed_at"), "must be set for a completed task, is null")
    yield from _in_order(task, "started_at", "completed_at", place)


def registry(registry: Document) -> Iterator[Problem]:
    known: set[str] = set()
    for number, entry in enumerate(map(as_object, as_list(registry.get("active_features")))):
        place: Place = ("active_features", number)
        yield from _day(entry.get("feature_id"), (*place, "feature_id"))
        yield from _once(entry.get("feature_id"), known, (*place, "feature_id"))
        yield from _in_order(entry, "started_at", "last_active", place)


def line(line: Document) -> Iterator[Problem]:
    if line.get("status") == "failure" and "error" not in line:
        yield Problem(("error",), "is missing: a failure needs one")
    if line.get("status") == "success" and "error" in line:
        yield Problem(("error",), "must not be here: only a failure has an error")


# ── the files of a feature ───────────────────────────────────────────────────────────────────────────────


def _names(document: Document) -> Iterator[Problem]:
    feature_id = as_text(as_object(document.get("state")).get("feature_id"))
    others: tuple[tuple[Place, Json], ...] = (
        (("plan", "feature", "id"), fields.feature(document).get("id")),
        (("entry", "feature_id"), as_object(document.get("entry")).get("feature_id")),
    )
    for place, name in others:
        if isinstance(name, str) and feature_id is not None and name != feature_id:
            yield Problem(place, f"must be {shorten(feature_id, 60)}, as in state.yaml, is {shorten(name, 60)}")


def _active(document: Document) -> Iterator[Problem]:
    active = as_text(fields.current_state(document).get("active_task"))
    if active is None or not isinstance(document.get("plan"), dict):
        return
    if all(task.get("task_id") != active for _, task in fields.tasks_with_phases(document)):
        yield Problem(("state", "current_state", "active_task"), f"the plan has no task {shorten(active, 60)!a}")


def _order(document: Document) -> Iterator[Problem]:
    """Lines out of order, as a union merge of two branches leaves them: a warning, not an error."""
    latest: int | None = None
    for number, line in enumerate(map(as_object, fields.history_lines(document))):
        at = _ms(line.get("timestamp"))
        if at is not None and latest is not None and at < latest:
            yield Problem(("history", number, "timestamp"), "is earlier than the line before it", "warning")
        latest = at if latest is None or (at is not None and at > latest) else latest


# ── single fields ────────────────────────────────────────────────────────────────────────────────────────


def _day(name: Json, place: Place) -> Iterator[Problem]:
    if isinstance(name, str) and fields.looks_like_feature_id(name) and not fields.is_feature_id(name):
        yield Problem(place, f"must end with a date that exists, is {shorten(name, 60)}")


def _spelling(name: Json, place: Place) -> Iterator[Problem]:
    """The contract accepts any text as a task's id; Holdfast's commands do not."""
    if isinstance(name, str) and name and not fields.is_task_name(name):
        yield Problem(place, "is read as letters, digits, '.', '_' and '-' only, at most 100", "warning")


def _once(name: Json, known: set[str], place: Place) -> Iterator[Problem]:
    if isinstance(name, str):
        if name in known:
            yield Problem(place, f"is not unique: {shorten(name, 60)}")
        known.add(name)


def _in_order(value: Document, first: str, then: str, place: Place) -> Iterator[Problem]:
    earlier, later = _ms(value.get(first)), _ms(value.get(then))
    if earlier is not None and later is not None and later < earlier:
        yield Problem((*place, then), f"must not be earlier than {first}")


def _ms(value: Json) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except Invalid:
        return None
