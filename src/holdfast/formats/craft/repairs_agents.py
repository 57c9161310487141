"""Repair the agents of a craft document and the files they changed."""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.text import shorten
from holdfast.core.times import SECOND
from holdfast.formats.base import Document, FormatNote
from holdfast.formats.craft import fields, rules
from holdfast.formats.craft.fields import PERSON
from holdfast.formats.craft.repair_notes import ObjectRepair, words_of

_STATUSES: Final = ("pending", "running", "completed", "error", "timeout")
_STATUS_WORDS: Final = {
    "in_progress": "running", "active": "running", "started": "running", "working": "running",
    "complete": "completed", "done": "completed", "finished": "completed", "success": "completed",
    "failed": "error", "failure": "error", "interrupted": "error", "aborted": "error", "cancelled": "error",
    "canceled": "error", "paused": "pending", "queued": "pending", "waiting": "pending", "blocked": "pending",
    "timed_out": "timeout",
}  # fmt: skip
_ABORTED_WORDS: Final = frozenset({"aborted", "cancelled", "canceled"})
_RESULTS: Final = ("success", "failure", "timeout", "aborted")
_RESULT_WORDS: Final = {"completed": "success", "ok": "success", "error": "failure", "failed": "failure"}
_USUAL_RESULT: Final = {"completed": "success", "error": "failure", "timeout": "timeout"}
_ACTION_WORDS: Final = {
    "create": "created", "added": "created", "add": "created", "new": "created", "modify": "modified",
    "changed": "modified", "updated": "modified", "edited": "modified", "edit": "modified", "update": "modified",
    "delete": "deleted", "removed": "deleted", "remove": "deleted",
}  # fmt: skip
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")


def repair_agents(part: ObjectRepair) -> None:
    """Repair the list of agents."""
    entries = part.listed("agents")
    if entries is None:
        part.missing("agents", [])
        return
    taken: set[str] = set()
    renamed: dict[str, str] = {}
    repaired = [_agent(part, entry, index, taken, renamed) for index, entry in enumerate(entries)]
    agents = [agent for agent in repaired if agent is not None]
    _rename_references(part, renamed)
    _repair_waits(agents, renamed)
    part.data["agents"] = [agent.data for agent in agents]


def _agent(
    part: ObjectRepair, entry: Json, index: int, taken: set[str], renamed: dict[str, str]
) -> ObjectRepair | None:
    if isinstance(entry, str):
        part.notes.append(FormatNote(("agents", index), "is plain text; taken as a pending agent of that name"))
        entry = {"id": entry, "type": "custom", "status": "pending"}
    if not isinstance(entry, dict):
        part.notes.append(FormatNote(("agents", index), "is not an agent; left out, and kept in agents_as_found"))
        part.data["agents_as_found"] = [*fields.entries(part.data, "agents_as_found"), entry]
        return None
    agent = part.inner(entry, "agents", index)
    agent.adopt("id", "agent_id", "agentId", "name")
    agent.adopt("started_at", "started", "startedAt", "start_time")
    agent.adopt("completed_at", "completed", "ended_at", "finished_at", "completedAt", "end_time")
    agent.adopt("output_summary", "result_summary", "summary", "output")
    agent.adopt("type", "agent_type", "role", "kind")
    _name(agent, index, taken, renamed)
    agent.text("type", blank=False)
    agent.missing("type", "custom")
    _status(agent)
    for key in ("started_at", "completed_at"):
        agent.time(key)
    agent.count("duration_seconds")
    agent.fraction("progress")
    agent.text("output_summary")
    _error(agent)
    _artifacts(agent)
    _reconcile(agent)
    return agent


def _name(agent: ObjectRepair, index: int, taken: set[str], renamed: dict[str, str]) -> None:
    agent.text("id", blank=False)
    agent.missing("id", f"agent-{index + 1}")
    name = str(agent.data["id"])
    repaired = fields.free_name(fields.nearest_name(name), taken)
    if repaired != name:
        agent.data["id"] = repaired
        renamed.setdefault(name, repaired)
        agent.note("id", f"{shorten(name, 40)!a} is in use or not a valid id; taken as {repaired}")


