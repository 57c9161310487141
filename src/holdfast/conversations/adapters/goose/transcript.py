"""Read Goose's conversations from its database, or from the files of older versions.

Messages consist of text, tool calls and their results. Only the fields named here are decoded; everything may be
missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple, TypeAlias

import apsw
import msgspec

from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.database import ACCESS_ERRORS, AgentDatabase
from holdfast.conversations.adapters.fields import NULL, decode, decode_any, get_text
from holdfast.conversations.adapters.files import list_files, note_read_error
from holdfast.conversations.adapters.goose.hooks import AFTER, AGENT_TYPE
from holdfast.conversations.adapters.goose.settings import data
from holdfast.conversations.adapters.jsonl import ReadProblems, read_records
from holdfast.conversations.adapters.tools import signals_of
from holdfast.conversations.adapters.transcript import (
    PartTranscriptBuilder,
    Transcript,
    TranscriptSource,
    merge_subagent,
)
from holdfast.conversations.signals import Active, AgentBegan, AgentEnded, Compacted
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

# Times are whole seconds in some versions and milliseconds in others; seconds reach this in the year 2286.
_SECONDS_END: Final = 10_000_000_000


class GooseToolRequest(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = NULL


class GooseToolCall(msgspec.Struct, gc=False):
    status: str | None = None
    value: GooseToolRequest | None = None


class GooseToolResult(msgspec.Struct, gc=False):
    status: str | None = None
    error: msgspec.Raw = NULL
    value: msgspec.Raw = NULL


class GooseResult(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(name="isError", default=None)


class GoosePart(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    id: str | None = None
    call: GooseToolCall | None = msgspec.field(name="toolCall", default=None)
    result: GooseToolResult | None = msgspec.field(name="toolResult", default=None)


class GooseVisibility(msgspec.Struct, gc=False):
    """Whom a message is for."""

    person: bool | None = msgspec.field(name="userVisible", default=None)


class GooseMessage(msgspec.Struct, gc=False):
    """A line in a file of older versions: a message, or (the first) the facts of the conversation."""

    role: str | None = None
    created: int | None = None
    id: str | None = None
    content: msgspec.Raw = NULL
    working_dir: str | None = None
    description: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    accumulated_input_tokens: int | None = None
    accumulated_output_tokens: int | None = None


PARTS: Final = msgspec.json.Decoder(decodable(list[GoosePart]))
SEEN: Final = msgspec.json.Decoder(decodable(GooseVisibility))
RESULT: Final = msgspec.json.Decoder(decodable(GooseResult))
MESSAGE: Final = msgspec.json.Decoder(decodable(GooseMessage))


def _millis(stamp: object) -> int:
    """Goose's time in milliseconds; 0 if it is none."""
    if type(stamp) is not int or not 0 < stamp < _SECONDS_END * 1000:
        return 0
    return stamp * 1000 if stamp < _SECONDS_END else stamp


class GooseTranscriptBuilder(PartTranscriptBuilder):
    def __init__(self, conversation: str, *, agent: str | None = None, has_subagents: bool = False) -> None:
        super().__init__("goose", conversation, agent)
        # Whether the subagents have conversations of their own: then their calls add nothing.
        self._has_subagents = has_subagents
        self._task: str | None = None
        self._answer: str | None = None
        self._calls: dict[str, tuple[str, msgspec.Raw]] = {}

    def add(self, at: int, role: str | None, mark: str, content: bytes | msgspec.Raw, about: bytes = b"") -> bool:
        """Add a message; returns false if it cannot be understood."""
        parts = decode(PARTS, content)
        if parts is None or not at:
            return False
        self.add_message(at, is_sign=True)
        visibility = decode(SEEN, about) if about else None
        text = "\n".join(part.text for part in parts if part.type == "text" and part.text)
        for place, part in enumerate(parts):
            self._add_part(at, part, f"{mark}.{place}")
        if role == "assistant":
            self._answer = text or self._answer
        elif self.agent is not None:
            self._task = self._task or text or None
        elif role == "user" and text.strip() and (visibility is None or visibility.person is not False):
            self.emit_prompt(at, text, mark)
        return True

    def add_compaction(self, at: int, mark: str) -> None:
        self.emit(at, Compacted(), mark)

    def finish(self) -> Transcript | None:
        if self.agent is not None and self.transcript.signs:
            self._emit_subagent(self.agent, min(self.transcript.signs), max(self.transcript.signs))
        return super().finish()

    def _emit_subagent(self, agent: str, began: int, ended: int) -> None:
        task = plain(self._task) if self._task else None
        summary = plain(self._answer) if self._answer else None
        self.emit(began, AgentBegan(agent=agent, type=AGENT_TYPE, task=task), "began")
        self.emit(ended, AgentEnded(agent=agent, type=AGENT_TYPE, task=task, summary=summary), f"ended.{ended}")

    def _add_part(self, at: int, part: GoosePart, mark: str) -> None:
        if part.id is None:
            return
        if part.call is not None and part.call.value is not None and part.call.value.name:
            self._calls[part.id] = (part.call.value.name, part.call.value.arguments)
        elif part.result is not None and part.id in self._calls:
            tool, arguments = self._calls.pop(part.id)
            if tool not in AFTER:
                return
            signals = signals_of(
                tool, decode_any(arguments), decode_any(part.result.value), agent=self.agent, call=part.id,
                failed=_failure(part.result), table=AFTER,
            )  # fmt: skip
            ignored = (Active, AgentEnded) if self._has_subagents else (Active,)
            self.emit_all(at, (signal for signal in signals if type(signal) not in ignored), mark)


