"""Lines to the server: one pool per process and address, however many stores are open on it.

A line that was cut is thrown away and replaced; what the server said when it could not be reached is told at once,
instead of waiting for it to come back.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Self

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from holdfast.core.errors import Unreachable
from holdfast.store.postgres import conninfo

_MOST: Final = 16  # lines at once; a store needs one, for moments
_LOOK: Final = 0.05  # seconds after which one looks whether the server said something
_WAIT: Final = 15.0  # seconds to wait for a line when all are in use, or the server is slow to answer

Line = psycopg.Connection[TupleRow]


class Lines:
    """Shared by the stores of one address: whoever opens one says so, and again when closing it."""

    _open: ClassVar[dict[str, Lines]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        self._key = f"{url}\n{sorted(settings.items())}"
        self._users = 0
        self._failure: psycopg.Error | None = None
        lines = self

        class Telling(psycopg.Connection[TupleRow]):
            """Remembers why it could not be made: the pool itself only says that time is up."""

            @classmethod
            def connect(cls, conninfo: str = "", **named: Any) -> Self:
                try:
                    made = super().connect(conninfo, **named)
                except psycopg.Error as error:
                    lines._failure = error
                    raise
                lines._failure = None
                return made

        self._pool = ConnectionPool(
            kwargs={**conninfo.parameters(url, settings=settings), "autocommit": True},
            connection_class=Telling, min_size=0, max_size=_MOST, open=False, num_workers=1, reconnect_timeout=0.0,
        )  # fmt: skip

    @classmethod
    def to(cls, url: str, settings: Mapping[str, str] | None = None) -> Lines:
        with cls._guard:
            made = cls(url, settings or {})
            found = cls._open.setdefault(made._key, made)
            found._users += 1
            if found._users == 1:
                _quiet()
                found._pool.open()
            return found

    def close(self) -> None:
        """This user needs it no more; with the last one, the lines are hung up."""
        with self._guard:
            self._users -= 1
            if self._users:
                return
            del self._open[self._key]
        self._pool.close(timeout=1)

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[Line]:
        """A line, given back at the end; one that is broken, or in the middle of something, is not used again."""
        line = self.take()
        try:
            yield line
        finally:
            self.give_back(line)

    def take(self) -> Line:
        self._failure = None
        waited = 0.0
        while True:
            try:
                return self._pool.getconn(timeout=_LOOK)
            except PoolTimeout:
                waited += _LOOK
                if self._failure is not None:
                    raise self._failure from None
                if waited > _WAIT:
                    raise Unreachable("the server does not answer", hint="Try again later.") from None

    def give_back(self, line: Line) -> None:
        if line.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            line.close()
        self._pool.putconn(line)


def _quiet() -> None:
    """The pool tells its log of every failure; so do our errors, in better words."""
    import logging

    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
