"""Read opencode's own store: a database of all conversations (`opencode.db`), and before that one file for each
conversation, message and part below `storage`.

The store is only read, also while opencode writes. Where there is a database, it holds what the files held. A
subagent is a conversation of its own, below the one that called it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from typing import Final, TypeVar

import apsw
import msgspec

from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.database import ACCESS_ERRORS, AgentDatabase
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import NULL, decode, decode_any, parse_millis
from holdfast.conversations.adapters.files import list_names, note_read_error, stamp
from holdfast.conversations.adapters.jsonl import ReadProblems, read_whole
from holdfast.conversations.adapters.opencode.hooks import AFTER, error_of, outcome, own_title, task_of
from holdfast.conversations.adapters.tools import signals_of, status_of
from holdfast.conversations.adapters.transcript import (
    Transcript,
    TranscriptBuilder,
    TranscriptSource,
)
from holdfast.conversations.signals import (
    AgentBegan,
    AgentEnded,
    Compacted,
    Planned,
    Todo,
)
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

T = TypeVar("T")

_MAX_SIZE: Final = 64 << 20  # bytes of one message or part
_MAX_DEPTH: Final = 20  # of subagents
_TABLES: Final = frozenset(("session", "message", "part", "todo"))


# ── records ──


class OpencodeCache(msgspec.Struct, gc=False):
    read: float | None = None
    write: float | None = None


class OpencodeTokens(msgspec.Struct, gc=False):
    input: float | None = None
    output: float | None = None
    reasoning: float | None = None
    cache: OpencodeCache | None = None

    @property
    def cached(self) -> int:
        return int((self.cache.read or 0) + (self.cache.write or 0)) if self.cache else 0


class OpencodeSpan(msgspec.Struct, gc=False):
    created: float | None = None
    updated: float | None = None
    completed: float | None = None
    start: float | None = None
    end: float | None = None


class OpencodeMessage(msgspec.Struct, gc=False):
    id: str = ""
    role: str = ""
    time: OpencodeSpan | None = None
    model: str | None = msgspec.field(name="modelID", default=None)
    provider: str | None = msgspec.field(name="providerID", default=None)
    cost: float | None = None
    tokens: OpencodeTokens | None = None
    finish: str | None = None
    error: msgspec.Raw = NULL


class OpencodeState(msgspec.Struct, gc=False):
    status: str = ""
    input: msgspec.Raw = NULL
    metadata: msgspec.Raw = NULL
    output: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    time: OpencodeSpan | None = None


class OpencodePart(msgspec.Struct, gc=False):
    id: str = ""
    type: str = ""
    text: str | None = None
    synthetic: bool | None = None
    ignored: bool | None = None
    tool: str | None = None
    call: str | None = msgspec.field(name="callID", default=None)
    state: OpencodeState | None = None


class OpencodeSession(msgspec.Struct, gc=False):
    """One row, or one file, of opencode's conversations."""

    id: str = ""
    parent: str | None = msgspec.field(name="parentID", default=None)
    directory: str | None = None
    title: str | None = None
    agent: str | None = None
    time: OpencodeSpan | None = None


MESSAGES: Final = msgspec.json.Decoder(decodable(OpencodeMessage))
PARTS: Final = msgspec.json.Decoder(decodable(OpencodePart))
CONVERSATIONS: Final = msgspec.json.Decoder(decodable(OpencodeSession))


class _Todo(msgspec.Struct, gc=False):
    content: str = ""
    status: str = ""


_TODOS: Final = msgspec.json.Decoder(decodable(list[_Todo]))


# ── the store ──


