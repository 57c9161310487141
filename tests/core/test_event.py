"""The envelope is frozen: these bytes and hashes may never change."""

from __future__ import annotations

import hashlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import envelope as events
from holdfast.core.canonical import canonical_json
from holdfast.core.envelope import Event, StreamHead, body_of, event_document, find_problem, hash_of, make_event
from holdfast.core.errors import Invalid
from holdfast.core.times import EARLIEST, LATEST

DATA = b'{"text":"Hall\xc3\xb6chen"}'
SALT = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
BODY = "a906cc4f9eee663b714f1c35f871df7173b288321e5cecbcd6dbc7ffe0486f99"
HASH = "feebafb6c0fb9022c02c8a5a3d49250eb25343edd93e73dd282ac3e6af20c957"
ENVELOPE = (
    b'{"actor":"Ada \\"\xce\xb1\\" Byron\\n","at":"2026-11-15T12:00:00.456Z",'
    b'"body":"a906cc4f9eee663b714f1c35f871df7173b288321e5cecbcd6dbc7ffe0486f99","clock":1794744000000123,'
    b'"key":"hook:1","prev":"abababababababababababababababababababababababababababababababab",'
    b'"seen":[["aa",3,"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"],'
    b'["bb",1,"efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef"]],"seq":7,'
    b'"session":"0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b","type":"note.added","v":1,"writer":"5d0f7a34c1e2"}'
)


def frozen() -> Event:
    return make_event(
        session="0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b", writer="5d0f7a34c1e2", seq=7, prev="ab" * 32,
        clock=1794744000000123, at=1794744000456, actor='Ada "α" Byron\n', type="note.added", version=1, data=DATA,
        salt=SALT, seen=(StreamHead("aa", 3, "cd" * 32), StreamHead("bb", 1, "ef" * 32)), key="hook:1",
    )  # fmt: skip


def test_body_hash_is_frozen() -> None:
    """SHA-256 of salt and data."""
    assert frozen().body == BODY == hashlib.sha256(SALT + DATA).hexdigest()


def test_envelope_hash_is_frozen() -> None:
    """SHA-256 of a line that names the layout, followed by exactly these bytes."""
    assert hashlib.sha256(b"holdfast event 1\n" + ENVELOPE).hexdigest() == HASH
    assert frozen().hash == HASH == hash_of(frozen())


def test_envelope_bytes_are_canonical_json() -> None:
    assert canonical_json(json.loads(ENVELOPE)) == ENVELOPE


def test_first_envelope_of_a_stream_is_frozen() -> None:
    """Without predecessor, key and seen heads it contains null, null and an empty list."""
    first = make_event(
        session="s", writer="w", seq=1, prev=None, clock=1, at=0, actor="a", type="t", version=2, data=b"{}",
        salt=SALT,
    )  # fmt: skip
    written = (
        b'{"actor":"a","at":"1970-01-01T00:00:00.000Z",'
        b'"body":"' + hashlib.sha256(SALT + b"{}").hexdigest().encode() + b'",'
        b'"clock":1,"key":null,"prev":null,"seen":[],"seq":1,"session":"s","type":"t","v":2,"writer":"w"}'
    )
    assert first.hash == hashlib.sha256(b"holdfast event 1\n" + written).hexdigest()


def test_erased_event_still_verifies() -> None:
    """Without data and salt its hash is the same."""
    bare = msgspec.structs.replace(frozen(), data=None, salt=None)
    assert hash_of(bare) == HASH
    assert find_problem(bare) is None


def test_sealed_event_verifies() -> None:
    assert find_problem(frozen()) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", 2), ("session", "1b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b"), ("writer", "5d0f7a34c1e3"), ("seq", 8),
        ("clock", 1794744000000124), ("at", 1794744000457), ("at", LATEST + 1), ("at", -(10**30)),
        ("seen", ()), ("seen", (StreamHead("aa", 3, "cd" * 32), StreamHead("bb", 2, "ef" * 32))),
        ("seen", (StreamHead("bb", 1, "ef" * 32), StreamHead("aa", 3, "cd" * 32))), ("key", None), ("key", "hook:2"),
        ("actor", "Ada"), ("type", "note.adder"), ("body", "a" * 64), ("prev", None), ("prev", "ac" * 32),
        ("hash", "f" * 64), ("data", b'{"text":"Hallochen"}'), ("data", b""), ("salt", None), ("salt", b"\1" * 16),
        ("salt", SALT[:15]), ("salt", b""),
    ],
)  # fmt: skip
def test_verification_detects_any_changed_field(field: str, value: object) -> None:
    assert find_problem(msgspec.structs.replace(frozen(), **{field: value})) is not None


def test_bytes_moved_between_salt_and_data_are_detected() -> None:
    """Cut elsewhere, the same bytes have the same digest, but are refused."""
    moved = msgspec.structs.replace(frozen(), salt=SALT[:12], data=SALT[12:] + DATA)
    assert body_of(SALT[12:] + DATA, SALT[:12]) == BODY
    assert find_problem(moved) is not None


def test_time_beyond_the_calendar_is_clamped_before_hashing() -> None:
    """An absurd wall clock does not block work."""
    for at, kept in ((10**30, LATEST), (-(10**30), EARLIEST)):
        event = make_event(
            session="s", writer="w", seq=1, prev=None, clock=1, at=at, actor="a", type="t", version=1, data=b"{}",
            salt=SALT,
        )  # fmt: skip
        assert event.at == kept
        assert find_problem(event) is None


def test_position_orders_by_clock_writer_number_and_hash() -> None:
    """The order that all devices agree on ignores the time."""
    event = frozen()
    assert event.written == (1794744000000123, "5d0f7a34c1e2", 7, HASH)
    assert event.head == StreamHead("5d0f7a34c1e2", 7, HASH)


def test_public_form_has_every_field_in_order() -> None:
    """As `log --json` prints it."""
    shown = event_document(frozen())
    assert list(shown) == [
        "v", "session", "writer", "seq", "clock", "at", "seen", "key", "actor", "type", "body", "prev", "hash",
        "data", "salt",
    ]  # fmt: skip
    assert shown["data"] == {"text": "Hallöchen"}
    assert shown["salt"] == SALT.hex()
    assert shown["seen"] == [["aa", 3, "cd" * 32], ["bb", 1, "ef" * 32]]


@pytest.mark.parametrize("data", [b"\xff", b"{", b"", b'{"x":"\xff"}', b"[" * 100_000])
def test_public_form_shows_invalid_data_as_text(data: bytes) -> None:
    """Data that is not JSON never raises."""
    shown = event_document(msgspec.structs.replace(frozen(), data=data))
    assert isinstance(shown["data"], str)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_envelope_of_any_text_is_canonical(actor: str, key: str) -> None:
    event = msgspec.structs.replace(frozen(), actor=actor, key=key)
    fields = {name: value for name, value in event_document(event).items() if name not in ("hash", "data", "salt")}
    assert hash_of(event) == hashlib.sha256(events.LAYOUT + canonical_json(fields)).hexdigest()


def test_event_data_is_written_canonically() -> None:
    assert canonical_json({"b": 1, "a": [2.0]}) == b'{"a":[2],"b":1}'
    with pytest.raises(Invalid):
        canonical_json({"a": 2**60})
