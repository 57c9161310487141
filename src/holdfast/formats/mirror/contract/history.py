"""`history.jsonl`: one JSON object per line, only ever appended to; what it holds, and which events are missing.

Each line is one write at the end of the file, so that programs without locks cannot mix their lines with ours. What a
crash cut off stays a bad line: nothing written is ever changed or removed.

Every Holdfast event carries its number in its writer's stream, from 1, and names what its writer had seen of other
streams. So a removed line leaves a visible gap, except at the very end.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import BinaryIO, Final, NamedTuple

import msgspec

from holdfast.core import limits
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.envelope import Event
from holdfast.core.errors import Failed, Invalid
from holdfast.formats import document_paths
from holdfast.formats.contract import FORMAT
from holdfast.formats.contract.fields import HISTORY, OWN
from holdfast.formats.contract.history import carried_events, event_of
from holdfast.machine.files import sync_directory
from holdfast.machine.locks import locked
from holdfast.machine.os_errors import display_path, explain, retry_interrupted
from holdfast.machine.private_paths import open_private

MAX_SIZE: Final = limits.MAX_HISTORY_SIZE
_MARK: Final = f'"{OWN}"'.encode()
_TAIL: Final = 64 << 10
_BOM: Final = b"\xef\xbb\xbf"
# In place of a line longer than any program writes.
_TOO_LONG: Final = b"!\n"
_MAX_LINE_NUMBERS: Final = 100  # kept of each kind of fault
_MAX_CUT: Final = 50  # lines cut off, one for each killed writer

Line = dict[str, Json]

_objects = msgspec.json.Decoder(decodable(dict[str, Json]))
_encode = msgspec.json.Encoder().encode


class WrittenEvents(NamedTuple):
    """Which of Holdfast's events a file contains: all of them, or those of its last lines."""

    hashes: frozenset[str]
    latest: Mapping[str, int]  # the number of each writer's last event
    whole: bool

    def has(self, line: Mapping[str, Json]) -> bool | None:
        """Whether this line's event is there; None if the last lines alone cannot tell.

        Every writer's events are appended in order, so each one vouches for those before it.
        """
        event = mark_of(line)
        if event is None:
            return False
        if event.hash in self.hashes:
            return True
        if self.whole:
            return False
        latest = self.latest.get(event.writer)
        return None if latest is None else event.seq <= latest


class EventMark(NamedTuple):
    """Identifies an event, and its place in its writer's stream."""

    hash: str
    writer: str
    seq: int


def mark_of(line: Mapping[str, Json]) -> EventMark | None:
    """The mark of the event in a line; None for lines of other programs."""
    event = line.get(OWN)
    if not isinstance(event, dict):
        return None
    name, writer, seq = event.get("hash"), event.get("writer"), event.get("seq")
    if isinstance(name, str) and isinstance(writer, str) and type(seq) is int:
        return EventMark(name, writer, seq)
    return None


def size_of(line: Mapping[str, Json]) -> int:
    """The size of a line as JSON, with its line break."""
    return len(_encode(line)) + 1


def lock_of(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name.partition('.')[0]}.lock")


# ── appending ────────────────────────────────────────────────────────────────────────────────────────────


def append(path: str, lines: Sequence[Mapping[str, Json]], *, thorough: bool = False) -> int:
    """Append lines, each in one write, except those whose event is already there. Returns how many were added.

    `thorough` takes no line as proof of earlier events, and ignores changed lines: for histories with gaps. When this
    returns, the lines survive a power cut.
    """
    if not lines:
        return 0
    encoded = [(line, msgspec.json.encode(line) + b"\n") for line in lines]
    with locked(lock_of(path), purpose="appending to history"):
        fresh = not os.path.lexists(path)
        fd = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            new = _missing_lines(fd, encoded, thorough=thorough)
            if new and not _ends_with_line_break(fd):
                _write(fd, b"\n", path)
            for data in new:
                _write(fd, data, path)
            if new:
                retry_interrupted(os.fsync, fd)
            if fresh:
                sync_directory(os.path.dirname(path))
        except OSError as error:
            raise explain(error, "write", path) from error
        finally:
            os.close(fd)
    return len(new)


def _missing_lines(fd: int, encoded: list[tuple[Mapping[str, Json], bytes]], *, thorough: bool) -> list[bytes]:
    written = _intact_events(fd) if thorough else _written_events(fd, _TAIL)
    if not written.whole and any(written.has(line) is None for line, _ in encoded):
        written = _written_events(fd, None)
    missing: list[bytes] = []
    hashes: set[str] = set()
    for line, data in encoded:
        event = mark_of(line)
        if written.has(line) or (event is not None and event.hash in hashes):
            continue
        if event is not None:
            hashes.add(event.hash)
        missing.append(data)
    return missing


