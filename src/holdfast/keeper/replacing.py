"""Putting a session away because another one takes its place in the work tree: paused, resumable, out of sight."""

from __future__ import annotations

from typing import Final

from holdfast.core import view
from holdfast.core.state import State
from holdfast.core.vocabulary import Data, SessionArchived, SessionPaused

REPLACED: Final = "Replaced by another session"


def put_away(state: State) -> list[Data]:
    """What is recorded of an unfinished session that another one replaces."""
    paused: list[Data] = [SessionPaused(reason=REPLACED)] if view.status_of(state) == "in_progress" else []
    return [*paused, SessionArchived()]


def was_put_away(state: State) -> bool:
    """Whether that is why it is paused now."""
    return view.status_of(state) == "paused" and view.pause_reason(state) == REPLACED
