"""Migrations are applied completely or not at all, and a store of a newer version is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import Damaged, Invalid, Refused
from holdfast.store.conformance import SESSION, Ticks, put, started
from holdfast.store.sqlite import SqliteStore, schema
from holdfast.store.sqlite import connection as opening
from holdfast.store.tables import SessionSummary

SECOND = "CREATE TABLE extra (x); INSERT INTO extra SELECT type FROM events; ALTER TABLE events ADD COLUMN more"

KNOWN = len(schema.MIGRATIONS)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store of this version with an event in it."""
    path = str(tmp_path / "store.db")
    store = SqliteStore(path, writer=lambda: "a" * 20, wall=Ticks())
    put(store, SESSION, started())
    store.close()
    return path


def shape(path: str) -> list[object]:
    connection = apsw.Connection(path)
    objects: list[object] = list(connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name"))
    objects += [connection.pragma("user_version"), *connection.execute("SELECT * FROM events")]
    connection.close()
    return objects


def make_newer(path: str) -> None:
    """As a later program would: by one more migration."""
    connection = apsw.Connection(path)
    schema.migrate(connection, path, (*schema.MIGRATIONS, SECOND))
    connection.close()


def test_migration_is_applied_as_a_whole(path: str) -> None:
    """Version, tables and events are as expected, and a second run changes nothing."""
    connection = apsw.Connection(path)
    schema.migrate(connection, path, (*schema.MIGRATIONS, SECOND))
    assert schema.version_of(connection) == len(schema.MIGRATIONS) + 1
    assert list(connection.execute("SELECT x FROM extra")) == [("session.started",)]
    schema.migrate(connection, path, (*schema.MIGRATIONS, SECOND))
    connection.close()


@pytest.mark.parametrize(
    "broken",
    [
        "CREATE TABLE extra (x); INSERT INTO nowhere VALUES (1)",
        "CREATE TABLE extra (x); SELECT abs(-9223372036854775808)",
    ],
)
def test_failed_migration_leaves_the_old_tables(path: str, broken: str) -> None:
    """Whether the step itself or a later one fails."""
    before = shape(path)
    connection = apsw.Connection(path)
    for steps in ((broken,), (SECOND, broken)):
        with pytest.raises(apsw.Error):
            schema.migrate(connection, path, (*schema.MIGRATIONS, *steps))
        assert not connection.in_transaction
    connection.close()
    assert shape(path) == before
    SqliteStore(path, writer=lambda: "a" * 20, wall=Ticks()).close()


def test_killed_migration_leaves_the_old_tables(path: str) -> None:
    before = shape(path)
    program = (
        "import os, signal, sys, apsw\n"
        "from holdfast.store.sqlite import schema\n"
        "connection = apsw.Connection(sys.argv[1])\n"
        "connection.create_scalar_function('die', lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
        f"schema.migrate(connection, '', (*schema.MIGRATIONS, {SECOND!r}, 'DROP TABLE words; SELECT die()'))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert killed.returncode == -9
    assert shape(path) == before
    SqliteStore(path, writer=lambda: "a" * 20, wall=Ticks()).close()


def test_concurrent_migrations_run_once(path: str) -> None:
    """The second process waits, checks again, and has nothing to do."""
    one, two = apsw.Connection(path), apsw.Connection(path)
    two.set_busy_timeout(5000)
    steps = (*schema.MIGRATIONS, SECOND)
    schema.migrate(one, path, steps)
    schema.migrate(two, path, steps)
    assert schema.version_of(two) == len(schema.MIGRATIONS) + 1
    one.close()
    two.close()


def test_newer_store_is_refused_with_both_versions_and_a_hint(path: str) -> None:
    """Not a byte changes."""
    make_newer(path)
    before = Path(path).read_bytes()
    with pytest.raises(
        Refused, match=rf"newer Holdfast \(version {KNOWN + 1}; this program knows {KNOWN}\)"
    ) as caught:
        opening.connect(path)
    assert caught.value.exit_code == 1
    assert caught.value.hint is not None
    assert "Upgrade" in caught.value.hint
    assert caught.value.file == path
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("media", ["file", "read only"])
def test_newer_store_is_refused_on_read_only_media(path: str, media: str) -> None:
    make_newer(path)
    with pytest.raises(Refused, match="newer"):
        opening._open_for_reading(path) if media == "read only" else opening.connect(path)


@pytest.mark.parametrize("media", ["file", "read only"])
@pytest.mark.parametrize("version", [-2, 0, 1, KNOWN + 1, 66, 258, 1 << 30])
def test_version_that_contradicts_the_tables_is_damage(path: str, version: int, media: str) -> None:
    """A flipped bit in the header's version is not taken for a newer or older store."""
    connection = apsw.Connection(path)
    connection.pragma("user_version", version)
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(Damaged, match=f"gives version {version}, its tables are those of version {KNOWN}"):
        opening._open_for_reading(path) if media == "read only" else opening.connect(path)
    assert Path(path).read_bytes() == before


def test_every_migration_changes_the_tables() -> None:
    """The tables confirm the version: no two versions have the same ones."""
    versions = list(schema.due_tables())
    assert len(versions) == len(schema.MIGRATIONS) + 1
    assert all(entry != other for number, entry in enumerate(versions) for other in versions[:number])


def test_tables_have_a_column_for_each_field_of_the_summary(path: str) -> None:
    """What listings show is declared once."""
    connection = apsw.Connection(path)
    columns = [str(row[1]) for row in connection.execute("PRAGMA table_info(sessions)")]
    connection.close()
    assert columns == ["ref", "id", "version", *SessionSummary._fields], (
        "a field of SessionSummary in store/tables.py needs a migration of each store: store/sqlite/schema.py,"
        " store/postgres/sql"
    )


def test_foreign_database_is_refused(tmp_path: Path) -> None:
    """Even one with a table that has the same name as ours."""
    path = str(tmp_path / "songs.db")
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE events (title, length); INSERT INTO events VALUES ('x', 1)")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(Invalid, match="another program") as caught:
        SqliteStore(path, writer=lambda: "a" * 20, wall=Ticks())
    assert caught.value.exit_code == 4
    assert Path(path).read_bytes() == before
    assert os.listdir(tmp_path) == ["songs.db"]


def test_tables_without_a_version_are_damage(path: str) -> None:
    """Such a store is not migrated from zero over its own tables."""
    connection = apsw.Connection(path)
    connection.pragma("user_version", 0)
    connection.close()
    before = shape(path)
    with pytest.raises(Damaged):
        opening.connect(path)
    assert shape(path) == before
