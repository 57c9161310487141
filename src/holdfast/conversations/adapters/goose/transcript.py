"""Goose's messages, as they stand in its database and stood in files before: parts of text, tool calls and what came
of them. Only the fields named here are decoded; everything may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple, TypeAlias

import apsw
import msgspec

from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.adapters.database import ACCESS_ERRORS, AgentDatabase
from holdfast.conversations.adapters.fields import NULL, decode, decode_any, get_text
from holdfast.conversations.adapters.files import list_files, note_read_error
from holdfast.conversations.adapters.goose.hooks import AFTER, AGENT_TYPE, resume
from holdfast.conversations.adapters.goose.settings import data
from holdfast.conversations.adapters.jsonl import ReadProblems, read_records
from holdfast.conversations.adapters.tools import signals_of
from holdfast.conversations.adapters.transcript import (
    MAX_PROMPT_LENGTH,
    SUBAGENT_SIGNALS,
    Marks,
    TimedSignal,
    Transcript,
    TranscriptSource,
    mark_signals,
    merge_subagent,
)
from holdfast.conversations.signals import Active, AgentBegan, AgentEnded, AnySignal, Compacted, Prompted
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

# Times are whole seconds in some versions and milliseconds in others; seconds reach this in the year 2286.
_SECONDS_END: Final = 10_000_000_000


class GooseToolRequest(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = NULL


class ToolCall(msgspec.Struct, gc=False):
    status: str | None = None
    value: GooseToolRequest | None = None


class Came(msgspec.Struct, gc=False):
    status: str | None = None
    error: msgspec.Raw = NULL
    value: msgspec.Raw = NULL


class Result(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(name="isError", default=None)


class GoosePart(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    id: str | None = None
    call: ToolCall | None = msgspec.field(name="toolCall", default=None)
    result: Came | None = msgspec.field(name="toolResult", default=None)


class GooseVisibility(msgspec.Struct, gc=False):
    """For whom a message is."""

    person: bool | None = msgspec.field(name="userVisible", default=None)


class GooseMessage(msgspec.Struct, gc=False):
    """A line of a file of older versions: a message, or (the first) what the conversation is."""

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
RESULT: Final = msgspec.json.Decoder(decodable(Result))
MESSAGE: Final = msgspec.json.Decoder(decodable(GooseMessage))


def millis(stamp: object) -> int:
    """A time of Goose's in milliseconds; 0 for what is none."""
    if type(stamp) is not int or not 0 < stamp < _SECONDS_END * 1000:
        return 0
    return stamp * 1000 if stamp < _SECONDS_END else stamp


class GooseTranscriptBuilder:
    def __init__(self, conversation: str, *, agent: str | None = None, agents_told: bool = False) -> None:
        self.transcript = Transcript(
            agent="goose", conversation=conversation, began=0, ended=0, resume=resume(conversation)
        )
        self._agent = agent
        # Whether the subagents have stories of their own: then calls for them say nothing more.
        self._agents_told = agents_told
        self._task: str | None = None
        self._said: str | None = None
        self._calls: dict[str, tuple[str, msgspec.Raw]] = {}
        self._marks = Marks()
        self._wanted = True

    def add(self, at: int, role: str | None, mark: str, content: bytes | msgspec.Raw, about: bytes = b"") -> bool:
        """A message; false when nothing can be made of it."""
        parts = decode(PARTS, content)
        if parts is None or not at:
            return False
        self.transcript.signs.append(at)
        self.transcript.messages += 1
        seen = decode(SEEN, about) if about else None
        said = "\n".join(part.text for part in parts if part.type == "text" and part.text)
        for place, part in enumerate(parts):
            self._part(at, part, f"{mark}.{place}")
        if role == "assistant":
            self._said = said or self._said
        elif self._agent is not None:
            self._task = self._task or said or None
        elif role == "user" and said.strip() and (seen is None or seen.person is not False):
            # One prompt with a goal in it is all that is ever asked for.
            text = plain(said, MAX_PROMPT_LENGTH) if self._wanted else ""
            self._wanted = self._wanted and goal_of(text) is None
            self._emit(at, Prompted(text=text), mark)
        return True

    def compacted(self, at: int, mark: str) -> None:
        if at:
            self._emit(at, Compacted(), mark)

    def finish(self) -> Transcript | None:
        """All of it; None when nobody said anything."""
        transcript = self.transcript
        if not transcript.signs:
            return None
        transcript.signs.sort()
        if self._agent is not None:
            self._emit_subagent(self._agent, transcript.signs[0], transcript.signs[-1])
        transcript.signals.sort(key=lambda told: told.at)
        transcript.began = transcript.signs[0]
        transcript.ended = max([transcript.signs[-1], *(told.at for told in transcript.signals[-1:])])
        return transcript

    def _emit_subagent(self, agent: str, began: int, ended: int) -> None:
        task = plain(self._task) if self._task else None
        summary = plain(self._said) if self._said else None
        self._emit(began, AgentBegan(agent=agent, type=AGENT_TYPE, task=task), "began")
        self._emit(ended, AgentEnded(agent=agent, type=AGENT_TYPE, task=task, summary=summary), f"ended.{ended}")

    def _part(self, at: int, part: GoosePart, mark: str) -> None:
        if part.id is None:
            return
        if part.call is not None and part.call.value is not None and part.call.value.name:
            self._calls[part.id] = (part.call.value.name, part.call.value.arguments)
        elif part.result is not None and part.id in self._calls:
            tool, given = self._calls.pop(part.id)
            if tool not in AFTER:
                return
            signals = signals_of(
                tool, decode_any(given), decode_any(part.result.value), agent=self._agent, call=part.id,
                failed=_failure(part.result), table=AFTER,
            )  # fmt: skip
            passed = (Active, AgentEnded) if self._agents_told else (Active,)
            for signal, own in mark_signals((signal for signal in signals if type(signal) not in passed), mark):
                self._emit(at, signal, own)

    def _emit(self, at: int, signal: AnySignal, mark: str) -> None:
        if self._agent is not None and not isinstance(signal, SUBAGENT_SIGNALS):
            return
        if self._agent is not None:
            mark = f"{self._agent}.{mark}"
        self.transcript.signals.append(TimedSignal(at, signal, self._marks.unique(mark)))


