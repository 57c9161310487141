"""What listings show of a session, as of its last event: a listing does not change by itself."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core import view
from holdfast.core.state import State


class Summary(NamedTuple):
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


def summary(state: State) -> Summary:
    project, deleted = state.project, state.deleted
    return Summary(
        project=project.id if project else "",
        created_at=state.created_at if state.created_at is not None else state.updated_at,
        updated_at=state.updated_at,
        ended_at=view.ended_at(state),
        goal="" if deleted else view.word(state, "goal") or "",
        status=view.status_of(state),
        progress=view.progress_of(state),
        name=project.name if project and not deleted else "",
        device=view.device_of(state),
        working_ms=view.worktime(state, state.updated_at).working,
        archived=state.archived,
        deleted=deleted,
    )
