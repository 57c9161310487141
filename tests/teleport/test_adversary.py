"""A remote that reads, changes, swaps, replays, withholds and lies: noticed, said, and good data keeps flowing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from fleet import Device, Shelf, join, settle
from hostile import Endless, Insider, Three, Window, reasons, turned

from holdfast.core.errors import HoldfastError
from holdfast.core.vocabulary import Project, SessionStarted
from holdfast.teleport import age, founding, joining, sealing, sharing, syncing
from holdfast.teleport.entries import founding_document
from holdfast.teleport.keys import DeviceKeys
from holdfast.teleport.remotes.interface import Found
from holdfast.teleport.remotes.limited import Limited, OverLimit

CANARY = "canaryQ7"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    yield made
    made.close()


def fresh(three: Three, tmp_path: Path, name: str = "dora") -> Device:
    """A device that asked to be let in, and was."""
    device = Device(str(tmp_path), name, three.shelf)
    device.ask()
    three.anna.approve(device)
    return device


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────


def planted_everywhere(tmp_path: Path) -> tuple[Shelf, Device]:
    """A vault in which every text that a person or an agent can give holds the canary."""
    shelf = Shelf()
    anna, ben = Device(str(tmp_path), f"anna-{CANARY}", shelf), Device(str(tmp_path), f"ben-{CANARY}", shelf)
    guest = Device(str(tmp_path), f"gus-{CANARY}", shelf)
    anna.found()
    join(anna, ben)
    project = Project(
        id=f"p-{CANARY}", name=f"project {CANARY}", path=f"/home/{CANARY}/work", remote=f"git@host:{CANARY}.git",
        git_branch=f"feature/{CANARY}",
    )  # fmt: skip
    session = f"session-{CANARY}"
    anna.record(session, SessionStarted(goal=f"goal {CANARY}", project=project, device=anna.name))
    anna.note(session, f"note {CANARY}")
    settle([anna, ben])
    main = anna.vault()
    share = sharing.begin(main, session)
    sharing.invite(share, f"{CANARY}@example.org", [guest.keys.public.age], write=True, expires=None)
    anna.sync()
    [offer] = sharing.offers(shelf, [guest.keys.identity])
    guest.vault_id = sharing.accept(guest.here(), shelf, offer).id
    settle([guest, anna, ben, guest])
    guest.note(session, f"guest {CANARY}")
    settle([guest, anna, ben])
    assert any(CANARY in words for words in ben.notes(session))
    return shelf, anna


def test_nothing_that_was_written_can_be_read_at_the_remote(tmp_path: Path) -> None:
    """A canary in every text is nowhere in the raw bytes of any object, nor in any name."""
    shelf, _ = planted_everywhere(tmp_path)
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


def test_what_a_remote_sees_is_this_and_no_more(tmp_path: Path) -> None:
    """Names and beginnings of all objects have one of six known forms; a new form must be thought about first."""
    shelf, _ = planted_everywhere(tmp_path)
    late = Device(str(tmp_path), "late", shelf)
    late.ask()
    seen = set()
    for name, data in shelf.objects.items():
        [form] = [form for form in VISIBLE if re.fullmatch(form, name)]
        assert re.match(VISIBLE[form], data), name
        seen.add(form)
    assert seen == set(VISIBLE)


def test_the_public_object_names_nobody(tmp_path: Path) -> None:
    """The founding entry, the one thing everybody can read, holds keys, a time and a random number only."""
    shelf, anna = planted_everywhere(tmp_path)
    signed = founding.existing(shelf)
    assert signed is not None
    read = msgspec.msgpack.decode(signed.payload)
    assert set(read) == {"kind", "vault", "parents", "by", "at", "device", "nonce", "box", "session"}
    assert set(read["device"]) == {"signing", "age"}
    assert (read["session"], read["vault"], read["parents"]) == (None, "", [])


# ── changing bytes ───────────────────────────────────────────────────────────────────────────────────────────


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "flip the first": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "flip the version": lambda data: data[:3] + bytes([data[3] ^ 3]) + data[4:],
    "flip the salt": lambda data: data[:10] + bytes([data[10] ^ 128]) + data[11:],
    "flip the hint": lambda data: data[:38] + bytes([data[38] ^ 1]) + data[39:],
    "flip the middle": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    ),
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
def test_a_changed_object_is_turned_away_and_good_data_flows(three: Three, kind: str, change: str) -> None:
    """Whatever is done to the bytes of a head or a pack, it is left out, reported, and nothing is lost."""
    before = set(three.shelf.objects)
    three.note(three.anna, "in a changed object")
    three.note(three.ben, "beside it")
    three.anna.sync()
    [name] = [one for one in set(three.shelf.objects) - before if one.startswith(kind[0])]
    three.ben.sync()
    window = three.windows["cleo"]
    window.instead[name] = CHANGES[change](three.shelf.objects[name])
    report = three.cleo.sync()
    assert any(one.pack == name and one.device == "anna" and kind in one.reason for one in report.rejected)
    assert kind in turned(three.cleo)
    assert "beside it" in three.cleo.notes("s1")
    assert "in a changed object" not in three.cleo.notes("s1")
    three.open_all()
    assert three.cleo.sync().rejected == []
    assert turned(three.cleo) == ""
    three.flows()


@pytest.mark.parametrize("change", ["flip the middle", "cut in half", "empty", "double", "other bytes"])
def test_a_pack_changed_for_good_is_packed_again_by_its_author(three: Three, change: str) -> None:
    """Who cannot read a pack asks for it, and its author, who has the events, publishes them anew."""
    before = set(three.shelf.objects)
    three.note(three.anna, "in a changed pack")
    three.anna.sync()
    [name] = [one for one in set(three.shelf.objects) - before if one.startswith("p/")]
    three.shelf.objects[name] = CHANGES[change](three.shelf.objects[name])
    assert "pack" in reasons(three.cleo.sync())
    settle(three.everybody, 4)
    three.hold()
    assert three.cleo.sync().rejected == []


@pytest.mark.parametrize("change", ["flip the middle", "cut in half", "empty", "older version"])
@pytest.mark.parametrize("kind", ["k", "m"])
def test_changed_keys_and_entries_let_nobody_in_wrongly(three: Three, tmp_path: Path, kind: str, change: str) -> None:
    """A newcomer whose key or whose entries were changed waits; once they are right, it has everything."""
    dora = fresh(three, tmp_path)
    mine = f"k/{sealing.recipient_tag(dora.keys.public.age)}-" if kind == "k" else "m/"
    right = {name: data for name, data in three.shelf.objects.items() if name.startswith(mine)}
    three.shelf.objects |= {name: CHANGES[change](data) for name, data in right.items()}
    dora.sync()
    assert dora.notes("s1") == []
    assert not dora.vault().membership.is_member(dora.keys.public.id)
    three.flows()
    for name in right:
        del three.shelf.objects[name]
    # Put there anew, as a device of the vault does it that finds the remote without them.
    renamed = {name: name[:-16] + os.urandom(8).hex() if kind == "k" else name for name in right}
    three.shelf.objects |= {renamed[name]: data for name, data in right.items()}
    settle([dora], 2)
    assert sorted(dora.notes("s1")) == sorted(three.written)
    dora.close()


# ── swapping, replaying, rolling back ────────────────────────────────────────────────────────────────────────


def test_swapped_between_names_nothing_opens(three: Three) -> None:
    """Heads and packs exchanged between devices are turned away: each is sealed to its own place."""
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
    three.open_all()
    three.flows()


def test_objects_of_another_vault_do_not_open(three: Three, tmp_path: Path) -> None:
    """A head and packs of a second vault, put under the names of the first, say nothing there."""
    other = Three(str(tmp_path / "other") if (tmp_path / "other").mkdir() is None else "")
    for kind in ("h/", "p/", "m/"):
        for mine, theirs in zip(three.names(kind), other.names(kind), strict=False):
            if not mine.startswith("h/join"):
                three.windows["cleo"].instead[mine] = other.shelf.objects[theirs]
    three.note(three.anna, "new")
    three.anna.sync()
    newest = three.head_of(three.anna)
    three.windows["cleo"].instead[newest] = other.shelf.objects[other.head_of(other.anna)]
    assert "a head" in reasons(three.cleo.sync())
    three.open_all()
    three.flows()
    other.close()


def test_objects_of_a_shared_session_mean_nothing_in_the_vault(three: Three) -> None:
    """Between the vault and a session shared from it, heads and packs cannot be exchanged either."""
    share = sharing.begin(three.anna.vault(), "s1")
    guest = DeviceKeys.generate()
    sharing.invite(share, "gus@example.org", [guest.public.age], write=False, expires=None)
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
    three.open_all()
    three.flows()


def test_an_old_head_under_a_new_name_is_turned_away(three: Three) -> None:
    """A replayed head does not become newer by being called so, and does not stand before the real one."""
    old = three.shelf.objects[three.head_of(three.anna)]
    tag = three.head_of(three.anna)[:-12]
    three.note(three.anna, "newer")
    three.anna.sync()
    three.shelf.objects[f"{tag}{900_000:012}"] = old
    report = three.cleo.sync()
    assert "a head" in reasons(report)
    assert "newer" in three.cleo.notes("s1")
    three.flows()


def test_garbage_before_the_newest_head_hides_nothing(three: Three) -> None:
    """Names planted above a device's real head cost a look each; the real one is still found and read."""
    tag = three.head_of(three.anna)[:-12]
    three.note(three.anna, "below garbage")
    three.anna.sync()
    for counter in (800_000, 999_999_999_999, 900_000):
        three.shelf.objects[f"{tag}{counter:012}"] = b"HFS1" + os.urandom(200)
    assert "a head" in reasons(three.cleo.sync())
    assert "below garbage" in three.cleo.notes("s1")
    three.flows()


