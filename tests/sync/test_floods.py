"""Floods: whatever outsiders, guests and plain devices leave at a remote, approved devices join and keys arrive.

What a flood costs others is in proportion to what it cost to leave it there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core.envelope import make_event
from holdfast.core.events import NoteAdded
from holdfast.sync import find_wraps, join_vault, outbox, removal, vault_shares
from holdfast.sync.outbox import Batch, sign_stretches
from holdfast.sync.protocol import ancestry, entries, heads, packs, sealing, wraps
from holdfast.sync.protocol.entries import ShareEntry, SignedEntry, VaultFounded
from holdfast.sync.protocol.wraps import KeyWrap
from holdfast.sync.push import Publisher
from holdfast.sync.read_heads import read_listing
from holdfast.sync.sync import sync_vault
from holdfast.sync.vault import Vault
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import ENTRY, DeviceKeys, new_request_keys
from tests.support.vault_devices import Device, Shelf, join, settle


class Fleet:
    """Anna founds the vault; Ben and Cleo are plain devices. Gus is a guest in the session, Bob a newcomer."""

    def __init__(self, directory: str) -> None:
        self.shelf = Shelf()
        names = ("anna", "ben", "cleo", "gus", "bob")
        self.anna, self.ben, self.cleo, self.gus, self.bob = self.all = [
            Device(directory, name, self.shelf) for name in names
        ]
        join(self.anna.create_vault(), self.ben, self.cleo)
        self.anna.start("s1")
        settle([self.anna, self.ben, self.cleo], 2)

    def invite_gus(self) -> Vault:
        """The share as Gus sees it after he accepted."""
        self.anna.share("s1", self.gus)
        self.gus.accept()
        (offer,) = vault_shares.offers(self.shelf, [self.gus.keys.identity])
        vault_shares.accept(self.gus.local(), self.shelf, offer)
        settle([self.anna, self.gus, self.anna, self.ben], 1)
        return self.gus.vault()

    def founding(self) -> SignedEntry:
        return entries.read_founding(self.shelf.objects["vault"])


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(str(tmp_path))
    yield made
    for device in made.all:
        device.close()


def _is_member(admin: Device, device: Device) -> bool:
    return admin.vault().membership.is_member(device.keys.public.id)


def _has_joined(device: Device) -> bool:
    return device.vault().memory.status().place == "member" and _is_member(device, device)


# ── keys of approved devices ─────────────────────────────────────────────────────────────────────────────


def _plant_wraps(fleet: Fleet, keys: DeviceKeys, number: int) -> None:
    """Well-formed keys for somebody whose public key is known; they open nothing."""
    signed = fleet.founding()
    for count in range(number):
        wrapped = KeyWrap(vault=fleet.anna.vault_id, founding=entries.pack(signed), keys=[os.urandom(32)])
        fleet.shelf.objects[f"{wraps.prefix_of(keys.public.age)}{count:016x}"] = wraps.wrap(keys.public.age, wrapped)


def test_approved_device_joins_when_outsiders_left_keys_for_it(fleet: Fleet) -> None:
    _plant_wraps(fleet, fleet.bob.keys, 40)
    join(fleet.anna, fleet.bob)
    assert _has_joined(fleet.bob)
    assert fleet.bob.state("s1") is not None


def test_device_approved_by_an_earlier_version_joins_after_some_syncs(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody could have chosen its keys' name, so each sync tries some of the files."""
    monkeypatch.setattr(find_wraps, "_MAX_UNNAMED", 2)
    _plant_wraps(fleet, fleet.bob.keys, 4)
    with monkeypatch.context() as earlier:
        earlier.setattr(age, "shared_secret", lambda *_: None)
        fleet.bob.ask()
        fleet.anna.approve(fleet.bob)
    for _ in range(200):
        fleet.bob.sync()
        if _has_joined(fleet.bob):
            return
    pytest.fail("the right key never had its turn")


