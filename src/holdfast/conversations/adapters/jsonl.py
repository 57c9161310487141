"""Taking damaged JSON lines apart: records glued together, half a record before a whole one, a string with a raw line
end in it, runs of NULs where a disk lost power, bytes of another encoding. Slow and careful, and only ever asked
when `capture.lines` could not read a line as it stands.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from holdfast.conversations.adapters import read_errors, read_limits
from holdfast.conversations.adapters.fields import WRONG
from holdfast.core.canonical import Json
from holdfast.machine.user_input import open_regular

_JOINED_LINES: Final = 64
_JOINED_SIZE: Final = 4 << 20
_STARTS: Final = 200  # places tried within one line
_READ: Final = json.JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class LineRepair:
    """The damaged lines of one file, in their order. What is lost for good is told to `lost`, in sentences."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        # A line that seems to go on in the next one, and the number it began with.
        self.torn = ""
        self._began = 0
        self._joined = 0
        self._nuls = False

    def line(self, number: int, line: bytes, around: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """The records of a line, each with the number of the line it began in; `around` are lines like it."""
        self._nuls = b"\0" in line
        text = line.replace(b"\0", b"").decode("utf-8", "replace").strip("\r\n\t \ufeff")
        if self.torn:
            joined = f"{self.torn}\n{text}"
            found, rest, open_ = _records(joined, 0)
            began = self._began
            if found and not rest:
                self.torn = ""
                for data in found:
                    yield began, data
                return
            alone, left, _ = _records(text, 0)
            if open_ and not found and (left or not alone) and self._may_grow(joined):
                self.torn = joined
                self._joined += 1
                return
            self.end()
        yield from self._one(number, text, around)

    def end(self) -> None:
        """No more lines: what was torn stays so."""
        if self.torn:
            self._lost(f"line {self._began} is cut off")
            self.torn = ""

    def _may_grow(self, joined: str) -> bool:
        return self._joined < _JOINED_LINES and len(joined) < _JOINED_SIZE

    def _one(self, number: int, text: str, around: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        if not text:
            if self._nuls:
                self._lost(f"line {number} holds nothing but NULs")
            return
        found, rest, open_ = _records(text, 0)
        for data in found:
            yield number, data
        if not rest:
            return
        whole = _whole_record_in(rest, _openings(around))
        if whole:
            self._lost(f"line {number} is cut off where the next record begins")
            for data in whole:
                yield number, data
        elif open_:
            self.torn, self._began, self._joined = rest, number, 0
        else:
            self._lost(f"line {number} {'holds no record' if _is_json(rest) else 'is not JSON'}")


def _records(text: str, start: int) -> tuple[list[bytes], str, bool]:
    """The objects that stand there one after the other, what is left over, and whether that only needs more."""
    found: list[bytes] = []
    while start < len(text):
        try:
            value, end = _READ.raw_decode(text, start)
        except json.JSONDecodeError as error:
            # The reader names the beginning of a string that does not end, otherwise where it could not go on.
            needs_more = error.msg.startswith("Unterminated string") or error.pos >= len(text)
            return found, text[start:], needs_more
        except (ValueError, RecursionError):
            return found, text[start:], False
        if not isinstance(value, dict):
            return found, text[start:], False
        found.append(_written(value))
        space = _SPACE.match(text, end)
        start = space.end() if space else end
    return found, "", False


def _is_json(text: str) -> bool:
    """A number, a list, a word: whole, and still nothing that a record could be."""
    try:
        return _READ.raw_decode(text)[1] == len(text)
    except (ValueError, RecursionError):
        return False


def _whole_record_in(text: str, openings: frozenset[str]) -> list[bytes]:
    """After half a record: the whole ones up to the end of the line. They begin as records around here do."""
    at = 0
    for _ in range(_STARTS):
        at = text.find('{"', at + 1)
        if at < 0:
            break
        if not text.startswith(tuple(openings), at):
            continue
        found, rest, _ = _records(text, at)
        if found and not rest:
            return found
    return []


def _openings(lines: Sequence[bytes]) -> frozenset[str]:
    """How the records of these lines begin: up to the end of their first key."""
    found = set()
    for line in lines[:_STARTS]:
        end = line.find(b'"', 2, 60)
        if end > 0 and line.startswith(b'{"'):
            found.add(line[: end + 1].decode("utf-8", "replace"))
    return frozenset(found)


def _written(value: Json) -> bytes:
    # Half a surrogate pair can be written in JSON, but is not text: it becomes a question mark.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


T = TypeVar("T")

LONGEST: Final = 64 << 20  # bytes of one line
_CHUNK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


class Problems:
    """What could not be read: some sentences, and how many more there would be."""

    MOST: Final = 10

    def __init__(self) -> None:
        self._said: list[str] = []
        self._more = 0

    def add(self, sentence: str) -> None:
        if len(self._said) < self.MOST:
            self._said.append(sentence)
        else:
            self._more += 1

    def extend(self, others: Problems, before: str) -> None:
        """Those of a part, each with words before it that say which."""
        for sentence in others.sentences():
            self.add(before + sentence)

    def sentences(self) -> list[str]:
        return [*self._said, f"and {self._more} more like these"] if self._more else list(self._said)

    def __bool__(self) -> bool:
        return bool(self._said)


def chunks(path: str, problems: Problems, size: int = _CHUNK) -> Iterator[bytes]:
    """A regular file in pieces, as long as it is now; anything else is a problem and has no pieces."""
    read_limits.use(files=1)
    try:
        handle = open_regular(path)
    except (OSError, ValueError) as error:
        read_errors.note(path, error)
        problems.add(f"cannot be opened ({_reason(error)})")
        return
    if isinstance(handle, str):
        problems.add("is not a regular file")
        return
    try:
        left = os.fstat(handle).st_size
        while left > 0:
            read_limits.use(size=min(left, size))
            piece = os.read(handle, min(left, size))
            if not piece:
                return
            left -= len(piece)
            yield piece
    except OSError as error:
        read_errors.note(path, error)
        problems.add(f"cannot be read to its end ({_reason(error)})")
    finally:
        os.close(handle)


def whole(path: str, problems: Problems, largest: int) -> bytes:
    """All of a regular file; nothing of one that is larger than this."""
    pieces: list[bytes] = []
    size = 0
    for piece in chunks(path, problems):
        size += len(piece)
        if size > largest:
            problems.add(f"is larger than {largest >> 20} MiB")
            return b""
        pieces.append(piece)
    return b"".join(pieces)


def records(path: str, decoder: msgspec.json.Decoder[T], problems: Problems) -> Iterator[tuple[int, T]]:
    """The records of a file with the numbers of their lines (the first is 1), typed by the decoder."""
    return records_in(chunks(path, problems), decoder, problems)


def records_in(
    pieces: Iterable[bytes], decoder: msgspec.json.Decoder[T], problems: Problems, *, longest: int = LONGEST
) -> Iterator[tuple[int, T]]:
    """The same for what comes from elsewhere, such as a compressed file."""
    decode = decoder.decode
    mending = LineRepair(problems.add)
    number = 0
    for lines in _lines(pieces, problems, longest):
        for line in lines:
            number += 1
            if not mending.torn:
                try:
                    record = decode(line)
                except WRONG:
                    if not line or line.isspace():
                        continue
                else:
                    yield number, record
                    continue
            for place, mended in mending.line(number, line, lines):
                try:
                    record = decode(mended)
                except WRONG:
                    problems.add(f"line {place} holds something else than expected")
                else:
                    yield place, record
    mending.end()


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or "the name is not valid here").lower()


def _lines(pieces: Iterable[bytes], problems: Problems, longest: int) -> Iterator[list[bytes]]:
    """Whole lines, many at a time. A line that is too long is left out and said; its place stays, empty."""
    held: list[bytes] = []
    size = number = 0
    skipping = False
    first = True
    for piece in pieces:
        if first:
            piece = piece.removeprefix(_BOM)  # noqa: PLW2901
            first = False
        end = piece.rfind(b"\n")
        if end < 0:
            if not skipping:
                held.append(piece)
                size += len(piece)
                if size > longest:
                    problems.add(f"line {number + 1} is longer than {longest >> 20} MiB")
                    held.clear()
                    skipping = True
            continue
        lines = piece[:end].split(b"\n")
        if skipping:
            lines[0] = b""
        elif held:
            lines[0] = b"".join((*held, lines[0]))
        rest = piece[end + 1 :]
        held = [rest] if rest else []
        size = len(rest)
        skipping = False
        number += len(lines)
        yield lines
    if held and not skipping:
        yield [b"".join(held)]
