"""Homes that were restored, copied or lost: all devices converge, and each fork is reported once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast.core.events import NoteAdded
from holdfast.workspace.keys.device_keys import certified_writer
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


def assert_agree(*devices: Device, notes: set[str]) -> None:
    """All devices show the same, and every note once."""
    settle(devices, 3)
    for device in devices:
        assert device.log() == devices[0].log(), device.name
        assert device.states() == devices[0].states(), device.name
        assert sorted(device.notes("s1")) == sorted(notes), device.name
        report = device.sync()
        assert not report.pushed
        assert not report.pulled
        assert not report.rejected, report.rejected


def test_restored_home_with_the_same_writer_keeps_both_branches(tmp_path: Path, shelf: Shelf) -> None:
    """Undetected, it continues its stream: all devices keep both branches."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    ben.note("s1", "before")
    ben.sync()
    copy = ben.copy(str(tmp_path / "copy"))
    ben.note("s1", "lost in the copy")
    ben.sync()
    writer = ben.writer
    ben.put_back(copy)
    ben.note("s1", "written after")
    ben.sync()
    assert ben.writer != writer
    ben.note("s1", "as somebody new")
    assert_agree(anna, ben, notes={"before", "lost in the copy", "written after", "as somebody new"})


def test_restored_home_may_write_a_longer_branch_than_it_lost(tmp_path: Path, shelf: Shelf) -> None:
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    copy = ben.copy(str(tmp_path / "copy"))
    notes = {f"first {number}" for number in range(3)} | {f"second {number}" for number in range(9)}
    for number in range(3):
        ben.note("s1", f"first {number}")
    ben.sync()
    ben.put_back(copy)
    for number in range(9):
        ben.note("s1", f"second {number}")
    assert_agree(anna, ben, notes=notes)


def test_restored_home_with_a_new_writer_reads_back_what_it_wrote(tmp_path: Path, shelf: Shelf) -> None:
    """Where the binding detects the restore."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    copy = ben.copy(str(tmp_path / "copy"))
    ben.note("s1", "not in the copy")
    ben.sync()
    ben.put_back(copy, writer=certified_writer(ben.keys.public.signing))
    ben.note("s1", "after")
    assert_agree(anna, ben, notes={"not in the copy", "after"})


def test_restored_home_with_merged_packs_syncs_normally(tmp_path: Path, shelf: Shelf) -> None:
    """It remembers packs that are gone."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    copy = ben.copy(str(tmp_path / "copy"))
    notes = {f"{number}" for number in range(40)}
    for note in sorted(notes):
        ben.note("s1", note)
        ben.sync()
    ben.put_back(copy)
    ben.note("s1", "after")
    assert_agree(anna, ben, notes={*notes, "after"})


def test_restored_home_of_the_founder_learns_the_members_again(tmp_path: Path, shelf: Shelf) -> None:
    """From the remote."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    copy = anna.copy(str(tmp_path / "copy"))
    cleo = Device(str(tmp_path), "cleo", shelf)
    join(anna, cleo)
    cleo.note("s1", "from cleo")
    cleo.sync()
    anna.remove(ben)
    anna.put_back(copy)
    anna.note("s1", "after")
    anna.sync()
    assert_agree(anna, cleo, notes={"from cleo", "after"})
    assert not anna.vault().membership.is_member(ben.keys.public.id)


def test_cloned_home_becomes_two_writers(tmp_path: Path, shelf: Shelf) -> None:
    """Both machines keep everything they wrote."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    clone = Device(str(tmp_path), "clone", shelf, like=ben)
    clone.put_back(ben.copy(str(tmp_path / "copy")))
    notes = set()
    for number in range(4):
        for device in (ben, clone):
            notes.add(f"{device.name} {number}")
            device.note("s1", f"{device.name} {number}")
        for device in (ben, clone) if number % 2 else (clone, ben):
            device.sync()
    assert ben.writer != clone.writer
    assert_agree(anna, ben, clone, notes=notes)


class ConcurrentPush(Shelf):
    """Another device pushes between our read and our put."""

    def __init__(self, shelf: Shelf, act: Callable[[], object]) -> None:
        super().__init__()
        self.objects = shelf.objects
        self._act: Callable[[], object] | None = act

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        if self._act is not None:
            act, self._act = self._act, None
            act()
        return super().put(objects, remove=remove)


def test_copy_whose_head_was_refused_becomes_a_new_writer(tmp_path: Path, shelf: Shelf) -> None:
    """Both copies read before either wrote; it continues in the same sync."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    clone = Device(str(tmp_path), "clone", shelf, like=ben)
    clone.put_back(ben.copy(str(tmp_path / "copy")))
    ben.note("s1", "ben")
    clone.note("s1", "clone")

    clone.remote = ConcurrentPush(shelf, ben.sync)
    assert clone.sync().pushed
    clone.remote = shelf
    assert clone.writer != ben.writer
    assert_agree(anna, ben, clone, notes={"ben", "clone"})
    assert {name for name in shelf.objects if name.startswith("p/")} == named(anna)


@pytest.mark.parametrize("new_writer", [True, False])
def test_lost_store_is_restored_from_the_remote(tmp_path: Path, shelf: Shelf, *, new_writer: bool) -> None:
    """With only the keys and the vault's id left."""
    anna, ben, cleo = fleet(tmp_path, shelf, "anna", "ben", "cleo")
    ben.note("s1", "ben's")
    cleo.note("s1", "cleo's")
    settle([anna, ben, cleo])
    for device in (ben, anna):
        device.lose()
        if new_writer:
            device.renew()
        device.sync()
        device.note("s1", f"{device.name} after")
        device.sync()
    assert_agree(anna, ben, cleo, notes={"ben's", "cleo's", "ben after", "anna after"})
    dora = Device(str(tmp_path), "dora", shelf)
    join(anna, dora)
    assert_agree(anna, ben, cleo, dora, notes={"ben's", "cleo's", "ben after", "anna after"})


