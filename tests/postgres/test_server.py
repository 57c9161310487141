"""The PostgreSQL servers and the proxy that tests use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import psycopg
import pytest

from tests.postgres.failing_proxy import FailingProxy, committing
from tests.support import processes
from tests.support.postgres.server import Server


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    """A server that may be killed."""
    with Server(durable=True, passwords=True) as server:
        yield server


def _has_ended(pid: int) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_server_keeps_committed_data_after_a_kill_and_a_restart(durable: Server) -> None:
    durable.sql("CREATE TABLE kept AS SELECT 1 AS n")
    with durable.connect() as connection:
        durable.kill()
        assert not durable.running
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        durable.sql("SELECT 1")
    durable.start()
    assert durable.sql("SELECT n FROM kept") == [(1,)]
    durable.restart()
    assert durable.sql("SELECT n FROM kept") == [(1,)]


def test_server_requires_a_password_on_the_network(durable: Server) -> None:
    """And an ordinary role has no special rights."""
    durable.role("Ann o'Hara", password="a/b@c")
    with psycopg.connect(durable.url(user="Ann o'Hara", password="a/b@c")) as connection:
        (row,) = connection.execute("SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = user")
    assert row == ("Ann o'Hara", False, False)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(durable.url(user="Ann o'Hara", password="wrong"))


def test_standby_follows_and_is_read_only(durable: Server) -> None:
    with durable.standby() as standby:
        durable.sql("CREATE TABLE followed AS SELECT 2 AS n")
        assert standby.follows(durable)
        assert standby.sql("SELECT n FROM followed") == [(2,)]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.sql("DROP TABLE followed")
    assert not os.path.exists(standby.folder)


def test_server_ends_with_the_process_that_started_it(durable: Server) -> None:
    """Even if that is killed; its data is removed too."""
    program = (
        "import sys; from tests.support.postgres.server import Server; "
        "server = Server().start(); print(server.pid, server.folder, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=processes.environ_with_tests(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid, folder = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
    assert _has_ended(int(pid))
    until = time.monotonic() + 30
    while os.path.exists(folder) and time.monotonic() < until:
        time.sleep(0.01)
    assert not os.path.exists(folder)


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_proxy_cuts_a_connection_at_the_commit(durable: Server, tcp: bool, after: bool) -> None:
    """Cut after it was sent, the commit happens without an answer; cut before, it does not happen."""
    table = f"cut_{int(tcp)}_{int(after)}"
    durable.sql(psycopg.sql.SQL("CREATE TABLE {} (n int)").format(psycopg.sql.Identifier(table)))
    with FailingProxy(durable, tcp=tcp) as line, psycopg.connect(line.url()) as connection:
        backend = connection.info.backend_pid
        connection.execute(psycopg.sql.SQL("INSERT INTO {} VALUES (1)").format(psycopg.sql.Identifier(table)))
        line.cut_when(committing, after=after)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert line.triggered.wait(30)
    assert _has_ended(backend)
    count = psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(table))
    assert durable.sql(count) == [(int(after),)]


def test_proxy_freezes_and_refuses_connections(durable: Server) -> None:
    """Frozen, nothing arrives until it thaws; refused, no connection is made; afterwards both work."""
    with (
        FailingProxy(durable) as line,
        psycopg.connect(line.url(), autocommit=True) as connection,
        ThreadPoolExecutor(1) as reader,
    ):
        line.freeze()
        later = reader.submit(connection.execute, "SELECT 'later'")
        wait([later], timeout=0.1)
        assert not later.done()
        line.thaw()
        assert later.result(30).fetchone() == ("later",)
        line.refuse()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(line.url())
        line.accept()
        with psycopg.connect(line.url()) as again:
            assert again.execute("SELECT 1").fetchone() == (1,)
