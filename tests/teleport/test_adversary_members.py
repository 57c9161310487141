"""An enrolled device that turned hostile, and one that was removed: what they may not do has no effect, and is said."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fleet import Device, settle
from hostile import Insider, Three, Window, reasons, turned

from holdfast.core.errors import HoldfastError
from holdfast.teleport import age, heads, joining, packs, removing, sealing, sharing
from holdfast.teleport.entries import Admit, Invite, NewKey, Remove, Rename, Restore, Share
from holdfast.teleport.heads import Indexed, Seen, Wanted
from holdfast.teleport.keys import DeviceKeys, certified_writer
from holdfast.teleport.packs import Stretch


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def insider(three: Three) -> Insider:
    return Insider(three.ben, three.shelf)


def others_hold(three: Three) -> None:
    """Anna and Cleo go on as if nothing was."""
    for device in (three.anna, three.cleo):
        three.note(device, f"later, by {device.name}")
    settle([three.anna, three.cleo])
    for device in (three.anna, three.cleo):
        assert sorted(device.notes("s1")) == sorted(three.written), device.name
        assert list(device.store.check()) == [], device.name


# ── speaking for others ──────────────────────────────────────────────────────────────────────────────────────


def test_events_in_another_device_s_stream_are_not_taken_in(three: Three, insider: Insider) -> None:
    """Ben signs words into the stream that is Anna's by its name: only what is Ben's own comes in."""
    head = three.ben.state("s1").heads[three.anna.writer]
    forged = insider.stretch("s1", three.anna.writer, ["forged"], first=head.seq + 1, prev=head.hash)
    new = insider.stretch("s1", certified_writer(DeviceKeys.generate().public.signing), ["forged too"])
    own = insider.stretch("s1", certified_writer(three.ben.keys.public.signing), ["ben's own"])
    insider.publish([forged, own, new])
    for device in (three.cleo, three.anna):
        report = device.sync()
        assert reasons(report).count("ben: a device speaks in it for another one") == 1
        assert "ben's own" in device.notes("s1")
        assert not any("forged" in one for one in device.notes("s1"))
    three.written.append("ben's own")
    others_hold(three)


def test_another_s_signature_is_not_borrowed(three: Three, insider: Insider) -> None:
    """Signatures that are missing, wrong, of another vault or of a shorter stream vouch for nothing."""
    writer = certified_writer(three.ben.keys.public.signing)
    good = insider.stretch("s1", writer, ["one"])
    longer = insider.stretch("s1", writer, ["one", "two"])
    elsewhere = insider.stretch("s1", certified_writer(three.ben.keys.public.signing), ["three"], vault="0" * 64)
    wrong = [
        good._replace(signature=b""),
        good._replace(signature=bytes(64)),
        longer._replace(signature=good.signature),
        good._replace(device=three.anna.keys.public.id),
        elsewhere,
    ]
    insider.publish(wrong)
    report = three.cleo.sync()
    assert "a signature in it is wrong" in reasons(report)
    others_hold(three)


def test_a_head_for_another_device_s_life_is_turned_away(three: Three, insider: Insider) -> None:
    """Ben writes a head under Anna's name, higher than hers: hers is the one that counts."""
    three.note(three.anna, "from anna herself")
    three.anna.sync()
    for device in (three.ben.keys.public.id, three.anna.keys.public.id):
        insider.head(writer=three.anna.writer, device=device, counter=700 + len(device), packs=())
    report = three.cleo.sync()
    assert "not signed by a device of the vault" in reasons(report)
    assert "from anna herself" in three.cleo.notes("s1")
    others_hold(three)


def test_a_head_without_its_signature_is_turned_away(three: Three, insider: Insider) -> None:
    """A head with no signature, or one by other keys, says nothing, though it is sealed with the right key."""
    insider.head(keys=DeviceKeys.generate())
    assert "not signed by a device of the vault" in reasons(three.cleo.sync())
    payload = msgspec.msgpack.encode({"v": 1})
    name = heads.name_of(insider.vault.id, three.ben.writer, insider.counter + 1)
    for inside in ((payload, b""), (payload,), payload, (b"", b""), None):
        insider.sealed("head", name, msgspec.msgpack.encode(inside))
        assert "a head cannot be read" in reasons(three.cleo.sync())
    others_hold(three)


# ── what only admins may say ─────────────────────────────────────────────────────────────────────────────────


