"""The timer format: one small file per work tree that says how long was worked, and why not.

`documents` reads it, `rules` judges it, `tolerance` puts right what is met in the wild, `events` and `rendering`
are the way in and the way out. Each is loaded when it is needed: a mirror that only writes waits for no rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from holdfast.core.canonical import Json
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, Tidied, TimedEvent

_TELLING: Final = frozenset(
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
        """Three of the names that only this format has."""
        return "timer" if isinstance(value, dict) and len(_TELLING & value.keys()) >= 3 else None

    def problems(self, value: Json, kind: str) -> list[Problem]:
        from holdfast.formats.schema import problems_by_schema
        from holdfast.formats.timer.fields import reading
        from holdfast.formats.timer.rules import broken, spelled

        found = problems_by_schema(value, kind)
        if isinstance(value, dict):
            seen = reading(value)
            if seen is not None:
                spoken = {problem.place for problem in found}
                found += [problem for problem in broken(seen) if problem.place not in spoken]
            found += spelled(value)
        return found

    def is_sound(self, raw: bytes, kind: str) -> bool:
        from holdfast.formats.timer.fields import quickly
        from holdfast.formats.timer.rules import broken

        seen = quickly(raw) if kind == "timer" else None
        return seen is not None and next(broken(seen), None) is None

    def tidy(self, value: Json, ground: ImportContext) -> Tidied:
        from holdfast.formats.timer.repairs import tidied

        return tidied(value, ground, lambda document: self.problems(document, "timer"))

    def alias(self, document: Document) -> str:
        name = document["sessionId"]
        assert isinstance(name, str)
        return name

    def changes(
        self, before: Document | None, after: Document, state: State | None, ground: ImportContext
    ) -> list[TimedEvent]:
        from holdfast.formats.timer.events import changed, imported

        if before is None:
            return imported(after, ground)
        assert state is not None
        return changed(before, after, state, ground)

    def counted(self, before: Document, after: Document, state: State, ground: ImportContext) -> list[TimedEvent]:
        from holdfast.formats.timer.events import counted

        return counted(before, after, state, ground)

    def render(self, state: State) -> Document:
        from holdfast.formats.timer.render import rendered

        return rendered(state)

    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        match place:
            case ("scope" | "task" | "summary" as name,):
                return name, value
            case ("status",):
                return "status", _STATUSES.get(value, value) if isinstance(value, str) else value
        return None


FORMAT = TimerFormat()
