"""A hostile member: actions it is not entitled to have no effect and are reported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core.envelope import Event, make_event
from holdfast.sync import vault_shares
from holdfast.sync.protocol import heads, packs, sealing
from holdfast.sync.protocol.entries import Admit, Invite, NewKey, Remove, Rename, Restore, ShareEntry
from holdfast.sync.protocol.packs import Stretch
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


# ── acting for others ────────────────────────────────────────────────────────────────────────────────────


def test_event_is_rejected_in_another_devices_stream(three: Three, insider: Insider) -> None:
    """Ben signs notes in a stream with Anna's writer id: only his own stream is accepted."""
    state = three.ben.state("s1")
    assert state is not None
    head = state.heads[three.anna.writer]
    forged = insider.stretch("s1", three.anna.writer, ["forged"], first=head.seq + 1, prev=head.hash)
    new = insider.stretch("s1", certified_writer(DeviceKeys.generate().public.signing), ["forged too"])
    own = insider.stretch("s1", certified_writer(three.ben.keys.public.signing), ["ben's own"])
    insider.publish([forged, own, new])
    for device in (three.cleo, three.anna):
        report = device.sync()
        assert reasons(report).count("ben: it contains a stream that its device may not vouch for") == 1
        assert "ben's own" in device.notes("s1")
        assert not any("forged" in note for note in device.notes("s1"))
    three.written.append("ben's own")
    assert_others_sync(three)


def test_stream_is_rejected_without_a_valid_signature(three: Three, insider: Insider) -> None:
    """A missing or wrong signature, or one of another vault or a shorter stream, does not count."""
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
    assert_others_sync(three)


def test_head_is_rejected_for_another_devices_writer(three: Three, insider: Insider) -> None:
    """Ben publishes a higher head under Anna's name: hers counts."""
    three.note(three.anna, "from anna herself")
    three.anna.sync()
    for device in (three.ben.keys.public.id, three.anna.keys.public.id):
        insider.head(writer=three.anna.writer, device=device, counter=700 + len(device), packs=())
    report = three.cleo.sync()
    assert "not signed by a device of the vault" in reasons(report)
    assert "from anna herself" in three.cleo.notes("s1")
    assert_others_sync(three)


def test_head_is_rejected_without_signature(three: Three, insider: Insider) -> None:
    """A head without a signature, or signed by other keys, is rejected though correctly sealed."""
    insider.head(keys=DeviceKeys.generate())
    assert "not signed by a device of the vault" in reasons(three.cleo.sync())
    payload = msgspec.msgpack.encode({"v": 1})
    name = heads.name_of(insider.vault.id, three.ben.writer, insider.counter + 1)
    for inside in ((payload, b""), (payload,), payload, (b"", b""), None):
        insider.sealed("head", name, msgspec.msgpack.encode(inside))
        assert "a head cannot be read" in reasons(three.cleo.sync())
    assert_others_sync(three)


# ── rights of admins ─────────────────────────────────────────────────────────────────────────────────────


def test_entry_has_no_effect_without_the_right_to_it(three: Three, insider: Insider) -> None:
    """Ben may not admit, remove, restore, rename others, or invite to the whole vault."""
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
        insider.entry(ShareEntry, share="0" * 64, founding=b"", session="s1"),
    ]
    insider.head(tips=tuple(sorted([*tips, *insider.vault.membership.tips])))
    before = three.cleo.vault().membership
    report = three.cleo.sync()
    after = three.cleo.vault().membership
    assert len([refused for refused in report.rejected if "does not count" in refused.reason]) == len(tips)
    assert any(refused.device == "ben" for refused in report.rejected)
    assert "does not count" in rejection_reasons(three.cleo)
    assert (after.members, after.removed, after.shares, after.invites) == (before.members, {}, (), ())
    assert_others_sync(three)


def test_entry_is_rejected_in_the_name_of_others(three: Three, insider: Insider) -> None:
    """An entry in Anna's name signed by Ben, or by an unapproved device, does not count and is not kept."""
    mallory = DeviceKeys.generate()
    tips = [
        insider.entry(Admit, by=three.anna.vault().me, device=mallory.public, name="m", admin=True, role="device"),
        insider.entry(Rename, keys=mallory, by=mallory.public.id, device=mallory.public.id, name="m"),
        insider.entry(Rename, vault="0" * 64, device=three.ben.keys.public.id, name="elsewhere"),
        insider.entry(Rename, parents=(), device=three.ben.keys.public.id, name="rootless"),
        insider.entry(Rename, parents=("0" * 64,), device=three.ben.keys.public.id, name="of nothing"),
    ]
    insider.head(tips=tuple(sorted(tips)))
    report = three.cleo.sync()
    assert reasons(report).count("does not count") >= 4
    assert not three.cleo.vault().membership.is_member(mallory.public.id)
    assert_others_sync(three)


