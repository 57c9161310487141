"""Backups: a complete copy in one file, and uniting a store with one.

Restoring adds and never takes away: the log only grows, so what is here and what the backup has are both true.
What was deleted since stays deleted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.machine import files
from holdfast.store.sqlite import schema
from holdfast.store.sqlite.tables import SqliteTables
from holdfast.store.sqlite.trouble import speaking

if TYPE_CHECKING:
    from holdfast.store.sqlite.store import SqliteStore


def backup(connection: apsw.Connection, path: str) -> None:
    path = os.path.abspath(path)
    if os.path.lexists(path):
        raise Conflict("the backup file exists already", hint="Choose another name, or remove it.", file=path)
    temporary = os.path.join(os.path.dirname(path), f".holdfast-{os.urandom(8).hex()}.tmp")
    with speaking("write the backup", path):
        try:
            # Made beforehand, empty and private: SQLite would give it the umask's mode.
            os.close(files.open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            connection.execute("VACUUM INTO ?", (temporary,))
            os.link(temporary, path) if hasattr(os, "link") else os.rename(temporary, path)
            files.sync_directory(os.path.dirname(path))
        except FileExistsError:
            raise Conflict("the backup file exists already", hint="Choose another name.", file=path) from None
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)


def unite(store: SqliteStore, path: str) -> int:
    """Read every event of the backup, check it, and add what is missing."""
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise NotFound("there is no such backup", file=path)
    if not os.path.isfile(path):
        raise Invalid("the backup is not a file", file=path)
    with speaking("read the backup", path):
        source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            found = schema.version_of(source) if source.pragma("application_id") == schema.APPLICATION else 0
            if not 0 < found <= len(schema.MIGRATIONS):
                raise Invalid(
                    "the file is not a backup that this Holdfast can read",
                    hint="Backups are made by: holdfast backup FILE",
                    file=path,
                )
            tables = SqliteTables(source)
            sessions = [row[0] for row in source.execute("SELECT id FROM sessions ORDER BY created_at, id")]
            new = 0
            for session in sessions:
                with store.transaction() as transaction:
                    new += transaction.receive(tables.read(session))
                    state = transaction.state(session)
                    if state.project is not None and not state.deleted:
                        transaction.know_project(state.project)
            return new
        finally:
            source.close()
