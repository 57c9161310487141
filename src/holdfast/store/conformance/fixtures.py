"""Fixtures for the tests of a store: sessions, writers, a clock, and comparison of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from holdfast.core.canonical import Json, canonical_json
from holdfast.core.clock import adjusted_clocks, log_position
from holdfast.core.envelope import Event, find_problem, make_event
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    AliasGiven,
    DeviceJoined,
    EventData,
    NoteAdded,
    ProjectFacts,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    TaskAdded,
)
from holdfast.core.fold import fold
from holdfast.core.state import freeze
from holdfast.store.interface import Draft, Filter, Store

ANNA, BEN, CARO = "a" * 20, "b" * 20, "c" * 20
SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "11119999-2222-4333-8444-555555555555"
THIRD = "77777777-2222-4333-8444-555555555555"
PROJECT = ProjectFacts(id="project-1", name="shop", path="/home/me/shop")
START = 1_800_000_000_000  # ms
DAY = 86_400_000


class Ticks:
    """A wall clock that a test sets: microseconds, a millisecond more with every reading."""

    def __init__(self, micros: int = START * 1000) -> None:
        self.micros = micros

    def __call__(self) -> int:
        self.micros += 1000
        return self.micros


def started(goal: str = "Build the shop", **more: object) -> SessionStarted:
    facts: dict[str, object] = {"project": PROJECT, "device": "laptop", **more}
    return SessionStarted(goal=goal, **facts)  # type: ignore[arg-type]


def draft(data: EventData, at: int = START, *, key: str | None = None, actor: str = "anna") -> Draft:
    return Draft(data, at, actor, key)


def put(store: Store, session: str, *data: EventData, at: int = START, key: str | None = None) -> list[Event]:
    """Record in a separate transaction; returns the events that were new."""
    with store.transaction(about=session) as transaction:
        made = [transaction.record(session, draft(item, at, key=key)) for item in data]
    return [event for event in made if event is not None]


def take(store: Store, events: Iterable[Event]) -> int:
    with store.transaction() as transaction:
        return transaction.receive(events)


def everything(store: Store) -> dict[str, object]:
    """All that a store shows, to compare one with another, or before with after."""
    content: dict[str, object] = {"rows": store.rows(Filter()), "sessions": list(store.sessions())}
    for session in store.sessions():
        state = store.state(session)
        assert state is not None
        content[session] = (list(store.events(session)), freeze(state), store.find(session))
    for word in ("shop", "paint", "blue", "secret", "note"):
        content[f"search {word}"] = [row.id for row in store.rows(Filter(search=word))]
    for alias in ("alias-one", "alias-two"):
        content[f"find {alias}"] = store.find(alias)
    return content


def assert_sound(store: Store) -> None:
    """Every state is the fold of its events, every chain is valid, and the store's own check agrees."""
    for session in store.sessions():
        events = list(store.events(session))
        clocks = adjusted_clocks(events)
        assert events == sorted(events, key=lambda event: log_position(event, clocks))
        assert store.state(session) == fold(events, session)
        assert [find_problem(event) for event in events] == [None] * len(events)
    assert [finding for finding in store.check() if finding.check != "clocks"] == []


def foreign(
    writer: str, seq: int, data: EventData | Json, *, clock: int, prev: Event | None = None, kind: str = "note.added",
    session: str = SESSION, key: str | None = None, version: int = 1, at: int = START, seen: Iterable[Event] = (),
) -> Event:  # fmt: skip
    """An event as another program could have written it."""
    written = canonical_json(msgspec.to_builtins(data) if isinstance(data, msgspec.Struct) else data)
    return make_event(
        session=session, writer=writer, seq=seq, prev=prev.hash if prev else None, clock=clock, at=at, actor="ben",
        type=kind, version=version, data=written, salt=bytes(16), key=key,
        seen=tuple(sorted({event.head for event in seen})),
    )  # fmt: skip


def note(text: str) -> NoteAdded:
    return NoteAdded(text=text)


class StoreFixture:
    # Whether several machines share one store of this kind, each with separate places and memory.
    shared: ClassVar[bool] = False
    place: Path
    _opened: list[Store]

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────────────

    def open_store(
        self, name: str = "one", *, writer: str = ANNA, wall: Callable[[], int] | None = None, machine: str = "one"
    ) -> Store:
        """Open the store of this name, made on first use. Opened again it is a second connection to the same.

        `machine` names the installation that opens it. A store that is not `shared` is opened by one only.
        """
        raise NotImplementedError

    def make_newer(self, name: str) -> None:
        """Change the closed store so that it looks as if a later version of the program had written it.

        Asked for one name only, "newer", so that it can be a separate store: it stays as it is after the test.
        """
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _around(self, tmp_path: Path) -> Iterator[None]:
        self.place, self._opened = tmp_path, []
        yield
        for store in self._opened:
            store.close()

    def store(
        self, name: str = "one", *, writer: str = ANNA, wall: Callable[[], int] | None = None, machine: str = "one"
    ) -> Store:
        store = self.open_store(name, writer=writer, wall=wall or Ticks(), machine=machine)
        self._opened.append(store)
        return store

    def reopened(self, store: Store, name: str = "one", *, writer: str = ANNA) -> Store:
        self._opened.remove(store)
        store.close()
        return self.store(name, writer=writer)

    def history(self) -> list[Event]:
        """Three writers at work on one session: together, apart, and with equal keys."""
        anna, ben, caro = self.store("ha"), self.store("hb", writer=BEN), self.store("hc", writer=CARO)
        put(anna, SESSION, started(aliases={"craft": "alias-one"}))
        for number in range(20):
            put(anna, SESSION, note(f"note {number} of anna"), at=START + number)
        take(ben, anna.events(SESSION))
        put(ben, SESSION, DeviceJoined(device="desk"), SessionEdited(goal="Paint the shop"), at=START + 50)
        put(anna, SESSION, SessionEdited(goal="Sell the shop"), SessionPaused(reason="lunch"), at=START + 60)
        put(anna, SESSION, note("reported by a hook"), key="hook:1", at=START + 61)
        put(ben, SESSION, note("reported by a hook"), key="hook:1", at=START + 62)
        put(ben, SESSION, AgentStarted(id="one", type="tester"), TaskAdded(id="t1", text="blue paint"))
        take(caro, [*anna.events(SESSION), *ben.events(SESSION)])
        put(caro, SESSION, DeviceJoined(device="phone"), SessionResumed(), AliasGiven(format="craft", id="alias-two"))
        put(ben, SESSION, AgentCompleted(id="one", summary="painted"), at=START + 80)
        for number in range(30):
            put(caro, SESSION, note(f"note {number} of caro"), at=START + 100 + number)
        put(caro, OTHER, started("Another", continues=SESSION), at=START + 5)
        events = [*anna.events(SESSION), *ben.events(SESSION), *caro.events(SESSION), *caro.events(OTHER)]
        return list({event.hash: event for event in events}.values())
