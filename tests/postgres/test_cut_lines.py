"""The line to the server fails at any moment: what is acknowledged is there once, and what failed is not there."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from holdfast.core.errors import Busy, Unreachable
from holdfast.core.events import NoteAdded
from holdfast.store.conformance import assert_sound
from holdfast.store.interface import Draft
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres import connections as postgres_connections
from holdfast.store.postgres import transaction as postgres_transaction
from tests.postgres.failing_proxy import ANSWERED, SENT, Cutter, committing
from tests.postgres.team import NOW, Team, note
from tests.support.postgres.server import Server
from tests.support.scale import scale


class Ground:
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
def ground(postgres: Server, database: str) -> Iterator[Ground]:
    with Cutter(postgres) as line:
        yield Ground(postgres, database, line)


@pytest.fixture
def store(ground: Ground) -> Iterator[PostgresStore]:
    with closing(ground.team.store()) as store:
        note(store, ground.session, "first")
        yield store


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in life, only quicker."""
    monkeypatch.setattr(postgres_connections, "SILENCE_TIMEOUT", 0.3)
    monkeypatch.setattr(postgres_transaction, "PATIENCE", 0.5)
    monkeypatch.setattr(postgres_transaction, "GRACE_MS", 200)


def test_a_commit_that_did_not_arrive_is_no_success(ground: Ground, store: PostgresStore) -> None:
    """Whoever is told so can do it again, and it is there once."""
    ground.line.cut_when(committing, after=False)
    with pytest.raises(Unreachable, match="nothing was recorded"):
        note(store, ground.session, "second")
    assert ground.there() == ["first"]
    note(store, ground.session, "second")
    assert ground.there() == ["first", "second"]


@pytest.mark.parametrize("which", ["sent", "answered"])
def test_a_commit_whose_answer_is_lost_is_a_success(ground: Ground, store: PostgresStore, which: str) -> None:
    """The store looks for it by itself; what follows goes on from it."""
    if which == "sent":
        ground.line.cut_when(committing)
    else:
        ground.line.cut_when(lambda direction, data: direction == ANSWERED and b"COMMIT" in data, after=False)
    note(store, ground.session, "second")
    assert ground.line.happened.is_set()
    note(store, ground.session, "third")
    assert ground.there() == ["first", "second", "third"]


def test_what_was_kept_beside_the_log_may_be_there(ground: Ground, store: PostgresStore) -> None:
    """Without an event there is nothing to look for: that is said, and that doing it again does no harm."""
    ground.line.cut_when(committing)
    with pytest.raises(Unreachable, match="whether it was saved is not known"), store.transaction() as transaction:
        transaction.remember("x", b"1")
    with store.transaction() as transaction:
        transaction.remember("x", b"1")
    assert store.remembered("x") == b"1"


def test_the_server_is_away_for_a_while_after_the_cut(ground: Ground, store: PostgresStore) -> None:
    """The answer is looked for until it is back."""

    def and_then_away(direction: str, data: bytes) -> bool:
        ground.line._refusing = committing(direction, data)
        return ground.line._refusing

    ground.line.cut_when(and_then_away)
    back = threading.Timer(0.4, ground.line.accept)
    back.start()
    note(store, ground.session, "second")
    back.join()
    assert ground.there() == ["first", "second"]


@pytest.mark.usefixtures("hasty")
def test_the_server_does_not_come_back(ground: Ground, store: PostgresStore) -> None:
    """After a while it is said that nobody knows; and what to do."""

    def and_then_away(direction: str, data: bytes) -> bool:
        ground.line._refusing = committing(direction, data)
        return ground.line._refusing

    ground.line.cut_when(and_then_away)
    with pytest.raises(Unreachable, match="not known") as told:
        note(store, ground.session, "second")
    assert "look before you repeat it" in str(told.value.hint)
    ground.line.accept()
    note(store, ground.session, "third")
    assert ground.there() == ["first", "second", "third"]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("after", [False, True])
