"""Recovery codes: one code on paper always gives the same device."""

from __future__ import annotations

import hashlib
import hmac
import json
from importlib import import_module
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.core.errors import Invalid
from holdfast.workspace.keys.device_keys import keys_from_code, new_recovery_code, parse_words

pyrage = import_module("pyrage")  # it has no types
VECTORS = json.loads((Path(__file__).parent / "vectors" / "recovery.json").read_text("utf-8"))
LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def hkdf(key: bytes, info: bytes) -> bytes:
    prk = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(prk, info + b"\x01", "sha256")


def secret_of(identity: str) -> bytes:
    """The secret in an age identity, with a checksum that age itself verified."""
    number = 0
    for letter in identity.lower().removeprefix("age-secret-key-1")[:-6]:
        number = number * 32 + LETTERS.index(letter)
    return (number >> 4).to_bytes(32, "big")


def test_vectors_match_the_primitives() -> None:
    """The frozen examples, recomputed from HMAC, Ed25519 and age alone."""
    for item in VECTORS:
        code = bytes.fromhex(item["bytes"])
        seed = hkdf(code, b"holdfast recovery signing 1\n")
        assert seed.hex() == item["seed"]
        assert secret_of(item["identity"]) == hkdf(code, b"holdfast recovery age 1\n")
        recipient = str(pyrage.x25519.Identity.from_str(item["identity"]).to_public())
        signing = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        print_ = hashlib.sha256(b"holdfast device 1\n" + signing + recipient.encode()).hexdigest()[:32]
        assert print_ == item["fingerprint"]
        made = keys_from_code(item["code"])
        assert (made.seed, made.identity, made.public.id) == (seed, item["identity"], print_)


def test_code_gives_one_device_however_it_is_typed() -> None:
    """Blanks, capitals and line breaks do not matter; another code gives another device."""
    code = new_recovery_code()
    assert len(parse_words(code)) == 16
    typed = code.upper().replace("-", "\n")
    assert keys_from_code(typed).public == keys_from_code(code).public
    assert keys_from_code(new_recovery_code()).public != keys_from_code(code).public


def test_mistyped_code_is_reported() -> None:
    """The error calls it a recovery code."""
    with pytest.raises(Invalid, match="this recovery code has 12 words"):
        keys_from_code("-".join(new_recovery_code().split("-")[:12]))
