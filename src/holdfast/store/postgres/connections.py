"""Connections to the server: what to connect with, one pool per process and address, and a listener for changes.

Unless the URL says otherwise, a server on another machine must prove its identity: libpq alone would talk to anybody
who answers. Connections notice within seconds that the other side has disappeared, and never hold a lock for longer.
"""

from __future__ import annotations

import atexit
import os
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg.waiting import Ready, Wait
from psycopg_pool import ConnectionPool, PoolTimeout

from holdfast.core.canonical import digest
from holdfast.core.errors import Busy, Invalid, Unreachable
from holdfast.machine.wall import monotonic
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import AWAY

# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────


PATIENCE: Final = 30.0  # seconds to wait for another writer; transactions last milliseconds
_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
# Settings of the server: a client that sleeps with the right to write must not keep others waiting for ever.
_SETTINGS: Final = {
    "application_name": "holdfast",
    "lock_timeout": f"{int(PATIENCE * 1000)}",
    "idle_in_transaction_session_timeout": "60000",
    "client_min_messages": "error",
    "search_path": "pg_catalog,holdfast",
    # There are no statistics of texts (see rights.sql): planning again for each value finds nothing better.
    "plan_cache_mode": "force_generic_plan",
    "timezone": "UTC",
    # The server notices a lost client too; where its system cannot, these do nothing.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_NETWORK: Final = {
    "connect_timeout": "5", "keepalives": "1", "keepalives_idle": "10", "keepalives_interval": "5",
    "keepalives_count": "3", "tcp_user_timeout": "20000",
}  # fmt: skip
_SECRET: Final = frozenset({"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"})


def vault_of(url: str) -> str | None:
    """The vault that the URL names (`?vault=NAME`)."""
    return PostgresAddress(url).parameters.get("vault")


