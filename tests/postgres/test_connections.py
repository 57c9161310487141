"""Connections fail at any moment: what is acknowledged is stored once, what failed is not; and stores share them."""

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
from tests.postgres.failing_proxy import ANSWERED, SENT, Cutter, committing
from tests.postgres.team import NOW, Outcome, Task, Team, judge, note, work
from tests.support import processes
from tests.support.postgres.server import Server
from tests.support.scale import scale

# ── lost connections ─────────────────────────────────────────────────────────────────────────────────────


class Environment:
    """A store behind a line that can be cut, with a session in it."""

    def __init__(self, server: Server, database: str, line: Cutter) -> None:
        self.server, self.line = server, line
        self.team = Team(server, database, line=line)
        (self.session,) = self.team.begin(["one"])

    def there(self) -> list[str]:
        """The notes, as a machine sees them whose line is well."""
        with closing(self.team.store("judge", through=self.server)) as store:
            assert_sound(store)
            state = store.state(self.session)
            assert state is not None
            return [item.text for item in state.notes]


@pytest.fixture
def env(postgres: Server, database: str) -> Iterator[Environment]:
    with Cutter(postgres) as line:
        yield Environment(postgres, database, line)


@pytest.fixture
def store(env: Environment) -> Iterator[PostgresStore]:
    with closing(env.team.store()) as store:
        note(store, env.session, "first")
        yield store


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in life, only quicker."""
    monkeypatch.setattr(postgres_connections, "SILENCE_TIMEOUT", 0.3)
    monkeypatch.setattr(postgres_transaction, "PATIENCE", 0.5)
    monkeypatch.setattr(postgres_transaction, "GRACE_MS", 200)


def test_a_commit_that_did_not_arrive_is_no_success(env: Environment, store: PostgresStore) -> None:
    """Whoever is told so can do it again, and it is there once."""
    env.line.cut_when(committing, after=False)
    with pytest.raises(Unreachable, match="nothing was recorded"):
        note(store, env.session, "second")
    assert env.there() == ["first"]
    note(store, env.session, "second")
    assert env.there() == ["first", "second"]


@pytest.mark.parametrize("which", ["sent", "answered"])
def test_a_commit_whose_answer_is_lost_is_a_success(env: Environment, store: PostgresStore, which: str) -> None:
    """The store looks for it by itself; what follows goes on from it."""
    if which == "sent":
        env.line.cut_when(committing)
    else:
        env.line.cut_when(lambda direction, data: direction == ANSWERED and b"COMMIT" in data, after=False)
    note(store, env.session, "second")
    assert env.line.happened.is_set()
    note(store, env.session, "third")
    assert env.there() == ["first", "second", "third"]


def test_restored_local_state_may_be_there(env: Environment, store: PostgresStore) -> None:
    """Without an event there is nothing to look for: that is said, and that doing it again does no harm."""
    env.line.cut_when(committing)
    with pytest.raises(Unreachable, match="whether it was saved is not known"), store.transaction() as transaction:
        transaction.remember("x", b"1")
    with store.transaction() as transaction:
        transaction.remember("x", b"1")
    assert store.remembered("x") == b"1"


def test_the_server_is_away_for_a_while_after_the_cut(env: Environment, store: PostgresStore) -> None:
    """The answer is looked for until it is back."""

    def and_then_away(direction: str, data: bytes) -> bool:
        env.line._refusing = committing(direction, data)
        return env.line._refusing

    env.line.cut_when(and_then_away)
    back = threading.Timer(0.4, env.line.accept)
    back.start()
    note(store, env.session, "second")
    back.join()
    assert env.there() == ["first", "second"]


@pytest.mark.usefixtures("hasty")
def test_the_server_does_not_come_back(env: Environment, store: PostgresStore) -> None:
    """After a while it is said that nobody knows; and what to do."""

    def and_then_away(direction: str, data: bytes) -> bool:
        env.line._refusing = committing(direction, data)
        return env.line._refusing

    env.line.cut_when(and_then_away)
    with pytest.raises(Unreachable, match="not known") as caught:
        note(store, env.session, "second")
    assert "look before you repeat it" in str(caught.value.hint)
    env.line.accept()
    note(store, env.session, "third")
    assert env.there() == ["first", "second", "third"]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("after", [False, True])
def test_a_line_goes_silent_at_the_commit(env: Environment, store: PostgresStore, after: bool) -> None:
    """The server still holds the transaction, and its locks. Over another line it is ended, and the answer found."""
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
    assert env.there() == ["first", *["second"] * after, "third"]


@pytest.mark.usefixtures("hasty")
def test_everything_goes_silent(env: Environment, store: PostgresStore) -> None:
    """Whoever reads or writes is told after a while, and is well again when the line is."""
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
    assert env.there() == ["first", "third"]


def test_lines_that_died_meanwhile_are_replaced(env: Environment) -> None:
    """Every line of the pool is cut while nobody uses it: nobody notices."""
    with ExitStack() as stack, ThreadPoolExecutor(6) as pool:
        stores = [stack.enter_context(closing(env.team.store(f"m{number}"))) for number in range(6)]
        together = threading.Barrier(6)

        def hold(store: PostgresStore) -> None:
            with store.transaction():
                together.wait(30)

        for _ in range(2):
            list(pool.map(hold, stores))
            assert env.line.connections >= 6
            env.line.cut()
            for number, store in enumerate(stores):
                assert store.state(env.session) is not None
                note(store, env.session, f"m{number}")
    assert sorted(env.there()) == sorted([f"m{number}" for number in range(6)] * 2)


def test_a_line_cut_at_every_message(env: Environment) -> None:
    """Whatever is cut, before it arrives or after: a note is there once if it was acknowledged, and else is not."""
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
                happened = env.line.happened.is_set()
                env.line.spare()
                state = store.state(env.session)
                assert state is not None
                assert [item.text for item in state.notes] == expected
            if not happened:
                break
    assert env.there() == expected


def test_a_machine_that_stopped_keeps_others_waiting_for_a_time(env: Environment, store: PostgresStore) -> None:
    """Its transaction is ended by the server; whoever waited goes on, and it is told."""
    with closing(env.team.store("other")) as other:

        def sleep() -> None:
            with store.transaction() as transaction:
                transaction.record(env.session, Draft(NoteAdded(text="asleep"), NOW, "anna"))
                assert store.active is not None
                store.active.query("SELECT set_config('idle_in_transaction_session_timeout', '100', false)")
                note(other, env.session, "awake")

        with pytest.raises((Busy, Unreachable)):
            sleep()
        assert env.there() == ["first", "awake"]
        note(store, env.session, "again")
        assert env.there() == ["first", "awake", "again"]


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


def test_many_stores_need_few_lines(team: Team) -> None:
    """Fifty stores in one process, used one after another: one line; closed, none is left."""
    (session,) = team.begin(["one"])
    before = dict(PostgresPool.open)
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(team.store(f"m{number}"))) for number in range(50)]
        for number, store in enumerate(stores):
            note(store, session, f"m {number}")
        assert connections(team) <= 2
    assert all_disconnected(team)
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
    outcomes: list[Outcome] = []
    guard = threading.Lock()

    def tell(one: Outcome) -> None:
        with guard:
            outcomes.append(one)

    threads = [
        threading.Thread(target=work, args=(Task(team.url(), [f"m{number}"], [session], 4), tell))
        for number, session in enumerate(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(team.store("judge")) as store:
        assert judge(store, sessions, outcomes) == 80
    assert all_disconnected(team)


def test_a_store_closed_twice_leaves_the_others_alone(team: Team) -> None:
    """Closing is counted once for each store."""
    (session,) = team.begin(["one"])
    with closing(team.store("a")) as one:
        other = team.store("b")
        other.close()
        other.close()
        note(one, session, "n 1")
    assert all_disconnected(team)


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
    assert all_disconnected(team)
    with closing(team.store("judge")) as store:
        state = store.state(session)
        assert state is not None
        assert {item.text for item in state.notes} == {f"n {number}" for number in range(1, notes + 1)}
        assert len(state.notes) == notes
        assert_sound(store)
