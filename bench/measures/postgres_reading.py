"""Measures what a member waits for on a large store against a small one on the same server.

The person has the same sessions in both; the rest of the large one is others'. Both are asked in turns, so that other
load affects both. Then the team shares some sessions with everybody, and the cost grows with what the person can see.
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
from measures.postgres_server import BenchServer, open_store

RUNS, COMMANDS = 40, 15
_WORK_TREE = "/work/place"
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


def measure(server: BenchServer, small: str, large: str, person: str, rare: dict[str, str]) -> list[Figure]:
    figures = [_status(server, small, large, person)]
    stores = {name: open_store(server.address(name, person), "reader", _wall) for name in (small, large)}
    questions_by_store = {name: questions(rare[name]) for name in stores}
    for title in questions_by_store[small]:
        seconds_by_store: dict[str, list[float]] = {small: [], large: []}
        for run in range(RUNS + 8):  # the first ones let the server settle for a plan
            for name, store in stores.items():
                begin = time.perf_counter()
                questions_by_store[name][title](store)
                if run >= 8:
                    seconds_by_store[name].append(time.perf_counter() - begin)
        figures.append(_compared(f"postgres: {title}", seconds_by_store[large], seconds_by_store[small]))
    for store in stores.values():
        store.close()
    return figures


def _status(server: BenchServer, small: str, large: str, person: str) -> Figure:
    """Open the store, find the session of a place, fold its state: what `status` asks."""
    for name in (small, large):
        store = open_store(server.address(name, person), "reader", _wall)
        with store.transaction() as transaction:
            transaction.set_current(_WORK_TREE, next(iter(store.sessions())))
        store.close()
    seconds_by_store: dict[str, list[float]] = {small: [], large: []}
    for run in range(RUNS + 3):
        for name, seconds in seconds_by_store.items():
            begin = time.perf_counter()
            store = open_store(server.address(name, person), "reader", _wall)
            current = store.current(_WORK_TREE)
            assert current is not None
            assert store.state(current) is not None
            if run >= 3:
                seconds.append(time.perf_counter() - begin)
            store.close()
    return _compared("postgres: open, session here, state", seconds_by_store[large], seconds_by_store[small])


def _compared(name: str, large: list[float], small: list[float]) -> Figure:
    detail = f"{median(large) * 1e3:.2f} ms, small {median(small) * 1e3:.2f} ms"
    return Figure(f"{name}: large store against small", median(large) / median(small), "≤ 1.5", detail)


def measure_visible(server: BenchServer, database: str, person: str, rare: str) -> list[Figure]:
    """For the record: somebody with many sessions, in a team that shares some with everybody."""
    store = open_store(server.address(database, person), "reader", _wall)
    visible = len(store.versions())
    figures = []
    for title, ask in questions(rare).items():
        seconds = []
        for _ in range(16):
            begin = time.perf_counter()
            ask(store)
            seconds.append(time.perf_counter() - begin)
        name = f"postgres: {title}, who sees {visible:,} sessions (ms)"
        figures.append(Figure(name, median(seconds[8:]) * 1e3, ""))
    store.close()
    return figures


def commands(scratch: Path, server: BenchServer, small: str, large: str, person: str) -> list[Figure]:
    """`holdfast status` as a whole command: on the large store, the small one, and a file."""
    holdfast = str(Path(sys.executable).parent / "holdfast")
    base = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environments: dict[str, dict[str, str]] = {}
    for name in ("file", small, large):
        project, home = scratch / f"{name}-project", scratch / f"{name}-home"
        project.mkdir(parents=True)
        store = None if name == "file" else server.url(name, person)
        environments[name] = base | {"HOLDFAST_HOME": str(home), "PWD": str(project)}
        if store is not None:
            environments[name]["HOLDFAST_STORE"] = store
        with Keeper.open(str(project), home=str(home), store=store) as keeper:
            session = keeper.start("See how long a command takes")
            for number in range(100):
                session.note(text(number))
    seconds_by_store: dict[str, list[float]] = {name: [] for name in environments}
    for run in range(COMMANDS + 2):
        for name, environment in environments.items():
            begin = time.perf_counter()
            process = subprocess.run(
                [holdfast, "status"], cwd=environment["PWD"], env=environment, capture_output=True, check=False
            )
            if run >= 2:
                seconds_by_store[name].append(time.perf_counter() - begin)
            if process.returncode:
                raise SystemExit(f"status failed: {process.stderr.decode()}")
    file = median(seconds_by_store["file"])
    return [
        _compared("postgres: `holdfast status`, cold", seconds_by_store[large], seconds_by_store[small]),
        Figure("postgres: `holdfast status`, cold, against a file", median(seconds_by_store[large]) / file, "",
               f"{median(seconds_by_store[large]) * 1e3:.0f} ms, file {file * 1e3:.0f} ms"),
    ]  # fmt: skip


def _wall() -> int:
    return time.time_ns() // 1000
