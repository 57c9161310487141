"""Read notes in Markdown or plain text as data: headings are keys, lists are lists, tables are lists of objects,
`Label: text` is a pair.

Handovers between sessions are often written like this. Nothing is refused, and the text itself is kept with the data,
because markup, code and the order of paragraphs say more than keys can. The table of keys also decides what is a
label.
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
# `：` is the full-width colon, which needs no space after it.
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
# The heading of a session in a log: number, date, subject.
_SESSION: Final = re.compile(
    rf"\W*(?:session\b[\s#:—–-]*(?=\d|{values.DAY})(?P<number>\d{{1,4}}\b(?!-\d\d))?|(?={values.DAY}))(?P<about>.*)\Z",
    re.IGNORECASE,
)
_MAX_SESSION_LINE_LENGTH: Final = 60  # characters
_DAY: Final = re.compile(values.DAY)
_DATED: Final = re.compile(rf"{values.DAY}(?:[T ,]+\d\d:\d\d(?::\d\d)?Z?)?")
# Words of generic titles: a title of these alone says nothing about the work.
_GENERIC: Final = re.compile(
    r"(?:(?:claude|code|ai|agent|coding|session|hand-?(?:off|over)|progress|state|status|notes?|log|report|summary|"
    r"track(?:ing|er)|file|document|current|for|active|context|memory|bank|next|previous|latest|last|today|prompt|"
    r"guide|to-?do|tasks?|list|checklist|plan|project|development|dev|work|working|update|overview|checkpoint|"
    r"resume|resumption|continuation|start|here|continued|part)\b|[\W\d_])*",
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(r"\s*[:|]\s+|\s+[-–—]+\s+|\s+for\s+(?=\S)", re.IGNORECASE)
# Labels that count within an entry of a list.
_OF_ENTRIES: Final = frozenset[Meaning]((
    "done", "doing", "to do", "blocked", "branch", "commit", "status", "progress", "began", "updated",
))  # fmt: skip
_OF_LINES: Final = _OF_ENTRIES | frozenset[Meaning]((
    "goal", "decision", "note", "summary", "id", "model", "scope", "worked", "project",
))  # fmt: skip
_WORK: Final = frozenset[Meaning](("done", "doing", "to do", "blocked"))
_MAX_LABEL_WORDS: Final = 4  # words
_MAX_HEADING_LENGTH: Final = 80  # characters


class _Section(NamedTuple):
    """A heading with the lines below it. The depth of `##` is 20, which leaves room for other headings."""

    depth: int
    heading: str
    body: list[str]


_TITLE: Final = 10
_SESSION_DEPTH: Final = 15
_LIST_DEPTH: Final = 70


def outline(text: str) -> dict[str, Json]:
    """Notes in Markdown or plain text as data, by heading."""
    document, lines = _front_matter(text.splitlines())
    levels: list[tuple[int, dict[str, Json]]] = [(0, document)]
    sessions: list[tuple[str, dict[str, Json]]] = []
    untitled = True
    for depth, heading, body in _sections(lines):
        while depth <= levels[-1][0]:
            levels.pop()
        parent = levels[-1][1]
        labelled, content, text_around = _content(body)
        if not heading or (depth == _TITLE and untitled and not _SESSION.match(heading)):
            untitled = untitled and not heading
            _name_document(document, heading)
            _add_fields(document, labelled)
            _put_field(document, "overview" if isinstance(content, str) else heading or "list", content)
            continue
        untitled = False
        if parent is document and _SESSION.match(heading):
            _put_field(labelled, "overview" if isinstance(content, str) else "notes", content)
            sessions.append((heading, labelled))
            levels.append((depth, labelled))
            continue
        if isinstance(content, list):
            for label in [label for label, value in labelled.items() if _is_remark(label, value)]:
                _put_field(parent, label, labelled.pop(label))  # it follows the list and is not an entry
        if text_around and not any(row.keys != "*" for row in rows_named(heading)):
            _put_field(parent, "notes", text_around)
        if labelled or content is None:
            _put_field(parent, heading, labelled)
        # A section may have text or a list, and also subsections.
        if content is not None:
            _put_field(parent, heading if not isinstance(parent.get(heading), dict) else f"{heading} list", content)
        named = parent.get(heading)
        levels.append((depth, named if isinstance(named, dict) else parent))
    _add_sessions(document, sessions)
    return {**_without_empty(document), NOTES: text}


# ── titles ───────────────────────────────────────────────────────────────────────────────────────────────


def _name_document(document: dict[str, Json], heading: str) -> None:
    """Take subject and date from a title; a single word is the project's name."""
    about = _subject(heading)
    if about:
        document.setdefault("title" if values.is_prose(about) else "project", about)
    day = _DAY.search(heading)
    if day is not None:
        document.setdefault("date", day[0])


