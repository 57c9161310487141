"""Recover every complete document from the bytes of a damaged file.

A torn document and the whole one that follows it without a break read as one until quotes or brackets no longer
match, which may be far behind the boundary: `DocumentSplitter` finds it. Of YAML, as many lines from the first on are
kept as still parse; where they end is found by bisection, with a limit on the text parsed in all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.base import FormatNote
from holdfast.formats.recovery.json import STEP, RepairedJson, add_rest, document_opening, repair_json
from holdfast.formats.recovery.json_scalars import Remark
from holdfast.formats.recovery.text import Layer, is_mojibake, unwrap
from holdfast.formats.text.nodes import MAX_PARTS
from holdfast.formats.text.read import LIMIT, read_json, read_lines, read_yaml

_MAX_TRIED: Final = 32
_LOOKAHEAD: Final = 1000
_DECODER: Final = json.JSONDecoder()
# Text that ends where an object begins with its first key.
_INTO_AN_OBJECT: Final = re.compile(r'\{\s{0,99}"\Z')


class DocumentSplitter:
    """Finds whole documents that follow a torn one without a break.

    In valid JSON no text ends right before a key, and no object appears where a key or a comma must. Where one seems
    to, it is the next document.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _MAX_TRIED

    def at(self, start: int, end: int) -> int | None:
        """Where the next one begins within what was taken for a single document; None when there is none."""
        previous_opening = document_opening(self._text, start)
        first = True
        for at in self._out_of_place(start, end):
            if self._left <= 0:
                return None
            if first or (previous_opening is not None and self._text.startswith(previous_opening, at)):
                self._left -= 1
                if _is_whole(self._text, at):
                    return at
            first = False
        return None

    def _out_of_place(self, start: int, end: int) -> Iterator[int]:
        """Positions where an object begins although none can."""
        level: list[str] = []
        for match in STEP.finditer(self._text, start, end):
            step = match[0]
            if step[0] == '"':
                begins = _INTO_AN_OBJECT.search(step)
                if begins is not None:
                    yield match.start() + begins.start()
            elif step in "]}":
                if level:
                    level.pop()
            else:
                before = self._before(match.start(), start)
                if level and step == "{" and (before not in ",:[" or (before == "," and level[-1] == "{")):
                    yield match.start()
                level.append(step)

    def _before(self, at: int, start: int) -> str:
        """The last character before a position that is not blank."""
        at -= 1
        while at > start and self._text[at] in " \t\r\n":
            at -= 1
        return self._text[at]


def _is_whole(text: str, at: int) -> bool:
    """Is there a whole object here, followed by nothing or another one?"""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return False
    return bool(value) and text[end : end + _LOOKAHEAD].lstrip("\0 \t\r\n")[:1] in ("", "{")


_MAX_NOTES: Final = 100
_BETWEEN: Final = re.compile(r"[\s\0,\ufeff]*")
_AT_THE_MARGIN: Final = re.compile(r"^[{\[]", re.MULTILINE)


# YAML's document separator, and lines without content.
_DOCUMENT: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_NOTHING: Final = re.compile(r"^(?:---|\.\.\.)?[ \t\r]*(?:#.*)?\n?", re.MULTILINE)


class RecoveredDocument(NamedTuple):
    """What is left of a file. `value` is the document that counts, `documents` are all, in order."""

    value: Json | None
    documents: list[Json]
    notes: list[FormatNote]
    # The file is intact.
    whole: bool
    # The first byte that is lost; None when nothing is.
    lost_from: int | None


class _Piece(NamedTuple):
    """One document of a file and its position."""

    start: int
    json: RepairedJson


def recover_document(raw: bytes, path: str = "") -> RecoveredDocument:
    """Everything complete in the bytes of a file. Raises `Invalid` only when there are too many of them."""
    if len(raw) > LIMIT:
        raise Invalid(
            f"it has more than {LIMIT >> 20} MiB", hint=f"The limit is {LIMIT >> 20} MiB.", file=path or None
        )
    intact = _read_intact(raw, path)
    if intact is not None:
        return intact
    layer = unwrap(raw)
    report = _Report(raw, layer)
    result = _from_yaml(layer, report) if _is_yaml(layer.text, path) else _from_json(layer, report)
    return result if result.notes else result._replace(notes=[FormatNote((), _strict_error(raw, path))])