def test_garbage_under_our_own_name_makes_us_nobody_else(three: Three) -> None:
    """Bytes that are none of ours under our own life are said, and do not drive a device from one life to the next."""
    writer = three.anna.writer
    tag = three.head_of(three.anna)[:-12]
    for number in range(5):
        three.shelf.objects[f"{tag}{800_000 + number:012}"] = b"garbage"
        three.note(three.anna, f"under attack {number}")
        assert "this device" in reasons(three.anna.sync())
    assert three.anna.writer == writer
    settle(three.everybody)
    three.hold()
    three.flows()


def test_an_older_head_is_noticed(three: Three) -> None:
    """The head of before, shown again in place of the newest, is said to be older."""
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
        assert any("older" in one.reason and one.device == "anna" for one in report.rejected)
        assert "older" in turned(three.cleo)
    three.open_all()
    assert three.cleo.sync().rejected == []
    three.flows()


def test_old_packs_and_entries_shown_again_change_nothing(three: Three) -> None:
    """Every object there ever was, put back: nothing comes twice, nothing comes back."""
    ever = dict(three.shelf.objects)
    for number in range(20):
        three.note(three.anna, f"more {number}")
        three.anna.sync()
        ever |= three.shelf.objects
    settle(three.everybody)
    three.shelf.objects = ever | three.shelf.objects
    settle(three.everybody)
    three.hold()
    three.flows()


