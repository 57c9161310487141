"""The `craft` format: `.craft/cache/orchestration-sessions/<id>.json`, with an index beside the sessions.

`table` describes its fields; `rules` and `repairs` have what concerns several of them. `fields` has its names and
reads single values, `events` turns documents into events, `render` states into documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.model import SyncFacts
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, RepairedDocument, TimedEvent
from holdfast.formats.craft import fields
from holdfast.formats.craft.fields import VERSION
from holdfast.formats.craft.render import PATHS, index
from holdfast.formats.document_paths import value_at

__all__ = ["FORMAT", "index"]

_TRAVEL = (
    "enabled", "last_sync", "sync_status", "sync_error", "devices", "storage_backend", "encrypted", "shared_with",
)  # fmt: skip
# Keys that mark a craft document: a version and a `session_id` alone occur in many files.
_OWN = frozenset({"goal", "mode", "agents", "completed_work", "pending_tasks", "decisions_made", "files_modified",
                  "context_usage", "teleportation", "device", "metadata"})  # fmt: skip
_ALIAS: Place = ("metadata", "holdfast", "alias")
_LOCATED: frozenset[Place] = frozenset({("project",), PATHS})


class CraftFormat(Format):
    name = "craft"
    title = "Craft session state"
    version = VERSION
    kinds = ("craft", "craft-index")
    identities: ClassVar[Mapping[Place, tuple[str, ...]]] = {
        ("agents",): ("id",),
        ("completed_work",): (),
        ("pending_tasks",): (),
        ("decisions_made",): ("timestamp", "chosen"),
        ("files_modified",): ("timestamp", "path", "action"),
    }
    derived: ClassVar[frozenset[Place]] = frozenset(
        {
            ("session_id",), ("updated_at",), ("device",), ("agents", "*", "duration_seconds"), *_LOCATED,
            *(("teleportation", key) for key in _TRAVEL),
        }
    )  # fmt: skip
    located: ClassVar[frozenset[Place]] = _LOCATED
    # Who wrote last and how the session syncs holds for the imported version only, not for later ones.
    passing: ClassVar[frozenset[Place]] = frozenset({("device",), *(("teleportation", key) for key in _TRAVEL)})
    carries_at: ClassVar[Place] = ("metadata", "holdfast")
    written_at: ClassVar[str | None] = "updated_at"

    def detects(self, value: Json) -> str | None:
        if not isinstance(value, dict):
            return None
        sessions = value.get("sessions")
        if "schema_version" in value and isinstance(sessions, list) and "session_id" not in value:
            rows = [row for row in sessions if isinstance(row, dict)]
            return "craft-index" if len(rows) == len(sessions) and all("session_id" in row for row in rows) else None
        own = ("teleportation" in value) + ("files_modified" in value) + ("device" in value)
        named = "session_id" in value or "goal" in value
        if not named:
            return None
        version = value.get("schema_version")
        if isinstance(version, str) and version.count(".") == 2 and not _OWN.isdisjoint(value):
            return "craft"
        return "craft" if own >= 2 or ("created_at" in value and "updated_at" in value and own) else None

    def problems(self, value: Json, kind: str) -> list[Problem]:
        from holdfast.formats.table import problems

        return problems(value, kind)

    def broken(self, value: Json, kind: str) -> list[Problem]:
        from holdfast.formats.table import problems

        return problems(value, kind, spelling=False)

    def is_sound(self, raw: bytes, kind: str) -> bool:
        from holdfast.formats.table import is_sound

        return is_sound(raw, kind)

    def repair(self, value: Json, context: ImportContext) -> RepairedDocument:
        from holdfast.formats.table import repair_document

        if not isinstance(value, dict):
            raise Invalid("$ must be an object", hint="A craft session is one JSON object.")
        if isinstance(value.get("sessions"), list) and "session_id" not in value:
            raise Invalid("this is an index of sessions, not a session", hint="Import the files it lists.")
        return repair_document(value, "craft", context)

    def alias(self, document: Document) -> str:
        foreign = value_at(document, _ALIAS)
        return foreign if isinstance(foreign, str) and foreign.strip() else str(document.get("session_id"))

    def changes(
        self, before: Document | None, after: Document, state: State | None, context: ImportContext
    ) -> list[TimedEvent]:
        if before is None or state is None:
            from holdfast.formats.craft.events import import_events

            return import_events(after, self.alias(after), context)
        from holdfast.formats.craft.events import change_events

        return change_events(before, after, state, context, self.identities)

    def render(self, state: State) -> Document:
        from holdfast.formats.craft.render import render

        return render(state)

    def with_sync(self, document: Document, travel: SyncFacts) -> Document:
        from holdfast.formats.craft.render import with_sync

        return with_sync(document, travel)

    def with_path(self, document: Document, path: str) -> Document:
        from holdfast.formats.craft.render import with_path

        return with_path(document, path)

    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        match place:
            case ("goal" | "mode" | "progress" | "status" as name,):
                return str(name), value
            case ("agents", str(agent), "status"):
                return f"agents.{agent}.status", fields.agent_status(value, None) if isinstance(value, str) else value
            case ("agents", str(agent), "type" | "progress" | "result" | "blocking_on" as name):
                return f"agents.{agent}.{name}", value
            case ("agents", str(agent), "output_summary"):
                return f"agents.{agent}.summary", value
            case ("project",):
                return "project.path", value
            case ("metadata", "git_branch" | "git_commit" as name):
                return f"project.{name}", value
            case ("metadata", "tags" | "notes" as name):
                return str(name), value
            case ("context_usage", "estimated_tokens"):
                return "context.tokens", value
            case ("context_usage", "compression_count"):
                return "context.compressions", value
            case ("context_usage", "by_agent", str(agent)):
                return f"context.by_agent.{agent}", value
        return None


FORMAT = CraftFormat()
