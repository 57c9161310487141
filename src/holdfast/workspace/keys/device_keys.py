"""The keys of a device, what they sign, and the names that follow from them.

A device is its keys: its id is their fingerprint. A writer id that carries a part of the signing key's hash names
the one device that may publish under it, so nobody can go on with another's stream.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.errors import Invalid
from holdfast.workspace.keys import age as age_keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ENTRY: Final = b"holdfast entry 1\n"
HEAD: Final = b"holdfast head 1\n"
STREAM: Final = b"holdfast stream 1\n"
POSSESSION: Final = b"holdfast possession 1\n"

_DEVICE: Final = b"holdfast device 1\n"
_WRITER: Final = b"holdfast writer 1\n"
_NONCE: Final = 6
_CERTIFIED: Final = re.compile(r"[0-9a-f]{36}\Z")


class PublicKeys(msgspec.Struct, frozen=True):
    """What others know of a device. One that is malformed or weak cannot be made, nor decoded."""

    signing: bytes
    age: str

    def __post_init__(self) -> None:
        if len(self.signing) != 32 or age_keys.is_weak_signer(self.signing):
            raise ValueError("not a signing key")
        if not age_keys.is_recipient(self.age):
            raise ValueError("not an age key")

    @property
    def id(self) -> str:
        """The fingerprint: 32 hex digits."""
        return self._fingerprint().hex()

    @property
    def words(self) -> str:
        """The fingerprint as people compare it."""
        from holdfast.workspace.keys.words import spell

        return spell(self._fingerprint())

    def proven_by(self, possession: bytes) -> bool:
        """Whether the holder of the signing key named this age key as theirs: then nobody else made up the pair."""
        return verify(self.signing, POSSESSION, self.age.encode("ascii"), possession)

    def _fingerprint(self) -> bytes:
        return hashlib.sha256(_DEVICE + self.signing + self.age.encode("ascii")).digest()[:16]


class DeviceKeys:
    """The secret half: an Ed25519 seed and an age identity."""

    def __init__(self, seed: bytes, identity: str) -> None:
        if len(seed) != 32 or age_keys.secret_of(identity) is None:
            raise Invalid("these are not device keys", hint="A seed is 32 bytes, an identity AGE-SECRET-KEY-1….")
        self.seed = seed
        self.identity = identity

    @classmethod
    def generate(cls) -> DeviceKeys:
        return cls(os.urandom(32), age_keys.identity(os.urandom(32)))

    @cached_property
    def _signer(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @cached_property
    def public(self) -> PublicKeys:
        recipient = age_keys.public_of(self.identity)
        assert recipient is not None
        return PublicKeys(self._signer.public_key().public_bytes_raw(), recipient)

    def sign(self, domain: bytes, payload: bytes) -> bytes:
        """The domain says what kind of thing is signed: one kind's signature is worth nothing for another."""
        return self._signer.sign(domain + payload)

    @property
    def possession(self) -> bytes:
        """Proves that whoever made up this pair of keys has the signing key; it holds in every vault."""
        return self.sign(POSSESSION, self.public.age.encode("ascii"))

    def __repr__(self) -> str:
        return f"<DeviceKeys {self.public.id}>"


def verify(signing: bytes, domain: bytes, payload: bytes, signature: bytes) -> bool:
    """Whether the holder of `signing` signed it. Never raises: all of it may come from a hostile remote."""
    if len(signing) != 32 or len(signature) != 64 or age_keys.is_weak_signer(signing):
        return False
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, domain + payload)
    except (InvalidSignature, ValueError):
        return False
    return True


# --- writers -----------------------------------------------------------------------------------------


def certified_writer(signing: bytes, nonce: bytes | None = None) -> str:
    """A writer id that only the device with this signing key may publish under."""
    if nonce is None:
        nonce = os.urandom(_NONCE)
    return nonce.hex() + hashlib.sha256(_WRITER + signing + nonce).hexdigest()[:24]


def certifies(writer: str, signing: bytes) -> bool:
    """Whether a certified writer id names the device with this signing key."""
    if not is_certified(writer):
        return False
    made = certified_writer(signing, bytes.fromhex(writer[: 2 * _NONCE]))
    return hmac.compare_digest(made, writer)


def is_certified(writer: str) -> bool:
    """By its shape: the ids of earlier days are shorter."""
    return _CERTIFIED.match(writer) is not None


# --- people's keys, and boxes ------------------------------------------------------------------------

_WANTED: Final = "Give an age key (age1…) or an SSH public key (ssh-ed25519 AAAA…, ssh-rsa of 2048 bits or more)."
_FOREIGN: Final = ("ecdsa-", "sk-ssh-", "sk-ecdsa-", "ssh-dss")


def check_recipient(text: str) -> str:
    """A person's public key in its one spelling, without the comment; `Invalid` when nothing can be sealed to it."""
    given = text.strip()
    if given.upper().startswith((age_keys.SECRET, "-----BEGIN")):
        raise Invalid("this is a secret key", hint="Keep it to yourself, and give the public key that belongs to it.")
    if given[:4].lower() == "age1":
        spelled = given.lower() if given.isupper() else given
        if age_keys.is_recipient(spelled):
            return spelled
        if "1" in spelled[4:]:  # age1yubikey1…: no age key of the usual kind holds a second 1
            raise Invalid("this age key belongs to a plugin", hint=_WANTED)
        raise Invalid("this age key is not whole, or mistyped", hint="Copy all of it: age1 and 58 characters.")
    if given.startswith(_FOREIGN):
        raise Invalid(f"age cannot seal to SSH keys of the kind {given.split()[0][:40]!a}", hint=_WANTED)
    if given.startswith(age_keys.SSH_KINDS):
        if "\n" in given:
            raise Invalid("this is more than one SSH key", hint="Give them one at a time.")
        found = age_keys.ssh_recipient(given)
        if found is not None:
            return found
        raise Invalid("this SSH key is not whole, or one that age cannot seal to", hint=_WANTED)
    raise Invalid("this is not a public key", hint=_WANTED)


def new_box() -> tuple[str, str]:
    """The keys of a vault's letter box: the recipient everybody knows, and the identity its members share."""
    identity = age_keys.identity(os.urandom(32))
    recipient = age_keys.public_of(identity)
    assert recipient is not None
    return recipient, identity