def _subject(heading: str) -> str:
    """A heading without dates and generic words."""
    parts = [part.strip(" ()[]—–-,.#/") for part in _SEPARATOR.split(_DATED.sub("", heading))]
    return ": ".join(part for part in parts if not _GENERIC.fullmatch(part))


def _add_sessions(document: dict[str, Json], sessions: list[tuple[str, dict[str, Json]]]) -> None:
    """Add the latest session of a log to the document, and the others as previous ones."""
    keys = [_key(heading) for heading, _ in sessions]
    latest = _latest(keys)
    previous: dict[str, Json] = {}
    for position, (heading, fields) in enumerate(sessions):
        if position in latest:
            _name_session(fields, heading)
            if "title" in fields and isinstance(document.get("title"), str):
                document.setdefault("project", document.pop("title"))
            _add_fields(document, fields)
        else:
            _put_field(previous, heading, fields)
    _put_field(document, _PREVIOUS, previous)


def _key(heading: str) -> tuple[str, int]:
    named = _SESSION.match(heading)
    day = _DAY.search(heading)
    number = named["number"] if named is not None else None
    return (values.day_of(day[0]) or "" if day is not None else ""), int(number or -1)


def _latest(keys: list[tuple[str, int]]) -> set[int]:
    """Positions of the latest sessions: by date if all have one, else by number."""
    if not keys:
        return set()
    dated = all(day for day, _ in keys)
    order = [(day, number) if dated else ("", number) for day, number in keys]
    highest = max(order)
    best = [position for position, key in enumerate(order) if key == highest]
    if order[best[0]][1] >= 0:
        return set(best)  # parts of one session
    # Several on one day: a log that grows downwards has the latest at its end.
    return {best[-1] if order[0] < order[-1] else best[0]}


def _name_session(fields: dict[str, Json], heading: str) -> None:
    named = _SESSION.match(heading)
    day = _DAY.search(heading)
    about = _subject(named["about"]) if named is not None else ""
    if values.is_prose(about):
        fields.setdefault("title", about)
    if day is not None:
        fields.setdefault("date", day[0])


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
    fence: str | None = None  # the language of the current code block
    outer, indent = section, -1  # the section around a list named by an entry, and that entry's indent
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
        elif (titled := _heading_in(line, lines, number)) is not None:
            yield section
            depth, heading = titled
            if item is not None and depth > _LIST_DEPTH:
                outer, indent = (section if indent < 0 else outer), len(item[1])
            else:
                indent = -1
            section = _Section(depth, heading, [])
        else:
            section.body.append(line)
    yield section


def _heading_in(line: str, lines: list[str], number: int) -> tuple[int, str] | None:
    match = _HEADING.match(line)
    if match is not None:
        return len(match[1]) * _TITLE, _heading(match[2])
    item = _ITEM.match(line)
    if item is None and _is_session_line(line):
        return _SESSION_DEPTH, _heading(line)
    text = line.strip() if item is None else item[2]
    named = _LIST_NAME.match(text)
    in_capitals = item is None and text.isupper() and len(text) <= _MAX_SESSION_LINE_LENGTH and ":" not in text
    if named is None and not in_capitals:
        return None
    below = next((_ITEM.match(after) for after in lines[number + 1 : number + 4] if after.strip()), None)
    if below is None:
        return None
    name = _heading(text if named is None else named["name"])
    if item is None:
        return _LIST_DEPTH, name
    row = row_of(name, ["a b"])
    if len(below[1]) > len(item[1]) and row is not None and row.meaning in _WORK:
        return _LIST_DEPTH + 1, name
    return None


