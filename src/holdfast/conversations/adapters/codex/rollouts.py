"""Codex's rollouts: where the files are, how they are compressed, and what their lines hold.

A line is `{timestamp, type, payload}`; the payload stays bytes until its type is known, and only the fields named
here are decoded. The first versions wrote bare payloads without times of their own. Old rollouts are compressed with
Zstandard.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from typing import Final

import msgspec

from holdfast.conversations.adapters.fields import NULL, decode, decode_any, get_object, get_text
from holdfast.conversations.adapters.files import count_reading, note_read_error, stamp_of
from holdfast.conversations.adapters.jsonl import ReadProblems, decode_records, read_chunks
from holdfast.conversations.adapters.transcript import TranscriptSource
from holdfast.core.decode import decodable
from holdfast.machine.zstd import zstandard

_TOPS: Final = ("sessions", "archived_sessions")
_ENDING: Final = ".jsonl"
_PACKED_ENDING: Final = ".jsonl.zst"
_MAX_DEPTH: Final = 6
# The beginning of a file is enough to see what it is: bytes at a time, and lines at most.
_HEAD_CHUNK: Final = 1 << 15
_HEAD_LINES: Final = 3
_CHUNK: Final = 1 << 20
# A small file can be made to unpack to anything. Conversations grow about tenfold.
_FREE_SIZE: Final = 16 << 20
_MAX_RATIO: Final = 300
_PREFIX: Final = "rollout-"
_TIME_LENGTH: Final = len("2026-11-15T09-30-00-")
_DAY_LENGTH: Final = len("2026-11-15")
_ID_LENGTH: Final = 36
_MAX_DAYS: Final = 62  # days that are looked up one by one


# ── lines ──


class CodexLine(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: str | None = None
    payload: msgspec.Raw = NULL
    # In lines of the first versions.
    id: str | None = None
    role: str | None = None
    content: msgspec.Raw = NULL
    git: msgspec.Raw = NULL


class CodexGit(msgspec.Struct, gc=False):
    branch: str | None = None


class CodexMeta(msgspec.Struct, gc=False):
    """The first record: which conversation this is, and what it comes from."""

    id: str | None = None
    session_id: str | None = None  # of a subagent: the conversation it works for
    timestamp: str | None = None
    cwd: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    agent_role: str | None = None
    agent_nickname: str | None = None
    agent_path: str | None = None
    thread_source: str | None = None
    source: msgspec.Raw = NULL
    git: CodexGit | None = None


class CodexTurn(msgspec.Struct, gc=False):
    model: str | None = None
    cwd: str | None = None
    approval_policy: msgspec.Raw = NULL


class CodexUsage(msgspec.Struct, gc=False):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


class CodexSpent(msgspec.Struct, gc=False):
    """`token_usage_record`: one answer of the model, by its id."""

    response_id: str | None = None
    usage: CodexUsage | None = None


class CodexCount(msgspec.Struct, gc=False):
    total_token_usage: CodexUsage | None = None
    last_token_usage: CodexUsage | None = None
    model_context_window: int | None = None


class CodexDuration(msgspec.Struct, gc=False):
    secs: int = 0
    nanos: int = 0

    @property
    def ms(self) -> int:
        return self.secs * 1000 + self.nanos // 1_000_000


class CodexText(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None


class CodexItem(msgspec.Struct, gc=False):
    """Something the program did: in an event of newer versions, a whole event of older ones."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    content: msgspec.Raw = NULL
    command: msgspec.Raw = NULL
    exit_code: int | None = None
    duration: msgspec.Raw = NULL
    status: str | None = None
    success: bool | None = None
    changes: msgspec.Raw = NULL
    kind: msgspec.Raw = NULL
    agent_thread_id: str | None = None
    agent_path: str | None = None


class CodexEvent(msgspec.Struct, gc=False):
    """`event_msg`."""

    type: str = ""
    item: msgspec.Raw = NULL
    message: str | None = None
    info: msgspec.Raw = NULL
    rate_limits: msgspec.Raw = NULL
    codex_error_info: msgspec.Raw = NULL
    thread_name: str | None = None
    last_agent_message: str | None = None


