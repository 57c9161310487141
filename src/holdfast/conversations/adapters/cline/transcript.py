"""Read Cline's conversations: a manifest, and the messages of the conversation and of each subagent.

Each file is one JSON document that Cline rewrites with every message.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.cline.hooks import AFTER, SUBAGENT, person_words, tool_signals
from holdfast.conversations.adapters.fields import (
    DECODE_ERRORS,
    NULL,
    decode,
    decode_any,
    parse_millis,
    parse_timestamp,
)
from holdfast.conversations.adapters.files import list_names, stamp
from holdfast.conversations.adapters.jsonl import ReadProblems, read_whole
from holdfast.conversations.adapters.transcript import (
    Transcript,
    TranscriptBuilder,
    TranscriptSource,
    with_problems,
)
from holdfast.conversations.signals import AgentBegan, AgentEnded
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

T = TypeVar("T")

_MAX_SIZE: Final = 128 << 20  # bytes
_LENIENT: Final = json.JSONDecoder(strict=False)


class ClineUsage(msgspec.Struct, gc=False, rename="camel"):
    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_tokens: float | None = None
    cache_write_tokens: float | None = None
    total_cost: float | None = None

    @property
    def cached(self) -> int:
        return int((self.cache_read_tokens or 0) + (self.cache_write_tokens or 0))

    @property
    def context(self) -> int:
        return int((self.input_tokens or 0) + (self.output_tokens or 0))


class ClineFacts(msgspec.Struct, gc=False, rename="camel"):
    title: str | None = None
    total_cost: float | None = None
    aggregate_usage: ClineUsage | None = None


class ClineManifest(msgspec.Struct, gc=False):
    started_at: str | None = None
    ended_at: str | None = None
    provider: str | None = None
    model: str | None = None
    cwd: str | None = None
    workspace_root: str | None = None
    prompt: str | None = None
    metadata: msgspec.Raw = NULL


class ClineBlock(msgspec.Struct, gc=False):
    """A part of a message: text, a tool call, or the result of one."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NULL
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NULL


class ClineModel(msgspec.Struct, gc=False):
    id: str | None = None
    provider: str | None = None


class ClineMessage(msgspec.Struct, gc=False):
    id: str | None = None
    role: str = ""
    content: str | list[ClineBlock] | None = None
    ts: float | None = None
    model: ClineModel | None = msgspec.field(name="modelInfo", default=None)
    metrics: ClineUsage | None = None


class ClineMessages(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw] = []


MANIFEST: Final = msgspec.json.Decoder(decodable(ClineManifest))
MESSAGES: Final = msgspec.json.Decoder(decodable(ClineMessages))
_MESSAGE: Final = msgspec.json.Decoder(decodable(ClineMessage))
FACTS: Final = msgspec.json.Decoder(decodable(ClineFacts))


