"""What listings show of a session, as of its last event: a listing does not change by itself."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core import times, view
from holdfast.core.state import State
from holdfast.core.text import MAX_TEXT_LENGTH


class SessionSummary(NamedTuple):
    project: str
    created_at: int
    updated_at: int
    ended_at: int | None
    goal: str
    status: str
    progress: float
    name: str
    device: str | None
    working_ms: int
    archived: bool | None
    deleted: bool


def summary(state: State) -> SessionSummary:
    """Within bounds, whatever the events say: a server refuses a row beyond them, and with it what is recorded."""
    project, deleted, ended = state.project, state.deleted, view.ended_at(state)
    device = view.device_of(state)
    return SessionSummary(
        project=project.id if project and view.is_lookup_name(project.id) else "",
        created_at=_moment(state.created_at if state.created_at is not None else state.updated_at),
        updated_at=_moment(state.updated_at),
        ended_at=None if ended is None else _moment(ended),
        goal="" if deleted else (view.text_value(state, "goal") or "")[:MAX_TEXT_LENGTH],
        status=view.shown_status(state),
        progress=view.progress_of(state),
        name=project.name[:MAX_TEXT_LENGTH] if project and not deleted else "",
        device=None if device is None else device[:MAX_TEXT_LENGTH],
        working_ms=min(max(view.worktime(state, state.updated_at).working, 0), times.LATEST - times.EARLIEST),
        archived=state.archived,
        deleted=deleted,
    )


def _moment(ms: int) -> int:
    return min(max(ms, times.EARLIEST), times.LATEST)
