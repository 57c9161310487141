"""Deleted, erased or withdrawn events no longer count, in any order of arrival."""

from __future__ import annotations

import random

import msgspec
import pytest

from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.events import AliasGiven, EventErased, SessionDeleted, SessionEdited
from holdfast.core.fold import fold
from holdfast.store.checks import flaws
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
    draft,
    everything,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.conformance.log import arrivals, chain
from holdfast.store.interface import Filter, Store

# ── deleting and erasing ─────────────────────────────────────────────────────────────────────────────────


class Deleting(StoreFixture):
    def assert_deleted(self, store: Store, session: str = SESSION) -> None:
        state = store.state(session)
        assert state is not None
        assert state.deleted
        assert session in list(store.sessions())
        assert session not in [row.id for row in store.rows(Filter())]
        assert store.find(session) == store.find("alias-one") == store.find("alias-two") == []
        for word in ("secret", "shop", "paint", "note"):
            assert session not in [row.id for row in store.rows(Filter(search=word))]
        events = list(store.events(session))
        assert all(event.data is None and event.salt is None for event in events if event.type != "session.deleted")
        assert_sound(store)

    def test_erasing_a_session_leaves_only_envelopes(self) -> None:
        """After `erase`, no listing has the session and the log has no data of it, and the chain is still valid."""
        store = self.store()
        put(store, SESSION, started(aliases={"craft": "alias-one"}))
        for number in range(70):
            put(store, SESSION, note(f"secret {number}"))
        put(store, OTHER, started("Other shop"))
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
            transaction.set_current("/home/me/other", OTHER)
        store.erase(SESSION, draft(SessionDeleted(), START + 99))
        self.assert_deleted(store)
        assert store.current("/home/me/shop") is None
        assert store.current("/home/me/other") == OTHER
        assert [row.id for row in store.rows(Filter(search="shop"))] == [OTHER]
        assert list(flaws(store.events(SESSION))) == []
        self.assert_deleted(self.reopened(store))

    @pytest.mark.parametrize("seed", range(4))
    def test_a_deletion_covers_what_comes_before_and_after_it(self, seed: int) -> None:
        """At any place in the order of arrival, a deletion leaves no data of the session."""
        source = self.store("source")
        put(source, SESSION, started(aliases={"craft": "alias-one"}), note("secret paint"))
        events = list(source.events(SESSION))
        source.erase(SESSION, draft(SessionDeleted()))
        deletion = list(source.events(SESSION))[-1]
        after = foreign(BEN, 1, note("secret, written later"), clock=deletion.clock + 5)
        events = [*events, deletion, after]
        random.Random(seed).shuffle(events)  # noqa: S311 (the same each time)
        store = self.store("target", writer=CARO)
        for event in events:
            take(store, [event])
        self.assert_deleted(store)
        assert take(store, events) == 0
        self.assert_deleted(self.reopened(store, "target", writer=CARO))

    @pytest.mark.parametrize("seed", range(4))
    def test_an_erasure_covers_its_events_whenever_they_come(self, seed: int) -> None:
        """The data of erased events is dropped even if they arrive later, also from search; others stay."""
        source = self.store("source")
        put(source, SESSION, started())
        kept = put(source, SESSION, note("blue paint"))[0]
        erased = put(source, SESSION, note("secret paint"), AliasGiven(format="craft", id="alias-one"))
        events = list(source.events(SESSION))
        put(source, SESSION, EventErased(hashes=tuple(event.hash for event in erased)))
        erasure = list(source.events(SESSION))[-1]
        assert source.find("alias-one") == []
        assert_sound(source)
        events = [*events, erasure]
        random.Random(seed).shuffle(events)  # noqa: S311 (the same each time)
        store = self.store("target", writer=CARO)
        for event in events:
            take(store, [event])
        data = {event.hash: event.data for event in store.events(SESSION)}
        assert [data[event.hash] for event in erased] == [None, None]
        assert data[kept.hash] == kept.data
        assert store.rows(Filter(search="secret")) == []
        assert [row.id for row in store.rows(Filter(search="paint"))] == [SESSION]
        assert everything(store) == everything(source)
        assert_sound(store)

    @pytest.mark.parametrize("seed", range(6))
    def test_replacement_of_erased_data_counts_in_any_order_of_arrival(self, seed: int) -> None:
        """The replacement of an erased event counts in its place in the log, also for search and names."""
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        source = self.store("source")
        put(source, SESSION, started(), SessionEdited(goal="blue paint"))
        secret, alias, erased = put(source, SESSION, note("secret words, and paint"),
                                  AliasGiven(format="craft", id="alias-one"), note("secret alone"))  # fmt: skip
        put(source, SESSION, AliasGiven(format="craft", id="alias-two"))
        for number in range(chance.choice((0, 40, 80))):
            put(source, SESSION, note(f"note {number}"))
        events = list(source.events(SESSION))
        instead: dict[str, Json] = {
            secret.hash: {"text": "red words"},
            alias.hash: {"format": "craft", "id": "alias-three"},
        }
        put(source, SESSION, EventErased(hashes=(secret.hash, alias.hash, erased.hash), instead=instead))
        put(source, SESSION, note("goes on"))
        state = source.state(SESSION)
        assert state is not None
        assert state.notes[0].text == "red words"
        assert (state.not_applied, state.aliases) == (1, {"craft": "alias-two"})
        assert [row.id for row in source.rows(Filter(search="red words"))] == [SESSION]
        assert source.rows(Filter(search="secret")) == []
        assert_sound(source)
        events = [*events, *list(source.events(SESSION))[-2:]]
        if chance.random() < 0.5:  # some come erased already
            events[2:5] = [msgspec.structs.replace(event, data=None, salt=None) for event in events[2:5]]
        chance.shuffle(events)
        store = self.store("target", writer=CARO)
        while events:
            size = chance.choice((1, 2, 50))
            take(store, events[:size])
            del events[:size]
            for session in store.sessions():
                assert store.state(session) == fold(store.events(session), session)
        assert everything(store) == everything(source)
        assert_sound(store)
        assert_sound(self.reopened(store, "target", writer=CARO))

    def test_replacement_may_arrive_long_after_the_erased_event(self) -> None:
        """An event arrives without its data, then many others, then the erasure with its replacement."""
        source, store = self.store("source"), self.store("target", writer=CARO)
        put(source, SESSION, started())
        secret = put(source, SESSION, note("secret paint"))[0]
        for number in range(80):
            put(source, SESSION, note(f"note {number}"))
        events = list(source.events(SESSION))
        take(store, [events[0], msgspec.structs.replace(secret, data=None, salt=None), *events[2:]])
        put(source, SESSION, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "blue paint"}}))
        take(store, list(source.events(SESSION))[-1:])
        assert [row.id for row in store.rows(Filter(search="blue"))] == [SESSION]
        assert everything(store) == everything(source)
        assert_sound(store)
        assert_sound(self.reopened(store, "target", writer=CARO))

    def test_later_erasure_without_replacement_wins(self) -> None:
        """A replacement that one erasure has and a later one has not is removed from state and search."""
        store = self.store()
        put(store, SESSION, started())
        secret = put(store, SESSION, note("secret paint"))[0]
        for number in range(40):
            put(store, SESSION, note(f"note {number}"))
        put(store, SESSION, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "blue paint"}}))
        assert [row.id for row in store.rows(Filter(search="blue"))] == [SESSION]
        assert_sound(store)
        put(store, SESSION, EventErased(hashes=(secret.hash,)))
        assert store.rows(Filter(search="blue")) == []
        state = store.state(SESSION)
        assert state is not None
        assert state.notes[0].text == "note 0"
        assert_sound(self.reopened(store))

    def test_a_late_event_in_a_session_with_erasures(self) -> None:
        """Earlier snapshots are still used, and replacements still count."""
        store = self.store()
        put(store, SESSION, started())
        secret = put(store, SESSION, note("secret paint"))[0]
        put(store, SESSION, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "blue paint"}}))
        for number in range(200):
            made = put(store, SESSION, note(f"note {number}"))
        late = foreign(BEN, 1, note("late"), clock=made[0].clock - 5)
        take(store, [late])
        take(store, [foreign(BEN, 2, note("later"), clock=made[0].clock + 5, prev=late)])
        take(store, [foreign(CARO, 1, note("first of all"), clock=5)])
        state = store.state(SESSION)
        assert state is not None
        assert [item.text for item in state.notes][:2] == ["first of all", "blue paint"]
        assert_sound(self.reopened(store))


