"""Which key of a hand-made document means what: the table is asked for every key, from the top inwards.

The same word means the session's own branch or date only where the session is described; in a list of earlier
sessions, of phases or of agents it is theirs. Work, decisions and notes count wherever they stand, except there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from holdfast.core.canonical import Json
from holdfast.formats.base import Place
from holdfast.formats.detect import NOTES
from holdfast.formats.unknown import values
from holdfast.formats.unknown.table import (
    OF_GIT,
    OF_PROGRESS,
    OF_SESSION,
    Keys,
    Meaning,
    row_of,
    rows_named,
    words_of,
)

_DEEPEST: Final = 6
_TITLE: Final = 3  # a goal of this rank may be the title of anything
_LAST_RANK: Final = 9
_WORK: Final = frozenset({"done", "doing", "to do", "blocked", "tasks"})
# What an object is called, its entries are, unless they have names that mean something else.
_INHERITED: Final = frozenset({"done", "to do", "blocked", "note", "decision"})
_FILES: Final = frozenset({"modified files", "created files", "deleted files"})
# Facts of the session.
_GIT: Final = frozenset({"branch", "commit", "commits"})
_FACTS: Final = frozenset(
    {"began", "updated", "worked", "id", "model", "scope", "tags", "progress", "status", "summary", "project"}
)


_LISTS: Final = frozenset({"done", "doing", "to do"})
# What the number of a session is called.
_NUMBERED: Final = frozenset({"session", "id", "number", "no", "nr", "index"})
# The session before this one: its work counts, its date and summary are its own.
_EARLIER: Final = frozenset({"last", "latest"})


class KnownKey(NamedTuple):
    """A key of the document that means something."""

    row: Keys
    place: Place
    key: str
    value: Json


Meanings: TypeAlias = dict[Meaning, list[KnownKey]]


def meanings(value: Json) -> Meanings:
    """Everything in a document that the table has a meaning for."""
    found: Meanings = {}
    if isinstance(value, list) and _are_sessions(value):
        _walk_latest(found, value, ())
    elif isinstance(value, list):
        _take(found, row_of("todos", value), (), "todos", value)
    elif isinstance(value, dict):
        _walk(found, value, (), _Around(prose=NOTES in value))
        if not found.keys() - _FACTS - {"sessions"}:  # a log and nothing else: the latest session is what it is about
            for log in found.get("sessions", [])[:1]:
                _walk_latest(found, log.value, log.place)
    found.pop("sessions", None)
    return found


def recognises(value: Json) -> bool:
    """Whether a session made of the document would say something: a date, an id or a status alone does not."""
    return bool(meanings(value).keys() - (_FACTS - {"summary"}))


class _Around(NamedTuple):
    """The object in which a key stands."""

    # Whether it describes the session itself, and whether it says where the session is in git.
    session: bool = True
    git: bool = True
    # What its entries are, if it says so by its name.
    inherited: Keys | None = None
    # Whether it is an entry itself, and only facts are looked for in it.
    facts_only: bool = False
    # Whether it says how far the session is.
    progress: bool = True
    # Whether its keys are headings of notes: what stands below one that nobody knows is a note.
    prose: bool = False

    def inside(self, words: set[str], row: Keys | None) -> _Around:
        entries = row if row is not None and row.meaning in _INHERITED else None
        here = not ("session" in words and words & _EARLIER)
        session = self.session and here and words <= OF_SESSION
        progress = session or (self.session and "progress" in words and words <= OF_PROGRESS)
        return _Around(session, self.git and here and words <= OF_GIT, entries, progress=progress, prose=self.prose)

    def allows(self, row: Keys) -> bool:
        if row.meaning in _GIT:
            return self.git
        if row.meaning == "progress":
            return self.progress
        if row.meaning in _FACTS:
            return self.session
        if row.meaning == "goal" and row.rank > _TITLE:
            return self.git
        if self.facts_only:
            return False
        return self.session if row.meaning == "goal" and row.rank == _TITLE else True


def _walk(found: Meanings, holder: dict[str, Json], place: Place, around: _Around) -> None:
    for key, value in holder.items():
        if value is None or value in ("", [], {}) or key.startswith(("_", "$")) or "/" in key:
            continue  # nothing, about the file itself, or about another file
        here = (*place, key)
        row = row_of(key, value)
        if row is None and around.inherited is not None and _may_inherit(key) and around.inherited.shape(value):
            row = around.inherited
        if row is None and around.prose and isinstance(value, (str, list)):
            row = row_of("note", value)
        if row is not None and row.meaning == "nothing":
            if words_of(key) == ("file",) and isinstance(value, dict):
                _take_files(found, value, here)
            continue
        if row is not None and row.meaning == "doing" and place and _is_done(holder):
            row = row_of("done", value)
        if row is not None and row.meaning == "sessions":
            if not _walk_current(found, value, here) and not place:
                _take(found, row, here, key, value)
            continue
        if isinstance(value, dict):
            inside = around.inside(set(words_of(key)), row)
            holds = _holds(row, value)
            if (holds or inside.git) and len(place) < _DEEPEST:
                _walk(found, value, here, inside._replace(facts_only=around.facts_only or not holds))
            if holds and not (row is not None and values.is_item(value)):
                continue
        if row is not None and around.allows(row):
            _take(found, _of_earlier(row, value) if _names_earlier(key) else row, here, key, value)


def _take_files(found: Meanings, holder: dict[str, Json], place: Place) -> None:
    """Lists of files by what became of them."""
    for key, value in holder.items():
        row = row_of(f"{key} files", value)
        if row is not None and row.meaning in _FILES:
            _take(found, row, (*place, key), key, value)


def _is_done(holder: dict[str, Json]) -> bool:
    """Whether an object says of itself that it is done: then so is what it names as the one thing at hand."""
    return values.status_word(holder.get("status"), whole=True) == "done"


def _names_earlier(key: str) -> bool:
    """Whether a key names the session before this one: `last_session_date`, but not `session_last_saved`."""
    words = words_of(key)
    return any(word in _EARLIER and after == "session" for word, after in pairwise(words))


def _of_earlier(row: Keys, value: Json) -> Keys | None:
    """What a fact of the session before this one is here: its summary a note, its goal ours for want of another."""
    if row.meaning == "summary":
        return row_of("notes", value)
    if row.meaning == "goal":
        return row._replace(rank=_LAST_RANK)
    return None if row.meaning in _FACTS | _GIT else row


def _take(found: Meanings, row: Keys | None, place: Place, key: str, value: Json) -> None:
    if row is not None:
        found.setdefault(row.meaning, []).append(KnownKey(row, place, key, value))


def _walk_current(found: Meanings, value: Json, place: Place) -> bool:
    """Of a list of sessions, the one that is in progress, if there is one; the others are over."""
    running = [
        (position, entry)
        for position, entry in enumerate(value if isinstance(value, list) else [])
        if isinstance(entry, dict) and values.status_word(entry.get("status")) == "doing"
    ]
    if len(running) == 1:
        position, entry = running[0]
        _walk(found, entry, (*place, position), _Around())
    return len(running) == 1


def _are_sessions(value: list[Json]) -> bool:
    """Whether entries are sessions rather than tasks: they have a number or a date, and a goal or lists of work."""
    sessions = [entry for entry in value if isinstance(entry, dict) and _is_session(entry)]
    return bool(sessions) and 2 * len(sessions) > len(value)


def _is_session(entry: dict[str, Json]) -> bool:
    rows = {key: row for key, item in entry.items() if item and (row := row_of(key, item)) is not None}
    named = "session" in {word for key in entry for word in words_of(key)}
    dated = any(row.meaning in ("began", "updated") for row in rows.values())
    lists = any(row.meaning in _LISTS and isinstance(entry[key], list) for key, row in rows.items())
    return (named or dated) and (lists or (named and any(row.meaning == "goal" for row in rows.values())))


def _walk_latest(found: Meanings, value: Json, place: Place) -> None:
    """Of a list of sessions, the one in progress, else the one with the latest date or the highest number."""
    if _walk_current(found, value, place):
        return
    listed = enumerate(value if isinstance(value, list) else [])
    entries = [(_order(entry), position, entry) for position, entry in listed if isinstance(entry, dict)]
    for ordered in ([entry for entry in entries if entry[0][0]], [entry for entry in entries if entry[0][1] >= 0]):
        if entries and len(ordered) == len(entries):
            _, position, entry = max(ordered, key=lambda one: (one[0], one[1]))
            _walk(found, entry, (*place, position), _Around())
            return


def _order(entry: dict[str, Json]) -> tuple[str, int]:
    """The date and the number of a session in a list, as far as it has them."""
    dates = [
        values.dated(item)
        for key, item in entry.items()
        if isinstance(item, str) and (row := row_of(key, item)) is not None and row.meaning in ("began", "updated")
    ]
    numbers = [
        item
        for key, item in entry.items()
        if isinstance(item, int) and not isinstance(item, bool) and set(words_of(key)) <= _NUMBERED
    ]
    return max(dates, default=""), max(numbers, default=-1)


def _may_inherit(key: str) -> bool:
    """A key that names a fact, or nothing of interest, is no entry of the object around it."""
    return all(row.meaning not in _FACTS | _GIT | {"nothing"} for row in rows_named(key))


def _holds(row: Keys | None, value: dict[str, Json], depth: int = 0) -> bool:
    """Whether an object holds things with meanings of their own, rather than being one or listing entries."""
    if row is None:
        return True
    if row.meaning in _WORK - {"doing"} and values.is_item(value):
        return False
    one = row.meaning in ("goal", "doing")
    for key, entry in value.items():
        inner = row_of(key, entry) if entry else None
        if inner is None:
            if one and depth < _DEEPEST and isinstance(entry, dict) and _holds(row, entry, depth + 1):
                return True
            continue
        if inner.meaning in _WORK and not (one and inner.meaning == "doing"):
            return True
        if inner.meaning == "goal" and inner.rank < _TITLE:
            return True
        if inner.meaning in ("note", "decision") and row.meaning in _WORK and not one and isinstance(entry, list):
            return True
    return False
