"""What the devices of this person recorded in a session in which others write too.

Guests of a session, and members of a team who may write in it, say in it what they like. Where our next work goes,
and what a command then does here, follows from the words of our own devices. The fold cannot know which those are:
whoever asks tells a writer of ours from another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from holdfast.core.state import PauseMark, State

# Tells whether a writer of the session is a device of ours.
IsOwn: TypeAlias = Callable[[str], bool]


def taken_up_at(state: State, is_own: IsOwn) -> int | None:
    """When one of us last began the session or took it up: then conversations that begin here join it."""
    return _latest(state.taken_up, is_own)


def last_activity(state: State, is_own: IsOwn) -> int:
    """When one of us, or an agent of ours, last did something in it; 0 if never."""
    signs = {writer: max(item.until for item in signs) for writer, signs in state.time.signs.items() if signs}
    return max(_latest(signs, is_own) or 0, taken_up_at(state, is_own) or 0)


def last_event_at(state: State, is_own: IsOwn) -> int | None:
    """The latest time that one of us gave an event."""
    return _latest(state.latest, is_own)


def is_put_away(state: State, is_own: IsOwn) -> bool:
    """Whether our last word is that it is put away."""
    return next((said for writer, said in reversed(state.put_away.items()) if is_own(writer)), False)


def latest_mark(state: State, is_own: IsOwn) -> PauseMark | None:
    """With what one of us opened or ended a pause last."""
    marks = (mark for mark in reversed(state.time.marks) if mark.kind not in ("away", "worked"))
    return next((mark for mark in marks if is_own(mark.writer)), None)


def has_others(state: State, is_own: IsOwn) -> bool:
    """Whether anybody else writes in it."""
    return not all(is_own(writer) for writer in state.heads)


def _latest(times: Mapping[str, int], is_own: IsOwn) -> int | None:
    """The latest of our times. Telling who is ours may take long, so nobody is asked about who was earlier."""
    ordered = sorted(times.items(), key=lambda one: one[1], reverse=True)
    return next((at for writer, at in ordered if is_own(writer)), None)
