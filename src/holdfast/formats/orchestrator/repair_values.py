"""Single values as they are met in the wild, put right: times, numbers, words, lists. Every assumption is noted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats.base import FormatNote, ImportContext, Place
from holdfast.formats.document_paths import written
from holdfast.formats.orchestrator.names import AS_FOUND
from holdfast.formats.orchestrator.statuses import plain
from holdfast.formats.schema import kind_of
from holdfast.formats.timestamps import is_utc, read, shortest

_NUMBER: Final = re.compile(r"[0-9][0-9,_ ]*(?:\.[0-9]+)?\Z", re.ASCII)
_SECONDS: Final = range(10**8, 10**11)
_MILLIS: Final = range(10**11, 10**14)


def wrong(place: Place, why: str, hint: str | None = None) -> Invalid:
    return Invalid(
        f"{written(place)} {why}", hint=hint or "holdfast validate lists everything that is wrong with it."
    )


class ValueRepair:
    def __init__(self, ground: ImportContext) -> None:
        self.ground = ground
        self.notes: list[FormatNote] = []
        # By list: entries of which the format has no room for everything, as they were written.
        self.as_found: dict[str, list[Json]] = {}

    def note(self, place: Place, message: str) -> None:
        self.notes.append(FormatNote(place, message))

    def left_out(self, entry: Json, place: Place) -> None:
        """Note an entry that is no entry of its list; unless it is empty, it is kept as it was written."""
        said = entry.values() if isinstance(entry, dict) else ()
        more = any(value.strip() if isinstance(value, str) else value not in (None, [], {}) for value in said)
        self.note(place, f"says nothing and is left out{f', but kept in {place[0]}{AS_FOUND}' if more else ''}")
        if more:
            self.keep(entry, place)

    def keep(self, entry: Json, place: Place) -> None:
        """Keep an entry as it was written, next to its list."""
        self.as_found.setdefault(str(place[0]), []).append(entry)

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────────────

    def renamed(self, entry: dict[str, Json], names: Mapping[str, tuple[str, ...]], place: Place) -> dict[str, Json]:
        """Keys under the names of this format, each where it stood."""
        meant: dict[str, str] = {}
        for right, others in names.items():
            other = next((other for other in others if right not in entry and entry.get(other) is not None), None)
            if other is not None and other not in meant:
                meant[other] = right
                self.note((*place, other), f"read as {right}")
        return {meant.get(key, key): value for key, value in entry.items()}

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────

    def time(self, value: Json, place: Place) -> str | None:
        """In UTC, as this format writes it; None when there is none. Raises `Invalid` for what is no time."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if isinstance(value, str) and is_utc(value):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._counted(value, place)
        if not isinstance(value, str):
            raise wrong(place, f"must be a time, is {kind_of(value)}")
        try:
            found = read(value, self.ground)
        except Invalid as error:
            raise wrong(place, f"is not a time: {error.message}", error.hint) from None
        made = shortest(found.ms)
        self.note(place, f"{found.assumed or 'written in UTC'}: {shorten(value, 40)} is {made}")
        return made

    def _counted(self, value: float, place: Place) -> str:
        whole = int(value) if abs(value) <= MAX_SAFE_INTEGER else 0
        if whole in _SECONDS:
            made = shortest(int(value * 1000))
        elif whole in _MILLIS:
            made = shortest(whole)
        else:
            raise wrong(place, f"is not a time: {shorten(str(value), 30)}")
        self.note(place, f"a number is taken as time since 1970: {made}")
        return made

    def number(self, value: Json, place: Place) -> float | None:
        """A number, also out of text that can mean no other; None when there is none."""
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return value
        if isinstance(value, str):
            bare = value.strip().lstrip("~").removesuffix("%").strip()
            if _NUMBER.match(bare):
                found = float(re.sub("[,_ ]", "", bare))
                self.note(place, f"read as the number {found:g}: {shorten(value, 30)}")
                return found
        raise wrong(place, f"must be a number, is {kind_of(value)}")

    def whole(self, value: Json, place: Place, most: int = MAX_SAFE_INTEGER) -> int | None:
        found = self.number(value, place)
        if found is None or (isinstance(found, int) and 0 <= found <= most):
            return found
        made = round(min(max(found, 0), most))
        if made != found or isinstance(value, float):
            self.note(place, f"taken as {made}")
        return made

    def words(self, value: Json, place: Place) -> str | None:
        """Text; None when there is none."""
        if value is None:
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.note(place, "a number is taken as text")
            return str(value)
        raise wrong(place, f"must be text, is {kind_of(value)}")

    def word(self, value: str, place: Place, known: Mapping[str, str], spoken: Mapping[str, str]) -> str | None:
        """One of the words of this format, also by another name; None when it is none of them."""
        if value in known:
            return value
        said = plain(value)
        found = said if said in known else spoken.get(said)
        if found is not None:
            self.note(place, f"{shorten(value, 30)!r} is taken as {found}")
        return found

    def entries(self, value: Json, place: Place) -> list[Json]:
        """A list, also of one."""
        if isinstance(value, list):
            return value
        if value is None:
            self.note(place, "is missing, taken as empty")
            return []
        self.note(place, "is not a list, taken as a list of one")
        return [value]
