"""Tasks that somebody took out of a file's pending list: finished, often in other words, or dropped.

A program reads the file just before it writes it. So a task that is left out is meant, unless something shows that
the writer had read an earlier version, without that task; anything else that is left out removes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import reduce
from operator import and_
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.formats.base import Document, Format
from holdfast.formats.entries import named
from holdfast.formats.merge import distance

PENDING: Final = "pending_tasks"
COMPLETED: Final = "completed_work"
# Words that say nothing about which task is meant, and how many letters of a word count: "tests" is "testing".
_SHORT: Final = 4
_STEM: Final = 5


class MovedTask(NamedTuple):
    """A task that was taken out: its text, and the text of the completed entry that it became; None if dropped."""

    text: str
    became: str | None


class Remembered(NamedTuple):
    """The versions of a document that an edit of it may have been made from, the latest last."""

    # Than what the writer last wrote.
    older: Sequence[Document] = ()
    later: Sequence[Document] = ()


class TakenOut(NamedTuple):
    moved: list[MovedTask]
    # The texts of those that stay pending, since their writer may not have read of them.
    kept: list[str]


def taken_out(theirs: Document, ours: Document, versions: Remembered, rules: Format) -> TakenOut:
    """What became of the tasks that an edit left out. `ours` is what is true now."""
    left_out = pending(ours) - pending(theirs)
    added = list((_completed(theirs) - _completed(ours)).elements())
    bases = _bases(theirs, ours, versions, rules)
    lacking = [(pending(base) - pending(theirs)) & left_out for base in bases] or [Counter[str]()]
    found = lacking[-1]
    # Whoever speaks of a task has read of it.
    read = {text for entry in added if found and _speaks_of(entry, text := _closest(entry, found))}
    certain = reduce(and_, [each for each in lacking if read <= each.keys()])
    untouched = any(_moment(base, rules) == _moment(theirs, rules) for base in bases)
    stale = not bases or bases[-1] is not versions.later[-1]
    # Also where every entry that was added is explained without the tasks that only some of the versions had.
    if stale or (len(added) <= certain.total() and (added or untouched)):
        found = certain
    done = {_plain(entry) for entry in added}
    kept = [text for text in (left_out - found).elements() if _plain(text) not in done]
    return TakenOut(list(_paired(list(found.elements()), added)), kept)


def _bases(theirs: Document, ours: Document, versions: Remembered, rules: Format) -> list[Document]:
    """The versions that explain an edit best, the latest last. Which tasks it left out makes no difference.

    One that is older than what the writer last wrote counts only where it explains more than all that came later.
    """
    found = [version for part in versions for version in part if _explains(version, theirs, ours, rules)]
    # Those that say when they were written as theirs still does, if any does: who copies seldom changes that.
    found = [version for version in found if _moment(version, rules) == _moment(theirs, rules)] or found
    far = [distance(without_taken_out(version, theirs), theirs, rules) for version in found]
    least = min(far, default=0)
    nearest = [version for version, away in zip(found, far, strict=True) if away == least]
    later = {id(version) for version in versions.later}
    return [version for version in nearest if id(version) in later] or nearest


def without_taken_out(version: Document, theirs: Document) -> Document:
    """A version without the pending tasks that theirs lacks: leaving one out says nothing about what was read."""
    lacking = pending(version) - pending(theirs)
    if not lacking:
        return version
    kept: list[Json] = []
    for entry in _entries(version, PENDING):
        if isinstance(entry, str) and lacking[entry]:
            lacking[entry] -= 1
        else:
            kept.append(entry)
    return {**version, PENDING: kept}


def _moment(version: Document, rules: Format) -> Json:
    return None if rules.written_at is None else version.get(rules.written_at)


def _explains(version: Document, theirs: Document, ours: Document, rules: Format) -> bool:
    """Whether somebody who had read just this version could have written theirs: they know nothing that is newer."""
    return all(_names(theirs, key, rules) & _names(ours, key, rules) <= _names(version, key, rules) for key in theirs)


def _paired(texts: list[str], added: list[str]) -> Iterator[MovedTask]:
    """As many as were added are completed, the closest text first; the rest is dropped."""
    left, entries = list(texts), list(added)
    for text in texts:
        same = next((entry for entry in entries if _plain(entry) == _plain(text)), None)
        if same is not None:  # known by its words already
            left.remove(text)
            entries.remove(same)
    while left and entries:
        text, entry = max(((text, entry) for text in left for entry in entries), key=lambda pair: _likeness(*pair))
        left.remove(text)
        entries.remove(entry)
        yield MovedTask(text, entry)
    yield from (MovedTask(text, None) for text in left)


def _closest(entry: str, texts: Iterable[str]) -> str:
    return max(texts, key=lambda text: _likeness(text, entry))


def _likeness(text: str, entry: str) -> tuple[int, float]:
    return len(_stems(text) & _stems(entry)), SequenceMatcher(None, _plain(text), _plain(entry)).ratio()


def _speaks_of(entry: str, text: str) -> bool:
    return _plain(entry) == _plain(text) or bool(_stems(entry) & _stems(text))


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in re.findall(r"\w+", text.casefold()) if len(word) >= _SHORT}


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def pending(document: Document) -> Counter[str]:
    return Counter(text for text in _entries(document, PENDING) if isinstance(text, str))


def _completed(document: Document) -> Counter[str]:
    entries = (entry.get("task") if isinstance(entry, dict) else entry for entry in _entries(document, COMPLETED))
    return Counter(text for text in entries if isinstance(text, str) and text.strip())


def _names(document: Document, key: str, rules: Format) -> set[str]:
    return {name for name, _ in named(_entries(document, key), (key,), rules.identities)}


def _entries(document: Document, key: str) -> list[Json]:
    value = document.get(key)
    return value if isinstance(value, list) else []
