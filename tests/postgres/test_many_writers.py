"""Many machines write to one store at once: nothing is lost, doubled or out of order, and readers see every event."""

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
from tests.postgres.team import NOW, Outcome, Process, Task, Team, judge, note, work
from tests.support.postgres.server import Server
from tests.support.scale import scale


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


class Reader:
    """Looks for what is new in small portions, whenever the store says that something changed, as `watch` does."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.place, self.version = 0, -1
        self.seen: list[str] = []
        self.stop = threading.Event()

    def look(self) -> None:
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
            self.look()
            time.sleep(0.002)
        self.look()


def watched(team: Team, sessions: list[str], at_work: Callable[[], list[Outcome]]) -> int:
    """Whoever looks all the while has seen every event, each once, when the work is done."""
    with closing(team.store("reader")) as store, closing(team.store("judge")) as judging:
        reader = Reader(store)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(reader.run)
            try:
                outcomes = at_work()
            finally:
                reader.stop.set()
            reading.result(60)
        count = judge(judging, sessions, outcomes)
        every = [event.hash for session in sessions for event in judging.events(session)]
        assert sorted(reader.seen) == sorted(every)
    return count


def test_processes_write_to_one_session(team: Team) -> None:
    """Eight machines in four processes: every note once, every stream without a gap, all seen as they come."""
    sessions = team.begin(["one"])
    notes, processes = scale(12, 400, 4_000), scale(4, 8, 16)

    def at_work() -> list[Outcome]:
        tasks = [Task(team.url(), [f"m{n}", f"n{n}"], sessions, notes) for n in range(processes)]
        running = [Process(task) for task in tasks]
        return [outcome for process in running for outcome in process.said()]

    assert watched(team, sessions, at_work) == 2 * processes * notes


def test_machines_write_to_sessions_in_opposite_order(team: Team) -> None:
    """Half of them go through the sessions backwards; each transaction is of one session: nobody waits long."""
    sessions = team.begin(["one", "two", "three"])
    notes = scale(9, 300, 3_000)
    outcomes: list[Outcome] = []

    def at_work() -> list[Outcome]:
        work(Task(team.url(), [f"m{n}" for n in range(8)], sessions, notes), outcomes.append)
        return outcomes

    assert watched(team, sessions, at_work) == 8 * notes


@pytest.mark.parametrize("happens", [True, False])
def test_a_place_given_out_early_and_committed_late_is_seen(team: Team, happens: bool) -> None:
    """Whoever looks in between gets neither the later event alone, nor the same version when the earlier is there."""
    one, two = team.begin(["one", "two"])
    with closing(team.store("a")) as slow, closing(team.store("b")) as quick, closing(team.store("c")) as looking:
        reader = Reader(looking)
        reader.look()
        before = len(reader.seen)
        seen, version = [""], 0
        with contextlib.suppress(Interrupted), slow.transaction() as transaction:
            transaction.record(one, Draft(NoteAdded(text="early"), NOW, "anna"))
            slow.tables.horizon()  # it has arrived, and has its place
            note(quick, two, "late")
            reader.look()
            seen, version = reader.seen[before:], looking.version()
            if not happens:
                raise Interrupted("it was not to be")
        assert seen == []
        assert looking.version() != version
        reader.look()
        every = [event.hash for session in (one, two) for event in looking.events(session)]
        assert sorted(reader.seen) == sorted(every)


def test_sessions_taken_in_opposite_order_end_in_busy_for_one(team: Team) -> None:
    """Two transactions wait for each other: one is told, and nothing of it is there; the other goes on."""
    one, two = team.begin(["one", "two"])
    both = threading.Barrier(2)

    def go(name: str, first: str, second: str) -> bool:
        with closing(team.store(name)) as store:
            try:
                with store.transaction() as transaction:
                    transaction.record(first, Draft(NoteAdded(text=f"{name} 1"), NOW, "anna"))
                    both.wait(30)
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


def test_who_has_little_time_does_not_wait_for_a_session(team: Team) -> None:
    """Patience counts for everything that others can hold: a hook is told within it."""
    (one,) = team.begin(["one"])
    with closing(team.store("a")) as slow, closing(team.store("b")) as hasty, slow.transaction() as blocking:
        blocking.state(one)
        with pytest.raises(Busy), hasty.transaction(patience=0.05) as transaction:
            transaction.state(one)


def test_a_transaction_touches_thousands_of_sessions(team: Team) -> None:
    """The server has room for some thousands of locks, for everybody together: no transaction takes that many."""
    with closing(team.store()) as store, store.transaction():
        store.tables.lock(f"session {number}" for number in range(12_000))
        store.tables.horizon()


def test_caught_error_in_a_transaction_is_no_success(team: Team) -> None:
    """Whoever swallows an error inside a transaction does not get the rest of it acknowledged."""
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


class Machines:
    """Two machines with a home each, at one project, in one team."""

    def __init__(self, team: Team, root: Path) -> None:
        self.keepers = []
        for name in ("laptop", "desktop"):
            (root / name).mkdir()
            self.keepers.append(
                Keeper.open(str(root / name), home=str(root / f"{name} home"), store=team.url(), actor=name)
            )

    def at_once(self, session: str, verb: Callable[[SessionHandle], object]) -> list[object]:
        both = threading.Barrier(2)

        def go(keeper: Keeper) -> object:
            kept = keeper.session(session)
            kept.document()  # both know how it was
            both.wait(30)
            try:
                verb(kept)
            except HoldfastError as error:
                return type(error)
            return None

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(go, self.keepers))


def test_two_machines_do_the_same_at_once(team: Team, tmp_path: Path) -> None:
    """One does it; the other, which had seen the session as it was before, is refused as on one machine."""
    machines = Machines(team, tmp_path)
    laptop, desktop = machines.keepers
    with laptop, desktop:
        session = laptop.start("Build the shop").id
        for verb, refusal in (
            (lambda kept: kept.pause("lunch"), Refused),
            (lambda kept: kept.resume(), None),
            (lambda kept: kept.add_task("paint", task_id="t1"), Conflict),
            (lambda kept: kept.complete(summary="done"), Refused),
        ):
            outcomes = machines.at_once(session, verb)
            assert sorted(outcomes, key=str) == sorted([None, refusal], key=str)
        document = desktop.session(session).document()
        assert document.status == "completed"
        assert [task.id for task in document.tasks] == ["t1"]
    with closing(team.store()) as store:
        assert_sound(store)
        types = [event.type for event in store.events(session)]
        for kind in ("session.paused", "session.completed", "task.added"):
            assert types.count(kind) == 1


def test_what_is_remembered_between_transactions_is_never_stale(team: Team) -> None:
    """Two machines take turns: each knows what the other did, in what it reads and in what it writes on."""
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
