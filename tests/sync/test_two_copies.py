"""Two copies of one home that both write: the stream forks, both are kept, and it is said once."""

from __future__ import annotations

from pathlib import Path

from tests.support.vault_devices import Device, Shelf, join, settle


def forked(tmp_path: Path) -> tuple[Device, Device]:
    """Ben's home was put back to an earlier state, and went on under the same id."""
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
    """Each device notes it with the sync that brings the other branch, by the name of the device, and never again."""
    anna, ben = forked(tmp_path)
    notes: dict[str, list[str]] = {"anna": [], "ben": []}
    for _ in range(3):
        for device in (ben, anna):
            notes[device.name] += device.sync().notes
    expected = "Two copies of one home continued session s1 at once on ben: both are kept; holdfast doctor lists it."
    assert notes == {"anna": [expected], "ben": [expected]}
    for device in (anna, ben):
        assert sorted(device.notes("s1")) == ["before", "in one copy", "in the other"]


def test_it_is_no_damage(tmp_path: Path) -> None:
    """The store names the place, and finds nothing else."""
    anna, ben = forked(tmp_path)
    writer = next(event.writer for event in anna.events("s1") if event.type == "note.added")
    settle([ben, anna])
    for device in (anna, ben):
        (damage,) = device.store.check()
        assert (damage.check, damage.session) == ("copies", "s1")
        assert damage.detail == f"two copies of one home went on from event 1 of {writer}; both are kept"