def test_a_remote_rolled_back_is_noticed_and_made_good(three: Three) -> None:
    """Everything as it was some time ago: all devices say so, and between them put back what was lost."""
    old = dict(three.shelf.objects)
    for device in three.everybody:
        three.note(device, f"after the copy, {device.name}")
    settle(three.everybody)
    three.shelf.objects = dict(old)
    said = [reasons(device.sync()) for device in three.everybody]
    assert "older" in said[0]
    assert "no longer shows" in said[0]
    settle(three.everybody)
    three.hold()
    three.flows()


def test_an_emptied_remote_is_filled_again(three: Three, tmp_path: Path) -> None:
    """Even with nothing left, the devices put everything back that a newcomer needs."""
    three.shelf.objects.clear()
    assert "no longer shows" in reasons(three.anna.sync())
    settle(three.everybody)
    three.flows()
    dora = fresh(three, tmp_path)
    settle([dora, *three.everybody, dora])
    assert sorted(dora.notes("s1")) == sorted(three.written)
    dora.close()


# ── withholding ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_head_hidden_is_noticed_by_what_others_saw(three: Three) -> None:
    """Ben has seen what Anna wrote and says so: that Cleo is not shown it is noticed, and stays said until it is."""
    shown = three.head_of(three.anna)
    data = three.shelf.objects[shown]
    three.note(three.anna, "hidden from Cleo")
    three.anna.sync()
    three.note(three.ben, "by ben, who saw it")
    three.ben.sync()
    newest = three.head_of(three.anna)
    three.windows["cleo"].hidden = lambda one: one == newest
    three.shelf.objects[shown] = data
    for _ in range(3):
        report = three.cleo.sync()
        assert any(one.device == "anna" and "not shown" in one.reason for one in report.rejected)
        assert "not shown" in turned(three.cleo)
    assert "by ben, who saw it" in three.cleo.notes("s1")
    three.open_all()
    three.cleo.sync()
    assert three.cleo.sync().rejected == []
    three.flows()


