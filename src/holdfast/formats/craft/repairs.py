"""Repair craft documents as other programs actually write them.

A valid document stays as it is. In any other, each deviation with a clear meaning is repaired and noted; what is
still wrong then is refused, with its place.
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
from holdfast.formats.base import Document, FormatNote, ImportContext, Problem, RepairedDocument, is_newer
from holdfast.formats.craft import fields, repairs_agents, rules
from holdfast.formats.craft.fields import VERSION
from holdfast.formats.craft.render import NO_GOAL, SCHEMA, project_path
from holdfast.formats.craft.repair_notes import ObjectRepair, words_of
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
# Versions that are not just numbers ("2.0-beta") but certainly newer.
_NEWER: Final = re.compile(r"\s*v?(?:[2-9]|[1-9]\d+)(?:\.|\s*\Z)", re.ASCII)


def repair_document(value: Json, context: ImportContext) -> RepairedDocument:
    if not isinstance(value, dict):
        raise Invalid("$ must be an object", hint="A craft session is one JSON object.")
    if isinstance(value.get("sessions"), list) and "session_id" not in value:
        raise Invalid("this is an index of sessions, not a session", hint="Import the files it lists.")
    if not _errors(value):
        return RepairedDocument(value, [])
    notes: list[FormatNote] = []
    part = ObjectRepair(value, (), context, notes)
    _version(part)
    _identify_session(part)
    _times(part)
    _project(part)
    repairs_agents.repair_agents(part)
    _lists(part)
    _words(part)
    _context(part)
    _teleportation(part)
    _metadata(part)
    _identity(part)
    for problem in _errors(part.data):
        raise Invalid(
            f"{document_paths.format_place(problem.place)} {problem.message}",
            hint="Everything else could be read. Fix this and try again.",
        )
    return RepairedDocument(part.data, notes)


def _errors(document: Document) -> list[Problem]:
    return [problem for problem in rules.problems(document, "craft", spelling=False) if problem.severity == "error"]


# ── version, identity, times ─────────────────────────────────────────────────────────────────────────────


def _version(part: ObjectRepair) -> None:
    """Refuse a newer version; take a missing or loosely written one as ours."""
    version = part.data.get("schema_version")
    if version is None:
        part.missing("schema_version", VERSION)
        return
    if is_newer(version, VERSION) or _NEWER.match(str(version)):
        raise Invalid(
            f"$.schema_version is {shorten(str(version), 40)}, which this version of Holdfast does not support",
            hint=f"It supports craft {VERSION}; a newer Holdfast may support more.",
        )
    if version != VERSION:
        part.data["schema_version"] = VERSION
        part.note("schema_version", f"{shorten(str(version), 40)!a} is taken as {VERSION}")


def _identify_session(part: ObjectRepair) -> None:
    """Require an id or a goal: without both, nothing identifies the session."""
    part.adopt("session_id", "sessionId", "id", "uuid")
    part.adopt("goal", "task", "title", "description", "objective")
    part.text("session_id", blank=False)
    part.text("goal", blank=False)
    if part.data.get("session_id") is None and part.data.get("goal") is None:
        raise Invalid("$.session_id and $.goal are missing: nothing identifies the session")
    part.missing("goal", NO_GOAL)


def _identity(part: ObjectRepair) -> None:
    session_id = part.data.get("session_id")
    created = part.data["created_at"]
    assert isinstance(created, str)
    began = min(parse_time(created), part.context.now)
    if not isinstance(session_id, str):
        part.missing("session_id", format_names.imported_id("craft", str(part.data["goal"]), began))
        return
    plain = session_id.strip().lower()
    if format_names.is_uuid(plain):
        if plain != session_id:
            part.data["session_id"] = plain
            part.note("session_id", "is written in lower case")
        return
    own = format_names.imported_id("craft", session_id, began)
    part.data["session_id"] = own
    metadata = dict(fields.obj(part.data, "metadata"))
    metadata["holdfast"] = {**fields.obj(metadata, "holdfast"), "alias": session_id}
    part.data["metadata"] = metadata
    part.note(
        "session_id",
        f"{shorten(session_id, 60)!a} is not a UUID of version 4: kept as an alias, the id becomes {own}",
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
        known = [parse_time(time) for time in _listed_times(part.data) if timestamps.is_utc(time)]
        part.missing("created_at", timestamps.in_millis(min(known, default=part.context.now)))
    created = str(part.data["created_at"])
    if part.data.get("updated_at") is None:
        part.missing("updated_at", created)
    if parse_time(str(part.data["updated_at"])) < parse_time(created):
        part.set_aside("updated_at", "is earlier than created_at, and taken as equal to it")
        part.data["updated_at"] = created


def _listed_times(document: Json) -> list[str]:
    """Times of the document and of the entries in its lists."""
    if not isinstance(document, dict):
        return []
    entries = [
        entry for key in ("agents", "decisions_made", "files_modified") for entry in fields.objects(document, key)
    ]
    values = [entry.get(key) for entry in (document, *entries) for key in ("started_at", "timestamp", "updated_at")]
    return [value for value in values if isinstance(value, str)]


# ── the fields ───────────────────────────────────────────────────────────────────────────────────────────


def _project(part: ObjectRepair) -> None:
    project = part.data.get("project")
    if isinstance(project, dict):
        part.set_aside("project", "is an object")
        path = project.get("path")
        if isinstance(path, str):
            part.data["project"] = path
    part.adopt("project", "project_path", "project_root", "cwd", "working_directory")
    part.text("project", blank=False)
    folder = part.data.get("project")
    if isinstance(folder, str) and not _ABSOLUTE.match(folder):
        part.set_aside("project", f"{shorten(folder, 40)!a} is not an absolute path; taken as the project here")
    part.missing("project", project_path(part.context.project.path, part.context.project.name))
    part.folder = str(part.data["project"])
    part.adopt("device", "device_name", "host", "hostname", "machine")
    part.text("device", blank=False)
    part.missing("device", part.context.device)


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
    done, pending = fields.entries(document, "completed_work"), fields.entries(document, "pending_tasks")
    agents = fields.objects(document, "agents")
    if done or pending:
        return round(len(done) / (len(done) + len(pending)), 4)
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
    for key, repair in (("decisions_made", _decision), ("files_modified", repairs_agents.repair_file)):
        entries = part.listed(key)
        if entries is None:
            part.missing(key, [])
            continue
        repaired = [repair(part, entry, index) for index, entry in enumerate(entries)]
        part.data[key] = [entry for entry in repaired if entry is not None]


def _decision(part: ObjectRepair, entry: Json, index: int) -> Json:
    if not isinstance(entry, dict):
        words = words_of(entry)
        if words is None:
            part.note("decisions_made", f"entry {index} is empty and is left out")
            return None
        part.notes.append(FormatNote(("decisions_made", index), "is plain text; taken as what was chosen"))
        return {
            "timestamp": part.data["updated_at"], "context": "", "options": [], "chosen": words, "reasoning": None,
        }  # fmt: skip
    decision = part.inner(entry, "decisions_made", index)
    decision.adopt("chosen", "decision", "choice", "selected", "answer")
    decision.adopt("reasoning", "rationale", "why", "reason")
    decision.adopt("timestamp", "at", "time", "date", "decided_at")
    decision.adopt("context", "about", "question", "topic")
    for key in ("chosen", "reasoning", "context"):
        decision.text(key)
    decision.time("timestamp")
    decision.missing("timestamp", part.data["updated_at"])
    decision.texts("options")
    for key, value in (("context", ""), ("options", []), ("chosen", "")):
        decision.missing(key, value)
    return decision.data


def _context(part: ObjectRepair) -> None:
    usage_given = part.data.get("context_usage")
    if not isinstance(usage_given, dict):
        if usage_given is not None:
            part.set_aside("context_usage", "is not an object")
        part.missing("context_usage", {})
    usage = part.inner(fields.obj(part.data, "context_usage"), "context_usage")
    usage.adopt("estimated_tokens", "tokens", "total_tokens")
    usage.adopt("compression_count", "compressions")
    for key in ("estimated_tokens", "compression_count"):
        usage.count(key)
        usage.missing(key, 0)
    usage.time("last_compression")
    if usage.data.get("by_agent") is not None and not isinstance(usage.data["by_agent"], dict):
        usage.set_aside("by_agent", "is not an object")
    usage.missing("by_agent", {})
    tokens = usage.inner(fields.obj(usage.data, "by_agent"), "by_agent")
    for name in list(tokens.data):
        tokens.count(name)
        if tokens.data.get(name) is None and name in tokens.data:
            del tokens.data[name]
            tokens.note(name, "is empty and is left out")
    aside = {name: tokens.data.pop(name) for name in list(tokens.data) if type(tokens.data[name]) is not int}
    if aside:
        usage.data["by_agent_as_found"] = aside
    usage.data["by_agent"] = tokens.data
    part.data["context_usage"] = usage.data


def _teleportation(part: ObjectRepair) -> None:
    value = part.data.get("teleportation")
    if not isinstance(value, dict):
        if value is not None:
            part.set_aside("teleportation", "is not an object")
        part.missing("teleportation", {})
    travel = part.inner(fields.obj(part.data, "teleportation"), "teleportation")
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
    value = part.data.get("metadata")
    if value is None:
        if "metadata" in part.data:
            del part.data["metadata"]
            part.note("metadata", "is null; left out")
        return
    if not isinstance(value, dict):
        part.set_aside("metadata", "is not an object")
        return
    metadata = part.inner(value, "metadata")
    for key in ("git_branch", "notes", "craft_version", "git_commit"):
        metadata.text(key)
    commit = metadata.data.get("git_commit")
    if isinstance(commit, str) and not _COMMIT.match(commit):
        if _COMMIT.match(commit.strip().lower()):
            metadata.data["git_commit"] = commit.strip().lower()
            metadata.note("git_commit", "is written in lower case")
        else:
            metadata.set_aside("git_commit", "is not a commit of 40 or 64 hexadecimal digits")
    tags = metadata.data.get("tags")
    if isinstance(tags, str):
        metadata.data["tags"] = [tag.strip() for tag in tags.split(",") if tag.strip()]
        metadata.note("tags", "is text; taken as a list")
    metadata.texts("tags")
    for key in ("tags", "craft_version"):
        if key in metadata.data and metadata.data[key] is None:
            del metadata.data[key]
            metadata.note(key, "is null; left out")
    part.data["metadata"] = metadata.data
