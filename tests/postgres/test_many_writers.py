"""Many machines write to one store concurrently: nothing is lost, doubled or out of order, and readers see every
event.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Busy, Conflict, HoldfastError, Interrupted, Refused
from holdfast.core.events import NoteAdded
from holdfast.keeper.session import SessionHandle
from holdfast.store.conformance import assert_sound
from holdfast.store.interface import Draft
from holdfast.store.postgres import PostgresStore
from tests.postgres.team import NOW, Outcome, Process, Task, Team, assert_nothing_lost, note, run_task
from tests.support.postgres.server import Server
from tests.support.scale import scale


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


class Reader:
    """Reads new events in small portions whenever the store's version changes, as `watch` does."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.place, self.version = 0, -1
        self.seen: list[str] = []
        self.stop = threading.Event()

    def read_new(self) -> None:
        version = self.store.version()
        if version == self.version:
            return
        self.version = version
        while portion := self.store.arrived(self.place, 3):
            assert [arrival.place for arrival in portion] == sorted({arrival.place for arrival in portion})
            assert portion[0].place > self.place
            self.seen += [arrival.event.hash for arrival in portion]
            self.place = portion[-1].place

    def run(self) -> None:
        while not self.stop.is_set():
            self.read_new()
            time.sleep(0.002)
        self.read_new()


def run_with_reader(team: Team, sessions: list[str], run_machines: Callable[[], list[Outcome]]) -> int:
    """A reader that reads all the time sees every event exactly once."""
    with closing(team.store("reader")) as store, closing(team.store("judge")) as judging:
        reader = Reader(store)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(reader.run)
            try:
                outcomes = run_machines()
            finally:
                reader.stop.set()
            reading.result(60)
        count = assert_nothing_lost(judging, sessions, outcomes)
        hashes = [event.hash for session in sessions for event in judging.events(session)]
        assert sorted(reader.seen) == sorted(hashes)
    return count


def test_processes_write_to_one_session_concurrently(team: Team) -> None:
    """Eight machines in four processes: every note once, every stream without a gap."""
    sessions = team.begin(["one"])
    notes, processes = scale(12, 400, 4_000), scale(4, 8, 16)

    def run_machines() -> list[Outcome]:
        tasks = [Task(team.url(), [f"m{n}", f"n{n}"], sessions, notes) for n in range(processes)]
        running = [Process(task) for task in tasks]
        return [outcome for process in running for outcome in process.outcomes()]

    assert run_with_reader(team, sessions, run_machines) == 2 * processes * notes


def test_machines_write_to_sessions_in_opposite_order_without_deadlock(team: Team) -> None:
    """Each transaction writes to one session only."""
    sessions = team.begin(["one", "two", "three"])
    notes = scale(9, 300, 3_000)
    outcomes: list[Outcome] = []

    def run_machines() -> list[Outcome]:
        run_task(Task(team.url(), [f"m{n}" for n in range(8)], sessions, notes), outcomes.append)
        return outcomes

    assert run_with_reader(team, sessions, run_machines) == 8 * notes


@pytest.mark.parametrize("commits", [True, False])
def test_reader_sees_an_event_whose_place_was_assigned_before_a_later_commit(team: Team, commits: bool) -> None:
    """A reader in between gets neither the later event alone, nor the same version afterwards."""
    one, two = team.begin(["one", "two"])
    with closing(team.store("a")) as slow, closing(team.store("b")) as quick, closing(team.store("c")) as looking:
        reader = Reader(looking)
        reader.read_new()
        before = len(reader.seen)
        seen, version = [""], 0
        with contextlib.suppress(Interrupted), slow.transaction() as transaction:
            transaction.record(one, Draft(NoteAdded(text="early"), NOW, "anna"))
            slow.tables.horizon()  # it has arrived, and has its place
            note(quick, two, "late")
            reader.read_new()
            seen, version = reader.seen[before:], looking.version()
            if not commits:
                raise Interrupted("it was not to be")
        assert seen == []
        assert looking.version() != version
        reader.read_new()
        hashes = [event.hash for session in (one, two) for event in looking.events(session)]
        assert sorted(reader.seen) == sorted(hashes)