def test_lost_store_used_before_its_sync_keeps_both_streams(tmp_path: Path, shelf: Shelf) -> None:
    """New events have the old writer id."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    ben.note("s1", "old one")
    ben.note("s1", "old two")
    settle([anna, ben])
    ben.lose()
    ben.start("s1")
    ben.note("s1", "new one")
    ben.note("s1", "new two")
    ben.note("s1", "new three")
    assert_agree(anna, ben, notes={"old one", "old two", "new one", "new two", "new three"})


@pytest.mark.parametrize("who", ["anna", "ben"])
def test_lost_sync_memory_is_rebuilt(tmp_path: Path, shelf: Shelf, who: str) -> None:
    """The events are there; unsent ones are sent."""
    devices = fleet(tmp_path, shelf, "anna", "ben")
    anna, ben = devices
    (victim,) = [device for device in devices if device.name == who]
    victim.note("s1", "sent")
    settle(devices)
    victim.note("s1", "not sent")
    victim.forget()
    assert_agree(anna, ben, notes={"sent", "not sent"})


def test_rolled_back_remote_is_completed_by_its_devices(tmp_path: Path, shelf: Shelf) -> None:
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    before = dict(shelf.objects)
    anna.note("s1", "anna's")
    ben.note("s1", "ben's")
    settle([anna, ben])
    cleo = Device(str(tmp_path), "cleo", shelf)
    join(anna, cleo)
    shelf.objects = dict(before)
    settle([anna, ben, cleo], 2)
    assert_agree(anna, ben, cleo, notes={"anna's", "ben's"})
    dora = Device(str(tmp_path), "dora", shelf)
    join(anna, dora)
    assert_agree(anna, ben, cleo, dora, notes={"anna's", "ben's"})


def test_emptied_remote_is_refilled(tmp_path: Path, shelf: Shelf) -> None:
    """Vault, members, keys and packs."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    for number in range(20):
        ben.note("s1", str(number))
        ben.sync()
    settle([anna, ben])
    shelf.objects.clear()
    anna.sync(put_back=True)
    settle([anna, ben], 2)
    cleo = Device(str(tmp_path), "cleo", shelf)
    join(anna, cleo)
    assert_agree(anna, ben, cleo, notes={str(number) for number in range(20)})


def test_lost_founding_entries_are_restored_on_command(tmp_path: Path, shelf: Shelf) -> None:
    """Heads and packs are still there."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    anna.note("s1", "anna's")
    settle([anna, ben])
    for name in [name for name in shelf.objects if name == "vault" or name.startswith(("m/", "k/"))]:
        del shelf.objects[name]
    anna.sync()
    assert "vault" not in shelf.objects
    anna.sync(put_back=True)
    cleo = Device(str(tmp_path), "cleo", shelf)
    join(anna, cleo)
    assert_agree(anna, ben, cleo, notes={"anna's"})


def test_both_events_of_a_fork_are_kept_in_every_log(tmp_path: Path, shelf: Shelf) -> None:
    """The stores' checks report nothing else."""
    anna, ben = fleet(tmp_path, shelf, "anna", "ben")
    ben.note("s1", "before")
    ben.sync()
    copy = ben.copy(str(tmp_path / "copy"))
    ben.note("s1", "one")
    ben.sync()
    ben.put_back(copy)
    ben.record("s1", NoteAdded(text="two"))
    assert_agree(anna, ben, notes={"before", "one", "two"})
    for device in (anna, ben):
        numbers = [(event.writer, event.seq) for event in device.events("s1")]
        assert len(numbers) - len(set(numbers)) == 1
        forks = [
            damage for damage in device.store.check() if "fork" not in damage.check and "two" not in damage.detail
        ]
        assert not forks, forks


def forked(tmp_path: Path) -> tuple[Device, Device]:
    """Ben's home was restored to an earlier state, and continued under the same writer id."""
    shelf = Shelf()
    anna, ben = (Device(str(tmp_path), name, shelf) for name in ("anna", "ben"))
    join(anna.create_vault(), ben)
    anna.start("s1")
    settle([anna, ben])
    ben.note("s1", "before")
    ben.sync()
    copy = ben.copy(str(tmp_path / "copy"))
    ben.note("s1", "in one copy")
    ben.sync()
    anna.sync()
    ben.put_back(copy)
    ben.note("s1", "in the other")
    return anna, ben


def test_fork_is_reported_once(tmp_path: Path) -> None:
    """Each device reports it with the sync that brings the other branch, by the device's name."""
    anna, ben = forked(tmp_path)
    notes: dict[str, list[str]] = {"anna": [], "ben": []}
    for _ in range(3):
        for device in (ben, anna):
            notes[device.name] += device.sync().notes
    expected = "Two copies of one home continued session s1 at once on ben: both are kept; holdfast doctor lists it."
    assert notes == {"anna": [expected], "ben": [expected]}
    for device in (anna, ben):
        assert sorted(device.notes("s1")) == ["before", "in one copy", "in the other"]


def test_fork_is_not_reported_as_damage(tmp_path: Path) -> None:
    """The store's check names the place, and nothing else."""
    anna, ben = forked(tmp_path)
    writer = next(event.writer for event in anna.events("s1") if event.type == "note.added")
    settle([ben, anna])
    for device in (anna, ben):
        (damage,) = device.store.check()
        assert (damage.check, damage.session) == ("copies", "s1")
        assert damage.detail == f"two copies of one home both continued from event 1 of {writer}; both are kept"
