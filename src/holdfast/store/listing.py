"""Listings in SQL: which sessions a filter shows, newest first, and which ones a reference could mean.

Every kind of store that speaks SQL asks with these. Values stand at `?`; a store whose database wants another mark
puts it there itself: no `?` stands for anything else, and there is no `%`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from holdfast.core import search
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row
from holdfast.core.times import text
from holdfast.store.interface import Filter

Ask = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]


class Within(NamedTuple):
    """The part of the tables that is this store: a condition that holds for rows of `sessions` and of `words`."""

    condition: str = "1 = 1"
    values: tuple[Any, ...] = ()


_WHOLE: Final = Within()
_LISTED: Final = "deleted = 0 AND version > 0"
_COLUMNS: Final = "id, goal, status, progress, name, device, created_at, updated_at, working_ms, archived, ended_at"
_SHOWN: Final = f"SELECT {_COLUMNS} FROM sessions WHERE {_LISTED}"  # noqa: S608 (constants)
_UNFINISHED: Final = f"status NOT IN ({', '.join(repr(one) for one in sorted(FINISHED))})"
_AGED: Final = "coalesce(archived, CAST(ended_at IS NOT NULL AND ? - ended_at > ? AS INTEGER)) = ?"


def rows(ask: Ask, which: Filter, within: Within = _WHOLE) -> list[Row]:
    conditions = _conditions(which, within)
    if conditions is None:
        return []
    sql = [_SHOWN, *(f"AND {condition}" for condition, _ in conditions), "ORDER BY created_at DESC, id DESC"]
    values = [value for _, some in conditions for value in some]
    if which.limit is not None:
        sql.append("LIMIT ?")
        values.append(which.limit)
    return [_row(found, which) for found in ask(" ".join(sql), tuple(values))]


def project_names(ask: Ask, within: Within = _WHOLE) -> list[str]:
    sql = f"SELECT DISTINCT name FROM sessions WHERE {_LISTED} AND {within.condition} AND name <> '' ORDER BY name"  # noqa: S608
    return [name for (name,) in ask(sql, within.values)]


def versions(ask: Ask, of: Sequence[str] | None = None, within: Within = _WHOLE) -> dict[str, int]:
    sql = f"SELECT id, version FROM sessions WHERE {_LISTED} AND {within.condition}"  # noqa: S608 (constants)
    if of is None:
        return dict(ask(sql, within.values))
    if not of:
        return {}
    return dict(ask(f"{sql} AND id IN ({_marks(of)})", (*within.values, *of)))


def sessions(ask: Ask, within: Within = _WHOLE) -> list[str]:
    # Less than nothing: a session whose events were all taken out again.
    sql = f"SELECT id FROM sessions WHERE version >= 0 AND {within.condition} ORDER BY created_at, id"  # noqa: S608
    return [id_ for (id_,) in ask(sql, within.values)]


def find(ask: Ask, reference: str, within: Within = _WHOLE) -> list[str]:
    start = reference.lower()
    begun = f"SELECT id FROM sessions WHERE {_LISTED} AND {within.condition} AND id >= ? AND id < ?"  # noqa: S608
    called = (
        f"SELECT id FROM sessions WHERE deleted = 0 AND {within.condition}"  # noqa: S608 (constants)
        " AND ref IN (SELECT session FROM aliases WHERE alias = ?)"
    )
    values = (*within.values, start, start + "g", *within.values, reference)
    return [id_ for (id_,) in ask(f"{begun} UNION {called} ORDER BY 1", values)]


def _conditions(which: Filter, within: Within) -> list[tuple[str, tuple[Any, ...]]] | None:
    """Each with its values; None when nothing can fulfil them."""
    found: list[tuple[str, tuple[Any, ...]]] = [within]
    if which.projects is not None:
        if not which.projects:
            return None
        found.append((f"project IN ({_marks(which.projects)})", which.projects))
    if which.name is not None:
        found.append(("name = ?", (which.name,)))
    if which.status is not None:
        found.append(("status = ?", (which.status,)))
    if which.unfinished:
        found.append((_UNFINISHED, ()))
    if which.archived is not None:
        if which.archive_after is None:
            found.append(("coalesce(archived, 0) = ?", (int(which.archived),)))
        else:
            found.append((_AGED, (which.now, which.archive_after, int(which.archived))))
    if which.since is not None:
        found.append(("created_at >= ?", (which.since,)))
    if which.before is not None:
        found.append(("(created_at, id) < (?, ?)", which.before))
    if which.search is not None:
        whole, begun = search.query(which.search)
        if not begun:
            return None
        looked_up = f"ref IN (SELECT session FROM words WHERE {within.condition} AND word {{}})"  # noqa: S608
        found.append((looked_up.format(">= ? AND word < ?"), (*within.values, begun, begun + "\U0010ffff")))
        found += [(looked_up.format("= ?"), (*within.values, word)) for word in whole]
    return found


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _row(values: tuple[Any, ...], which: Filter) -> Row:
    id_, goal, status, progress, name, device, created, updated, working, archived, ended = values
    aged = which.archive_after is not None and ended is not None and which.now - ended > which.archive_after
    return Row(
        id=id_, goal=goal, status=status, progress=progress, project=name, device=device,
        created_at=text(created), updated_at=text(updated), working_ms=working,
        archived=aged if archived is None else bool(archived),
    )  # fmt: skip
