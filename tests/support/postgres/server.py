"""Real PostgreSQL servers on this machine, for tests: started, stopped, killed, started again on the same data.

`postgres()` starts one server per test process, when the first test asks for it; a test that stops or kills a server
makes its own `Server`. Each run of a server has a small process (`attendant.py`) that ends it when its input closes,
so that no server outlives the tests, however they end.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, LiteralString, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.support.postgres import programs

ROLE: Final = "postgres"
_ATTENDANT: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attendant.py")
_PATIENCE: Final = 60.0
_PORT: Final = 5432  # only part of the socket's name, if nothing listens on a network
_SETTINGS: Final = {
    "max_connections": "60",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %u@%d ",
}
# Ordinary tests do not need protection against a failure of the machine.
_FAST: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@functools.cache
def postgres() -> Server:
    """The server of this test process."""
    server = Server()
    atexit.register(server.close)
    server.start()
    return server


class Server:
    """A PostgreSQL of its own: `with Server() as server:`, or `start()` and `close()`.

    `durable` keeps what is committed through `kill()` and more, as anybody's server does; otherwise it is quick.
    `tcp` listens on a free port of 127.0.0.1, beside the socket. `passwords` asks for one there (not on the socket).
    Where there can be none, the test is skipped; where Holdfast itself is checked, it fails.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        tcp: bool = False,
        passwords: bool = False,
        version: int = programs.NEWEST,
        settings: dict[str, str] | None = None,
    ) -> None:
        programs.expected()
        self.version = version
        self.tcp = tcp or passwords
        self.passwords = passwords
        self.port = _free_port() if self.tcp else _PORT
        self.folder = programs.folder("holdfast-pg-")
        self.data = os.path.join(self.folder, "data")
        self.pid: int | None = None
        self._given = dict(settings or {})
        self._settings = _SETTINGS | ({} if durable else _FAST) | self._given
        self._attendant: subprocess.Popen[str] | None = None

    # -- running ---

    def start(self) -> Self:
        """Starts it, with its former data, and waits until it accepts connections."""
        assert self._attendant is None, "it runs already"
        if not os.path.exists(self.data):
            programs.fill(self.data, self.version)
        self._admission()
        listening = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1" if self.tcp else "",
            "unix_socket_directories": self.folder,
        }
        options = [f"-c{name}={value}" for name, value in (self._settings | listening).items()]
        command = [programs.program("postgres", self.version), "-D", self.data, *options]
        self._attendant = subprocess.Popen(
            [sys.executable, "-I", _ATTENDANT, self.folder, programs.owner() or "-", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=programs.environ(),
            start_new_session=True,
        )
        assert self._attendant.stdout is not None
        self.pid = int(self._attendant.stdout.readline() or 0)
        if not _soon(lambda: self._status() == "ready" or not self.running) or not self.running:
            self._ended()
            raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}")
        return self

    @property
    def running(self) -> bool:
        return self._attendant is not None and self._attendant.poll() is None

    def stop(self, *, immediately: bool = False) -> None:
        """Shuts it down as an operator would: connections end, and everything is kept.

        `immediately`: as after a crash.
        """
        if self.pid is not None and self.running:
            os.kill(self.pid, signal.SIGQUIT if immediately else signal.SIGINT)
        self._ended()

    def kill(self) -> None:
        """Kills every process of it at once, and removes stale locks as an init system would."""
        if self.pid is not None and self.running:
            os.kill(self.pid, signal.SIGSTOP)  # no new children while they are collected
            for pid in (*self.backends(), self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._ended()
        port = f".s.PGSQL.{self.port}"
        for stale in (os.path.join(self.data, "postmaster.pid"), *self._paths(port, f"{port}.lock")):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(stale)

    def restart(self, *, immediately: bool = False) -> None:
        self.stop(immediately=immediately)
        self.start()

    def close(self) -> None:
        """Stops it quickly and deletes its data."""
        self.stop(immediately=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def backends(self) -> list[int]:
        """The processes that the server started: one per connection, and its own."""
        psutil = import_module("psutil")  # comes with the server's programs

        assert self.pid is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]
        return []

    def log(self) -> str:
        with contextlib.suppress(FileNotFoundError), open(self._paths("log")[0], encoding="utf-8") as file:
            return file.read()
        return ""

    # -- talking to it ---

    def url(
        self, database: str = ROLE, user: str = ROLE, *, password: str | None = None, socket: bool | None = None
    ) -> str:
        """Its address: the network's if it listens there and `socket` is not set, else the socket's."""
        who = quote(user, safe="") + ("" if password is None else ":" + quote(password, safe=""))
        name = quote(database, safe="")
        if self.tcp and not socket:
            return f"postgresql://{who}@127.0.0.1:{self.port}/{name}"
        port = f"&port={self.port}" if self.port != _PORT else ""
        return f"postgresql://{who}@/{name}?host={quote(self.folder)}{port}"

    @property
    def socket(self) -> str:
        """The path of its socket."""
        return self._paths(f".s.PGSQL.{self.port}")[0]

    def connect(self, database: str = ROLE, user: str = ROLE) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection of the caller's own, outside any transaction."""
        return psycopg.connect(self.url(database, user, socket=True), autocommit=True)

    def sql(
        self, text: LiteralString | sql.Composed, *values: object, database: str = ROLE, user: str = ROLE
    ) -> list[tuple[Any, ...]]:
        """Runs it, each statement by itself; returns the rows, if there are any."""
        with self.connect(database, user) as connection:
            done = connection.execute(text, values or None)
            return done.fetchall() if done.description else []

    def database(self, name: str, *, like: str | None = None, owner: str | None = None) -> str:
        """Creates a database, as a copy of another if given; returns its address."""
        text = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if like is not None:
            text += sql.SQL(" TEMPLATE {}").format(sql.Identifier(like))
        if owner is not None:
            text += sql.SQL(" OWNER {}").format(sql.Identifier(owner))
        self.sql(text)
        return self.url(name)

    def drop(self, name: str) -> None:
        """Drop a database, whoever is still connected."""
        self.sql(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def role(self, name: str, *, password: str | None = None) -> str:
        """Creates an ordinary user who can log in."""
        ordinary = sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE")
        text = ordinary.format(sql.Identifier(name))
        if password is not None:
            text += sql.SQL(" PASSWORD {}").format(sql.Literal(password))
        self.sql(text)
        return name

    # -- standby ---

    def standby(self) -> Server:
        """A second server that follows this one and can be read but not written; always fast."""
        copy = Server(tcp=self.tcp, version=self.version, settings=self._given)
        try:
            programs.run(
                "pg_basebackup", "-D", copy.data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
                "-d", f"host={self.folder} port={self.port} user={ROLE}", version=self.version,
            )  # fmt: skip
            return copy.start()
        except BaseException:
            copy.close()
            raise

    def follows(self, primary: Server) -> bool:
        """Waits until this standby shows what is committed at the other; returns whether it does."""
        ((place,),) = primary.sql("SELECT pg_current_wal_insert_lsn()::text")
        return _soon(lambda: self.sql("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", place) == [(True,)])

    # -- inside ---

    def _paths(self, *names: str) -> list[str]:
        return [os.path.join(self.folder, name) for name in names]

    def _status(self) -> str:
        """The server's own status: the last line of the file that also tells others that it runs."""
        with contextlib.suppress(FileNotFoundError), open(f"{self.data}/postmaster.pid", encoding="utf-8") as file:
            lines = file.read().splitlines()
            if lines and lines[0].strip() == str(self.pid):
                return lines[7].strip() if len(lines) > 7 else ""
        return ""

    def _admission(self) -> None:
        way = "scram-sha-256" if self.passwords else "trust"
        lines = ("local all all trust", "local replication all trust", f"host all all 127.0.0.1/32 {way}")
        with open(f"{self.data}/pg_hba.conf", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def _ended(self) -> None:
        attendant, self._attendant, self.pid = self._attendant, None, None
        if attendant is None:
            return
        assert attendant.stdin is not None
        assert attendant.stdout is not None
        attendant.wait(_PATIENCE)
        attendant.stdin.close()
        attendant.stdout.close()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _soon(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.005)
    return False
