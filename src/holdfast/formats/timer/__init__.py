"""The `timer` format: one small file per work tree with the time worked and the pauses.

`fields` reads it, `rules` checks and `repairs` repairs it, `events` turns it into events, `render` writes it. Each is
loaded when needed: a mirror that only writes loads no rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from holdfast.core.canonical import Json
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, RepairedDocument, TimedEvent

_OWN_KEYS: Final = frozenset(
    {"sessionId", "branchName", "startTime", "lastMessageTime", "actualWorkingMs", "totalPausedMs", "reminders"}
)
_STATUSES: Final = {"IN_PROGRESS": "in_progress", "PAUSED": "paused"}


class TimerFormat(Format):
    name = "timer"
    title = "Timer session state"
    version = "1.0"
    kinds = ("timer",)
    identities: ClassVar[Mapping[Place, tuple[str, ...]]] = {("pauses",): ("type", "startTime")}
    derived: ClassVar[frozenset[Place]] = frozenset(
        {("actualWorkingMs",), ("totalPausedMs",), ("pauses", "*", "durationMs")}
    )
    checked = derived
    latest: ClassVar[frozenset[Place]] = frozenset({("lastMessageTime",)})

    def detects(self, value: Json) -> str | None:
        """At least three of the keys that only this format has."""
        return "timer" if isinstance(value, dict) and len(_OWN_KEYS & value.keys()) >= 3 else None

    def problems(self, value: Json, kind: str) -> list[Problem]:
        from holdfast.formats.schema import problems_by_schema
        from holdfast.formats.timer.fields import read_values
        from holdfast.formats.timer.rules import check, check_spelling

        listed = problems_by_schema(value, kind)
        if isinstance(value, dict):
            values = read_values(value)
            if values is not None:
                reported = {problem.place for problem in listed}
                listed += [problem for problem in check(values) if problem.place not in reported]
            listed += check_spelling(value)
        return listed

    def is_sound(self, raw: bytes, kind: str) -> bool:
        from holdfast.formats.timer.fields import read_quickly
        from holdfast.formats.timer.rules import check

        values = read_quickly(raw) if kind == "timer" else None
        return values is not None and next(check(values), None) is None

    def repair(self, value: Json, context: ImportContext) -> RepairedDocument:
        from holdfast.formats.timer.repairs import repair_document

        return repair_document(value, context, lambda document: self.problems(document, "timer"))

    def alias(self, document: Document) -> str:
        name = document["sessionId"]
        assert isinstance(name, str)
        return name

    def changes(
        self, before: Document | None, after: Document, state: State | None, context: ImportContext
    ) -> list[TimedEvent]:
        from holdfast.formats.timer.events import change_events, import_events

        if before is None:
            return import_events(after, context)
        assert state is not None
        return change_events(before, after, state, context)

    def counted(self, before: Document, after: Document, state: State, context: ImportContext) -> list[TimedEvent]:
        from holdfast.formats.timer.events import worked_between

        return worked_between(before, after, state, context)

    def render(self, state: State) -> Document:
        from holdfast.formats.timer.render import render

        return render(state)

    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        match place:
            case ("scope" | "task" | "summary" as name,):
                return name, value
            case ("status",):
                return "status", _STATUSES.get(value, value) if isinstance(value, str) else value
        return None


FORMAT = TimerFormat()
