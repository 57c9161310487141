"""Repair one object of a document field by field, as its table says, and note every assumption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats.base import KEPT_SUFFIX, Document, FormatNote, ImportContext, Place
from holdfast.formats.document_paths import format_place

if TYPE_CHECKING:
    from holdfast.formats.table import Object

# The keys under which an object may hold the text of an entry, best first.
_TEXT_KEYS: Final = (
    "task", "text", "title", "description", "name", "content", "summary", "goal", "path", "file", "id",
)  # fmt: skip


class Repair:
    """One object of a document while it is repaired, and the notes on what was assumed."""

    def __init__(self, table: Object, data: Document, context: ImportContext, place: Place = ()) -> None:
        self.table = table
        self.original = data
        self.data = dict(data)
        self.context = context
        self.place = place
        self.notes: list[FormatNote] = []
        self.root = self
        # The entries before it in its list.
        self.before: Sequence[Repair] = ()
        # Names in the document that were replaced.
        self.renamed: dict[str, str] = {}
        self._set_aside: set[str] = set()

    def inner(self, table: Object, data: Document, *steps: str | int, before: Sequence[Repair] = ()) -> Repair:
        """An object inside this one."""
        inner = Repair(table, data, self.context, (*self.place, *steps))
        inner.root, inner.notes, inner.renamed, inner.before = self.root, self.notes, self.renamed, before
        return inner

    def repair_all(self) -> bool:
        """Take every step of the table; False when the object is to be left out."""
        for step in self.table.repairs or (tuple(field.name for field in self.table.fields),):
            if callable(step):
                if step(self) is False:
                    return False
            else:
                self.take(*((step,) if isinstance(step, str) else step))
        return True

    def take(self, *names: str) -> None:
        """Look up the fields' other names, then repair and fill one field after the other."""
        self.adopt(*names)
        for name in names:
            field = self.table.field(name)
            field.kind.repair(self, name)
            if field.repair is not None:
                field.repair(self, name)
            if field.default is not msgspec.UNSET:
                self.fill(name, field.default(self) if callable(field.default) else field.default)

    def adopt(self, *names: str) -> None:
        """Fill missing fields from other programs' names for them."""
        for name in names:
            others = self.table.field(name).also if self.data.get(name) is None else ()
            other = next((other for other in others if self.data.get(other) is not None), None)
            if other is not None:
                self.replace(name, self.data[other], f"is missing; taken from {other}")

    def fill(self, key: str, value: Json) -> None:
        """Give a missing field a value."""
        if self.data.get(key) is None:
            shown = "empty" if value in ("", [], {}) else shorten(str(value), 60)
            self.data[key] = value.copy() if isinstance(value, (list, dict)) else value
            self.note(key, f"taken as {shown}" if key in self._set_aside else f"is missing; taken as {shown}")

    def replace(self, key: str, value: Json, message: str) -> None:
        """Give a field another value, with a note."""
        self.data[key] = value
        self.note(key, message)

    def set_aside(self, key: str, why: str, *, instead: Json | msgspec.UnsetType = msgspec.UNSET) -> None:
        """Move a value that cannot be used to `<key>_as_found`, or refuse the document."""
        if not self.table.keeps_unusable:
            raise Invalid(f"{format_place((*self.place, key))} {why}")
        self.data[f"{key}{KEPT_SUFFIX}"] = self.data.pop(key)
        self._set_aside.add(key)
        self.note(key, f"{why}; kept as {key}{KEPT_SUFFIX}")
        if instead is not msgspec.UNSET:
            self.data[key] = instead

    def note(self, key: str | int | Place, message: str) -> None:
        self.notes.append(FormatNote((*self.place, *(key if isinstance(key, tuple) else (key,))), message))

    def object(self, key: str, value: Json) -> Document | None:
        """The value if it is an object; an empty one if the field is required; else None."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.set_aside(key, "is not an object")
        if not self.table.field(key).occurs.required:
            return None
        self.fill(key, {})
        return {}

    def listed(self, key: str) -> list[Json] | None:
        """A list, or None when there is none."""
        value = self.data.get(key)
        if isinstance(value, list) or value is None:
            return value
        if isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, dict):
            # An object by name: each entry gets its name as id.
            self.data[f"{key}{KEPT_SUFFIX}"] = value
            value = [{"id": name, **entry} if isinstance(entry, dict) else entry for name, entry in value.items()]
        else:
            value = [value]
        self.replace(key, value, "is not a list; taken as one")
        return value


def adopt(*names: str) -> Callable[[Repair], None]:
    """The step that looks up other names of these fields before anything is repaired."""
    return lambda part: part.adopt(*names)


def drop_null(*names: str) -> Callable[[Repair], None]:
    """The step that leaves out optional fields that are null."""

    def drop(part: Repair) -> None:
        for name in names:
            if name in part.data and part.data[name] is None:
                del part.data[name]
                part.note(name, "is null; left out")

    return drop


def text_of(value: Json) -> str | None:
    """The text of an entry, if it has one."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        for key in _TEXT_KEYS:
            text = value.get(key)
            if isinstance(text, str) and text.strip():
                return text
    return None
