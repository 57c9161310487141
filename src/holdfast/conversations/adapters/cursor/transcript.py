"""Read Cursor's conversations: who spoke, and which tools were called.

The lines have no ids, no tokens, no model, no results of tools, and no times except one that may precede a prompt. It
counts for all that follows the prompt; the end is when the file was last written.
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
from holdfast.conversations.adapters.cursor.hooks import WRITTEN, path_of
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
from holdfast.core.agent_programs import resume_command
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
_NOT_IN_SLUG: Final = re.compile(r"[^A-Za-z0-9]+")


class CursorTranscriptBuilder:
    """`began` and `ended` come from other files; `slug` is the project's, made from its path."""

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
    def has_messages(self) -> bool:
        """Whether there are any messages."""
        return self._messages > 0

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Payload, number: int) -> None:
        """Add a line of the conversation itself."""
        role = get_text(record, "role")
        if role == "user":
            self._add_prompt(record, f"line{number}")
        elif role == "assistant":
            self._messages += 1
            self._add_calls(record, f"line{number}", None)
        elif record.get("type") == "turn_ended" and record.get("status") == "error":
            self._emit(classify(None, get_text(record, "error")), f"line{number}")

    def add_subagent_record(self, record: Payload, number: int, agent: str) -> None:
        """Add a line of a subagent's own file."""
        if record.get("role") == "assistant":
            self._add_calls(record, f"{agent}.line{number}", agent)

    def _add_prompt(self, record: Payload, mark: str) -> None:
        text = _text(record)
        if text is None:
            return  # the result of a tool
        self._at = _written_at(text) or self._at
        query = _QUERY.search(text)
        if query is None and text.lstrip().startswith("<"):
            return  # written by the program for the model
        words = query[1] if query else text.strip()
        if not words:
            return
        self._messages += 1
        if self._at is not None:
            self._signs.append(self._at)
        # Only the first prompt that states a goal is kept.
        goal = None if self._goal_known else goal_of(words)
        self._goal_known = self._goal_known or goal is not None
        self._emit(Prompted(text=plain(words, MAX_PROMPT_LENGTH) if goal is not None else ""), mark)

    def _add_calls(self, record: Payload, mark: str, agent: str | None) -> None:
        for place, block in enumerate(get_objects(get_object(record, "message"), "content")):
            tool = get_text(block, "name")
            if block.get("type") != "tool_use" or tool is None:
                continue
            arguments = get_object(block, "input")
            self._find_project(get_text(arguments, "path", "file_path", "working_directory", "target_directory"))
            for turn, signal in enumerate(signals_of(tool, dict(arguments), agent=agent, table=WRITTEN)):
                self._add_signal(signal, f"{mark}.{place}.{turn}", agent)

    def _add_signal(self, signal: AnySignal, mark: str, agent: str | None) -> None:
        if isinstance(signal, AgentEnded):
            if agent is None:
                kind = signal.type or "agent"
                self._emit(AgentBegan(agent=mark, type=kind, task=signal.task), f"{mark}.began")
                self._emit(AgentEnded(agent=mark, type=kind, task=signal.task), f"{mark}.ended")
        elif isinstance(signal, Edited):
            # Without a result, the file's content is not certain.
            self._emit(
                Edited(
                    agent=agent, path=path_of(signal.path), action=signal.action,
                    lines_added=signal.lines_added, lines_removed=signal.lines_removed,
                ),
                mark,
            )  # fmt: skip
        elif not isinstance(signal, Active):
            self._emit(signal, mark)

    def _find_project(self, path: str | None) -> None:
        """Look for the project in a path that a tool was given: one of its parents may have the project's slug."""
        if path is None or self.cwd is not None or len(path) > 4_096:
            return
        path = path_of(path)
        cut = len(path)
        while cut > 0:
            if slug_of(path[:cut]) == self._slug:
                self.cwd = path[:cut].rstrip("/\\") or path[:cut]
                return
            cut = max(path.rfind("/", 0, cut), path.rfind("\\", 0, cut))

    # ── the transcript ────────────────────────────────────────────────────────────────────────────────────────

    def _emit(self, signal: AnySignal, mark: str) -> None:
        self._signals.append((self._at, signal, mark))

    def finish(self, title: str | None) -> Transcript | None:
        """The transcript; None when it has no messages."""
        if not self.has_messages:
            return None
        first = self._began or next(iter(self._signs), self._ended)
        lines: list[TimedSignal] = []
        at = first
        for known, signal, mark in self._signals:
            at = max(at, known or at)
            lines.append(TimedSignal(at, signal, mark))
        signs = sorted({first, *self._signs, self._ended})
        return Transcript(
            agent="cursor",
            conversation=self.conversation,
            began=min(signs[0], first),
            ended=max(signs[-1], at),
            cwd=self.cwd,
            title=None if title is None else plain(title),
            resume=resume_command("cursor", self.conversation),
            signals=lines,
            signs=signs,
            messages=self._messages,
        )


