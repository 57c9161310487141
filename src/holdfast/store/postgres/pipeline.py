"""Send statements to the server one after another, without waiting for results that nobody needs yet.

PostgreSQL's texts hold every character but NUL. Here NUL goes in as two others, in such a way that order is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

from holdfast.store.postgres.pool import AttentiveLine


class Talk:
    """One line while it is in use. What is told is on its way; it has arrived when something is asked, or at the
    end.
    """

    def __init__(self, line: AttentiveLine) -> None:
        self.line = line
        self.backend = line.info.backend_pid  # the server's process; a line that was cut does not know it any more
        self._cursor = line.cursor(binary=True)
        self._told = line.cursor()
        self._piping = contextlib.ExitStack()
        self._piped: psycopg.Pipeline | None = None
        self._may_pipe = False
        # Something to tell that waits for company: it goes before anything else does.
        self.later: Callable[[], None] | None = None

    def opening(self, statements: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Several statements at once, in one way there and back; gives the row of each that answers, joined."""
        cursor = psycopg.ClientCursor(self.line).execute(statements, [kept(value) for value in values])
        row: tuple[Any, ...] = ()
        there: bool | None = True
        while there:
            row += (cursor.fetchone() or ()) if cursor.description else ()
            there = cursor.nextset()
        return row

    def begin(self) -> None:
        """From here on, what is told is not waited for (where libpq can do that)."""
        self._may_pipe = psycopg.capabilities.has_pipeline()

    def _pipe(self) -> None:
        """Only when something is told: what is asked before is answered sooner without."""
        if self._may_pipe and self._piped is None:
            self._piped = self._piping.enter_context(self.line.pipeline())

    def end(self) -> None:
        """Wait until everything told has arrived; raises what went wrong with it."""
        self._piped, self._may_pipe = None, False
        self._piping.close()

    def commit(self, channel: str) -> None:
        """Commit, and tell others of it: right after and by itself. Inside the transaction, telling would make every
        commit of the database wait for every other. Nobody needs to know that a message is safe on disk.
        """
        self.settle()
        self._pipe()
        committed = self.line.cursor()
        try:
            committed.execute("COMMIT")
            self.tell("SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, '')", (channel,))
            self.end()
        except psycopg.Error:
            if committed.statusmessage != "COMMIT" or self.line.closed:
                raise
        if committed.statusmessage != "COMMIT":  # something in it had failed, and nobody minded
            raise psycopg.errors.InFailedSqlTransaction("what failed in it cannot be saved")

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.settle()
        self._cursor.execute(sql, [kept(value) for value in values])
        if self._piped is not None:
            # The server takes a transaction for idle, and ends it after a while, only between such marks.
            self._piped.sync()
        return [tuple(said(item) for item in row) for row in self._cursor.fetchall()]

    def one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first value of the first row; None without one."""
        for row in self.ask(sql, values):
            return row[0]
        return None

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.settle()
        self._pipe()
        self._told.execute(sql, [kept(value) for value in values])

    def tell_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self.settle()
        self._pipe()
        self._told.executemany(sql, [[kept(item) for item in row] for row in values])

    def settle(self) -> None:
        """Tell what waited."""
        later, self.later = self.later, None
        if later is not None:
            later()


def kept(value: Any) -> Any:
    """A value as the server keeps it."""
    if isinstance(value, str) and ("\0" in value or "\1" in value):
        return value.replace("\1", "\1\2").replace("\0", "\1\1")
    return value


def said(value: Any) -> Any:
    """A value as it was given."""
    if isinstance(value, str) and "\1" in value:
        return value.replace("\1\1", "\0").replace("\1\2", "\1")
    return value
