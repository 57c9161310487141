"""Listings in SQL: which sessions a filter shows, newest first, and which ones a reference could mean.

Shared by all kinds of store that use SQL. Values are marked with `?`; a store whose database wants another mark
replaces it: no `?` is used for anything else, and there is no `%`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row
from holdfast.core.text import parse_query
from holdfast.core.times import format_time
from holdfast.store.interface import Filter, ListedProject

Ask = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
Condition = tuple[str, tuple[Any, ...]]


def _with_words(whole: Sequence[str], begun: str) -> list[Condition]:
    looked_up = "ref IN (SELECT session FROM words WHERE word {})"
    return [
        (looked_up.format(">= ? AND word < ?"), (begun, begun + "\U0010ffff")),
        *((looked_up.format("= ?"), (word,)) for word in whole),
    ]


def _called(alias: str) -> Condition:
    return "ref IN (SELECT session FROM aliases WHERE alias = ?)", (alias,)


def _called_like(part: str) -> Condition:
    return "ref IN (SELECT session FROM aliases WHERE instr(lower(alias), ?) > 0)", (part,)


class Within(NamedTuple):
    """The part of the tables that belongs to this store: a condition on rows of `sessions`.

    Where the tables hold many sessions and few of them can be seen, `parts` are conditions of which just one holds
    for each visible session: each has an index that gives its newest rows first. `with_words` finds sessions with
    whole words and the beginning of one more, `called` those with an alias, `called_like` those with a part of an
    alias, in lower case. If words are only searched in visible sessions, the matches are `few` and need no parts.
    """

    condition: str = "1 = 1"
    values: tuple[Any, ...] = ()
    parts: tuple[str, ...] = ("1 = 1",)
    with_words: Callable[[Sequence[str], str], list[Condition]] = _with_words
    called: Callable[[str], Condition] = _called
    called_like: Callable[[str], Condition] = _called_like
    few: bool = False


# Most searches are for words, and need not look for an id.
_ID_LIKE: Final = re.compile(r"(?=.*[0-9_:-])\S+\Z")
_SHORTEST_PART: Final = 4  # of an id: so much tells one from others
_WHOLE: Final = Within()
_LISTED: Final = "deleted = 0 AND version > 0"
_COLUMNS: Final = "id, goal, status, progress, name, device, created_at, updated_at, working_ms, archived, ended_at"
_SHOWN: Final = f"SELECT {_COLUMNS} FROM sessions WHERE {_LISTED}"  # noqa: S608 (constants)
_UNFINISHED: Final = f"status NOT IN ({', '.join(repr(name) for name in sorted(FINISHED))})"
_AGED: Final = "coalesce(archived, CAST(ended_at IS NOT NULL AND ? - ended_at > ? AS INTEGER)) = ?"


def rows(ask: Ask, which: Filter, within: Within = _WHOLE) -> list[Row]:
    conditions = _conditions(which, within)
    if conditions is None:
        return []
    asked = " ".join([_SHOWN, *(f"AND {condition}" for condition, _ in conditions)])
    newest = "ORDER BY created_at DESC, id DESC" + (" LIMIT ?" if which.limit is not None else "")
    values = [value for _, some in conditions for value in some] + ([which.limit] if which.limit is not None else [])
    if len(within.parts) == 1 or (within.few and which.search is not None):
        return [_row(row, which) for row in ask(f"{asked} {newest}", tuple(values))]
    sql = " UNION ALL ".join(f"({asked} AND {part} {newest})" for part in within.parts)
    last = values[-1:] if which.limit is not None else []
    return [_row(row, which) for row in ask(f"{sql} {newest}", (*values * len(within.parts), *last))]


def projects(ask: Ask, within: Within = _WHOLE) -> list[ListedProject]:
    counts = Counter(_all(ask, within, "project, name", f"{_LISTED} AND name <> ''"))
    listed = [ListedProject(project, name, count) for (project, name), count in counts.items()]
    return sorted(listed, key=lambda project: (project.name.encode(), project.id))


def versions(ask: Ask, of: Sequence[str] | None = None, within: Within = _WHOLE) -> dict[str, int]:
    if of is None:
        return dict(_all(ask, within, "id, version", _LISTED))
    if not of:
        return {}
    sql = f"SELECT id, version FROM sessions WHERE {_LISTED} AND {within.condition}"  # noqa: S608 (constants)
    return dict(ask(f"{sql} AND id IN ({_marks(of)})", (*within.values, *of)))


def sessions(ask: Ask, within: Within = _WHOLE) -> list[str]:
    # Negative: a session whose events were all withdrawn.
    return [id_ for _, id_ in sorted(_all(ask, within, "created_at, id", "version >= 0"))]


def _all(ask: Ask, within: Within, columns: str, condition: str) -> list[Any]:
    """Columns of every visible session, in no order."""
    sql = f"SELECT {columns} FROM sessions WHERE {within.condition} AND {condition}"  # noqa: S608 (constants)
    parts = " UNION ALL ".join(f"{sql} AND {part}" for part in within.parts)
    return ask(parts, within.values * len(within.parts))


def find(ask: Ask, reference: str, within: Within = _WHOLE) -> list[str]:
    start = reference.lower()
    prefix, bounds = _begun(start)
    begun = f"SELECT id FROM sessions WHERE {_LISTED} AND {within.condition} AND {prefix}"  # noqa: S608
    condition, alias = within.called(reference)
    called = f"SELECT id FROM sessions WHERE deleted = 0 AND {within.condition} AND {condition}"  # noqa: S608
    values = (*within.values, *bounds, *within.values, *alias)
    return [id_ for (id_,) in ask(f"{begun} UNION {called} ORDER BY 1", values)]


def _conditions(which: Filter, within: Within) -> list[Condition] | None:
    """The conditions with their values; None when nothing can match."""
    conditions: list[Condition] = [(within.condition, within.values)]
    if which.projects is not None:
        if not which.projects:
            return None
        conditions.append((f"project IN ({_marks(which.projects)})", which.projects))
    if which.name is not None:
        conditions.append(("name = ?", (which.name,)))
    if which.status is not None:
        conditions.append(("status = ?", (which.status,)))
    if which.unfinished:
        conditions.append((_UNFINISHED, ()))
    if which.archived is not None:
        if which.archive_after is None:
            conditions.append(("coalesce(archived, 0) = ?", (int(which.archived),)))
        else:
            conditions.append((_AGED, (which.now, which.archive_after, int(which.archived))))
    if which.since is not None:
        conditions.append(("created_at >= ?", (which.since,)))
    if which.before is not None:
        conditions.append(("(created_at, id) < (?, ?)", which.before))
    if which.search is not None:
        whole, begun = parse_query(which.search)
        if not begun:
            return None
        says = within.with_words(whole, begun)
        name = which.search.strip()
        conditions += [_either(says, *_named(name, within))] if _ID_LIKE.match(name) else says
    return conditions


def _named(name: str, within: Within) -> list[Condition]:
    """The name is an alias of the session, a part of one, or the beginning of its id."""
    if len(name) < _SHORTEST_PART:
        return [within.called(name)]
    return [within.called_like(name.lower()), _begun(name.lower())]


def _begun(start: str) -> Condition:
    return "id >= ? AND id < ?", (start, start + "g")


def _either(says: list[Condition], *others: Condition) -> Condition:
    """The words of a query are in the session, or one of the other conditions holds."""
    words = " AND ".join(condition for condition, _ in says)
    every = " OR ".join(f"({condition})" for condition in (words, *(condition for condition, _ in others)))
    return f"({every})", tuple(value for _, values in (*says, *others) for value in values)


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _row(values: tuple[Any, ...], which: Filter) -> Row:
    id_, goal, status, progress, name, device, created, updated, working, archived, ended = values
    aged = which.archive_after is not None and ended is not None and which.now - ended > which.archive_after
    return Row(
        id=id_, goal=goal, status=status, progress=view.fraction(progress), project=name, device=device,
        created_at=format_time(created), updated_at=format_time(updated), working_ms=working,
        archived=aged if archived is None else bool(archived),
    )  # fmt: skip