class OpencodeReader:
    name = "opencode"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        root = places.data("opencode")
        named = places.environ.get("OPENCODE_DB", "").strip()
        databases = [named if os.path.isabs(named) else os.path.join(root, named)] if named else _databases(root)
        has_database = False
        for path in databases:
            if (own_stamp := stamp(path)) is not None:
                has_database = True
                yield TranscriptSource(path, f"{own_stamp};{stamp(path + '-wal')}")
        if has_database:
            return
        sessions = os.path.join(root, "storage", "session")
        for project in list_names(sessions):
            for name in list_names(os.path.join(sessions, project)):
                path = os.path.join(sessions, project, name)
                if name.endswith(".json") and (own_stamp := stamp(path)) is not None:
                    messages = os.path.join(root, "storage", "message", name.removesuffix(".json"))
                    yield TranscriptSource(path, f"{own_stamp};{stamp(messages, directory=True)}")

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        if source.path.endswith(".json"):
            yield from _read_files(source.path)
            return
        problems = ReadProblems()
        yield from _read_database(source.path, problems, source.conversation)
        if problems:
            name = os.path.basename(source.path)
            yield Transcript(agent=self.name, conversation=name, began=0, ended=0, problems=problems.sentences())


# ── the database ─────────────────────────────────────────────────────────────────────────────────────────────


def _read_database(path: str, problems: ReadProblems, only: str | None) -> Iterator[Transcript]:
    try:
        if not stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode):
            problems.add("is not a regular file")
            return
        opened = AgentDatabase(path)
    except (OSError, ValueError, apsw.Error) as error:
        if isinstance(error, ACCESS_ERRORS):
            note_read_error(path, error)
        problems.add(f"cannot be opened ({error})")
        return
    with closing(opened):
        database = opened.connection
        try:
            # One snapshot of the database for all queries.
            database.execute("BEGIN")
            if not opened.has_only_tables(_TABLES):
                problems.add("is not opencode's: it has a view or virtual table in the place of a table")
                return
            conversations = {conversation.id: conversation for conversation in _conversations(database)}
            children: dict[str, list[OpencodeSession]] = {}
            for conversation in conversations.values():
                if conversation.parent in conversations:
                    children.setdefault(conversation.parent or "", []).append(conversation)
        except (apsw.Error, UnicodeDecodeError) as error:
            if isinstance(error, ACCESS_ERRORS):
                note_read_error(path, error)
            problems.add(f"cannot be read ({error})")
            return
        for conversation in conversations.values():
            if conversation.parent in conversations or only not in (None, conversation.id):
                continue
            builder = OpencodeTranscriptBuilder(conversation)
            try:
                _add_all(database, builder, conversation, children)
            except (apsw.Error, UnicodeDecodeError) as error:
                if isinstance(error, ACCESS_ERRORS):
                    note_read_error(path, error)
                builder.transcript.problems.append(f"cannot be read to its end ({error})")
            transcript = builder.finish()
            if transcript is not None:
                yield transcript
            else:
                for sentence in builder.transcript.problems:
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


def _add_all(
    database: apsw.Connection,
    builder: OpencodeTranscriptBuilder,
    root: OpencodeSession,
    children: dict[str, list[OpencodeSession]],
) -> None:
    for message, parts in _messages(database, root.id, builder):
        builder.add(message, parts)
    waiting = [(child, 1) for child in children.get(root.id, ())]
    while waiting:
        child, depth = waiting.pop()
        builder.add_subagent(child, list(_messages(database, child.id, builder)))
        if depth < _MAX_DEPTH:
            waiting.extend((grandchild, depth + 1) for grandchild in children.get(child.id, ()))
    rows = database.execute(
        "SELECT content, status, time_updated FROM todo WHERE session_id = ? ORDER BY position", (root.id,)
    )
    todos = [(text, str(status), at) for text, status, at in rows if type(text) is str and type(at) is int]
    if todos:
        builder.add_todos(max(at for _, _, at in todos), [(text, status) for text, status, _ in todos])


