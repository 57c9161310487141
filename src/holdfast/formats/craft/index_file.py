"""The index of craft sessions, which other programs write too: our entries are merged into what stands there."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.model import Row
from holdfast.formats.base import Document
from holdfast.formats.craft.render import index


def entries(value: Json) -> list[Document]:
    """The entries of an index. Raises `Invalid` when it is none."""
    listed = value.get("sessions") if isinstance(value, dict) else None
    found = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if found != listed:
        raise Invalid("it is not an index of sessions: an object whose `sessions` is a list of objects")
    return found


def names(value: Document) -> set[str]:
    """How the files of an index are called, without their ending."""
    return {name for entry in entries(value) if (name := _name(entry))} if value else set()


def merged(value: Document, rows: list[Row], ended: Collection[str], files: Mapping[str, str]) -> Document:
    """An index, or {}, with these sessions brought up to date and without those that ended being shown.

    `ended` are names of files, `files` those of the sessions. Entries of other sessions stay, and so do the keys that
    another program added, to the index or to any entry.
    """
    ours = index(rows, files)
    fresh = {_name(entry): entry for entry in entries(ours)}
    standing = [entry for entry in entries(value) if _name(entry) not in ended] if value else []
    every = [entry | fresh.get(_name(entry), {}) for entry in standing]
    listed = {_name(entry) for entry in standing}
    every += [entry for name, entry in fresh.items() if name not in listed]
    every.sort(key=lambda entry: str(entry.get("session_id")))
    every.sort(key=lambda entry: str(entry.get("updated_at", "")), reverse=True)
    return ours | value | {"sessions": [*every]}


def is_empty(value: Document) -> bool:
    """Whether nothing would be lost with it."""
    return not value["sessions"] and value.keys() == index([]).keys()


def _name(entry: Document) -> str:
    """The name of a session's file, without its ending: what an entry is known by."""
    file, session = entry.get("file"), entry.get("session_id")
    if isinstance(file, str) and file.endswith(".json"):
        return posixpath.basename(file).removesuffix(".json")
    return session if isinstance(session, str) else ""