def _ends_with_line_break(fd: int) -> bool:
    size = os.fstat(fd).st_size
    if not size:
        return True
    os.lseek(fd, size - 1, os.SEEK_SET)
    return os.read(fd, 1) == b"\n"


def _write(fd: int, data: bytes, path: str) -> None:
    written = retry_interrupted(os.write, fd, data)
    if written != len(data):
        # The rest must not follow: another program may have appended since. The next writer ends the line.
        raise Failed(
            f"cannot write {display_path(path)}: only part of a line was written",
            hint="Free some space and run the command again; the line is added again.",
            operation="write",
            file=path,
        )


# ── what is there ────────────────────────────────────────────────────────────────────────────────────────


def _written_events(fd: int, tail: int | None) -> WrittenEvents:
    size = os.fstat(fd).st_size
    is_whole = tail is None or size <= tail
    hashes: set[str] = set()
    latest: dict[str, int] = {}
    os.lseek(fd, 0 if is_whole else size - (tail or 0), os.SEEK_SET)
    with os.fdopen(os.dup(fd), "rb") as file:
        lines = _raw_lines(file)
        if not is_whole:
            next(lines, None)  # starts in the middle of a line
        for raw in lines:
            event = mark_of(_line(raw)) if _MARK in raw else None
            if event is not None:
                hashes.add(event.hash)
                latest[event.writer] = max(event.seq, latest.get(event.writer, 0))
    return WrittenEvents(frozenset(hashes), latest, is_whole)


def _intact_events(fd: int) -> WrittenEvents:
    """The events of lines that are unchanged."""
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(os.dup(fd), "rb") as file:
        events = (event_of(_line(raw)) for raw in _raw_lines(file) if _MARK in raw)
        return WrittenEvents(frozenset(event.hash for event in events if event is not None), {}, whole=True)


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Every line with its line break, one at a time. Raises `Invalid` if the file is too large for a history."""
    if os.fstat(file.fileno()).st_size > MAX_SIZE:
        raise _too_large(f"is larger than {MAX_SIZE >> 20} MiB")
    number = 0
    while raw := file.readline(limits.MAX_HISTORY_LINE_SIZE):
        number += 1
        if number > limits.MAX_HISTORY_LINES:
            raise _too_large(f"has more than {limits.MAX_HISTORY_LINES:,} lines")
        if len(raw) == limits.MAX_HISTORY_LINE_SIZE and not raw.endswith(b"\n"):
            while (chunk := file.readline(limits.MAX_HISTORY_LINE_SIZE)) and not chunk.endswith(b"\n"):
                pass
            raw = _TOO_LONG
        yield raw


def _too_large(why: str) -> Invalid:
    return Invalid(f"the history {why}", hint="Move its older lines into a file of their own.", operation="read")


def _line(raw: bytes) -> Line:
    try:
        return _objects.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def read(path: str) -> Iterator[tuple[int, Line | Invalid]]:
    """Every line with its number, from 1: the object, or what is wrong with it. Empty lines are skipped."""
    fd = open_private(path, os.O_RDONLY)
    try:
        file = os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise
    with file:
        try:
            for number, raw in enumerate(_raw_lines(file), 1):
                plain = raw.removeprefix(_BOM) if number == 1 else raw
                if plain.strip():
                    yield number, _checked(plain, path, number)
        except Invalid as error:
            error.file = path
            raise
        except OSError as error:
            raise explain(error, "read", path) from error


def completed_later(path: str, numbers: Collection[int]) -> set[int]:
    """Which of these lines (the first fifty) were cut off, but are complete further down, so that nothing is missing.

    That happens when a writer was killed while appending and the next one added the line again.
    """
    completed: set[int] = set()
    cut: dict[int, bytes] = {}
    looked_for = set(sorted(numbers)[:_MAX_CUT])
    fd = open_private(path, os.O_RDONLY)
    with os.fdopen(fd, "rb") as file:
        for number, raw in enumerate(_raw_lines(file), 1):
            completed.update(number for number, begun in cut.items() if raw.startswith(begun) and _line(raw))
            if number in looked_for:
                cut[number] = raw.rstrip(b"\r\n")
    return completed


def _checked(raw: bytes, path: str, number: int) -> Line | Invalid:
    try:
        return _objects.decode(raw)
    except msgspec.ValidationError:
        why = "it is not a JSON object"
    except RecursionError:
        why = "it is nested too deeply"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        why = "it is not JSON" if raw.endswith(b"\n") else "it was cut off"
        if raw is _TOO_LONG:
            why = f"it is longer than {limits.MAX_HISTORY_LINE_SIZE >> 20} MiB"
    return Invalid(f"{display_path(path)}, line {number}: {why}", operation="read", file=path)


# ── what is in it, and what is missing ───────────────────────────────────────────────────────────────────


class EventNumbers(NamedTuple):
    """A range of one writer's event numbers, both ends included."""

    writer: str
    first: int
    last: int


