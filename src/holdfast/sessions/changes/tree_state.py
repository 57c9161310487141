"""What the store remembers of a work tree: its last snapshot, and the turns of its conversations since then.

A snapshot holds only the paths that differ from the commit: with the commit that was checked out, that is the whole
tree. Turns are kept in the transaction that records their payloads, so a repeated drain keeps each once; `compare`
removes those it has taken into account. Hooks, `start` and `resume` load this module: it loads nothing that asks git.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import limits
from holdfast.core.attribution import AgentTurn
from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError
from holdfast.machine.git import worktree

if TYPE_CHECKING:
    from holdfast.store.interface import Store, Transaction
    from holdfast.workspace.workspace import Workspace


SNAPSHOT_PREFIX: Final = "tree/"
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


def snapshot_name(root: str) -> str:
    return f"{SNAPSHOT_PREFIX}{digest(root.encode(errors='surrogatepass'))[:32]}"


def decode_snapshot(kept: bytes | None) -> TreeSnapshot | None:
    try:
        return None if kept is None else msgspec.msgpack.decode(kept, type=decodable(TreeSnapshot))
    except msgspec.MsgspecError:  # of another version
        return None


def names_of(root: str) -> tuple[str, str]:
    """What is remembered of a work tree: its turns, and its snapshot."""
    return turns_name(root), snapshot_name(root)


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
                transaction.remember(snapshot_name(ws.place.root), msgspec.msgpack.encode(begun))


# ── turns ──────────────────────────────────────────────────────────────────────────────────────────────


TURNS_PREFIX: Final = "turns/"


class TreeTurns(msgspec.Struct, gc=False):
    """The turns of one work tree since it was last compared, and when the latest of their boundaries was."""

    root: str
    turns: list[AgentTurn] = []
    due: int | None = None
    # It took too much: until then it is left alone.
    not_before: int = 0


def turns_name(root: str) -> str:
    return f"{TURNS_PREFIX}{digest(root.encode(errors='surrogatepass'))[:32]}"


def decode_turns(kept: bytes | None, root: str) -> TreeTurns:
    try:
        return TreeTurns(root) if kept is None else msgspec.msgpack.decode(kept, type=decodable(TreeTurns))
    except msgspec.MsgspecError:  # of another version
        return TreeTurns(root)


def trees_due(store: Store) -> list[TreeTurns]:
    """Every work tree in which a turn began or ended since it was compared."""
    trees = [decode_turns(kept, "") for kept in store.remembered_under(TURNS_PREFIX).values()]
    return [turns for turns in trees if turns.root and turns.due is not None and turns.due >= turns.not_before]


def keep_turns(transaction: Transaction, tree: TreeTurns) -> None:
    if not tree.turns and tree.due is None and not tree.not_before:
        transaction.remember(turns_name(tree.root), None)
        return
    tree.turns = tree.turns[-limits.MAX_TURNS :]
    transaction.remember(turns_name(tree.root), msgspec.msgpack.encode(tree))
