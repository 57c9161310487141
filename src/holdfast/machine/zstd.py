"""Zstandard: the standard library has it from Python 3.14 on, a backport before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Protocol


class Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Parameters(Protocol):
    window_log_max: int


class Zstandard(Protocol):
    ZstdError: type[Exception]
    DecompressionParameter: _Parameters

    def ZstdDecompressor(self, *, options: Mapping[int, int] | None = None) -> Decompressor: ...  # noqa: N802 - its own name

    def compress(self, data: bytes, level: int | None = None) -> bytes: ...


@cache  # Python searches for a missing module each time, and every object of a remote asks
def zstandard() -> Zstandard | None:
    """The module, or None if neither is installed."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            module: Zstandard = import_module(name)
        except ImportError:
            continue
        return module
    return None
