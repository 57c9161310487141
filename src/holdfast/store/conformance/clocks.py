"""Clocks: within a session they only grow, and a clock that a peer writes affects nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.clock import MAX_CLOCK, adjusted_clocks, log_position
from holdfast.core.envelope import Event
from holdfast.core.events import SessionEdited, SessionPaused
from holdfast.core.fold import fold
from holdfast.core.registers import current_value, disputes
from holdfast.core.view import status_of
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    CARO,
    DAY,
    OTHER,
    SESSION,
    START,
    THIRD,
    StoreFixture,
    Ticks,
    assert_sound,
    draft,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import Store

_ABSURD = (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER - 1, MAX_CLOCK + 2, MAX_CLOCK + 1, MAX_CLOCK, MAX_CLOCK - 1, 5, 1)
_GOAL = "session.edited"


def _agrees(store: Store, session: str = SESSION) -> None:
    """The state is the fold of the events, which are in fold order; reading from a clock on gives the rest."""
    events = list(store.events(session))
    clocks = adjusted_clocks(events)
    assert events == sorted(events, key=lambda event: log_position(event, clocks))
    assert store.state(session) == fold(events, session)
    since = log_position(events[len(events) // 2], clocks)[0]
    rest = [event for event in events if log_position(event, clocks)[0] >= since]
    assert list(store.events(session, since=since)) == rest


def _goal(store: Store, session: str = SESSION) -> object:
    state = store.state(session)
    assert state is not None
    assert not [dispute for dispute in disputes(state) if dispute.chosen is None]
    return current_value(state.registers["goal"])


class Clocks(StoreFixture):
    def test_clocks_only_grow_within_a_session(self) -> None:
        """Whatever the machine's clock does, every event has a larger clock than all before it in its session."""
        wall = Ticks()
        store = self.store(wall=wall)
        steps = ((SESSION, 0), (OTHER, -DAY * 1000), (SESSION, -(10**15)), (OTHER, 5), (SESSION, 10**14))
        for session, micros in steps:
            wall.micros += micros
            put(store, session, note("x"), note("y"))
        store = self.reopened(store)
        put(store, OTHER, note("z"))
        for session in (SESSION, OTHER):
            clocks = [event.clock for event in store.events(session)]
            assert clocks == sorted(set(clocks))
            assert [event.seq for event in store.events(session)] == list(range(1, len(clocks) + 1))
        assert_sound(store)

    def test_a_received_event_pushes_the_clock_of_its_own_session_only(self) -> None:
        """An event recorded after another writer's event arrived comes after it; other sessions do not change."""
        store = self.store()
        ahead = (START + DAY) * 1000
        put(store, SESSION, started())
        assert take(store, [foreign(BEN, 1, note("early bird"), clock=ahead)]) == 1
        assert put(store, OTHER, started("Other"))[0].clock < ahead
        store = self.reopened(store)
        assert put(store, SESSION, note("later"))[0].clock > ahead
        with store.transaction() as transaction:
            transaction.receive([foreign(BEN, 1, note("further"), clock=ahead * 2, session=THIRD)])
            made = transaction.record(SESSION, draft(note("y")))
            assert made is not None
            assert made.clock < ahead * 2
            made = transaction.record(THIRD, draft(note("y")))
            assert made is not None
            assert made.clock > ahead * 2
        assert_sound(store)

    @pytest.mark.parametrize("clock", _ABSURD)
    @pytest.mark.parametrize("writer", ["0" * 20, "f" * 20])
    def test_an_absurd_clock_keeps_nothing_from_taking_effect(self, writer: str, clock: int) -> None:
        """After such an event, edits and pauses take effect without a conflict, also after reopening."""
        store = self.store()
        for session in (SESSION, OTHER):
            put(store, session, started(), *(note(str(number)) for number in range(40)))
        head = list(store.events(SESSION))[-1]
        joined = foreign(writer, 1, {"device": "guest"}, clock=clock, kind="device.joined", seen=[head])
        edited = foreign(writer, 2, {"goal": "Theirs"}, clock=clock, kind=_GOAL, prev=joined)
        take(store, [joined])
        take(store, [edited])
        assert _goal(store) == "Theirs"
        for session in (SESSION, OTHER):
            for number in range(3):
                put(store, session, SessionEdited(goal=f"Mine {number}"))
                assert _goal(store, session) == f"Mine {number}"
                store = self.reopened(store)
                assert _goal(store, session) == f"Mine {number}"
            put(store, session, SessionPaused())
            state = store.state(session)
            assert state is not None
            assert status_of(state) == "paused"
            _agrees(store, session)
        assert_sound(store)
        assert_sound(self.reopened(store))

    def test_a_clock_at_the_bound_does_not_make_appending_read_everything(self) -> None:
        """Beyond the bound, events recorded here keep their clocks, and snapshots are still made and used."""
        store = self.store()
        put(store, SESSION, started())
        take(store, [foreign(BEN, 1, note("at the bound"), clock=MAX_CLOCK)])
        for number in range(100):
            put(store, SESSION, note(str(number)))
        state = store.state(SESSION)
        assert state is not None
        assert state.moved == {}
        assert [event.clock for event in store.events(SESSION)][-1] > MAX_CLOCK + 90
        _agrees(self.reopened(store))

    def test_an_event_that_was_seen_before_it_arrived_comes_first(self) -> None:
        """Its clock is larger than those of events that name it: they move behind it once it has arrived."""
        store = self.store()
        put(store, SESSION, started(), *(note(str(number)) for number in range(40)))
        last = list(store.events(SESSION))[-1].clock
        cause = foreign(BEN, 1, {"goal": "Cause"}, clock=MAX_CLOCK - 5, kind=_GOAL)
        effect = foreign(CARO, 1, {"goal": "Effect"}, clock=last + 7, kind=_GOAL, seen=[cause])
        take(store, [effect])
        put(store, SESSION, SessionEdited(goal="Mine"))
        take(store, [cause])
        assert [event.hash for event in store.events(SESSION)][-3:-1] == [cause.hash, effect.hash]
        assert _goal(store) == "Mine"
        assert_sound(self.reopened(store))

    def test_an_absurd_clock_does_not_outdo_the_first_event_with_a_key(self) -> None:
        """Of events with equal keys one counts, the same on every device, in any order of arrival."""
        made = [
            foreign(BEN, 1, note("first"), clock=START * 1000 + 5, key="k"),
            foreign(CARO, 1, note("absurd"), clock=MAX_SAFE_INTEGER, key="k"),
        ]
        for where, arriving in (("a", made), ("b", made[::-1])):
            store = self.store(where)
            take(store, [foreign(ANNA, 1, started(), clock=START * 1000, kind="session.started")])
            for event in arriving:
                take(store, [event])
            state = store.state(SESSION)
            assert state is not None
            assert [item.text for item in state.notes] == ["first"]
            assert_sound(store)

    @pytest.mark.parametrize("seed", range(4))
    def test_absurd_clocks_in_any_order_and_in_pieces_give_one_state(self, seed: int) -> None:
        """Three stores receive the same events in different orders: each is its fold, in the end all agree."""
        chance = random.Random(seed)  # noqa: S311 (nothing secret)
        stores = [self.store(f"s{number}", writer=writer) for number, writer in enumerate((ANNA, BEN, CARO))]
        hostile = _hostile(chance, 12)
        put(stores[0], SESSION, started())
        arrivals = [chance.sample(hostile, k=len(hostile)) for _ in stores]
        for step in range(12):
            for store, due in zip(stores, arrivals, strict=True):
                other = chance.choice(stores)
                if other is not store and other.state(SESSION) is not None:
                    take(store, other.events(SESSION))
                take(store, due[:2])
                del due[:2]
                if chance.random() < 0.6:
                    goal = f"goal {seed} {step} {stores.index(store)}"
                    put(store, SESSION, SessionEdited(goal=goal), note(goal))
                    state = store.state(SESSION)
                    assert state is not None
                    assert current_value(state.registers["goal"]) == goal
                _agrees(store)
        everything = {event.hash: event for store in stores for event in store.events(SESSION)}
        for store in stores:
            for event in chance.sample(list(everything.values()), k=len(everything)):
                take(store, [event])
            assert_sound(store)
        expected = stores[0].state(SESSION)  # of all that is left: what one of them erased, all have erased by now
        for store in stores:
            assert list(store.events(SESSION)) == list(stores[0].events(SESSION))
            assert store.state(SESSION) == expected
        for number, store in enumerate(stores):
            assert self.reopened(store, f"s{number}").state(SESSION) == expected


def _hostile(chance: random.Random, count: int) -> Sequence[Event]:
    """Events of two writers with any clocks and any knowledge of each other, with keys and erasures."""
    made: list[Event] = []
    for _ in range(count):
        writer = chance.choice(("0" * 20, "f" * 20))
        own = [event for event in made if event.writer == writer]
        others = [event for event in made if event.writer != writer]
        data: Json = {"goal": f"theirs {len(made)}"}
        kind = chance.choice((_GOAL, "note.added"))
        if kind != _GOAL:
            data = {"text": "theirs"}
        key = chance.choice((None, None, f"key {chance.randrange(3)}"))
        erasable = [event for event in own if event.type != "event.erased"]
        if erasable and chance.random() < 0.15:
            key, kind, data = None, "event.erased", {"hashes": [chance.choice(erasable).hash], "instead": {}}
        event = foreign(
            writer, len(own) + 1, data, kind=kind, clock=chance.choice((*_ABSURD, START * 1000 + len(made))),
            prev=own[-1] if own else None, seen=chance.sample(others, k=min(len(others), chance.randrange(3))),
            key=key,
        )  # fmt: skip
        made.append(event)
    return made
