"""Prepare types for decoding one at a time: two threads that decode into one new type at once crash the
interpreter.

The first time msgspec meets a struct it collects its fields, running Python; another thread that decodes into that
struct meanwhile crashes the interpreter. So whoever decodes into a type asks for it here.
"""

from __future__ import annotations

from _thread import RLock  # `threading` is more than a hook needs
from typing import Any, Final, TypeVar

import msgspec

_Kind = TypeVar("_Kind")

_preparing: Final = RLock()
_prepared: Final[set[Any]] = set()


def decodable(kind: _Kind) -> _Kind:
    """The type itself, once msgspec knows all of it."""
    if kind not in _prepared:
        with _preparing:
            msgspec.msgpack.Decoder(kind)
            _prepared.add(kind)
    return kind
