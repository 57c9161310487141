"""Measures a team's store of ten million events on PostgreSQL against one of a few thousand on the same server.

Size: HOLDFAST_BENCH_EVENTS. The server is durable (fsync, synchronous_commit) and set up as usual.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from holdfast.store.postgres import admin
from measures import postgres_append, postgres_load, postgres_notice, postgres_reading
from measures.figures import Figure
from measures.postgres_server import BenchServer, open_store, running_server

EVENTS = int(os.environ.get("HOLDFAST_BENCH_EVENTS", "10000000"))
SESSIONS = max(EVENTS // postgres_load.EVENTS_EACH, 100)
PEOPLE = [f"person{number:03}" for number in range(100)]
READER, OWN_SESSIONS = "ada", 60  # somebody with as many sessions in the small store as in the large one
WRITER = "ben"  # somebody else: what is written must not change what is read
PARTITIONS = 16
_SIZES = (
    "SELECT (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
    " WHERE inhparent = 'holdfast.events'::regclass),"
    " (SELECT sum(pg_indexes_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass),"
    " (SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r')"
)


def measure(scratch: Path) -> list[Figure]:
    with running_server() as server:
        return [
            *_fill(server),
            *_measure_stores(scratch, server),
            *_measure_partitioned(server),
            *_measure_shared(server),
        ]


def _fill(server: BenchServer) -> list[Figure]:
    for name in ("small", "large"):
        server.database(name, READER, WRITER, *PEOPLE)
    seconds = postgres_load.fill(server.url("large"), server.vault("large"), PEOPLE, SESSIONS)
    for name, first in (("small", 1), ("large", SESSIONS + 1)):
        postgres_load.fill(server.url(name), server.vault(name), [READER], OWN_SESSIONS, first=first)
    findings = 0
    for person in (READER, PEOPLE[7]):
        store = open_store(server.address("large", person), "checker", lambda: time.time_ns() // 1000)
        findings += sum(1 for _ in store.check())
        store.close()
    events = (SESSIONS + OWN_SESSIONS) * postgres_load.EVENTS_EACH
    log, indexes, everything = (int(size) for size in server.ask("large", _SIZES)[0])
    return [
        Figure(f"postgres: {events:,} events loaded (seconds)", seconds, "", "COPY, two processes, indexes in place"),
        Figure("postgres: findings of `check` in a sample of sessions", findings, "= 0"),
        Figure("postgres: bytes an event, the log with its indexes", log / events, "",
               f"{indexes / events:.0f} of them indexes"),
        Figure("postgres: bytes an event, everything", everything / events, "", f"{everything / 2**30:.1f} GiB"),
    ]  # fmt: skip


def _measure_stores(scratch: Path, server: BenchServer) -> list[Figure]:
    figures = postgres_append.measure(server, "small", WRITER, "small store")
    figures += postgres_append.measure(server, "large", WRITER, "large store", many=(8, 64))
    rare = {"small": "ticket0000042", "large": f"ticket{SESSIONS + 42:07}"}
    figures += postgres_reading.measure(server, "small", "large", READER, rare)
    figures += postgres_reading.commands(scratch / "postgres", server, "small", "large", READER)
    return figures + postgres_notice.measure(server, "large", WRITER)


def _measure_shared(server: BenchServer) -> list[Figure]:
    """Queries of a person who sees many sessions: a fiftieth of them is shared with everybody."""
    with server.connect("large") as connection:
        connection.execute("SET session_replication_role = replica")  # as if each owner had done it
        connection.execute("UPDATE holdfast.sessions SET everyone = 'read' WHERE ref % 50 = 7")
        connection.execute("VACUUM ANALYZE holdfast.sessions")
    return postgres_reading.measure_visible(server, "large", PEOPLE[7], f"ticket{7:07}")


def _measure_partitioned(server: BenchServer) -> list[Figure]:
    """The same after partitioning, and how long that takes."""
    server.ask("large", "DROP TABLE holdfast.bare")
    begin = time.perf_counter()
    admin.repartition(server.address("large"), PARTITIONS)
    seconds = time.perf_counter() - begin
    figures = [Figure(f"postgres: dividing {EVENTS:,} events into {PARTITIONS} parts (seconds)", seconds, "")]
    figures += postgres_append.measure(server, "large", WRITER, f"large store in {PARTITIONS} parts")
    rare = {"small": "ticket0000042", "large": f"ticket{SESSIONS + 42:07}"}
    for figure in postgres_reading.measure(server, "small", "large", READER, rare)[:3]:
        figures.append(figure._replace(name=f"{figure.name}, in {PARTITIONS} parts", rule=""))
    return figures