class CodexResponse(msgspec.Struct, gc=False):
    """`response_item`: what went to the model and came from it."""

    type: str = ""
    role: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    action: msgspec.Raw = NULL
    output: msgspec.Raw = NULL
    content: msgspec.Raw = NULL


LINE: Final = msgspec.json.Decoder(decodable(CodexLine))
META: Final = msgspec.json.Decoder(decodable(CodexMeta))
TURN: Final = msgspec.json.Decoder(decodable(CodexTurn))
SPENT: Final = msgspec.json.Decoder(decodable(CodexSpent))
COUNT: Final = msgspec.json.Decoder(decodable(CodexCount))
EVENT: Final = msgspec.json.Decoder(decodable(CodexEvent))
ITEM: Final = msgspec.json.Decoder(decodable(CodexItem))
RESPONSE: Final = msgspec.json.Decoder(decodable(CodexResponse))
DURATION: Final = msgspec.json.Decoder(decodable(CodexDuration))
TEXTS: Final = msgspec.json.Decoder(decodable(list[CodexText]))


def texts(raw: msgspec.Raw) -> str:
    """The text of a message."""
    return "\n".join(text.text for text in decode(TEXTS, raw) or () if text.text)


def callers(meta: CodexMeta) -> tuple[str, ...]:
    """The conversation a subagent works for, and its direct caller; empty for a conversation of its own."""
    source = decode_any(meta.source)
    source = source if type(source) is dict else {}
    spawned = get_object(get_object(source, "subagent"), "thread_spawn")
    parent = meta.parent_thread_id or get_text(spawned, "parent_thread_id")
    if parent is None and meta.thread_source != "subagent" and "subagent" not in source:
        return ()
    return tuple(dict.fromkeys(name for name in (meta.session_id, parent) if name and name != meta.id))


# ── files ──


def find_rollouts(home: str) -> Iterator[TranscriptSource]:
    for directory in _TOPS:
        yield from _find_below(os.path.join(home, directory), _MAX_DEPTH)


def _find_below(directory: str, depth: int) -> Iterator[TranscriptSource]:
    """The rollouts in and below a directory; of a file and its compressed copy only the file."""
    try:
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        note_read_error(directory, error)
        return
    names = {entry.name for entry in entries}
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth:
                    yield from _find_below(entry.path, depth - 1)
            elif entry.name.endswith((_ENDING, _PACKED_ENDING)) and entry.is_file(follow_symlinks=False):
                if entry.name.removesuffix(".zst") != entry.name and entry.name.removesuffix(".zst") in names:
                    continue
                yield TranscriptSource(entry.path, stamp_of(entry.stat(follow_symlinks=False)))
        except OSError:
            continue  # it was moved to the archive just now


def home_of(path: str) -> str | None:
    """The directory that holds `sessions` and `archived_sessions`."""
    directory = os.path.dirname(path)
    for _ in range(8):
        above, name = os.path.split(directory)
        if name in _TOPS:
            return above
        directory = above
    return None


def read_lines(path: str, problems: ReadProblems, size: int = _CHUNK) -> Iterator[tuple[int, CodexLine]]:
    chunks = read_chunks(path, problems, size)
    return decode_records(unpack(chunks, problems) if path.endswith(_PACKED_ENDING) else chunks, LINE, problems)


def read_callers(path: str) -> tuple[str, ...]:
    """Whom the agent of a rollout works for, by its first line."""
    for _, line in islice(read_lines(path, ReadProblems(), _HEAD_CHUNK), _HEAD_LINES):
        if line.type == "session_meta":
            meta = decode(META, line.payload)
            return () if meta is None else callers(meta)
    return ()


