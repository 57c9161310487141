"""Taking in events of others: in any order, in any portions, and nothing that is not true."""

from __future__ import annotations

import random

import msgspec
import pytest

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.errors import Damaged
from holdfast.core.events import SessionEdited
from holdfast.core.fold import fold
from holdfast.store.conformance.fixtures import (
    BEN,
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
from holdfast.store.interface import UNSEEN


class Receiving(StoreFixture):
    def test_what_came_from_elsewhere_is_noted_until_somebody_looked(self) -> None:
        """The place after which it began; not what is recorded here, nor what is known already."""
        store = self.store()
        put(store, SESSION, started(), note("here"))
        assert store.remembered(UNSEEN) is None
        place = store.latest_place()
        first, second = foreign(BEN, 1, note("there"), clock=5), foreign(BEN, 1, note("too"), clock=6, session=OTHER)
        take(store, [first])
        take(store, [second])
        assert store.remembered(UNSEEN) == b"%d" % place
        with store.transaction() as transaction:
            transaction.remember(UNSEEN, None)
        assert take(store, [first, second]) == 0
        assert store.remembered(UNSEEN) is None

    def test_what_is_known_already_is_not_new(self) -> None:
        """Receiving the same events again, or one's own, adds nothing and changes nothing."""
        history = self.history()
        store = self.store()
        assert take(store, history) == len(history)
        before = everything(store)
        assert take(store, history) == 0
        assert take(store, [*history, *history][5:]) == 0
        assert take(store, []) == 0
        assert everything(store) == before

    @pytest.mark.parametrize("seed", range(6))
    def test_the_order_of_arrival_does_not_matter(self, seed: int) -> None:
        """The same events in any order, in any portions, some twice, give the same state, listing and search."""
        history = self.history()
        straight, shuffled = self.store("s"), self.store("t", writer=BEN)
        take(straight, history)
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        mixed = history + chance.sample(history, 10)
        chance.shuffle(mixed)
        while mixed:
            size = chance.choice((1, 2, 7, 40))
            take(shuffled, mixed[:size])
            del mixed[:size]
            for session in shuffled.sessions():
                assert shuffled.state(session) == fold(shuffled.events(session), session)
        assert everything(straight) == everything(shuffled)
        assert_sound(straight)
        assert_sound(shuffled)

    def test_late_events_find_their_place_in_a_long_session(self) -> None:
        """An event from the past changes the state as if it had been there all along, also far behind."""
        store = self.store()
        made = put(store, SESSION, started())
        for number in range(300):
            made += put(store, SESSION, note(f"note {number}"), at=START + number)
        previous = None
        for seq, behind in enumerate((290, 150, 3, 0), 1):
            previous = foreign(BEN, seq, SessionEdited(goal=f"late {seq}"), clock=made[-1 - behind].clock,
                               prev=previous, kind="session.edited")  # fmt: skip
            assert take(store, [previous]) == 1
            assert_sound(store)
            put(store, SESSION, note("goes on"))
            assert_sound(store)

    @pytest.mark.parametrize("part", ["hash", "data", "salt", "actor", "clock", "prev", "session", "body"])
    def test_a_damaged_event_is_refused_with_all_that_came_with_it(self, part: str) -> None:
        """An event that does not fit its own hash changes nothing, nor do the good ones beside it."""
        store = self.store()
        put(store, SESSION, started())
        before = everything(store)
        good = foreign(BEN, 1, note("good"), clock=START * 1000 + 7)
        bad = foreign(BEN, 2, note("bad"), clock=START * 1000 + 8, prev=good)
        wrong: dict[str, object] = {"hash": "0" * 64, "data": b'{"text":"evil"}', "salt": b"x" * 16, "actor": "eve",
                                    "clock": 9, "prev": None, "session": OTHER, "body": "1" * 64}  # fmt: skip
        with pytest.raises(Damaged) as caught:
            take(store, [good, msgspec.structs.replace(bad, **{part: wrong[part]})])
        assert caught.value.exit_code == 6
        assert everything(store) == before
        assert take(store, [good, bad]) == 2

    def test_numbers_that_cannot_be_are_refused(self) -> None:
        """A clock or number beyond what JSON programs can hold, or below one, is damage: refused, nothing changed."""
        store = self.store()
        put(store, SESSION, started())
        before = everything(store)
        for clock, seq in ((MAX_SAFE_INTEGER + 1, 1), (2**63, 1), (2**70, 1), (-1, 1), (5, 0), (5, 2**64), (5, -3)):
            with pytest.raises(Damaged):
                take(store, [foreign(BEN, seq, note("x"), clock=clock)])
        assert everything(store) == before

    def test_events_of_the_future_are_kept_and_passed_on(self) -> None:
        """A type or version that this program does not know is stored, counted, and given on unchanged."""
        store = self.store()
        put(store, SESSION, started())
        clock = START * 1000 + DAY
        first = foreign(BEN, 1, {"mood": "good"}, clock=clock, kind="mood.felt")
        second = foreign(BEN, 2, {"text": "v9"}, clock=clock + 1, version=9, prev=first)
        assert take(store, [second, first]) == 2
        assert [event for event in store.events(SESSION) if event.writer == BEN] == [first, second]
        state = store.state(SESSION)
        assert state is not None
        assert state.not_applied == 2
        assert_sound(store)

    def test_two_events_at_one_number_are_both_kept(self) -> None:
        """A forked stream (a copied home) is folded and shown, never dropped."""
        store = self.store()
        put(store, SESSION, started())
        clock = START * 1000 + DAY
        take(store, [foreign(BEN, 1, note("one"), clock=clock), foreign(BEN, 1, note("two"), clock=clock + 5)])
        state = store.state(SESSION)
        assert state is not None
        assert sorted(kept.text for kept in state.notes) == ["one", "two"]
        assert state == fold(store.events(SESSION), SESSION)
