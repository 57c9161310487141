"""What is remembered of a work tree, to compare it with: the snapshot from which the next comparison goes on.

A snapshot holds only the paths that are not as committed: with the commit that was checked out, that is the whole
tree. `start` and `resume` load this module: it loads nothing that asks git.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError
from holdfast.machine.git import worktree
from holdfast.sessions.changes import turns

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

PREFIX: Final = "tree/"
_MOST_PACKED: Final = 1 << 20  # bytes of packed refs that are read while a person waits


class TreeEntry(msgspec.Struct, array_like=True, gc=False):
    """A path that is not as committed. `kind` is `-` for a deleted one, and `=` for one that was as committed (or not
    there) at `since`, an earlier snapshot: whoever changed it since is not known yet.
    """

    modified: int
    changed: int
    size: int
    hash: str | None
    kind: str = ""
    since: int = 0

    def is_as(self, other: TreeEntry) -> bool:
        mine, theirs = (self.modified, self.changed, self.size), (other.modified, other.changed, other.size)
        return self.kind == other.kind and mine == theirs


class LogMark(msgspec.Struct, array_like=True, gc=False):
    """An entry of the log of HEAD. What was done is a digest: it holds the first line of a commit's message."""

    sha: str
    at: int
    action: str


class TreeSnapshot(msgspec.Struct, gc=False):
    at: int
    head: str | None = None
    entries: dict[str, TreeEntry] = {}
    log: LogMark | None = None


def name_of(root: str) -> str:
    return f"{PREFIX}{digest(root.encode(errors='surrogatepass'))[:32]}"


def decoded(kept: bytes | None) -> TreeSnapshot | None:
    try:
        return None if kept is None else msgspec.msgpack.decode(kept, type=decodable(TreeSnapshot))
    except msgspec.MsgspecError:  # of another version
        return None


def names_of(root: str) -> tuple[str, str]:
    """What is remembered of a work tree: its turns, and its snapshot."""
    return turns.name_of(root), name_of(root)


def note_beginning(ws: Workspace, at: int | None = None) -> None:
    """Where this work tree was never compared, note what it is compared with: a person begins to work here now.

    Only the commit is noted, which files tell: what has changed since, their times say. Never raises.
    """
    if not ws.place.git:
        return
    now, names = ws.now(), names_of(ws.place.root)
    with suppress(HoldfastError):
        if any(ws.store().remembered(name) is not None for name in names):
            return  # compared before, or a turn that began earlier is about to be
        head = worktree.head(ws.place, packed=_MOST_PACKED).commit
        begun = TreeSnapshot(now if at is None else min(at, now), head)
        with ws.transaction() as transaction:
            if all(transaction.remembered(name) is None for name in names):
                transaction.remember(name_of(ws.place.root), msgspec.msgpack.encode(begun))