def test_entries_that_a_device_may_not_write_have_no_effect(three: Three, insider: Insider) -> None:
    """Letting in, removing, restoring, renaming others, inviting people to the whole vault: said by Ben, it is nothing."""
    mallory = DeviceKeys.generate().public
    anna, cleo = three.anna.keys.public.id, three.cleo.keys.public.id
    tips = [
        insider.entry(Admit, device=mallory, name="mallory", admin=True, role="device"),
        insider.entry(Admit, device=three.ben.keys.public, name="ben", admin=True, role="device"),
        insider.entry(Admit, device=mallory, name="mallory", admin=False, role="guest"),
        insider.entry(Remove, device=cleo, cut={}),
        insider.entry(Remove, device=anna, cut={}),
        insider.entry(Restore, device=cleo, cut={}),
        insider.entry(Rename, device=anna, name="ben"),
        insider.entry(Invite, email="m@example.org", recipients=(mallory.age,), write=True, secret=bytes(32)),
        insider.entry(Share, share="0" * 64, founding=b"", session="s1"),
    ]
    insider.head(tips=tuple(sorted([*tips, *insider.vault.membership.tips])))
    before = three.cleo.vault().membership
    report = three.cleo.sync()
    after = three.cleo.vault().membership
    assert len([one for one in report.rejected if "does not count" in one.reason]) == len(tips)
    assert any(one.device == "ben" for one in report.rejected)
    assert "does not count" in turned(three.cleo)
    assert (after.members, after.removed, after.shares, after.invites) == (before.members, {}, (), ())
    others_hold(three)


def test_entries_in_the_name_of_others_are_nothing(three: Three, insider: Insider) -> None:
    """An entry by Anna that Ben signed, or by a device nobody has let in, does not count and is not kept."""
    mallory = DeviceKeys.generate()
    tips = [
        insider.entry(
            Admit, by=three.anna.keys.public.id, device=mallory.public, name="m", admin=True, role="device"
        ),
        insider.entry(Rename, keys=mallory, by=mallory.public.id, device=mallory.public.id, name="m"),
        insider.entry(Rename, vault="0" * 64, device=three.ben.keys.public.id, name="elsewhere"),
        insider.entry(Rename, parents=(), device=three.ben.keys.public.id, name="rootless"),
        insider.entry(Rename, parents=("0" * 64,), device=three.ben.keys.public.id, name="of nothing"),
    ]
    insider.head(tips=tuple(sorted(tips)))
    report = three.cleo.sync()
    assert reasons(report).count("does not count") >= 4
    assert not three.cleo.vault().membership.is_member(mallory.public.id)
    others_hold(three)


def test_a_key_that_only_its_maker_has_stops_nobody(three: Three, insider: Insider) -> None:
    """Ben names a key as the newest and gives it to nobody: the others make one of their own and go on."""
    key = sealing.new_key()
    recipients = tuple(sorted(insider.vault.membership.recipients()))
    insider.head(tips=(insider.entry(NewKey, id=sealing.key_id(key), recipients=recipients),))
    three.cleo.sync()
    others_hold(three)


# ── what a pack may hold ─────────────────────────────────────────────────────────────────────────────────────


def test_a_session_outside_a_share_does_not_come_in_through_it(three: Three, tmp_path: Path) -> None:
    """A guest given one session writes into that one only: another one in its pack is left out."""
    gus = Device(str(tmp_path), "gus", Window(three.shelf))
    share = sharing.begin(three.anna.vault(), "s1")
    sharing.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    three.anna.start("private")
    [offer] = sharing.offers(three.shelf, [gus.keys.identity])
    gus.vault_id = sharing.accept(gus.here(), gus.remote, offer).id
    settle([three.anna, gus, three.anna, gus])
    guest = Insider(gus, three.shelf)
    writer = certified_writer(gus.keys.public.signing)
    plain = os.urandom(10).hex()
    guest.publish(
        [guest.stretch("private", writer, ["intruding"]), guest.stretch("s1", writer, ["as a guest"]),
         guest.stretch("s1", plain, ["as somebody of old"])]
    )  # fmt: skip
    report = three.anna.sync()
    assert "it holds a session that is not shared here" in reasons(report)
    assert "speaks in it for another one" in reasons(report)
    assert three.anna.notes("private") == []
    three.written.append("as a guest")
    settle([three.anna, three.cleo])
    assert list(gus.store.sessions()) == ["s1"]
    others_hold(three)
    gus.close()


ODD_SESSIONS = [
    "a/b", "../x", "s1/" + "0" * 36, "s\n1", "s\0", "", " ", "ö", "x" * 101, "x" * 100_000, "-x", ".x", "s1\u202e",
]  # fmt: skip


