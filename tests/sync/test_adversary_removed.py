"""Removed devices and guests read nothing new, and what they write does not count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.sync import join_vault, removal, vault_shares
from holdfast.sync.protocol import sealing
from holdfast.sync.protocol.entries import Admit, Remove, Restore
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import DeviceKeys, certified_writer
from tests.support.vault_devices import Device, settle
from tests.sync.adversary import Insider, Three, Window, assert_others_sync, reasons, rejection_reasons


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def insider(three: Three) -> Insider:
    return Insider(three.ben, three.shelf)


# ── after removal ────────────────────────────────────────────────────────────────────────────────────────


def test_writes_of_a_removed_device_are_withheld_and_reported(three: Three) -> None:
    """Under any key."""
    old = Insider(three.ben, three.shelf)
    removal.remove(three.anna.vault(), [three.ben.keys.public.id]).commit()
    settle([three.anna, three.cleo])
    old.publish([old.stretch("s1", certified_writer(three.ben.keys.public.signing), ["too late"])])
    for device in (three.anna, three.cleo):
        assert "ben: it comes from a removed device" in reasons(device.sync())
        assert "removed" in rejection_reasons(device)
    assert_others_sync(three)


def test_removed_device_reads_nothing_new(three: Three) -> None:
    """With everything it ever had and everything at the remote, it opens no object made after its removal."""
    removal.remove(three.anna.vault(), [three.ben.keys.public.id]).commit()
    three.anna.sync()
    settle([three.anna, three.cleo])
    before = set(three.shelf.objects)
    for device in (three.anna, three.cleo):
        three.note(device, f"not for ben, by {device.name}")
    settle([three.anna, three.cleo])
    new = set(three.shelf.objects) - before
    assert new
    three.ben.sync()
    vault = three.ben.vault()
    vault.ask_for_wraps()
    keys, identity = vault.candidates(), three.ben.keys.identity
    box = vault.box()
    for name in new:
        if name.startswith("k/"):
            assert age.decrypt([identity, box or identity], three.shelf.objects[name]) is None
            continue
        for kind in ("pack", "head", "entry"):
            with pytest.raises(HoldfastError):
                sealing.unseal(keys, kind, vault.id, name, three.shelf.objects[name], limit=1 << 30)
    assert not any("not for ben" in note for note in three.ben.notes("s1"))


def test_removed_device_neither_admits_nor_removes(three: Three, tmp_path: Path) -> None:
    """Entries an admin signs after its removal count as little as its events."""
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.ask()
    three.anna.approve(dora, admin=True)
    settle([dora, *three.everybody, dora])
    hostile = Insider(dora, three.shelf)
    removal.remove(three.anna.vault(), [dora.keys.public.id]).commit()
    settle([three.anna, three.cleo])
    mallory = DeviceKeys.generate().public
    tips = (
        hostile.entry(Admit, device=mallory, name="m", admin=True, role="device"),
        hostile.entry(Remove, device=three.anna.keys.public.id, cut={}),
        hostile.entry(Restore, device=dora.keys.public.id, cut={dora.writer: {"s1": 10**6}}),
    )
    hostile.head(tips=tuple(sorted(tips)))
    settle([three.anna, three.cleo])
    for device in (three.anna, three.cleo):
        members = device.vault().membership
        assert not members.is_member(mallory.id)
        assert not members.is_member(dora.keys.public.id)
        assert members.is_admin(three.anna.keys.public.id)
    assert_others_sync(three)
    dora.close()


def test_revoked_guest_reads_and_writes_nothing_new(three: Three, tmp_path: Path) -> None:
    """It opens no new object, and its request has no effect when shown again."""
    gus = Device(str(tmp_path), "gus", Window(three.shelf))
    share = vault_shares.find_or_create_share(three.anna.vault(), "s1")
    vault_shares.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = vault_shares.offers(three.shelf, [gus.keys.identity])
    gus.vault_id = vault_shares.accept(gus.local(), gus.remote, offer).id
    requests = {name: three.shelf.objects[name] for name in three.names("h/join-")}
    settle([three.anna, gus, three.anna, gus])
    assert gus.vault().membership.is_member(gus.keys.public.id)
    shared = vault_shares.find_share(three.anna.vault(), "s1")
    assert shared is not None
    vault_shares.uninvite(shared, "gus@example.org")
    three.anna.sync()
    before = set(three.shelf.objects)
    three.shelf.objects |= requests
    three.note(three.anna, "after the end")
    settle([three.anna, three.cleo])
    new = set(three.shelf.objects) - before - set(requests)
    gus.sync()
    vault = gus.vault()
    vault.ask_for_wraps()
    for name in new:
        if name.startswith(("p/", "h/", "m/")):
            for kind in ("pack", "head", "entry"):
                with pytest.raises(HoldfastError):
                    sealing.unseal(vault.candidates(), kind, vault.id, name, three.shelf.objects[name], limit=1 << 30)
    assert "after the end" not in gus.notes("s1")
    gus.note("s1", "too late")
    gus.sync()
    assert_others_sync(three)
    gus.close()


def test_removed_guest_is_not_admitted_by_its_old_request(three: Three, tmp_path: Path) -> None:
    """Even though its invitation is still valid."""
    gus = Device(str(tmp_path), "gus", Window(three.shelf))
    share = vault_shares.find_or_create_share(three.anna.vault(), "s1")
    vault_shares.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = vault_shares.offers(three.shelf, [gus.keys.identity])
    gus.vault_id = vault_shares.accept(gus.local(), gus.remote, offer).id
    requests = {name: three.shelf.objects[name] for name in three.names("h/join-")}
    settle([three.anna, gus, three.anna])
    shared = vault_shares.find_share(three.anna.vault(), "s1")
    assert shared is not None
    removal.remove(shared, [gus.keys.public.id]).commit()
    three.shelf.objects |= requests
    report = three.anna.sync()
    assert "removed device asks to join again" in reasons(report)
    shared = vault_shares.find_share(three.anna.vault(), "s1")
    assert shared is not None
    assert not shared.membership.is_member(gus.keys.public.id)
    gus.close()


def test_invitation_proof_is_valid_for_one_key_only(three: Three, tmp_path: Path) -> None:
    """A proof copied from another request, an invented one, or none admits nobody to write."""
    gus = Device(str(tmp_path), "gus", three.shelf)
    share = vault_shares.find_or_create_share(three.anna.vault(), "s1")
    vault_shares.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = vault_shares.offers(three.shelf, [gus.keys.identity])
    assert offer.secret is not None
    mallory = DeviceKeys.generate().public
    box = share.membership.box
    proofs = [
        join_vault.sign_proof(offer.secret, gus.keys.public),
        join_vault.sign_proof(os.urandom(32), mallory),
        None,
        b"",
    ]
    for number, proof in enumerate(proofs):
        letter = join_vault._RequestDocument(
            vault=share.id, signing=mallory.signing, age=mallory.age, name="mallory", at=1, proof=proof
        )
        three.shelf.objects[f"h/join-{number:032x}"] = age.encrypt(box, msgspec.json.encode(letter))
        report = three.anna.sync()
        assert "proves no invitation" in reasons(report)
    shared = vault_shares.find_share(three.anna.vault(), "s1")
    assert shared is not None
    assert not shared.membership.is_member(mallory.id)
    assert_others_sync(three)
    gus.close()


def test_one_invitation_admits_few_devices(three: Three, tmp_path: Path) -> None:
    """Whoever has an invitation's secret cannot fill the session's membership with devices."""
    gus = Device(str(tmp_path), "gus", three.shelf)
    share = vault_shares.find_or_create_share(three.anna.vault(), "s1")
    vault_shares.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = vault_shares.offers(three.shelf, [gus.keys.identity])
    assert offer.secret is not None
    for number in range(30):
        keys = DeviceKeys.generate().public
        letter = join_vault._RequestDocument(
            vault=share.id, signing=keys.signing, age=keys.age, name=f"g{number}", at=1,
            proof=join_vault.sign_proof(offer.secret, keys),
        )  # fmt: skip
        three.shelf.objects[f"h/join-{number:032x}"] = age.encrypt(share.membership.box, msgspec.json.encode(letter))
    report = three.anna.sync()
    assert "more devices ask to join" in reasons(report)
    shared = vault_shares.find_share(three.anna.vault(), "s1")
    assert shared is not None
    assert sum(member.kind == "guest" for member in shared.membership.members.values()) == 16
    gus.close()


def test_unsigned_offer_is_ignored(three: Three, tmp_path: Path) -> None:
    """A shared session must be founded by the keys that its offer names."""
    from holdfast.sync.protocol import entries
    from holdfast.sync.protocol.wraps import KeyWrap, wrap

    gus = DeviceKeys.generate()
    share = vault_shares.find_or_create_share(three.anna.vault(), "s1")
    signed = share.founding()
    assert signed is not None
    forged = entries.pack(signed._replace(signature=bytes(64)))
    blob = wrap(gus.public.age, KeyWrap(vault=share.id, founding=forged, keys=[bytes(32)], session="s1"))
    three.shelf.objects[f"k/{sealing.recipient_tag(gus.public.age)}-{0:016x}"] = blob
    assert vault_shares.offers(three.shelf, [gus.identity]) == []
