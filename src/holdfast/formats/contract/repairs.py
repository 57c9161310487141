"""Repair contract documents as other programs actually write them: every assumption is noted, nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten, slug
from holdfast.core.times import parse_time
from holdfast.formats import document_paths, timestamps
from holdfast.formats.base import Document, ImportContext, Place, RepairedDocument, is_newer, version_parts
from holdfast.formats.contract import fields
from holdfast.formats.contract.fields import KEPT_SUFFIX, OWN_MODEL, as_list, as_object, as_text
from holdfast.formats.contract.repair_notes import RepairNotes, number_text, rename_keys, with_values
from holdfast.formats.contract.repairs_plan import repair_plan

_NAMES: Final = {
    "time": "timestamp", "at": "timestamp", "ts": "timestamp", "cmd": "command", "args": "arguments",
    "duration": "duration_ms", "result": "status", "agent_id": "agent",
}  # fmt: skip
_STATUSES: Final = {
    "ok": "success", "succeeded": "success", "successful": "success", "done": "success", "complete": "success",
    "completed": "success", "fail": "failure", "failed": "failure", "error": "failure", "aborted": "failure",
    "timeout": "failure",
}  # fmt: skip
# Who acted, if the line does not say.
_NOBODY: Final = "person"


def repair_lines(value: Json, state: Document, notes: RepairNotes) -> list[Json]:
    """The usable lines, as the contract requires them."""
    if not isinstance(value, list):
        notes.note(("history",), "is not a list of lines, and was left out")
        return []
    repaired: list[Json] = []
    for number, line in enumerate(value):
        try:
            repaired.append(_line(line, state, notes, ("history", number)))
        except Invalid as error:
            notes.note(("history", number), f"was left out: {error.message}")
    return repaired


def _line(value: Json, state: Document, notes: RepairNotes, place: Place) -> Json:
    if not isinstance(value, dict):
        raise Invalid("it is not an object")
    line = rename_keys(value, _NAMES, place, notes)
    command = as_text(line.get("command")) or ""
    if not command.strip():
        raise Invalid("it names no command")
    values: Document = {"timestamp": notes.time(line.get("timestamp"), (*place, "timestamp")), "command": command}
    values["arguments"] = _arguments(line, notes, place)
    model = line.get("model")
    if model not in fields.MODELS:
        usual = as_text(as_object(state.get("current_state")).get("model_in_use"))
        model = fields.model_name(model, notes.context.models) if isinstance(model, str) else usual
        notes.note((*place, "model"), f"is read as {model}")
    values["model"] = model
    agent = number_text(line.get("agent")) and (as_text(line.get("agent")) or number_text(line.get("agent")))
    if not agent:
        notes.note((*place, "agent"), f"is missing: {_NOBODY} is assumed")
    values["agent"] = agent or _NOBODY
    task = line.get("task_id")
    values["task_id"] = task if isinstance(task, str) and task else number_text(task) or None
    if "task_id" not in line or values["task_id"] != task:
        notes.note((*place, "task_id"), "is missing: null is assumed" if values["task_id"] is None else "is not text")
    return _outcome(with_values(line, values), notes, place)


def _arguments(line: Mapping[str, Json], notes: RepairNotes, place: Place) -> str:
    arguments = line.get("arguments")
    if isinstance(arguments, str):
        return arguments
    notes.note(
        (*place, "arguments"), "is missing: none is assumed" if arguments is None else "is not text: it is joined"
    )
    if isinstance(arguments, list):
        return " ".join(number_text(item) for item in arguments)
    if isinstance(arguments, dict):
        return " ".join(f"{key}={number_text(item)}" for key, item in arguments.items())
    return number_text(arguments)


def _outcome(line: Document, notes: RepairNotes, place: Place) -> Json:
    error = as_text(line.get("error")) or ""
    usual = "failure" if error.strip() else "success"
    status = notes.word(line.get("status"), ("success", "failure"), _STATUSES, (*place, "status"), usual)
    repaired = {
        **line,
        "status": status,
        "duration_ms": _duration(line.get("duration_ms"), notes, (*place, "duration_ms")),
    }
    if status == "failure" and not error.strip():
        notes.note((*place, "error"), "is missing: a failure needs one")
        repaired["error"] = "not said"
    if status == "success" and "error" in repaired:
        repaired.pop("error")
        if error.strip():
            notes.note((*place, "error"), f"is set on a success, and was left out: {shorten(error, 60)}")
            repaired["x-error"] = error
        else:
            notes.note((*place, "error"), "is empty, and was left out")
    return repaired


def _duration(value: Json, notes: RepairNotes, place: Place) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SAFE_INTEGER:
        return value
    try:
        repaired = min(max(round(float(number_text(value) or "0")), 0), MAX_SAFE_INTEGER)
    except (ValueError, OverflowError):
        repaired = 0
    notes.note(place, f"is read as {repaired}")
    return repaired


_PARTS: Final = ("state", "plan", "entry", "history")
_CURRENT: Final = ("active_task", "model_in_use", "started_at", "last_updated")
_OTHER_NAMES: Final = {
    "started": "started_at", "start_time": "started_at", "created_at": "started_at", "updated": "last_updated",
    "updated_at": "last_updated", "last_active": "last_updated", "model": "model_in_use",
    "current_task": "active_task", "task": "active_task", "task_id": "active_task",
}  # fmt: skip
_ENTRY_NAMES: Final = {
    "id": "feature_id", "started": "started_at", "created_at": "started_at", "updated_at": "last_active",
    "last_updated": "last_active", "last_activity": "last_active", "state": "status",
}  # fmt: skip
_ENTRY_STATUSES: Final = {
    "in_progress": "active", "created": "active", "started": "active", "running": "active", "open": "active",
    "error": "active", "on_hold": "paused", "complete": "completed", "done": "completed", "finished": "completed",
    "closed": "completed", "aborted": "completed", "archived": "completed",
}  # fmt: skip
_DAY_AT_END: Final = re.compile(r"[-_ ]*(\d{4})[-_]?(\d{2})[-_]?(\d{2})\Z", re.ASCII)


def repair_document(value: Json, context: ImportContext) -> RepairedDocument:
    """The document as the contract requires it. Raises `Invalid` when it cannot be repaired."""
    notes = RepairNotes(context)
    document = _combine_files(value)
    given_state = as_object(document.get("state"))
    state = _state(document, notes) if given_state or "state" in document else _derived_state(document, notes)
    repaired: Document = {}
    for name, part in document.items():
        repaired[name] = state if name == "state" else part
    repaired = repaired if "state" in repaired else {"state": state, **repaired}
    if document.get("plan") is not None:
        repaired["plan"] = repair_plan(document["plan"], state, notes)
    _set_unknown_task_aside(repaired, notes)
    if document.get("entry") is not None:
        repaired["entry"] = _entry(document["entry"], state, notes)
    if document.get("history") is not None:
        repaired["history"] = repair_lines(document["history"], state, notes)
    return RepairedDocument({name: part for name, part in repaired.items() if part is not None}, notes.notes)


def _combine_files(value: Json) -> Document:
    """The document of a single file, or of a feature's files."""
    if not isinstance(value, dict):
        raise Invalid("the document is not an object", hint="A feature's state.yaml is a mapping of keys.")
    if "current_state" in value or "feature_id" in value:
        return {"state": value}
    if "phases" in value or isinstance(value.get("feature"), dict):
        return {"plan": value}
    if isinstance(value.get("state"), dict) or isinstance(value.get("plan"), dict):
        return value
    if "active_features" in value:
        raise Invalid(
            "this is the registry of features, which does not describe each of them completely",
            hint="Give a feature's state.yaml, or the .ai-session directory.",
        )
    raise Invalid(
        "it has neither a state (feature_id, current_state) nor a plan (feature, phases)",
        hint="Give a feature's state.yaml or implementation-plan.yaml.",
    )


