"""The `orchestrator` format: one JSON file for a project's current session, and one for each past session.

The modules next to this one are loaded when needed: a mirror that only writes loads no rules.
"""

from __future__ import annotations

from typing import ClassVar, Final

from holdfast.core.canonical import Json
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, RepairedDocument, TimedEvent
from holdfast.formats.orchestrator.fields import AGENT_MEANING, IDENTITIES, SESSION_MEANING, is_session_id

__all__ = ["FORMAT"]

# Keys that identify a document. Files of other formats that share the first two sets have keys of `_OTHERS`.
_LISTS: Final = frozenset({"agents", "completed_work", "pending_tasks", "decisions_made"})
_OWN: Final = frozenset({"session_id", "goal", "mode", "status", "context_usage", "errors", "created", "updated"})
_OTHERS: Final = frozenset({"teleportation", "files_modified", "sessionId", "branchName", "feature_id", "features"})


class OrchestratorFormat(Format):
    name = "orchestrator"
    title = "orchestrator session state"
    version = "1.0"
    kinds = ("orchestrator",)
    identities = IDENTITIES
    written_at: ClassVar[str | None] = "updated"
    located = frozenset({("project", "path")})
    derived = frozenset({("updated",), ("context_usage", "percentage"), *located})

    def detects(self, value: Json) -> str | None:
        if not isinstance(value, dict) or not _OTHERS.isdisjoint(value):
            return None
        named = value.get("session_id")
        own = _OWN & value.keys()
        if isinstance(named, str) and is_session_id(named):
            return self.kinds[0] if len(own) > 1 or value.keys() & _LISTS else None
        if isinstance(named, str) and len(named) == 36 and named.count("-") == 4:
            return None  # a UUID: craft
        known = "goal" in own or "session_id" in own
        return self.kinds[0] if known and value.keys() & _LISTS and len(own) >= 2 else None

    def problems(self, value: Json, kind: str) -> list[Problem]:  # noqa: ARG002 (there is one kind)
        from holdfast.formats.orchestrator.rules import problems

        return problems(value)

    def is_sound(self, raw: bytes, kind: str) -> bool:  # noqa: ARG002 (there is one kind)
        from holdfast.formats.orchestrator.rules import is_sound

        return is_sound(raw)

    def repair(self, value: Json, context: ImportContext) -> RepairedDocument:
        from holdfast.formats.orchestrator.repairs import repair_document

        return repair_document(value, context)

    def alias(self, document: Document) -> str:
        return str(document["session_id"])

    def changes(
        self, before: Document | None, after: Document, state: State | None, context: ImportContext
    ) -> list[TimedEvent]:
        from holdfast.formats.orchestrator.events import document_events

        return document_events(before, after, state, context)

    def render(self, state: State) -> Document:
        from holdfast.formats.orchestrator.render import render

        return render(state)

    def with_path(self, document: Document, path: str) -> Document:
        project = document.get("project")
        return {**document, "project": {**(project if isinstance(project, dict) else {}), "path": path}}

    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        match place:
            case ("goal" | "mode" as name,):
                return str(name), value
            case ("status",):
                return "status", SESSION_MEANING.get(str(value), value)
            case ("agents", name, "status"):
                return f"agents.{name}.status", AGENT_MEANING.get(str(value), value)
            case ("agents", name, "progress") if isinstance(value, (int, float)):
                return f"agents.{name}.progress", value / 100
            case ("agents", name, "task" | "type" | "started" | "completed" as key):
                return f"agents.{name}.{_CANONICAL.get(str(key), key)}", value
            case ("agents", name, "result_summary"):
                return f"agents.{name}.summary", value
            case ("agents", name, "context_tokens"):
                return f"agents.{name}.tokens", value
            case ("context_usage", "estimated_tokens"):
                return "context.tokens", value
            case ("project", "name" | "path" | "git_branch" as name):
                return f"project.{name}", value
        return None


_CANONICAL: Final = {"started": "started_at", "completed": "completed_at"}

FORMAT: Final = OrchestratorFormat()
