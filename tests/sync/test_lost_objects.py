"""A remote that lost some of its objects: a person's word brings back all of them, whichever they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.events import SessionDeleted
from holdfast.sync import create_vault, join_vault, retired_writers
from holdfast.sync.read_heads import read_listing
from tests.support.vault_devices import Device, Shelf, join, named, settle


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def fleet(tmp_path: Path, shelf: Shelf, *names: str) -> list[Device]:
    devices = [Device(str(tmp_path), name, shelf) for name in names]
    join(devices[0].create_vault(), *devices[1:])
    devices[0].start("s1")
    settle(devices)
    return devices


def lose(shelf: Shelf, *prefixes: str) -> None:
    for name in [name for name in shelf.objects if name.startswith(prefixes)]:
        del shelf.objects[name]


def missed(device: Device) -> list[str]:
    """Lives whose head is not shown, and packs that are not there."""
    vault = device.vault()
    missing = []
    for life in retired_writers.lives(vault, read_listing(device.remote.list("h/"), vault.tag)):
        there = {item.name for item in device.remote.list("p/")}
        missing += [life.writer] if not life.shown else []
        missing += [pack.name for pack in life.packs if vault.pack_name(pack.name) not in there]
    return missing


def newcomer(tmp_path: Path, by: Device) -> Device:
    new = Device(str(tmp_path), "newcomer", by.remote)
    join(by, new)
    return new


@pytest.mark.parametrize("lost", ["m/", "k/", "p/", "h/", "vault"])
def test_whatever_is_lost_is_put_back(tmp_path: Path, shelf: Shelf, lost: str) -> None:
    """Whichever kind of objects is gone: after one word of each device a newcomer has everything."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    anna.note("s1", "anna's")
    ben.note("s1", "ben's")
    settle([anna, ben])
    lose(shelf, lost)
    anna.sync(put_back=True)
    ben.sync(put_back=True)
    assert not missed(anna) + missed(ben)
    assert not create_vault.lost_entries(anna.vault(), shelf.list("m/"))
    cleo = newcomer(tmp_path, anna)
    settle([anna, ben, cleo], 1)
    assert sorted(cleo.notes("s1")) == ["anna's", "ben's"]
    assert not cleo.sync().rejected


def test_approve_restores_a_lost_membership(tmp_path: Path, shelf: Shelf) -> None:
    """The remote lost all entries, and nobody noticed: who is let in then finds in all the same."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    before = {name for name in shelf.objects if name.startswith("m/")}
    lose(shelf, "m/")
    assert len(create_vault.lost_entries(anna.vault(), shelf.list("m/"))) == len(before)
    cleo = newcomer(tmp_path, anna)
    assert before < {name for name in shelf.objects if name.startswith("m/")}
    settle([anna, ben, cleo])
    assert cleo.log() == anna.log() == ben.log()


def test_a_device_that_was_let_in_gets_again_what_it_needs(tmp_path: Path, shelf: Shelf) -> None:
    """Approved, and then the remote lost its keys before it came for them: approving again leaves them again."""
    (anna,) = fleet(tmp_path, shelf, "anna")
    ben = Device(str(tmp_path), "ben", shelf).ask()
    anna.approve(ben)
    lose(shelf, "k/", "m/")
    ben.sync()
    assert not ben.log()
    assert join_vault.restore_access(anna.vault(), ben.keys.public)
    assert not join_vault.restore_access(anna.vault(), ben.keys.public)
    settle([anna, ben], 1)
    assert ben.log() == anna.log()


def test_newcomer_requests_missing_packs(tmp_path: Path, shelf: Shelf) -> None:
    """Nobody says a word: what a newcomer misses it asks for, and has it two rounds later."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    ben.note("s1", "ben's")
    settle([anna, ben])
    lose(shelf, "p/")
    cleo = newcomer(tmp_path, anna)
    settle([cleo, anna, ben], 2)
    cleo.sync()
    assert cleo.log() == anna.log()


@pytest.mark.parametrize("lost", [("p/",), ("h/",), ("h/", "p/"), ("",)])
def test_earlier_lives_are_restored(tmp_path: Path, shelf: Shelf, lost: tuple[str, ...]) -> None:
    """What this device published before it became another writer is its own to put back."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    for number in range(3):
        ben.note("s1", str(number))
        ben.sync()
    ben.renew()
    ben.note("s1", "as somebody new")
    settle([anna, ben])
    lose(shelf, *lost)
    assert len(missed(ben)) >= 2
    for device in (ben, anna):
        device.sync(put_back=True)
    assert not missed(ben) + missed(anna)
    cleo = newcomer(tmp_path, anna)
    settle([anna, ben, cleo])
    assert cleo.log() == anna.log() == ben.log()
    for device in (anna, ben, cleo):
        report = device.sync()
        assert not report.rejected, report.rejected
        assert not report.pushed
    assert named(anna) == {name for name in shelf.objects if name.startswith("p/")}


@pytest.mark.parametrize("remembered", [True, False])
def test_damaged_pack_of_an_earlier_life_is_repacked_on_request(
    tmp_path: Path, shelf: Shelf, remembered: bool
) -> None:
    """Who could not read it says so, and the device that published it answers, though it is another writer by now."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    settle([anna, ben])
    before = set(shelf.objects)
    ben.note("s1", "before")
    ben.sync()
    (pack,) = (name for name in shelf.objects.keys() - before if name.startswith("p/"))
    if not remembered:
        ben.forget()
    ben.renew()
    ben.note("s1", "as somebody new")
    ben.sync()
    shelf.objects[pack] += b"extended"
    settle([anna, ben], 4)
    assert anna.log() == ben.log()
    assert pack not in shelf.objects
    for device in (anna, ben):
        report = device.sync()
        assert (report.rejected, report.pushed) == ([], 0)


def test_earlier_lives_of_which_nothing_is_remembered(tmp_path: Path, shelf: Shelf) -> None:
    """A store that lost its memory does not know what the earlier life had sent: all of it is said again."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    ben.note("s1", "before")
    ben.sync()
    ben.forget()
    ben.renew()
    ben.sync()
    lose(shelf, "p/")
    for device in (ben, anna):
        device.sync(put_back=True)
    cleo = newcomer(tmp_path, anna)
    settle([anna, ben, cleo])
    assert cleo.log() == anna.log() == ben.log()
    assert not cleo.sync().rejected


def test_a_copy_that_packed_anew_is_no_loss(tmp_path: Path, shelf: Shelf) -> None:
    """After a deletion a copy of the home packs the earlier life anew: neither home misses the packs of old."""
    (anna,) = fleet(tmp_path, shelf, "anna")
    anna.note("s1", "first")
    anna.start("s2")
    anna.sync()
    anna.record("s1", SessionDeleted())
    anna.sync()
    copied = Device(str(tmp_path), "copied", shelf, like=anna)
    copied.put_back(anna.copy(str(tmp_path / "copy")))
    copied.renew()
    copied.sync()
    assert not missed(copied)
    assert not missed(anna)
    for device in (anna, copied, anna):
        device.sync()
        assert not missed(copied) + missed(anna)


def test_putting_back_what_is_all_there_changes_no_events(tmp_path: Path, shelf: Shelf) -> None:
    """Said in vain, the word sends no pack and no head again."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    before = {name for name in shelf.objects if not name.startswith("k/")}
    anna.sync(put_back=True)
    assert {name for name in shelf.objects if not name.startswith("k/")} == before
    assert not ben.sync().rejected
