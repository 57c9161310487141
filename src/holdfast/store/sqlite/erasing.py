"""Erasing for real: after this, nothing of the session's text is in the file, its journal or its free pages.

Emptying rows leaves their bytes in free space, so the whole file is written anew and the journal emptied. A mark
beside the store says that this is under way: if the power fails in between, whoever opens the store next goes on.
"""

from __future__ import annotations

import os

import apsw

from holdfast.core.errors import Busy
from holdfast.machine import files
from holdfast.store.sqlite.trouble import speaking


def announce(path: str) -> None:
    files.write_atomic(path + ".erasing", b"The store is being rewritten without deleted data.\n")


def finish_or_say(connection: apsw.Connection, path: str) -> None:
    if not finish(connection, path):
        raise Busy(
            "the session is deleted, but other processes still read the old file",
            hint="Close them (a dashboard, a watch); the next command finishes the erasing.",
            file=path,
        )


def finish(connection: apsw.Connection, path: str) -> bool:
    """Rewrite the file and empty the journal; False when readers hold on to the old one for now."""
    try:
        with speaking("erase a session", path):
            connection.execute("VACUUM")
            blocked = 1
            for row in connection.execute("PRAGMA wal_checkpoint(TRUNCATE)"):
                blocked = int(row[0])
            if blocked:
                return False
    except Busy:
        return False
    if os.path.lexists(path + ".erasing"):
        os.unlink(path + ".erasing")
        files.sync_directory(os.path.dirname(path))
    return True
