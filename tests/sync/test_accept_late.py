"""Late events of a removed device wait until an admin accepts them; then all devices get the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.events import EventErased, SessionDeleted
from holdfast.sync import accept_late, removal, vault_shares
from holdfast.sync.accept_late import AcceptedEvents
from holdfast.sync.sync import sync_vault
from tests.support.vault_devices import Device, Shelf, join, opened, settle


@pytest.fixture
def three(tmp_path: Path) -> list[Device]:
    """Anna and Ben are admins; Cleo's device gets removed."""
    shelf = Shelf()
    anna, ben, cleo = (Device(str(tmp_path), name, shelf) for name in ("anna", "ben", "cleo"))
    join(anna.create_vault(), ben, admin=True)
    join(anna, cleo)
    anna.start("s1")
    settle([anna, ben, cleo])
    return [anna, ben, cleo]


def admit(admin: Device, device: Device) -> AcceptedEvents:
    vault = admin.vault()
    sync_vault(vault)
    done = accept_late.admit_at_vault(admin.vault(), device.keys.public.id)
    admin.sync()
    return done


def agree(*devices: Device) -> None:
    settle(devices)
    for device in devices:
        assert device.log() == devices[0].log(), device.name
        assert device.states() == devices[0].states(), device.name
        assert not device.sync().rejected, device.name


def test_admit_accepts_unread_events(three: list[Device]) -> None:
    """Notes and a whole session written after the removal reach all devices, and the device's packs are removed."""
    anna, ben, cleo = three
    cleo.note("s1", "accepted")
    cleo.sync()
    anna.remove(cleo)
    for number in range(3):
        cleo.note("s1", f"outside {number}")
        cleo.sync()
    cleo.start("s2")
    cleo.sync()
    settle([anna, ben])
    assert anna.notes("s1") == ["accepted"]
    who = cleo.keys.public.id
    assert removal.count_unaccepted(anna.vault().memory) == {who: removal.UnacceptedCount(0, 4)}
    done = admit(anna, cleo)
    assert (len(done.events), set(done.events.values()), done.left) == (4, {"s1", "s2"}, 0)
    agree(anna, ben)
    assert sorted(ben.notes("s1")) == ["accepted", "outside 0", "outside 1", "outside 2"]
    assert ben.state("s2") is not None
    assert removal.count_unaccepted(anna.vault().memory) == removal.count_unaccepted(ben.vault().memory) == {}
    devices = {stretch.device for stretches in opened(anna).values() for stretch in stretches}
    assert who not in devices, "somebody who belongs to the vault vouches for all of it"


def test_admitted_events_reach_later_members(three: list[Device], tmp_path: Path) -> None:
    """A device that joins later trusts no removed device and still gets everything."""
    anna, ben, cleo = three
    anna.remove(cleo)
    cleo.note("s1", "late")
    cleo.sync()
    assert len(admit(anna, cleo).events) == 1
    dora = Device(str(tmp_path), "dora", anna.remote)
    join(anna, dora)
    agree(anna, ben, dora)
    assert dora.notes("s1") == ["late"]


def test_later_admin_can_admit(three: list[Device], tmp_path: Path) -> None:
    """Any current admin can, even one that never knew the device."""
    anna, ben, cleo = three
    cleo.note("s1", "accepted")
    cleo.sync()
    anna.sync()
    anna.remove(cleo)
    dora = Device(str(tmp_path), "dora", anna.remote)
    join(anna, dora, admin=True)
    cleo.note("s1", "late")
    cleo.sync()
    assert len(admit(dora, cleo).events) == 1
    admit(anna, cleo)
    agree(anna, ben, dora)
    assert sorted(anna.notes("s1")) == ["accepted", "late"]


