"""Where a torn document and a whole one were written one after the other without a break: the place between them.

The text of both reads as one document until its quotes or brackets no longer fit, which may be far behind that place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.formats.base import FormatNote
from holdfast.formats.recovery.json import STEP, Mended, mended, opening, rest_of
from holdfast.formats.recovery.json_scalars import Remark
from holdfast.formats.recovery.text import Layer, is_read_wrongly, unwrapped
from holdfast.formats.recovery.yaml import ParsedLines, lines_that_parse, looks_like_yaml
from holdfast.formats.text.read import LIMIT, read_json, read_lines, read_yaml
from holdfast.formats.text.yaml_nodes import MOST_PARTS

_MOST_TRIED: Final = 32
_NEAR: Final = 1000
_DECODER: Final = json.JSONDecoder()
# Text that ends where an object begins with its first key.
_INTO_AN_OBJECT: Final = re.compile(r'\{\s{0,99}"\Z')


class Gluing:
    """Whole documents that follow a torn one without a break, looked for in one file.

    In sound JSON no text ends in front of a key, and no object stands where a key or a comma must. Where one seems
    to, it is the next document.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _MOST_TRIED

    def at(self, start: int, end: int) -> int | None:
        """Where one begins in what was taken for a single document; None when none does."""
        alike = opening(self._text, start)
        first = True
        for at in self._out_of_place(start, end):
            if self._left <= 0:
                return None
            if first or (alike is not None and self._text.startswith(alike, at)):
                self._left -= 1
                if _is_whole(self._text, at):
                    return at
            first = False
        return None

    def _out_of_place(self, start: int, end: int) -> Iterator[int]:
        """Where an object begins and none can."""
        level: list[str] = []
        for found in STEP.finditer(self._text, start, end):
            step = found[0]
            if step[0] == '"':
                begins = _INTO_AN_OBJECT.search(step)
                if begins is not None:
                    yield found.start() + begins.start()
            elif step in "]}":
                if level:
                    level.pop()
            else:
                before = self._before(found.start(), start)
                if level and step == "{" and (before not in ",:[" or (before == "," and level[-1] == "{")):
                    yield found.start()
                level.append(step)

    def _before(self, at: int, start: int) -> str:
        """The last character before a place that says something."""
        at -= 1
        while at > start and self._text[at] in " \t\r\n":
            at -= 1
        return self._text[at]


def _is_whole(text: str, at: int) -> bool:
    """Does a whole object stand here, and after it nothing or another one?"""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return False
    return bool(value) and text[end : end + _NEAR].lstrip("\0 \t\r\n")[:1] in ("", "{")


_MOST_NOTES: Final = 100
_BETWEEN: Final = re.compile(r"[\s\0,\ufeff]*")
_AT_THE_MARGIN: Final = re.compile(r"^[{\[]", re.MULTILINE)


# YAML's own line between documents, and lines that hold none.
_DOCUMENT: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_NOTHING: Final = re.compile(r"^(?:---|\.\.\.)?[ \t\r]*(?:#.*)?\n?", re.MULTILINE)


class Recovered(NamedTuple):
    """What is left of a file. `value` is the document that counts, `documents` all there are, in order."""

    value: Json | None
    documents: list[Json]
    notes: list[FormatNote]
    # Nothing is wrong with it: it reads as it stands.
    whole: bool
    # The byte from which on something is lost; None when nothing is.
    lost_from: int | None


class _Piece(NamedTuple):
    """One document of a file, and where it stands."""

    start: int
    found: Mended


def recovered(raw: bytes, path: str = "") -> Recovered:
    """Everything complete in the bytes of a file. Raises `Invalid` only when there are too many of them."""
    if len(raw) > LIMIT:
        raise Invalid(
            f"there are more than {LIMIT >> 20} MiB of it", hint=f"The limit is {LIMIT >> 20} MiB.", file=path or None
        )
    sound = _sound(raw, path)
    if sound is not None:
        return sound
    layer = unwrapped(raw)
    report = _Report(raw, layer)
    found = _from_yaml(layer, report) if _is_yaml(layer.text, path) else _from_json(layer, report)
    return found if found.notes else found._replace(notes=[FormatNote((), _complaint(raw, path))])


# ── as it stands ─────────────────────────────────────────────────────────────────────────────────────────


