"""Tasks that somebody took out of a file's pending list: finished, often in other words, or dropped.

Whoever writes such a file may have read an earlier version of it. So a task that is left out is meant only where
every version that explains the edit had it; anything else that is left out removes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.formats.entries import named
from holdfast.formats.interface import Document, Format
from holdfast.formats.places import at

PENDING: Final = "pending_tasks"
COMPLETED: Final = "completed_work"
# Words that say nothing about which task is meant, and how many letters of a word count: "tests" is "testing".
_SHORT: Final = 4
_STEM: Final = 5


class Moved(NamedTuple):
    """A task that was taken out: its text, and the text of the completed entry that it became; None if dropped."""

    text: str
    became: str | None


def moved_tasks(theirs: Document, ours: Document, versions: Sequence[Document], rules: Format) -> list[Moved]:
    """The tasks an edit took out. `versions` are those it may have been made from, `ours` is what is true now."""
    kept, shown = pending(theirs), pending(ours)
    added = list((_completed(theirs) - _completed(ours)).elements())
    explaining = [
        version for version in _same_moment(versions, theirs, rules) if _explains(version, theirs, ours, rules)
    ]
    found: list[str] = []
    for text, count in (shown - kept).items():
        had = [
            pending(version)[text] - kept[text]
            for version in explaining
            if pending(version)[text] > kept[text] or not any(_speaks_of(entry, text) for entry in added)
        ]
        found += [text] * min([count, *had] if had else [0])
    return list(_paired(found, added))


def _same_moment(versions: Sequence[Document], theirs: Document, rules: Format) -> Sequence[Document]:
    """Those that say when they were written as theirs still does, if any does: who copies seldom changes that."""
    for place in rules.derived:
        same = [version for version in versions if len(place) == 1 and at(version, place) == at(theirs, place)]
        versions = same or versions
    return versions


def _explains(version: Document, theirs: Document, ours: Document, rules: Format) -> bool:
    """Whether somebody who had read just this version could have written theirs: they know nothing that is newer."""
    return all(_names(theirs, key, rules) & _names(ours, key, rules) <= _names(version, key, rules) for key in theirs)


def _paired(texts: list[str], added: list[str]) -> Iterator[Moved]:
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
        yield Moved(text, entry)
    yield from (Moved(text, None) for text in left)


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
