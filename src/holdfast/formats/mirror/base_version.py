"""Find out which version of a session's document an edited copy was made from, and which tasks the edit left out.

Every version a mirror wrote is the log rendered as of some event, so versions need not be stored: the last ones are
folded again when a changed file asks for them.

A program reads a file just before it writes it. So a task left out of the pending list was left out on purpose,
unless something shows that the writer had read an earlier version without it. Leaving out anything else removes
nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import reduce
from operator import and_
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.errors import Invalid
from holdfast.core.fold import apply, in_log_order
from holdfast.core.state import State
from holdfast.core.times import MINUTE, parse_time
from holdfast.formats.base import Document, Format, Place
from holdfast.formats.document_paths import covers, value_at
from holdfast.formats.entries import entries_by_name, is_same
from holdfast.formats.merge import distance
from holdfast.formats.remainder import render_with_remainder

PENDING: Final = "pending_tasks"
COMPLETED: Final = "completed_work"
OLDER: Final = "it is older than the session known here: nothing was read from it"
# Shorter words do not identify a task; of longer ones the first letters count, so that "tests" matches "testing".
_SHORT: Final = 4
_STEM: Final = 5
# An agent that edits its copy has one of the last versions; an older copy is matched with the nearest of these.
MAX_VERSIONS: Final = 200
# How far the clocks of two machines may differ.
_MAX_CLOCK_SKEW: Final = 10 * MINUTE


class Version(NamedTuple):
    """A version of a document and its origin: the event it is as of, then the events of its writer's own edits."""

    document: Document
    edit_chain: tuple[str, ...]


def nearest_version(
    events: Sequence[Event], rules: Format, theirs: Document, was_written: Callable[[str], bool] | None = None
) -> Document | None:
    """The version nearest to an edited copy, as `find_base` finds it."""
    version = find_base(events, rules, theirs, was_written)
    return None if version is None else version.document


def find_base(
    events: Sequence[Event],
    rules: Format,
    theirs: Document,
    was_written: Callable[[str], bool] | None = None,
    edit_chain: Sequence[str] = (),
) -> Version | None:
    """The version that an edited copy was made from: the one that differs least from it.

    `was_written` says of an event whether a file was written as of it. `edit_chain` is the version that the writer
    had, then the events of their edits.

    1. Tasks that the edit left out are no difference.
    2. Only versions that a file was written as of count; if there are none, the last `MAX_VERSIONS` versions.
    3. The file as the writer last wrote it counts, too: an edit that starts from it has changed one side only.
    4. A version from before that edit counts only if the copy has the computed values of that version, and not those
       of the edit. A writer who puts an old value back has changed their own text.
    5. Among equally near versions the latest wins, except among those with the same computed values: they
       were written within one tick of the format's clock, and cannot be distinguished. Of these the earliest that is
       not older than the edit wins: a needless conflict is better than a change that is lost.
    """
    ordered = in_log_order(events)
    if not ordered:
        return None
    last = ordered[-MAX_VERSIONS:]
    hashes = {event.hash for event in last if was_written is not None and was_written(event.hash)} or {
        event.hash for event in last
    }
    state = State(session=ordered[0].session)
    last_edit = _last_edit(ordered, rules, theirs, edit_chain)
    is_before_edit = last_edit is not None
    computed = _computed_values(theirs, rules)
    has_other_values = last_edit is not None and computed != _computed_values(last_edit.document, rules)
    nearest: list[Version] = []
    smallest = -1
    for event in ordered:
        apply(state, event)
        versions: list[Version] = []
        if last_edit is not None and event.hash == edit_chain[-1]:
            is_before_edit = False
            versions.append(last_edit)
        if event.hash in hashes and state.created_at is not None:
            versions.append(Version(render_with_remainder(state, rules), (event.hash,)))
        for version in versions:
            difference = distance(without_removed(version.document, theirs), theirs, rules)
            is_read = has_other_values and computed == _computed_values(version.document, rules)
            if is_before_edit and not is_read:
                continue
            if smallest < 0 or difference < smallest:
                nearest, smallest = [], difference
            if difference == smallest:
                nearest.append(version)
    if not nearest:
        return None
    best = nearest.pop()
    while (
        nearest
        and best is not last_edit
        and _computed_values(nearest[-1].document, rules) == _computed_values(best.document, rules)
    ):
        best = nearest.pop()
    return best


