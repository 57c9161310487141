"""What an ordinary member waits for on a large store, against the same on a small one of the same server.

The person has the same sessions in both; everything else in the large one is others'. Each is asked in turns, so
that a busy moment hits both. Then the team shares some sessions with everybody: what can be seen is what costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast import Keeper
from holdfast.store.interface import Filter
from holdfast.store.postgres import PostgresStore
from measures.append import text
from measures.figures import Figure, median
from measures.postgres_server import Ground, opened

RUNS, COMMANDS = 40, 15
_PLACE = "/work/place"
Question = Callable[[PostgresStore], object]


def questions(rare: str) -> dict[str, Question]:
    return {
        "search, rare word": lambda store: store.rows(Filter(search=rare, limit=50)),
        "search, common word, 50 rows": lambda store: store.rows(Filter(search="retry ", limit=50)),
        "search, beginning of a word, 50 rows": lambda store: store.rows(Filter(search="mod", limit=50)),
        "search, two words, 50 rows": lambda store: store.rows(Filter(search="retry parser", limit=50)),
        "history, 50 rows": lambda store: store.rows(Filter(limit=50)),
        "unfinished": lambda store: store.rows(Filter(unfinished=True)),
        "versions (the dashboard)": lambda store: store.versions(),
        "has anything changed (the dashboard)": lambda store: store.version(),
    }


def measure(ground: Ground, small: str, big: str, person: str, rare: dict[str, str]) -> list[Figure]:
    figures = [_status(ground, small, big, person)]
    stores = {name: opened(ground.address(name, person), "reader", _wall) for name in (small, big)}
    asked = {name: questions(rare[name]) for name in stores}
    for what in asked[small]:
        taken: dict[str, list[float]] = {small: [], big: []}
        for run in range(RUNS + 8):  # the first ones let the server settle for a plan
            for name, store in stores.items():
                begin = time.perf_counter()
                asked[name][what](store)
                if run >= 8:
                    taken[name].append(time.perf_counter() - begin)
        figures.append(_compared(f"postgres: {what}", taken[big], taken[small]))
    for store in stores.values():
        store.close()
    return figures


def _status(ground: Ground, small: str, big: str, person: str) -> Figure:
    """Open the store, find the session of a place, fold its state: what `status` asks."""
    for name in (small, big):
        store = opened(ground.address(name, person), "reader", _wall)
        with store.transaction() as transaction:
            transaction.set_current(_PLACE, next(iter(store.sessions())))
        store.close()
    taken: dict[str, list[float]] = {small: [], big: []}
    for run in range(RUNS + 3):
        for name, some in taken.items():
            begin = time.perf_counter()
            store = opened(ground.address(name, person), "reader", _wall)
            current = store.current(_PLACE)
            assert current is not None
            assert store.state(current) is not None
            if run >= 3:
                some.append(time.perf_counter() - begin)
            store.close()
    return _compared("postgres: open, session here, state", taken[big], taken[small])


def _compared(name: str, big: list[float], small: list[float]) -> Figure:
    detail = f"{median(big) * 1e3:.2f} ms, small {median(small) * 1e3:.2f} ms"
    return Figure(f"{name}: large store against small", median(big) / median(small), "≤ 1.5", detail)


def seen(ground: Ground, database: str, person: str, rare: str) -> list[Figure]:
    """For the record: somebody with many sessions, in a team that shares some with everybody."""
    store = opened(ground.address(database, person), "reader", _wall)
    visible = len(store.versions())
    figures = []
    for what, ask in questions(rare).items():
        taken = []
        for _ in range(16):
            begin = time.perf_counter()
            ask(store)
            taken.append(time.perf_counter() - begin)
        name = f"postgres: {what}, who sees {visible:,} sessions (ms)"
        figures.append(Figure(name, median(taken[8:]) * 1e3, ""))
    store.close()
    return figures


def commands(scratch: Path, ground: Ground, small: str, big: str, person: str) -> list[Figure]:
    """`holdfast status` as a whole command: on the large store, the small one, and a file."""
    holdfast = str(Path(sys.executable).parent / "holdfast")
    base = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environments: dict[str, dict[str, str]] = {}
    for name in ("file", small, big):
        project, home = scratch / f"{name}-project", scratch / f"{name}-home"
        project.mkdir(parents=True)
        store = None if name == "file" else ground.url(name, person)
        environments[name] = base | {"HOLDFAST_HOME": str(home), "PWD": str(project)}
        if store is not None:
            environments[name]["HOLDFAST_STORE"] = store
        with Keeper.open(str(project), home=str(home), store=store) as keeper:
            session = keeper.start("See how long a command takes")
            for number in range(100):
                session.note(text(number))
    taken: dict[str, list[float]] = {name: [] for name in environments}
    for run in range(COMMANDS + 2):
        for name, environment in environments.items():
            begin = time.perf_counter()
            done = subprocess.run(
                [holdfast, "status"], cwd=environment["PWD"], env=environment, capture_output=True, check=False
            )
            if run >= 2:
                taken[name].append(time.perf_counter() - begin)
            if done.returncode:
                raise SystemExit(f"status failed: {done.stderr.decode()}")
    file = median(taken["file"])
    return [
        _compared("postgres: `holdfast status`, cold", taken[big], taken[small]),
        Figure("postgres: `holdfast status`, cold, against a file", median(taken[big]) / file, "",
               f"{median(taken[big]) * 1e3:.0f} ms, file {file * 1e3:.0f} ms"),
    ]  # fmt: skip


def _wall() -> int:
    return time.time_ns() // 1000
