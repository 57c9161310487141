"""Putting one object of a craft document right, field by field, and saying what was assumed.

A value that is merely spelled otherwise is spelled anew. One that cannot be used is set aside under `<key>_as_found`:
nothing anybody wrote is lost.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats import timestamps
from holdfast.formats.base import Document, FormatNote, ImportContext, Place
from holdfast.formats.craft.structs import AS_FOUND

_NUMBER: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(%?)\s*\Z", re.ASCII)
_YES: Final = {"true": True, "yes": True, "false": False, "no": False}
# Of whole numbers that stand for a time, those beyond this are milliseconds since 1970.
_MILLIS_FROM: Final = 100_000_000_000


class ObjectRepair:
    """An object of the document, being put right."""

    def __init__(self, data: Document, place: Place, ground: ImportContext, notes: list[FormatNote]) -> None:
        self.data = dict(data)
        self.place = place
        self.ground = ground
        self.notes = notes
        # The project's directory, as the document names it.
        self.folder: str | None = None
        self._aside: set[str] = set()

    def inner(self, data: Document, *steps: str | int) -> ObjectRepair:
        made = ObjectRepair(data, (*self.place, *steps), self.ground, self.notes)
        made.folder = self.folder
        return made

    def say(self, key: str, message: str) -> None:
        self.notes.append(FormatNote((*self.place, key), message))

    def set_aside(self, key: str, why: str) -> None:
        """Keep what cannot be used where it disturbs nobody."""
        self.data[f"{key}{AS_FOUND}"] = self.data.pop(key)
        self._aside.add(key)
        self.say(key, f"{why}; kept as {key}{AS_FOUND}")

    def adopt(self, key: str, *others: str) -> None:
        """Where the key is missing, what another program calls the same thing."""
        if self.data.get(key) is not None:
            return
        for other in others:
            if self.data.get(other) is not None:
                self.data[key] = self.data[other]
                self.say(key, f"is missing; taken from {other}")
                return

    def missing(self, key: str, value: Json) -> None:
        """Fill a field that must be there."""
        if self.data.get(key) is None:
            self.data[key] = value
            shown = "empty" if value in ("", [], {}) else shorten(str(value), 60)
            self.say(key, f"taken as {shown}" if key in self._aside else f"is missing; taken as {shown}")

    # ── kinds of field ───────────────────────────────────────────────────────────────────────────────────

    def text(self, key: str, *, blank: bool = True) -> None:
        found = self.data.get(key)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            self.data[key] = str(found)
            self.say(key, "is a number; taken as text")
        elif isinstance(found, str) and not blank and not found.strip():
            self.set_aside(key, "is empty")
        elif found is not None and not isinstance(found, str):
            words = words_of(found)
            self.set_aside(key, "is not text")
            if words is not None:
                self.data[key] = words

    def time(self, key: str) -> None:
        """A time: in UTC, spelled as craft does."""
        found = self.data.get(key)
        if found is None or (isinstance(found, str) and timestamps.is_utc(found)):
            return
        if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < 1e15:
            self.data[key] = timestamps.in_millis(int(found if found >= _MILLIS_FROM else found * 1000))
            self.say(key, f"is a number; taken as {'milli' * (found >= _MILLIS_FROM)}seconds since 1970")
            return
        try:
            moment = timestamps.read(str(found), self.ground)
        except Invalid:
            self.set_aside(key, "is no time")
            return
        self.data[key] = timestamps.in_millis(moment.ms)
        self.say(key, moment.assumed or f"{shorten(str(found), 40)} is written in UTC: {self.data[key]}")

    def count(self, key: str) -> None:
        found = self.data.get(key)
        if found is None or (type(found) is int and 0 <= found <= MAX_SAFE_INTEGER):
            return
        number = _number(found)
        if number is None or not 0 <= number <= MAX_SAFE_INTEGER or number != int(number):
            self.set_aside(key, "is no count")
            return
        self.data[key] = int(number)
        self.say(key, f"is taken as the whole number {int(number)}")

    def fraction(self, key: str) -> None:
        """A part of the whole, from 0 to 1; what is greater is taken as percent."""
        found = self.data.get(key)
        if found is None or (type(found) in (int, float) and 0 <= float(found) <= 1):  # type: ignore[arg-type]
            return
        number = _number(found)
        percent = isinstance(found, str) and "%" in found
        if number is None or not 0 <= number <= 100:
            self.set_aside(key, "is not a number from 0 to 1")
            return
        made = number / 100 if percent or number > 1 else number
        self.data[key] = made
        self.say(key, f"{shorten(str(found), 20)} is taken as {made:g}")

    def flag(self, key: str) -> None:
        found = self.data.get(key)
        if found is None or isinstance(found, bool):
            return
        meant = _YES.get(str(found).strip().lower())
        if meant is None:
            self.set_aside(key, "is neither true nor false")
            return
        self.data[key] = meant
        self.say(key, f"is taken as {str(meant).lower()}")

    def word(self, key: str, allowed: Collection[str], also: Mapping[str, str]) -> None:
        """One of a few words; `also` are other words for them."""
        found = self.data.get(key)
        if found is None or (isinstance(found, str) and found in allowed):
            return
        plain = re.sub(r"[\s-]+", "_", str(found).strip().lower())
        meant = next((name for name in allowed if name.replace("-", "_") == plain), also.get(plain))
        if meant is None or not isinstance(found, str):
            self.set_aside(key, f"{shorten(str(found), 40)!a} is none of {', '.join(sorted(allowed))}")
            return
        self.data[key] = meant
        self.say(key, f"{shorten(found, 40)!a} is taken as {meant}")

    def texts(self, key: str) -> None:
        """A list of texts: one text alone is a list of one, an object is what it says."""
        found = self.listed(key)
        if found is None or all(isinstance(entry, str) for entry in found):
            return
        made: list[Json] = []
        for index, entry in enumerate(found):
            words = words_of(entry)
            if not isinstance(entry, str):
                taken = "left out" if words is None else f"taken as {shorten(words, 60)!a}"
                self.notes.append(FormatNote((*self.place, key, index), f"is not text; {taken}"))
            if words is not None:
                made.append(words)
        earlier = self.data.get(f"{key}{AS_FOUND}")
        if isinstance(earlier, list):  # kept before, next to what is a list of texts since
            found = [*earlier, *(entry for entry in found if not isinstance(entry, str) and entry not in earlier)]
        self.data[f"{key}{AS_FOUND}"] = found
        self.data[key] = made

    def listed(self, key: str) -> list[Json] | None:
        """A list, or None when there is none."""
        found = self.data.get(key)
        if isinstance(found, list) or found is None:
            return found
        if isinstance(found, tuple):
            found = list(found)
        elif isinstance(found, dict):
            # A list by name: each entry says its name itself.
            found = [{"id": name, **entry} if isinstance(entry, dict) else entry for name, entry in found.items()]
            self.data[f"{key}{AS_FOUND}"] = self.data[key]
        else:
            found = [found]
        self.say(key, "is not a list; taken as one")
        self.data[key] = found
        return found


def words_of(value: Json) -> str | None:
    """What an entry says, if that can be put in words."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, dict):
        for key in (
            "task",
            "text",
            "title",
            "description",
            "name",
            "content",
            "summary",
            "goal",
            "path",
            "file",
            "id",
        ):
            found = value.get(key)
            if isinstance(found, str) and found.strip():
                return found
    return None


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        match = _NUMBER.match(value)
        return None if match is None else float(match[1])
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
