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

from holdfast.conversations.adapters import read_errors
from holdfast.conversations.adapters.database import REFUSALS, AgentDatabase
from holdfast.conversations.adapters.fields import read
from holdfast.conversations.adapters.files import names, stamp
from holdfast.conversations.adapters.jsonl import Problems, whole
from holdfast.conversations.adapters.opencode.transcript import (
    CONVERSATIONS,
    MESSAGES,
    PARTS,
    OpencodeMessage,
    OpencodePart,
    OpencodeSession,
    OpencodeSpan,
    OpencodeTranscript,
)
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

T = TypeVar("T")

_LARGEST: Final = 64 << 20  # bytes of one message or part
_DEEPEST: Final = 20  # conversations below each other
_TABLES: Final = frozenset(("session", "message", "part", "todo"))


class OpencodeTranscripts:
    name = "opencode"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        top = places.data("opencode")
        named = places.environ.get("OPENCODE_DB", "").strip()
        databases = [named if os.path.isabs(named) else os.path.join(top, named)] if named else _databases(top)
        found = False
        for path in databases:
            if (seen := stamp(path)) is not None:
                found = True
                yield TranscriptSource(path, f"{seen};{stamp(path + '-wal')}")
        if found:
            return
        sessions = os.path.join(top, "storage", "session")
        for project in names(sessions):
            for name in names(os.path.join(sessions, project)):
                path = os.path.join(sessions, project, name)
                if name.endswith(".json") and (seen := stamp(path)) is not None:
                    messages = os.path.join(top, "storage", "message", name.removesuffix(".json"))
                    yield TranscriptSource(path, f"{seen};{stamp(messages, directory=True)}")

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        if source.path.endswith(".json"):
            yield from _from_files(source.path)
            return
        problems = Problems()
        yield from _from_database(source.path, problems, source.conversation)
        if problems:
            name = os.path.basename(source.path)
            yield Transcript(agent=self.name, conversation=name, began=0, ended=0, problems=problems.sentences())


# ── the database ─────────────────────────────────────────────────────────────────────────────────────────────


def _from_database(path: str, problems: Problems, only: str | None) -> Iterator[Transcript]:
    try:
        if not stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode):
            problems.add("is not a regular file")
            return
        opened = AgentDatabase(path)
    except (OSError, ValueError, apsw.Error) as error:
        if isinstance(error, REFUSALS):
            read_errors.note(path, error)
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
            conversations = {conversation.id: conversation for conversation in _conversations(database)}
            calls: dict[str, list[OpencodeSession]] = {}
            for conversation in conversations.values():
                if conversation.parent in conversations:
                    calls.setdefault(conversation.parent or "", []).append(conversation)
        except (apsw.Error, UnicodeDecodeError) as error:
            if isinstance(error, REFUSALS):
                read_errors.note(path, error)
            problems.add(f"cannot be read ({error})")
            return
        for conversation in conversations.values():
            if conversation.parent in conversations or only not in (None, conversation.id):
                continue
            telling = OpencodeTranscript(conversation)
            try:
                _hear(database, telling, conversation, calls)
            except (apsw.Error, UnicodeDecodeError) as error:
                if isinstance(error, REFUSALS):
                    read_errors.note(path, error)
                telling.problems.append(f"cannot be read to its end ({error})")
            story = telling.story()
            if story is not None:
                yield story
            else:
                for sentence in telling.problems:
                    problems.add(f"in {conversation.id[:60]}, {sentence}")


def _conversations(database: apsw.Connection) -> Iterator[OpencodeSession]:
    columns = {str(row[1]) for row in database.execute("PRAGMA table_info(session)")}
    agent = "agent" if "agent" in columns else "NULL"
    rows = database.execute(
        f"SELECT id, parent_id, directory, title, {agent}, time_created FROM session ORDER BY time_created, id"  # noqa: S608 - one of two words
    )
    for name, parent, directory, title, kind, created in rows:
        if type(name) is str and name:
            span = OpencodeSpan(created=created if type(created) is int else None)
            yield OpencodeSession(name, _text(parent), _text(directory), _text(title), _text(kind), span)


def _hear(
    database: apsw.Connection,
    telling: OpencodeTranscript,
    top: OpencodeSession,
    calls: dict[str, list[OpencodeSession]],
) -> None:
    for message, parts in _messages(database, top.id, telling):
        telling.hear(message, parts)
    below = [(call, 1) for call in calls.get(top.id, ())]
    while below:
        child, depth = below.pop()
        telling.hear_agent(child, list(_messages(database, child.id, telling)))
        if depth < _DEEPEST:
            below.extend((call, depth + 1) for call in calls.get(child.id, ()))
    rows = database.execute(
        "SELECT content, status, time_updated FROM todo WHERE session_id = ? ORDER BY position", (top.id,)
    )
    todos = [(text, str(status), at) for text, status, at in rows if type(text) is str and type(at) is int]
    if todos:
        telling.hear_todos(max(at for _, _, at in todos), [(text, status) for text, status, _ in todos])


def _messages(
    database: apsw.Connection, name: str, telling: OpencodeTranscript
) -> Iterator[tuple[OpencodeMessage, list[OpencodePart]]]:
    # As bytes: text that is not UTF-8 is decided on here.
    parts: dict[str, list[OpencodePart]] = {}
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


def _from_files(path: str) -> Iterator[Transcript]:
    problems: list[str] = []
    top = _loaded(CONVERSATIONS, path, problems)
    storage = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    name = os.path.basename(path).removesuffix(".json")
    if top is None:
        yield Transcript(agent="opencode", conversation=name, began=0, ended=0, problems=problems)
        return
    top.id = name
    telling = OpencodeTranscript(top)
    telling.problems = problems
    for message, parts in _message_files(storage, name, problems):
        telling.hear(message, parts)
    todos = _loaded(_TODOS, os.path.join(storage, "todo", f"{name}.json"), []) or []
    at = top.time.updated if top.time else None
    if todos and at:
        telling.hear_todos(int(at), [(todo.content, todo.status) for todo in todos])
    story = telling.story()
    yield story or Transcript(agent="opencode", conversation=name, began=0, ended=0, problems=problems)


class _Todo(msgspec.Struct, gc=False):
    content: str = ""
    status: str = ""


_TODOS: Final = msgspec.json.Decoder(decodable(list[_Todo]))


def _message_files(
    storage: str, name: str, problems: list[str]
) -> Iterator[tuple[OpencodeMessage, list[OpencodePart]]]:
    directory = os.path.join(storage, "message", name)
    for item in names(directory):
        message = _loaded(MESSAGES, os.path.join(directory, item), problems) if item.endswith(".json") else None
        if message is None:
            continue
        message.id = item.removesuffix(".json")
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


READER: Final = OpencodeTranscripts()
