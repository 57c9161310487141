"""What only this machine knows, taken from a damaged store into a new one: no event says it again.

SQLite reads it in a copy in memory, with the header as it must be, so that only damage to these tables themselves
stands in the way. What cannot be read is said.
"""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.store.sqlite import carving, pages, schema

# Not what speaks of places in the log: events may be lost, and those that are left get new ones.
_MEMORY = "SELECT name, value FROM memory WHERE name NOT GLOB 'vault/*' AND name NOT GLOB 'arrivals/*'"
_ROWS = {
    "places": ("SELECT path, session FROM places", (str, str)),
    "projects": ("SELECT id, name FROM projects", (str, str)),
    "evidence": ("SELECT kind, value, project FROM evidence", (str, str, str)),
    "facts": ("SELECT name, value FROM facts WHERE name LIKE 'aside:%'", (str, str)),
    "memory": (_MEMORY, (str, bytes)),
}


def carry_over(images: list[pages.Image], target: apsw.Connection) -> list[str]:
    """Put what can be read into the new store, which holds its events already; sentences say what could not be."""
    unread, remotes = set(_ROWS), False
    for image in reversed(images):  # what was kept aside before a repair was cut off has the journal too
        for data in dict.fromkeys((image.latest, image.data)):
            read, known = _take(data, target)
            unread -= read
            remotes = remotes or known
        if "places" in unread:
            for path, session in carving.places(image).items():
                target.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", (path, session))
    if unread & {"projects", "evidence"}:
        target.execute("DELETE FROM evidence; DELETE FROM projects")  # none at all are made anew from the sessions
    said = [*_unknown_sessions(target), *_said(unread, target, remotes=remotes)]
    if any(image.leftover for image in images):
        said.append(
            "A part of the journal could not be read: which session is current in a work tree, and where projects"
            " lie, may be as it was before that."
        )
    return said


def _take(data: bytes, target: apsw.Connection) -> tuple[set[str], bool]:
    """The tables that were read to their end; and whether anything was known of remotes."""
    read: set[str] = set()
    if len(data) < pages.PAGE:
        return read, False
    source = apsw.Connection(":memory:")
    try:
        source.deserialize("main", pages.with_sound_header(data))
        if schema.version_of_tables(source) == 1:
            read.add("memory")  # which had none yet
        for table, (sql, types) in _ROWS.items():
            marks = ", ".join("?" * len(types))
            whole = True
            for row in _readable(source, sql):
                if row is None or tuple(type(value) for value in row) != types:
                    whole = False
                else:
                    target.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)  # noqa: S608 (constants)
            if whole:
                read.add(table)
        return read, bool(list(_readable(source, "SELECT 1 FROM memory WHERE name GLOB 'vault/*' LIMIT 1")))
    finally:
        source.close()


def _readable(source: apsw.Connection, sql: str) -> Iterator[tuple[apsw.SQLiteValue, ...] | None]:
    """Rows until the damage; None stands for it."""
    try:
        yield from source.execute(sql)
    except (apsw.Error, UnicodeDecodeError):
        yield None


def _unknown_sessions(target: apsw.Connection) -> Iterator[str]:
    sql = "DELETE FROM places WHERE session NOT IN (SELECT id FROM sessions) RETURNING path, session"
    for path, session in list(target.execute(sql)):
        yield f"{path} was at session {session}, of which nothing could be saved."


def _said(unread: set[str], target: apsw.Connection, *, remotes: bool) -> Iterator[str]:
    if "places" in unread:
        (count,) = next(target.execute("SELECT count(*) FROM places"))
        yield (
            "Which session is current in which work tree could not be read as a whole"
            f" ({count} found). Where none is, or the wrong one: holdfast resume ID"
        )
    if unread & {"projects", "evidence"}:
        yield (
            "Where projects lie could not be read as a whole and is taken from their sessions."
            " For one that was moved since: holdfast project reconnect OLD-PATH"
        )
    if remotes or "memory" in unread:
        yield "What was known of remotes, if any, is forgotten: the next holdfast sync asks them anew."
