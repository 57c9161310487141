"""Reading the fields of a document, each as what it must be: whatever is something else counts as absent."""

from __future__ import annotations

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.times import parse_time
from holdfast.formats.base import Document


def text(part: Document, key: str) -> str | None:
    found = part.get(key)
    return found if isinstance(found, str) else None


def said(part: Document, key: str) -> str | None:
    """Text that says something."""
    found = text(part, key)
    return found if found is not None and found.strip() else None


def whole(part: Document, key: str) -> int | None:
    found = part.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def number(part: Document, key: str) -> float | None:
    found = part.get(key)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def moment(part: Document, key: str) -> int | None:
    found = part.get(key)
    if not isinstance(found, str):
        return None
    try:
        return parse_time(found)
    except Invalid:
        return None


def part(whole_document: Document, key: str) -> Document:
    found = whole_document.get(key)
    return found if isinstance(found, dict) else {}


def parts(document: Document, key: str) -> list[Document]:
    """The objects in a list."""
    return [entry for entry in entries(document, key) if isinstance(entry, dict)]


def texts(document: Document, key: str) -> list[str]:
    """The texts in a list that say something."""
    return [entry for entry in entries(document, key) if isinstance(entry, str) and entry.strip()]


def entries(document: Document, key: str) -> list[Json]:
    found = document.get(key)
    return found if isinstance(found, list) else []
