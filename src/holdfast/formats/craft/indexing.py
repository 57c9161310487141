"""The index of craft sessions, which other programs write too: our entries are merged into what stands there."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.model import Row
from holdfast.formats.craft.rendering import index
from holdfast.formats.interface import Document


def entries(value: Json) -> list[Document]:
    """The entries of an index. Raises `Invalid` when it is none."""
    listed = value.get("sessions") if isinstance(value, dict) else None
    found = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if found != listed:
        raise Invalid("it is no index of sessions: an object whose `sessions` is a list of objects")
    return found


def ids(value: Document) -> set[str]:
    return {name for entry in entries(value) if (name := _id(entry))} if value else set()


def merged(value: Document, rows: list[Row], ended: Collection[str]) -> Document:
    """An index, or {}, with these sessions brought up to date and without those that ended being shown.

    Entries of other sessions stay, and so do the keys that another program added, to the index or to any entry.
    """
    ours = index(rows)
    fresh = {_id(entry): entry for entry in entries(ours)}
    standing = [entry for entry in entries(value) if _id(entry) not in ended] if value else []
    every = [entry | fresh.get(_id(entry), {}) for entry in standing]
    listed = {_id(entry) for entry in standing}
    every += [entry for name, entry in fresh.items() if name not in listed]
    every.sort(key=lambda entry: str(entry.get("session_id")))
    every.sort(key=lambda entry: str(entry.get("updated_at", "")), reverse=True)
    return ours | value | {"sessions": [*every]}


def is_empty(value: Document) -> bool:
    """Whether nothing would be lost with it."""
    return not value["sessions"] and value.keys() == index([]).keys()


def _id(entry: Document) -> str:
    name = entry.get("session_id")
    return name if isinstance(name, str) else ""
