"""Objects that outsiders plant at a remote (vaults, keys, requests, heads) have no effect and are reported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.sync import create_vault, join_vault
from holdfast.sync.protocol import sealing
from holdfast.sync.protocol.entries import founding_document
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.support.vault_devices import Device, Shelf, settle
from tests.sync.adversary import Insider, Three, reasons, rejection_reasons


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    yield made
    made.close()


# ── planting ─────────────────────────────────────────────────────────────────────────────────────────────


def test_members_ignore_another_founding_entry(three: Three, tmp_path: Path) -> None:
    """Members have pinned their vault: another founding entry at the remote changes nothing."""
    mallory = Device(str(tmp_path), "mallory", Shelf()).create_vault()
    three.shelf.objects["vault"] = mallory.remote.get("vault", 1 << 20)
    three.assert_sync_works()
    assert {device.vault_id for device in three.everybody} == {three.anna.vault_id}
    mallory.close()


def test_joiner_recognizes_a_planted_vault_by_its_words(three: Three, tmp_path: Path) -> None:
    """The words differ, and until it is approved the joiner sends and reads nothing."""
    mallory = Device(str(tmp_path), "mallory", Shelf()).create_vault()
    three.shelf.objects["vault"] = mallory.remote.get("vault", 1 << 20)
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.start("private", "secret goal")
    dora.ask()
    assert dora.vault_id != three.anna.vault_id
    assert dora.sync().pushed == 0
    dora.close()
    mallory.close()


@pytest.mark.parametrize(
    "blob", [b"", b"{}", bytes(100), b'{"holdfast":0,"entry":"","signature":""}', b"x" * (1 << 20)]
)
def test_invalid_founding_entry_is_refused_with_a_message(tmp_path: Path, blob: bytes) -> None:
    shelf = Shelf()
    shelf.objects["vault"] = blob
    with pytest.raises(HoldfastError):
        create_vault.read_founding(shelf)


def test_founding_entry_with_a_foreign_signature_is_refused(three: Three, tmp_path: Path) -> None:
    mallory = Device(str(tmp_path), "mallory", Shelf()).create_vault()
    ours, theirs = create_vault.read_founding(three.shelf), create_vault.read_founding(mallory.remote)
    assert ours is not None
    assert theirs is not None
    for signature in (theirs.signature, bytes(64), b""):
        three.shelf.objects["vault"] = founding_document(ours._replace(signature=signature))
        with pytest.raises(HoldfastError):
            create_vault.read_founding(three.shelf)
    mallory.close()


def test_planted_key_is_never_used_and_is_reported(three: Three) -> None:
    """A key left by an outsider opens and seals nothing of ours."""
    outsider = Insider(three.ben, three.shelf)  # knows the recipients, but does not use the vault's keys
    planted = sealing.new_key()
    box = age.identity(os.urandom(32))
    outsider.plant_key(three.cleo.keys.public.age, [planted], box=box)
    # A head sealed with it, with a name that makes Cleo look for keys.
    name = f"h/{outsider.vault.tag}.{os.urandom(10).hex()}-000000000001"
    outsider.sealed("head", name, b"anything", key=planted)
    for _ in range(2):
        report = three.cleo.sync()
        assert any("no membership entry names" in refused.reason for refused in report.rejected)
    assert "no member" in rejection_reasons(three.cleo)
    vault = three.cleo.vault()
    assert planted not in vault.ring()
    assert vault.sealing_key() != planted
    assert vault.box() != box
    del three.shelf.objects[name]
    three.assert_sync_works()
    assert all(not opens(three.shelf, planted, vault.id, name) for name in three.names("p/") + three.names("h/"))


def opens(shelf: Shelf, key: bytes, vault: str, name: str) -> bool:
    """Whether a key opens an object, as any kind."""
    for kind in ("pack", "head", "entry"):
        try:
            sealing.unseal([key], kind, vault, name, shelf.objects[name], limit=1 << 30)
        except HoldfastError:
            continue
        return True
    return False


def test_entries_under_a_planted_key_are_not_stored(three: Three, tmp_path: Path) -> None:
    """An outsider with a planted key, head and entries cannot fill anybody's store."""
    from holdfast.sync.protocol.entries import Rename

    outsider = Insider(three.ben, three.shelf)
    mallory = DeviceKeys.generate()
    planted = sealing.new_key()
    outsider.plant_key(three.cleo.keys.public.age, [planted])
    outsider.key = planted
    tips = tuple(
        outsider.entry(Rename, keys=mallory, by=who, device=who, name=f"{number}")
        for number in range(20)
        for who in (mallory.public.id, three.anna.keys.public.id)
    )
    writer = three.anna.writer
    outsider.head(writer=writer, keys=mallory, tips=tips, counter=500, packs=())
    before = len(three.cleo.vault().known)
    report = three.cleo.sync()
    assert "does not count" in reasons(report)
    assert "not signed by a device of the vault" in reasons(report)
    assert len(three.cleo.vault().known) == before
    three.assert_sync_works()


