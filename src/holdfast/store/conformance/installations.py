"""Several machines on one store: sessions are everybody's, what is of one machine is its own."""

from __future__ import annotations

import pytest

from holdfast.core.events import ProjectFacts, SessionDeleted
from holdfast.store.conformance.fixtures import (
    BEN,
    OTHER,
    SESSION,
    StoreFixture,
    Ticks,
    assert_sound,
    draft,
    everything,
    note,
    put,
    started,
)
from holdfast.store.interface import Filter, Store

SHOP = ProjectFacts(id="p1", name="shop", path="/home/me/shop", remote="github.com/x/shop", roots=("r1",))


class Installations(StoreFixture):
    @pytest.fixture
    def two(self) -> tuple[Store, Store]:
        """One store, opened by two installations."""
        if not self.shared:
            pytest.skip("a store of this kind is of one installation")
        return self.store(here="laptop"), self.store(here="desk", writer=BEN)

    def test_sessions_are_shared(self, two: tuple[Store, Store]) -> None:
        """What one records, the other shows, finds, searches and goes on from."""
        laptop, desk = two
        put(laptop, SESSION, started(aliases={"craft": "alias-one"}), note("blue paint"))
        assert [row.id for row in desk.rows(Filter(search="blue"))] == desk.find("alias-one") == [SESSION]
        put(desk, SESSION, note("from the desk"))
        assert everything(laptop) == everything(desk)
        assert [event.writer for event in laptop.events(SESSION)][-1] == BEN
        assert [arrival.event for arrival in laptop.arrived(0, 10)] == [
            arrival.event for arrival in desk.arrived(0, 10)
        ]
        assert_sound(laptop)
        assert_sound(desk)

    def test_each_has_work_trees_of_its_own(self, two: tuple[Store, Store]) -> None:
        """The same path is another place on another machine; only a deleted session is left by all."""
        laptop, desk = two
        put(laptop, SESSION, started())
        put(laptop, OTHER, started("Other"))
        for store, session in ((laptop, SESSION), (desk, OTHER)):
            with store.transaction() as transaction:
                transaction.set_current("/home/me/shop", session)
        assert (laptop.current("/home/me/shop"), desk.current("/home/me/shop")) == (SESSION, OTHER)
        assert (laptop.places(SESSION), laptop.places(OTHER)) == (["/home/me/shop"], [])
        assert desk.local_state().places == {"/home/me/shop": OTHER}
        with desk.transaction() as transaction:
            transaction.set_current("/home/me/shop", None)
        assert laptop.current("/home/me/shop") == SESSION
        with desk.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
        desk.erase(SESSION, draft(SessionDeleted()))
        assert laptop.current("/home/me/shop") is None
        assert desk.current("/home/me/shop") is None

    def test_each_has_a_memory_of_its_own(self, two: tuple[Store, Store]) -> None:
        """Names of one are not there for the other, nor is what stands beside the log changed for it."""
        laptop, desk = two
        before = desk.local_state_version()
        with laptop.transaction() as transaction:
            transaction.remember("cursor", b"1")
        assert (desk.remembered("cursor"), desk.remembered_under("")) == (None, {})
        assert desk.local_state_version() == before
        with desk.transaction() as transaction:
            assert transaction.remembered("cursor") is None
            transaction.remember("cursor", b"2")
        with desk.transaction() as transaction:
            transaction.remember("cursor", None)
        assert laptop.remembered("cursor") == b"1"

    def test_paths_are_evidence_on_their_own_machine_and_repositories_everywhere(
        self, two: tuple[Store, Store]
    ) -> None:
        """A project is found by remote and root commit on both, by a path only where that path is."""
        laptop, desk = two
        put(laptop, SESSION, started(project=SHOP))
        with laptop.transaction() as transaction:
            transaction.remember_project(SHOP)
        assert laptop.projects_with("path", "/home/me/shop") == ["p1"]
        assert desk.projects_with("path", "/home/me/shop") == []
        for store in two:
            assert store.projects_with("remote", "github.com/x/shop") == store.projects_with("root", "r1") == ["p1"]
        assert desk.evidence("p1") == [("remote", "github.com/x/shop"), ("root", "r1")]
        assert ("path", "/home/me/shop") in laptop.local_state().projects[0].evidence
        assert ("path", "/home/me/shop") not in desk.local_state().projects[0].evidence

    def test_what_one_says_after_the_other_comes_after_it_in_the_log(self, two: tuple[Store, Store]) -> None:
        """Within a session, whatever their clocks say."""
        laptop, desk = two
        ahead = self.store(here="ahead", wall=Ticks(Ticks().micros * 2))
        first = put(ahead, SESSION, started())[0]
        made = [put(store, SESSION, note(str(number)))[0] for number, store in enumerate((desk, laptop, desk))]
        assert list(laptop.events(SESSION)) == [first, *made]
        assert_sound(desk)

    def test_both_may_write_at_once(self, two: tuple[Store, Store]) -> None:
        """To different sessions: nobody waits for the other's transaction, and each sees only what is done."""
        laptop, desk = two
        with laptop.transaction() as transaction:
            transaction.record(SESSION, draft(started()))
            put(desk, OTHER, started("Other"))
            assert desk.state(SESSION) is None
            place = desk.latest_place()
        assert {arrival.event.session for arrival in desk.arrived(0, 10)} == {SESSION, OTHER}
        assert SESSION in {arrival.event.session for arrival in desk.arrived(place, 10)}, (
            "nothing slips in behind a cursor"
        )
        assert_sound(laptop)