def test_admit_accepts_nothing_the_second_time(three: list[Device]) -> None:
    """A second admit adds no events and no entry; what the device writes afterwards waits again."""
    anna, ben, cleo = three
    anna.remove(cleo)
    cleo.note("s1", "first")
    cleo.sync()
    assert len(admit(anna, cleo).events) == 1
    known = len(anna.vault().known)
    assert admit(anna, cleo) == AcceptedEvents({}, 0)
    assert len(anna.vault().known) == known
    cleo.note("s1", "second")
    cleo.sync()
    anna.sync()
    assert removal.count_unaccepted(anna.vault().memory)[cleo.keys.public.id].pushes
    assert anna.notes("s1") == ["first"]
    assert len(admit(ben, cleo).events) == 1
    agree(anna, ben)
    assert sorted(anna.notes("s1")) == ["first", "second"]


def test_admit_brings_back_withdrawn_events(three: list[Device]) -> None:
    """Events withdrawn from one admin's log and events nobody had read form one chain again."""
    anna, ben, cleo = three
    cleo.note("s1", "read by ben")
    cleo.sync()
    ben.sync()
    vault = anna.vault()
    removal.remove(vault, [cleo.keys.public.id]).commit()
    settle([anna, ben])
    cleo.note("s1", "read by nobody")
    cleo.sync()
    ben.sync()
    assert ben.notes("s1") == []
    assert removal.count_unaccepted(ben.vault().memory) == {cleo.keys.public.id: removal.UnacceptedCount(1, 1)}
    assert len(admit(ben, cleo).events) == 2
    agree(anna, ben)
    assert sorted(anna.notes("s1")) == ["read by ben", "read by nobody"]


def test_events_are_withdrawn_again_when_admit_is_interrupted(three: list[Device]) -> None:
    """An admit interrupted before its entry leaves no device with more events than the others."""
    anna, ben, cleo = three
    anna.remove(cleo)
    cleo.note("s1", "late")
    cleo.sync()
    anna.sync()
    vault = anna.vault()
    vault.change = lambda: pytest.fail("stopped here")  # type: ignore[method-assign]
    with pytest.raises(pytest.fail.Exception):
        accept_late.admit_at_vault(vault, cleo.keys.public.id)
    settle([anna, ben])
    assert anna.log() == ben.log()
    assert anna.notes("s1") == []
    assert len(admit(anna, cleo).events) == 1
    agree(anna, ben)
    assert anna.notes("s1") == ["late"]


def test_admit_accepts_nothing_behind_a_gap(three: list[Device]) -> None:
    """A missing push holds back what follows it; the rest of the log stays whole."""
    anna, ben, cleo = three
    shelf = anna.remote
    assert isinstance(shelf, Shelf)
    anna.remove(cleo)
    cleo.note("s1", "first")
    cleo.sync()
    before = set(shelf.objects)
    cleo.note("s1", "lost")
    cleo.sync()
    lost = {name for name in set(shelf.objects) - before if name.startswith("p/")}
    cleo.note("s1", "behind it")
    cleo.sync()
    for name in lost:
        del shelf.objects[name]
    done = admit(anna, cleo)
    assert (len(done.events), done.left) == (1, 2)
    settle([anna, ben])
    assert anna.notes("s1") == ben.notes("s1") == ["first"]
    assert list(anna.store.check()) == []
    assert removal.count_unaccepted(anna.vault().memory)[cleo.keys.public.id].pushes == 2


def test_admit_accepts_a_removed_guests_events(three: list[Device], tmp_path: Path) -> None:
    """Events a guest wrote after the invitation ended can be admitted too, and reach the vault."""
    anna, ben, _ = three
    gus = Device(str(tmp_path), "gus", anna.remote)
    anna.share("s1", gus)
    gus.accept()
    settle([anna, gus, ben])
    anna.revoke("s1", gus)
    gus.note("s1", "one more thing")
    gus.sync()
    settle([anna, ben])
    assert anna.notes("s1") == []
    small = vault_shares.find_share(anna.vault(), "s1")
    assert small is not None
    assert len(accept_late.admit_at_vault(small, gus.keys.public.id).events) == 1
    settle([anna, ben])
    assert anna.notes("s1") == ben.notes("s1") == ["one more thing"]


