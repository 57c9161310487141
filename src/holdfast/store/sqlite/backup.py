"""Backups: a complete copy in one private file, whatever kind of store it is of, and reading one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import apsw

from holdfast.core.envelope import Event
from holdfast.core.errors import Conflict, Damaged, Invalid, NotFound
from holdfast.machine import files
from holdfast.store import origin
from holdfast.store.interface import NotCopied, Store
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.connection import put_in_place
from holdfast.store.sqlite.errors import speaking
from holdfast.store.sqlite.tables import SqliteTables

_Filled = TypeVar("_Filled")


def backup(connection: apsw.Connection, path: str) -> None:
    _write(path, lambda temporary: connection.execute("VACUUM INTO ?", (temporary,)))


def write_backup(store: Store, path: str) -> tuple[NotCopied, ...]:
    """The backup of a store that is not a file: everything it shows, copied into one. Says what could not be."""
    return _write(path, lambda temporary: _copy_into(store, temporary))


def _copy_into(store: Store, path: str) -> tuple[NotCopied, ...]:
    from holdfast.store import store_copy
    from holdfast.store.sqlite.store import SqliteStore

    working = _temporary_beside(path)
    try:
        fresh = SqliteStore(working, writer=_nobody, wall=_never)
        try:
            copied = store_copy.copy(store, fresh)
        finally:
            fresh.close()
        connection = apsw.Connection(working, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            SqliteTables(connection).forget_under(store_copy.CURSORS)
            connection.execute("VACUUM INTO ?", (path,))
        finally:
            connection.close()
    finally:
        for ending in ("", "-wal", "-shm", "-journal", ".erasing"):
            if os.path.lexists(working + ending):
                os.unlink(working + ending)
    return copied.left_out


def _nobody() -> str:
    raise AssertionError("a backup records nothing of its own")


def _never() -> int:
    raise AssertionError("a backup records nothing of its own")


def _temporary_beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), files.temporary_name())


def _write(path: str, fill: Callable[[str], _Filled]) -> _Filled:
    """Let a private file be filled, and give it its name only when it is whole: never over another."""
    path = os.path.abspath(path)
    taken = Conflict("the backup file exists already", hint="Choose another name, or remove it.", file=path)
    if os.path.lexists(path):
        raise taken
    temporary = _temporary_beside(path)
    with speaking("write the backup", path):
        try:
            # Made beforehand, empty and private: SQLite would give it the umask's mode.
            descriptor = files.open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                filled = fill(temporary)
                _forget_remotes(temporary)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not put_in_place(temporary, path):
                raise taken
            try:
                files.sync_directory(os.path.dirname(path))
            except BaseException:
                os.unlink(path)  # not known to survive: a command that failed leaves no file in its own way
                raise
        finally:
            for ending in ("", "-journal"):
                if os.path.lexists(temporary + ending):
                    with contextlib.suppress(OSError):  # the backup is there, or its own trouble is being told
                        os.unlink(temporary + ending)
    return filled


def _forget_remotes(path: str) -> None:
    """A copy for people to keep says nothing of remotes: how far one was asked is true of this store alone."""
    copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        tables = SqliteTables(copy)
        if any([tables.forget_under("vault/"), tables.forget_under(origin.OWN)]):
            copy.execute("VACUUM")
    finally:
        copy.close()


class Backup:
    """A backup that is being read: nothing is written into it, nor beside it."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection = connection
        self._tables = SqliteTables(connection)
        self._path = path

    def sessions(self) -> list[str]:
        with self._reading():
            return [row[0] for row in self._connection.execute("SELECT id FROM sessions ORDER BY created_at, id")]

    def events(self, session: str) -> Iterator[Event]:
        with self._reading():
            yield from self._tables.read(session)

    def missing_events(self) -> frozenset[str]:
        with self._reading():
            return self._tables.missing_events()

    def remembered(self, name: str) -> bytes | None:
        with self._reading():
            try:
                return self._tables.remembered(name)
            except apsw.SQLError:  # made by a version that kept nothing beside the log
                return None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What is damaged is the backup: the store is not."""
        try:
            yield
        except (Damaged, apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, UnicodeDecodeError):
            raise Damaged(
                "the backup is damaged; nothing was changed", hint=_salvage(self._path), file=self._path
            ) from None


@contextmanager
def reading(path: str) -> Iterator[Backup]:
    """One moment of a backup, once it is known to be one."""
    if not os.path.exists(path):
        raise NotFound("there is no such backup", file=path)
    if not os.path.isfile(path):
        raise Invalid("the backup is not a file", file=path)
    with speaking("read the backup", path):
        source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            _refuse_what_is_none(source, path)
            ours = source.pragma("application_id") == schema.APPLICATION
            if ours:
                _refuse_other_versions(source, path)
            if not ours or not schema.version_of(source):
                raise Invalid(
                    "the file is not a backup that this Holdfast can read",
                    hint="Backups are made by: holdfast backup FILE",
                    file=path,
                )
            source.execute("BEGIN")
            yield Backup(source, path)
        finally:
            source.close()


def _refuse_other_versions(source: apsw.Connection, path: str) -> None:
    try:
        schema.refuse_others(source, path)
    except Damaged:
        raise _damaged(path) from None


def _refuse_what_is_none(source: apsw.Connection, path: str) -> None:
    """The words for a damaged store would send the person to the wrong file."""
    try:
        # Tables and their indexes are all that a backup has: anything else would run while it is read.
        if source.execute(
            "SELECT 1 FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR rootpage = 0"
        ).fetchone():
            raise Invalid("the file is not a backup: something in it would run while it is read", file=path)
        whole = [row[0] for row in source.execute("PRAGMA quick_check(1)")] == ["ok"]
    except (apsw.NotADBError, apsw.CorruptError):
        whole = False
    if not whole:
        raise _damaged(path)


def _damaged(path: str) -> Invalid:
    return Invalid(
        "the file is not a backup, or is damaged; nothing was changed",
        hint=f"If it was one: {_salvage(path)}",
        file=path,
    )


def _salvage(path: str) -> str:
    return f"holdfast --store sqlite:///{path} doctor --repair saves what can be read of it."
