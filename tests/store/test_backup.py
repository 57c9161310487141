"""Backups of the SQLite store: one private file, complete, readable from read-only media, never half restored."""

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


def test_a_backup_is_one_private_file(store: SqliteStore, tmp_path: Path) -> None:
    """Whatever the umask it is 0600, has no journal, and nothing else is left beside it."""
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


def test_restoring_writes_nothing_next_to_the_backup(store: SqliteStore, tmp_path: Path) -> None:
    """A backup on read-only media can be restored: reading it makes no file there."""
    (tmp_path / "media").mkdir()
    store.backup(str(tmp_path / "media" / "one"))
    before = (tmp_path / "media" / "one").read_bytes()
    fresh = opened(tmp_path / "fresh.db", "b")
    assert fresh.restore(str(tmp_path / "media" / "one")).events == 53
    assert os.listdir(tmp_path / "media") == ["one"]
    assert (tmp_path / "media" / "one").read_bytes() == before
    assert_sound(fresh)


def test_a_store_can_be_restored_from_another_store(store: SqliteStore, tmp_path: Path) -> None:
    """The file of a store is itself a backup, its journal included; restoring from one's own adds nothing."""
    fresh = opened(tmp_path / "fresh.db", "b")
    assert fresh.restore(store.path).events == 53
    assert everything(fresh) == everything(store)
    assert store.restore(store.path).events == 0


def test_a_damaged_backup_changes_nothing_and_says_how_to_save_it(store: SqliteStore, tmp_path: Path) -> None:
    """One wrong event in the backup: nothing is taken, and repairing the backup first brings back all the others."""
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
    """Whoever reads that the store is damaged would repair the wrong file."""
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


def test_a_failure_in_the_middle_restores_nothing(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up while the second session is restored leaves not even the first."""
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


def test_a_newer_backup_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    """A backup made by a later program is not guessed at."""
    store.backup(str(tmp_path / "copy"))
    connection = apsw.Connection(str(tmp_path / "copy"))
    connection.pragma("user_version", 9)
    connection.close()
    with pytest.raises(Invalid, match="damaged"):  # nothing else of it is newer
        store.restore(str(tmp_path / "copy"))
    connection = apsw.Connection(str(tmp_path / "copy"))
    connection.execute("CREATE TABLE later (x)")
    connection.close()
    with pytest.raises(Refused, match="newer"):
        store.restore(str(tmp_path / "copy"))


def test_a_foreign_database_is_no_backup(store: SqliteStore, tmp_path: Path) -> None:
    """A database of another program is refused as invalid."""
    connection = apsw.Connection(str(tmp_path / "songs"))
    connection.execute("CREATE TABLE songs (title)")
    connection.close()
    with pytest.raises(Invalid):
        store.restore(str(tmp_path / "songs"))


def test_where_there_are_no_hard_links(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without them the backup is renamed into place, still never over another file."""

    def refuse(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store.backup(str(tmp_path / "copy"))
    assert (tmp_path / "copy").stat().st_size
    with pytest.raises(Conflict):
        store.backup(str(tmp_path / "copy"))
    fresh = opened(tmp_path / "fresh.db", "b")
    assert fresh.restore(str(tmp_path / "copy")).events == 53


def test_a_name_taken_at_the_last_moment_is_not_overwritten(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's file that appears while the backup is written stays."""
    place = opening.put_in_place

    def racing(temporary: str, path: str) -> bool:
        Path(path).write_bytes(b"mine")
        return place(temporary, path)

    monkeypatch.setattr(backup, "put_in_place", racing)
    with pytest.raises(Conflict):
        store.backup(str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["copy", "home"]


def test_a_backup_can_be_written_of_any_store(store: SqliteStore, tmp_path: Path) -> None:
    """From what its interface shows alone: a private file like any other, with nothing of the copying in it."""
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


def test_a_backup_of_any_store_that_fails_leaves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    """A store that is damaged, or goes away in the middle: no file, and none of those it was made in."""
    (tmp_path / "backups").mkdir()
    connection = apsw.Connection(store.path)
    connection.execute("UPDATE events SET data = x'7b7d' WHERE session = 2 AND seq = 2")
    connection.close()
    with pytest.raises(Damaged):
        backup.write_backup(store, str(tmp_path / "backups" / "one"))
    assert os.listdir(tmp_path / "backups") == []