def unpack(chunks: Iterable[bytes], problems: ReadProblems) -> Iterator[bytes]:
    """The content of a compressed file in chunks, up to where it is damaged."""
    zstd = zstandard()
    if zstd is None:
        problems.add("is compressed with Zstandard, for which this Python has no module: install backports.zstd")
        return
    decompressor = zstd.ZstdDecompressor()
    size, allowed = 0, _FREE_SIZE
    begun = False
    try:
        for chunk in chunks:
            data = chunk
            allowed += _MAX_RATIO * len(chunk)
            while data or not decompressor.needs_input:
                if decompressor.eof:
                    decompressor, begun = zstd.ZstdDecompressor(), False
                begun = begun or bool(data)
                content = decompressor.decompress(data, _CHUNK)
                data = decompressor.unused_data if decompressor.eof else b""
                size += len(content)
                count_reading(size=len(content))
                if size > allowed:
                    problems.add(f"unpacks to more than {_MAX_RATIO} times its size")
                    return
                if content:
                    yield content
                if decompressor.eof and not data:
                    break
        if begun and not decompressor.eof:
            problems.add("is a compressed file that is cut off")
    except zstd.ZstdError:
        problems.add("is a compressed file that is damaged")


# ── by id and day ──


class RolloutIndex:
    """Rollouts by the ids and days in their names. `callers` says whom the agent of a rollout works for."""

    def __init__(self, paths: Iterable[str], callers: Callable[[str], tuple[str, ...]]) -> None:
        self._callers = cache(callers)
        self._paths: dict[str, str] = {}
        self._days: dict[str, list[str]] = {}
        self._subagents: dict[str, list[str]] = {}  # of each conversation, as far as they were looked for
        for path in paths:
            day, name = _split_name(os.path.basename(path))
            # Those of `sessions` come first, and a file before its compressed copy.
            if self._paths.setdefault(name, path) is path:
                self._days.setdefault(day, []).append(name)

    def find(self, name: str) -> str | None:
        """The path of a conversation's or subagent's rollout."""
        return self._paths.get(name)

    def has_top(self, names: Iterable[str]) -> bool:
        """Whether the top-level conversation of one of these, following their callers, is here."""
        waiting, seen = list(names), set[str]()
        while waiting:
            name = waiting.pop()
            path = self._paths.get(name)
            if path is None or name in seen:
                continue
            seen.add(name)
            above = [name for name in self._callers(path) if name in self._paths]
            if not above:
                return True
            waiting += above
        return False

    def subagents_of(self, name: str, began: int, ended: int) -> list[str]:
        """The subagents that name this conversation as their caller: those that began while it went on."""
        for day in self._days_around(began, ended):
            for agent in self._days.pop(day, ()):
                for caller in self._callers(self._paths[agent]):
                    self._subagents.setdefault(caller, []).append(agent)
        return self._subagents.get(name, [])

    def _days_around(self, began: int, ended: int) -> Iterator[str]:
        """The days of a conversation, as names have them: by the clock where the person was."""
        yield ""
        try:
            first = datetime.fromtimestamp(began / 1000, UTC) - timedelta(days=1)
            last = datetime.fromtimestamp(ended / 1000, UTC) + timedelta(days=1)
        except (ValueError, OverflowError, OSError):
            return
        if (last - first).days > _MAX_DAYS:
            yield from [day for day in self._days if f"{first:%Y-%m-%d}" <= day <= f"{last:%Y-%m-%d}"]
            return
        for number in range((last - first).days + 2):
            yield f"{first + timedelta(days=number):%Y-%m-%d}"


def _split_name(name: str) -> tuple[str, str]:
    """The day and the id in `rollout-2026-11-15T09-30-00-<id>.jsonl`."""
    stem = name.removesuffix(".zst").removesuffix(".jsonl")
    begin = len(_PREFIX) + _TIME_LENGTH
    if stem.startswith(_PREFIX) and len(stem) > begin:
        return stem[len(_PREFIX) : len(_PREFIX) + _DAY_LENGTH], stem[begin:]
    return "", stem[-_ID_LENGTH:]
