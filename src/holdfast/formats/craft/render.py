"""Render a session as a craft document as of its last event, and the index of all sessions.

Any state gives a valid document. Other programs write the index too: our entries are merged into theirs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from typing import Final

from holdfast.core import modes, view
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.model import Agent, AgentError, AgentFiles, Decision, Row, Session, SyncFacts
from holdfast.core.state import State
from holdfast.core.times import SECOND, parse_time
from holdfast.formats.base import KEPT_SUFFIX, Document
from holdfast.formats.craft import fields, rules
from holdfast.formats.craft.fields import PERSON, VERSION

SCHEMA: Final = "https://data-wise.github.io/craft/schemas/session-state-v1.json"
UNKNOWN_DEVICE: Final = "unknown"
NO_GOAL: Final = "No goal was recorded"
# Where the project is on other devices, as far as known.
PATHS: Final = ("metadata", "project_paths")
_SYNC: Final = {"none": None, "pending": "pending", "synced": "success", "error": "error"}
_ACTIONS: Final = frozenset({"created", "modified", "deleted"})


def render(state: State) -> Document:
    session = view.session(state, state.updated_at)
    return {
        "$schema": SCHEMA,
        "schema_version": VERSION,
        "session_id": fields.session_id(state),
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "device": _device(session.device),
        "project": project_path(session.project.path, session.project.name),
        "goal": session.goal if session.goal.strip() else NO_GOAL,
        "mode": session.mode if session.mode in modes.MODES else "default",
        "status": fields.SESSION_STATUS.get(session.status, session.status),
        "progress": session.progress,
        "agents": _agents(state, session),
        "completed_work": [task.text for task in session.tasks if task.status == "completed"],
        "pending_tasks": [task.text for task in session.tasks if task.status not in ("completed", "dropped")],
        "decisions_made": [
            {
                "timestamp": decision.at,
                "context": decision.context or "",
                "options": _options(decision),
                "chosen": decision.chosen,
                "reasoning": decision.why,
            }
            for decision in sorted(session.decisions, key=lambda decision: decision.at)
        ],
        "files_modified": _files(session),
        "context_usage": {
            "estimated_tokens": max(0, view.measured_tokens(state) or 0),
            "compression_count": session.context.compressions,
            "last_compression": session.context.last_compression,
            "by_agent": {name: max(0, tokens) for name, tokens in sorted(session.context.by_agent.items())},
        },
        "teleportation": _teleportation(session),
        "metadata": _metadata(state, session),
    }


def index(rows: list[Row], names: Mapping[str, str] | None = None) -> Document:
    """The index file next to the sessions, latest change first.

    `names`: file names without their ending, where they are not the session's id.
    """
    ordered = sorted(sorted(rows, key=lambda row: row.id), key=lambda row: row.updated_at, reverse=True)
    return {
        "schema_version": VERSION,
        "sessions": [
            {
                "session_id": row.id,
                "goal": row.goal,
                "status": fields.SESSION_STATUS.get(row.status, row.status),
                "progress": row.progress,
                "created_at": row.created_at,
                "updated_at": row.updated_at,
                "device": _device(row.device),
                "file": f"{(names or {}).get(row.id, row.id)}.json",
            }
            for row in ordered
        ],
    }


def index_entries(value: Json) -> list[Document]:
    """The entries of an index. Raises `Invalid` when it is not an index."""
    listed = value.get("sessions") if isinstance(value, dict) else None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if entries != listed:
        raise Invalid("it is not an index of sessions: expected an object whose `sessions` is a list of objects")
    return entries


def index_names(value: Document) -> set[str]:
    """The file names in an index, without their ending."""
    return {name for entry in index_entries(value) if (name := _file_name(entry))} if value else set()


def merge_index(value: Document, rows: list[Row], ended: Collection[str], files: Mapping[str, str]) -> Document:
    """An index (or {}) with these sessions updated and those that are no longer shown removed.

    `ended` are file names to remove, `files` the file names by session. Entries of other sessions stay, and so do
    keys that another program added to the index or to an entry.
    """
    ours = index(rows, files)
    new = {_file_name(entry): entry for entry in index_entries(ours)}
    remaining = [entry for entry in index_entries(value) if _file_name(entry) not in ended] if value else []
    merged = [entry | new.get(_file_name(entry), {}) for entry in remaining]
    listed = {_file_name(entry) for entry in remaining}
    merged += [entry for name, entry in new.items() if name not in listed]
    merged.sort(key=lambda entry: str(entry.get("session_id")))
    merged.sort(key=lambda entry: str(entry.get("updated_at", "")), reverse=True)
    return ours | value | {"sessions": [*merged]}


def is_index_empty(value: Document) -> bool:
    """Would deleting the index lose nothing?"""
    return not value["sessions"] and value.keys() == index([]).keys()


def _file_name(entry: Document) -> str:
    """The session's file name without its ending, which identifies an entry."""
    file, session = entry.get("file"), entry.get("session_id")
    if isinstance(file, str) and file.endswith(".json"):
        return posixpath.basename(file).removesuffix(".json")
    return session if isinstance(session, str) else ""


