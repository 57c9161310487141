"""Noticing that something changed, without reading everything again."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.events import ProjectFacts, SessionDeleted
from holdfast.store.conformance.fixtures import (
    BEN,
    DAY,
    OTHER,
    PROJECT,
    SESSION,
    START,
    StoreFixture,
    draft,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import Transaction


class Noticing(StoreFixture):
    def test_the_version_differs_when_another_connection_changed_anything(self) -> None:
        """Events, pointers, projects, what is kept under a name: one number tells; reading changes nothing."""
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

    def test_what_stands_beside_the_log_is_noticed_apart_from_events(self) -> None:
        """For every connection, one's own included; the same again is the same."""
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
        """It differs after everything that happened in the session, also late, and never for another's sake."""
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

    def test_who_listens_is_told_of_changes(self) -> None:
        """Once for what happened since, by whichever connection; without a change, nothing. Not every store can."""
        store, other = self.store(), self.store(writer=BEN)
        line = store.listen()
        if line is None:
            return
        try:
            while line.wait(0.05):
                pass  # what was said before
            put(other, SESSION, started())
            assert line.wait(10)
            while line.wait(0.05):
                pass
            with other.transaction() as transaction:
                transaction.set_current("/home/me/shop", SESSION)
            assert line.wait(10)
        finally:
            line.close()
