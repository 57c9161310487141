"""Membership entries as bytes: what is signed, how entries are named and stored, and what is rejected."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.sync.protocol.entries import (
    Admit,
    Invite,
    MembershipEntry,
    NewKey,
    Remove,
    Rename,
    Restore,
    ShareEntry,
    SignedEntry,
    Uninvite,
    VaultFounded,
    founding_document,
    hash_of,
    header_of,
    pack,
    read,
    read_founding,
    sign,
    unpack,
    unpack_or_none,
)
from holdfast.workspace.keys.device_keys import ENTRY, verify
from tests.sync.membership_acts import Acts, id_of, keys_of

VAULT = "ab" * 32
ABOVE = ("01" * 32, "02" * 32)
COMMON: dict[str, Any] = {"vault": VAULT, "parents": ABOVE, "by": "cd" * 16, "at": 1_700_000_000_000}


def one_of_each() -> list[MembershipEntry]:
    keys = keys_of("ann").public
    return [
        VaultFounded(
            vault="", parents=(), by=keys.id, at=1, device=keys, nonce=bytes(16), box=keys.age, session=None
        ),
        Admit(**COMMON, device=keys, name="Laptop", admin=False, role="guest", invite=VAULT, possession=bytes(64)),
        Rename(**COMMON, device=keys.id, name="Desk"),
        Remove(**COMMON, device=keys.id, cut={"w": {"s": 3}}),
        Restore(**COMMON, device=keys.id, cut={}),
        NewKey(**COMMON, id="ef" * 16, recipients=("12" * 16,)),
        ShareEntry(**COMMON, share=VAULT, founding=b"x", session="s"),
        Invite(**COMMON, email="bob@example.org", recipients=(keys.age,), write=True, secret=bytes(32), expires=5),
        Uninvite(**COMMON, invite=VAULT),
    ]


@pytest.mark.parametrize("entry", one_of_each(), ids=lambda entry: type(entry).__name__)
def test_every_kind_round_trips(entry: MembershipEntry) -> None:
    """Signing, packing, unpacking and reading give the same entry, and the signature matches."""
    signed = sign(keys_of("ann"), entry)
    assert unpack(pack(signed)) == signed
    assert read(signed.payload) == entry
    assert verify(keys_of("ann").public.signing, ENTRY, signed.payload, signed.signature)
    header = header_of(signed.payload)
    assert header is not None
    assert header.parents == entry.parents


def test_kinds_and_fields_on_the_wire_are_frozen() -> None:
    """Other implementations read these names: changing them means a new format."""
    wire = {}
    for entry in one_of_each():
        fields = msgspec.msgpack.decode(msgspec.msgpack.encode(entry))
        wire[fields["kind"]] = sorted(set(fields) - {"kind", "vault", "parents", "by", "at"})
    assert wire == {
        "found": ["box", "device", "nonce", "session"],
        "admit": ["admin", "device", "invite", "name", "possession", "role"],
        "rename": ["device", "name"],
        "remove": ["cut", "device"],
        "restore": ["cut", "device"],
        "key": ["id", "recipients"],
        "share": ["founding", "session", "share"],
        "invite": ["email", "expires", "recipients", "secret", "write"],
        "uninvite": ["invite"],
    }


def test_bytes_and_hash_of_an_entry_are_frozen() -> None:
    """One literal example."""
    payload = msgspec.msgpack.encode(Rename(vault=VAULT, parents=(), by="cd" * 16, at=1, device="cd" * 16, name="n"))
    assert payload.hex() == (
        "87"
        "a46b696e64a672656e616d65"
        "a57661756c74d940" + VAULT.encode().hex() + "a7706172656e747390"
        "a26279d920" + b"cd".hex() * 16 + "a2617401"
        "a6646576696365d920" + b"cd".hex() * 16 + "a46e616d65a16e"
    )
    assert hash_of(payload) == "de44bfbea322e82e3efe6c65d9495c1016613b0b3d22dc0cb32f06af7efa545b"


def test_header_of_an_unknown_kind_is_read() -> None:
    """A newer version's entry cannot be read, but its parents can."""
    payload = msgspec.msgpack.encode({"kind": "later", "more": 1, **COMMON})
    header = header_of(payload)
    assert read(payload) is None
    assert header is not None
    assert header.kind == "later"


