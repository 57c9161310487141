"""A remote that reads, changes, swaps, replays and rolls back objects: reported, while good data keeps flowing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core.errors import Unreachable
from holdfast.core.events import ProjectFacts, SessionStarted
from holdfast.sync import create_vault, vault_shares
from holdfast.sync.protocol import sealing
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.support.vault_devices import Device, Shelf, join, settle
from tests.sync.adversary import Three, reasons, rejection_reasons

CANARY = "canaryQ7"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    yield made
    made.close()


def fresh(three: Three, tmp_path: Path, name: str = "dora") -> Device:
    """A device that asked to join and was approved."""
    device = Device(str(tmp_path), name, three.shelf)
    device.ask()
    three.anna.approve(device)
    return device


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def canary_everywhere(tmp_path: Path) -> tuple[Shelf, Device]:
    """A vault with the canary in every text that a person or an agent can give."""
    shelf = Shelf()
    anna, ben = Device(str(tmp_path), f"anna-{CANARY}", shelf), Device(str(tmp_path), f"ben-{CANARY}", shelf)
    guest = Device(str(tmp_path), f"gus-{CANARY}", shelf)
    anna.create_vault()
    join(anna, ben)
    project = ProjectFacts(
        id=f"p-{CANARY}", name=f"project {CANARY}", path=f"/home/{CANARY}/work", remote=f"git@host:{CANARY}.git",
        git_branch=f"feature/{CANARY}",
    )  # fmt: skip
    session = f"session-{CANARY}"
    anna.record(session, SessionStarted(goal=f"goal {CANARY}", project=project, device=anna.name))
    anna.note(session, f"note {CANARY}")
    settle([anna, ben])
    main = anna.vault()
    share = vault_shares.find_or_create_share(main, session)
    vault_shares.invite(share, f"{CANARY}@example.org", [guest.keys.public.age], write=True, expires=None)
    anna.sync()
    [offer] = vault_shares.offers(shelf, [guest.keys.identity])
    guest.vault_id = vault_shares.accept(guest.local(), shelf, offer).id
    settle([guest, anna, ben, guest])
    guest.note(session, f"guest {CANARY}")
    settle([guest, anna, ben])
    assert any(CANARY in words for words in ben.notes(session))
    return shelf, anna


def test_remote_contains_no_plaintext(tmp_path: Path) -> None:
    """The canary is in no raw byte of any object, and in no name."""
    shelf, _ = canary_everywhere(tmp_path)
    shapes = [CANARY.encode(), CANARY.lower().encode(), CANARY.encode("utf-16-le"), CANARY.encode().hex().encode()]
    shapes.append(msgspec.json.encode(CANARY.encode())[2:-3])  # the middle of its base64
    for name, data in shelf.objects.items():
        for shape in shapes:
            assert shape not in data
            assert shape not in name.encode()


# What a remote sees: every name is of one of these forms, and every object of one of these kinds.
VISIBLE = {
    r"vault": rb'\{"holdfast":1,"entry":"[A-Za-z0-9+/=]+","signature":"[A-Za-z0-9+/=]+"\}\Z',
    r"m/[0-9a-f]{16}/[0-9a-f]{40}": rb"HFS1",
    r"h/[0-9a-f]{16}\.[0-9a-f]{20}-[0-9]{12}": rb"HFS1",
    r"h/join-[0-9a-f]{32}": rb"age-encryption\.org/v1\n-> X25519 ",
    r"k/[0-9a-f]{32}-[0-9a-f]{16}": rb"age-encryption\.org/v1\n-> X25519 ",
    r"p/[0-9a-f]{16}/[0-9a-f]{40}": rb"HFS1",
}


def test_remote_sees_only_known_forms_of_objects(tmp_path: Path) -> None:
    """Names and first bytes of all objects have one of six known forms; a new form needs a decision first."""
    shelf, _ = canary_everywhere(tmp_path)
    late = Device(str(tmp_path), "late", shelf)
    late.ask()
    seen = set()
    for name, data in shelf.objects.items():
        [form] = [form for form in VISIBLE if re.fullmatch(form, name)]
        assert re.match(VISIBLE[form], data), name
        seen.add(form)
    assert seen == set(VISIBLE)


def test_founding_entry_contains_no_names(tmp_path: Path) -> None:
    """The only public object contains keys, a time and a random number."""
    shelf, _ = canary_everywhere(tmp_path)
    signed = create_vault.read_founding(shelf)
    assert signed is not None
    read = msgspec.msgpack.decode(signed.payload)
    assert set(read) == {"kind", "vault", "parents", "by", "at", "device", "nonce", "box", "session"}
    assert set(read["device"]) == {"signing", "age"}
    assert (read["session"], read["vault"], read["parents"]) == (None, "", [])


# ── changing bytes ───────────────────────────────────────────────────────────────────────────────────────


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "flip the first": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "flip the version": lambda data: data[:3] + bytes([data[3] ^ 3]) + data[4:],
    "flip the salt": lambda data: data[:10] + bytes([data[10] ^ 128]) + data[11:],
    "flip the hint": lambda data: data[:38] + bytes([data[38] ^ 1]) + data[39:],
    "flip the middle": lambda data: flipped(data, len(data) // 2),
    "flip the last": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "truncate": lambda data: data[:-1],
    "cut in half": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "extend": lambda data: data + b"\0",
    "double": lambda data: data + data,
    "older version": lambda data: b"HFS0" + data[4:],
    "newer version": lambda data: b"HFS9" + data[4:],
    "other bytes": lambda data: os.urandom(len(data)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["head", "pack"])
def test_changed_object_is_rejected_and_sync_continues(three: Three, kind: str, change: str) -> None:
    """Any change to the bytes of a head or a pack is reported, and nothing is lost."""
    before = set(three.shelf.objects)
    three.note(three.anna, "in a changed object")
    three.note(three.ben, "beside it")
    three.anna.sync()
    [name] = [name for name in set(three.shelf.objects) - before if name.startswith(kind[0])]
    three.ben.sync()
    window = three.windows["cleo"]
    window.instead[name] = CHANGES[change](three.shelf.objects[name])
    report = three.cleo.sync()
    assert any(
        refused.pack == name and refused.device == "anna" and kind in refused.reason for refused in report.rejected
    )
    assert kind in rejection_reasons(three.cleo)
    assert "beside it" in three.cleo.notes("s1")
    assert "in a changed object" not in three.cleo.notes("s1")
    three.show_everything()
    assert three.cleo.sync().rejected == []
    assert rejection_reasons(three.cleo) == ""
    three.assert_sync_works()


@pytest.mark.parametrize("change", ["flip the middle", "cut in half", "empty", "double", "other bytes"])
def test_damaged_pack_is_repacked_by_its_author(three: Three, change: str) -> None:
    """A device that cannot read a pack requests it, and the author publishes the events anew."""
    before = set(three.shelf.objects)
    three.note(three.anna, "in a changed pack")
    three.anna.sync()
    [name] = [name for name in set(three.shelf.objects) - before if name.startswith("p/")]
    three.shelf.objects[name] = CHANGES[change](three.shelf.objects[name])
    assert "pack" in reasons(three.cleo.sync())
    settle(three.everybody, 4)
    three.assert_complete()
    assert three.cleo.sync().rejected == []


@pytest.mark.parametrize("change", ["flip the middle", "cut in half", "empty", "older version"])
@pytest.mark.parametrize("kind", ["k", "m"])
def test_newcomer_waits_while_its_key_or_entries_are_changed(
    three: Three, tmp_path: Path, kind: str, change: str
) -> None:
    """Once they are right again, it gets everything."""
    dora = fresh(three, tmp_path)
    mine = f"k/{sealing.recipient_tag(dora.keys.public.age)}-" if kind == "k" else "m/"
    right = {name: data for name, data in three.shelf.objects.items() if name.startswith(mine)}
    three.shelf.objects |= {name: CHANGES[change](data) for name, data in right.items()}
    dora.sync()
    assert dora.notes("s1") == []
    assert not dora.vault().membership.is_member(dora.keys.public.id)
    three.assert_sync_works()
    for name in right:
        del three.shelf.objects[name]
    # Put back, as a member does when the remote lacks them.
    renamed = {name: name[:-16] + os.urandom(8).hex() if kind == "k" else name for name in right}
    three.shelf.objects |= {renamed[name]: data for name, data in right.items()}
    settle([dora], 2)
    assert sorted(dora.notes("s1")) == sorted(three.written)
    dora.close()


# ── swapping, replaying, rolling back ────────────────────────────────────────────────────────────────────


def test_object_does_not_open_under_another_name(three: Three) -> None:
    """Heads and packs swapped between devices are rejected: each is sealed to its own name."""
    before = set(three.shelf.objects)
    for device in (three.anna, three.ben):
        three.note(device, f"swapped {device.name}")
        device.sync()
    new = sorted(set(three.shelf.objects) - before)
    shelf, window = three.shelf.objects, three.windows["cleo"]
    for kind in ("h/", "p/"):
        one, other = [name for name in new if name.startswith(kind)]
        window.instead[one], window.instead[other] = shelf[other], shelf[one]
    assert reasons(three.cleo.sync()).count("a head") == 2
    for name in [name for name in window.instead if name.startswith("h/")]:
        del window.instead[name]
    assert reasons(three.cleo.sync()).count("a pack") == 2
    three.show_everything()
    three.assert_sync_works()


def test_objects_of_another_vault_do_not_open(three: Three, tmp_path: Path) -> None:
    """A head and packs of a second vault have no effect under the names of the first."""
    (tmp_path / "other").mkdir()
    other = Three(str(tmp_path / "other"))
    for kind in ("h/", "p/", "m/"):
        for mine, theirs in zip(three.names(kind), other.names(kind), strict=False):
            if not mine.startswith("h/join"):
                three.windows["cleo"].instead[mine] = other.shelf.objects[theirs]
    three.note(three.anna, "new")
    three.anna.sync()
    newest = three.head_of(three.anna)
    three.windows["cleo"].instead[newest] = other.shelf.objects[other.head_of(other.anna)]
    assert "a head" in reasons(three.cleo.sync())
    three.show_everything()
    three.assert_sync_works()
    other.close()


def test_objects_of_a_share_do_not_open_in_the_vault(three: Three) -> None:
    """Nor the other way round, for heads and packs alike."""
    share = vault_shares.find_or_create_share(three.anna.vault(), "s1")
    guest = DeviceKeys.generate()
    vault_shares.invite(share, "gus@example.org", [guest.public.age], write=False, expires=None)
    settle(three.everybody)
    three.note(three.anna, "in both")
    before = set(three.shelf.objects)
    three.anna.sync()
    new = sorted(set(three.shelf.objects) - before)
    shelf, window = three.shelf.objects, three.windows["cleo"]
    for kind in ("h/", "p/"):
        one, other = [name for name in new if name.startswith(kind)]
        window.instead[one], window.instead[other] = shelf[other], shelf[one]
    assert reasons(three.cleo.sync()).count("a head") == 2
    three.show_everything()
    three.assert_sync_works()


def test_old_head_is_rejected_under_a_new_name(three: Three) -> None:
    """A replayed head does not become newer by a higher number, and does not hide the real one."""
    old = three.shelf.objects[three.head_of(three.anna)]
    tag = three.head_of(three.anna)[:-12]
    three.note(three.anna, "newer")
    three.anna.sync()
    three.shelf.objects[f"{tag}{900_000:012}"] = old
    report = three.cleo.sync()
    assert "a head" in reasons(report)
    assert "newer" in three.cleo.notes("s1")
    three.assert_sync_works()


def test_garbage_does_not_hide_the_newest_head(three: Three) -> None:
    """Names planted above a device's real head cost one request each; the real head is still read."""
    tag = three.head_of(three.anna)[:-12]
    three.note(three.anna, "below garbage")
    three.anna.sync()
    for counter in (800_000, 999_999_999_999, 900_000):
        three.shelf.objects[f"{tag}{counter:012}"] = b"HFS1" + os.urandom(200)
    assert "a head" in reasons(three.cleo.sync())
    assert "below garbage" in three.cleo.notes("s1")
    three.assert_sync_works()


