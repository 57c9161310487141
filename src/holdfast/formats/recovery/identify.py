"""What a recovered document was: which of the four formats it is part of, and that format's document again.

A document that lost its end may lack what a format is usually recognised by. Then the names that only one format
has decide, if there are enough of them left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError
from holdfast.formats import detect, registry
from holdfast.formats.base import Format, FormatNote, ImportContext, Place, Tidied

# Kinds of file that list sessions and are none.
LISTS: Final = frozenset({"contract-registry", "craft-index"})
# The fields of each format; of two that have the same ones, the first counts.
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "orchestrator": frozenset((
        "schema_version", "session_id", "created", "updated", "project", "goal", "mode", "status", "agents",
        "completed_work", "pending_tasks", "decisions_made", "context_usage", "errors",
    )),
    "craft": frozenset((
        "$schema", "schema_version", "session_id", "created_at", "updated_at", "device", "project", "goal", "mode",
        "status", "progress", "agents", "completed_work", "pending_tasks", "decisions_made", "files_modified",
        "context_usage", "teleportation", "metadata",
    )),
    "timer": frozenset((
        "sessionId", "scope", "task", "branchName", "status", "startTime", "lastMessageTime", "actualWorkingMs",
        "totalPausedMs", "pauses", "reminders", "summary",
    )),
    "contract": frozenset(("version", "feature_id", "current_state", "feature", "phases")),
}  # fmt: skip
# Without one of these, anybody's file could be meant.
_TELLING: Final = frozenset((
    "schema_version", "session_id", "completed_work", "pending_tasks", "decisions_made", "teleportation", "sessionId",
    "branchName", "lastMessageTime", "actualWorkingMs", "totalPausedMs", "feature_id", "current_state",
))  # fmt: skip
_ENOUGH: Final = 2
_DAY: Final = re.compile(r"(\d{4})(\d{2})(\d{2})-", re.ASCII)


class Meant(NamedTuple):
    """A format, and the kind of its files."""

    rules: Format
    kind: str


def meant(value: Json, path: str = "") -> Meant | None:
    """The format a (partial) document is in; None when it is of none, or nobody can tell."""
    found = detect.recognised(value, path)
    if found is not None:
        return Meant(*found)
    if not isinstance(value, dict) or _TELLING.isdisjoint(value):
        return None
    name, fields = max(_FIELDS.items(), key=lambda one: len(one[1] & value.keys()))
    shared = len(fields & value.keys())
    if shared < _ENOUGH or shared * 2 <= len(value):
        return None
    rules = registry.named(name)
    return Meant(rules, rules.kinds[0])


def is_anothers(raw: bytes, path: str) -> bool:
    """Is a file that the strict reader refuses another program's own, sound in its way?

    Settings with comments, YAML with anchors or several documents: nothing of it is lost, and no session is in it.
    """
    from holdfast.formats.recovery.recover import recovered
    from holdfast.formats.recovery.yaml import is_yaml

    if detect.shows_signs(raw):
        return False
    if path.lower().endswith((".yaml", ".yml")):
        return is_yaml(raw)
    try:
        found = recovered(raw, path)
    except HoldfastError:
        return False
    return found.lost_from is None and bool(found.value) and meant(found.value) is None


def completed(value: Json, what: Meant, ground: ImportContext, *, cut: bool) -> Tidied | HoldfastError:
    """The format's document with everything missing derived, and what had to be assumed; or why that cannot be.

    Of a document that was `cut`, the last entry may be too little for the format: then it is left out, and what it
    stands in if need be.
    """
    notes: list[FormatNote] = []
    if cut and what.rules.name == "timer" and isinstance(value, dict):
        value, notes = _begun(value)
    try:
        tidy = what.rules.tidy(value, ground)
        return Tidied(tidy.document, [*notes, *tidy.notes])
    except HoldfastError as error:
        for place in _last_entries(value) if cut else []:
            try:
                tidy = what.rules.tidy(_without_last(value, place), ground)
            except HoldfastError:
                continue
            return Tidied(tidy.document, [*notes, FormatNote(place, "was cut, and is left out"), *tidy.notes])
        return error


def _begun(value: dict[str, Json]) -> tuple[dict[str, Json], list[FormatNote]]:
    """A timer whose start was cut off: its id still names the day."""
    name = value.get("sessionId")
    day = _DAY.match(name) if isinstance(name, str) and "startTime" not in value else None
    if day is None:
        return value, []
    start = f"{day[1]}-{day[2]}-{day[3]}T00:00:00Z"
    return {**value, "startTime": start}, [FormatNote(("startTime",), f"was lost: {start} is assumed, after the id")]


def _last_entries(value: Json) -> list[Place]:
    """Where the last entry stands of everything that ends with the document, the innermost first."""
    places: list[Place] = []
    place: Place = ()
    while isinstance(value, (dict, list)) and value:
        step: str | int = list(value)[-1] if isinstance(value, dict) else len(value) - 1
        place = (*place, step)
        places.append(place)
        value = value[step]  # type: ignore[index]
    return places[::-1]


def _without_last(value: Json, place: Place) -> Json:
    step, *rest = place
    if isinstance(value, dict) and isinstance(step, str):
        inner = {step: _without_last(value[step], tuple(rest))} if rest else {}
        return {**{key: item for key, item in value.items() if key != step}, **inner}
    assert isinstance(value, list)
    return [*value[:-1], _without_last(value[-1], tuple(rest))] if rest else value[:-1]
