"""Erasing for real: after this, nothing of the session's text is in the file, its journal or its free pages.

Emptying rows leaves their bytes in free space, so the whole file is written anew and the journal emptied. A mark
beside the store says that this is under way: if the power fails in between, whoever opens the store next goes on.
"""

from __future__ import annotations

import contextlib
import os

import apsw

from holdfast.core.errors import Busy, Failed, HoldfastError
from holdfast.machine import files
from holdfast.machine.wall import Wall
from holdfast.store.sqlite import quarantine
from holdfast.store.sqlite.connection import Patience
from holdfast.store.sqlite.errors import speaking

_HURRIED = 0.2  # seconds: someone who only looks must not wait for a reader that holds on


def mark(path: str) -> str:
    return path + ".erasing"


def announce(path: str) -> None:
    files.write_atomic(mark(path), b"The store is being rewritten without deleted data.\n")


def finish_or_say(connection: apsw.Connection, path: str) -> None:
    """Erase now. The deletion itself is done: what is said here is only that some bytes are still there."""
    try:
        _finish(connection, path)
    except Busy:
        raise Busy(
            "the session is deleted, but other processes still read the old file",
            hint="Close them (a dashboard, a watch); the next command finishes the erasing.",
            file=path,
        ) from None
    except HoldfastError as error:
        raise Failed(
            f"the session is deleted, but its bytes are not erased yet: {error.message}",
            hint="Mend that; the next command finishes the erasing.",
            operation="erase a session",
            file=path,
        ) from None


def finish(connection: apsw.Connection, path: str) -> bool:
    """Go on where an erasing was interrupted; False when that is not possible now. Never stands in anyone's way."""
    connection.set_busy_handler(Patience(_HURRIED))
    try:
        _finish(connection, path)
    except HoldfastError:
        return False  # the mark stays, and doctor speaks of it
    finally:
        connection.set_busy_handler(Patience())
    return True


def _finish(connection: apsw.Connection, path: str) -> None:
    with speaking("erase a session", path):
        deleted = [row[0] for row in connection.execute("SELECT id FROM sessions WHERE deleted <> 0")]
        quarantine.forget(path, deleted)
        _forget_leftovers(os.path.dirname(path))
        connection.execute("VACUUM")
        for row in connection.execute("PRAGMA wal_checkpoint(TRUNCATE)"):
            if row[0]:
                raise Busy("other processes still read the old file")
        if os.path.lexists(mark(path)):
            os.unlink(mark(path))
            files.sync_directory(os.path.dirname(path))


def _forget_leftovers(directory: str) -> None:
    """What a killed process left behind may hold text."""
    for path in files.abandoned_temporaries(directory, Wall().now()):
        with contextlib.suppress(FileNotFoundError):  # somebody else removed it
            os.unlink(path)
