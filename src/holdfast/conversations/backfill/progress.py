"""Conversations whose sessions a person deleted: agents still have them, and backfill must not bring them back.

The session is erased with the ids of its conversations, so only digests are kept, from which nothing can be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError
from holdfast.machine import files

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_LARGEST_LIST = 1 << 24


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
        return set(files.read_limited(path, _LARGEST_LIST, what="the deleted conversations").decode().split())
    except (HoldfastError, UnicodeDecodeError):
        return set()


DIRECTORY: Final = "backfilled"
# Raised when stories are told better than before: everything is read again.
TELLING: Final = 2
_LARGEST: Final = 256 << 20


class _Kept(msgspec.Struct):
    telling: int = 0
    # The store that knows these stories, and how large it was. One that is smaller was made anew.
    store: str = ""
    size: int = 0
    sources: dict[str, str] = {}


class BackfillProgress:
    """The sources of one agent that one store has heard of. `store` says which it is, and how large by now."""

    def __init__(self, home: str, agent: str, store: Callable[[], tuple[str, int]]) -> None:
        self._home = home
        self._path = os.path.join(home, DIRECTORY, f"{agent}.json")
        self._store = store
        self._sources = self._load()
        self._changed = False

    def knows(self, path: str, stamp: str) -> bool:
        return self._sources.get(_name(path)) == _short(stamp)

    def note(self, path: str, stamp: str) -> None:
        self._sources[_name(path)] = _short(stamp)
        self._changed = True

    def keep(self, present: set[str] | None = None) -> None:
        """Write it down; sources that are gone are forgotten."""
        if present is not None:
            names = {_name(path) for path in present}
            gone = [name for name in self._sources if name not in names]
            for name in gone:
                del self._sources[name]
            self._changed |= bool(gone)
        if not self._changed:
            return
        kept = _Kept(TELLING, *self._store(), self._sources)
        files.make_private_dir(os.path.join(self._home, DIRECTORY))
        files.write_atomic(self._path, msgspec.json.encode(kept) + b"\n", durable=False)
        self._changed = False

    def _load(self) -> dict[str, str]:
        if not os.path.lexists(self._path):
            return {}
        try:
            kept = msgspec.json.decode(
                files.read_limited(self._path, _LARGEST, what="what was read"), type=decodable(_Kept)
            )
        except (msgspec.MsgspecError, HoldfastError, ValueError):
            return {}
        store, size = self._store()
        return kept.sources if (kept.telling, kept.store) == (TELLING, store) and kept.size <= size else {}


def which(ws: Workspace) -> tuple[str, int]:
    """Which store it is, and how large: of a file its bytes, of a server its events."""
    name, path = digest(ws.address.key.encode(errors="surrogatepass"))[:16], ws.address.path
    if path is None:
        return f"{name}.server", ws.store().latest_place()
    try:
        status = os.stat(path)
    except OSError:
        return "", -1
    return f"{name}.{status.st_ino}", status.st_size


def _name(path: str) -> str:
    """Paths may be no text at all, and are nobody's business here."""
    return digest(path.encode(errors="surrogatepass"))[:24]


def _short(stamp: str) -> str:
    return digest(stamp.encode(errors="surrogatepass"))[:24]
