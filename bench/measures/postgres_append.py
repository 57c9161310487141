"""Measures appends to a team's store against bare inserts into a table with the same columns and indexes.

Both are durable, one commit each, over the same kind of connection, with the same concurrency, in turns. The store
also does its usual work: chain, clock, fold, search index, snapshots, rights and notifications.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from holdfast.core.events import (
    AgentProgressed,
    AgentStarted,
    DecisionMade,
    EventData,
    MessageExchanged,
    NoteAdded,
    ProjectFacts,
    SessionStarted,
)
from holdfast.sessions.start import new_id
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import Draft
from measures.append import text
from measures.figures import Figure, mean, median, micros, timed
from measures.postgres_server import BenchServer, open_store

ROUNDS, PER_ROUND = 12, 50
EVENTS_PER_TRANSACTION = 20  # events in a transaction, as a drain of hooks has them
SECONDS = 4.0  # of each turn with many writers
TURNS = 3
_INSERT = (
    "INSERT INTO holdfast.bare"
    " (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
Append = Callable[[int], object]


class Appender(NamedTuple):
    """How one event is appended, and by which process of the server."""

    call: Append
    backend: int


class Rates(NamedTuple):
    """Events a second."""

    bare: float
    ours: float


def prepare(server: BenchServer, database: str) -> None:
    """The table to compare with: as the log is, without rights and parts."""
    server.ask(database, "CREATE TABLE IF NOT EXISTS holdfast.bare (LIKE holdfast.events INCLUDING ALL)")
    server.ask(database, "GRANT INSERT ON holdfast.bare TO holdfast_member")


def measure(
    server: BenchServer, database: str, person: str, store_name: str, *, many: tuple[int, ...] = (8,)
) -> list[Figure]:
    """Figures of one database: one writer, several at different sessions, several at one."""
    prepare(server, database)
    url = server.url(database, person)
    figures = [*_one_writer(url, store_name), _batched(url, store_name)]
    for writers in many:
        rates = concurrent_rates(url, writers, shared=False)
        figures.append(_figure(f"postgres: {writers} writers, a session each, {store_name}", rates))
    shared_rates = concurrent_rates(url, 8, shared=True)
    figures.append(
        _figure(f"postgres: 8 writers, one session, {store_name}", shared_rates, rule="", remark=_ONE_SESSION_REMARK)
    )
    return figures


_ONE_SESSION_REMARK = "; they take turns: each event follows from the one before"


def _figure(name: str, rates: Rates, rule: str = "≥ 0.6", remark: str = "") -> Figure:
    return Figure(f"{name}: rate against bare inserts", rates.ours / rates.bare, rule,
                  f"{rates.ours:,.0f} a second, bare {rates.bare:,.0f}{remark}")  # fmt: skip


def _one_writer(url: str, store_name: str) -> list[Figure]:
    seconds_by_name: dict[str, list[float]] = {"bare": [], "holdfast": []}
    processor_seconds: dict[str, list[float]] = {"bare": [0.0, 0.0], "holdfast": [0.0, 0.0]}
    with bare_insert(url) as insert, holdfast_append(url, "alone") as record:
        for call in (insert.call, record.call):
            timed(call, range(PER_ROUND))
        for round_ in range(1, ROUNDS + 1):
            for name, appending in (("bare", insert), ("holdfast", record)):
                begun_at = (time.process_time(), _processor_seconds(appending.backend))
                seconds_by_name[name] += timed(appending.call, range(round_ * PER_ROUND, (round_ + 1) * PER_ROUND))
                processor_seconds[name][0] += time.process_time() - begun_at[0]
                processor_seconds[name][1] += _processor_seconds(appending.backend) - begun_at[1]
    detail = ", ".join(
        f"{name} {micros(mean(seconds))} (median {micros(median(seconds))})"
        for name, seconds in seconds_by_name.items()
    )
    events = ROUNDS * PER_ROUND
    used = ", ".join(
        f"{name} {micros(client / events)} here and {micros(server / events)} at the server"
        for name, (client, server) in processor_seconds.items()
    )
    return [
        Figure(f"postgres: one writer, {store_name}: rate against bare inserts",
               mean(seconds_by_name["bare"]) / mean(seconds_by_name["holdfast"]), "≥ 0.6", detail),
        Figure(f"postgres: one writer, {store_name}: processor time at the server against bare inserts",
               processor_seconds["holdfast"][1] / max(processor_seconds["bare"][1], 1e-9), "", used),
    ]  # fmt: skip


def _processor_seconds(backend: int) -> float:
    """Processor time of a server process in seconds; 0 where there is no /proc."""
    try:
        fields = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _batched(url: str, store_name: str) -> Figure:
    """Several in each transaction, on both sides."""
    seconds_by_name: dict[str, list[float]] = {"bare": [], "holdfast": []}
    with (
        bare_insert(url, EVENTS_PER_TRANSACTION) as insert,
        holdfast_append(url, "at once", at_once=EVENTS_PER_TRANSACTION) as record,
    ):
        for round_ in range(ROUNDS):
            for name, appending in (("bare", insert), ("holdfast", record)):
                seconds = timed(
                    appending.call, range(round_ * PER_ROUND, (round_ + 1) * PER_ROUND, EVENTS_PER_TRANSACTION)
                )
                seconds_by_name[name] += seconds if round_ else []
    each = {name: mean(seconds) / EVENTS_PER_TRANSACTION for name, seconds in seconds_by_name.items()}
    return Figure(f"postgres: one writer, {EVENTS_PER_TRANSACTION} events a transaction, {store_name}:"
                  " rate against bare inserts",
                  each["bare"] / each["holdfast"], "",
                  ", ".join(f"{name} {micros(seconds)} an event" for name, seconds in each.items()))  # fmt: skip


# ── appenders ─────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def bare_insert(url: str, at_once: int = 1) -> Iterator[Appender]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor, session = connection.cursor(), int.from_bytes(os.urandom(6))

        def row(number: int) -> tuple[object, ...]:
            data = f'{{"text":"{text(number)}"}}'.encode()
            digest = os.urandom(32)
            return (
                session, "writer-of-the-bench-1", number, time.time_ns() // 1000, time.time_ns() // 10**6, 1,
                "note.added", "bench", None, None, digest, digest, os.urandom(32), data, digest[:16],
            )  # fmt: skip

        def insert(number: int) -> None:
            if at_once == 1:
                cursor.execute(_INSERT, row(number))
                return
            with connection.transaction():
                cursor.executemany(_INSERT, [row(position) for position in range(number, number + at_once)])

        yield Appender(insert, connection.info.backend_pid)


@contextmanager
def holdfast_append(url: str, installation: str, session: str | None = None, at_once: int = 1) -> Iterator[Appender]:
    store = open_store(PostgresAddress(url), installation, lambda: time.time_ns() // 1000)
    if session is None:
        session = start_session(url, installation)

    def record(number: int) -> None:
        with store.transaction(about=session) as transaction:
            for position in range(number, number + at_once):
                transaction.record(session, Draft(_data(position), time.time_ns() // 10**6, "bench"))

    try:
        yield Appender(record, store.run_query(lambda pipeline: pipeline.backend))
    finally:
        store.close()


def start_session(url: str, installation: str) -> str:
    """A new session with an agent at work."""
    store, session = open_store(PostgresAddress(url), installation, lambda: time.time_ns() // 1000), new_id()
    with store.transaction(about=session) as transaction:
        project = ProjectFacts(id="project-0001", name="service-1")
        for data in (
            SessionStarted(goal="Measure how long an append takes", project=project, device="bench"),
            AgentStarted(id="bench-1", type="bench"),
        ):
            transaction.record(session, Draft(data, time.time_ns() // 10**6, "bench"))
    store.close()
    return session


def _data(number: int) -> EventData:
    """The mix of a working session: mostly activity and progress, sometimes a text."""
    kind = number % 10
    if kind < 5:
        return MessageExchanged(role="user" if kind % 2 else "assistant")
    if kind < 7:
        return AgentProgressed(id="bench-1", progress=(number % 1000) / 1000)
    if kind < 9:
        return NoteAdded(text=text(number))
    return DecisionMade(chosen=text(number), options=("this", "that"), why="it is simpler")


# ── concurrent writers ─────────────────────────────────────────────────────────────────────────────────────────


def concurrent_rates(url: str, writers: int, *, shared: bool) -> Rates:
    """The rates of writers in up to eight processes, each with several connections, in turns with bare inserts."""
    context = multiprocessing.get_context("spawn")
    processes = min(8, writers)
    session = start_session(url, "shared") if shared else None
    ready, answers = context.Barrier(processes + 1), context.Queue()
    running = [
        context.Process(
            target=_write, args=(url, f"w{number}", writers // processes, session, ready, answers, TURNS, SECONDS)
        )
        for number in range(processes)
    ]
    for process in running:
        process.start()
    done = {"bare": 0, "ours": 0}
    try:
        ready.wait(120)  # all are connected
        for _ in range(TURNS):
            for kind in done:
                ready.wait(60)
                done[kind] += sum(answers.get(timeout=60 + SECONDS) for _ in running)
    finally:
        for process in running:
            process.join(30)
            if process.is_alive():
                process.terminate()
    seconds = SECONDS * TURNS
    return Rates(done["bare"] / seconds, done["ours"] / seconds)


def _write(
    url: str, installation: str, lines: int, session: str | None,
    ready: multiprocessing.synchronize.Barrier, answers: multiprocessing.Queue[int], turns: int, seconds: float,
) -> None:  # fmt: skip
    with ExitStack() as stack:
        kinds = [
            [stack.enter_context(bare_insert(url)).call for _ in range(lines)],
            [
                stack.enter_context(holdfast_append(url, f"{installation}-{line}", session)).call
                for line in range(lines)
            ],
        ]
        for calls in kinds:
            for call in calls:
                timed(call, range(10))
        pool = stack.enter_context(ThreadPoolExecutor(lines))
        ready.wait(120)
        first = 10
        for _ in range(turns):
            for calls in kinds:
                ready.wait(60)
                until = time.monotonic() + seconds
                counts = list(pool.map(lambda call: _until(call, first, until), calls))  # noqa: B023 (used at once)
                answers.put(sum(counts))
            first += 1_000_000


def _until(call: Append, number: int, until: float) -> int:
    count = 0
    while time.monotonic() < until:
        call(number + count)
        count += 1
    return count