def _failure(came: Came) -> str | None:
    if came.status == "error":
        said = decode_any(came.error)
        return plain(said, 500) if type(said) is str and said else "failed"
    result = decode(RESULT, came.value)
    return "failed" if result is not None and result.is_error else None


Cell: TypeAlias = "int | float | str | bytes | None"


class GooseRow(NamedTuple):
    """A row by the names of its columns; those that a version does not have are None."""

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
            found = float(self.text(name) or "x")
        except ValueError:
            return None
        return found if 0 <= found < 1e9 else None

    def _cell(self, name: str) -> Cell:
        return self.cells[self.names.index(name)] if name in self.names else None


class Database(AgentDatabase):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._columns: dict[str, tuple[str, ...]] = {}

    def rows(self, table: str, wanted: Iterable[str], *, of: str | None = None, order: str) -> Iterator[GooseRow]:
        """Rows of a table with those of the wanted columns it has; `of` one conversation."""
        known = self._known(table)
        names = tuple(name for name in wanted if name in known)
        if not names or (of is not None and "session_id" not in known):
            return
        # Names come from the lists in this package, never from the file.
        columns = ", ".join(f'CAST("{name}" AS BLOB)' for name in names)
        where = " WHERE session_id = ?" if of is not None else ""
        by = f' ORDER BY "{order}"' if order in known else ""
        query = f'SELECT {columns} FROM "{table}"{where}{by}'  # noqa: S608
        for cells in self.connection.execute(query, (of,) if of is not None else ()):
            yield GooseRow(names, cells)

    def _known(self, table: str) -> tuple[str, ...]:
        if table not in self._columns:
            found = self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            self._columns[table] = tuple(str(name) for (name,) in found)
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
# Conversations of the program with itself: it looks for a title, or does somebody else's errand.
_HIDDEN: Final = frozenset({"hidden"})


class GooseReader:
    name = "goose"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        top = os.path.join(data(places), "sessions")
        found = {file.name: file.stamp for file in list_files(top, _DATABASE, _LOG, _END)}
        if _DATABASE in found:
            stamps = [found.get(name, "") for name in (_DATABASE, _LOG)]
            yield TranscriptSource(os.path.join(top, _DATABASE), ";".join(stamps))
            return
        for name, stamp in found.items():
            if name.endswith(_END):
                yield TranscriptSource(os.path.join(top, name), stamp)

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        if source.path.endswith(_END):
            yield from _file(source.path)
            return
        told = False
        try:
            if not os.path.isfile(source.path):
                raise ValueError("it is not a regular file")
            with closing(Database(source.path)) as database:
                for session, agents in _conversations(list(database.rows("sessions", _SESSION, order="id"))):
                    if source.conversation not in (None, session.text("id")):
                        continue
                    transcript = _conversation(database, session, agents)
                    if transcript is not None:
                        told = True
                        yield transcript
        except (apsw.Error, OSError, ValueError) as error:
            if isinstance(error, ACCESS_ERRORS):
                note_read_error(source.path, error)
            where = "is damaged after these" if told else "cannot be read"
            problem = f"{_DATABASE} {where} ({error})"[:300]
            yield Transcript(agent="goose", conversation=_DATABASE, began=0, ended=0, problems=[problem])


