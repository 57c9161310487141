"""Notes in Markdown or plain text read as data: headings are keys, lists are lists, tables are lists of objects,
`Label: text` is a pair.

Handovers between sessions are often written so. Nothing is refused, and the text itself is kept with what was made of
it, because markup, code and the order of paragraphs say more than keys can. Which words make a label is asked of the
same table that says what keys mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.detect import NOTES
from holdfast.formats.text.read import read_yaml
from holdfast.formats.unknown import values
from holdfast.formats.unknown.table import Meaning, row_of, rows_named, words_of

_PREVIOUS: Final = "previous sessions"
_HEADING: Final = re.compile(r"(#{1,6})\s+(\S.*)")
_UNDERLINE: Final = re.compile(r"\s*(?:={3,}|-{3,})\s*\Z")
_ITEM: Final = re.compile(
    rf"(\s*)(?:(?:[-*+•]|\d{{1,4}}[.)])\s+(?=\S)|(?=\[[ xX~/-]\]\s|[{values.SIGNS}]))(.*\S)\s*\Z"
)
# `：` is the colon of scripts without spaces, and has its space within it.
_LABEL: Final = re.compile(r"(?:\*\*|__)([^*_:：]{1,60}?)\s*(?:[:：]\s*(?:\*\*|__)|(?:\*\*|__)\s*[:：])\s*(\S.*)\Z")
_PLAIN_LABEL: Final = re.compile(r"([^\W\d_][\w '/-]{1,40}?)\s*(?::\s+|：\s*)(\S.*)\Z")
# A line that names the list below it.
_LIST_NAME: Final = re.compile(
    r"(?:\*\*|__)?(?P<name>[^\W_][^*_:：|`\[\]]{1,60}?)\s*(?:(?:\*\*|__)?\s*[:：]\s*(?:\*\*|__)?|\*\*|__)\s*\Z"
)
_MARKUP: Final = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)\s*(\w*)")
_RULE: Final = re.compile(r"\s*(?:-{3,}|\*{3,}|_{3,}|={3,})\s*\Z")
_CELLS: Final = re.compile(r"\s*\|(.*)\|\s*\Z")
_DASHES: Final = re.compile(r"[\s|:-]+\Z")
# The heading of one session in a log of several: its number, its day, and what it was about.
_SESSION: Final = re.compile(
    rf"\W*(?:session\b[\s#:—–-]*(?=\d|{values.DAY})(?P<number>\d{{1,4}}\b(?!-\d\d))?|(?={values.DAY}))(?P<about>.*)\Z",
    re.IGNORECASE,
)
_SESSION_LINE: Final = 60  # characters
_DAY: Final = re.compile(values.DAY)
_DATED: Final = re.compile(rf"{values.DAY}(?:[T ,]+\d\d:\d\d(?::\d\d)?Z?)?")
# What such documents are called: a title of these words alone says nothing of the work.
_GENERIC: Final = re.compile(
    r"(?:(?:claude|code|ai|agent|coding|session|hand-?(?:off|over)|progress|state|status|notes?|log|report|summary|"
    r"track(?:ing|er)|file|document|current|for|active|context|memory|bank|next|previous|latest|last|today|prompt|"
    r"guide|to-?do|tasks?|list|checklist|plan|project|development|dev|work|working|update|overview|checkpoint|"
    r"resume|resumption|continuation|start|here|continued|part)\b|[\W\d_])*",
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(r"\s*[:|]\s+|\s+[-–—]+\s+|\s+for\s+(?=\S)", re.IGNORECASE)
# What an entry of a list may say of the session besides being an entry.
_OF_ENTRIES: Final = frozenset[Meaning]((
    "done", "doing", "to do", "blocked", "branch", "commit", "status", "progress", "began", "updated",
))  # fmt: skip
_OF_LINES: Final = _OF_ENTRIES | frozenset[Meaning]((
    "goal", "decision", "note", "summary", "id", "model", "scope", "worked", "project",
))  # fmt: skip
_WORK: Final = frozenset[Meaning](("done", "doing", "to do", "blocked"))
_LONGEST_LABEL: Final = 4  # words
_LONGEST_HEADING: Final = 80  # characters


class _Section(NamedTuple):
    """A heading with the lines below it. The depth of `##` is 20, because other headings come between."""

    depth: int
    heading: str
    body: list[str]


_TITLE: Final = 10
_SESSION_DEPTH: Final = 15
_LIST_DEPTH: Final = 70


def outline(text: str) -> dict[str, Json]:
    """What notes in Markdown or plain text say, by their headings."""
    found, lines = _front_matter(text.splitlines())
    levels: list[tuple[int, dict[str, Json]]] = [(0, found)]
    sessions: list[tuple[str, dict[str, Json]]] = []
    untitled = True
    for depth, heading, body in _sections(lines):
        while depth <= levels[-1][0]:
            levels.pop()
        around = levels[-1][1]
        said, own, text_beside = _content(body)
        if not heading or (depth == _TITLE and untitled and not _SESSION.match(heading)):
            untitled = untitled and not heading
            _name(found, heading)
            _add(found, said)
            _put(found, "overview" if isinstance(own, str) else heading or "list", own)
            continue
        untitled = False
        if around is found and _SESSION.match(heading):
            _put(said, "overview" if isinstance(own, str) else "notes", own)
            sessions.append((heading, said))
            levels.append((depth, said))
            continue
        if isinstance(own, list):
            for label in [label for label, value in said.items() if _is_remark(label, value)]:
                _put(around, label, said.pop(label))  # after a list, and none of its entries
        if text_beside and not any(row.keys != "*" for row in rows_named(heading)):
            _put(around, "notes", text_beside)
        if said or own is None:
            _put(around, heading, said)
        # A section may have text or a list of its own, and parts besides.
        if own is not None:
            _put(around, heading if not isinstance(around.get(heading), dict) else f"{heading} list", own)
        named = around.get(heading)
        levels.append((depth, named if isinstance(named, dict) else around))
    _add_sessions(found, sessions)
    return {**_without_empty(found), NOTES: text}


# ── titles ───────────────────────────────────────────────────────────────────────────────────────────────


def _name(found: dict[str, Json], heading: str) -> None:
    """A title says what the document is about, and often of which day it is. One word is the project's name."""
    about = _about(heading)
    if about:
        found.setdefault("title" if values.is_prose(about) else "project", about)
    day = _DAY.search(heading)
    if day is not None:
        found.setdefault("date", day[0])


