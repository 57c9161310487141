"""Backups: written to one private file from any kind of store, read, and restored."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import apsw

from holdfast.core.envelope import Event, find_problem
from holdfast.core.errors import Conflict, Damaged, Invalid, NotFound, Refused
from holdfast.core.fold import fold
from holdfast.machine import files
from holdfast.store import origin, store_copy
from holdfast.store.interface import CopyResult, NotCopied, RefusalCheck, Store
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.connection import put_in_place
from holdfast.store.sqlite.errors import explaining
from holdfast.store.sqlite.tables import SqliteTables

_Filled = TypeVar("_Filled")


def backup(connection: apsw.Connection, path: str) -> None:
    _write(path, lambda temporary: connection.execute("VACUUM INTO ?", (temporary,)))


def write_backup(store: Store, path: str) -> tuple[NotCopied, ...]:
    """Back up a store that is not a file, by copying everything it shows; returns what could not be copied."""
    return _write(path, lambda temporary: _copy_into(store, temporary))


def _copy_into(store: Store, path: str) -> tuple[NotCopied, ...]:
    from holdfast.store.sqlite.store import SqliteStore

    working = _temporary_next_to(path)
    try:
        target = SqliteStore(working, writer=_no_writer, wall=_no_clock)
        try:
            copied = store_copy.copy(store, target)
        finally:
            target.close()
        connection = apsw.Connection(working, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            SqliteTables(connection).delete_under(store_copy.CURSORS)
            connection.execute("VACUUM INTO ?", (path,))
        finally:
            connection.close()
    finally:
        for ending in ("", "-wal", "-shm", "-journal", ".erasing"):
            if os.path.lexists(working + ending):
                os.unlink(working + ending)
    return copied.left_out


def _no_writer() -> str:
    raise AssertionError("a backup records nothing itself")


def _no_clock() -> int:
    raise AssertionError("a backup records nothing itself")


def _temporary_next_to(path: str) -> str:
    return os.path.join(os.path.dirname(path), files.temporary_name())


def _write(path: str, fill: Callable[[str], _Filled]) -> _Filled:
    """Have `fill` write a private file, and give it its name only when complete, never over another file."""
    path = os.path.abspath(path)
    conflict = Conflict("the backup file already exists", hint="Choose another name, or remove it.", file=path)
    if os.path.lexists(path):
        raise conflict
    temporary = _temporary_next_to(path)
    with explaining("write the backup", path):
        try:
            # Created beforehand, empty and private: SQLite would use the umask.
            descriptor = files.open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                filled = fill(temporary)
                _forget_remotes(temporary)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not put_in_place(temporary, path):
                raise conflict
            try:
                files.sync_directory(os.path.dirname(path))
            except BaseException:
                os.unlink(path)  # it may not survive a power cut, and would block the next attempt
                raise
        finally:
            for ending in ("", "-journal"):
                if os.path.lexists(temporary + ending):
                    with contextlib.suppress(OSError):  # the backup is there, or another error is under way
                        os.unlink(temporary + ending)
    return filled


def _forget_remotes(path: str) -> None:
    """Remove what is known of remotes from a backup: their cursors are true of this store alone."""
    copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        tables = SqliteTables(copy)
        if any([tables.delete_under("vault/"), tables.delete_under(origin.OWN)]):
            copy.execute("VACUUM")
    finally:
        copy.close()


class Backup:
    """An open backup. Reading writes nothing, neither into the file nor next to it."""

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
            except apsw.SQLError:  # made by a version without this table
                return None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Reports damage as that of the backup, not of the store."""
        try:
            yield
        except (Damaged, apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, UnicodeDecodeError):
            raise Damaged(
                "the backup is damaged; nothing was changed", hint=_salvage(self._path), file=self._path
            ) from None


@contextmanager
def open_backup(path: str) -> Iterator[Backup]:
    """Open a backup, as of one time, after checking that it is one."""
    if not os.path.exists(path):
        raise NotFound("there is no such backup", file=path)
    if not os.path.isfile(path):
        raise Invalid("the backup is not a file", file=path)
    with explaining("read the backup", path):
        source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            _refuse_non_backup(source, path)
            is_ours = source.pragma("application_id") == schema.APPLICATION
            if is_ours:
                _refuse_other_versions(source, path)
            if not is_ours or not schema.version_of(source):
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
        schema.refuse_other_versions(source, path)
    except Damaged:
        raise _damaged(path) from None


