"""Copying between a file and a server, both ways: complete, interrupted anywhere, and with every
difference noticed.
"""

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

# A copy in a process that prints its progress.
COPYING = """
import sys
from holdfast.store import store_copy
from holdfast.store.address import address, open_store
store_copy.PORTION = 40
source, target = (
    open_store(address(url), writer=lambda: "b" * 20, wall=lambda: 1, installation=lambda _: "copying")
    for url in sys.argv[1:]
)
store_copy.copy(source, target, on_progress=lambda progress: print(*progress, flush=True))
"""


def opened(path: Path, writer: str = ANNA) -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: writer, wall=Ticks())


def fill(store: Store, events: int, sessions: int = 4) -> None:
    """So many events, most with keys, spread over several sessions."""
    rng = random.Random(events)
    ids = [f"{number:08x}-2222-4333-8444-555555555555" for number in range(sessions)]
    for session in ids:
        put(store, session, started())
    done = sessions
    while done < events:
        with store.transaction() as transaction:
            for number in range(done, min(done + 20, events)):
                data = rng.choice((NoteAdded(text=f"note {number} blue"), CommandRan(command=f"make {number}")))
                key = rng.choice((None, f"hook:{number}"))
                transaction.record(rng.choice(ids), Draft(data, START + number, "anna", key))
        done += 20


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteStore]:
    store = opened(tmp_path / "source.db")
    fill(store, 600)
    yield store
    store.close()


@pytest.fixture(scope="module")
def anna(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    """A member with an empty store."""
    return Team(postgres, database)


def count(store: Store) -> int:
    return sum(len(list(store.events(session))) for session in store.sessions())


def portable_state(store: Store) -> tuple[Any, ...]:
    """Local state, without what is valid for one store only."""
    local = store.local_state()
    memory = {name: value for name, value in local.memory.items() if not name.startswith((CURSORS, UNSEEN))}
    return list(local.places.items()), local.projects, memory


# ── there and back ───────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=scale(2, 50, 1000))
@given(st.integers(0, 2**32), st.integers(10, 40), st.integers(3, 200))
def test_copy_to_a_server_and_back_is_equal(
    postgres: Server, database: str, seed: int, length: int, portion: int
) -> None:
    """Any history: events byte by byte, states, listings, search, work trees, projects, local state."""
    team = Team(postgres, database)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_copy, "PORTION", portion)
        first, last = opened(Path(place, "first.db")), opened(Path(place, "last.db"), BEN)
        store_histories.play_history(first, seed, length)
        with closing(team.store()) as served:
            copy(first, served)
            copy(served, last)
            for store in (served, last):
                assert everything(store) == everything(first)
                assert portable_state(store) == _copyable_state(first)
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


def _copyable_state(store: Store) -> tuple[Any, ...]:
    """Without work trees whose session does not exist."""
    places, projects, memory = portable_state(store)
    states = {session: store.state(session) for _, session in places}
    existing = [(path, place) for path, place in places if (state := states[place]) is not None and not state.deleted]
    return existing, projects, memory


def test_copy_needs_few_queries(source: SqliteStore, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may be far away: a portion costs some queries per session, not per event."""
    queries: list[str] = []
    query = StatementPipeline.query

    def counting(self: StatementPipeline, sql: str, values: Any = ()) -> Any:
        queries.append(sql)
        return query(self, sql, values)

    monkeypatch.setattr(StatementPipeline, "query", counting)
    with closing(team.store()) as served:
        copy(source, served)
        assert len(queries) < count(source) / 4
        queries.clear()
        assert len(served.arrived(0, 10**6)) == count(source)
        assert len(queries) == 2


def test_arrivals_are_complete_with_large_gaps_between_places(source: SqliteStore, team: Team) -> None:
    """Places are numbers of the whole server: those of other members leave large gaps."""
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


def test_copy_progress_only_increases(source: SqliteStore, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
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


# ── interrupted ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("back", [False, True])
def test_copy_continues_after_kills(source: SqliteStore, team: Team, *, back: bool) -> None:
    """Killed without warning, any number of times: each event is there once."""
    rng = random.Random(back)
    path = Path(source.path).with_name("back.db")
    with closing(team.store()) as served:
        if back:
            copy(source, served)
        urls = (team.url(), f"sqlite:///{path}") if back else (source.url, team.url())
        for _ in range(scale(3, 12, 60)):
            _kill_after_progress(rng.randint(1, 25), rng.random() / 50, *urls)
        target: Store = opened(path, BEN) if back else served
        done = copy(served if back else source, target)
        assert done.sessions == 4
        assert everything(target) == everything(source)
        assert len(target.arrived(0, 10**6)) == count(source)
        assert_sound(target)
        if back:
            target.close()


def _kill_after_progress(lines: int, seconds: float, *urls: str) -> None:
    """After so many lines of progress, and a moment."""
    copier = subprocess.Popen([sys.executable, "-c", COPYING, *urls], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert copier.stdout is not None
    assert copier.stderr is not None
    with copier:
        lines_read = [copier.stdout.readline() for _ in range(lines)]
        time.sleep(seconds)
        copier.kill()
        error_output = copier.stderr.read()
    assert lines_read[0], error_output
    assert copier.returncode in (-signal.SIGKILL, 0), error_output


def test_copy_continues_after_a_server_crash(source: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is killed with all its processes, and started again."""
    monkeypatch.setattr(store_copy, "PORTION", 20)
    rng = random.Random(1)
    with Server(durable=True) as server:
        team = Team(server, prepared(server, "copied"))
        for _ in range(scale(1, 10, 100)):
            crash = threading.Timer(rng.random() / 20, _kill_and_start, (server,))
            with suppress(Unreachable), closing(team.store()) as served:
                copy(source, served, on_progress=_start_at(crash, rng.randint(1, 200)))
            crash.join()
        with closing(team.store()) as served:
            copy(source, served)
            assert everything(served) == everything(source)
            rows = server.sql("SELECT count(*), count(DISTINCT hash) FROM holdfast.events", database="copied")
            assert rows == [(count(source), count(source))]
            assert_sound(served)


def _kill_and_start(server: Server) -> None:
    server.kill()
    server.start()


def _start_at(crash: threading.Timer, place: int) -> Callable[[Progress], None]:
    """Start the timer when the copy has come this far, or is comparing."""

    def on_progress(progress: Progress) -> None:
        if crash.ident is None and (progress.doing == "comparing" or progress.done >= place):
            crash.start()

    return on_progress


# ── differences ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("UPDATE holdfast.events SET data = '{}' WHERE hash = %s", "differs"),
        ("UPDATE holdfast.events SET data = NULL, salt = NULL WHERE hash = %s", "lost its data"),
        ("UPDATE holdfast.events SET actor = 'eve' WHERE hash = %s", "differs"),
        ("UPDATE holdfast.events SET clock = clock + 10000000 WHERE hash = %s", "differs"),
        ("UPDATE holdfast.events SET key = 'another' WHERE hash = %s", "differs"),
    ],
)
def test_copy_reports_a_difference_planted_meanwhile(
    source: SqliteStore, team: Team, spoil: Any, message: str
) -> None:
    """A row of the target is changed between copying and comparing: the error has the session."""
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


def test_copy_restores_an_event_that_disappears_meanwhile(source: SqliteStore, team: Team) -> None:
    """Removed from the target before the comparison, it is copied again."""
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
