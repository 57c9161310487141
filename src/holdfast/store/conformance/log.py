"""The log: how an event gets its place, how events of others are received, and in what order they arrive."""

from __future__ import annotations

import random

import msgspec
import pytest

from holdfast.core.canonical import MAX_SAFE_INTEGER
from holdfast.core.envelope import Event
from holdfast.core.errors import Busy, Damaged
from holdfast.core.events import DeviceJoined, NativeLinked, SessionDeleted, SessionEdited
from holdfast.core.fold import fold
from holdfast.store import origin
from holdfast.store.checks import flaws
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
    assert_sound,
    draft,
    everything,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import UNSEEN, Draft, Filter, Store

# ── chains and keys ──────────────────────────────────────────────────────────────────────────────────────


class Chains(StoreFixture):
    def test_a_stream_is_numbered_and_each_event_holds_the_hash_of_the_one_before(self) -> None:
        """Sequence numbers count 1, 2, 3 and the chain verifies, over transactions and reopening."""
        store = self.store()
        put(store, SESSION, started(), note("a"))
        store = self.reopened(store)
        put(store, SESSION, note("b"))
        events = list(store.events(SESSION))
        assert [event.seq for event in events] == [1, 2, 3]
        assert [event.prev for event in events] == [None, events[0].hash, events[1].hash]
        assert list(flaws(events)) == []

    def test_an_event_holds_what_was_drafted(self) -> None:
        """Time, actor, key, type and data are those of the draft; the salt makes equal data differ."""
        store = self.store()
        with store.transaction() as transaction:
            first = transaction.record(SESSION, Draft(note("same"), START - 5, "caro", "k1"))
            second = transaction.record(SESSION, Draft(note("same"), START - 5, "caro"))
        assert first is not None
        assert second is not None
        assert (first.at, first.actor, first.key, first.type, first.v) == (START - 5, "caro", "k1", "note.added", 1)
        assert first.data == b'{"text":"same"}'
        assert first.body != second.body
        assert list(store.events(SESSION)) == [first, second]

    def test_the_first_event_of_a_writer_names_the_heads_it_saw(self) -> None:
        """`seen` holds the heads of other streams that moved since the writer's previous event, and only those."""
        anna, ben = self.store(), self.store(writer=BEN)
        first, second = put(anna, SESSION, started(), note("a"))
        assert (first.seen, second.seen) == ((), ())
        joined, after = put(ben, SESSION, DeviceJoined(device="desk"), note("b"))
        assert joined.seen == (second.head,)
        assert after.seen == ()
        third = put(anna, SESSION, note("c"))[0]
        assert third.seen == (after.head,)
        assert put(anna, SESSION, note("d"))[0].seen == ()
        assert put(ben, SESSION, note("e"))[0].seen == (list(anna.events(SESSION))[-2].head,)
        assert_sound(anna)

    def test_several_writers_see_each_other(self) -> None:
        """With three streams, each new head is named once to each writer, in order of the writers' ids."""
        anna, ben, caro = self.store(), self.store(writer=BEN), self.store(writer=CARO)
        a = put(anna, SESSION, started())[0]
        b = put(ben, SESSION, note("b"))[0]
        c = put(caro, SESSION, note("c"))[0]
        assert c.seen == (a.head, b.head)
        again = put(anna, SESSION, note("a"))[0]
        assert again.seen == (b.head, c.head)
        assert put(caro, SESSION, note("c"))[0].seen == (again.head,)
        assert_sound(caro)

    # ── from a clock on ──────────────────────────────────────────────────────────────────────────────────

    def test_events_from_a_clock_on_are_the_rest_of_the_log(self) -> None:
        """Reading again from the last known clock misses nothing: the events of that clock come again."""
        store = self.store()
        take(store, self.history())
        for session in (SESSION, OTHER):
            events = list(store.events(session))
            assert list(store.events(session, since=0)) == events
            for event in events:
                rest = list(store.events(session, since=event.clock))
                assert rest == [item for item in events if item.clock >= event.clock]
                assert event in rest
            assert list(store.events(session, since=events[-1].clock + 1)) == []
        assert list(store.events(THIRD, since=1)) == []

    def test_one_clock_of_two_writers_is_never_torn(self) -> None:
        """Events with the same clock come together, in log order, those that arrived late too."""
        store = self.store()
        first = put(store, SESSION, started())[0]
        theirs = [foreign(writer, 1, note(writer), clock=first.clock + 5) for writer in (CARO, BEN)]
        take(store, theirs[:1])
        assert list(store.events(SESSION, since=first.clock + 5)) == theirs[:1]
        take(store, theirs[1:])
        assert list(store.events(SESSION, since=first.clock + 5)) == theirs[::-1]
        assert list(store.events(SESSION, since=first.clock + 1)) == theirs[::-1]

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_key_is_recorded_once(self) -> None:
        """The second event with a key is not recorded, in the same transaction, a later one, or elsewhere."""
        store, other = self.store(), self.store(writer=BEN)
        with store.transaction() as transaction:
            assert transaction.record(SESSION, draft(started(), key="k")) is not None
            assert transaction.record(SESSION, draft(note("again"), key="k")) is None
        before = everything(store)
        assert put(store, SESSION, note("again"), key="k") == []
        assert put(other, SESSION, note("again"), key="k") == []
        assert put(self.reopened(other, writer=BEN), SESSION, note("again"), key="k") == []
        assert everything(store) == before
        assert len(put(store, OTHER, started("Other"), key="k")) == 1, "keys belong to their session"

    def test_a_key_that_guests_took_beforehand_is_free(self) -> None:
        """An event that only guests recorded is recorded once more, under a key that is the same on every device."""
        store, other = self.store(), self.store(writer=BEN)
        put(store, SESSION, started(), key="began")
        with store.transaction() as transaction:
            origin.record_guests(transaction, SESSION, [CARO])
        taken = foreign(CARO, 1, note("taken"), clock=1, key="run:1")
        take(store, [taken, foreign(CARO, 2, note("taken"), clock=2, key="run:1+1", prev=taken)])
        with store.transaction() as transaction:
            assert not transaction.knows(SESSION, "run:1")
            assert transaction.knows(SESSION, "began")
            made = transaction.record(SESSION, draft(note("ours"), key="run:1"))
            assert made is not None
            assert made.key == "run:1+2"
            assert transaction.knows(SESSION, "run:1")
            assert transaction.record(SESSION, draft(note("ours"), key="run:1")) is None
        if not self.shared:  # each machine records by itself who is a guest
            assert put(other, SESSION, note("ours"), key="run:1") == []
        state = store.state(SESSION)
        assert state is not None
        assert [item.text for item in state.notes] == ["taken", "taken", "ours"]
        assert_sound(store)

    def test_a_transaction_knows_keys_and_what_it_changed(self) -> None:
        """Keys by session, those of this very transaction too; after it, the sessions that have new events."""
        store = self.store()
        put(store, OTHER, started("Other"), key="k")
        with store.transaction() as transaction:
            assert not transaction.knows(SESSION, "k")
            transaction.record(SESSION, draft(started(), key="k"))
            assert transaction.knows(SESSION, "k")
            transaction.record(OTHER, draft(note("again"), key="k"))
        assert transaction.changed() == {SESSION}

    def test_transaction_with_little_patience_raises_busy(self) -> None:
        """While another connection writes, `Busy` is raised and nothing is written; afterwards writing works."""
        store, other = self.store(), self.store(writer=BEN)
        put(store, SESSION, started())
        with store.transaction(), pytest.raises(Busy), other.transaction(patience=0.01):
            pass
        assert len(put(other, SESSION, note("later"))) == 1

    def test_find_accepts_the_id_of_a_conversation(self) -> None:
        """A session is found as `agent:id`, until it is deleted."""
        store = self.store()
        put(store, SESSION, started(), NativeLinked(agent="claude", id="abc"))
        assert store.find("claude:abc") == [SESSION]
        store.erase(SESSION, draft(SessionDeleted()))
        assert store.find("claude:abc") == []

    @pytest.mark.parametrize("late", [False, True])
    def test_equal_keys_of_two_writers_count_once(self, late: bool) -> None:
        """Of events with one key the first in log order counts, whichever arrived first; the log keeps both."""
        store = self.store()
        clock = put(store, SESSION, started())[0].clock
        mine = put(store, SESSION, note("blue words of mine"), key="hook:7")[0]
        theirs = foreign(BEN, 1, note("paint of theirs"), clock=clock if late else mine.clock + 9, key="hook:7")
        assert take(store, [theirs]) == 1
        state = store.state(SESSION)
        assert state is not None
        assert [item.text for item in state.notes] == ["paint of theirs" if late else "blue words of mine"]
        assert len(list(store.events(SESSION))) == 3
        assert bool(store.rows(Filter(search="blue"))) is not late
        assert bool(store.rows(Filter(search="paint"))) is late
        assert put(store, SESSION, note("a third"), key="hook:7") == []
        assert_sound(store)


