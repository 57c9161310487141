"""F25: everything derived can be thrown away and comes back the same from the log."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import apsw
import msgspec

from holdfast import Keeper
from holdfast.core.fold import fold
from holdfast.core.state import freeze
from holdfast.store.sqlite import SqliteStore
from tests.faults.program import Desk
from tests.support.scale import scale

DERIVED = ("sessions", "words", "aliases", "evidence", "projects", "places")
SOME_WORDS = ("alpha", "Beta", "gamma-ray", "Ölfarbe", "漢字", "naïve", "x1", "the", "42")


def work(keeper: Keeper, rng: random.Random, events: int) -> None:
    """A few sessions with something of everything."""
    session = keeper.start("Begin " + rng.choice(SOME_WORDS), replace=True, tags=["t"])
    for number in range(events):
        text = " ".join(rng.choices(SOME_WORDS, k=rng.randrange(1, 6)))
        name = f"n{number}"
        status = session.document().status
        match rng.randrange(13):
            case 0:
                session = keeper.start(text, replace=True, scope=rng.choice(["a", "b"]))
            case 1 if status == "in_progress":
                session.pause(text)
            case 1:
                session.resume()
            case 2:
                session.agent(name, type="t", task=text, background=rng.random() < 0.3)
            case 3 | 4:
                for agent in session.document().agents:
                    if agent.status == "running":
                        session.find_agent(agent.id).done(summary=text, tokens=rng.randrange(10_000))
            case 5:
                session.add_task(text)
            case 6:
                for task in session.document().tasks:
                    if task.status == "pending":
                        session.finish_task(task.id, outcome=text)
            case 7:
                session.decide(text, options=[text, "no"], why=text)
            case 8:
                session.edit(goal=text, progress=rng.random(), tags=[name])
            case 9:
                session.changed(f"{name}.txt", "created")
            case 10:
                session.measure_context(rng.randrange(100_000))
            case 11:
                keeper.archive(session.id) if not session.state().archived else keeper.unarchive(session.id)
            case _:
                session.note(text)


def derived(path: Path) -> str:
    """One hash over every table that is made from the log; how often a session changed is nobody's fact."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    digest = hashlib.sha256()
    for table in DERIVED:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "version"]
        rows: list[Any] = sorted(connection.execute(f"SELECT {', '.join(columns)} FROM {table}"), key=repr)
        digest.update(repr((table, columns, rows)).encode())
    connection.close()
    return digest.hexdigest()


def states(path: Path) -> dict[str, bytes]:
    store = SqliteStore(str(path), writer=lambda: "reader", wall=lambda: 1, create=False)
    found = {}
    for session in store.sessions():
        state = store.state(session)
        assert state is not None
        found[session] = freeze(state)
    store.close()
    return found


def test_projections_rebuilt_from_the_log_are_the_same(tmp_path: Path) -> None:
    """Tables and states, after random work; folding the raw log gives the same states once more."""
    for seed in range(scale(4, 20, 200)):
        desk = Desk(tmp_path)
        desk.home = tmp_path / f"home{seed}"
        with desk.keeper() as keeper:
            work(keeper, random.Random(seed), scale(80, 120, 300))
            events = {session: keeper.events(session) for session in keeper.store().sessions()}
        before = derived(desk.store), states(desk.store)
        assert {session: freeze(fold(log)) for session, log in events.items()} == before[1]
        store = SqliteStore(str(desk.store), writer=lambda: "repairer", wall=lambda: 1)
        assert store.repair() == []
        store.close()
        assert (derived(desk.store), states(desk.store)) == before
        desk.sound()


def test_it_all_comes_back_when_the_tables_are_emptied(tmp_path: Path) -> None:
    """Listings, words, aliases and snapshots deleted: found by the check, brought back by the repair."""
    desk = Desk(tmp_path)
    with desk.keeper() as keeper:
        work(keeper, random.Random(99), 80)
    before = derived(desk.store), states(desk.store)
    connection = apsw.Connection(str(desk.store))
    for table in ("words", "aliases", "snapshots"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE sessions SET goal = 'x', status = 'created', working_ms = -1, archived = 1 - archived")
    connection.close()
    store = SqliteStore(str(desk.store), writer=lambda: "repairer", wall=lambda: 1)
    assert {finding.check for finding in store.check()} == {"listing", "search"}
    store.repair()
    store.close()
    assert (derived(desk.store), states(desk.store)) == before
    desk.sound()


def test_a_backup_restored_elsewhere_is_the_same(tmp_path: Path) -> None:
    """Events, states and listings; only what is local to a machine (which tree is where) stays behind."""
    desk = Desk(tmp_path)
    with desk.keeper() as keeper:
        work(keeper, random.Random(5), 60)
        keeper.backup(str(tmp_path / "copy.db"))
    other = Desk(tmp_path)
    other.home = tmp_path / "other"
    with other.keeper() as keeper:
        keeper.restore(str(tmp_path / "copy.db"))
    assert states(desk.store) == states(other.store)
    for table in ("sessions", "words", "aliases", "evidence", "projects"):
        assert listing(desk.store, table) == listing(other.store, table)
    other.sound()


def listing(path: Path, table: str) -> list[str]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    wanted = ", ".join(name for name in columns if name not in ("version", "ref", "session"))
    rows = [msgspec.json.encode(row).decode() for row in connection.execute(f"SELECT {wanted} FROM {table}")]
    connection.close()
    return sorted(rows)
