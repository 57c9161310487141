"""A store's pages as they lie on the disk, read without SQLite.

SQLite needs to write beside a file in WAL mode before it reads it: shared memory, locks. On media that cannot be
written this module reads instead, and after damage it finds what SQLite no longer reaches. The formats are those of
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
MOST = 4 << 30
_WAL_HEADER = 32
_FRAME_HEADER = 24
_STEP = _FRAME_HEADER + PAGE
_AHEAD = 64  # frames: more than any transaction of ours, but for a rewriting of the whole file
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}  # by the byte order of its checksums
_WORD = 0xFFFFFFFF


class WalFrame(NamedTuple):
    """A page in the journal; `size` is the file's length in pages when the frame ends a transaction, else 0."""

    page: int
    size: int
    data: bytes


class Image(NamedTuple):
    """The file with its journal applied up to the first damage, pages of the journal that were passed over, and the
    file with those of them applied too that are intact: its pages are the latest, but may not fit each other.
    """

    data: bytes
    leftover: list[bytes]
    latest: bytes


def read(path: str) -> Image:
    """The pages of a store, whatever state it is in. Not while this process has it open: closing drops locks."""
    return image(files.read_limited(path, MOST, what="the store"), journal(path))


def journal(path: str) -> bytes:
    if not os.path.lexists(path + "-wal"):
        return b""
    return files.read_limited(path + "-wal", MOST, what="the store's journal")


def image(file: bytes, wal: bytes) -> Image:
    header = _header(wal) or _proven_header(wal)
    raw = list(_raw(wal))
    replayed = list(_committed(header, raw)) if header is not None else []
    data = _applied(file, replayed)
    lost = cut_short(wal) if header is None else _is_lost(header, header.sums, raw)
    if not lost:
        return Image(data, [], data)
    beyond = raw[len(replayed) :]
    latest = [] if header is None else list(_intact_alone(header, beyond))
    return Image(data, [page for _, page in beyond], _applied(data, latest) if latest else data)


def _applied(file: bytes, frames: list[WalFrame]) -> bytes:
    whole = bytearray(file)
    for frame in frames:
        start = (frame.page - 1) * PAGE
        whole.extend(bytes(max(0, start + PAGE - len(whole))))
        whole[start : start + PAGE] = frame.data
    if frames and frames[-1].size:
        del whole[frames[-1].size * PAGE :]
    return bytes(whole)


# ── the file's header ────────────────────────────────────────────────────────────────────────────────────

# What stands in the header of every store, whatever it holds, and what it is for.
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
_VERSIONS = 18  # two bytes, of the format: 1 without a journal of its own (a backup), 2 with one
_COUNTER, _PAGES, _FREE, _COUNTED = 24, 28, 32, 92


def header_damage(header: bytes) -> list[str]:
    """What in a header cannot be: the rest may be anything, or is found to be wrong by SQLite itself.

    The counters of changes, the cookie of the schema and the version of SQLite have no right value. A wrong one
    does no harm: SQLite counts pages itself when the counters differ, and reads the schema again for the cookie.
    """
    wrong = [purpose for start, expected, purpose in _CONSTANT if header[start : start + len(expected)] != expected]
    if header[_VERSIONS : _VERSIONS + 2] not in (b"\1\1", b"\2\2"):
        wrong.append("the version of the format")
    return wrong


def without_journal(data: bytes) -> bytes:
    """The same database, saying of itself that it has no journal: in memory there is none."""
    return data[:_VERSIONS] + b"\1\1" + data[_VERSIONS + 2 :]


def with_sound_header(data: bytes) -> bytes:
    """The same database for use in memory: every field of the header as it must be, and no free pages."""
    mended = bytearray(without_journal(data))
    for start, expected, _ in _CONSTANT:
        mended[start : start + len(expected)] = expected
    mended[_PAGES:_FREE] = (len(data) // PAGE).to_bytes(4, "big")
    mended[_FREE : _FREE + 8] = bytes(8)
    mended[_COUNTED : _COUNTED + 4] = mended[_COUNTER : _COUNTER + 4]
    return bytes(mended)


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
    """What a damaged header said: the first frame repeats its salts, and goes on from its checksum."""
    for first in islice(_raw(wal), 1):
        for order in _MAGIC.values():
            for sums in (struct.unpack_from(">II", wal, 24), _sums(order, wal[:24], (0, 0))):
                header = _Header(order, first[0][8:16], sums)
                if list(_intact(header, sums, [first])):
                    return header
    return None


def _committed(header: _Header, raw: Iterable[tuple[bytes, bytes]]) -> Iterator[WalFrame]:
    """What SQLite itself would replay: intact frames up to the last that ends a transaction."""
    waiting = list[WalFrame]()
    for frame in _intact(header, header.sums, raw):
        waiting.append(frame)
        if frame.size:
            yield from waiting
            waiting.clear()


def cut_short(wal: bytes) -> bool:
    """Are there transactions that were complete once, beyond the place where SQLite stops reading?

    After a power cut the last transaction may be torn: it was never acknowledged. But a frame after one that ends
    a transaction was written only when that transaction had reached the disk: if it cannot be replayed, it is lost.
    """
    header = _header(wal)
    if header is None:
        # It is written and synced before the first frame: a power cut can leave only nothing at all there.
        return len(wal) > _WAL_HEADER and any(wal[:_WAL_HEADER])
    return _is_lost(header, header.sums, list(_raw(wal)))


def is_cut_short(path: str, replayed: int) -> bool:
    """The same for the journal of a store that SQLite has open: only what follows the frames it knows is read."""
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
                    return False  # begun anew in the meantime
                sums = struct.unpack_from(">II", last, 16)
            if not _goes_on(file, header, start):
                return False
            file.seek(start)
            beyond = file.read(_AHEAD * _STEP)
    except FileNotFoundError:
        return False
    return _is_lost(header, sums, list(_raw(beyond, 0)))


def _goes_on(file: FileIO, header: _Header, start: int) -> bool:
    """A quick look before the careful one: is any of the next frames of this journal, and not of the one before?"""
    for number in range(_AHEAD):
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
        # One that goes on from the end of a transaction, by its checksum too: remains of failed attempts do not.
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


def _intact_alone(header: _Header, raw: Iterable[tuple[bytes, bytes]]) -> Iterator[WalFrame]:
    """Frames of this journal that fit the checksum of the one before, whatever is wrong with that."""
    before = b""
    for head, data in raw:
        if before:
            yield from _intact(header, struct.unpack_from(">II", before, 16), [(head, data)])
        before = head


def _raw(wal: bytes, first: int = _WAL_HEADER) -> Iterator[tuple[bytes, bytes]]:
    for start in range(first, len(wal) - _STEP + 1, _STEP):
        yield wal[start : start + _FRAME_HEADER], wal[start + _FRAME_HEADER : start + _STEP]


def _sums(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _WORD
        second = (second + words[index + 1] + first) & _WORD
    return first, second