# ── intact files ─────────────────────────────────────────────────────────────────────────────────────────


def _read_intact(raw: bytes, path: str) -> RecoveredDocument | None:
    head = raw[:200].removeprefix(b"\xef\xbb\xbf").lstrip()
    try:
        if head[:1] in (b"{", b"["):
            read = read_json(raw, path)
        elif _is_yaml(head.decode("utf-8", "replace"), path):
            read = read_yaml(raw, path)
        else:
            return None
    except Invalid:
        return _read_intact_lines(raw, path) if head[:1] == b"{" else None
    if not isinstance(read.value, (dict, list)) or is_mojibake(raw.decode()):
        return None
    notes = read.notes
    if head[:1] not in (b"{", b"[") and not raw.endswith(b"\n"):
        notes = [*notes, FormatNote((), "its last line has no line end and may be cut off")]
    return RecoveredDocument(read.value, [read.value], notes, whole=True, lost_from=None)


def _strict_error(raw: bytes, path: str) -> str:
    """Why the strict reader refuses a text of which nothing is lost."""
    try:
        read_json(raw, path)
    except Invalid as error:
        return error.message
    return "it is not a valid document"


def _read_intact_lines(raw: bytes, path: str) -> RecoveredDocument | None:
    documents: list[Json] = []
    notes: list[FormatNote] = []
    for _, read in read_lines(raw, path):
        if isinstance(read, Invalid) or not isinstance(read.value, dict):
            return None
        documents.append(read.value)
        notes = read.notes
    if is_mojibake(raw.decode()):
        return None
    return RecoveredDocument(documents[-1], documents, notes, whole=True, lost_from=None) if documents else None


def _is_yaml(text: str, path: str) -> bool:
    if text.lstrip()[:1] in ("{", "["):
        return False
    return path.lower().endswith((".yaml", ".yml")) or looks_like_yaml(text)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────


def _from_json(layer: Layer, report: _Report) -> RecoveredDocument:
    pieces = _split_pieces(layer.text, report)
    with_content = [piece for piece in pieces if piece.json.has_content]
    if not with_content:
        report.lose(0, "no field in it is complete")
        return report.build(None, [])
    several = len(with_content) > 1
    for number, piece in enumerate(with_content):
        report.piece(piece, (number,) if several else ())
    chosen = _choose_piece(with_content)
    if several and chosen is not with_content[-1]:
        report.note(chosen.start, f"{len(with_content)} documents in one file: the one that begins here counts")
    elif several:
        report.note(chosen.start, f"{len(with_content)} documents in one file: the last one counts")
    return report.build(chosen.json.value, [piece.json.value for piece in with_content])


def _choose_piece(pieces: list[_Piece]) -> _Piece:
    """The last whole one, else the longest."""
    whole_pieces = [piece for piece in pieces if piece.json.whole and piece.json.lost_from is None]
    return whole_pieces[-1] if whole_pieces else max(pieces, key=lambda piece: piece.json.end - piece.start)


def _split_pieces(text: str, report: _Report) -> list[_Piece]:
    """The documents of a text, one after the other."""
    pieces: list[_Piece] = []
    position = 0
    previous_opening: str | None = None
    zeros_at = text.find("\0")
    splitter = DocumentSplitter(text)
    while len(pieces) < MAX_PARTS:
        between = _BETWEEN.match(text, position)
        assert between is not None
        position = between.end()
        if position >= len(text):
            break
        if text[position] in "{[":
            if 0 <= zeros_at < position:
                zeros_at = text.find("\0", position)
            piece = _Piece(position, _split_off_next(text, position, zeros_at, previous_opening, splitter))
            pieces.append(piece)
            previous_opening = document_opening(text, pieces[0].start)
            position = max(piece.json.end, position + 1)
            continue
        following = _next_candidates(text, position)
        if not pieces and (tail := _repair_tail(text, position, following)) is not None:
            pieces.append(tail)
        elif pieces and pieces[-1].json.whole:
            report.note(position, "the rest of an older, longer text was ignored")
        else:
            report.lose(position, "this belongs to no document")
        position = following
    return pieces


