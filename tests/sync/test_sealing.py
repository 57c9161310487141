"""Sealed objects: frozen examples, detection of every change, and bounded decompression."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Damaged
from holdfast.machine.zstd import zstandard
from holdfast.sync.protocol import sealing
from holdfast.sync.protocol.sealing import Unsealable, seal, unseal

FOLDER = Path(__file__).parent / "vectors"
SEALED = json.loads((FOLDER / "sealed.json").read_text("utf-8"))
TAGS = json.loads((FOLDER / "tags.json").read_text("utf-8"))
VAULT = hashlib.sha256(b"a vault").hexdigest()
NAME = "p/0011223344556677/" + "ab" * 20
KEY = bytes(range(32))
LIMIT = 1 << 20


def hkdf(key: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    """RFC 5869, from HMAC alone."""
    prk = hmac.digest(salt, key, "sha256")
    made, block = b"", b""
    for number in range(1, 10):
        block = hmac.digest(prk, block + info + bytes([number]), "sha256")
        made += block
    return made[:size]


def by_hand(key: bytes, kind: str, vault: str, name: str, packed: bytes, salt: bytes) -> bytes:
    """Any bytes, sealed as if they were compressed content."""
    header = f"holdfast seal 1\n{kind}\n{vault}\n{name}".encode()
    made = hkdf(key, salt, header, 40)
    front = b"HFS1" + salt + made[32:]
    return front + AESGCM(made[:32]).encrypt(bytes(12), packed, front + header)


def zstd() -> Any:
    module = zstandard()
    assert module is not None
    return module


def reason(sealed: bytes, *, ring: list[bytes] | None = None, limit: int = LIMIT, **place: str) -> str:
    where = {"kind": "pack", "vault": VAULT, "name": NAME} | place
    with pytest.raises(Unsealable) as caught:
        unseal([KEY] if ring is None else ring, where["kind"], where["vault"], where["name"], sealed, limit=limit)
    assert isinstance(caught.value, Damaged)
    assert caught.value.hint
    assert caught.value.reason in caught.value.message
    return caught.value.reason


def test_vectors_match_the_primitives() -> None:
    """Frozen objects, sealed again from the primitives alone, and opened by us."""
    for item in SEALED:
        key, salt, packed = (bytes.fromhex(item[field]) for field in ("key", "salt", "packed"))
        sealed, plain = bytes.fromhex(item["sealed"]), bytes.fromhex(item["plain"])
        assert by_hand(key, item["kind"], item["vault"], item["name"], packed, salt) == sealed
        assert zstd().decompress(packed) == plain
        assert unseal([key], item["kind"], item["vault"], item["name"], sealed, limit=LIMIT) == plain
        assert hashlib.sha256(b"holdfast key id\n" + key).hexdigest()[:32] == item["key_id"] == sealing.key_id(key)
        # The compressed bytes depend on the version of zstd; everything around them does not.
        ours = seal(key, item["kind"], item["vault"], item["name"], plain, salt=salt)
        assert ours[:44] == sealed[:44]
        assert unseal([key], item["kind"], item["vault"], item["name"], ours, limit=LIMIT) == plain


def test_tags_match_the_primitives() -> None:
    """Names at a remote, recomputed from the hash alone."""

    def tag(text: str, size: int) -> str:
        return hashlib.sha256(text.encode()).hexdigest()[: 2 * size]

    vault, writer, entry, recipient = (TAGS[field] for field in ("vault", "writer", "entry", "recipient"))
    assert tag(f"holdfast vault tag\n{vault}", 8) == TAGS["vault_tag"] == sealing.vault_tag(vault)
    assert tag(f"holdfast life tag\n{vault}\n{writer}", 10) == TAGS["life_tag"] == sealing.life_tag(vault, writer)
    assert tag(f"holdfast entry name\n{vault}\n{entry}", 20) == TAGS["entry_name"] == sealing.entry_name(vault, entry)
    assert tag(f"holdfast recipient\n{recipient}", 16) == TAGS["recipient_tag"] == sealing.recipient_tag(recipient)


@given(st.binary(max_size=5_000), st.integers(1, 9), st.integers(0, 3))
def test_sealing_round_trips(plain: bytes, level: int, before: int) -> None:
    """A ring that contains the key opens the object, wherever the key is in it."""
    ring = [*(sealing.new_key() for _ in range(before)), KEY, sealing.new_key()]
    sealed = seal(KEY, "head", VAULT, NAME, plain, level=level)
    assert unseal(iter(ring), "head", VAULT, NAME, sealed, limit=len(plain)) == plain
    assert sealed != seal(KEY, "head", VAULT, NAME, plain, level=level)


def test_changed_object_does_not_open() -> None:
    """No byte can be changed, removed or appended."""
    sealed = seal(KEY, "pack", VAULT, NAME, b"what was said" * 5)
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 0x40
        refusal = reason(bytes(changed))
        expected = {
            at < 3: sealing.NOT_SEALED,
            at == 3: sealing.NEWER,
            4 <= at < 44: sealing.NO_KEY,
            at >= 44: sealing.CHANGED,
        }[True]
        assert refusal == expected, at
        assert reason(sealed[:at]) in (sealing.NOT_SEALED, sealing.CHANGED)
    assert reason(sealed + b"\0") == sealing.CHANGED


def test_moved_object_does_not_open() -> None:
    """Under another name, in another vault or as another kind."""
    sealed = seal(KEY, "pack", VAULT, NAME, b"what was said")
    assert reason(sealed, kind="head") == sealing.NO_KEY
    assert reason(sealed, vault="0" * 64) == sealing.NO_KEY
    assert reason(sealed, name=NAME[:-1] + "c") == sealing.NO_KEY
    assert reason(sealed, name="p/é") == sealing.NOT_SEALED
    assert reason(sealed, ring=[]) == sealing.NO_KEY
    assert reason(sealed, ring=[os.urandom(32)]) == sealing.NO_KEY


@given(st.binary(max_size=200), st.booleans())
def test_garbage_does_not_open(garbage: bytes, begun: bool) -> None:
    """The error has a reason."""
    assert reason(b"HFS1" + garbage if begun else garbage)


@given(st.binary(max_size=200))
def test_sealed_garbage_is_rejected(garbage: bytes) -> None:
    """Correctly sealed but not compressed, or with bytes after the content."""
    sealed = by_hand(KEY, "pack", VAULT, NAME, garbage, bytes(32))
    assert reason(sealed) == sealing.UNREADABLE
    doubled = by_hand(KEY, "pack", VAULT, NAME, zstd().compress(b"x") + garbage + b"\0", bytes(32))
    assert reason(doubled) == sealing.UNREADABLE


def test_size_limit_is_exact() -> None:
    for size in (0, 1, 1000, 100_000):
        sealed = seal(KEY, "pack", VAULT, NAME, bytes(size))
        assert unseal([KEY], "pack", VAULT, NAME, sealed, limit=size) == bytes(size)
        if size:
            assert reason(sealed, limit=size - 1) == sealing.TOO_LARGE


def test_decompression_bomb_takes_no_memory() -> None:
    """A small object that would unpack to a gigabyte stops at the limit."""
    packing = zstd().ZstdCompressor()
    piece = bytes(1 << 20)
    packed = b"".join([packing.compress(piece) for _ in range(1024)]) + packing.flush()
    sealed = by_hand(KEY, "pack", VAULT, NAME, packed, bytes(32))
    tracemalloc.start()
    try:
        assert reason(sealed, limit=1 << 16) == sealing.TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


def test_huge_decompression_window_is_not_allocated() -> None:
    """The frame asks for a window far beyond the limit."""
    module = zstd()
    packing = module.ZstdCompressor(options={module.CompressionParameter.window_log: 27})
    packed = packing.compress(b"small") + packing.flush()
    sealed = by_hand(KEY, "pack", VAULT, NAME, packed, bytes(32))
    assert reason(sealed, limit=1 << 16) == sealing.UNREADABLE
    assert unseal([KEY], "pack", VAULT, NAME, sealed, limit=1 << 27) == b"small"


def test_streamed_frame_of_unknown_size_opens() -> None:
    """Other programs may compress piece by piece."""
    packing = zstd().ZstdCompressor()
    packed = (
        packing.compress(b"one ") + packing.flush(packing.FLUSH_BLOCK) + packing.compress(b"two") + packing.flush()
    )
    sealed = by_hand(KEY, "pack", VAULT, NAME, packed, bytes(32))
    assert unseal([KEY], "pack", VAULT, NAME, sealed, limit=7) == b"one two"


def test_new_keys_and_their_ids_differ() -> None:
    one, other = sealing.new_key(), sealing.new_key()
    assert len(one) == 32
    assert sealing.key_id(one) != sealing.key_id(other)
