"""What every store must do, as tests: a new kind of store derives `StoreConformance`, brings its hooks, and passes.

    class TestMyStore(StoreConformance):
        def open_store(self, where="one", *, writer=ANNA, wall=None): ...
        def make_newer(self, where="one"): ...

Only `holdfast.store.interface` is used, so nothing here depends on how a store keeps what it keeps. `self.place` is a
directory of the test's own. Stores that were opened through `self.store` are closed after the test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core.canonical import LARGEST, Json, canonical
from holdfast.core.errors import Busy, Conflict, Damaged, HoldfastError, Invalid, NotFound, Refused
from holdfast.core.event import Event, seal, trouble
from holdfast.core.fold import fold
from holdfast.core.state import State, freeze
from holdfast.core.vocabulary import (
    AgentCompleted,
    AgentStarted,
    AliasGiven,
    Data,
    DecisionMade,
    DeviceJoined,
    EventErased,
    NativeLinked,
    NoteAdded,
    Project,
    SessionArchived,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    TaskAdded,
)
from holdfast.store.interface import Draft, Filter, Store
from holdfast.store.verify import flaws

ANNA, BEN, CARO = "a" * 20, "b" * 20, "c" * 20
SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "11119999-2222-4333-8444-555555555555"
THIRD = "77777777-2222-4333-8444-555555555555"
PROJECT = Project(id="project-1", name="shop", path="/home/me/shop")
START = 1_800_000_000_000  # ms
DAY = 86_400_000


class Ticks:
    """A wall clock that a test sets: microseconds, a millisecond more with every look."""

    def __init__(self, micros: int = START * 1000) -> None:
        self.micros = micros

    def __call__(self) -> int:
        self.micros += 1000
        return self.micros


def started(goal: str = "Build the shop", **more: object) -> SessionStarted:
    facts: dict[str, object] = {"project": PROJECT, "device": "laptop", **more}
    return SessionStarted(goal=goal, **facts)  # type: ignore[arg-type]


def draft(data: Data, at: int = START, *, key: str | None = None, actor: str = "anna") -> Draft:
    return Draft(data, at, actor, key)


def put(store: Store, session: str, *data: Data, at: int = START, key: str | None = None) -> list[Event]:
    """Record in a transaction of its own; the events that were new."""
    with store.transaction() as transaction:
        made = [transaction.record(session, draft(one, at, key=key)) for one in data]
    return [one for one in made if one is not None]


def take(store: Store, events: Iterable[Event]) -> int:
    with store.transaction() as transaction:
        return transaction.receive(events)


def everything(store: Store) -> dict[str, object]:
    """All that a store shows, to compare one with another, or before with after."""
    shown: dict[str, object] = {"rows": store.rows(Filter()), "sessions": list(store.sessions())}
    for session in store.sessions():
        state = store.state(session)
        assert state is not None
        shown[session] = (list(store.events(session)), freeze(state), store.find(session))
    for word in ("shop", "paint", "blue", "secret", "note"):
        shown[f"search {word}"] = [row.id for row in store.rows(Filter(search=word))]
    for alias in ("alias-one", "alias-two"):
        shown[f"find {alias}"] = store.find(alias)
    return shown


def assert_sound(store: Store) -> None:
    """Every state is the fold of its events, every chain holds, and the store's own check agrees."""
    for session in store.sessions():
        events = list(store.events(session))
        assert events == sorted(events, key=lambda event: event.position)
        assert store.state(session) == fold(events, session)
        assert [trouble(event) for event in events] == [None] * len(events)
    assert list(store.check()) == []


def foreign(
    writer: str, seq: int, data: Data | Json, *, clock: int, prev: Event | None = None, kind: str = "note.added",
    session: str = SESSION, key: str | None = None, version: int = 1, at: int = START,
) -> Event:  # fmt: skip
    """An event as another program could have written it."""
    written = canonical(msgspec.to_builtins(data) if isinstance(data, msgspec.Struct) else data)
    return seal(
        session=session, writer=writer, seq=seq, prev=prev.hash if prev else None, clock=clock, at=at, actor="ben",
        type=kind, version=version, data=written, salt=bytes(16), key=key,
    )  # fmt: skip


