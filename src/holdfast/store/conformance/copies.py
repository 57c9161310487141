"""States that are folds, versions, backups and repairs."""

from __future__ import annotations

import random

import pytest

from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid, NotFound, Refused
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    EventData,
    SessionDeleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    TaskAdded,
)
from holdfast.core.fold import fold
from holdfast.core.state import State
from holdfast.store.conformance.delete import Deleting
from holdfast.store.conformance.fixtures import (
    ANNA,
    BEN,
    CARO,
    OTHER,
    SESSION,
    START,
    THIRD,
    Ticks,
    assert_sound,
    draft,
    everything,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import Filter


class Copying(Deleting):
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
        """A store that a later program wrote is not opened, and what it holds is not touched."""
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
        straight = self.store("straight", writer=CARO)
        take(straight, events)
        assert everything(fresh) == everything(straight)
        assert fresh.projects_with("path", "/home/me/shop") == ["project-1"]
        assert_sound(fresh)
        assert fresh.restore(copy).events == 0

    def test_restoring_unites_and_takes_nothing_away(self) -> None:
        """What happened since the backup stays, what the backup has is added, what was deleted stays deleted."""
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
        report = store.repair()
        assert not [line for line in report if "could not" in line]
        assert everything(store) == before
        assert_sound(store)
        put(store, SESSION, note("goes on"))
        assert_sound(self.reopened(store))
