"""What a guest may not do in a shared session: delete it, or erase what others wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.envelope import Event, make_event
from holdfast.core.events import EventData, EventErased, SessionDeleted
from holdfast.sync import vault_shares
from holdfast.sync.protocol import packs
from holdfast.sync.protocol.entries import Admit
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.sync_report import SyncReport
from holdfast.workspace.keys.device_keys import STREAM
from tests.support.vault_devices import Device, Shelf, join, settle
from tests.sync.adversary import Insider, Window, reasons

DELETES = "a guest may not delete the session"
ERASES = "a guest may erase only their own events"


class House:
    """Anna (admin) and Ben share a session with Gus; each sees the shelf through its own window."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.shelf = Shelf()
        self.windows: dict[str, Window] = {}
        self.anna, self.ben, self.gus = (self.device(name) for name in ("anna", "ben", "gus"))
        self.anna.create_vault()
        join(self.anna, self.ben)
        self.anna.start("s1")
        self.anna.note("s1", "by anna")
        self.anna.share("s1", self.gus)
        self.ben.sync()
        self.ben.note("s1", "by ben")
        settle([self.ben, self.anna], 1)
        self.gus.accept()
        self.ask()
        settle([self.anna, self.gus, self.anna, self.ben], 1)
        self.gus.note("s1", "by gus")
        settle([self.gus, self.anna, self.ben], 1)

    def device(self, name: str) -> Device:
        self.windows[name] = Window(self.shelf)
        return Device(self.directory, name, self.windows[name])

    def ask(self) -> None:
        (offer,) = vault_shares.offers(self.gus.remote, [self.gus.keys.identity])
        vault_shares.accept(self.gus.local(), self.gus.remote, offer)

    def share(self, device: Device) -> Any:
        share = vault_shares.find_share(device.vault(), "s1")
        assert share is not None
        return share

    def assert_complete(self, *notes: str) -> None:
        """Anna and Ben have the same complete log."""
        assert self.anna.log() == self.ben.log()
        for device in (self.anna, self.ben):
            state = device.state("s1")
            assert state is not None
            assert not state.deleted
            assert sorted(device.notes("s1")) == sorted(["by anna", "by ben", "by gus", *notes])
            assert list(device.store.check()) == []

    def hash_of(self, device: Device, words: str) -> str:
        return next(event.hash for event in self.anna.events("s1") if event.data and words.encode() in event.data)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    built = House(str(tmp_path))
    yield built
    for device in (built.anna, built.ben, built.gus):
        device.close()


class HostileGuest(Insider):
    """The guest's keys, used for events that Holdfast never writes for a guest."""

    def __init__(self, house: House) -> None:
        super().__init__(house.gus, house.shelf)
        self.last = [event for event in house.gus.events("s1") if event.writer == house.gus.writer][-1]

    def sign_events(self, *data: tuple[str, object], after: Event | None = None) -> Stretch:
        """Events of these types in a chain, after the guest's last or another event."""
        made: list[Event] = []
        before = after or self.last
        for number, (kind, value) in enumerate(data, 1):
            event = make_event(
                session="s1", writer=self.device.writer, seq=before.seq + 1, prev=before.hash,
                clock=(self.device.time + number) * 1000, at=self.device.time, actor="gus", type=kind, version=1,
                data=msgspec.json.encode(value), salt=os.urandom(16),
            )  # fmt: skip
            made.append(event)
            before = event
        words = packs.stream_message(self.vault.id, "s1", self.device.writer, before.seq, before.hash)
        return Stretch("s1", self.device.writer, self.vault.me, self.device.keys.sign(STREAM, words), made)

    def push(self, *stretches: Stretch) -> None:
        """One more pack, and a head that references it."""
        new = self.pack(packs.pack(stretches))
        self.head(new)
        self.own = msgspec.structs.replace(self.own, packs=(*self.own.packs, new), pushes=self.own.pushes + 1)


def note(words: str) -> tuple[str, object]:
    return "note.added", {"text": words}


