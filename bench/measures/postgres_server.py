"""Runs the server of these measures, set up as in production: everything committed is on disk.

The tests' own way to start one; with segments of the usual size, and a sixth of this machine's memory as its cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import PostgresStore, admin

MAX_CONNECTIONS = 240  # connections
Line = psycopg.Connection[tuple[Any, ...]]


def settings() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return {
        "max_connections": str(MAX_CONNECTIONS),
        "shared_buffers": f"{memory // 6}MB",
        "effective_cache_size": f"{memory // 2}MB",
        "maintenance_work_mem": f"{memory // 24}MB",
        "max_wal_size": "16GB",
        "min_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
    }


class BenchServer:
    """A running server, and addresses of databases and people there."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def database(self, name: str, *people: str, partitions: int = 1) -> None:
        """A database with Holdfast's tables, in which these people are admitted."""
        self.server.database(name)
        for person in people:
            if not self.server.sql("SELECT 1 FROM pg_roles WHERE rolname = %s", person):
                self.server.role(person)
        admin.init(self.address(name), admit=people, partitions=partitions)

    def url(self, database: str, person: str = "postgres") -> str:
        return str(self.server.url(database, person))

    def address(self, database: str, person: str = "postgres") -> PostgresAddress:
        return PostgresAddress(self.url(database, person))

    def connect(self, database: str, person: str = "postgres") -> Line:
        connection: Line = self.server.connect(database, person)
        return connection

    def vault(self, database: str) -> int:
        return int(self.ask(database, "SELECT ref FROM holdfast.vaults ORDER BY ref LIMIT 1")[0][0])

    def ask(self, database: str, sql: str) -> list[tuple[Any, ...]]:
        return list(self.server.sql(sql, database=database))

    def drop(self, database: str) -> None:
        self.server.drop(database)


@contextmanager
def running_server() -> Iterator[BenchServer]:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.support.postgres import programs
    from tests.support.postgres.server import Server

    server = Server(durable=True, settings=settings())
    programs.run("initdb", "-D", server.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale",
                 "--no-instructions", "--wal-segsize=16")  # fmt: skip
    with server:
        yield BenchServer(server)


def open_store(address: PostgresAddress, installation: str, wall: Callable[[], int]) -> PostgresStore:
    """A store as an installation `here` uses it; each is a writer of its own."""
    return PostgresStore(
        address, writer=lambda: f"bench-{installation}", wall=wall, installation=lambda _: installation
    )
