"""YAML and JSON that other people wrote, read carefully: text, lists and mappings only, each with its line.

Nothing in such a file becomes anything but data, and nothing in it grows: aliases, anchors and tags are refused,
as are keys that stand twice, and depth and number of its parts are bounded. Numbers stay as they are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.core.errors import Invalid
from holdfast.machine.files import shown

MOST_PARTS: Final = 100_000
DEEPEST: Final = 32
_NULLS: Final = ("", "~", "null", "Null", "NULL")


class Node(NamedTuple):
    """A part of a document: text, True or False, nothing, a list or a mapping; and where it begins."""

    value: str | bool | list[Node] | dict[str, Node] | None
    line: int | None


def wrong(path: str, why: str, line: int | None, hint: str | None = None) -> Invalid:
    """What is wrong with a file, and where in it."""
    where = "standard input" if path == "-" else shown(path)
    at = "" if line is None else f", line {line}"
    return Invalid(f"{where}{at}: {why}", hint=hint, operation="read", file=None if path == "-" else path)


# ── YAML ─────────────────────────────────────────────────────────────────────────────────────────────────


def from_yaml(text: str, path: str) -> Node:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.events import Event

    try:
        events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
        return _Reader(path, events).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise wrong(path, str(error.problem or "it is not YAML"), None if mark is None else mark.line + 1) from None
    except YAMLError as error:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else None
        raise wrong(path, str(getattr(error, "reason", "it is not YAML")), line) from None
    except (ValueError, IndexError, AttributeError, AssertionError) as error:
        # The parser's own mistakes, met on nonsense only.
        raise wrong(path, f"it is not YAML ({type(error).__name__})", None) from None
    except RecursionError:
        raise wrong(path, "it is nested too deeply", None) from None


class _Reader:
    """Builds the nodes from what the parser says, so that nothing is built that we do not want."""

    def __init__(self, path: str, events: Iterator[object]) -> None:
        self._path = path
        self._events = events
        self._left = MOST_PARTS

    def document(self) -> Node:
        from ruamel.yaml import events

        root: Node | None = None
        for event in self._events:
            if isinstance(event, events.DocumentStartEvent):
                if root is not None:
                    raise wrong(self._path, "there is more than one document in it", event.start_mark.line + 1)
                root = self._node(next(self._events), 0)
        if root is None:
            raise wrong(self._path, "it is empty", None)
        return root

    def _node(self, event: object, depth: int) -> Node:
        from ruamel.yaml import events

        assert isinstance(event, events.NodeEvent)
        line = event.start_mark.line + 1
        self._left -= 1
        if self._left < 0:
            raise wrong(self._path, f"it has more than {MOST_PARTS:,} parts", line)
        if depth > DEEPEST:
            raise wrong(self._path, "it is nested too deeply", line)
        if isinstance(event, events.AliasEvent) or event.anchor is not None:
            raise wrong(self._path, "anchors and aliases are not read", line, "Write out what they stand for.")
        if getattr(event, "tag", None) is not None:
            raise wrong(self._path, "tags are not read", line, "Leave the tag (!…) out.")
        if isinstance(event, events.ScalarEvent):
            plain = event.implicit[0]
            return Node(None if plain and event.value in _NULLS else event.value, line)
        if isinstance(event, events.SequenceStartEvent):
            return Node(list(self._items(events.SequenceEndEvent, depth)), line)
        found: dict[str, Node] = {}
        for key in (items := self._items(events.MappingEndEvent, depth)):
            if not isinstance(key.value, str):
                raise wrong(self._path, "a key must be text", key.line)
            if key.value in found:
                raise wrong(self._path, f"the key {key.value[:40]!a} stands there twice", key.line)
            found[key.value] = next(items)
        return Node(found, line)

    def _items(self, end: type, depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield self._node(event, depth + 1)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────


def from_json(text: str, path: str) -> Node:
    """JSON has no lines once it is read: what is wrong with its meaning is told by its words alone."""

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        made: dict[str, object] = {}
        for key, value in found:
            if key in made:
                raise wrong(path, f"the key {key[:40]!a} stands there twice", _line_of(text, key))
            made[key] = value
        return made

    try:
        read = json.loads(text, object_pairs_hook=pairs, parse_int=str, parse_float=str, parse_constant=str)
        return _Builder(path).node(read, 0)
    except json.JSONDecodeError as error:
        raise wrong(path, f"it is not JSON: {error.msg.lower()}", error.lineno) from None
    except RecursionError:
        raise wrong(path, "it is nested too deeply", None) from None


def _line_of(text: str, key: str) -> int | None:
    """Where a key stands for the second time, if it is written plainly."""
    places = list(re.finditer(f'"{re.escape(key)}"\\s*:', text))
    return text.count("\n", 0, places[1].start()) + 1 if len(places) == 2 else None


class _Builder:
    def __init__(self, path: str) -> None:
        self._path = path
        self._left = MOST_PARTS

    def node(self, value: object, depth: int) -> Node:
        self._left -= 1
        if self._left < 0:
            raise wrong(self._path, f"it has more than {MOST_PARTS:,} parts", None)
        if depth > DEEPEST:
            raise wrong(self._path, "it is nested too deeply", None)
        if isinstance(value, dict):
            return Node({key: self.node(one, depth + 1) for key, one in value.items()}, None)
        if isinstance(value, list):
            return Node([self.node(one, depth + 1) for one in value], None)
        assert value is None or isinstance(value, (str, bool))
        return Node(value, None)
