"""Backups: a complete copy in one file, and uniting a store with one.

Restoring adds and never takes away: the log only grows, so what is here and what the backup has are both true.
What was deleted since stays deleted.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import apsw

from holdfast.core.errors import Conflict, Damaged, Invalid, NotFound
from holdfast.core.event import trouble
from holdfast.machine import files
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.connection import put_in_place
from holdfast.store.sqlite.tables import SqliteTables
from holdfast.store.sqlite.trouble import speaking

if TYPE_CHECKING:
    from holdfast.store.sqlite.store import SqliteStore


def backup(connection: apsw.Connection, path: str) -> None:
    path = os.path.abspath(path)
    taken = Conflict("the backup file exists already", hint="Choose another name, or remove it.", file=path)
    if os.path.lexists(path):
        raise taken
    temporary = os.path.join(os.path.dirname(path), f".holdfast-{os.urandom(8).hex()}.tmp")
    with speaking("write the backup", path):
        try:
            # Made beforehand, empty and private: SQLite would give it the umask's mode.
            descriptor = files.open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                connection.execute("VACUUM INTO ?", (temporary,))
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


def _forget_remotes(path: str) -> None:
    """A copy for people to keep says nothing of remotes: how far one was asked is true of this store alone."""
    copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if SqliteTables(copy).forget_under("vault/"):
            copy.execute("VACUUM")
    finally:
        copy.close()


def unite(store: SqliteStore, path: str) -> int:
    """Read every event of the backup, check it, and add what is missing: all of it, or nothing."""
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise NotFound("there is no such backup", file=path)
    if not os.path.isfile(path):
        raise Invalid("the backup is not a file", file=path)
    with speaking("read the backup", path):
        source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            _refuse_what_is_none(source, path)
            found = schema.version_of(source) if source.pragma("application_id") == schema.APPLICATION else 0
            if found > len(schema.MIGRATIONS):
                raise schema.newer(found, path)
            if not found:
                raise Invalid(
                    "the file is not a backup that this Holdfast can read",
                    hint="Backups are made by: holdfast backup FILE",
                    file=path,
                )
            source.execute("BEGIN")
            tables = SqliteTables(source)
            sessions = [row[0] for row in source.execute("SELECT id FROM sessions ORDER BY created_at, id")]
            for session in sessions:
                _refuse_damage(tables, session, path)
            new = 0
            with store.transaction() as transaction:
                for session in sessions:
                    new += transaction.receive(tables.read(session))
                    state = transaction.state(session)
                    if state.project is not None and not state.deleted:
                        transaction.know_project(state.project)
            return new
        finally:
            source.close()


def _refuse_what_is_none(source: apsw.Connection, path: str) -> None:
    """The words for a damaged store would send the person to the wrong file."""
    try:
        whole = [row[0] for row in source.execute("PRAGMA quick_check(1)")] == ["ok"]
    except (apsw.NotADBError, apsw.CorruptError):
        whole = False
    if not whole:
        raise Invalid(
            "the file is no backup, or is damaged; nothing was changed",
            hint=f"If it was one: holdfast --store sqlite:///{path} doctor --repair saves what can be read of it.",
            file=path,
        )


def _refuse_damage(tables: SqliteTables, session: str, path: str) -> None:
    for event in tables.read(session):
        wrong = trouble(event)
        if wrong is not None:
            raise Damaged(
                f"event {event.seq} of the backup is damaged: {wrong}",
                hint=f"Save what can be saved: holdfast --store sqlite:///{path} doctor --repair. Then restore it.",
                file=path,
                session=session,
            )