def _messages(
    database: apsw.Connection, name: str, builder: OpencodeTranscriptBuilder
) -> Iterator[tuple[OpencodeMessage, list[OpencodePart]]]:
    # As bytes: text that is not UTF-8 is dealt with here.
    parts: dict[str, list[OpencodePart]] = {}
    query = (
        "SELECT id, message_id, CAST(data AS BLOB) FROM part WHERE session_id = ? AND length(data) < ? ORDER BY id"
    )
    for own, message, data in database.execute(query, (name, _MAX_SIZE)):
        part = _decode(PARTS, data, f"part {own}", builder.transcript.problems)
        if part is not None:
            part.id = str(own)
            parts.setdefault(str(message), []).append(part)
    query = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
    for own, data in database.execute(query, (name,)):
        decoded = _decode(MESSAGES, data, f"message {own}", builder.transcript.problems)
        if decoded is not None:
            decoded.id = str(own)
            yield decoded, parts.get(decoded.id, [])


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_files(path: str) -> Iterator[Transcript]:
    problems: list[str] = []
    root = _load(CONVERSATIONS, path, problems)
    storage = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    name = os.path.basename(path).removesuffix(".json")
    if root is None:
        yield Transcript(agent="opencode", conversation=name, began=0, ended=0, problems=problems)
        return
    root.id = name
    builder = OpencodeTranscriptBuilder(root)
    builder.transcript.problems = problems
    for message, parts in _message_files(storage, name, problems):
        builder.add(message, parts)
    todos = _load(_TODOS, os.path.join(storage, "todo", f"{name}.json"), []) or []
    at = root.time.updated if root.time else None
    if todos and at:
        builder.add_todos(int(at), [(todo.content, todo.status) for todo in todos])
    transcript = builder.finish()
    yield transcript or Transcript(agent="opencode", conversation=name, began=0, ended=0, problems=problems)


def _message_files(
    storage: str, name: str, problems: list[str]
) -> Iterator[tuple[OpencodeMessage, list[OpencodePart]]]:
    directory = os.path.join(storage, "message", name)
    for item in list_names(directory):
        message = _load(MESSAGES, os.path.join(directory, item), problems) if item.endswith(".json") else None
        if message is None:
            continue
        message.id = item.removesuffix(".json")
        part_directory = os.path.join(storage, "part", message.id)
        parts = []
        for own in list_names(part_directory):
            part = _load(PARTS, os.path.join(part_directory, own), problems) if own.endswith(".json") else None
            if part is not None:
                part.id = own.removesuffix(".json")
                parts.append(part)
        yield message, parts


def _load(decoder: msgspec.json.Decoder[T], path: str, problems: list[str]) -> T | None:
    own_problems = ReadProblems()
    content = read_whole(path, own_problems, _MAX_SIZE)
    name = os.path.basename(path)
    if own_problems:
        problems.extend(f"{name} {sentence}" for sentence in own_problems.sentences())
        return None
    return _decode(decoder, content, name, problems)


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _decode(decoder: msgspec.json.Decoder[T], data: object, name: str, problems: list[str]) -> T | None:
    if isinstance(data, bytes):
        value = decode(decoder, data)
        if value is None:
            value = decode(decoder, data.rstrip(b"\0").decode("utf-8", "replace"))
        if value is not None:
            return value
    if len(problems) < ReadProblems.MAX_SENTENCES:
        problems.append(f"{name[:80]} cannot be understood")
    return None


def _databases(root: str) -> list[str]:
    return [
        os.path.join(root, name) for name in list_names(root) if name.startswith("opencode") and name.endswith(".db")
    ]


def _text(value: object) -> str | None:
    return value if type(value) is str and value else None


# ── one conversation ──


