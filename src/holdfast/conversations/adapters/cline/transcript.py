"""The files of Cline's conversations, as far as anything is made of them: a manifest, and the messages of the
conversation and of each subagent. Each is one JSON document that is written anew with every message.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.cline.hooks import AFTER, SUBAGENT, resume, tool_signals, words_of
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
    MAX_PROMPT_LENGTH,
    TimedSignal,
    Transcript,
    TranscriptSource,
    mark_signals,
    with_problems,
)
from holdfast.conversations.signals import AgentBegan, AgentEnded, AnySignal, Measured, Prompted
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

T = TypeVar("T")

LARGEST: Final = 128 << 20  # bytes
_READ: Final = json.JSONDecoder(strict=False)


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


class Facts(msgspec.Struct, gc=False, rename="camel"):
    title: str | None = None
    total_cost: float | None = None
    aggregate_usage: ClineUsage | None = None


class Manifest(msgspec.Struct, gc=False):
    started_at: str | None = None
    ended_at: str | None = None
    provider: str | None = None
    model: str | None = None
    cwd: str | None = None
    workspace_root: str | None = None
    prompt: str | None = None
    metadata: msgspec.Raw = NULL


class ClineBlock(msgspec.Struct, gc=False):
    """A part of a message: text, a tool call, or what came of one."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NULL
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NULL


class Model(msgspec.Struct, gc=False):
    id: str | None = None
    provider: str | None = None


class ClineMessage(msgspec.Struct, gc=False):
    id: str | None = None
    role: str = ""
    content: str | list[ClineBlock] | None = None
    ts: float | None = None
    model: Model | None = msgspec.field(name="modelInfo", default=None)
    metrics: ClineUsage | None = None


class Messages(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw] = []


MANIFEST: Final = msgspec.json.Decoder(decodable(Manifest))
MESSAGES: Final = msgspec.json.Decoder(decodable(Messages))
_MESSAGE: Final = msgspec.json.Decoder(decodable(ClineMessage))
FACTS: Final = msgspec.json.Decoder(decodable(Facts))


def document(path: str, decoder: msgspec.json.Decoder[T], problems: ReadProblems) -> T | None:
    """What a file holds; whatever stands behind its document is passed over."""
    name = os.path.basename(path)
    trouble = ReadProblems()
    content = read_whole(path, trouble, LARGEST)
    if trouble:
        problems.extend(trouble, f"{name} ")
        return None
    document = decode(decoder, content)
    if document is not None:
        return document
    try:
        found, _ = _READ.raw_decode(content.replace(b"\0", b"").decode("utf-8", "replace").lstrip("\ufeff \t\r\n"))
        return decoder.decode(msgspec.json.encode(found))
    except DECODE_ERRORS:
        problems.add(f"{name} cannot be understood")
        return None


def message(raw: msgspec.Raw) -> ClineMessage | None:
    return decode(_MESSAGE, raw)


def facts(manifest: Manifest) -> Facts:
    return decode(FACTS, manifest.metadata) or Facts()


_CALLS_AGENT: Final = "spawn_agent"


