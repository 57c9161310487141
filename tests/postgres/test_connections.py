"""Connections fail at any moment: what is acknowledged is stored once, what failed is not; and stores share
connections.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from holdfast.core.errors import Busy, Interrupted, Unreachable
from holdfast.core.events import NoteAdded
from holdfast.store.conformance import assert_sound
from holdfast.store.interface import Draft
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres import connections as postgres_connections
from holdfast.store.postgres import transaction as postgres_transaction
from holdfast.store.postgres.connections import PostgresPool
from tests.postgres.failing_proxy import ANSWERED, SENT, FailingProxy, committing
from tests.postgres.team import NOW, Outcome, Task, Team, assert_nothing_lost, note, run_task
from tests.support import processes
from tests.support.postgres.server import Server
from tests.support.scale import scale

# ── lost connections ─────────────────────────────────────────────────────────────────────────────────────


class Environment:
    """A store with a session, behind a connection that can be cut."""

    def __init__(self, server: Server, database: str, line: FailingProxy) -> None:
        self.server, self.line = server, line
        self.team = Team(server, database, line=line)
        (self.session,) = self.team.begin(["one"])

    def notes(self) -> list[str]:
        """The notes, read over an undisturbed connection."""
        with closing(self.team.store("judge", through=self.server)) as store:
            assert_sound(store)
            state = store.state(self.session)
            assert state is not None
            return [item.text for item in state.notes]


@pytest.fixture
def env(postgres: Server, database: str) -> Iterator[Environment]:
    with FailingProxy(postgres) as line:
        yield Environment(postgres, database, line)


@pytest.fixture
def store(env: Environment) -> Iterator[PostgresStore]:
    with closing(env.team.store()) as store:
        note(store, env.session, "first")
        yield store


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter timeouts."""
    monkeypatch.setattr(postgres_connections, "SILENCE_TIMEOUT", 0.3)
    monkeypatch.setattr(postgres_transaction, "PATIENCE", 0.5)
    monkeypatch.setattr(postgres_transaction, "GRACE_MS", 200)


def test_commit_that_did_not_arrive_fails(env: Environment, store: PostgresStore) -> None:
    """It can be repeated, and is recorded once."""
    env.line.cut_when(committing, after=False)
    with pytest.raises(Unreachable, match="nothing was recorded"):
        note(store, env.session, "second")
    assert env.notes() == ["first"]
    note(store, env.session, "second")
    assert env.notes() == ["first", "second"]


@pytest.mark.parametrize("which", ["sent", "answered"])
def test_commit_whose_answer_is_lost_succeeds(env: Environment, store: PostgresStore, which: str) -> None:
    """The store looks it up; later events continue from it."""
    if which == "sent":
        env.line.cut_when(committing)
    else:
        env.line.cut_when(lambda direction, data: direction == ANSWERED and b"COMMIT" in data, after=False)
    note(store, env.session, "second")
    assert env.line.triggered.is_set()
    note(store, env.session, "third")
    assert env.notes() == ["first", "second", "third"]


def test_lost_commit_of_local_state_may_have_been_saved(env: Environment, store: PostgresStore) -> None:
    """Without an event it cannot be looked up: the error says so, and repeating it does no harm."""
    env.line.cut_when(committing)
    with pytest.raises(Unreachable, match="whether it was saved is not known"), store.transaction() as transaction:
        transaction.remember("x", b"1")
    with store.transaction() as transaction:
        transaction.remember("x", b"1")
    assert store.remembered("x") == b"1"


def test_lost_commit_is_looked_up_until_the_server_is_back(env: Environment, store: PostgresStore) -> None:

    def commit_then_refuse(direction: str, data: bytes) -> bool:
        env.line._refusing = committing(direction, data)
        return env.line._refusing

    env.line.cut_when(commit_then_refuse)
    timer = threading.Timer(0.4, env.line.accept)
    timer.start()
    note(store, env.session, "second")
    timer.join()
    assert env.notes() == ["first", "second"]


@pytest.mark.usefixtures("short_timeouts")
def test_lost_commit_is_reported_as_unknown_after_a_timeout(env: Environment, store: PostgresStore) -> None:
    """With a hint what to do."""

    def commit_then_refuse(direction: str, data: bytes) -> bool:
        env.line._refusing = committing(direction, data)
        return env.line._refusing

    env.line.cut_when(commit_then_refuse)
    with pytest.raises(Unreachable, match="not known") as caught:
        note(store, env.session, "second")
    assert "check first" in str(caught.value.hint)
    env.line.accept()
    note(store, env.session, "third")
    assert env.notes() == ["first", "second", "third"]


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("after", [False, True])
def test_commit_on_a_silent_connection_is_resolved_over_another(
    env: Environment, store: PostgresStore, after: bool
) -> None:
    """The server still holds the transaction and its locks: it is ended over another connection, and its result
    looked up.
    """
    env.line.freeze_when(committing, after=after)
    pool = store.pool._pool
    assert isinstance(pool.kwargs, dict)
    pool.kwargs = {**pool.kwargs, "host": env.server.folder}
    if after:
        note(store, env.session, "second")
    else:
        with pytest.raises(Unreachable, match="nothing was recorded"):
            note(store, env.session, "second")
    env.line.thaw()
    note(store, env.session, "third")
    assert env.notes() == ["first", *["second"] * after, "third"]


@pytest.mark.usefixtures("short_timeouts")
def test_silent_server_is_reported_as_unreachable(env: Environment, store: PostgresStore) -> None:
    """For reads and writes; afterwards the store works again."""
    pool = store.pool._pool
    assert isinstance(pool.kwargs, dict)
    pool.kwargs = {**pool.kwargs, "connect_timeout": "2"}
    env.line.freeze()
    with pytest.raises(Unreachable):
        store.state(env.session)
    with pytest.raises(Unreachable):
        note(store, env.session, "second")
    env.line.thaw()
    note(store, env.session, "third")
    assert env.notes() == ["first", "third"]


