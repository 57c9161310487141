"""The lines of Copilot's `events.jsonl`, as far as anything is made of them. Only the fields named here are decoded;
what tools were given and gave back stays bytes until it is known that it matters.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Literal

import msgspec

from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.copilot.hooks import AFTER, AGENTS, outcome, resume
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import NULL, decode, decode_any, parse_timestamp
from holdfast.conversations.adapters.files import list_names, stamp
from holdfast.conversations.adapters.jsonl import ReadProblems, read_records
from holdfast.conversations.adapters.tools import signals_of
from holdfast.conversations.adapters.transcript import (
    MAX_PROMPT_LENGTH,
    TimedSignal,
    Transcript,
    TranscriptSource,
    mark_signals,
    with_problems,
)
from holdfast.conversations.connect.agent_settings import content
from holdfast.conversations.signals import AgentBegan, AgentEnded, AnySignal, Compacted, Edited, Measured, Prompted
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs


class Where(msgspec.Struct, gc=False):
    cwd: str | None = None
    branch: str | None = None


class CopilotUsage(msgspec.Struct, gc=False, rename="camel"):
    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_tokens: float | None = None
    cache_write_tokens: float | None = None
    api_call_id: str | None = None

    @property
    def cached(self) -> int:
        return int((self.cache_read_tokens or 0) + (self.cache_write_tokens or 0))

    @property
    def fresh(self) -> int:
        """What was sent and was in no cache: all that was sent is counted as one."""
        return max(int(self.input_tokens or 0) - self.cached, 0)


class CopilotData(msgspec.Struct, gc=False, rename="camel"):
    # A conversation.
    selected_model: str | None = None
    context: Where | None = None
    cwd: str | None = None
    branch: str | None = None
    new_model: str | None = None
    title: str | None = None
    detached_from_spawning_parent_session_id: str | None = None
    # Messages.
    message_id: str | None = None
    content: msgspec.Raw = NULL
    source: msgspec.Raw = NULL
    model: str | None = None
    output_tokens: float | None = None
    usage: CopilotUsage | None = None
    # Tools and subagents.
    tool_call_id: str | None = None
    tool_name: str | None = None
    arguments: msgspec.Raw = NULL
    success: bool | None = None
    result: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    file_edits: msgspec.Raw = NULL
    agent_name: str | None = None
    agent_type: str | None = None
    total_tokens: float | None = None
    # Trouble and compression.
    error_type: str | None = None
    message: msgspec.Raw = NULL
    post_compaction_tokens: float | None = None


class CopilotRecord(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    timestamp: str | None = None
    agent: str | None = msgspec.field(name="agentId", default=None)
    # Types nobody here knows may use the same words for other things.
    data: msgspec.Raw = NULL


DECODER: Final = msgspec.json.Decoder(decodable(CopilotRecord))
_DATA: Final = msgspec.json.Decoder(decodable(CopilotData))


def data_of(record: CopilotRecord) -> CopilotData | None:
    return decode(_DATA, record.data)


def words(raw: msgspec.Raw) -> str | None:
    """A text, or the one in an object that says what came of something or what went wrong."""
    found = decode_any(raw)
    if type(found) is dict:
        found = next((found[name] for name in ("content", "message") if name in found), None)
    return found if type(found) is str and found.strip() else None


_ACTIONS: Final[dict[str, Literal["created", "modified", "deleted"]]] = {
    "create": "created", "edit": "modified", "update": "modified", "delete": "deleted",
}  # fmt: skip


class _Call(msgspec.Struct, gc=False):
    """A tool was called, and what came of it is not known yet."""

    tool: str
    arguments: msgspec.Raw
    at: int


class _Run(msgspec.Struct):
    agent: str
    type: str
    began: int
    task: str | None = None
    background: bool = False
    ended: int | None = None
    summary: str | None = None
    tokens: int | None = None
    failed: str | None = None


class CopilotTranscriptBuilder:
    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.cwd: str | None = None
        self.branch: str | None = None
        self.title: str | None = None
        self._model: str | None = None
        self._parent: str | None = None
        self._signals: list[TimedSignal] = []
        self._signs: list[int] = []
        self._seen: set[str] = set()
        self._calls: dict[str, _Call] = {}
        self._runs: dict[str, _Run] = {}  # by the call
        self._used = [0, 0, 0, 0]
        self._unreckoned = 0  # tokens of answers, from versions that tell no more
        self._context: tuple[int, int, str] | None = None
        self._messages = 0
        self._prompts = 0
        self._hears: dict[str, Callable[[CopilotRecord, CopilotData, int, str], None]] = {
            "session.start": self._start,
            "session.resume": self._start,
            "session.context_changed": self._moved,
            "session.model_change": self._switched,
            "session.title_changed": self._named,
            "session.usage_record": self._spent,
            "session.compaction_complete": self._compacted,
            "session.error": self._failed,
            "user.message": self._asked,
            "assistant.message": self._answered,
            "tool.execution_start": self._called,
            "tool.execution_complete": self._came,
            "subagent.started": self._began,
            "subagent.completed": self._ended,
            "subagent.failed": self._ended,
        }

    def add(self, record: CopilotRecord, number: int) -> None:
        """A line of the file; a type that is not known says nothing."""
        hears = self._hears.get(record.type)
        mark = record.id or f"line{number}"
        if hears is None or mark in self._seen:
            return
        self._seen.add(mark)
        at, data = parse_timestamp(record.timestamp), data_of(record)
        if at is not None and data is not None:
            hears(record, data, at, mark)

    # ── the conversation ─────────────────────────────────────────────────────────────────────────────────

    def _start(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if record.agent is not None:
            return
        where = data.context
        if where is not None:
            self.cwd = self.cwd or where.cwd
            self.branch = where.branch or self.branch
        self._model = data.selected_model or self._model
        self._parent = self._parent or data.detached_from_spawning_parent_session_id

    def _moved(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        self.branch = data.branch or self.branch
        self.cwd = self.cwd or data.cwd

    def _switched(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if record.agent is None and data.new_model:
            self._model = data.new_model

    def _named(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if record.agent is None and data.title:
            self.title = data.title

    def _spent(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        used = data.usage
        call = used.api_call_id if used is not None else None
        if used is None or (call and f"call {call}" in self._seen):
            return
        if call:
            self._seen.add(f"call {call}")
        self._used[0] += used.fresh
        self._used[1] += int(used.output_tokens or 0)
        self._used[2] += int(used.cache_read_tokens or 0)
        self._used[3] += int(used.cache_write_tokens or 0)
        context = int((used.input_tokens or 0) + (used.output_tokens or 0))
        if record.agent is None and context:
            self._context = (at, context, mark)

    def _compacted(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        left = data.post_compaction_tokens
        if record.agent is None and data.success is not False:
            self._emit(at, Compacted(tokens=int(left) if left is not None and left >= 0 else None), mark)

    def _failed(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        self._emit(at, classify(data.error_type, words(data.message), agent=record.agent), mark)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────

    def _asked(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        self._messages += 1
        text, source = words(data.content), decode_any(data.source)
        if record.agent is not None:
            return
        self._signs.append(at)
        # What the program hands to the model by itself names where it comes from.
        if text is None or (type(source) is str and source not in ("", "user")):
            return
        # What a conversation is about is said at its beginning; the rest is between a person and an agent.
        self._emit(at, Prompted(text=plain(text, MAX_PROMPT_LENGTH) if self._prompts == 0 else ""), mark)
        self._prompts += 1

    def _answered(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        self._messages += 1
        self._unreckoned += int(data.output_tokens or 0)
        if record.agent is None:
            self._signs.append(at)
            self._model = data.model or self._model

    # ── tools and subagents ──────────────────────────────────────────────────────────────────────────────

    def _called(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if data.tool_call_id and data.tool_name:
            self._calls[data.tool_call_id] = _Call(data.tool_name, data.arguments, at)

    def _came(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        call = self._calls.pop(data.tool_call_id or "", None)
        said = words(data.result)
        if call is None:
            return
        failed = (words(data.error) or "it failed") if data.success is False else None
        if call.tool in AGENTS:
            run = self._runs.get(data.tool_call_id or "")
            if run is not None:
                run.summary = run.summary or said
            return
        if call.tool in AFTER or failed is not None:
            signals = signals_of(
                call.tool, decode_any(call.arguments), outcome(call.tool, said), agent=record.agent, failed=failed,
                call=data.tool_call_id, took_ms=max(at - call.at, 0), table=AFTER,
            )  # fmt: skip
        else:
            signals = tuple(_edits(decode_any(data.file_edits), record.agent))
        for signal, own in mark_signals(signals, mark):
            self._emit(at, signal, own)

    def _began(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        call = data.tool_call_id or mark
        asked = self._calls.get(call)
        given = decode_any(asked.arguments) if asked is not None else None
        given = given if type(given) is dict else {}
        task = next(
            (said for name in ("description", "prompt") if type(said := given.get(name)) is str and said), None
        )
        self._runs[call] = _Run(
            record.agent or call, data.agent_type or data.agent_name or "agent", at, task,
            background=given.get("mode") == "background",
        )  # fmt: skip

    def _ended(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        run = self._runs.get(data.tool_call_id or "")
        if run is None:
            return
        run.ended = at
        run.tokens = int(data.total_tokens) if data.total_tokens is not None and data.total_tokens >= 0 else None
        run.failed = (words(data.error) or "it failed") if record.type == "subagent.failed" else None

    # ── all of it ────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self, at: int, signal: AnySignal, mark: str) -> None:
        self._signals.append(TimedSignal(at, signal, mark))

    def finish(self) -> Transcript | None:
        """What there is to tell; None when nobody said anything."""
        if not self._signs:
            return None
        for call, run in self._runs.items():
            began = AgentBegan(agent=run.agent, type=run.type, task=run.task, background=run.background)
            self._emit(run.began, began, f"{call}.began")
            if run.ended is not None:
                summary = None if run.failed or run.summary is None else plain(run.summary)
                ended = AgentEnded(
                    agent=run.agent,
                    type=run.type,
                    task=run.task,
                    summary=summary,
                    tokens=run.tokens,
                    failed=run.failed,
                )
                self._emit(max(run.ended, run.began), ended, f"{call}.ended")
        if self._context is not None:
            at, tokens, mark = self._context
            self._emit(at, Measured(tokens=tokens), f"{mark}.context")
        self._signals.sort(key=lambda told: told.at)
        return Transcript(
            agent="copilot",
            conversation=self.conversation,
            began=min(self._signs),
            ended=max([*self._signs, *(told.at for told in self._signals[-1:])]),
            cwd=self.cwd,
            branch=self.branch,
            title=self.title,
            model=self._model,
            resume=resume(self.conversation),
            parent=self._parent,
            signals=self._signals,
            signs=sorted(self._signs),
            input_tokens=self._used[0],
            output_tokens=self._used[1] or self._unreckoned,
            cache_read_tokens=self._used[2],
            cache_write_tokens=self._used[3],
            messages=self._messages,
        )


def _edits(told: Json, agent: str | None) -> list[AnySignal]:
    """The files that a tool of no table changed, as Copilot itself counted them."""
    found: list[AnySignal] = []
    for line in told if type(told) is list else []:
        path = line.get("path") if type(line) is dict else None
        kind = line.get("kind") if type(line) is dict else None
        if type(path) is str and path:
            action = _ACTIONS.get(kind, "modified") if type(kind) is str else "modified"
            found.append(Edited(agent=agent, path=path, action=action))
    return found


_EVENTS: Final = "events.jsonl"
_WORKSPACE: Final = "workspace.yaml"
_LINE: Final = re.compile(r"([a-z_]+):[ \t]+(.+?)[ \t]*\Z")


class CopilotReader:
    name = "copilot"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        top = os.path.join(places.under("COPILOT_HOME", ".copilot"), "session-state")
        for name in list_names(top):
            path = os.path.join(top, name)
            if name.endswith(".jsonl"):
                if (found := stamp(path)) is not None:
                    yield TranscriptSource(path, found)
            elif (found := stamp(os.path.join(path, _EVENTS))) is not None:
                yield TranscriptSource(
                    os.path.join(path, _EVENTS), f"{found};{stamp(os.path.join(path, _WORKSPACE))}"
                )

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        directory, name = os.path.split(source.path)
        alone = name != _EVENTS
        builder = CopilotTranscriptBuilder(name.removesuffix(".jsonl") if alone else os.path.basename(directory))
        problems = ReadProblems()
        for number, record in read_records(source.path, DECODER, problems):
            builder.add(record, number)
        if not alone:
            beside = workspace(os.path.join(directory, _WORKSPACE))
            builder.cwd = builder.cwd or beside.get("cwd")
            builder.branch = builder.branch or beside.get("branch")
            builder.title = builder.title or beside.get("name") or beside.get("summary")
        yield from with_problems(builder.finish(), problems, self.name, builder.conversation)


def workspace(path: str) -> dict[str, str]:
    """The plain entries of a `workspace.yaml`: a name and a value on one line, the value perhaps in quotes."""
    found: dict[str, str] = {}
    written = content(path) if stamp(path) is not None else b""
    for line in written.decode("utf-8", "replace").splitlines():
        entry = _LINE.match(line)
        if entry is None:
            continue
        value = entry[2]
        if value[0] == '"':
            with suppress(ValueError):
                value = str(json.loads(value))
        elif value[0] == "'" and value[-1] == "'" and len(value) > 1:
            value = value[1:-1].replace("''", "'")
        if value not in ("null", "~", "|", ">", "|-", ">-"):
            found[entry[1]] = value
    return found


READER: Final = CopilotReader()
