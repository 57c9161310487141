"""Single values of a timer's file as people and programs write them: times, counts, texts and flags.

What had to be assumed is noted; what cannot be read is refused with its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import EARLIEST, LATEST, SECOND
from holdfast.formats import document_paths, timestamps
from holdfast.formats.base import Document, FormatNote, ImportContext, Place

# Where an object stands for a text, one of these says it.
_SAID: Final = ("text", "name", "title", "description", "reason", "task", "summary")
_WHOLE: Final = re.compile(r"\d{1,15}(?:\.0+)?\Z", re.ASCII)
# Numbers of this size and above are milliseconds since 1970, smaller ones seconds: the border lies in 1973 and 5138.
_MILLISECONDS: Final = 10**11


class Values:
    def __init__(self, ground: ImportContext, notes: list[FormatNote]) -> None:
        self._ground = ground
        self._notes = notes

    def note(self, place: Place, message: str) -> None:
        self._notes.append(FormatNote(place, message))

    def spelled(self, ms: int) -> str:
        return timestamps.shortest(ms)

    def renamed(self, found: Document, names: Mapping[str, tuple[str, ...]], place: Place) -> Document:
        """The document with the names of this format, where it has others; the order of keys stays."""
        meant: dict[str, str] = {}
        for name, others in names.items():
            other = next((other for other in others if found.get(other) is not None), None)
            if found.get(name) is None and other is not None:
                meant[other] = name
                self.note((*place, name), f"is called {other} here")
        taken = set(meant.values())
        return {meant.get(key, key): value for key, value in found.items() if key not in taken}

    def moment(self, found: Document, name: str, place: Place) -> int | None:
        """A time, put into the document as this format spells it unless it was right already."""
        written = found.get(name)
        if written is None:
            return None
        here = (*place, name)
        if isinstance(written, (int, float)) and not isinstance(written, bool) and abs(written) < LATEST:
            ms = int(written) if abs(written) >= _MILLISECONDS else int(written * SECOND)
            assumed: str | None = "a number is taken as the time since 1970"
        elif isinstance(written, str):
            try:
                ms, assumed = timestamps.read(written, self._ground)
            except Invalid as error:
                raise Invalid(f"{document_paths.written(here)}: {error.message}", hint=error.hint) from None
            if assumed is None and not _is_proper(written):
                assumed = f"{shorten(written, 40)!a} is respelled"
        else:
            raise Invalid(f"{document_paths.written(here)} is not a time", hint="Write it as 2026-11-15T09:30:00Z.")
        if assumed is not None:
            found[name] = self.spelled(min(max(ms, EARLIEST), LATEST))
            self.note(here, assumed)
        return ms

    def count(self, value: Json) -> int | None:
        """Milliseconds, also as text or with a fraction of nothing; None when it is no count."""
        if isinstance(value, bool):
            return None
        if isinstance(value, (int, float)) and 0 <= value < LATEST and value == int(value):
            return int(value)
        if isinstance(value, str) and _WHOLE.match(value.strip()):
            return int(float(value))
        return None

    def text(self, value: Json, place: Place) -> str | None:
        """A text; None when there is none."""
        match value:
            case None:
                return None
            case str():
                return value
            case bool():
                pass
            case int() | float():
                self.note(place, "a number is taken as text")
                return str(value)
            case dict():
                said = next((one for key in _SAID if isinstance(one := value.get(key), str)), None)
                if said is not None:
                    self.note(place, "an object is taken as the text in it")
                    return said
        raise Invalid(f"{document_paths.written(place)} is not a text")

    def flag(self, value: Json) -> bool | None:
        """Yes or no in the usual spellings; None when it is neither."""
        if isinstance(value, str):
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
                value.strip().lower()
            )
        if isinstance(value, (bool, int, float)):
            return bool(value)
        return None


def _is_proper(written: str) -> bool:
    """Spelled as the schema wants it: with seconds, a T and a zone with a colon."""
    return (
        re.match(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)\Z", written, re.ASCII)
        is not None
    )
