"""Transactions are durable once acknowledged, atomic, and noticed by other connections."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.core.errors import Invalid
from holdfast.core.events import AliasGiven, ProjectFacts, SessionDeleted, SessionEdited, TaskAdded
from holdfast.core.fold import fold
from holdfast.core.state import freeze
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    DAY,
    OTHER,
    PROJECT,
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
from holdfast.store.interface import Filter, Transaction

# ── durability ───────────────────────────────────────────────────────────────────────────────────────────


class Durability(StoreFixture):
    def test_a_new_store_is_empty(self) -> None:
        """An empty store answers every question, without an error."""
        store = self.store()
        assert store.state(SESSION) is None
        assert list(store.events(SESSION)) == []
        assert store.rows(Filter()) == []
        assert store.rows(Filter(search="shop", projects=("p",), status="paused", since=1, limit=3)) == []
        assert list(store.sessions()) == []
        assert store.find("1111") == []
        assert store.current("/home/me/shop") is None
        assert store.projects_with("path", "/home/me/shop") == []
        assert store.latest_time() is None
        assert list(store.check()) == []

    def test_a_transaction_may_do_nothing(self) -> None:
        """An empty transaction leaves an empty store."""
        store = self.store()
        with store.transaction() as transaction:
            assert transaction.state(SESSION).count == 0
        assert store.state(SESSION) is None
        assert list(store.sessions()) == []

    @pytest.mark.parametrize("about", [None, SESSION, OTHER, THIRD, "it's\0 \\ %s nobody's"])
    def test_what_a_transaction_is_about_is_only_a_hint(self, about: str | None) -> None:
        """`about` may name any session, existing or not; the transaction may write to every session all the same."""
        anna, ben = self.store(), self.store(writer=BEN)
        put(anna, SESSION, started())
        put(ben, SESSION, note("from two"))
        put(ben, OTHER, started("Other"))
        with anna.transaction(about=about) as transaction:
            assert [item.text for item in transaction.state(SESSION).notes] == ["from two"]
            assert transaction.state(OTHER).count == 1
            assert transaction.state(THIRD).count == 0
            transaction.record(SESSION, draft(note("from one")))
            transaction.record(OTHER, draft(note("from one too")))
            assert transaction.state(SESSION).count == 3
        with anna.transaction(about=about):
            pass
        assert sorted(ben.sessions()) == [SESSION, OTHER]
        assert ben.state(SESSION) == anna.state(SESSION)
        assert_sound(ben)

    def test_keys_that_are_expected(self) -> None:
        """Keys announced by `expect` are known once recorded by any writer, and only in their session."""
        anna, ben = self.store(), self.store(writer=BEN)
        put(anna, SESSION, started(), key="hook:0")
        put(ben, SESSION, note("from two"), key="hook:\0two")
        with anna.transaction() as transaction:
            for session in (SESSION, OTHER):
                transaction.expect(session, ["hook:0", "hook:\0two", "hook:1", "hook:1"])
            transaction.expect(SESSION, [])
            known = [transaction.knows(SESSION, key) for key in ("hook:0", "hook:\0two", "hook:1", "hook:2")]
            assert known == [True, True, False, False]
            assert not transaction.knows(OTHER, "hook:0")
            assert transaction.record(SESSION, draft(note("again"), key="hook:\0two")) is None
            assert transaction.record(SESSION, draft(note("new"), key="hook:1")) is not None
            assert transaction.record(SESSION, draft(note("new"), key="hook:1")) is None
            assert transaction.knows(SESSION, "hook:1")
            assert transaction.record(OTHER, draft(started("Other"), key="hook:1")) is not None
            withdrawn = transaction.withdraw(SESSION, {ANNA: 1})
            assert [event.key for event in withdrawn] == ["hook:1"]
            assert not transaction.knows(SESSION, "hook:1")
            assert transaction.knows(OTHER, "hook:1")
        with ben.transaction() as transaction:
            assert not transaction.knows(SESSION, "hook:1")
            assert transaction.record(SESSION, draft(note("at last"), key="hook:1")) is not None
        assert_sound(anna)

    def test_much_is_recorded_at_once(self) -> None:
        """Many events of many sessions all arrive, in order, and are found by search."""
        store = self.store()
        with store.transaction() as transaction:
            made = [transaction.record(session, draft(started())) for session in (SESSION, OTHER)]
            for number in range(1_300):
                session = OTHER if number % 100 == 7 else SESSION
                made.append(transaction.record(session, draft(note(f"number{number:04}"), key=f"key {number}")))
                if number % 400 == 0:
                    assert transaction.knows(SESSION, f"key {number}")
                    assert len(list(store.events(session))) == transaction.state(session).count
        assert [arrival.event for arrival in store.arrived(0, 2_000)] == made
        for number, session in ((0, SESSION), (7, OTHER), (506, SESSION), (1_299, SESSION)):
            assert [row.id for row in store.rows(Filter(search=f"number{number:04}"))] == [session]
        assert_sound(store)

    # ── durable, all or nothing ──────────────────────────────────────────────────────────────────────────

    def test_what_was_recorded_is_there_after_closing(self) -> None:
        """Events, states, listings, search, places and projects survive the end of the process."""
        store = self.store()
        put(store, SESSION, started(), note("a red door"))
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
            transaction.remember_project(PROJECT)
        before = everything(store)
        store = self.reopened(store)
        assert everything(store) == before
        assert store.current("/home/me/shop") == SESSION
        assert store.projects_with("path", "/home/me/shop") == ["project-1"]
        assert [row.id for row in store.rows(Filter(search="red doo"))] == [SESSION]

    def test_a_second_connection_sees_what_was_acknowledged(self) -> None:
        """Events recorded by one connection are shown and continued by another at once."""
        anna, ben = self.store(), self.store(writer=BEN)
        put(anna, SESSION, started())
        assert ben.state(SESSION) == anna.state(SESSION)
        put(ben, SESSION, note("from two"))
        state = anna.state(SESSION)
        assert state is not None
        assert [item.text for item in state.notes] == ["from two"]
        with anna.transaction() as transaction:
            assert transaction.state(SESSION).count == 2

    @pytest.mark.parametrize("known", [False, True])
    def test_a_failed_transaction_changes_nothing(self, known: bool) -> None:
        """A transaction that ends with an exception leaves no trace."""
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
            transaction.remember_project(PROJECT)
            raise RuntimeError(message)
        assert everything(store) == before
        assert store.current("/home/me/shop") is None
        assert store.projects_with("path", "/home/me/shop") == []
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
        """Every text that UTF-8 can encode is unchanged: NUL, bidi, line separators, combining marks, long text."""
        texts = ["", "\0", "a\0b", "\u202e\u2028\u2029", "e\u0301é", "日本語", "🧑‍🔧", "'; DROP TABLE events; --"]
        texts.append("x" * 100_000)
        store = self.store()
        put(store, SESSION, started(), *(note(text) for text in texts))
        state = self.reopened(store).state(SESSION)
        assert state is not None
        assert [item.text for item in state.notes] == texts

    def test_the_state_is_that_of_the_bytes_when_a_number_has_two_spellings(self) -> None:
        """RFC 8785 writes -0.0 as 0: the state recorded here must be the one another device folds."""
        store = self.store()
        put(store, SESSION, started(), SessionEdited(cost_usd=-0.0, progress=-0.0))
        state = store.state(SESSION)
        assert state is not None
        assert freeze(state) == freeze(fold(store.events(SESSION), SESSION))

    def test_one_transaction_may_touch_several_sessions(self) -> None:
        """Sessions changed together are all there afterwards, each with its own stream."""
        store = self.store()
        with store.transaction() as transaction:
            for session in (SESSION, OTHER, THIRD):
                transaction.record(session, draft(started(session[:8])))
                transaction.record(session, draft(note("hello")))
        assert [row.goal for row in store.rows(Filter())] == ["77777777", "11119999", "11111111"]
        assert all([event.seq for event in store.events(session)] == [1, 2] for session in store.sessions())
        assert_sound(store)

    def test_the_state_in_a_transaction_follows_what_it_records(self) -> None:
        """Within the block, `state` includes what was just recorded."""
        store = self.store()
        with store.transaction() as transaction:
            assert transaction.writer() == ANNA
            transaction.record(SESSION, draft(started()))
            assert transaction.state(SESSION).count == 1
            transaction.record(SESSION, draft(note("two")))
            assert [item.text for item in transaction.state(SESSION).notes] == ["two"]


# ── noticing changes ─────────────────────────────────────────────────────────────────────────────────────


class Noticing(StoreFixture):
    def test_the_version_differs_when_another_connection_changed_anything(self) -> None:
        """It changes with events, current sessions, projects and values under names, and not by reading."""
        store, other = self.store(), self.store()
        put(other, SESSION, started())
        seen = [store.version()]

        def changed() -> bool:
            seen.append(store.version())
            return seen[-1] != seen[-2]

        assert not changed()
        other.state(SESSION)
        assert not changed()
        put(other, SESSION, note("blue"))
        assert changed()
        with other.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
        assert changed()
        with other.transaction() as transaction:
            transaction.remember("cursor", b"1")
        assert changed()
        with other.transaction() as transaction:
            transaction.remember_project(PROJECT)
        assert changed()
        assert not changed()

    def test_local_state_version_differs_after_local_changes_only(self) -> None:
        """It is the same number for every connection, the writing one included, until something changes."""
        store, other = self.store(), self.store()
        put(store, SESSION, started())
        put(store, OTHER, started("Other"))
        before = store.local_state_version()
        put(other, SESSION, note("blue"))
        assert store.local_state_version() == other.local_state_version() == before
        steps: list[Callable[[Transaction], None]] = [
            lambda at: at.set_current("/home/me/shop", SESSION),
            lambda at: at.set_current("/home/me/shop", OTHER),
            lambda at: at.remember("one", b"1"),
            lambda at: at.remember("two", b"2"),
            lambda at: at.remember("one", b"3"),
            lambda at: at.remember("one", b"4"),
            lambda at: at.remember("two", None),
            lambda at: at.remember_project(ProjectFacts(id="p-9", name="house", path="/a")),
            lambda at: at.set_current("/home/me/shop", None),
        ]
        for step in steps:
            with store.transaction() as transaction:
                step(transaction)
            now = store.local_state_version()
            assert now == other.local_state_version() != before
            before = now
        assert self.reopened(store).local_state_version() == before

    def test_each_session_has_a_version_of_its_own(self) -> None:
        """It changes with every event of the session, also late ones, and never because of another session."""
        store, other = self.store(), self.store()
        assert store.versions() == {}
        put(store, SESSION, started())
        put(store, OTHER, started("Other"))
        before = store.versions()
        assert before.keys() == {SESSION, OTHER}
        put(other, SESSION, note("late"), at=START - DAY)
        take(other, [foreign(BEN, 1, note("from afar"), clock=1)])
        now = store.versions()
        assert now[SESSION] != before[SESSION]
        assert now[OTHER] == before[OTHER]
        store.erase(OTHER, draft(SessionDeleted()))
        assert store.versions() == other.versions() == {SESSION: now[SESSION]}

    def test_listener_is_notified_of_changes(self) -> None:
        """It is notified once for changes by any connection. Not every store supports it."""
        store, other = self.store(), self.store(writer=BEN)
        listener = store.listen()
        if listener is None:
            return
        try:
            while listener.wait(0.05):
                pass  # earlier changes
            put(other, SESSION, started())
            assert listener.wait(10)
            while listener.wait(0.05):
                pass
            with other.transaction() as transaction:
                transaction.set_current("/home/me/shop", SESSION)
            assert listener.wait(10)
        finally:
            listener.close()