def test_a_device_hidden_wholly_is_noticed(three: Three) -> None:
    """A device whose heads are gone is missed by everybody who has heard of it."""
    tag = three.head_of(three.anna)[:-12]
    three.windows["cleo"].hidden = lambda one: one.startswith(tag)
    for _ in range(2):
        report = three.cleo.sync()
        assert any(one.device == "anna" and "not shown" in one.reason for one in report.rejected)
    three.open_all()
    assert three.cleo.sync().rejected == []
    three.flows()


def test_a_device_never_shown_is_noticed_by_what_others_saw(three: Three, tmp_path: Path) -> None:
    """A newcomer that is never shown one device learns of it by the words of the others."""
    dora = Device(str(tmp_path), "dora", window := Window(three.shelf))
    dora.ask()
    three.anna.approve(dora)
    settle(three.everybody)
    tag = three.head_of(three.ben)[:-12]
    window.hidden = lambda one: one.startswith(tag)
    for _ in range(3):
        assert "not shown" in reasons(dora.sync())
    window.hidden = lambda _: False
    dora.sync()
    assert dora.sync().rejected == []
    assert sorted(dora.notes("s1")) == sorted(three.written)
    dora.close()


def test_a_fork_is_noticed_when_its_sides_meet(three: Three) -> None:
    """Anna and Cleo are each shown a world without the other; the first word that crosses shows it."""
    anna, cleo = three.head_of(three.anna)[:-12], three.head_of(three.cleo)[:-12]
    frozen = {name: data for name, data in three.shelf.objects.items() if name.startswith((anna, cleo))}
    for name, tag in (("anna", cleo), ("cleo", anna)):
        three.windows[name].hidden = lambda one, tag=tag: one.startswith(tag) and one not in frozen
        three.windows[name].listed = [Found(one, len(data)) for one, data in frozen.items() if one.startswith(tag)]
    for number in range(3):
        for device in (three.anna, three.cleo):
            three.note(device, f"{device.name} apart {number}")
            device.sync()
    three.note(three.ben, "between them")
    three.ben.sync()
    assert "not shown" in reasons(three.anna.sync())
    assert "not shown" in reasons(three.cleo.sync())
    three.open_all()
    settle(three.everybody)
    three.hold()
    assert all(device.sync().rejected == [] for device in three.everybody)


# ── lying about what is there ────────────────────────────────────────────────────────────────────────────────


def test_listings_may_say_anything(three: Three) -> None:
    """Names that are not there, foreign ones, wrong sizes, duplicates and any order: nothing breaks, nothing is lost."""
    tag = three.head_of(three.anna)[:-12]
    foreign = [
        "h/", "h/../../etc/passwd", "h/%2e%2e", "h/join-", "h/join-../x", "h/" + "a" * 5000, "h/\0", "h/ö", "h/\n",
        f"{tag}abc", f"{tag}-1", tag.upper() + "000000000001", "h/0000000000000000.00000000000000000000-000000000001",
        "m/../vault", "k/../vault", "p/../../x", "../h/x",
    ]  # fmt: skip
    for window in three.windows.values():
        window.listed = [Found(name, -1) for name in foreign]
        window.listed += [Found(name, 1 << 62) for name in three.names("h/")] * 3
        window.listed += [Found(f"{tag}{77:012}", 5)]
    report = three.cleo.sync()
    assert any("is not there" in one.reason for one in report.rejected)
    three.flows()


def test_very_long_listings_are_refused_in_words(three: Three) -> None:
    """A million names are more than any vault has: the sync stops with a sentence, and the next one is not harmed."""
    window = three.windows["cleo"]
    window.listed = [Found(f"h/{number:016x}.00000000000000000000-000000000001", 1) for number in range(1_000_000)]
    with pytest.raises(OverLimit, match="lists more than"):
        syncing.sync(_limited(three.cleo))
    three.open_all()
    three.flows()


