"""Repair the local state, which no event repeats, or move it from a damaged store to a new one.

SQLite reads a damaged store as a copy in memory with a correct header, so that only damage to these tables themselves
matters. What cannot be read is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw

from holdfast.store.sqlite import page_scan, pages, schema

_COLUMNS: dict[str, dict[str, type]] = {
    "places": {"path": str, "session": str},
    "projects": {"id": str, "name": str},
    "evidence": {"kind": str, "value": str, "project": str},
    "memory": {"name": str, "value": bytes},
    "facts": {"name": str, "value": str},
}
# Values about places in the log are not moved: events may be lost, and the others get new places.
_OF_PLACES = ("vault/", "arrivals/")
_FILTERS = {
    "facts": " WHERE name LIKE 'aside:%'",
    "memory": " WHERE " + " AND ".join(f"name NOT GLOB '{prefix}*'" for prefix in _OF_PLACES),
}
_TYPES: dict[type, str] = {str: "text", bytes: "blob"}


# ── in a store that can be used ──────────────────────────────────────────────────────────────────────────


def mistyped(connection: apsw.Connection) -> Iterator[str]:
    """The tables with a value that is not of its column's type, and therefore cannot be looked up."""
    for table in _COLUMNS:
        if table != "facts" and list(connection.execute(f"SELECT 1 FROM {table} WHERE {_wrong(table)} LIMIT 1")):  # noqa: S608
            yield table


def repair_types(connection: apsw.Connection) -> Iterator[str]:
    """Convert values to the types of their columns where possible; yields sentences about what was done."""
    for table in list(mistyped(connection)):
        types = _COLUMNS[table].values()
        columns = ", ".join(f"CAST({name} AS BLOB)" for name in _COLUMNS[table])
        rows = list(connection.execute(f"SELECT {columns} FROM {table} WHERE {_wrong(table)}"))  # noqa: S608
        connection.execute(f"DELETE FROM {table} WHERE {_wrong(table)}")  # noqa: S608
        lost = 0
        for row in rows:
            try:
                values = [value if kind is bytes else value.decode() for value, kind in zip(row, types, strict=True)]
            except (UnicodeDecodeError, AttributeError):
                lost += 1
            else:
                _insert(connection, table, values)
        yield f"Of {table}, {len(rows) - lost} damaged rows are repaired, and {lost} could not be saved."


def _wrong(table: str) -> str:
    return " OR ".join(f"typeof({name}) <> '{_TYPES[kind]}'" for name, kind in _COLUMNS[table].items())


def _insert(connection: apsw.Connection, table: str, row: Sequence[apsw.SQLiteValue]) -> None:
    names, marks = ", ".join(_COLUMNS[table]), ", ".join("?" * len(row))
    connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", row)  # noqa: S608 (constants)


# ── from one that cannot ─────────────────────────────────────────────────────────────────────────────────


def carry_over(images: list[pages.Image], target: apsw.Connection) -> list[str]:
    """Move what can be read to the new store, which has its events already; returns what could not, in sentences."""
    unread, remotes = set(_COLUMNS), False
    for image in reversed(images):  # the last image, of an interrupted repair, includes the journal
        for data in dict.fromkeys((image.latest, image.data)):
            copied, had_remotes = _copy_tables(data, target)
            unread -= copied
            remotes = remotes or had_remotes
        if "places" in unread:
            for path, session in page_scan.places(image).items():
                _insert(target, "places", (path, session))
        if "memory" in unread:
            for name, value in page_scan.memory(image).items():
                if not name.startswith(_OF_PLACES):
                    _insert(target, "memory", (name, value))
    if unread & {"projects", "evidence"}:
        target.execute("DELETE FROM evidence; DELETE FROM projects")  # with none left, both are rebuilt from sessions
    report = [*_unknown_sessions(target), *_report(unread, target, remotes=remotes)]
    if any(image.leftover for image in images):
        report.append(
            "Part of the journal could not be read: the current sessions of work trees and the paths of projects may"
            " be out of date."
        )
    return report


def _copy_tables(data: bytes, target: apsw.Connection) -> tuple[set[str], bool]:
    """Copy the tables that can be read; returns those that were complete, and whether remotes were known."""
    copied: set[str] = set()
    if len(data) < pages.PAGE:
        return copied, False
    source = apsw.Connection(":memory:")
    try:
        source.deserialize("main", pages.with_sound_header(data))
        if schema.version_of_tables(source) == 1:
            copied.add("memory")  # that version had no such table
        for table, columns in _COLUMNS.items():
            complete = True
            for row in _readable(source, f"SELECT {', '.join(columns)} FROM {table}{_FILTERS.get(table, '')}"):  # noqa: S608
                if row is None or [type(value) for value in row] != list(columns.values()):
                    complete = False
                else:
                    _insert(target, table, row)
            if complete:
                copied.add(table)
        return copied, bool(list(_readable(source, "SELECT 1 FROM memory WHERE name GLOB 'vault/*' LIMIT 1")))
    finally:
        source.close()


def _readable(source: apsw.Connection, sql: str) -> Iterator[tuple[apsw.SQLiteValue, ...] | None]:
    """Rows up to the first damage, then None."""
    try:
        yield from source.execute(sql)
    except (apsw.Error, UnicodeDecodeError):
        yield None


def _unknown_sessions(target: apsw.Connection) -> Iterator[str]:
    sql = "DELETE FROM places WHERE session NOT IN (SELECT id FROM sessions) RETURNING path, session"
    for path, session in list(target.execute(sql)):
        yield f"The current session of {path} was {session}, of which nothing could be saved."


def _report(unread: set[str], target: apsw.Connection, *, remotes: bool) -> Iterator[str]:
    if "places" in unread:
        (count,) = next(target.execute("SELECT count(*) FROM places"))
        yield (
            f"Not all current sessions of work trees could be read ({count} were)."
            " Where one is missing or wrong: holdfast resume ID"
        )
    if unread & {"projects", "evidence"}:
        yield (
            "Not all paths of projects could be read: they are taken from the sessions."
            " For a project that was moved since: holdfast project reconnect OLD-PATH"
        )
    if "memory" in unread:
        (count,) = next(target.execute("SELECT count(*) FROM memory WHERE name GLOB 'origin/share/*'"))
        yield (
            f"The list of sessions that others shared with you could not be read completely ({count} were): all other"
            " sessions count as your own."
        )
    if remotes or "memory" in unread:
        yield "What was known about remotes, if anything, is lost: the next holdfast sync reads them again."