def _flood(vault: Vault, shelf: Shelf, recipient: str, number: int, *, keys: tuple[bytes, ...] = ()) -> None:
    """What a removed device can leave: names are made with the vault's box, content with its own keys."""
    founding = vault.founding()
    assert founding is not None
    entry = next(iter(vault.membership.tips))
    for _ in range(number):
        wrapped = KeyWrap(
            vault=vault.id, founding=entries.pack(founding), keys=[*keys, os.urandom(32)], box=vault.box(),
            session=vault.membership.session, entry=entry,
        )  # fmt: skip
        name = wraps.new_name(recipient, vault.box(), vault.local.keys.identity)
        shelf.objects[name] = wraps.wrap(recipient, wrapped)


@pytest.mark.parametrize("admin", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_member_gets_a_new_key_when_a_removed_device_left_many_keys(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, admin: bool, real: bool
) -> None:
    """Even a removed admin, with keys that the vault had before."""
    monkeypatch.setattr(find_wraps, "_MAX_READ", 20)
    monkeypatch.setattr(find_wraps, "_MAX_UNNAMED", 4)
    fleet.anna.approve(fleet.bob.ask(), admin=admin)
    settle([fleet.bob, fleet.anna, fleet.ben], 1)
    removed = fleet.bob.vault()
    fleet.anna.remove(fleet.bob)
    keys = tuple(removed.ring()) if real else ()
    _flood(removed, fleet.shelf, fleet.ben.keys.public.age, 60, keys=keys)
    fleet.anna.note("s1", "after")
    fleet.anna.sync()
    settle([fleet.ben], 2)
    assert "after" in fleet.ben.notes("s1")
    settle([fleet.ben], 4)
    assert len(fleet.ben.vault().opened_wraps()) <= 8


@pytest.mark.parametrize("founder", [True, False])
@pytest.mark.parametrize("real", [False, True])
def test_approved_device_joins_when_a_removed_device_left_many_keys(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, founder: bool, real: bool
) -> None:
    """It knows only the founder of the vault: keys of the device that approved it are found once all were opened."""
    monkeypatch.setattr(find_wraps, "_MAX_READ", 20)
    monkeypatch.setattr(find_wraps, "_MAX_UNNAMED", 4)
    dan = Device(str(Path(fleet.anna.path).parent), "dan", fleet.shelf)
    try:
        fleet.anna.approve(fleet.bob.ask(), admin=True)
        settle([fleet.bob, fleet.anna, fleet.ben], 1)
        removed = fleet.ben.vault()
        fleet.anna.remove(fleet.ben)
        fleet.bob.sync()
        keys = tuple(removed.ring()) if real else ()
        _flood(removed, fleet.shelf, dan.keys.public.age, 60, keys=keys)
        dan.ask()
        (fleet.anna if founder else fleet.bob).approve(dan)
        for _ in range(1 if founder else 4 + 16):  # all of them opened once, then each tried again
            dan.sync()
        assert _has_joined(dan)
        assert dan.state("s1") is not None
    finally:
        dan.close()


def test_file_with_an_unknown_key_is_opened_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for a few at a time, in case an entry names its key by then."""
    monkeypatch.setattr(find_wraps, "_MAX_UNNAMED", 4)
    removed = fleet.cleo.vault()
    fleet.anna.remove(fleet.cleo)
    _flood(removed, fleet.shelf, fleet.ben.keys.public.age, 100)
    fleet.ben.sync()
    fleet.shelf.asked.clear()
    fleet.ben.vault().ask_for_wraps()
    assert len([name for what, name in fleet.shelf.asked if what == "get" and name.startswith("k/")]) <= 4


def test_revoked_guest_cannot_hide_a_new_key_of_the_share(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eve had read access only, and has the share's box from her invitation."""
    monkeypatch.setattr(find_wraps, "_MAX_READ", 20)
    monkeypatch.setattr(find_wraps, "_MAX_UNNAMED", 4)
    fleet.invite_gus()
    eve = fleet.bob
    fleet.anna.share("s1", eve, write=False)
    eve.accept()
    settle([fleet.anna, fleet.gus, fleet.ben], 1)
    share = eve.vault()
    fleet.anna.revoke("s1", eve)
    fleet.anna.note("s1", "not for eve")
    fleet.anna.sync()
    for device in (fleet.gus, fleet.ben):
        _flood(share, fleet.shelf, device.keys.public.age, 60)
    settle([fleet.gus, fleet.ben], 1)
    assert "not for eve" in fleet.gus.notes("s1")
    assert "not for eve" in fleet.ben.notes("s1")


def _junk_head(fleet: Fleet, life: str) -> None:
    tag = sealing.vault_tag(fleet.anna.vault_id)
    fleet.shelf.objects[f"h/{tag}.{life}-999999999999"] = b"HFS1" + os.urandom(300)


@pytest.mark.parametrize("where", ["a life of nobody", "the admin's life", "every life"])
def test_approved_device_joins_when_entries_and_heads_include_junk(fleet: Fleet, where: str) -> None:
    tag = sealing.vault_tag(fleet.anna.vault_id)
    for count in range(600):  # more than are read
        fleet.shelf.objects[f"m/{tag}/{count:040x}"] = os.urandom(300)
    admin = sealing.life_tag(fleet.anna.vault_id, fleet.anna.writer)
    lives = {"a life of nobody": ["f" * 20], "the admin's life": [admin]}.get(
        where, list(read_listing(fleet.shelf.list("h/"), tag).newest)
    )
    fleet.bob.ask()
    fleet.anna.approve(fleet.bob)
    for life in lives:
        _junk_head(fleet, life)
    fleet.bob.sync()
    assert _has_joined(fleet.bob)


def test_removed_device_is_no_member_after_it_lost_its_store(fleet: Fleet) -> None:
    """Even if the others have not synced since, and their old heads still name it as a member."""
    fleet.anna.remove(fleet.ben)
    fleet.ben.lose()
    fleet.ben.ask()
    fleet.ben.sync()
    assert fleet.ben.vault().memory.status().place == "pending"
    assert not join_vault.complete_join(fleet.ben.vault())


def test_request_is_read_by_fingerprint_among_any_number(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_vault, "_MAX_READ", 5)
    founded = entries.founding_of(fleet.founding())
    assert founded is not None
    for count in range(60):
        keys = DeviceKeys.generate().public
        letter = join_vault._RequestDocument(
            vault=fleet.anna.vault_id, signing=keys.signing, age=keys.age, name="bob", at=1
        )
        blob = age.encrypt(founded.box, msgspec.json.encode(letter))
        fleet.shelf.objects[f"h/join-{count:032x}"] = blob
    fleet.bob.ask()
    known = fleet.anna.vault()
    joins = read_listing(fleet.shelf.list("h/"), known.tag).joins
    request = join_vault.find_request(known, joins, fleet.bob.keys.public.id)
    assert request is not None
    join_vault.approve(known, request)
    fleet.bob.sync()
    assert _has_joined(fleet.bob)


@pytest.mark.parametrize("size", [1, 400])
def test_new_key_is_read_among_useless_files(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The founder's public key is known to everybody: there are more files than are read or remembered."""
    monkeypatch.setattr(find_wraps, "_MAX_READ", 5)
    monkeypatch.setattr(find_wraps, "_MAX_NAMES", 5)
    fleet.anna.approve(fleet.bob.ask(), admin=True)
    fleet.bob.sync()
    settle([fleet.anna], 1)
    prefix = wraps.prefix_of(fleet.anna.keys.public.age)
    for count in range(100):
        fleet.shelf.objects[f"{prefix}{count:016x}"] = b"x" * size
    fleet.bob.remove(fleet.cleo)
    fleet.bob.start("s2")
    fleet.bob.sync()
    fleet.anna.sync()
    assert fleet.anna.state("s2") is not None


# ── invitations ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("inviter", "files", "keys", "revoked"),
    [
        ("the founder", 1, "made up", False),
        ("the founder", 1, "made up and real", True),
        ("another admin", 4, "made up and real", True),
    ],
)
def test_invited_person_can_write_when_a_guest_left_many_keys(
    fleet: Fleet, inviter: str, files: int, keys: str, revoked: bool
) -> None:
    """Eve, who may only read, leaves more keys than the share has, with a wrong secret and a wrong box."""
    admin, eve = fleet.anna, fleet.bob
    if inviter == "another admin":
        admin = Device(str(Path(fleet.anna.path).parent), "dan", fleet.shelf)
        join(fleet.anna, admin, admin=True)
    fleet.anna.share("s1", eve, write=False)
    eve.accept()
    settle([fleet.anna, admin], 2)
    share = eve.vault()
    founding = share.founding()
    assert founding is not None
    if revoked:
        fleet.anna.revoke("s1", eve)
    admin.share("s1", fleet.gus)
    recipient = fleet.gus.keys.public.age
    for _ in range(files):
        made_up = [os.urandom(32) for _ in range(1_000)]
        wrapped = KeyWrap(
            vault=share.id, founding=entries.pack(founding), box=new_request_keys()[1], session="s1",
            secret=os.urandom(32),
            keys=[*(share.ring() if keys == "made up and real" else []), *made_up],
            entry=next(iter(share.membership.tips)),
        )  # fmt: skip
        name = wraps.new_name(recipient, share.box(), share.local.keys.identity)
        fleet.shelf.objects[name] = wraps.wrap(recipient, wrapped)
    fleet.gus.accept()
    settle([admin, fleet.anna, fleet.gus], 2)
    if admin is not fleet.anna:
        admin.close()
    assert fleet.gus.vault().memory.status().place == "member"
    fleet.gus.note("s1", "by gus")
    settle([fleet.gus, fleet.anna], 1)
    assert "by gus" in fleet.anna.notes("s1")


@pytest.mark.parametrize("earlier", [False, True])
def test_invited_person_is_admitted_among_many_requests(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    """Well-formed requests without an invitation, and one with Gus's own keys: each is read once.

    The name of an earlier version's request shows no invitation: it is answered after the others were read.
    """
    monkeypatch.setattr(join_vault, "_MAX_READ", 10)
    fleet.anna.share("s1", fleet.gus)
    (offer,) = vault_shares.offers(fleet.shelf, [fleet.gus.keys.identity])
    share = vault_shares.find_share(fleet.anna.vault(), "s1")
    assert share is not None
    for keys in [fleet.gus.keys, *(DeviceKeys.generate() for _ in range(40))]:
        its = keys.public
        letter = join_vault._RequestDocument(
            vault=share.id, signing=its.signing, age=its.age, name="x", at=1, possession=keys.possession
        )
        name = f"h/join-{os.urandom(16).hex()}"
        fleet.shelf.objects[name] = age.encrypt(share.membership.box, msgspec.json.encode(letter))
    before = set(fleet.shelf.objects)
    fleet.gus.vault_id = vault_shares.accept(fleet.gus.local(), fleet.shelf, offer).id
    if earlier:
        (request,) = (name for name in fleet.shelf.objects if name not in before)
        fleet.shelf.objects[f"h/join-{os.urandom(16).hex()}"] = fleet.shelf.objects.pop(request)
    for _ in range(5 if earlier else 1):
        fleet.anna.sync()
    fleet.gus.sync()
    assert _has_joined(fleet.gus)
    settle([fleet.anna], 4)
    fleet.shelf.asked.clear()
    report = fleet.anna.sync()
    assert "a request to join proves no invitation" in {refused.reason for refused in report.rejected}
    share = vault_shares.find_share(fleet.anna.vault(), "s1")
    assert share is not None
    uninvited = share.memory.read(dict[str, set[str]], "uninvited") or {}
    assert [len(names) >= 40 for names in uninvited.values()] == [True]


# ── cost of keys and shares ──────────────────────────────────────────────────────────────────────────────


def test_keys_named_by_no_entry_are_not_kept_with_one_that_is(fleet: Fleet) -> None:
    share = fleet.invite_gus()
    recipient = fleet.anna.keys.public.age
    founding = share.founding()
    assert founding is not None
    made_up = [os.urandom(32) for _ in range(2_000)]
    for count in range(3):
        keys = [share.ring()[0], *(made_up if count else made_up[:100])]
        blob = wraps.wrap(
            recipient, KeyWrap(vault=share.id, founding=entries.pack(founding), keys=keys, session="s1")
        )
        fleet.shelf.objects[f"{wraps.prefix_of(recipient)}{count:016x}"] = blob
    anna = vault_shares.find_share(fleet.anna.vault(), "s1")
    assert anna is not None
    before = len(anna.candidates())
    anna.ask_for_wraps()
    assert len(anna.candidates()) <= before + 100
    assert "a wrap holds more keys than a vault has" in {refused.reason for refused in anna.report.rejected}
    fleet.shelf.asked.clear()
    again = Vault(anna.local, anna.remote, anna.id, main=anna.main)
    again.ask_for_wraps()
    assert [name for what, name in fleet.shelf.asked if what == "get"] == []


def _announce(device: Device, number: int, session: str) -> None:
    """Shares that a device claims to have started."""
    main = device.vault()
    change = main.change()
    for count in range(number):
        named = session.format(count)
        founded = entries.sign(
            device.keys,
            VaultFounded(
                vault="", parents=(), by=main.me, at=1, device=device.keys.public, nonce=os.urandom(16),
                box=new_request_keys()[0], session=named,
            ),
        )  # fmt: skip
        share = entries.hash_of(founded.payload)
        change.add(ShareEntry, share=share, founding=entries.pack(founded), session=named)
    change.commit()
    device.sync()


@pytest.mark.parametrize("session", ["made-up-{}", "s9"])
def test_many_shares_of_a_plain_device_are_ignored(fleet: Fleet, session: str) -> None:
    """None for a session it did not start, and few for one that it started."""
    fleet.ben.start("s9")
    _announce(fleet.ben, 30, session)
    fleet.anna.sync()
    main = fleet.anna.vault()
    assert len(main.membership.shares) == 30
    assert len(vault_shares.followed_shares(main)) <= 4
    known = {share.vault for share in main.membership.shares}
    remembered = {name.split("/")[1] for name in fleet.anna.store.remembered_under("vault/")}
    assert len(remembered & known) <= 4


def test_unauthorized_share_does_not_replace_another(fleet: Fleet) -> None:
    """Ben claims to have shared Anna's session; her own share works, and Gus can read it."""
    _announce(fleet.ben, 1, "s1")
    fleet.anna.sync()
    fleet.anna.share("s1", fleet.gus)
    small = vault_shares.find_share(fleet.anna.vault(), "s1")
    assert small is not None
    assert small.membership.founder == fleet.anna.keys.public.id
    fleet.gus.accept()
    assert fleet.gus.state("s1") is not None


# ── decompressed sizes ───────────────────────────────────────────────────────────────────────────────────


def _publish_entries(share: Vault, payloads: list[bytes]) -> list[str]:
    """Publish entries of any kind and size, and a head based on them."""
    key = share.sealing_key()
    assert key is not None
    made = [SignedEntry(payload, share.local.keys.sign(ENTRY, payload)) for payload in payloads]
    share.remote.put([share.sealed_entry(key, item) for item in made])
    hashes = [entries.hash_of(item.payload) for item in made]
    _publish_head_on(share, hashes)
    return hashes


def _publish_head_on(vault: Vault, hashes: Iterable[str]) -> None:
    """Publish a head based on these entries."""
    push = Publisher(vault, read_listing(vault.remote.list("h/"), vault.tag))
    push.settle()
    push.tips = lambda: tuple(sorted(hashes))  # type: ignore[method-assign]
    push._push_once(Batch([], push.own.place, frozenset(), push.own.erasures, more=False), [], frozenset())


@pytest.mark.parametrize("first", ["f", "0"])
def test_removal_arrives_when_the_device_named_missing_entries(fleet: Fleet, first: str) -> None:
    """As many as a head can name, before its removal: the others learn of it, and write with the new key."""
    _publish_head_on(fleet.cleo.vault(), [f"{first * 60}{number:04x}" for number in range(1000)])
    fleet.ben.sync()
    removal.remove(fleet.anna.vault(), [fleet.cleo.keys.public.id]).commit()
    fleet.anna.note("s1", "not for cleo")
    fleet.anna.sync()
    report = fleet.ben.sync()
    assert not _is_member(fleet.ben, fleet.cleo)
    assert "not for cleo" in fleet.ben.notes("s1")
    assert len(report.rejected) < 10
    fleet.ben.note("s1", "from ben")
    settle([fleet.ben, fleet.cleo], 1)
    assert "from ben" not in fleet.cleo.notes("s1")


def test_revocation_arrives_when_the_guest_named_missing_entries(fleet: Fleet) -> None:
    _publish_head_on(fleet.invite_gus(), [f"{'f' * 60}{number:04x}" for number in range(1000)])
    fleet.ben.sync()
    fleet.anna.revoke("s1", fleet.gus)
    fleet.anna.note("s1", "not for gus")
    fleet.anna.sync()
    fleet.ben.sync()
    assert "not for gus" in fleet.ben.notes("s1")
    fleet.ben.note("s1", "from ben")
    settle([fleet.ben, fleet.gus], 1)
    assert "from ben" not in fleet.gus.notes("s1")


def _publish_rename(vault: Vault, parents: Iterable[str]) -> str:
    """Publish a new name of the device's own; return the entry's hash."""
    fields = {
        "kind": "rename", "vault": vault.id, "parents": sorted(parents), "by": vault.me, "at": 1,
        "device": vault.me, "name": "renamed",
    }  # fmt: skip
    return _publish_entries(vault, [msgspec.msgpack.encode(fields)])[0]


def _invented_hashes(number: int) -> list[str]:
    return [os.urandom(32).hex() for _ in range(number)]


def test_removal_arrives_when_its_ancestors_return_among_invented_hashes(fleet: Fleet) -> None:
    """Cleo's entry was missing before Ben saw it; until it returns he sends nothing under the key she has."""
    cleo = fleet.cleo.vault()
    _publish_rename(cleo, [*cleo.membership.tips, *_invented_hashes(7_000)])
    settle([fleet.ben, fleet.anna], 1)
    followed = _publish_rename(cleo, cleo.membership.tips)
    fleet.anna.sync()
    assert followed in fleet.anna.vault().known
    fleet.shelf.objects.pop(cleo.entry_name(followed))
    removal.remove(fleet.anna.vault(), [fleet.cleo.keys.public.id]).commit()
    fleet.anna.sync()
    fleet.ben.sync()
    fleet.ben.note("s1", "before")
    report = fleet.ben.sync()
    assert any("An admin removed a device" in note for note in report.notes)
    fleet.anna.sync(put_back=True)
    fleet.ben.note("s1", "after")
    settle([fleet.ben, fleet.cleo, fleet.anna], 1)
    assert not _is_member(fleet.ben, fleet.cleo)
    assert not {"before", "after"} & set(fleet.cleo.notes("s1"))
    assert {"before", "after"} <= set(fleet.anna.notes("s1"))


def test_revocation_arrives_when_its_ancestors_return_among_invented_hashes(fleet: Fleet) -> None:
    """Like a removal, but in the share: Gus's entry was missing before Ben saw it."""
    gus = fleet.invite_gus()
    _publish_rename(gus, [*gus.membership.tips, *_invented_hashes(7_000)])
    settle([fleet.ben, fleet.anna], 1)
    followed = _publish_rename(gus, gus.membership.tips)
    fleet.anna.sync()
    fleet.shelf.objects.pop(gus.entry_name(followed))
    fleet.anna.revoke("s1", fleet.gus)
    fleet.ben.sync()
    fleet.ben.note("s1", "before")
    fleet.ben.sync()
    fleet.anna.sync(put_back=True)
    fleet.ben.note("s1", "after")
    settle([fleet.ben, fleet.gus, fleet.anna], 1)
    assert not {"before", "after"} & set(fleet.gus.notes("s1"))
    assert {"before", "after"} <= set(fleet.anna.notes("s1"))


def test_entry_with_invented_parents_and_a_wrong_signature_is_ignored(fleet: Fleet) -> None:
    cleo = fleet.cleo.vault()
    good = _publish_rename(cleo, [*cleo.membership.tips, *_invented_hashes(2_001)])
    fields = {
        "kind": "rename", "vault": cleo.id, "parents": sorted(_invented_hashes(2_001)), "by": cleo.me, "at": 1,
        "device": cleo.me, "name": "renamed",
    }  # fmt: skip
    wrong = SignedEntry(msgspec.msgpack.encode(fields), bytes(64))
    key = cleo.sealing_key()
    assert key is not None
    cleo.remote.put([cleo.sealed_entry(key, wrong)])
    _publish_head_on(cleo, [good, entries.hash_of(wrong.payload)])
    fleet.anna.note("s1", "after")
    settle([fleet.anna, fleet.ben], 1)
    assert "after" in fleet.ben.notes("s1")
    assert fleet.ben.vault().membership.waiting == ()


@pytest.mark.parametrize("kept", [False, True])
def test_idle_sync_costs_few_requests_when_entries_name_missing_parents(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Even where the naming entry is stored: the listing shows which parents are missing."""
    if kept:
        monkeypatch.setattr(ancestry, "_MAX_MISSING", 100_000)
    cleo = fleet.cleo.vault()
    for _ in range(3):
        _publish_rename(cleo, [*cleo.membership.tips, *_invented_hashes(2_001)])
    settle([fleet.ben], 2)
    assert bool(fleet.ben.vault().membership.missing) == kept
    fleet.shelf.asked.clear()
    report = fleet.ben.sync()
    assert len(fleet.shelf.asked) < 12
    assert len(report.rejected) < 10


def _padded(share: Vault, kind: str, size: int, *parents: str) -> bytes:
    fields = {
        "kind": kind, "vault": share.id, "parents": sorted(parents or share.membership.tips), "by": share.me, "at": 1,
        "device": share.me, "cut": {}, "pad": bytes(size),
    }  # fmt: skip
    return msgspec.msgpack.encode(fields)


def test_entry_is_rejected_when_it_decompresses_beyond_its_limit(fleet: Fleet) -> None:
    """Some hundred bytes, of each kind: nothing is stored, it is reported, and the rest syncs."""
    share = fleet.invite_gus()
    share.ask_for_wraps()
    sizes = [(kind, size) for kind in ("later", "remove", "restore") for size in (100 << 10, 1 << 20, 7 << 20)]
    bombs = _publish_entries(share, [_padded(share, kind, size) for kind, size in sizes])
    fleet.anna.note("s1", "after")
    report = fleet.anna.sync()
    too_large = [refused for refused in report.rejected if refused.reason == "a membership entry is too large"]
    assert {refused.pack for refused in too_large} == {share.entry_name(bomb) for bomb in bombs}
    anna = vault_shares.find_share(fleet.anna.vault(), "s1")
    assert anna is not None
    assert not anna.known.keys() & set(bombs)
    assert len(fleet.anna.files()) < 8 << 20
    fleet.ben.sync()
    assert "after" in fleet.ben.notes("s1")


def test_largest_removal_is_read(fleet: Fleet) -> None:
    """A removal with as many streams as it may name, each of its own writer, stays within the readers' limits."""
    main = fleet.anna.vault()
    cut = {os.urandom(18).hex(): {f"{count:08x}-14db-4b25-abfc-92804c8ac913": 7} for count in range(40_000)}
    entry = entries.Remove(
        vault=main.id, parents=tuple(sorted(main.membership.tips)), by=main.me, at=1, device="0" * 32, cut=cut
    )
    signed = entries.sign(fleet.anna.keys, entry)
    key = main.sealing_key()
    assert key is not None
    name, sealed = main.sealed_entry(key, signed)
    assert entries.unpack(main.open("entry", name, sealed, main.candidates)) == signed
    assert entries.read(signed.payload) == entry


def test_entries_over_a_devices_limit_are_ignored(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reported once, the rest is not fetched again, and a removal of the device counts for everybody."""
    monkeypatch.setattr(ancestry, "_MAX_OF_DEVICE", 20_000)
    ben = fleet.ben.vault()
    entries_made = _publish_entries(ben, [_padded(ben, f"later{count}", 2_000) for count in range(60)])
    report = fleet.anna.sync()
    reasons = [refused for refused in report.rejected if "it made more membership entries" in refused.reason]
    assert [reason.device for reason in reasons] == ["ben"]
    kept = fleet.anna.vault().known.keys() & set(entries_made)
    assert sum(len(fleet.anna.vault().known[name].payload) for name in kept) <= 20_000
    assert kept
    fleet.shelf.asked.clear()
    assert fleet.anna.sync().rejected == []
    names = {ben.entry_name(name) for name in entries_made}
    assert not names & {name for what, name in fleet.shelf.asked if what == "get"}
    fleet.anna.remove(fleet.ben)
    fleet.cleo.sync()
    assert not _is_member(fleet.cleo, fleet.ben)
    join(fleet.anna, fleet.bob)
    assert _has_joined(fleet.bob)
    assert not _is_member(fleet.bob, fleet.ben)


def test_ancestor_of_an_admins_entry_is_kept(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleo reads it late, when it would be over the limit without the admin's entry that follows it."""
    ben = fleet.ben.vault()
    first = _padded(ben, "later", 3_000)
    _publish_entries(ben, [first])
    fleet.anna.sync()
    own = entries.hash_of(first)
    assert own in fleet.anna.vault().known
    fleet.anna.remove(fleet.ben)
    monkeypatch.setattr(ancestry, "_MAX_OF_DEVICE", 1_000)
    fleet.cleo.sync()
    assert own in fleet.cleo.vault().known
    assert not _is_member(fleet.cleo, fleet.ben)


def test_guests_pack_is_rejected_when_it_decompresses_beyond_its_limit(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "_MIN_UNPACKED_LIMIT", 1 << 20)
    share = fleet.invite_gus()
    share.ask_for_wraps()
    event = make_event(
        session="s1", writer=fleet.gus.writer, seq=1, prev=None, clock=9, at=fleet.gus.time, actor="gus",
        type="note.added", version=1, data=b'{"text":"' + b"a " * (1 << 20) + b'"}', salt=bytes(16),
    )  # fmt: skip
    push = Publisher(share, read_listing(fleet.shelf.list("h/"), share.tag))
    push.settle()
    batch = Batch(sign_stretches(share, [event]), push.own.place, frozenset(), push.own.erasures, more=False)
    push._push_once(batch, [], frozenset())
    fleet.anna.note("s1", "after")
    report = fleet.anna.sync()
    assert "a pack is too large" in {refused.reason for refused in report.rejected}
    fleet.ben.sync()
    assert "after" in fleet.ben.notes("s1")


def test_head_is_rejected_when_it_decompresses_beyond_its_limit(fleet: Fleet) -> None:
    main = fleet.ben.vault()
    key = main.sealing_key()
    assert key is not None
    name = heads.name_of(main.id, fleet.ben.writer, 50)
    fleet.shelf.objects[name] = sealing.seal(key, "head", main.id, name, bytes(heads.MAX_PLAIN_BYTES + 1))
    report = fleet.anna.sync()
    assert "a head is too large" in {refused.reason for refused in report.rejected}


def test_large_event_gets_its_own_push(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together with small ones the push could exceed what others read at once."""
    monkeypatch.setattr(outbox, "MAX_BYTES", 10_000)
    fleet.anna.record("s1", NoteAdded(text="small"), NoteAdded(text="x" * 9_900), NoteAdded(text="after"))
    main = fleet.anna.vault()
    batches = outbox.Outbox(main)
    own = main.memory.own(fleet.anna.writer)
    sizes = []
    while True:
        batch = batches.next(own, events=True)
        sizes.append([len(event.data or b"") for stretch in batch.stretches for event in stretch.events])
        own = msgspec.structs.replace(own, place=batch.place)
        if not batch.more:
            break
    assert all(sum(some) < 10_000 or len(some) == 1 for some in sizes)
    assert sum(map(len, sizes)) == 3
    sync_vault(main)
    fleet.ben.sync()
    assert fleet.ben.notes("s1") == ["small", "x" * 9_900, "after"]
