"""Three-way merge of documents: the version we wrote, the one in the file, and the present one.

Changes of both sides survive. Omission never removes: a task that is left out was not dropped. If both sides changed
one value, ours stays and theirs is reported, which becomes a conflict. Derived places are always ours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.times import parse_time
from holdfast.formats.base import Document, Format, Place
from holdfast.formats.document_paths import covers
from holdfast.formats.entries import entries_by_name, is_same, match_entries


class MergeConflict(NamedTuple):
    """A place that both sides changed. Entries of lists are named in the place, not numbered.

    `ours` is None for what we no longer show.
    """

    place: Place
    ours: Json
    theirs: Json


class Merged(NamedTuple):
    document: Document
    clashes: list[MergeConflict]


class _Missing:
    pass


_MISSING: Final = _Missing()
_Value = Json | _Missing


def merge_documents(
    base: Document | None, ours: Document, theirs: Document, rules: Format, *, in_their_words: bool = False
) -> Merged:
    """Merge. `base` is the nearest version we wrote; without one, everything in theirs is new.

    `in_their_words`: ours is the result of theirs, so where both differ from the base, their spelling is used.
    """
    merging = _Merging(rules, in_their_words=in_their_words)
    document = merging.value(_MISSING if base is None else base, ours, theirs, ())
    assert isinstance(document, dict)
    return Merged(document, merging.clashes)


def distance(left: Json, right: Json, rules: Format) -> int:
    """In how many values two versions differ, in any order: a version was made from the nearest one.

    A missing part counts with everything in it. Derived values count most, although they are never changes: an editor
    rarely touches them, and each version has its own.
    """
    return _differences(left, right, rules, ())


def _differences(left: _Value, right: _Value, rules: Format, place: Place) -> int:
    if not isinstance(left, _Missing) and not isinstance(right, _Missing):
        if is_same(left, right):
            return 0
        if isinstance(left, dict) and isinstance(right, dict):
            return sum(
                _differences(left.get(key, _MISSING), right.get(key, _MISSING), rules, (*place, key))
                for key in {**left, **right}
            )
        if isinstance(left, list) and isinstance(right, list):
            left_entries, right_entries = (
                dict(entries_by_name(side, place, rules.identities)) for side in (left, right)
            )
            return sum(
                _differences(
                    left_entries.get(name, _MISSING), right_entries.get(name, _MISSING), rules, (*place, name)
                )
                for name in {**left_entries, **right_entries}
            )
    size = 2 if any(covers(pattern, place) for pattern in rules.derived) else 1
    return size * max(_size(left), _size(right))


def _size(value: _Value) -> int:
    if isinstance(value, dict):
        return sum(_size(inner) for inner in value.values()) or 1
    if isinstance(value, list):
        return sum(_size(inner) for inner in value) or 1
    return 1


class _Merging:
    def __init__(self, rules: Format, *, in_their_words: bool) -> None:
        self._rules = rules
        self._in_their_words = in_their_words
        self.clashes: list[MergeConflict] = []

    def value(self, base: _Value, ours: _Value, theirs: _Value, place: Place) -> _Value:
        if isinstance(theirs, _Missing) or any(covers(pattern, place) for pattern in self._rules.derived):
            return ours
        if isinstance(ours, _Missing):
            if isinstance(base, _Missing):
                return theirs
            # We no longer show it. Their keeping it means nothing; their changing it does.
            since_base = self.value(base, base, theirs, place)
            if isinstance(since_base, _Missing) or is_same(base, since_base):
                return _MISSING
            if self._in_their_words:
                return theirs
            if theirs is not None:
                self.clashes.append(MergeConflict(place, None, theirs))
            return _MISSING
        if not isinstance(base, _Missing) and is_same(base, theirs):
            return ours
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return self._objects(base if isinstance(base, dict) else {}, ours, theirs, place)
        if isinstance(ours, list) and isinstance(theirs, list):
            return self._lists(base if isinstance(base, list) else [], ours, theirs, place)
        if self._in_their_words:
            return theirs
        if isinstance(ours, str) and isinstance(theirs, str) and place in self._rules.latest:
            return max(ours, theirs, key=parse_time)
        if is_same(ours, theirs) or (not isinstance(base, _Missing) and is_same(base, ours)):
            return theirs
        self.clashes.append(MergeConflict(place, ours, theirs))
        return ours

    def _objects(self, base: dict[str, Json], ours: dict[str, Json], theirs: dict[str, Json], place: Place) -> Json:
        merged: dict[str, Json] = {}
        for key in {**ours, **theirs}:
            value = self.value(
                base.get(key, _MISSING), ours.get(key, _MISSING), theirs.get(key, _MISSING), (*place, key)
            )
            if not isinstance(value, _Missing):
                merged[key] = value
        return merged

    def _lists(self, base: list[Json], ours: list[Json], theirs: list[Json], place: Place) -> Json:
        before, ours_by_name, theirs_by_name = (
            dict(entries_by_name(side, place, self._rules.identities)) for side in (base, ours, theirs)
        )
        if self._in_their_words:
            ours_by_name = self._without_what_theirs_became(before, ours_by_name, theirs_by_name)
        merged: list[Json] = []
        for name in {**ours_by_name, **theirs_by_name}:
            value = self.value(
                before.get(name, _MISSING),
                ours_by_name.get(name, _MISSING),
                theirs_by_name.get(name, _MISSING),
                (*place, name),
            )
            if not isinstance(value, _Missing):
                merged.append(value)
        return merged

    def _without_what_theirs_became(
        self, before: dict[str, Json], ours_by_name: dict[str, Json], theirs_by_name: dict[str, Json]
    ) -> dict[str, Json]:
        """Our entries without those that new entries of theirs became under another name."""
        new = {
            name: entry for name, entry in theirs_by_name.items() if name not in before and name not in ours_by_name
        }
        since = {
            name: entry for name, entry in ours_by_name.items() if name not in before and name not in theirs_by_name
        }
        ours = set(match_entries(new, since).values())
        return {name: entry for name, entry in ours_by_name.items() if name not in ours}