@pytest.mark.parametrize("session", ODD_SESSIONS)
def test_odd_session_ids_do_not_come_in(three: Three, insider: Insider, session: str) -> None:
    """An id that could be mistaken for another name, or draw on a screen, is refused with the pack that holds it."""
    insider.publish([insider.stretch(session, certified_writer(three.ben.keys.public.signing), ["odd"])])
    assert "it is no pack, or holds what no pack can hold" in reasons(three.cleo.sync())
    assert list(three.cleo.store.sessions()) == ["s1"]
    others_hold(three)


@pytest.mark.parametrize(
    "writer", ["", "a/b", "../../x", "W" * 36, "0" * 35, "0" * 37, "ab\n" + "0" * 33, "x" * 9999]
)
def test_odd_writers_do_not_come_in(three: Three, insider: Insider, writer: str) -> None:
    """A writer is 20 or 36 hex digits, and nothing else."""
    insider.publish([insider.stretch("s1", writer, ["odd"])])
    assert "a pack cannot be read" in reasons(three.cleo.sync())
    others_hold(three)


def test_packs_that_are_none_or_of_another_version_are_turned_away(three: Three, insider: Insider) -> None:
    """Whatever a member seals as a pack: what is not exactly one is left out and said."""
    good = packs.pack([insider.stretch("s1", certified_writer(three.ben.keys.public.signing), ["x"])])
    version, stretches = msgspec.msgpack.decode(good)
    one = stretches[0]
    wrong = [
        b"", b"\xc1", b"\x92", os.urandom(200), b"\x91" * 5000, msgspec.msgpack.encode([0, stretches]),
        msgspec.msgpack.encode([-1, stretches]), msgspec.msgpack.encode([2, stretches]), good + b"\0",
        msgspec.msgpack.encode([version, [[*one[:2], 0, *one[3:]]]]),
        msgspec.msgpack.encode([version, [[*one[:2], 2**63, *one[3:]]]]),
        msgspec.msgpack.encode([version, [[*one[:2], 2**53 - 1, b"\0" * 32, *one[4:]]]]),
        msgspec.msgpack.encode([version, [[*one[:6], []]]]),
    ]  # fmt: skip
    event = one[6][0]
    for place, value in (
        (0, 0), (0, 2**60), (1, 0), (1, 2**63), (2, 2**62), (2, -(2**62)), (3, [["w", 2**63, "h"]]), (3, [["w", 1, "h"]]),
        (4, 5), (6, None), (7, None), (8, b""), (8, None), (9, bytes(32)),
    ):  # fmt: skip
        changed = list(event)
        changed[place] = value
        wrong.append(msgspec.msgpack.encode([version, [[*one[:6], [changed]]]]))
    for plain in wrong:
        insider.head(insider.pack(plain))
        assert "a pack cannot be read" in reasons(three.cleo.sync()), plain[:80]
    others_hold(three)


def test_events_with_odd_content_harm_nobody(three: Three, insider: Insider) -> None:
    """Data that is no JSON, of unknown types and versions, with enormous or strange texts: kept, and nothing breaks."""
    from holdfast.core.event import seal

    writer = certified_writer(three.ben.keys.public.signing)
    datas = [
        b"", b"\xff\xfe", b"[" * 5000, b'{"text":5}', b'{"text":"\\ud800"}', b'{"text":"' + b"x" * 100_000 + b'"}',
        b'{"a":1e999}', b"null", b"{}", b'{"text":"\\u0000\\u001b[2J"}', b'{"erased":[1,2]}',
    ]  # fmt: skip
    kinds = ["note.added", "session.started", "agent.started", "task.changed", "event.erased", "x" * 5000, "", "\0"]
    made = []
    for kind in kinds:
        for data in datas:
            made.append(
                seal(
                    session="s1", writer=writer, seq=len(made) + 1, prev=made[-1].hash if made else None,
                    clock=2**53 - 1, at=0, actor="\0" * 50, type=kind, version=2**53 - 1 if len(made) % 2 else 1,
                    data=data, salt=bytes(16), key="\0" if kind == "" else None,
                )
            )  # fmt: skip
    last = made[-1]
    words = packs.stream_words(insider.vault.id, "s1", writer, last.seq, last.hash)
    stretch = Stretch("s1", writer, insider.vault.me, three.ben.keys.sign(b"holdfast stream 1\n", words), made)
    insider.publish([stretch])
    three.cleo.sync()
    three.anna.sync()
    for device in (three.anna, three.cleo):
        three.note(device, f"later, by {device.name}")
    settle([three.anna, three.cleo])
    for device in (three.anna, three.cleo):
        assert set(three.written) <= set(device.notes("s1"))
    assert three.anna.state("s1") == three.cleo.state("s1")


