"""How much is read for one transcript, all its files together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TooMuch(Exception):
    """More would have to be read than is allowed."""


class _Left:
    def __init__(self, size: int, files: int) -> None:
        self.size = size
        self.files = files


_left: ContextVar[_Left | None] = ContextVar("_left", default=None)


@contextmanager
def at_most(size: int, files: int) -> Iterator[None]:
    """Within the block, no more bytes and no more files than this are read: `TooMuch` is raised instead."""
    token = _left.set(_Left(size, files))
    try:
        yield
    finally:
        _left.reset(token)


def use(*, size: int = 0, files: int = 0) -> None:
    """Note that so much is about to be read."""
    left = _left.get()
    if left is not None:
        left.size -= size
        left.files -= files
        if left.size < 0 or left.files < 0:
            raise TooMuch
