"""A PostgreSQL server of this test run, for pages about a team that call it db.example.org."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMED = "db.example.org"
_REAL = "127.0.0.1"


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All test processes of a run copy the same new data directory: the first one that needs it creates it."""
    if os.name == "posix":
        from tests.support.postgres import programs

        base = tmp_path_factory.getbasetemp()
        programs.share(str(base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base))


@contextmanager
def page_server(*, wanted: bool) -> Iterator[dict[str, str]]:
    """The environment of the page's shell: the port, and the path of PostgreSQL's own programs."""
    if not wanted:
        yield {}
        return
    from tests.support.postgres import programs
    from tests.support.postgres.server import Server

    with Server(tcp=True) as server:
        folder = os.path.dirname(programs.program("psql"))
        yield {"PGPORT": str(server.port), "PATH": f"{os.environ['PATH']}{os.pathsep}{folder}"}


def in_command(source: str) -> str:
    return source.replace(NAMED, _REAL)


def in_answer(printed: str) -> str:
    return printed.replace(_REAL, NAMED)
