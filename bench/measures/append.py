"""Measures a durable append through the library against a bare insert and two peers, in turns within one run.

Everything is included: hashing, redaction, fold, search index, snapshots, reminders. All four use SQLite in WAL mode
with synchronous=FULL on the same disk, and take turns, so that other load affects all of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast import Keeper
from measures.figures import Figure, mean, micros, timed

ROUNDS, PER_ROUND = 20, 100
_WORDS = ["retry", "logic", "parser", "token", "refresh", "session", "cache", "index", "writer", "stream", "snapshot"]


def text(number: int) -> str:
    return " ".join(_WORDS[(number * step) % len(_WORDS)] for step in (1, 3, 5, 7)) + f" in module{number % 97}"


def measure(scratch: Path) -> list[Figure]:
    seconds_by_name: dict[str, list[float]] = {}
    with (
        bare_insert(scratch) as insert, holdfast_append(scratch) as record, dbos(scratch) as step,
        langgraph(scratch, conversation()) as put, langgraph(scratch, {}) as put_line,
    ):  # fmt: skip
        calls: dict[str, Callable[[int], object]] = {
            "bare": insert, "holdfast": record, "langgraph": put, "langgraph, one line": put_line, "dbos": step,
        }  # fmt: skip
        for round_ in range(ROUNDS):
            for name, call in calls.items():
                rounds = PER_ROUND if name != "dbos" else PER_ROUND // 10
                seconds_by_name.setdefault(name, []).extend(
                    timed(call, range(round_ * rounds, round_ * rounds + rounds))
                )
    rate = {name: 1 / mean(seconds) for name, seconds in seconds_by_name.items()}
    detail = ", ".join(f"{name} {micros(mean(seconds))}" for name, seconds in seconds_by_name.items())
    return [
        Figure("append: rate against a bare insert", rate["holdfast"] / rate["bare"], "≥ 0.5", detail),
        Figure(
            "append: rate against langgraph put",
            rate["holdfast"] / rate["langgraph"],
            "≥ 1",
            "a checkpoint of ten messages",
        ),
        Figure(
            "append: rate against langgraph put of a line",
            rate["holdfast"] / rate["langgraph, one line"],
            "",
            "for the record: a checkpoint that holds one short text and no state",
        ),
        Figure("append: rate against dbos step", rate["holdfast"] / rate["dbos"], "≥ 1"),
    ]


@contextmanager
def bare_insert(scratch: Path) -> Iterator[Callable[[int], object]]:
    connection = apsw.Connection(str(scratch / "bare.db"))
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE events (ord INTEGER PRIMARY KEY, type TEXT, hash BLOB, data BLOB)")

    def insert(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        data = f'{{"text":"{text(number)}"}}'.encode()
        connection.execute("INSERT INTO events (type, hash, data) VALUES (?, ?, ?)", ("note.added", bytes(96), data))
        connection.execute("COMMIT")

    yield insert
    connection.close()


@contextmanager
def holdfast_append(scratch: Path) -> Iterator[Callable[[int], object]]:
    """Appends the mix of a working session: mostly activity and progress, sometimes a text."""
    (scratch / "project").mkdir(exist_ok=True)
    with Keeper.open(str(scratch / "project"), home=str(scratch / "home")) as keeper:
        session = keeper.start("Measure how long an append takes")
        agent = session.agent("bench-1", type="bench")

        def record(number: int) -> None:
            kind = number % 10
            if kind < 5:
                session.message("user" if kind % 2 else "assistant")
            elif kind < 7:
                agent.progress((number % 1000) / 1000)
            elif kind < 9:
                session.note(text(number))
            else:
                session.decide(text(number), options=["this", "that"], why="it is simpler")

        yield record


def conversation() -> dict[str, object]:
    """The contents of an agent's checkpoint: all messages so far, where an event has only what is new."""
    from langchain_core.messages import AIMessage, HumanMessage

    return {"messages": [(HumanMessage if n % 2 else AIMessage)(text(n)) for n in range(10)]}


@contextmanager
def langgraph(scratch: Path, state: dict[str, object]) -> Iterator[Callable[[int], object]]:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(scratch / f"langgraph-{len(state)}.db", check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    saver = SqliteSaver(connection)
    saver.setup()
    config: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}

    def put(number: int) -> None:
        nonlocal config
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {**state, "note": text(number)}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, {})

    yield put
    connection.close()


@contextmanager
def dbos(scratch: Path) -> Iterator[Callable[[int], object]]:
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{scratch}/dbos.db", "log_level": "CRITICAL"})

    @DBOS.step()
    def step(number: int) -> str:
        return text(number)

    @DBOS.workflow()
    def ten_steps(first: int) -> None:
        for number in range(first, first + 10):
            step(number)

    DBOS.launch()

    def run_step(number: int) -> None:
        # A workflow of ten steps also records its start and end; it counts as ten appends.
        if number % 10 == 0:
            ten_steps(number)

    yield run_step
    DBOS.destroy()
