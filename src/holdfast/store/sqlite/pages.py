"""Read a store's pages from the disk without SQLite.

To read a file in WAL mode, SQLite has to write next to it: shared memory, locks. This module reads on media that
cannot be written, and after damage it reads what SQLite no longer reaches. The formats are those of
https://sqlite.org/fileformat2.html; they have not changed since 2010.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from io import FileIO
from itertools import islice
from typing import NamedTuple

from holdfast.machine import files

PAGE = 4096  # of every store
HEADER = 100
MAX_BYTES = 4 << 30
_WAL_HEADER = 32
_FRAME_HEADER = 24
_STEP = _FRAME_HEADER + PAGE
_MAX_FRAMES_AHEAD = 64  # more than any transaction of ours has, except a rewrite of the whole file
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}  # the byte order of the journal's checksums
_WORD = 0xFFFFFFFF


class WalFrame(NamedTuple):
    """A page in the journal; `size` is the file's length in pages when the frame ends a transaction, else 0."""

    page: int
    size: int
    data: bytes


class Image(NamedTuple):
    """The file with its journal applied up to the first damage; the pages of the journal that were not applied; and
    the file with the intact ones of those applied too, whose pages are the latest but may not fit together.
    """

    data: bytes
    leftover: list[bytes]
    latest: bytes


def read(path: str) -> Image:
    """The pages of a store in any state. Not while this process has it open: closing drops SQLite's locks."""
    return image(files.read_limited(path, MAX_BYTES, subject="the store"), journal(path))


def journal(path: str) -> bytes:
    if not os.path.lexists(path + "-wal"):
        return b""
    return files.read_limited(path + "-wal", MAX_BYTES, subject="the store's journal")


def image(file: bytes, wal: bytes) -> Image:
    header = _header(wal) or _proven_header(wal)
    frames = list(_frames(wal))
    replayed = list(_committed(header, frames)) if header is not None else []
    data = _applied(file, replayed)
    lost = cut_short(wal) if header is None else _is_lost(header, header.sums, frames)
    if not lost:
        return Image(data, [], data)
    frames_beyond = frames[len(replayed) :]
    latest = [] if header is None else list(_separately_intact(header, frames_beyond))
    return Image(data, [page for _, page in frames_beyond], _applied(data, latest) if latest else data)


def _applied(file: bytes, frames: list[WalFrame]) -> bytes:
    pages_read = bytearray(file)
    for frame in frames:
        start = (frame.page - 1) * PAGE
        pages_read.extend(bytes(max(0, start + PAGE - len(pages_read))))
        pages_read[start : start + PAGE] = frame.data
    if frames and frames[-1].size:
        del pages_read[frames[-1].size * PAGE :]
    return bytes(pages_read)


# ── the file's header ────────────────────────────────────────────────────────────────────────────────────

# The constant parts of every store's header, and their meaning.
_CONSTANT = (
    (0, b"SQLite format 3\0", "the kind of file"),
    (16, PAGE.to_bytes(2, "big"), "the size of pages"),
    (20, b"\0@  ", "the layout of pages"),
    (44, b"\0\0\0\4", "the format of the tables' names"),
    (48, bytes(8), "the size of the cache"),
    (56, b"\0\0\0\1", "the encoding of text"),
    (64, bytes(4), "the kind of vacuuming"),
    (68, b"HOLD", "the program"),
    (72, bytes(20), "reserved bytes"),
)
_VERSIONS = 18  # two bytes: 1 for a file without a WAL (a backup), 2 with one
_COUNTER, _PAGES, _FREE, _COUNTED = 24, 28, 32, 92


def header_damage(header: bytes) -> list[str]:
    """What is impossible in a header; SQLite itself finds the rest.

    The change counters, the schema cookie and the version of SQLite have no right value. A wrong one does no harm:
    SQLite counts pages itself when the counters differ, and reads the schema again for a new cookie.
    """
    wrong = [purpose for start, expected, purpose in _CONSTANT if header[start : start + len(expected)] != expected]
    if header[_VERSIONS : _VERSIONS + 2] not in (b"\1\1", b"\2\2"):
        wrong.append("the version of the format")
    return wrong


def without_journal(data: bytes) -> bytes:
    """The same database with a header that says it has no WAL: in memory there is none."""
    return data[:_VERSIONS] + b"\1\1" + data[_VERSIONS + 2 :]


