"""Repair: everything derived is rebuilt from the log, damaged events are set aside, what is lost is said.

A file that SQLite itself cannot walk is replaced by a new one that holds every event still readable; the damaged
one stays, under another name. Nothing is deleted because it could not be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import msgspec

from holdfast.core.errors import Damaged, HoldfastError
from holdfast.core.event import trouble
from holdfast.machine import files
from holdfast.machine.wall import Wall
from holdfast.store.journal import Journal
from holdfast.store.sqlite import aside
from holdfast.store.sqlite import connection as opening
from holdfast.store.sqlite.tables import COLUMNS, SqliteTables, event_of
from holdfast.store.sqlite.trouble import speaking
from holdfast.store.verify import flaws

_LOCAL = ("projects", "evidence", "places")


def repair(path: str) -> list[str]:
    """Repair the store at this path; sentences say what was done and what could not be saved."""
    stamp = str(Wall().now())
    said: list[str] = []
    if not _walkable(path):
        said += _replace(path, stamp)
    connection = opening.connect(path)
    try:
        with speaking("repair the store", path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                said += _in_place(connection, path, stamp)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
    finally:
        connection.close()
    return said


def _walkable(path: str) -> bool:
    try:
        connection = opening.connect(path)
    except Damaged:
        return False
    try:
        said = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
        if said == ["ok"]:
            return True
        connection.execute("REINDEX")  # an index alone is quickly rebuilt
        return [row[0] for row in connection.execute("PRAGMA integrity_check(1)")] == ["ok"]
    except apsw.Error:
        return False
    finally:
        connection.close()


# ── in a file that can be walked ─────────────────────────────────────────────────────────────────────────


def _in_place(connection: apsw.Connection, path: str, stamp: str) -> list[str]:
    said = _set_damaged_aside(connection, path, stamp)
    run = connection.execute
    for derived in ("snapshots", "words", "aliases"):
        run(f"DELETE FROM {derived}")  # noqa: S608 (constants)
    run("DELETE FROM sessions WHERE ref NOT IN (SELECT session FROM events)")
    tables = SqliteTables(connection)
    journal = Journal(tables, writer=_nobody, wall=_never, salt=_nothing)
    for (session,) in list(run("SELECT id FROM sessions ORDER BY ref")):
        journal.refold(session)
        for flaw in flaws(tables.read(session)):
            name = f"aside:{session}:{flaw.writer}:{flaw.seq}"
            if not list(run("SELECT 1 FROM facts WHERE name = ?", (name,))):
                said.append(f"Session {session}: {flaw.detail}; it could not be saved.")
                run("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, stamp))
        journal.flush()
    return said


def _set_damaged_aside(connection: apsw.Connection, path: str, stamp: str) -> list[str]:
    """Events whose content does not fit their hash, or that cannot be read, leave the log for a file."""
    damaged: list[dict[str, Any]] = []
    names = dict(connection.execute("SELECT ref, id FROM sessions"))
    rows = connection.execute(
        f"SELECT e.ord, e.session, {COLUMNS} FROM events e LEFT JOIN writers w ON w.ref = e.writer"  # noqa: S608
    )
    for ord_, ref, *values in rows:
        session = names.get(ref)
        if session is None or _unreadable(session, tuple(values)):
            columns = [name.partition(".")[2] for name in COLUMNS.split(", ")]
            columns[0] = "writer"
            damaged.append({"ord": ord_, "session": session or ref, **dict(zip(columns, values, strict=True))})
    if not damaged:
        return []
    kept = aside.keep_rows(path, stamp, damaged)
    said = [f"{len(damaged)} damaged event(s) were set aside in {kept}."]
    for row in damaged:
        connection.execute("DELETE FROM events WHERE ord = ?", (row["ord"],))
        said.append(f"Session {row['session']}: event {row['seq']} ({row['type']}) is damaged and was set aside.")
        connection.execute(
            "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)",
            (f"aside:{row['session']}:{row['writer']}:{row['seq']}", stamp),
        )
    return said


def _unreadable(session: str, values: tuple[Any, ...]) -> bool:
    try:
        return trouble(event_of(session, values)) is not None
    except (msgspec.MsgspecError, AttributeError, TypeError, ValueError, HoldfastError):
        return True


# ── a file that cannot ───────────────────────────────────────────────────────────────────────────────────


def _replace(path: str, stamp: str) -> list[str]:
    fresh = os.path.join(os.path.dirname(path), f".holdfast-{os.urandom(8).hex()}.tmp")
    saved = 0
    try:
        opening.create(fresh)
        target = opening.connect(fresh)
        try:
            target.execute("BEGIN IMMEDIATE")
            saved = _salvage(path, target)
            target.execute("COMMIT")
        finally:
            target.close()
        kept = aside.keep_file(path, stamp)
        # The old journal must be gone before the new file has the old name: it would be applied to it.
        for ending in ("-wal", "-shm"):
            if os.path.lexists(path + ending):
                os.unlink(path + ending)
        os.replace(fresh, path)
        files.sync_directory(os.path.dirname(path))
    finally:
        for ending in ("", "-wal", "-shm"):
            if os.path.lexists(fresh + ending):
                os.unlink(fresh + ending)
    return [
        f"The store could not be read as a whole: {saved} event(s) were saved into a new one.",
        f"The damaged file was kept as {kept}.",
    ]


def _salvage(path: str, target: apsw.Connection) -> int:
    try:
        source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error:
        return 0
    try:
        for table in ("writers", "sessions"):
            column = "ref, id"
            for row in _readable(source, f"SELECT {column} FROM {table}"):  # noqa: S608 (constants)
                target.execute(f"INSERT OR IGNORE INTO {table} ({column}) VALUES (?, ?)", row)  # noqa: S608
        for table in _LOCAL:
            for row in _readable(source, f"SELECT * FROM {table}"):  # noqa: S608
                marks = ", ".join("?" * len(row))
                target.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)  # noqa: S608
        saved = 0
        for row in _events(source):
            target.execute(f"INSERT OR IGNORE INTO events VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
            saved += 1
        return saved
    finally:
        source.close()


def _readable(source: apsw.Connection, sql: str, values: tuple[int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Rows until the damage, if any."""
    try:
        yield from source.execute(sql, values)
    except apsw.Error:
        return


def _events(source: apsw.Connection) -> Iterator[tuple[Any, ...]]:
    """Forward to the damage, backward to it from the end, and then one by one what lies between."""
    first = 0
    for row in _readable(source, "SELECT * FROM events NOT INDEXED ORDER BY ord"):
        first = row[0]
        yield row
    backward = list(_readable(source, "SELECT * FROM events NOT INDEXED WHERE ord > ? ORDER BY ord DESC", (first,)))
    last = backward[-1][0] if backward else first
    for number in range(first + 1, last):
        yield from _readable(source, "SELECT * FROM events NOT INDEXED WHERE ord = ?", (number,))
    yield from reversed(backward)


_nobody: Callable[[], str] = str
_never: Callable[[], int] = int
_nothing: Callable[[], bytes] = bytes
