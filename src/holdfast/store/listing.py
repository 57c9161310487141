"""Listings in SQL: which sessions a filter shows, newest first, and which ones a reference could mean.

Shared by all kinds of store that use SQL. Placeholders are `?`; a store may replace them by those of its database:
the SQL contains no other `?`, and no `%`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row
from holdfast.core.text import parse_query
from holdfast.core.times import format_time
from holdfast.store.interface import Filter, ListedProject
from holdfast.store.tables import SessionSummary

Condition = tuple[str, tuple[Any, ...]]


def _has_words(words: Sequence[str], beginning: str) -> list[Condition]:
    has_word = "ref IN (SELECT session FROM words WHERE word {})"
    return [
        (has_word.format(">= ? AND word < ?"), (beginning, beginning + "\U0010ffff")),
        *((has_word.format("= ?"), (word,)) for word in words),
    ]


def _has_alias(alias: str) -> Condition:
    return "ref IN (SELECT session FROM aliases WHERE alias = ?)", (alias,)


def _has_alias_with(part: str) -> Condition:
    return "ref IN (SELECT session FROM aliases WHERE instr(lower(alias), ?) > 0)", (part,)


class Within(NamedTuple):
    """The part of the tables that belongs to this store: a condition on rows of `sessions`.

    Where the tables hold many sessions and few of them can be seen, `parts` are conditions of which just one holds
    for each visible session; an index gives the newest rows of each part first. `has_words` finds sessions with
    whole words and the beginning of one more, `has_alias` those with an alias, `has_alias_with` those with a part of
    an alias, in lower case. `few_matches`: words are only searched in visible sessions, so a search needs no parts.
    """

    condition: str = "1 = 1"
    values: tuple[Any, ...] = ()
    parts: tuple[str, ...] = ("1 = 1",)
    has_words: Callable[[Sequence[str], str], list[Condition]] = _has_words
    has_alias: Callable[[str], Condition] = _has_alias
    has_alias_with: Callable[[str], Condition] = _has_alias_with
    few_matches: bool = False


# Most searches are for words: only a query that could be an id is looked up as one.
_LOOKS_LIKE_ID: Final = re.compile(r"(?=.*[0-9_:-])\S+\Z")
_SHORTEST_PART: Final = 4  # of an id: shorter parts match too many
_LISTED: Final = "deleted = 0 AND version > 0"
# The fields of a row that have a column, and their columns: a row names the project, whose id is in `project`.
_COLUMNS: Final = {
    field: "name" if field == "project" else field
    for field in Row.__struct_fields__
    if field in ("id", *SessionSummary._fields)
}
_SHOWN: Final = f"SELECT {', '.join(_COLUMNS.values())}, ended_at FROM sessions WHERE {_LISTED}"  # noqa: S608 (constants)
# How a field shows what is in its column, if not as it is.
_SHOWN_BY: Final[dict[str, Callable[[Any], object]]] = {
    "created_at": format_time, "updated_at": format_time, "progress": view.fraction,
}  # fmt: skip
_UNFINISHED: Final = f"status NOT IN ({', '.join(repr(name) for name in sorted(FINISHED))})"
_ARCHIVED_OR_OLD: Final = "coalesce(archived, CAST(ended_at IS NOT NULL AND ? - ended_at > ? AS INTEGER)) = ?"


class SqlListings:
    """The listings of a store with SQL, which derives from this and runs the queries."""

    _within = Within()

    def _listed(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def rows(self, which: Filter) -> list[Row]:
        conditions = _conditions(which, self._within)
        if conditions is None:
            return []
        select = " ".join([_SHOWN, *(f"AND {condition}" for condition, _ in conditions)])
        newest = "ORDER BY created_at DESC, id DESC" + (" LIMIT ?" if which.limit is not None else "")
        values = [value for _, parameters in conditions for value in parameters] + (
            [which.limit] if which.limit is not None else []
        )
        if len(self._within.parts) == 1 or (self._within.few_matches and which.search is not None):
            return [_row(row, which) for row in self._listed(f"{select} {newest}", tuple(values))]
        sql = " UNION ALL ".join(f"({select} AND {part} {newest})" for part in self._within.parts)
        last = values[-1:] if which.limit is not None else []
        return [
            _row(row, which) for row in self._listed(f"{sql} {newest}", (*values * len(self._within.parts), *last))
        ]

    def projects(self) -> list[ListedProject]:
        counts = Counter(self._select("project, name", f"{_LISTED} AND name <> ''"))
        listed = [ListedProject(project, name, count) for (project, name), count in counts.items()]
        return sorted(listed, key=lambda project: (project.name.encode(), project.id))

    def versions(self, of: Sequence[str] | None = None) -> dict[str, int]:
        if of is None:
            return dict(self._select("id, version", _LISTED))
        if not of:
            return {}
        sql = f"SELECT id, version FROM sessions WHERE {_LISTED} AND {self._within.condition}"  # noqa: S608 (constants)
        return dict(self._listed(f"{sql} AND id IN ({_placeholders(of)})", (*self._within.values, *of)))

    def sessions(self) -> Iterator[str]:
        # Negative: a session whose events were all withdrawn.
        return (id_ for _, id_ in sorted(self._select("created_at, id", "version >= 0")))

    def _select(self, columns: str, condition: str) -> list[Any]:
        """Columns of every visible session, in no order."""
        sql = f"SELECT {columns} FROM sessions WHERE {self._within.condition} AND {condition}"  # noqa: S608 (constants)
        parts = " UNION ALL ".join(f"{sql} AND {part}" for part in self._within.parts)
        return self._listed(parts, self._within.values * len(self._within.parts))

    def find(self, reference: str) -> list[str]:
        start = reference.lower()
        prefix, bounds = _id_begins_with(start)
        by_id = f"SELECT id FROM sessions WHERE {_LISTED} AND {self._within.condition} AND {prefix}"  # noqa: S608
        condition, alias = self._within.has_alias(reference)
        by_alias = f"SELECT id FROM sessions WHERE deleted = 0 AND {self._within.condition} AND {condition}"  # noqa: S608
        values = (*self._within.values, *bounds, *self._within.values, *alias)
        return [id_ for (id_,) in self._listed(f"{by_id} UNION {by_alias} ORDER BY 1", values)]


def _conditions(criteria: Filter, within: Within) -> list[Condition] | None:
    """The conditions with their values; None when nothing can match."""
    conditions: list[Condition] = [(within.condition, within.values)]
    if criteria.projects is not None:
        if not criteria.projects:
            return None
        conditions.append((f"project IN ({_placeholders(criteria.projects)})", criteria.projects))
    if criteria.name is not None:
        conditions.append(("name = ?", (criteria.name,)))
    if criteria.status is not None:
        conditions.append(("status = ?", (criteria.status,)))
    if criteria.unfinished:
        conditions.append((_UNFINISHED, ()))
    if criteria.archived is not None:
        if criteria.archive_after is None:
            conditions.append(("coalesce(archived, 0) = ?", (int(criteria.archived),)))
        else:
            conditions.append((_ARCHIVED_OR_OLD, (criteria.now, criteria.archive_after, int(criteria.archived))))
    if criteria.since is not None:
        conditions.append(("created_at >= ?", (criteria.since,)))
    if criteria.before is not None:
        conditions.append(("(created_at, id) < (?, ?)", criteria.before))
    if criteria.search is not None:
        words, beginning = parse_query(criteria.search)
        if not beginning:
            return None
        has_words = within.has_words(words, beginning)
        name = criteria.search.strip()
        conditions += [_any_of(has_words, *_is_named(name, within))] if _LOOKS_LIKE_ID.match(name) else has_words
    return conditions


def _is_named(name: str, within: Within) -> list[Condition]:
    """The name is an alias of the session, a part of one, or the beginning of its id."""
    if len(name) < _SHORTEST_PART:
        return [within.has_alias(name)]
    return [within.has_alias_with(name.lower()), _id_begins_with(name.lower())]


def _id_begins_with(start: str) -> Condition:
    return "id >= ? AND id < ?", (start, start + "g")


def _any_of(has_words: list[Condition], *others: Condition) -> Condition:
    """The words of a query are in the session, or one of the other conditions holds."""
    all_words = " AND ".join(condition for condition, _ in has_words)
    alternatives = " OR ".join(f"({condition})" for condition in (all_words, *(condition for condition, _ in others)))
    return f"({alternatives})", tuple(value for _, values in (*has_words, *others) for value in values)


def _placeholders(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _row(values: tuple[Any, ...], criteria: Filter) -> Row:
    *columns, ended = values
    shown = dict(zip(_COLUMNS, columns, strict=True))
    archived_by_age = (
        criteria.archive_after is not None and ended is not None and criteria.now - ended > criteria.archive_after
    )
    shown["archived"] = archived_by_age if shown["archived"] is None else bool(shown["archived"])
    return _as_row(shown)


def row_of(session: str, listed: SessionSummary, *, archived: bool) -> Row:
    """The row of a session at the time of its summary."""
    known = {"id": session, **listed._asdict(), "archived": archived}
    return _as_row({field: known[column] for field, column in _COLUMNS.items()})


def _as_row(columns: dict[str, Any]) -> Row:
    """A row from what is in its columns, by field."""
    for field, shown in _SHOWN_BY.items():
        columns[field] = shown(columns[field])
    return Row(**columns)
