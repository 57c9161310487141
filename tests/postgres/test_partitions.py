"""The log in partitions: such a store works like any other, and repartitioning loses nothing."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import psycopg
import pytest
from psycopg import sql

from holdfast.core.envelope import Event
from holdfast.core.errors import Invalid
from holdfast.sessions.start import new_id
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import ANNA, assert_sound, note, put, started
from holdfast.store.conformance.log import Chains, Streaming
from holdfast.store.postgres import PostgresStore, admin
from tests.postgres import test_postgres_conformance
from tests.support.postgres.server import Server

PEOPLE: Final = ("anna", "ben", "caro")
SESSIONS: Final = 12
_PATIENCE: Final = 20.0
_Served = test_postgres_conformance.TestPostgres


@pytest.fixture(scope="module")
def database(postgres: Server) -> Iterator[str]:
    """The address of a new database whose log has eight partitions."""
    name = f"parts_{secrets.token_hex(6)}"
    url = postgres.database(name)
    admin.init(PostgresAddress(url), partitions=8)
    yield url
    postgres.drop(name)


class TestPartitioned(Chains, Streaming):
    """The conformance tests of the log, with eight partitions."""

    shared = True
    _served = _Served._served
    open_store = _Served.open_store
    make_newer = _Served.make_newer
    _name = _Served._name
    _address = _Served._address


class Team(NamedTuple):
    """A database of an ordinary role, `owner`, with members who each have sessions there."""

    server: Server
    name: str
    owner: str
    people: tuple[str, ...]

    def address(self, person: str) -> PostgresAddress:
        return PostgresAddress(self.server.url(self.name, person))

    def store(self, person: str) -> PostgresStore:
        return PostgresStore(
            self.address(person), writer=lambda: f"{ANNA}-{person}", wall=lambda: time.time_ns() // 1000,
            installation=lambda _: person,
        )  # fmt: skip

    def divide(self, parts: int) -> int:
        return admin.repartition(self.address(self.owner), parts)

    def everything(self) -> dict[str, list[Event]]:
        """The events that each member sees."""
        events_of: dict[str, list[Event]] = {}
        for person in self.people:
            store = self.store(person)
            events_of[person] = [event for session in store.sessions() for event in store.events(session)]
            assert_sound(store)
            store.close()
        return events_of

    def query(self, text: str) -> list[tuple[object, ...]]:
        with self.server.connect(self.name) as line:
            return line.execute(text).fetchall()

    def parts(self) -> list[str]:
        rows = self.query("SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass")
        return sorted(str(name) for (name,) in rows)


def team_on(server: Server) -> Team:
    mark = secrets.token_hex(4)
    owner, people = f"boss_{mark}", tuple(f"{person}_{mark}" for person in PEOPLE)
    for person in (owner, *people):
        server.role(person)
    if not server.sql("SELECT 1 FROM pg_roles WHERE rolname = 'holdfast_member'"):
        server.sql("CREATE ROLE holdfast_member NOLOGIN")
    server.sql(sql.SQL("GRANT holdfast_member TO {} WITH ADMIN OPTION").format(sql.Identifier(owner)))
    made = Team(server, f"team_{mark}", owner, people)
    server.database(made.name, owner=owner)
    admin.init(made.address(owner), admit=people)
    for person in people:
        store = made.store(person)
        for number in range(SESSIONS):
            put(store, new_id(), started(f"{person} {number}"), *(note(f"word{item}") for item in range(number)))
        store.close()
    return made


@pytest.fixture(scope="module")
def team(postgres: Server) -> Iterator[Team]:
    made = team_on(postgres)
    yield made
    postgres.drop(made.name)


def wait_until(holds: Callable[[], object]) -> bool:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.01)
    return False


def test_repartitioning_loses_nothing(team: Team) -> None:
    """From one partition to eight, to three, to one: everyone sees the same, and every chain is valid."""
    before = team.everything()
    assert all(len(events) == SESSIONS * (SESSIONS + 1) / 2 for events in before.values())
    for parts in (8, 3, 1):
        team.divide(parts)
        assert len(team.parts()) == parts
        assert team.everything() == before
    assert team.divide(1) == 1, "the same number changes nothing"


def test_row_rules_apply_to_a_partitioned_log(team: Team) -> None:
    """Nobody sees another's events, not even the tables' owner; and nobody can query a partition by name."""
    rules = team.query(
        "SELECT policyname, cmd, qual, with_check FROM pg_policies WHERE tablename = 'events' ORDER BY 1"
    )
    granted = "SELECT relacl::text FROM pg_class WHERE oid = 'holdfast.events'::regclass"
    before = team.query(granted)
    team.divide(4)
    assert team.query(granted) == before
    assert rules
    assert rules == team.query(
        "SELECT policyname, cmd, qual, with_check FROM pg_policies WHERE tablename = 'events' ORDER BY 1"
    )
    forced = "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = 'holdfast.events'::regclass"
    assert team.query(forced) == [(True,)]
    for person in team.people:
        with team.server.connect(team.name, person) as line:
            own = line.execute("SELECT count(*), count(*) FILTER (WHERE put_by = CURRENT_USER) FROM holdfast.events")
            assert own.fetchone() == (SESSIONS * (SESSIONS + 1) // 2,) * 2
            for part in team.parts():
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    line.execute(sql.SQL("SELECT 1 FROM {}").format(sql.SQL(part)))
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    line.execute(sql.SQL("DELETE FROM {}").format(sql.SQL(part)))
    with team.server.connect(team.name, team.owner) as line:
        assert line.execute("SELECT count(*) FROM holdfast.events").fetchone() == (0,)


def test_every_partition_has_every_index_and_trigger(team: Team) -> None:
    """What makes the log quick, and what makes it append-only, is on all of its parts."""
    team.divide(5)
    kept = team.query(
        "SELECT count(*) FROM pg_index i JOIN pg_inherits p ON p.inhrelid = i.indexrelid JOIN pg_index o"
        " ON o.indexrelid = p.inhparent WHERE o.indrelid = 'holdfast.events'::regclass AND i.indisvalid"
    )
    whole = team.query("SELECT count(*) FROM pg_index WHERE indrelid = 'holdfast.events'::regclass AND indisvalid")
    assert kept == [(5 * int(str(whole[0][0])),)]
    rows = "SELECT count(*) FROM pg_trigger WHERE tgrelid = {}::regclass"
    triggers = team.query(rows.format("'holdfast.events'"))
    assert triggers != [(0,)]
    assert all(team.query(rows.format(f"'{part}'")) == triggers for part in team.parts())
    assert team.query("SELECT 1 FROM pg_class WHERE relname LIKE 'events_anew%' AND relkind IN ('r', 'p')") == []


def test_writers_continue_during_repartitioning(team: Team) -> None:
    """Members write and read meanwhile; everything is there, and nothing is refused."""
    over = threading.Event()
    written: dict[str, int] = {}

    def work(person: str) -> None:
        store, session, count = team.store(person), new_id(), 1
        put(store, session, started())
        while not over.is_set():
            put(store, session, note(f"thing {count}"))
            count += 1
            state = store.state(session)
            assert state is not None
            assert state.count == count
            assert len(list(store.events(session))) == count
        written[session] = count
        assert len(list(store.events(session))) == count
        assert_sound(store)
        store.close()

    with ThreadPoolExecutor(len(team.people)) as pool:
        working = [pool.submit(work, person) for person in team.people]
        for parts in (2, 7, 1, 4):
            team.divide(parts)
        over.set()
        for future in working:
            future.result(_PATIENCE)
    assert sum(written.values()) > len(team.people)


def test_repartitioning_waits_for_an_open_read(team: Team) -> None:
    """In its snapshot the moved rows would not exist."""
    team.divide(2)
    person = team.people[0]
    store = team.store(person)
    session = next(iter(store.sessions()))
    counts: list[int] = []
    with ThreadPoolExecutor(1) as pool:

        def divide_meanwhile() -> None:
            dividing = pool.submit(team.divide, 3)
            waiting = (
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%EXCL%'"
            )
            assert wait_until(lambda: team.query(waiting))
            counts.append(len(list(store.tables.tail(session, 0))))
            assert not dividing.done()

        store.read(divide_meanwhile)
    assert counts == [len(list(store.events(session)))]
    assert counts[0] > 0
    assert len(team.parts()) == 3
    store.close()


def test_crash_during_repartitioning_changes_nothing() -> None:
    """The server is killed when everything is copied and nothing is swapped."""
    with Server(durable=True) as server:
        team = team_on(server)
        before, parts = team.everything(), team.parts()
        reader = server.connect(team.name, team.people[0])
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM holdfast.events")
        failed: list[BaseException] = []

        def divide() -> None:
            try:
                team.divide(6)
            except Exception as error:
                failed.append(error)

        dividing = threading.Thread(target=divide)
        dividing.start()
        assert wait_until(
            lambda: team.query(
                "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LOCK TABLE%ACCESS EXCLUSIVE%'"
                " AND wait_event_type = 'Lock'"
            )
        )
        server.kill()
        dividing.join(_PATIENCE)
        reader.close()
        assert failed
        server.start()
        assert team.parts() == parts
        assert team.query("SELECT 1 FROM pg_class WHERE relname LIKE 'events_anew%'") == []
        assert team.everything() == before
        team.divide(6)
        assert team.everything() == before


@pytest.mark.parametrize("parts", [0, -1, 1025])
def test_impossible_number_of_partitions_is_refused(team: Team, parts: int) -> None:
    """At least one, and at most what a server can open at once."""
    before = team.parts()
    with pytest.raises(Invalid):
        team.divide(parts)
    assert team.parts() == before
