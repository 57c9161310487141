"""Opening the file safely, waiting politely, and saying in a person's words what SQLite could not do."""

from __future__ import annotations

import os
import random
import stat
import time

import apsw

from holdfast.core.errors import Damaged, Invalid, NotFound, Refused
from holdfast.machine import files
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.trouble import PATIENCE, speaking


def connect(path: str) -> apsw.Connection:
    """Open an existing store for reading and writing, or for reading alone where writing is impossible."""
    path = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
    _look(path)
    with speaking("open the store", path):
        try:
            return _open(path)
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            # A full or read-only disk has no room for the shared-memory file that WAL wants.
            return _open_for_reading(path)


def _open(path: str) -> apsw.Connection:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
    try:
        connection.set_busy_handler(_Patience())
        connection.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF")
        _check_kind(connection, path)
        schema.migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_for_reading(path: str) -> apsw.Connection:
    """Without other processes' help: no shared memory, and no journal if there is none to read."""
    wal = os.path.exists(path + "-wal") and os.path.getsize(path + "-wal") > 0
    name = f"file:{_quoted(path)}?mode=ro" + ("" if wal else "&immutable=1")
    connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        if wal:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA temp_store = MEMORY")
        _check_kind(connection, path)
        if schema.version_of(connection) != len(schema.MIGRATIONS):
            raise Refused("the store is of another version and cannot be changed here", file=path)
    except BaseException:
        connection.close()
        raise
    return connection


def create(path: str) -> None:
    """Make an empty store: complete under another name first, so that no half-made one is ever seen."""
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, f".holdfast-{os.urandom(8).hex()}.tmp")
    with speaking("create the store", path):
        try:
            os.close(files.open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            connection = apsw.Connection(temporary)
            try:
                connection.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY")
                connection.pragma("auto_vacuum", 0)
                schema.migrate(connection, path)
                connection.pragma("journal_mode", "wal")
            finally:
                connection.close()
            _put_in_place(temporary, path)
            files.sync_directory(directory)
        finally:
            for leftover in (temporary, temporary + "-wal", temporary + "-shm", temporary + "-journal"):
                if os.path.lexists(leftover):
                    os.unlink(leftover)


def _put_in_place(temporary: str, path: str) -> None:
    """Of several processes that create it at once, one wins and the others use it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # no hard links here (some network and FAT file systems)
        if not os.path.lexists(path):
            os.rename(temporary, path)


def _look(path: str) -> None:
    """What is there, before SQLite touches it: an empty file would silently become an empty store."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        raise NotFound("there is no store yet", file=path) from None
    except OSError as error:
        raise files.explain(error, "open the store", path) from None
    if stat.S_ISLNK(found.st_mode):
        raise Refused(
            "the store is a symbolic link, and links are not followed",
            hint="Name the real file with HOLDFAST_STORE=sqlite:///path, or HOLDFAST_HOME.",
            file=path,
        )
    if not stat.S_ISREG(found.st_mode):
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise Invalid(f"the store is {kind}", hint="HOLDFAST_STORE must name a file.", file=path)
    if found.st_size == 0:
        raise Damaged(
            "the store is empty: it was cut to nothing",
            hint="holdfast doctor --repair sets it aside; holdfast restore FILE brings back a backup.",
            file=path,
        )


def _check_kind(connection: apsw.Connection, path: str) -> None:
    if connection.pragma("application_id") != schema.APPLICATION:
        raise Invalid("the file is a database of another program", hint="Name another file.", file=path)


class _Patience:
    """SQLite's own waiting grows to 100 ms and is unfair under load: short random sleeps get everybody through."""

    def __init__(self) -> None:
        self._until = 0.0

    def __call__(self, attempt: int) -> bool:
        now = time.monotonic()
        if attempt == 0:
            self._until = now + PATIENCE
        if now > self._until:
            return False
        time.sleep(random.uniform(0.0005, 0.004 if attempt < 20 else 0.02))  # noqa: S311 (no secret)
        return True


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
