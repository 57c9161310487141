"""The context's use as it is met in the wild, put right."""

from __future__ import annotations

import posixpath
from typing import Final

from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Invalid
from holdfast.core.modes import MODES, WINDOW, percent
from holdfast.core.text import shorten
from holdfast.core.times import parse_time
from holdfast.formats.base import Document, ImportContext, Place, Tidied
from holdfast.formats.entries import named
from holdfast.formats.layout_versions import is_newer, parts
from holdfast.formats.orchestrator.names import AS_FOUND, IDENTITIES, is_session_id
from holdfast.formats.orchestrator.repair_lists import agents, decisions, done, errors, to_do
from holdfast.formats.orchestrator.repair_values import ValueRepair, wrong
from holdfast.formats.orchestrator.rules import OTHER_NAMES, moment, problems
from holdfast.formats.orchestrator.statuses import MEANT_SESSION, SPOKEN_SESSION
from holdfast.formats.schema import kind_of
from holdfast.formats.timestamps import shortest

_USAGE_NAMES = {"estimated_tokens": ("tokens", "tokens_used"), "percentage": ("percent",)}


def usage(value: Json, mending: ValueRepair) -> Json:
    place: Place = ("context_usage",)
    if value is None:
        mending.note(place, "is missing, taken as nothing used")
        return {"estimated_tokens": 0, "percentage": 0, "last_compression": None}
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        mending.note(place, "taken as a number of tokens")
        value = {"estimated_tokens": value}
    if not isinstance(value, dict):
        raise wrong(place, f"must be an object, is {kind_of(value)}")
    made = mending.renamed(value, _USAGE_NAMES, place)
    tokens = mending.whole(made.get("estimated_tokens"), (*place, "estimated_tokens"))
    if tokens is None:
        mending.note((*place, "estimated_tokens"), "is missing, taken as 0")
    made["estimated_tokens"] = tokens or 0
    made["percentage"] = _share(made.get("percentage"), tokens or 0, mending)
    if "last_compression" in made:
        made["last_compression"] = mending.time(made["last_compression"], (*place, "last_compression"))
    return made


def _share(value: Json, tokens: int, mending: ValueRepair) -> float:
    place: Place = ("context_usage", "percentage")
    found = mending.number(value, place)
    if found is None:
        mending.note(place, f"is missing, taken as the share of {WINDOW:,} tokens")
        found = round(percent(tokens, WINDOW))
    if 0 <= found <= 100:
        return found
    mending.note(place, "must be 0 to 100, taken as the nearer of them")
    return 0 if found < 0 else 100


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


def tidy(value: Json, ground: ImportContext) -> Tidied:
    if not isinstance(value, dict):
        raise wrong((), f"must be an object, is {kind_of(value)}")
    if not _errors(value):
        return Tidied(value, [])
    mending = ValueRepair(ground)
    version = _version(value.get("schema_version"), mending)
    found = mending.renamed(value, _NAMES, ())
    if not _has(found, "session_id") and not _has(found, "goal"):
        raise Invalid(
            "$ has neither a session_id nor a goal: it cannot be told what it is about",
            hint="holdfast import --salvage takes what it can from files of other kinds.",
        )
    document = _ordered({**found, "schema_version": version}, found)
    _times(document, mending)
    _name(document, mending)
    document["project"] = _project(document.get("project"), mending)
    _words(document, mending)
    updated = str(document["updated"])
    document["agents"] = agents(document["agents"], mending)
    document["completed_work"] = done(document["completed_work"], mending)
    document["pending_tasks"] = to_do(document["pending_tasks"], mending)
    document["decisions_made"] = decisions(document["decisions_made"], mending, updated)
    document["context_usage"] = usage(document["context_usage"], mending)
    document["errors"] = errors(document["errors"], mending)
    _outlasting(document, mending)
    _keep_as_found(document, mending)
    left = _errors(document)
    if left:
        place, message = left[0]
        raise wrong(place, message)
    return Tidied(document, mending.notes)


def _keep_as_found(document: Document, mending: ValueRepair) -> None:
    """Entries as they were written, next to their lists: with those kept before, of each the latest version."""
    for key, entries in mending.as_found.items():
        kept = f"{key}{AS_FOUND}"
        before = document.get(kept)
        earlier = before if isinstance(before, list) else [] if before is None else [before]
        latest = dict(named(earlier, (kept,), IDENTITIES)) | dict(named(entries, (kept,), IDENTITIES))
        document[kept] = list(latest.values())


def _errors(document: Document) -> list[tuple[Place, str]]:
    return [(problem.place, problem.message) for problem in problems(document) if problem.severity == "error"]


def _has(document: Document, key: str) -> bool:
    value = document.get(key)
    return value is not None and value != ""


def _ordered(document: Document, found: Document) -> Document:
    """With every key it needs: what was there stays where it stood, the version comes first."""
    if all(key in found for key in _ORDER):
        return {key: document[key] for key in found}
    made = {} if "schema_version" in found else {"schema_version": document["schema_version"]}
    return {**made, **{key: document[key] for key in found}, **{key: None for key in _ORDER if key not in document}}