def test_unknown_fields_are_ignored() -> None:
    """A known kind with an extra field is read as far as it is known."""
    payload = msgspec.msgpack.encode({"kind": "uninvite", "invite": VAULT, "why": "because", **COMMON})
    assert read(payload) == Uninvite(**COMMON, invite=VAULT)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "n" * 201},
        {"device": "not a device"},
        {"by": "CD" * 16},
        {"at": -1},
        {"parents": ["01" * 32] * 2},
        {"parents": ["02" * 32, "01" * 32]},
        {"parents": ["01" * 32 + "\n"]},
        {"vault": "ab"},
    ],
    ids=str,
)
def test_malformed_entry_is_invalid(change: dict[str, object]) -> None:
    """Excessive sizes, invalid ids, unsorted parents."""
    good = {"kind": "rename", "device": "cd" * 16, "name": "n", **COMMON}
    assert read(msgspec.msgpack.encode(good)) is not None
    assert read(msgspec.msgpack.encode(good | change)) is None


def test_entry_is_rejected_with_too_many_recipients_or_streams() -> None:
    assert read(msgspec.msgpack.encode(NewKey(**COMMON, id="ef" * 16, recipients=("12" * 16,) * 10_001))) is None
    cut = {"w": {str(number): 1 for number in range(100_001)}}
    assert read(msgspec.msgpack.encode(Remove(**COMMON, device="cd" * 16, cut=cut))) is None


@given(st.binary(max_size=200))
def test_garbage_raises_only_invalid(data: bytes) -> None:
    """Bytes from a remote never raise anything but Invalid."""
    assert read(data) is None
    assert header_of(data) is None
    if unpack_or_none(data) is None:
        with pytest.raises(Invalid):
            unpack(data)
    with pytest.raises(Invalid):
        read_founding(data)


def test_entry_is_invalid_when_its_signature_has_another_length() -> None:
    """A signature has 64 bytes."""
    with pytest.raises(Invalid):
        unpack(pack(SignedEntry(b"payload", bytes(63))))


def test_founding_document_round_trips() -> None:
    """It is plain JSON with three fields."""
    founding = Acts().founding
    document = founding_document(founding)
    assert read_founding(document) == founding
    assert list(json.loads(document)) == ["holdfast", "entry", "signature"]


def _document(signed: SignedEntry, **change: object) -> bytes:
    return json.dumps(json.loads(founding_document(signed)) | change).encode()


@pytest.mark.parametrize(
    "change",
    [
        {"holdfast": 0},
        {"holdfast": "1"},
        {"more": 1},
        {"entry": "%%%"},
        {"entry": ""},
        {"entry": base64.b64encode(b"x" * 20_000).decode()},
        {"signature": base64.b64encode(bytes(64)).decode()},
    ],
    ids=lambda change: str(change)[:30],
)
def test_altered_founding_document_is_invalid(change: dict[str, object]) -> None:
    """It must have exactly the expected fields, be genuine, and be small."""
    with pytest.raises(Invalid):
        read_founding(_document(Acts().founding, **change))


def test_newer_vault_asks_for_an_update() -> None:
    """It is not reported as damaged."""
    with pytest.raises(Invalid, match="newer Holdfast"):
        read_founding(_document(Acts().founding, holdfast=2, more=1))


def test_founding_entry_is_rejected_when_signed_by_another_device() -> None:
    """It must name the keys that signed it."""
    ann, eve = keys_of("ann"), keys_of("eve")
    entry = VaultFounded(
        vault="", parents=(), by=id_of("eve"), at=0, device=ann.public, nonce=bytes(16), box="b", session=None
    )
    for keys in (ann, eve):
        with pytest.raises(Invalid, match="genuine"):
            read_founding(founding_document(sign(keys, entry)))
    with pytest.raises(Invalid, match="genuine"):
        read_founding(founding_document(sign(ann, Rename(**COMMON, device=id_of("ann"), name="n"))))
