"""Copying between a file and a server, there and back: whole, cut off anywhere, and with nothing different unseen."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import Damaged, Unreachable
from holdfast.core.events import CommandRan, NoteAdded
from holdfast.core.state import freeze
from holdfast.store import store_copy
from holdfast.store.conformance import ANNA, BEN, START, Ticks, assert_sound, everything, put, started
from holdfast.store.interface import UNSEEN, Draft, Store
from holdfast.store.postgres.pipeline import StatementPipeline
from holdfast.store.sqlite import SqliteStore
from holdfast.store.store_copy import CURSORS, Progress, copy
from tests.postgres import store_histories
from tests.postgres.team import Team
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server
from tests.support.scale import scale

# A copy in a process of its own, that says how far it is.
COPYING = """
import sys
from holdfast.store import store_copy
from holdfast.store.address import address, open_store
store_copy.PORTION = 40
source, target = (
    open_store(address(url), writer=lambda: "b" * 20, wall=lambda: 1, here=lambda _: "copying")
    for url in sys.argv[1:]
)
store_copy.copy(source, target, on_progress=lambda progress: print(*progress, flush=True))
"""


def opened(path: Path, writer: str = ANNA) -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: writer, wall=Ticks())


def filled(store: Store, events: int, sessions: int = 4) -> None:
    """So many events, most with keys, in turn of several sessions."""
    chance = random.Random(events)
    ids = [f"{number:08x}-2222-4333-8444-555555555555" for number in range(sessions)]
    for session in ids:
        put(store, session, started())
    done = sessions
    while done < events:
        with store.transaction() as transaction:
            for number in range(done, min(done + 20, events)):
                data = chance.choice((NoteAdded(text=f"note {number} blue"), CommandRan(command=f"make {number}")))
                key = chance.choice((None, f"hook:{number}"))
                transaction.record(chance.choice(ids), Draft(data, START + number, "anna", key))
        done += 20


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteStore]:
    store = opened(tmp_path / "source.db")
    filled(store, 600)
    yield store
    store.close()


@pytest.fixture(scope="module")
def anna(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    """Somebody with an empty store."""
    return Team(postgres, database)


def count(store: Store) -> int:
    return sum(len(list(store.events(session))) for session in store.sessions())


def own(store: Store) -> tuple[Any, ...]:
    """What stands beside the log, without what is true of one store alone."""
    local = store.local_state()
    memory = {name: value for name, value in local.memory.items() if not name.startswith((CURSORS, UNSEEN))}
    return list(local.places.items()), local.projects, memory


# ── there and back ───────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=scale(2, 50, 1000))
@given(st.integers(0, 2**32), st.integers(10, 40), st.integers(3, 200))
def test_there_and_back_is_the_same_store(
    postgres: Server, database: str, seed: int, length: int, portion: int
) -> None:
    """Any history: events byte by byte, states, listings, search, work trees, projects, and what is kept."""
    team = Team(postgres, database)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_copy, "PORTION", portion)
        first, last = opened(Path(place, "first.db")), opened(Path(place, "last.db"), BEN)
        store_histories.told(first, seed, length)
        with closing(team.store()) as served:
            copy(first, served)
            copy(served, last)
            for store in (served, last):
                assert everything(store) == everything(first)
                assert own(store) == _that_can_be_carried(first)
                assert len(store.arrived(0, 10**9)) == count(first)
                assert copy(first, store).events == 0
            for which in store_histories.filters():
                assert served.rows(which) == last.rows(which) == first.rows(which)
            checks = [
                sorted((damage.check, damage.session or "", damage.detail) for damage in store.check())
                for store in (first, served, last)
            ]
            assert checks[0] == checks[1] == checks[2]
        first.close()
        last.close()


def _that_can_be_carried(store: Store) -> tuple[Any, ...]:
    """Work trees that are at nothing that is there stay behind."""
    places, projects, memory = own(store)
    states = {session: store.state(session) for _, session in places}
    there = [(path, place) for path, place in places if (state := states[place]) is not None and not state.deleted]
    return there, projects, memory


def test_many_at_once_are_few_questions(source: SqliteStore, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may be far away: a portion costs some questions for each of its sessions, not for each event."""
    asked: list[str] = []
    query = StatementPipeline.query

    def counting(self: StatementPipeline, sql: str, values: Any = ()) -> Any:
        asked.append(sql)
        return query(self, sql, values)

    monkeypatch.setattr(StatementPipeline, "query", counting)
    with closing(team.store()) as served:
        copy(source, served)
        assert len(asked) < count(source) / 4
        asked.clear()
        assert len(served.arrived(0, 10**6)) == count(source)
        assert len(asked) == 2


def test_arrivals_are_read_quickly_among_many_of_others(source: SqliteStore, team: Team) -> None:
    """Places are numbers of a whole server: far apart, behind millions of others', nothing is passed over."""
    with closing(team.store()) as served:
        put(served, store_histories.SESSIONS[0], started("Before"))
        for jump in (10, 1000, 10**6, 10**9):
            team.server.sql(
                "SELECT setval('holdfast.places', nextval('holdfast.places') + %s)", jump, database=team.name
            )
            put(served, store_histories.SESSIONS[0], NoteAdded(text=f"after {jump}"))
        copy(source, served)
        events = count(served)
        for limit in (1, 2, 7, 10**6):
            place, arrived = 0, []
            while some := served.arrived(place, limit):
                arrived += some
                place = some[-1].place
            assert len({arrival.event.hash for arrival in arrived}) == len(arrived) == events
            assert [arrival.place for arrival in arrived] == sorted(arrival.place for arrival in arrived)


