"""Listings as they were at a moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.errors import NotFound
from holdfast.core.model import Row
from holdfast.core.times import text

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def rows_at(keeper: Keeper, rows: Iterable[Row], at: int, *, status: str | None, limit: int | None) -> list[Row]:
    """The rows as they were then: what had not begun is left out."""
    found: list[Row] = []
    for row in rows:
        if len(found) == limit:
            break
        try:
            state = keeper.state(row.id, at=at)
        except NotFound:
            continue
        was = view.status_of(state)
        if status is not None and was != status:
            continue
        found.append(
            Row(
                id=row.id, goal=view.word(state, "goal") or "", status=was, progress=view.progress_of(state),
                project=row.project, device=view.device_of(state), created_at=row.created_at,
                updated_at=text(state.updated_at), working_ms=view.worktime(state, at).working,
                archived=keeper.is_archived(state, at=at),
            )
        )  # fmt: skip
    return found