def _failure(outcome: GooseToolResult) -> str | None:
    if outcome.status == "error":
        message = decode_any(outcome.error)
        return plain(message, 500) if type(message) is str and message else "failed"
    result = decode(RESULT, outcome.value)
    return "failed" if result is not None and result.is_error else None


Cell: TypeAlias = "int | float | str | bytes | None"


class GooseRow(NamedTuple):
    """A row by the names of its columns; columns that a version lacks are None."""

    names: Sequence[str]
    cells: Sequence[Cell]

    def text(self, name: str) -> str | None:
        cell = self._cell(name)
        return cell.decode("utf-8", "replace") if type(cell) is bytes and cell else None

    def raw(self, name: str) -> bytes:
        cell = self._cell(name)
        return cell if type(cell) is bytes else b""

    def number(self, name: str) -> int | None:
        cell = self.text(name)
        sign = cell.lstrip("-") if cell else ""
        return int(cell) if cell and len(cell) < 20 and sign.isascii() and sign.isdecimal() else None

    def amount(self, name: str) -> float | None:
        try:
            value = float(self.text(name) or "x")
        except ValueError:
            return None
        return value if 0 <= value < 1e9 else None

    def _cell(self, name: str) -> Cell:
        return self.cells[self.names.index(name)] if name in self.names else None


class GooseDatabase(AgentDatabase):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._columns: dict[str, tuple[str, ...]] = {}

    def rows(
        self, table: str, only_columns: Iterable[str], *, of: str | None = None, order: str
    ) -> Iterator[GooseRow]:
        """The rows of a table, perhaps `of` one conversation, with those of the columns asked for that it has."""
        known = self._columns_of(table)
        names = tuple(name for name in only_columns if name in known)
        if not names or (of is not None and "session_id" not in known):
            return
        # Names come from the lists in this package, never from the file.
        columns = ", ".join(f'CAST("{name}" AS BLOB)' for name in names)
        where = " WHERE session_id = ?" if of is not None else ""
        by = f' ORDER BY "{order}"' if order in known else ""
        query = f'SELECT {columns} FROM "{table}"{where}{by}'  # noqa: S608
        for cells in self.connection.execute(query, (of,) if of is not None else ()):
            yield GooseRow(names, cells)

    def _columns_of(self, table: str) -> tuple[str, ...]:
        if table not in self._columns:
            rows = self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            self._columns[table] = tuple(str(name) for (name,) in rows)
        return self._columns[table]


_DATABASE: Final = "sessions.db"
_LOG: Final = "sessions.db-wal"
_END: Final = ".jsonl"
_SESSION: Final = (
    "id", "name", "description", "working_dir", "session_type", "parent_session_id", "model_config_json",
    "accumulated_input_tokens", "accumulated_output_tokens", "accumulated_cost",
)  # fmt: skip
_MESSAGE: Final = ("id", "message_id", "role", "content_json", "created_timestamp", "metadata_json")
_LEDGER: Final = (
    "id", "created_timestamp", "model", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
    "cost", "is_compaction",
)  # fmt: skip
# Conversations of the program with itself, such as to find a title.
_HIDDEN: Final = frozenset({"hidden"})


class GooseReader:
    name = "goose"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        root = os.path.join(data(places), "sessions")
        stamp_by_name = {file.name: file.stamp for file in list_files(root, _DATABASE, _LOG, _END)}
        if _DATABASE in stamp_by_name:
            stamps = [stamp_by_name.get(name, "") for name in (_DATABASE, _LOG)]
            yield TranscriptSource(os.path.join(root, _DATABASE), ";".join(stamps))
            return
        for name, stamp in stamp_by_name.items():
            if name.endswith(_END):
                yield TranscriptSource(os.path.join(root, name), stamp)

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        if source.path.endswith(_END):
            yield from _read_file(source.path)
            return
        has_read = False
        try:
            if not os.path.isfile(source.path):
                raise ValueError("it is not a regular file")
            with closing(GooseDatabase(source.path)) as database:
                for session, agents in _group_conversations(list(database.rows("sessions", _SESSION, order="id"))):
                    if source.conversation not in (None, session.text("id")):
                        continue
                    transcript = _read_conversation(database, session, agents)
                    if transcript is not None:
                        has_read = True
                        yield transcript
        except (apsw.Error, OSError, ValueError) as error:
            if isinstance(error, ACCESS_ERRORS):
                note_read_error(source.path, error)
            where = "is damaged after the conversations that were read" if has_read else "cannot be read"
            problem = f"{_DATABASE} {where} ({error})"[:300]
            yield Transcript(agent="goose", conversation=_DATABASE, began=0, ended=0, problems=[problem])


