"""Read strings, numbers and words of damaged JSON text, with the repairs that are safe.

`json` builds lists and objects from them. Everything here reads at a position and returns the end; what cannot be
read raises `NotJson`, what the text does not finish raises `TextEnds`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json import decoder
from typing import Final, Literal, NamedTuple

from holdfast.core.canonical import Json
from holdfast.formats.base import Place
from holdfast.formats.text import nodes

MAX_REMARKS: Final = 100
# How often the text may be read again, in multiples of its length, before giving up.
_PATIENCE: Final = 8

Role = Literal["key", "value"]
# The standard library's own string reader, which its type stubs lack.
_READ: Final[Callable[[str, int, bool], tuple[str, int]]] = vars(decoder)["scanstring"]
QUOTED: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n\f\v\ufeff]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"-?[A-Za-z_$][A-Za-z0-9_$-]{0,99}")
_SINGLE: Final = re.compile(r"'((?:[^'\\\n]++|\\.)*+)'", re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_CONTROL: Final = re.compile("[\x00-\x1f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FOLLOWS: Final = {"key": ":", "value": ",}]"}
_NOT_JSON: Final = "this is not JSON"

_WORDS: Final[dict[str, tuple[Json, str | None]]] = {
    "true": (True, None), "false": (False, None), "null": (None, None),
    "True": (True, "True"), "False": (False, "False"), "None": (None, "None"), "undefined": (None, "undefined"),
    "NaN": (None, "NaN"), "Infinity": (None, "Infinity"), "-Infinity": (None, "-Infinity"), "nan": (None, "nan"),
}  # fmt: skip


class Remark(NamedTuple):
    """A repair or a loss: its place in the document and its position in the text."""

    place: Place
    at: int
    message: str
    lost: bool


class TextEnds(Exception):
    """The text ends or another document begins (at `at`) before this one is closed; lost from `lost` on."""

    def __init__(self, at: int, lost: int) -> None:
        super().__init__(at, lost)
        self.at = at
        self.lost = lost


class NotJson(Exception):
    def __init__(self, at: int, why: str = _NOT_JSON) -> None:
        super().__init__(at, why)
        self.at = at
        self.why = why


class Scalars:
    """Reads scalars from one text, up to `end`, and collects remarks."""

    def __init__(self, text: str, end: int) -> None:
        self.text = text
        self.end = end
        self.remarks: list[Remark] = []
        self.left_out = 0
        self.lost_from: int | None = None
        self.patience = _PATIENCE * end + 10_000
        self._commented = -1

    # ── overridden by the parser ─────────────────────────────────────────────────────────────────────────

    def place(self) -> Place:
        """The current place in the document."""
        return ()

    def next_document(self, position: int) -> bool:
        """Does another document begin here?"""
        del position
        return False

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────

    def scalar(self, position: int, *, within: bool) -> tuple[Json, int]:
        """Text, a number or a word. `within` a container, one that touches the end may be cut."""
        char = self.text[position]
        if char == '"' or (char == "'" and _SINGLE.match(self.text, position, self.end)):
            return self.string(position, "value")
        number = _NUMBER.match(self.text, position, self.end)
        if number is not None:
            return self._number(number, within=within)
        word = _WORD.match(self.text, position, self.end)
        if word is not None:
            if word.end() >= self.end and within:
                raise TextEnds(self.end, position)
            if word[0] in _WORDS:
                value, description = _WORDS[word[0]]
                if description is not None:
                    self.note(position, f"{description} is taken as {json.dumps(value)}")
                return value, word.end()
        raise NotJson(position if word is None else word.end())

    def _number(self, match: re.Match[str], *, within: bool) -> tuple[Json, int]:
        start, end = match.span()
        if end >= self.end and within:
            raise TextEnds(self.end, start)  # more digits may have followed
        # Also before an opening bracket: another document may be glued to this one.
        if end < self.end and (self.text[end].isalnum() or self.text[end] in "._+-{["):
            raise NotJson(end)
        read = nodes.integer if match[1] is None and match[2] is None else nodes.fraction
        try:
            return read(match[0]), end
        except nodes.NumberTooLarge:
            self.note(start, "a number this large is kept as text")
            return match[0], end

    def key(self, position: int) -> tuple[str | None, int]:
        """The key at this position; None when there is none."""
        if self.text[position] in "\"'":
            try:
                return self.string(position, "key")
            except NotJson:
                return None, position
        word = _WORD.match(self.text, position, self.end)
        if word is None:
            return None, position
        if word.end() >= self.end:
            raise TextEnds(self.end, position)
        if not self.followed(word.end(), "key"):
            return None, position
        self.note(position, "a key without quotes")
        return word[0], word.end()

    # ── text ─────────────────────────────────────────────────────────────────────────────────────────────

    def string(self, position: int, role: Role) -> tuple[str, int]:
        if self.text[position] == "'":
            return self._single(position, role)
        try:
            value, end = _scan(self.text, position + 1)
        except json.JSONDecodeError:
            return self._bad_string(position, role)
        if end > self.end:
            return self._bad_string(position, role)
        if _CONTROL.search(self.text, position, end):
            if not self.followed(end, role):
                self.patience -= end - position
                return self._open_ended(position, role)
            self.note(position, "a line break or control character within text")
        return self._clean(value, position), end

    def _bad_string(self, position: int, role: Role) -> tuple[str, int]:
        """A string that is unterminated or has an invalid escape."""
        match = QUOTED.match(self.text, position, self.end) if self.patience >= 0 else None
        self.patience -= (self.end if match is None else match.end()) - position
        if match is None or ("\n" in match[1] and not self.followed(match.end(), role)):
            return self._open_ended(position, role)
        self.note(position, "an invalid escape")
        return self._clean(unescaped(match[1]), position), match.end()

    def _open_ended(self, position: int, role: Role) -> tuple[str, int]:
        """A string without a closing quote: a value ends with its line if the next line fits."""
        stop = self.text.find("\n", position, self.end)
        if stop < 0 or self.patience < 0:
            raise TextEnds(self.end, position)
        line = self.text[position + 1 : stop].rstrip()
        ends = line.endswith(",")
        following = self.space(stop)
        fits = following < self.end and self.text[following] in ('"' if ends else "]}")
        if role == "key" or not fits or '"' in line or "\\" in line or self.next_document(stop + 1):
            raise NotJson(position, "text without a closing quote")
        self.note(position, "a closing quote is missing")
        value = line.removesuffix(",")
        return self._clean(value, position), position + 1 + len(value)

    def _single(self, position: int, role: Role) -> tuple[str, int]:
        match = _SINGLE.match(self.text, position, self.end)
        if match is None:
            if self.text.find("\n", position, self.end) < 0:
                raise TextEnds(self.end, position)
            raise NotJson(position, "text without a closing quote")
        if not self.followed(match.end(), role):
            raise NotJson(position, "text in single quotes without a clear end")
        self.note(position, "single quotes")
        plain = re.sub(
            r"\\.|\"",
            lambda character: {"\\'": "'", '"': '\\"'}.get(character[0], character[0]),
            match[1],
            flags=re.DOTALL,
        )
        return self._clean(unescaped(plain), position), match.end()

    def followed(self, position: int, role: Role) -> bool:
        """Is this followed by what must follow a key or a value?"""
        following = self.space(position)
        return following >= self.end or self.text[following] in _FOLLOWS[role]

    def _clean(self, value: str, position: int) -> str:
        if value.isascii() or not _SURROGATE.search(value):
            return value
        self.note(position, "invalid bytes became \ufffd")
        return _SURROGATE.sub("\ufffd", value)

    def space(self, position: int) -> int:
        """Skip white space and comments."""
        while True:
            blank = _SPACE.match(self.text, position, self.end)
            assert blank is not None
            position = blank.end()
            ahead = self.text[position : position + 2] if position < self.end else ""
            if ahead == "/*":
                stop = -1 if self.patience < 0 else self.text.find("*/", position + 2, self.end)
                if stop < 0:
                    self.patience -= self.end - position
                    return position
                stop += 2
            elif ahead == "//" or ahead[:1] == "#":
                stop = self.text.find("\n", position, self.end)
            else:
                return position
            if position > self._commented:
                self._commented = position
                self.note(position, "a comment")
            position = self.end if stop < 0 else stop

    # ── remarks ──────────────────────────────────────────────────────────────────────────────────────────

    def note(self, position: int, message: str, *, lost: bool = False) -> None:
        if lost:
            self.lose(position)
        if len(self.remarks) >= MAX_REMARKS:
            self.left_out += 1
            return
        self.remarks.append(Remark(self.place(), position, message, lost))

    def lose(self, position: int) -> None:
        self.lost_from = position if self.lost_from is None else min(self.lost_from, position)


def unescaped(body: str) -> str:
    """The text between quotes; an invalid escape is a literal backslash."""
    escaped = _ESCAPE.sub(lambda match: match[0] if match[1] else "\\\\", body)
    return _scan(escaped + '"', 0)[0]


def _scan(text: str, start: int) -> tuple[str, int]:
    """Text up to its closing quote, control characters allowed."""
    return _READ(text, start, False)
