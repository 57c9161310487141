"""Rollouts that Codex has put away compressed with Zstandard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.capture import allowance
from holdfast.capture.lines import Problems
from holdfast.machine.zstd import zstandard

_PIECE: Final = 1 << 20
# A small file can be made to unpack to anything. Conversations become about ten times as large.
_ALWAYS: Final = 16 << 20
_MOST_TIMES: Final = 300


def unpacked(pieces: Iterable[bytes], problems: Problems) -> Iterator[bytes]:
    """The content of a compressed file, in pieces; up to where it is damaged."""
    zstd = zstandard()
    if zstd is None:
        problems.add("is compressed with Zstandard, for which this Python has no module: install backports.zstd")
        return
    unpacking = zstd.ZstdDecompressor()
    size, most = 0, _ALWAYS
    begun = False
    try:
        for piece in pieces:
            data = piece
            most += _MOST_TIMES * len(piece)
            while data or not unpacking.needs_input:
                if unpacking.eof:
                    unpacking, begun = zstd.ZstdDecompressor(), False
                begun = begun or bool(data)
                found = unpacking.decompress(data, _PIECE)
                data = unpacking.unused_data if unpacking.eof else b""
                size += len(found)
                allowance.use(size=len(found))
                if size > most:
                    problems.add(f"is more than {_MOST_TIMES} times as large once it is unpacked")
                    return
                if found:
                    yield found
                if unpacking.eof and not data:
                    break
        if begun and not unpacking.eof:
            problems.add("is cut off within its compression")
    except zstd.ZstdError:
        problems.add("is damaged within its compression")
