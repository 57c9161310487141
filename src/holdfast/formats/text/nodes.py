"""Read YAML and JSON that other people wrote as nodes with their lines: text, lists and mappings only.

Nothing in such a file becomes anything but data, and nothing in it can grow: in YAML aliases, anchors and tags are
refused, duplicate keys are refused, and depth and number of parts are limited. Scalars stay as they are written;
`read` gives them types. JSON is parsed to data after its size is known to be limited (`loads`); its nodes are built
by a second reading, token by token, only when a line is asked for (`from_json`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, NoReturn

from holdfast.core import limits
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.machine.files import display_path

MAX_PARTS: Final = limits.MAX_PARTS
MAX_LEVELS: Final = limits.MAX_LEVELS
_NULLS: Final = ("", "~", "null", "Null", "NULL")


class YamlNode(NamedTuple):
    """A part of a document: text, a boolean, None, a list or a mapping; and its line."""

    value: str | bool | list[YamlNode] | dict[str, YamlNode] | None
    line: int
    # Unquoted text, which may therefore mean a number or a boolean.
    plain: bool = False


class NotADocument(Invalid):
    """A file that cannot be read as a document: why, and on which line."""

    def __init__(self, path: str, why: str, line: int | None, hint: str | None) -> None:
        where = "standard input" if path == "-" else display_path(path)
        at = "" if line is None else f", line {line}"
        super().__init__(f"{where}{at}: {why}", hint=hint, operation="read", file=None if path == "-" else path)
        self.why = why
        self.line = line


def unreadable_error(path: str, why: str, line: int | None, hint: str | None = None) -> NotADocument:
    """The error for a file that cannot be read."""
    return NotADocument(path, why, line, hint)


def too_many(path: str, line: int | None) -> NotADocument:
    return unreadable_error(path, f"it has more than {MAX_PARTS:,} parts", line)


def too_deep(path: str, line: int | None) -> NotADocument:
    return unreadable_error(path, "it is nested too deeply", line, f"The limit is {MAX_LEVELS} levels.")


def duplicate_key(path: str, key: str, line: int | None) -> NotADocument:
    return unreadable_error(path, f"duplicate key {key[:40]!a}", line)


def from_yaml(text: str, path: str) -> YamlNode:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.events import Event

    try:
        events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
        return _Reader(path, events).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise unreadable_error(
            path, str(error.problem or "it is not YAML"), None if mark is None else mark.line + 1
        ) from None
    except YAMLError as error:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else None
        raise unreadable_error(path, str(getattr(error, "reason", "it is not YAML")), line) from None
    except (ValueError, IndexError, AttributeError, AssertionError, TypeError, KeyError, StopIteration) as error:
        # Bugs of the parser on nonsense.
        raise unreadable_error(path, f"it is not YAML ({type(error).__name__})", None) from None
    except RecursionError:
        raise too_deep(path, None) from None


class _Reader:
    """Builds nodes from the parser's events, so that nothing unwanted is ever built."""

    def __init__(self, path: str, events: Iterator[object]) -> None:
        self._path = path
        self._events = events
        self._left = MAX_PARTS

    def document(self) -> YamlNode:
        from ruamel.yaml import events

        root: YamlNode | None = None
        for event in self._events:
            if isinstance(event, events.DocumentStartEvent):
                if root is not None:
                    raise unreadable_error(self._path, "it has more than one document", event.start_mark.line + 1)
                root = self._node(next(self._events), 0)
        if root is None:
            raise unreadable_error(self._path, "it is empty", None)
        return root

    def _node(self, event: object, depth: int) -> YamlNode:
        from ruamel.yaml import events

        assert isinstance(event, events.NodeEvent)
        line = event.start_mark.line + 1
        self._left -= 1
        if self._left < 0:
            raise too_many(self._path, line)
        if isinstance(event, events.AliasEvent) or event.anchor is not None:
            raise unreadable_error(
                self._path, "anchors and aliases are not read", line, "Write out what they stand for."
            )
        if getattr(event, "tag", None) is not None:
            raise unreadable_error(self._path, "tags are not read", line, "Leave the tag (!…) out.")
        if isinstance(event, events.ScalarEvent):
            plain = event.implicit[0]
            return YamlNode(None if plain and event.value in _NULLS else event.value, line, plain)
        if depth >= MAX_LEVELS:
            raise too_deep(self._path, line)
        if isinstance(event, events.SequenceStartEvent):
            return YamlNode(list(self._items(events.SequenceEndEvent, depth)), line)
        members: dict[str, YamlNode] = {}
        for key in (items := self._items(events.MappingEndEvent, depth)):
            self._left += 1  # a key is part of its value
            if not isinstance(key.value, str):
                raise unreadable_error(self._path, "a key must be text", key.line)
            if key.value in members:
                raise duplicate_key(self._path, key.value, key.line)
            members[key.value] = next(items)
        return YamlNode(members, line)

    def _items(self, end: type, depth: int) -> Iterator[YamlNode]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield self._node(event, depth + 1)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────