# ── numbers beyond all measure ───────────────────────────────────────────────────────────────────────────────


def absurd(vault: str) -> dict[str, dict[str, object]]:
    digest = bytes(32)
    return {
        "packs": {"packs": tuple(Indexed("0" * 40, n, n, 9, digest) for n in range(1, 30_001))},
        "seen": {"seen": tuple(Seen("0" * 20, 1, b"") for _ in range(300))},
        "wanting": {"wanting": tuple(Wanted("0" * 20, 1, 2) for _ in range(300))},
        "tips": {"tips": tuple(f"{n:064x}" for n in range(5_000))},
        "a name that leads elsewhere": {"packs": (Indexed("../../../etc/passwd", 1, 1, 9, digest),)},
        "a negative size": {"packs": (Indexed("0" * 40, 1, 1, -9, digest),)},
        "pushes backwards": {"packs": (Indexed("0" * 40, 5, 1, 9, digest),)},
        "pushes with a gap": {"packs": (Indexed("0" * 40, 2, 2, 9, digest),)},
        "a short digest": {"packs": (Indexed("0" * 40, 1, 1, 9, b""),)},
        "a time beyond time": {"at": 2**63},
        "a time before time": {"at": -1},
        "an older version": {"v": 0},
        "a negative version": {"v": -1},
        "a newer version": {"v": 2, "packs": "in another way"},
        "another vault": {"vault": "0" * 64},
        "tips that are none": {"tips": ("../x",)},
        "a life that is none": {"seen": (Seen("../x", 1, b""),)},
        "text for numbers": {"counter_": 1, "at": "now"},
    }


@pytest.mark.parametrize("what", absurd(""))
def test_an_absurd_head_is_turned_away(three: Three, insider: Insider, what: str) -> None:
    """A head that says what no head can say costs one look, whoever signed it."""
    asked: list[str] = []
    window = three.windows["cleo"]
    inner = window.get
    window.get = lambda name, limit: (asked.append(name), inner(name, limit))[1]  # type: ignore[method-assign]
    insider.head(**absurd(insider.vault.id)[what])
    report = three.cleo.sync()
    assert any("a head cannot be read" in one.reason and one.device == "ben" for one in report.rejected)
    assert len(asked) <= 3
    others_hold(three)


def test_a_head_full_of_packs_that_are_not_there_costs_little(three: Three, insider: Insider) -> None:
    """After some that cannot be read the rest is not asked for, and Cleo's own head does not swell from it."""
    first = insider.own.pushes + 1
    many = tuple(Indexed(os.urandom(20).hex(), n, n, 100, os.urandom(32)) for n in range(first, first + 5_000))
    insider.head(*many)
    asked: list[str] = []
    window = three.windows["cleo"]
    inner = window.get
    window.get = lambda name, limit: (asked.append(name), inner(name, limit))[1]  # type: ignore[method-assign]
    report = three.cleo.sync()
    assert "a pack cannot be read" in reasons(report)
    assert len(asked) < 300
    three.note(three.cleo, "and goes on")
    three.cleo.sync()
    three.cleo.sync()
    assert len(three.shelf.objects[three.head_of(three.cleo)]) < 20_000
    others_hold(three)


def test_asking_for_everything_again_and_again_is_bounded(three: Three, insider: Insider) -> None:
    """A head that wants all of Anna's pushes makes her pack them again, not more than she has, and lose nothing."""
    life = sealing.life_tag(insider.vault.id, three.anna.writer)
    for _ in range(3):
        insider.head(wanting=(Wanted(life, 1, 2**53), Wanted(life, 2**52, 2**53)))
        three.anna.sync()
    others_hold(three)
    assert len(three.names("p/")) < 30


def test_a_bomb_is_not_unpacked(three: Three, insider: Insider) -> None:
    """A few kilobytes that would unpack to gigabytes, as pack, head and entry: given up at the limit."""
    zeros = bytes(200 << 20)
    insider.head(insider.pack(zeros))
    tracemalloc.start()
    report = three.cleo.sync()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "larger than it may be" in reasons(report)
    assert peak < 300 << 20
    insider.sealed("head", heads.name_of(insider.vault.id, three.ben.writer, insider.counter + 1), zeros)
    assert "a head is larger than it may be" in reasons(three.cleo.sync())
    others_hold(three)


