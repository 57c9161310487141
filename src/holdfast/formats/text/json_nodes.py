"""JSON that other people wrote, read as carefully as YAML is in `nodes`.

`loads` gives plain data, after its size in parts and levels is known to be bounded. `from_json` gives nodes with
their lines: it reads the text a second time, token by token, and is asked only when somebody wants to know a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from holdfast.core.canonical import Json
from holdfast.formats.text import yaml_nodes
from holdfast.formats.text.yaml_nodes import DEEPEST, YamlNode, too_deep, too_many, twice, wrong

LARGEST: Final = 10**30
# Never gives back what it took, and ends at the end of the text at the latest: no input makes it slow or large.
_QUOTED: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_STRING: Final = re.compile(_QUOTED, re.DOTALL)
_EMPTY: Final = re.compile(r"\[\s*\]|\{\s*\}")
_BRACKET: Final = re.compile(r"[\[\]{}]")
_TOKEN: Final = re.compile(_QUOTED + r'|[\[\]{},:\n]|[^\s"\[\]{},:]+', re.DOTALL)
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}


class NumberTooLarge(Exception):
    """A number that is none we can keep; its text is the argument."""


class _Twice(Exception):
    """A key stands twice in one object."""


def whole(written: str, base: int = 10) -> int:
    """A whole number as text, if it is not beyond all use."""
    if len(written) > 40 or abs(number := int(written, base)) > LARGEST:
        raise NumberTooLarge(written)
    return number


def fraction(written: str) -> float:
    number = float(written)
    if number in (float("inf"), float("-inf")):
        raise NumberTooLarge(written)
    return number


def loads(text: str, path: str, first: int = 1) -> Json:
    """The data in a JSON text, whose first line is line `first` of the file. Raises `Invalid` with the line."""
    _bounded(text, path, first)
    value = _parsed(text, path, first, whole, fraction)
    if _SURROGATE_ESCAPE.search(text):
        for word, line in _tokens(text, first):
            if word[0] == '"' and "\\u" in word and _SURROGATE.search(json.loads(word)):
                raise wrong(path, "text holds half of a surrogate pair, which stands for no character", line)
    return value


def from_json(text: str, path: str, first: int = 1) -> YamlNode:
    """The same as nodes: numbers as they are written, everything with its line."""
    _bounded(text, path, first)
    _parsed(text, path, first, str, str)
    return _Scan(_tokens(text, first), path).node()


def _parsed(
    text: str, path: str, first: int, whole: Callable[[str], object], fraction: Callable[[str], object]
) -> Json:
    def refuse(word: str) -> NoReturn:
        raise wrong(path, f"{word} is not JSON", _line_of(text, word, first))

    try:
        value: Json = json.loads(
            text, object_pairs_hook=_once, parse_int=whole, parse_float=fraction, parse_constant=refuse
        )
    except json.JSONDecodeError as error:
        if not text.strip():
            raise wrong(path, "it is empty", None) from None
        raise wrong(path, f"it is not JSON: {error.msg.lower()}", error.lineno + first - 1) from None
    except NumberTooLarge as error:
        number = str(error)
        raise wrong(path, f"the number {number[:30]}… is too large", _line_of(text, number, first)) from None
    except _Twice:
        _Scan(_tokens(text, first), path).node()  # finds it again, with its line
        raise wrong(path, "a key stands there twice", None) from None
    except RecursionError:
        raise too_deep(path, None) from None
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Twice
    return made


def _bounded(text: str, path: str, first: int) -> None:
    """Refuse too many parts and levels before anything is built from them."""
    opened = text.count("[") + text.count("{")
    if opened <= DEEPEST and text.count(",") + opened < yaml_nodes.MOST_PARTS:
        return
    bare = _STRING.sub("", text)
    depth = 0
    for found in _BRACKET.finditer(bare):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST:
            raise too_deep(path, _deep_line(text, first))
    opened = bare.count("[") + bare.count("{")
    if 1 + bare.count(",") + opened - sum(1 for _ in _EMPTY.finditer(bare)) > yaml_nodes.MOST_PARTS:
        raise too_many(path, None)


def _deep_line(text: str, first: int) -> int | None:
    depth = 0
    for word, line in _tokens(text, first):
        depth += 1 if word in "[{" else -1 if word in "]}" else 0
        if depth > DEEPEST:
            return line
    return None


def _line_of(text: str, wanted: str, first: int) -> int | None:
    return next((line for word, line in _tokens(text, first) if word == wanted), None)


def _tokens(text: str, first: int) -> Iterator[tuple[str, int]]:
    line = first
    for found in _TOKEN.finditer(text):
        word = found[0]
        if word == "\n":
            line += 1
        else:
            yield word, line


class _Scan:
    """Nodes from the tokens of a text that is known to be JSON, not nested too deeply."""

    def __init__(self, tokens: Iterator[tuple[str, int]], path: str) -> None:
        self._tokens = tokens
        self._path = path

    def node(self) -> YamlNode:
        return self._node(*next(self._tokens))

    def _node(self, word: str, line: int) -> YamlNode:
        if word == "[":
            return YamlNode(list(self._entries()), line)
        if word == "{":
            found: dict[str, YamlNode] = {}
            for written, where in self._separated("}"):
                key = json.loads(written)
                if key in found:
                    raise twice(self._path, key, where)
                next(self._tokens)  # the colon
                found[key] = self.node()
            return YamlNode(found, line)
        if word[0] == '"':
            return YamlNode(json.loads(word), line)
        return YamlNode(_WORDS.get(word, word), line, plain=True)

    def _entries(self) -> Iterator[YamlNode]:
        for word, line in self._separated("]"):
            yield self._node(word, line)

    def _separated(self, end: str) -> Iterator[tuple[str, int]]:
        for word, line in self._tokens:
            if word == end:
                return
            if word != ",":
                yield word, line