# ── state ────────────────────────────────────────────────────────────────────────────────────────────────


def _state(document: Document, notes: RepairNotes) -> Document:
    place: Place = ("state",)
    state = dict(as_object(document["state"]))
    _version(state, notes)
    misplaced = {key: state[key] for key in _misplaced_keys(state)}
    if misplaced and not isinstance(state.get("current_state"), dict):
        notes.note((*place, "current_state"), "is missing: its keys were next to it")
        state = {key: value for key, value in state.items() if key not in misplaced}
        state["current_state"] = misplaced
    given_current = state.get("current_state")
    current = rename_keys(
        given_current if isinstance(given_current, dict) else {}, _OTHER_NAMES, (*place, "current_state"), notes
    )
    if not isinstance(given_current, dict):
        notes.note((*place, "current_state"), "is missing and was derived")
    current = _current(current, document, state, notes)
    state["feature_id"] = _feature_id(state.get("feature_id"), document, current, notes)
    state["current_state"] = current
    for name, usual in (("implementation_plan", fields.PLAN_FILE), ("history_log", fields.HISTORY_FILE)):
        if name in state and not (as_text(state[name]) or "").strip():
            notes.note((*place, name), f"names no file: {usual} is assumed")
            state[name] = usual
    return state


def _misplaced_keys(state: Document) -> list[str]:
    """Keys of `current_state` that are next to it instead."""
    return [key for key in state if key in _CURRENT or key in _OTHER_NAMES]


