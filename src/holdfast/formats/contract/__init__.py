"""The `contract` format: per feature a directory with state, plan and history, and a registry of all features.

This package handles the documents; the mirror handles directories, locks and the writing of history.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, RepairedDocument, TimedEvent
from holdfast.formats.contract import fields, render
from holdfast.formats.contract.fields import HISTORY, OWN, PLAN, REGISTRY, STATE, as_object, as_text

_OF_REGISTRY: Final = frozenset({"version", "active_features", OWN})
_NO_MODELS: Final[Mapping[str, str]] = {}
_STATUSES: Final = {"active": "in_progress", "paused": "paused", "completed": "completed"}


class ContractFormat(Format):
    name = "contract"
    title = "Session state contract"
    version = fields.VERSION
    kinds = (STATE, PLAN, REGISTRY, HISTORY)
    identities: ClassVar[Mapping[Place, tuple[str, ...]]] = {
        ("plan", "phases"): ("phase_id",),
        ("plan", "phases", "*", "tasks"): ("task_id",),
        ("history",): (),
    }
    derived = frozenset({("state", "current_state", "last_updated"), ("entry", "last_active")})
    checked = frozenset({("state", "current_state", "active_task")})
    carries_at = ("state", OWN)

    def __init__(self, models: Mapping[str, str] = _NO_MODELS) -> None:
        """`models`: names for models that the contract has no name for."""
        self.models = models

    def detects(self, value: Json) -> str | None:
        if not isinstance(value, dict):
            return None
        if _is_registry(value):
            return REGISTRY
        if isinstance(value.get("current_state"), dict) and "feature_id" in value:
            return STATE
        if isinstance(value.get("feature"), dict) and "phases" in value:
            return PLAN
        if all(isinstance(value.get(key), str) for key in ("timestamp", "command", "status")):
            return HISTORY
        # An incomplete state is still a state.
        if isinstance(value.get("current_state"), dict) and "model_in_use" in as_object(value["current_state"]):
            return STATE
        return STATE if fields.is_feature_id(as_text(value.get("feature_id")) or "") else None

    def problems(self, value: Json, kind: str) -> list[Problem]:
        from holdfast.formats.table import problems

        return problems(value, kind)

    def problems_together(self, document: Document) -> list[Problem]:
        """Contradictions between the files of one feature."""
        from holdfast.formats.contract.rules import problems_together

        return problems_together(document)

    def is_sound(self, raw: bytes, kind: str) -> bool:
        from holdfast.formats.table import is_sound

        return is_sound(raw, kind)

    def repair(self, value: Json, context: ImportContext) -> RepairedDocument:
        from holdfast.formats.contract.repairs import repair_document

        return repair_document(value, context)

    def alias(self, document: Document) -> str:
        return as_text(as_object(document.get("state")).get("feature_id")) or ""

    def changes(
        self, before: Document | None, after: Document, state: State | None, context: ImportContext
    ) -> list[TimedEvent]:
        from holdfast.formats.contract.events import change_events, import_events

        if before is None or state is None:
            return import_events(after, context)
        return change_events(before, after, state, context)

    def render(self, state: State) -> Document:
        """As of the last event."""
        return render.render_documents(state, self.models)

    def model_note(self, state: State) -> str | None:
        """A note for when the session's model is written under another name."""
        return fields.model_note(view.text_value(state, "model"), self.models)

    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        match place:
            case ("state", "current_state", "model_in_use" | fields.OWN_MODEL):
                return "model", value
            case ("plan", "feature", "name"):
                return "goal", value
            case ("plan", "feature", "description"):
                return "summary", value
            case ("entry", "status"):
                return "status", _STATUSES.get(str(value), value)
            case ("plan", "phases", str(phase), "name"):
                return f"phases.{phase}", value
            case ("plan", "phases", _, "tasks", str(task), str(key)):
                field_name = {"description": "text"}.get(key, key)
                return f"tasks.{task}.{field_name}", value
        return None

    def files(self, document: Document) -> list[tuple[str, Json]]:
        made: list[tuple[str, Json]] = [(STATE, document.get("state"))]
        if "plan" in document:
            made.append((PLAN, document["plan"]))
        if "entry" in document:
            made.append((REGISTRY, {"active_features": [document["entry"]]}))
        return [*made, *((HISTORY, line) for line in fields.history_lines(document))]

    def single_file(self, document: Document) -> Document:
        return {"state": document.get("state")}

    def write(self, document: Document) -> bytes:
        """state.yaml alone; the other files belong to whoever writes the directory."""
        from holdfast.formats.text.yaml import render_yaml

        return render_yaml(document.get("state")).encode()


FORMAT: Final = ContractFormat()


def _is_registry(value: Document) -> bool:
    """Other files use `active_features` too: ours has entries with a `feature_id`, or an empty list alone."""
    entries = value.get("active_features")
    if not isinstance(entries, list):
        return False
    return any("feature_id" in as_object(entry) for entry in entries) if entries else value.keys() <= _OF_REGISTRY


def configured(models: Mapping[str, str]) -> ContractFormat:
    """The format with these names for models it has no name for."""
    return ContractFormat(models)
