"""YAML that no longer parses: as many of its lines, from the first on, as still do.

A file that was cut, or whose end was overwritten, is sound up to there. Where that is is found by halving, with a
bound on how much text is parsed in all.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.text.read import read_yaml

# Bytes parsed in all: the parser reads some hundred thousand a second.
_EFFORT: Final = 2 << 20
_EMPTY: Final = 2  # a stream begins and ends
# Each empty line is matched in one way only: with two, many of them would take for ever.
_LIKE_YAML: Final = re.compile(
    r"(?:[^\S\n]*(?:#[^\n]*)?\n)*(?:---|- |[A-Za-z_][A-Za-z0-9_ -]{0,60}:(?:[ \t]|\r?\n|\Z))", re.ASCII
)


class ParsedLines(NamedTuple):
    """The value of the first `characters`, and whether that is all of the text."""

    value: Json
    characters: int
    whole: bool


def looks_like_yaml(text: str) -> bool:
    return _LIKE_YAML.match(text) is not None


def is_yaml(raw: bytes) -> bool:
    """Is it sound YAML, of whatever kind: with anchors, tags and several documents? Nothing is built from it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = raw.decode("utf-8-sig", "replace")
    if len(text) > _EFFORT:
        return True
    try:
        return sum(1 for _ in YAML(typ="safe", pure=True).parse(text)) > _EMPTY and "\ufffd" not in text
    except (YAMLError, ValueError, IndexError, AttributeError, AssertionError, TypeError, KeyError, RecursionError):
        return False  # the parser's own mistakes, met on nonsense only


def lines_that_parse(text: str) -> ParsedLines | None:
    """None when not even its beginning is YAML."""
    ends = [found.end() for found in re.finditer(r"\n", text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    effort = _EFFORT
    best: ParsedLines | None = None
    low, high = 0, len(ends)  # how many lines surely parse, and how many may
    while low < high and effort > 0:
        # All of it first; then halves.
        tried = high if high == len(ends) and best is None and effort == _EFFORT else (low + high + 1) // 2
        end = ends[tried - 1]
        effort -= end
        value = _parsed(text[:end])
        if value is None:
            high = tried - 1
        else:
            best = ParsedLines(value, end, tried == len(ends))
            low = tried
    return best


def _parsed(text: str) -> dict[str, Json] | list[Json] | None:
    try:
        value = read_yaml(text.encode("utf-8", "replace"), "").value
    except Invalid:
        return None
    return value if isinstance(value, (dict, list)) and value else None
