"""A format that has rules for lists and derived places and nothing else, for tests of what works on any format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.core.canonical import Json
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, RepairedDocument, TimedEvent


class StubFormat(Format):
    """Agents are known by their id, decisions by time and text, pending tasks by their own words."""

    name = "stub"
    title = "Stub"
    version = "1"
    kinds = ("stub",)
    identities: ClassVar[Mapping[Place, tuple[str, ...]]] = {
        ("decisions",): ("at", "text"),
        ("pending",): (),
        ("phases", "*", "tasks"): ("name",),
    }
    derived: ClassVar[frozenset[Place]] = frozenset({("updated",), ("agents", "*", "seconds")})

    def detects(self, value: Json) -> str | None:
        raise NotImplementedError

    def problems(self, value: Json, kind: str) -> list[Problem]:
        raise NotImplementedError

    def is_sound(self, raw: bytes, kind: str) -> bool:
        raise NotImplementedError

    def repair(self, value: Json, context: ImportContext) -> RepairedDocument:
        raise NotImplementedError

    def alias(self, document: Document) -> str:
        raise NotImplementedError

    def changes(
        self, before: Document | None, after: Document, state: State | None, context: ImportContext
    ) -> list[TimedEvent]:
        raise NotImplementedError

    def render(self, state: State) -> Document:
        raise NotImplementedError

    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        raise NotImplementedError


STUB = StubFormat()