def _status(agent: ObjectRepair) -> None:
    status = agent.data.get("status")
    agent.word("status", _STATUSES, _STATUS_WORDS)
    agent.missing("status", "completed" if agent.data.get("completed_at") else "pending")
    plain = str(status).strip().lower()
    if plain in _ABORTED_WORDS:
        agent.data["result"] = "aborted"
    if plain == "interrupted" and not isinstance(agent.data.get("error"), dict):
        agent.data["error"] = {
            "category": "transient", "message": fields.INTERRUPTED, "retry_count": 0, "last_retry_at": None,
        }  # fmt: skip
    agent.word("result", _RESULTS, _RESULT_WORDS)


def _error(agent: ObjectRepair) -> None:
    error_value = agent.data.get("error")
    if error_value is None:
        return
    if isinstance(error_value, str):
        agent.note("error", "is plain text; taken as the message of a logical error")
        error_value = {"message": error_value, "category": "logical", "retry_count": 0, "last_retry_at": None}
    if not isinstance(error_value, dict):
        agent.set_aside("error", "is not an object")
        return
    error = agent.inner(error_value, "error")
    error.adopt("message", "error", "reason", "text")
    error.adopt("retry_count", "retries", "attempts")
    error.word("category", sorted(fields.CATEGORIES), {"temporary": "transient", "config": "configuration"})
    error.missing("category", "logical")
    error.text("message")
    error.missing("message", fields.UNKNOWN_FAILURE)
    error.count("retry_count")
    error.missing("retry_count", 0)
    error.time("last_retry_at")
    agent.data["error"] = error.data


def _artifacts(agent: ObjectRepair) -> None:
    artifacts = agent.data.get("artifacts")
    if isinstance(artifacts, list):
        agent.note("artifacts", "is a list; taken as files modified")
        artifacts = {"files_modified": artifacts}
    if artifacts is not None and not isinstance(artifacts, dict):
        agent.set_aside("artifacts", "is not an object")
        artifacts = None
    agent.missing("artifacts", {})
    touched = agent.inner(artifacts if isinstance(artifacts, dict) else {}, "artifacts")
    for key in rules.ARTIFACTS:
        touched.texts(key)
        touched.missing(key, [])
        paths = [(path, _path_inside(touched, path)) for path in fields.entries(touched.data, key)]
        outside = [path for path, inside in paths if inside is None]
        for path, inside in paths:
            if inside is None:
                touched.note(key, f"{shorten(str(path), 60)!a} is outside the project; kept in {key}_elsewhere")
            elif inside != path:
                touched.note(key, f"{shorten(str(path), 60)!a} is taken as {shorten(inside, 60)!a}")
        touched.data[key] = [inside for _, inside in paths if inside is not None]
        if outside:
            touched.data[f"{key}_elsewhere"] = outside
    agent.data["artifacts"] = touched.data


def _reconcile(agent: ObjectRepair) -> None:
    """Make status, result and times agree: status wins over result, times over the duration."""
    status = str(agent.data["status"])
    result = agent.data.get("result")
    if result not in rules.RESULTS[status]:
        agent.note("result", f"{shorten(str(result), 20)} contradicts status {status}, which is used")
        agent.data["result"] = _USUAL_RESULT.get(status)
    if status in ("pending", "running") and agent.data.get("completed_at") is not None:
        agent.set_aside("completed_at", f"contradicts status {status}, which is used")
        agent.data["completed_at"] = None
    started, completed = fields.time(agent.data, "started_at"), fields.time(agent.data, "completed_at")
    if started is None or completed is None:
        return
    if completed < started:
        agent.set_aside("completed_at", "is earlier than started_at, and taken as equal to it")
        agent.data["completed_at"] = agent.data["started_at"]
        completed = started
    seconds = agent.data.get("duration_seconds")
    if isinstance(seconds, int) and not rules.seconds_fit(seconds, started, completed):
        agent.data["duration_seconds"] = (completed - started) // SECOND
        agent.note("duration_seconds", f"{seconds} contradicts the times, which say {agent.data['duration_seconds']}")


