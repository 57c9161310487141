"""What a guest may not say in a shared session: deleting it, and erasing what others wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.envelope import Event, seal
from holdfast.core.events import EventData, EventErased, SessionDeleted
from holdfast.sync import vault_shares
from holdfast.sync.protocol import packs
from holdfast.sync.protocol.entries import Admit
from holdfast.sync.protocol.packs import PackedEvents
from holdfast.sync.sync_report import SyncReport
from holdfast.workspace.keys.device_keys import STREAM
from tests.support.vault_devices import Device, Shelf, join, settle
from tests.sync.adversary import Insider, Window, reasons

DELETES = "a guest may not delete the session"
ERASES = "a guest may erase only their own events"


class House:
    """Anna (admin) and Ben share a session with Gus; each sees the shelf through a window of its own."""

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
        vault_shares.accept(self.gus.here(), self.gus.remote, offer)

    def share(self, device: Device) -> Any:
        share = vault_shares.find_share(device.vault(), "s1")
        assert share is not None
        return share

    def stands(self, *notes: str) -> None:
        """Anna and Ben have the same log, whole, with everything in it."""
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


class Rogue(Insider):
    """The guest's keys, used to say what no program of ours says for a guest."""

    def __init__(self, house: House) -> None:
        super().__init__(house.gus, house.shelf)
        self.last = [event for event in house.gus.events("s1") if event.writer == house.gus.writer][-1]

    def sign_events(self, *data: tuple[str, object], after: Event | None = None) -> PackedEvents:
        """Events of these types, one after the other, after the guest's last or another one."""
        made: list[Event] = []
        before = after or self.last
        for number, (kind, value) in enumerate(data, 1):
            event = seal(
                session="s1", writer=self.device.writer, seq=before.seq + 1, prev=before.hash,
                clock=(self.device.time + number) * 1000, at=self.device.time, actor="gus", type=kind, version=1,
                data=msgspec.json.encode(value), salt=os.urandom(16),
            )  # fmt: skip
            made.append(event)
            before = event
        words = packs.stream_words(self.vault.id, "s1", self.device.writer, before.seq, before.hash)
        return PackedEvents("s1", self.device.writer, self.vault.me, self.device.keys.sign(STREAM, words), made)

    def push(self, *stretches: PackedEvents) -> None:
        """A pack more, and a head that names it."""
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


def test_a_guest_deletes_nothing_of_the_owners(house: House) -> None:
    """What the guest wrote before is taken in; the deletion and all after it is not, on any device."""
    house.gus.note("s1", "last words")
    house.gus.record("s1", SessionDeleted())
    house.gus.sync()
    report = sync_report(house)
    assert DELETES in reasons(report)
    for device in (house.anna, house.ben):
        assert not any(event.type == "session.deleted" for event in device.events("s1"))
    house.stands()  # the last words were erased by their author before they were sent


@pytest.mark.parametrize("after", [(), (note("afterwards"),)])
def test_the_deletion_is_cut_off(house: House, after: tuple[tuple[str, object], ...]) -> None:
    """A hostile guest's events count up to it, and nothing after it, however it is packed."""
    rogue = Rogue(house)
    rogue.push(rogue.sign_events(note("before"), DELETED, *after))
    assert DELETES in reasons(sync_report(house))
    house.stands("before")
    later = rogue.sign_events(note("before"), DELETED, note("one"), note("two"))
    rogue.push(rogue.sign_events(note("three"), after=later.events[-1]))
    sync_report(house)
    house.stands("before")
    assert DELETES in reasons(house.anna.sync()), "it is said for as long as it lies there"


def test_guest_may_erase_only_own_events(house: House) -> None:
    """What the guest wrote, yes; what Anna or Ben wrote, no: not even in a list that begins with their own."""
    own, other = house.hash_of(house.gus, "by gus"), house.hash_of(house.gus, "by ben")
    rogue = Rogue(house)
    first = rogue.sign_events(note("one"), erased(own), note("two"))
    rogue.push(first)
    assert reasons(sync_report(house)) == ""
    for device in (house.anna, house.ben):
        assert sorted(device.notes("s1")) == ["by anna", "by ben", "one", "two"]
    rogue.push(rogue.sign_events(note("three"), erased(own, other), note("four"), after=first.events[-1]))
    assert ERASES in reasons(sync_report(house))
    assert house.anna.log() == house.ben.log()
    assert sorted(house.ben.notes("s1")) == ["by anna", "by ben", "one", "three", "two"]


def test_an_erasure_cannot_hide_in_another(house: House) -> None:
    """What stands in the place of an erased erasure erases as well, and is looked at."""
    own, other = house.hash_of(house.gus, "by gus"), house.hash_of(house.gus, "by anna")
    rogue = Rogue(house)
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


