"""One conversation of Gemini CLI put together from its records. A message is written again whenever more of it is
known, and whole histories are written anew when one is resumed, rolled back or compressed: what counts is each
message once, with what was last said of it. What the person took back afterwards has happened all the same.
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
from holdfast.conversations.adapters.gemini.hooks import AFTER, asked, resume
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
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

# Written by the program into the person's part of the conversation.
_OWN_WORDS: Final = ("<session_context>", "<hook_context>", "<state_snapshot>", "/", "?")
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
        # Subagents, by their ids: when they began, and what asked for them.
        self._ran: dict[str, int] = {}
        self._called: dict[str, AgentEnded] = {}
        self._ended: dict[str, int] = {}

    @property
    def anything(self) -> bool:
        """Whether anything was said."""
        return bool(self._messages)

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Payload, number: int) -> None:
        """A record of the conversation itself."""
        changed = get_object(record, "$set")
        if "$set" in record or "$rewindTo" in record:
            self._described(changed)
            for message in get_objects(changed, "messages"):
                self._message(message, f"line{number}", None)
        elif "id" in record and "type" in record:
            self._message(record, f"line{number}", None)
        elif "sessionId" in record:
            self.conversation = self.conversation or get_text(record, "sessionId")
            self._began = self._began or parse_timestamp(get_text(record, "startTime"))
            self._described(record)
            for place, message in enumerate(get_objects(record, "messages")):
                self._message(message, f"message{place}", None)

    def add_subagent_record(self, record: Payload, number: int, agent: str) -> None:
        """A record of a subagent's own file."""
        if "id" in record and "type" in record:
            self._message(record, f"{agent}.line{number}", agent)
        elif "sessionId" in record:
            began = parse_timestamp(get_text(record, "startTime"))
            if began is not None:
                self._ran.setdefault(agent, began)

    def _described(self, record: Payload) -> None:
        self._title = get_text(record, "summary") or self._title
        found = record.get("directories")
        if type(found) is list:
            self.directories = [match for match in found if type(match) is str and match]

    def _message(self, message: Payload, place: str, agent: str | None) -> None:
        name = get_text(message, "id") or place
        at = parse_timestamp(get_text(message, "timestamp")) or self._at
        self._at = at or self._at
        kind = get_text(message, "type")
        if kind == "user":
            self._user(message, name, at, agent)
        elif kind == "gemini":
            self._messages.add(name)
            self._signs[name] = at
            self._used(message, name, at, agent)
            for turn, call in enumerate(get_objects(message, "toolCalls")):
                self._call(call, get_text(call, "id") or f"{name}.{turn}", at, agent)
        elif kind == "error" and agent is None:
            met = classify(None, _text(message.get("content")))
            if not isinstance(met, Erred) or met.category != "logical":
                self._emit(at, met, name)

    # ── what was asked ───────────────────────────────────────────────────────────────────────────────────

    def _user(self, message: Payload, name: str, at: int, agent: str | None) -> None:
        said = _text(message.get("content"))
        if said is None:
            return  # what a tool handed back
        if _SUMMARY in said[:400]:
            self._emit(at, Compacted(agent=agent), name)
        said = asked(said).strip()
        if agent is not None or not said or said.startswith(_OWN_WORDS) or name in self._messages:
            return
        self._messages.add(name)
        self._signs[name] = at
        # The goal is in the first that states one; what is asked later is nobody's to keep.
        goal = None if self._goal_known else goal_of(said)
        self._goal_known = self._goal_known or goal is not None
        self._emit(at, Prompted(text=plain(said, MAX_PROMPT_LENGTH) if goal is not None else ""), name)

    # ── what the model said and did ──────────────────────────────────────────────────────────────────────

    def _used(self, message: Payload, name: str, at: int, agent: str | None) -> None:
        tokens = get_object(message, "tokens")
        given, cached = get_int(tokens, "input") or 0, get_int(tokens, "cached") or 0
        said = (get_int(tokens, "output") or 0) + (get_int(tokens, "thoughts") or 0)
        # What came from the cache is part of the input.
        fresh = max(given - cached, 0) + (get_int(tokens, "tool") or 0)
        if tokens:
            self._tokens[name] = (fresh, said, cached)
        if agent is None:
            self._model = get_text(message, "model") or self._model
            if given:
                self._context = (at, given)

    def _call(self, call: Payload, name: str, asked_at: int, agent: str | None) -> None:
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
            failed = _said(call, "error") or "the tool failed"
        for turn, signal in enumerate(
            signals_of(tool, call.get("args"), response, agent=agent, call=name, failed=failed, table=AFTER)
        ):
            if isinstance(signal, AgentEnded):
                self._agent(signal, asked_at, at)
            elif not isinstance(signal, Active):
                self._emit(at, signal, f"{name}.{turn}" if turn else name)

    def _agent(self, ended: AgentEnded, began: int, at: int) -> None:
        name = ended.agent or ended.call
        never_ran = ended.agent is None and ended.failed is not None
        if name is not None and not never_ran:
            self._called[name] = ended
            self._ended[name] = at
            self._ran.setdefault(name, began)

    # ── the story ────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self, at: int, signal: AnySignal, mark: str) -> None:
        # Told again, it may be told better.
        self._signals[mark] = TimedSignal(at, signal, mark)

    def finish(self, conversation: str, cwd: str | None) -> Transcript | None:
        """The conversation, if anything was said in it."""
        if not self.anything:
            return None
        for name, began in self._ran.items():
            ended = self._called.get(name)
            kind, task = ("generalist", None) if ended is None else (ended.type or "generalist", ended.task)
            self._emit(began, AgentBegan(agent=name, type=kind, task=task), f"{name}.began")
            if ended is not None:
                done = AgentEnded(
                    agent=name, type=kind, task=task, summary=ended.summary, failed=ended.failed,
                    took_ms=max(self._ended[name] - began, 0),
                )  # fmt: skip
                self._emit(self._ended[name], done, f"{name}.ended")
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
            resume=resume(conversation),
            signals=sorted(lines, key=lambda line: line.at),
            signs=signs,
            input_tokens=sums[0],
            output_tokens=sums[1],
            cache_read_tokens=sums[2],
            messages=len(self._messages),
        )