# ── withdrawing ──────────────────────────────────────────────────────────────────────────────────────────


def withdraw(store: Store, writer: str, after: int, session: str = SESSION) -> list[Event]:
    with store.transaction() as transaction:
        return transaction.withdraw(session, {writer: after})


class Withdrawing(StoreFixture):
    @pytest.mark.parametrize("writer", [ANNA, BEN, CARO])
    @pytest.mark.parametrize("after", [0, 2, 5])
    def test_withdrawn_events_leave_no_trace(self, writer: str, after: int) -> None:
        """State, listing, search and names equal those of a store without them; received again, they count."""
        history = self.history()
        store, without, complete = self.store("s"), self.store("t"), self.store("u")
        take(store, history)
        take(complete, history)
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
        assert everything(store) == everything(complete)
        assert_sound(store)

    def test_withdrawing_nothing_changes_nothing(self) -> None:
        """A range beyond the end, or of an unknown writer or session, withdraws nothing."""
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
        """State, row, names and places are removed; events received later make it again from nothing."""
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
        """A session that was removed and came back different is read again, also by those who had it in memory."""
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
            assert [item.text for item in state.notes] == [f"turn {turn}"]
            withdraw(other, CARO, 0)
            assert store.state(SESSION) is None

    def test_places_go_on_from_where_they_were(self) -> None:
        """Places are not used again, even if the last events were withdrawn."""
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
        """Of two events with one key, the later one counts once the earlier one is withdrawn, also in search."""
        store = self.store()
        first = foreign(BEN, 1, note("paint of theirs"), clock=START * 1000 + 5, key="hook:1")
        put(store, SESSION, started())
        take(store, [first, foreign(CARO, 1, note("blue words"), clock=START * 1000 + 9000, key="hook:1")])
        state = store.state(SESSION)
        assert state is not None
        assert [item.text for item in state.notes] == ["paint of theirs"]
        assert withdraw(store, BEN, 0) == [first]
        state = store.state(SESSION)
        assert state is not None
        assert [item.text for item in state.notes] == ["blue words"]
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
        """Events recorded or received later in the same transaction follow what is left."""
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
        """When the erasure itself is withdrawn, the data stays erased, and everything else is sound."""
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
        """After any series of arrivals and withdrawals, only the events that are left count."""
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        history = self.history()
        store, in_order = self.store("s"), self.store("t")
        for _ in range(12):
            take(store, chance.sample(history, chance.randrange(1, len(history))))
            session, writer = chance.choice([(SESSION, ANNA), (SESSION, BEN), (SESSION, CARO), (OTHER, CARO)])
            withdraw(store, writer, chance.randrange(0, 20), session)
            for name in store.sessions():
                assert store.state(name) == fold(store.events(name), name)
            assert {finding.check for finding in store.check()} <= {"chain"}, "holes, and nothing else"
        take(store, history)
        take(in_order, history)
        assert everything(store) == everything(in_order)