def _read_document(path: str, decoder: msgspec.json.Decoder[T], problems: ReadProblems) -> T | None:
    """The document in a file; whatever follows it is ignored."""
    name = os.path.basename(path)
    own_problems = ReadProblems()
    content = read_whole(path, own_problems, _MAX_SIZE)
    if own_problems:
        problems.extend(own_problems, f"{name} ")
        return None
    document = decode(decoder, content)
    if document is not None:
        return document
    try:
        value, _ = _LENIENT.raw_decode(content.replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufeff \t\r\n"))
        return decoder.decode(msgspec.json.encode(value))
    except DECODE_ERRORS:
        problems.add(f"{name} cannot be understood")
        return None


def _facts(manifest: ClineManifest) -> ClineFacts:
    return decode(FACTS, manifest.metadata) or ClineFacts()


_CALLS_AGENT: Final = "spawn_agent"


class ClineTranscriptBuilder(TranscriptBuilder):
    def __init__(self, conversation: str, manifest: ClineManifest | None) -> None:
        super().__init__("cline", conversation)
        self._manifest = manifest or ClineManifest()
        self._calls: dict[str, ClineBlock] = {}

    def add(self, message: ClineMessage, number: int, agent: str | None = None) -> None:
        """Add a message, in the order of its file; `agent` is the subagent whose file it is."""
        mark = message.id or f"{agent or ''}#{number}"
        at = parse_millis(message.ts)
        if at is None or not self.is_new(mark):
            return
        self.add_message(at, is_sign=agent is None)
        if message.role == "assistant":
            self._add_answer(message, at, mark, agent)
        elif message.role == "user":
            self._add_user_message(message, at, mark, agent)

    def add_subagent(self, agent: str, messages: list[ClineMessage]) -> None:
        """Add a subagent: its beginning, its end if it came to one, and what it did."""
        for number, message in enumerate(messages):
            self.add(message, number, agent)
        moments = [at for item in messages if (at := parse_millis(item.ts)) is not None]
        if not moments:
            return
        prompt = next((text for item in messages if item.role == "user" and (text := _text(item))), None)
        task = plain(person_words(prompt), 500) if prompt else None
        self.emit(min(moments), AgentBegan(agent=agent, type=SUBAGENT, task=task), f"{agent}.began")
        last = messages[-1]
        if last.role == "assistant" and not any(block.type == "tool_use" for block in _blocks(last)):
            summary, used = _text(last), last.metrics or ClineUsage()
            ended = AgentEnded(
                agent=agent, type=SUBAGENT, task=task, tokens=used.context or None,
                summary=plain(summary) if summary else None,
            )  # fmt: skip
            self.emit(max(moments), ended, f"{agent}.ended")

    def _add_answer(self, message: ClineMessage, at: int, mark: str, agent: str | None) -> None:
        used = message.metrics
        if used is not None:
            # The input counts everything that was sent, from the cache or not.
            self.add_tokens(
                max(int(used.input_tokens or 0) - used.cached, 0), int(used.output_tokens or 0),
                int(used.cache_read_tokens or 0), int(used.cache_write_tokens or 0),
            )  # fmt: skip
            if agent is None:
                self.measure(at, used.context, mark)
        model = message.model
        if agent is None and model is not None and model.id:
            self.transcript.model = f"{model.provider}/{model.id}" if model.provider else model.id
        for block in _blocks(message):
            if block.type == "tool_use" and block.id and block.name:
                self._calls[block.id] = block

    def _add_user_message(self, message: ClineMessage, at: int, mark: str, agent: str | None) -> None:
        results = [block for block in _blocks(message) if block.type == "tool_result"]
        for place, block in enumerate(results):
            call = self._calls.pop(block.tool_use_id or "", None)
            if call is not None:
                self._add_result(call, block, at, f"{mark}:{place}" if place else mark, agent)
        text = _text(message)
        if agent is None and not results and text:
            self.emit_prompt(at, person_words(text), mark)

    def _add_result(self, call: ClineBlock, block: ClineBlock, at: int, mark: str, agent: str | None) -> None:
        tool = call.name or ""
        if tool == _CALLS_AGENT or (tool not in AFTER and not block.is_error):
            return  # subagents have files of their own
        result = decode_any(block.content)
        failed = (result if type(result) is str and result else "it failed") if block.is_error else None
        signals = tool_signals(
            tool, decode_any(call.input), result, agent=agent, call=call.id, failed=failed, took_ms=None
        )  # fmt: skip
        self.emit_all(at, signals, mark)

    def finish(self) -> Transcript | None:
        """The transcript; None when it has no messages and no beginning. The manifest alone has beginning and end."""
        manifest, facts, transcript = self._manifest, _facts(self._manifest), self.transcript
        began, ended = parse_timestamp(manifest.started_at), parse_timestamp(manifest.ended_at)
        if not transcript.signs and began is not None:
            transcript.signs = [began] if ended is None else [began, max(ended, began)]
        if self._wants_prompt and manifest.prompt and began is not None:
            self.emit_prompt(began, person_words(manifest.prompt), "prompt")
        if manifest.provider and manifest.model:
            manifest.model = f"{manifest.provider}/{manifest.model}"
        usage = facts.aggregate_usage
        transcript.cwd = manifest.cwd or manifest.workspace_root
        transcript.title = facts.title
        transcript.model = transcript.model or manifest.model
        transcript.cost_usd = (usage.total_cost if usage is not None else None) or facts.total_cost or None
        return super().finish()


def _blocks(message: ClineMessage) -> list[ClineBlock]:
    return message.content if type(message.content) is list else []


def _text(message: ClineMessage) -> str | None:
    if type(message.content) is str:
        return message.content or None
    return "\n".join(block.text for block in _blocks(message) if block.type == "text" and block.text) or None


_MESSAGES: Final = ".messages.json"


class ClineReader:
    name = "cline"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        root = _top(places)
        for name in list_names(root):
            directory = os.path.join(root, name)
            stamps = [
                f"{name}={own_stamp}"
                for name in list_names(directory)
                if name.endswith(".json") and (own_stamp := stamp(os.path.join(directory, name))) is not None
            ]
            if stamps:
                yield TranscriptSource(directory, ";".join(stamps))

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        name = os.path.basename(source.path)
        problems = ReadProblems()
        manifest_path = os.path.join(source.path, f"{name}.json")
        manifest = _read_document(manifest_path, MANIFEST, problems) if stamp(manifest_path) is not None else None
        builder = ClineTranscriptBuilder(name, manifest)
        for number, item in enumerate(_read_messages(os.path.join(source.path, name + _MESSAGES), problems)):
            builder.add(item, number)
        for other in list_names(source.path):
            if other.endswith(_MESSAGES) and other != name + _MESSAGES:
                messages = _read_messages(os.path.join(source.path, other), problems)
                builder.add_subagent(other.removesuffix(_MESSAGES), messages)
        yield from with_problems(builder.finish(), problems, self.name, name)


def _top(places: AgentDirs) -> str:
    """Where conversations are: where a variable says, below a data directory that one names, or below Cline's own."""
    for variable, below in (("CLINE_SESSION_DATA_DIR", ()), ("CLINE_DATA_DIR", ("sessions",))):
        if places.environ.get(variable, "").strip():
            return os.path.join(places.under(variable), *below)
    return os.path.join(places.under("CLINE_DIR", ".cline"), "data", "sessions")


def _read_messages(path: str, problems: ReadProblems) -> list[ClineMessage]:
    decoded = _read_document(path, MESSAGES, problems) if stamp(path) is not None else None
    if decoded is None:
        return []
    messages = [decode(_MESSAGE, raw) for raw in decoded.messages]
    if None in messages:
        problems.add(f"{messages.count(None)} messages in {os.path.basename(path)} cannot be understood")
    return [message for message in messages if message is not None]


READER: Final = ClineReader()
