"""Conversations whose sessions a person deleted: agents still have them, and `backfill` must not bring them back.

The session is erased with the ids of its conversations, so only digests are kept, from which nothing can be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from holdfast.core.canonical import digest
from holdfast.core.errors import HoldfastError
from holdfast.machine import files

_LARGEST = 1 << 24


def remember(home: str, names: Iterable[str]) -> None:
    """These, as `agent:id`, are to stay away. Before the session is erased: afterwards nobody would know them."""
    known = _read(home)
    files.write_atomic(_path(home), ("\n".join(sorted(known | {_mark(name) for name in names})) + "\n").encode())


def those(home: str) -> frozenset[str]:
    """The marks of all that are to stay away; see `stays_away`."""
    return frozenset(_read(home))


def stays_away(name: str, marks: frozenset[str]) -> bool:
    return bool(marks) and _mark(name) in marks


def _mark(name: str) -> str:
    return digest(b"conversation\n", name.encode(errors="surrogatepass"))


def _path(home: str) -> str:
    return os.path.join(home, "deleted-conversations")


def _read(home: str) -> set[str]:
    path = _path(home)
    if not os.path.lexists(path):
        return set()
    try:
        return set(files.read_limited(path, _LARGEST, what="the deleted conversations").decode().split())
    except (HoldfastError, UnicodeDecodeError):
        return set()