def slug_of(path: str) -> str:
    """Cursor's name of a project's directory: its path, with a dash for everything but letters and digits."""
    return _NOT_IN_SLUG.sub("-", path).strip("-")


def _text(record: Payload) -> str | None:
    message = get_object(record, "message")
    content = get_text(message, "content")
    if content is not None:
        return content
    texts = [
        text
        for entry in get_objects(message, "content")
        if entry.get("type") == "text" and (text := get_text(entry, "text"))
    ]
    return "\n".join(texts) if texts else None


def _written_at(prompt: str) -> int | None:
    """The time before a prompt in milliseconds, if it names its zone."""
    match = _WRITTEN_AT.match(prompt[:200])
    if match is None or match[1] not in _MONTHS:
        return None
    hour = int(match[4]) % 12 + (12 if match[6] == "PM" else 0)
    hours, minutes = int(match[7] or 0), int(match[8] or 0)
    try:
        zone = timezone(timedelta(hours=hours, minutes=minutes if hours >= 0 else -minutes))
        at = datetime(int(match[3]), _MONTHS.index(match[1]) + 1, int(match[2]), hour, int(match[5]), tzinfo=zone)
        return int((at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
    except (ValueError, OverflowError):
        return None


_END: Final = ".jsonl"
_MAX_CHATS: Final = 10_000
_DECODER: Final = msgspec.json.Decoder(decodable(dict[str, Json]))


class _Notes(NamedTuple):
    """What Cursor notes on a conversation in other files."""

    title: str | None = None
    cwd: str | None = None
    began: int | None = None
    ended: int | None = None


class CursorReader:
    name = "cursor"

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        for project in list_directories(places.in_home(".cursor", "projects")):
            root = os.path.join(project, "agent-transcripts")
            chat_files = list_files(root, _END)
            for directory in list_directories(root):
                own = os.path.basename(directory) + _END
                chat_files += [file for file in list_files(directory, _END) if file.name == own]
            seen = set()
            for path, name, stamp in sorted(chat_files, key=lambda file: len(file.path), reverse=True):
                if name not in seen:
                    seen.add(name)
                    yield TranscriptSource(path, ";".join([stamp, *(file for _, _, file in _subagent_files(path))]))

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        conversation = os.path.basename(source.path).removesuffix(_END)
        project = _project_directory(source.path)
        notes = _read_notes(os.path.dirname(os.path.dirname(project)), conversation)
        ended = notes.ended or _last_written(source.path)
        builder = CursorTranscriptBuilder(conversation, os.path.basename(project), notes.began, ended)
        problems = ReadProblems()
        for line, record in read_records(source.path, _DECODER, problems):
            builder.add(record, line)
        for path, name, _ in _subagent_files(source.path) if builder.has_messages else ():
            agent_problems = ReadProblems()
            for line, record in read_records(path, _DECODER, agent_problems):
                builder.add_subagent_record(record, line, name.removesuffix(_END))
            problems.extend(agent_problems, f"in {name}, ")
        builder.cwd = notes.cwd or builder.cwd
        yield from with_problems(builder.finish(notes.title), problems, self.name, conversation)


def _project_directory(path: str) -> str:
    directory = os.path.dirname(path)
    while os.path.basename(directory) != "agent-transcripts":
        above = os.path.dirname(directory)
        if above == directory:
            return above
        directory = above
    return os.path.dirname(directory)


def _read_notes(own: str, conversation: str) -> _Notes:
    if not conversation.replace("-", "").isalnum():
        return _Notes()
    for chats in list_directories(os.path.join(own, "chats"))[:_MAX_CHATS]:
        path = os.path.join(chats, conversation, "meta.json")
        if not os.path.isfile(path):
            continue
        meta = settings_in(path)
        began, ended = parse_millis(meta.get("createdAtMs")), parse_millis(meta.get("updatedAtMs"))
        return _Notes(get_text(meta, "title"), get_text(meta, "cwd"), began, ended)
    return _Notes()


def _last_written(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns // 1_000_000
    except (OSError, ValueError):
        return 0


def _subagent_files(path: str) -> list[DirectoryEntry]:
    directory = os.path.dirname(path)
    own = os.path.basename(path).removesuffix(_END)
    root = directory if os.path.basename(directory) == own else os.path.join(directory, own)
    return list_files(os.path.join(root, "subagents"), _END)


READER: Final = CursorReader()