def _about(heading: str) -> str:
    """A heading without dates and without what such documents are called."""
    parts = [part.strip(" ()[]—–-,.#/") for part in _SEPARATOR.split(_DATED.sub("", heading))]
    return ": ".join(part for part in parts if not _GENERIC.fullmatch(part))


def _add_sessions(found: dict[str, Json], sessions: list[tuple[str, dict[str, Json]]]) -> None:
    """Of the sessions in a log, the latest is what the document is about; the others are over."""
    keys = [_key(heading) for heading, _ in sessions]
    latest = _latest(keys)
    previous: dict[str, Json] = {}
    for position, (heading, said) in enumerate(sessions):
        if position in latest:
            _name_session(said, heading)
            if "title" in said and isinstance(found.get("title"), str):
                found.setdefault("project", found.pop("title"))
            _add(found, said)
        else:
            _put(previous, heading, said)
    _put(found, _PREVIOUS, previous)


def _key(heading: str) -> tuple[str, int]:
    named = _SESSION.match(heading)
    day = _DAY.search(heading)
    number = named["number"] if named is not None else None
    return (values.day_of(day[0]) or "" if day is not None else ""), int(number or -1)


def _latest(keys: list[tuple[str, int]]) -> set[int]:
    """Which of these are the latest: by the day where all have one, else by the number."""
    if not keys:
        return set()
    dated = all(day for day, _ in keys)
    order = [(day, number) if dated else ("", number) for day, number in keys]
    highest = max(order)
    best = [position for position, key in enumerate(order) if key == highest]
    if order[best[0]][1] >= 0:
        return set(best)  # parts of one session
    # Several of one day: a log that grows at its end has the latest there.
    return {best[-1] if order[0] < order[-1] else best[0]}


