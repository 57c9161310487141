"""Backups of the SQLite store: one private file, complete, readable from read-only media, restored whole or not at
all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from holdfast.core.envelope import Event
from holdfast.core.errors import Conflict, Damaged, Failed, HoldfastError, Invalid, Refused
from holdfast.store.conformance import OTHER, SESSION, Ticks, assert_sound, everything, note, put, started
from holdfast.store.interface import UNSEEN
from holdfast.store.sqlite import SqliteStore, backup
from holdfast.store.sqlite import connection as opening
from holdfast.store.sqlite.tables import SqliteTables


def opened(path: Path, writer: str = "a") -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: writer * 20, wall=Ticks())


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """An open store with two sessions, whose last events are in the journal alone."""
    (tmp_path / "home").mkdir()
    store = opened(tmp_path / "home" / "store.db")
    put(store, SESSION, started(), *(note(f"note {number}") for number in range(50)))
    put(store, OTHER, started("Other"), note("in the journal"))
    return store


def test_backup_is_one_private_file(store: SqliteStore, tmp_path: Path) -> None:
    """Mode 0600 whatever the umask, no journal, and nothing else left in the directory."""
    (tmp_path / "backups").mkdir()
    old = os.umask(0)
    try:
        store.backup(str(tmp_path / "backups" / "one"))
    finally:
        os.umask(old)
    assert os.listdir(tmp_path / "backups") == ["one"]
    info = (tmp_path / "backups" / "one").stat()
    assert (stat.S_IMODE(info.st_mode), info.st_nlink) == (0o600, 1)
    connection = apsw.Connection(str(tmp_path / "backups" / "one"), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.pragma("journal_mode") == "delete"
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def test_restore_writes_nothing_next_to_the_backup(store: SqliteStore, tmp_path: Path) -> None:
    """A backup on read-only media can be restored."""
    (tmp_path / "media").mkdir()
    store.backup(str(tmp_path / "media" / "one"))
    before = (tmp_path / "media" / "one").read_bytes()
    fresh = opened(tmp_path / "fresh.db", "b")
    assert fresh.restore(str(tmp_path / "media" / "one")).events == 53
    assert os.listdir(tmp_path / "media") == ["one"]
    assert (tmp_path / "media" / "one").read_bytes() == before
    assert_sound(fresh)


def test_restore_accepts_the_file_of_another_store(store: SqliteStore, tmp_path: Path) -> None:
    """Its journal included; restoring from the store's own file adds nothing."""
    fresh = opened(tmp_path / "fresh.db", "b")
    assert fresh.restore(store.path).events == 53
    assert everything(fresh) == everything(store)
    assert store.restore(store.path).events == 0


def test_restore_of_a_damaged_backup_changes_nothing_and_suggests_a_repair(
    store: SqliteStore, tmp_path: Path
) -> None:
    """One event of the backup is damaged: nothing is restored; after a repair of the backup, all others are."""
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "copy"
    store.backup(str(copy))
    connection = apsw.Connection(str(copy))
    connection.execute("UPDATE events SET data = x'7b7d' WHERE session = 2 AND seq = 2")
    connection.close()
    fresh = opened(tmp_path / "fresh.db", "b")
    with pytest.raises(Damaged) as caught:
        fresh.restore(str(copy))
    assert caught.value.exit_code == 6
    assert caught.value.hint is not None
    assert f"sqlite:///{copy} doctor --repair" in caught.value.hint
    assert list(fresh.sessions()) == []
    opened(copy, "c").repair()
    assert fresh.restore(str(copy)).events == 52
    assert_sound(fresh)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET type = x'ff' WHERE session = 2 AND seq = 2",
        "UPDATE events SET seen = x'c1' WHERE session = 2 AND seq = 2",
        "ALTER TABLE events DROP COLUMN data",
        "DROP TABLE sessions",
    ],
)
def test_damaged_backup_is_not_called_a_damaged_store(store: SqliteStore, tmp_path: Path, damage: str) -> None:
    """A message about the store would make the user repair the wrong file."""
    copy = str(tmp_path / "copy")
    store.backup(copy)
    connection = apsw.Connection(copy)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(damage)
    connection.close()
    fresh = opened(tmp_path / "fresh.db", "b")
    with pytest.raises(HoldfastError, match="backup") as caught:
        fresh.restore(copy)
    assert "store is damaged" not in caught.value.message
    assert f"sqlite:///{copy} doctor --repair" in (caught.value.hint or "")
    assert list(fresh.sessions()) == []


