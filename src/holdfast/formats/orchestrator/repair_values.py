"""Repair single values of an orchestrator document: times, numbers, words, lists. Every assumption is noted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats.base import KEPT_SUFFIX, FormatNote, ImportContext, Place
from holdfast.formats.document_paths import format_place
from holdfast.formats.orchestrator.fields import plain
from holdfast.formats.schema import kind_of
from holdfast.formats.timestamps import in_shortest_form, is_utc, read_time

_NUMBER: Final = re.compile(r"[0-9][0-9,_ ]*(?:\.[0-9]+)?\Z", re.ASCII)
_SECONDS: Final = range(10**8, 10**11)
_MILLIS: Final = range(10**11, 10**14)


def wrong(place: Place, why: str, hint: str | None = None) -> Invalid:
    return Invalid(
        f"{format_place(place)} {why}", hint=hint or "holdfast validate lists everything that is wrong with it."
    )


class ValueRepair:
    def __init__(self, context: ImportContext) -> None:
        self.context = context
        self.notes: list[FormatNote] = []
        # By list: entries that the format cannot hold completely, as they were written.
        self.kept: dict[str, list[Json]] = {}

    def note(self, place: Place, message: str) -> None:
        self.notes.append(FormatNote(place, message))

    def left_out(self, entry: Json, place: Place) -> None:
        """Note an unusable entry; unless it is empty, keep it as it was written."""
        values = entry.values() if isinstance(entry, dict) else ()
        has_content = any(
            value.strip() if isinstance(value, str) else value not in (None, [], {}) for value in values
        )
        self.note(
            place, f"has no text and is left out{f', but kept in {place[0]}{KEPT_SUFFIX}' if has_content else ''}"
        )
        if has_content:
            self.keep(entry, place)

    def keep(self, entry: Json, place: Place) -> None:
        """Keep an entry as it was written, next to its list."""
        self.kept.setdefault(str(place[0]), []).append(entry)

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────────────

    def renamed(self, entry: dict[str, Json], names: Mapping[str, tuple[str, ...]], place: Place) -> dict[str, Json]:
        """The entry with alternative keys renamed, in the same order."""
        new_names: dict[str, str] = {}
        for right, others in names.items():
            other = next((other for other in others if right not in entry and entry.get(other) is not None), None)
            if other is not None and other not in new_names:
                new_names[other] = right
                self.note((*place, other), f"read as {right}")
        return {new_names.get(key, key): value for key, value in entry.items()}

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────

    def time(self, value: Json, place: Place) -> str | None:
        """A time in UTC, as this format writes it; None when empty. Raises `Invalid` for anything else."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if isinstance(value, str) and is_utc(value):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._counted(value, place)
        if not isinstance(value, str):
            raise wrong(place, f"must be a time, is {kind_of(value)}")
        try:
            moment = read_time(value, self.context)
        except Invalid as error:
            raise wrong(place, f"is not a time: {error.message}", error.hint) from None
        repaired = in_shortest_form(moment.ms)
        self.note(place, f"{moment.assumed or 'written in UTC'}: {shorten(value, 40)} is {repaired}")
        return repaired

    def _counted(self, value: float, place: Place) -> str:
        number = int(value) if abs(value) <= MAX_SAFE_INTEGER else 0
        if number in _SECONDS:
            repaired = in_shortest_form(int(value * 1000))
        elif number in _MILLIS:
            repaired = in_shortest_form(number)
        else:
            raise wrong(place, f"is not a time: {shorten(str(value), 30)}")
        self.note(place, f"a number is taken as time since 1970: {repaired}")
        return repaired

    def number(self, value: Json, place: Place) -> float | None:
        """A number, also from unambiguous text; None when there is none."""
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return value
        if isinstance(value, str):
            bare = value.strip().lstrip("~").removesuffix("%").strip()
            if _NUMBER.match(bare):
                number_read = float(re.sub("[,_ ]", "", bare))
                self.note(place, f"read as the number {number_read:g}: {shorten(value, 30)}")
                return number_read
        raise wrong(place, f"must be a number, is {kind_of(value)}")

    def whole(self, value: Json, place: Place, maximum: int = MAX_SAFE_INTEGER) -> int | None:
        number = self.number(value, place)
        if number is None or (isinstance(number, int) and 0 <= number <= maximum):
            return number
        repaired = round(min(max(number, 0), maximum))
        if repaired != number or isinstance(value, float):
            self.note(place, f"taken as {repaired}")
        return repaired

    def text(self, value: Json, place: Place) -> str | None:
        """Text; None when there is none."""
        if value is None:
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.note(place, "a number is taken as text")
            return str(value)
        raise wrong(place, f"must be text, is {kind_of(value)}")

    def word(self, value: str, place: Place, known: Mapping[str, str], synonyms: Mapping[str, str]) -> str | None:
        """One of the known words, also by a synonym; None when it is neither."""
        if value in known:
            return value
        normal = plain(value)
        word_meant = normal if normal in known else synonyms.get(normal)
        if word_meant is not None:
            self.note(place, f"{shorten(value, 30)!r} is taken as {word_meant}")
        return word_meant

    def entries(self, value: Json, place: Place) -> list[Json]:
        """A list; a single value becomes a list of one."""
        if isinstance(value, list):
            return value
        if value is None:
            self.note(place, "is missing, taken as empty")
            return []
        self.note(place, "is not a list, taken as a list of one")
        return [value]