MAX_NUMBER: Final = 10**30
# Never backtracks, and ends at the end of the text at the latest: no input makes it slow.
_QUOTED: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_STRING: Final = re.compile(_QUOTED, re.DOTALL)
_EMPTY: Final = re.compile(r"\[\s*\]|\{\s*\}")
_BRACKET: Final = re.compile(r"[\[\]{}]")
_TOKEN: Final = re.compile(_QUOTED + r'|[\[\]{},:\n]|[^\s"\[\]{},:]+', re.DOTALL)
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}


class NumberTooLarge(Exception):
    """A number that is too large to keep; its text is the argument."""


class _DuplicateKey(Exception):
    """An object has a key twice."""


def integer(written: str, base: int = 10) -> int:
    """The integer in a text, if it is not too large."""
    if len(written) > 40 or abs(number := int(written, base)) > MAX_NUMBER:
        raise NumberTooLarge(written)
    return number


def fraction(written: str) -> float:
    number = float(written)
    if number in (float("inf"), float("-inf")):
        raise NumberTooLarge(written)
    return number


def loads(text: str, path: str, first: int = 1) -> Json:
    """The data in a JSON text that starts at line `first` of the file. Raises `Invalid` with the line."""
    _check_limits(text, path, first)
    value = _parsed(text, path, first, integer, fraction)
    if _SURROGATE_ESCAPE.search(text):
        for word, line in _tokens(text, first):
            if word[0] == '"' and "\\u" in word and _SURROGATE.search(json.loads(word)):
                raise unreadable_error(path, "text has half of a surrogate pair, which is not a character", line)
    return value


def from_json(text: str, path: str, first: int = 1) -> YamlNode:
    """The same as nodes: numbers as written, everything with its line."""
    _check_limits(text, path, first)
    _parsed(text, path, first, str, str)
    return _Scan(_tokens(text, first), path).node()


def _parsed(
    text: str, path: str, first: int, integer: Callable[[str], object], fraction: Callable[[str], object]
) -> Json:
    def refuse(word: str) -> NoReturn:
        raise unreadable_error(path, f"{word} is not JSON", _line_of(text, word, first))

    try:
        value: Json = json.loads(
            text, object_pairs_hook=_unique, parse_int=integer, parse_float=fraction, parse_constant=refuse
        )
    except json.JSONDecodeError as error:
        if not text.strip():
            raise unreadable_error(path, "it is empty", None) from None
        raise unreadable_error(path, f"it is not JSON: {error.msg.lower()}", error.lineno + first - 1) from None
    except NumberTooLarge as error:
        number = str(error)
        raise unreadable_error(
            path, f"the number {number[:30]}… is too large", _line_of(text, number, first)
        ) from None
    except _DuplicateKey:
        _Scan(_tokens(text, first), path).node()  # raises it again, with its line
        raise unreadable_error(path, "duplicate key", None) from None
    except RecursionError:
        raise too_deep(path, None) from None
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateKey
    return result


def _check_limits(text: str, path: str, first: int) -> None:
    """Refuse too many parts and levels before anything is built."""
    opened = text.count("[") + text.count("{")
    if opened <= MAX_LEVELS and text.count(",") + opened < MAX_PARTS:
        return
    bare = _STRING.sub("", text)
    depth = 0
    for bracket in _BRACKET.finditer(bare):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_LEVELS:
            raise too_deep(path, _deep_line(text, first))
    opened = bare.count("[") + bare.count("{")
    if 1 + bare.count(",") + opened - sum(1 for _ in _EMPTY.finditer(bare)) > MAX_PARTS:
        raise too_many(path, None)


def _deep_line(text: str, first: int) -> int | None:
    depth = 0
    for word, line in _tokens(text, first):
        depth += 1 if word in "[{" else -1 if word in "]}" else 0
        if depth > MAX_LEVELS:
            return line
    return None


def _line_of(text: str, token: str, first: int) -> int | None:
    return next((line for word, line in _tokens(text, first) if word == token), None)


def _tokens(text: str, first: int) -> Iterator[tuple[str, int]]:
    line = first
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word == "\n":
            line += 1
        else:
            yield word, line


class _Scan:
    """Builds nodes from the tokens of a text that is known to be JSON and not nested too deeply."""

    def __init__(self, tokens: Iterator[tuple[str, int]], path: str) -> None:
        self._tokens = tokens
        self._path = path

    def node(self) -> YamlNode:
        return self._node(*next(self._tokens))

    def _node(self, word: str, line: int) -> YamlNode:
        if word == "[":
            return YamlNode(list(self._entries()), line)
        if word == "{":
            members: dict[str, YamlNode] = {}
            for written, where in self._separated("}"):
                key = json.loads(written)
                if key in members:
                    raise duplicate_key(self._path, key, where)
                next(self._tokens)  # the colon
                members[key] = self.node()
            return YamlNode(members, line)
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
