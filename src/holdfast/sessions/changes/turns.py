"""The turns of a work tree's conversations, kept until the tree is compared.

Kept in the store's memory, in the transaction that records the payloads: a drain that dies and is repeated keeps
every turn once. `comparison` reads them, and removes those that it has taken into account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import limits
from holdfast.core.attribution import AgentTurn
from holdfast.core.canonical import digest
from holdfast.core.decode import decodable

if TYPE_CHECKING:
    from holdfast.store.interface import Store, Transaction

PREFIX: Final = "turns/"


class TreeTurns(msgspec.Struct, gc=False):
    """The turns of one work tree since it was last compared, and when the latest of their boundaries was."""

    root: str
    turns: list[AgentTurn] = []
    due: int | None = None
    # It took too much: until then it is left alone.
    not_before: int = 0


def name_of(root: str) -> str:
    return f"{PREFIX}{digest(root.encode(errors='surrogatepass'))[:32]}"


def decoded(kept: bytes | None, root: str) -> TreeTurns:
    try:
        return TreeTurns(root) if kept is None else msgspec.msgpack.decode(kept, type=decodable(TreeTurns))
    except msgspec.MsgspecError:  # of another version
        return TreeTurns(root)


def all_due(store: Store) -> list[TreeTurns]:
    """Every work tree in which a turn began or ended since it was compared."""
    found = [decoded(kept, "") for kept in store.remembered_under(PREFIX).values()]
    return [turns for turns in found if turns.root and turns.due is not None and turns.due >= turns.not_before]


def keep(transaction: Transaction, tree: TreeTurns) -> None:
    if not tree.turns and tree.due is None and not tree.not_before:
        transaction.remember(name_of(tree.root), None)
        return
    tree.turns = tree.turns[-limits.TURNS :]
    transaction.remember(name_of(tree.root), msgspec.msgpack.encode(tree))
