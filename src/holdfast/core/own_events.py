"""Read from a state what this person's own devices recorded, in a session in which others may write too.

Guests of a session and members of a team can record anything in it. So what a command does here follows only from
events of this person's own devices. The fold cannot know which these are: the caller recognizes own writers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from holdfast.core.state import PauseMark, State

# Whether a writer of the session is one of this person's devices.
IsOwn: TypeAlias = Callable[[str], bool]


def started_or_resumed_at(state: State, is_own: IsOwn) -> int | None:
    """When one of our devices last began the session or took it up: then conversations that begin here join it."""
    return _latest(state.taken_up, is_own)


def last_activity(state: State, is_own: IsOwn) -> int:
    """When one of our devices was last active in it; 0 if never."""
    signs = {writer: max(item.until for item in signs) for writer, signs in state.time.signs.items() if signs}
    return max(_latest(signs, is_own) or 0, started_or_resumed_at(state, is_own) or 0)


def last_event_at(state: State, is_own: IsOwn) -> int | None:
    """The latest time of an event from our devices."""
    return _latest(state.latest, is_own)


def is_archived_by_us(state: State, is_own: IsOwn) -> bool:
    """Whether our devices archived it, and nothing has reopened it since."""
    return next((archived for writer, archived in reversed(state.put_away.items()) if is_own(writer)), False)


def latest_mark(state: State, is_own: IsOwn) -> PauseMark | None:
    """The mark with which one of our devices last opened or ended a pause."""
    marks = (mark for mark in reversed(state.time.marks) if mark.kind not in ("away", "worked"))
    return next((mark for mark in marks if is_own(mark.writer)), None)


def has_others(state: State, is_own: IsOwn) -> bool:
    """Whether anybody else has recorded events in it."""
    return not all(is_own(writer) for writer in state.heads)


def _latest(times: Mapping[str, int], is_own: IsOwn) -> int | None:
    """The latest of our times. Recognizing own writers may be slow, so earlier times are not checked."""
    ordered = sorted(times.items(), key=lambda entry: entry[1], reverse=True)
    return next((at for writer, at in ordered if is_own(writer)), None)