def _text(content: Json) -> str | None:
    """The words in a message's content: text, or the texts among its parts."""
    if type(content) is str:
        return content
    if type(content) is dict:
        content = [content]
    if type(content) is not list:
        return None
    found = [item if type(item) is str else get_text(item, "text") for item in content if type(item) in (str, dict)]  # type: ignore[arg-type]
    words = [name for name in found if name]
    return "\n".join(words) if words else None


def _said(call: Payload, field: str) -> str | None:
    """What a tool handed to the model."""
    for entry in get_objects(call, "result"):
        said = get_text(get_object(get_object(entry, "functionResponse"), "response"), field)
        if said is not None:
            return said
    return None


def _response(call: Payload) -> dict[str, Json]:
    """A recorded result in the form in which hooks get it."""
    response: dict[str, Json] = {"llmContent": _said(call, "output"), "returnDisplay": call.get("resultDisplay")}
    agent = get_text(call, "agentId")
    return response if agent is None else {**response, "agentId": agent}


LARGEST: Final = 256 << 20  # bytes of a conversation that is one document
_NOTE: Final = 64 << 10
_LINES: Final = ".jsonl"
_WHOLE: Final = ".json"
_BEGINNING: Final = 8
_DECODER: Final = msgspec.json.Decoder(decodable(dict[str, Json]))
_MESSAGES: Final = re.compile(r'"messages"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[\s,]*")
_READ: Final = json.JSONDecoder(strict=False)


class GeminiReader:
    name = "gemini"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        for project in list_directories(os.path.join(own_directory(places), "tmp")):
            chats = os.path.join(project, "chats")
            found = [file for file in list_files(chats, _LINES, _WHOLE) if file.name.startswith("session-")]
            names = {name for _, name, _ in found}
            # A file's name ends with the beginning of the conversation's id; its subagents' directory is the whole.
            agents = {name[:_BEGINNING]: name for name in map(os.path.basename, list_directories(chats))}
            for path, name, stamp in found:
                if name.endswith(_LINES):
                    own = _agent_files(path, agents.get(name.removesuffix(_LINES).rpartition("-")[2]))
                    yield TranscriptSource(path, ";".join([stamp, *(name for _, _, name in own)]))
                elif name + "l" not in names:  # what was begun as a document goes on in lines
                    yield TranscriptSource(path, stamp)

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        builder, problems = GeminiTranscriptBuilder(), ReadProblems()
        if source.path.endswith(_WHOLE):
            for number, record in _document(source.path, problems):
                builder.add(record, number)
        else:
            for number, record in read_records(source.path, _DECODER, problems):
                builder.add(record, number)
        # A resumed conversation leaves an empty file behind; its subagents belong to the other.
        for path, name, _ in _agent_files(source.path, builder.conversation) if builder.anything else ():
            trouble = ReadProblems()
            for number, record in read_records(path, _DECODER, trouble):
                builder.add_subagent_record(record, number, name.removesuffix(_LINES))
            problems.extend(trouble, f"in {name}, ")
        conversation = builder.conversation or os.path.basename(source.path).rpartition(".")[0]
        transcript = builder.finish(conversation, _project(source.path) or next(iter(builder.directories), None))
        yield from with_problems(transcript, problems, self.name, conversation)


def _document(path: str, problems: ReadProblems) -> Iterator[tuple[int, dict[str, Json]]]:
    """A conversation that is one document; of a damaged one, as many messages as can be had."""
    written = read_whole(path, problems, LARGEST).strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf")
    if not written:
        return
    try:
        yield 1, _DECODER.decode(written)
    except DECODE_ERRORS:
        problems.add("is not a JSON document to its end")
        yield from _salvaged(written.decode(errors="replace"))


def _salvaged(text: str) -> Iterator[tuple[int, dict[str, Json]]]:
    begin = _MESSAGES.search(text)
    head: dict[str, Json] = {}
    for name in ("sessionId", "startTime"):
        found = re.search(rf'"{name}"\s*:\s*"([^"\\]{{1,200}})"', text[: begin.start() if begin else 10_000])
        if found:
            head[name] = found[1]
    if head:
        yield 1, head
    at = begin.end() if begin else len(text)
    number = 1
    while at < len(text):
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        try:
            message, at = _READ.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        number += 1
        if type(message) is dict:
            yield number, message


def _project(path: str) -> str | None:
    """Where the project of a conversation is: by the note in its directory, or as the path that has its name."""
    directory = os.path.dirname(os.path.dirname(path))
    note = _note(os.path.join(directory, ".project_root"))
    if note:
        return note
    name, own = os.path.basename(directory), os.path.dirname(os.path.dirname(directory))
    listed = get_object(settings_in(os.path.join(own, "projects.json")), "projects")
    named = next((place for place, slug in listed.items() if slug == name), None)
    if named is not None:
        return named
    for place in (*listed, *settings_in(os.path.join(own, "trustedFolders.json"))):
        if hashlib.sha256(place.encode(errors="replace")).hexdigest() == name:
            return place
    return None


def _note(path: str) -> str | None:
    try:
        return content(path, _NOTE).decode().strip()
    except UnicodeDecodeError:
        return None


def _agent_files(path: str, conversation: str | None) -> list[DirectoryEntry]:
    if conversation is None or not conversation.replace("-", "").isalnum():
        return []
    return list_files(os.path.join(os.path.dirname(path), conversation), _LINES)


READER: Final = GeminiReader()