def test_a_line_goes_silent_at_the_commit(ground: Ground, store: PostgresStore, after: bool) -> None:
    """The server still holds the transaction, and its locks. Over another line it is ended, and the answer found."""
    ground.line.freeze_when(committing, after=after)
    pool = store.pool._pool
    assert isinstance(pool.kwargs, dict)
    pool.kwargs = {**pool.kwargs, "host": ground.server.folder}
    if after:
        note(store, ground.session, "second")
    else:
        with pytest.raises(Unreachable, match="nothing was recorded"):
            note(store, ground.session, "second")
    ground.line.thaw()
    note(store, ground.session, "third")
    assert ground.there() == ["first", *["second"] * after, "third"]


@pytest.mark.usefixtures("hasty")
def test_everything_goes_silent(ground: Ground, store: PostgresStore) -> None:
    """Whoever reads or writes is told after a while, and is well again when the line is."""
    pool = store.pool._pool
    assert isinstance(pool.kwargs, dict)
    pool.kwargs = {**pool.kwargs, "connect_timeout": "2"}
    ground.line.freeze()
    with pytest.raises(Unreachable):
        store.state(ground.session)
    with pytest.raises(Unreachable):
        note(store, ground.session, "second")
    ground.line.thaw()
    note(store, ground.session, "third")
    assert ground.there() == ["first", "third"]


def test_lines_that_died_meanwhile_are_replaced(ground: Ground) -> None:
    """Every line of the pool is cut while nobody uses it: nobody notices."""
    with ExitStack() as stack, ThreadPoolExecutor(6) as pool:
        stores = [stack.enter_context(closing(ground.team.store(f"m{number}"))) for number in range(6)]
        together = threading.Barrier(6)

        def hold(store: PostgresStore) -> None:
            with store.transaction():
                together.wait(30)

        for _ in range(2):
            list(pool.map(hold, stores))
            assert ground.line.connections >= 6
            ground.line.cut()
            for number, store in enumerate(stores):
                assert store.state(ground.session) is not None
                note(store, ground.session, f"m{number}")
    assert sorted(ground.there()) == sorted([f"m{number}" for number in range(6)] * 2)


def test_a_line_cut_at_every_message(ground: Ground) -> None:
    """Whatever is cut, before it arrives or after: a note is there once if it was acknowledged, and else is not."""
    expected: list[str] = []
    step = scale(3, 1, 1)
    for direction, after in itertools.product((SENT, ANSWERED), (False, True)):
        for number in itertools.count(step - 1, step):
            with closing(ground.team.store("laptop")) as store:
                countdown = itertools.count()

                def due(where: str, _: bytes) -> bool:
                    return where == direction and next(countdown) == number  # noqa: B023 (used up in this round)

                ground.line.cut_when(due, after=after)
                text = f"{direction} {after} {number}"
                said = ""
                try:
                    note(store, ground.session, text)
                    expected.append(text)
                except Unreachable as error:
                    said = error.message
                assert "not known" not in said
                happened = ground.line.happened.is_set()
                ground.line.spare()
                state = store.state(ground.session)
                assert state is not None
                assert [item.text for item in state.notes] == expected
            if not happened:
                break
    assert ground.there() == expected


def test_a_machine_that_stopped_keeps_others_waiting_for_a_time(ground: Ground, store: PostgresStore) -> None:
    """Its transaction is ended by the server; whoever waited goes on, and it is told."""
    with closing(ground.team.store("other")) as other:

        def sleep() -> None:
            with store.transaction() as transaction:
                transaction.record(ground.session, Draft(NoteAdded(text="asleep"), NOW, "anna"))
                assert store.active is not None
                store.active.query("SELECT set_config('idle_in_transaction_session_timeout', '100', false)")
                note(other, ground.session, "awake")

        with pytest.raises((Busy, Unreachable)):
            sleep()
        assert ground.there() == ["first", "awake"]
        note(store, ground.session, "again")
        assert ground.there() == ["first", "awake", "again"]
