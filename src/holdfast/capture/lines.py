"""JSON lines as agents leave them behind: read in pieces, typed at once, and taken apart by hand only where a line
is damaged. Shared by all readers of transcripts. Files may be gigabytes and still be written to; nothing in them
raises, and what could not be read is said in sentences.

    problems = Problems()
    for number, record in records(path, DECODER, problems):
        …
    story.problems.extend(problems.sentences())
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from holdfast.capture import allowance, refusals
from holdfast.capture.mending import Mending
from holdfast.capture.values import WRONG
from holdfast.machine.reading import open_regular

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
    allowance.use(files=1)
    try:
        handle = open_regular(path)
    except (OSError, ValueError) as error:
        refusals.note(path, error)
        problems.add(f"cannot be opened ({_reason(error)})")
        return
    if isinstance(handle, str):
        problems.add("is not a regular file")
        return
    try:
        left = os.fstat(handle).st_size
        while left > 0:
            allowance.use(size=min(left, size))
            piece = os.read(handle, min(left, size))
            if not piece:
                return
            left -= len(piece)
            yield piece
    except OSError as error:
        refusals.note(path, error)
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
    mending = Mending(problems.add)
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
