"""What the store remembers of a work tree: its last snapshot, and the turns of its conversations since then.

A snapshot holds only the paths that differ from the commit: with the commit that was checked out, that is the whole
tree. Turns are kept in the transaction that records their payloads, so a repeated drain keeps each once; `compare`
removes those it has taken into account. Hooks, `start` and `resume` load this module: it loads nothing that asks git.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

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
_MAX_PACKED_SIZE: Final = 1 << 20  # bytes of packed refs read while a person waits


# The kinds of an entry, as they are stored: a file, a missing one, and one that was as committed before.
TreeEntryKind: TypeAlias = Literal["", "-", "="]
MISSING: Final = "-"
AS_COMMITTED: Final = "="


class TreeEntry(msgspec.Struct, array_like=True, gc=False):
    """A path that differs from the commit. One `AS_COMMITTED` was as committed (or missing) at `since`, an earlier
    snapshot, and its change is not attributed yet.
    """

    modified: int
    changed: int
    size: int
    hash: str | None
    kind: TreeEntryKind = ""
    since: int = 0

    def is_as(self, other: TreeEntry) -> bool:
        mine, theirs = (self.modified, self.changed, self.size), (other.modified, other.changed, other.size)
        return self.kind == other.kind and mine == theirs


class LogMark(msgspec.Struct, array_like=True, gc=False):
    """An entry of HEAD's log. The action is stored as a digest, since it includes the commit's subject."""

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


def decode_snapshot(value: bytes | None) -> TreeSnapshot | None:
    try:
        return None if value is None else msgspec.msgpack.decode(value, type=decodable(TreeSnapshot))
    except msgspec.MsgspecError:  # of another version
        return None


def names_of(root: str) -> tuple[str, str]:
    """The names under which a work tree is remembered: its turns, and its snapshot."""
    return turns_name(root), snapshot_name(root)


def note_beginning(ws: Workspace, at: int | None = None) -> None:
    """Note a first snapshot where this work tree was never compared: a person starts to work here now.

    Only the commit is noted, read from files; time stamps show what changed since. Never raises.
    """
    if not ws.place.git:
        return
    now, names = ws.now(), names_of(ws.place.root)
    with suppress(HoldfastError):
        if any(ws.store().remembered(name) is not None for name in names):
            return  # already compared, or an earlier turn is about to be
        head = worktree.head(ws.place, packed=_MAX_PACKED_SIZE).commit
        begun = TreeSnapshot(now if at is None else min(at, now), head)
        with ws.transaction() as transaction:
            if all(transaction.remembered(name) is None for name in names):
                transaction.remember(snapshot_name(ws.place.root), msgspec.msgpack.encode(begun))


# ── turns ──────────────────────────────────────────────────────────────────────────────────────────────


TURNS_PREFIX: Final = "turns/"


class TreeTurns(msgspec.Struct, gc=False):
    """The turns in one work tree since its last comparison, and the time of their latest boundary."""

    root: str
    turns: list[AgentTurn] = []
    due: int | None = None
    # The comparison exceeded a limit: no other one before this moment.
    not_before: int = 0


def turns_name(root: str) -> str:
    return f"{TURNS_PREFIX}{digest(root.encode(errors='surrogatepass'))[:32]}"


def decode_turns(value: bytes | None, root: str) -> TreeTurns:
    try:
        return TreeTurns(root) if value is None else msgspec.msgpack.decode(value, type=decodable(TreeTurns))
    except msgspec.MsgspecError:  # of another version
        return TreeTurns(root)


def trees_due(store: Store) -> list[TreeTurns]:
    """Every work tree in which a turn began or ended since its last comparison."""
    trees = [decode_turns(value, "") for value in store.remembered_under(TURNS_PREFIX).values()]
    return [turns for turns in trees if turns.root and turns.due is not None and turns.due >= turns.not_before]


def keep_turns(transaction: Transaction, tree: TreeTurns) -> None:
    if not tree.turns and tree.due is None and not tree.not_before:
        transaction.remember(turns_name(tree.root), None)
        return
    tree.turns = tree.turns[-limits.MAX_TURNS :]
    transaction.remember(turns_name(tree.root), msgspec.msgpack.encode(tree))