def project_path(path: str | None, name: str) -> str:
    """An absolute path, even of a project of which only the name is known."""
    if path is not None and fields.is_absolute(path):
        return path
    return "/" + (path or name).lstrip("/")


def _device(name: str | None) -> str:
    return name if name is not None and name.strip() else UNKNOWN_DEVICE


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────


def _agents(state: State, session: Session) -> list[Json]:
    names = list(fields.shown_agents(state))
    waits = _waits(names, session.agents)
    return [_agent(agent, name, waits.get(name)) for name, agent in zip(names, session.agents, strict=True)]


def _waits(names: list[str], agents: list[Agent]) -> dict[str, str]:
    """Which agent waits for which: only existing agents, never in a circle."""
    waits: dict[str, str] = {}
    for name, agent in zip(names, agents, strict=True):
        other = None if agent.blocking_on is None else fields.nearest_name(agent.blocking_on)
        if other is not None and other in names and other != name:
            waits[name] = other
            if rules.circles(waits):
                del waits[name]
    return waits


def _agent(agent: Agent, name: str, waits_for: str | None) -> Document:
    started, completed = agent.started_at, agent.completed_at
    if started is not None and completed is not None and parse_time(completed) < parse_time(started):
        completed = started  # two devices' clocks differ; no agent ends before it starts
    took = None
    if started is not None and completed is not None:
        took = (parse_time(completed) - parse_time(started)) // SECOND
    return {
        "id": name,
        "type": agent.type if agent.type.strip() else "custom",
        "status": fields.AGENT_STATUS.get(agent.status, agent.status),
        "started_at": started,
        "completed_at": completed,
        "duration_seconds": took,
        "progress": agent.progress,
        "result": fields.AGENT_RESULT.get(agent.status),
        "blocking_on": waits_for,
        "error": _error(agent),
        "output_summary": agent.summary,
        "artifacts": _artifacts(agent.files),
    }


def _error(agent: Agent) -> Json:
    error = agent.error
    if agent.status == "interrupted":
        retried = None if error is None else error.last_retry_at
        error = AgentError(
            category="transient", message=fields.INTERRUPTED, retry_count=agent.retries, last_retry_at=retried
        )
    if error is None:
        return None
    return {
        "category": error.category if error.category in fields.CATEGORIES else "logical",
        "message": error.message,
        "retry_count": error.retry_count,
        "last_retry_at": error.last_retry_at,
    }


def _artifacts(files: AgentFiles) -> Document:
    return {
        "files_created": [path for path in files.created if rules.is_inside(path)],
        "files_modified": [path for path in files.modified if rules.is_inside(path)],
        "files_deleted": [path for path in files.deleted if rules.is_inside(path)],
    }


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────


