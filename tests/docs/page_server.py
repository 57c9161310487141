"""Pages about a team talk to a PostgreSQL server that they call db.example.org: here it is one of this run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMED = "db.example.org"
_REAL = "127.0.0.1"


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All test processes of a run copy the same new data: the first that needs it makes it."""
    if os.name == "posix":
        from tests.support.postgres import programs

        base = tmp_path_factory.getbasetemp()
        programs.share(str(base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base))


@contextmanager
def page_server(*, wanted: bool) -> Iterator[dict[str, str]]:
    """What the page's shell needs in its environment: the port, and the way to PostgreSQL's own programs."""
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
