"""Read Copilot's conversations: `events.jsonl`, and the facts in the `workspace.yaml` next to it.

Only the fields named here are decoded; inputs and results of tools stay bytes until they are known to matter.
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
from holdfast.conversations.adapters.copilot.hooks import AFTER, AGENTS, outcome
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import NULL, decode, decode_any, parse_timestamp
from holdfast.conversations.adapters.files import list_names, stamp
from holdfast.conversations.adapters.jsonl import ReadProblems, read_records
from holdfast.conversations.adapters.tools import signals_of
from holdfast.conversations.adapters.transcript import (
    Transcript,
    TranscriptBuilder,
    TranscriptSource,
    with_problems,
)
from holdfast.conversations.connect.agent_settings import content
from holdfast.conversations.signals import AgentBegan, AgentEnded, AnySignal, Compacted, Edited
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs


class CopilotDirectory(msgspec.Struct, gc=False):
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
        """The input that was in no cache: `input_tokens` counts everything that was sent."""
        return max(int(self.input_tokens or 0) - self.cached, 0)


class CopilotData(msgspec.Struct, gc=False, rename="camel"):
    # A conversation.
    selected_model: str | None = None
    context: CopilotDirectory | None = None
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
    # Errors and compression.
    error_type: str | None = None
    message: msgspec.Raw = NULL
    post_compaction_tokens: float | None = None


class CopilotRecord(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    timestamp: str | None = None
    agent: str | None = msgspec.field(name="agentId", default=None)
    # In unknown types, the same names may mean something else.
    data: msgspec.Raw = NULL


DECODER: Final = msgspec.json.Decoder(decodable(CopilotRecord))
_DATA: Final = msgspec.json.Decoder(decodable(CopilotData))


def _data_of(record: CopilotRecord) -> CopilotData | None:
    return decode(_DATA, record.data)


def _text(raw: msgspec.Raw) -> str | None:
    """A text, or the text in an object with a result or an error."""
    value = decode_any(raw)
    if type(value) is dict:
        value = next((value[name] for name in ("content", "message") if name in value), None)
    return value if type(value) is str and value.strip() else None


_ACTIONS: Final[dict[str, Literal["created", "modified", "deleted"]]] = {
    "create": "created", "edit": "modified", "update": "modified", "delete": "deleted",
}  # fmt: skip


class _Call(msgspec.Struct, gc=False):
    """A tool call whose result is not known yet."""

    tool: str
    arguments: msgspec.Raw
    at: int


class _Subagent(msgspec.Struct):
    agent: str
    type: str
    began: int
    task: str | None = None
    background: bool = False
    ended: int | None = None
    summary: str | None = None
    tokens: int | None = None
    failed: str | None = None


class CopilotTranscriptBuilder(TranscriptBuilder):
    def __init__(self, conversation: str) -> None:
        super().__init__("copilot", conversation)
        self._calls: dict[str, _Call] = {}
        self._runs: dict[str, _Subagent] = {}  # by the call
        self._answer_tokens = 0  # of answers, in versions that report nothing else
        self._handlers: dict[str, Callable[[CopilotRecord, CopilotData, int, str], None]] = {
            "session.start": self._start,
            "session.resume": self._start,
            "session.context_changed": self._set_directory,
            "session.model_change": self._set_model,
            "session.title_changed": self._set_title,
            "session.usage_record": self._add_usage,
            "session.compaction_complete": self._add_compaction,
            "session.error": self._add_error,
            "user.message": self._add_prompt,
            "assistant.message": self._add_answer,
            "tool.execution_start": self._add_call,
            "tool.execution_complete": self._add_result,
            "subagent.started": self._begin_agent,
            "subagent.completed": self._end_agent,
            "subagent.failed": self._end_agent,
        }

    def add(self, record: CopilotRecord, number: int) -> None:
        """Add a line of the file; unknown types say nothing."""
        handler = self._handlers.get(record.type)
        mark = record.id or f"line{number}"
        if handler is None or not self.is_new(mark):
            return
        at, data = parse_timestamp(record.timestamp), _data_of(record)
        if at is not None and data is not None:
            handler(record, data, at, mark)

    # ── the conversation ─────────────────────────────────────────────────────────────────────────────────

    def _start(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if record.agent is not None:
            return
        context = data.context
        if context is not None:
            self.transcript.cwd = self.transcript.cwd or context.cwd
            self.transcript.branch = context.branch or self.transcript.branch
        self.transcript.model = data.selected_model or self.transcript.model
        self.transcript.parent = self.transcript.parent or data.detached_from_spawning_parent_session_id

    def _set_directory(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        self.transcript.branch = data.branch or self.transcript.branch
        self.transcript.cwd = self.transcript.cwd or data.cwd

    def _set_model(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if record.agent is None and data.new_model:
            self.transcript.model = data.new_model

    def _set_title(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if record.agent is None and data.title:
            self.transcript.title = data.title

    def _add_usage(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        used = data.usage
        call = used.api_call_id if used is not None else None
        if used is None or (call and not self.is_new(f"call {call}")):
            return
        self.add_tokens(
            used.fresh, int(used.output_tokens or 0), int(used.cache_read_tokens or 0),
            int(used.cache_write_tokens or 0),
        )  # fmt: skip
        if record.agent is None:
            self.measure(at, int((used.input_tokens or 0) + (used.output_tokens or 0)), mark)

    def _add_compaction(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        tokens_left = data.post_compaction_tokens
        if record.agent is None and data.success is not False:
            self.emit(
                at, Compacted(tokens=int(tokens_left) if tokens_left is not None and tokens_left >= 0 else None), mark
            )

    def _add_error(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        self.emit(at, classify(data.error_type, _text(data.message), agent=record.agent), mark)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────

    def _add_prompt(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        self.add_message(at, is_sign=record.agent is None)
        text, source = _text(data.content), decode_any(data.source)
        # What the program itself passes to the model has a source.
        if record.agent is None and text is not None and (type(source) is not str or source in ("", "user")):
            self.emit_prompt(at, text, mark)

    def _add_answer(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        self.add_message(at, is_sign=record.agent is None)
        self._answer_tokens += int(data.output_tokens or 0)
        if record.agent is None:
            self.transcript.model = data.model or self.transcript.model

    # ── tools and subagents ──────────────────────────────────────────────────────────────────────────────

    def _add_call(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        if data.tool_call_id and data.tool_name:
            self._calls[data.tool_call_id] = _Call(data.tool_name, data.arguments, at)

    def _add_result(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        call = self._calls.pop(data.tool_call_id or "", None)
        text = _text(data.result)
        if call is None:
            return
        failed = (_text(data.error) or "it failed") if data.success is False else None
        if call.tool in AGENTS:
            run = self._runs.get(data.tool_call_id or "")
            if run is not None:
                run.summary = run.summary or text
            return
        if call.tool in AFTER or failed is not None:
            signals = signals_of(
                call.tool, decode_any(call.arguments), outcome(call.tool, text), agent=record.agent, failed=failed,
                call=data.tool_call_id, took_ms=max(at - call.at, 0), table=AFTER,
            )  # fmt: skip
        else:
            signals = tuple(_file_edits(decode_any(data.file_edits), record.agent))
        self.emit_all(at, signals, mark)

    def _begin_agent(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:
        call = data.tool_call_id or mark
        known_call = self._calls.get(call)
        arguments = decode_any(known_call.arguments) if known_call is not None else None
        arguments = arguments if type(arguments) is dict else {}
        task = next(
            (text for name in ("description", "prompt") if type(text := arguments.get(name)) is str and text), None
        )
        self._runs[call] = _Subagent(
            record.agent or call, data.agent_type or data.agent_name or "agent", at, task,
            background=arguments.get("mode") == "background",
        )  # fmt: skip

    def _end_agent(self, record: CopilotRecord, data: CopilotData, at: int, mark: str) -> None:  # noqa: ARG002 - the table's signature
        run = self._runs.get(data.tool_call_id or "")
        if run is None:
            return
        run.ended = at
        run.tokens = int(data.total_tokens) if data.total_tokens is not None and data.total_tokens >= 0 else None
        run.failed = (_text(data.error) or "it failed") if record.type == "subagent.failed" else None

    # ── the transcript ────────────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> Transcript | None:
        """The transcript; None when it has no messages."""
        for call, run in self._runs.items():
            began = AgentBegan(agent=run.agent, type=run.type, task=run.task, background=run.background)
            self.emit(run.began, began, f"{call}.began")
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
                self.emit(max(run.ended, run.began), ended, f"{call}.ended")
        self.transcript.output_tokens = self.transcript.output_tokens or self._answer_tokens
        return super().finish()


def _file_edits(entries: Json, agent: str | None) -> list[AnySignal]:
    """The files that a tool in no table changed, as Copilot itself counted them."""
    edits: list[AnySignal] = []
    for entry in entries if type(entries) is list else []:
        path = entry.get("path") if type(entry) is dict else None
        kind = entry.get("kind") if type(entry) is dict else None
        if type(path) is str and path:
            action = _ACTIONS.get(kind, "modified") if type(kind) is str else "modified"
            edits.append(Edited(agent=agent, path=path, action=action))
    return edits


_EVENTS: Final = "events.jsonl"
_WORKSPACE: Final = "workspace.yaml"
_LINE: Final = re.compile(r"([a-z_]+):[ \t]+(.+?)[ \t]*\Z")


class CopilotReader:
    name = "copilot"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        root = os.path.join(places.under("COPILOT_HOME", ".copilot"), "session-state")
        for name in list_names(root):
            path = os.path.join(root, name)
            if name.endswith(".jsonl"):
                if (own_stamp := stamp(path)) is not None:
                    yield TranscriptSource(path, own_stamp)
            elif (own_stamp := stamp(os.path.join(path, _EVENTS))) is not None:
                yield TranscriptSource(
                    os.path.join(path, _EVENTS), f"{own_stamp};{stamp(os.path.join(path, _WORKSPACE))}"
                )

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        directory, name = os.path.split(source.path)
        is_single_file = name != _EVENTS
        builder = CopilotTranscriptBuilder(
            name.removesuffix(".jsonl") if is_single_file else os.path.basename(directory)
        )
        transcript, problems = builder.transcript, ReadProblems()
        for number, record in read_records(source.path, DECODER, problems):
            builder.add(record, number)
        if not is_single_file:
            facts = read_workspace(os.path.join(directory, _WORKSPACE))
            transcript.cwd = transcript.cwd or facts.get("cwd")
            transcript.branch = transcript.branch or facts.get("branch")
            transcript.title = transcript.title or facts.get("name") or facts.get("summary")
        yield from with_problems(builder.finish(), problems, self.name, transcript.conversation)


def read_workspace(path: str) -> dict[str, str]:
    """The plain entries of a `workspace.yaml`: a name and a value on one line, the value perhaps in quotes."""
    entries: dict[str, str] = {}
    data = content(path) if stamp(path) is not None else b""
    for line in data.decode("utf-8", "replace").splitlines():
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
            entries[entry[1]] = value
    return entries


READER: Final = CopilotReader()