def _version(value: Json, mending: ValueRepair) -> str:
    place: Place = ("schema_version",)
    if value is None or value == "":
        mending.note(place, f"is missing, taken as {VERSION}")
        return VERSION
    said = str(value).strip().removeprefix("v") if isinstance(value, (str, int, float)) else ""
    if parts(value) is None or is_newer(value, VERSION):
        told = shorten(said, 30) if said else kind_of(value)
        raise wrong(place, f"is {told}, a version that Holdfast does not know", f"Holdfast knows version {VERSION}.")
    if value != VERSION:
        mending.note(place, f"{said} is taken as {VERSION}")
    return VERSION


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────


def _times(document: Document, mending: ValueRepair) -> None:
    created = mending.time(document.get("created"), ("created",))
    updated = mending.time(document.get("updated"), ("updated",))
    name = document.get("session_id")
    if created is None and isinstance(name, str) and moment(f"{name[:10]}T00:00:00Z") is not None:
        created = f"{name[:10]}T00:00:00Z"
        mending.note(("created",), "is missing, taken from the day in session_id")
    elif created is None:
        created = updated or shortest(mending.ground.now)
        mending.note(("created",), f"is missing, taken as {created}")
    document["created"], document["updated"] = created, updated or created
    if updated is None:
        mending.note(("updated",), "is missing, taken from the latest time in the document")


def _outlasting(document: Document, mending: ValueRepair) -> None:
    """Nobody saves before the beginning; and who leaves out when, saved after everything that is told."""
    assumed = any(note.place == ("updated",) and note.message.startswith("is missing") for note in mending.notes)
    listed = [document["agents"], document["decisions_made"]] if assumed else []
    told = [document["created"], document["updated"]]
    for entry in (entry for entries in listed if isinstance(entries, list) for entry in entries):
        if isinstance(entry, dict):
            told += [entry.get(key) for key in ("started", "completed", "timestamp")]
    latest = max((line for line in told if isinstance(line, str)), key=parse_time)
    if parse_time(latest) > parse_time(str(document["updated"])):
        if not assumed:
            mending.note(("updated",), f"is earlier than created, taken as {latest}")
        document["updated"] = latest


# ── what it is about ─────────────────────────────────────────────────────────────────────────────────────


def _name(document: Document, mending: ValueRepair) -> None:
    value = document.get("session_id")
    named = "" if value is None else str(value)
    if is_session_id(named):
        return
    if is_session_id(named.strip().lower()):
        made = named.strip().lower()
    else:
        seed = named or f"{document.get('goal')}\n{document['created']}"
        made = f"{str(document['created'])[:10]}-{digest(seed.encode('utf-8', 'replace'))[:6]}"
    mending.note(("session_id",), f"{shorten(named, 60) + ' is' if named else 'is missing,'} taken as {made}")
    document["session_id"] = made


def _project(value: Json, mending: ValueRepair) -> Json:
    place, here = ("project",), mending.ground.project
    if value is None:
        mending.note(place, f"is missing, taken as {here.name}")
        return {"name": here.name.strip() or "project", "path": here.path, "git_branch": here.git_branch}
    if isinstance(value, str):
        mending.note(place, "text is taken as the project's directory or name")
        name = posixpath.basename(value.replace("\\", "/").rstrip("/"))
        path = value if "/" in value or "\\" in value else None
        return {"name": name.strip() or here.name.strip() or "project", "path": path, "git_branch": None}
    if not isinstance(value, dict):
        raise wrong(place, f"must be an object, is {kind_of(value)}")
    made = mending.renamed(value, {"git_branch": ("branch",)}, place)
    told = {key: mending.words(made.get(key), (*place, key)) for key in ("name", "path", "git_branch")}
    for key, line in told.items():
        if key in made:
            made[key] = line
    name = told.get("name") or ""
    if not name.strip():
        base = posixpath.basename((told.get("path") or "").replace("\\", "/").rstrip("/"))
        made["name"] = base.strip() or here.name.strip() or "project"
        mending.note((*place, "name"), f"is missing, taken as {made['name']}")
    if "path" not in made:
        made["path"] = None
        mending.note((*place, "path"), "is missing")
    return made


def _words(document: Document, mending: ValueRepair) -> None:
    goal = mending.words(document.get("goal"), ("goal",))
    if goal is None or not goal.strip():
        goal = f"Session {document['session_id']}"
        mending.note(("goal",), f"is missing, taken as {goal!r}")
    document["goal"] = goal

    mode = mending.words(document.get("mode"), ("mode",))
    known = mending.word(mode or "", ("mode",), dict.fromkeys(MODES, ""), {})
    if known is None:
        mending.note(("mode",), f"{'is missing,' if not mode else shorten(mode, 30) + ' is'} taken as default")
    document["mode"] = known or "default"

    said = mending.words(document.get("status"), ("status",))
    status = mending.word(said or "", ("status",), MEANT_SESSION, SPOKEN_SESSION)
    if status is None and said:
        raise wrong(("status",), f"is {shorten(said, 30)!r}", f"A status is one of {', '.join(MEANT_SESSION)}.")
    if status is None:
        mending.note(("status",), "is missing, taken as in_progress")
    document["status"] = status or "in_progress"
