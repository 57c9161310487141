"""Lines of history as other programs write them. What says neither when nor what is left out, and said to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.canonical import LARGEST, Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats.contract import documents as words
from holdfast.formats.contract.documents import obj, text
from holdfast.formats.contract.tidying import Notes, at_end, number_text, renamed
from holdfast.formats.interface import Document, Place

_NAMES: Final = {
    "time": "timestamp", "at": "timestamp", "ts": "timestamp", "cmd": "command", "args": "arguments",
    "duration": "duration_ms", "result": "status", "agent_id": "agent",
}  # fmt: skip
_STATUSES: Final = {
    "ok": "success", "succeeded": "success", "successful": "success", "done": "success", "complete": "success",
    "completed": "success", "fail": "failure", "failed": "failure", "error": "failure", "aborted": "failure",
    "timeout": "failure",
}  # fmt: skip
# Who acted, when nobody says.
_NOBODY: Final = "person"


def lines_tidied(given: Json, state: Document, notes: Notes) -> list[Json]:
    """The lines that say something, as the contract wants them."""
    if not isinstance(given, list):
        notes.say(("history",), "is not a list of lines, and was left out")
        return []
    made: list[Json] = []
    for number, line in enumerate(given):
        try:
            made.append(_line(line, state, notes, ("history", number)))
        except Invalid as error:
            notes.say(("history", number), f"was left out: {error.message}")
    return made


def _line(given: Json, state: Document, notes: Notes, place: Place) -> Json:
    if not isinstance(given, dict):
        raise Invalid("it is not an object")
    line = renamed(given, _NAMES, place, notes)
    command = text(line.get("command")) or ""
    if not command.strip():
        raise Invalid("it names no command")
    values: Document = {"timestamp": notes.time(line.get("timestamp"), (*place, "timestamp")), "command": command}
    values["arguments"] = _arguments(line, notes, place)
    model = line.get("model")
    if model not in words.MODELS:
        usual = text(obj(state.get("current_state")).get("model_in_use"))
        model = words.model_name(model, notes.ground.models) if isinstance(model, str) else usual
        notes.say((*place, "model"), f"is read as {model}")
    values["model"] = model
    agent = number_text(line.get("agent")) and (text(line.get("agent")) or number_text(line.get("agent")))
    if not agent:
        notes.say((*place, "agent"), f"is missing: {_NOBODY} is assumed")
    values["agent"] = agent or _NOBODY
    task = line.get("task_id")
    values["task_id"] = task if isinstance(task, str) and task else number_text(task) or None
    if "task_id" not in line or values["task_id"] != task:
        notes.say((*place, "task_id"), "is missing: null is assumed" if values["task_id"] is None else "is not text")
    return _outcome(at_end(line, values), notes, place)


def _arguments(line: Mapping[str, Json], notes: Notes, place: Place) -> str:
    given = line.get("arguments")
    if isinstance(given, str):
        return given
    notes.say((*place, "arguments"), "is missing: none is assumed" if given is None else "is not text: it is joined")
    if isinstance(given, list):
        return " ".join(number_text(one) for one in given)
    if isinstance(given, dict):
        return " ".join(f"{key}={number_text(one)}" for key, one in given.items())
    return number_text(given)


def _outcome(line: Document, notes: Notes, place: Place) -> Json:
    error = text(line.get("error")) or ""
    usual = "failure" if error.strip() else "success"
    status = notes.word(line.get("status"), ("success", "failure"), _STATUSES, (*place, "status"), usual)
    made = {
        **line,
        "status": status,
        "duration_ms": _duration(line.get("duration_ms"), notes, (*place, "duration_ms")),
    }
    if status == "failure" and not error.strip():
        notes.say((*place, "error"), "is missing: nothing says what went wrong")
        made["error"] = "not said"
    if status == "success" and "error" in made:
        made.pop("error")
        if error.strip():
            notes.say((*place, "error"), f"stands beside a success, and was left out: {shorten(error, 60)}")
            made["x-error"] = error
        else:
            notes.say((*place, "error"), "is empty, and was left out")
    return made


def _duration(given: Json, notes: Notes, place: Place) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= LARGEST:
        return given
    try:
        made = min(max(round(float(number_text(given) or "0")), 0), LARGEST)
    except (ValueError, OverflowError):
        made = 0
    notes.say(place, f"is read as {made}")
    return made
