"""States that are folds, versions, backups, repairs, and copies of a whole store."""

from __future__ import annotations

import random

import pytest

from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid, NotFound, Refused
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    EventData,
    EventErased,
    ProjectFacts,
    SessionDeleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    TaskAdded,
)
from holdfast.core.fold import fold
from holdfast.core.state import State
from holdfast.store.checks import missing_event_name
from holdfast.store.conformance.erasing import Deleting
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    CARO,
    OTHER,
    PROJECT,
    SESSION,
    START,
    THIRD,
    StoreFixture,
    Ticks,
    assert_sound,
    draft,
    everything,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import UNSEEN, Filter, KnownProject, LocalState, Store
from holdfast.store.store_copy import CURSORS, copy

# ── backups and repairs ──────────────────────────────────────────────────────────────────────────────────


class Copying(Deleting):
    @pytest.mark.parametrize("seed", range(3))
    def test_the_state_is_always_the_fold_of_the_events(self, seed: int) -> None:
        """After any actions of three connections in any order, with failures in between, every state is its fold."""
        chance = random.Random(seed)  # noqa: S311 (the same each time)
        stores = [self.store(writer=ANNA), self.store(writer=BEN), self.store("apart", writer=CARO)]
        wall = START
        for step in range(120):
            store = chance.choice(stores)
            session = chance.choice((SESSION, OTHER))
            wall += chance.choice((0, 1, 60_000, 600_000, -5_000))
            data: EventData = chance.choice((
                started(f"Goal {step}"), note(f"note {step}"), SessionPaused(), SessionResumed(),
                SessionEdited(goal=f"goal {step}"), AgentStarted(id=f"a{step % 5}", type="x"),
                AgentCompleted(id=f"a{step % 5}"), TaskAdded(id=f"t{step % 5}", text=f"task {step}"),
            ))  # fmt: skip
            match chance.randrange(12):
                case 0:
                    take(store, [event for store in stores for event in store.events(session)])
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
            for item in stores:
                state = item.state(session)
                assert (state or State(session=session)) == fold(item.events(session), session)
        for item in stores:
            assert_sound(item)

    # ── versions, copies, checks ─────────────────────────────────────────────────────────────────────────

    def test_a_newer_store_is_refused(self) -> None:
        """A store that a later program wrote is not opened, and is left unchanged."""
        store = self.store("newer")
        put(store, SESSION, started())
        self._opened.remove(store)
        store.close()
        self.make_newer("newer")
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                self.open_store("newer", wall=Ticks())
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
        assert fresh.restore(copy).events == len(events)
        source = self.store("straight", writer=CARO)
        take(source, events)
        assert everything(fresh) == everything(source)
        assert fresh.projects_with("path", "/home/me/shop") == ["project-1"]
        assert_sound(fresh)
        assert fresh.restore(copy).events == 0

    def test_restoring_unites_and_takes_nothing_away(self) -> None:
        """Later events stay, the backup's events are added, and deleted sessions stay deleted."""
        store = self.store()
        put(store, SESSION, started(), note("secret paint"))
        put(store, OTHER, started("Other"), note("before"))
        copy = str(self.place / "copy.backup")
        store.backup(copy)
        store.erase(SESSION, draft(SessionDeleted()))
        put(store, OTHER, note("after"))
        assert store.restore(copy).events == 0
        self.assert_deleted(store)
        other = self.store("other", writer=BEN)
        put(other, THIRD, started("Third"))
        take(other, list(store.events(SESSION))[-1:])
        assert other.restore(copy).events == 4
        self.assert_deleted(other)
        assert [row.id for row in other.rows(Filter())] == [THIRD, OTHER]

    def test_a_backup_is_never_written_over_something(self) -> None:
        """An existing file is refused and stays unchanged; a missing directory is a typed error."""
        store = self.store()
        put(store, SESSION, started())
        (self.place / "taken").write_bytes(b"mine")
        with pytest.raises(Conflict):
            store.backup(str(self.place / "taken"))
        assert (self.place / "taken").read_bytes() == b"mine"
        with pytest.raises(HoldfastError):
            store.backup(str(self.place / "nowhere" / "copy"))
        assert_sound(store)

    def test_restore_refuses_what_is_no_backup_and_changes_nothing(self) -> None:
        """A missing file, a directory, an empty file, text and half a backup end in typed errors."""
        store = self.store()
        put(store, SESSION, started())
        store.backup(str(self.place / "copy"))
        content = (self.place / "copy").read_bytes()
        (self.place / "half").write_bytes(content[: len(content) // 2])
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
        """`repair` without damage keeps log, states, listings and search, and reports no loss."""
        store = self.store()
        take(store, self.history())
        put(store, THIRD, started("Third"))
        store.erase(OTHER, draft(SessionDeleted()))
        before = everything(store)
        report = store.repair()
        assert not [line for line in report if "could not" in line]
        assert everything(store) == before
        assert_sound(store)
        put(store, SESSION, note("goes on"))
        assert_sound(self.reopened(store))


# ── copying ──────────────────────────────────────────────────────────────────────────────────────────────


PART = ProjectFacts(
    id="p1", name="part", path="/a/part", remote="github.com/x/shop", inside="part", roots=("r1", "r2")
)
KNOWN = KnownProject("p1", "part", (("path", "/a/part"), ("remote", "github.com/x/shop\npart"), ("root", "r1\npart"),
                             ("root", "r2\npart")))  # fmt: skip


def own(store: Store) -> LocalState:
    """The local state outside the log, without values that belong to this store alone."""
    local = store.local_state()
    return local._replace(
        memory={name: value for name, value in local.memory.items() if name != UNSEEN and CURSORS not in name}
    )


class Carrying(StoreFixture):
    def populated_store(self) -> Store:
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

    def test_local_state_is_complete(self) -> None:
        """It is empty at first; then it has every work tree, project, piece of evidence and name, in order."""
        assert self.store("empty").local_state() == LocalState({}, [], {})
        store = self.populated_store()
        local = store.local_state()
        assert list(local.places.items()) == [("/home/me/other", OTHER), ("/home/me/shop", SESSION)]
        assert local.projects == [KNOWN, KnownProject("project-1", "shop", (("path", "/home/me/shop"),))]
        assert local.memory == store.remembered_under("")
        assert self.reopened(store, "source").local_state() == local

    def test_evidence_is_put_back_exactly(self) -> None:
        """A project that was copied is found by the same evidence; facts that were known of it stay."""
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

    def test_missing_events_are_recorded_once(self) -> None:
        """Names of missing events are recorded in the transaction, and once; an own session may be repaired."""
        store = self.populated_store()
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
        """Log, states, listings, search, work trees, projects and names arrive; copying again changes nothing."""
        source, target = self.populated_store(), self.store("target", writer=BEN)
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

    def test_copy_unites_and_keeps_what_the_target_has(self) -> None:
        """Other sessions, newer work trees, names and deletions of the target stay as they are."""
        source, target = self.populated_store(), self.store("target", writer="d" * 20)
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
        """The copy is refused, and leaves no trace."""
        store, again = self.store(), self.store()
        put(store, SESSION, started())
        with pytest.raises(Invalid):
            copy(store, again)
        assert store.remembered_under("") == {}