def _version(state: Document, notes: RepairNotes) -> None:
    if "version" not in state:
        notes.note(("state", "version"), "is missing: 1.0 is assumed")
        return
    unknown = unknown_version(state)
    if unknown is not None:
        raise Invalid(
            f"this is version {shorten(unknown, 20)!a} of the contract ({document_paths.format_place(('version',))})",
            hint=f"Holdfast supports version {fields.VERSION}.",
        )
    if state["version"] != fields.VERSION:
        notes.note(("state", "version"), 'is read as "1.0"')
        state["version"] = fields.VERSION


def unknown_version(state: Document) -> str | None:
    """The version of a state, if Holdfast does not support it."""
    plain = _plain_version(state) if "version" in state else fields.VERSION
    if plain in ("", fields.VERSION) or (version_parts(plain) is not None and not is_newer(plain, fields.VERSION)):
        return None
    return plain


def _plain_version(state: Document) -> str:
    return number_text(state["version"]).removeprefix("v")


def _current(current: Document, document: Document, state: Document, notes: RepairNotes) -> Document:
    place: Place = ("state", "current_state")
    entry, feature = as_object(document.get("entry")), fields.feature(document)
    current = dict(current)
    day = fields.feature_parts(as_text(state.get("feature_id")) or "")
    began = [
        current.get("started_at"), entry.get("started_at"), feature.get("created_at"),
        current.get("last_updated"), entry.get("last_active"), None if day is None else f"{day[1]}T00:00:00Z",
    ]  # fmt: skip
    started = notes.first_time(began, (*place, "started_at"))
    if started is None:
        raise Invalid(
            f"the start of the session is missing ({document_paths.format_place((*place, 'started_at')[1:])})",
            hint="Give current_state.started_at, for example 2026-11-15T09:30:00Z.",
        )
    updated = notes.first_time(
        [current.get("last_updated"), entry.get("last_active"), started], (*place, "last_updated")
    )
    assert updated is not None
    if parse_time(updated) < parse_time(started):
        notes.note((*place, "last_updated"), "is earlier than started_at, which is assumed instead")
        updated = started
    task = current.get("active_task")
    if task is not None or "active_task" not in current:
        task = notes.task_name(task, (*place, "active_task"), missing="active_task" not in current)
    values: Document = {"active_task": task, **_model(current, notes), "started_at": started, "last_updated": updated}
    return with_values(current, values)


def _set_unknown_task_aside(document: Document, notes: RepairNotes) -> None:
    """Set aside an active task that neither the plan nor the session has, with a note."""
    known = notes.context.tasks
    if known is None and not isinstance(document.get("plan"), dict):
        return  # there is no plan to check against
    state, current = as_object(document["state"]), fields.current_state(document)
    active = as_text(current.get("active_task"))
    planned = {task.get("task_id") for _, task in fields.tasks_with_phases(document)}
    if active is None or active in planned or active in (known or ()):
        return
    kept_key = f"active_task{KEPT_SUFFIX}"
    notes.note(
        ("state", "current_state", "active_task"),
        f"the plan has no task {shorten(active, 60)!a}: it is ignored, and kept as {kept_key}",
    )
    document["state"] = {**state, "current_state": {**current, "active_task": None, kept_key: active}}


def _model(current: Document, notes: RepairNotes) -> Document:
    place: Place = ("state", "current_state", "model_in_use")
    model = current.get("model_in_use")
    if model in fields.MODELS:
        return {"model_in_use": model}
    if not isinstance(model, str) or not model.strip():
        notes.note(place, f"is missing: {fields.USUAL_MODEL} is assumed")
        return {"model_in_use": fields.USUAL_MODEL}
    mapped = fields.model_name(model, notes.context.models)
    notes.note(place, f"{shorten(model, 60)!a} is not one of the contract's models: it is read as {mapped}")
    return {"model_in_use": mapped, OWN_MODEL: model}


