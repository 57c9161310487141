"""Identify the format of a recovered document, and complete it to a document of that format.

A document that lost its end may lack what its format is usually recognised by. Then the remaining keys decide, if
there are enough of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError
from holdfast.formats import detect, registry
from holdfast.formats.base import Format, FormatNote, ImportContext, Place, RepairedDocument

# Kinds of file that list sessions and are not sessions.
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
# Without one of these, it could be any file.
_OWN_KEYS: Final = frozenset((
    "schema_version", "session_id", "completed_work", "pending_tasks", "decisions_made", "teleportation", "sessionId",
    "branchName", "lastMessageTime", "actualWorkingMs", "totalPausedMs", "feature_id", "current_state",
))  # fmt: skip
_MIN_SIGNS: Final = 2
_DAY: Final = re.compile(r"(\d{4})(\d{2})(\d{2})-", re.ASCII)


class FormatKind(NamedTuple):
    """A format, and the kind of its files."""

    rules: Format
    kind: str


def identify(value: Json, path: str = "") -> FormatKind | None:
    """The format of a (partial) document; None when it has none, or it is unclear."""
    recognised = detect.recognise(value, path)
    if recognised is not None:
        return FormatKind(*recognised)
    if not isinstance(value, dict) or _OWN_KEYS.isdisjoint(value):
        return None
    name, fields = max(_FIELDS.items(), key=lambda item: len(item[1] & value.keys()))
    shared = len(fields & value.keys())
    if shared < _MIN_SIGNS or shared * 2 <= len(value):
        return None
    rules = registry.format_named(name)
    return FormatKind(rules, rules.kinds[0])


def is_foreign(raw: bytes, path: str) -> bool:
    """Is a file that the strict reader refuses an intact file of another program?

    For instance settings with comments, or YAML with anchors: nothing is lost, and it is not a session.
    """
    from holdfast.formats.recovery.parse import is_yaml, recover_document

    if detect.has_session_signs(raw):
        return False
    if path.lower().endswith((".yaml", ".yml")):
        return is_yaml(raw)
    try:
        recovered = recover_document(raw, path)
    except HoldfastError:
        return False
    return recovered.lost_from is None and bool(recovered.value) and identify(recovered.value) is None


def complete(value: Json, kind: FormatKind, context: ImportContext, *, cut: bool) -> RepairedDocument | HoldfastError:
    """The document with everything missing derived, and notes on what was assumed; or the error if it cannot be.

    Of a document that was `cut`, the last entry may be incomplete: then it is left out, and what contains it if
    needed.
    """
    notes: list[FormatNote] = []
    if cut and kind.rules.name == "timer" and isinstance(value, dict):
        value, notes = _with_start(value)
    try:
        repaired = kind.rules.repair(value, context)
        return RepairedDocument(repaired.document, [*notes, *repaired.notes])
    except HoldfastError as error:
        for place in _last_entries(value) if cut else []:
            try:
                repaired = kind.rules.repair(_without_last(value, place), context)
            except HoldfastError:
                continue
            return RepairedDocument(
                repaired.document, [*notes, FormatNote(place, "was cut, and is left out"), *repaired.notes]
            )
        return error


def _with_start(value: dict[str, Json]) -> tuple[dict[str, Json], list[FormatNote]]:
    """A timer whose start was lost: its id still has the date."""
    name = value.get("sessionId")
    day = _DAY.match(name) if isinstance(name, str) and "startTime" not in value else None
    if day is None:
        return value, []
    start = f"{day[1]}-{day[2]}-{day[3]}T00:00:00Z"
    return {**value, "startTime": start}, [FormatNote(("startTime",), f"was lost: {start} is assumed from the id")]


def _last_entries(value: Json) -> list[Place]:
    """The places of the last entries down to the document's end, innermost first."""
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
