"""Read files of JSON lines, damaged or not: typed records with the numbers of their lines.

A line that does not decode is taken apart: records glued together, half a record before a whole one, a string with a
raw line end in it, runs of NULs where a disk lost power, bytes of another encoding.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from holdfast.conversations.adapters.fields import DECODE_ERRORS
from holdfast.conversations.adapters.files import count_reading, note_read_error
from holdfast.core.canonical import Json
from holdfast.machine.user_input import open_regular

T = TypeVar("T")

MAX_LINE_SIZE: Final = 64 << 20  # bytes
_CHUNK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


class ReadProblems:
    """Sentences on what could not be read, up to a number, and how many more there would be."""

    MAX_SENTENCES: Final = 10

    def __init__(self) -> None:
        self._sentences: list[str] = []
        self._more = 0

    def add(self, sentence: str) -> None:
        if len(self._sentences) < self.MAX_SENTENCES:
            self._sentences.append(sentence)
        else:
            self._more += 1

    def extend(self, others: ReadProblems, prefix: str) -> None:
        """Add the problems of a part, each prefixed with the name of the part."""
        for sentence in others.sentences():
            self.add(prefix + sentence)

    def sentences(self) -> list[str]:
        return [*self._sentences, f"and {self._more} more like these"] if self._more else list(self._sentences)

    def __bool__(self) -> bool:
        return bool(self._sentences)


def read_chunks(path: str, problems: ReadProblems, size: int = _CHUNK) -> Iterator[bytes]:
    """A regular file in chunks, up to its present length; anything else is a problem and has no chunks."""
    count_reading(files=1)
    try:
        handle = open_regular(path)
    except (OSError, ValueError) as error:
        note_read_error(path, error)
        problems.add(f"cannot be opened ({_reason(error)})")
        return
    if isinstance(handle, str):
        problems.add("is not a regular file")
        return
    try:
        remaining = os.fstat(handle).st_size
        while remaining > 0:
            count_reading(size=min(remaining, size))
            chunk = os.read(handle, min(remaining, size))
            if not chunk:
                return
            remaining -= len(chunk)
            yield chunk
    except OSError as error:
        note_read_error(path, error)
        problems.add(f"cannot be read to its end ({_reason(error)})")
    finally:
        os.close(handle)


def read_whole(path: str, problems: ReadProblems, largest: int) -> bytes:
    """The content of a regular file; empty for one that is larger than `largest`."""
    chunks: list[bytes] = []
    size = 0
    for chunk in read_chunks(path, problems):
        size += len(chunk)
        if size > largest:
            problems.add(f"is larger than {largest >> 20} MiB")
            return b""
        chunks.append(chunk)
    return b"".join(chunks)


def read_records(path: str, decoder: msgspec.json.Decoder[T], problems: ReadProblems) -> Iterator[tuple[int, T]]:
    """The records of a file with the numbers of their lines (the first is 1), typed by the decoder."""
    return decode_records(read_chunks(path, problems), decoder, problems)


def decode_records(
    chunks: Iterable[bytes],
    decoder: msgspec.json.Decoder[T],
    problems: ReadProblems,
    *,
    longest: int = MAX_LINE_SIZE,
) -> Iterator[tuple[int, T]]:
    """The same for chunks that come from elsewhere, such as a compressed file."""
    decode = decoder.decode
    repair = LineRepair(problems.add)
    number = 0
    for lines in _split_lines(chunks, problems, longest):
        for line in lines:
            number += 1
            if not repair.torn:
                try:
                    record = decode(line)
                except DECODE_ERRORS:
                    if not line or line.isspace():
                        continue
                else:
                    yield number, record
                    continue
            for place, repaired in repair.line(number, line, lines):
                try:
                    record = decode(repaired)
                except DECODE_ERRORS:
                    problems.add(f"line {place} holds something other than expected")
                else:
                    yield place, record
    repair.end()


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or "the name is not valid here").lower()


def _split_lines(chunks: Iterable[bytes], problems: ReadProblems, longest: int) -> Iterator[list[bytes]]:
    """Whole lines, many at a time. A line that is too long is left out and reported; its place stays, empty."""
    pending: list[bytes] = []
    size = number = 0
    skipping = False
    first = True
    for chunk in chunks:
        if first:
            chunk = chunk.removeprefix(_BOM)  # noqa: PLW2901
            first = False
        end = chunk.rfind(b"\n")
        if end < 0:
            if not skipping:
                pending.append(chunk)
                size += len(chunk)
                if size > longest:
                    problems.add(f"line {number + 1} is longer than {longest >> 20} MiB")
                    pending.clear()
                    skipping = True
            continue
        lines = chunk[:end].split(b"\n")
        if skipping:
            lines[0] = b""
        elif pending:
            lines[0] = b"".join((*pending, lines[0]))
        rest = chunk[end + 1 :]
        pending = [rest] if rest else []
        size = len(rest)
        skipping = False
        number += len(lines)
        yield lines
    if pending and not skipping:
        yield [b"".join(pending)]


# ── damaged lines ────────────────────────────────────────────────────────────────────────────────────────

_MAX_JOINED_LINES: Final = 64
_MAX_JOINED_SIZE: Final = 4 << 20
_MAX_STARTS: Final = 200  # places tried within one line
_LENIENT: Final = json.JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class LineRepair:
    """Repairs the damaged lines of one file, in their order. `report` gets a sentence on what is lost for good."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        # A line that seems to go on in the next one, and the number it began with.
        self.torn = ""
        self._began = 0
        self._joined = 0
        self._has_nuls = False

    def line(self, number: int, line: bytes, around: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """The records of a line, each with the number of the line it began in; `around` are lines like it."""
        self._has_nuls = b"\0" in line
        text = line.replace(b"\0", b"").decode("utf-8", "replace").strip("\r\n\t \ufeff")
        if self.torn:
            joined = f"{self.torn}\n{text}"
            records, rest, needs_more = _split_records(joined, 0)
            began = self._began
            if records and not rest:
                self.torn = ""
                for record in records:
                    yield began, record
                return
            own_records, own_rest, _ = _split_records(text, 0)
            if needs_more and not records and (own_rest or not own_records) and self._may_grow(joined):
                self.torn = joined
                self._joined += 1
                return
            self.end()
        yield from self._repair_line(number, text, around)

    def end(self) -> None:
        """No more lines: what was torn stays torn."""
        if self.torn:
            self._report(f"line {self._began} is cut off")
            self.torn = ""

    def _may_grow(self, joined: str) -> bool:
        return self._joined < _MAX_JOINED_LINES and len(joined) < _MAX_JOINED_SIZE

    def _repair_line(self, number: int, text: str, around: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        if not text:
            if self._has_nuls:
                self._report(f"line {number} contains only NUL bytes")
            return
        records, rest, needs_more = _split_records(text, 0)
        for record in records:
            yield number, record
        if not rest:
            return
        later = _find_whole_records(rest, _openings(around))
        if later:
            self._report(f"line {number} is cut off where the next record begins")
            for record in later:
                yield number, record
        elif needs_more:
            self.torn, self._began, self._joined = rest, number, 0
        else:
            self._report(f"line {number} {'holds no record' if _is_json(rest) else 'is not JSON'}")


def _split_records(text: str, start: int) -> tuple[list[bytes], str, bool]:
    """The objects one after the other, what is left over, and whether that only needs more text."""
    records: list[bytes] = []
    while start < len(text):
        try:
            value, end = _LENIENT.raw_decode(text, start)
        except json.JSONDecodeError as error:
            # The decoder names the beginning of a string that does not end, otherwise where it could not go on.
            needs_more = error.msg.startswith("Unterminated string") or error.pos >= len(text)
            return records, text[start:], needs_more
        except (ValueError, RecursionError):
            return records, text[start:], False
        if not isinstance(value, dict):
            return records, text[start:], False
        records.append(_encode(value))
        space = _SPACE.match(text, end)
        start = space.end() if space else end
    return records, "", False


def _is_json(text: str) -> bool:
    """Whether it is a whole number, list or word: JSON, but no record."""
    try:
        return _LENIENT.raw_decode(text)[1] == len(text)
    except (ValueError, RecursionError):
        return False


def _find_whole_records(text: str, openings: frozenset[str]) -> list[bytes]:
    """After half a record: the whole ones up to the end of the line. They begin as records around here do."""
    at = 0
    for _ in range(_MAX_STARTS):
        at = text.find('{"', at + 1)
        if at < 0:
            break
        if not text.startswith(tuple(openings), at):
            continue
        records, rest, _ = _split_records(text, at)
        if records and not rest:
            return records
    return []


def _openings(lines: Sequence[bytes]) -> frozenset[str]:
    """How the records of these lines begin: up to the end of their first key."""
    openings = set()
    for line in lines[:_MAX_STARTS]:
        end = line.find(b'"', 2, 60)
        if end > 0 and line.startswith(b'{"'):
            openings.add(line[: end + 1].decode("utf-8", "replace"))
    return frozenset(openings)


def _encode(value: Json) -> bytes:
    # Half a surrogate pair can be written in JSON, but is not text: it becomes a question mark.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
