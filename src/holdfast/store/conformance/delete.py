"""What was deleted or erased is gone, whenever it arrives."""

from __future__ import annotations

import random

import msgspec
import pytest

from holdfast.core.canonical import Json
from holdfast.core.events import AliasGiven, EventErased, SessionDeleted, SessionEdited
from holdfast.core.fold import fold
from holdfast.store.checks import flaws
from holdfast.store.conformance.fixtures import (
    BEN,
    CARO,
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
from holdfast.store.interface import Filter, Store


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
        """After `erase` the session is gone from every listing, its data from the log, and the chain still holds."""
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
        """Wherever in the order of arrival the deletion comes, nothing of the session's data stays anywhere."""
        source = self.store("source")
        put(source, SESSION, started(aliases={"craft": "alias-one"}), note("secret paint"))
        whole = list(source.events(SESSION))
        source.erase(SESSION, draft(SessionDeleted()))
        deletion = list(source.events(SESSION))[-1]
        after = foreign(BEN, 1, note("secret, written later"), clock=deletion.clock + 5)
        events = [*whole, deletion, after]
        random.Random(seed).shuffle(events)  # noqa: S311 (the same each time)
        store = self.store("target", writer=CARO)
        for event in events:
            take(store, [event])
        self.assert_deleted(store)
        assert take(store, events) == 0
        self.assert_deleted(self.reopened(store, "target", writer=CARO))

    @pytest.mark.parametrize("seed", range(4))
    def test_an_erasure_covers_its_events_whenever_they_come(self, seed: int) -> None:
        """The data of erased events is dropped though they arrive later; all others stay, and search forgets."""
        source = self.store("source")
        put(source, SESSION, started())
        kept = put(source, SESSION, note("blue paint"))[0]
        erased = put(source, SESSION, note("secret paint"), AliasGiven(format="craft", id="alias-one"))
        whole = list(source.events(SESSION))
        put(source, SESSION, EventErased(hashes=tuple(event.hash for event in erased)))
        erasure = list(source.events(SESSION))[-1]
        assert source.find("alias-one") == []
        assert_sound(source)
        events = [*whole, erasure]
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
    def test_what_stands_instead_counts_whenever_things_come(self, seed: int) -> None:
        """The rest of what an erased event said survives, in its place in the log, also for search and names."""
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        source = self.store("source")
        put(source, SESSION, started(), SessionEdited(goal="blue paint"))
        secret, alias, erased = put(source, SESSION, note("secret words, and paint"),
                                  AliasGiven(format="craft", id="alias-one"), note("secret alone"))  # fmt: skip
        put(source, SESSION, AliasGiven(format="craft", id="alias-two"))
        for number in range(chance.choice((0, 40, 80))):
            put(source, SESSION, note(f"note {number}"))
        whole = list(source.events(SESSION))
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
        events = [*whole, *list(source.events(SESSION))[-2:]]
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

    def test_what_stands_instead_may_come_long_after_the_erased_event(self) -> None:
        """An event that came without its data, many others, and then the erasure that says what it may say."""
        source, store = self.store("source"), self.store("target", writer=CARO)
        put(source, SESSION, started())
        secret = put(source, SESSION, note("secret paint"))[0]
        for number in range(80):
            put(source, SESSION, note(f"note {number}"))
        whole = list(source.events(SESSION))
        take(store, [whole[0], msgspec.structs.replace(secret, data=None, salt=None), *whole[2:]])
        put(source, SESSION, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "blue paint"}}))
        take(store, list(source.events(SESSION))[-1:])
        assert [row.id for row in store.rows(Filter(search="blue"))] == [SESSION]
        assert everything(store) == everything(source)
        assert_sound(store)
        assert_sound(self.reopened(store, "target", writer=CARO))

    def test_an_erasure_that_puts_nothing_in_the_place_is_the_stricter(self) -> None:
        """What one erasure let stand, a later one without it takes away, from state and search."""
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
        """Snapshots from before it are gone on from, and what stands instead still stands."""
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
        assert [kept.text for kept in state.notes][:2] == ["first of all", "blue paint"]
        assert_sound(self.reopened(store))