def _sound(raw: bytes, path: str) -> Recovered | None:
    head = raw[:200].removeprefix(b"\xef\xbb\xbf").lstrip()
    try:
        if head[:1] in (b"{", b"["):
            read = read_json(raw, path)
        elif _is_yaml(head.decode("utf-8", "replace"), path):
            read = read_yaml(raw, path)
        else:
            return None
    except Invalid:
        return _sound_lines(raw, path) if head[:1] == b"{" else None
    if not isinstance(read.value, (dict, list)) or is_read_wrongly(raw.decode()):
        return None
    notes = read.notes
    if head[:1] not in (b"{", b"[") and not raw.endswith(b"\n"):
        notes = [*notes, FormatNote((), "its last line has no end, and may be cut")]
    return Recovered(read.value, [read.value], notes, whole=True, lost_from=None)


def _complaint(raw: bytes, path: str) -> str:
    """What the strict reader has against a text of which nothing is lost."""
    try:
        read_json(raw, path)
    except Invalid as error:
        return error.message
    return "it is not a document as it stands"


def _sound_lines(raw: bytes, path: str) -> Recovered | None:
    documents: list[Json] = []
    notes: list[FormatNote] = []
    for _, read in read_lines(raw, path):
        if isinstance(read, Invalid) or not isinstance(read.value, dict):
            return None
        documents.append(read.value)
        notes = read.notes
    if is_read_wrongly(raw.decode()):
        return None
    return Recovered(documents[-1], documents, notes, whole=True, lost_from=None) if documents else None


def _is_yaml(text: str, path: str) -> bool:
    if text.lstrip()[:1] in ("{", "["):
        return False
    return path.lower().endswith((".yaml", ".yml")) or looks_like_yaml(text)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────


def _from_json(layer: Layer, report: _Report) -> Recovered:
    pieces = _pieces(layer.text, report)
    told = [piece for piece in pieces if piece.found.found]
    if not told:
        report.lose(0, "nothing in it is complete")
        return report.made(None, [])
    several = len(told) > 1
    for number, piece in enumerate(told):
        report.piece(piece, (number,) if several else ())
    chosen = _chosen(told)
    if several and chosen is not told[-1]:
        report.say(chosen.start, f"{len(told)} documents in one file: the one that begins here counts")
    elif several:
        report.say(chosen.start, f"{len(told)} documents in one file: the last one counts")
    return report.made(chosen.found.value, [piece.found.value for piece in told])


def _chosen(pieces: list[_Piece]) -> _Piece:
    """The last whole one, else the longest."""
    whole = [piece for piece in pieces if piece.found.whole and piece.found.lost_from is None]
    return whole[-1] if whole else max(pieces, key=lambda piece: piece.found.end - piece.start)


def _pieces(text: str, report: _Report) -> list[_Piece]:
    """The documents of a text, end to end."""
    pieces: list[_Piece] = []
    position = 0
    alike: str | None = None
    hole = text.find("\0")
    gluing = Gluing(text)
    while len(pieces) < MOST_PARTS:
        between = _BETWEEN.match(text, position)
        assert between is not None
        position = between.end()
        if position >= len(text):
            break
        if text[position] in "{[":
            if 0 <= hole < position:
                hole = text.find("\0", position)
            piece = _Piece(position, _not_glued(text, position, hole, alike, gluing))
            pieces.append(piece)
            alike = opening(text, pieces[0].start)
            position = max(piece.found.end, position + 1)
            continue
        following = _following(text, position)
        if not pieces and (torn := _without_beginning(text, position, following)) is not None:
            pieces.append(torn)
        elif pieces and pieces[-1].found.whole:
            report.say(position, "the rest of an older, longer text was ignored")
        else:
            report.lose(position, "what stands here belongs to nothing")
        position = following
    return pieces


def _following(text: str, position: int) -> int:
    """Where the next document may begin: at the beginning of a line."""
    found = _AT_THE_MARGIN.search(text, position + 1)
    return len(text) if found is None else found.start()


def _not_glued(text: str, start: int, hole: int, alike: str | None, gluing: Gluing) -> Mended:
    """A document; where it was torn within text and a whole one follows at once, up to there."""
    found = _with_hole(text, start, hole, alike)
    if found.whole and found.lost_from is None:
        return found
    at = gluing.at(start, found.end)
    return found if at is None else mended(text, start, at, alike)


