"""Taking the end of a stream out of the log again, as if it had never arrived."""

from __future__ import annotations

import random

import pytest

from holdfast.core.envelope import Event
from holdfast.core.events import AliasGiven, EventErased, SessionEdited
from holdfast.core.fold import fold
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    CARO,
    DAY,
    OTHER,
    SESSION,
    START,
    StoreFixture,
    assert_sound,
    everything,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.conformance.streams import arrivals, chain
from holdfast.store.interface import Filter, Store


def withdraw(store: Store, writer: str, after: int, session: str = SESSION) -> list[Event]:
    with store.transaction() as transaction:
        return transaction.withdraw(session, {writer: after})


class Withdrawing(StoreFixture):
    @pytest.mark.parametrize("writer", [ANNA, BEN, CARO])
    @pytest.mark.parametrize("after", [0, 2, 5])
    def test_it_is_as_if_they_had_never_arrived(self, writer: str, after: int) -> None:
        """State, listing, search and names are those of a store that got only the others; given back, all is back."""
        history = self.history()
        store, without, whole = self.store("s"), self.store("t"), self.store("u")
        take(store, history)
        take(whole, history)
        withdrawn = [
            entry for entry in history if entry.session == SESSION and entry.writer == writer and entry.seq > after
        ]
        take(without, [entry for entry in history if entry not in withdrawn])
        assert withdraw(store, writer, after) == sorted(withdrawn, key=lambda event: event.seq)
        assert everything(store) == everything(without)
        assert_sound(store)
        store = self.reopened(store, "s")
        assert everything(store) == everything(without)
        assert take(store, withdrawn) == len(withdrawn)
        assert everything(store) == everything(whole)
        assert_sound(store)

    def test_withdrawing_nothing_changes_nothing(self) -> None:
        """Beyond the end, of an unknown writer or session: no events, no change."""
        store = self.store()
        put(store, SESSION, started(), note("a"))
        before = everything(store)
        with store.transaction() as transaction:
            assert transaction.withdraw(SESSION, {ANNA: 2}) == []
            assert transaction.withdraw(SESSION, {BEN: 0}) == []
            assert transaction.withdraw(OTHER, {ANNA: 0}) == []
        assert transaction.changed() == frozenset()
        assert everything(store) == before

    def test_a_session_without_events_is_unknown(self) -> None:
        """No state, no row, no name, no place; and once events of it come, it is there as if for the first time."""
        store, other = self.store(), self.store(writer=BEN)
        put(other, SESSION, started(aliases={"craft": "alias-one"}), note("blue paint"))
        put(store, OTHER, started("Other"))
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
        before = everything(store)
        assert other.state(SESSION) is not None
        withdrawn = withdraw(store, BEN, 0)
        for item in (store, other, self.store()):
            assert item.state(SESSION) is None
            assert list(item.events(SESSION)) == []
            assert list(item.sessions()) == [OTHER]
            assert [row.id for row in item.rows(Filter())] == [OTHER]
            assert item.rows(Filter(search="blue")) == []
            assert item.find(SESSION) == item.find("alias-one") == item.find("11111") == []
            assert item.current("/home/me/shop") is None
            assert list(item.check()) == []
        store.repair()
        assert store.state(SESSION) is None
        assert list(store.check()) == []
        assert take(store, withdrawn) == 2
        assert everything(store) == everything(other) == before
        assert_sound(other)

    def test_another_connection_is_not_deceived_by_what_it_remembers(self) -> None:
        """A session that went and came back different is read anew by whoever had it in memory."""
        store, other = self.store(), self.store()
        theirs = chain(BEN, 3)
        for turn in range(4):
            take(store, theirs)
            assert other.state(SESSION) == store.state(SESSION)
            withdraw(store, BEN, 0)
            mine = foreign(CARO, 1, note(f"turn {turn}"), clock=START * 1000)
            take(store, [mine])
            state = other.state(SESSION)
            assert state is not None
            assert [kept.text for kept in state.notes] == [f"turn {turn}"]
            withdraw(other, CARO, 0)
            assert store.state(SESSION) is None

    def test_places_go_on_from_where_they_were(self) -> None:
        """Nothing new stands at a place that was somebody's, though the last ones went."""
        store, other = self.store(), self.store(writer=CARO)
        put(store, SESSION, started())
        take(store, [foreign(BEN, 1, note("ahead of its time"), clock=(START + DAY) * 1000)])
        last = store.arrived(0, 100)[-1]
        withdraw(store, BEN, 0)
        for item in (other, store):
            made = put(item, SESSION, note("later"))
            assert [arrival.event for arrival in store.arrived(last.place, 10)][-1:] == made
        withdraw(store, ANNA, 0)
        withdraw(store, CARO, 0)
        assert store.arrived(0, 10) == []
        again = chain(BEN, 5)
        take(store, again)
        assert [arrival.event for arrival in store.arrived(last.place + 2, 10)] == again
        assert arrivals(store) == again

    def test_a_copy_counts_again_when_the_first_one_goes(self) -> None:
        """Of two events with one key, the later one speaks once the earlier one is gone, also to search."""
        store = self.store()
        first = foreign(BEN, 1, note("paint of theirs"), clock=START * 1000 + 5, key="hook:1")
        put(store, SESSION, started())
        take(store, [first, foreign(CARO, 1, note("blue words"), clock=START * 1000 + 9000, key="hook:1")])
        state = store.state(SESSION)
        assert state is not None
        assert [kept.text for kept in state.notes] == ["paint of theirs"]
        assert withdraw(store, BEN, 0) == [first]
        state = store.state(SESSION)
        assert state is not None
        assert [kept.text for kept in state.notes] == ["blue words"]
        assert store.rows(Filter(search="paint")) == []
        assert [row.id for row in store.rows(Filter(search="blue"))] == [SESSION]
        assert_sound(store)

    def test_a_failed_transaction_withdraws_nothing(self) -> None:
        """An exception after the withdrawal leaves the log, the states and the places as they were."""
        store = self.store()
        take(store, self.history())
        before, arrived = everything(store), store.arrived(0, 1000)
        with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
            assert transaction.withdraw(SESSION, {CARO: 0})
            assert transaction.withdraw(OTHER, {CARO: 0})
            assert transaction.state(OTHER).count == 0
            raise RuntimeError
        assert everything(store) == before
        assert store.arrived(0, 1000) == arrived
        put(store, OTHER, note("goes on"))
        assert_sound(store)

    def test_one_transaction_may_withdraw_and_go_on(self) -> None:
        """What is recorded or received after it in the same block stands on what is left."""
        store = self.store()
        put(store, SESSION, started())
        theirs = chain(BEN, 5)
        take(store, theirs)
        with store.transaction() as transaction:
            assert transaction.withdraw(SESSION, {BEN: 3}) == theirs[3:]
            assert transaction.state(SESSION).heads[BEN].seq == 3
            assert transaction.receive(theirs[:4]) == 1
            transaction.withdraw(SESSION, {BEN: 0})
            transaction.receive(theirs[:2])
        assert transaction.changed() == {SESSION}
        assert store.stream(SESSION, BEN, 1, 9) == theirs[:2]
        put(store, SESSION, note("after"))
        assert_sound(self.reopened(store))

    def test_what_an_erasure_took_does_not_come_back(self) -> None:
        """When the erasure itself is taken out, data that it erased stays gone, and everything else is sound."""
        store = self.store()
        put(store, SESSION, started(), SessionEdited(goal="kept"))
        secret = put(store, SESSION, AliasGiven(format="craft", id="alias-one"))[0]
        erasure = EventErased(hashes=(secret.hash,))
        take(store, [foreign(BEN, 1, erasure, clock=secret.clock + 9, kind="event.erased")])
        assert len(withdraw(store, BEN, 0)) == 1
        assert store.find("alias-one") == []
        assert_sound(store)

    @pytest.mark.parametrize("seed", range(4))
    def test_coming_and_going_in_any_order_ends_in_the_same_state(self, seed: int) -> None:
        """Whatever was taken in and out before, what counts is what is there in the end."""
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        history = self.history()
        store, straight = self.store("s"), self.store("t")
        for _ in range(12):
            take(store, chance.sample(history, chance.randrange(1, len(history))))
            session, writer = chance.choice([(SESSION, ANNA), (SESSION, BEN), (SESSION, CARO), (OTHER, CARO)])
            withdraw(store, writer, chance.randrange(0, 20), session)
            for name in store.sessions():
                assert store.state(name) == fold(store.events(name), name)
            assert {finding.check for finding in store.check()} <= {"chain"}, "holes, and nothing else"
        take(store, history)
        take(straight, history)
        assert everything(store) == everything(straight)
