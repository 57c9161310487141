"""The SQLite store: one file, its transactions, and erasing from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import apsw

from holdfast.core.clock import MAX_CLOCK
from holdfast.core.envelope import Event
from holdfast.core.errors import Busy, Failed, HoldfastError
from holdfast.core.state import State
from holdfast.machine import files
from holdfast.machine.wall import Wall
from holdfast.store.interface import (
    UNSEEN,
    Arrival,
    CopyResult,
    Damage,
    Draft,
    KnownProject,
    LocalState,
    NotCopied,
    RefusalCheck,
    StoreInfo,
    UnsoundEvents,
)
from holdfast.store.journal import Journal, JournalTransaction
from holdfast.store.listing import SqlListings
from holdfast.store.sqlite import connection as sqlite_connection
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.errors import explain, explaining
from holdfast.store.sqlite.tables import SqliteTables

_WRITE = "write to the store"
_ERASE_PATIENCE = 0.2  # seconds: reading must not wait long for another reader


class SqliteStore(SqlListings):
    """One file. `writer` is called only to write: reading needs no identity."""

    team = None  # a file is one person's

    def __init__(
        self,
        path: str,
        *,
        writer: Callable[[], str],
        wall: Callable[[], int],
        salt: Callable[[], bytes] = lambda: os.urandom(16),
        create: bool = True,
    ) -> None:
        self.path = path
        self.url = "sqlite:///" + path
        if create and not os.path.lexists(path):
            sqlite_connection.create(path)
        self._writer, self._wall, self._salt = writer, wall, salt
        self._open()
        if os.path.lexists(_erasing_mark(path)):
            _continue_erasing(self._connection, path)
        self._heal_clock()

    def _open(self) -> None:
        self._connection = sqlite_connection.connect(self.path)
        self._tables = SqliteTables(self._connection)
        self._journal = Journal(self._tables, writer=self._writer, wall=self._wall, salt=self._salt)

    def _heal_clock(self) -> None:
        """Earlier versions had one clock for all sessions, which a peer could run to its end. Sessions that this
        affected are derived again, once: their listings and search entries are still wrong.
        """
        with suppress(HoldfastError):  # states are right without it
            with self._reading():
                sql = "SELECT 1 FROM facts WHERE name = 'clock' AND value > ?"
                absurd = list(self._connection.execute(sql, (MAX_CLOCK,)))
            if absurd:
                with self.transaction():
                    for session in self._tables.sessions_beyond(MAX_CLOCK):
                        self._journal.refold(session)
                    self._connection.execute("DELETE FROM facts WHERE name = 'clock'")

    def close(self) -> None:
        with explaining("close the store", self.path):
            self._connection.close()

    # ── transactions ─────────────────────────────────────────────────────────────────────────────────────

    def transaction(self, *, patience: float | None = None, about: str | None = None) -> SqliteTransaction:
        del about  # only saves round trips to a server
        return SqliteTransaction(self._connection, self._tables, self._journal, self.path, patience=patience)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """All queries in the block see the same state of the store."""
        with explaining("read the store", self.path):
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────

    def state(self, session: str) -> State | None:
        with self._reading():
            return self._journal.existing(session)

    def events(self, session: str, *, since: int = 0) -> Iterator[Event]:
        with self._reading():
            return iter(self._journal.events(session, since))

    def _listed(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._reading():
            return list(self._connection.execute(sql, values))

    def remembered(self, name: str) -> bytes | None:
        with self._reading():
            return self._tables.remembered(name)

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        with self._reading():
            return self._tables.remembered_under(prefix)

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        with self._reading():
            return self._tables.arrived(after, limit)

    def latest_place(self) -> int:
        with self._reading():
            return self._tables.latest_place()

    def version(self) -> int:
        with explaining("read the store", self.path):
            return int(self._connection.pragma("data_version"))

    def local_state_version(self) -> str:
        with self._reading():
            return self._tables.local_state_version()

    def local_state(self) -> LocalState:
        with self._reading():
            return self._tables.local_state()

    def listen(self) -> None:
        """A file sends no notifications; its version is cheap to poll."""

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        with self._reading():
            return self._tables.stream(session, writer, first, last)

    def current(self, place: str) -> str | None:
        with self._reading():
            for row in self._connection.execute("SELECT session FROM places WHERE path = ?", (place,)):
                return str(row[0])
        return None

    def places(self, session: str) -> list[str]:
        with self._reading():
            rows = self._connection.execute("SELECT path FROM places WHERE session = ? ORDER BY path", (session,))
            return [str(path) for (path,) in rows]

    def projects_with(self, kind: str, value: str) -> list[str]:
        with self._reading():
            rows = self._connection.execute(
                "SELECT project FROM evidence WHERE kind = ? AND value = ? ORDER BY project", (kind, value)
            )
            return [row[0] for row in rows]

    def evidence(self, project: str) -> list[tuple[str, str]]:
        with self._reading():
            rows = self._connection.execute(
                "SELECT kind, value FROM evidence WHERE project = ? ORDER BY kind, value", (project,)
            )
            return [(row[0], row[1]) for row in rows]

    def latest_time(self) -> int | None:
        with self._reading():
            for row in self._connection.execute("SELECT at FROM events ORDER BY ord DESC LIMIT 1"):
                return int(row[0])
        return None

    # ── erasing, backups and repair ──────────────────────────────────────────────────────────────────────

    def describe(self) -> StoreInfo:
        size = 0
        for name in (self.path, f"{self.path}-wal"):
            with suppress(OSError):
                size += os.stat(name).st_size
        return StoreInfo(len(schema.MIGRATIONS), self.latest_place(), size)

    def erase(self, session: str, deletion: Draft) -> None:
        _announce_erasing(self.path)
        with self.transaction() as transaction:
            transaction.record(session, deletion)
        if os.path.lexists(_erasing_mark(self.path)):
            _erase_now(self._connection, self.path)

    def own_id(self, session: str) -> str:
        return session  # a file is one person's

    def is_own_stream(self, session: str, writer: str) -> bool:  # noqa: ARG002
        return True  # a file is one person's

    def is_read_only(self, session: str) -> bool:  # noqa: ARG002
        return False  # a file is one person's

    def may_repair(self, session: str) -> bool:  # noqa: ARG002
        return True  # a file is one person's

    def unsound(self, session: str) -> UnsoundEvents | None:  # noqa: ARG002
        return None  # a file is one person's

    def backup(self, path: str) -> tuple[NotCopied, ...]:
        from holdfast.store.sqlite import backup

        backup.backup(self._connection, path)
        return ()

    def restore(self, path: str, refuses: RefusalCheck = lambda _session, _events: None) -> CopyResult:
        from holdfast.store.sqlite import backup

        return backup.restore(self, path, refuses)

    def check(self) -> Iterator[Damage]:
        from holdfast.store.sqlite import check

        return check.check(self._connection, self._tables, self.path)

    def repair(self) -> list[str]:
        """Repairs the file and opens it again: a damaged one may have to be replaced."""
        from holdfast.store.sqlite import repair

        self.close()
        try:
            return repair.repair(self.path)
        finally:
            self._open()


class SqliteTransaction(JournalTransaction[SqliteTables]):
    """The right to write, from `with` to the end of its block: all of it happens, or nothing."""

    def __init__(
        self,
        connection: apsw.Connection,
        tables: SqliteTables,
        journal: Journal,
        path: str,
        *,
        patience: float | None = None,
    ) -> None:
        super().__init__(journal, tables)
        self._connection = connection
        self._path = path
        self._patience = patience

    def __enter__(self) -> Self:
        if self._patience is not None:
            self._connection.set_busy_handler(sqlite_connection.BusyHandler(self._patience))
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except (apsw.Error, OSError, MemoryError) as error:
            raise (explain(error, _WRITE, self._path) or error) from None
        finally:
            if self._patience is not None:
                self._connection.set_busy_handler(sqlite_connection.BusyHandler())
        self._tables.begin()
        self._journal.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._journal.flush()
                if self._journal.erased:
                    _announce_erasing(self._path)
                self._connection.execute("COMMIT")
            except BaseException as failed:  # noqa: BLE001 (raised again below)
                error = failed
            else:
                if self._journal.erased:
                    # By a deletion made here or received: the bytes go too, as soon as readers let go.
                    self._journal.erased = False
                    _continue_erasing(self._connection, self._path)
                return
        self._journal.forget()
        self._tables.forget()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        raise (explain(error, _WRITE, self._path) or error) from None

    def receive(self, events: Iterable[Event], *, own_only: bool = False) -> int:  # noqa: ARG002 (a file is one's own)
        place = self._tables.latest_place()
        new = self._journal.receive(events)
        if new and self._tables.remembered(UNSEEN) is None:
            self._tables.remember(UNSEEN, b"%d" % place)
        return new

    def record_missing(self, session: str, names: Iterable[str]) -> None:  # noqa: ARG002
        self._tables.record_missing(names)

    def set_current(self, place: str, session: str | None) -> None:
        if session is None:
            self._connection.execute("DELETE FROM places WHERE path = ?", (place,))
        else:
            self._connection.execute("INSERT OR REPLACE INTO places (path, session) VALUES (?, ?)", (place, session))

    def remember_evidence(self, known: KnownProject) -> None:
        run = self._connection.execute
        run("INSERT OR IGNORE INTO projects (id, name) VALUES (?, ?)", (known.id, known.name))
        for kind, value in known.evidence:
            run("INSERT OR IGNORE INTO evidence (kind, value, project) VALUES (?, ?, ?)", (kind, value, known.id))


# ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────

# Emptied rows leave their bytes in free pages, so the whole file is written again and the journal truncated. A mark
# next to the store says that this is under way: after a power cut, the next process that opens the store continues
# it.


def _erasing_mark(path: str) -> str:
    return path + ".erasing"


def _announce_erasing(path: str) -> None:
    files.write_atomic(_erasing_mark(path), b"The store is being rewritten without deleted data.\n")


def _erase_now(connection: apsw.Connection, path: str) -> None:
    """Erase the bytes of what was deleted. Errors only mean that bytes are left: the deletion itself is done."""
    try:
        _rewrite_without_deleted(connection, path)
    except Busy:
        raise Busy(
            "the session is deleted, but other processes still read the old file",
            hint="Close them (a dashboard, a watch); the next command finishes the erasing.",
            file=path,
        ) from None
    except HoldfastError as error:
        raise Failed(
            f"the session is deleted, but its bytes are not erased yet: {error.message}",
            hint="Fix that; the next command finishes the erasing.",
            operation="erase a session",
            file=path,
        ) from None


def _continue_erasing(connection: apsw.Connection, path: str) -> None:
    """Erase if that is possible now. If not, the mark stays for the next time, and doctor reports it."""
    connection.set_busy_handler(sqlite_connection.BusyHandler(_ERASE_PATIENCE))
    try:
        with suppress(HoldfastError):
            _rewrite_without_deleted(connection, path)
    finally:
        connection.set_busy_handler(sqlite_connection.BusyHandler())


def _rewrite_without_deleted(connection: apsw.Connection, path: str) -> None:
    from holdfast.store.sqlite import quarantine

    with explaining("erase a session", path):
        deleted = [row[0] for row in connection.execute("SELECT id FROM sessions WHERE deleted <> 0")]
        quarantine.forget(path, deleted)
        _forget_leftovers(os.path.dirname(path))
        connection.execute("VACUUM")
        for row in connection.execute("PRAGMA wal_checkpoint(TRUNCATE)"):
            if row[0]:
                raise Busy("other processes still read the old file")
        if os.path.lexists(_erasing_mark(path)):
            os.unlink(_erasing_mark(path))
            files.sync_directory(os.path.dirname(path))


def _forget_leftovers(directory: str) -> None:
    """Remove temporary files of killed processes: they may hold text."""
    for path in files.abandoned_temporaries(directory, Wall().now()):
        with suppress(FileNotFoundError):  # somebody else removed it
            os.unlink(path)