def _refuse_non_backup(source: apsw.Connection, path: str) -> None:
    """Refuse a file that is not a backup, with another message than for a damaged store."""
    try:
        # A backup has only tables and indexes: anything else could run code while it is read.
        if source.execute(
            "SELECT 1 FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR rootpage = 0"
        ).fetchone():
            raise Invalid("the file is not a backup: it contains code that would run while it is read", file=path)
        is_intact = [row[0] for row in source.execute("PRAGMA quick_check(1)")] == ["ok"]
    except (apsw.NotADBError, apsw.CorruptError):
        is_intact = False
    if not is_intact:
        raise _damaged(path)


def _damaged(path: str) -> Invalid:
    return Invalid(
        "the file is not a backup, or is damaged; nothing was changed",
        hint=f"If it was one: {_salvage(path)}",
        file=path,
    )


def _salvage(path: str) -> str:
    return f"holdfast --store sqlite:///{path} doctor --repair saves what can be read of it."


# ── restoring ────────────────────────────────────────────────────────────────────────────────────────────


def restore(store: Store, path: str, refuses: RefusalCheck = lambda _session, _events: None) -> CopyResult:
    """Check every event of the backup and add those that are missing, all or nothing.

    Only sessions that the caller may not write in this store, and those that `refuses` gives a reason for, are left
    out and returned.
    """
    path = os.path.abspath(path)
    with open_backup(path) as backup:
        sessions = backup.sessions()
        for session in sessions:
            _refuse_damaged_events(backup.events(session), session, path)
        left_out: dict[str, str] = {}
        for session in sessions:
            if store.state(session) is None:
                continue
            if origin.member_of(store, session) != origin.member_of(backup, session) and store.may_repair(session):
                left_out[session] = store_copy.IS_OTHERS
                continue
            reason = (
                store_copy.ANOTHER
                if origin.differs(store, backup, session)
                else refuses(session, backup.events(session))
            )
            if reason is not None:
                left_out[session] = reason
        while True:
            included = [session for session in sessions if session not in left_out]
            try:
                new = _add_missing(store, backup, included)
            except Refused:
                refused = [session for session in included if store_copy.is_refused(store, backup.events(session))]
                if not refused:
                    raise
                left_out |= {session: store_copy.refusal(store, session) for session in refused}
            else:
                return CopyResult(
                    len(included),
                    new,
                    store_copy.left_out(left_out, lambda session: fold(backup.events(session), session)),
                )


def _add_missing(store: Store, backup: Backup, sessions: list[str]) -> int:
    """Returns how many events were new."""
    new = 0
    missed = backup.missing_events()
    with store.transaction() as transaction:
        for session in sessions:
            if transaction.state(session).last is None:
                share = origin.share_of(backup, session)
                if share is None:
                    origin.record_own(transaction, session)
                else:
                    origin.record_share(transaction, session, share)
                origin.record_guests(transaction, session, origin.guests(backup, session))
                member = origin.member_of(backup, session)
                if member is not None:
                    origin.record_members(transaction, session, member)
                streams = origin.member_streams(backup, session)
                if streams:
                    origin.record_member_streams(transaction, session, streams)
            new += transaction.receive(backup.events(session), own_only=True)
            state = transaction.state(session)
            if state.project is not None and not state.deleted:
                transaction.remember_project(state.project)
            if any(session in name for name in missed):
                transaction.record_missing(session, missed & store_copy.missing(session, store.events(session)))
    return new


def _refuse_damaged_events(events: Iterable[Event], session: str, path: str) -> None:
    for event in events:
        problem = find_problem(event)
        if problem is not None:
            raise Damaged(
                f"event {event.seq} of the backup is damaged: {problem}",
                hint=f"Save what can be saved: holdfast --store sqlite:///{path} doctor --repair. Then restore it.",
                file=path,
                session=session,
            )
