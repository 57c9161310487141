"""Histories of several writers, some of them with arbitrary clocks, and a naive model of their order."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from typing import Final

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json, canonical_json, digest
from holdfast.core.clock import MAX_CLOCK, adjusted_clocks, log_position, tick
from holdfast.core.envelope import Event, StreamHead, make_event
from holdfast.core.fold import fold, skip_duplicate
from holdfast.core.state import State

SESSION: Final = "0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b"
START: Final = 1_800_000_000_000  # ms
# Clocks that a store accepts; `fold` itself accepts any.
ABSURD: Final = (
    MAX_SAFE_INTEGER,
    MAX_SAFE_INTEGER - 1,
    MAX_CLOCK - 1,
    MAX_CLOCK,
    MAX_CLOCK + 1,
    MAX_CLOCK + 2,
    1,
    2,
    START * 1000,
)
UNSTORABLE: Final = (2**63 - 1, 2**64, 0, -1, -(2**63))


def model_clocks(events: Iterable[Event]) -> dict[str, int]:
    """The effective clock of every event, raised until nothing changes.

    A second implementation of the rule in `core.clock`.
    """
    known = {event.hash: event for event in events}
    clocks = {name: 1 if event.clock > MAX_CLOCK else event.clock for name, event in known.items()}
    changed = True
    while changed:
        changed = False
        for name, event in known.items():
            for cause in [event.prev, *[head.hash for head in event.seen]]:
                if cause in known and clocks[name] <= clocks[cause]:
                    clocks[name], changed = clocks[cause] + 1, True
    return clocks


def model_order(events: Iterable[Event]) -> list[Event]:
    known = {event.hash: event for event in events}
    clocks = model_clocks(known.values())
    return sorted(known.values(), key=lambda event: (clocks[event.hash], event.writer, event.seq, event.hash))


def ancestors(event: Event, events: Collection[Event]) -> set[str]:
    """The hashes of all events that this one comes after, directly or not."""
    known = {known_event.hash: known_event for known_event in events}
    reached: set[str] = set()
    waiting = [event]
    while waiting:
        current = waiting.pop()
        for cause in (current.prev, *(head.hash for head in current.seen)):
            if cause in known and cause not in reached:
                reached.add(cause)
                waiting.append(known[cause])
    return reached


class Author:
    """One writer. An honest one ticks and names what it has seen, as the journal does; others write any clock."""

    def __init__(self, writer: str, *, honest: bool, now: int = START) -> None:
        self.writer = writer
        self.honest = honest
        self.now = now
        self.known: dict[str, Event] = {}
        self._head: StreamHead | None = None

    def receive(self, events: Iterable[Event]) -> None:
        self.known.update({event.hash: event for event in events})

    def state(self) -> State:
        return fold(self.known.values(), SESSION)

    def _heads(self) -> State:
        """The part of the state that the journal needs in order to append."""
        state, clocks = State(session=SESSION), adjusted_clocks(self.known.values())
        for event in sorted(self.known.values(), key=lambda event: log_position(event, clocks)):
            skip_duplicate(state, event, clocks.get(event.hash))
        return state

    def write(self, chance: random.Random, clocks: Collection[int], key: str | None = None) -> Event:
        from holdfast.store.journal import _unseen_heads

        self.now += chance.randrange(3)
        if self.honest:
            state = self._heads()
            clock = tick(state.last[0] if state.last else 0, self.now * 1000)
            seen = _unseen_heads(state, self.writer, clock)
        else:
            others = [event for event in self.known.values() if event.writer != self.writer]
            clock = chance.choice([*clocks, *(event.clock for event in self.known.values())])
            seen = tuple(
                sorted({other.head for other in chance.sample(others, k=min(len(others), chance.randrange(3)))})
            )
        kind, data = chance.choice(KINDS)
        if not self._head:
            kind, data = "session.started", STARTED
        event = make_event(
            session=SESSION, writer=self.writer, seq=self._head.seq + 1 if self._head else 1,
            prev=self._head.hash if self._head else None, clock=clock, at=self.now, actor="ada", type=kind, version=1,
            data=canonical_json({**data, "goal": f"goal {len(self.known)}"} if "goal" in data else data),
            salt=digest(f"{self.writer} {len(self.known)}".encode())[:16].encode(), seen=seen, key=key,
        )  # fmt: skip
        self.known[event.hash] = event
        self._head = event.head
        return event


STARTED: Final[dict[str, Json]] = {"goal": "", "device": "d", "project": {"id": "p", "name": "shop", "path": "/shop"}}
KINDS: Final[tuple[tuple[str, dict[str, Json]], ...]] = (
    ("session.edited", {"goal": ""}),
    ("session.edited", {"goal": ""}),
    ("session.paused", {}),
    ("session.resumed", {}),
    ("note.added", {"text": "x"}),
)


def random_history(
    chance: random.Random, *, events: int, clocks: Collection[int] = ABSURD, authors: int = 4
) -> list[Event]:
    """Several writers append in random order, each having received a random part of the others' events."""
    writers = [Author(f"w{number}", honest=number % 2 == 0) for number in range(chance.randint(2, authors))]
    keys = [None, None, None, "k1", "k2"]
    everything: list[Event] = []
    for _ in range(events):
        author = chance.choice(writers)
        author.receive(event for event in everything if chance.random() < 0.4)
        key = chance.choice(keys)
        if key is not None and author.honest and any(event.key == key for event in author.known.values()):
            key = None
        everything.append(author.write(chance, clocks, key))
    return everything
