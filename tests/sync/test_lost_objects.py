"""A remote that lost objects: a restore on command brings all of them back, of every kind."""

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


def delete_objects(shelf: Shelf, *prefixes: str) -> None:
    for name in [name for name in shelf.objects if name.startswith(prefixes)]:
        del shelf.objects[name]


def missing_objects(device: Device) -> list[str]:
    """Writers whose head is not shown, and packs that are not there."""
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
def test_lost_objects_of_every_kind_are_restored(tmp_path: Path, shelf: Shelf, lost: str) -> None:
    """After a restore on each device a newcomer has everything."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    anna.note("s1", "anna's")
    ben.note("s1", "ben's")
    settle([anna, ben])
    delete_objects(shelf, lost)
    anna.sync(put_back=True)
    ben.sync(put_back=True)
    assert not missing_objects(anna) + missing_objects(ben)
    assert not create_vault.lost_entries(anna.vault(), shelf.list("m/"))
    cleo = newcomer(tmp_path, anna)
    settle([anna, ben, cleo], 1)
    assert sorted(cleo.notes("s1")) == ["anna's", "ben's"]
    assert not cleo.sync().rejected


def test_approve_restores_a_lost_membership(tmp_path: Path, shelf: Shelf) -> None:
    """The remote lost all entries unnoticed: the newly approved device still finds everything."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    before = {name for name in shelf.objects if name.startswith("m/")}
    delete_objects(shelf, "m/")
    assert len(create_vault.lost_entries(anna.vault(), shelf.list("m/"))) == len(before)
    cleo = newcomer(tmp_path, anna)
    assert before < {name for name in shelf.objects if name.startswith("m/")}
    settle([anna, ben, cleo])
    assert cleo.log() == anna.log() == ben.log()


def test_approving_again_restores_lost_keys(tmp_path: Path, shelf: Shelf) -> None:
    """The remote lost a device's keys before it fetched them."""
    (anna,) = fleet(tmp_path, shelf, "anna")
    ben = Device(str(tmp_path), "ben", shelf).ask()
    anna.approve(ben)
    delete_objects(shelf, "k/", "m/")
    ben.sync()
    assert not ben.log()
    assert join_vault.restore_access(anna.vault(), ben.keys.public)
    assert not join_vault.restore_access(anna.vault(), ben.keys.public)
    settle([anna, ben], 1)
    assert ben.log() == anna.log()


def test_newcomer_requests_missing_packs(tmp_path: Path, shelf: Shelf) -> None:
    """Without any command, it has them two rounds later."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    ben.note("s1", "ben's")
    settle([anna, ben])
    delete_objects(shelf, "p/")
    cleo = newcomer(tmp_path, anna)
    settle([cleo, anna, ben], 2)
    cleo.sync()
    assert cleo.log() == anna.log()


@pytest.mark.parametrize("lost", [("p/",), ("h/",), ("h/", "p/"), ("",)])
def test_packs_of_an_earlier_writer_are_restored(tmp_path: Path, shelf: Shelf, lost: tuple[str, ...]) -> None:
    """A device restores what it published before it became another writer."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    for number in range(3):
        ben.note("s1", str(number))
        ben.sync()
    ben.renew()
    ben.note("s1", "as somebody new")
    settle([anna, ben])
    delete_objects(shelf, *lost)
    assert len(missing_objects(ben)) >= 2
    for device in (ben, anna):
        device.sync(put_back=True)
    assert not missing_objects(ben) + missing_objects(anna)
    cleo = newcomer(tmp_path, anna)
    settle([anna, ben, cleo])
    assert cleo.log() == anna.log() == ben.log()
    for device in (anna, ben, cleo):
        report = device.sync()
        assert not report.rejected, report.rejected
        assert not report.pushed
    assert named(anna) == {name for name in shelf.objects if name.startswith("p/")}


@pytest.mark.parametrize("remembered", [True, False])
def test_damaged_pack_of_an_earlier_writer_is_repacked_on_request(
    tmp_path: Path, shelf: Shelf, remembered: bool
) -> None:
    """The device that published it answers under its new writer id."""
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


def test_events_of_a_forgotten_earlier_writer_are_published_again(tmp_path: Path, shelf: Shelf) -> None:
    """A store that lost its sync memory does not know what the earlier writer had sent."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    ben.note("s1", "before")
    ben.sync()
    ben.forget()
    ben.renew()
    ben.sync()
    delete_objects(shelf, "p/")
    for device in (ben, anna):
        device.sync(put_back=True)
    cleo = newcomer(tmp_path, anna)
    settle([anna, ben, cleo])
    assert cleo.log() == anna.log() == ben.log()
    assert not cleo.sync().rejected


def test_packs_replaced_by_a_copied_home_are_not_missed(tmp_path: Path, shelf: Shelf) -> None:
    """After a deletion a copy of the home repacks the earlier writer's events: neither home misses the old packs."""
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
    assert not missing_objects(copied)
    assert not missing_objects(anna)
    for device in (anna, copied, anna):
        device.sync()
        assert not missing_objects(copied) + missing_objects(anna)


def test_restore_without_a_loss_publishes_nothing(tmp_path: Path, shelf: Shelf) -> None:
    """No pack and no head."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    before = {name for name in shelf.objects if not name.startswith("k/")}
    anna.sync(put_back=True)
    assert {name for name in shelf.objects if not name.startswith("k/")} == before
    assert not ben.sync().rejected
