"""The order in which a store got to know its events, and stretches of one stream."""

from __future__ import annotations

import random

import pytest

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.envelope import Event
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    CARO,
    OTHER,
    SESSION,
    START,
    THIRD,
    StoreFixture,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import Store


def arrivals(store: Store) -> list[Event]:
    return [arrival.event for arrival in store.arrived(0, 1_000_000)]


def chain(writer: str, count: int, *, session: str = SESSION) -> list[Event]:
    """A stream as another device would have written it."""
    made: list[Event] = []
    for seq in range(1, count + 1):
        clock = START * 1000 + 10 * seq
        made.append(foreign(writer, seq, note(f"note {seq}"), clock=clock, prev=made[-1] if made else None,
                            session=session))  # fmt: skip
    return made


class Streaming(StoreFixture):
    def test_events_arrive_in_the_order_they_were_recorded(self) -> None:
        """Over all sessions and connections, each once, at places that grow."""
        store, other = self.store(), self.store(writer=BEN)
        assert (store.arrived(0, 10), store.latest_place()) == ([], 0)
        made = put(store, SESSION, started(), note("a"))
        made += put(other, OTHER, started("Other"))
        made += put(store, SESSION, note("b"))
        arrived = store.arrived(0, 10)
        assert [arrival.event for arrival in arrived] == made
        places = [arrival.place for arrival in arrived]
        assert places == sorted(set(places))
        assert min(places) > 0
        assert self.reopened(store).arrived(0, 10) == arrived

    def test_what_is_received_arrives_last_whatever_its_clock(self) -> None:
        """A late event of the past stands at the end, in the order in which it was given; known ones do not again."""
        store = self.store()
        mine = put(store, SESSION, started(), note("a"))
        theirs = [foreign(BEN, 1, note("old"), clock=5), foreign(CARO, 1, note("older"), clock=3, session=THIRD)]
        take(store, [*theirs, *mine])
        after = put(store, SESSION, note("b"))
        take(store, theirs)
        assert arrivals(store) == [*mine, *theirs, *after]

    def test_portions_are_the_whole(self) -> None:
        """Asking from the last place on, by any number at a time, gives every event once."""
        store = self.store()
        take(store, self.history())
        whole = store.arrived(0, 1_000_000)
        for size in (1, 3, 7, 1000):
            received, place = [], 0
            while portion := store.arrived(place, size):
                assert len(portion) <= size
                received += portion
                place = portion[-1].place
            assert received == whole
        assert store.arrived(whole[-1].place, 5) == []
        assert store.latest_place() == whole[-1].place
        assert store.arrived(0, 0) == []

    def test_a_failed_transaction_leaves_no_place(self) -> None:
        """What did not happen did not arrive; the next event does."""
        store = self.store()
        put(store, SESSION, started())
        last = store.arrived(0, 10)[-1].place
        with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
            transaction.receive(chain(BEN, 5))
            raise RuntimeError
        assert store.arrived(last, 10) == []
        made = put(store, SESSION, note("x"))
        assert [arrival.event for arrival in store.arrived(last, 10)] == made

    def test_a_stretch_of_a_stream_comes_in_its_order(self) -> None:
        """From one number to another, both included, of this session and writer alone, however they arrived."""
        store = self.store()
        theirs, elsewhere = chain(BEN, 9), chain(BEN, 4, session=OTHER)
        mixed = [*theirs, *elsewhere, *chain(CARO, 9)]
        random.Random(7).shuffle(mixed)  # noqa: S311 (the same each time)
        take(store, mixed)
        assert store.stream(SESSION, BEN, 1, 9) == theirs
        assert store.stream(SESSION, BEN, 3, 5) == theirs[2:5]
        assert store.stream(SESSION, BEN, 4, 4) == theirs[3:4]
        assert store.stream(SESSION, BEN, 8, MAX_SAFE_INTEGER) == theirs[7:]
        assert store.stream(OTHER, BEN, 0, 2) == elsewhere[:2]
        assert store.stream(SESSION, BEN, 5, 4) == store.stream(SESSION, BEN, 10, 20) == []
        assert store.stream(SESSION, ANNA, 1, 9) == store.stream(THIRD, BEN, 1, 9) == []

    def test_a_stream_with_holes_gives_what_is_there(self) -> None:
        """Numbers that are not here are left out; two events at one number both come."""
        store = self.store()
        theirs = chain(BEN, 9)
        take(store, [theirs[8], theirs[1], theirs[4]])
        assert store.stream(SESSION, BEN, 1, 9) == [theirs[1], theirs[4], theirs[8]]
        assert store.stream(SESSION, BEN, 3, 8) == [theirs[4]]
        fork = foreign(BEN, 5, note("another five"), clock=theirs[4].clock + 1, prev=theirs[3])
        take(store, [fork])
        assert store.stream(SESSION, BEN, 5, 5) == [theirs[4], fork]