def _next_candidates(text: str, position: int) -> int:
    """Where the next document may begin: at the beginning of a line."""
    match = _AT_THE_MARGIN.search(text, position + 1)
    return len(text) if match is None else match.start()


def _split_off_next(
    text: str, start: int, zeros_at: int, previous_opening: str | None, splitter: DocumentSplitter
) -> RepairedJson:
    """A document, up to a whole one that follows it without a break."""
    repaired = _repair_around_zeros(text, start, zeros_at, previous_opening)
    if repaired.whole and repaired.lost_from is None:
        return repaired
    at = splitter.at(start, repaired.end)
    return repaired if at is None else repair_json(text, start, at, previous_opening)


def _repair_around_zeros(text: str, start: int, zeros_at: int, previous_opening: str | None) -> RepairedJson:
    """A document with zeros in it: after them, only entries of its level can be used."""
    if zeros_at < 0:
        return repair_json(text, start, len(text), previous_opening)
    first = repair_json(text, start, zeros_at, previous_opening)
    if first.end < zeros_at or not isinstance(first.value, (dict, list)):
        return first
    end = _next_candidates(text, zeros_at)
    after = text.rfind("\0", zeros_at, end) + 1
    rest = add_rest(text, after, end, first.value)
    lost = first.lost_from if first.lost_from is not None else zeros_at
    remark = Remark((), zeros_at, "there are zeros here instead of text", lost=True)
    if not (rest.whole or rest.has_content):
        return first._replace(end=end, remarks=[*first.remarks, remark], lost_from=lost, whole=False)
    remarks = [*first.remarks, remark, *(remark for remark in rest.remarks if remark.at > after)]
    return RepairedJson(rest.value, rest.end, rest.whole, remarks, lost, first.has_content or rest.has_content)


def _repair_tail(text: str, position: int, end: int) -> _Piece | None:
    """The end of a document whose beginning is lost."""
    rest = add_rest(text, position, end, {})
    if not rest.has_content:
        return None
    remark = Remark((), position, "the beginning is missing", lost=True)
    return _Piece(position, rest._replace(remarks=[remark, *rest.remarks[1:]], lost_from=position))


# ── YAML ─────────────────────────────────────────────────────────────────────────────────────────────────


def _from_yaml(layer: Layer, report: _Report) -> RecoveredDocument:
    zeros = layer.text.find("\0")
    text = layer.text if zeros < 0 else layer.text[: layer.text.rfind("\n", 0, zeros) + 1]
    marks = [parsed.start() for parsed in _DOCUMENT.finditer(text)] if _DOCUMENT.search(text, 1) else []
    starts = sorted({0, *marks})
    parts: list[tuple[int, ParsedLines]] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        if not _NOTHING.sub("", part):
            continue
        parsed = lines_that_parse(part)
        if parsed is None:
            report.lose(start, "not even its first lines are YAML")
            continue
        parts.append((start, parsed))
        if not parsed.whole or (zeros >= 0 and end == len(text)):
            report.lose(start + parsed.characters, "the rest is not YAML")
    if not parts:
        return report.build(None, [])
    whole_parts = [line for line in parts if line[1].whole]
    chosen = whole_parts[-1] if whole_parts else max(parts, key=lambda item: item[1].characters)
    if len(parts) > 1:
        which = "the last one counts" if chosen is parts[-1] else "the one that begins here counts"
        report.note(chosen[0], f"{len(parts)} documents in one file: {which}")
    return report.build(chosen[1].value, [parsed.value for _, parsed in parts])