def test_deadlock_ends_with_busy_for_one_transaction(team: Team) -> None:
    """Nothing of it is recorded; the other one commits."""
    one, two = team.begin(["one", "two"])
    barrier = threading.Barrier(2)

    def go(name: str, first: str, second: str) -> bool:
        with closing(team.store(name)) as store:
            try:
                with store.transaction() as transaction:
                    transaction.record(first, Draft(NoteAdded(text=f"{name} 1"), NOW, "anna"))
                    barrier.wait(30)
                    transaction.record(second, Draft(NoteAdded(text=f"{name} 2"), NOW, "anna"))
            except Busy:
                return False
            return True

    with ThreadPoolExecutor(2) as pool:
        done = {name: pool.submit(go, name, *order) for name, order in {"a": (one, two), "b": (two, one)}.items()}
        results = {name: future.result(60) for name, future in done.items()}
    assert sorted(results.values()) == [False, True]
    winner = next(name for name, done in results.items() if done)
    with closing(team.store()) as store:
        assert_sound(store)
        states = [store.state(session) for session in (one, two)]
        assert sorted(note.text for state in states if state for note in state.notes) == [
            f"{winner} 1",
            f"{winner} 2",
        ]


def test_patience_limits_the_wait_for_a_session(team: Team) -> None:
    """A hook gets an error in time."""
    (one,) = team.begin(["one"])
    with closing(team.store("a")) as slow, closing(team.store("b")) as hasty, slow.transaction() as blocking:
        blocking.state(one)
        with pytest.raises(Busy), hasty.transaction(patience=0.05) as transaction:
            transaction.state(one)


def test_transaction_can_lock_thousands_of_sessions(team: Team) -> None:
    """The server has some thousands of locks for all clients: no transaction takes that many."""
    with closing(team.store()) as store, store.transaction():
        store.tables.lock(f"session {number}" for number in range(12_000))
        store.tables.horizon()


def test_transaction_with_a_caught_error_fails(team: Team) -> None:
    (one,) = team.begin(["one"])

    def swallow(store: PostgresStore) -> None:
        with store.transaction() as transaction:
            transaction.record(one, Draft(NoteAdded(text="lost"), NOW, "anna"))
            with pytest.raises(HoldfastError):
                store.run_query(lambda pipeline: pipeline.query("SELECT 1 / 0"))

    with closing(team.store()) as store:
        with pytest.raises(HoldfastError):
            swallow(store)
        state = store.state(one)
        assert state is not None
        assert state.notes == []
        note(store, one, "kept")


# ── through the keeper ───────────────────────────────────────────────────────────────────────────────────


class TwoMachines:
    """Two machines with a home each, for one project of one team."""

    def __init__(self, team: Team, root: Path) -> None:
        self.keepers = []
        for name in ("laptop", "desktop"):
            (root / name).mkdir()
            self.keepers.append(
                Keeper.open(str(root / name), home=str(root / f"{name} home"), store=team.url(), actor=name)
            )

    def run_on_both(self, session: str, verb: Callable[[SessionHandle], object]) -> list[object]:
        barrier = threading.Barrier(2)

        def go(keeper: Keeper) -> object:
            kept = keeper.session(session)
            kept.document()  # both have read the state
            barrier.wait(30)
            try:
                verb(kept)
            except HoldfastError as error:
                return type(error)
            return None

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(go, self.keepers))


def test_same_verb_on_two_machines_happens_once(team: Team, tmp_path: Path) -> None:
    """The other machine is refused, as on one machine."""
    machines = TwoMachines(team, tmp_path)
    laptop, desktop = machines.keepers
    with laptop, desktop:
        session = laptop.start("Build the shop").id
        for verb, refusal in (
            (lambda kept: kept.pause("lunch"), Refused),
            (lambda kept: kept.resume(), None),
            (lambda kept: kept.add_task("paint", task_id="t1"), Conflict),
            (lambda kept: kept.complete(summary="done"), Refused),
        ):
            outcomes = machines.run_on_both(session, verb)
            assert sorted(outcomes, key=str) == sorted([None, refusal], key=str)
        document = desktop.session(session).document()
        assert document.status == "completed"
        assert [task.id for task in document.tasks] == ["t1"]
    with closing(team.store()) as store:
        assert_sound(store)
        types = [event.type for event in store.events(session)]
        for kind in ("session.paused", "session.completed", "task.added"):
            assert types.count(kind) == 1


def test_cached_state_is_never_stale(team: Team) -> None:
    """Two machines take turns: each sees the other's events when it reads and when it writes."""
    (one,) = team.begin(["one"])
    with closing(team.store("a")) as first, closing(team.store("b")) as second:
        for number in range(6):
            writes, reads = (first, second) if number % 2 else (second, first)
            hash_ = note(writes, one, f"n {number}")
            state = reads.state(one)
            assert state is not None
            assert [added.text for added in state.notes] == [f"n {before}" for before in range(number + 1)]
            assert hash_ in {head.hash for head in state.heads.values()}
        assert_sound(first)
