"""Taking damaged JSON lines apart: records glued together, half a record before a whole one, a string with a raw line
end in it, runs of NULs where a disk lost power, bytes of another encoding. Slow and careful, and only ever asked
when `capture.lines` could not read a line as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from holdfast.core.canonical import Json

_JOINED_LINES: Final = 64
_JOINED_SIZE: Final = 4 << 20
_STARTS: Final = 200  # places tried within one line
_READ: Final = json.JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class Mending:
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
                for one in found:
                    yield began, one
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
        for one in found:
            yield number, one
        if not rest:
            return
        whole = _whole_record_in(rest, _openings(around))
        if whole:
            self._lost(f"line {number} is cut off where the next record begins")
            for one in whole:
                yield number, one
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
    # Half a surrogate pair can be written in JSON, but is no text: it becomes a question mark.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