def _conversations(sessions: list[GooseRow]) -> Iterator[tuple[GooseRow, list[GooseRow]]]:
    """Conversations with those of their subagents, and of theirs. One whose caller is gone stands alone."""
    names = {name for row in sessions if (name := row.text("id")) is not None}
    below: dict[str, list[GooseRow]] = {}
    tops: list[GooseRow] = []
    for row in sessions:
        parent = row.text("parent_session_id") if row.text("session_type") == "sub_agent" else None
        if parent in names and parent != row.text("id"):
            below.setdefault(str(parent), []).append(row)
        elif row.text("session_type") not in _HIDDEN:
            tops.append(row)
    for top in tops:
        agents: list[GooseRow] = []
        waiting = [top]
        while waiting:
            found = below.pop(waiting.pop(0).text("id") or "", [])
            agents += found
            waiting += found
        yield top, agents


def _conversation(database: Database, session: GooseRow, agents: list[GooseRow]) -> Transcript | None:
    name = session.text("id")
    if name is None:
        return None
    problems = ReadProblems()
    builder = GooseTranscriptBuilder(name, agents_told=bool(agents))
    _add_all(database, builder, name, problems)
    transcript = builder.transcript
    transcript.cwd = session.text("working_dir")
    transcript.title = session.text("name") or session.text("description")
    transcript.parent = session.text("parent_session_id")
    config = decode_any(session.raw("model_config_json"))
    transcript.model = get_text(config, "model_name", "model") if type(config) is dict else None
    _spent(database, session, builder, name)
    told = builder.finish()
    if told is None:
        return None
    for agent in agents:
        called = agent.text("id") or ""
        part = GooseTranscriptBuilder(name, agent=called, agents_told=True)
        _add_all(database, part, called, problems)
        _spent(database, agent, part, called)
        done = part.finish()
        if done is not None:
            merge_subagent(told, done)
    told.problems = problems.sentences()
    return told


def _add_all(database: Database, builder: GooseTranscriptBuilder, name: str, problems: ReadProblems) -> None:
    for row in database.rows("messages", _MESSAGE, of=name, order="id"):
        mark = row.text("message_id") or f"row{row.text('id')}"
        at = millis(row.number("created_timestamp"))
        if not builder.add(at, row.text("role"), mark, row.raw("content_json"), row.raw("metadata_json")):
            problems.add(f"message {row.text('id')} is not what messages are")


def _spent(database: Database, session: GooseRow, builder: GooseTranscriptBuilder, name: str) -> None:
    """Tokens: from the ledger, where each request has its row, or as Goose has added them up before it had one."""
    transcript = builder.transcript
    cost = 0.0
    rows = 0
    for row in database.rows("usage_ledger", _LEDGER, of=name, order="id"):
        rows += 1
        from_cache, to_cache = row.number("cache_read_tokens") or 0, row.number("cache_write_tokens") or 0
        cached = from_cache + to_cache
        given = row.number("input_tokens") or 0
        # Some providers count what was cached as given, some do not.
        transcript.input_tokens += given - cached if given >= cached else given
        transcript.output_tokens += row.number("output_tokens") or 0
        transcript.cache_read_tokens += from_cache
        transcript.cache_write_tokens += to_cache
        transcript.model = row.text("model") or transcript.model
        cost += row.amount("cost") or 0.0
        if row.number("is_compaction"):
            builder.compacted(millis(row.number("created_timestamp")), f"ledger{row.text('id')}")
    if rows:
        transcript.cost_usd = cost or None
        return
    transcript.input_tokens = session.number("accumulated_input_tokens") or 0
    transcript.output_tokens = session.number("accumulated_output_tokens") or 0
    transcript.cost_usd = session.amount("accumulated_cost")


def _file(path: str) -> Iterator[Transcript]:
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
        elif not builder.add(millis(line.created), line.role, line.id or f"line{number}", line.content):
            problems.add(f"line {number} is not what messages are")
    told = builder.finish()
    if told is not None:
        told.problems = problems.sentences()
        yield told
    elif problems:
        transcript.problems = problems.sentences()
        yield transcript


READER: Final = GooseReader()
