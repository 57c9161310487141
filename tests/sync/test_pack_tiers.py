"""Packs are merged tier by tier: their number stays small, no event is read twice, and no reader misses one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sync import outbox, push
from holdfast.sync.protocol.heads import IndexedPack
from holdfast.sync.remotes.base import Missing
from holdfast.sync.sync import sync_vault
from tests.support.scale import scale
from tests.support.vault_devices import Device, Shelf, join, named, opened, settle

# Enough for a pack of the third tier, and then some.
PUSHES = scale(300, 1_000, 5_000)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def two(tmp_path: Path, shelf: Shelf) -> tuple[Device, Device]:
    anna, ben = Device(str(tmp_path), "anna", shelf), Device(str(tmp_path), "ben", shelf)
    join(anna.create_vault(), ben)
    anna.start("s1")
    settle([anna, ben])
    return anna, ben


def packs_at(shelf: Shelf) -> set[str]:
    return {name for name in shelf.objects if name.startswith("p/")}


def write(device: Device, count: int) -> None:
    """Push this many times, one note each."""
    for _ in range(count):
        device.note("s1", f"note {len(device.notes('s1'))}")
        device.sync()


# ── tiers ────────────────────────────────────────────────────────────────────────────────────────────────


def indexed(first: int, last: int, size: int = 100) -> IndexedPack:
    return IndexedPack(f"{first:020x}{last:020x}", first, last, size, bytes(32))


def merged(packs: list[IndexedPack]) -> list[IndexedPack]:
    run = push.packs_to_merge(packs)
    if not run:
        return packs
    place = packs.index(run[0])
    return [*packs[:place], indexed(run[0].first, run[-1].last), *packs[place + len(run) :]]


@given(st.integers(1, 3000))
def test_number_of_packs_grows_logarithmically(pushes: int) -> None:
    """At most sixteen packs of each tier after any number of pushes, covering all without gaps."""
    packs: list[IndexedPack] = []
    for number in range(1, pushes + 1):
        packs = merged([*packs, indexed(number, number)])
    assert len(packs) <= 16 * 3 + 1
    assert [pack.first for pack in packs] == [1, *(pack.last + 1 for pack in packs[:-1])]
    assert packs[-1].last == pushes


def test_large_pack_is_not_merged() -> None:
    """It would be copied again and again."""
    packs = [indexed(number, number) for number in range(1, 20)]
    assert len(push.packs_to_merge(packs)) == 16
    assert not push.packs_to_merge(packs, {packs[4].name})


# ── at a remote ──────────────────────────────────────────────────────────────────────────────────────────


def test_many_pushes_leave_few_packs(two: tuple[Device, Device], shelf: Shelf) -> None:
    """A device that joins after a thousand pushes reads a handful of packs."""
    anna, ben = two
    write(anna, PUSHES)
    assert len(packs_at(shelf)) <= 16 * 4 + 17  # and the packs merged last, until the next push
    assert len(named(anna)) <= 16 * 4
    shelf.asked.clear()
    assert ben.sync().pulled == PUSHES
    assert len([name for what, name in shelf.asked if what == "get" and name.startswith("p/")]) <= 16 * 4
    assert anna.log() == ben.log()


def test_merged_pack_is_not_read_again(two: tuple[Device, Device], shelf: Shelf) -> None:
    """A merged pack covers pushes that were read: only newer packs are fetched."""
    anna, ben = two
    write(anna, 10)
    ben.sync()
    write(anna, 20)
    shelf.asked.clear()
    assert ben.sync().pulled == 20
    ben.sync()
    fetched = [name for what, name in shelf.asked if what == "get" and name.startswith("p/")]
    assert len(fetched) == len(set(fetched))
    assert anna.log() == ben.log()
    write(anna, 17)
    ben.sync()
    shelf.asked.clear()
    write(anna, 1)
    ben.sync()
    assert len([name for what, name in shelf.asked if what == "get" and name.startswith("p/")]) == 1


class ConcurrentChange(Shelf):
    """Runs a callback between listing and reading."""

    def __init__(self, shelf: Shelf, act: object) -> None:
        super().__init__()
        self.objects = shelf.objects
        self._act = act

    def get(self, name: str, limit: int) -> bytes:
        if name.startswith("p/") and self._act is not None:
            act, self._act = self._act, None
            assert callable(act)
            act()
        return super().get(name, limit)


def test_reader_continues_when_packs_are_merged_during_its_sync(two: tuple[Device, Device], shelf: Shelf) -> None:
    """It has everything after the next sync, and requests nothing."""
    anna, ben = two
    write(anna, 15)
    ben.remote = ConcurrentChange(shelf, lambda: write(anna, 20))
    ben.sync()
    ben.remote = shelf
    report = ben.sync()
    assert not report.rejected
    assert anna.log() == ben.log()
    assert not anna.sync().pushed
    before = packs_at(shelf)
    settle([anna, ben])
    assert packs_at(shelf) == before


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_unreadable_pack_is_packed_again(two: tuple[Device, Device], shelf: Shelf, harm: str) -> None:
    """The reader requests it, and the author repacks it."""
    anna, ben = two
    write(anna, 3)
    (first, *_) = sorted(named(anna) - {name for name in opened(ben) if not opened(ben)[name]})
    for name in sorted(named(anna)):
        if any("note 1" in str(event.data) for events in opened(anna)[name] for event in events.events):
            first = name
    if harm == "gone":
        del shelf.objects[first]
    else:
        shelf.objects[first] = shelf.objects[first][:-1] + b"x"
    assert ben.sync().rejected
    assert len(ben.notes("s1")) == 2
    settle([ben, anna, ben])
    assert not ben.sync().rejected
    assert anna.log() == ben.log()
    settle([anna, ben])
    shelf.asked.clear()
    settle([anna, ben], 1)
    assert shelf.asked == [("list", "h/")] * 2
    assert packs_at(shelf) - named(anna) <= {first}


def test_other_packs_are_read_when_one_is_bad(two: tuple[Device, Device], shelf: Shelf) -> None:
    anna, ben = two
    write(anna, 5)
    victim = min(named(anna))
    shelf.objects[victim] = b"nothing of the kind"
    ben.sync()
    assert len(ben.notes("s1")) >= 4


def test_large_push_is_split_into_several_packs(
    two: tuple[Device, Device], shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the vault and in a share alike; no pack exceeds the limit."""
    anna, ben = two
    monkeypatch.setattr(outbox, "MAX_BYTES", 2000)
    monkeypatch.setattr(outbox, "MAX_EVENTS", 7)
    monkeypatch.setattr(push, "LARGE_PACK_BYTES", 5000)
    for number in range(40):
        anna.note("s1", f"{number} " + "x" * 100)
    before = len(packs_at(shelf))
    assert anna.sync().pushed == 40
    assert len(packs_at(shelf)) > before + 4
    gus = Device(ben.path.removesuffix("ben.db"), "gus", shelf)
    anna.share("s1", gus)
    gus.accept()
    settle([anna, ben, gus])
    assert anna.log() == ben.log() == gus.log()
    write(anna, 20)
    assert max(sum(len(events.events) for events in stretches) for stretches in opened(anna).values()) < 60
    ben.sync()
    assert anna.log() == ben.log()


def test_interrupted_sync_continues_between_pushes(
    two: tuple[Device, Device], shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pushes that were sent before are not sent again."""
    anna, ben = two
    monkeypatch.setattr(outbox, "MAX_EVENTS", 5)
    for number in range(20):
        anna.note("s1", str(number))
    calls = 0

    class Broken(Shelf):
        def put(self, objects, *, remove=()):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            if calls == 3:
                raise Missing("the line went dead")
            return shelf.put(objects, remove=remove)

    broken = Broken()
    broken.objects = shelf.objects
    anna.remote = broken
    with pytest.raises(Missing):
        sync_vault(anna.vault())
    anna.remote = shelf
    assert anna.sync().pushed == 10
    ben.sync()
    assert anna.log() == ben.log()
    assert packs_at(shelf) == named(anna)