def erased(*hashes: str, **instead: object) -> tuple[str, object]:
    return "event.erased", {"hashes": hashes, **instead}


DELETED: tuple[str, object] = ("session.deleted", {})


def sync_report(house: House) -> SyncReport:
    report = house.anna.sync()
    settle([house.ben, house.anna, house.ben], 1)
    return report


def test_guest_cannot_delete_the_owners_session(house: House) -> None:
    """Events before the deletion are accepted; the deletion and everything after it is not, on any device."""
    house.gus.note("s1", "last words")
    house.gus.record("s1", SessionDeleted())
    house.gus.sync()
    report = sync_report(house)
    assert DELETES in reasons(report)
    for device in (house.anna, house.ben):
        assert not any(event.type == "session.deleted" for event in device.events("s1"))
    house.assert_complete()  # the last words were erased by their author before they were sent


@pytest.mark.parametrize("after", [(), (note("afterwards"),)])
def test_stream_of_a_guest_ends_before_its_deletion(house: House, after: tuple[tuple[str, object], ...]) -> None:
    """However it is packed."""
    rogue = HostileGuest(house)
    rogue.push(rogue.sign_events(note("before"), DELETED, *after))
    assert DELETES in reasons(sync_report(house))
    house.assert_complete("before")
    later = rogue.sign_events(note("before"), DELETED, note("one"), note("two"))
    rogue.push(rogue.sign_events(note("three"), after=later.events[-1]))
    sync_report(house)
    house.assert_complete("before")
    assert DELETES in reasons(house.anna.sync()), "it is said for as long as it lies there"


def test_guest_may_erase_only_own_events(house: House) -> None:
    """Not what Anna or Ben wrote, not even in a list that starts with own events."""
    own, other = house.hash_of(house.gus, "by gus"), house.hash_of(house.gus, "by ben")
    rogue = HostileGuest(house)
    first = rogue.sign_events(note("one"), erased(own), note("two"))
    rogue.push(first)
    assert reasons(sync_report(house)) == ""
    for device in (house.anna, house.ben):
        assert sorted(device.notes("s1")) == ["by anna", "by ben", "one", "two"]
    rogue.push(rogue.sign_events(note("three"), erased(own, other), note("four"), after=first.events[-1]))
    assert ERASES in reasons(sync_report(house))
    assert house.anna.log() == house.ben.log()
    assert sorted(house.ben.notes("s1")) == ["by anna", "by ben", "one", "three", "two"]


def test_erasure_hidden_in_an_erased_erasure_is_checked(house: House) -> None:
    """What replaces an erased erasure erases as well."""
    own, other = house.hash_of(house.gus, "by gus"), house.hash_of(house.gus, "by anna")
    rogue = HostileGuest(house)
    first = rogue.sign_events(note("one"), erased(own))
    rogue.push(first)
    sync_report(house)
    name = first.events[-1].hash
    inner = {"hashes": [other]}
    rogue.push(rogue.sign_events(erased(name, instead={name: inner}), after=first.events[-1]))
    assert ERASES in reasons(sync_report(house))
    nested = {"hashes": [name], "instead": {name: inner}}
    rogue.push(rogue.sign_events(erased(name, instead={name: nested}), after=first.events[-1]))
    assert ERASES in reasons(sync_report(house))
    assert house.anna.log() == house.ben.log()
    for device in (house.anna, house.ben):
        assert sorted(device.notes("s1")) == ["by anna", "by ben", "one"]


def test_erasure_waits_when_its_target_is_unknown(house: House) -> None:
    """Targets that are missing or unreadable withhold the erasure and everything after it."""
    for wrong in (erased("ab" * 32), ("event.erased", {"hashes": 7}), ("event.erased", [])):
        rogue = HostileGuest(house)
        rogue.push(rogue.sign_events(wrong, note("afterwards")))
        assert any(words in reasons(sync_report(house)) for words in ("it erases", "the erasure cannot be read"))
        house.assert_complete()


