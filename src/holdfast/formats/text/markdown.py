"""Markdown read as data: headings are keys, lists are lists, tables are lists of objects, `**Label**: text` a pair.

Handovers between sessions are often written so. Nothing is refused, and the text itself is kept with what was made of
it, because markup, code and the order of paragraphs say more than keys can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.text.reading import read_yaml

# Where the text is kept. A key that begins like this is about the file, and means nothing itself.
TEXT: Final = "_text"
_HEADING: Final = re.compile(r"(#{1,6})\s+(\S.*)")
_ITEM: Final = re.compile(r"(\s*)(?:[-*+•]|\d{1,4}[.)])\s+(\S.*)\Z")
_LABEL: Final = re.compile(r"(?:\*\*|__)([^*_:]{1,60}?)\s*(?::\s*(?:\*\*|__)|(?:\*\*|__)\s*:)\s*(\S.*)\Z")
# Of labels without emphasis, those that say something of the session and hardly ever begin a piece of work.
_PLAIN_LABEL: Final = re.compile(
    r"((?:git |current )?branch|(?:last |latest )?commit|status|progress|phase|date|last updated|started)\s*:"
    r"\s*(\S.*)\Z",
    re.IGNORECASE,
)
_MARKUP: Final = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_RULE: Final = re.compile(r"\s*(?:-{3,}|\*{3,}|_{3,})\s*\Z")
_CELLS: Final = re.compile(r"\s*\|(.*)\|\s*\Z")
_DASHES: Final = re.compile(r"[\s|:-]+\Z")
_DAY: Final = re.compile(r"\b\d{4}-\d\d-\d\d\b")
# What such documents are called; what follows in the title is what they are about.
_TITLE: Final = re.compile(
    r"(?:(?:claude|code|ai|agent|coding|session|hand-?(?:off|over)|progress|state|status|notes?|log|report|summary|"
    r"tracking|tracker|file|document|current|for)\b|\d{4}-\d\d-\d\d|[\W\d])+",
    re.IGNORECASE,
)


def outline(text: str) -> dict[str, Json]:
    """What a Markdown document says, by its headings."""
    found, lines = _front_matter(text.splitlines())
    levels: list[tuple[int, dict[str, Json]]] = [(0, found)]
    for depth, heading, body in _sections(lines):
        while depth <= levels[-1][0]:
            levels.pop()
        around = levels[-1][1]
        if not heading or (depth == 1 and len(levels) == 1):
            _name(found, heading)
            _fill(found, "overview", body)
            continue
        inner: dict[str, Json] = {}
        _fill(inner, heading, body)
        own = inner.pop(heading, None)
        if own is None or inner:
            around.setdefault(heading, inner)
        # A section may have text or a list of its own, and parts besides.
        if own is not None:
            around[heading if heading not in around else f"{heading} list"] = own
        named = around.get(heading)
        levels.append((depth, named if isinstance(named, dict) else around))
    return {**_without_empty(found), TEXT: text}


def _name(found: dict[str, Json], heading: str) -> None:
    """A title says what the document is about, and often of which day it is."""
    called = _TITLE.match(heading)
    about = heading[called.end() if called is not None else 0 :].strip()
    day = _DAY.search(heading)
    if about:
        found.setdefault("title", about)
    if day is not None:
        found.setdefault("date", day[0])


def _front_matter(lines: list[str]) -> tuple[dict[str, Json], list[str]]:
    if lines and lines[0].strip() == "---" and "---" in (line.strip() for line in lines[1:]):
        end = next(number for number, line in enumerate(lines) if number and line.strip() == "---")
        with suppress(Invalid):
            value = read_yaml("\n".join(lines[1:end]).encode(), "").value
            return (dict(value) if isinstance(value, dict) else {}), lines[end + 1 :]
    return {}, lines


def _sections(lines: list[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Each heading with its depth and the lines below it; code is left out."""
    depth, heading, body, fenced = 1, "", list[str](), False
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced or _RULE.match(line):
            continue
        elif (found := _HEADING.match(line)) is not None:
            yield depth, heading, body
            depth, heading, body = len(found[1]), _plain(found[2].rstrip().rstrip("#")), []
        else:
            body.append(line)
    yield depth, heading, body


def _fill(into: dict[str, Json], heading: str, body: list[str]) -> None:
    """Labels each under its own name; the entries of lists and tables, else the text, under the heading."""
    entries: list[Json] = []
    text: list[str] = []
    columns: list[str] | None = None
    for line in body:
        cells = _CELLS.match(line)
        if cells is not None:
            row = [_plain(cell) for cell in cells[1].split("|")]
            if columns is None:
                columns = row
            elif not _DASHES.match(line):
                entries.append({name: cell for name, cell in zip(columns, row, strict=False) if name and cell})
            continue
        columns = None
        item = _ITEM.match(line)
        said = (item[2] if item is not None else line).strip().removeprefix(">").strip()
        label = _LABEL.match(said) or _PLAIN_LABEL.match(said)
        if label is not None:
            into.setdefault(_plain(label[1]), _plain(label[2]))
        elif item is not None and (not item[1] or said.startswith("[")):
            entries.append(_plain(said))
        elif item is None and said and not said.startswith("<!--"):
            text.append(_plain(said))
    if entries:
        into[heading] = entries
    elif text:
        into[heading] = "\n".join(text)


def _plain(text: str) -> str:
    return _MARKUP.sub("", text).strip()


def _without_empty(value: dict[str, Json]) -> dict[str, Json]:
    return {
        key: _without_empty(entry) if isinstance(entry, dict) else entry
        for key, entry in value.items()
        if entry not in ({}, [], "")
    }
