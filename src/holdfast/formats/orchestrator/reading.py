"""Single values of a tidy document, as what they mean; what is missing, null or blank is None."""

from __future__ import annotations

from holdfast.core.canonical import Json
from holdfast.formats.entries import named
from holdfast.formats.interface import Document
from holdfast.formats.orchestrator.names import IDENTITIES
from holdfast.formats.orchestrator.rules import moment


def words(entry: dict[str, Json], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) and value.strip() else None


def when(entry: dict[str, Json], key: str) -> int | None:
    return moment(entry.get(key))


def whole(entry: dict[str, Json], key: str) -> int | None:
    value = entry.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def part(document: Document, key: str) -> dict[str, Json]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def names(document: Document | None, key: str) -> dict[str, Json]:
    """The entries of a list by their names."""
    value = (document or {}).get(key)
    return dict(named(value, (key,), IDENTITIES)) if isinstance(value, list) else {}


def objects(document: Document | None, key: str) -> dict[str, dict[str, Json]]:
    return {name: entry for name, entry in names(document, key).items() if isinstance(entry, dict)}