class MissingEvents(NamedTuple):
    """The events of its session that a history lacks."""

    session: str
    spans: list[EventNumbers]

    @property
    def number(self) -> int:
        return sum(span.last - span.first + 1 for span in self.spans)

    def has(self, event: Event) -> bool:
        return event.session == self.session and any(
            span.writer == event.writer and span.first <= event.seq <= span.last for span in self.spans
        )


class Faults:
    """How many lines have a fault, and the first of them."""

    def __init__(self) -> None:
        self.number = 0
        self.first: list[int] = []

    def add(self, line: int) -> None:
        self.number += 1
        if len(self.first) < _MAX_LINE_NUMBERS:
            self.first.append(line)


class HistoryIndex(NamedTuple):
    """What is in a history. Lines are given by number, from 1."""

    unreadable: Faults  # except those cut off and complete further down
    changed: Faults  # changed since Holdfast wrote them
    wrong: Faults  # not allowed by the contract
    why: str  # what is wrong with the first of these
    lacking: MissingEvents | None
    untaken: int | None  # the first line of another program beyond the limit


def read_index(path: str, *, strict: bool = False) -> HistoryIndex:
    """Index the history at a path; empty if there is none. `strict` checks every line against the contract.

    Reads line by line: a history may be large, and the index does not grow with it.
    """
    unreadable, changed, wrong = Faults(), Faults(), Faults()
    why = ""
    present = PresentEvents()
    untaken: int | None = None
    room = limits.MAX_DOCUMENT_SIZE
    for number, line in read(path) if os.path.lexists(path) else ():
        if isinstance(line, Invalid):
            unreadable.add(number)
            continue
        if OWN in line:
            if event_of(line) is None:
                changed.add(number)
            for event in carried_events(line):
                present.add(event)
        elif untaken is None:
            room -= size_of(line)
            untaken = number if room < 0 else None
        # With that many wrong lines, the others need not be counted.
        problem = _line_error(line) if strict and wrong.number < _MAX_LINE_NUMBERS else None
        if problem is not None:
            why = why or problem
            wrong.add(number)
    if unreadable.number:
        completed = completed_later(path, unreadable.first)
        unreadable.number -= len(completed)
        unreadable.first = [number for number in unreadable.first if number not in completed]
    return HistoryIndex(unreadable, changed, wrong, why, present.lacking(), untaken)


def _line_error(line: Mapping[str, Json]) -> str | None:
    if FORMAT.is_sound(msgspec.json.encode(line), HISTORY):
        return None
    errors = [problem for problem in FORMAT.problems(dict(line), HISTORY) if problem.severity == "error"]
    return f"{document_paths.format_place(errors[0].place)} {errors[0].message}" if errors else None


class PresentEvents:
    """Which events are there, by session, and the last number each writer is known to have reached."""

    def __init__(self) -> None:
        self._sessions: Counter[str] = Counter()
        self._numbers: dict[tuple[str, str], set[int]] = {}
        self._tops: dict[str, dict[str, int]] = {}

    def add(self, event: Event) -> None:
        self._numbers.setdefault((event.session, event.writer), set()).add(event.seq)
        self._sessions[event.session] += 1
        highest = self._tops.setdefault(event.session, {})
        for head in (event.head, *event.seen):
            highest[head.writer] = max(highest.get(head.writer, 0), head.seq)

    def lacking(self) -> MissingEvents | None:
        """What is missing of the session that most events belong to; None if nothing is."""
        if not self._sessions:
            return None
        session = self._sessions.most_common(1)[0][0]
        spans = [
            span
            for writer, last in self._tops[session].items()
            for span in _gaps(writer, self._numbers.get((session, writer), set()), last)
        ]
        return MissingEvents(session, spans) if spans else None


def _gaps(writer: str, numbers: set[int], last: int) -> list[EventNumbers]:
    gaps: list[EventNumbers] = []
    expected = 1
    for number in [*sorted(number for number in numbers if number >= 1), last + 1]:
        if number > expected:
            gaps.append(EventNumbers(writer, expected, number - 1))
        expected = max(expected, number + 1)
    return gaps
