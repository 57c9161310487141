"""Everything of a store can be taken out of it and put into another: the log, and what stands beside it."""

from __future__ import annotations

import pytest

from holdfast.core.errors import Invalid
from holdfast.core.events import EventErased, ProjectFacts, SessionDeleted
from holdfast.store.checks import missing_event_name
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    OTHER,
    PROJECT,
    SESSION,
    THIRD,
    StoreFixture,
    assert_sound,
    draft,
    everything,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import UNSEEN, KnownProject, LocalState, Store
from holdfast.store.store_copy import CURSORS, copy

PART = ProjectFacts(
    id="p1", name="part", path="/a/part", remote="github.com/x/shop", inside="part", roots=("r1", "r2")
)
KNOWN = KnownProject("p1", "part", (("path", "/a/part"), ("remote", "github.com/x/shop\npart"), ("root", "r1\npart"),
                             ("root", "r2\npart")))  # fmt: skip


def own(store: Store) -> LocalState:
    """What stands beside the log, without what is true of this store alone."""
    local = store.local_state()
    return local._replace(
        memory={name: value for name, value in local.memory.items() if name != UNSEEN and CURSORS not in name}
    )


class Carrying(StoreFixture):
    def furnished(self) -> Store:
        """Sessions of three writers, one of them deleted, one event erased, work trees, projects and memory."""
        store = self.store("source")
        take(store, self.history())
        secret = put(store, SESSION, note("secret words"))[0]
        put(store, SESSION, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": "blue words"}}))
        put(store, THIRD, started("Third"))
        store.erase(THIRD, draft(SessionDeleted()))
        with store.transaction() as transaction:
            transaction.set_current("/home/me/shop", SESSION)
            transaction.set_current("/home/me/other", OTHER)
            transaction.remember_project(PROJECT)
            transaction.remember_project(PART)
            transaction.remember("gone/1", b"\0left")
            transaction.remember("vault/1/cursor", b"of a remote")
        return store

    def test_what_stands_beside_the_log_is_shown_whole(self) -> None:
        """Nothing at first; then every work tree, project, piece of evidence and name, each in its order."""
        assert self.store("empty").local_state() == LocalState({}, [], {})
        store = self.furnished()
        local = store.local_state()
        assert list(local.places.items()) == [("/home/me/other", OTHER), ("/home/me/shop", SESSION)]
        assert local.projects == [KNOWN, KnownProject("project-1", "shop", (("path", "/home/me/shop"),))]
        assert local.memory == store.remembered_under("")
        assert self.reopened(store, "source").local_state() == local

    def test_evidence_is_put_back_exactly(self) -> None:
        """A project known from elsewhere is found by the same evidence; what was known of it stays."""
        store = self.store()
        with store.transaction() as transaction:
            transaction.remember_evidence(KNOWN)
            transaction.remember_evidence(KnownProject("p1", "another name", (("root", "r3"),)))
            transaction.remember_evidence(KnownProject("p2", "bare", ()))
        assert store.local_state().projects == [
            KNOWN._replace(evidence=(*KNOWN.evidence[:3], KNOWN.evidence[3], ("root", "r3"))),
            KnownProject("p2", "bare", ()),
        ]
        assert store.projects_with("root", "r2\npart") == store.projects_with("root", "r3") == ["p1"]
        with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
            transaction.remember_evidence(KnownProject("p9", "gone", (("root", "r9"),)))
            raise RuntimeError
        assert store.projects_with("root", "r9") == []

    def test_what_a_repair_missed_is_noted_once(self) -> None:
        """With its session, beside the log, in the transaction that says so; one's own is one's own to repair."""
        store = self.furnished()
        assert store.may_repair(SESSION)
        assert store.own_id(SESSION) == SESSION
        assert store.local_state().missing_events == frozenset()
        names = [missing_event_name(SESSION, ANNA, number) for number in (7, 9)]
        for _ in range(2):
            with store.transaction() as transaction:
                transaction.record_missing(SESSION, names)
        assert store.local_state().missing_events == frozenset(names)
        with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
            transaction.record_missing(OTHER, [missing_event_name(OTHER, ANNA, 1)])
            raise RuntimeError
        assert store.local_state().missing_events == frozenset(names)
        assert_sound(store)

    def test_a_copy_is_the_same_store(self) -> None:
        """Log, states, listings, search, work trees, projects and names; doing it again changes nothing."""
        source, target = self.furnished(), self.store("target", writer=BEN)
        events = sum(len(list(source.events(session))) for session in source.sessions())
        assert copy(source, target) == (3, events, ())
        assert everything(target) == everything(source)
        due = own(source)
        due.memory.pop("vault/1/cursor")
        assert own(target) == due
        assert_sound(target)
        before = target.remembered_under("")
        assert copy(source, target) == (3, 0, ())
        assert target.remembered_under("") == before
        put(target, SESSION, note("goes on"))
        assert_sound(self.reopened(target, "target", writer=BEN))

    def test_a_copy_unites_and_what_is_said_there_stays(self) -> None:
        """Other sessions, newer work trees, names and deletions of the target stay as they are."""
        source, target = self.furnished(), self.store("target", writer="d" * 20)
        put(target, SESSION, note("paint of the target"))
        put(target, THIRD, note("paint of a third"))
        take(target, source.events(OTHER))
        target.erase(OTHER, draft(SessionDeleted()))
        with target.transaction() as transaction:
            transaction.set_current("/home/me/shop", THIRD)
            transaction.remember("gone/1", b"mine")
        copy(source, target)
        assert target.remembered("gone/1") == b"mine"
        assert target.current("/home/me/other") is None
        assert {event.hash for event in source.events(SESSION)} < {event.hash for event in target.events(SESSION)}
        deleted = target.state(OTHER)
        assert deleted is not None
        assert deleted.deleted
        assert all(event.data is None for event in target.events(THIRD) if event.type != "session.deleted")
        assert_sound(target)
        copy(target, source)
        assert everything(source) == everything(target)

    def test_a_store_is_not_copied_into_itself(self) -> None:
        """Refused, and no trace of it is kept."""
        store, again = self.store(), self.store()
        put(store, SESSION, started())
        with pytest.raises(Invalid):
            copy(store, again)
        assert store.remembered_under("") == {}