def note(text: str) -> NoteAdded:
    return NoteAdded(text=text)


class StoreConformance:
    place: Path
    _opened: list[Store]

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────────────

    def open_store(self, where: str = "one", *, writer: str = ANNA, wall: Callable[[], int] | None = None) -> Store:
        """Open the store of this name, made on first use. Opened again it is a second connection to the same."""
        raise NotImplementedError

    def make_newer(self, where: str = "one") -> None:
        """Change the closed store so that it looks as if a later version of the program had written it."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _around(self, tmp_path: Path) -> Iterator[None]:
        self.place, self._opened = tmp_path, []
        yield
        for store in self._opened:
            store.close()

    def store(self, where: str = "one", *, writer: str = ANNA, wall: Callable[[], int] | None = None) -> Store:
        store = self.open_store(where, writer=writer, wall=wall or Ticks())
        self._opened.append(store)
        return store

    def reopened(self, store: Store, where: str = "one", *, writer: str = ANNA) -> Store:
        self._opened.remove(store)
        store.close()
        return self.store(where, writer=writer)

    def history(self) -> list[Event]:
        """Three writers at work on one session: together, apart, and with equal keys."""
        anna, ben, caro = self.store("ha"), self.store("hb", writer=BEN), self.store("hc", writer=CARO)
        put(anna, SESSION, started(aliases={"craft": "alias-one"}))
        for number in range(20):
            put(anna, SESSION, note(f"note {number} of anna"), at=START + number)
        take(ben, anna.events(SESSION))
        put(ben, SESSION, DeviceJoined(device="desk"), SessionEdited(goal="Paint the shop"), at=START + 50)
        put(anna, SESSION, SessionEdited(goal="Sell the shop"), SessionPaused(reason="lunch"), at=START + 60)
        put(anna, SESSION, note("heard by a hook"), key="hook:1", at=START + 61)
        put(ben, SESSION, note("heard by a hook"), key="hook:1", at=START + 62)
        put(ben, SESSION, AgentStarted(id="one", type="tester"), TaskAdded(id="t1", text="blue paint"))
        take(caro, [*anna.events(SESSION), *ben.events(SESSION)])
        put(caro, SESSION, DeviceJoined(device="phone"), SessionResumed(), AliasGiven(format="craft", id="alias-two"))
        put(ben, SESSION, AgentCompleted(id="one", summary="painted"), at=START + 80)
        for number in range(30):
            put(caro, SESSION, note(f"note {number} of caro"), at=START + 100 + number)
        put(caro, OTHER, started("Another", continues=SESSION), at=START + 5)
        found = [*anna.events(SESSION), *ben.events(SESSION), *caro.events(SESSION), *caro.events(OTHER)]
        return list({event.hash: event for event in found}.values())

    # ── nothing yet ──────────────────────────────────────────────────────────────────────────────────────

    def test_a_new_store_is_empty(self) -> None:
        """Asking an empty store for anything gives nothing, and no error."""
        store = self.store()
        assert store.state(SESSION) is None
        assert list(store.events(SESSION)) == []
        assert store.rows(Filter()) == []
        assert store.rows(Filter(search="shop", project="p", status="paused", since=1, limit=3)) == []
        assert list(store.sessions()) == []
        assert store.find("1111") == []
        assert store.current("/home/me/shop") is None
        assert store.project_at("path", "/home/me/shop") == []
        assert store.latest_time() is None
        assert list(store.check()) == []

    def test_a_transaction_may_do_nothing(self) -> None:
        """An empty transaction leaves an empty store."""
        store = self.store()
        with store.transaction() as transaction:
            assert transaction.state(SESSION).count == 0
        assert store.state(SESSION) is None
        assert list(store.sessions()) == []

    # ── durable, all or nothing ──────────────────────────────────────────────────────────────────────────

    def test_what_was_recorded_is_there_after_closing(self) -> None:
        """Events, states, listings, search, places and projects survive the end of the process."""
        store = self.store()
        put(store, SESSION, started(), note("a red door"))
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
            transaction.know_project(PROJECT)
        before = everything(store)
        store = self.reopened(store)
        assert everything(store) == before
        assert store.current("/home/me/shop") == SESSION
        assert store.project_at("path", "/home/me/shop") == ["project-1"]
        assert [row.id for row in store.rows(Filter(search="red doo"))] == [SESSION]

    def test_a_second_connection_sees_what_was_acknowledged(self) -> None:
        """What one connection recorded, another shows at once, and goes on from."""
        one, two = self.store(), self.store(writer=BEN)
        put(one, SESSION, started())
        assert two.state(SESSION) == one.state(SESSION)
        put(two, SESSION, note("from two"))
        state = one.state(SESSION)
        assert state is not None
        assert [kept.text for kept in state.notes] == ["from two"]
        with one.transaction() as transaction:
            assert transaction.state(SESSION).count == 2

    @pytest.mark.parametrize("known", [False, True])
    def test_a_failed_transaction_changes_nothing(self, known: bool) -> None:
        """Whatever was done in a block that an exception leaves did not happen: nothing of it can be found."""
        store = self.store()
        put(store, OTHER, started("Other"))
        if known:
            put(store, SESSION, started())
        before = everything(store)
        message = "stop"
        with pytest.raises(RuntimeError, match="stop"), store.transaction() as transaction:  # noqa: PT012
            transaction.record(SESSION, draft(started("secret"), key="once"))
            transaction.record(SESSION, draft(note("secret paint")))
            transaction.record(SESSION, draft(AliasGiven(format="craft", id="alias-one")))
            transaction.receive([foreign(BEN, 1, note("blue"), clock=5, session=THIRD)])
            transaction.set_current("/home/me/shop", SESSION)
            transaction.know_project(PROJECT)
            raise RuntimeError(message)
        assert everything(store) == before
        assert store.current("/home/me/shop") is None
        assert store.project_at("path", "/home/me/shop") == []
        assert store.state(THIRD) is None
        assert_sound(store)
        made = put(store, SESSION, note("afterwards"), key="once")
        assert [event.seq for event in made] == [2 if known else 1]
        assert_sound(self.reopened(store))

    def test_data_that_cannot_be_stored_is_refused_and_nothing_happens(self) -> None:
        """Lone surrogates and numbers too large for JSON programs end in a typed error and an unchanged store."""
        store = self.store()
        put(store, SESSION, started())
        before = everything(store)
        for bad in (note("half \ud800 pair"), TaskAdded(id="t", text="\udfff")):
            with pytest.raises(Invalid), store.transaction() as transaction:  # noqa: PT012
                transaction.record(SESSION, draft(note("first")))
                transaction.record(SESSION, draft(bad))
        assert everything(store) == before

    def test_text_comes_back_as_it_was(self) -> None:
        """Every text that UTF-8 can hold is kept exactly: NUL, bidi, line separators, combining marks, long ones."""
        texts = ["", "\0", "a\0b", "\u202e\u2028\u2029", "e\u0301é", "日本語", "🧑‍🔧", "'; DROP TABLE events; --"]
        texts.append("x" * 100_000)
        store = self.store()
        put(store, SESSION, started(), *(note(one) for one in texts))
        state = self.reopened(store).state(SESSION)
        assert state is not None
        assert [kept.text for kept in state.notes] == texts

    def test_one_transaction_may_touch_several_sessions(self) -> None:
        """Sessions changed together are all there afterwards, each with its own stream."""
        store = self.store()
        with store.transaction() as transaction:
            for session in (SESSION, OTHER, THIRD):
                transaction.record(session, draft(started(session[:8])))
                transaction.record(session, draft(note("hello")))
        assert [row.goal for row in store.rows(Filter())] == ["77777777", "11119999", "11111111"]
        assert all([event.seq for event in store.events(one)] == [1, 2] for one in store.sessions())
        assert_sound(store)

    def test_the_state_in_a_transaction_follows_what_it_records(self) -> None:
        """Within the block, `state` includes what was just recorded."""
        store = self.store()
        with store.transaction() as transaction:
            assert transaction.writer() == ANNA
            transaction.record(SESSION, draft(started()))
            assert transaction.state(SESSION).count == 1
            transaction.record(SESSION, draft(note("two")))
            assert [kept.text for kept in transaction.state(SESSION).notes] == ["two"]

    # ── chain, clock, causality ──────────────────────────────────────────────────────────────────────────

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
            one = transaction.record(SESSION, Draft(note("same"), START - 5, "caro", "k1"))
            two = transaction.record(SESSION, Draft(note("same"), START - 5, "caro"))
        assert one is not None
        assert two is not None
        assert (one.at, one.actor, one.key, one.type, one.v) == (START - 5, "caro", "k1", "note.added", 1)
        assert one.data == b'{"text":"same"}'
        assert one.body != two.body
        assert list(store.events(SESSION)) == [one, two]

    def test_clocks_only_grow(self) -> None:
        """Whatever the machine's clock does, every event has a larger clock than all before it in the store."""
        wall = Ticks()
        store = self.store(wall=wall)
        clocks = []
        for session, micros in (
            (SESSION, 0),
            (OTHER, -DAY * 1000),
            (SESSION, -(10**15)),
            (THIRD, 5),
            (OTHER, 10**14),
        ):
            wall.micros += micros
            clocks += [event.clock for event in put(store, session, note("x"), note("y"))]
        store = self.reopened(store)
        clocks += [event.clock for event in put(store, THIRD, note("z"))]
        assert clocks == sorted(set(clocks))
        assert clocks[0] > START * 1000
        assert_sound(store)

    def test_a_received_event_pushes_the_clock(self) -> None:
        """What is recorded after hearing of another writer's event comes after it in the log, in any session."""
        store = self.store()
        ahead = (START + DAY) * 1000
        put(store, SESSION, started())
        assert take(store, [foreign(BEN, 1, note("early bird"), clock=ahead)]) == 1
        assert put(store, OTHER, started("Other"))[0].clock > ahead
        store = self.reopened(store)
        assert put(store, SESSION, note("later"))[0].clock > ahead
        with store.transaction() as transaction:
            transaction.record(SESSION, draft(note("x")))
            transaction.receive([foreign(BEN, 1, note("further"), clock=ahead * 2, session=THIRD)])
            made = transaction.record(SESSION, draft(note("y")))
            assert made is not None
            assert made.clock > ahead * 2
        assert_sound(store)

    @pytest.mark.parametrize("writer", ["0" * 20, "f" * 20])
    def test_a_clock_at_its_end_stops_nobody(self, writer: str) -> None:
        """After an event with the largest clock there is, recording goes on and the state is still the fold."""
        store = self.store()
        put(store, SESSION, started())
        take(store, [foreign(writer, 1, note("the end of time"), clock=LARGEST)])
        put(store, SESSION, note("still here"), note("and here"))
        put(store, SESSION, SessionPaused())
        assert_sound(store)
        assert_sound(self.reopened(store))

    def test_the_first_event_of_a_writer_names_the_heads_it_saw(self) -> None:
        """`seen` holds the heads of other streams that moved since the writer's previous event, and only those."""
        one, two = self.store(), self.store(writer=BEN)
        first, second = put(one, SESSION, started(), note("a"))
        assert (first.seen, second.seen) == ((), ())
        joined, after = put(two, SESSION, DeviceJoined(device="desk"), note("b"))
        assert joined.seen == (second.head,)
        assert after.seen == ()
        third = put(one, SESSION, note("c"))[0]
        assert third.seen == (after.head,)
        assert put(one, SESSION, note("d"))[0].seen == ()
        assert put(two, SESSION, note("e"))[0].seen == (list(one.events(SESSION))[-2].head,)
        assert_sound(one)

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
                assert rest == [one for one in whole if one.clock >= event.clock]
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

    # ── receiving ────────────────────────────────────────────────────────────────────────────────────────

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
        for clock, seq in ((LARGEST + 1, 1), (2**63, 1), (2**70, 1), (-1, 1), (5, 0), (5, 2**64), (5, -3)):
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

    # ── deleting, erasing ────────────────────────────────────────────────────────────────────────────────

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
        gone = put(source, SESSION, note("secret paint"), AliasGiven(format="craft", id="alias-one"))
        whole = list(source.events(SESSION))
        put(source, SESSION, EventErased(hashes=tuple(event.hash for event in gone)))
        erasure = list(source.events(SESSION))[-1]
        assert source.find("alias-one") == []
        assert_sound(source)
        events = [*whole, erasure]
        random.Random(seed).shuffle(events)  # noqa: S311 (the same each time)
        store = self.store("target", writer=CARO)
        for event in events:
            take(store, [event])
        data = {event.hash: event.data for event in store.events(SESSION)}
        assert [data[event.hash] for event in gone] == [None, None]
        assert data[kept.hash] == kept.data
        assert store.rows(Filter(search="secret")) == []
        assert [row.id for row in store.rows(Filter(search="paint"))] == [SESSION]
        assert everything(store) == everything(source)
        assert_sound(store)

    # ── listings and search ──────────────────────────────────────────────────────────────────────────────

    def shelf(self) -> Store:
        """Five sessions of two projects, a day apart, in several states."""
        store = self.store()
        elsewhere = Project(id="project-2", name="house", path="/home/me/house")
        for number in range(5):
            session = f"{number}aaaaaaa-0000-4000-8000-00000000000{number}"
            project = PROJECT if number % 2 == 0 else elsewhere
            put(store, session, started(f"Goal {number}", project=project), at=START + number * DAY)
            if number == 1:
                put(store, session, SessionPaused(), at=START + number * DAY + 5)
            if number == 2:
                put(store, session, SessionCompleted(summary="Done and dusted"), at=START + number * DAY + 5)
            if number == 3:
                put(store, session, SessionArchived(), at=START + number * DAY + 5)
        return store

    def goals(self, store: Store, **which: object) -> list[str]:
        return [row.goal[-1] for row in store.rows(Filter(**which))]  # type: ignore[arg-type]

    def test_listings_come_newest_first_and_filtered(self) -> None:
        """By creation, then by id; by project, status, age and number, alone and together."""
        store = self.shelf()
        assert self.goals(store) == ["4", "3", "2", "1", "0"]
        assert self.goals(store, limit=2) == ["4", "3"]
        assert self.goals(store, project="project-1") == ["4", "2", "0"]
        assert self.goals(store, project="project-2", limit=1) == ["3"]
        assert self.goals(store, project="project-9") == []
        assert self.goals(store, status="paused") == ["1"]
        assert self.goals(store, status="completed", project="project-2") == []
        assert self.goals(store, since=START + 3 * DAY) == ["4", "3"]
        assert self.goals(store, since=START + 3 * DAY + 1) == ["4"]
        assert self.goals(store, search="goal", since=START + DAY, project="project-1", limit=1) == ["4"]
        assert self.goals(store, search="dusted") == ["2"]

    def test_equal_times_are_ordered_by_id(self) -> None:
        """Sessions created in the same millisecond come in a fixed order, the larger id first."""
        store = self.store()
        for session in (OTHER, SESSION, THIRD):
            put(store, session, started(session[:4]))
        assert [row.id for row in store.rows(Filter())] == [THIRD, OTHER, SESSION]
        assert list(store.sessions()) == [SESSION, OTHER, THIRD]

    def test_a_row_shows_what_the_log_adds_up_to(self) -> None:
        """Goal, status, progress, project, device, times and working time are those of the state."""
        store = self.store()
        put(store, SESSION, started(), at=START)
        put(store, SESSION, SessionEdited(progress=0.5, goal="Sell the shop"), at=START + 60_000)
        row = store.rows(Filter())[0]
        assert (row.id, row.goal, row.status, row.progress) == (SESSION, "Sell the shop", "in_progress", 0.5)
        assert (row.project, row.device, row.archived) == ("shop", "laptop", False)
        assert (row.created_at, row.updated_at) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:01:00.000Z")
        assert row.working_ms == 60_000

    def test_sessions_count_as_archived_by_event_and_by_age(self) -> None:
        """With a moment and an age given, sessions that ended longer ago count as archived; nothing is recorded."""
        store = self.shelf()
        events = sum(len(list(store.events(one))) for one in store.sessions())

        def archived(**which: object) -> list[str]:
            return [row.goal[-1] for row in store.rows(Filter(**which)) if row.archived]  # type: ignore[arg-type]

        ended = START + 2 * DAY + 5
        assert archived() == ["3"]
        assert archived(now=ended + DAY, archive_after=DAY) == ["3"]
        assert archived(now=ended + DAY + 1, archive_after=DAY) == ["3", "2"]
        assert sum(len(list(store.events(one))) for one in store.sessions()) == events

    def test_search_finds_words_whole_and_the_last_one_begun(self) -> None:
        """Every word must be there; the last may be unfinished; case and accents do not count; order as listings."""
        store = self.store()
        put(store, SESSION, started("Façade für das Geschäft"), note("naïve DOOR_handle 42"), at=START)
        put(store, OTHER, started("日本語の計画"), note("door hinges"), at=START + 1)
        put(store, THIRD, started("Ledger"), DecisionMade(chosen="Oak", options=("Pine", "Elm"), why="hard"))
        for text, due in {
            "door": [OTHER, SESSION], "DOO": [OTHER, SESSION], "handle door": [SESSION], "doo handle": [],
            "facade": [SESSION], "FUR das gesch": [SESSION], "naive 4": [SESSION], "日": [OTHER], "語計": [OTHER],
            "pine": [THIRD], "hard oak el": [THIRD], "oak zebra": [], "": [], "!?": [], "_": [], "%": [],
        }.items():  # fmt: skip
            assert [row.id for row in store.rows(Filter(search=text))] == due, text
        assert [row.id for row in store.rows(Filter(search="door", limit=1))] == [OTHER]

    def test_finding_by_id_prefix_and_alias(self) -> None:
        """A reference means every session whose id begins with it or that has it as an alias."""
        store = self.store()
        put(store, SESSION, started(aliases={"craft": "alias-one"}))
        put(store, OTHER, started("Other"), AliasGiven(format="timer", id="7777"))
        put(store, THIRD, started("Third"), AliasGiven(format="craft", id="Alias_Two%"))
        assert store.find(SESSION) == store.find(SESSION.upper()) == [SESSION]
        assert store.find("1111") == [SESSION, OTHER]
        assert store.find("11111") == [SESSION]
        assert store.find("alias-one") == [SESSION]
        assert store.find("7777") == [OTHER, THIRD]
        assert store.find("Alias_Two%") == [THIRD]
        assert store.find("alias") == store.find("Alias%") == store.find("1%") == store.find("zzzz") == []

    def test_an_alias_given_anew_replaces_the_old_one(self) -> None:
        """Per format a session has one alias, the last in the log: the one before finds it no longer."""
        store = self.store()
        put(store, SESSION, started(aliases={"craft": "alias-one"}))
        put(store, SESSION, AliasGiven(format="craft", id="alias-two"))
        assert store.find("alias-one") == []
        assert store.find("alias-two") == [SESSION]
        assert_sound(store)

    # ── what belongs to this machine ─────────────────────────────────────────────────────────────────────

    def test_each_place_has_its_own_current_session(self) -> None:
        """A work tree points at one session until it is pointed elsewhere or nowhere; the log knows nothing of it."""
        store = self.store()
        put(store, SESSION, started())
        put(store, OTHER, started("Other"))
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
            transaction.set_current("/home/me/shop-2", OTHER)
        assert (store.current("/home/me/shop"), store.current("/home/me/shop-2")) == (SESSION, OTHER)
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", OTHER)
            transaction.set_current("/home/me/shop-2", None)
            transaction.set_current("/nowhere", None)
        assert (store.current("/home/me/shop"), store.current("/home/me/shop-2")) == (OTHER, None)
        assert len(list(store.events(SESSION))) == 1

    def test_projects_are_found_by_their_evidence(self) -> None:
        """Path, remote and root commits find a project; two may share a piece of evidence."""
        store = self.store()
        shop = Project(id="p1", name="shop", path="/a", remote="github.com/x/shop", roots=("r1", "r2"))
        fork = Project(id="p2", name="fork", path="/b", roots=("r1",))
        with store.transaction() as transaction:
            transaction.know_project(shop)
            transaction.know_project(fork)
            transaction.know_project(shop)
        assert store.project_at("path", "/a") == ["p1"]
        assert store.project_at("path", "/b") == ["p2"]
        assert store.project_at("remote", "github.com/x/shop") == ["p1"]
        assert store.project_at("root", "r1") == ["p1", "p2"]
        assert store.project_at("root", "r2") == ["p1"]
        assert store.project_at("root", "/a") == store.project_at("path", "r1") == []

    def test_the_latest_time_is_that_of_the_event_recorded_last(self) -> None:
        """Not the largest: a machine whose clock was wrong for a while must not go on from that."""
        store = self.store()
        put(store, SESSION, started(), at=START + 99)
        put(store, OTHER, started("Other"), at=START + 5)
        assert store.latest_time() == START + 5
        assert self.reopened(store).latest_time() == START + 5

    # ── states ───────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("seed", range(3))
    def test_the_state_is_always_the_fold_of_the_events(self, seed: int) -> None:
        """Whatever three connections do in turn, in any order, with failures in between, states are folds."""
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        stores = [self.store(writer=ANNA), self.store(writer=BEN), self.store("apart", writer=CARO)]
        wall = START
        for step in range(120):
            store = chance.choice(stores)
            session = chance.choice((SESSION, OTHER))
            wall += chance.choice((0, 1, 60_000, 600_000, -5_000))
            data: Data = chance.choice((
                started(f"Goal {step}"), note(f"note {step}"), SessionPaused(), SessionResumed(),
                SessionEdited(goal=f"goal {step}"), AgentStarted(id=f"a{step % 5}", type="x"),
                AgentCompleted(id=f"a{step % 5}"), TaskAdded(id=f"t{step % 5}", text=f"task {step}"),
            ))  # fmt: skip
            match chance.randrange(12):
                case 0:
                    take(store, [event for one in stores for event in one.events(session)])
                case 1:
                    with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
                        transaction.record(session, draft(data, wall))
                        raise RuntimeError
                case 2:
                    index = stores.index(store)
                    where, writer = ("apart", CARO) if index == 2 else ("one", (ANNA, BEN)[index])
                    stores[index] = self.reopened(store, where, writer=writer)
                case 3:
                    put(store, session, data, at=wall, key=f"k{step % 3}")
                case _:
                    put(store, session, data, at=wall)
            for one in stores:
                state = one.state(session)
                assert (state or State(session=session)) == fold(one.events(session), session)
        for one in stores:
            assert_sound(one)

    # ── versions, copies, checks ─────────────────────────────────────────────────────────────────────────

    def test_a_newer_store_is_refused(self) -> None:
        """A store that a later program wrote is not opened, and what it holds is not touched."""
        store = self.store()
        put(store, SESSION, started())
        self._opened.remove(store)
        store.close()
        self.make_newer()
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                self.open_store(wall=Ticks())
            assert caught.value.exit_code == 1
            assert "newer" in caught.value.message
            assert caught.value.hint

    def test_a_backup_restores_everything(self) -> None:
        """An empty store united with a backup shows what the first one showed, and finds projects again."""
        store = self.store()
        events = self.history()
        take(store, events)
        copy = str(self.place / "copy.backup")
        store.backup(copy)
        put(store, SESSION, note("after the backup"))
        fresh = self.store("fresh", writer=BEN)
        assert fresh.restore(copy) == len(events)
        straight = self.store("straight", writer=CARO)
        take(straight, events)
        assert everything(fresh) == everything(straight)
        assert fresh.project_at("path", "/home/me/shop") == ["project-1"]
        assert_sound(fresh)
        assert fresh.restore(copy) == 0

    def test_restoring_unites_and_takes_nothing_away(self) -> None:
        """What happened since the backup stays, what the backup has is added, what was deleted stays deleted."""
        store = self.store()
        put(store, SESSION, started(), note("secret paint"))
        put(store, OTHER, started("Other"), note("before"))
        copy = str(self.place / "copy.backup")
        store.backup(copy)
        store.erase(SESSION, draft(SessionDeleted()))
        put(store, OTHER, note("after"))
        assert store.restore(copy) == 0
        self.assert_deleted(store)
        other = self.store("other", writer=BEN)
        put(other, THIRD, started("Third"))
        take(other, list(store.events(SESSION))[-1:])
        assert other.restore(copy) == 4
        self.assert_deleted(other)
        assert [row.id for row in other.rows(Filter())] == [THIRD, OTHER]

    def test_a_backup_is_never_written_over_something(self) -> None:
        """A name that is taken is refused, and what is there stays; a missing directory is a typed error."""
        store = self.store()
        put(store, SESSION, started())
        (self.place / "taken").write_bytes(b"mine")
        with pytest.raises(Conflict):
            store.backup(str(self.place / "taken"))
        assert (self.place / "taken").read_bytes() == b"mine"
        with pytest.raises(HoldfastError):
            store.backup(str(self.place / "nowhere" / "copy"))
        assert_sound(store)

    def test_what_is_no_backup_is_refused_and_changes_nothing(self) -> None:
        """A missing file, a directory, an empty file, text and half a backup end in typed errors."""
        store = self.store()
        put(store, SESSION, started())
        store.backup(str(self.place / "copy"))
        whole = (self.place / "copy").read_bytes()
        (self.place / "half").write_bytes(whole[: len(whole) // 2])
        (self.place / "empty").write_bytes(b"")
        (self.place / "text").write_bytes(b"This is not a backup.\n" * 400)
        fresh = self.store("fresh", writer=BEN)
        put(fresh, OTHER, started("Other"))
        before = everything(fresh)
        for name, kinds in {
            "missing": (NotFound,), "": (Invalid,), "empty": (Invalid, Damaged), "text": (Invalid, Damaged),
            "half": (Invalid, Damaged),
        }.items():  # fmt: skip
            with pytest.raises(kinds):
                fresh.restore(str(self.place / name))
        assert everything(fresh) == before

    def test_repairing_a_sound_store_loses_nothing(self) -> None:
        """`repair` without damage gives the same log, states, listings and search, and nothing is said to be lost."""
        store = self.store()
        take(store, self.history())
        put(store, THIRD, started("Third"))
        store.erase(OTHER, draft(SessionDeleted()))
        before = everything(store)
        said = store.repair()
        assert not [one for one in said if "could not" in one]
        assert everything(store) == before
        assert_sound(store)
        put(store, SESSION, note("goes on"))
        assert_sound(self.reopened(store))
