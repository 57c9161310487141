"""Repair plans as people write them: tasks as plain sentences, missing ids, other words for a status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import slug
from holdfast.core.times import parse_time
from holdfast.formats import document_paths
from holdfast.formats.base import Document, Place
from holdfast.formats.contract import fields
from holdfast.formats.contract.fields import OWN_STATUS, as_object, as_text
from holdfast.formats.contract.repair_notes import RepairNotes, number_text, rename_keys, task_name_of, with_values

_TASK_NAMES: Final = {
    "id": "task_id", "name": "description", "title": "description", "text": "description", "task": "description",
    "assigned_to": "agent", "assignee": "agent", "assigned_agent": "agent", "state": "status",
    "started": "started_at", "completed": "completed_at", "finished_at": "completed_at", "ended_at": "completed_at",
    "files": "artifacts",
}  # fmt: skip
_PHASE_NAMES: Final = {"id": "phase_id", "title": "name"}
_FEATURE_NAMES: Final = {"feature_id": "id", "title": "name", "created": "created_at", "started_at": "created_at"}
_STATUSES: Final = {
    "todo": "pending", "to_do": "pending", "open": "pending", "planned": "pending", "not_started": "pending",
    "active": "in_progress", "started": "in_progress", "running": "in_progress", "doing": "in_progress",
    "complete": "completed", "done": "completed", "finished": "completed", "waiting": "blocked",
    "paused": "blocked", "on_hold": "blocked", "failed": "blocked",
}  # fmt: skip
_DROPPED: Final = frozenset({"dropped", "cancelled", "canceled", "skipped", "abandoned"})
_TASK_STATUSES: Final = ("pending", "in_progress", "completed", "blocked")


def repair_plan(value: Json, state: Document, notes: RepairNotes) -> Json:
    """The plan as the contract requires it. `state` is repaired already."""
    if not isinstance(value, dict):
        raise Invalid("the plan is not an object", hint="It has the keys feature and phases.")
    plan = dict(value)
    plan["feature"] = _feature(plan.get("feature"), state, notes)
    phases = plan.get("phases")
    if phases is None and isinstance(plan.get("tasks"), list):
        notes.note(("plan", "phases"), "is missing: the tasks are taken as one phase")
        phases = [{"phase_id": fields.LOOSE_PHASE, "name": fields.LOOSE_PHASE_NAME, "tasks": plan.pop("tasks")}]
    if isinstance(phases, dict):
        notes.note(("plan", "phases"), "is an object: its keys are taken as the ids of the phases")
        phases = [{"phase_id": key, **as_object(phase)} for key, phase in phases.items()]
    if phases is None:
        notes.note(("plan", "phases"), "is missing: none is assumed")
        phases = []
    if not isinstance(phases, list):
        raise Invalid(f"{document_paths.format_place(('phases',))} is not a list", hint="It is a list of phases.")
    plan["phases"] = _Phases(state, notes).repair(phases)
    return plan


def _feature(value: Json, state: Document, notes: RepairNotes) -> Json:
    place: Place = ("plan", "feature")
    name = as_text(state.get("feature_id")) or ""
    if isinstance(value, str):
        notes.note(place, "is text: it is taken as the feature's name")
        value = {"name": value}
    elif not isinstance(value, dict):
        notes.note(place, "is missing and was derived from state.yaml")
        value = {}
    feature = rename_keys(value, _FEATURE_NAMES, place, notes)
    if feature.get("id") != name:
        notes.note((*place, "id"), f"is read as {name}, as in state.yaml")
    title, about = as_text(feature.get("name")) or "", feature.get("description")
    if not title.strip():
        title = (fields.feature_parts(name) or (name, ""))[0].replace("-", " ")
        notes.note((*place, "name"), f"is missing: {title!a} is assumed")
    if not isinstance(about, str):
        notes.note((*place, "description"), "is missing: the name is assumed")
        about = title
    began = as_object(state.get("current_state")).get("started_at")
    created = notes.first_time([feature.get("created_at"), began], (*place, "created_at"))
    return with_values(feature, {"id": name, "name": title, "description": about, "created_at": created})


class _Phases:
    """The phases of one plan: ids are unique across all of it."""

    def __init__(self, state: Document, notes: RepairNotes) -> None:
        self._notes = notes
        current = as_object(state.get("current_state"))
        self._last = as_text(current.get("last_updated")) or ""
        self._phase_ids: set[str] = set()
        self._task_ids: set[str] = set()

    def repair(self, phases: list[Json]) -> list[Json]:
        return [self._phase(phase, number, ("plan", "phases", number)) for number, phase in enumerate(phases)]

    def _phase(self, value: Json, number: int, place: Place) -> Json:
        if isinstance(value, str):
            self._notes.note(place, "is text: it is taken as the phase's name")
            value = {"name": value}
        if not isinstance(value, dict):
            raise Invalid(
                f"{document_paths.format_place(place[1:])} is not an object",
                hint="A phase has phase_id, name and tasks.",
            )
        phase = rename_keys(value, _PHASE_NAMES, place, self._notes)
        name, id_ = number_text(phase.get("name")), phase.get("phase_id")
        known = id_ if isinstance(id_, str) and id_ else number_text(id_)
        if not known:
            known = slug(name) if name else f"phase-{number + 1}"
            self._notes.note((*place, "phase_id"), f"is missing: {known} is assumed")
        known = self._once(known, self._phase_ids, (*place, "phase_id"))
        if not name:
            self._notes.note((*place, "name"), "is missing: the id is assumed")
        tasks = phase.get("tasks")
        if tasks is None:
            self._notes.note((*place, "tasks"), "is missing: none is assumed")
            tasks = []
        if not isinstance(tasks, list):
            raise Invalid(
                f"{document_paths.format_place((*place[1:], 'tasks'))} is not a list", hint="It is a list of tasks."
            )
        given_name = phase.get("name")
        values: Document = {
            "phase_id": known,
            "name": given_name if isinstance(given_name, str) and name else name or known,
        }
        values["tasks"] = [self._task(task, (*place, "tasks", position)) for position, task in enumerate(tasks)]
        return with_values(phase, values)

    def _once(self, name: str, known: set[str], place: Place) -> str:
        repaired, number = name, 2
        while repaired in known:
            repaired = f"{name[:95]}-{number}"
            number += 1
        if repaired != name:
            self._notes.note(place, f"is not unique: {repaired} is assumed")
        known.add(repaired)
        return repaired

    def _task(self, value: Json, place: Place) -> Json:
        notes = self._notes
        if isinstance(value, str):
            notes.note(place, "is text: it is taken as the task's description")
            value = {"description": value}
        if not isinstance(value, dict):
            raise Invalid(
                f"{document_paths.format_place(place[1:])} is not an object",
                hint="A task has task_id and description.",
            )
        task = rename_keys(value, _TASK_NAMES, place, notes)
        description = number_text(task.get("description"))
        id_ = self._task_id(task.get("task_id"), place)
        if not description:
            notes.note((*place, "description"), "is missing: the id is assumed")
        given_description = task.get("description")
        values: Document = {
            "task_id": id_,
            "description": given_description
            if isinstance(given_description, str) and description
            else description or id_,
        }
        values["agent"] = self._agent(task, place)
        values.update(self._progress(task, place))
        values["artifacts"] = self._artifacts(task, place)
        return with_values(task, values)

    def _task_id(self, value: Json, place: Place) -> str:
        plain = value if isinstance(value, str) else number_text(value)
        repaired = task_name_of(plain)
        if not repaired:
            number = len(self._task_ids) + 1
            while f"t{number}" in self._task_ids:
                number += 1
            repaired = f"t{number}"
        if repaired != value:
            self._notes.note(
                (*place, "task_id"), f"is read as {repaired}" if plain else f"is missing: {repaired} is assumed"
            )
        return self._once(repaired, self._task_ids, (*place, "task_id"))

    def _agent(self, task: Mapping[str, Json], place: Place) -> str | None:
        agent = task.get("agent")
        if "agent" not in task:
            self._notes.note((*place, "agent"), "is missing: no agent is assumed")
        elif isinstance(agent, dict):
            self._notes.note((*place, "agent"), "is an object: its name is taken")
            agent = agent.get("id") or agent.get("name")
        elif agent is not None and not isinstance(agent, str):
            self._notes.note((*place, "agent"), "is not text")
            agent = number_text(agent) or None
        return as_text(agent)

    def _progress(self, task: Mapping[str, Json], place: Place) -> Document:
        notes = self._notes
        status = task.get("status")
        plain = status.strip().lower() if isinstance(status, str) else ""
        values: Document = {}
        if plain in _DROPPED:
            notes.note((*place, "status"), f"{plain} is written as blocked, with {OWN_STATUS}")
            values = {"status": "blocked", OWN_STATUS: "dropped"}
        else:
            values = {"status": notes.word(status, _TASK_STATUSES, _STATUSES, (*place, "status"), "pending")}
        for name in ("started_at", "completed_at"):
            if name not in task:
                notes.note((*place, name), "is missing: null is assumed")
            time = task.get(name)
            values[name] = None if time is None or time == "" else notes.time(time, (*place, name))
        started, completed = as_text(values["started_at"]), as_text(values["completed_at"])
        if values["status"] == "completed" and completed is None:
            completed = values["completed_at"] = max([self._last, started or self._last], key=parse_time)
            notes.note((*place, "completed_at"), f"is missing: {completed} is assumed")
        if started is not None and completed is not None and parse_time(completed) < parse_time(started):
            notes.note((*place, "completed_at"), "is earlier than started_at, which is assumed instead")
            values["completed_at"] = started
        return values

    def _artifacts(self, task: Mapping[str, Json], place: Place) -> Json:
        place_of_list: Place = (*place, "artifacts")
        value = task.get("artifacts")
        if value is None:
            self._notes.note(place_of_list, "is missing: none is assumed")
            return []
        if isinstance(value, str):
            self._notes.note(place_of_list, "is text: it is taken as one file")
            value = [value]
        if not isinstance(value, list):
            raise Invalid(
                f"{document_paths.format_place(place_of_list[1:])} is not a list", hint="It is a list of files."
            )
        repaired: list[Json] = []
        for number, item in enumerate(value):
            path = (
                item
                if isinstance(item, str)
                else as_text(as_object(item).get("path")) or as_text(as_object(item).get("file"))
            )
            if path:
                repaired.append(path)
            if path != item or not path:
                self._notes.note(
                    (*place_of_list, number), "is not the name of a file" if not path else "its path is taken"
                )
        return repaired
