"""Stores share the lines to their server: few are enough for many, none is left behind, and processes end quietly."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack, closing

import pytest

from holdfast.core.errors import Interrupted
from holdfast.core.events import NoteAdded
from holdfast.store.conformance import assert_sound
from holdfast.store.interface import Draft
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.connections import PostgresPool
from tests.postgres.team import NOW, Said, Task, Team, judge, note, work
from tests.support import processes
from tests.support.postgres.server import Server


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


def connections(team: Team) -> int:
    ((count,),) = team.server.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", team.person)
    return int(count)


def all_gone(team: Team) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if not connections(team):
            return True
        time.sleep(0.01)
    return False


def test_many_stores_need_few_lines(team: Team) -> None:
    """Fifty stores in one process, used one after another: one line; closed, none is left."""
    (session,) = team.begin(["one"])
    before = dict(PostgresPool.open)
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(team.store(f"m{number}"))) for number in range(50)]
        for number, store in enumerate(stores):
            note(store, session, f"m {number}")
        assert connections(team) <= 2
    assert all_gone(team)
    assert PostgresPool.open == before


def test_a_transaction_with_more_than_the_network_takes_at_once_is_recorded(team: Team) -> None:
    """Several megabytes are told before anything is asked: none of it waits to be sent for ever."""
    (session,) = team.begin(["one"])
    with closing(team.store()) as store:
        with store.transaction() as transaction:
            for number in range(40):
                transaction.record(session, Draft(NoteAdded(text=f"{number} {'x' * 100_000}"), NOW, "anna"))
        assert len(list(store.events(session))) == 41


def test_more_threads_than_lines(team: Team) -> None:
    """Twenty at once, with a store each: who finds no line waits for one."""
    sessions = team.begin([str(number) for number in range(20)])
    said: list[Said] = []
    guard = threading.Lock()

    def tell(one: Said) -> None:
        with guard:
            said.append(one)

    threads = [
        threading.Thread(target=work, args=(Task(team.url(), [f"m{number}"], [session], 4), tell))
        for number, session in enumerate(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(team.store("judge")) as store:
        assert judge(store, sessions, said) == 80
    assert all_gone(team)


def test_a_store_closed_twice_leaves_the_others_alone(team: Team) -> None:
    """Closing is counted once for each store."""
    (session,) = team.begin(["one"])
    with closing(team.store("a")) as one:
        other = team.store("b")
        other.close()
        other.close()
        note(one, session, "n 1")
    assert all_gone(team)


def test_failures_use_up_no_lines(team: Team) -> None:
    """More transactions fail than there are lines: inside, by the server's word, and in reading."""
    (session,) = team.begin(["one"])

    def interrupted(store: PostgresStore) -> None:
        with store.transaction() as transaction:
            transaction.record(session, Draft(NoteAdded(text="x"), NOW, "anna"))
            raise Interrupted("enough")

    with closing(team.store()) as store:
        for _ in range(20):
            with pytest.raises(Interrupted):
                interrupted(store)
            with pytest.raises(ZeroDivisionError), store.transaction():
                raise ZeroDivisionError
            with pytest.raises(ZeroDivisionError):
                store.read(lambda: 1 // 0)
        note(store, session, "n 1")
        assert connections(team) <= 2
        assert len(list(store.events(session))) == 2


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────

BEGIN = """
import os, sys, threading
from tests.postgres.team import note, opened
store, session = opened(sys.argv[1], "laptop"), sys.argv[2]
note(store, session, "n 1")
"""
FORKED = """
child = os.fork()
own = range(2, 8) if child else range(8, 13)
for number in own:
    note(store, session, f"n {number}")
if not child:
    other = opened(sys.argv[1], "desktop")
    note(other, session, "n 13")
    other.close()
store.close()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
FORGOTTEN = """
note(opened(sys.argv[1], "desktop"), session, "n 2")
"""
IN_THE_MIDDLE = """
transaction = store.transaction()
transaction.__enter__()
transaction.state(session)
sys.exit(0)
"""


@pytest.mark.parametrize(
    ("program", "notes"), [(FORKED, 13), (FORGOTTEN, 2), (IN_THE_MIDDLE, 1)], ids=["forked", "forgotten", "midway"]
)
def test_a_process_ends_quietly(team: Team, program: str, notes: int) -> None:
    """Forked while a store was open, or ended without closing it: no word, no line left, every note there."""
    (session,) = team.begin(["one"])
    done = subprocess.run(
        # Python warns of forks beside threads: the library that holds the lines has two.
        [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning",
         "-W", "ignore::ImportWarning", "-c", textwrap.dedent(BEGIN + program), team.url(), session],
        env=processes.environ_with_tests(),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert all_gone(team)
    with closing(team.store("judge")) as store:
        state = store.state(session)
        assert state is not None
        assert {item.text for item in state.notes} == {f"n {number}" for number in range(1, notes + 1)}
        assert len(state.notes) == notes
        assert_sound(store)
