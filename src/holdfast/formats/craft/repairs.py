"""Craft documents as they are met in the wild, put right where it is plain what they mean.

A valid document is left alone. Of any other, every deviation that can be understood is mended and noted; what is then
still wrong is refused, with its place.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core import modes
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import parse_time
from holdfast.formats import document_paths, timestamps
from holdfast.formats.base import Document, FormatNote, ImportContext, Problem, Tidied
from holdfast.formats.craft import fields, repairs_agents, rules
from holdfast.formats.craft.render import NO_GOAL, SCHEMA, project_path
from holdfast.formats.craft.repair_notes import ObjectRepair, words_of
from holdfast.formats.craft.structs import VERSION
from holdfast.formats.layout_versions import is_newer
from holdfast.sessions import format_names

_STATUSES: Final = ("in_progress", "paused", "completed", "error", "aborted")
_STATUS_WORDS: Final = {
    "created": "in_progress", "active": "in_progress", "running": "in_progress", "started": "in_progress",
    "complete": "completed", "done": "completed", "finished": "completed", "success": "completed",
    "failed": "error", "failure": "error", "cancelled": "aborted", "canceled": "aborted", "suspended": "paused",
}  # fmt: skip
_BACKENDS: Final = ("claude-desktop", "local", "s3")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
_COMMIT: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
# Of versions that are not numbers alone ("2.0-beta"), those that are newer for certain.
_NEWER: Final = re.compile(r"\s*v?(?:[2-9]|[1-9]\d+)(?:\.|\s*\Z)", re.ASCII)


def tidy(value: Json, ground: ImportContext) -> Tidied:
    if not isinstance(value, dict):
        raise Invalid("$ must be an object", hint="A craft session is one JSON object.")
    if isinstance(value.get("sessions"), list) and "session_id" not in value:
        raise Invalid("this is an index of sessions, not a session", hint="Import the files it lists.")
    if not _errors(value):
        return Tidied(value, [])
    notes: list[FormatNote] = []
    part = ObjectRepair(value, (), ground, notes)
    _version(part)
    _recognise(part)
    _times(part)
    _place_of_work(part)
    repairs_agents.tidy(part)
    _lists(part)
    _words(part)
    _context(part)
    _travel(part)
    _metadata(part)
    _identity(part)
    for problem in _errors(part.data):
        raise Invalid(
            f"{document_paths.written(problem.place)} {problem.message}",
            hint="Everything else could be made sense of; put this right, and try again.",
        )
    return Tidied(part.data, notes)


def _errors(document: Document) -> list[Problem]:
    return [problem for problem in rules.problems(document, "craft", spelling=False) if problem.severity == "error"]


# ── which document, which session ────────────────────────────────────────────────────────────────────────


def _version(part: ObjectRepair) -> None:
    """Newer than we know is refused by name; missing or loosely written is taken for ours."""
    found = part.data.get("schema_version")
    if found is None:
        part.missing("schema_version", VERSION)
        return
    if is_newer(found, VERSION) or _NEWER.match(str(found)):
        raise Invalid(
            f"$.schema_version is {shorten(str(found), 40)}, which this program does not know",
            hint=f"It knows craft {VERSION}; a newer Holdfast may know more.",
        )
    if found != VERSION:
        part.data["schema_version"] = VERSION
        part.say("schema_version", f"{shorten(str(found), 40)!a} is taken as {VERSION}")


def _recognise(part: ObjectRepair) -> None:
    """Without an id and without a goal, nothing says which session this is."""
    part.adopt("session_id", "sessionId", "id", "uuid")
    part.adopt("goal", "task", "title", "description", "objective")
    part.text("session_id", blank=False)
    part.text("goal", blank=False)
    if part.data.get("session_id") is None and part.data.get("goal") is None:
        raise Invalid("$.session_id and $.goal are missing: nothing says which session this is")
    part.missing("goal", NO_GOAL)


def _identity(part: ObjectRepair) -> None:
    found = part.data.get("session_id")
    created = part.data["created_at"]
    assert isinstance(created, str)
    began = min(parse_time(created), part.ground.now)
    if not isinstance(found, str):
        part.missing("session_id", format_names.imported_id("craft", str(part.data["goal"]), began))
        return
    plain = found.strip().lower()
    if format_names.is_uuid(plain):
        if plain != found:
            part.data["session_id"] = plain
            part.say("session_id", "is written in small letters")
        return
    own = format_names.imported_id("craft", found, began)
    part.data["session_id"] = own
    metadata = dict(fields.part(part.data, "metadata"))
    metadata["holdfast"] = {**fields.part(metadata, "holdfast"), "alias": found}
    part.data["metadata"] = metadata
    part.say(
        "session_id", f"{shorten(found, 60)!a} is not a UUID of version 4: kept as an alias, the id becomes {own}"
    )


def _times(part: ObjectRepair) -> None:
    part.adopt("created_at", "created", "started_at", "started", "createdAt", "startedAt", "start_time", "timestamp")
    part.adopt(
        "updated_at", "updated", "last_updated", "updatedAt", "paused_at", "completed_at", "ended_at", "saved_at",
        "lastUpdated", "end_time",
    )  # fmt: skip
    part.time("created_at")
    part.time("updated_at")
    if part.data.get("created_at") is None:
        known = [parse_time(found) for found in _moments(part.data) if timestamps.is_utc(found)]
        part.missing("created_at", timestamps.in_millis(min(known, default=part.ground.now)))
    created = str(part.data["created_at"])
    if part.data.get("updated_at") is None:
        part.missing("updated_at", created)
    if parse_time(str(part.data["updated_at"])) < parse_time(created):
        part.set_aside("updated_at", "is earlier than created_at, and taken as equal to it")
        part.data["updated_at"] = created


def _moments(value: Json) -> list[str]:
    """Times that stand somewhere in the lists of the document."""
    if not isinstance(value, dict):
        return []
    entries = [entry for key in ("agents", "decisions_made", "files_modified") for entry in fields.parts(value, key)]
    found = [entry.get(key) for entry in (value, *entries) for key in ("started_at", "timestamp", "updated_at")]
    return [match for match in found if isinstance(match, str)]


# ── the fields ───────────────────────────────────────────────────────────────────────────────────────────


def _place_of_work(part: ObjectRepair) -> None:
    project = part.data.get("project")
    if isinstance(project, dict):
        part.set_aside("project", "is an object")
        path = project.get("path")
        if isinstance(path, str):
            part.data["project"] = path
    part.adopt("project", "project_path", "project_root", "cwd", "working_directory")
    part.text("project", blank=False)
    found = part.data.get("project")
    if isinstance(found, str) and not _ABSOLUTE.match(found):
        part.set_aside("project", f"{shorten(found, 40)!a} is not an absolute path; the project here is meant")
    part.missing("project", project_path(part.ground.project.path, part.ground.project.name))
    part.folder = str(part.data["project"])
    part.adopt("device", "device_name", "host", "hostname", "machine")
    part.text("device", blank=False)
    part.missing("device", part.ground.device)


def _words(part: ObjectRepair) -> None:
    part.word("mode", modes.MODES, {"normal": "default", "standard": "default", "fast": "optimize"})
    part.missing("mode", "default")
    part.word("status", _STATUSES, _STATUS_WORDS)
    part.missing("status", "in_progress")
    part.fraction("progress")
    if part.data.get("progress") is None:
        part.missing("progress", _progress(part.data))
    if "$schema" in part.data and not isinstance(part.data["$schema"], str):
        part.set_aside("$schema", "is not text")
        part.data["$schema"] = SCHEMA


def _progress(document: Document) -> float:
    done, left = fields.entries(document, "completed_work"), fields.entries(document, "pending_tasks")
    agents = fields.parts(document, "agents")
    if done or left:
        return round(len(done) / (len(done) + len(left)), 4)
    if agents:
        return round(sum(fields.number(agent, "progress") or 0.0 for agent in agents) / len(agents), 4)
    return 0.0


def _lists(part: ObjectRepair) -> None:
    part.adopt("completed_work", "completed_tasks", "completed", "done")
    part.adopt("pending_tasks", "pending", "next_steps", "remaining", "todos")
    for key in ("completed_work", "pending_tasks"):
        part.texts(key)
        part.missing(key, [])
    part.adopt("decisions_made", "decisions")
    part.adopt("files_modified", "files", "files_changed", "modified_files")
    for key, mend in (("decisions_made", _decision), ("files_modified", repairs_agents.tidy_file)):
        entries = part.listed(key)
        if entries is None:
            part.missing(key, [])
            continue
        made = [mend(part, entry, index) for index, entry in enumerate(entries)]
        part.data[key] = [entry for entry in made if entry is not None]


def _decision(part: ObjectRepair, entry: Json, index: int) -> Json:
    if not isinstance(entry, dict):
        words = words_of(entry)
        if words is None:
            part.say("decisions_made", f"entry {index} says nothing and is left out")
            return None
        part.notes.append(FormatNote(("decisions_made", index), "is plain text; taken as what was chosen"))
        return {
            "timestamp": part.data["updated_at"], "context": "", "options": [], "chosen": words, "reasoning": None,
        }  # fmt: skip
    one = part.inner(entry, "decisions_made", index)
    one.adopt("chosen", "decision", "choice", "selected", "answer")
    one.adopt("reasoning", "rationale", "why", "reason")
    one.adopt("timestamp", "at", "time", "date", "decided_at")
    one.adopt("context", "about", "question", "topic")
    for key in ("chosen", "reasoning", "context"):
        one.text(key)
    one.time("timestamp")
    one.missing("timestamp", part.data["updated_at"])
    one.texts("options")
    for key, value in (("context", ""), ("options", []), ("chosen", "")):
        one.missing(key, value)
    return one.data


def _context(part: ObjectRepair) -> None:
    found = part.data.get("context_usage")
    if not isinstance(found, dict):
        if found is not None:
            part.set_aside("context_usage", "is not an object")
        part.missing("context_usage", {})
    usage = part.inner(fields.part(part.data, "context_usage"), "context_usage")
    usage.adopt("estimated_tokens", "tokens", "total_tokens")
    usage.adopt("compression_count", "compressions")
    for key in ("estimated_tokens", "compression_count"):
        usage.count(key)
        usage.missing(key, 0)
    usage.time("last_compression")
    if usage.data.get("by_agent") is not None and not isinstance(usage.data["by_agent"], dict):
        usage.set_aside("by_agent", "is not an object")
    usage.missing("by_agent", {})
    tokens = usage.inner(fields.part(usage.data, "by_agent"), "by_agent")
    for name in list(tokens.data):
        tokens.count(name)
        if tokens.data.get(name) is None and name in tokens.data:
            del tokens.data[name]
            tokens.say(name, "says nothing and is left out")
    aside = {name: tokens.data.pop(name) for name in list(tokens.data) if type(tokens.data[name]) is not int}
    if aside:
        usage.data["by_agent_as_found"] = aside
    usage.data["by_agent"] = tokens.data
    part.data["context_usage"] = usage.data


def _travel(part: ObjectRepair) -> None:
    found = part.data.get("teleportation")
    if not isinstance(found, dict):
        if found is not None:
            part.set_aside("teleportation", "is not an object")
        part.missing("teleportation", {})
    travel = part.inner(fields.part(part.data, "teleportation"), "teleportation")
    for key in ("enabled", "encrypted"):
        travel.flag(key)
        travel.missing(key, value=False)
    travel.time("last_sync")
    travel.word(
        "sync_status", ("success", "pending", "error"), {"synced": "success", "ok": "success", "failed": "error"}
    )
    travel.text("sync_error")
    travel.texts("devices")
    travel.missing("devices", [part.data["device"]])
    travel.word("storage_backend", _BACKENDS, {"folder": "local", "git": "local", "none": "local", "file": "local"})
    travel.missing("storage_backend", "local")
    travel.texts("shared_with")
    part.data["teleportation"] = travel.data


def _metadata(part: ObjectRepair) -> None:
    found = part.data.get("metadata")
    if found is None:
        if "metadata" in part.data:
            del part.data["metadata"]
            part.say("metadata", "is null; left out")
        return
    if not isinstance(found, dict):
        part.set_aside("metadata", "is not an object")
        return
    more = part.inner(found, "metadata")
    for key in ("git_branch", "notes", "craft_version", "git_commit"):
        more.text(key)
    commit = more.data.get("git_commit")
    if isinstance(commit, str) and not _COMMIT.match(commit):
        if _COMMIT.match(commit.strip().lower()):
            more.data["git_commit"] = commit.strip().lower()
            more.say("git_commit", "is written in small letters")
        else:
            more.set_aside("git_commit", "is not a commit of 40 or 64 hexadecimal digits")
    tags = more.data.get("tags")
    if isinstance(tags, str):
        more.data["tags"] = [tag.strip() for tag in tags.split(",") if tag.strip()]
        more.say("tags", "is text; taken as a list")
    more.texts("tags")
    for key in ("tags", "craft_version"):
        if key in more.data and more.data[key] is None:
            del more.data[key]
            more.say(key, "is null; left out")
    part.data["metadata"] = more.data