def connection_parameters(url: str, *, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """What psycopg connects with. A URL that libpq rejects is never repeated: it may hold a password."""
    parameters = {name: value for name, value in PostgresAddress(url).parameters.items() if name != "vault"}
    if parameters.pop("ssl", "") == "true":  # the spelling of other drivers
        parameters.setdefault("sslmode", "require")
    options = {
        name: value
        for name, value in {**_NETWORK, **parameters, **_server_verification(parameters)}.items()
        if value != ""
    }
    all_settings = {**_SETTINGS, **(settings or {})}
    settings_options = " ".join(
        f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in all_settings.items()
    )
    options["options"] = f"{settings_options} {parameters.get('options', '')}".strip()
    try:
        make_conninfo(**options)
    except psycopg.Error:
        raise Invalid(
            "the store's URL is not one that PostgreSQL understands",
            hint="It is postgresql://person@host:port/database; special characters in it are written as %XX.",
        ) from None
    return options


def _server_verification(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters by which libpq verifies the server, if neither the URL nor the environment sets them."""
    hosts = (
        parameters.get("hostaddr"),
        parameters.get("host"),
        os.environ.get("PGHOSTADDR"),
        os.environ.get("PGHOST"),
    )
    host = next(filter(None, hosts), "")
    is_local = all(name in _LOCAL or name.startswith(("/", "@")) for name in host.split(","))
    if is_local or parameters.get("sslmode") or os.environ.get("PGSSLMODE") or parameters.get("service"):
        return {}
    proof = {"sslmode": "verify-full"}
    if not parameters.get("sslrootcert") and not os.environ.get("PGSSLROOTCERT"):
        # This machine's certificates: the TLS library bundled with libpq may look elsewhere.
        proof["sslrootcert"] = ssl.get_default_verify_paths().cafile or "system"
    return proof


def secrets_of(url: str) -> list[str]:
    """Values that no message may contain."""
    return [value for name, value in PostgresAddress(url).parameters.items() if value and name in _SECRET]


# ── the pool ─────────────────────────────────────────────────────────────────────────────────────────────


_MAX_CONNECTIONS: Final = 16  # a store needs one at a time, briefly
_POLL_SECONDS: Final = 0.05  # between two checks why connecting failed
_MAX_WAIT: Final = 15.0  # seconds to wait while all connections are in use, or the server is slow
# Seconds without an answer after which the server counts as unreachable. It answers when a lock could not be had
# within `PATIENCE`, and keepalives notice a lost network sooner.
SILENCE_TIMEOUT = PATIENCE + 15
Connection = psycopg.Connection[TupleRow]
_Result = TypeVar("_Result")


class ServerSilent(psycopg.OperationalError):
    """The connection is open, but the server does not answer. Another one would not help, so nothing is retried."""


class PatientConnection(Connection):
    """A connection with a limit on how long the server may be silent."""

    patience: float | None = None  # seconds, where `SILENCE_TIMEOUT` is too long

    def wait(self, gen: Generator[Any, Any, _Result], *args: Any, **kwargs: Any) -> _Result:
        return super().wait(self._with_timeout(gen), *args, **kwargs)

    def _with_timeout(self, gen: Generator[Any, Any, _Result]) -> Generator[Any, Any, _Result]:
        """The same steps, ended after too long a silence: psycopg also yields when nothing has happened.

        When much is sent at once, psycopg sends what fits and then only waits for answers: the rest is sent here.
        """
        last_sign = monotonic()
        try:
            awaited = next(gen)
            while True:
                unsent = awaited == Wait.R and self.pgconn.flush() != 0
                ready = yield Wait.RW if unsent else awaited
                if unsent and ready == Ready.W:
                    last_sign = monotonic()
                    continue
                if ready:
                    last_sign = monotonic()
                elif monotonic() - last_sign > (SILENCE_TIMEOUT if self.patience is None else self.patience):
                    self.pgconn.finish()
                    raise ServerSilent("it stopped answering")
                awaited = gen.send(ready)
        except StopIteration as done:
            result: _Result = done.value
            return result


class PostgresPool:
    """Shared by all stores of one address; the last one that closes it closes the connections."""

    open: ClassVar[dict[str, PostgresPool]] = {}
    guard: ClassVar[threading.Lock] = threading.Lock()
    _abandoned: ClassVar[list[object]] = []  # pools of the parent process: kept from being finalized here

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        self._key = digest(f"{url}\n{sorted(settings.items())}".encode())  # a digest, so that no password shows
        self._shown = PostgresAddress(url).url
        self._parameters = connection_parameters(url, settings=settings)
        self._users = 0
        self._failure: psycopg.Error | None = None
        self._pool = self._new_pool()

    def _new_pool(self) -> ConnectionPool[PatientConnection]:
        pool = self

        class RememberingConnection(PatientConnection):
            """Notes why connecting failed: the pool itself only reports a timeout."""

            @classmethod
            def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
                try:
                    connection = super().connect(conninfo, **kwargs)
                except psycopg.Error as error:
                    pool._failure = error
                    raise
                pool._failure = None
                return connection

        return ConnectionPool(
            kwargs={**self._parameters, "autocommit": True}, connection_class=RememberingConnection,
            min_size=0, max_size=_MAX_CONNECTIONS, open=False, num_workers=1, reconnect_timeout=0.0,
        )  # fmt: skip

    @classmethod
    def for_address(cls, url: str, settings: Mapping[str, str] | None = None) -> PostgresPool:
        with cls.guard:
            new = cls(url, settings or {})
            return cls.open.setdefault(new._key, new).add_user()

    def add_user(self) -> Self:
        self._users += 1
        if self._users == 1:
            _silence_logs()
            self._pool.open()
        return self

    def close(self, patience: float | None = None) -> None:
        """Drop one user; with the last one, close the connections."""
        with self.guard:
            self._users -= 1
            if self._users:
                return
            self.open.pop(self._key, None)
        self._pool.close(timeout=1 if patience is None else 0)

    def close_now(self) -> None:
        self._pool.close(timeout=0.2)

    def reopen_after_fork(self) -> None:
        """Start over in a forked process: it has none of the threads, and the connections are the parent's."""
        self._abandoned.append(self._pool)
        self._pool._closed = True  # noqa: SLF001 (else its finalizer waits for threads that do not exist)
        self._pool = self._new_pool()
        self._pool.open()

    def take_connection(self, patience: float | None = None) -> PatientConnection:
        """A connection, waiting at most `patience` seconds for it, and then for each answer."""
        self._failure = None
        until = monotonic() + (_MAX_WAIT if patience is None else patience)
        while True:
            try:
                connection = self._pool.getconn(timeout=_POLL_SECONDS)
                connection.patience = patience
                return connection
            except PoolTimeout:
                if self._failure is not None:
                    raise self._failure from None
                if monotonic() > until:
                    if self._pool.get_stats().get("pool_size", 0) >= _MAX_CONNECTIONS:
                        raise Busy("all connections of this process are in use", hint="Try again.") from None
                    raise Unreachable("the server does not answer", hint=AWAY, file=self._shown) from None

    def put_back(self, connection: PatientConnection) -> None:
        """Return a connection; one that is broken or in a transaction is closed."""
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        self._pool.putconn(connection)


def _silence_logs() -> None:
    """The pool logs every failure; our errors already report them."""
    import logging

    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


def _close_all() -> None:
    """Stores that are still open when the process ends are no error."""
    for pool in list(PostgresPool.open.values()):
        pool.close_now()


def _after_fork() -> None:
    PostgresPool.guard = threading.Lock()
    for pool in PostgresPool.open.values():
        pool.reopen_after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ── changes of others ────────────────────────────────────────────────────────────────────────────────────


_MAX_QUIET: Final = 15.0  # seconds of silence after which the connection is tried
_ANSWER_TIMEOUT: Final = 5.0  # seconds
_MIN_PAUSE, _MAX_PAUSE = 0.25, 10.0  # seconds between two attempts to connect


class PostgresChangeListener:
    """Waits for notifications of changes, over a connection that may break. Not for two threads at once.

    What was notified while the connection was down is unknown, so reconnecting counts as a change. A silent
    connection is tried now and then: networks break without a sign.
    """

    def __init__(self, url: str, channel: str) -> None:
        self._parameters = connection_parameters(url)
        self._channel = channel
        self._connection: PatientConnection | None = None
        self._pause = _MIN_PAUSE
        self._next = 0.0
        self._quiet_since = monotonic()
        self._connect()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; True when something may have changed since the last call."""
        until = monotonic() + timeout
        if self._connection is None:
            time.sleep(max(0.0, min(timeout, self._next - monotonic())))
            return self._connect() if monotonic() >= self._next else False
        try:
            if self._connection.info.status != psycopg.pq.ConnStatus.OK:
                raise psycopg.OperationalError
            for _ in self._connection.notifies(timeout=max(0.0, until - monotonic()), stop_after=1):
                self._quiet_since = monotonic()
                return True
            if monotonic() - self._quiet_since > _MAX_QUIET:
                self._connection.execute("SELECT")
                self._quiet_since = monotonic()
        except (psycopg.Error, OSError):
            self.close()
            self._next = 0.0
        return False

    def _connect(self) -> bool:
        """Whether it is connected; if so, something may have changed before."""
        try:
            self._connection = PatientConnection.connect(**self._parameters, autocommit=True)  # type: ignore[arg-type]
            self._connection.patience = _ANSWER_TIMEOUT
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except (psycopg.Error, OSError):
            self.close()
            self._next = monotonic() + self._pause
            self._pause = min(2 * self._pause, _MAX_PAUSE)
            return False
        self._pause, self._quiet_since = _MIN_PAUSE, monotonic()
        return True

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