def test_pool_replaces_dead_connections_silently(env: Environment) -> None:
    """Every connection of the pool is cut while idle."""
    with ExitStack() as stack, ThreadPoolExecutor(6) as pool:
        stores = [stack.enter_context(closing(env.team.store(f"m{number}"))) for number in range(6)]
        barrier = threading.Barrier(6)

        def hold(store: PostgresStore) -> None:
            with store.transaction():
                barrier.wait(30)

        for _ in range(2):
            list(pool.map(hold, stores))
            assert env.line.connections >= 6
            env.line.cut()
            for number, store in enumerate(stores):
                assert store.state(env.session) is not None
                note(store, env.session, f"m{number}")
    assert sorted(env.notes()) == sorted([f"m{number}" for number in range(6)] * 2)


def test_note_is_recorded_once_if_acknowledged_when_any_message_is_cut(env: Environment) -> None:
    """Before or after the message arrives; otherwise it is not recorded."""
    expected: list[str] = []
    step = scale(3, 1, 1)
    for direction, after in itertools.product((SENT, ANSWERED), (False, True)):
        for number in itertools.count(step - 1, step):
            with closing(env.team.store("laptop")) as store:
                countdown = itertools.count()

                def due(where: str, _: bytes) -> bool:
                    return where == direction and next(countdown) == number  # noqa: B023 (used up in this round)

                env.line.cut_when(due, after=after)
                text = f"{direction} {after} {number}"
                message = ""
                try:
                    note(store, env.session, text)
                    expected.append(text)
                except Unreachable as error:
                    message = error.message
                assert "not known" not in message
                happened = env.line.triggered.is_set()
                env.line.clear_trigger()
                state = store.state(env.session)
                assert state is not None
                assert [item.text for item in state.notes] == expected
            if not happened:
                break
    assert env.notes() == expected


def test_idle_transaction_of_a_stopped_machine_is_ended_by_the_server(env: Environment, store: PostgresStore) -> None:
    """Waiting machines continue, and the stopped one gets an error."""
    with closing(env.team.store("other")) as other:

        def sleep() -> None:
            with store.transaction() as transaction:
                transaction.record(env.session, Draft(NoteAdded(text="asleep"), NOW, "anna"))
                assert store.active is not None
                store.active.query("SELECT set_config('idle_in_transaction_session_timeout', '100', false)")
                note(other, env.session, "awake")

        with pytest.raises((Busy, Unreachable)):
            sleep()
        assert env.notes() == ["first", "awake"]
        note(store, env.session, "again")
        assert env.notes() == ["first", "awake", "again"]


# ── the pool ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


def connections(team: Team) -> int:
    ((count,),) = team.server.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", team.person)
    return int(count)


def all_disconnected(team: Team) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if not connections(team):
            return True
        time.sleep(0.01)
    return False


def test_stores_of_one_process_share_connections(team: Team) -> None:
    """Fifty stores, used one after another, need one; closed, they leave none."""
    (session,) = team.begin(["one"])
    before = dict(PostgresPool.open)
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(team.store(f"m{number}"))) for number in range(50)]
        for number, store in enumerate(stores):
            note(store, session, f"m {number}")
        assert connections(team) <= 2
    assert all_disconnected(team)
    assert PostgresPool.open == before


def test_transaction_larger_than_network_buffers_is_recorded(team: Team) -> None:
    """Several megabytes are sent before anything is read: neither side blocks."""
    (session,) = team.begin(["one"])
    with closing(team.store()) as store:
        with store.transaction() as transaction:
            for number in range(40):
                transaction.record(session, Draft(NoteAdded(text=f"{number} {'x' * 100_000}"), NOW, "anna"))
        assert len(list(store.events(session))) == 41


def test_threads_wait_when_no_connection_is_free(team: Team) -> None:
    """Twenty at once, with a store each."""
    sessions = team.begin([str(number) for number in range(20)])
    outcomes: list[Outcome] = []
    guard = threading.Lock()

    def report(outcome: Outcome) -> None:
        with guard:
            outcomes.append(outcome)

    threads = [
        threading.Thread(target=run_task, args=(Task(team.url(), [f"m{number}"], [session], 4), report))
        for number, session in enumerate(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(team.store("judge")) as store:
        assert assert_nothing_lost(store, sessions, outcomes) == 80
    assert all_disconnected(team)


def test_store_closed_twice_leaves_others_open(team: Team) -> None:
    """Closing is counted once per store."""
    (session,) = team.begin(["one"])
    with closing(team.store("a")) as one:
        other = team.store("b")
        other.close()
        other.close()
        note(one, session, "n 1")
    assert all_disconnected(team)


def test_failed_transactions_return_their_connections(team: Team) -> None:
    """More failures than connections: inside a transaction, on the server, and in reads."""
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
def test_process_ends_without_output_or_open_connections(team: Team, program: str, notes: int) -> None:
    """Forked while a store was open, or ended without closing it; every note is there."""
    (session,) = team.begin(["one"])
    done = subprocess.run(
        # Python warns about forks with threads: the connection pool has two.
        [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning",
         "-W", "ignore::ImportWarning", "-c", textwrap.dedent(BEGIN + program), team.url(), session],
        env=processes.environ_with_tests(),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert all_disconnected(team)
    with closing(team.store("judge")) as store:
        state = store.state(session)
        assert state is not None
        assert {item.text for item in state.notes} == {f"n {number}" for number in range(1, notes + 1)}
        assert len(state.notes) == notes
        assert_sound(store)
