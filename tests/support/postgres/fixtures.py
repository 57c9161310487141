"""Fixtures for the tests of the PostgreSQL store: a server per test process, and databases in it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import admin
from tests.postgres.failing_proxy import FailingProxy
from tests.support.postgres import programs
from tests.support.postgres.server import Server
from tests.support.postgres.server import postgres as server_of_this_process


@pytest.fixture(scope="session", autouse=True)
def made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All test processes of a run copy the same new data, which the first one creates."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    programs.share(str(shared))


@pytest.fixture(scope="session")
def postgres(made_once: None) -> Server:
    """The server of this test process: fast, on a socket, never stopped or killed by a test."""
    return server_of_this_process()


@pytest.fixture(scope="module")
def database(postgres: Server) -> Iterator[str]:
    """The address of a new database with Holdfast's tables, for a module; each test makes its own vault in it."""
    name = f"holdfast_{secrets.token_hex(6)}"
    yield prepared(postgres, name)
    postgres.drop(name)


@pytest.fixture
def line(postgres: Server) -> Iterator[FailingProxy]:
    """A connection to the server that can be cut."""
    with FailingProxy(postgres) as line:
        yield line


def prepared(server: Server, name: str) -> str:
    """Creates a database with Holdfast's tables; returns its address as the server's own user."""
    url = server.database(name)
    admin.init(PostgresAddress(url))
    return url
