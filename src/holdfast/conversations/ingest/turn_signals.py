"""Note the turns of conversations in a work tree from what their hooks report."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from holdfast.conversations.signals import (
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
from holdfast.core.attribution import AgentTurn, RanCommand
from holdfast.sessions.changes.tree_state import TreeTurns, decode_turns, keep_turns, turns_name

if TYPE_CHECKING:
    from holdfast.conversations.adapters.base import HookEvent
    from holdfast.store.interface import Transaction

# Not compiled here: hooks that answer load this module too.
_COMMITS: Final = r"\bgit\b[^|;&\n]*\b(?:commit|merge|rebase|cherry-pick|revert|am|pull)\b"
_SLACK: Final = 1_000  # ms by which the clocks of an agent and of files may differ


def note(transaction: Transaction, root: str, reported: Iterable[tuple[HookEvent, int, str]]) -> bool:
    """Take in what payloads say of turns, each with its time and its session; says whether one began or ended."""
    tree = decode_turns(transaction.remembered(turns_name(root)), root)
    before = tree.due
    for heard, at, session in reported:
        name = view.native_name(heard.agent, heard.conversation)
        for signal in heard.signals:
            _note(tree, name, session, signal, at)
        # An error that is not a tool's is the end of the turn, and of all that is said of it.
        alone = all(isinstance(signal, Erred | Chosen) for signal in heard.signals)
        if alone and any(isinstance(signal, Erred) and signal.agent is None for signal in heard.signals):
            _note(tree, name, session, Replied(), at)
    keep_turns(transaction, tree)
    return tree.due != before


def _note(tree: TreeTurns, conversation: str, session: str, signal: AnySignal, at: int) -> None:
    turn = next((turn for turn in reversed(tree.turns) if turn.conversation == conversation), None)
    if turn is not None and turn.ended is not None:
        turn = None
    match signal:
        case Prompted(agent=None):
            _end(turn, at, broken_off=True)
            tree.turns.append(AgentTurn(conversation, session, at, at))
        case Replied(agent=None) | Limited(agent=None):
            _end(turn, at, broken_off=False)
        case Closed(agent=None):
            _end(turn, at, broken_off=True)
            # What the person changed since the last turn belongs to this conversation's session.
            tree.turns.append(AgentTurn(conversation, session, at, at, at))
        case Opened(agent=None) if signal.how != "compact":
            _end(turn, at, broken_off=True)
            return
        case Ran() if turn is not None:
            since = turn.began if signal.took_ms is None else max(turn.began, at - signal.took_ms - _SLACK)
            makes_commits = "git" in signal.command and re.search(_COMMITS, signal.command) is not None
            turn.commands = [*turn.commands, RanCommand(since, at, makes_commits)][-limits.MAX_TURN_COMMANDS :]
            turn.last_report = max(turn.last_report, at)
            return
        case Measured():  # a status line speaks by itself
            return
        case _:
            if turn is not None:
                turn.last_report = max(turn.last_report, at)
            return
    tree.due = at


def _end(turn: AgentTurn | None, at: int, *, broken_off: bool) -> None:
    if turn is not None:
        turn.ended, turn.broken_off = max(at, turn.began), broken_off