class ClineTranscriptBuilder:
    def __init__(self, conversation: str, manifest: Manifest | None) -> None:
        self.conversation = conversation
        self._of = manifest or Manifest()
        self._signals: list[TimedSignal] = []
        self._signs: list[int] = []
        self._seen: set[str] = set()
        self._calls: dict[str, ClineBlock] = {}
        self._used = [0, 0, 0, 0]
        self._context: tuple[int, int, str] | None = None
        self._model: str | None = None
        self._messages = 0
        self._prompts = 0

    def add(self, message: ClineMessage, number: int, agent: str | None = None) -> None:
        """A message, in the order of its file; `agent` is the subagent whose file it is."""
        mark = message.id or f"{agent or ''}#{number}"
        at = parse_millis(message.ts)
        if at is None or mark in self._seen:
            return
        self._seen.add(mark)
        self._messages += 1
        if agent is None:
            self._signs.append(at)
        if message.role == "assistant":
            self._answer(message, at, mark, agent)
        elif message.role == "user":
            self._asked(message, at, mark, agent)

    def add_subagent(self, agent: str, messages: list[ClineMessage]) -> None:
        """A subagent: its beginning, its end if it came to one, and what it did."""
        for number, message in enumerate(messages):
            self.add(message, number, agent)
        moments = [at for item in messages if (at := parse_millis(item.ts)) is not None]
        if not moments:
            return
        asked = next((text for item in messages if item.role == "user" and (text := said(item))), None)
        task = plain(words_of(asked), 500) if asked else None
        self._emit(min(moments), AgentBegan(agent=agent, type=SUBAGENT, task=task), f"{agent}.began")
        last = messages[-1]
        if last.role == "assistant" and not any(block.type == "tool_use" for block in blocks(last)):
            summary, used = said(last), last.metrics or ClineUsage()
            ended = AgentEnded(
                agent=agent, type=SUBAGENT, task=task, tokens=used.context or None,
                summary=plain(summary) if summary else None,
            )  # fmt: skip
            self._emit(max(moments), ended, f"{agent}.ended")

    def _answer(self, message: ClineMessage, at: int, mark: str, agent: str | None) -> None:
        used = message.metrics
        if used is not None:
            # All that was sent is counted as one, from the cache or not.
            self._used[0] += max(int(used.input_tokens or 0) - used.cached, 0)
            self._used[1] += int(used.output_tokens or 0)
            self._used[2] += int(used.cache_read_tokens or 0)
            self._used[3] += int(used.cache_write_tokens or 0)
            if agent is None and used.context:
                self._context = (at, used.context, mark)
        model = message.model
        if agent is None and model is not None and model.id:
            self._model = f"{model.provider}/{model.id}" if model.provider else model.id
        for block in blocks(message):
            if block.type == "tool_use" and block.id and block.name:
                self._calls[block.id] = block

    def _asked(self, message: ClineMessage, at: int, mark: str, agent: str | None) -> None:
        results = [block for block in blocks(message) if block.type == "tool_result"]
        for place, block in enumerate(results):
            call = self._calls.pop(block.tool_use_id or "", None)
            if call is not None:
                self._came(call, block, at, f"{mark}:{place}" if place else mark, agent)
        text = said(message)
        if agent is not None or results or not text:
            return
        # What a conversation is about is said at its beginning; the rest is between a person and an agent.
        self._emit(at, Prompted(text=plain(words_of(text), MAX_PROMPT_LENGTH) if self._prompts == 0 else ""), mark)
        self._prompts += 1

    def _came(self, call: ClineBlock, block: ClineBlock, at: int, mark: str, agent: str | None) -> None:
        tool = call.name or ""
        if tool == _CALLS_AGENT or (tool not in AFTER and not block.is_error):
            return  # subagents have files of their own
        result = decode_any(block.content)
        failed = (result if type(result) is str and result else "it failed") if block.is_error else None
        signals = tool_signals(
            tool, decode_any(call.input), result, agent=agent, call=call.id, failed=failed, took_ms=None
        )  # fmt: skip
        for signal, own in mark_signals(signals, mark):
            self._emit(at, signal, own)

    def _emit(self, at: int, signal: AnySignal, mark: str) -> None:
        self._signals.append(TimedSignal(at, signal, mark))

    def finish(self) -> Transcript | None:
        """What there is to tell; None when nobody said anything. The manifest alone tells beginning and end."""
        of, known = self._of, facts(self._of)
        began, ended = parse_timestamp(of.started_at), parse_timestamp(of.ended_at)
        if not self._signs:
            if began is None:
                return None
            self._signs = [began] if ended is None else [began, max(ended, began)]
        if not self._prompts and of.prompt and began is not None:
            self._emit(began, Prompted(text=plain(words_of(of.prompt), MAX_PROMPT_LENGTH)), "prompt")
        if self._context is not None:
            at, tokens, mark = self._context
            self._emit(at, Measured(tokens=tokens), f"{mark}.context")
        self._signals.sort(key=lambda told: told.at)
        model = f"{of.provider}/{of.model}" if of.provider and of.model else of.model
        whole = known.aggregate_usage
        return Transcript(
            agent="cline",
            conversation=self.conversation,
            began=min(self._signs),
            ended=max([*self._signs, *(told.at for told in self._signals[-1:])]),
            cwd=of.cwd or of.workspace_root,
            title=known.title,
            model=self._model or model,
            resume=resume(self.conversation),
            signals=self._signals,
            signs=sorted(self._signs),
            input_tokens=self._used[0],
            output_tokens=self._used[1],
            cache_read_tokens=self._used[2],
            cache_write_tokens=self._used[3],
            messages=self._messages,
            cost_usd=(whole.total_cost if whole is not None else None) or known.total_cost or None,
        )


def blocks(message: ClineMessage) -> list[ClineBlock]:
    return message.content if type(message.content) is list else []


def said(message: ClineMessage) -> str | None:
    if type(message.content) is str:
        return message.content or None
    return "\n".join(block.text for block in blocks(message) if block.type == "text" and block.text) or None


_MESSAGES: Final = ".messages.json"


class ClineReader:
    name = "cline"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        top = _top(places)
        for name in list_names(top):
            directory = os.path.join(top, name)
            stamps = [
                f"{name}={found}"
                for name in list_names(directory)
                if name.endswith(".json") and (found := stamp(os.path.join(directory, name))) is not None
            ]
            if stamps:
                yield TranscriptSource(directory, ";".join(stamps))

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        name = os.path.basename(source.path)
        problems = ReadProblems()
        manifest_path = os.path.join(source.path, f"{name}.json")
        manifest = document(manifest_path, MANIFEST, problems) if stamp(manifest_path) is not None else None
        builder = ClineTranscriptBuilder(name, manifest)
        for number, item in enumerate(_heard(os.path.join(source.path, name + _MESSAGES), problems)):
            builder.add(item, number)
        for other in list_names(source.path):
            if other.endswith(_MESSAGES) and other != name + _MESSAGES:
                messages = _heard(os.path.join(source.path, other), problems)
                builder.add_subagent(other.removesuffix(_MESSAGES), messages)
        yield from with_problems(builder.finish(), problems, self.name, name)


def _top(places: AgentDirs) -> str:
    """Where conversations are: named, below a data directory that is named, or below Cline's own."""
    for variable, below in (("CLINE_SESSION_DATA_DIR", ()), ("CLINE_DATA_DIR", ("sessions",))):
        if places.environ.get(variable, "").strip():
            return os.path.join(places.under(variable), *below)
    return os.path.join(places.under("CLINE_DIR", ".cline"), "data", "sessions")


def _heard(path: str, problems: ReadProblems) -> list[ClineMessage]:
    found = document(path, MESSAGES, problems) if stamp(path) is not None else None
    if found is None:
        return []
    heard = [message(raw) for raw in found.messages]
    if None in heard:
        problems.add(f"{heard.count(None)} messages in {os.path.basename(path)} cannot be understood")
    return [item for item in heard if item is not None]


READER: Final = ClineReader()
