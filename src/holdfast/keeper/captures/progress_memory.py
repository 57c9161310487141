"""What `backfill` has read: one small private file for each agent, with the stamp of every source that was told to
its end. Losing it costs time and nothing else, because telling a story again records nothing twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.canonical import digest
from holdfast.core.decoding import decodable
from holdfast.core.errors import HoldfastError
from holdfast.machine import files

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

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


class Memory:
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


def which(keeper: Keeper) -> tuple[str, int]:
    """Which store it is, and how large: of a file its bytes, of a server its events."""
    name, path = digest(keeper.address.key.encode(errors="surrogatepass"))[:16], keeper.address.path
    if path is None:
        return f"{name}.server", keeper.store().latest_place()
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