def _is_session_line(line: str) -> bool:
    """Does a line without markup begin a session? It says so, or is just a date."""
    named = _SESSION.match(_plain(line)) if len(line) <= _MAX_HEADING_LENGTH and not line[:1].isspace() else None
    return named is not None and (named["number"] is not None or _GENERIC.fullmatch(_DAY.sub("", line)) is not None)


def _may_be_heading(body: list[str]) -> bool:
    """Can the last of these lines be an underlined heading? It must be one short line by itself."""
    if not body or not body[-1].strip() or (len(body) > 1 and body[-2].strip()):
        return False
    line = body[-1]
    return len(line) <= _MAX_HEADING_LENGTH and not _ITEM.match(line) and not _CELLS.match(line)


def _heading(text: str) -> str:
    return _plain(text.strip().rstrip("#")).rstrip(":：").strip()


# ── the content of a section ─────────────────────────────────────────────────────────────────────────────


def _content(body: list[str]) -> tuple[dict[str, Json], Json, str]:
    """Labelled texts; entries of lists and tables, else the text; and the text around entries."""
    labelled: dict[str, Json] = {}
    entries: list[list[str] | dict[str, Json]] = []
    text: list[str] = []
    columns: list[str] | None = None
    indent: int | None = None
    last: list[str] | None = None  # the entry that an indented line continues
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
            _put_field(labelled, *label)
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
        return labelled, [" ".join(entry) if isinstance(entry, list) else entry for entry in entries], "\n".join(text)
    return labelled, "\n".join(text) or None, ""


def _is_remark(label: str, text: Json) -> bool:
    row = row_of(label, text)
    return row is not None and row.meaning in ("note", "decision")


def _label(words: str, meanings: frozenset[Meaning]) -> tuple[str, str] | None:
    """A label and its text. Without emphasis, it counts only if the table knows it."""
    stressed = _LABEL.match(words)
    if stressed is not None:
        return _plain(stressed[1]), _plain(stressed[2])
    plain = _PLAIN_LABEL.match(_plain(words))
    if plain is None or len(words_of(plain[1])) > _MAX_LABEL_WORDS:
        return None
    text = plain[2]
    row = row_of(plain[1], text)
    if row is None and not values.has_content(text):  # "Blocked: none"
        row = next(iter(rows_named(plain[1])), None)
    return (plain[1].strip(), text) if row is not None and row.meaning in meanings else None


def _plain(text: str) -> str:
    return _MARKUP.sub("", text).strip()


def _add_fields(into: dict[str, Json], fields: dict[str, Json]) -> None:
    for key, value in fields.items():
        _put_field(into, key, value)


def _put_field(into: dict[str, Json], key: str, value: Json) -> None:
    """Set a key that may exist: entries are appended, of two facts the first stays."""
    present = into.get(key)
    if value in (None, "", [], {}) and present is not None:
        return
    if present in (None, "", [], {}):
        if value is not None:
            into[key] = value
    elif isinstance(present, dict) and isinstance(value, dict):
        _add_fields(present, value)
    elif isinstance(present, dict) or isinstance(value, dict):
        _put_field(into, f"{key} list", value)
    elif isinstance(present, list):
        present.extend(value if isinstance(value, list) else [value])
    elif row_of(key, both := [present, *(value if isinstance(value, list) else [value])]) is not None:
        into[key] = both


def _without_empty(value: dict[str, Json]) -> dict[str, Json]:
    return {
        key: _without_empty(entry) if isinstance(entry, dict) else entry
        for key, entry in value.items()
        if entry not in ({}, [], "")
    }
