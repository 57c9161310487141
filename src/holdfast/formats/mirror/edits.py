"""Check what somebody made of a mirrored file, more strictly than an import does.

An import puts right whatever can be understood. Here a program or a person changed one of our own documents: what is
left out was not removed, what is merely spelled otherwise is understood, and what would have to be reinterpreted
breaks the rules. The beginning of a session and the name of its file are not changed at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import parse_time
from holdfast.formats import document_paths, timestamps
from holdfast.formats.document_paths import at, covered, covers
from holdfast.formats.entries import named

if TYPE_CHECKING:
    from holdfast.formats.base import Document, Format, ImportContext, Place

# Where each format says when the session began.
BEGINNINGS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "orchestrator": (("created",),),
    "timer": (("startTime",),),
    "craft": (("created_at",),),
    "contract": (
        ("state", "current_state", "started_at"), ("plan", "feature", "created_at"), ("entry", "started_at"),
    ),
}  # fmt: skip
# Lines of history are somebody's own, each by itself, and only ever added.
_APART: Final = frozenset({"history"})
_KEPT: Final = "_as_found"
# Keys that Holdfast adds itself: they follow what others write next to them.
_OURS: Final = "x-holdfast"
# One word that two of the formats spell in two ways.
_TWINS: Final = {"complete": "completed"}


class BrokenRule(NamedTuple):
    """A place that breaks the rules, and why."""

    place: Place
    why: str


# ── what breaks the rules ────────────────────────────────────────────────────────────────────────────────


def broken_rules(value: Json, made: Document, rules: Format, ground: ImportContext) -> BrokenRule | None:
    """The first value that was reinterpreted, not merely respelled, to make a tidy document of what was written."""
    return next(_Comparing(rules, ground).differences(value, made, ()), None)


class _Comparing:
    def __init__(self, rules: Format, ground: ImportContext) -> None:
        self._rules, self._ground = rules, ground

    def differences(self, raw: Json, made: Json, place: Place) -> Iterator[BrokenRule]:
        if raw is None or raw == made or covered(self._rules.derived, place):
            return
        if isinstance(raw, dict) and isinstance(made, dict):
            yield from self._of_objects(raw, made, place)
        elif isinstance(raw, list) and isinstance(made, list):
            yield from self._of_lists(raw, made, place)
        elif not self._is_respelled(raw, made):
            yield BrokenRule(place, f"{_shown(raw)} breaks the rules, and would have to be read as {_shown(made)}")

    def _of_objects(self, raw: dict[str, Json], made: dict[str, Json], place: Place) -> Iterator[BrokenRule]:
        ours = [key for key in made if key.startswith(_OURS)]
        more = [value for key, value in made.items() if (key not in raw or key in ours) and not key.endswith(_KEPT)]
        for key, value in raw.items():
            if (not place and key in _APART) or key in ours:
                continue
            if key in made:
                if value not in more and not set_aside(
                    key, value, made
                ):  # else it stands there, beside the nearest word the format has
                    yield from self.differences(value, made[key], (*place, key))
            elif f"{key}{_KEPT}" in made and f"{key}{_KEPT}" not in raw and value is not None:
                yield BrokenRule((*place, key), f"{_shown(value)} breaks the rules")

    def _of_lists(self, raw: list[Json], made: list[Json], place: Place) -> Iterator[BrokenRule]:
        said = [item for item in raw if item not in (None, "", {}, [])]
        if len(said) > len(made):
            yield BrokenRule(place, "has entries that break the rules, and would have to be left out")
            return
        found = raw if len(raw) <= len(made) else said
        names = [name for name, _ in named(made, place, self._rules.identities)]
        for position, match in enumerate(found):
            name = names[position] if isinstance(made[position], dict) else position
            yield from self.differences(match, made[position], (*place, name))

    def _is_respelled(self, raw: Json, made: Json) -> bool:
        if isinstance(raw, bool) or isinstance(made, bool):
            return str(raw).strip().lower() == str(made).lower()
        if isinstance(raw, (str, int, float)) and isinstance(made, (str, int, float)):
            if _plain(raw) == _plain(made) or self._same_time(raw, made):
                return True
            number = _number(raw)
            return number is not None and number == _number(made)
        if isinstance(raw, str):
            return bool(raw.strip()) and _is_within(raw, made)
        return isinstance(raw, dict) and (isinstance(made, list) or made in raw.values())

    def _same_time(self, raw: Json, made: Json) -> bool:
        if not isinstance(raw, str) or not isinstance(made, str):
            return False
        try:
            return timestamps.read(raw, self._ground).ms == parse_time(made)
        except Invalid:
            return False


def _is_within(words: str, made: Json) -> bool:
    """Whether an object or a list says these words somewhere."""
    inner = made.values() if isinstance(made, dict) else made if isinstance(made, list) else ()
    return any(item == words or _is_within(words, item) for item in inner)


def _plain(value: float | str) -> str:
    """A word without its capitals, dashes and spaces."""
    said = re.sub(r"[\W_]+", "", str(value).casefold())
    return _TWINS.get(said, said)


def _number(value: float | str) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _shown(value: Json) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return ascii(shorten(str(value), 40)) if isinstance(value, str) else shorten(str(value), 40)


def moved_beginning(theirs: Document, known: list[Document], rules: Format) -> BrokenRule | None:
    """A session began when it began: where a file says otherwise than every version we know."""
    for place in BEGINNINGS[rules.name]:
        said = _moment(at(theirs, place))
        told = {moment for entry in known if (moment := _moment(at(entry, place))) is not None}
        if said is not None and told and said not in told:
            return BrokenRule(place, "says when the session began, and cannot be changed")
    return None


def _moment(value: Json) -> int | None:
    try:
        return parse_time(value) if isinstance(value, str) else None
    except Invalid:
        return None


# ── what was left out ────────────────────────────────────────────────────────────────────────────────────


def without_assumptions(
    raw: Json, made: Json, ours: Json, rules: Format, place: Place = (), *, nulls: bool = False
) -> Json:
    """The tidy document with what `ours` says, wherever it would say something that nobody wrote.

    `nulls`: who writes null has said that; else nothing is said by it.
    """
    if isinstance(raw, dict) and isinstance(made, dict) and isinstance(ours, dict):
        renamed = [value for key, value in raw.items() if key not in ours and value is not None]
        found: dict[str, Json] = {}
        for key, value in made.items():
            if key in ours and set_aside(key, raw.get(key), made):
                found[key] = ours[key]
            elif raw.get(key) is not None:
                found[key] = without_assumptions(raw[key], value, ours.get(key), rules, (*place, key), nulls=nulls)
            elif nulls and key in raw and value is None:
                found[key] = None
            elif key.endswith(_KEPT) and raw.get(key.removesuffix(_KEPT)) is not None:
                found[key] = value  # it was written where the format has no room for it
            elif key in ours and not any(_is_said(value, other) for other in renamed):
                found[key] = ours[key]
            else:
                found[key] = value
        return found
    if isinstance(raw, list) and isinstance(made, list) and isinstance(ours, list) and len(raw) <= len(made):
        entries = named(made, place, rules.identities)
        return [
            without_assumptions(raw[position], pair, entry, rules, (*place, name), nulls=nulls)
            if position < len(raw)
            else pair
            for position, ((name, pair), entry) in enumerate(
                zip(entries, _ours_of(raw, entries, ours, rules, place), strict=True)
            )
        ]
    return made


def _ours_of(
    raw: list[Json], entries: list[tuple[str, Json]], ours: list[Json], rules: Format, place: Place
) -> Iterator[Json]:
    """Which of our entries each of theirs is. One that has lost its name is the one that stood there."""
    known = named(ours, place, rules.identities)
    there, theirs = dict(known), {name for name, _ in entries}
    keys = next((keys for pattern, keys in rules.identities.items() if covers(pattern, place)), ("id",))
    for position, (name, _) in enumerate(entries):
        one = raw[position] if position < len(raw) else None
        nameless = isinstance(one, dict) and any(one.get(key) is None for key in keys)
        if nameless and position < len(known) and known[position][0] not in theirs:
            yield known[position][1]
        else:
            yield there.get(name)


def set_aside(key: str, value: Json, made: dict[str, Json]) -> bool:
    """Whether a value was kept next to its key, which says nothing instead."""
    return value is not None and made.get(key) is None and made.get(f"{key}{_KEPT}") == value


def _is_said(made: Json, other: Json) -> bool:
    """Whether a value came from a key of another name."""
    if made == other or type(made) is not type(other):
        return made == other
    if isinstance(made, dict) and isinstance(other, dict):
        return not made.keys().isdisjoint(other)
    return isinstance(made, list) or _moment(made) is not None


def describe(found: BrokenRule) -> str:
    return f"{document_paths.written(found.place)} {found.why}"
