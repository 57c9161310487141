"""Rollouts that Codex has put away compressed with Zstandard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from typing import Final

from holdfast.conversations.adapters import read_errors, read_limits
from holdfast.conversations.adapters.codex.records import LINE, META, CodexLine
from holdfast.conversations.adapters.codex.settings import home
from holdfast.conversations.adapters.codex.transcript import CodexTranscript, callers
from holdfast.conversations.adapters.fields import read
from holdfast.conversations.adapters.files import stamp_of
from holdfast.conversations.adapters.jsonl import Problems, chunks, records_in
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource, join, with_problems
from holdfast.conversations.signals import AgentBegan
from holdfast.machine.zstd import zstandard
from holdfast.workspace.agent_dirs import AgentDirs

_PIECE: Final = 1 << 20
# A small file can be made to unpack to anything. Conversations become about ten times as large.
_ALWAYS: Final = 16 << 20
_MOST_TIMES: Final = 300


def unpacked(pieces: Iterable[bytes], problems: Problems) -> Iterator[bytes]:
    """The content of a compressed file, in pieces; up to where it is damaged."""
    zstd = zstandard()
    if zstd is None:
        problems.add("is compressed with Zstandard, for which this Python has no module: install backports.zstd")
        return
    unpacking = zstd.ZstdDecompressor()
    size, most = 0, _ALWAYS
    begun = False
    try:
        for piece in pieces:
            data = piece
            most += _MOST_TIMES * len(piece)
            while data or not unpacking.needs_input:
                if unpacking.eof:
                    unpacking, begun = zstd.ZstdDecompressor(), False
                begun = begun or bool(data)
                found = unpacking.decompress(data, _PIECE)
                data = unpacking.unused_data if unpacking.eof else b""
                size += len(found)
                read_limits.use(size=len(found))
                if size > most:
                    problems.add(f"is more than {_MOST_TIMES} times as large once it is unpacked")
                    return
                if found:
                    yield found
                if unpacking.eof and not data:
                    break
        if begun and not unpacking.eof:
            problems.add("is cut off within its compression")
    except zstd.ZstdError:
        problems.add("is damaged within its compression")


ENDS: Final = (".jsonl", ".jsonl.zst")
TOPS: Final = ("sessions", "archived_sessions")
_NAME: Final = "rollout-"
_MOMENT: Final = len("2026-11-15T09-30-00-")
_DAY: Final = len("2026-11-15")
_ID: Final = 36  # characters
_LONGEST: Final = 62  # days that are gone through one by one


class Shelf:
    """Rollouts by the ids in their names, and by the days. `callers` says for whom the one at a path works."""

    def __init__(self, paths: Iterable[str], callers: Callable[[str], tuple[str, ...]]) -> None:
        self._callers = cache(callers)
        self._paths: dict[str, str] = {}
        self._days: dict[str, list[str]] = {}
        self._working: dict[str, list[str]] = {}  # the agents of each conversation, as far as looked for
        for path in paths:
            day, name = _parts(os.path.basename(path))
            # Those of `sessions` come first, and a file before its compressed copy.
            if self._paths.setdefault(name, path) is path:
                self._days.setdefault(day, []).append(name)

    def find(self, name: str) -> str | None:
        """The rollout of a conversation, or of a subagent."""
        return self._paths.get(name)

    def employs(self, names: Iterable[str]) -> bool:
        """Whether one of these conversations is here, and told: itself, or by whoever called it in turn."""
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

    def working_for(self, name: str, began: int, ended: int) -> list[str]:
        """The subagents of a conversation by their own word: those that began while it went on."""
        for day in self._around(began, ended):
            for agent in self._days.pop(day, ()):
                for caller in self._callers(self._paths[agent]):
                    self._working.setdefault(caller, []).append(agent)
        return self._working.get(name, [])

    def _around(self, began: int, ended: int) -> Iterator[str]:
        """The days of a conversation, in names; they go by the clock where the person was."""
        yield ""
        try:
            first = datetime.fromtimestamp(began / 1000, UTC) - timedelta(days=1)
            last = datetime.fromtimestamp(ended / 1000, UTC) + timedelta(days=1)
        except (ValueError, OverflowError, OSError):
            return
        if (last - first).days > _LONGEST:
            yield from [day for day in self._days if f"{first:%Y-%m-%d}" <= day <= f"{last:%Y-%m-%d}"]
            return
        for by in range((last - first).days + 2):
            yield f"{first + timedelta(days=by):%Y-%m-%d}"


def agents_of(story: Transcript) -> list[str]:
    """The subagents that began in it, by their ids."""
    return [line.signal.agent for line in story.told if isinstance(line.signal, AgentBegan) and line.signal.agent]


def home_of(path: str) -> str | None:
    """The directory that holds `sessions` and `archived_sessions`."""
    directory = os.path.dirname(path)
    for _ in range(8):
        above, name = os.path.split(directory)
        if name in TOPS:
            return above
        directory = above
    return None


def _parts(name: str) -> tuple[str, str]:
    """The day and the id in `rollout-2026-11-15T09-30-00-<id>.jsonl`."""
    stem = name.removesuffix(".zst").removesuffix(".jsonl")
    begin = len(_NAME) + _MOMENT
    if stem.startswith(_NAME) and len(stem) > begin:
        return stem[len(_NAME) : len(_NAME) + _DAY], stem[begin:]
    return "", stem[-_ID:]


_PLAIN, _PACKED = ENDS
_DEEPEST: Final = 6
_MOST_AGENTS: Final = 1_000
# To see what a rollout is: bytes at a time, and lines at the most.
_HEAD: Final = 1 << 15
_FIRST: Final = 3


class Rollouts:
    name = "codex"

    def __init__(self) -> None:
        # What was found last, and its shelf once something of it is read.
        self._listed: dict[str, str] = {}
        self._shelf: Shelf | None = None

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        listed: dict[str, str] = {}
        for source in _all(home(places)):
            listed[source.path] = source.stamp
            yield source
        self._listed, self._shelf = listed, None

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        problems = Problems()
        telling = _heard(source.path, problems)
        shelf = self._shelf_of(source)
        if shelf.employs(telling.callers):
            return
        story = telling.story()
        if story is not None:
            _with_agents(story, shelf, problems)
        name = os.path.basename(source.path).removesuffix(".zst").removesuffix(_PLAIN)
        yield from with_problems(story, problems, self.name, name[:200])

    def _shelf_of(self, source: TranscriptSource) -> Shelf:
        if self._listed.get(source.path) != source.stamp:
            top = home_of(source.path)
            return Shelf([] if top is None else [source.path for source in _all(top)], _callers)
        if self._shelf is None:
            self._shelf = Shelf(self._listed, _callers)
        return self._shelf


def _with_agents(story: Transcript, shelf: Shelf, problems: Problems) -> None:
    """The subagents of a conversation, and theirs."""
    seen = {story.conversation}
    waiting = [*agents_of(story), *shelf.working_for(story.conversation, story.began, story.ended)]
    while waiting and len(seen) < _MOST_AGENTS:
        name = waiting.pop(0)
        path = None if name in seen else shelf.find(name)
        seen.add(name)
        if path is None:
            continue
        trouble = Problems()
        part = _heard(path, trouble).story()
        if part is not None and part.conversation == name:
            waiting += [*agents_of(part), *shelf.working_for(name, part.began, part.ended)]
            join(story, part)
        problems.extend(trouble, f"in {os.path.basename(path)}, ")


def _callers(path: str) -> tuple[str, ...]:
    """For whom the agent of a rollout works, by its first line."""
    for _, line in islice(_lines(path, Problems(), _HEAD), _FIRST):
        if line.type == "session_meta":
            meta = read(META, line.payload)
            return () if meta is None else callers(meta)
    return ()


def _heard(path: str, problems: Problems) -> CodexTranscript:
    telling = CodexTranscript(os.path.basename(path))
    for number, line in _lines(path, problems):
        telling.hear(line, number)
    return telling


def _lines(path: str, problems: Problems, size: int = 1 << 20) -> Iterator[tuple[int, CodexLine]]:
    pieces = chunks(path, problems, size)
    return records_in(unpacked(pieces, problems) if path.endswith(_PACKED) else pieces, LINE, problems)


def _all(top: str) -> Iterator[TranscriptSource]:
    for directory in TOPS:
        yield from _below(os.path.join(top, directory), _DEEPEST)


def _below(directory: str, depth: int) -> Iterator[TranscriptSource]:
    """Rollouts in a directory and those below it; of a file and its compressed copy only the file."""
    try:
        with os.scandir(directory) as listing:
            found = sorted(listing, key=lambda one: one.name)
    except OSError as error:
        read_errors.note(directory, error)
        return
    names = {entry.name for entry in found}
    for entry in found:
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth:
                    yield from _below(entry.path, depth - 1)
            elif entry.name.endswith((_PLAIN, _PACKED)) and entry.is_file(follow_symlinks=False):
                if entry.name.removesuffix(".zst") != entry.name and entry.name.removesuffix(".zst") in names:
                    continue
                yield TranscriptSource(entry.path, stamp_of(entry.stat(follow_symlinks=False)))
        except OSError:
            continue  # it was moved to the archive just now


READER: Final = Rollouts()
