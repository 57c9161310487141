"""The contract: a directory per feature with its state, its plan and its history, and a registry of all features.

Here are the documents alone; the directory, its locks and the writing of history are the mirror's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, Tidied, TimedEvent
from holdfast.formats.contract import fields as words
from holdfast.formats.contract import render
from holdfast.formats.contract.fields import HISTORY, OWN, PLAN, REGISTRY, STATE, obj, text

_OF_REGISTRY: Final = frozenset({"version", "active_features", OWN})
_NO_MODELS: Final[Mapping[str, str]] = {}
_STATUSES: Final = {"active": "in_progress", "paused": "paused", "completed": "completed"}


class ContractFormat(Format):
    name = "contract"
    title = "Session state contract"
    version = words.VERSION
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
        """`models` says how models are named that the contract has no name for."""
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
        # What is half there is still nothing else.
        if isinstance(value.get("current_state"), dict) and "model_in_use" in obj(value["current_state"]):
            return STATE
        return STATE if words.is_feature_id(text(value.get("feature_id")) or "") else None

    def problems(self, value: Json, kind: str) -> list[Problem]:
        from holdfast.formats.contract.rules import problems

        return problems(value, kind)

    def problems_together(self, document: Document) -> list[Problem]:
        """What the files of one feature say that does not fit together."""
        from holdfast.formats.contract.rules import problems_together

        return problems_together(document)

    def is_sound(self, raw: bytes, kind: str) -> bool:
        from holdfast.formats.contract.quick_check import is_sound

        return is_sound(raw, kind)

    def tidy(self, value: Json, ground: ImportContext) -> Tidied:
        from holdfast.formats.contract.repairs import tidied

        return tidied(value, ground)

    def alias(self, document: Document) -> str:
        return text(obj(document.get("state")).get("feature_id")) or ""

    def changes(
        self, before: Document | None, after: Document, state: State | None, ground: ImportContext
    ) -> list[TimedEvent]:
        from holdfast.formats.contract.events import changed, imported

        if before is None or state is None:
            return imported(after, ground)
        return changed(before, after, state, ground)

    def render(self, state: State) -> Document:
        """As of the last event."""
        return render.rendered(state, self.models)

    def model_note(self, state: State) -> str | None:
        """What is to be said when the session's model goes under another's name."""
        return words.model_note(view.text_value(state, "model"), self.models)

    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        match place:
            case ("state", "current_state", "model_in_use" | words.OWN_MODEL):
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
                meant = {"description": "text"}.get(key, key)
                return f"tasks.{task}.{meant}", value
        return None

    def files(self, document: Document) -> list[tuple[str, Json]]:
        found: list[tuple[str, Json]] = [(STATE, document.get("state"))]
        if "plan" in document:
            found.append((PLAN, document["plan"]))
        if "entry" in document:
            found.append((REGISTRY, {"active_features": [document["entry"]]}))
        return [*found, *((HISTORY, line) for line in words.lines(document))]

    def alone(self, document: Document) -> Document:
        return {"state": document.get("state")}

    def write(self, document: Document) -> bytes:
        """state.yaml: the other files of the layout are written by whoever writes a directory."""
        from holdfast.formats.text.yaml import written

        return written(document.get("state")).encode()


FORMAT: Final = ContractFormat()


def _is_registry(value: Document) -> bool:
    """Others list features under that name too: an entry of ours has a `feature_id`, an empty list stands alone."""
    entries = value.get("active_features")
    if not isinstance(entries, list):
        return False
    return any("feature_id" in obj(entry) for entry in entries) if entries else value.keys() <= _OF_REGISTRY


def configured(models: Mapping[str, str]) -> ContractFormat:
    """The format with names for models that it has none for."""
    return ContractFormat(models)