def is_older(theirs: Document, base: Document | None, rules: Format) -> bool:
    """Whether a document was written before the version it is nearest to: an earlier one, never seen here.

    It lacks something that was done since. (A torn file may have been known only in part: then the whole one says
    more, however old it is.) The clocks of two machines may differ by a few minutes.
    """
    if base is None or rules.written_at is None:
        return False
    try:
        written, known = (parse_time(str(entry.get(rules.written_at))) for entry in (theirs, base))
    except Invalid:
        return False
    return written < known - _MAX_CLOCK_SKEW and any(
        {name for name, _ in entries_by_name(entries, (key,), rules.identities)}
        - {name for name, _ in entries_by_name(_entries(theirs, key), (key,), rules.identities)}
        for key in base
        if key != PENDING and (entries := _entries(base, key))
    )


def known_versions(
    events: Sequence[Event], rules: Format, was_written: Callable[[str], bool], edit_chain: Sequence[str]
) -> KnownVersions:
    """The versions a writer may have read before writing, as for `find_base`."""
    ordered = in_log_order(events)
    last_edit = _last_edit(ordered, rules, None, edit_chain)
    hashes = {*[event.hash for event in ordered if was_written(event.hash)][-MAX_VERSIONS:]}
    state = State(session=ordered[0].session)
    older: list[Document] = []
    later: list[Document] = []
    for event in ordered:
        apply(state, event)
        if last_edit is not None and event.hash == edit_chain[-1]:
            older, later = later, [last_edit.document]
        if event.hash in hashes and state.created_at is not None:
            later.append(render_with_remainder(state, rules))
    return KnownVersions(older, later or [render_with_remainder(state, rules)])


def _last_edit(
    ordered: Sequence[Event], rules: Format, theirs: Document | None, edit_chain: Sequence[str]
) -> Version | None:
    """What somebody last wrote: the version they had, plus only those later changes that came from them.

    With `theirs`, which they wrote next, only where that departs from the version too.
    """
    if not edit_chain or not {*edit_chain} <= {event.hash for event in ordered}:
        return None
    state = State(session=ordered[0].session)
    version_read: Document | None = None
    for event in ordered:
        if version_read is None or event.hash in edit_chain:
            apply(state, event)
        if event.hash == edit_chain[0]:
            version_read = render_with_remainder(state, rules)
    assert version_read is not None
    last = render_with_remainder(state, rules)
    is_whole = theirs is None or (len(edit_chain) > 1 and edit_chain[-2] == edit_chain[-1])
    last_edit = _edited_parts(version_read, last, last if is_whole else theirs, rules, ())
    assert isinstance(last_edit, dict)
    return Version(last_edit, tuple(edit_chain))


def _edited_parts(version_read: Json, now: Json, theirs: Json, rules: Format, place: Place) -> Json:
    """The present values where the writer changed the version they had, and that version elsewhere: consequences of
    their edit (the time of the last message, say) need not be theirs.
    """
    if is_same(version_read, theirs) or any(covers(pattern, place) for pattern in rules.derived):
        return version_read
    if isinstance(version_read, dict) and isinstance(now, dict) and isinstance(theirs, dict):
        return {
            key: _edited_parts(version_read.get(key), word, theirs.get(key), rules, (*place, key))
            for key, word in now.items()
            if key in version_read or key in theirs
        }
    if isinstance(version_read, list) and isinstance(now, list) and isinstance(theirs, list):
        before, edited = (dict(entries_by_name(side, place, rules.identities)) for side in (version_read, theirs))
        return [
            _edited_parts(before.get(name), item, edited.get(name), rules, (*place, name))
            for name, item in entries_by_name(now, place, rules.identities)
            if name in before or name in edited
        ]
    return now


def _computed_values(version: Document, rules: Format) -> list[Json]:
    """The values that each version computes for itself."""
    return [value_at(version, place) for place in sorted(rules.derived - rules.located, key=str) if "*" not in place]


# ── tasks taken out of the pending list ──────────────────────────────────────────────────────────────────


class MovedTask(NamedTuple):
    """A task that was taken out: its text, and the text of the completed entry it became; None if dropped."""

    text: str
    became: str | None


class KnownVersions(NamedTuple):
    """The versions an edit may have been made from, the latest last."""

    # Than what the writer last wrote.
    older: Sequence[Document] = ()
    later: Sequence[Document] = ()


class RemovedTasks(NamedTuple):
    moved: list[MovedTask]
    # The texts of tasks that stay pending, since the writer may not have read them.
    kept: list[str]