def _feature_id(value: Json, document: Document, current: Document, notes: RepairNotes) -> str:
    place: Place = ("state", "feature_id")
    name = as_text(value)
    if name is not None and fields.is_feature_id(name):
        return name
    candidates = (
        name,
        as_text(fields.feature(document).get("id")),
        as_text(as_object(document.get("entry")).get("feature_id")),
        as_text(fields.feature(document).get("name")),
    )
    source = next((candidate for candidate in candidates if candidate and candidate.strip()), None)
    if source is None:
        raise Invalid(
            f"nothing names the feature ({document_paths.format_place(place[1:])})",
            hint="Give feature_id, as slug-YYYY-MM-DD.",
        )
    repaired = feature_id_of(source, as_text(current.get("started_at")) or "")
    notes.note(place, f"is read as {repaired}" if name else f"is missing: {repaired} is assumed")
    return repaired


def feature_id_of(source: str, began: str) -> str:
    """A feature id from any text, with its own date if it ends with one, else the session's start."""
    if fields.is_feature_id(source):
        return source
    match = _DAY_AT_END.search(source)
    if match is not None:
        repaired = f"{slug(source[: match.start()], 60)}-{match[1]}-{match[2]}-{match[3]}"
        if fields.is_feature_id(repaired):
            return repaired
    return f"{slug(source, 60)}-{began[:10]}"


def _derived_state(document: Document, notes: RepairNotes) -> Document:
    """The state of a feature that has only a plan."""
    notes.note(("state",), "there is no state.yaml: it was derived from the plan")
    plan = as_object(document.get("plan"))
    times = [plan_time for plan_time in _times(plan, notes.context) if plan_time is not None]
    began = notes.first_time(
        [fields.feature(document).get("created_at"), *times[:1]], ("plan", "feature", "created_at")
    )
    if began is None:
        began = timestamps.in_shortest_form(notes.context.now // 1000 * 1000)
        notes.note(("state", "current_state", "started_at"), "is missing: now is assumed")
    in_progress = [
        task.get("task_id")
        for phase in map(as_object, as_list(plan.get("phases")))
        for task in map(as_object, as_list(phase.get("tasks")))
        if task.get("status") == "in_progress" and isinstance(task.get("task_id"), str)
    ]
    current: Document = {
        "active_task": in_progress[-1] if in_progress else None,
        "model_in_use": fields.USUAL_MODEL,
        "started_at": began,
        "last_updated": max([began, *times], key=parse_time),
    }
    unreported = RepairNotes(notes.context)
    name = _feature_id(None, document, current, unreported)
    if current["active_task"] is not None:
        current["active_task"] = unreported.task_name(current["active_task"], (), missing=False)
    return {"version": fields.VERSION, "feature_id": name, "current_state": current}


def _times(plan: Mapping[str, Json], context: ImportContext) -> list[str | None]:
    unreported = RepairNotes(context)
    return [
        unreported.time(task.get(name), ())
        for phase in map(as_object, as_list(plan.get("phases")))
        for task in map(as_object, as_list(phase.get("tasks")))
        for name in ("started_at", "completed_at")
        if task.get(name) is not None
    ]


# ── registry ─────────────────────────────────────────────────────────────────────────────────────────────


def _entry(value: Json, state: Document, notes: RepairNotes) -> Json:
    place: Place = ("entry",)
    if not isinstance(value, dict):
        notes.note(place, "is not an object, and was left out")
        return None
    entry = rename_keys(value, _ENTRY_NAMES, place, notes)
    current = as_object(state.get("current_state"))
    if entry.get("feature_id") != state["feature_id"]:
        notes.note((*place, "feature_id"), f"is read as {state['feature_id']}, as in state.yaml")
    started = notes.first_time([entry.get("started_at"), current.get("started_at")], (*place, "started_at"))
    active = notes.first_time([entry.get("last_active"), current.get("last_updated")], (*place, "last_active"))
    assert started is not None
    assert active is not None
    if parse_time(active) < parse_time(started):
        notes.note((*place, "last_active"), "is earlier than started_at, which is assumed instead")
        active = started
    return with_values(
        entry,
        {
            "feature_id": state["feature_id"], "started_at": started, "last_active": active,
            "status": notes.word(
                entry.get("status"), ("active", "paused", "completed"), _ENTRY_STATUSES, (*place, "status"), "active"
            ),
        },
    )  # fmt: skip
