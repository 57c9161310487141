"""F25: everything derived can be discarded and is rebuilt the same from the log."""

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
from tests.faults.sandbox import Sandbox
from tests.support.scale import scale

DERIVED = ("sessions", "words", "aliases", "evidence", "projects", "places")
SOME_WORDS = ("alpha", "Beta", "gamma-ray", "Ölfarbe", "漢字", "naïve", "x1", "the", "42")


def run_random_verbs(keeper: Keeper, rng: random.Random, events: int) -> None:
    """A few sessions with every kind of event."""
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
    """One hash over every table that is derived from the log, without the version counters."""
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
    frozen = {}
    for session in store.sessions():
        state = store.state(session)
        assert state is not None
        frozen[session] = freeze(state)
    store.close()
    return frozen


def test_repair_rebuilds_the_same_tables_and_states(tmp_path: Path) -> None:
    """After random work; folding the raw log gives the same states too."""
    for seed in range(scale(4, 20, 200)):
        sandbox = Sandbox(tmp_path)
        sandbox.home = tmp_path / f"home{seed}"
        with sandbox.keeper() as keeper:
            run_random_verbs(keeper, random.Random(seed), scale(80, 120, 300))
            events = {session: keeper.events(session) for session in keeper.store().sessions()}
        before = derived(sandbox.store), states(sandbox.store)
        assert {session: freeze(fold(log)) for session, log in events.items()} == before[1]
        store = SqliteStore(str(sandbox.store), writer=lambda: "repairer", wall=lambda: 1)
        assert store.repair() == []
        store.close()
        assert (derived(sandbox.store), states(sandbox.store)) == before
        sandbox.assert_sound()


def test_repair_rebuilds_emptied_tables(tmp_path: Path) -> None:
    """Listings, words, aliases and snapshots are deleted: the check reports it, the repair restores them."""
    sandbox = Sandbox(tmp_path)
    with sandbox.keeper() as keeper:
        run_random_verbs(keeper, random.Random(99), 80)
    before = derived(sandbox.store), states(sandbox.store)
    connection = apsw.Connection(str(sandbox.store))
    for table in ("words", "aliases", "snapshots"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE sessions SET goal = 'x', status = 'created', working_ms = -1, archived = 1 - archived")
    connection.close()
    store = SqliteStore(str(sandbox.store), writer=lambda: "repairer", wall=lambda: 1)
    assert {finding.check for finding in store.check()} == {"listing", "search"}
    store.repair()
    store.close()
    assert (derived(sandbox.store), states(sandbox.store)) == before
    sandbox.assert_sound()


def test_restored_backup_has_the_same_states_and_tables(tmp_path: Path) -> None:
    """Except for what is local to a machine: the paths of work trees."""
    sandbox = Sandbox(tmp_path)
    with sandbox.keeper() as keeper:
        run_random_verbs(keeper, random.Random(5), 60)
        keeper.backup(str(tmp_path / "copy.db"))
    other = Sandbox(tmp_path)
    other.home = tmp_path / "other"
    with other.keeper() as keeper:
        keeper.restore(str(tmp_path / "copy.db"))
    assert states(sandbox.store) == states(other.store)
    for table in ("sessions", "words", "aliases", "evidence", "projects"):
        assert listing(sandbox.store, table) == listing(other.store, table)
    other.assert_sound()


def listing(path: Path, table: str) -> list[str]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    wanted = ", ".join(name for name in columns if name not in ("version", "ref", "session"))
    rows = [msgspec.json.encode(row).decode() for row in connection.execute(f"SELECT {wanted} FROM {table}")]
    connection.close()
    return sorted(rows)
