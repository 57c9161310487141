"""Seal objects for a remote: zstd, then AES-256-GCM under a key that is used once; and the opaque names there.

The key and a short hint are derived from the data key, a random salt and a header with the object's kind, vault and
name: moved to another place, it does not open. The hint tells which key of the ring it is.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from typing import Final

from holdfast.core.errors import Damaged, Failed
from holdfast.machine.zstd import Zstandard, zstandard

MAGIC: Final = b"HFS1"
_SALT_LENGTH: Final = 32
_HINT_LENGTH: Final = 8
_PREFIX_LENGTH: Final = len(MAGIC) + _SALT_LENGTH + _HINT_LENGTH
_TAG_LENGTH: Final = 16
_NONCE: Final = bytes(12)  # every key is used once
_HEADER: Final = "holdfast seal 1\n"
# The window of level 3 at any size; no more memory than the limit and this is used.
_SMALLEST_WINDOW: Final = 21

NOT_SEALED: Final = "is not sealed, or was changed"
NEWER: Final = "was written by a newer Holdfast"
NO_KEY: Final = "is sealed with an unknown key, or was changed"
CHANGED: Final = "was changed"
TOO_LARGE: Final = "is too large"
UNREADABLE: Final = "has damaged compressed data"


class Unsealable(Damaged):
    """An object of a remote that cannot be opened. `reason` is one of the predicates above."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        hint = "Update Holdfast." if reason == NEWER else "Other data is not affected; holdfast doctor says more."
        super().__init__(f"the {kind} {name!a} {reason}", hint=hint, operation="open")
        self.reason = reason


def seal(
    key: bytes, kind: str, vault: str, name: str, plain: bytes, *, salt: bytes | None = None, level: int = 3
) -> bytes:
    """Seal `plain` under a key, for this place only. The salt is random unless a test vector fixes it."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    header = _header(kind, vault, name)
    if salt is None:
        salt = os.urandom(_SALT_LENGTH)
    object_key, hint = _derive(key, salt, header)
    prefix = MAGIC + salt + hint
    return prefix + AESGCM(object_key).encrypt(_NONCE, _zstd().compress(plain, level), prefix + header)


def unseal(ring: Iterable[bytes], kind: str, vault: str, name: str, sealed: bytes, *, limit: int) -> bytes:
    """Open what was sealed for this place with a key of the ring; `Unsealable` for anything else."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if sealed[:3] != MAGIC[:3]:
        raise Unsealable(kind, name, NOT_SEALED)
    if sealed[3:4] != MAGIC[3:]:
        raise Unsealable(kind, name, NEWER if len(sealed) > 3 else NOT_SEALED)
    if len(sealed) < _PREFIX_LENGTH + _TAG_LENGTH or not (vault.isascii() and name.isascii()):
        raise Unsealable(kind, name, NOT_SEALED)
    header = _header(kind, vault, name)
    salt, hint = sealed[len(MAGIC) : len(MAGIC) + _SALT_LENGTH], sealed[len(MAGIC) + _SALT_LENGTH : _PREFIX_LENGTH]
    for key in ring:
        object_key, key_hint = _derive(key, salt, header)
        if not hmac.compare_digest(key_hint, hint):
            continue
        try:
            packed = AESGCM(object_key).decrypt(_NONCE, sealed[_PREFIX_LENGTH:], sealed[:_PREFIX_LENGTH] + header)
        except InvalidTag:
            raise Unsealable(kind, name, CHANGED) from None
        return _decompress(kind, name, packed, limit)
    raise Unsealable(kind, name, NO_KEY)


def new_key() -> bytes:
    return os.urandom(32)


def key_id(key: bytes) -> str:
    """The id by which membership entries name a key."""
    return hashlib.sha256(b"holdfast key id\n" + key).digest()[:16].hex()


def _header(kind: str, vault: str, name: str) -> bytes:
    return f"{_HEADER}{kind}\n{vault}\n{name}".encode("ascii")


def _derive(key: bytes, salt: bytes, header: bytes) -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(SHA256(), 32 + _HINT_LENGTH, salt, header).derive(key)
    return derived[:32], derived[32:]


def _decompress(kind: str, name: str, packed: bytes, limit: int) -> bytes:
    """Decompress exactly one frame. Members can be hostile too: content and window stay within the limit."""
    zstd = _zstd()
    window = min(max((limit - 1).bit_length(), _SMALLEST_WINDOW), 27)
    try:
        unpacking = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window})
        parts = [unpacking.decompress(packed, limit + 1)]
        size = len(parts[0])
        while size <= limit and not unpacking.eof and not unpacking.needs_input:
            parts.append(unpacking.decompress(b"", limit + 1 - size))
            size += len(parts[-1])
    except zstd.ZstdError:
        raise Unsealable(kind, name, UNREADABLE) from None
    if size > limit:
        raise Unsealable(kind, name, TOO_LARGE)
    if not unpacking.eof or unpacking.unused_data:
        raise Unsealable(kind, name, UNREADABLE)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd() -> Zstandard:
    module = zstandard()
    if module is None:
        raise Failed("this Python has no module for Zstandard", hint="Install backports.zstd.", operation="sync")
    return module


# --- names at a remote -------------------------------------------------------------------------------


def vault_tag(vault: str) -> str:
    return _tag(f"holdfast vault tag\n{vault}", 8)


def life_tag(vault: str, writer: str) -> str:
    return _tag(f"holdfast life tag\n{vault}\n{writer}", 10)


def entry_name(vault: str, entry: str) -> str:
    """The name of a membership entry, from its hash."""
    return _tag(f"holdfast entry name\n{vault}\n{entry}", 20)


def recipient_tag(recipient: str) -> str:
    return _tag(f"holdfast recipient\n{recipient}", 16)


def _tag(text: str, size: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:size].hex()
