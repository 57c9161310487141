"""Find the meaning of each key in a hand-made document by looking it up in the table, from the top down.

A word such as branch or date is the session's own only where the session is described; in a list of earlier sessions,
phases or agents it is theirs. Work, decisions and notes count everywhere else.
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

_MAX_DEPTH: Final = 6
_TITLE: Final = 3  # a goal of this rank may be the title of anything
_LAST_RANK: Final = 9
_WORK: Final = frozenset({"done", "doing", "to do", "blocked", "tasks"})
# Meanings that entries inherit from the object around them, unless their own name has another.
_INHERITED: Final = frozenset({"done", "to do", "blocked", "note", "decision"})
_FILES: Final = frozenset({"modified files", "created files", "deleted files"})
# Facts of the session.
_GIT: Final = frozenset({"branch", "commit", "commits"})
_FACTS: Final = frozenset(
    {"began", "updated", "worked", "id", "model", "scope", "tags", "progress", "status", "summary", "project"}
)


_LISTS: Final = frozenset({"done", "doing", "to do"})
# Keys of a session's number.
_NUMBERED: Final = frozenset({"session", "id", "number", "no", "nr", "index"})
# The session before this one: its work counts, its date and summary are its own.
_EARLIER: Final = frozenset({"last", "latest"})


class KnownKey(NamedTuple):
    """A key of the document that has a meaning."""

    row: Keys
    place: Place
    key: str
    value: Json


Meanings: TypeAlias = dict[Meaning, list[KnownKey]]


def meanings(value: Json) -> Meanings:
    """Every key of a document that the table has a meaning for."""
    result: Meanings = {}
    if isinstance(value, list) and _are_sessions(value):
        _walk_latest(result, value, ())
    elif isinstance(value, list):
        _add(result, row_of("todos", value), (), "todos", value)
    elif isinstance(value, dict):
        _walk(result, value, (), _Context(prose=NOTES in value))
        if not result.keys() - _FACTS - {"sessions"}:  # only a log: its latest session is meant
            for log in result.get("sessions", [])[:1]:
                _walk_latest(result, log.value, log.place)
    result.pop("sessions", None)
    return result


def recognises(value: Json) -> bool:
    """Would a session made of the document have content? A date, an id or a status alone is none."""
    return bool(meanings(value).keys() - (_FACTS - {"summary"}))


class _Context(NamedTuple):
    """What the object around a key says about its meaning."""

    # Does it describe the session itself? Does it describe the session's place in git?
    session: bool = True
    git: bool = True
    # The meaning its entries inherit.
    inherited: Keys | None = None
    # Is it an entry itself, in which only facts count?
    facts_only: bool = False
    # Does it describe the session's progress?
    progress: bool = True
    # Are its keys headings of notes? Text under an unknown heading is a note.
    prose: bool = False

    def inside(self, words: set[str], row: Keys | None) -> _Context:
        entries = row if row is not None and row.meaning in _INHERITED else None
        is_current = not ("session" in words and words & _EARLIER)
        session = self.session and is_current and words <= OF_SESSION
        progress = session or (self.session and "progress" in words and words <= OF_PROGRESS)
        return _Context(
            session, self.git and is_current and words <= OF_GIT, entries, progress=progress, prose=self.prose
        )

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


def _walk(meanings: Meanings, holder: dict[str, Json], place: Place, context: _Context) -> None:
    for key, value in holder.items():
        if value is None or value in ("", [], {}) or key.startswith(("_", "$")) or "/" in key:
            continue  # empty, about the file itself, or about another file
        key_place = (*place, key)
        row = row_of(key, value)
        if row is None and context.inherited is not None and _may_inherit(key) and context.inherited.shape(value):
            row = context.inherited
        if row is None and context.prose and isinstance(value, (str, list)):
            row = row_of("note", value)
        if row is not None and row.meaning == "nothing":
            if words_of(key) == ("file",) and isinstance(value, dict):
                _add_files(meanings, value, key_place)
            continue
        if row is not None and row.meaning == "doing" and place and _is_done(holder):
            row = row_of("done", value)
        if row is not None and row.meaning == "sessions":
            if not _walk_current(meanings, value, key_place) and not place:
                _add(meanings, row, key_place, key, value)
            continue
        if isinstance(value, dict):
            inside = context.inside(set(words_of(key)), row)
            holds = _has_own_keys(row, value)
            if (holds or inside.git) and len(place) < _MAX_DEPTH:
                _walk(meanings, value, key_place, inside._replace(facts_only=context.facts_only or not holds))
            if holds and not (row is not None and values.is_item(value)):
                continue
        if row is not None and context.allows(row):
            _add(meanings, _add_earlier(row, value) if _names_earlier(key) else row, key_place, key, value)


def _add_files(meanings: Meanings, holder: dict[str, Json], place: Place) -> None:
    """Add lists of files by action."""
    for key, value in holder.items():
        row = row_of(f"{key} files", value)
        if row is not None and row.meaning in _FILES:
            _add(meanings, row, (*place, key), key, value)


def _is_done(holder: dict[str, Json]) -> bool:
    """Is the object marked as done? Then so is the current task it names."""
    return values.status_word(holder.get("status"), whole=True) == "done"


def _names_earlier(key: str) -> bool:
    """Does a key name the previous session? `last_session_date` does, `session_last_saved` does not."""
    words = words_of(key)
    return any(word in _EARLIER and after == "session" for word, after in pairwise(words))


def _add_earlier(row: Keys, value: Json) -> Keys | None:
    """A fact of the previous session: its summary becomes a note, its goal a last resort."""
    if row.meaning == "summary":
        return row_of("notes", value)
    if row.meaning == "goal":
        return row._replace(rank=_LAST_RANK)
    return None if row.meaning in _FACTS | _GIT else row


def _add(meanings: Meanings, row: Keys | None, place: Place, key: str, value: Json) -> None:
    if row is not None:
        meanings.setdefault(row.meaning, []).append(KnownKey(row, place, key, value))


def _walk_current(meanings: Meanings, value: Json, place: Place) -> bool:
    """Read the one session in progress of a list; returns whether there is one."""
    running = [
        (position, entry)
        for position, entry in enumerate(value if isinstance(value, list) else [])
        if isinstance(entry, dict) and values.status_word(entry.get("status")) == "doing"
    ]
    if len(running) == 1:
        position, entry = running[0]
        _walk(meanings, entry, (*place, position), _Context())
    return len(running) == 1


def _are_sessions(value: list[Json]) -> bool:
    """Are these sessions rather than tasks? Sessions have a number or date, and a goal or lists of work."""
    sessions = [entry for entry in value if isinstance(entry, dict) and _is_session(entry)]
    return bool(sessions) and 2 * len(sessions) > len(value)


def _is_session(entry: dict[str, Json]) -> bool:
    rows = {key: row for key, item in entry.items() if item and (row := row_of(key, item)) is not None}
    named = "session" in {word for key in entry for word in words_of(key)}
    dated = any(row.meaning in ("began", "updated") for row in rows.values())
    lists = any(row.meaning in _LISTS and isinstance(entry[key], list) for key, row in rows.items())
    return (named or dated) and (lists or (named and any(row.meaning == "goal" for row in rows.values())))


def _walk_latest(meanings: Meanings, value: Json, place: Place) -> None:
    """Walk the session in progress of a list, else the one with the latest date or highest number."""
    if _walk_current(meanings, value, place):
        return
    listed = enumerate(value if isinstance(value, list) else [])
    entries = [(_session_order(entry), position, entry) for position, entry in listed if isinstance(entry, dict)]
    for ordered in ([entry for entry in entries if entry[0][0]], [entry for entry in entries if entry[0][1] >= 0]):
        if entries and len(ordered) == len(entries):
            _, position, entry = max(ordered, key=lambda candidate: (candidate[0], candidate[1]))
            _walk(meanings, entry, (*place, position), _Context())
            return


def _session_order(entry: dict[str, Json]) -> tuple[str, int]:
    """The date and number of a listed session."""
    dates = [
        values.with_numeric_date(item)
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
    """May a key inherit a meaning? Not if it names a fact or is ignored."""
    return all(row.meaning not in _FACTS | _GIT | {"nothing"} for row in rows_named(key))


def _has_own_keys(row: Keys | None, value: dict[str, Json], depth: int = 0) -> bool:
    """Does an object contain keys with meanings of their own, rather than being an entry or a list of them?"""
    if row is None:
        return True
    if row.meaning in _WORK - {"doing"} and values.is_item(value):
        return False
    single = row.meaning in ("goal", "doing")
    for key, entry in value.items():
        inner = row_of(key, entry) if entry else None
        if inner is None:
            if single and depth < _MAX_DEPTH and isinstance(entry, dict) and _has_own_keys(row, entry, depth + 1):
                return True
            continue
        if inner.meaning in _WORK and not (single and inner.meaning == "doing"):
            return True
        if inner.meaning == "goal" and inner.rank < _TITLE:
            return True
        if inner.meaning in ("note", "decision") and row.meaning in _WORK and not single and isinstance(entry, list):
            return True
    return False