def test_erasure_waits_when_it_cannot_be_judged(house: House) -> None:
    """An erasure of events that are not here, or that cannot be read, is not taken in; nor is what follows."""
    for wrong in (erased("ab" * 32), ("event.erased", {"hashes": 7}), ("event.erased", [])):
        rogue = Rogue(house)
        rogue.push(rogue.sign_events(wrong, note("afterwards")))
        assert any(words in reasons(sync_report(house)) for words in ("it erases", "the erasure cannot be read"))
        house.stands()


def test_no_gap_is_left_behind_a_pack_that_is_missing(house: House) -> None:
    """What goes on from something that could not be read waits for it, and comes with it."""
    rogue = Rogue(house)
    first = rogue.sign_events(note("one"))
    rogue.push(first)
    missing = f"p/{rogue.vault.tag}/{rogue.own.packs[-1].name}"
    rogue.push(rogue.sign_events(note("two"), DELETED, after=first.events[-1]))
    house.windows["ben"].hidden = lambda name: name == missing
    sync_report(house)
    assert sorted(house.anna.notes("s1")) == ["by anna", "by ben", "by gus", "one", "two"]
    house.windows["ben"].hidden = lambda _: False
    settle([house.ben, house.anna, house.ben], 1)
    house.stands("one", "two")


def test_a_fork_of_the_deletion_counts_as_far_as_it_may(house: House) -> None:
    """A guest that goes on beside the deletion is heard there, also by who reads it in another order."""
    rogue = Rogue(house)
    rogue.push(rogue.sign_events(DELETED))
    branch = rogue.sign_events(note("beside"))
    rogue.push(branch)
    rogue.push(rogue.sign_events(note("further"), after=branch.events[-1]))
    sync_report(house)
    assert house.anna.log() == house.ben.log()
    assert "further" in house.anna.notes("s1")
    assert not any(event.type == "session.deleted" for event in house.anna.events("s1"))


def test_it_stays_so_when_the_guest_goes_and_others_come(house: House) -> None:
    """Removal and adoption carry what was accepted; a newcomer gets just that."""
    rogue = Rogue(house)
    rogue.push(rogue.sign_events(note("before"), DELETED, note("after")))
    sync_report(house)
    house.anna.revoke("s1", house.gus)
    settle([house.ben, house.anna, house.ben], 1)
    house.stands("before")
    new = house.device("cleo")
    try:
        join(house.anna, new)
        settle([new, house.anna, house.ben, new], 2)
        assert new.log() == house.anna.log()
    finally:
        new.close()
    house.stands("before")


def test_a_newcomer_while_the_guest_is_there(house: House) -> None:
    """Who reads everything at once comes to the same."""
    rogue = Rogue(house)
    rogue.push(rogue.sign_events(note("before"), DELETED, note("after")))
    sync_report(house)
    new = house.device("cleo")
    try:
        join(house.anna, new)
        settle([new, house.anna, new], 2)
        assert new.log() == house.anna.log() == house.ben.log()
    finally:
        new.close()


def test_admin_accepts_events_of_a_removed_guest(house: House) -> None:
    """An admin who lets in what was held back of a guest lets in no deletion."""
    from holdfast.sync import accept_late

    house.anna.revoke("s1", house.gus)
    rogue = Rogue(house)
    rogue.push(rogue.sign_events(note("late")))
    rogue.push(rogue.sign_events(DELETED))
    house.anna.sync()
    vault = house.share(house.anna)
    accept_late.admit_at_vault(vault, house.gus.keys.public.id)
    settle([house.anna, house.ben], 2)
    house.stands("late")


def test_a_guest_admitted_to_the_share_as_a_device_still_may_not_delete(house: House) -> None:
    """Over a shared session decide the devices of the vault it belongs to, whatever the share's entries say."""
    rogue = Rogue(house)
    rogue.push(rogue.sign_events(note("before"), DELETED))
    sync_report(house)
    change = house.share(house.anna).change()
    change.add(Admit, device=house.gus.keys.public, name="gus", admin=True, role="device")
    change.commit()
    settle([house.anna, house.ben], 2)
    house.stands("before")


@pytest.mark.parametrize("data", [SessionDeleted(), EventErased(hashes=())])
def test_owners_admin_device_may_delete(house: House, data: EventData) -> None:
    """An admin device deletes the session for everybody, the guest included."""
    house.anna.record("s1", data)
    settle([house.anna, house.ben, house.gus], 2)
    assert any(event.type in ("session.deleted", "event.erased") for event in house.gus.events("s1"))
    assert house.anna.log() == house.ben.log()
