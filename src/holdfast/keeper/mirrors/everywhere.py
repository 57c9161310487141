"""Every work tree with mirrors on this device, for programs that run for long and are at home in none of them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.decoding import decodable
from holdfast.core.errors import HoldfastError
from holdfast.machine import files
from holdfast.mirror.layouts import inside
from holdfast.mirror.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.keeper.keeper import Keeper

_MOST = 16 << 20


class _Remembered(msgspec.Struct):
    root: str


class Everywhere:
    """Keepers of the work trees with mirrors, and the folders their files are in; found again when mirrors change."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._stamp: tuple[tuple[str, int], ...] = ()
        self._roots: dict[str, str] = {}
        self.keepers: dict[str, Keeper] = {}
        # Some may not be there yet.
        self.folders: frozenset[str] = frozenset()

    def refresh(self) -> None:
        """See which work trees there are now: one look into a directory, unless mirrors have changed."""
        stamp = self._stamps()
        if stamp == self._stamp:
            return
        found: dict[str, Keeper] = {}
        folders: set[str] = set()
        for root in self._all_roots([name for name, _ in stamp]):
            with contextlib.suppress(HoldfastError):
                tree = self.keepers.get(root) or self._keeper.beside(root)
                if tree.place.root == root and tree.mirrors.formats():
                    found[root] = tree
                    folders.update(_folders(tree))
        self.keepers, self.folders, self._stamp = found, frozenset(folders), stamp

    def _stamps(self) -> tuple[tuple[str, int], ...]:
        try:
            with os.scandir(self._keeper.home.mirrors) as listing:
                return tuple(sorted(
                    (one.name, one.stat(follow_symlinks=False).st_mtime_ns)
                    for one in listing if one.name.endswith(".json")
                ))  # fmt: skip
        except OSError:
            return ()

    def _all_roots(self, names: list[str]) -> list[str]:
        """The main work trees that mirrors were switched on in, and all that something was ever mirrored in."""
        memory = Memory(self._keeper.home.path)
        for name in names:
            if name != "on.json" and name not in self._roots:
                with contextlib.suppress(HoldfastError, msgspec.MsgspecError, UnicodeDecodeError):
                    written = files.read_limited(
                        os.path.join(memory.folder, name), _MOST, what="what mirrors remember"
                    )
                    self._roots[name] = msgspec.json.decode(written, type=decodable(_Remembered)).root
        return sorted({*memory.switch().on, *self._roots.values()})


def _folders(keeper: Keeper) -> Iterator[str]:
    root = keeper.place.root
    tree = keeper.mirrors.memory.tree(root)
    for one in keeper.mirrors.formats():
        yield from (inside(root, folder) for folder in one.folders)
        yield from (os.path.dirname(inside(root, path)) for path in (*one.fixed, *tree.files.get(one.name, ())))