def test_events_after_an_unreadable_pack_wait_for_it(house: House) -> None:
    """They arrive together with it."""
    rogue = HostileGuest(house)
    first = rogue.sign_events(note("one"))
    rogue.push(first)
    missing = f"p/{rogue.vault.tag}/{rogue.own.packs[-1].name}"
    rogue.push(rogue.sign_events(note("two"), DELETED, after=first.events[-1]))
    house.windows["ben"].hidden = lambda name: name == missing
    sync_report(house)
    assert sorted(house.anna.notes("s1")) == ["by anna", "by ben", "by gus", "one", "two"]
    house.windows["ben"].hidden = lambda _: False
    settle([house.ben, house.anna, house.ben], 1)
    house.assert_complete("one", "two")


def test_branch_parallel_to_a_deletion_is_accepted(house: House) -> None:
    """In whatever order a device reads the guest's branches."""
    rogue = HostileGuest(house)
    rogue.push(rogue.sign_events(DELETED))
    branch = rogue.sign_events(note("beside"))
    rogue.push(branch)
    rogue.push(rogue.sign_events(note("further"), after=branch.events[-1]))
    sync_report(house)
    assert house.anna.log() == house.ben.log()
    assert "further" in house.anna.notes("s1")
    assert not any(event.type == "session.deleted" for event in house.anna.events("s1"))


def test_rejected_deletion_stays_rejected_for_later_members(house: House) -> None:
    """After the guest's removal a newcomer gets exactly what was accepted."""
    rogue = HostileGuest(house)
    rogue.push(rogue.sign_events(note("before"), DELETED, note("after")))
    sync_report(house)
    house.anna.revoke("s1", house.gus)
    settle([house.ben, house.anna, house.ben], 1)
    house.assert_complete("before")
    new = house.device("cleo")
    try:
        join(house.anna, new)
        settle([new, house.anna, house.ben, new], 2)
        assert new.log() == house.anna.log()
    finally:
        new.close()
    house.assert_complete("before")


def test_newcomer_rejects_a_guests_deletion(house: House) -> None:
    """It reads everything at once, with the same result."""
    rogue = HostileGuest(house)
    rogue.push(rogue.sign_events(note("before"), DELETED, note("after")))
    sync_report(house)
    new = house.device("cleo")
    try:
        join(house.anna, new)
        settle([new, house.anna, new], 2)
        assert new.log() == house.anna.log() == house.ben.log()
    finally:
        new.close()


def test_admitting_a_guests_late_events_admits_no_deletion(house: House) -> None:
    from holdfast.sync import accept_late

    house.anna.revoke("s1", house.gus)
    rogue = HostileGuest(house)
    rogue.push(rogue.sign_events(note("late")))
    rogue.push(rogue.sign_events(DELETED))
    house.anna.sync()
    vault = house.share(house.anna)
    accept_late.admit_at_vault(vault, house.gus.keys.public.id)
    settle([house.anna, house.ben], 2)
    house.assert_complete("late")


def test_guest_admitted_as_a_device_still_may_not_delete(house: House) -> None:
    """The devices of the owning vault decide over a shared session, whatever the share's entries say."""
    rogue = HostileGuest(house)
    rogue.push(rogue.sign_events(note("before"), DELETED))
    sync_report(house)
    change = house.share(house.anna).change()
    change.add(Admit, device=house.gus.keys.public, name="gus", admin=True, role="device")
    change.commit()
    settle([house.anna, house.ben], 2)
    house.assert_complete("before")


@pytest.mark.parametrize("data", [SessionDeleted(), EventErased(hashes=())])
def test_owners_admin_device_may_delete(house: House, data: EventData) -> None:
    """For everybody, including the guest."""
    house.anna.record("s1", data)
    settle([house.anna, house.ben, house.gus], 2)
    assert any(event.type in ("session.deleted", "event.erased") for event in house.gus.events("s1"))
    assert house.anna.log() == house.ben.log()