def test_garbage_under_our_name_does_not_change_the_writer(three: Three) -> None:
    """Foreign bytes under our own head's name are reported; no device switches writers because of them."""
    writer = three.anna.writer
    tag = three.head_of(three.anna)[:-12]
    for number in range(5):
        three.shelf.objects[f"{tag}{800_000 + number:012}"] = b"garbage"
        three.note(three.anna, f"under attack {number}")
        assert "this device" in reasons(three.anna.sync())
    assert three.anna.writer == writer
    settle(three.everybody)
    three.assert_complete()
    three.assert_sync_works()


def test_older_head_is_reported(three: Three) -> None:
    """The previous head, shown instead of the newest, is reported as older."""
    name = three.head_of(three.anna)
    old = three.shelf.objects[name]
    three.note(three.anna, "to be hidden")
    settle(three.everybody)
    newest = three.head_of(three.anna)
    window = three.windows["cleo"]
    window.hidden = lambda one: one == newest
    three.shelf.objects[name] = old
    for _ in range(2):
        report = three.cleo.sync()
        assert any("older" in refused.reason and refused.device == "anna" for refused in report.rejected)
        assert "older" in rejection_reasons(three.cleo)
    three.show_everything()
    assert three.cleo.sync().rejected == []
    three.assert_sync_works()


