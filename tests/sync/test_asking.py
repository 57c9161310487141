"""Who asks to be let in: remembered with a sync, told without asking the remote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sync import join_vault
from holdfast.sync.state import VaultState
from tests.support.vault_devices import Device, Shelf


class Asked:
    """Anna has a vault; others come and ask."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.shelf = Shelf()
        self.devices: list[Device] = []
        self.anna = self.device("anna").create_vault()
        self.anna.sync()

    def device(self, name: str) -> Device:
        made = Device(self.path, name, self.shelf)
        self.devices.append(made)
        return made

    def known(self, device: Device) -> list[str]:
        return sorted(asks.name for asks in join_vault.remembered(VaultState(device.store, device.vault_id)))

    def read(self) -> int:
        """How many requests were fetched since this was asked last."""
        count = sum(verb == "get" and name.startswith("h/join-") for verb, name in self.shelf.asked)
        self.shelf.asked.clear()
        return count


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path)
    yield made
    for device in made.devices:
        device.close()


def test_request_is_remembered_until_it_is_approved(asked: Asked) -> None:
    """It is read once, kept while it is there, and gone when the device belongs to the vault."""
    bob = asked.device("bob").ask()
    asked.read()
    asked.anna.sync()
    assert asked.known(asked.anna) == ["bob"]
    assert asked.read() == 1
    asked.anna.sync()
    assert asked.known(asked.anna) == ["bob"]
    assert asked.read() == 0
    (one,) = join_vault.remembered(VaultState(asked.anna.store, asked.anna.vault_id))
    assert one.words == bob.keys.public.words
    asked.anna.approve(bob)
    assert asked.known(asked.anna) == []


def test_only_admins_remember_requests(asked: Asked) -> None:
    """For everybody else they are sealed, and no business of theirs."""
    bob = asked.device("bob").ask()
    asked.anna.approve(bob)
    bob.sync()
    asked.device("carl").ask()
    bob.sync()
    assert asked.known(bob) == []
    asked.anna.sync()
    assert asked.known(asked.anna) == ["carl"]


def test_flood_of_requests_is_fetched_once(asked: Asked) -> None:
    """Whoever can write to the remote can leave as many as they like: only so many are read, and only once."""
    for number in range(25):
        asked.device(f"stranger{number}").ask()
    asked.read()
    asked.anna.sync()
    assert len(asked.known(asked.anna)) == 20
    assert asked.read() == 20
    asked.anna.sync()
    assert asked.read() == 0


def test_invalid_request_is_skipped(asked: Asked) -> None:
    """Rubbish under such a name is looked at once, and what others asked for is still seen."""
    asked.shelf.objects["h/join-" + "0" * 32] = b"rubbish"
    asked.device("bob").ask()
    asked.anna.sync()
    assert asked.known(asked.anna) == ["bob"]
    asked.read()
    asked.anna.sync()
    assert asked.read() == 0
