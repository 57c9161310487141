"""One conversation of Cursor put together from its lines: who spoke, and which tools were called. They hold no ids,
no tokens, no model, no results of tools, and no times but one that may stand before a prompt; what follows is taken
to be of its time, and the end to be when the file was last written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.adapters.cursor.hooks import WRITTEN, path_of, resume
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import get_object, get_objects, get_text, parse_millis
from holdfast.conversations.adapters.files import DirectoryEntry, list_directories, list_files
from holdfast.conversations.adapters.jsonl import ReadProblems, read_records
from holdfast.conversations.adapters.tools import signals_of
from holdfast.conversations.adapters.transcript import (
    MAX_PROMPT_LENGTH,
    TimedSignal,
    Transcript,
    TranscriptSource,
    with_problems,
)
from holdfast.conversations.connect.agent_settings import settings_in
from holdfast.conversations.signals import Active, AgentBegan, AgentEnded, AnySignal, Edited, Prompted
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.workspace.agent_dirs import AgentDirs

_QUERY: Final = re.compile(r"<user_query>\s*(.*?)\s*(?:</user_query>|\Z)", re.DOTALL)
# `Friday, Sep 4, 2026, 2:21 AM (UTC+8)`: to the minute, in the zone of the person.
_WRITTEN_AT: Final = re.compile(
    r"\A\s*<timestamp>[A-Za-z]+, ([A-Z][a-z]{2})[a-z]* (\d{1,2}), (\d{4}),? (\d{1,2}):(\d{2}) (AM|PM)"
    r" \((?:UTC|GMT)([+-]\d{1,2})?(?::(\d{2}))?\)</timestamp>"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NOT_NAMED: Final = re.compile(r"[^A-Za-z0-9]+")


class CursorTranscriptBuilder:
    """`began` and `ended` are what is known from elsewhere; `slug` is the project's, in which its path is hidden."""

    def __init__(self, conversation: str, slug: str, began: int | None, ended: int) -> None:
        self.conversation = conversation
        self.cwd: str | None = None
        self._slug = slug
        self._began = began
        self._ended = ended
        self._at: int | None = None
        self._signals: list[tuple[int | None, AnySignal, str]] = []
        self._signs: list[int] = []
        self._messages = 0
        self._goal_known = False

    @property
    def anything(self) -> bool:
        """Whether anything was said."""
        return self._messages > 0

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Payload, number: int) -> None:
        """A line of the conversation itself."""
        role = get_text(record, "role")
        if role == "user":
            self._user(record, f"line{number}")
        elif role == "assistant":
            self._messages += 1
            self._tools(record, f"line{number}", None)
        elif record.get("type") == "turn_ended" and record.get("status") == "error":
            self._emit(classify(None, get_text(record, "error")), f"line{number}")

    def add_subagent_record(self, record: Payload, number: int, agent: str) -> None:
        """A line of a subagent's own file."""
        if record.get("role") == "assistant":
            self._tools(record, f"{agent}.line{number}", agent)

    def _user(self, record: Payload, mark: str) -> None:
        said = _text(record)
        if said is None:
            return  # what a tool handed back
        self._at = _written_at(said) or self._at
        query = _QUERY.search(said)
        if query is None and said.lstrip().startswith("<"):
            return  # what the program tells the model about itself
        words = query[1] if query else said.strip()
        if not words:
            return
        self._messages += 1
        if self._at is not None:
            self._signs.append(self._at)
        # The goal is in the first that states one; what is asked later is nobody's to keep.
        goal = None if self._goal_known else goal_of(words)
        self._goal_known = self._goal_known or goal is not None
        self._emit(Prompted(text=plain(words, MAX_PROMPT_LENGTH) if goal is not None else ""), mark)

    def _tools(self, record: Payload, mark: str, agent: str | None) -> None:
        for place, block in enumerate(get_objects(get_object(record, "message"), "content")):
            tool = get_text(block, "name")
            if block.get("type") != "tool_use" or tool is None:
                continue
            given = get_object(block, "input")
            self._look(get_text(given, "path", "file_path", "working_directory", "target_directory"))
            for turn, signal in enumerate(signals_of(tool, dict(given), agent=agent, table=WRITTEN)):
                self._called(signal, f"{mark}.{place}.{turn}", agent)

    def _called(self, signal: AnySignal, mark: str, agent: str | None) -> None:
        if isinstance(signal, AgentEnded):
            if agent is None:
                kind = signal.type or "agent"
                self._emit(AgentBegan(agent=mark, type=kind, task=signal.task), f"{mark}.began")
                self._emit(AgentEnded(agent=mark, type=kind, task=signal.task), f"{mark}.ended")
        elif isinstance(signal, Edited):
            # Without a result it is not sure what stands in the file now.
            self._emit(
                Edited(
                    agent=agent, path=path_of(signal.path), action=signal.action,
                    lines_added=signal.lines_added, lines_removed=signal.lines_removed,
                ),
                mark,
            )  # fmt: skip
        elif not isinstance(signal, Active):
            self._emit(signal, mark)

    def _look(self, path: str | None) -> None:
        """A path that a tool was given may be in the project: then one of its parents has the project's slug."""
        if path is None or self.cwd is not None or len(path) > 4_096:
            return
        path = path_of(path)
        cut = len(path)
        while cut > 0:
            if slug_of(path[:cut]) == self._slug:
                self.cwd = path[:cut].rstrip("/\\") or path[:cut]
                return
            cut = max(path.rfind("/", 0, cut), path.rfind("\\", 0, cut))

    # ── the story ────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self, signal: AnySignal, mark: str) -> None:
        self._signals.append((self._at, signal, mark))

    def finish(self, title: str | None) -> Transcript | None:
        """The conversation, if anything was said in it."""
        if not self.anything:
            return None
        first = self._began or next(iter(self._signs), self._ended)
        told: list[TimedSignal] = []
        at = first
        for known, signal, mark in self._signals:
            at = max(at, known or at)
            told.append(TimedSignal(at, signal, mark))
        signs = sorted({first, *self._signs, self._ended})
        return Transcript(
            agent="cursor",
            conversation=self.conversation,
            began=min(signs[0], first),
            ended=max(signs[-1], at),
            cwd=self.cwd,
            title=None if title is None else plain(title),
            resume=resume(self.conversation),
            signals=told,
            signs=signs,
            messages=self._messages,
        )


