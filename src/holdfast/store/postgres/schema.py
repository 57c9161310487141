"""The tables on the server, created and upgraded by `holdfast store init`, never by mere use; and its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, LiteralString, get_args, get_type_hints

from holdfast.core.errors import Damaged, Invalid, NotFound, Refused
from holdfast.store.postgres.connections import Connection
from holdfast.store.postgres.errors import INIT
from holdfast.store.tables import WRITTEN_COLUMNS, SessionSummary

GROUP: Final = "holdfast_member"
OLDEST_SERVER: Final = 140000
MAX_PARTITIONS: Final = 1024
# Of the columns that listings show, by the types of their values.
_TYPES: Final = {int: "bigint", float: "double precision", str: "text", bool: "integer"}
_LOCK: Final = 0x484F4C44
_KNOWN: Final = "SELECT to_regclass('holdfast.facts') IS NOT NULL"
_VERSION: Final = "SELECT value FROM holdfast.facts WHERE name = 'version'"
_MAX_VERSION_DIGITS: Final = 9  # digits
_RESTORE_VERSION: Final = (
    "Ask the database administrator to restore the table holdfast.facts from a backup, or to enter the version,"
    " if known: name 'version', value '1' for the first."
)


def _statements(name: str) -> LiteralString:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _rights() -> LiteralString:
    """Who may do what, for the columns that listings show."""
    types = get_type_hints(SessionSummary)
    known = {name: _TYPES[(get_args(types[name]) or (types[name],))[0]] for name in WRITTEN_COLUMNS}
    return (
        _statements("rights")
        .replace("{parameters}", ", ".join(f"new_{name} {kind}" for name, kind in known.items()))
        .replace("{assignments}", ", ".join(f"{name} = new_{name}" for name in known))
        .replace("{columns}", ", ".join(SessionSummary._fields))
    )


MIGRATIONS: Sequence[str] = ("tables_1", "tables_2", "tables_3")


def version_of(connection: Connection) -> int:
    """The version of the tables; 0 where there are none."""
    row = connection.execute(_KNOWN).fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute(_VERSION).fetchone()
    return 0 if row is None else version_from(str(row[0]))


def version_from(value: str | None) -> int:
    """The version that the store's facts name; 0 where there is none."""
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and len(value) <= _MAX_VERSION_DIGITS):
        raise Damaged("the version of the store's tables cannot be read", hint=_RESTORE_VERSION)
    return int(value)


def refuse_other_versions(version: int, url: str, known: int = len(MIGRATIONS)) -> None:
    """Refuse a store of another version: its tables are shared, so mere use does not migrate them."""
    if version == known:
        return
    if not version:
        raise NotFound("there is no Holdfast store in this database", hint=INIT, file=url)
    if version > known:
        raise Refused(
            f"the store was made by a newer Holdfast (version {version}; this program knows {known})",
            hint="Upgrade Holdfast here.",
            file=url,
        )
    raise Refused(
        f"the store was made by an older Holdfast (version {version}; this program needs {known})",
        hint="Ask the database administrator to upgrade it: holdfast store init URL",
        file=url,
    )


def make(
    connection: Connection, url: str, *, partitions: int | None = None, known: Sequence[str] = MIGRATIONS
) -> list[str]:
    """Create the tables or upgrade them, all steps or none. Returns sentences about what was done."""
    _refuse_unsuitable(connection, url)
    done: list[str] = []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = version_of(connection)
        if version > len(known):
            refuse_other_versions(version, url, len(known))
        has_events = connection.execute("SELECT to_regclass('holdfast.events') IS NOT NULL").fetchone()
        if not version and has_events == (True,):
            raise Damaged("the tables exist, but their version is missing", hint=_RESTORE_VERSION, file=url)
        _make_group(connection, done)
        if not version:
            connection.execute("CREATE SCHEMA IF NOT EXISTS holdfast")
            connection.execute(
                'CREATE TABLE IF NOT EXISTS holdfast.facts (name text COLLATE "C" PRIMARY KEY, value text NOT NULL)'
            )
        for step in known[version:]:
            connection.execute(_statements(step))
        if not version:
            _divide(connection, "events", partitions or 1)
            done.append(f"created the tables, events in {partitions or 1} partition{'s' * ((partitions or 1) > 1)}")
        elif version < len(known):
            done.append(f"upgraded the tables from version {version} to {len(known)}")
        connection.execute(
            "INSERT INTO holdfast.facts (name, value) VALUES ('version', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(len(known)),),
        )
        connection.execute(_rights())
        connection.execute(_statements("asking"))
    return done