def _repair_waits(agents: list[ObjectRepair], renamed: dict[str, str]) -> None:
    """Agents wait for existing agents, and not in a circle."""
    names = {str(agent.data["id"]) for agent in agents}
    waits: dict[str, str] = {}
    for agent in agents:
        agent.text("blocking_on")
        other = fields.text(agent.data, "blocking_on")
        if other is None:
            continue
        if other in renamed:
            other = agent.data["blocking_on"] = renamed[other]
        name = str(agent.data["id"])
        waits[name] = other
        why = None
        if other == name:
            why = "names the agent itself"
        elif other not in names:
            why = f"names {shorten(other, 40)!a}, which is not an agent of the session"
        elif rules.circles(waits):
            why = "closes a circle of agents that wait for each other"
        if why is not None:
            del waits[name]
            agent.set_aside("blocking_on", why)
            agent.data["blocking_on"] = None


def _rename_references(part: ObjectRepair, renamed: dict[str, str]) -> None:
    """Use the new ids of renamed agents in the token counts."""
    usage = fields.obj(part.data, "context_usage")
    tokens = fields.obj(usage, "by_agent")
    if renamed.keys() & tokens.keys():
        by_new_name = {renamed.get(name, name): count for name, count in tokens.items()}
        part.data["context_usage"] = {**usage, "by_agent": by_new_name}


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def repair_file(part: ObjectRepair, entry: Json, index: int) -> Document | None:
    """One entry of `files_modified`; None when it names no file, or one outside the project."""
    if not isinstance(entry, dict):
        words = words_of(entry)
        if words is None:
            part.note("files_modified", f"entry {index} names no file and is left out")
            return None
        part.notes.append(FormatNote(("files_modified", index), "is plain text; taken as a file that was modified"))
        entry = {"path": words, "action": "modified", "agent_id": PERSON, "timestamp": part.data["updated_at"]}
    file = part.inner(entry, "files_modified", index)
    file.adopt("path", "file", "filename", "name")
    file.adopt("action", "change", "change_type", "type", "status")
    file.adopt("agent_id", "agent", "by")
    file.adopt("timestamp", "at", "time", "modified_at", "changed_at")
    file.text("path")
    inside = _path_inside(file, file.data.get("path"))
    if inside is None:
        part.data["files_elsewhere"] = [*fields.entries(part.data, "files_elsewhere"), entry]
        file.note("path", "names no file inside the project; the entry is kept in files_elsewhere")
        return None
    if inside != file.data["path"]:
        file.note("path", f"{shorten(str(file.data['path']), 60)!a} is taken as {shorten(inside, 60)!a}")
        file.data["path"] = inside
    file.word("action", ("created", "modified", "deleted"), _ACTION_WORDS)
    file.missing("action", "modified")
    file.text("agent_id", blank=False)
    file.missing("agent_id", PERSON)
    name = str(file.data["agent_id"])
    if not fields.is_name(name):
        file.data["agent_id"] = fields.nearest_name(name)
        file.note("agent_id", f"{shorten(name, 40)!a} is taken as {file.data['agent_id']}")
    file.time("timestamp")
    file.missing("timestamp", part.data["updated_at"])
    for key in ("lines_added", "lines_removed"):
        file.count(key)
    for key in ("hash_before", "hash_after"):
        _hash(file, key)
    return file.data


def _path_inside(part: ObjectRepair, path: Json) -> str | None:
    """The path relative to the project; None when it is outside."""
    if not isinstance(path, str):
        return None
    if rules.is_inside(path):
        return path
    for root in (part.context.project.path, part.folder):
        if (
            root
            and path.startswith(root.rstrip("/\\") + "/")
            and rules.is_inside(path[len(root.rstrip("/\\")) + 1 :])
        ):
            return path[len(root.rstrip("/\\")) + 1 :]
    return None


def _hash(file: ObjectRepair, key: str) -> None:
    file.text(key)
    value = file.data.get(key)
    if not isinstance(value, str) or _SHA256.match(value):
        return
    plain = value.strip().lower().removeprefix("sha256:")
    if _SHA256.match(plain):
        file.data[key] = plain
        file.note(key, "is written as lower-case digits alone")
        return
    file.set_aside(key, f"has {len(value)} characters; a SHA-256 has 64 hexadecimal digits")
    file.data[key] = None
