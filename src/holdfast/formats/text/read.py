"""Read documents from outside as plain data, with the line of every part.

Nothing is guessed and nothing is lost: duplicate keys, numbers that are too large, invalid text and documents built
to exhaust the reader are refused, with the line. A byte order mark and Windows line ends are accepted and noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, time
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple

from holdfast.core import limits
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.base import FormatNote, Place
from holdfast.formats.text import nodes
from holdfast.formats.text.json import LIMIT
from holdfast.formats.text.nodes import YamlNode, unreadable_error

__all__ = ["LIMIT", "ReadDocument", "read", "read_json", "read_lines", "read_text", "read_toml", "read_yaml"]

_BOM: Final = b"\xef\xbb\xbf"
# Byte order marks of encodings that are refused; longest first, since the shorter ones are their prefixes.
_FOREIGN_MARKS: Final = (
    (b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"),
)  # fmt: skip

# YAML 1.2, core schema.
_TRUTHS: Final = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER: Final = re.compile(r"[-+]?[0-9]+\Z")
_BASED: Final = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FRACTION: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_ENDLESS: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class ReadDocument(NamedTuple):
    """A document, a function from place to line, and notes on its text."""

    value: Json
    line: Callable[[Place], int | None]
    notes: list[FormatNote]


def read(raw: bytes, path: str) -> ReadDocument:
    """The document in a file: YAML or JSON by its name. Raises `Invalid`."""
    ending = path.lower().rpartition(".")[2]
    if ending == "jsonl":
        raise unreadable_error(path, "it is a list of documents, one per line", None)
    return read_yaml(raw, path) if ending in ("yaml", "yml") else read_json(raw, path)


def read_json(raw: bytes, path: str, first: int = 1) -> ReadDocument:
    text, notes = read_text(raw, path, first)
    value = nodes.loads(text, path, first)
    return ReadDocument(value, _line_finder(lambda: nodes.from_json(text, path, first)), notes)


def read_yaml(raw: bytes, path: str) -> ReadDocument:
    text, notes = read_text(raw, path)
    root = nodes.from_yaml(text, path)
    return ReadDocument(_typed(root, path), _line_finder(lambda: root), notes)


def read_toml(raw: bytes, path: str) -> ReadDocument:
    """TOML; times become text, as in YAML."""
    from holdfast.core import toml_text

    text, notes = read_text(raw, path)
    try:
        value = toml_text.loads(text)
    except ValueError as error:
        raise unreadable_error(path, str(error), None) from None
    return ReadDocument(_timeless(value), lambda _: None, notes)


def _timeless(value: Any) -> Json:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_timeless(inner) for inner in value]
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def read_lines(raw: bytes, path: str) -> Iterator[tuple[int, ReadDocument | Invalid]]:
    """JSON lines: each with its number, as a document or the error.

    Lines beyond the limit of a history are not read.
    """
    start = number = 0
    while start < len(raw):
        end = raw.find(b"\n", start)
        line = raw[start:] if end < 0 else raw[start:end]
        start = len(raw) if end < 0 else end + 1
        number += 1
        if number > limits.MAX_HISTORY_LINES:
            yield number, unreadable_error(path, f"it has more than {limits.MAX_HISTORY_LINES:,} lines", number)
            return
        if not line.removeprefix(_BOM if number == 1 else b"").strip():
            continue
        try:
            yield number, read_json(line, path, number)
        except Invalid as error:
            yield number, error


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_text(raw: bytes, path: str, first: int = 1) -> tuple[str, list[FormatNote]]:
    """The text of a file, with notes on it. Raises `Invalid`."""
    if len(raw) > LIMIT:
        raise unreadable_error(path, f"it has more than {LIMIT >> 20} MiB", None)
    encoding = next((name for mark, name in _FOREIGN_MARKS if raw.startswith(mark)), None)
    if encoding is None and b"\0" in raw[:2]:  # UTF-8 text does not begin like that
        encoding = "UTF-16 or UTF-32"
    if encoding is not None:
        raise unreadable_error(path, f"its text is {encoding}", None, "Save it as UTF-8.")
    notes = []
    if raw.startswith(_BOM):
        raw = raw[len(_BOM) :]
        notes.append(FormatNote((), "the file begins with a byte order mark, which was ignored"))
    if b"\r\n" in raw or raw.endswith(b"\r"):
        notes.append(FormatNote((), "it has Windows line ends (CR LF)"))
    try:
        return raw.decode(), notes
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + first
        raise unreadable_error(path, "it is not valid UTF-8", line, "Save it as UTF-8.") from None


def _line_finder(root: Callable[[], YamlNode]) -> Callable[[Place], int | None]:
    """A function from place to line; for a missing place, the line of the nearest part around it."""
    once = cache(root)

    def line(place: Place) -> int | None:
        try:
            node = once()
        except Invalid:
            return None
        for step in place:
            match node.value, step:
                case dict() as named, str() if step in named:
                    node = named[step]
                case list() as listed, int() if -len(listed) <= step < len(listed):
                    node = listed[step]
                case _:
                    break
        return node.line

    return line


# ── YAML's scalars ───────────────────────────────────────────────────────────────────────────────────────


def _typed(node: YamlNode, path: str) -> Json:
    value = node.value
    if isinstance(value, list):
        return [_typed(inner, path) for inner in value]
    if isinstance(value, dict):
        return {_checked_text(key, inner, path): _typed(inner, path) for key, inner in value.items()}
    if not isinstance(value, str):
        return value
    return _scalar(value, node, path) if node.plain else _checked_text(value, node, path)


def _scalar(written: str, node: YamlNode, path: str) -> Json:
    """The value of unquoted text. Times stay text: the formats read them."""
    if written in _TRUTHS:
        return _TRUTHS[written]
    if _ENDLESS.match(written):
        raise unreadable_error(path, f"{written} is not a number that can be stored", node.line)
    try:
        if _INTEGER.match(written):
            return nodes.integer(written)
        if _BASED.match(written):
            return nodes.integer(written, 0)
        if _FRACTION.match(written):
            return nodes.fraction(written)
    except nodes.NumberTooLarge:
        raise unreadable_error(path, f"the number {written[:30]}… is too large", node.line) from None
    return _checked_text(written, node, path)


def _checked_text(written: str, node: YamlNode, path: str) -> str:
    if not written.isascii() and _SURROGATE.search(written):
        raise unreadable_error(path, "text has half of a surrogate pair, which is not a character", node.line)
    return written
