"""age, the ordinary way to hand a secret to someone: its keys as text, and its files.

The only module that knows pyrage, which is loaded for files and SSH keys alone. Keys come from strangers (requests
to join, people): malformed ones, and weak ones with which anybody could decrypt, are rejected here, before anything
is encrypted to them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Final

from holdfast.core.errors import Invalid

SSH_KINDS: Final = ("ssh-ed25519", "ssh-rsa")
SECRET: Final = "AGE-SECRET-KEY-1"  # noqa: S105 - how a secret key begins
MAGIC: Final = b"age-encryption.org/v1\n"
_MAX_HEADER_SIZE: Final = 8 << 10  # each stanza in it costs a try with each identity
# There are few keys, and each recurs in every entry that names it.
_CACHE_SIZE: Final = 1024
_RECIPIENT: Final = "age"
_IDENTITY: Final = "age-secret-key-"

_LETTERS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"  # Bech32
_VALUES: Final = {letter: value for value, letter in enumerate(_LETTERS)}
_GENERATORS: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_DIGITS: Final = 52  # of 5 bits, for 32 bytes

_PRIME: Final = 2**255 - 19
# Points of Curve25519 whose product with any secret is one of a handful everybody knows.
_WEAK: Final = frozenset(
    (
        0,
        1,
        _PRIME - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    )
)


# --- keys --------------------------------------------------------------------------------------------


def recipient(public: bytes) -> str:
    """An X25519 public key as `age1…`."""
    return _bech32(_RECIPIENT, public)


def identity(secret: bytes) -> str:
    """An X25519 secret key as `AGE-SECRET-KEY-1…`."""
    return _bech32(_IDENTITY, secret).upper()


def secret_of(text: str) -> bytes | None:
    """The 32 bytes of an `AGE-SECRET-KEY-1…`, or None when it is none."""
    return _read(_IDENTITY, text.lower()) if text in (text.upper(), text.lower()) else None


@lru_cache(_CACHE_SIZE)
def is_recipient(text: str) -> bool:
    """Whether it is `age1…` as age itself writes it, whole, and no weak key."""
    public = _read(_RECIPIENT, text)
    return public is not None and not is_weak(public)


def public_of(text: str) -> str | None:
    """The recipient of an `AGE-SECRET-KEY-1…`, or None when it is none."""
    secret = secret_of(text)
    if secret is None:
        return None
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return recipient(X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw())


def shared_secret(secret: str, public: str) -> bytes | None:
    """The shared secret of two X25519 keys; None if either is not such a key."""
    own, other = secret_of(secret), _read(_RECIPIENT, public)
    if own is None or other is None or is_weak(other):
        return None
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    return X25519PrivateKey.from_private_bytes(own).exchange(X25519PublicKey.from_public_bytes(other))


def is_weak(public: bytes) -> bool:
    """Whether an X25519 public key gives everybody the same few secrets."""
    return (int.from_bytes(public, "little") & (1 << 255) - 1) % _PRIME in _WEAK


@lru_cache(_CACHE_SIZE)
def is_weak_signer(public: bytes) -> bool:
    """The same of an Ed25519 public key, by the point it is on the other curve."""
    y = (int.from_bytes(public, "little") & (1 << 255) - 1) % _PRIME
    return y == 1 or (1 + y) * pow(1 - y, -1, _PRIME) % _PRIME in _WEAK


def ssh_recipient(text: str) -> str | None:
    """An SSH public key that age accepts, in its one spelling without the comment; None when it is none."""
    kind, _, rest = text.partition(" ")
    words = rest.split()
    if kind not in SSH_KINDS or not words:
        return None
    try:
        blob = base64.b64decode(words[0], validate=True)
    except (binascii.Error, ValueError):
        return None
    name = kind.encode("ascii")
    start = len(name).to_bytes(4, "big") + name
    if not blob.startswith(start):
        return None
    if kind == "ssh-ed25519" and (
        len(blob) != len(start) + 36 or blob[len(start) : -32] != b"\0\0\0\x20" or is_weak_signer(blob[-32:])
    ):
        return None
    spelled = f"{kind} {base64.b64encode(blob).decode('ascii')}"
    pyrage = import_module("pyrage")
    try:
        pyrage.ssh.Recipient.from_str(spelled)
    except pyrage.RecipientError:
        return None
    return spelled


def is_ssh_identity(text: bytes) -> bool:
    """Whether age can open files with this SSH private key."""
    pyrage = import_module("pyrage")
    try:
        pyrage.ssh.Identity.from_buffer(text)
    except pyrage.IdentityError:
        return False
    return True


# --- files -------------------------------------------------------------------------------------------


def encrypt(to: str, plain: bytes) -> bytes:
    """An age file for one recipient, in its one spelling; `Invalid` when nothing can be sealed to it."""
    if not is_recipient(to) and ssh_recipient(to) != to:
        raise Invalid(
            "nothing can be encrypted to this public key", hint="Ask for another one: age1…, or an SSH ed25519 key."
        )
    pyrage = import_module("pyrage")
    kind = pyrage.ssh if to.startswith(SSH_KINDS) else pyrage.x25519
    sealed: bytes = pyrage.encrypt(plain, [kind.Recipient.from_str(to)])
    return sealed


def decrypt(identities: Sequence[str | bytes], blob: bytes) -> bytes | None:
    """What an age file holds, if one of the identities opens it; None for anything else, garbage too."""
    if not blob.startswith(MAGIC) or blob.find(b"\n---", 0, _MAX_HEADER_SIZE) < 0:
        return None
    pyrage = import_module("pyrage")
    known = []
    for identity in identities:
        text = identity.encode("utf-8", "replace") if isinstance(identity, str) else identity
        try:
            if text.upper().startswith(SECRET.encode("ascii")):
                known.append(pyrage.x25519.Identity.from_str(text.decode("ascii", "replace")))
            else:
                known.append(pyrage.ssh.Identity.from_buffer(text))
        except pyrage.IdentityError:
            continue
    try:
        plain: bytes = pyrage.decrypt(blob, known)
    except pyrage.DecryptError:
        return None
    except BaseException as error:
        # A file crafted to make the library fail counts as one that does not open.
        if type(error).__name__ != "PanicException":
            raise
        return None
    return plain


# --- Bech32 ------------------------------------------------------------------------------------------


def _bech32(prefix: str, data: bytes) -> str:
    number = int.from_bytes(data, "big") << 4  # 256 bits in 52 digits, the last filled up with zeros
    digits = [number >> 5 * place & 31 for place in range(_DIGITS - 1, -1, -1)]
    check = _checksum([*_expanded(prefix), *digits, 0, 0, 0, 0, 0, 0]) ^ 1
    digits += [check >> 5 * place & 31 for place in range(5, -1, -1)]
    return f"{prefix}1{''.join(_LETTERS[digit] for digit in digits)}"


def _read(prefix: str, text: str) -> bytes | None:
    if not text.startswith(f"{prefix}1") or len(text) != len(prefix) + 1 + _DIGITS + 6:
        return None
    digits = [_VALUES.get(letter, -1) for letter in text[len(prefix) + 1 :]]
    if min(digits) < 0 or _checksum([*_expanded(prefix), *digits]) != 1:
        return None
    number = 0
    for digit in digits[:_DIGITS]:
        number = number << 5 | digit
    return None if number & 15 else (number >> 4).to_bytes(32, "big")


def _expanded(prefix: str) -> list[int]:
    return [*(ord(letter) >> 5 for letter in prefix), 0, *(ord(letter) & 31 for letter in prefix)]


def _checksum(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATORS):
            if top >> bit & 1:
                check ^= generator
    return check
