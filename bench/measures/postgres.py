"""A team's store at scale: ten million events on one PostgreSQL, beside a few thousand on the same server.

Size: HOLDFAST_BENCH_EVENTS. The server is durable (fsync, synchronous_commit) and set up as usual.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from holdfast.store.postgres import admin
from measures import postgres_append, postgres_load, postgres_notice, postgres_reading
from measures.figures import Figure
from measures.postgres_server import Ground, ground, opened

EVENTS = int(os.environ.get("HOLDFAST_BENCH_EVENTS", "10000000"))
SESSIONS = max(EVENTS // postgres_load.EVENTS_EACH, 100)
PEOPLE = [f"person{number:03}" for number in range(100)]
READER, OWN = "ada", 60  # somebody with as many sessions in the small store as in the large one
WRITER = "ben"  # somebody else: what is written must not change what is read
PARTS = 16
_SIZES = (
    "SELECT (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
    " WHERE inhparent = 'holdfast.events'::regclass),"
    " (SELECT sum(pg_indexes_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass),"
    " (SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r')"
)


def measure(scratch: Path) -> list[Figure]:
    with ground() as place:
        return [*_filled(place), *_measured(scratch, place), *_divided(place), *_shared(place)]


def _filled(place: Ground) -> list[Figure]:
    for name in ("small", "large"):
        place.database(name, READER, WRITER, *PEOPLE)
    took = postgres_load.fill(place.url("large"), place.vault("large"), PEOPLE, SESSIONS)
    for name, first in (("small", 1), ("large", SESSIONS + 1)):
        postgres_load.fill(place.url(name), place.vault(name), [READER], OWN, first=first)
    wrong = 0
    for person in (READER, PEOPLE[7]):
        store = opened(place.address("large", person), "checker", lambda: time.time_ns() // 1000)
        wrong += sum(1 for _ in store.check())
        store.close()
    events = (SESSIONS + OWN) * postgres_load.EVENTS_EACH
    log, indexes, everything = (int(size) for size in place.ask("large", _SIZES)[0])
    return [
        Figure(f"postgres: {events:,} events loaded (seconds)", took, "", "COPY, two processes, indexes in place"),
        Figure("postgres: findings of `check` in a sample of sessions", wrong, "= 0"),
        Figure("postgres: bytes an event, the log with its indexes", log / events, "",
               f"{indexes / events:.0f} of them indexes"),
        Figure("postgres: bytes an event, everything", everything / events, "", f"{everything / 2**30:.1f} GiB"),
    ]  # fmt: skip


def _measured(scratch: Path, place: Ground) -> list[Figure]:
    figures = postgres_append.measure(place, "small", WRITER, "small store")
    figures += postgres_append.measure(place, "large", WRITER, "large store", many=(8, 64))
    rare = {"small": "ticket0000042", "large": f"ticket{SESSIONS + 42:07}"}
    figures += postgres_reading.measure(place, "small", "large", READER, rare)
    figures += postgres_reading.commands(scratch / "postgres", place, "small", "large", READER)
    return figures + postgres_notice.measure(place, "large", WRITER)


def _shared(place: Ground) -> list[Figure]:
    """For somebody who sees much: a fiftieth of all sessions is everybody's."""
    with place.connect("large") as line:
        line.execute("SET session_replication_role = replica")  # as if each owner had done it
        line.execute("UPDATE holdfast.sessions SET everyone = 'read' WHERE ref % 50 = 7")
        line.execute("VACUUM ANALYZE holdfast.sessions")
    return postgres_reading.seen(place, "large", PEOPLE[7], f"ticket{7:07}")


def _divided(place: Ground) -> list[Figure]:
    """The same in parts; and how long dividing takes."""
    place.ask("large", "DROP TABLE holdfast.bare")
    begin = time.perf_counter()
    admin.divide(place.address("large"), PARTS)
    took = time.perf_counter() - begin
    figures = [Figure(f"postgres: dividing {EVENTS:,} events into {PARTS} parts (seconds)", took, "")]
    figures += postgres_append.measure(place, "large", WRITER, f"large store in {PARTS} parts")
    rare = {"small": "ticket0000042", "large": f"ticket{SESSIONS + 42:07}"}
    for figure in postgres_reading.measure(place, "small", "large", READER, rare)[:3]:
        figures.append(figure._replace(name=f"{figure.name}, in {PARTS} parts", rule=""))
    return figures