def _name_session(said: dict[str, Json], heading: str) -> None:
    named = _SESSION.match(heading)
    day = _DAY.search(heading)
    about = _about(named["about"]) if named is not None else ""
    if values.is_prose(about):
        said.setdefault("title", about)
    if day is not None:
        said.setdefault("date", day[0])


# ── sections ─────────────────────────────────────────────────────────────────────────────────────────────


def _front_matter(lines: list[str]) -> tuple[dict[str, Json], list[str]]:
    if lines and lines[0].strip() == "---" and "---" in (line.strip() for line in lines[1:]):
        end = next(number for number, line in enumerate(lines) if number and line.strip() == "---")
        with suppress(Invalid):
            value = read_yaml("\n".join(lines[1:end]).encode(), "").value
            return (dict(value) if isinstance(value, dict) else {}), lines[end + 1 :]
    return {}, lines


def _sections(lines: list[str]) -> Iterator[_Section]:
    """Each heading with its depth and the lines below it; code is left out."""
    section = _Section(_TITLE, "", [])
    fence: str | None = None  # what is between fences, as far as they say
    outer, indent = section, -1  # around a list that an entry names, and how far that entry is indented
    for number, line in enumerate(lines):
        if (opened := _FENCE.match(line)) is not None:
            fence = opened[1].lower() if fence is None else None
            continue
        if fence is not None and fence not in ("markdown", "md"):
            continue
        item = _ITEM.match(line)
        if indent >= 0 and item is not None and len(item[1]) <= indent:
            yield section
            section, indent = _Section(outer.depth, outer.heading, []), -1
        if _UNDERLINE.match(line) and _may_be_heading(section.body):
            title = section.body.pop()
            yield section
            section, indent = _Section(_TITLE if "=" in line else 2 * _TITLE, _heading(title), []), -1
        elif _RULE.match(line):
            section.body.append("")
        elif (found := _heading_in(line, lines, number)) is not None:
            yield section
            depth, heading = found
            if item is not None and depth > _LIST_DEPTH:
                outer, indent = (section if indent < 0 else outer), len(item[1])
            else:
                indent = -1
            section = _Section(depth, heading, [])
        else:
            section.body.append(line)
    yield section


def _heading_in(line: str, lines: list[str], number: int) -> tuple[int, str] | None:
    found = _HEADING.match(line)
    if found is not None:
        return len(found[1]) * _TITLE, _heading(found[2])
    item = _ITEM.match(line)
    if item is None and _is_session_line(line):
        return _SESSION_DEPTH, _heading(line)
    said = line.strip() if item is None else item[2]
    named = _LIST_NAME.match(said)
    shouted = item is None and said.isupper() and len(said) <= _SESSION_LINE and ":" not in said
    if named is None and not shouted:
        return None
    below = next((_ITEM.match(after) for after in lines[number + 1 : number + 4] if after.strip()), None)
    if below is None:
        return None
    name = _heading(said if named is None else named["name"])
    if item is None:
        return _LIST_DEPTH, name
    row = row_of(name, ["a b"])
    if len(below[1]) > len(item[1]) and row is not None and row.meaning in _WORK:
        return _LIST_DEPTH + 1, name
    return None


def _is_session_line(line: str) -> bool:
    """Whether a line without markup begins a session: it says so, or it is a day and nothing else."""
    named = _SESSION.match(_plain(line)) if len(line) <= _LONGEST_HEADING and not line[:1].isspace() else None
    return named is not None and (named["number"] is not None or _GENERIC.fullmatch(_DAY.sub("", line)) is not None)


