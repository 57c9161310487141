"""Read Gemini CLI's conversations, put together from their records.

A message is written again whenever more of it is known, and whole histories when a conversation is resumed, rolled
back or compressed: each message counts once, in its latest version. What the person later rolled back happened all
the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import (
    DECODE_ERRORS,
    get_int,
    get_object,
    get_objects,
    get_text,
    parse_timestamp,
)
from holdfast.conversations.adapters.files import DirectoryEntry, list_directories, list_files
from holdfast.conversations.adapters.gemini.hooks import AFTER, person_words
from holdfast.conversations.adapters.gemini.settings import own_directory
from holdfast.conversations.adapters.jsonl import ReadProblems, read_records, read_whole
from holdfast.conversations.adapters.tools import signals_of
from holdfast.conversations.adapters.transcript import (
    MAX_PROMPT_LENGTH,
    TimedSignal,
    Transcript,
    TranscriptSource,
    with_problems,
)
from holdfast.conversations.connect.agent_settings import content, settings_in
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Compacted,
    Erred,
    Measured,
    Prompted,
)
from holdfast.core.agent_programs import resume_command
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

# Written by the program into the person's part of the conversation.
_PROGRAM_TEXTS: Final = ("<session_context>", "<hook_context>", "<state_snapshot>", "/", "?")
_SUMMARY: Final = "<state_snapshot>"
_OVER: Final = frozenset({"success", "error"})


class GeminiTranscriptBuilder:
    def __init__(self) -> None:
        self.conversation: str | None = None
        self.directories: list[str] = []
        self._signals: dict[str, TimedSignal] = {}
        self._signs: dict[str, int] = {}  # by the id of the message or call
        self._tokens: dict[str, tuple[int, int, int]] = {}  # by the id of the message: input, output, cached
        self._messages: set[str] = set()
        self._at = 0
        self._began: int | None = None
        self._title: str | None = None
        self._model: str | None = None
        self._context: tuple[int, int] | None = None
        self._goal_known = False
        # Subagents, by their ids: when they began, the results of their calls, and when these came.
        self._began_by_agent: dict[str, int] = {}
        self._ended_by_agent: dict[str, AgentEnded] = {}
        self._end_times: dict[str, int] = {}

    @property
    def has_messages(self) -> bool:
        """Whether there are any messages."""
        return bool(self._messages)

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Payload, number: int) -> None:
        """Add a record of the conversation itself."""
        changed = get_object(record, "$set")
        if "$set" in record or "$rewindTo" in record:
            self._add_facts(changed)
            for message in get_objects(changed, "messages"):
                self._add_message(message, f"line{number}", None)
        elif "id" in record and "type" in record:
            self._add_message(record, f"line{number}", None)
        elif "sessionId" in record:
            self.conversation = self.conversation or get_text(record, "sessionId")
            self._began = self._began or parse_timestamp(get_text(record, "startTime"))
            self._add_facts(record)
            for place, message in enumerate(get_objects(record, "messages")):
                self._add_message(message, f"message{place}", None)

    def add_subagent_record(self, record: Payload, number: int, agent: str) -> None:
        """Add a record of a subagent's own file."""
        if "id" in record and "type" in record:
            self._add_message(record, f"{agent}.line{number}", agent)
        elif "sessionId" in record:
            began = parse_timestamp(get_text(record, "startTime"))
            if began is not None:
                self._began_by_agent.setdefault(agent, began)

    def _add_facts(self, record: Payload) -> None:
        self._title = get_text(record, "summary") or self._title
        listed = record.get("directories")
        if type(listed) is list:
            self.directories = [path for path in listed if type(path) is str and path]

    def _add_message(self, message: Payload, place: str, agent: str | None) -> None:
        name = get_text(message, "id") or place
        at = parse_timestamp(get_text(message, "timestamp")) or self._at
        self._at = at or self._at
        kind = get_text(message, "type")
        if kind == "user":
            self._add_prompt(message, name, at, agent)
        elif kind == "gemini":
            self._messages.add(name)
            self._signs[name] = at
            self._add_tokens(message, name, at, agent)
            for turn, call in enumerate(get_objects(message, "toolCalls")):
                self._add_call(call, get_text(call, "id") or f"{name}.{turn}", at, agent)
        elif kind == "error" and agent is None:
            signal = classify(None, _text(message.get("content")))
            if not isinstance(signal, Erred) or signal.category != "logical":
                self._emit(at, signal, name)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────

    def _add_prompt(self, message: Payload, name: str, at: int, agent: str | None) -> None:
        text = _text(message.get("content"))
        if text is None:
            return  # the result of a tool
        if _SUMMARY in text[:400]:
            self._emit(at, Compacted(agent=agent), name)
        text = person_words(text).strip()
        if agent is not None or not text or text.startswith(_PROGRAM_TEXTS) or name in self._messages:
            return
        self._messages.add(name)
        self._signs[name] = at
        # Only the first prompt that states a goal is kept.
        goal = None if self._goal_known else goal_of(text)
        self._goal_known = self._goal_known or goal is not None
        self._emit(at, Prompted(text=plain(text, MAX_PROMPT_LENGTH) if goal is not None else ""), name)

    # ── of the model ─────────────────────────────────────────────────────────────────────────────────────

    def _add_tokens(self, message: Payload, name: str, at: int, agent: str | None) -> None:
        tokens = get_object(message, "tokens")
        input_tokens, cached = get_int(tokens, "input") or 0, get_int(tokens, "cached") or 0
        output = (get_int(tokens, "output") or 0) + (get_int(tokens, "thoughts") or 0)
        # The input includes what came from the cache.
        fresh = max(input_tokens - cached, 0) + (get_int(tokens, "tool") or 0)
        if tokens:
            self._tokens[name] = (fresh, output, cached)
        if agent is None:
            self._model = get_text(message, "model") or self._model
            if input_tokens:
                self._context = (at, input_tokens)

    def _add_call(self, call: Payload, name: str, asked_at: int, agent: str | None) -> None:
        tool = get_text(call, "name")
        if tool is None:
            return
        at = parse_timestamp(get_text(call, "timestamp")) or asked_at
        self._at = max(self._at, at)
        self._signs[name] = at
        status = get_text(call, "status")
        if status not in _OVER:
            return  # not over yet, or not allowed by the person
        response, failed = _response(call), None
        if status == "error":
            failed = _output_field(call, "error") or "the tool failed"
        for turn, signal in enumerate(
            signals_of(tool, call.get("args"), response, agent=agent, call=name, failed=failed, table=AFTER)
        ):
            if isinstance(signal, AgentEnded):
                self._add_agent(signal, asked_at, at)
            elif not isinstance(signal, Active):
                self._emit(at, signal, f"{name}.{turn}" if turn else name)

    def _add_agent(self, ended: AgentEnded, began: int, at: int) -> None:
        name = ended.agent or ended.call
        never_ran = ended.agent is None and ended.failed is not None
        if name is not None and not never_ran:
            self._ended_by_agent[name] = ended
            self._end_times[name] = at
            self._began_by_agent.setdefault(name, began)

    # ── the transcript ────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self, at: int, signal: AnySignal, mark: str) -> None:
        # A later version of a message may know more.
        self._signals[mark] = TimedSignal(at, signal, mark)

    def finish(self, conversation: str, cwd: str | None) -> Transcript | None:
        """The transcript; None when it has no messages."""
        if not self.has_messages:
            return None
        for name, began in self._began_by_agent.items():
            ended = self._ended_by_agent.get(name)
            kind, task = ("generalist", None) if ended is None else (ended.type or "generalist", ended.task)
            self._emit(began, AgentBegan(agent=name, type=kind, task=task), f"{name}.began")
            if ended is not None:
                end = AgentEnded(
                    agent=name, type=kind, task=task, summary=ended.summary, failed=ended.failed,
                    took_ms=max(self._end_times[name] - began, 0),
                )  # fmt: skip
                self._emit(self._end_times[name], end, f"{name}.ended")
        if self._context is not None:
            self._emit(self._context[0], Measured(tokens=self._context[1]), "context")
        signs = sorted(at for at in self._signs.values() if at)
        known = [*signs[:1], *signs[-1:], *(line.at for line in self._signals.values() if line.at)]
        moments = known if self._began is None else [*known, self._began]
        first = min(moments, default=0)
        # What has no time of its own is as old as the conversation.
        lines = [line if line.at else line._replace(at=first) for line in self._signals.values()]
        sums = [sum(pair) for pair in zip(*self._tokens.values(), strict=True)] or [0, 0, 0]
        return Transcript(
            agent="gemini",
            conversation=conversation,
            began=first,
            ended=max(moments, default=0),
            cwd=cwd,
            title=None if self._title is None else plain(self._title),
            model=self._model,
            resume=resume_command("gemini", conversation),
            signals=sorted(lines, key=lambda line: line.at),
            signs=signs,
            input_tokens=sums[0],
            output_tokens=sums[1],
            cache_read_tokens=sums[2],
            messages=len(self._messages),
        )


