"""The tables and their migrations.

`events` is the log. Everything else is derived and can be rebuilt, except what belongs to this machine alone:
`places` (the current sessions of work trees) and `memory` (values by name).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw

from holdfast.core.errors import Damaged, Refused
from holdfast.store.sqlite.errors import SAVES

APPLICATION = 0x484F4C44  # "HOLD": tells a stray database from ours

_FIRST = """
CREATE TABLE writers (ref INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE events (
    ord     INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    writer  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    clock   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    v       INTEGER NOT NULL,
    type    TEXT NOT NULL,
    actor   TEXT NOT NULL,
    key     TEXT,
    double  INTEGER NOT NULL DEFAULT 0,
    seen    BLOB,
    body    BLOB NOT NULL,
    prev    BLOB,
    hash    BLOB NOT NULL,
    data    BLOB,
    salt    BLOB
);
CREATE INDEX events_in_order ON events (session, clock);
CREATE INDEX events_by_key ON events (session, key) WHERE key IS NOT NULL;

CREATE TABLE sessions (
    ref        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    version    INTEGER NOT NULL DEFAULT 0,
    project    TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL DEFAULT 0,
    ended_at   INTEGER,
    goal       TEXT NOT NULL DEFAULT '',
    status     TEXT NOT NULL DEFAULT 'created',
    progress   REAL NOT NULL DEFAULT 0,
    name       TEXT NOT NULL DEFAULT '',
    device     TEXT,
    working_ms INTEGER NOT NULL DEFAULT 0,
    archived   INTEGER,
    deleted    INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sessions_by_creation ON sessions (created_at, id);
CREATE INDEX sessions_by_project ON sessions (project, created_at, id);
CREATE TABLE aliases (alias TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (alias, session)) WITHOUT ROWID;
CREATE INDEX aliases_by_session ON aliases (session);
CREATE TABLE words (word TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (word, session)) WITHOUT ROWID;
CREATE TABLE snapshots (
    session INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    clock   INTEGER NOT NULL,
    fold    INTEGER NOT NULL,
    state   BLOB NOT NULL,
    UNIQUE (session, count)
);

CREATE TABLE projects (id TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE evidence (
    kind TEXT NOT NULL, value TEXT NOT NULL, project TEXT NOT NULL, PRIMARY KEY (kind, value, project)
) WITHOUT ROWID;
CREATE TABLE places (path TEXT PRIMARY KEY, session TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""

# Values may be large, so the rows are not kept in the index of their names.
_MEMORY = "CREATE TABLE memory (name TEXT PRIMARY KEY, value BLOB NOT NULL)"

# Nothing protects the version in the header, and a wrong one would lock the store or have it migrated twice. The
# tables confirm it: so every migration must change them, if only a name.
MIGRATIONS: Sequence[str] = (_FIRST, _MEMORY)


def version_of(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def tables_of(connection: apsw.Connection) -> dict[str, tuple[object, ...]]:
    """Tables and indexes with the SQL that made them, without SQLite's own statistics."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> 'sqlite_stat1'")
    return {f"{row[0]} {row[1]}": row[2:] for row in rows}


def due_tables(migrations: Sequence[str] = MIGRATIONS) -> Iterator[dict[str, tuple[object, ...]]]:
    """The tables of each version, beginning with none."""
    fresh = apsw.Connection(":memory:")
    try:
        yield {}
        for step in migrations:
            fresh.execute(step)
            yield tables_of(fresh)
    finally:
        fresh.close()


def version_of_tables(connection: apsw.Connection, migrations: Sequence[str] = MIGRATIONS) -> int | None:
    """The version whose tables these are; None when they are damaged or newer."""
    try:
        present = tables_of(connection)
    except (apsw.Error, UnicodeDecodeError):
        return None
    return next((version for version, expected in enumerate(due_tables(migrations)) if present == expected), None)


def refuse_other_versions(connection: apsw.Connection, path: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Raise when the header's version is not that of the tables, or unknown to this program."""
    header, tables = version_of(connection), version_of_tables(connection, migrations)
    if tables is not None and tables != header:
        raise Damaged(
            f"the store is damaged (its header gives version {header}, its tables are those of version {tables})",
            hint=SAVES,
            file=path,
        )
    if header > len(migrations):
        raise Refused(
            f"the store was written by a newer Holdfast (version {header}; this program knows {len(migrations)})",
            hint="Upgrade Holdfast here, or keep using the newer one.",
            file=path,
        )


def migrate(connection: apsw.Connection, path: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Upgrade the tables to this program's version, all steps or none."""
    if version_of(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        refuse_other_versions(connection, path, migrations)
        for step in migrations[version_of(connection) :]:  # read again: another process may have been first
            connection.execute(step)
        connection.pragma("application_id", APPLICATION)
        connection.pragma("user_version", len(migrations))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise
