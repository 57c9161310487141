"""Listings in SQL: which sessions a filter shows, newest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.core import search
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row
from holdfast.core.times import text
from holdfast.store.interface import Filter

Ask = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]

_SHOWN: Final = (
    "SELECT id, goal, status, progress, name, device, created_at, updated_at, working_ms, archived, ended_at"
    " FROM sessions WHERE deleted = 0 AND version > 0"
)
_UNFINISHED: Final = f"AND status NOT IN ({', '.join(repr(one) for one in sorted(FINISHED))})"


def rows(ask: Ask, which: Filter) -> list[Row]:
    conditions = _conditions(which)
    if conditions is None:
        return []
    sql = [_SHOWN, *(condition for condition, _ in conditions), "ORDER BY created_at DESC, id DESC"]
    values = [value for _, some in conditions for value in some]
    if which.limit is not None:
        sql.append("LIMIT ?")
        values.append(which.limit)
    return [_row(found, which) for found in ask(" ".join(sql), tuple(values))]


def project_names(ask: Ask) -> list[str]:
    sql = "SELECT DISTINCT name FROM sessions WHERE deleted = 0 AND version > 0 AND name <> '' ORDER BY name"
    return [name for (name,) in ask(sql, ())]


def _conditions(which: Filter) -> list[tuple[str, tuple[Any, ...]]] | None:
    """Each with its values; None when nothing can fulfil them."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    if which.projects is not None:
        found.append((f"AND project IN ({', '.join('?' * len(which.projects))})", which.projects))
    if which.name is not None:
        found.append(("AND name = ?", (which.name,)))
    if which.status is not None:
        found.append(("AND status = ?", (which.status,)))
    if which.unfinished:
        found.append((_UNFINISHED, ()))
    if which.archived is not None:
        if which.archive_after is None:
            found.append(("AND coalesce(archived, 0) = ?", (which.archived,)))
        else:
            aged = "coalesce(archived, ended_at IS NOT NULL AND ? - ended_at > ?) = ?"
            found.append((f"AND {aged}", (which.now, which.archive_after, which.archived)))
    if which.since is not None:
        found.append(("AND created_at >= ?", (which.since,)))
    if which.before is not None:
        found.append(("AND (created_at, id) < (?, ?)", which.before))
    if which.search is not None:
        whole, begun = search.query(which.search)
        if not begun:
            return None
        within = "AND ref IN (SELECT session FROM words WHERE word {})"
        found.append((within.format(">= ? AND word < ?"), (begun, begun + "\U0010ffff")))
        found += [(within.format("= ?"), (word,)) for word in whole]
    return found


def _row(values: tuple[Any, ...], which: Filter) -> Row:
    id_, goal, status, progress, name, device, created, updated, working, archived, ended = values
    aged = which.archive_after is not None and ended is not None and which.now - ended > which.archive_after
    return Row(
        id=id_, goal=goal, status=status, progress=progress, project=name, device=device,
        created_at=text(created), updated_at=text(updated), working_ms=working,
        archived=aged if archived is None else bool(archived),
    )  # fmt: skip
