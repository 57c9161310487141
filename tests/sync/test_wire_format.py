"""The wire format is what docs/internals/sync.md says: a reader written from that page alone reads the same.

`vectors/vault.json` is a small vault as it once lay at a remote, with the keys of its devices and the events in it.
Run this module as a program to write another one; a new file means a new version of the format.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import times
from holdfast.core.envelope import Event
from holdfast.core.events import EventErased
from holdfast.sync import removal, vault_shares
from holdfast.sync.protocol import sealing
from holdfast.sync.protocol.entries import Invite, NewKey, Uninvite
from holdfast.sync.protocol.membership import evaluate
from holdfast.sync.sync import sync_vault
from holdfast.workspace.keys.device_keys import POSSESSION, DeviceKeys
from tests.support.vault_devices import Device, Shelf, join, settle
from tests.sync import independent_members, independent_vault, membership_acts
from tests.sync.membership_acts import Acts
from tests.sync.test_membership_laws import Lived, histories

VECTOR = Path(__file__).parent / "vectors" / "vault.json"
MAIN, SHARED = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def as_json(event: Event) -> dict[str, Any]:
    """An event with the field names of docs/internals/log.md."""
    return {
        "v": event.v, "session": event.session, "writer": event.writer, "seq": event.seq, "clock": event.clock,
        "at": times.format_time(event.at), "seen": [[head.writer, head.seq, head.hash] for head in event.seen],
        "key": event.key, "actor": event.actor, "type": event.type, "body": event.body, "prev": event.prev,
        "hash": event.hash, "data": None if event.data is None else json.loads(event.data),
        "salt": None if event.salt is None else event.salt.hex(),
    }  # fmt: skip


def by_hash(events: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {event["hash"]: event for event in events}


def all_of(device: Device, sessions: Iterable[str]) -> dict[str, dict[str, Any]]:
    return by_hash(as_json(event) for session in sessions for event in device.events(session))


def read(objects: dict[str, bytes], keys: DeviceKeys) -> dict[str, independent_vault.Opened]:
    return independent_vault.read(objects, keys.identity, keys.public.age)


def example_vault(directory: str) -> tuple[Shelf, dict[str, Device]]:
    """Two devices and a removed one, hence a new key; a share with a guest; an erased event."""
    shelf = Shelf()
    devices = {name: Device(directory, name, shelf) for name in ("laptop", "desk", "phone", "guest")}
    laptop, desktop, phone, guest = devices.values()
    laptop.create_vault()
    laptop.start(MAIN, "Grün, “quoted” \u2028 and\nlines")
    join(laptop, desktop, phone)
    phone.note(MAIN, "from a device that goes")
    settle((phone, laptop, desktop))
    change = removal.remove(laptop.vault(), [phone.keys.public.id])
    change.commit()
    desktop.start(SHARED, "What a guest may read")
    settle((laptop, desktop))
    desktop.note(MAIN, "after the new key")
    laptop.note(MAIN, "to be erased")
    erased = laptop.events(MAIN)[-1].hash
    laptop.record(MAIN, EventErased(hashes=(erased,)))
    settle((laptop, desktop))
    share = vault_shares.find_or_create_share(laptop.vault(), SHARED)
    vault_shares.invite(share, "eve@example.org", [guest.keys.public.age], write=True, expires=None)
    settle((laptop, desktop))
    offer = vault_shares.offers(shelf, [guest.keys.identity])[0]
    guest.vault_id = vault_shares.accept(guest.local(), shelf, offer).id
    settle((guest, laptop, desktop, guest))
    guest.note(SHARED, "from the guest")
    settle((guest, laptop, desktop))
    return shelf, devices


def test_independent_reader_reads_the_same_events(tmp_path: Path) -> None:
    """Of every device, in vault and share, after a removal, a new key and an erasure."""
    shelf, devices = example_vault(str(tmp_path))
    laptop, desktop, phone, guest = devices.values()
    for device in (laptop, desktop):
        vaults = read(shelf.objects, device.keys)
        main = vaults[laptop.vault_id]
        assert by_hash(main.events) == all_of(device, (MAIN, SHARED))
        assert set(main.members.members) == {laptop.keys.public.id, desktop.keys.public.id}
        assert set(main.members.removed) == {phone.keys.public.id}
        share = vaults[guest.vault_id]
        assert share.session == SHARED
        assert by_hash(share.events) == all_of(guest, (SHARED,)) == all_of(device, (SHARED,))
    assert set(read(shelf.objects, guest.keys)) == {guest.vault_id}
    assert any(event["data"] is None for event in read(shelf.objects, desktop.keys)[laptop.vault_id].events)
    assert "from the guest" in desktop.notes(SHARED)
    with pytest.raises(ValueError, match="no key opens"):
        read(shelf.objects, phone.keys)
    for device in devices.values():
        device.close()


def test_independent_reader_reads_merged_packs_after_a_key_change(tmp_path: Path) -> None:
    """After forty pushes some packs cover many of them, and two keys are in use."""
    shelf = Shelf()
    laptop, desktop = Device(str(tmp_path), "laptop", shelf), Device(str(tmp_path), "desk", shelf)
    laptop.create_vault()
    join(laptop, desktop)
    laptop.start(MAIN)
    for number in range(40):
        laptop.note(MAIN, f"note {number}")
        laptop.sync()
        if number == 20:
            change = laptop.vault().change()
            change.new_key()
            change.commit()
    settle((desktop, laptop))
    opened = read(shelf.objects, desktop.keys)[laptop.vault_id]
    assert by_hash(opened.events) == all_of(desktop, (MAIN,))
    assert len(opened.members.keys) == 2
    assert sum(name.startswith("p/") for name in shelf.objects) < 40
    laptop.close()
    desktop.close()


@given(histories())
def test_independent_membership_agrees_for_vaults(history: Lived) -> None:
    """Devices remove and admit each other concurrently: the same members, cuts, keys and tips."""
    assert_equal_membership(history.acts)


@st.composite
def shared_histories(draw: st.DrawFn) -> Acts:
    """People are invited to a share, uninvited, admitted and removed, by anybody with any knowledge."""
    acts = Acts(session=SHARED)
    acts.admit("ann", "bob")
    acts.admit("ann", "cat", admin=False)
    invites = [_invite(acts, "ann", write=True, after=None)]
    everybody = st.sampled_from(("ann", "bob", "cat", "gus", "hal"))
    for _ in range(draw(st.integers(1, 12))):
        by, whom, invite = draw(everybody), draw(everybody), draw(st.sampled_from(invites))
        known = st.lists(st.sampled_from(sorted(acts.entries)), min_size=1, max_size=3)
        after = None if draw(st.booleans()) else draw(known)
        match draw(st.sampled_from(("invite", "uninvite", "guest", "guest", "device", "twin", "remove", "key"))):
            case "invite":
                invites.append(_invite(acts, by, write=draw(st.booleans()), after=after))
            case "uninvite":
                acts.add_entry(by, Uninvite, after=after, invite=invite)
            case "guest":
                acts.admit(by, whom, admin=False, role="guest", invite=invite, after=after)
            case "device":
                acts.admit(by, whom, admin=draw(st.booleans()), after=after)
            case "twin":
                signing = draw(everybody)
                age = membership_acts.keys_of(whom).public.age
                proof = membership_acts.keys_of(draw(everybody)).sign(POSSESSION, age.encode())
                acts.admit(
                    by, whom, admin=False, role=draw(st.sampled_from(("guest", "device"))), after=after,
                    signing=signing, possession=proof if draw(st.booleans()) else None,
                )  # fmt: skip
            case "remove":
                acts.remove(by, whom, after=after, cut={"w": {SHARED: acts.clock}})
            case _:
                acts.add_entry(by, NewKey, after=after, id=f"{acts.clock:032x}", recipients=())
    return acts


def _invite(acts: Acts, by: str, *, write: bool, after: Iterable[str] | None) -> str:
    expires = acts.clock + 6 if acts.clock % 2 else None
    return acts.add_entry(by, Invite, after=after, email="", recipients=(), write=write, secret=b"", expires=expires)


@given(shared_histories())
def test_independent_membership_agrees_for_shares(acts: Acts) -> None:
    """Including invitations and guests."""
    assert_equal_membership(acts)


def assert_equal_membership(acts: Acts) -> None:
    entries_all = list(acts.entries.values())
    ours = evaluate(entries_all, acts.vault)
    theirs = independent_members.Members([(signed.payload, signed.signature) for signed in entries_all], acts.vault)
    admins = {device for device, role in theirs.members.items() if role == independent_members.ADMIN}
    assert set(theirs.members) == set(ours.members)
    assert admins == {device for device in ours.members if ours.is_admin(device)}
    assert theirs.removed == {
        device: {(writer, session): seq for writer, cut in item.cut.items() for session, seq in cut.items()}
        for device, item in ours.removed.items()
    }
    assert theirs.keys == {key.id for key in ours.keys}
    assert theirs.tips == list(ours.tips)


# ── the stored vault ─────────────────────────────────────────────────────────────────────────────────────


def written() -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(VECTOR.read_text("utf-8"))
    return vector


def objects_of(vector: dict[str, Any]) -> dict[str, bytes]:
    return {name: base64.b64decode(data) for name, data in vector["objects"].items()}


def keys_of(vector: dict[str, Any], name: str) -> DeviceKeys:
    one = vector["devices"][name]
    return DeviceKeys(bytes.fromhex(one["seed"]), one["identity"])


@pytest.mark.parametrize("name", ["laptop", "desk", "guest"])
def test_independent_reader_reads_the_stored_vault(name: str) -> None:
    """It returns the events noted in the file."""
    vector = written()
    vaults = read(objects_of(vector), keys_of(vector, name))
    assert {vault: opened.events for vault, opened in vaults.items()} == {
        vault: events for vault, events in vector["vaults"].items() if vault in vaults
    }
    assert len(vaults) == (1 if name == "guest" else 2)


def test_holdfast_reads_the_stored_vault(tmp_path: Path) -> None:
    """A device with only the keys gets every event, and rejects nothing."""
    vector = written()
    with closing(Device(str(tmp_path), "desk", Shelf())) as desktop:
        desktop.keys = keys_of(vector, "desk")
        desktop.renew()
        assert isinstance(desktop.remote, Shelf)
        desktop.remote.objects = objects_of(vector)
        desktop.ask()
        report = desktop.sync()
        assert report.rejected == []
        assert all_of(desktop, (MAIN, SHARED)) == by_hash(vector["vaults"][desktop.vault_id])


def test_guest_reads_only_the_share_of_the_stored_vault(tmp_path: Path) -> None:
    vector = written()
    with closing(Device(str(tmp_path), "guest", Shelf())) as guest:
        guest.keys = keys_of(vector, "guest")
        guest.renew()
        shelf = guest.remote
        assert isinstance(shelf, Shelf)
        shelf.objects = objects_of(vector)
        (offer,) = vault_shares.offers(shelf, [guest.keys.identity])
        vault = vault_shares.accept(guest.local(), shelf, offer)
        assert sync_vault(vault).rejected == []
        assert all_of(guest, (SHARED,)) == by_hash(vector["vaults"][vault.id])
        assert guest.events(MAIN) == []


def write_vector() -> None:
    """Make the vector anew."""
    with tempfile.TemporaryDirectory() as scratch:
        shelf, devices = example_vault(scratch)
        vaults = read(shelf.objects, devices["laptop"].keys)
        document = {
            "about": "A vault as docs/internals/sync.md describes it: its objects in base64, the keys of its"
            " devices, and the events in it by vault. Written by tests/sync/test_wire_format.py.",
            "devices": {
                name: {"id": device.keys.public.id, "seed": device.keys.seed.hex(), "identity": device.keys.identity,
                       "signing": device.keys.public.signing.hex(), "age": device.keys.public.age}
                for name, device in devices.items()
            },
            "tags": {vault: sealing.vault_tag(vault) for vault in vaults},
            "vaults": {vault: opened.events for vault, opened in vaults.items()},
            "objects": {name: base64.b64encode(data).decode() for name, data in sorted(shelf.objects.items())},
        }  # fmt: skip
        for device in devices.values():
            device.close()
    VECTOR.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write_vector()
    sys.exit(0)
