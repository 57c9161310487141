"""Repair orchestrator documents as other programs actually write them; every assumption is noted."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Invalid
from holdfast.core.modes import MODES, WINDOW, percent
from holdfast.core.text import shorten, slug
from holdfast.core.times import parse_time
from holdfast.formats.base import (
    KEPT_SUFFIX,
    Document,
    ImportContext,
    Place,
    RepairedDocument,
    is_newer,
    version_parts,
)
from holdfast.formats.entries import entries_by_name
from holdfast.formats.orchestrator.fields import (
    AGENT_ID,
    AGENT_MEANING,
    AGENT_SYNONYMS,
    ENDED,
    IDENTITIES,
    SESSION_MEANING,
    SESSION_SYNONYMS,
    TASK_TEXT_KEYS,
    is_session_id,
    time_ms,
)
from holdfast.formats.orchestrator.repair_values import ValueRepair, wrong
from holdfast.formats.orchestrator.rules import OTHER_NAMES, OTHER_NAMES_OF_AGENTS, problems
from holdfast.formats.schema import kind_of
from holdfast.formats.timestamps import in_shortest_form

_USAGE_NAMES = {"estimated_tokens": ("tokens", "tokens_used"), "percentage": ("percent",)}


def repair_usage(value: Json, repair: ValueRepair) -> Json:
    place: Place = ("context_usage",)
    if value is None:
        repair.note(place, "is missing: 0 tokens are assumed")
        return {"estimated_tokens": 0, "percentage": 0, "last_compression": None}
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        repair.note(place, "taken as a number of tokens")
        value = {"estimated_tokens": value}
    if not isinstance(value, dict):
        raise wrong(place, f"must be an object, is {kind_of(value)}")
    repaired = repair.renamed(value, _USAGE_NAMES, place)
    tokens = repair.whole(repaired.get("estimated_tokens"), (*place, "estimated_tokens"))
    if tokens is None:
        repair.note((*place, "estimated_tokens"), "is missing, taken as 0")
    repaired["estimated_tokens"] = tokens or 0
    repaired["percentage"] = _share(repaired.get("percentage"), tokens or 0, repair)
    if "last_compression" in repaired:
        repaired["last_compression"] = repair.time(repaired["last_compression"], (*place, "last_compression"))
    return repaired


def _share(value: Json, tokens: int, repair: ValueRepair) -> float:
    place: Place = ("context_usage", "percentage")
    percentage = repair.number(value, place)
    if percentage is None:
        repair.note(place, f"is missing, taken as the share of {WINDOW:,} tokens")
        percentage = round(percent(tokens, WINDOW))
    if 0 <= percentage <= 100:
        return percentage
    repair.note(place, "must be 0 to 100, taken as the nearer limit")
    return 0 if percentage < 0 else 100


VERSION: Final = "1.0"
_NAMES: Final = {
    **OTHER_NAMES,
    "session_id": ("id", "sessionId"),
    "goal": ("task", "objective", "title", "description"),
    "decisions_made": ("decisions",),
    "completed_work": ("completed_tasks", "completed"),
    "pending_tasks": ("pending", "next_steps", "todos"),
    "context_usage": ("context",),
}
_ORDER: Final = (
    "schema_version", "session_id", "created", "updated", "project", "goal", "mode", "status", "agents",
    "completed_work", "pending_tasks", "decisions_made", "context_usage", "errors",
)  # fmt: skip


def repair_document(value: Json, context: ImportContext) -> RepairedDocument:
    if not isinstance(value, dict):
        raise wrong((), f"must be an object, is {kind_of(value)}")
    if not _errors(value):
        return RepairedDocument(value, [])
    repair = ValueRepair(context)
    version = _version(value.get("schema_version"), repair)
    renamed = repair.renamed(value, _NAMES, ())
    if not _has(renamed, "session_id") and not _has(renamed, "goal"):
        raise Invalid(
            "$ has neither a session_id nor a goal: nothing identifies the session",
            hint="holdfast import --salvage takes what it can from other files.",
        )
    document = _with_required_keys({**renamed, "schema_version": version}, renamed)
    _times(document, repair)
    _name(document, repair)
    document["project"] = _project(document.get("project"), repair)
    _words(document, repair)
    updated = str(document["updated"])
    document["agents"] = repair_agents(document["agents"], repair)
    document["completed_work"] = repair_completed(document["completed_work"], repair)
    document["pending_tasks"] = repair_pending(document["pending_tasks"], repair)
    document["decisions_made"] = repair_decisions(document["decisions_made"], repair, updated)
    document["context_usage"] = repair_usage(document["context_usage"], repair)
    document["errors"] = repair_errors(document["errors"], repair)
    _extend_updated(document, repair)
    _attach_kept(document, repair)
    errors = _errors(document)
    if errors:
        place, message = errors[0]
        raise wrong(place, message)
    return RepairedDocument(document, repair.notes)


def _attach_kept(document: Document, repair: ValueRepair) -> None:
    """Attach kept entries next to their lists, merged with those kept earlier."""
    for key, entries in repair.kept.items():
        kept_key = f"{key}{KEPT_SUFFIX}"
        before = document.get(kept_key)
        earlier = before if isinstance(before, list) else [] if before is None else [before]
        latest = dict(entries_by_name(earlier, (kept_key,), IDENTITIES)) | dict(
            entries_by_name(entries, (kept_key,), IDENTITIES)
        )
        document[kept_key] = list(latest.values())


def _errors(document: Document) -> list[tuple[Place, str]]:
    return [(problem.place, problem.message) for problem in problems(document) if problem.severity == "error"]


def _has(document: Document, key: str) -> bool:
    value = document.get(key)
    return value is not None and value != ""


def _with_required_keys(document: Document, original: Document) -> Document:
    """The document with every required key: existing keys keep their order, a new version comes first."""
    if all(key in original for key in _ORDER):
        return {key: document[key] for key in original}
    repaired = {} if "schema_version" in original else {"schema_version": document["schema_version"]}
    return {
        **repaired,
        **{key: document[key] for key in original},
        **{key: None for key in _ORDER if key not in document},
    }


def _version(value: Json, repair: ValueRepair) -> str:
    place: Place = ("schema_version",)
    if value is None or value == "":
        repair.note(place, f"is missing, taken as {VERSION}")
        return VERSION
    number = str(value).strip().removeprefix("v") if isinstance(value, (str, int, float)) else ""
    if version_parts(value) is None or is_newer(value, VERSION):
        shown = shorten(number, 30) if number else kind_of(value)
        raise wrong(
            place, f"is {shown}, a version that Holdfast does not support", f"Holdfast supports version {VERSION}."
        )
    if value != VERSION:
        repair.note(place, f"{number} is taken as {VERSION}")
    return VERSION


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────


def _times(document: Document, repair: ValueRepair) -> None:
    created = repair.time(document.get("created"), ("created",))
    updated = repair.time(document.get("updated"), ("updated",))
    name = document.get("session_id")
    if created is None and isinstance(name, str) and time_ms(f"{name[:10]}T00:00:00Z") is not None:
        created = f"{name[:10]}T00:00:00Z"
        repair.note(("created",), "is missing, taken from the day in session_id")
    elif created is None:
        created = updated or in_shortest_form(repair.context.now)
        repair.note(("created",), f"is missing, taken as {created}")
    document["created"], document["updated"] = created, updated or created
    if updated is None:
        repair.note(("updated",), "is missing, taken from the latest time in the document")


def _extend_updated(document: Document, repair: ValueRepair) -> None:
    """Move `updated` to the latest time: of the document if `updated` was missing, else of `created`."""
    assumed = any(note.place == ("updated",) and note.message.startswith("is missing") for note in repair.notes)
    listed = [document["agents"], document["decisions_made"]] if assumed else []
    times = [document["created"], document["updated"]]
    for entry in (entry for entries in listed if isinstance(entries, list) for entry in entries):
        if isinstance(entry, dict):
            times += [entry.get(key) for key in ("started", "completed", "timestamp")]
    latest = max((time for time in times if isinstance(time, str)), key=parse_time)
    if parse_time(latest) > parse_time(str(document["updated"])):
        if not assumed:
            repair.note(("updated",), f"is earlier than created, taken as {latest}")
        document["updated"] = latest


# ── id, project, goal, mode, status ──────────────────────────────────────────────────────────────────────


def _name(document: Document, repair: ValueRepair) -> None:
    value = document.get("session_id")
    named = "" if value is None else str(value)
    if is_session_id(named):
        return
    if is_session_id(named.strip().lower()):
        repaired = named.strip().lower()
    else:
        seed = named or f"{document.get('goal')}\n{document['created']}"
        repaired = f"{str(document['created'])[:10]}-{digest(seed.encode('utf-8', 'replace'))[:6]}"
    repair.note(("session_id",), f"{shorten(named, 60) + ' is' if named else 'is missing,'} taken as {repaired}")
    document["session_id"] = repaired


def _project(value: Json, repair: ValueRepair) -> Json:
    place, observed = ("project",), repair.context.project
    if value is None:
        repair.note(place, f"is missing, taken as {observed.name}")
        return {"name": observed.name.strip() or "project", "path": observed.path, "git_branch": observed.git_branch}
    if isinstance(value, str):
        repair.note(place, "text is taken as the project's directory or name")
        name = posixpath.basename(value.replace("\\", "/").rstrip("/"))
        path = value if "/" in value or "\\" in value else None
        return {"name": name.strip() or observed.name.strip() or "project", "path": path, "git_branch": None}
    if not isinstance(value, dict):
        raise wrong(place, f"must be an object, is {kind_of(value)}")
    repaired = repair.renamed(value, {"git_branch": ("branch",)}, place)
    texts = {key: repair.text(repaired.get(key), (*place, key)) for key in ("name", "path", "git_branch")}
    for key, text in texts.items():
        if key in repaired:
            repaired[key] = text
    name = texts.get("name") or ""
    if not name.strip():
        base = posixpath.basename((texts.get("path") or "").replace("\\", "/").rstrip("/"))
        repaired["name"] = base.strip() or observed.name.strip() or "project"
        repair.note((*place, "name"), f"is missing, taken as {repaired['name']}")
    if "path" not in repaired:
        repaired["path"] = None
        repair.note((*place, "path"), "is missing")
    return repaired


def _words(document: Document, repair: ValueRepair) -> None:
    goal = repair.text(document.get("goal"), ("goal",))
    if goal is None or not goal.strip():
        goal = f"Session {document['session_id']}"
        repair.note(("goal",), f"is missing, taken as {goal!r}")
    document["goal"] = goal

    mode = repair.text(document.get("mode"), ("mode",))
    known = repair.word(mode or "", ("mode",), dict.fromkeys(MODES, ""), {})
    if known is None:
        repair.note(("mode",), f"{'is missing,' if not mode else shorten(mode, 30) + ' is'} taken as default")
    document["mode"] = known or "default"

    written = repair.text(document.get("status"), ("status",))
    status = repair.word(written or "", ("status",), SESSION_MEANING, SESSION_SYNONYMS)
    if status is None and written:
        raise wrong(("status",), f"is {shorten(written, 30)!r}", f"A status is one of {', '.join(SESSION_MEANING)}.")
    if status is None:
        repair.note(("status",), "is missing, taken as in_progress")
    document["status"] = status or "in_progress"


AgentFields = dict[str, Json]

_AGENT_NAMES: Final = {
    **OTHER_NAMES_OF_AGENTS, "id": ("agent_id", "name"), "type": ("agent_type", "role"),
    "task": ("description", "goal"),
}  # fmt: skip
_DECISION_NAMES: Final = {
    "decision": ("chosen", "choice", "description", "text"), "rationale": ("reasoning", "reason", "why"),
    "timestamp": ("at", "time", "date", "made_at"),
}  # fmt: skip


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────


def repair_agents(value: Json, repair: ValueRepair) -> list[Json]:
    taken: set[str] = set()
    if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
        repair.note(("agents",), "an object of agents is taken as a list of them")
        value = [{"id": name, **item} for name, item in value.items() if isinstance(item, dict)]
    entries = repair.entries(value, ("agents",))
    return [_agent(entry, position, repair, taken) for position, entry in enumerate(entries)]


def _agent(value: Json, position: int, repair: ValueRepair, taken: set[str]) -> Json:
    place: Place = ("agents", position)
    if isinstance(value, str) and value.strip():
        repair.note(place, "text is taken as an agent's task")
        value = {"id": f"agent-{position + 1}", "type": "agent", "task": value, "status": "pending"}
    if not isinstance(value, dict):
        raise wrong(place, f"must be an object, is {kind_of(value)}")
    entry = repair.renamed(value, _AGENT_NAMES, place)
    entry["id"] = _agent_id(entry.get("id"), position, repair, taken)
    entry["type"] = _agent_type(entry, repair, place)
    task = repair.text(entry.get("task"), (*place, "task"))
    if task is None:
        repair.note((*place, "task"), "is missing, taken as empty")
    entry["task"] = task or ""
    for key in ("started", "completed"):
        if key in entry:
            entry[key] = repair.time(entry[key], (*place, key))
    if "result_summary" in entry:
        entry["result_summary"] = repair.text(entry["result_summary"], (*place, "result_summary"))
    if "progress" in entry:
        entry["progress"] = _progress(entry["progress"], repair, (*place, "progress"))
    if "context_tokens" in entry:
        entry["context_tokens"] = repair.whole(entry["context_tokens"], (*place, "context_tokens"))
    _agent_status(entry, repair, place)
    return entry


def _agent_id(value: Json, position: int, repair: ValueRepair, taken: set[str]) -> str:
    place: Place = ("agents", position, "id")
    named = repair.text(value, place) or ""
    plain = name = named if AGENT_ID.match(named) else slug(named) if named.strip() else f"agent-{position + 1}"
    number = 2
    while name in taken:
        name = f"{plain[:90]}-{number}"
        number += 1
    if name != named:
        repair.note(place, f"{shorten(named, 40) + ' is' if named else 'is missing,'} taken as {name}")
    taken.add(name)
    return name


def _agent_type(entry: AgentFields, repair: ValueRepair, place: Place) -> str:
    written = repair.text(entry.get("type"), (*place, "type"))
    if written is not None and written.strip():
        return written
    repaired = re.sub(r"[-_.]?[0-9]+\Z", "", str(entry["id"])) or "agent"
    repair.note((*place, "type"), f"is missing, taken as {repaired}")
    return repaired


def _agent_status(entry: AgentFields, repair: ValueRepair, place: Place) -> None:
    """Repair its status, and its end to match."""
    written = repair.text(entry.get("status"), (*place, "status"))
    status = repair.word(written or "", (*place, "status"), AGENT_MEANING, AGENT_SYNONYMS)
    ended = entry.get("completed") is not None
    if status is None and written:
        hint = f"An agent is one of {', '.join(AGENT_MEANING)}."
        raise wrong((*place, "status"), f"is {shorten(written, 30)!r}", hint)
    if status is None:
        status = "complete" if ended else "pending" if entry.get("started") is None else "in_progress"
        repair.note((*place, "status"), f"is missing, taken as {status}")
    elif ended and status not in ENDED:
        repair.note((*place, "status"), f"is {status}, but it has ended: taken as complete")
        status = "complete"
    entry["status"] = status
    began, end = time_ms(entry.get("started")), time_ms(entry.get("completed"))
    if began is not None and end is not None and end < began:
        repair.note((*place, "completed"), f"is earlier than started, taken as {entry['started']}")
        entry["completed"] = entry["started"]


def _progress(value: Json, repair: ValueRepair, place: Place) -> int | None:
    if isinstance(value, float) and 0 < value <= 1:
        repaired = round(value * 100)
        repair.note(place, f"a share of 1 is taken as {repaired} percent")
        return repaired
    return repair.whole(value, place, 100)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────


def repair_completed(value: Json, repair: ValueRepair) -> list[Json]:
    repaired: list[Json] = []
    for position, entry in enumerate(repair.entries(value, ("completed_work",))):
        place: Place = ("completed_work", position)
        if isinstance(entry, str):
            repair.note(place, "text is taken as what was done")
            entry = {"task": entry}  # noqa: PLW2901 (from here on it is what was meant)
        if not isinstance(entry, dict):
            raise wrong(place, f"must be an object, is {kind_of(entry)}")
        work = repair.renamed(entry, {"task": TASK_TEXT_KEYS[1:]}, place)
        text = repair.text(work.get("task"), (*place, "task"))
        if text is None or not text.strip():
            repair.left_out(entry, place)
            continue
        work["task"] = text
        if "outcome" in work:
            work["outcome"] = repair.text(work["outcome"], (*place, "outcome"))
        if "files" in work:
            work["files"] = _files(work["files"], repair, (*place, "files"))
        repaired.append(work)
    return repaired


def _files(value: Json, repair: ValueRepair, place: Place) -> list[Json]:
    names = [repair.text(entry, place) for entry in repair.entries(value, place)]
    return [name for name in names if name is not None]


def repair_pending(value: Json, repair: ValueRepair) -> list[Json]:
    repaired: list[Json] = []
    for position, entry in enumerate(repair.entries(value, ("pending_tasks",))):
        place: Place = ("pending_tasks", position)
        text = entry
        if isinstance(entry, dict):
            text = next(
                (words for key in TASK_TEXT_KEYS if isinstance(words := entry.get(key), str) and words.strip()), None
            )
            if text is None:
                raise wrong(place, "must be text, is an object that names no task")
            other_keys = shorten(", ".join(key for key, inner in entry.items() if inner != text), 60)
            repair.note(
                place,
                f"its words are the task{f'; kept in pending_tasks{KEPT_SUFFIX}: {other_keys}' * bool(other_keys)}",
            )
            if other_keys:
                repair.keep(entry, place)
        words = repair.text(text, place)
        if words is None or not words.strip():
            repair.left_out(entry, place)
            continue
        repaired.append(words)
    return repaired


# ── decisions, errors ────────────────────────────────────────────────────────────────────────────────────


def repair_decisions(value: Json, repair: ValueRepair, updated: str) -> list[Json]:
    repaired: list[Json] = []
    for position, entry in enumerate(repair.entries(value, ("decisions_made",))):
        place: Place = ("decisions_made", position)
        if isinstance(entry, str):
            repair.note(place, "text is taken as what was decided")
            entry = {"decision": entry}  # noqa: PLW2901 (from here on it is what was meant)
        if not isinstance(entry, dict):
            raise wrong(place, f"must be an object, is {kind_of(entry)}")
        decision = repair.renamed(entry, _DECISION_NAMES, place)
        text = repair.text(decision.get("decision"), (*place, "decision"))
        if text is None or not text.strip():
            repair.left_out(entry, place)
            continue
        decision["decision"] = text
        if "rationale" in decision:
            decision["rationale"] = repair.text(decision["rationale"], (*place, "rationale"))
        at = repair.time(decision.get("timestamp"), (*place, "timestamp"))
        if at is None:
            repair.note((*place, "timestamp"), f"is missing, taken as {updated}")
        decision["timestamp"] = at or updated
        repaired.append(decision)
    return repaired


def repair_errors(value: Json, repair: ValueRepair) -> list[Json]:
    repaired: list[Json] = []
    for position, entry in enumerate(repair.entries(value, ("errors",))):
        if isinstance(entry, dict):
            repaired.append(entry)
        elif (words := repair.text(entry, ("errors", position))) is not None:
            repaired.append(words)
    return repaired
