"""Connections to the server: one pool per process and address, however many stores are open on it.

A line that was cut is thrown away and replaced; what the server said when it could not be reached is told at once,
instead of waiting for it to come back.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

import psycopg
from psycopg.rows import TupleRow
from psycopg.waiting import Ready, Wait
from psycopg_pool import ConnectionPool, PoolTimeout

from holdfast.core.canonical import digest
from holdfast.core.errors import Busy, Unreachable
from holdfast.machine.wall import monotonic
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import AWAY
from holdfast.store.postgres import conninfo

_MOST: Final = 16  # lines at once; a store needs one, for moments
_LOOK: Final = 0.05  # seconds after which one looks whether the server said something
_WAIT: Final = 15.0  # seconds to wait for a line when all are in use, or the server is slow to answer
# Seconds without a word from the server, in the middle of something, after which it counts as gone. It answers when
# it has waited for a lock as long as it may; and networks that are cut are noticed sooner (see `conninfo`).
SILENCE = conninfo.PATIENCE + 15
Line = psycopg.Connection[TupleRow]
_Result = TypeVar("_Result")


class Silent(psycopg.OperationalError):
    """The line is there, and nobody at its other end. Others would be as silent: it is not tried again at once."""


class AttentiveLine(Line):
    """Does not wait for ever for somebody who is not there."""

    patience: float | None = None  # seconds without a word, for who is in a hurry

    def wait(self, gen: Generator[Any, Any, _Result], *given: Any, **named: Any) -> _Result:
        return super().wait(self._within_reason(gen), *given, **named)

    def _within_reason(self, gen: Generator[Any, Any, _Result]) -> Generator[Any, Any, _Result]:
        """The same steps; every now and then, psycopg says that nothing happened.

        Of much that is told at once, psycopg sends what fits and waits for the answer alone: the rest is sent here.
        """
        last_sign = monotonic()
        try:
            wanted = next(gen)
            while True:
                unsent = wanted == Wait.R and self.pgconn.flush() != 0
                ready = yield Wait.RW if unsent else wanted
                if unsent and ready == Ready.W:
                    last_sign = monotonic()
                    continue
                if ready:
                    last_sign = monotonic()
                elif monotonic() - last_sign > (SILENCE if self.patience is None else self.patience):
                    self.pgconn.finish()
                    raise Silent("it does not answer any more")
                wanted = gen.send(ready)
        except StopIteration as done:
            result: _Result = done.value
            return result


class PostgresPool:
    """Shared by the stores of one address: whoever opens one says so, and again when closing it."""

    open: ClassVar[dict[str, PostgresPool]] = {}
    guard: ClassVar[threading.Lock] = threading.Lock()
    _elsewhere: ClassVar[list[object]] = []  # of the process that this one was forked from: never touched again

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        self._key = digest(f"{url}\n{sorted(settings.items())}".encode())  # who sees it sees no password
        self._shown = PostgresAddress(url).url
        self._parameters = conninfo.parameters(url, settings=settings)
        self._users = 0
        self._failure: psycopg.Error | None = None
        self._pool = self._made()

    def _made(self) -> ConnectionPool[AttentiveLine]:
        lines = self

        class Telling(AttentiveLine):
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

        return ConnectionPool(
            kwargs={**self._parameters, "autocommit": True}, connection_class=Telling,
            min_size=0, max_size=_MOST, open=False, num_workers=1, reconnect_timeout=0.0,
        )  # fmt: skip

    @classmethod
    def to(cls, url: str, settings: Mapping[str, str] | None = None) -> PostgresPool:
        with cls.guard:
            made = cls(url, settings or {})
            return cls.open.setdefault(made._key, made).shared()

    def shared(self) -> Self:
        self._users += 1
        if self._users == 1:
            _quiet()
            self._pool.open()
        return self

    def close(self, patience: float | None = None) -> None:
        """This user needs it no more; with the last one, the lines are hung up."""
        with self.guard:
            self._users -= 1
            if self._users:
                return
            self.open.pop(self._key, None)
        self._pool.close(timeout=1 if patience is None else 0)

    def hang_up(self) -> None:
        self._pool.close(timeout=0.2)

    def begin_anew(self) -> None:
        """In a process that was forked: it has none of the threads, and the lines are the other's."""
        self._elsewhere.append(self._pool)
        self._pool._closed = True  # noqa: SLF001 (thrown away, it would wait for its threads)
        self._pool = self._made()
        self._pool.open()

    def take(self, patience: float | None = None) -> AttentiveLine:
        """A line to use, for who waits no longer than so many seconds: for it, and then for each answer."""
        self._failure = None
        until = monotonic() + (_WAIT if patience is None else patience)
        while True:
            try:
                line = self._pool.getconn(timeout=_LOOK)
                line.patience = patience
                return line
            except PoolTimeout:
                if self._failure is not None:
                    raise self._failure from None
                if monotonic() > until:
                    if self._pool.get_stats().get("pool_size", 0) >= _MOST:
                        raise Busy("too much is written at once in this process", hint="Try again.") from None
                    raise Unreachable("the server does not answer", hint=AWAY, file=self._shown) from None

    def give_back(self, line: AttentiveLine) -> None:
        """One that is broken, or in the middle of something, is not used again."""
        if line.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            line.close()
        self._pool.putconn(line)


def _quiet() -> None:
    """The pool tells its log of every failure; so do our errors, in better words."""
    import logging

    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


def _end() -> None:
    """The process ends: whoever did not close their store need not, and nothing is said of it."""
    for lines in list(PostgresPool.open.values()):
        lines.hang_up()


def _forked() -> None:
    PostgresPool.guard = threading.Lock()
    for lines in PostgresPool.open.values():
        lines.begin_anew()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
