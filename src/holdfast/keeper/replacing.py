"""Putting a session away because another one takes its place in the work tree: paused, resumable, out of sight."""

from __future__ import annotations

from typing import Final

from holdfast.core import view
from holdfast.core.state import Mark, State
from holdfast.core.vocabulary import Data, SessionArchived, SessionPaused

REPLACED: Final = "Replaced by another session"


def put_away(state: State) -> list[Data]:
    """What is recorded of an unfinished session that another one replaces."""
    paused: list[Data] = [SessionPaused(reason=REPLACED)] if view.status_of(state) == "in_progress" else []
    return [*paused, SessionArchived()]


def was_put_away(state: State) -> bool:
    """Whether that is why it is paused now."""
    return view.status_of(state) == "paused" and is_replacement(view.latest_mark(state))


def is_replacement(mark: Mark | None) -> bool:
    """Whether this is the pause of a session that another one replaced."""
    return mark is not None and mark.kind == "manual" and mark.reason == REPLACED
