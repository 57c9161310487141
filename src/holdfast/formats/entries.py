"""Entries of lists, and what identifies one entry in two versions of a document.

Agents have ids, decisions a time and a text, a pending task only its text. By position alone, one new entry at the
front would look like a change of all entries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.times import format_time, parse_time
from holdfast.formats.base import Place
from holdfast.formats.document_paths import covers

Identities = Mapping[Place, tuple[str, ...]]

_USUAL: Final = ("id",)
# The key for an entry that is not an object; no document has such a key.
_ALONE: Final = "\0"
# How far from its position an entry is searched under another name: long lists are in order.
_MAX_SHIFT: Final = 32
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d", re.ASCII)


def entries_by_name(entries: Sequence[Json], place: Place, identities: Identities) -> list[tuple[str, Json]]:
    """Every entry with its name: unique in the list, and the same in every version."""
    keys = next((keys for pattern, keys in identities.items() if covers(pattern, place)), None)
    entries_named: list[tuple[str, Json]] = []
    taken: set[str] = set()
    repeats: dict[str, int] = {}
    for position, entry in enumerate(entries):
        name = plain = _name(entry, keys, position)
        while name in taken:
            repeats[plain] = repeats.get(plain, 0) + 1
            name = f"{plain}\n{repeats[plain]}"
        taken.add(name)
        entries_named.append((name, entry))
    return entries_named


def _name(entry: Json, keys: tuple[str, ...] | None, position: int) -> str:
    if not isinstance(entry, dict):
        return entry if isinstance(entry, str) else _text(entry)
    if keys == ():
        return _text(entry)
    values = [entry.get(key) for key in keys or _USUAL]
    if all(value is None for value in values):
        # Without any of the identifying keys, the whole entry identifies it.
        return f"#{position}" if keys is None else _text(entry)
    return "\n".join(_spelled(value) if isinstance(value, str) else _text(value) for value in values)


def _spelled(value: str) -> str:
    """A time in one spelling; other text as it is."""
    if _TIME.match(value):
        with suppress(Invalid):
            return format_time(parse_time(value))
    return value


def match_entries(theirs: Mapping[str, Json], ours: Mapping[str, Json]) -> dict[str, str]:
    """Which of our new entries each of theirs became, if its name changed: their name to ours.

    Names change because times before the session's start are moved there, paths are normalized, and errors of unknown
    shape become text. The most similar entries are matched, each only once.
    """
    ours_read = [(name, _content(entry)) for name, entry in ours.items()]
    pairs: list[tuple[tuple[int, int, int], int, int, str]] = []
    for place, (name, entry) in enumerate(theirs.items()):
        fields = _content(entry)
        for other in range(max(place - _MAX_SHIFT, 0), min(place + _MAX_SHIFT, len(ours_read))):
            distance = _distance(fields, ours_read[other][1])
            if distance[0] or not distance[1]:
                pairs.append((distance, place, other, name))
    matches: dict[str, str] = {}
    taken: set[int] = set()
    for _, _, other, name in sorted(pairs):
        if name not in matches and other not in taken:
            matches[name] = ours_read[other][0]
            taken.add(other)
    return matches


def _distance(theirs: dict[str, Json], ours: dict[str, Json]) -> tuple[int, int, int]:
    """How many values agree (negative: more is closer), contradict each other, and are ours alone."""
    if _ALONE in ours:
        return 0, 1, 1  # a plain value is its own name: another name is another entry
    if _ALONE in theirs:
        is_value = theirs[_ALONE] in ours.values()
        return -is_value, not is_value, len(ours)
    both = theirs.keys() & ours.keys()
    agree = sum(is_same(theirs[key], ours[key]) for key in both)
    return -agree, len(both) - agree, len(ours) - len(both)


def _content(entry: Json) -> dict[str, Json]:
    """The values of an entry that are not empty; a plain value under its own key."""
    fields = entry if isinstance(entry, dict) else {_ALONE: entry}
    return {key: value for key, value in fields.items() if value is not None and value not in ("", [])}


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def is_same(left: Json, right: Json) -> bool:
    """Exactly the same data: 1 is not 1.0, and the order of keys counts."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(is_same(a, b) for a, b in zip(left, right, strict=True))
    return left == right