def _may_be_heading(body: list[str]) -> bool:
    """Whether the last of these lines is underlined: one short line of text by itself."""
    if not body or not body[-1].strip() or (len(body) > 1 and body[-2].strip()):
        return False
    line = body[-1]
    return len(line) <= _LONGEST_HEADING and not _ITEM.match(line) and not _CELLS.match(line)


def _heading(text: str) -> str:
    return _plain(text.strip().rstrip("#")).rstrip(":：").strip()


# ── what a section says ──────────────────────────────────────────────────────────────────────────────────


def _content(body: list[str]) -> tuple[dict[str, Json], Json, str]:
    """What is said under labels; the entries of lists and tables, else the text; and the text beside entries."""
    said: dict[str, Json] = {}
    entries: list[list[str] | dict[str, Json]] = []
    text: list[str] = []
    columns: list[str] | None = None
    indent: int | None = None
    last: list[str] | None = None  # the entry that an indented line goes on with
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
        words = (item[2] if item is not None else line).strip().removeprefix(">").strip()
        label = _label(words, _OF_LINES if item is None else _OF_ENTRIES)
        if label is not None and (item is None or not text or entries):
            _put(said, *label)
            last = None
        elif item is not None:
            indent = len(item[1]) if indent is None else indent
            if len(item[1]) <= indent or words.startswith("["):
                last = [_plain(words)]
                entries.append(last)
            else:
                last = None
        elif last is not None and line[:1].isspace() and words:
            last.append(_plain(words))
        elif words and not words.startswith("<!--"):
            text.append(_plain(words))
            last = None
        else:
            last = None
    if entries:
        return said, [" ".join(entry) if isinstance(entry, list) else entry for entry in entries], "\n".join(text)
    return said, "\n".join(text) or None, ""


def _is_remark(label: str, text: Json) -> bool:
    row = row_of(label, text)
    return row is not None and row.meaning in ("note", "decision")


def _label(words: str, meanings: frozenset[Meaning]) -> tuple[str, str] | None:
    """A label and what it says. Without emphasis, it is one only if the table knows what it means."""
    stressed = _LABEL.match(words)
    if stressed is not None:
        return _plain(stressed[1]), _plain(stressed[2])
    plain = _PLAIN_LABEL.match(_plain(words))
    if plain is None or len(words_of(plain[1])) > _LONGEST_LABEL:
        return None
    text = plain[2]
    row = row_of(plain[1], text)
    if row is None and not values.says_something(text):  # "Blocked: none"
        row = next(iter(rows_named(plain[1])), None)
    return (plain[1].strip(), text) if row is not None and row.meaning in meanings else None


def _plain(text: str) -> str:
    return _MARKUP.sub("", text).strip()


def _add(into: dict[str, Json], said: dict[str, Json]) -> None:
    for key, value in said.items():
        _put(into, key, value)


def _put(into: dict[str, Json], key: str, value: Json) -> None:
    """Under a name that may be there already: entries are added, of two facts the first stays."""
    there = into.get(key)
    if value in (None, "", [], {}) and there is not None:
        return
    if there in (None, "", [], {}):
        if value is not None:
            into[key] = value
    elif isinstance(there, dict) and isinstance(value, dict):
        _add(there, value)
    elif isinstance(there, dict) or isinstance(value, dict):
        _put(into, f"{key} list", value)
    elif isinstance(there, list):
        there.extend(value if isinstance(value, list) else [value])
    elif row_of(key, both := [there, *(value if isinstance(value, list) else [value])]) is not None:
        into[key] = both


def _without_empty(value: dict[str, Json]) -> dict[str, Json]:
    return {
        key: _without_empty(entry) if isinstance(entry, dict) else entry
        for key, entry in value.items()
        if entry not in ({}, [], "")
    }
