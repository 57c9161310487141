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
from typing import NamedTuple

from holdfast.machine import files

PAGE = 4096
MOST = 4 << 30
_WAL_HEADER = 32
_FRAME_HEADER = 24
_AHEAD = 64  # frames: more than any transaction of ours, but for a rewriting of the whole file
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}  # by the byte order of its checksums
_WORD = 0xFFFFFFFF


class Frame(NamedTuple):
    """A page in the journal; `size` is the file's length in pages when the frame ends a transaction, else 0."""

    page: int
    size: int
    data: bytes


class Image(NamedTuple):
    """The file with its journal applied, the size of its pages, and pages of the journal that were passed over."""

    data: bytes
    page: int
    leftover: list[bytes]


def read(path: str) -> Image:
    """The pages of a store, whatever state it is in. Not while this process has it open: closing drops locks."""
    return image(files.read_limited(path, MOST, what="the store"), journal(path))


def journal(path: str) -> bytes:
    if not os.path.lexists(path + "-wal"):
        return b""
    return files.read_limited(path + "-wal", MOST, what="the store's journal")


def image(file: bytes, wal: bytes) -> Image:
    whole = bytearray(file)
    replayed = list(committed(wal))
    for frame in replayed:
        start = (frame.page - 1) * len(frame.data)
        whole.extend(bytes(max(0, start + len(frame.data) - len(whole))))
        whole[start : start + len(frame.data)] = frame.data
    if replayed:
        del whole[replayed[-1].size * len(replayed[-1].data) :]
    leftover = list(_every(wal))[len(replayed) :] if cut_short(wal) else []
    return Image(bytes(whole), page_size(bytes(whole[:100])), leftover)


def page_size(header: bytes) -> int:
    """What the file says, if that can be; otherwise what we always use."""
    if len(header) < 18:
        return PAGE
    said = int.from_bytes(header[16:18], "big")
    said = 65536 if said == 1 else said
    return said if 512 <= said <= 65536 and said & (said - 1) == 0 else PAGE


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────


class _Header(NamedTuple):
    order: str
    page: int
    salts: bytes
    sums: tuple[int, int]


def _header(wal: bytes) -> _Header | None:
    if len(wal) < _WAL_HEADER:
        return None
    magic, version, page = struct.unpack_from(">III", wal)
    order = _MAGIC.get(magic)
    if order is None or version != 3007000 or not 512 <= page <= 65536:
        return None
    sums = _sums(order, wal[:24], (0, 0))
    if sums != struct.unpack_from(">II", wal, 24):
        return None
    return _Header(order, page, wal[16:24], sums)


def committed(wal: bytes) -> Iterator[Frame]:
    """What SQLite itself would replay: intact frames up to the last that ends a transaction."""
    header = _header(wal)
    if header is not None:
        waiting = list[Frame]()
        for frame in _intact(header, header.sums, _raw(wal, header.page)):
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
    return _is_lost(header, header.sums, list(_raw(wal, header.page)))


def is_cut_short(path: str, replayed: int) -> bool:
    """The same for the journal of a store that SQLite has open: only what follows the frames it knows is read."""
    try:
        with open(path + "-wal", "rb", buffering=0) as file:
            head = file.read(_WAL_HEADER)
            header = _header(head)
            if header is None:
                return cut_short(head + file.read(1))
            step = _FRAME_HEADER + header.page
            sums, start = header.sums, _WAL_HEADER + replayed * step
            if replayed:
                file.seek(start - step)
                last = file.read(_FRAME_HEADER)
                if len(last) < _FRAME_HEADER or last[8:16] != header.salts:
                    return False  # begun anew in the meantime
                sums = struct.unpack_from(">II", last, 16)
            if not _goes_on(file, header, start, step):
                return False
            file.seek(start)
            beyond = file.read(_AHEAD * step)
    except FileNotFoundError:
        return False
    return _is_lost(header, sums, list(_raw(beyond, header.page, 0)))


def _goes_on(file: FileIO, header: _Header, start: int, step: int) -> bool:
    """A quick look before the careful one: is any of the next frames of this journal, and not of the one before?"""
    for number in range(_AHEAD):
        file.seek(start + number * step)
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


def _intact(header: _Header, sums: tuple[int, int], raw: Iterable[tuple[bytes, bytes]]) -> Iterator[Frame]:
    for head, data in raw:
        if head[8:16] != header.salts:
            return
        sums = _sums(header.order, data, _sums(header.order, head[:8], sums))
        if sums != struct.unpack_from(">II", head, 16):
            return
        number, size = struct.unpack_from(">II", head)
        yield Frame(number, size, data)


def _every(wal: bytes) -> Iterator[bytes]:
    header = _header(wal)
    for _, data in _raw(wal, header.page if header else PAGE):
        yield data


def _raw(wal: bytes, page: int, first: int = _WAL_HEADER) -> Iterator[tuple[bytes, bytes]]:
    step = _FRAME_HEADER + page
    for start in range(first, len(wal) - step + 1, step):
        yield wal[start : start + _FRAME_HEADER], wal[start + _FRAME_HEADER : start + step]


def _sums(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for index in range(0, len(words), 2):
        one = (one + words[index] + two) & _WORD
        two = (two + words[index + 1] + one) & _WORD
    return one, two
