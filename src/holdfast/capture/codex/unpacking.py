"""Rollouts that Codex has put away compressed: Zstandard, which Python knows from 3.14 on, by a backport before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Final, Protocol

from holdfast.capture.lines import Problems

_PIECE: Final = 1 << 20
LARGEST: Final = 8 << 30  # bytes: more than any conversation; a small file can be made to unpack to anything


class _Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Zstandard(Protocol):
    ZstdError: type[Exception]

    def ZstdDecompressor(self) -> _Decompressor: ...  # noqa: N802 - its own name


def unpacked(pieces: Iterable[bytes], problems: Problems) -> Iterator[bytes]:
    """The content of a compressed file, in pieces; up to where it is damaged."""
    zstd = _zstandard()
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


def _zstandard() -> _Zstandard | None:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            found: _Zstandard = import_module(name)
        except ImportError:
            continue
        return found
    return None
