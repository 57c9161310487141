"""Send statements to the server one after another, without waiting for results that are not needed yet.

Text columns of PostgreSQL take every character but NUL, so NUL is stored as two other characters that sort alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg

from holdfast.core.canonical import digest
from holdfast.store.postgres.connections import PatientConnection

# Advisory locks of one database; rights.sql names them by these numbers.
INSTALLATION_LOCK: Final = 0x48460001
SESSION_LOCK: Final = 0x48460002
_MAX_SESSION_LOCKS: Final = 1024  # a server has room for some thousands, for everybody


class StatementPipeline:
    """A connection while it is in use. What was sent has arrived once something is queried, or at the end."""

    def __init__(self, connection: PatientConnection) -> None:
        self.connection = connection
        self.backend = connection.info.backend_pid  # the server's process; unknown once the connection is lost
        self._cursor = connection.cursor(binary=True)
        self._sender = connection.cursor()
        self._stack = contextlib.ExitStack()
        self._active: psycopg.Pipeline | None = None
        self._enabled = False
        # Sends the batch that is still being collected, before anything else.
        self.deferred: Callable[[], None] | None = None

    def run_batch(self, statements: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Run several statements in one round trip; returns the rows of those that answer, joined."""
        cursor = psycopg.ClientCursor(self.connection).execute(statements, [encode_text(value) for value in values])
        row: tuple[Any, ...] = ()
        more: bool | None = True
        while more:
            row += (cursor.fetchone() or ()) if cursor.description else ()
            more = cursor.nextset()
        return row

    def begin(self) -> None:
        """From here on, nothing waits for what is sent (where libpq supports that)."""
        self._enabled = psycopg.capabilities.has_pipeline()

    def _start(self) -> None:
        """Called when something is sent: queries before that are answered sooner without a pipeline."""
        if self._enabled and self._active is None:
            self._active = self._stack.enter_context(self.connection.pipeline())

    def end(self) -> None:
        """Wait until everything sent has arrived; raises what went wrong with it."""
        self._active, self._enabled = None, False
        self._stack.close()

    def commit(self, channel: str) -> None:
        """Commit, then notify others in a separate statement.

        Inside the transaction, NOTIFY would make every commit of the database wait for every other. No reader needs
        to know that a notification is safe on disk.
        """
        self.flush()
        self._start()
        commit = self.connection.cursor()
        try:
            commit.execute("COMMIT")
            self.send("SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, '')", (channel,))
            self.end()
        except psycopg.Error:
            if commit.statusmessage != "COMMIT" or self.connection.closed:
                raise
        if commit.statusmessage != "COMMIT":  # a statement in it failed and the error was caught
            raise psycopg.errors.InFailedSqlTransaction("a statement failed, so nothing was saved")

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.flush()
        self._cursor.execute(sql, [encode_text(value) for value in values])
        if self._active is not None:
            # Only between such marks does the server count a transaction as idle, and end it after a while.
            self._active.sync()
        return [tuple(decode_text(item) for item in row) for row in self._cursor.fetchall()]

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first value of the first row; None without a row."""
        for row in self.query(sql, values):
            return row[0]
        return None

    def send(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.flush()
        self._start()
        self._sender.execute(sql, [encode_text(value) for value in values])

    def flush(self) -> None:
        """Send what was deferred."""
        deferred, self.deferred = self.deferred, None
        if deferred is not None:
            deferred()


def lock_number(session: str) -> int:
    """The number of a session's lock. Sessions that share a number only wait for each other."""
    return int(digest(session.encode(errors="surrogatepass"))[:8], 16) % _MAX_SESSION_LOCKS


def encode_text(value: Any) -> Any:
    """A value as the server stores it."""
    if isinstance(value, str) and ("\0" in value or "\1" in value):
        return value.replace("\1", "\1\2").replace("\0", "\1\1")
    return value


def decode_text(value: Any) -> Any:
    """A stored value as it was given."""
    if isinstance(value, str) and "\1" in value:
        return value.replace("\1\1", "\0").replace("\1\2", "\1")
    return value
