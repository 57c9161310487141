"""Measures the notification of a commit: from the writer's return until a listener wakes up."""

from __future__ import annotations

import selectors
import threading
import time

import psycopg

from holdfast.core.events import MessageExchanged
from holdfast.store.interface import Draft
from measures.figures import Figure
from measures.postgres_append import start_session
from measures.postgres_server import BenchServer, open_store

CHANGES = 200


def measure(server: BenchServer, database: str, person: str) -> list[Figure]:
    return [_notice_delay(server, database, person, listeners) for listeners in (1, 100)]


def _notice_delay(server: BenchServer, database: str, person: str, listeners: int) -> Figure:
    store = open_store(server.address(database, person), "teller", lambda: time.time_ns() // 1000)
    session = start_session(server.url(database, person), "teller")
    listener = store.listen()
    assert listener is not None
    others = [server.connect(database, person) for _ in range(listeners - 1)]
    for connection in others:
        connection.execute(f"LISTEN holdfast_{store.vault}")
    stop = threading.Event()
    draining = threading.Thread(target=_drain_listeners, args=(others, stop))
    draining.start()
    while listener.wait(0.2):
        pass
    milliseconds = []
    for number in range(CHANGES):
        times: list[float] = []
        listening = threading.Thread(target=lambda: times.append(time.perf_counter() if listener.wait(5) else -1.0))  # noqa: B023
        listening.start()
        time.sleep(0.002)
        with store.transaction() as transaction:
            transaction.record(session, Draft(MessageExchanged(), number, "bench"))
        committed = time.perf_counter()
        listening.join()
        milliseconds.append(max(times[0] - committed, 0.0) * 1e3)
    stop.set()
    draining.join()
    for connection in others:
        connection.close()
    listener.close()
    store.close()
    milliseconds.sort()
    middle, last = milliseconds[len(milliseconds) // 2], milliseconds[int(len(milliseconds) * 0.99)]
    name = f"postgres: heard after a commit, {listeners} listener{'s' * (listeners > 1)}: ms, the slowest of 100"
    return Figure(name, last, "", f"the middle one {middle:.2f} ms")


def _drain_listeners(connections: list[psycopg.Connection[tuple[object, ...]]], stop: threading.Event) -> None:
    """Others that listen: all of them take what they are told, as open dashboards do."""
    with selectors.DefaultSelector() as waiting:
        for connection in connections:
            waiting.register(connection.fileno(), selectors.EVENT_READ, connection)
        while not stop.is_set():
            for key, _ in waiting.select(0.05):
                pgconn = key.data.pgconn
                pgconn.consume_input()
                while pgconn.notifies() is not None:
                    pass