def _with_hole(text: str, start: int, hole: int, alike: str | None) -> Mended:
    """A document, with the zeros in it passed over: of what follows them, entries of its own level are known."""
    if hole < 0:
        return mended(text, start, len(text), alike)
    first = mended(text, start, hole, alike)
    if first.end < hole or not isinstance(first.value, (dict, list)):
        return first
    end = _following(text, hole)
    after = text.rfind("\0", hole, end) + 1
    rest = rest_of(text, after, end, first.value)
    lost = first.lost_from if first.lost_from is not None else hole
    remark = Remark((), hole, "zeros stand here instead of text", lost=True)
    if not (rest.whole or rest.found):
        return first._replace(end=end, remarks=[*first.remarks, remark], lost_from=lost, whole=False)
    remarks = [*first.remarks, remark, *(remark for remark in rest.remarks if remark.at > after)]
    return Mended(rest.value, rest.end, rest.whole, remarks, lost, first.found or rest.found)


def _without_beginning(text: str, position: int, end: int) -> _Piece | None:
    """The end of a document whose beginning is gone."""
    rest = rest_of(text, position, end, {})
    if not rest.found:
        return None
    remark = Remark((), position, "the beginning is missing", lost=True)
    return _Piece(position, rest._replace(remarks=[remark, *rest.remarks[1:]], lost_from=position))


# ── YAML ─────────────────────────────────────────────────────────────────────────────────────────────────


def _from_yaml(layer: Layer, report: _Report) -> Recovered:
    zeros = layer.text.find("\0")
    text = layer.text if zeros < 0 else layer.text[: layer.text.rfind("\n", 0, zeros) + 1]
    marks = [found.start() for found in _DOCUMENT.finditer(text)] if _DOCUMENT.search(text, 1) else []
    starts = sorted({0, *marks})
    told: list[tuple[int, ParsedLines]] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        if not _NOTHING.sub("", part):
            continue
        found = lines_that_parse(part)
        if found is None:
            report.lose(start, "not even its first lines are YAML")
            continue
        told.append((start, found))
        if not found.whole or (zeros >= 0 and end == len(text)):
            report.lose(start + found.characters, "from here on it is no longer YAML")
    if not told:
        return report.made(None, [])
    whole = [line for line in told if line[1].whole]
    chosen = whole[-1] if whole else max(told, key=lambda one: one[1].characters)
    if len(told) > 1:
        which = "the last one counts" if chosen is told[-1] else "the one that begins here counts"
        report.say(chosen[0], f"{len(told)} documents in one file: {which}")
    return report.made(chosen[1].value, [found.value for _, found in told])


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────


class _Report:
    """The notes and the first loss, by byte and line of the file."""

    def __init__(self, raw: bytes, layer: Layer) -> None:
        self._raw = raw
        self._layer = layer
        self._notes = [FormatNote((), told) for told in layer.told]
        self._left_out = 0
        self._lost_from: int | None = None

    def piece(self, piece: _Piece, place: tuple[int, ...]) -> None:
        for remark in piece.found.remarks:
            self.say(remark.at, remark.message, (*place, *remark.place), lost=remark.lost)
        lost = piece.found.lost_from
        if lost is None:
            return
        if self._lost_from is None or len(self._notes) < _MOST_NOTES:
            self._lose(self._layer.byte(lost))
        if not piece.found.whole:
            self.lose(lost, "here the text breaks off; what followed is lost", place)

    def lose(self, position: int, message: str, place: tuple[int, ...] = ()) -> None:
        self.say(position, message, place, lost=True)

    def say(self, position: int, message: str, place: tuple[str | int, ...] = (), *, lost: bool = False) -> None:
        if len(self._notes) >= _MOST_NOTES:
            self._left_out += 1
            return
        byte = self._layer.byte(position)
        if lost:
            self._lose(byte)
        line = self._raw.count(b"\n", 0, byte) + 1
        self._notes.append(FormatNote(place, f"{message} (byte {byte:,}, line {line:,})"))

    def _lose(self, byte: int) -> None:
        self._lost_from = byte if self._lost_from is None else min(byte, self._lost_from)

    def made(self, value: Json, documents: list[Json]) -> Recovered:
        if self._left_out:
            self._notes.append(FormatNote((), f"and {self._left_out:,} more remarks of this kind"))
        return Recovered(value, documents, self._notes, whole=False, lost_from=self._lost_from)