def test_thousands_of_garbage_heads_keep_nobody_from_the_good_ones(three: Three) -> None:
    """Heads of lives that nobody lives are looked at only so often; those of known devices come first."""
    vault = three.cleo.vault()
    for number in range(3_000):
        three.shelf.objects[f"h/{vault.tag}.{number:020x}-000000000001"] = b"HFS1" + bytes(100)
    three.note(three.anna, "among garbage")
    three.anna.sync()
    three.shelf.asked.clear()
    window = three.windows["cleo"]
    asked: list[str] = []
    inner = window.get
    window.get = lambda name, limit: (asked.append(name), inner(name, limit))[1]  # type: ignore[method-assign]
    report = three.cleo.sync()
    assert "among garbage" in three.cleo.notes("s1")
    assert len(report.rejected) <= 1_001
    assert len(asked) <= 1_200
    three.flows()


def test_endless_objects_are_not_read(three: Three) -> None:
    """An object that never ends is given up at its limit, whatever its kind."""
    three.note(three.anna, "meanwhile")
    three.anna.sync()
    window = three.cleo.remote
    three.cleo.remote = Endless(three.shelf)
    assert "a head" in reasons(three.cleo.sync())
    three.cleo.remote = window
    three.flows()


def test_one_sync_has_limits_and_the_next_goes_on(three: Three) -> None:
    """A remote wrapped in limits stops a sync at them; what was done stays done, and in the end all is there."""
    for number in range(12):
        three.note(three.anna, f"bit by bit {number}")
        three.anna.sync()
    vault = three.cleo.vault()
    vault.remote = Limited(three.cleo.remote, requests=6)
    with pytest.raises(OverLimit):
        syncing.sync(vault)
    came = len(three.cleo.notes("s1"))
    assert 3 < came < len(three.written)
    assert three.cleo.sync().rejected == []
    three.flows()


def _limited(device: Device):
    vault = device.vault()
    vault.remote = Limited(device.remote)
    return vault


# ── planting ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_vault_in_the_place_of_ours_is_ignored_by_members(three: Three, tmp_path: Path) -> None:
    """Who belongs to a vault pinned it: another founding entry at the remote changes nothing."""
    mallory = Device(str(tmp_path), "mallory", Shelf()).found()
    three.shelf.objects["vault"] = mallory.remote.get("vault", 1 << 20)
    three.flows()
    assert {device.vault_id for device in three.everybody} == {three.anna.vault_id}
    mallory.close()


def test_a_joiner_sees_by_its_words_that_a_vault_is_planted(three: Three, tmp_path: Path) -> None:
    """The vault's words differ, and until somebody lets it in the joiner sends nothing and reads nothing."""
    mallory = Device(str(tmp_path), "mallory", Shelf()).found()
    three.shelf.objects["vault"] = mallory.remote.get("vault", 1 << 20)
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.start("private", "secret goal")
    dora.ask()
    assert dora.vault_id != three.anna.vault_id
    assert dora.sync().pushed == 0
    dora.close()
    mallory.close()


@pytest.mark.parametrize(
    "blob", [b"", b"{}", b"\0" * 100, b'{"holdfast":0,"entry":"","signature":""}', b"x" * (1 << 20)]
)
def test_what_is_no_vault_is_said_to_be_none(tmp_path: Path, blob: bytes) -> None:
    """Anything else under the name of the vault is refused with a sentence."""
    shelf = Shelf()
    shelf.objects["vault"] = blob
    with pytest.raises(HoldfastError):
        founding.existing(shelf)


def test_a_founding_entry_with_an_exchanged_signature_is_refused(three: Three, tmp_path: Path) -> None:
    """The keys of one and the signature of another make no vault."""
    mallory = Device(str(tmp_path), "mallory", Shelf()).found()
    ours, theirs = founding.existing(three.shelf), founding.existing(mallory.remote)
    assert ours is not None
    assert theirs is not None
    for signature in (theirs.signature, bytes(64), b""):
        three.shelf.objects["vault"] = founding_document(ours._replace(signature=signature))
        with pytest.raises(HoldfastError):
            founding.existing(three.shelf)
    mallory.close()