def test_millions_of_tiny_events_are_counted_before_they_are_made(
    three: Three, insider: Insider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack of more events than a pack can hold is refused before they fill the memory."""
    event = msgspec.msgpack.encode([1, 1, 1, None, None, "", "", b"", bytes(16), None])
    writer = certified_writer(three.ben.keys.public.signing)
    front = msgspec.msgpack.encode(["s1", writer, 1, None, insider.vault.me, bytes(64)])

    def plain(inner: int, outer: int) -> bytes:
        stretch = b"\x97" + front[1:] + b"\xdd" + inner.to_bytes(4, "big") + event * inner
        return b"\x92\x01\xdd" + outer.to_bytes(4, "big") + stretch * outer

    whole = plain(2_000_000, 1)
    tracemalloc.start()
    with pytest.raises(HoldfastError, match="no pack"):
        packs.unpack(whole)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 << 20
    monkeypatch.setattr(packs, "MOST_EVENTS", 2_500)
    with pytest.raises(HoldfastError, match="more events than a pack can"):
        packs.unpack(plain(1_000, 3))


@pytest.mark.parametrize("shape", ["deep", "wide"])
def test_entries_in_any_shape_are_evaluated(three: Three, insider: Insider, shape: str) -> None:
    """Hundreds of entries after each other, or beside each other under one: all read, nobody shut out."""
    me, tips = three.ben.keys.public.id, tuple(insider.vault.membership.tips)
    if shape == "deep":
        last = tips
        for number in range(400):
            last = (insider.entry(Rename, parents=last, device=me, name=f"ben {number}"),)
    else:
        last = tuple(sorted(insider.entry(Rename, device=me, name=f"ben {number}") for number in range(400)))
        last = (insider.entry(Rename, parents=last, device=me, name="ben"),)
    insider.head(tips=last)
    three.cleo.sync()
    assert three.cleo.vault().membership.tips == last
    others_hold(three)


def test_words_about_devices_that_never_were_are_not_repeated_for_ever(three: Three, insider: Insider) -> None:
    """A head that claims to have seen lives that nobody lives is reported; it makes no room for more than a few."""
    for _ in range(5):
        insider.head(seen=tuple(Seen(os.urandom(10).hex(), 5, bytes(8)) for _ in range(256)))
        assert "not shown" in reasons(three.cleo.sync())
    assert len(three.cleo.vault().memory.turned()) <= 1_001
    others_hold(three)


# ── after removal ────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_removed_device_writes_is_held_back(three: Three) -> None:
    """After its removal nothing new of a device comes in, under whatever key, and it is said."""
    old = Insider(three.ben, three.shelf)
    removing.remove(three.anna.vault(), [three.ben.keys.public.id]).commit()
    settle([three.anna, three.cleo])
    old.publish([old.stretch("s1", certified_writer(three.ben.keys.public.signing), ["too late"])])
    for device in (three.anna, three.cleo):
        assert "ben: it comes from a device that was removed, and is held back" in reasons(device.sync())
        assert "removed" in turned(device)
    others_hold(three)


def test_a_removed_device_reads_nothing_new(three: Three) -> None:
    """With everything it ever had and everything at the remote, it opens no object made after its removal."""
    removing.remove(three.anna.vault(), [three.ben.keys.public.id]).commit()
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
    assert not any("not for ben" in one for one in three.ben.notes("s1"))


def test_a_removed_device_lets_nobody_in_and_removes_nobody(three: Three, tmp_path: Path) -> None:
    """Entries that an admin signed after its removal count as little as its events."""
    dora = Device(str(tmp_path), "dora", three.shelf)
    dora.ask()
    three.anna.approve(dora, admin=True)
    settle([dora, *three.everybody, dora])
    hostile = Insider(dora, three.shelf)
    removing.remove(three.anna.vault(), [dora.keys.public.id]).commit()
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
    others_hold(three)
    dora.close()


def test_a_guest_revoked_reads_nothing_new_and_writes_nothing(three: Three, tmp_path: Path) -> None:
    """After the invitation is taken back the guest opens no new object; its request, shown again, lets it in no more."""
    gus = Device(str(tmp_path), "gus", Window(three.shelf))
    share = sharing.begin(three.anna.vault(), "s1")
    sharing.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = sharing.offers(three.shelf, [gus.keys.identity])
    gus.vault_id = sharing.accept(gus.here(), gus.remote, offer).id
    requests = {name: three.shelf.objects[name] for name in three.names("h/join-")}
    settle([three.anna, gus, three.anna, gus])
    assert gus.vault().membership.is_member(gus.keys.public.id)
    shared = sharing.shared(three.anna.vault(), "s1")
    assert shared is not None
    sharing.uninvite(shared, "gus@example.org")
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
    others_hold(three)
    gus.close()


def test_a_guest_removed_is_not_let_in_by_its_old_request(three: Three, tmp_path: Path) -> None:
    """A removed guest device whose request the remote shows again stays out, though its invitation still stands."""
    gus = Device(str(tmp_path), "gus", Window(three.shelf))
    share = sharing.begin(three.anna.vault(), "s1")
    sharing.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = sharing.offers(three.shelf, [gus.keys.identity])
    gus.vault_id = sharing.accept(gus.here(), gus.remote, offer).id
    requests = {name: three.shelf.objects[name] for name in three.names("h/join-")}
    settle([three.anna, gus, three.anna])
    shared = sharing.shared(three.anna.vault(), "s1")
    assert shared is not None
    removing.remove(shared, [gus.keys.public.id]).commit()
    three.shelf.objects |= requests
    report = three.anna.sync()
    assert "removed asks to take part again" in reasons(report)
    shared = sharing.shared(three.anna.vault(), "s1")
    assert shared is not None
    assert not shared.membership.is_member(gus.keys.public.id)
    gus.close()


def test_proofs_are_worth_nothing_for_other_keys(three: Three, tmp_path: Path) -> None:
    """A proof copied from another's request, a made-up one and none at all let nobody write."""
    gus = Device(str(tmp_path), "gus", three.shelf)
    share = sharing.begin(three.anna.vault(), "s1")
    sharing.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = sharing.offers(three.shelf, [gus.keys.identity])
    assert offer.secret is not None
    mallory = DeviceKeys.generate().public
    box = share.membership.box
    proofs = [joining.proof_of(offer.secret, gus.keys.public), joining.proof_of(os.urandom(32), mallory), None, b""]
    for number, proof in enumerate(proofs):
        letter = joining._Letter(
            vault=share.id, signing=mallory.signing, age=mallory.age, name="mallory", at=1, proof=proof
        )
        three.shelf.objects[f"h/join-{number:032x}"] = age.encrypt(box, msgspec.json.encode(letter))
        report = three.anna.sync()
        assert "shows no invitation" in reasons(report)
    shared = sharing.shared(three.anna.vault(), "s1")
    assert shared is not None
    assert not shared.membership.is_member(mallory.id)
    others_hold(three)
    gus.close()


def test_one_invitation_lets_in_a_few_devices_only(three: Three, tmp_path: Path) -> None:
    """Whoever holds an invitation's secret cannot fill the session's membership with devices."""
    gus = Device(str(tmp_path), "gus", three.shelf)
    share = sharing.begin(three.anna.vault(), "s1")
    sharing.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    [offer] = sharing.offers(three.shelf, [gus.keys.identity])
    assert offer.secret is not None
    for number in range(30):
        keys = DeviceKeys.generate().public
        letter = joining._Letter(
            vault=share.id, signing=keys.signing, age=keys.age, name=f"g{number}", at=1,
            proof=joining.proof_of(offer.secret, keys),
        )  # fmt: skip
        three.shelf.objects[f"h/join-{number:032x}"] = age.encrypt(share.membership.box, msgspec.json.encode(letter))
    report = three.anna.sync()
    assert "more devices than one person has" in reasons(report)
    shared = sharing.shared(three.anna.vault(), "s1")
    assert shared is not None
    assert sum(one.kind == "guest" for one in shared.membership.members.values()) == 16
    gus.close()


def test_an_offer_that_nobody_signed_is_no_offer(three: Three, tmp_path: Path) -> None:
    """What is left for a person as a shared session must be founded by the keys it names."""
    from holdfast.teleport import entries
    from holdfast.teleport.wraps import Wrapped, wrap

    gus = DeviceKeys.generate()
    share = sharing.begin(three.anna.vault(), "s1")
    signed = share.founding()
    assert signed is not None
    forged = entries.pack(signed._replace(signature=bytes(64)))
    blob = wrap(gus.public.age, Wrapped(vault=share.id, founding=forged, keys=[bytes(32)], session="s1"))
    three.shelf.objects[f"k/{sealing.recipient_tag(gus.public.age)}-{0:016x}"] = blob
    assert sharing.offers(three.shelf, [gus.identity]) == []