def test_sync_continues_when_a_new_key_is_given_to_nobody(three: Three, insider: Insider) -> None:
    """Ben names a newest key and shares it with nobody: the others make their own."""
    key = sealing.new_key()
    recipients = tuple(sorted(insider.vault.membership.recipients()))
    insider.head(tips=(insider.entry(NewKey, id=sealing.key_id(key), recipients=recipients),))
    three.cleo.sync()
    assert_others_sync(three)


# ── content of packs ─────────────────────────────────────────────────────────────────────────────────────


def test_share_brings_no_other_session(three: Three, tmp_path: Path) -> None:
    """A guest of one session can write only there: another session in its pack is left out."""
    gus = Device(str(tmp_path), "gus", Window(three.shelf))
    share = vault_shares.find_or_create_share(three.anna.vault(), "s1")
    vault_shares.invite(share, "gus@example.org", [gus.keys.public.age], write=True, expires=None)
    three.anna.start("private")
    [offer] = vault_shares.offers(three.shelf, [gus.keys.identity])
    gus.vault_id = vault_shares.accept(gus.local(), gus.remote, offer).id
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
    assert "that its device may not vouch for" in reasons(report)
    assert three.anna.notes("private") == []
    three.written.append("as a guest")
    settle([three.anna, three.cleo])
    assert list(gus.store.sessions()) == ["s1"]
    assert_others_sync(three)
    gus.close()


ODD_SESSIONS = [
    "a/b", "../x", "s1/" + "0" * 36, "s\n1", "s\0", "", " ", "ö", "x" * 101, "x" * 100_000, "-x", ".x", "s1\u202e",
]  # fmt: skip


@pytest.mark.parametrize("session", ODD_SESSIONS)
def test_pack_is_rejected_with_odd_session_ids(three: Three, insider: Insider, session: str) -> None:
    """An id that could be mistaken for another name, or control a terminal, rejects its whole pack."""
    insider.publish([insider.stretch(session, certified_writer(three.ben.keys.public.signing), ["odd"])])
    assert "it is not a valid pack" in reasons(three.cleo.sync())
    assert list(three.cleo.store.sessions()) == ["s1"]
    assert_others_sync(three)


@pytest.mark.parametrize(
    "writer", ["", "a/b", "../../x", "W" * 36, "0" * 35, "0" * 37, "ab\n" + "0" * 33, "x" * 9999]
)
def test_pack_is_rejected_with_odd_writers(three: Three, insider: Insider, writer: str) -> None:
    """A writer id is 20 or 36 hex digits."""
    insider.publish([insider.stretch("s1", writer, ["odd"])])
    assert "a pack cannot be read" in reasons(three.cleo.sync())
    assert_others_sync(three)


def test_pack_is_rejected_when_malformed_or_of_another_version(three: Three, insider: Insider) -> None:
    """Anything a member seals as a pack that is not a valid one is left out and reported."""
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
        (0, 0), (0, 2**60), (1, 0), (1, 2**63), (2, 2**62), (2, -(2**62)), (3, [["w", 2**63, "h"]]),
        (3, [["w", 1, "h"]]), (4, 5), (6, None), (7, None), (8, b""), (8, None), (9, bytes(32)),
    ):  # fmt: skip
        changed = list(event)
        changed[place] = value
        wrong.append(msgspec.msgpack.encode([version, [[*one[:6], [changed]]]]))
    for plain in wrong:
        insider.head(insider.pack(plain))
        assert "a pack cannot be read" in reasons(three.cleo.sync()), plain[:80]
    assert_others_sync(three)


def test_event_with_odd_content_is_recorded_without_error(three: Three, insider: Insider) -> None:
    """Data that is not JSON, unknown types and versions, huge or unusual texts: sync continues."""
    writer = certified_writer(three.ben.keys.public.signing)
    datas = [
        b"", b"\xff\xfe", b"[" * 5000, b'{"text":5}', b'{"text":"\\ud800"}', b'{"text":"' + b"x" * 100_000 + b'"}',
        b'{"a":1e999}', b"null", b"{}", b'{"text":"\\u0000\\u001b[2J"}', b'{"erased":[1,2]}',
    ]  # fmt: skip
    kinds = ["note.added", "session.started", "agent.started", "task.changed", "event.erased", "x" * 5000, "", "\0"]
    made: list[Event] = []
    for kind in kinds:
        for data in datas:
            made.append(
                make_event(
                    session="s1", writer=writer, seq=len(made) + 1, prev=made[-1].hash if made else None,
                    clock=2**53 - 1, at=0, actor="\0" * 50, type=kind, version=2**53 - 1 if len(made) % 2 else 1,
                    data=data, salt=bytes(16), key="\0" if kind == "" else None,
                )
            )  # fmt: skip
    last = made[-1]
    words = packs.stream_message(insider.vault.id, "s1", writer, last.seq, last.hash)
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
