"""The tables on the server: made and brought up to date by `holdfast store init`, never by who merely uses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, LiteralString

from holdfast.core.errors import Damaged, Invalid, NotFound, Refused
from holdfast.store.postgres.errors import INIT
from holdfast.store.postgres.pool import Line

GROUP: Final = "holdfast_member"
OLDEST_SERVER: Final = 140000
MOST_PARTITIONS: Final = 1024
_LOCK: Final = 0x484F4C44
_KNOWN: Final = "SELECT to_regclass('holdfast.facts') IS NOT NULL"
_VERSION: Final = "SELECT value FROM holdfast.facts WHERE name = 'version'"
_LARGEST_VERSION: Final = 9  # digits
_SAY_IT: Final = (
    "Whoever runs the database takes the table holdfast.facts from a backup, or says the version in it if they know:"
    " name 'version', value '1' for the first."
)


def _statements(name: str) -> LiteralString:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


MIGRATIONS: Sequence[str] = ("tables_1", "tables_2", "tables_3")


def version_of(line: Line) -> int:
    """Which version the tables are of; 0 where there are none."""
    there = line.execute(_KNOWN).fetchone()
    if there is None or not there[0]:
        return 0
    row = line.execute(_VERSION).fetchone()
    return 0 if row is None else version_from(str(row[0]))


def version_from(value: str | None) -> int:
    """The version that the store says it is of; 0 where it says none."""
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and len(value) <= _LARGEST_VERSION):
        raise Damaged("the store does not say which version its tables are of", hint=_SAY_IT)
    return int(value)


def refuse_others(version: int, where: str, known: int = len(MIGRATIONS)) -> None:
    """A store of another version is left alone: its tables are everybody's."""
    if version == known:
        return
    if not version:
        raise NotFound("there is no Holdfast store in this database", hint=INIT, file=where)
    if version > known:
        raise Refused(
            f"the store was made by a newer Holdfast (version {version}; this program knows {known})",
            hint="Upgrade Holdfast here.",
            file=where,
        )
    raise Refused(
        f"the store was made by an older Holdfast (version {version}; this program needs {known})",
        hint="Whoever runs the database brings it up to date: holdfast store init URL",
        file=where,
    )


def make(line: Line, where: str, *, partitions: int | None = None, known: Sequence[str] = MIGRATIONS) -> list[str]:
    """Make the tables, or bring them up to date: all steps or none. Says what was done."""
    _refuse_unsuitable(line, where)
    done: list[str] = []
    with line.transaction():
        line.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = version_of(line)
        if version > len(known):
            refuse_others(version, where, len(known))
        has_events = line.execute("SELECT to_regclass('holdfast.events') IS NOT NULL").fetchone()
        if not version and has_events == (True,):
            raise Damaged("the tables are there, but not which version they are of", hint=_SAY_IT, file=where)
        _make_group(line, done)
        if not version:
            line.execute("CREATE SCHEMA IF NOT EXISTS holdfast")
            line.execute(
                'CREATE TABLE IF NOT EXISTS holdfast.facts (name text COLLATE "C" PRIMARY KEY, value text NOT NULL)'
            )
        for step in known[version:]:
            line.execute(_statements(step))
        if not version:
            _divide(line, "events", partitions or 1)
            done.append(f"made the tables, events in {partitions or 1} partition{'s' * ((partitions or 1) > 1)}")
        elif version < len(known):
            done.append(f"brought the tables from version {version} to {len(known)}")
        line.execute(
            "INSERT INTO holdfast.facts (name, value) VALUES ('version', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(len(known)),),
        )
        line.execute(_statements("rights"))
        line.execute(_statements("asking"))
    return done


def _refuse_unsuitable(line: Line, where: str) -> None:
    if line.info.server_version < OLDEST_SERVER:
        raise Refused("the server is older than PostgreSQL 14", hint="Upgrade the server.", file=where)
    encoding = line.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise Refused(
            f"the database keeps its text as {encoding}, not as UTF8",
            hint="Make another: createdb --encoding=UTF8 --template=template0 NAME",
            file=where,
        )


def _make_group(line: Line, done: list[str]) -> None:
    """The role that holds the rights; people are admitted to it. Roles are of the whole server: it may be there."""
    if line.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (GROUP,)).fetchone() is None:
        line.execute(f"CREATE ROLE {GROUP} NOLOGIN")
        done.append(f"made the role {GROUP}")


# ── partitions ───────────────────────────────────────────────────────────────────────────────────────────


def partitions(line: Line) -> int:
    """Into how many parts the log is divided."""
    row = line.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass").fetchone()
    return 0 if row is None else int(row[0])


def divide(line: Line, parts: int) -> None:
    """Divide the log anew. Nobody writes meanwhile; who reads sees the old one until the last moment.

    The rows are copied to a table of the same kind, whose parts take the places of the old ones: rights and rules
    stand on the log itself, which stays. If it does not come to an end, nothing has happened.
    """
    _refuse_count(parts)
    with line.transaction():
        line.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        line.execute("LOCK TABLE holdfast.events IN SHARE ROW EXCLUSIVE MODE")
        old = _parts(line)
        line.execute(
            "CREATE TABLE holdfast.events_anew (LIKE holdfast.events INCLUDING DEFAULTS INCLUDING STORAGE)"
            " PARTITION BY HASH (session)"
        )
        for (column,) in line.execute(_UNCOUNTED).fetchall():
            line.execute(f"ALTER TABLE holdfast.events_anew ALTER COLUMN {column} SET STATISTICS 0")
        _divide(line, "events_anew", parts)
        for name in old:  # each by itself: of the whole, its owner sees no more than anybody
            line.execute(f"INSERT INTO holdfast.events_anew SELECT * FROM {name}")  # noqa: S608 (its own words)
        for index in line.execute(_INDEXES).fetchall():
            line.execute(str(index[0]))
        line.execute("ANALYZE holdfast.events_anew")
        line.execute("LOCK TABLE holdfast.events IN ACCESS EXCLUSIVE MODE")
        for name in old:
            line.execute(f"ALTER TABLE holdfast.events DETACH PARTITION {name}")
            line.execute(f"DROP TABLE {name}")
        for number in range(parts):
            line.execute(f"ALTER TABLE holdfast.events_anew DETACH PARTITION holdfast.events_anew_{number}")
            line.execute(f"ALTER TABLE holdfast.events_anew_{number} RENAME TO events_{number}")
            line.execute(f"ALTER TABLE holdfast.events_{number} ENABLE ROW LEVEL SECURITY")
            line.execute(
                f"ALTER TABLE holdfast.events ATTACH PARTITION holdfast.events_{number}"
                f" FOR VALUES WITH (MODULUS {parts}, REMAINDER {number})"
            )
        line.execute("DROP TABLE holdfast.events_anew")
    line.execute("ANALYZE holdfast.events")


# What has no statistics, by somebody's decision; and the indexes, as statements that make them for the new table.
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


def _parts(line: Line) -> list[LiteralString]:
    rows = line.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass"
    ).fetchall()
    return [str(name) for (name,) in rows]


def _divide(line: Line, table: LiteralString, parts: int) -> None:
    _refuse_count(parts)
    for number in range(parts):
        line.execute(
            f"CREATE TABLE holdfast.{table}_{number} PARTITION OF holdfast.{table}"
            f" FOR VALUES WITH (MODULUS {parts}, REMAINDER {number})"
        )


def _refuse_count(parts: int) -> None:
    if not 1 <= parts <= MOST_PARTITIONS:
        raise Invalid(f"the log is divided into 1 to {MOST_PARTITIONS} parts")