class OpencodeTranscriptBuilder(TranscriptBuilder):
    def __init__(self, conversation: OpencodeSession) -> None:
        super().__init__("opencode", conversation.id)
        self.transcript.cwd = conversation.directory
        self.transcript.title = own_title(conversation.title)
        self.transcript.parent = conversation.parent

    def add(self, message: OpencodeMessage, parts: list[OpencodePart], agent: str | None = None) -> int:
        """Add a message and its parts; returns its time. `agent` is the subagent that it belongs to."""
        at = parse_millis(message.time.created if message.time else None)
        if at is None or not self.is_new(message.id):
            return at or 0
        self.add_message(at, is_sign=agent is None)
        if message.role == "assistant":
            self._add_answer(message, at, agent)
        elif agent is None and message.role == "user":
            self._add_prompt(message, parts, at)
        for part in parts:
            if part.type == "compaction" and agent is None:
                self.emit(at, Compacted(), part.id)
            elif part.type == "tool" and part.state is not None and part.state.status in ("completed", "error"):
                self._add_call(part, part.state, at, agent)
        return at

    def add_subagent(
        self, child: OpencodeSession, messages: list[tuple[OpencodeMessage, list[OpencodePart]]]
    ) -> None:
        """Add a subagent: its beginning, its end if it came to one, and what it did."""
        moments = [self.add(message, parts, child.id) for message, parts in messages]
        created = parse_millis(child.time.created if child.time else None)
        began = created or min((moment for moment in moments if moment), default=0)
        if not began:
            return
        kind, task = child.agent or "general", task_of(child.title)
        self.emit(began, AgentBegan(agent=child.id, type=kind, task=task), f"{child.id}.began")
        last, parts = messages[-1] if messages else (OpencodeMessage(), [])
        ended = parse_millis(last.time.completed if last.time else None)
        if ended is None or last.finish == "tool-calls":
            return
        answer = next((part.text for part in reversed(parts) if part.type == "text" and part.text), None)
        used = last.tokens or OpencodeTokens()
        error_kind, error_message = _error(last.error)
        failed = error_message or error_kind
        self.emit(
            max(ended, began),
            AgentEnded(
                agent=child.id, type=kind, task=task, failed=failed,
                summary=plain(answer) if answer and not failed else None,
                tokens=int(used.input or 0) + used.cached + int(used.output or 0) or None,
            ),
            f"{child.id}.ended",
        )  # fmt: skip

    def add_todos(self, at: int, todos: list[tuple[str, str]]) -> None:
        """Add the list as it is at the end; opencode does not keep what it was before."""
        planned = tuple(Todo(plain(text), status_of(status) or "pending") for text, status in todos)
        self.emit(at, Planned(todos=planned), f"todo.{at}")

    def _add_prompt(self, message: OpencodeMessage, parts: list[OpencodePart], at: int) -> None:
        own = [part.text for part in parts if part.type == "text" and part.text and not part.synthetic]
        if own:
            self.emit_prompt(at, "\n".join(own), message.id)

    def _add_answer(self, message: OpencodeMessage, at: int, agent: str | None) -> None:
        if agent is None and message.model:
            self.transcript.model = f"{message.provider}/{message.model}" if message.provider else message.model
        self.transcript.cost_usd = (self.transcript.cost_usd or 0.0) + (message.cost or 0.0) or None
        used = message.tokens
        if used is not None:
            cache = used.cache or OpencodeCache()
            self.add_tokens(
                int(used.input or 0), int((used.output or 0) + (used.reasoning or 0)), int(cache.read or 0),
                int(cache.write or 0),
            )  # fmt: skip
            if agent is None:
                self.measure(at, int(used.input or 0) + used.cached + int(used.output or 0), message.id)
        kind, error_message = _error(message.error)
        if agent is None and (kind or error_message) and kind != "MessageAbortedError":
            self.emit(at, classify(kind, error_message), message.id)

    def _add_call(self, part: OpencodePart, state: OpencodeState, at: int, agent: str | None) -> None:
        tool = part.tool or ""
        if tool == "task" or (tool not in AFTER and state.status == "completed"):
            return
        began, ended = (state.time.start, state.time.end) if state.time else (None, None)
        took = int(ended - began) if began is not None and ended is not None and ended >= began else None
        error = decode_any(state.error)
        signals = signals_of(
            tool, decode_any(state.input), outcome(tool, decode_any(state.metadata), decode_any(state.output)),
            agent=agent,
            call=part.call, took_ms=took, table=AFTER,
            failed=(error if type(error) is str else "it failed") if state.status == "error" else None,
        )  # fmt: skip
        self.emit_all(parse_millis(ended) or at, signals, part.id)


def _error(raw: msgspec.Raw) -> tuple[str | None, str | None]:
    error = decode_any(raw)
    return error_of(error) if type(error) is dict else (None, None)


READER: Final = OpencodeReader()
