"""Prepare types for decoding under a lock.

The first time msgspec sees a struct it collects its fields, running Python code; another thread that decodes into
that struct meanwhile crashes the interpreter. So every decoder asks for its type here.
"""

from __future__ import annotations

from _thread import RLock  # importing `threading` would slow down every hook
from typing import Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")

_preparing: Final = RLock()
_prepared: Final[set[Any]] = set()


def decodable(type_: _T) -> _T:
    """The type itself, after msgspec has collected its fields."""
    if type_ not in _prepared:
        with _preparing:
            msgspec.msgpack.Decoder(type_)
            _prepared.add(type_)
    return type_