# ── receiving ────────────────────────────────────────────────────────────────────────────────────────────


class Receiving(StoreFixture):
    def test_place_of_received_events_is_remembered_until_removed(self) -> None:
        """It gives the place after which new events of others arrived, ignoring own and known events."""
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
        in_order, shuffled = self.store("s"), self.store("t", writer=BEN)
        take(in_order, history)
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        mixed = history + chance.sample(history, 10)
        chance.shuffle(mixed)
        while mixed:
            size = chance.choice((1, 2, 7, 40))
            take(shuffled, mixed[:size])
            del mixed[:size]
            for session in shuffled.sessions():
                assert shuffled.state(session) == fold(shuffled.events(session), session)
        assert everything(in_order) == everything(shuffled)
        assert_sound(in_order)
        assert_sound(shuffled)

    def test_late_events_find_their_place_in_a_long_session(self) -> None:
        """A late event changes the state as if it had always been there, also far behind the end."""
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
        """An event that does not fit its own hash changes nothing, nor do the good ones next to it."""
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

    def test_numbers_out_of_range_are_refused(self) -> None:
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
        assert sorted(item.text for item in state.notes) == ["one", "two"]
        assert state == fold(store.events(SESSION), SESSION)


# ── arrivals and streams ─────────────────────────────────────────────────────────────────────────────────


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
        """Events of all sessions and connections, each once, at growing places."""
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
        """A late event is placed at the end, in the order received; known events get no second place."""
        store = self.store()
        mine = put(store, SESSION, started(), note("a"))
        theirs = [foreign(BEN, 1, note("old"), clock=5), foreign(CARO, 1, note("older"), clock=3, session=THIRD)]
        take(store, [*theirs, *mine])
        after = put(store, SESSION, note("b"))
        take(store, theirs)
        assert arrivals(store) == [*mine, *theirs, *after]

    def test_portions_are_the_whole(self) -> None:
        """Reading on from the last place, in portions of any size, gives every event once."""
        store = self.store()
        take(store, self.history())
        arrivals = store.arrived(0, 1_000_000)
        for size in (1, 3, 7, 1000):
            received, place = [], 0
            while portion := store.arrived(place, size):
                assert len(portion) <= size
                received += portion
                place = portion[-1].place
            assert received == arrivals
        assert store.arrived(arrivals[-1].place, 5) == []
        assert store.latest_place() == arrivals[-1].place
        assert store.arrived(0, 0) == []

    def test_a_failed_transaction_leaves_no_place(self) -> None:
        """Events of a transaction that was rolled back do not arrive; the next event does."""
        store = self.store()
        put(store, SESSION, started())
        last = store.arrived(0, 10)[-1].place
        with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
            transaction.receive(chain(BEN, 5))
            raise RuntimeError
        assert store.arrived(last, 10) == []
        made = put(store, SESSION, note("x"))
        assert [arrival.event for arrival in store.arrived(last, 10)] == made

    def test_part_of_a_stream_comes_in_its_order(self) -> None:
        """A range of numbers, both ends included, of this session and writer only, in any order of arrival."""
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

    def test_stream_with_gaps_returns_what_is_there(self) -> None:
        """Missing numbers are left out; two events with one number are both returned."""
        store = self.store()
        theirs = chain(BEN, 9)
        take(store, [theirs[8], theirs[1], theirs[4]])
        assert store.stream(SESSION, BEN, 1, 9) == [theirs[1], theirs[4], theirs[8]]
        assert store.stream(SESSION, BEN, 3, 8) == [theirs[4]]
        fork = foreign(BEN, 5, note("another five"), clock=theirs[4].clock + 1, prev=theirs[3])
        take(store, [fork])
        assert store.stream(SESSION, BEN, 5, 5) == [theirs[4], fork]
