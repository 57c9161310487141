"""Changing any bit of an object makes the whole object invalid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.sync.protocol import entries, heads, packs, sealing, wraps
from holdfast.sync.protocol.entries import founding_of, read_founding
from holdfast.workspace.keys import age
from tests.support.scale import scale
from tests.sync.adversary import Three

# RELIABILITY F16: every byte of 100 objects in torture; a few bytes of each object otherwise.
OBJECTS = scale(12, 100, 100)
BYTES = scale(40, 0, 0)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(str(tmp_path))
    for number in range(OBJECTS // 3):
        made.note(made.everybody[number % 3], f"more {number}")
        made.everybody[number % 3].sync()
    yield made
    made.close()


def positions(data: bytes) -> Iterator[int]:
    """Every byte, or a sample that includes both ends."""
    step = max(1, len(data) // BYTES) if BYTES else 1
    yield from sorted({*range(0, len(data), step), 0, 3, 4, 36, 44, len(data) - 1} & set(range(len(data))))


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def test_sealed_object_with_a_flipped_byte_does_not_open(three: Three) -> None:
    """Packs, heads and entries alike."""
    vault = three.cleo.vault()
    keys = vault.candidates()
    kinds = {"p": "pack", "h": "head", "m": "entry"}
    names = [name for name in three.shelf.objects if name[0] in kinds and not name.startswith("h/join")]
    assert len(names) >= min(OBJECTS // 2, 30)  # packs are merged, so there are fewer packs than pushes
    for name in names[:OBJECTS]:
        data = three.shelf.objects[name]
        assert sealing.unseal(keys, kinds[name[0]], vault.id, name, data, limit=1 << 24)
        for place in positions(data):
            with pytest.raises(HoldfastError):
                sealing.unseal(keys, kinds[name[0]], vault.id, name, flipped(data, place), limit=1 << 24)


def test_key_wrap_with_a_flipped_byte_gives_no_keys(three: Three) -> None:
    for device in three.everybody:
        tag = f"k/{sealing.recipient_tag(device.keys.public.age)}-"
        for name in three.names(tag):
            data = three.shelf.objects[name]
            assert wraps.unwrap(data, [device.keys.identity]) is not None
            for place in positions(data):
                assert wraps.unwrap(flipped(data, place), [device.keys.identity]) is None, (name, place)


def test_founding_entry_with_a_flipped_byte_is_refused(three: Three) -> None:
    """Unless the change has no meaning: then it says exactly the same."""
    data = three.shelf.objects["vault"]
    right = read_founding(data)
    for place in positions(data):
        try:
            read = read_founding(flipped(data, place))
        except HoldfastError:
            continue
        assert founding_of(read) is not None
        assert read == right


def test_flipped_byte_inside_a_seal_breaks_the_signature(three: Three) -> None:
    """Even with the key, nobody can change what others signed: heads, entries, streams."""
    vault = three.cleo.vault()
    keys, members = vault.candidates(), vault.membership
    for name in three.names("h/")[:OBJECTS]:
        listed = heads.parse_name(name)
        assert listed is not None
        plain = sealing.unseal(keys, "head", vault.id, name, three.shelf.objects[name], limit=1 << 24)
        for place in positions(plain):
            try:
                claimed = heads.read(flipped(plain, place), vault.id, listed)
            except HoldfastError:
                continue
            signing = members.signing_of(claimed.head.device)
            assert signing is None or not claimed.is_by(signing)
    for name in three.names("m/")[:OBJECTS]:
        plain = sealing.unseal(keys, "entry", vault.id, name, three.shelf.objects[name], limit=1 << 24)
        own = entries.hash_of(entries.unpack(plain).payload)
        for place in positions(plain):
            signed = entries.unpack_or_none(flipped(plain, place))
            if signed is not None and entries.hash_of(signed.payload) == own:
                assert signed.signature != entries.unpack(plain).signature


def test_flipped_byte_inside_a_pack_breaks_the_stream_signature(three: Three) -> None:
    """The signature over the last hash covers every byte of all earlier events."""
    from holdfast.workspace.keys.device_keys import STREAM, verify

    vault = three.cleo.vault()
    for name in three.names("p/")[: OBJECTS // 3]:
        plain = sealing.unseal(vault.ring(), "pack", vault.id, name, three.shelf.objects[name], limit=1 << 24)
        right = packs.unpack(plain)
        for place in positions(plain):
            try:
                stretches = packs.unpack(flipped(plain, place))
            except HoldfastError:
                continue
            for stretch in stretches:
                signing = vault.membership.signing_of(stretch.device)
                last = stretch.events[-1]
                words = packs.stream_message(vault.id, stretch.session, stretch.writer, last.seq, last.hash)
                if signing is not None and verify(signing, STREAM, words, stretch.signature):
                    assert stretch in right


def test_join_request_with_a_flipped_byte_does_not_open(three: Three) -> None:
    """So nobody's keys can be replaced in it."""
    vault = three.anna.vault()
    box = vault.box()
    assert box is not None
    blob = age.encrypt(vault.membership.box, b"a letter")
    for place in positions(blob):
        assert age.decrypt([box], flipped(blob, place)) is None
