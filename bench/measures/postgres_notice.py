"""How soon others hear of a commit: from the moment the writer has it until a listener wakes up."""

from __future__ import annotations

import selectors
import threading
import time

import psycopg

from holdfast.core.events import MessageExchanged
from holdfast.store.interface import Draft
from measures.figures import Figure
from measures.postgres_append import begun
from measures.postgres_server import Ground, opened

CHANGES = 200


def measure(ground: Ground, database: str, person: str) -> list[Figure]:
    return [_heard(ground, database, person, listeners) for listeners in (1, 100)]


def _heard(ground: Ground, database: str, person: str, listeners: int) -> Figure:
    store = opened(ground.address(database, person), "teller", lambda: time.time_ns() // 1000)
    session = begun(ground.url(database, person), "teller")
    ear = store.listen()
    assert ear is not None
    others = [ground.connect(database, person) for _ in range(listeners - 1)]
    for line in others:
        line.execute(f"LISTEN holdfast_{store.vault}")
    stop = threading.Event()
    crowd = threading.Thread(target=_crowd, args=(others, stop))
    crowd.start()
    while ear.wait(0.2):
        pass
    taken = []
    for number in range(CHANGES):
        times: list[float] = []
        listening = threading.Thread(target=lambda: times.append(time.perf_counter() if ear.wait(5) else -1.0))  # noqa: B023
        listening.start()
        time.sleep(0.002)
        with store.transaction() as transaction:
            transaction.record(session, Draft(MessageExchanged(), number, "bench"))
        committed = time.perf_counter()
        listening.join()
        taken.append(max(times[0] - committed, 0.0) * 1e3)
    stop.set()
    crowd.join()
    for line in others:
        line.close()
    ear.close()
    store.close()
    taken.sort()
    middle, last = taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
    name = f"postgres: heard after a commit, {listeners} listener{'s' * (listeners > 1)}: ms, the slowest of 100"
    return Figure(name, last, "", f"the middle one {middle:.2f} ms")


def _crowd(lines: list[psycopg.Connection[tuple[object, ...]]], stop: threading.Event) -> None:
    """Others that listen: all of them take what they are told, as open dashboards do."""
    with selectors.DefaultSelector() as waiting:
        for line in lines:
            waiting.register(line.fileno(), selectors.EVENT_READ, line)
        while not stop.is_set():
            for key, _ in waiting.select(0.05):
                pgconn = key.data.pgconn
                pgconn.consume_input()
                while pgconn.notifies() is not None:
                    pass
