"""opencode's own store: a database of all conversations (`opencode.db`), and before that one file for each
conversation, message and part below `storage`. Only read, also while opencode writes.

Once there is a database, it holds what the files held.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from typing import Final, TypeVar

import apsw
import msgspec

from holdfast.capture import refusals
from holdfast.capture.database import REFUSALS, AgentDatabase
from holdfast.capture.lines import Problems, whole
from holdfast.capture.opencode.telling import (
    CONVERSATIONS,
    MESSAGES,
    PARTS,
    Conversation,
    Message,
    Part,
    Span,
    Telling,
)
from holdfast.capture.places import Places
from holdfast.capture.sources import names, stamp
from holdfast.capture.transcripts import Source, Story
from holdfast.capture.values import read
from holdfast.core.decoding import decodable

T = TypeVar("T")

_LARGEST: Final = 64 << 20  # bytes of one message or part
_DEEPEST: Final = 20  # conversations below each other
_TABLES: Final = frozenset(("session", "message", "part", "todo"))


class Transcripts:
    name = "opencode"

    def sources(self, places: Places) -> Iterator[Source]:
        top = places.data("opencode")
        named = places.environ.get("OPENCODE_DB", "").strip()
        databases = [named if os.path.isabs(named) else os.path.join(top, named)] if named else _databases(top)
        found = False
        for path in databases:
            if (seen := stamp(path)) is not None:
                found = True
                yield Source(path, f"{seen};{stamp(path + '-wal')}")
        if found:
            return
        sessions = os.path.join(top, "storage", "session")
        for project in names(sessions):
            for name in names(os.path.join(sessions, project)):
                path = os.path.join(sessions, project, name)
                if name.endswith(".json") and (seen := stamp(path)) is not None:
                    messages = os.path.join(top, "storage", "message", name.removesuffix(".json"))
                    yield Source(path, f"{seen};{stamp(messages, directory=True)}")

    def read(self, source: Source) -> Iterator[Story]:
        if source.path.endswith(".json"):
            yield from _from_files(source.path)
            return
        problems = Problems()
        yield from _from_database(source.path, problems, source.conversation)
        if problems:
            name = os.path.basename(source.path)
            yield Story(agent=self.name, conversation=name, began=0, ended=0, problems=problems.sentences())


# ── the database ─────────────────────────────────────────────────────────────────────────────────────────────


def _from_database(path: str, problems: Problems, only: str | None) -> Iterator[Story]:
    try:
        if not stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode):
            problems.add("is not a regular file")
            return
        opened = AgentDatabase(path)
    except (OSError, ValueError, apsw.Error) as error:
        if isinstance(error, REFUSALS):
            refusals.note(path, error)
        problems.add(f"cannot be opened ({error})")
        return
    with closing(opened):
        database = opened.connection
        try:
            # One moment of the database for the whole of it.
            database.execute("BEGIN")
            if not opened.runs_nothing(_TABLES):
                problems.add("is not opencode's: something in it would run while it is read")
                return
            conversations = {one.id: one for one in _conversations(database)}
            calls: dict[str, list[Conversation]] = {}
            for one in conversations.values():
                if one.parent in conversations:
                    calls.setdefault(one.parent or "", []).append(one)
        except (apsw.Error, UnicodeDecodeError) as error:
            if isinstance(error, REFUSALS):
                refusals.note(path, error)
            problems.add(f"cannot be read ({error})")
            return
        for one in conversations.values():
            if one.parent in conversations or only not in (None, one.id):
                continue
            telling = Telling(one)
            try:
                _hear(database, telling, one, calls)
            except (apsw.Error, UnicodeDecodeError) as error:
                if isinstance(error, REFUSALS):
                    refusals.note(path, error)
                telling.problems.append(f"cannot be read to its end ({error})")
            story = telling.story()
            if story is not None:
                yield story
            else:
                for sentence in telling.problems:
                    problems.add(f"in {one.id[:60]}, {sentence}")


def _conversations(database: apsw.Connection) -> Iterator[Conversation]:
    columns = {str(row[1]) for row in database.execute("PRAGMA table_info(session)")}
    agent = "agent" if "agent" in columns else "NULL"
    rows = database.execute(
        f"SELECT id, parent_id, directory, title, {agent}, time_created FROM session ORDER BY time_created, id"  # noqa: S608 - one of two words
    )
    for name, parent, directory, title, kind, created in rows:
        if type(name) is str and name:
            span = Span(created=created if type(created) is int else None)
            yield Conversation(name, _text(parent), _text(directory), _text(title), _text(kind), span)


def _hear(
    database: apsw.Connection, telling: Telling, top: Conversation, calls: dict[str, list[Conversation]]
) -> None:
    for message, parts in _messages(database, top.id, telling):
        telling.hear(message, parts)
    below = [(one, 1) for one in calls.get(top.id, ())]
    while below:
        child, depth = below.pop()
        telling.hear_agent(child, list(_messages(database, child.id, telling)))
        if depth < _DEEPEST:
            below.extend((one, depth + 1) for one in calls.get(child.id, ()))
    rows = database.execute(
        "SELECT content, status, time_updated FROM todo WHERE session_id = ? ORDER BY position", (top.id,)
    )
    todos = [(text, str(status), at) for text, status, at in rows if type(text) is str and type(at) is int]
    if todos:
        telling.hear_todos(max(at for _, _, at in todos), [(text, status) for text, status, _ in todos])


def _messages(database: apsw.Connection, name: str, telling: Telling) -> Iterator[tuple[Message, list[Part]]]:
    # As bytes: text that is not UTF-8 is decided on here.
    parts: dict[str, list[Part]] = {}
    wanted = (
        "SELECT id, message_id, CAST(data AS BLOB) FROM part WHERE session_id = ? AND length(data) < ? ORDER BY id"
    )
    for own, message, data in database.execute(wanted, (name, _LARGEST)):
        part = _decoded(PARTS, data, f"part {own}", telling.problems)
        if part is not None:
            part.id = str(own)
            parts.setdefault(str(message), []).append(part)
    wanted = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
    for own, data in database.execute(wanted, (name,)):
        found = _decoded(MESSAGES, data, f"message {own}", telling.problems)
        if found is not None:
            found.id = str(own)
            yield found, parts.get(found.id, [])


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_files(path: str) -> Iterator[Story]:
    problems: list[str] = []
    top = _loaded(CONVERSATIONS, path, problems)
    storage = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    name = os.path.basename(path).removesuffix(".json")
    if top is None:
        yield Story(agent="opencode", conversation=name, began=0, ended=0, problems=problems)
        return
    top.id = name
    telling = Telling(top)
    telling.problems = problems
    for message, parts in _message_files(storage, name, problems):
        telling.hear(message, parts)
    todos = _loaded(_TODOS, os.path.join(storage, "todo", f"{name}.json"), []) or []
    at = top.time.updated if top.time else None
    if todos and at:
        telling.hear_todos(int(at), [(one.content, one.status) for one in todos])
    story = telling.story()
    yield story or Story(agent="opencode", conversation=name, began=0, ended=0, problems=problems)


class _Todo(msgspec.Struct, gc=False):
    content: str = ""
    status: str = ""


_TODOS: Final = msgspec.json.Decoder(decodable(list[_Todo]))


def _message_files(storage: str, name: str, problems: list[str]) -> Iterator[tuple[Message, list[Part]]]:
    directory = os.path.join(storage, "message", name)
    for one in names(directory):
        message = _loaded(MESSAGES, os.path.join(directory, one), problems) if one.endswith(".json") else None
        if message is None:
            continue
        message.id = one.removesuffix(".json")
        beside = os.path.join(storage, "part", message.id)
        parts = []
        for own in names(beside):
            part = _loaded(PARTS, os.path.join(beside, own), problems) if own.endswith(".json") else None
            if part is not None:
                part.id = own.removesuffix(".json")
                parts.append(part)
        yield message, parts


def _loaded(decoder: msgspec.json.Decoder[T], path: str, problems: list[str]) -> T | None:
    trouble = Problems()
    content = whole(path, trouble, _LARGEST)
    name = os.path.basename(path)
    if trouble:
        problems.extend(f"{name} {sentence}" for sentence in trouble.sentences())
        return None
    return _decoded(decoder, content, name, problems)


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _decoded(decoder: msgspec.json.Decoder[T], data: object, what: str, problems: list[str]) -> T | None:
    if isinstance(data, bytes):
        found = read(decoder, data)
        if found is None:
            found = read(decoder, data.rstrip(b"\0").decode("utf-8", "replace"))
        if found is not None:
            return found
    if len(problems) < Problems.MOST:
        problems.append(f"{what[:80]} cannot be understood")
    return None


def _databases(top: str) -> list[str]:
    return [os.path.join(top, name) for name in names(top) if name.startswith("opencode") and name.endswith(".db")]


def _text(value: object) -> str | None:
    return value if type(value) is str and value else None


READER: Final = Transcripts()
