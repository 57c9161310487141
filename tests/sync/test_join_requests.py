"""Requests to join: remembered for admins, and removed once they cannot be answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sync import join_vault, vault_shares
from holdfast.sync.state import VaultState
from holdfast.sync.sync import sync_vault
from holdfast.workspace.keys.device_keys import DeviceKeys
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


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Device, Device, Shelf]]:
    """Anna has a session and shares it with Gus."""
    shelf = Shelf()
    anna, gus = (Device(str(tmp_path), name, shelf) for name in ("anna", "gus"))
    anna.create_vault()
    anna.start("s1")
    anna.sync()
    yield anna, gus, shelf
    anna.close()
    gus.close()


def joins(shelf: Shelf) -> set[str]:
    return {name for name in shelf.objects if name.startswith("h/join-")}


def test_a_request_whose_invitation_was_taken_back(pair: tuple[Device, Device, Shelf]) -> None:
    """Nobody lets the guest in, the request goes, and nothing is reported for ever."""
    anna, gus, shelf = pair
    anna.share("s1", gus)
    (offer,) = vault_shares.offers(shelf, [gus.keys.identity])
    gus.vault_id = vault_shares.accept(gus.here(), gus.remote, offer).id
    assert joins(shelf)
    # Taken back before anybody has answered.
    small = vault_shares.find_share(anna.vault(), "s1")
    assert small is not None
    vault_shares.uninvite(small, "gus@example.org")
    report = anna.sync()
    assert not joins(shelf)
    assert not report.rejected
    small = vault_shares.find_share(anna.vault(), "s1")
    assert small is not None
    assert not small.membership.is_member(gus.keys.public.id)
    gus.sync()
    assert not joins(shelf)


def test_a_request_whose_invitation_expired(pair: tuple[Device, Device, Shelf]) -> None:
    """What ends by itself is the same."""
    anna, gus, shelf = pair
    main = anna.vault()
    sync_vault(main)
    small = vault_shares.begin(main, "s1")
    vault_shares.invite(small, "gus@example.org", [gus.keys.public.age], write=True, expires=anna.time + 5000)
    (offer,) = vault_shares.offers(shelf, [gus.keys.identity])
    gus.vault_id = vault_shares.accept(gus.here(), gus.remote, offer).id
    anna.time += 10_000
    anna.sync()
    assert not joins(shelf)


def test_requests_of_others_are_kept(pair: tuple[Device, Device, Shelf], tmp_path: Path) -> None:
    """A device that asks to join the vault, and a request that proves no invitation at all, are left alone."""
    anna, gus, shelf = pair
    anna.share("s1", gus)
    anna.revoke("s1", gus)
    ben = Device(str(tmp_path), "ben", shelf).ask()
    small = vault_shares.find_share(anna.vault(), "s1")
    assert small is not None
    signed = small.founding()
    assert signed is not None
    outsider = gus.here()._replace(keys=DeviceKeys.generate())
    join_vault.ask(outsider, shelf, signed)
    before = joins(shelf)
    assert len(before) == 2
    report = anna.sync()
    assert joins(shelf) == before
    assert any("proves no invitation" in refused.reason for refused in report.rejected)
    anna.approve(ben)
    ben.close()
