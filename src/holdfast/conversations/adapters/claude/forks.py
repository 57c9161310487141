"""What a conversation of Claude Code has copied from another. A fork begins with the records of the one it comes
from, in one block, under their own ids but as if they were its own; older versions wrote such a copy whenever a
conversation was resumed, and after a compaction it begins with that. Each record is told once: by the oldest
conversation that has it.
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

from holdfast.conversations.adapters.claude.records import AGENT, END
from holdfast.conversations.adapters.files import files
from holdfast.conversations.adapters.jsonl import Problems, chunks, records, records_in
from holdfast.conversations.adapters.timestamps import moment
from holdfast.core.decode import decodable

_HEAD: Final = 1 << 15  # bytes at a time, to see how a file begins
_HEADS: Final = 1 << 11  # of them at the most
_FIRST: Final = 200  # records without an id before the first that has one
_MOST: Final = 400_000  # records of one family: beyond, nothing is looked for
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
    """The lines of a conversation that another one tells, and which that is."""

    lines: tuple[range, ...] = ()
    origin: str | None = None
    # What the origin had cost by then: a fork goes on counting from there. None where that is not known.
    cost_usd: float | None = None

    def has(self, number: int) -> bool:
        place = bisect_right(self.lines, number, key=lambda one: one.start) if self.lines else 0
        return place > 0 and number in self.lines[place - 1]


class _Head(NamedTuple):
    uuid: str
    # It begins in the midst of a conversation, at this moment.
    within: bool
    at: int


class Forks:
    """Conversations that have records in common, directory by directory. Each file is looked at once."""

    def __init__(self) -> None:
        self._heads: dict[str, dict[str, _Head]] = {}
        self._alike: dict[tuple[str, str], list[str]] = {}  # by directory and first record
        self._copied: dict[str, CopiedLines] = {}

    def copied(self, path: str) -> CopiedLines:
        directory = os.path.dirname(path)
        if directory not in self._heads:
            self._look_into(directory)
        own = self._heads[directory].get(path)
        if own is not None and path not in self._copied:
            alike = self._alike[directory, own.uuid]
            family = [*alike, *self._around(directory, own)] if own.within else alike
            found = _told_once(sorted(family)) if len(family) > 1 else {}
            for name in alike:
                self._copied[name] = found.get(name, CopiedLines())
        return self._copied.get(path, CopiedLines())

    def _look_into(self, directory: str) -> None:
        heads = self._heads[directory] = dict(_heads(directory))
        for path, head in heads.items():
            self._alike.setdefault((directory, head.uuid), []).append(path)

    def _around(self, directory: str, own: _Head) -> Iterator[str]:
        """Those that have its first record in their midst."""
        word = own.uuid.encode(errors="replace")
        for path, head in self._heads[directory].items():
            if head.uuid != own.uuid and _written_since(path, own.at) and _holds(path, word):
                yield path


def _heads(directory: str) -> Iterator[tuple[str, _Head]]:
    for path, name, _ in files(directory, END):
        # Once more where it could not be read: taken for nobody's copy, it would be told twice.
        head = None if name.startswith(AGENT) else _head(path) or _head(path)
        if head is not None:
            yield path, head


def _head(path: str) -> _Head | None:
    pieces = islice(chunks(path, Problems(), _HEAD), _HEADS)
    for _, record in islice(records_in(pieces, _DECODER, Problems()), _FIRST):
        if record.uuid:
            within = record.parent is not None or record.before is not None
            return _Head(record.uuid, within, moment(record.timestamp) or 0)
    return None


def _written_since(path: str, at: int) -> bool:
    try:
        return os.stat(path).st_mtime * 1000 >= at
    except OSError:
        return False


def _holds(path: str, word: bytes) -> bool:
    last = b""
    for piece in chunks(path, Problems()):
        if word in piece or word in last + piece[: len(word)]:
            return True
        last = piece[-len(word) :]
    return False


class _Member:
    """The records of one conversation by number, in their order: -1 for one without an id."""

    def __init__(self, path: str, numbers: dict[int, int]) -> None:
        self.path = path
        self.ids = array("l")
        self.lines = array("l")
        self.times = array("q")
        self.costs: list[tuple[int, float]] = []
        # Whether records in it say themselves that they were copied.
        self.marked = False
        problems = Problems()
        self._read(numbers, problems)
        if problems:
            del self.ids[:], self.lines[:], self.times[:], self.costs[:]
            self._read(numbers, problems)

    def _read(self, numbers: dict[int, int], problems: Problems) -> None:
        at = 0
        for line, record in records(self.path, _DECODER, problems):
            if record.cost_usd is not None:
                self.costs.append((line, record.cost_usd))
            self.marked |= bytes(record.forked) not in (b"", b"null")
            if not record.uuid and not self.ids:
                continue
            if len(self.ids) >= _MOST or len(numbers) >= _MOST:
                break
            at = moment(record.timestamp) or at
            self.ids.append(numbers.setdefault(hash(record.uuid), len(numbers)) if record.uuid else -1)
            self.lines.append(line)
            self.times.append(at)

    def beside(self, other: _Member) -> tuple[int, int]:
        """How many records of its own stand among those that the other has too, and when the next one came."""
        known = set(other.ids) - {-1}
        last = max((place for place, number in enumerate(self.ids) if number in known), default=-1)
        among = sum(number not in known for number in self.ids[: last + 1])
        following = zip(self.ids[last + 1 :], self.times[last + 1 :], strict=True)
        return among, next((at for number, at in following if number >= 0), _NEVER)


def _older(one: _Member, other: _Member) -> int:
    """A copy is made in one go and stands together; whatever the original has besides came after the copy's own.

    Some say themselves that they are copies: those were made from the midst of a conversation as well.
    """
    if one.marked != other.marked:
        return 1 if one.marked else -1
    mine, theirs = one.beside(other), other.beside(one)
    return (mine < theirs) - (mine > theirs)


def _told_once(family: list[str]) -> dict[str, CopiedLines]:
    numbers: dict[int, int] = {}
    members = sorted((_Member(path, numbers) for path in family), key=cmp_to_key(_older))
    tellers = array("l", [-1]) * len(numbers)
    found: dict[str, CopiedLines] = {}
    for place, member in enumerate(members):
        lines: list[range] = []
        origin = -1
        for number, line in zip(member.ids, member.lines, strict=True):
            if number < 0:
                continue
            if tellers[number] < 0:
                tellers[number] = place
            elif tellers[number] != place:
                origin = tellers[number]
                if lines and lines[-1].stop >= line:
                    lines[-1] = range(lines[-1].start, line + 1)
                else:
                    lines.append(range(line, line + 1))
        if origin >= 0:
            before = members[origin]
            name = os.path.basename(before.path).removesuffix(END)
            found[member.path] = CopiedLines(tuple(lines), name, _cost(before, member))
    return found


def _cost(origin: _Member, copy: _Member) -> float | None:
    """What the origin had cost when it was copied: it notes that after the last record they have in common."""
    known = set(copy.ids) - {-1}
    shared = (line for number, line in zip(origin.ids, origin.lines, strict=True) if number in known)
    last = max(shared, default=_NEVER)
    return next((cost for line, cost in origin.costs if line > last), None)
