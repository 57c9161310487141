"""Listings as they were at a moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.errors import NotFound
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row
from holdfast.core.times import text
from holdfast.keeper.finding import archive_after
from holdfast.store.interface import Filter

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def rows_at(keeper: Keeper, rows: Iterable[Row], at: int, wanted: Filter) -> list[Row]:
    """The rows as they were then: what had not begun is left out, and what is not wanted as it was."""
    found: list[Row] = []
    after = archive_after(keeper, wanted)
    for row in rows:
        if len(found) == wanted.limit:
            break
        try:
            state = keeper.state(row.id, at=at)
        except NotFound:
            continue
        was = view.shown_status(state)
        put_away = keeper.is_archived(state, at=at, after=after)
        if (
            (wanted.status is not None and was != wanted.status)
            or (wanted.unfinished and was in FINISHED)
            or (wanted.archived is not None and put_away != wanted.archived)
        ):
            continue
        found.append(
            Row(
                id=row.id, goal=view.word(state, "goal") or "", status=was, progress=view.progress_of(state),
                project=row.project, device=view.device_of(state), created_at=row.created_at,
                updated_at=text(state.updated_at), working_ms=view.worktime(state, at).working,
                archived=put_away, over=keeper.is_over(state, at=at), aliases=view.aliases_of(state),
            )
        )  # fmt: skip
    return found