def test_replayed_packs_and_entries_change_nothing(three: Three) -> None:
    """With every object of the past restored, no event is duplicated and no deleted one returns."""
    ever = dict(three.shelf.objects)
    for number in range(20):
        three.note(three.anna, f"more {number}")
        three.anna.sync()
        ever |= three.shelf.objects
    settle(three.everybody)
    three.shelf.objects = ever | three.shelf.objects
    settle(three.everybody)
    three.assert_complete()
    three.assert_sync_works()


def test_rolled_back_remote_is_reported_and_repaired(three: Three) -> None:
    """After a rollback all devices report it, and together restore what was lost."""
    old = dict(three.shelf.objects)
    for device in three.everybody:
        three.note(device, f"after the copy, {device.name}")
    settle(three.everybody)
    three.shelf.objects = dict(old)
    reported = [reasons(device.sync()) for device in three.everybody]
    assert "older" in reported[0]
    assert "no longer shows" in reported[0]
    settle(three.everybody)
    three.assert_complete()
    three.assert_sync_works()


def test_emptied_remote_is_refilled(three: Three, tmp_path: Path) -> None:
    """Once a person confirms the place, the devices restore everything a newcomer needs."""
    three.shelf.objects.clear()
    with pytest.raises(Unreachable, match="no longer at this remote"):
        three.anna.sync()
    assert not three.shelf.objects
    assert "no longer shows" in reasons(three.anna.sync(put_back=True))
    settle(three.everybody)
    three.assert_sync_works()
    dora = fresh(three, tmp_path)
    settle([dora, *three.everybody, dora])
    assert sorted(dora.notes("s1")) == sorted(three.written)
    dora.close()