def test_admit_accepts_the_other_branch_of_a_copied_home(three: list[Device], tmp_path: Path) -> None:
    """A restored home of a removed device reused sequence numbers: that whole branch reaches all devices."""
    anna, ben, cleo = three
    copy = cleo.copy(str(tmp_path / "copy"))
    for number in range(3):
        cleo.note("s1", f"accepted {number}")
    cleo.sync()
    anna.remove(cleo)
    settle([anna, ben])
    cleo.put_back(copy)
    for number in range(2):
        cleo.note("s1", f"again {number}")
    cleo.sync()
    assert len(admit(anna, cleo).events) == 2
    dora = Device(str(tmp_path), "dora", anna.remote)
    join(anna, dora)
    agree(anna, ben, dora)
    assert sorted(dora.notes("s1")) == ["accepted 0", "accepted 1", "accepted 2", "again 0", "again 1"]
    assert {damage.check for damage in dora.store.check()} == {"copies"}


# ── erased, and not decided yet ──────────────────────────────────────────────────────────────────────────


def unaccepted_data(device: Device) -> set[bytes]:
    """Data of all events in packs at the remote."""
    events = [event for stretches in opened(device).values() for stretch in stretches for event in stretch.events]
    return {event.data for event in events if event.data is not None}


def test_deleted_session_is_removed_from_unaccepted_events(three: list[Device]) -> None:
    """Its data leaves the remote, whether it was deleted before or after; the rest can still be admitted."""
    anna, ben, cleo = three
    anna.start("s2")
    anna.start("s3")
    settle(three)
    anna.record("s3", SessionDeleted())
    anna.remove(cleo)
    cleo.note("s2", "to be deleted")
    cleo.note("s3", "of what is deleted")
    cleo.note("s1", "to be kept")
    cleo.sync()
    anna.sync()
    assert not any(b"of what is deleted" in data for data in unaccepted_data(anna))
    anna.record("s2", SessionDeleted())
    settle([anna, ben])
    assert not any(b"deleted" in data for data in unaccepted_data(anna))
    aside = [event for *_, stretch in removal.list_unaccepted(anna.vault().memory) for event in stretch.events]
    assert {event.session for event in aside if event.data is not None} == {"s1"}
    assert admit(anna, cleo).left == 0
    agree(anna, ben)
    assert ben.notes("s1") == ["to be kept"]
    assert list(anna.store.check()) == list(ben.store.check()) == []


def test_erased_event_is_removed_from_unaccepted_events(three: list[Device]) -> None:
    """Its pack is removed; the pack's other events wait on the admin's device."""
    anna, ben, cleo = three
    cleo.note("s1", "secret")
    cleo.sync()
    settle([anna, ben])
    cleo.note("s1", "beside it")
    (secret,) = [event.hash for event in anna.events("s1") if event.type == "note.added"]
    removal.remove(anna.vault(), [cleo.keys.public.id]).commit()
    cleo.sync()
    anna.sync()
    anna.record("s1", EventErased(hashes=(secret,)))
    settle([anna, ben])
    assert not any(b"secret" in data for data in unaccepted_data(anna))
    assert len(admit(anna, cleo).events) == 1
    agree(anna, ben)
    assert ben.notes("s1") == ["beside it"]


def test_unaccepted_events_are_kept(three: list[Device]) -> None:
    """Unread packs of a removed device survive any number of syncs, merges and cleanups by others."""
    anna, ben, cleo = three
    anna.remove(cleo)
    cleo.note("s1", "waits")
    cleo.sync()
    for number in range(20):
        anna.note("s1", str(number))
        settle([anna, ben], 1)
    assert len(admit(ben, cleo).events) == 1
    agree(anna, ben)
    assert "waits" in anna.notes("s1")
