"""A network that drops, hangs, reports false failures and stale listings (F23): devices still converge."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.core.errors import Unreachable
from holdfast.sync.remotes.wrappers import RetryingRemote
from tests.support.scale import scale
from tests.support.vault_devices import Device, Shelf, join, settle
from tests.sync.adversary import Faulty

# RELIABILITY F23.
SEEDS = scale(12, 500, 10_000)
FAULTS = {"list": ["drop", "partial", "stale"], "get": ["drop", "stale"], "put": ["drop", "half", "applied"]}


class FaultyNetwork:
    """Three devices whose connection fails as the seed decides, until it is repaired."""

    def __init__(self, directory: str, seed: int, *, patient: bool) -> None:
        self.random = random.Random(seed)
        self.shelf = Shelf()
        self.rate = 0.0
        self.devices = []
        for name in ("anna", "ben", "cleo"):
            faulty = Faulty(self.shelf, self._fault)
            remote = RetryingRemote(faulty, tries=3, wait=lambda _: None) if patient else faulty
            self.devices.append(Device(directory, name, remote))
        self.anna, self.ben, self.cleo = self.devices
        self.anna.create_vault()
        join(self.anna, self.ben, self.cleo)
        self.anna.start("s1")
        settle(self.devices, 2)
        self.written: list[str] = []

    def _fault(self, call: str) -> str:
        return self.random.choice(FAULTS[call]) if self.random.random() < self.rate else ""

    def work(self, steps: int) -> None:
        for number in range(steps):
            device = self.random.choice(self.devices)
            if self.random.random() < 0.5:
                words = f"{device.name} {number}"
                device.note("s1", words)
                self.written.append(words)
            try:
                device.sync()
            except Unreachable:
                continue

    def converge(self) -> None:
        self.rate = 0.0
        settle(self.devices, 5)
        for device in self.devices:
            assert sorted(device.notes("s1")) == sorted(self.written), device.name
            assert list(device.store.check()) == []
            assert device.sync().rejected == []
        states = [device.state("s1") for device in self.devices]
        assert states[0] == states[1] == states[2]

    def close(self) -> None:
        for device in self.devices:
            device.close()


@pytest.mark.parametrize("patient", [False, True])
def test_devices_converge_under_any_network_faults(tmp_path: Path, *, patient: bool) -> None:
    """Over many seeds, at several fault rates: nothing is lost or duplicated."""
    for seed in range(SEEDS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        bad = FaultyNetwork(str(directory), seed, patient=patient)
        bad.rate = (0.1, 0.3, 0.6)[seed % 3]
        bad.work(25)
        bad.converge()
        bad.close()


@pytest.mark.parametrize("fault", ["drop", "half", "applied"])
def test_failed_put_is_applied_exactly_once(tmp_path: Path, fault: str) -> None:
    """Dropped before, cut off halfway, or applied and reported as failed."""
    bad = FaultyNetwork(str(tmp_path), 1, patient=False)
    faulty = bad.anna.remote
    assert isinstance(faulty, Faulty)
    for number in range(6):
        bad.anna.note("s1", f"try {number}")
        bad.written.append(f"try {number}")
        faulty.dice = lambda call: fault if call == "put" else ""
        with pytest.raises(Unreachable):
            bad.anna.sync()
        faulty.dice = lambda _: ""
    bad.converge()
    packs = [name for name in bad.shelf.objects if name.startswith("p/")]
    assert len(packs) < 20
    bad.close()


def test_missing_connection_is_a_temporary_error(tmp_path: Path) -> None:
    """The attempt changes nothing locally."""
    bad = FaultyNetwork(str(tmp_path), 2, patient=False)
    bad.cleo.note("s1", "offline")
    bad.written.append("offline")
    bad.rate = 1.0
    faulty = bad.cleo.remote
    assert isinstance(faulty, Faulty)
    dice, faulty.dice = faulty.dice, lambda _: "drop"
    with pytest.raises(Unreachable) as caught:
        bad.cleo.sync()
    assert caught.value.retry_helps
    assert "offline" in bad.cleo.notes("s1")
    faulty.dice = dice
    bad.converge()
    bad.close()
