"""Find the lines that a conversation of Claude Code has copied from another.

A fork begins with the records of the conversation it comes from, in one block, under their own ids but as if they
were its own; older versions wrote such a copy whenever a conversation was resumed, and after a compaction it begins
with that. Each record belongs to one conversation: the oldest that has it.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import cmp_to_key
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.claude.records import ENDING, SUBAGENT_PREFIX
from holdfast.conversations.adapters.fields import parse_timestamp
from holdfast.conversations.adapters.files import list_files
from holdfast.conversations.adapters.jsonl import ReadProblems, decode_records, read_chunks, read_records
from holdfast.core.decode import decodable

_HEAD_CHUNK: Final = 1 << 15  # bytes at a time, to see how a file begins
_MAX_HEAD_CHUNKS: Final = 1 << 11  # chunks
_MAX_LEADING: Final = 200  # records without an id before the first that has one
_MAX_RECORDS: Final = 400_000  # records of one family: beyond, copies are not searched for
_NEVER: Final = 1 << 62


class _Record(msgspec.Struct, gc=False):
    uuid: str | None = None
    parent: str | None = msgspec.field(name="parentUuid", default=None)
    before: str | None = msgspec.field(name="logicalParentUuid", default=None)
    timestamp: str | None = None
    cost_usd: float | None = msgspec.field(name="totalCostUSD", default=None)
    forked: msgspec.Raw = msgspec.field(name="forkedFrom", default_factory=msgspec.Raw)


_DECODER: Final = msgspec.json.Decoder(decodable(_Record))


class CopiedLines(NamedTuple):
    """The lines of a conversation that belong to another one, and which that is."""

    lines: tuple[range, ...] = ()
    origin: str | None = None
    # What the origin had cost by then: a fork goes on counting from there. None where that is not known.
    cost_usd: float | None = None

    def has(self, number: int) -> bool:
        place = bisect_right(self.lines, number, key=lambda lines: lines.start) if self.lines else 0
        return place > 0 and number in self.lines[place - 1]


class _Head(NamedTuple):
    uuid: str
    # Whether it begins in the middle of a conversation, and when.
    is_partial: bool
    at: int


class Forks:
    """Conversations that have records in common, directory by directory. Each file is read once."""

    def __init__(self) -> None:
        self._heads: dict[str, dict[str, _Head]] = {}
        self._by_head: dict[tuple[str, str], list[str]] = {}  # by directory and first record
        self._copied_lines: dict[str, CopiedLines] = {}

    def copied_lines(self, path: str) -> CopiedLines:
        directory = os.path.dirname(path)
        if directory not in self._heads:
            self._read_heads(directory)
        own = self._heads[directory].get(path)
        if own is not None and path not in self._copied_lines:
            same_head = self._by_head[directory, own.uuid]
            family = [*same_head, *self._containing(directory, own)] if own.is_partial else same_head
            copies = _assign_records(sorted(family)) if len(family) > 1 else {}
            for name in same_head:
                self._copied_lines[name] = copies.get(name, CopiedLines())
        return self._copied_lines.get(path, CopiedLines())

    def _read_heads(self, directory: str) -> None:
        heads = self._heads[directory] = dict(_heads(directory))
        for path, head in heads.items():
            self._by_head.setdefault((directory, head.uuid), []).append(path)

    def _containing(self, directory: str, own: _Head) -> Iterator[str]:
        """The conversations that have its first record in their middle."""
        word = own.uuid.encode(errors="replace")
        for path, head in self._heads[directory].items():
            if head.uuid != own.uuid and _written_since(path, own.at) and _contains(path, word):
                yield path


def _heads(directory: str) -> Iterator[tuple[str, _Head]]:
    for path, name, _ in list_files(directory, ENDING):
        # A second try where it could not be read: taken for nobody's copy, it would be recorded twice.
        head = None if name.startswith(SUBAGENT_PREFIX) else _head(path) or _head(path)
        if head is not None:
            yield path, head


def _head(path: str) -> _Head | None:
    chunks = islice(read_chunks(path, ReadProblems(), _HEAD_CHUNK), _MAX_HEAD_CHUNKS)
    for _, record in islice(decode_records(chunks, _DECODER, ReadProblems()), _MAX_LEADING):
        if record.uuid:
            is_partial = record.parent is not None or record.before is not None
            return _Head(record.uuid, is_partial, parse_timestamp(record.timestamp) or 0)
    return None


def _written_since(path: str, at: int) -> bool:
    try:
        return os.stat(path).st_mtime * 1000 >= at
    except OSError:
        return False


def _contains(path: str, word: bytes) -> bool:
    last = b""
    for chunk in read_chunks(path, ReadProblems()):
        if word in chunk or word in last + chunk[: len(word)]:
            return True
        last = chunk[-len(word) :]
    return False


class _Member:
    """The records of one conversation by number, in their order: -1 for one without an id."""

    def __init__(self, path: str, numbers: dict[int, int]) -> None:
        self.path = path
        self.ids = array("l")
        self.lines = array("l")
        self.times = array("q")
        self.costs: list[tuple[int, float]] = []
        # Whether its records say themselves that they were copied.
        self.marked = False
        problems = ReadProblems()
        self._read(numbers, problems)
        if problems:
            del self.ids[:], self.lines[:], self.times[:], self.costs[:]
            self._read(numbers, problems)

    def _read(self, numbers: dict[int, int], problems: ReadProblems) -> None:
        at = 0
        for line, record in read_records(self.path, _DECODER, problems):
            if record.cost_usd is not None:
                self.costs.append((line, record.cost_usd))
            self.marked |= bytes(record.forked) not in (b"", b"null")
            if not record.uuid and not self.ids:
                continue
            if len(self.ids) >= _MAX_RECORDS or len(numbers) >= _MAX_RECORDS:
                break
            at = parse_timestamp(record.timestamp) or at
            self.ids.append(numbers.setdefault(hash(record.uuid), len(numbers)) if record.uuid else -1)
            self.lines.append(line)
            self.times.append(at)

    def overlap(self, other: _Member) -> tuple[int, int]:
        """How many records of its own are among those that the other has too, and when the next one came."""
        known = set(other.ids) - {-1}
        last = max((place for place, number in enumerate(self.ids) if number in known), default=-1)
        among = sum(number not in known for number in self.ids[: last + 1])
        following = zip(self.ids[last + 1 :], self.times[last + 1 :], strict=True)
        return among, next((at for number, at in following if number >= 0), _NEVER)


def _compare_age(own: _Member, other: _Member) -> int:
    """Order conversations by age. A copy is written at once, in one block; what else the original has came later.

    Some say themselves that they are copies, even of the middle of a conversation.
    """
    if own.marked != other.marked:
        return 1 if own.marked else -1
    own_overlap, other_overlap = own.overlap(other), other.overlap(own)
    return (own_overlap < other_overlap) - (own_overlap > other_overlap)


def _assign_records(family: list[str]) -> dict[str, CopiedLines]:
    numbers: dict[int, int] = {}
    members = sorted((_Member(path, numbers) for path in family), key=cmp_to_key(_compare_age))
    owners = array("l", [-1]) * len(numbers)
    copies: dict[str, CopiedLines] = {}
    for place, member in enumerate(members):
        lines: list[range] = []
        origin = -1
        for number, line in zip(member.ids, member.lines, strict=True):
            if number < 0:
                continue
            if owners[number] < 0:
                owners[number] = place
            elif owners[number] != place:
                origin = owners[number]
                if lines and lines[-1].stop >= line:
                    lines[-1] = range(lines[-1].start, line + 1)
                else:
                    lines.append(range(line, line + 1))
        if origin >= 0:
            original = members[origin]
            name = os.path.basename(original.path).removesuffix(ENDING)
            copies[member.path] = CopiedLines(tuple(lines), name, _cost(original, member))
    return copies


def _cost(origin: _Member, copy: _Member) -> float | None:
    """The cost of the origin when it was copied, which it notes after the last record that they share."""
    known = set(copy.ids) - {-1}
    shared = (line for number, line in zip(origin.ids, origin.lines, strict=True) if number in known)
    last = max(shared, default=_NEVER)
    return next((cost for line, cost in origin.costs if line > last), None)