def removed_tasks(theirs: Document, ours: Document, versions: KnownVersions, rules: Format) -> RemovedTasks:
    """What became of the tasks that an edit left out. `ours` is the present truth."""
    left_out = pending_tasks(ours) - pending_tasks(theirs)
    added = list((_completed_work(theirs) - _completed_work(ours)).elements())
    bases = _best_versions(theirs, ours, versions, rules)
    lacking = [(pending_tasks(base) - pending_tasks(theirs)) & left_out for base in bases] or [Counter[str]()]
    removed = lacking[-1]
    # A writer who mentions a task has read it.
    read = {text for entry in added if removed and _mentions(entry, text := _closest(entry, removed))}
    certain = reduce(and_, [lack for lack in lacking if read <= lack.keys()])
    untouched = any(_written_at(base, rules) == _written_at(theirs, rules) for base in bases)
    stale = not bases or bases[-1] is not versions.later[-1]
    # Also if every added entry is explained without the tasks that only some of the versions had.
    if stale or (len(added) <= certain.total() and (added or untouched)):
        removed = certain
    done = {_plain(entry) for entry in added}
    still_pending = [text for text in (left_out - removed).elements() if _plain(text) not in done]
    return RemovedTasks(list(_pair_tasks(list(removed.elements()), added)), still_pending)


def _best_versions(theirs: Document, ours: Document, versions: KnownVersions, rules: Format) -> list[Document]:
    """The versions that explain an edit best, the latest last, whichever tasks it left out.

    One older than what the writer last wrote counts only if it explains more than everything later.
    """
    candidates = [version for part in versions for version in part if _explains(version, theirs, ours, rules)]
    # Prefer versions with the same time of writing as the edit: few who copy a file change that.
    candidates = [
        version for version in candidates if _written_at(version, rules) == _written_at(theirs, rules)
    ] or candidates
    distances = [distance(without_removed(version, theirs), theirs, rules) for version in candidates]
    smallest = min(distances, default=0)
    nearest = [version for version, away in zip(candidates, distances, strict=True) if away == smallest]
    later = {id(version) for version in versions.later}
    return [version for version in nearest if id(version) in later] or nearest


def without_removed(version: Document, theirs: Document) -> Document:
    """A version without the pending tasks that `theirs` lacks: leaving one out says nothing about what was read."""
    lacking = pending_tasks(version) - pending_tasks(theirs)
    if not lacking:
        return version
    entries: list[Json] = []
    for entry in _entries(version, PENDING):
        if isinstance(entry, str) and lacking[entry]:
            lacking[entry] -= 1
        else:
            entries.append(entry)
    return {**version, PENDING: entries}


def _written_at(version: Document, rules: Format) -> Json:
    return None if rules.written_at is None else version.get(rules.written_at)


def _explains(version: Document, theirs: Document, ours: Document, rules: Format) -> bool:
    """Whether somebody who had read only this version could have written theirs: they know nothing newer."""
    return all(_names(theirs, key, rules) & _names(ours, key, rules) <= _names(version, key, rules) for key in theirs)


def _pair_tasks(texts: list[str], added: list[str]) -> Iterator[MovedTask]:
    """As many tasks as entries were added are completed, the closest text first; the others are dropped."""
    unpaired, entries = list(texts), list(added)
    for text in texts:
        same = next((entry for entry in entries if _plain(entry) == _plain(text)), None)
        if same is not None:  # the same words
            unpaired.remove(text)
            entries.remove(same)
    while unpaired and entries:
        text, entry = max(
            ((text, entry) for text in unpaired for entry in entries), key=lambda pair: _similarity(*pair)
        )
        unpaired.remove(text)
        entries.remove(entry)
        yield MovedTask(text, entry)
    yield from (MovedTask(text, None) for text in unpaired)


def _closest(entry: str, texts: Iterable[str]) -> str:
    return max(texts, key=lambda text: _similarity(text, entry))


def _similarity(text: str, entry: str) -> tuple[int, float]:
    return len(_stems(text) & _stems(entry)), SequenceMatcher(None, _plain(text), _plain(entry)).ratio()


def _mentions(entry: str, text: str) -> bool:
    return _plain(entry) == _plain(text) or bool(_stems(entry) & _stems(text))


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in re.findall(r"\w+", text.casefold()) if len(word) >= _SHORT}


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def pending_tasks(document: Document) -> Counter[str]:
    return Counter(text for text in _entries(document, PENDING) if isinstance(text, str))


def _completed_work(document: Document) -> Counter[str]:
    entries = (entry.get("task") if isinstance(entry, dict) else entry for entry in _entries(document, COMPLETED))
    return Counter(text for text in entries if isinstance(text, str) and text.strip())


def _names(document: Document, key: str, rules: Format) -> set[str]:
    return {name for name, _ in entries_by_name(_entries(document, key), (key,), rules.identities)}


def _entries(document: Document, key: str) -> list[Json]:
    value = document.get(key)
    return value if isinstance(value, list) else []
