"""Names and fields of the contract: files, allowed values, ids and models, and how a field is read.

A document of this format combines the files of a feature: `state` (state.yaml), `plan`
(implementation-plan.yaml), `entry` (this feature's line in active-features.yaml) and `history` (history.jsonl).
Only `state` is always there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import check_identifier
from holdfast.formats.base import Document

VERSION: Final = "1.0"
STATE, PLAN, REGISTRY, HISTORY = "contract-state", "contract-plan", "contract-registry", "contract-history"

PLAN_FILE: Final = "implementation-plan.yaml"
HISTORY_FILE: Final = "history.jsonl"
STATE_FILE: Final = "state.yaml"

MODELS: Final = ("gemini", "opus", "sonnet")
USUAL_MODEL: Final = "sonnet"
# In a mapping of models: every other model.
ANY_MODEL: Final = "*"

# Holdfast's own keys: the whole event in a history line, and values the allowed ones cannot express.
OWN: Final = "x-holdfast"
# Events imported from other programs' lines, which exist already: the next line of ours carries them.
OWN_ALSO: Final = "x-holdfast-also"
OWN_STATUS: Final = "x-holdfast-status"
OWN_MODEL: Final = "x-holdfast-model"
# Suffix of the key that keeps a value that could not be used.
KEPT_SUFFIX: Final = "_as_found"

# The phase of tasks that belong to none.
LOOSE_PHASE: Final = "tasks"
LOOSE_PHASE_NAME: Final = "Tasks"

_FEATURE: Final = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)-([0-9]{4}-[0-9]{2}-[0-9]{2})\Z")


def feature_parts(feature_id: str) -> tuple[str, str] | None:
    """Slug and date of a feature id; None when it is not one, or its date does not exist."""
    match = _FEATURE.match(feature_id)
    if match is None:
        return None
    try:
        date.fromisoformat(match[2])
    except ValueError:
        return None
    return match[1], match[2]


def looks_like_feature_id(name: str) -> bool:
    return _FEATURE.match(name) is not None


def is_feature_id(feature_id: str) -> bool:
    return feature_parts(feature_id) is not None


def is_task_name(task_id: str) -> bool:
    """Does the command line accept this as a task's id?"""
    try:
        check_identifier(task_id, "a task's id")
    except Invalid:
        return False
    return True


def model_name(real: str | None, models: Mapping[str, str]) -> str:
    """The contract's name for a model: its family, what the settings say, or `sonnet`."""
    plain = (real or "").lower()
    for family in MODELS:
        if family in plain:
            return family
    mapped = models.get(real or "") or models.get(ANY_MODEL)
    return mapped if mapped in MODELS else USUAL_MODEL


def model_note(real: str | None, models: Mapping[str, str]) -> str | None:
    """A note for when a model is written under another name."""
    if real is None or any(family in real.lower() for family in MODELS):
        return None
    return f"the contract has no name for the model {real[:60]!a}: it is written as {model_name(real, models)}"


def as_object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def as_text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def current_state(document: Document) -> dict[str, Json]:
    return as_object(as_object(document.get("state")).get("current_state"))


def feature(document: Document) -> dict[str, Json]:
    return as_object(as_object(document.get("plan")).get("feature"))


def phases(document: Document) -> list[dict[str, Json]]:
    return [as_object(phase) for phase in as_list(as_object(document.get("plan")).get("phases"))]


def tasks_with_phases(document: Document) -> Iterator[tuple[dict[str, Json], dict[str, Json]]]:
    """Every task of the plan, with its phase."""
    for phase in phases(document):
        for task in as_list(phase.get("tasks")):
            yield phase, as_object(task)


def history_lines(document: Document) -> list[Json]:
    return as_list(document.get("history"))


def is_foreign(line: Json) -> bool:
    """Did another program write this history line?"""
    return isinstance(line, dict) and OWN not in line


def is_dropped(task: Mapping[str, Json]) -> bool:
    """Was this task dropped? The contract has no such status: it is `blocked` with a key of ours."""
    return task.get(OWN_STATUS) == "dropped" and task.get("status") == "blocked"


def without_history(document: Document) -> Document:
    """The parts that are rewritten; history is append-only."""
    return {name: part for name, part in document.items() if name != "history"}