def test_a_planted_key_is_never_used_and_is_reported(three: Three) -> None:
    """A key left by somebody outside opens nothing of ours, seals nothing of ours, and is said to be planted."""
    outsider = Insider(three.ben, three.shelf)  # knows the recipients; the vault's keys it does not use
    planted = sealing.new_key()
    box = age.identity(os.urandom(32))
    outsider.leave_key(three.cleo.keys.public.age, [planted], box=box)
    # A head sealed with it, under a name that makes cleo look for keys.
    name = f"h/{outsider.vault.tag}.{os.urandom(10).hex()}-000000000001"
    outsider.sealed("head", name, b"anything", key=planted)
    for _ in range(2):
        report = three.cleo.sync()
        assert any("no member of the vault has named" in one.reason for one in report.rejected)
    assert "no member" in turned(three.cleo)
    vault = three.cleo.vault()
    assert planted not in vault.ring()
    assert vault.sealing_key() != planted
    assert vault.box() != box
    del three.shelf.objects[name]
    three.flows()
    assert all(not opens(three.shelf, planted, vault.id, name) for name in three.names("p/") + three.names("h/"))


def opens(shelf: Shelf, key: bytes, vault: str, name: str) -> bool:
    """Whether a key opens an object, as whatever it is."""
    for kind in ("pack", "head", "entry"):
        try:
            sealing.unseal([key], kind, vault, name, shelf.objects[name], limit=1 << 30)
        except HoldfastError:
            continue
        return True
    return False


def test_planted_entries_under_a_planted_key_are_not_even_kept(three: Three, tmp_path: Path) -> None:
    """Somebody outside who leaves a key, a head and entries under it fills nobody's store with them."""
    from holdfast.teleport.entries import Rename

    outsider = Insider(three.ben, three.shelf)
    mallory = DeviceKeys.generate()
    planted = sealing.new_key()
    outsider.leave_key(three.cleo.keys.public.age, [planted])
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
    three.flows()


def test_thousands_of_planted_keys_hide_no_real_one(three: Three, tmp_path: Path) -> None:
    """Garbage under names that come first is passed over for good: in the end the right key is found."""
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


def test_planted_requests_let_nobody_in_and_hide_no_real_one(three: Three, tmp_path: Path) -> None:
    """Garbage, huge letters, letters for another vault: thousands of them before the real one, which is still found."""
    vault = three.anna.vault()
    box = vault.membership.box
    mallory = DeviceKeys.generate().public
    letter = {"holdfast": 1, "vault": vault.id, "signing": mallory.signing, "age": mallory.age, "name": "m", "at": 1}
    wrong = [
        letter | {"vault": "0" * 64}, letter | {"signing": b"short"}, letter | {"age": "age1nonsense"},
        letter | {"holdfast": 7}, letter | {"name": 5}, {}, [],
    ]  # fmt: skip
    for number, one in enumerate(wrong):
        three.shelf.objects[f"h/join-{number:032x}"] = age.encrypt(box, msgspec.json.encode(one))
    three.shelf.objects[f"h/join-{50:032x}"] = age.encrypt(box, b"x" * (1 << 20))
    for number in range(100, 4_000):
        three.shelf.objects[f"h/join-{number:032x}"] = b"age-encryption.org/v1\n"
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.ask()
    found = []
    for _ in range(3):
        vault = three.anna.vault()
        found = joining.requests(vault, three.names("h/join-"))
    assert [one.keys.id for one in found] == [dora.keys.public.id]
    three.anna.approve(dora)
    settle([dora, *three.everybody])
    three.flows()
    dora.close()


def test_names_in_requests_cannot_draw_on_a_screen(three: Three, tmp_path: Path) -> None:
    """What a stranger calls itself is shown to people: control characters are taken out of it."""
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.name = "\x1b[2J\x1b[Happrove me\r\n\u202e"
    dora.ask()
    [request] = joining.requests(three.anna.vault(), three.names("h/join-"))
    assert request.name.isprintable()
    dora.close()


def test_nothing_secret_is_in_what_is_said(three: Three) -> None:
    """Errors and reports name places and devices, never keys or content."""
    keys = [three.cleo.keys.identity, three.cleo.keys.seed.hex(), *(key.hex() for key in three.cleo.vault().ring())]
    three.note(three.anna, "a very private note")
    three.anna.sync()
    for name in three.names("h/") + three.names("p/"):
        three.shelf.objects[name] = three.shelf.objects[name][:-1] + b"!"
    report = three.cleo.sync()
    said = reasons(report) + "".join(report.notes) + "".join(one.pack for one in report.rejected)
    assert report.rejected
    assert not any(key in said for key in keys)
    assert "private note" not in said
