"""Rollouts that Codex has put away compressed with Zstandard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.capture import allowance
from holdfast.capture.lines import Problems
from holdfast.machine.zstd import zstandard

_PIECE: Final = 1 << 20
LARGEST: Final = 8 << 30  # bytes: more than any conversation; a small file can be made to unpack to anything


def unpacked(pieces: Iterable[bytes], problems: Problems) -> Iterator[bytes]:
    """The content of a compressed file, in pieces; up to where it is damaged."""
    zstd = zstandard()
    if zstd is None:
        problems.add("is compressed with Zstandard, for which this Python has no module: install backports.zstd")
        return
    unpacking = zstd.ZstdDecompressor()
    size = 0
    begun = False
    try:
        for piece in pieces:
            data = piece
            while data or not unpacking.needs_input:
                if unpacking.eof:
                    unpacking, begun = zstd.ZstdDecompressor(), False
                begun = begun or bool(data)
                found = unpacking.decompress(data, _PIECE)
                data = unpacking.unused_data if unpacking.eof else b""
                size += len(found)
                allowance.use(size=len(found))
                if size > LARGEST:
                    problems.add(f"is larger than {LARGEST >> 30} GiB once it is unpacked")
                    return
                if found:
                    yield found
                if unpacking.eof and not data:
                    break
        if begun and not unpacking.eof:
            problems.add("is cut off within its compression")
    except zstd.ZstdError:
        problems.add("is damaged within its compression")