def test_progress_only_goes_forward(source: SqliteStore, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking, copying, comparing: each up to its end, in both directions."""
    monkeypatch.setattr(store_copy, "PORTION", 100)
    back = opened(Path(source.path).with_name("back.db"), BEN)
    with closing(team.store()) as served:
        for item, other in ((source, served), (served, back)):
            reported: list[Progress] = []
            copy(item, other, on_progress=reported.append)
            doing = [each.doing for each in reported]
            assert list(dict.fromkeys(doing)) == ["checking", "copying", "comparing"]
            assert doing == sorted(doing, key=["checking", "copying", "comparing"].index)
            for name in set(doing):
                steps = [each for each in reported if each.doing == name]
                assert [each.done for each in steps] == sorted({each.done for each in steps})
                assert all(0 < each.done <= each.of for each in steps)
                assert steps[-1].done == steps[-1].of
    assert everything(back) == everything(source)
    back.close()


# ── cut off ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("back", [False, True])
def test_killed_anywhere_it_goes_on(source: SqliteStore, team: Team, *, back: bool) -> None:
    """A process that copies, killed without warning at any moment, as often as you like: each event is there once."""
    chance = random.Random(back)
    path = Path(source.path).with_name("back.db")
    with closing(team.store()) as served:
        if back:
            copy(source, served)
        urls = (team.url(), f"sqlite:///{path}") if back else (source.url, team.url())
        for _ in range(scale(3, 12, 60)):
            _kill_after(chance.randint(1, 25), chance.random() / 50, *urls)
        target: Store = opened(path, BEN) if back else served
        done = copy(served if back else source, target)
        assert done.sessions == 4
        assert everything(target) == everything(source)
        assert len(target.arrived(0, 10**6)) == count(source)
        assert_sound(target)
        if back:
            target.close()


def _kill_after(lines: int, seconds: float, *urls: str) -> None:
    """Once it said so much, and a moment later."""
    copier = subprocess.Popen([sys.executable, "-c", COPYING, *urls], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert copier.stdout is not None
    assert copier.stderr is not None
    with copier:
        lines_read = [copier.stdout.readline() for _ in range(lines)]
        time.sleep(seconds)
        copier.kill()
        wrong = copier.stderr.read()
    assert lines_read[0], wrong
    assert copier.returncode in (-signal.SIGKILL, 0), wrong


def test_a_server_that_dies_meanwhile_loses_nothing(source: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle of it with all its processes, and started again: the copy goes on, each event is once."""
    monkeypatch.setattr(store_copy, "PORTION", 20)
    chance = random.Random(1)
    with Server(durable=True) as server:
        team = Team(server, prepared(server, "copied"))
        for _ in range(scale(1, 10, 100)):
            blow = threading.Timer(chance.random() / 20, _blow, (server,))
            with suppress(Unreachable), closing(team.store()) as served:
                copy(source, served, on_progress=_once(blow, chance.randint(1, 200)))
            blow.join()
        with closing(team.store()) as served:
            copy(source, served)
            assert everything(served) == everything(source)
            rows = server.sql("SELECT count(*), count(DISTINCT hash) FROM holdfast.events", database="copied")
            assert rows == [(count(source), count(source))]
            assert_sound(served)


def _blow(server: Server) -> None:
    server.kill()
    server.start()


def _once(blow: threading.Timer, place: int) -> Callable[[Progress], None]:
    """Let it fall when the copy has come so far, or is being compared."""

    def on_progress(progress: Progress) -> None:
        if blow.ident is None and (progress.doing == "comparing" or progress.done >= place):
            blow.start()

    return on_progress


# ── the proof ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("UPDATE holdfast.events SET data = '{}' WHERE hash = %s", "is another"),
        ("UPDATE holdfast.events SET data = NULL, salt = NULL WHERE hash = %s", "without its data"),
        ("UPDATE holdfast.events SET actor = 'eve' WHERE hash = %s", "is another"),
        ("UPDATE holdfast.events SET clock = clock + 10000000 WHERE hash = %s", "is another"),
        ("UPDATE holdfast.events SET key = 'another' WHERE hash = %s", "is another"),
    ],
)
def test_copy_refuses_a_difference_planted_meanwhile(
    source: SqliteStore, team: Team, spoil: Any, message: str
) -> None:
    """Whoever changes a row of the copy between copying and comparing is told of, with the session."""
    session = list(source.sessions())[-1]
    chosen = bytes.fromhex(list(source.events(session))[30].hash)

    def on_progress(progress: Progress) -> None:
        if progress.doing == "comparing" and progress.done == 1:
            with team.server.connect(team.name) as line:
                line.execute("SET session_replication_role = replica")
                assert line.execute(spoil, (chosen,)).rowcount == 1

    with closing(team.store()) as served, pytest.raises(Damaged, match=message) as caught:
        copy(source, served, on_progress=on_progress)
    assert caught.value.session == session


def test_copy_brings_back_an_event_that_vanishes_meanwhile(source: SqliteStore, team: Team) -> None:
    """Taken out of the copy before it is compared, it is copied once more."""
    session = list(source.sessions())[-1]
    chosen = bytes.fromhex(list(source.events(session))[30].hash)

    def on_progress(progress: Progress) -> None:
        if progress.doing == "comparing" and progress.done == 1:
            team.server.sql("DELETE FROM holdfast.events WHERE hash = %s", chosen, database=team.name)

    with closing(team.store()) as served:
        assert copy(source, served, on_progress=on_progress).events == count(source) + 1
        assert everything(served) == everything(source)
        state = served.state(session)
        assert state is not None
        assert freeze(state) == freeze(source.state(session))  # type: ignore[arg-type]
        assert_sound(served)