def _group_conversations(sessions: list[GooseRow]) -> Iterator[tuple[GooseRow, list[GooseRow]]]:
    """Conversations with those of their subagents, and of theirs. One whose caller was deleted counts by itself."""
    names = {name for row in sessions if (name := row.text("id")) is not None}
    below: dict[str, list[GooseRow]] = {}
    roots: list[GooseRow] = []
    for row in sessions:
        parent = row.text("parent_session_id") if row.text("session_type") == "sub_agent" else None
        if parent in names and parent != row.text("id"):
            below.setdefault(str(parent), []).append(row)
        elif row.text("session_type") not in _HIDDEN:
            roots.append(row)
    for root in roots:
        agents: list[GooseRow] = []
        waiting = [root]
        while waiting:
            children = below.pop(waiting.pop(0).text("id") or "", [])
            agents += children
            waiting += children
        yield root, agents


def _read_conversation(database: GooseDatabase, session: GooseRow, agents: list[GooseRow]) -> Transcript | None:
    name = session.text("id")
    if name is None:
        return None
    problems = ReadProblems()
    builder = GooseTranscriptBuilder(name, has_subagents=bool(agents))
    _add_all(database, builder, name, problems)
    transcript = builder.transcript
    transcript.cwd = session.text("working_dir")
    transcript.title = session.text("name") or session.text("description")
    transcript.parent = session.text("parent_session_id")
    config = decode_any(session.raw("model_config_json"))
    transcript.model = get_text(config, "model_name", "model") if type(config) is dict else None
    _add_usage(database, session, builder, name)
    finished = builder.finish()
    if finished is None:
        return None
    for agent in agents:
        agent_id = agent.text("id") or ""
        part = GooseTranscriptBuilder(name, agent=agent_id, has_subagents=True)
        _add_all(database, part, agent_id, problems)
        _add_usage(database, agent, part, agent_id)
        finished_part = part.finish()
        if finished_part is not None:
            merge_subagent(finished, finished_part)
    finished.problems = problems.sentences()
    return finished


def _add_all(database: GooseDatabase, builder: GooseTranscriptBuilder, name: str, problems: ReadProblems) -> None:
    for row in database.rows("messages", _MESSAGE, of=name, order="id"):
        mark = row.text("message_id") or f"row{row.text('id')}"
        at = _millis(row.number("created_timestamp"))
        if not builder.add(at, row.text("role"), mark, row.raw("content_json"), row.raw("metadata_json")):
            problems.add(f"message {row.text('id')} has an unknown form")


def _add_usage(database: GooseDatabase, session: GooseRow, builder: GooseTranscriptBuilder, name: str) -> None:
    """Add tokens: from the ledger with a row for each request, or, in versions without it, as Goose added them up."""
    transcript = builder.transcript
    cost = 0.0
    rows = 0
    for row in database.rows("usage_ledger", _LEDGER, of=name, order="id"):
        rows += 1
        from_cache, to_cache = row.number("cache_read_tokens") or 0, row.number("cache_write_tokens") or 0
        cached = from_cache + to_cache
        input_tokens = row.number("input_tokens") or 0
        # Some providers include cached tokens in the input, some do not.
        fresh = input_tokens - cached if input_tokens >= cached else input_tokens
        builder.add_tokens(fresh, row.number("output_tokens") or 0, from_cache, to_cache)
        transcript.model = row.text("model") or transcript.model
        cost += row.amount("cost") or 0.0
        if row.number("is_compaction"):
            builder.add_compaction(_millis(row.number("created_timestamp")), f"ledger{row.text('id')}")
    if rows:
        transcript.cost_usd = cost or None
        return
    transcript.input_tokens = session.number("accumulated_input_tokens") or 0
    transcript.output_tokens = session.number("accumulated_output_tokens") or 0
    transcript.cost_usd = session.amount("accumulated_cost")


def _read_file(path: str) -> Iterator[Transcript]:
    problems = ReadProblems()
    builder = GooseTranscriptBuilder(os.path.basename(path).removesuffix(_END))
    transcript = builder.transcript
    for number, line in read_records(path, MESSAGE, problems):
        if line.role is None:
            transcript.cwd = line.working_dir or transcript.cwd
            transcript.title = line.description or transcript.title
            transcript.input_tokens = line.accumulated_input_tokens or line.input_tokens or transcript.input_tokens
            transcript.output_tokens = (
                line.accumulated_output_tokens or line.output_tokens or transcript.output_tokens
            )
        elif not builder.add(_millis(line.created), line.role, line.id or f"line{number}", line.content):
            problems.add(f"line {number} has an unknown form")
    finished = builder.finish()
    if finished is not None:
        finished.problems = problems.sentences()
        yield finished
    elif problems:
        transcript.problems = problems.sentences()
        yield transcript


READER: Final = GooseReader()