def _text(content: Json) -> str | None:
    """The text of a message: its content, or the texts among its parts."""
    if type(content) is str:
        return content
    if type(content) is dict:
        content = [content]
    if type(content) is not list:
        return None
    texts = [item if type(item) is str else get_text(item, "text") for item in content if type(item) in (str, dict)]  # type: ignore[arg-type]
    return "\n".join(text for text in texts if text) or None


def _output_field(call: Payload, field: str) -> str | None:
    """A field of what a tool returned to the model."""
    for entry in get_objects(call, "result"):
        text = get_text(get_object(get_object(entry, "functionResponse"), "response"), field)
        if text is not None:
            return text
    return None


def _response(call: Payload) -> dict[str, Json]:
    """A recorded result, in the form that hooks get."""
    response: dict[str, Json] = {
        "llmContent": _output_field(call, "output"),
        "returnDisplay": call.get("resultDisplay"),
    }
    agent = get_text(call, "agentId")
    return response if agent is None else {**response, "agentId": agent}


_MAX_SIZE: Final = 256 << 20  # bytes of a conversation that is one document
_MAX_NOTE_SIZE: Final = 64 << 10
_LINES: Final = ".jsonl"
_DOCUMENT: Final = ".json"
_ID_PREFIX: Final = 8
_DECODER: Final = msgspec.json.Decoder(decodable(dict[str, Json]))
_MESSAGES: Final = re.compile(r'"messages"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[\s,]*")
_LENIENT: Final = json.JSONDecoder(strict=False)


class GeminiReader:
    name = "gemini"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        for project in list_directories(os.path.join(own_directory(places), "tmp")):
            chats = os.path.join(project, "chats")
            chat_files = [file for file in list_files(chats, _LINES, _DOCUMENT) if file.name.startswith("session-")]
            names = {file.name for file in chat_files}
            # A file's name ends with the first part of the conversation's id, its subagents' directory has all of it.
            agents = {name[:_ID_PREFIX]: name for name in map(os.path.basename, list_directories(chats))}
            for path, name, stamp in chat_files:
                if name.endswith(_LINES):
                    own = _subagent_files(path, agents.get(name.removesuffix(_LINES).rpartition("-")[2]))
                    yield TranscriptSource(path, ";".join([stamp, *(name for _, _, name in own)]))
                elif name + "l" not in names:  # a conversation that began as a document goes on in lines
                    yield TranscriptSource(path, stamp)

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        builder, problems = GeminiTranscriptBuilder(), ReadProblems()
        if source.path.endswith(_DOCUMENT):
            for number, record in _read_document(source.path, problems):
                builder.add(record, number)
        else:
            for number, record in read_records(source.path, _DECODER, problems):
                builder.add(record, number)
        # A resumed conversation leaves an empty file behind; its subagents belong to the other file.
        for path, name, _ in _subagent_files(source.path, builder.conversation) if builder.has_messages else ():
            agent_problems = ReadProblems()
            for number, record in read_records(path, _DECODER, agent_problems):
                builder.add_subagent_record(record, number, name.removesuffix(_LINES))
            problems.extend(agent_problems, f"in {name}, ")
        conversation = builder.conversation or os.path.basename(source.path).rpartition(".")[0]
        transcript = builder.finish(conversation, _find_project(source.path) or next(iter(builder.directories), None))
        yield from with_problems(transcript, problems, self.name, conversation)


def _read_document(path: str, problems: ReadProblems) -> Iterator[tuple[int, dict[str, Json]]]:
    """Read a conversation that is one document; of a damaged one, as many messages as possible."""
    data = read_whole(path, problems, _MAX_SIZE).strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf")
    if not data:
        return
    try:
        yield 1, _DECODER.decode(data)
    except DECODE_ERRORS:
        problems.add("is not a complete JSON document")
        yield from _salvage(data.decode(errors="replace"))


def _salvage(text: str) -> Iterator[tuple[int, dict[str, Json]]]:
    begin = _MESSAGES.search(text)
    head: dict[str, Json] = {}
    for name in ("sessionId", "startTime"):
        match = re.search(rf'"{name}"\s*:\s*"([^"\\]{{1,200}})"', text[: begin.start() if begin else 10_000])
        if match:
            head[name] = match[1]
    if head:
        yield 1, head
    at = begin.end() if begin else len(text)
    number = 1
    while at < len(text):
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        try:
            message, at = _LENIENT.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        number += 1
        if type(message) is dict:
            yield number, message


def _find_project(path: str) -> str | None:
    """The path of a conversation's project: from the note in its directory, or a known path that matches its name."""
    directory = os.path.dirname(os.path.dirname(path))
    note = _read_note(os.path.join(directory, ".project_root"))
    if note:
        return note
    name, own = os.path.basename(directory), os.path.dirname(os.path.dirname(directory))
    listed = get_object(settings_in(os.path.join(own, "projects.json")), "projects")
    project = next((path for path, slug in listed.items() if slug == name), None)
    if project is not None:
        return project
    for project in (*listed, *settings_in(os.path.join(own, "trustedFolders.json"))):
        if hashlib.sha256(project.encode(errors="replace")).hexdigest() == name:
            return project
    return None


def _read_note(path: str) -> str | None:
    try:
        return content(path, _MAX_NOTE_SIZE).decode().strip()
    except UnicodeDecodeError:
        return None


def _subagent_files(path: str, conversation: str | None) -> list[DirectoryEntry]:
    if conversation is None or not conversation.replace("-", "").isalnum():
        return []
    return list_files(os.path.join(os.path.dirname(path), conversation), _LINES)


READER: Final = GeminiReader()
