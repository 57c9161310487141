"""Entries of lists, and what makes one the same entry in two versions of a document.

Agents have ids, decisions a time and a text; a pending task is its own words. Who compares lists by position alone
takes one new entry at the front for a change of everything.
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
# What stands for the key of an entry that is a value by itself: no key of a document.
_ALONE: Final = "\0"
# How far from its own position an entry is looked for under another name: long lists are in order.
_NEAR: Final = 32
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d", re.ASCII)


def named(entries: Sequence[Json], place: Place, identities: Identities) -> list[tuple[str, Json]]:
    """Every entry with its name: unique in the list, and the same wherever the same entry stands."""
    keys = next((keys for pattern, keys in identities.items() if covers(pattern, place)), None)
    found: list[tuple[str, Json]] = []
    taken: set[str] = set()
    twins: dict[str, int] = {}
    for position, entry in enumerate(entries):
        name = plain = _name(entry, keys, position)
        while name in taken:
            twins[plain] = twins.get(plain, 0) + 1
            name = f"{plain}\n{twins[plain]}"
        taken.add(name)
        found.append((name, entry))
    return found


def _name(entry: Json, keys: tuple[str, ...] | None, position: int) -> str:
    if not isinstance(entry, dict):
        return entry if isinstance(entry, str) else _text(entry)
    if keys == ():
        return _text(entry)
    values = [entry.get(key) for key in keys or _USUAL]
    if all(value is None for value in values):
        # Where entries are known by what they say, one that says none of it is known by the rest.
        return f"#{position}" if keys is None else _text(entry)
    return "\n".join(_spelled(value) if isinstance(value, str) else _text(value) for value in values)


def _spelled(value: str) -> str:
    """A time is the same time however it is spelled."""
    if _TIME.match(value):
        with suppress(Invalid):
            return format_time(parse_time(value))
    return value


def match_entries(theirs: Mapping[str, Json], ours: Mapping[str, Json]) -> dict[str, str]:
    """Which of our new entries each of theirs became, where it is known by another name since: theirs, then ours.

    A time before the session's beginning is moved there, a path is written in one way, an error of no known shape is
    told in a sentence. The most alike are the same, each only once.
    """
    became = [(name, _told(entry)) for name, entry in ours.items()]
    pairs: list[tuple[tuple[int, int, int], int, int, str]] = []
    for place, (name, entry) in enumerate(theirs.items()):
        said = _told(entry)
        for other in range(max(place - _NEAR, 0), min(place + _NEAR, len(became))):
            strangeness = _strangeness(said, became[other][1])
            if strangeness[0] or not strangeness[1]:
                pairs.append((strangeness, place, other, name))
    found: dict[str, str] = {}
    taken: set[int] = set()
    for _, _, other, name in sorted(pairs):
        if name not in found and other not in taken:
            found[name] = became[other][0]
            taken.add(other)
    return found


def _strangeness(theirs: dict[str, Json], ours: dict[str, Json]) -> tuple[int, int, int]:
    """How many values agree (the more, the less strange), contradict each other, and are ours alone."""
    if _ALONE in ours:
        return 0, 1, 1  # it is its own name: another name is another entry
    if _ALONE in theirs:
        found = theirs[_ALONE] in ours.values()
        return -found, not found, len(ours)
    both = theirs.keys() & ours.keys()
    agree = sum(same(theirs[key], ours[key]) for key in both)
    return -agree, len(both) - agree, len(ours) - len(both)


def _told(entry: Json) -> dict[str, Json]:
    """The values of an entry that say something; of one that is not an object, itself."""
    whole = entry if isinstance(entry, dict) else {_ALONE: entry}
    return {key: value for key, value in whole.items() if value is not None and value not in ("", [])}


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def same(one: Json, other: Json) -> bool:
    """The same data to the letter: 1 is not 1.0, and keys in another order are another document."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other
