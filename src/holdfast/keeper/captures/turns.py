"""Keep the turns of a work tree's conversations, from what their hooks report, until the tree is compared.

Kept in the store's memory, in the transaction that records the payloads: a drain that dies and is repeated keeps
every turn once. `comparison` reads them, and removes those that it has taken into account.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.capture.signals import (
    AnySignal,
    Chosen,
    Closed,
    Erred,
    Limited,
    Measured,
    Opened,
    Prompted,
    Ran,
    Replied,
)
from holdfast.core import limits, view
from holdfast.core.attribution import RanCommand, Turn
from holdfast.core.canonical import digest
from holdfast.core.decoding import decodable

if TYPE_CHECKING:
    from holdfast.capture.interface import Heard
    from holdfast.store.interface import Store, Transaction

PREFIX: Final = "turns/"
# Not compiled here: hooks that answer load this module too.
_COMMITS: Final = r"\bgit\b[^|;&\n]*\b(?:commit|merge|rebase|cherry-pick|revert|am|pull)\b"
_SLACK: Final = 1_000  # ms by which the clocks of an agent and of files may differ


class TreeTurns(msgspec.Struct, gc=False):
    """The turns of one work tree since it was last compared, and when the latest of their boundaries was."""

    root: str
    turns: list[Turn] = []
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
    return [one for one in found if one.root and one.due is not None and one.due >= one.not_before]


def keep(transaction: Transaction, tree: TreeTurns) -> None:
    if not tree.turns and tree.due is None and not tree.not_before:
        transaction.remember(name_of(tree.root), None)
        return
    tree.turns = tree.turns[-limits.TURNS :]
    transaction.remember(name_of(tree.root), msgspec.msgpack.encode(tree))


def note(transaction: Transaction, root: str, reported: Iterable[tuple[Heard, int, str]]) -> bool:
    """Take in what payloads say of turns, each with its time and its session; says whether one began or ended."""
    tree = decoded(transaction.remembered(name_of(root)), root)
    before = tree.due
    for heard, at, session in reported:
        name = view.native_name(heard.agent, heard.conversation)
        for signal in heard.signals:
            _note(tree, name, session, signal, at)
        # An error that is not a tool's is the end of the turn, and of all that is said of it.
        alone = all(isinstance(signal, Erred | Chosen) for signal in heard.signals)
        if alone and any(isinstance(signal, Erred) and signal.agent is None for signal in heard.signals):
            _note(tree, name, session, Replied(), at)
    keep(transaction, tree)
    return tree.due != before


def _note(tree: TreeTurns, conversation: str, session: str, signal: AnySignal, at: int) -> None:
    turn = next((one for one in reversed(tree.turns) if one.conversation == conversation), None)
    if turn is not None and turn.ended is not None:
        turn = None
    match signal:
        case Prompted(agent=None):
            _end(turn, at, broken_off=True)
            tree.turns.append(Turn(conversation, session, at, at))
        case Replied(agent=None) | Limited(agent=None):
            _end(turn, at, broken_off=False)
        case Closed(agent=None):
            _end(turn, at, broken_off=True)
            # What the person changed since the last turn belongs to this conversation's session.
            tree.turns.append(Turn(conversation, session, at, at, at))
        case Opened(agent=None) if signal.how != "compact":
            _end(turn, at, broken_off=True)
            return
        case Ran() if turn is not None:
            since = turn.began if signal.took_ms is None else max(turn.began, at - signal.took_ms - _SLACK)
            makes_commits = "git" in signal.command and re.search(_COMMITS, signal.command) is not None
            turn.commands = [*turn.commands, RanCommand(since, at, makes_commits)][-limits.TURN_COMMANDS :]
            turn.heard = max(turn.heard, at)
            return
        case Measured():  # a status line speaks by itself
            return
        case _:
            if turn is not None:
                turn.heard = max(turn.heard, at)
            return
    tree.due = at


def _end(turn: Turn | None, at: int, *, broken_off: bool) -> None:
    if turn is not None:
        turn.ended, turn.broken_off = max(at, turn.began), broken_off
