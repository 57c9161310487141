"""Rules of craft that concern several fields, or go beyond what a schema can say.

Times must fit together, agents exist, endings not contradict each other, paths stay inside the project. The schema
reports wrong types; a rule looks only at values of the right type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import check_relative_path, shorten
from holdfast.core.times import SECOND
from holdfast.formats.base import Document, Place, Problem, is_newer
from holdfast.formats.craft.fields import VERSION
from holdfast.formats.timestamps import utc_ms

ARTIFACTS: Final = ("files_created", "files_modified", "files_deleted")
# How an agent may have ended, by its status.
RESULTS: Final[dict[str, frozenset[str | None]]] = {
    "pending": frozenset({None}),
    "running": frozenset({None}),
    "completed": frozenset({None, "success"}),
    "error": frozenset({None, "failure", "aborted"}),
    "timeout": frozenset({None, "timeout"}),
}
_MAX_SENTENCES: Final = 3
_SENTENCE: Final = re.compile(r"[.!?…]+(?:[\s\"')\]]+|\Z)")
_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)\Z", re.ASCII)
# Most paths, which are clearly inside the project.
_STEP: Final = r"\.?[A-Za-z0-9_@+=-][A-Za-z0-9_@+=. -]*"
_PLAIN_PATH: Final = re.compile(rf"{_STEP}(?:/{_STEP})*\Z")


def is_inside(path: str) -> bool:
    """Does this path stay within the project?"""
    if len(path) <= 1000 and _PLAIN_PATH.match(path):
        return True
    try:
        check_relative_path(path)
    except Invalid:
        return False
    return True


def is_among(chosen: str, options: Sequence[Json]) -> bool:
    """Without recorded options, anything may have been chosen."""
    return not options or chosen in options


def seconds_fit(seconds: int, started: int, completed: int) -> bool:
    """Whole seconds between two times, rounded up, down or to the nearest."""
    return abs(seconds * SECOND - (completed - started)) < SECOND


# ── the session ──────────────────────────────────────────────────────────────────────────────────────────


def version(document: Document) -> Iterator[Problem]:
    written = document.get("schema_version")
    if not isinstance(written, str) or _VERSION.match(written) is None or written == VERSION:
        return  # the schema reports what is not a version
    shown = shorten(written, 40)
    if is_newer(written, VERSION):
        yield Problem(("schema_version",), f"is {shown}, newer than {VERSION}, the version supported here")
    else:
        yield Problem(("schema_version",), f"must be {VERSION}, is {shown}")


def times(document: Document) -> Iterator[Problem]:
    created, updated = utc_ms(document.get("created_at")), utc_ms(document.get("updated_at"))
    if created is not None and updated is not None and updated < created:
        yield Problem(("updated_at",), "is earlier than created_at")


def goal(document: Document) -> Iterator[Problem]:
    text = document.get("goal")
    if isinstance(text, str):
        sentences = sum(1 for part in _SENTENCE.split(text) if part.strip())
        if sentences > _MAX_SENTENCES:
            yield Problem(("goal",), f"should be 1 to 3 sentences, has {sentences}", "warning")


def files(document: Document) -> Iterator[Problem]:
    for index, file in _objects(document.get("files_modified")):
        yield from _path(file.get("path"), ("files_modified", index, "path"))


def decisions(document: Document) -> Iterator[Problem]:
    for index, decision in _objects(document.get("decisions_made")):
        chosen, options = decision.get("chosen"), decision.get("options")
        if isinstance(chosen, str) and isinstance(options, list) and not is_among(chosen, options):
            yield Problem(("decisions_made", index, "chosen"), f"is not among the options: {shorten(chosen, 60)!a}")


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────


def agents(document: Document) -> Iterator[Problem]:
    listed = _objects(document.get("agents"))
    known: dict[str, int] = {}
    for index, agent in listed:
        name = agent.get("id")
        if isinstance(name, str) and known.setdefault(name, index) != index:
            yield Problem(("agents", index, "id"), f"is already the id of agents[{known[name]}]")
    waits: dict[str, str] = {}
    for index, agent in listed:
        yield from _agent(agent, ("agents", index))
        name, other = agent.get("id"), agent.get("blocking_on")
        if isinstance(other, str):
            place: Place = ("agents", index, "blocking_on")
            if other not in known:
                yield Problem(place, f"names {shorten(other, 40)!a}, which is not an agent of the session")
            elif other == name:
                yield Problem(place, "names the agent itself")
            elif isinstance(name, str):
                waits[name] = other
    for circle in circles(waits):
        chain = " → ".join(shorten(name, 40) for name in (*circle, circle[0]))
        yield Problem(("agents", known[circle[0]], "blocking_on"), f"agents wait for each other in a circle: {chain}")


def circles(waits: dict[str, str]) -> list[list[str]]:
    """Every circle of agents that wait for each other, each once."""
    listed: list[list[str]] = []
    visited: set[str] = set()
    for start in waits:
        path: dict[str, None] = {}
        name: str | None = start
        while name is not None and name not in visited and name not in path:
            path[name] = None
            name = waits.get(name)
        if name in path:
            names = list(path)
            listed.append(names[names.index(name) :])
        visited.update(path)
    return listed


def _agent(agent: Document, place: Place) -> Iterator[Problem]:
    status, result = agent.get("status"), agent.get("result")
    allowed = RESULTS.get(status) if isinstance(status, str) else None
    if allowed is not None and (result is None or isinstance(result, str)) and result not in allowed:
        yield Problem((*place, "result"), f"is {shorten(str(result), 40)}, which contradicts status {status}")
    if status in ("pending", "running") and agent.get("completed_at") is not None:
        yield Problem((*place, "completed_at"), f"is set, which contradicts status {status}")
    started, completed = utc_ms(agent.get("started_at")), utc_ms(agent.get("completed_at"))
    if started is not None and completed is not None:
        seconds = agent.get("duration_seconds")
        if completed < started:
            yield Problem((*place, "completed_at"), "is earlier than started_at")
        elif type(seconds) is int and not seconds_fit(seconds, started, completed):
            length = (completed - started) / SECOND
            yield Problem((*place, "duration_seconds"), f"is {seconds}, the times say {length:g}")
    artifacts = agent.get("artifacts")
    for key in ARTIFACTS if isinstance(artifacts, dict) else ():
        paths = artifacts.get(key) if isinstance(artifacts, dict) else None
        for index, path in enumerate(paths if isinstance(paths, list) else ()):
            yield from _path(path, (*place, "artifacts", key, index))


def _path(path: Json, place: Place) -> Iterator[Problem]:
    if isinstance(path, str) and not is_inside(path):
        yield Problem(place, f"must be a path inside the project, is {shorten(path, 60)!a}")


def _objects(value: Json) -> list[tuple[int, Document]]:
    entries = value if isinstance(value, list) else []
    return [(index, entry) for index, entry in enumerate(entries) if isinstance(entry, dict)]
