"""YAML that other people wrote, read carefully: text, lists and mappings only, each with its line.

Nothing in such a file becomes anything but data, and nothing in it grows: aliases, anchors and tags are refused,
as are keys that stand twice, and depth and number of its parts are bounded. Scalars stay as they are written;
`reading` gives them their types. `jsonnodes` reads JSON into the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.core import limits
from holdfast.core.errors import Invalid
from holdfast.machine.files import display_path

MOST_PARTS: Final = limits.MAX_PARTS
DEEPEST: Final = limits.MAX_LEVELS
_NULLS: Final = ("", "~", "null", "Null", "NULL")


class YamlNode(NamedTuple):
    """A part of a document: text, True or False, nothing, a list or a mapping; and where it begins."""

    value: str | bool | list[YamlNode] | dict[str, YamlNode] | None
    line: int
    # Text that stands there without quotes, and may therefore mean a number or a truth value.
    plain: bool = False


class NotADocument(Invalid):
    """A file that cannot be read as a document: why, and on which line."""

    def __init__(self, path: str, why: str, line: int | None, hint: str | None) -> None:
        where = "standard input" if path == "-" else display_path(path)
        at = "" if line is None else f", line {line}"
        super().__init__(f"{where}{at}: {why}", hint=hint, operation="read", file=None if path == "-" else path)
        self.why = why
        self.line = line


def wrong(path: str, why: str, line: int | None, hint: str | None = None) -> NotADocument:
    """What is wrong with a file, and where in it."""
    return NotADocument(path, why, line, hint)


def too_many(path: str, line: int | None) -> NotADocument:
    return wrong(path, f"it has more than {MOST_PARTS:,} parts", line)


def too_deep(path: str, line: int | None) -> NotADocument:
    return wrong(path, "it is nested too deeply", line, f"The limit is {DEEPEST} levels.")


def twice(path: str, key: str, line: int | None) -> NotADocument:
    return wrong(path, f"the key {key[:40]!a} stands there twice", line)


def from_yaml(text: str, path: str) -> YamlNode:
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
    except (ValueError, IndexError, AttributeError, AssertionError, TypeError, KeyError, StopIteration) as error:
        # The parser's own mistakes, met on nonsense only.
        raise wrong(path, f"it is not YAML ({type(error).__name__})", None) from None
    except RecursionError:
        raise too_deep(path, None) from None


class _Reader:
    """Builds the nodes from what the parser says, so that nothing is built that we do not want."""

    def __init__(self, path: str, events: Iterator[object]) -> None:
        self._path = path
        self._events = events
        self._left = MOST_PARTS

    def document(self) -> YamlNode:
        from ruamel.yaml import events

        root: YamlNode | None = None
        for event in self._events:
            if isinstance(event, events.DocumentStartEvent):
                if root is not None:
                    raise wrong(self._path, "there is more than one document in it", event.start_mark.line + 1)
                root = self._node(next(self._events), 0)
        if root is None:
            raise wrong(self._path, "it is empty", None)
        return root

    def _node(self, event: object, depth: int) -> YamlNode:
        from ruamel.yaml import events

        assert isinstance(event, events.NodeEvent)
        line = event.start_mark.line + 1
        self._left -= 1
        if self._left < 0:
            raise too_many(self._path, line)
        if isinstance(event, events.AliasEvent) or event.anchor is not None:
            raise wrong(self._path, "anchors and aliases are not read", line, "Write out what they stand for.")
        if getattr(event, "tag", None) is not None:
            raise wrong(self._path, "tags are not read", line, "Leave the tag (!…) out.")
        if isinstance(event, events.ScalarEvent):
            plain = event.implicit[0]
            return YamlNode(None if plain and event.value in _NULLS else event.value, line, plain)
        if depth >= DEEPEST:
            raise too_deep(self._path, line)
        if isinstance(event, events.SequenceStartEvent):
            return YamlNode(list(self._items(events.SequenceEndEvent, depth)), line)
        found: dict[str, YamlNode] = {}
        for key in (items := self._items(events.MappingEndEvent, depth)):
            self._left += 1  # a key is part of its value
            if not isinstance(key.value, str):
                raise wrong(self._path, "a key must be text", key.line)
            if key.value in found:
                raise twice(self._path, key.value, key.line)
            found[key.value] = next(items)
        return YamlNode(found, line)

    def _items(self, end: type, depth: int) -> Iterator[YamlNode]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield self._node(event, depth + 1)
