"""Every work tree with mirrors on this device, for long-running programs that belong to none of them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError
from holdfast.formats.mirror.follower import mirrors_of
from holdfast.formats.mirror.layouts import absolute_path
from holdfast.formats.mirror.state import MirrorState
from holdfast.machine import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.workspace.workspace import Workspace

_MAX_SIZE = 16 << 20


class _TreeFile(msgspec.Struct):
    root: str


class MirroredTrees:
    """The work trees with mirrors, and the folders of their files; refreshed when mirrors change."""

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._stamp: tuple[tuple[str, int], ...] = ()
        self._roots: dict[str, str] = {}
        self.trees: dict[str, Workspace] = {}
        # Some may not exist yet.
        self.folders: frozenset[str] = frozenset()

    def refresh(self) -> None:
        """Find the present work trees: one look into a directory, unless mirrors have changed."""
        stamp = self._stamps()
        if stamp == self._stamp:
            return
        trees: dict[str, Workspace] = {}
        folders: set[str] = set()
        for root in self._all_roots([name for name, _ in stamp]):
            with contextlib.suppress(HoldfastError):
                tree = self.trees.get(root) or self._ws.at(root)
                if tree.place.root == root and mirrors_of(tree).formats():
                    trees[root] = tree
                    folders.update(_folders(tree))
        self.trees, self.folders, self._stamp = trees, frozenset(folders), stamp

    def _stamps(self) -> tuple[tuple[str, int], ...]:
        try:
            with os.scandir(self._ws.home.mirrors) as listing:
                return tuple(sorted(
                    (entry.name, entry.stat(follow_symlinks=False).st_mtime_ns)
                    for entry in listing if entry.name.endswith(".json")
                ))  # fmt: skip
        except OSError:
            return ()

    def _all_roots(self, names: list[str]) -> list[str]:
        """The main work trees with mirrors switched on, and every work tree in which something was ever mirrored."""
        stored = MirrorState(self._ws.home.path)
        for name in names:
            if name != "on.json" and name not in self._roots:
                with contextlib.suppress(HoldfastError, msgspec.MsgspecError, UnicodeDecodeError):
                    written = files.read_limited(
                        os.path.join(stored.folder, name), _MAX_SIZE, subject="what mirrors remember"
                    )
                    self._roots[name] = msgspec.json.decode(written, type=decodable(_TreeFile)).root
        return sorted({*stored.switch().on, *self._roots.values()})


def _folders(ws: Workspace) -> Iterator[str]:
    root = ws.place.root
    tree = mirrors_of(ws).stored.tree(root)
    for layout in mirrors_of(ws).formats():
        yield from (absolute_path(root, folder) for folder in layout.folders)
        yield from (
            os.path.dirname(absolute_path(root, path)) for path in (*layout.fixed, *tree.files.get(layout.name, ()))
        )
