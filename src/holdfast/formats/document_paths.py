"""Places in documents: as text for people, and which pattern covers which place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from holdfast.core.canonical import Json
from holdfast.formats.base import FormatNote, Place

_PLAIN: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*\Z")
_MAX_SHOWN_LENGTH: Final = 60


def format_place(place: Place) -> str:
    """As a JSON path: `$.agents[0].status`."""
    parts = ["$"]
    for step in place:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif len(step) <= _MAX_SHOWN_LENGTH and _PLAIN.match(step):
            parts.append(f".{step}")
        else:
            parts.append(f"[{step[:_MAX_SHOWN_LENGTH]!a}]")
    return "".join(parts)


def note_words(note: FormatNote) -> str:
    """A note as text: `agents[0].status was left out`."""
    where = format_place(note.place)[2:]
    return f"{where} {note.message}" if where else note.message


def covers(pattern: Place, place: Place) -> bool:
    """Does a pattern, in which `*` matches any one step, match this place?"""
    return len(pattern) == len(place) and all(p in ("*", step) for p, step in zip(pattern, place, strict=True))


def is_covered(patterns: Iterable[Place], place: Place) -> bool:
    return any(covers(pattern, place) for pattern in patterns)


def value_at(value: Json, place: Place) -> Json:
    """The value at a place; None without one."""
    for step in place:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value