def _refuse_unsuitable(connection: Connection, url: str) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise Refused("the server is older than PostgreSQL 14", hint="Upgrade the server.", file=url)
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise Refused(
            f"the encoding of the database is {encoding}, not UTF8",
            hint="Create another: createdb --encoding=UTF8 --template=template0 NAME",
            file=url,
        )


def _make_group(connection: Connection, done: list[str]) -> None:
    """Create the role that holds the members' rights. Roles belong to the whole server, so it may exist already."""
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (GROUP,)).fetchone() is None:
        connection.execute(f"CREATE ROLE {GROUP} NOLOGIN")
        done.append(f"made the role {GROUP}")


# ── partitions ───────────────────────────────────────────────────────────────────────────────────────────


def partitions(connection: Connection) -> int:
    """The number of partitions of the log."""
    row = connection.execute(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass"
    ).fetchone()
    return 0 if row is None else int(row[0])


def repartition(connection: Connection, parts: int) -> None:
    """Repartition the log, all or nothing. Writers wait meanwhile; readers see the old partitions until the end.

    The rows are copied to a second table, whose partitions then replace the old ones. The log itself stays, and with
    it rights and rules.
    """
    _refuse_count(parts)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute("LOCK TABLE holdfast.events IN SHARE ROW EXCLUSIVE MODE")
        old = _parts(connection)
        connection.execute(
            "CREATE TABLE holdfast.events_anew (LIKE holdfast.events INCLUDING DEFAULTS INCLUDING STORAGE)"
            " PARTITION BY HASH (session)"
        )
        for (column,) in connection.execute(_UNCOUNTED).fetchall():
            connection.execute(f"ALTER TABLE holdfast.events_anew ALTER COLUMN {column} SET STATISTICS 0")
        _divide(connection, "events_anew", parts)
        for name in old:  # of the log as a whole, row-level security hides rows from its owner
            connection.execute(f"INSERT INTO holdfast.events_anew SELECT * FROM {name}")  # noqa: S608 (its own words)
        for index in connection.execute(_INDEXES).fetchall():
            connection.execute(str(index[0]))
        connection.execute("ANALYZE holdfast.events_anew")
        connection.execute("LOCK TABLE holdfast.events IN ACCESS EXCLUSIVE MODE")
        for name in old:
            connection.execute(f"ALTER TABLE holdfast.events DETACH PARTITION {name}")
            connection.execute(f"DROP TABLE {name}")
        for number in range(parts):
            connection.execute(f"ALTER TABLE holdfast.events_anew DETACH PARTITION holdfast.events_anew_{number}")
            connection.execute(f"ALTER TABLE holdfast.events_anew_{number} RENAME TO events_{number}")
            connection.execute(f"ALTER TABLE holdfast.events_{number} ENABLE ROW LEVEL SECURITY")
            connection.execute(
                f"ALTER TABLE holdfast.events ATTACH PARTITION holdfast.events_{number}"
                f" FOR VALUES WITH (MODULUS {parts}, REMAINDER {number})"
            )
        connection.execute("DROP TABLE holdfast.events_anew")
    connection.execute("ANALYZE holdfast.events")


# Columns without statistics; and the indexes, as statements that create them on the new table.
_UNCOUNTED: Final = (
    "SELECT quote_ident(attname) FROM pg_attribute"
    " WHERE attrelid = 'holdfast.events'::regclass AND attnum > 0 AND NOT attisdropped AND attstattarget = 0"
)
_INDEXES: Final = (
    "SELECT coalesce('ALTER TABLE holdfast.events_anew ADD ' || pg_get_constraintdef(c.oid),"
    " 'CREATE INDEX ON holdfast.events_anew ' || substring(pg_get_indexdef(i.indexrelid) from 'USING .*'))"
    " FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid"
    " WHERE i.indrelid = 'holdfast.events'::regclass ORDER BY i.indexrelid"
)


def _parts(connection: Connection) -> list[LiteralString]:
    rows = connection.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass"
    ).fetchall()
    return [str(name) for (name,) in rows]


def _divide(connection: Connection, table: LiteralString, parts: int) -> None:
    _refuse_count(parts)
    for number in range(parts):
        connection.execute(
            f"CREATE TABLE holdfast.{table}_{number} PARTITION OF holdfast.{table}"
            f" FOR VALUES WITH (MODULUS {parts}, REMAINDER {number})"
        )


def _refuse_count(parts: int) -> None:
    if not 1 <= parts <= MAX_PARTITIONS:
        raise Invalid(f"the log can have 1 to {MAX_PARTITIONS} partitions")
