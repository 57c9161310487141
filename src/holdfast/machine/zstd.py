"""Zstandard, which Python knows from 3.14 on, by a backport before: the one place that says which."""

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


@cache  # a module that is not there is searched for anew each time, and this is asked for every object of a remote
def zstandard() -> Zstandard | None:
    """The module, or None where this Python has neither."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            found: Zstandard = import_module(name)
        except ImportError:
            continue
        return found
    return None
