"""The PostgreSQL servers that tests use, and the line to them that can be cut, do what is said of them."""

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

from tests.postgres.failing_proxy import Cutter, committing
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


def test_a_server_is_started_again_on_what_it_kept(durable: Server) -> None:
    """What was committed is there after every process of the server was killed, and after it was restarted."""
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


def test_passwords_are_asked_for_on_the_network(durable: Server) -> None:
    """An ordinary role gets in with its password only, and is nothing special."""
    durable.role("Ann o'Hara", password="a/b@c")
    with psycopg.connect(durable.url(user="Ann o'Hara", password="a/b@c")) as connection:
        (row,) = connection.execute("SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = user")
    assert row == ("Ann o'Hara", False, False)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(durable.url(user="Ann o'Hara", password="wrong"))


def test_a_standby_follows_and_cannot_be_written(durable: Server) -> None:
    """What is committed shows up at the standby, which refuses to change anything."""
    with durable.standby() as standby:
        durable.sql("CREATE TABLE followed AS SELECT 2 AS n")
        assert standby.follows(durable)
        assert standby.sql("SELECT n FROM followed") == [(2,)]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.sql("DROP TABLE followed")
    assert not os.path.exists(standby.folder)


def test_no_server_outlives_who_started_it(durable: Server) -> None:
    """A test process that is killed leaves neither a server nor its data."""
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
def test_a_commit_is_cut_off(durable: Server, tcp: bool, after: bool) -> None:
    """Cut after it was sent, the commit happens and nobody is told; cut before, it does not happen."""
    table = f"cut_{int(tcp)}_{int(after)}"
    durable.sql(psycopg.sql.SQL("CREATE TABLE {} (n int)").format(psycopg.sql.Identifier(table)))
    with Cutter(durable, tcp=tcp) as line, psycopg.connect(line.url()) as connection:
        backend = connection.info.backend_pid
        connection.execute(psycopg.sql.SQL("INSERT INTO {} VALUES (1)").format(psycopg.sql.Identifier(table)))
        line.cut_when(committing, after=after)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert line.happened.wait(30)
    assert _has_ended(backend)
    count = psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(table))
    assert durable.sql(count) == [(int(after),)]


def test_a_line_is_frozen_refused_and_well_again(durable: Server) -> None:
    """Frozen, nothing arrives until it thaws; refused, nobody gets in; then all is as before."""
    with (
        Cutter(durable) as line,
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
