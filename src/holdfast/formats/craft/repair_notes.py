"""Repair one object of a craft document field by field, and note every assumption.

A value in another spelling is respelled. One that cannot be used is kept under `<key>_as_found`, so nothing is lost.
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
from holdfast.formats.craft.fields import KEPT_SUFFIX

_NUMBER: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(%?)\s*\Z", re.ASCII)
_YES: Final = {"true": True, "yes": True, "false": False, "no": False}
# Numbers from here on are milliseconds since 1970, smaller ones seconds.
_MILLIS_FROM: Final = 100_000_000_000


class ObjectRepair:
    """One object of the document and its repairs."""

    def __init__(self, data: Document, place: Place, context: ImportContext, notes: list[FormatNote]) -> None:
        self.data = dict(data)
        self.place = place
        self.context = context
        self.notes = notes
        # The project's directory, as the document names it.
        self.folder: str | None = None
        self._aside: set[str] = set()

    def inner(self, data: Document, *steps: str | int) -> ObjectRepair:
        repaired = ObjectRepair(data, (*self.place, *steps), self.context, self.notes)
        repaired.folder = self.folder
        return repaired

    def note(self, key: str, message: str) -> None:
        self.notes.append(FormatNote((*self.place, key), message))

    def set_aside(self, key: str, why: str) -> None:
        """Move a value that cannot be used to `<key>_as_found`."""
        self.data[f"{key}{KEPT_SUFFIX}"] = self.data.pop(key)
        self._aside.add(key)
        self.note(key, f"{why}; kept as {key}{KEPT_SUFFIX}")

    def adopt(self, key: str, *others: str) -> None:
        """Fill a missing key from another program's name for it."""
        if self.data.get(key) is not None:
            return
        for other in others:
            if self.data.get(other) is not None:
                self.data[key] = self.data[other]
                self.note(key, f"is missing; taken from {other}")
                return

    def missing(self, key: str, value: Json) -> None:
        """Fill a required field."""
        if self.data.get(key) is None:
            self.data[key] = value
            shown = "empty" if value in ("", [], {}) else shorten(str(value), 60)
            self.note(key, f"taken as {shown}" if key in self._aside else f"is missing; taken as {shown}")

    # ── kinds of field ───────────────────────────────────────────────────────────────────────────────────

    def text(self, key: str, *, blank: bool = True) -> None:
        value = self.data.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.data[key] = str(value)
            self.note(key, "is a number; taken as text")
        elif isinstance(value, str) and not blank and not value.strip():
            self.set_aside(key, "is empty")
        elif value is not None and not isinstance(value, str):
            words = words_of(value)
            self.set_aside(key, "is not text")
            if words is not None:
                self.data[key] = words

    def time(self, key: str) -> None:
        """A time in UTC, in craft's spelling."""
        value = self.data.get(key)
        if value is None or (isinstance(value, str) and timestamps.is_utc(value)):
            return
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15:
            self.data[key] = timestamps.in_millis(int(value if value >= _MILLIS_FROM else value * 1000))
            self.note(key, f"is a number; taken as {'milli' * (value >= _MILLIS_FROM)}seconds since 1970")
            return
        try:
            moment = timestamps.read_time(str(value), self.context)
        except Invalid:
            self.set_aside(key, "is not a time")
            return
        self.data[key] = timestamps.in_millis(moment.ms)
        self.note(key, moment.assumed or f"{shorten(str(value), 40)} is written in UTC: {self.data[key]}")

    def count(self, key: str) -> None:
        value = self.data.get(key)
        if value is None or (type(value) is int and 0 <= value <= MAX_SAFE_INTEGER):
            return
        number = _number(value)
        if number is None or not 0 <= number <= MAX_SAFE_INTEGER or number != int(number):
            self.set_aside(key, "is not a count")
            return
        self.data[key] = int(number)
        self.note(key, f"is taken as the whole number {int(number)}")

    def fraction(self, key: str) -> None:
        """A number from 0 to 1; a greater one is taken as percent."""
        value = self.data.get(key)
        if value is None or (type(value) in (int, float) and 0 <= float(value) <= 1):  # type: ignore[arg-type]
            return
        number = _number(value)
        percent = isinstance(value, str) and "%" in value
        if number is None or not 0 <= number <= 100:
            self.set_aside(key, "is not a number from 0 to 1")
            return
        repaired = number / 100 if percent or number > 1 else number
        self.data[key] = repaired
        self.note(key, f"{shorten(str(value), 20)} is taken as {repaired:g}")

    def flag(self, key: str) -> None:
        value = self.data.get(key)
        if value is None or isinstance(value, bool):
            return
        flag = _YES.get(str(value).strip().lower())
        if flag is None:
            self.set_aside(key, "is neither true nor false")
            return
        self.data[key] = flag
        self.note(key, f"is taken as {str(flag).lower()}")

    def word(self, key: str, allowed: Collection[str], also: Mapping[str, str]) -> None:
        """One of the allowed words; `also` maps other words to them."""
        value = self.data.get(key)
        if value is None or (isinstance(value, str) and value in allowed):
            return
        plain = re.sub(r"[\s-]+", "_", str(value).strip().lower())
        word = next((name for name in allowed if name.replace("-", "_") == plain), also.get(plain))
        if word is None or not isinstance(value, str):
            self.set_aside(key, f"{shorten(str(value), 40)!a} is none of {', '.join(sorted(allowed))}")
            return
        self.data[key] = word
        self.note(key, f"{shorten(value, 40)!a} is taken as {word}")

    def texts(self, key: str) -> None:
        """A list of texts; a single text becomes a list, an object its words."""
        entries = self.listed(key)
        if entries is None or all(isinstance(entry, str) for entry in entries):
            return
        repaired: list[Json] = []
        for index, entry in enumerate(entries):
            words = words_of(entry)
            if not isinstance(entry, str):
                taken = "left out" if words is None else f"taken as {shorten(words, 60)!a}"
                self.notes.append(FormatNote((*self.place, key, index), f"is not text; {taken}"))
            if words is not None:
                repaired.append(words)
        earlier = self.data.get(f"{key}{KEPT_SUFFIX}")
        if isinstance(earlier, list):  # kept by an earlier repair
            entries = [*earlier, *(entry for entry in entries if not isinstance(entry, str) and entry not in earlier)]
        self.data[f"{key}{KEPT_SUFFIX}"] = entries
        self.data[key] = repaired

    def listed(self, key: str) -> list[Json] | None:
        """A list, or None when there is none."""
        value = self.data.get(key)
        if isinstance(value, list) or value is None:
            return value
        if isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, dict):
            # An object by name: each entry gets its name as id.
            value = [{"id": name, **entry} if isinstance(entry, dict) else entry for name, entry in value.items()]
            self.data[f"{key}{KEPT_SUFFIX}"] = self.data[key]
        else:
            value = [value]
        self.note(key, "is not a list; taken as one")
        self.data[key] = value
        return value


def words_of(value: Json) -> str | None:
    """The text of an entry, if it has one."""
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
            text = value.get(key)
            if isinstance(text, str) and text.strip():
                return text
    return None


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        match = _NUMBER.match(value)
        return None if match is None else float(match[1])
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