def slug_of(path: str) -> str:
    """How Cursor names a project's directory: everything but letters and digits is a dash."""
    return _NOT_NAMED.sub("-", path).strip("-")


def _text(record: Payload) -> str | None:
    message = get_object(record, "message")
    plainly = get_text(message, "content")
    if plainly is not None:
        return plainly
    words = [
        said
        for entry in get_objects(message, "content")
        if entry.get("type") == "text" and (said := get_text(entry, "text"))
    ]
    return "\n".join(words) if words else None


def _written_at(said: str) -> int | None:
    """The time before a prompt in milliseconds, where it says in which zone."""
    found = _WRITTEN_AT.match(said[:200])
    if found is None or found[1] not in _MONTHS:
        return None
    hour = int(found[4]) % 12 + (12 if found[6] == "PM" else 0)
    hours, minutes = int(found[7] or 0), int(found[8] or 0)
    try:
        zone = timezone(timedelta(hours=hours, minutes=minutes if hours >= 0 else -minutes))
        at = datetime(int(found[3]), _MONTHS.index(found[1]) + 1, int(found[2]), hour, int(found[5]), tzinfo=zone)
        return int((at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
    except (ValueError, OverflowError):
        return None


_END: Final = ".jsonl"
_MOST_CHATS: Final = 10_000
_DECODER: Final = msgspec.json.Decoder(decodable(dict[str, Json]))


class _Noted(NamedTuple):
    """What Cursor notes beside a conversation."""

    title: str | None = None
    cwd: str | None = None
    began: int | None = None
    ended: int | None = None


class CursorReader:
    name = "cursor"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        for project in list_directories(places.in_home(".cursor", "projects")):
            top = os.path.join(project, "agent-transcripts")
            found = list_files(top, _END)
            for directory in list_directories(top):
                own = os.path.basename(directory) + _END
                found += [file for file in list_files(directory, _END) if file.name == own]
            seen = set()
            for path, name, stamp in sorted(found, key=lambda one: len(one[0]), reverse=True):
                if name not in seen:
                    seen.add(name)
                    yield TranscriptSource(path, ";".join([stamp, *(file for _, _, file in _agent_files(path))]))

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        conversation = os.path.basename(source.path).removesuffix(_END)
        project = _project_directory(source.path)
        noted = _noted(os.path.dirname(os.path.dirname(project)), conversation)
        ended = noted.ended or _last_written(source.path)
        builder = CursorTranscriptBuilder(conversation, os.path.basename(project), noted.began, ended)
        problems = ReadProblems()
        for line, record in read_records(source.path, _DECODER, problems):
            builder.add(record, line)
        for path, name, _ in _agent_files(source.path) if builder.anything else ():
            trouble = ReadProblems()
            for line, record in read_records(path, _DECODER, trouble):
                builder.add_subagent_record(record, line, name.removesuffix(_END))
            problems.extend(trouble, f"in {name}, ")
        builder.cwd = noted.cwd or builder.cwd
        yield from with_problems(builder.finish(noted.title), problems, self.name, conversation)


def _project_directory(path: str) -> str:
    directory = os.path.dirname(path)
    while os.path.basename(directory) != "agent-transcripts":
        above = os.path.dirname(directory)
        if above == directory:
            return above
        directory = above
    return os.path.dirname(directory)


def _noted(own: str, conversation: str) -> _Noted:
    if not conversation.replace("-", "").isalnum():
        return _Noted()
    for chats in list_directories(os.path.join(own, "chats"))[:_MOST_CHATS]:
        path = os.path.join(chats, conversation, "meta.json")
        if not os.path.isfile(path):
            continue
        meta = settings_in(path)
        began, ended = parse_millis(meta.get("createdAtMs")), parse_millis(meta.get("updatedAtMs"))
        return _Noted(get_text(meta, "title"), get_text(meta, "cwd"), began, ended)
    return _Noted()


def _last_written(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns // 1_000_000
    except (OSError, ValueError):
        return 0


def _agent_files(path: str) -> list[DirectoryEntry]:
    directory = os.path.dirname(path)
    own = os.path.basename(path).removesuffix(_END)
    top = directory if os.path.basename(directory) == own else os.path.join(directory, own)
    return list_files(os.path.join(top, "subagents"), _END)


READER: Final = CursorReader()
