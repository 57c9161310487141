"""Repairs of single values for all files of the contract, each with a note: names, times, words, ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats import document_paths, timestamps
from holdfast.formats.base import Document, FormatNote, ImportContext, Place
from holdfast.formats.contract.fields import is_task_name


class RepairNotes:
    """Repairs values and collects the assumptions made."""

    def __init__(self, context: ImportContext) -> None:
        self.context = context
        self.notes: list[FormatNote] = []

    def note(self, place: Place, message: str) -> None:
        self.notes.append(FormatNote(place, message))

    def time(self, value: Json, place: Place) -> str:
        """A time in UTC, spelled with `Z`."""
        if isinstance(value, str):
            if timestamps.is_utc(value):
                return value
            try:
                moment = timestamps.read_time(value, self.context)
            except Invalid as error:
                hint = error.hint or "Write it as RFC 3339, for example 2026-11-15T09:30:00Z."
                raise Invalid(f"{document_paths.format_place(place)}: {error.message}", hint=hint) from None
            repaired = timestamps.in_shortest_form(moment.ms)
            self.note(place, moment.assumed or f"{shorten(value, 40)} is written as {repaired}")
            return repaired
        raise Invalid(
            f"{document_paths.format_place(place)} is not a time",
            hint="Write it as text, for example 2026-11-15T09:30:00Z.",
        )

    def first_time(self, candidates: Iterable[Json], place: Place) -> str | None:
        """The first candidate that is not None; any but the very first is noted as a substitute."""
        for number, candidate in enumerate(candidates):
            if candidate is not None:
                repaired = self.time(candidate, place)
                if number:
                    self.note(place, f"is missing: {repaired} is assumed")
                return repaired
        return None

    def word(self, value: Json, allowed: Sequence[str], others: Mapping[str, str], place: Place, usual: str) -> str:
        """One of the allowed words; `others` maps other words to them."""
        if isinstance(value, str) and value in allowed:
            return value
        if value is None or value == "":
            self.note(place, f"is missing: {usual} is assumed")
            return usual
        plain = value.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(value, str) else ""
        word = plain if plain in allowed else others.get(plain)
        if word is None:
            raise Invalid(
                f"{document_paths.format_place(place)} is {shorten(str(value), 40)!a}; "
                f"expected one of {', '.join(allowed)}",
                hint="Write one of them.",
            )
        self.note(place, f"{shorten(str(value), 40)} is read as {word}")
        return word

    def task_name(self, value: Json, place: Place, *, missing: bool) -> str | None:
        """A task's id in the characters that commands accept; None when there is none."""
        if missing or value is None:
            self.note(place, "is missing: null is assumed")
            return None
        written = number_text(value)
        if isinstance(value, str) and is_task_name(value):
            return value
        repaired = task_name_of(written)
        self.note(
            place, f"{shorten(written, 40)!a} is read as {repaired}" if repaired else "is empty: null is assumed"
        )
        return repaired or None


def task_name_of(written: str) -> str:
    """The nearest valid id; empty when nothing is left of it."""
    if is_task_name(written):
        return written
    allowed = "".join(c if (c.isascii() and c.isalnum()) or c in "._-" else "-" for c in written.strip())
    return allowed.strip("-").lstrip(".-")[:100]


def number_text(value: Json) -> str:
    """Text, or a number as text: ids and versions are often unquoted in YAML."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def rename_keys(value: Mapping[str, Json], names: Mapping[str, str], place: Place, notes: RepairNotes) -> Document:
    """The object with alternative keys renamed where the right key is missing."""
    repaired: Document = {}
    for key, inner in value.items():
        name = names.get(key)
        if name is not None and name not in value and name not in repaired:
            notes.note((*place, key), f"is read as {name}")
            repaired[name] = inner
        else:
            repaired[key] = inner
    return repaired


def with_values(value: Mapping[str, Json], values: Mapping[str, Json]) -> Document:
    """The object with these values: in place where the key exists, else at the end."""
    return {**value, **values}
