"""Requests to take part that nobody will answer any more: an admin's sync takes them away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sync import join_vault, vault_shares
from holdfast.sync.sync import sync_vault
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.support.vault_devices import Device, Shelf


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
