"""Read the trees of a git remote: which objects have which names.

Anyone with write access to the repository can leave a tree that git itself refuses, or a few hundred bytes that
expand to astronomically many paths. Nothing is ever checked out, so such a tree does no harm: each distinct tree is
read once, foreign entries are ignored, and paths are followed only as needed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.sync.remotes.base import MAX_NAME_LENGTH, is_name

# The suffix of every folder: `a` and `a/b` are two objects, but a tree cannot hold a file and a folder `a`.
FOLDER: Final = "_"
MAX_DEPTH: Final = MAX_NAME_LENGTH // 2  # folders in a name
_SPARE: Final = 50_000  # a listing may have this many more paths than entries, since trees may occur twice
_MAX_REPORTED: Final = 20

_ID_BYTES: Final = 20
_FILE: Final = b"100644"
_TREE: Final = b"40000"
_PLAIN: Final = re.compile(rb"[0-9a-z][0-9a-z.-]*_?")
_MODES: Final = frozenset({_FILE, _TREE, b"100755", b"120000", b"160000"})


class Blob(NamedTuple):
    id: str
    size: int


class GitTreeEntry(NamedTuple):
    mode: bytes
    id: str


class GitTree(NamedTuple):
    """The entries of one tree. `refused` are those that git with `fsckObjects` rejects."""

    entries: Mapping[bytes, GitTreeEntry]
    files: Mapping[str, str]
    folders: Mapping[str, str]
    refused: Sequence[bytes]


_EMPTY_TREE: Final = GitTree({}, {}, {}, ())


def read_tree(raw: bytes) -> GitTree:
    """Parse a tree object, as far as it is valid."""
    entries: dict[bytes, GitTreeEntry] = {}
    refused: list[bytes] = []
    position = 0
    while position < len(raw):
        end = raw.find(b"\0", position)
        mode, space, name = raw[position:end].partition(b" ")
        position = end + 1 + _ID_BYTES
        if end < 0 or not space or position > len(raw):
            refused.append(b"")
            break
        entry = GitTreeEntry(mode.lstrip(b"0"), raw[end + 1 : position].hex())
        if entry.mode not in _MODES or name in entries or _is_refused(name) or not entry.id.strip("0"):
            refused.append(name)
        else:
            entries[name] = entry
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name, (mode, entry_id) in entries.items():
        text = name.decode("ascii", "replace")
        if mode == _FILE and is_name(text):
            files[text] = entry_id
        elif mode == _TREE and text.endswith(FOLDER) and is_name(text.removesuffix(FOLDER)):
            folders[text.removesuffix(FOLDER)] = entry_id
    return GitTree(entries, files, folders, refused)


def _is_refused(name: bytes) -> bool:
    """Whether some git may reject a tree with this name: it could lead out of a work tree, or into `.git`."""
    if _PLAIN.fullmatch(name):
        return False
    shown = unicodedata.normalize("NFKC", name.decode("utf-8", "replace")).lower()
    shown = "".join(character for character in shown if unicodedata.category(character) != "Cf")
    return (
        name in (b"", b".", b"..")
        or b"/" in name
        or b"\n" in name
        or name.startswith(b'"')
        or "~" in shown
        or any(part.startswith(".git") for part in re.split(r"[\\:]", shown))
    )


class TreeObjects:
    """All objects of one tree, with changes since it was read."""

    def __init__(
        self,
        root: str | None,
        trees: Mapping[str, GitTree],
        sizes: Mapping[str, int],
        changed: Mapping[str, Blob | None] | None = None,
    ) -> None:
        self.root = root
        self._trees = trees
        self._sizes = sizes
        self._changed = changed or {}
        self._entries = sum(len(tree.entries) for tree in trees.values())
        self.kept = sum(sizes.values())  # bytes

    @property
    def refused(self) -> list[str]:
        """Some of the names that git may reject."""
        names = {name.decode("utf-8", "replace") for tree in self._trees.values() for name in tree.refused}
        return sorted(names)[:_MAX_REPORTED]

    def get(self, name: str) -> Blob | None:
        if name in self._changed:
            return self._changed[name]
        *folders, last = name.split("/")
        return self._blob(self._at(folders).files.get(last))

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def under(self, prefix: str) -> dict[str, Blob]:
        """Objects with this prefix, outer folders first, up to a limit."""
        parent = prefix.rpartition("/")[0]
        waiting = deque([(f"{parent}/" if parent else "", self._at(parent.split("/") if parent else ()))])
        objects: dict[str, Blob] = {}
        left = self._entries + _SPARE
        while waiting and left > 0:
            path, tree = waiting.popleft()
            left -= 1 + len(tree.entries)
            for last, blob_id in tree.files.items():
                name, blob = path + last, self._blob(blob_id)
                if blob is not None and name.startswith(prefix) and len(name) <= MAX_NAME_LENGTH:
                    objects[name] = blob
            for last, tree_id in tree.folders.items():
                subfolder = f"{path}{last}/"
                if len(subfolder) < MAX_NAME_LENGTH and (
                    subfolder.startswith(prefix) or prefix.startswith(subfolder)
                ):
                    waiting.append((subfolder, self._trees.get(tree_id, _EMPTY_TREE)))
        for name, changed in self._changed.items():
            if changed is None:
                objects.pop(name, None)
            elif name.startswith(prefix):
                objects[name] = changed
        return objects

    def with_changes(self, created: Mapping[str, Blob], removed: Sequence[str]) -> TreeObjects:
        after = TreeObjects(
            self.root, self._trees, self._sizes, {**self._changed, **created, **dict.fromkeys(removed)}
        )
        before = sum(blob.size for name in {*created, *removed} if (blob := self.get(name)) is not None)
        after.kept = self.kept - before + sum(blob.size for name in created if (blob := after.get(name)) is not None)
        return after

    def without_refused(self, names: Iterable[str]) -> list[tuple[str, Mapping[bytes, GitTreeEntry]]]:
        """The folders above these names that hold rejected entries, with their other entries; outer first."""
        folder_paths = {tuple(name.split("/")[:depth]) for name in names for depth in range(name.count("/") + 1)}
        folders: list[tuple[str, Mapping[bytes, GitTreeEntry]]] = []
        for folder in sorted(folder_paths, key=lambda parts: (len(parts), parts)):
            tree = self._at(folder)
            if tree.refused:
                folders.append(("/".join(folder), tree.entries))
        return folders

    def _at(self, folders: Sequence[str]) -> GitTree:
        tree = self._trees.get(self.root or "", _EMPTY_TREE)
        for folder in folders:
            tree = self._trees.get(tree.folders.get(folder, ""), _EMPTY_TREE)
        return tree

    def _blob(self, blob_id: str | None) -> Blob | None:
        size = None if blob_id is None else self._sizes.get(blob_id)
        return None if blob_id is None or size is None else Blob(blob_id, size)
