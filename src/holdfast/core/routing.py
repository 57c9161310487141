"""Decides which session a conversation belongs to: one rule for hooks and for transcripts.

A person who begins a session, or takes one up, means what happens next in that work tree: conversations join it.
Otherwise each conversation is a session of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core import own_words
from holdfast.core.own_words import IsOwn
from holdfast.core.state import State


class Candidate(NamedTuple):
    """A session of the work tree that a conversation could join."""

    session: str
    # Whether one of us began it or took it up.
    taken_up: bool
    # Of ours, too: what others do in it does not make it gather our work.
    last_sign: int
    over: bool = False


def candidate(state: State, is_own: IsOwn, *, over: bool = False) -> Candidate:
    taken_up = own_words.taken_up_at(state, is_own) is not None
    return Candidate(state.session, taken_up, own_words.last_sign(state, is_own), over)


def gathers(current: Candidate, at: int, join: int) -> bool:
    """Whether a conversation that begins at a moment joins it; `join` is how long that lasts, in milliseconds."""
    return current.taken_up and not current.over and at - current.last_sign < join


def session_for(own: str | None, current: Candidate | None, *, single: bool, at: int, join: int) -> str | None:
    """The session that takes what a conversation says at a moment; None when it begins one.

    `own` is the conversation's own session, while that takes anything. `single`: a mirror holds one session, so that
    the work tree has one, and everything joins it.
    """
    if single and current is not None and not current.over:
        return current.session
    if own is not None:
        return own
    if current is not None and gathers(current, at, join):
        return current.session
    return None
