"""The recovery code: thirteen words on paper that are a device of their own when every other is gone."""

from __future__ import annotations

import os
from typing import Final

from holdfast.teleport import age, words
from holdfast.teleport.keys import DeviceKeys

_SIGNING: Final = b"holdfast recovery signing 1\n"
_AGE: Final = b"holdfast recovery age 1\n"


def new_code() -> str:
    return words.spell(os.urandom(words.SIZE))


def keys_of(code: str) -> DeviceKeys:
    """The device a code stands for: always the same one. 128 random bits need no slow derivation."""
    secret = words.read(code, what="recovery code")
    return DeviceKeys(_derived(secret, _SIGNING), age.identity(_derived(secret, _AGE)))


def _derived(secret: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, None, info).derive(secret)