def _files(session: Session) -> list[Json]:
    return [
        {
            "path": file.path,
            "action": file.action if file.action in _ACTIONS else "modified",
            "agent_id": PERSON if file.agent is None else fields.nearest_name(file.agent),
            "timestamp": file.at,
            "lines_added": _count(file.lines_added),
            "lines_removed": _count(file.lines_removed),
            "hash_before": _hash(file.hash_before),
            "hash_after": _hash(file.hash_after),
        }
        for file in sorted(session.files, key=lambda file: file.at)
        if rules.is_inside(file.path)
    ]


def _options(decision: Decision) -> list[Json]:
    """The options, with the choice added if it was none of them."""
    options: list[Json] = [*decision.options]
    return options if rules.is_among(decision.chosen, options) else [*options, decision.chosen]


def _count(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _hash(value: str | None) -> str | None:
    return value if value is not None and fields.is_sha256(value) else None


def _teleportation(session: Session) -> Document:
    """The sync block of a session without a remote."""
    return {
        "enabled": False,
        "last_sync": None,
        "sync_status": None,
        "sync_error": None,
        "devices": list(session.devices),
        "storage_backend": "local",
        "encrypted": False,
        "shared_with": None,
    }


def with_sync(document: Document, travel: SyncFacts) -> Document:
    """The document of a session that has a remote."""
    sync, block = travel.sync, document.get("teleportation")
    return {
        **document,
        "teleportation": {
            **(block if isinstance(block, dict) else {}),
            "enabled": True,
            "last_sync": sync.last_sync,
            "sync_status": _SYNC[sync.status],
            "sync_error": sync.error,
            "storage_backend": travel.backend,
            "encrypted": True,  # sync is always encrypted
            "shared_with": list(sync.shared_with) or None,
        },
    }


def with_path(document: Document, path: str) -> Document:
    """The document with the project's path on this device; the earlier path moves to the metadata."""
    path_here, metadata = project_path(path, ""), document.get("metadata")
    path_in_document = document.get("project")
    if path_in_document == path_here:
        return document
    known = metadata if isinstance(metadata, dict) else {}
    return {**document, "project": path_here, "metadata": {**known, PATHS[1]: [path_in_document]}}


def _metadata(state: State, session: Session) -> Document:
    commit = session.project.git_commit
    result: Document = {
        "git_branch": session.project.git_branch,
        "git_commit": commit if commit is not None and fields.is_commit(commit) else None,
        "craft_version": VERSION,
        "tags": list(session.tags),
        "notes": "\n".join(note.text for note in session.notes) or None,
    }
    foreign = fields.foreign_id(state)
    if foreign is not None:
        result["holdfast"] = {"alias": foreign}
    return result


def as_original_program_has_it(document: Document) -> Document:
    """The document as the program that started the session wrote it: with its own id, UUID or not, and with values
    that craft cannot use put back, unless something else has replaced them.
    """
    metadata = document.get("metadata")
    inner = metadata.get("holdfast") if isinstance(metadata, dict) else None
    alias = inner.get("alias") if isinstance(inner, dict) else None
    result = _restore_unusable(document)
    assert isinstance(result, dict)
    if isinstance(metadata, dict) and isinstance(inner, dict) and isinstance(alias, str):
        rest = {key: value for key, value in inner.items() if key != "alias"}
        own_metadata = {key: value for key, value in metadata.items() if key != "holdfast"} | (
            {"holdfast": rest} if rest else {}
        )
        result["session_id"] = alias
        result["metadata"] = _restore_unusable(own_metadata)
    return result


def _restore_unusable(value: Json) -> Json:
    if isinstance(value, list):
        return [_restore_unusable(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    unusable = {
        key for key in value if key.endswith(KEPT_SUFFIX) and value.get(key.removesuffix(KEPT_SUFFIX), "") is None
    }
    return {
        key: value[f"{key}{KEPT_SUFFIX}"] if f"{key}{KEPT_SUFFIX}" in unusable else _restore_unusable(inner)
        for key, inner in value.items()
        if key not in unusable
    }
