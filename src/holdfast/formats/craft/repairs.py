"""Repairs of craft documents that concern several fields; those of single fields follow from the table.

A valid document stays as it is. In any other, each deviation with a clear meaning is repaired and noted; what is
still wrong then is refused, with its place.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import SECOND, parse_time
from holdfast.formats import timestamps
from holdfast.formats.base import Document, is_newer
from holdfast.formats.craft import fields, rules
from holdfast.formats.craft.fields import PERSON, VERSION
from holdfast.formats.craft.render import NO_GOAL, SCHEMA, project_path
from holdfast.formats.repair import Repair, text_of
from holdfast.sessions import format_names

# Versions that are not just numbers ("2.0-beta") but certainly newer.
_NEWER: Final = re.compile(r"\s*v?(?:[2-9]|[1-9]\d+)(?:\.|\s*\Z)", re.ASCII)
_ABORTED_WORDS: Final = frozenset({"aborted", "cancelled", "canceled"})
_USUAL_RESULT: Final = {"completed": "success", "error": "failure", "timeout": "timeout"}


# ── version, identity, times ─────────────────────────────────────────────────────────────────────────────


def version(part: Repair) -> None:
    """Refuse a newer version; take a missing or loosely written one as ours."""
    written = part.data.get("schema_version")
    if written is None:
        part.fill("schema_version", VERSION)
        return
    if is_newer(written, VERSION) or _NEWER.match(str(written)):
        raise Invalid(
            f"$.schema_version is {shorten(str(written), 40)}, which this version of Holdfast does not support",
            hint=f"It supports craft {VERSION}; a newer Holdfast may support more.",
        )
    if written != VERSION:
        part.replace("schema_version", VERSION, f"{shorten(str(written), 40)!a} is taken as {VERSION}")


def identify(part: Repair) -> None:
    """Require an id or a goal: without both, nothing identifies the session."""
    if part.data.get("session_id") is None and part.data.get("goal") is None:
        raise Invalid("$.session_id and $.goal are missing: nothing identifies the session")
    part.fill("goal", NO_GOAL)


def give_uuid(part: Repair) -> None:
    """Keep an id that is not a UUID as an alias, and derive a UUID from it."""
    session_id = part.data.get("session_id")
    began = min(parse_time(str(part.data["created_at"])), part.context.now)
    if not isinstance(session_id, str):
        part.fill("session_id", format_names.imported_id("craft", str(part.data["goal"]), began))
        return
    plain = session_id.strip().lower()
    if format_names.is_uuid(plain):
        if plain != session_id:
            part.replace("session_id", plain, "is written in lower case")
        return
    own = format_names.imported_id("craft", session_id, began)
    metadata = fields.obj(part.data, "metadata")
    part.data["metadata"] = {**metadata, "holdfast": {**fields.obj(metadata, "holdfast"), "alias": session_id}}
    shown = shorten(session_id, 60)
    part.replace("session_id", own, f"{shown!a} is not a UUID of version 4: kept as an alias, the id becomes {own}")


def order_times(part: Repair) -> None:
    """Take missing times from the rest of the document; no session ends before it begins."""
    if part.data.get("created_at") is None:
        known = [parse_time(time) for time in _listed_times(part.data) if timestamps.is_utc(time)]
        part.fill("created_at", timestamps.in_millis(min(known, default=part.context.now)))
    created = str(part.data["created_at"])
    part.fill("updated_at", created)
    if parse_time(str(part.data["updated_at"])) < parse_time(created):
        part.set_aside("updated_at", "is earlier than created_at, and taken as equal to it", instead=created)


def _listed_times(document: Document) -> list[str]:
    """Times of the document and of the entries in its lists."""
    entries = [
        entry for key in ("agents", "decisions_made", "files_modified") for entry in fields.objects(document, key)
    ]
    values = [entry.get(key) for entry in (document, *entries) for key in ("started_at", "timestamp", "updated_at")]
    return [value for value in values if isinstance(value, str)]


def last_change(part: Repair) -> Json:
    return part.root.data["updated_at"]


# ── the session ──────────────────────────────────────────────────────────────────────────────────────────


def path_of_project(part: Repair) -> None:
    project = part.data.get("project")
    if isinstance(project, dict):
        part.set_aside("project", "is an object")
        path = project.get("path")
        if isinstance(path, str):
            part.data["project"] = path


def absolute_path(part: Repair, key: str) -> None:
    path = part.data.get(key)
    if isinstance(path, str) and not fields.is_absolute(path):
        part.set_aside(key, f"{shorten(path, 40)!a} is not an absolute path; taken as the project here")


def project_here(part: Repair) -> str:
    return project_path(part.context.project.path, part.context.project.name)


def own_device(part: Repair) -> Json:
    return [part.root.data["device"]]


def progress_of_work(part: Repair) -> float:
    document = part.data
    done, pending = fields.entries(document, "completed_work"), fields.entries(document, "pending_tasks")
    agents = fields.objects(document, "agents")
    if done or pending:
        return round(len(done) / (len(done) + len(pending)), 4)
    if agents:
        return round(sum(fields.number(agent, "progress") or 0.0 for agent in agents) / len(agents), 4)
    return 0.0


def address_of_schema(part: Repair) -> None:
    if "$schema" in part.data and not isinstance(part.data["$schema"], str):
        part.set_aside("$schema", "is not text", instead=SCHEMA)


def decision_of_text(part: Repair, entry: Json, index: int) -> Document | None:
    words = text_of(entry)
    if words is None:
        part.note("decisions_made", f"entry {index} is empty and is left out")
        return None
    part.note(("decisions_made", index), "is plain text; taken as what was chosen")
    return {
        "timestamp": part.data["updated_at"], "context": "", "options": [], "chosen": words, "reasoning": None,
    }  # fmt: skip


def fill_decision(decision: Repair) -> None:
    for key, value in (("context", ""), ("options", []), ("chosen", "")):
        decision.fill(key, value)


def respell_commit(metadata: Repair, key: str) -> None:
    commit = metadata.data.get(key)
    if isinstance(commit, str) and not fields.is_commit(commit):
        if fields.is_commit(commit.strip().lower()):
            metadata.replace(key, commit.strip().lower(), "is written in lower case")
        else:
            metadata.set_aside(key, "is not a commit of 40 or 64 hexadecimal digits")


def split_tags(metadata: Repair) -> None:
    tags = metadata.data.get("tags")
    if isinstance(tags, str):
        listed: list[Json] = [tag.strip() for tag in tags.split(",") if tag.strip()]
        metadata.replace("tags", listed, "is text; taken as a list")


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────


def agent_of_text(part: Repair, entry: Json, index: int) -> Document | None:
    if isinstance(entry, str):
        part.note(("agents", index), "is plain text; taken as a pending agent of that name")
        return {"id": entry, "type": "custom", "status": "pending"}
    part.note(("agents", index), "is not an agent; left out, and kept in agents_as_found")
    part.data["agents_as_found"] = [*fields.entries(part.data, "agents_as_found"), entry]
    return None


def numbered(agent: Repair) -> str:
    return f"agent-{int(agent.place[-1]) + 1}"


def rename_agent(agent: Repair) -> None:
    name = str(agent.data["id"])
    repaired = fields.free_name(fields.nearest_name(name), {str(other.data["id"]) for other in agent.before})
    if repaired != name:
        agent.renamed.setdefault(name, repaired)
        agent.replace("id", repaired, f"{shorten(name, 40)!a} is in use or not a valid id; taken as {repaired}")


def status_by_times(agent: Repair) -> str:
    return "completed" if agent.data.get("completed_at") else "pending"


def believe_status(agent: Repair) -> None:
    """Read result and error from statuses that craft does not have."""
    plain = str(agent.data.get("status")).strip().lower()
    if plain in _ABORTED_WORDS:
        agent.data["result"] = "aborted"
    if plain == "interrupted" and not isinstance(agent.data.get("error"), dict):
        agent.data["error"] = {
            "category": "transient", "message": fields.INTERRUPTED, "retry_count": 0, "last_retry_at": None,
        }  # fmt: skip


def error_of_text(agent: Repair, key: str, value: Json) -> Json:
    if not isinstance(value, str):
        return value
    agent.note(key, "is plain text; taken as the message of a logical error")
    return {"message": value, "category": "logical", "retry_count": 0, "last_retry_at": None}


def artifacts_of_list(agent: Repair, key: str, value: Json) -> Json:
    if not isinstance(value, list):
        return value
    agent.note(key, "is a list; taken as files modified")
    return {"files_modified": value}


def reconcile_agent(agent: Repair) -> None:
    """Make status, result and times agree: status wins over result, times over the duration."""
    status = str(agent.data["status"])
    result = agent.data.get("result")
    if result not in rules.RESULTS[status]:
        usual = _USUAL_RESULT.get(status)
        agent.replace("result", usual, f"{shorten(str(result), 20)} contradicts status {status}, which is used")
    if status in ("pending", "running") and agent.data.get("completed_at") is not None:
        agent.set_aside("completed_at", f"contradicts status {status}, which is used", instead=None)
    started, completed = fields.time(agent.data, "started_at"), fields.time(agent.data, "completed_at")
    if started is None or completed is None:
        return
    if completed < started:
        why = "is earlier than started_at, and taken as equal to it"
        agent.set_aside("completed_at", why, instead=agent.data["started_at"])
        completed = started
    seconds = agent.data.get("duration_seconds")
    if isinstance(seconds, int) and not rules.seconds_fit(seconds, started, completed):
        measured = (completed - started) // SECOND
        agent.replace("duration_seconds", measured, f"{seconds} contradicts the times, which say {measured}")


def repair_waits(part: Repair, agents: list[Repair]) -> None:
    """Agents wait for existing agents, and not in a circle; token counts are of existing agents, too."""
    usage = fields.obj(part.data, "context_usage")
    tokens = fields.obj(usage, "by_agent")
    if part.renamed.keys() & tokens.keys():
        by_new_name = {part.renamed.get(name, name): count for name, count in tokens.items()}
        part.data["context_usage"] = {**usage, "by_agent": by_new_name}
    names = {str(agent.data["id"]) for agent in agents}
    waits: dict[str, str] = {}
    for agent in agents:
        agent.take("blocking_on")
        other = fields.text(agent.data, "blocking_on")
        if other is None:
            continue
        if other in part.renamed:
            other = agent.data["blocking_on"] = part.renamed[other]
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
            agent.set_aside("blocking_on", why, instead=None)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def paths_inside(artifacts: Repair, key: str) -> None:
    """Keep paths outside the project apart from the others."""
    paths = [(path, _path_inside(artifacts, path)) for path in fields.entries(artifacts.data, key)]
    for path, relative in paths:
        if relative is None:
            artifacts.note(key, f"{shorten(str(path), 60)!a} is outside the project; kept in {key}_elsewhere")
        elif relative != path:
            artifacts.note(key, f"{shorten(str(path), 60)!a} is taken as {shorten(relative, 60)!a}")
    if paths:
        artifacts.data[key] = [relative for _, relative in paths if relative is not None]
    outside = [path for path, relative in paths if relative is None]
    if outside:
        artifacts.data[f"{key}_elsewhere"] = outside


def file_of_text(part: Repair, entry: Json, index: int) -> Document | None:
    words = text_of(entry)
    if words is None:
        part.note("files_modified", f"entry {index} names no file and is left out")
        return None
    part.note(("files_modified", index), "is plain text; taken as a file that was modified")
    return {"path": words, "action": "modified", "agent_id": PERSON, "timestamp": part.data["updated_at"]}


def file_inside(file: Repair) -> bool:
    """Leave out a file that has no name, or is outside the project."""
    path = file.data.get("path")
    relative = _path_inside(file, path)
    if relative is None:
        entries = fields.entries(file.root.data, "files_elsewhere")
        file.root.data["files_elsewhere"] = [*entries, file.original]
        file.note("path", "names no file inside the project; the entry is kept in files_elsewhere")
        return False
    if relative != path:
        file.replace("path", relative, f"{shorten(str(path), 60)!a} is taken as {shorten(relative, 60)!a}")
    return True


def name_of_author(file: Repair, key: str) -> None:
    name = file.data.get(key)
    if isinstance(name, str) and not fields.is_name(name):
        near = fields.nearest_name(name)
        file.replace(key, near, f"{shorten(name, 40)!a} is taken as {near}")


def respell_hash(file: Repair, key: str) -> None:
    value = file.data.get(key)
    if not isinstance(value, str) or fields.is_sha256(value):
        return
    plain = value.strip().lower().removeprefix("sha256:")
    if fields.is_sha256(plain):
        file.replace(key, plain, "is written as lower-case digits alone")
    else:
        why = f"has {len(value)} characters; a SHA-256 has 64 hexadecimal digits"
        file.set_aside(key, why, instead=None)


def _path_inside(part: Repair, path: Json) -> str | None:
    """The path relative to the project; None when it is outside."""
    if not isinstance(path, str):
        return None
    if rules.is_inside(path):
        return path
    for root in (part.context.project.path, str(part.root.data["project"])):
        relative = path.removeprefix(root.rstrip("/\\") + "/") if root else path
        if relative != path and rules.is_inside(relative):
            return relative
    return None
