"""Open and create the file safely, and wait for other processes."""

from __future__ import annotations

import os
import stat
import time

import apsw

from holdfast.core.errors import Damaged, HoldfastError, Invalid, NotFound, Refused
from holdfast.machine import files
from holdfast.machine.wall import monotonic
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.errors import PATIENCE, SAVES, explaining

_MIN_SIZE = 512  # bytes: SQLite takes anything less for a new, empty database
SOUND_SQLITE = "3.51.3"  # the first without the WAL-reset bug, which two busy processes can meet


def connect(path: str) -> apsw.Connection:
    """Open an existing store for reading and writing, or for reading alone where writing is impossible."""
    path = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
    _check_file(path)
    with explaining("open the store", path):
        try:
            return _open(path)
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            # A full or read-only disk has no room for the shared-memory file that WAL wants.
            return _open_for_reading(path)


def sqlite_version() -> str:
    return apsw.sqlite_lib_version()


def sqlite_is_sound(version: str) -> bool:
    return _numbers(version) >= _numbers(SOUND_SQLITE) and version != "3.52.0"  # which was withdrawn


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def repairing_mark(path: str) -> str:
    """The file that marks a store while a repair replaces it."""
    return path + ".repairing"


def _open(path: str) -> apsw.Connection:
    journal = _size(path + "-wal")
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
    try:
        connection.set_busy_handler(BusyHandler())
        connection.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF")
        _check_kind(connection, path)
        if connection.readonly("main") and os.access(path, os.W_OK):
            # SQLite refuses to write to a file whose header names an unknown format.
            raise Damaged("the store is damaged (its header forbids writing)", hint=SAVES, file=path)
        if journal:
            _check_journal(connection, path)
        schema.migrate(connection, path)
    except BaseException:
        if journal:
            # Keep the damage as it is: closing must not write the journal into the file.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()
        raise
    return connection


def _open_for_reading(path: str) -> apsw.Connection:
    """Open the file without writing a byte; if it has a journal, as a copy of both in memory."""
    if _size(path + "-wal"):
        from holdfast.store.sqlite import pages

        image = pages.read(path)
        if image.leftover:
            raise _damaged_journal(path)
        connection = apsw.Connection(":memory:")
        connection.deserialize("main", pages.without_journal(image.data))
    else:
        name = f"file:{_quoted(path)}?mode=ro&immutable=1"
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        connection.execute("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA query_only = ON")
        _check_kind(connection, path)
        if schema.version_of(connection) != len(schema.MIGRATIONS):
            schema.refuse_other_versions(connection, path)
            raise Refused("the store has another version and cannot be upgraded here", file=path)
    except BaseException:
        connection.close()
        raise
    return connection


def header_damage(path: str) -> list[str]:
    """What is wrong with the file's header. Read through SQLite's own layer, because closing a file descriptor of our
    own would drop SQLite's locks.
    """
    from holdfast.store.sqlite import pages

    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        return pages.header_damage(file.xRead(pages.HEADER, 0))
    finally:
        file.xClose()


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _check_journal(connection: apsw.Connection, path: str) -> None:
    """SQLite silently reads a damaged journal up to the damage; what lies beyond would be overwritten."""
    from holdfast.store.sqlite import pages

    for _ in range(3):
        replayed = _replayed(connection)
        # Negative: another process is using the journal right now, so it was sound just before.
        if replayed < 0 or not pages.is_cut_short(path, replayed):
            return
        # Another process may be writing: only a journal that does not change can be judged.
        if replayed == _replayed(connection):
            raise _damaged_journal(path)


def _replayed(connection: apsw.Connection) -> int:
    """How many frames of the journal SQLite accepts."""
    return max(int(row[1]) for row in connection.execute("PRAGMA wal_checkpoint(NOOP)"))


def _damaged_journal(path: str) -> HoldfastError:
    return Damaged("the store's journal is damaged: its last events cannot be read", hint=SAVES, file=path + "-wal")


def create(path: str, copy_of: apsw.Connection | None = None) -> None:
    """Create a store, empty or as a copy, under a temporary name first, so that no process sees half of one."""
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, files.temporary_name())
    with explaining("create the store", path):
        try:
            os.close(files.open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            if copy_of is not None:
                copy_of.execute("VACUUM INTO ?", (temporary,))
            connection = apsw.Connection(temporary)
            try:
                connection.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY")
                connection.pragma("auto_vacuum", 0)
                schema.migrate(connection, path)
                connection.pragma("journal_mode", "wal")
            finally:
                connection.close()
            put_in_place(temporary, path)
            files.sync_directory(directory)
        finally:
            for leftover in (temporary, temporary + "-wal", temporary + "-shm", temporary + "-journal"):
                if os.path.lexists(leftover):
                    os.unlink(leftover)


def put_in_place(temporary: str, path: str) -> bool:
    """Name a finished file, never over another. False if another process was first."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # no hard links here (some network and FAT file systems)
        if os.path.lexists(path):
            return False
        os.rename(temporary, path)
    return True


def _check_file(path: str) -> None:
    """Refuse what is no store before SQLite touches it: an empty file would silently become an empty store."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        raise NotFound("there is no store yet", file=path) from None
    except OSError as error:
        raise files.explain(error, "open the store", path) from None
    if stat.S_ISLNK(status.st_mode):
        raise Refused(
            "the store is a symbolic link, and links are not followed",
            hint="Name the real file with HOLDFAST_STORE=sqlite:///path, or HOLDFAST_HOME.",
            file=path,
        )
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise Invalid(f"the store is {kind}", hint="HOLDFAST_STORE must name a file.", file=path)
    if status.st_size < _MIN_SIZE:
        damage = f"truncated to {status.st_size} bytes" if status.st_size else "empty"
        raise Damaged(f"the store is {damage}", hint=SAVES, file=path)
    if os.path.lexists(repairing_mark(path)):
        again = "Run it again: holdfast doctor --repair"
        raise Damaged("a repair of the store was interrupted", hint=again, file=path)


def _check_kind(connection: apsw.Connection, path: str) -> None:
    if connection.pragma("application_id") == schema.APPLICATION:
        return
    columns = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info('events')")}
    if {"session", "writer", "seq", "clock", "body", "salt"} <= columns:
        raise Damaged("the store is damaged (no application id in the header)", hint=SAVES, file=path)
    raise Invalid("the file is a database of another program", hint="Name another file.", file=path)


class BusyHandler:
    """Waits in short random sleeps: SQLite's own waits grow to 100 ms and are unfair under load."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __call__(self, attempt: int) -> bool:
        now = monotonic()
        if attempt == 0:
            self._until = now + self._seconds
        if now > self._until:
            return False
        longest = 0.004 if attempt < 20 else 0.02
        time.sleep(0.0005 + longest * os.urandom(1)[0] / 256)
        return True


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