def with_sound_header(data: bytes) -> bytes:
    """The same database for use in memory, with a correct header and no free pages."""
    image = bytearray(without_journal(data))
    for start, expected, _ in _CONSTANT:
        image[start : start + len(expected)] = expected
    image[_PAGES:_FREE] = (len(data) // PAGE).to_bytes(4, "big")
    image[_FREE : _FREE + 8] = bytes(8)
    image[_COUNTED : _COUNTED + 4] = image[_COUNTER : _COUNTER + 4]
    return bytes(image)


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────


class _Header(NamedTuple):
    order: str
    salts: bytes
    sums: tuple[int, int]


def _header(wal: bytes) -> _Header | None:
    if len(wal) < _WAL_HEADER:
        return None
    magic, version, page = struct.unpack_from(">III", wal)
    order = _MAGIC.get(magic)
    if order is None or version != 3007000 or page != PAGE:
        return None
    sums = _sums(order, wal[:24], (0, 0))
    if sums != struct.unpack_from(">II", wal, 24):
        return None
    return _Header(order, wal[16:24], sums)


def _proven_header(wal: bytes) -> _Header | None:
    """A damaged header, restored: the first frame repeats its salts and continues its checksum."""
    for first in islice(_frames(wal), 1):
        for order in _MAGIC.values():
            for sums in (struct.unpack_from(">II", wal, 24), _sums(order, wal[:24], (0, 0))):
                header = _Header(order, first[0][8:16], sums)
                if list(_intact(header, sums, [first])):
                    return header
    return None


def _committed(header: _Header, raw: Iterable[tuple[bytes, bytes]]) -> Iterator[WalFrame]:
    """The frames that SQLite would replay: intact ones up to the last one that ends a transaction."""
    waiting = list[WalFrame]()
    for frame in _intact(header, header.sums, raw):
        waiting.append(frame)
        if frame.size:
            yield from waiting
            waiting.clear()


def cut_short(wal: bytes) -> bool:
    """Whether transactions that were once complete lie beyond the place where SQLite stops reading.

    After a power cut the last transaction may be torn: it was never acknowledged. But a frame behind the end of a
    transaction was only written once that transaction had reached the disk: if it cannot be replayed, it is lost.
    """
    header = _header(wal)
    if header is None:
        # It is synced before the first frame is written: after a power cut it is either whole or all zero.
        return len(wal) > _WAL_HEADER and any(wal[:_WAL_HEADER])
    return _is_lost(header, header.sums, list(_frames(wal)))


def is_cut_short(path: str, replayed: int) -> bool:
    """The same for the journal of a store that SQLite has open: reads only what follows the frames it accepts."""
    try:
        with open(path + "-wal", "rb", buffering=0) as file:
            head = file.read(_WAL_HEADER)
            header = _header(head)
            if header is None:
                return cut_short(head + file.read(1))
            sums, start = header.sums, _WAL_HEADER + replayed * _STEP
            if replayed:
                file.seek(start - _STEP)
                last = file.read(_FRAME_HEADER)
                if len(last) < _FRAME_HEADER or last[8:16] != header.salts:
                    return False  # started again meanwhile
                sums = struct.unpack_from(">II", last, 16)
            if not _continues(file, header, start):
                return False
            file.seek(start)
            sessions_beyond = file.read(_MAX_FRAMES_AHEAD * _STEP)
    except FileNotFoundError:
        return False
    return _is_lost(header, sums, list(_frames(sessions_beyond, 0)))


def _continues(file: FileIO, header: _Header, start: int) -> bool:
    """Whether any of the next frames belongs to this journal and not to an earlier one: a quick first look."""
    for number in range(_MAX_FRAMES_AHEAD):
        file.seek(start + number * _STEP)
        head = file.read(_FRAME_HEADER)
        if len(head) < _FRAME_HEADER:
            return False
        if head[8:16] == header.salts:
            return True
    return False


def _is_lost(header: _Header, sums: tuple[int, int], raw: list[tuple[bytes, bytes]]) -> bool:
    reached = 0
    for number, frame in enumerate(_intact(header, sums, raw), 1):
        if frame.size:
            reached = number
    before = b""
    for head, data in raw[reached:]:
        # A frame that continues the end of a transaction, checksum included, unlike remains of failed attempts.
        if any(before[4:8]) and list(_intact(header, struct.unpack_from(">II", before, 16), [(head, data)])):
            return True
        before = head if head[8:16] == header.salts else b""
    return False


def _intact(header: _Header, sums: tuple[int, int], raw: Iterable[tuple[bytes, bytes]]) -> Iterator[WalFrame]:
    for head, data in raw:
        if head[8:16] != header.salts:
            return
        sums = _sums(header.order, data, _sums(header.order, head[:8], sums))
        if sums != struct.unpack_from(">II", head, 16):
            return
        number, size = struct.unpack_from(">II", head)
        yield WalFrame(number, size, data)


def _separately_intact(header: _Header, raw: Iterable[tuple[bytes, bytes]]) -> Iterator[WalFrame]:
    """Frames of this journal that continue the checksum of the one before, even if that one is damaged."""
    before = b""
    for head, data in raw:
        if before:
            yield from _intact(header, struct.unpack_from(">II", before, 16), [(head, data)])
        before = head


def _frames(wal: bytes, first: int = _WAL_HEADER) -> Iterator[tuple[bytes, bytes]]:
    for start in range(first, len(wal) - _STEP + 1, _STEP):
        yield wal[start : start + _FRAME_HEADER], wal[start + _FRAME_HEADER : start + _STEP]


def _sums(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _WORD
        second = (second + words[index + 1] + first) & _WORD
    return first, second