def test_real_key_is_used_among_thousands_of_planted_ones(three: Three, tmp_path: Path) -> None:
    """Garbage under names that sort first is skipped for good."""
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.ask()
    prefix = f"k/{sealing.recipient_tag(dora.keys.public.age)}-"
    for number in range(2_500):
        three.shelf.objects[f"{prefix}{number:016x}"] = b"age-encryption.org/v1\ngarbage"
    three.anna.approve(dora)
    settle([dora], 4)
    assert sorted(dora.notes("s1")) == sorted(three.written)
    three.shelf.asked.clear()
    dora.sync()
    assert len(three.shelf.asked) < 10
    dora.close()


def test_real_request_is_read_among_planted_ones(three: Three, tmp_path: Path) -> None:
    """Garbage, huge requests and requests for another vault, by the thousand, admit nobody."""
    vault = three.anna.vault()
    box = vault.membership.box
    mallory = DeviceKeys.generate().public
    letter = {"holdfast": 1, "vault": vault.id, "signing": mallory.signing, "age": mallory.age, "name": "m", "at": 1}
    wrong = [
        letter | {"vault": "0" * 64}, letter | {"signing": b"short"}, letter | {"age": "age1nonsense"},
        letter | {"holdfast": 7}, letter | {"name": 5}, {}, [],
    ]  # fmt: skip
    for number, item in enumerate(wrong):
        three.shelf.objects[f"h/join-{number:032x}"] = age.encrypt(box, msgspec.json.encode(item))
    three.shelf.objects[f"h/join-{50:032x}"] = age.encrypt(box, b"x" * (1 << 20))
    for number in range(100, 4_000):
        three.shelf.objects[f"h/join-{number:032x}"] = b"age-encryption.org/v1\n"
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.ask()
    requests_read = []
    for _ in range(3):
        vault = three.anna.vault()
        requests_read = join_vault.list_requests(vault, three.names("h/join-"))
    assert [request.keys.id for request in requests_read] == [dora.keys.public.id]
    three.anna.approve(dora)
    settle([dora, *three.everybody])
    three.assert_sync_works()
    dora.close()


def test_offer_is_read_among_thousands_of_planted_files(three: Three, tmp_path: Path) -> None:
    """The files are named for the guest's key."""
    gus = Device(str(tmp_path), "gus", three.shelf)
    three.anna.share("s1", gus)
    prefix = f"k/{sealing.recipient_tag(gus.keys.public.age)}-"
    for number in range(3_000):
        three.shelf.objects[f"{prefix}{number:016x}"] = b"age-encryption.org/v1\n"
    gus.accept()
    assert set(gus.notes("s1")) == set(three.written)
    gus.close()


def test_control_characters_are_removed_from_names_in_requests(three: Three, tmp_path: Path) -> None:
    """People see the names that strangers give themselves."""
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.name = "\x1b[2J\x1b[Happrove me\r\n\u202e"
    dora.ask()
    [request] = join_vault.list_requests(three.anna.vault(), three.names("h/join-"))
    assert request.name.isprintable()
    dora.close()


def test_errors_contain_no_secrets(three: Three) -> None:
    """Errors and reports name places and devices, never keys or content."""
    keys = [three.cleo.keys.identity, three.cleo.keys.seed.hex(), *(key.hex() for key in three.cleo.vault().ring())]
    three.note(three.anna, "a very private note")
    three.anna.sync()
    for name in three.names("h/") + three.names("p/"):
        three.shelf.objects[name] = three.shelf.objects[name][:-1] + b"!"
    report = three.cleo.sync()
    text = reasons(report) + "".join(report.notes) + "".join(refused.pack for refused in report.rejected)
    assert report.rejected
    assert not any(key in text for key in keys)
    assert "private note" not in text


def test_ambiguous_head_changes_the_writer_only_a_few_times(three: Three) -> None:
    """A head that could be ours, sealed with unknown keys, makes us a new writer, but not each time it is planted."""
    writers = set()
    for number in range(8):
        tag = three.head_of(three.anna)[:-12]
        three.shelf.objects[f"{tag}{800_000 + number:012}"] = b"HFS1" + os.urandom(300)
        three.note(three.anna, f"under attack {number}")
        three.anna.sync()
        writers.add(three.anna.writer)
    assert len(writers) <= 4
    settle(three.everybody)
    three.assert_complete()
    three.assert_sync_works()
