"""Small repairs that every file of the contract may need, each with a note: names, times, words, ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats import document_paths, timestamps
from holdfast.formats.base import Document, FormatNote, ImportContext, Place
from holdfast.formats.contract.fields import is_task_name


class Notes:
    """What had to be assumed, in the order it was met."""

    def __init__(self, ground: ImportContext) -> None:
        self.ground = ground
        self.told: list[FormatNote] = []

    def say(self, place: Place, message: str) -> None:
        self.told.append(FormatNote(place, message))

    def time(self, value: Json, place: Place) -> str:
        """A time in UTC, spelled with `Z`."""
        if isinstance(value, str):
            if timestamps.is_utc(value):
                return value
            try:
                moment = timestamps.read(value, self.ground)
            except Invalid as error:
                hint = error.hint or "Write it as RFC 3339, for instance 2026-11-15T09:30:00Z."
                raise Invalid(f"{document_paths.written(place)}: {error.message}", hint=hint) from None
            made = timestamps.shortest(moment.ms)
            self.say(place, moment.assumed or f"{shorten(value, 40)} is written as {made}")
            return made
        raise Invalid(
            f"{document_paths.written(place)} is not a time",
            hint="Write it as text, for instance 2026-11-15T09:30:00Z.",
        )

    def first_time(self, candidates: Iterable[Json], place: Place) -> str | None:
        """The first of these that is there; the first of all is the one that should have been."""
        for number, candidate in enumerate(candidates):
            if candidate is not None:
                made = self.time(candidate, place)
                if number:
                    self.say(place, f"is missing: {made} is assumed")
                return made
        return None

    def word(self, value: Json, allowed: Sequence[str], others: Mapping[str, str], place: Place, usual: str) -> str:
        """One of a closed list of words, also in the spellings that are met."""
        if isinstance(value, str) and value in allowed:
            return value
        if value is None or value == "":
            self.say(place, f"is missing: {usual} is assumed")
            return usual
        plain = value.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(value, str) else ""
        meant = plain if plain in allowed else others.get(plain)
        if meant is None:
            raise Invalid(
                f"{document_paths.written(place)} is {shorten(str(value), 40)!a}, "
                f"which is none of {', '.join(allowed)}",
                hint="Write one of them.",
            )
        self.say(place, f"{shorten(str(value), 40)} is read as {meant}")
        return meant

    def task_name(self, value: Json, place: Place, *, missing: bool) -> str | None:
        """A task's id in the alphabet that commands take; None when there is none."""
        if missing or value is None:
            self.say(place, "is missing: null is assumed")
            return None
        given = number_text(value)
        if isinstance(value, str) and is_task_name(value):
            return value
        made = task_name_of(given)
        self.say(place, f"{shorten(given, 40)!a} is read as {made}" if made else "is empty: null is assumed")
        return made or None


def task_name_of(given: str) -> str:
    """The nearest id that is one; empty when nothing of it is left."""
    if is_task_name(given):
        return given
    kept = "".join(c if (c.isascii() and c.isalnum()) or c in "._-" else "-" for c in given.strip())
    return kept.strip("-").lstrip(".-")[:100]


def number_text(value: Json) -> str:
    """Text, or a number as text: ids and versions are often written without quotes."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def renamed(value: Mapping[str, Json], names: Mapping[str, str], place: Place, notes: Notes) -> Document:
    """The object with other names for its keys put right, where the right one is not there."""
    made: Document = {}
    for key, inner in value.items():
        meant = names.get(key)
        if meant is not None and meant not in value and meant not in made:
            notes.say((*place, key), f"is read as {meant}")
            made[meant] = inner
        else:
            made[key] = inner
    return made


def at_end(value: Mapping[str, Json], more: Mapping[str, Json]) -> Document:
    """The object with these values: where the keys stand already, else at its end."""
    return {**value, **more}
