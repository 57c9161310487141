"""Find rows in a file that SQLite can no longer read, in every page that looks like a leaf of a table.

Rows are not trusted: an event is saved only if its hash is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.store.sqlite.pages import HEADER, PAGE, Image

_TABLE_LEAF = 13
_INDEX_LEAF, _INDEX_INSIDE = 10, 2
_IN_LEAF = PAGE - 35  # bytes of a row that stay on its page
_IN_INDEX = (PAGE - 12) * 64 // 255 - 23
_EVENT_COLUMNS = 17
_SESSION_COLUMNS = 15
_WRITER_COLUMNS = 2
_SESSION = re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_WRITER = (20, 36)  # lengths of ids: plain ones, and those with a device's key
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class ScannedRows(NamedTuple):
    """Rows as they were stored. Texts are bytes: they may be no valid text."""

    # In the order of the columns of `events`.
    events: list[tuple[Any, ...]]
    # By number: ids, and until when the session was worked on.
    sessions: dict[int, str]
    until: dict[int, int]
    writers: dict[int, str]


def scan(image: Image) -> ScannedRows:
    rows = ScannedRows([], {}, {}, {})
    for start in range(0, len(image.data), PAGE):
        _collect(rows, image, image.data[start : start + PAGE], HEADER if start == 0 else 0)
    for page in image.leftover:
        _collect(rows, image, page, 0)
    return rows


def places(image: Image) -> dict[str, str]:
    """Work trees and their current sessions: the only table with two texts of which the second is a session's id.

    A path with two sessions is left out: one of them was on a page that is no longer in use.
    """
    sessions: dict[str, set[str]] = {}
    for start in range(0, len(image.latest), PAGE):
        for row in _index_rows(image, image.latest[start : start + PAGE]):
            texts = len(row) == 2 and all(isinstance(value, bytes) for value in row)
            if texts and _SESSION.fullmatch(row[1]):
                sessions.setdefault(row[0].decode(errors="replace"), set()).add(row[1].decode())
    return {path: next(iter(candidates)) for path, candidates in sessions.items() if len(candidates) == 1}


def memory(image: Image) -> dict[str, bytes]:
    """Values by name: the only table of two columns with row numbers and a name. The last row of a name counts."""
    values: dict[str, tuple[int, bytes]] = {}
    for start in range(PAGE, len(image.latest), PAGE):
        for number, row in _rows(image, image.latest[start : start + PAGE], 0):
            if len(row) == 2 and all(isinstance(value, bytes) for value in row):
                name = row[0].decode(errors="replace")
                values[name] = max(values.get(name, (number, row[1])), (number, row[1]))
    return {name: value for name, (_, value) in values.items()}


def _index_rows(image: Image, page: bytes) -> Iterator[list[Any]]:
    """Rows of tables without row numbers, which are stored in leaf and inner pages of indexes."""
    if len(page) < 12 or page[0] not in (_INDEX_LEAF, _INDEX_INSIDE):
        return
    head, child = (8, 0) if page[0] == _INDEX_LEAF else (12, 4)
    for cell in _cells(page, 0, head):
        try:
            length, at = _varint(page, cell + child)
            yield _values(_payload(image, page, at, length, _IN_INDEX))
        except (IndexError, ValueError):
            continue


def find_ids(data: bytes) -> tuple[set[str], set[str]]:
    """Everything that could be the id of a session or of a writer."""
    return {match.decode() for match in _SESSION.findall(data)}, {writer.decode() for writer in _writers(data)}


def _writers(data: bytes) -> Iterator[bytes]:
    """Ids of writers, also right behind another id or number, as in an index."""
    for run in re.finditer(rb"[0-9a-f]{20,76}", data):
        for length in _WRITER:
            for start in range(len(run[0]) - length + 1):
                yield run[0][start : start + length]


def _collect(rows: ScannedRows, image: Image, page: bytes, start: int) -> None:
    for number, row in _rows(image, page, start):
        if len(row) >= _EVENT_COLUMNS and row[0] is None:
            rows.events.append((number, *row[1:_EVENT_COLUMNS]))
        elif len(row) >= _SESSION_COLUMNS and row[0] is None and isinstance(row[1], bytes):
            rows.sessions[number] = row[1].decode(errors="replace")
            if isinstance(row[5], int):
                rows.until[number] = max(row[5], rows.until.get(number, 0))
        elif len(row) == _WRITER_COLUMNS and row[0] is None and isinstance(row[1], bytes):
            rows.writers[number] = row[1].decode(errors="replace")


def _rows(image: Image, page: bytes, start: int) -> Iterator[tuple[int, list[Any]]]:
    if len(page) < start + 8 or page[start] != _TABLE_LEAF:
        return
    for cell in _cells(page, start, start + 8):
        try:
            length, at = _varint(page, cell)
            number, at = _varint(page, at)
            yield number, _values(_payload(image, page, at, length, _IN_LEAF))
        except (IndexError, ValueError):
            continue  # this cell is damaged; its neighbours may not be


def _cells(page: bytes, start: int, pointers: int) -> Iterator[int]:
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for place in range(pointers, pointers + 2 * min(count, len(page) // 4), 2):
        yield int.from_bytes(page[place : place + 2], "big")


def _payload(image: Image, page: bytes, start: int, length: int, max_local: int) -> bytes:
    """The bytes of a row, overflow pages included. At most `max_local` of them are on its own page."""
    if length <= max_local:
        return _exactly(page[start : start + length], length)
    if length > len(image.data):
        raise ValueError(length)
    least = (PAGE - 12) * 32 // 255 - 23
    local = least + (length - least) % (PAGE - 4)
    local = local if local <= max_local else least
    parts = [_exactly(page[start : start + local], local)]
    following = int.from_bytes(_exactly(page[start + local : start + local + 4], 4), "big")
    left = length - local
    while left > 0:
        at = (following - 1) * PAGE
        chunk = image.data[at : at + PAGE] if following > 0 else b""
        piece = _exactly(chunk[4 : 4 + min(left, PAGE - 4)], min(left, PAGE - 4))
        parts.append(piece)
        left -= len(piece)
        following = int.from_bytes(chunk[:4], "big")
    return b"".join(parts)


def _values(payload: bytes) -> list[Any]:
    head, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        if kind == 0:
            values.append(None)
        elif kind in _INTEGERS:
            width = _INTEGERS[kind]
            values.append(int.from_bytes(_exactly(payload[at : at + width], width), "big", signed=True))
            at += width
        elif kind == 7:
            at += 8
            values.append(0.0)  # no column that we save is a fraction
        elif kind in (8, 9):
            values.append(kind - 8)
        elif kind >= 12:
            width = (kind - 12) // 2
            values.append(_exactly(payload[at : at + width], width))
            at += width
        else:
            raise ValueError(kind)
    return values


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(9):
        byte = data[at + index]
        value = value << 8 | byte if index == 8 else value << 7 | byte & 0x7F
        if byte < 0x80 or index == 8:
            return (value - (1 << 64) if value >= 1 << 63 else value), at + index + 1
    raise ValueError(at)


def _exactly(piece: bytes, length: int) -> bytes:
    if len(piece) != length:
        raise ValueError(length)
    return piece
