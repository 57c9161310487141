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


class World:
    """Anna has a vault; others ask to join."""

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
        return sorted(asks.name for asks in join_vault.remembered_requests(VaultState(device.store, device.vault_id)))

    def reads(self) -> int:
        """How many requests were fetched since the last call."""
        count = sum(verb == "get" and name.startswith("h/join-") for verb, name in self.shelf.asked)
        self.shelf.asked.clear()
        return count


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for device in made.devices:
        device.close()


def test_request_is_remembered_until_it_is_approved(asked: World) -> None:
    """It is read once, kept while it is at the remote, and forgotten when the device is a member."""
    bob = asked.device("bob").ask()
    asked.reads()
    asked.anna.sync()
    assert asked.known(asked.anna) == ["bob"]
    assert asked.reads() == 1
    asked.anna.sync()
    assert asked.known(asked.anna) == ["bob"]
    assert asked.reads() == 0
    (one,) = join_vault.remembered_requests(VaultState(asked.anna.store, asked.anna.vault_id))
    assert one.words == bob.keys.public.words
    asked.anna.approve(bob)
    assert asked.known(asked.anna) == []


def test_only_admins_remember_requests(asked: World) -> None:
    """They are sealed for admins."""
    bob = asked.device("bob").ask()
    asked.anna.approve(bob)
    bob.sync()
    asked.device("carl").ask()
    bob.sync()
    assert asked.known(bob) == []
    asked.anna.sync()
    assert asked.known(asked.anna) == ["carl"]


def test_flood_of_requests_is_fetched_once(asked: World) -> None:
    """A limited number is read, and each only once."""
    for number in range(25):
        asked.device(f"stranger{number}").ask()
    asked.reads()
    asked.anna.sync()
    assert len(asked.known(asked.anna)) == 20
    assert asked.reads() == 20
    asked.anna.sync()
    assert asked.reads() == 0


def test_invalid_request_is_skipped(asked: World) -> None:
    """Garbage is read once, and the valid requests are still seen."""
    asked.shelf.objects["h/join-" + "0" * 32] = b"rubbish"
    asked.device("bob").ask()
    asked.anna.sync()
    assert asked.known(asked.anna) == ["bob"]
    asked.reads()
    asked.anna.sync()
    assert asked.reads() == 0


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


def test_request_with_a_revoked_invitation_is_removed(pair: tuple[Device, Device, Shelf]) -> None:
    """The guest is not admitted, and nothing is reported forever."""
    anna, gus, shelf = pair
    anna.share("s1", gus)
    (offer,) = vault_shares.offers(shelf, [gus.keys.identity])
    gus.vault_id = vault_shares.accept(gus.local(), gus.remote, offer).id
    assert joins(shelf)
    # Revoked before anybody answered.
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


def test_request_with_an_expired_invitation_is_removed(pair: tuple[Device, Device, Shelf]) -> None:
    anna, gus, shelf = pair
    main = anna.vault()
    sync_vault(main)
    small = vault_shares.find_or_create_share(main, "s1")
    vault_shares.invite(small, "gus@example.org", [gus.keys.public.age], write=True, expires=anna.time + 5000)
    (offer,) = vault_shares.offers(shelf, [gus.keys.identity])
    gus.vault_id = vault_shares.accept(gus.local(), gus.remote, offer).id
    anna.time += 10_000
    anna.sync()
    assert not joins(shelf)


def test_requests_of_others_are_kept(pair: tuple[Device, Device, Shelf], tmp_path: Path) -> None:
    """A request to join the vault, and one that proves no invitation, are left alone."""
    anna, gus, shelf = pair
    anna.share("s1", gus)
    anna.revoke("s1", gus)
    ben = Device(str(tmp_path), "ben", shelf).ask()
    small = vault_shares.find_share(anna.vault(), "s1")
    assert small is not None
    signed = small.founding()
    assert signed is not None
    outsider = gus.local()._replace(keys=DeviceKeys.generate())
    join_vault.request_to_join(outsider, shelf, signed)
    before = joins(shelf)
    assert len(before) == 2
    report = anna.sync()
    assert joins(shelf) == before
    assert any("proves no invitation" in refused.reason for refused in report.rejected)
    anna.approve(ben)
    ben.close()