# Bytes parsed in all: the parser reads some hundred thousand per second.
_EFFORT: Final = 2 << 20
_EMPTY_STREAM: Final = 2  # start and end of the stream
# Each empty line matches in one way only: with two, the time would grow exponentially.
_LIKE_YAML: Final = re.compile(
    r"(?:[^\S\n]*(?:#[^\n]*)?\n)*(?:---|- |[A-Za-z_][A-Za-z0-9_ -]{0,60}:(?:[ \t]|\r?\n|\Z))", re.ASCII
)


class ParsedLines(NamedTuple):
    """The value of the first `characters`, and whether that is the whole text."""

    value: Json
    characters: int
    whole: bool


def looks_like_yaml(text: str) -> bool:
    return _LIKE_YAML.match(text) is not None


def is_yaml(raw: bytes) -> bool:
    """Is it valid YAML of any kind, with anchors, tags, several documents? Nothing is built from it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = raw.decode("utf-8-sig", "replace")
    if len(text) > _EFFORT:
        return True
    try:
        return sum(1 for _ in YAML(typ="safe", pure=True).parse(text)) > _EMPTY_STREAM and "\ufffd" not in text
    except (YAMLError, ValueError, IndexError, AttributeError, AssertionError, TypeError, KeyError, RecursionError):
        return False  # bugs of the parser on nonsense


def lines_that_parse(text: str) -> ParsedLines | None:
    """The longest run of first lines that parses; None when there is none."""
    ends = [match.end() for match in re.finditer(r"\n", text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    effort = _EFFORT
    best: ParsedLines | None = None
    low, high = 0, len(ends)  # how many lines parse for certain, and how many may
    while low < high and effort > 0:
        # All of it first; then halves.
        attempt = high if high == len(ends) and best is None and effort == _EFFORT else (low + high + 1) // 2
        end = ends[attempt - 1]
        effort -= end
        value = _parsed(text[:end])
        if value is None:
            high = attempt - 1
        else:
            best = ParsedLines(value, end, attempt == len(ends))
            low = attempt
    return best


def _parsed(text: str) -> dict[str, Json] | list[Json] | None:
    try:
        value = read_yaml(text.encode("utf-8", "replace"), "").value
    except Invalid:
        return None
    return value if isinstance(value, (dict, list)) and value else None


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────


class _Report:
    """Notes and the first loss, by byte and line of the file."""

    def __init__(self, raw: bytes, layer: Layer) -> None:
        self._raw = raw
        self._layer = layer
        self._notes = [FormatNote((), note) for note in layer.notes]
        self._left_out = 0
        self._lost_from: int | None = None

    def piece(self, piece: _Piece, place: tuple[int, ...]) -> None:
        for remark in piece.json.remarks:
            self.note(remark.at, remark.message, (*place, *remark.place), lost=remark.lost)
        lost = piece.json.lost_from
        if lost is None:
            return
        if self._lost_from is None or len(self._notes) < _MAX_NOTES:
            self._lose(self._layer.byte(lost))
        if not piece.json.whole:
            self.lose(lost, "the text breaks off here; the rest is lost", place)

    def lose(self, position: int, message: str, place: tuple[int, ...] = ()) -> None:
        self.note(position, message, place, lost=True)

    def note(self, position: int, message: str, place: tuple[str | int, ...] = (), *, lost: bool = False) -> None:
        if len(self._notes) >= _MAX_NOTES:
            self._left_out += 1
            return
        byte = self._layer.byte(position)
        if lost:
            self._lose(byte)
        line = self._raw.count(b"\n", 0, byte) + 1
        self._notes.append(FormatNote(place, f"{message} (byte {byte:,}, line {line:,})"))

    def _lose(self, byte: int) -> None:
        self._lost_from = byte if self._lost_from is None else min(byte, self._lost_from)

    def build(self, value: Json, documents: list[Json]) -> RecoveredDocument:
        if self._left_out:
            self._notes.append(FormatNote((), f"and {self._left_out:,} more such notes"))
        return RecoveredDocument(value, documents, self._notes, whole=False, lost_from=self._lost_from)
