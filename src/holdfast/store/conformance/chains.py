"""How an event gets its place: chain, what its writer had seen, and its key. Clocks have a module of their own."""

from __future__ import annotations

import pytest

from holdfast.core.errors import Busy
from holdfast.core.events import DeviceJoined, NativeLinked, SessionDeleted
from holdfast.store import origin
from holdfast.store.checks import flaws
from holdfast.store.conformance.fixtures import (
    BEN,
    CARO,
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
from holdfast.store.interface import Draft, Filter


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
        """Time, actor, key, type and data are those of the draft; the salt makes equal data unlike."""
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
        """Whoever asks again from the last clock it knows misses nothing: that clock's own events come again."""
        store = self.store()
        take(store, self.history())
        for session in (SESSION, OTHER):
            whole = list(store.events(session))
            assert list(store.events(session, since=0)) == whole
            for event in whole:
                rest = list(store.events(session, since=event.clock))
                assert rest == [item for item in whole if item.clock >= event.clock]
                assert event in rest
            assert list(store.events(session, since=whole[-1].clock + 1)) == []
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
        """What only guests recorded is recorded all the same, once, under a key that is the same on every device."""
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
        assert [kept.text for kept in state.notes] == ["taken", "taken", "ours"]
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

    def test_who_has_little_time_is_not_kept_waiting(self) -> None:
        """Somebody else is writing: an error that says so, and nothing written; afterwards all is as before."""
        store, other = self.store(), self.store(writer=BEN)
        put(store, SESSION, started())
        with store.transaction(), pytest.raises(Busy), other.transaction(patience=0.01):
            pass
        assert len(put(other, SESSION, note("later"))) == 1

    def test_a_session_is_found_by_its_conversations(self) -> None:
        """As `agent:id`, until it is deleted."""
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
        assert [kept.text for kept in state.notes] == ["paint of theirs" if late else "blue words of mine"]
        assert len(list(store.events(SESSION))) == 3
        assert bool(store.rows(Filter(search="blue"))) is not late
        assert bool(store.rows(Filter(search="paint"))) is late
        assert put(store, SESSION, note("a third"), key="hook:7") == []
        assert_sound(store)