def test_restore_that_fails_midway_restores_nothing(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up during the second session: not even the first one stays."""
    store.backup(str(tmp_path / "copy"))
    fresh = opened(tmp_path / "fresh.db", "b")
    insert = type(fresh._tables).insert

    def failing(self: SqliteTables, events: Sequence[Event]) -> None:
        for event in events:
            if event.session == OTHER:
                raise apsw.FullError
            insert(self, (event,))

    with monkeypatch.context() as patched:
        patched.setattr(type(fresh._tables), "insert", failing)
        with pytest.raises(Failed, match="disk is full"):
            fresh.restore(str(tmp_path / "copy"))
    assert list(fresh.sessions()) == []
    assert fresh.restore(str(tmp_path / "copy")).events == 53
    assert_sound(fresh)


def test_restore_refuses_a_backup_of_a_newer_version(store: SqliteStore, tmp_path: Path) -> None:
    store.backup(str(tmp_path / "copy"))
    connection = apsw.Connection(str(tmp_path / "copy"))
    connection.pragma("user_version", 9)
    connection.close()
    with pytest.raises(Invalid, match="damaged"):  # only the version number is newer, not the tables
        store.restore(str(tmp_path / "copy"))
    connection = apsw.Connection(str(tmp_path / "copy"))
    connection.execute("CREATE TABLE later (x)")
    connection.close()
    with pytest.raises(Refused, match="newer"):
        store.restore(str(tmp_path / "copy"))


def test_restore_refuses_a_foreign_database(store: SqliteStore, tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "songs"))
    connection.execute("CREATE TABLE songs (title)")
    connection.close()
    with pytest.raises(Invalid):
        store.restore(str(tmp_path / "songs"))


def test_backup_works_without_hard_links(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is renamed into place, still never over an existing file."""

    def refuse(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store.backup(str(tmp_path / "copy"))
    assert (tmp_path / "copy").stat().st_size
    with pytest.raises(Conflict):
        store.backup(str(tmp_path / "copy"))
    fresh = opened(tmp_path / "fresh.db", "b")
    assert fresh.restore(str(tmp_path / "copy")).events == 53


def test_backup_does_not_overwrite_a_file_that_appears_meanwhile(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = opening.put_in_place

    def racing(temporary: str, path: str) -> bool:
        Path(path).write_bytes(b"mine")
        return place(temporary, path)

    monkeypatch.setattr(backup, "put_in_place", racing)
    with pytest.raises(Conflict):
        store.backup(str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["copy", "home"]


def test_write_backup_works_with_any_store(store: SqliteStore, tmp_path: Path) -> None:
    """Through the store interface alone: the same private file, without the state of copying."""
    with store.transaction() as transaction:
        transaction.set_current("/shop", SESSION)
        transaction.remember("vault/1/cursor", b"how far we asked")
        transaction.remember("kept", b"1")
    (tmp_path / "backups").mkdir()
    path = tmp_path / "backups" / "one"
    backup.write_backup(store, str(path))
    assert os.listdir(tmp_path / "backups") == ["one"]
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_nlink) == (0o600, 1)
    assert b"how far we asked" not in path.read_bytes()
    fresh = opened(tmp_path / "fresh.db", "b")
    assert fresh.restore(str(path)).events == 53
    assert everything(fresh) == everything(store)
    again = opened(path, "c")
    assert again.current("/shop") == SESSION
    assert again.remembered_under("") == {UNSEEN: b"0", "kept": b"1"}
    assert_sound(again)
    again.close()
    with pytest.raises(Conflict):
        backup.write_backup(store, str(path))
    with pytest.raises(HoldfastError):
        backup.write_backup(store, str(tmp_path / "nowhere" / "one"))


def test_write_backup_leaves_no_file_when_it_fails(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    connection = apsw.Connection(store.path)
    connection.execute("UPDATE events SET data = x'7b7d' WHERE session = 2 AND seq = 2")
    connection.close()
    with pytest.raises(Damaged):
        backup.write_backup(store, str(tmp_path / "backups" / "one"))
    assert os.listdir(tmp_path / "backups") == []
