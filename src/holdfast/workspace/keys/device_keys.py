"""The keys of a device, what they sign, the names derived from them, and fingerprints as words.

A device is its keys: its id is their fingerprint. A writer id that contains a part of the signing key's hash names
the one device that may publish under it, so no device can continue another's stream.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from functools import cache, cached_property
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
    """What others know of a device. Malformed or weak keys can be neither made nor decoded."""

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
        return spell_words(self._fingerprint())

    def proven_by(self, possession: bytes) -> bool:
        """Whether the holder of the signing key claims this age key, so that the pair is genuine."""
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
        """Sign for one domain: a signature of one kind of message is worthless for another kind."""
        return self._signer.sign(domain + payload)

    @property
    def possession(self) -> bytes:
        """Proves that these two keys were combined by the holder of the signing key; valid in every vault."""
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
    expected = certified_writer(signing, bytes.fromhex(writer[: 2 * _NONCE]))
    return hmac.compare_digest(expected, writer)


def is_certified(writer: str) -> bool:
    """Whether a writer id is certified, judged by its form: the ids of earlier versions are shorter."""
    return _CERTIFIED.match(writer) is not None


# --- people's keys, and boxes ------------------------------------------------------------------------

_EXPECTED: Final = "Give an age key (age1…) or an SSH public key (ssh-ed25519 AAAA…, ssh-rsa of 2048 bits or more)."
_FOREIGN: Final = ("ecdsa-", "sk-ssh-", "sk-ecdsa-", "ssh-dss")


def check_recipient(text: str) -> str:
    """A person's public key in its canonical spelling, without the comment; `Invalid` if age cannot seal to it."""
    typed = text.strip()
    if typed.upper().startswith((age_keys.SECRET, "-----BEGIN")):
        raise Invalid("this is a secret key", hint="Keep it to yourself, and give the public key that belongs to it.")
    if typed[:4].lower() == "age1":
        spelled = typed.lower() if typed.isupper() else typed
        if age_keys.is_recipient(spelled):
            return spelled
        if "1" in spelled[4:]:  # age1yubikey1…: no age key of the usual kind holds a second 1
            raise Invalid("this age key belongs to a plugin", hint=_EXPECTED)
        raise Invalid("this age key is incomplete or mistyped", hint="Copy all of it: age1 and 58 characters.")
    if typed.startswith(_FOREIGN):
        raise Invalid(f"age cannot encrypt to SSH keys of the type {typed.split()[0][:40]!a}", hint=_EXPECTED)
    if typed.startswith(age_keys.SSH_KINDS):
        if "\n" in typed:
            raise Invalid("this is more than one SSH key", hint="Give them one at a time.")
        recipient = age_keys.ssh_recipient(typed)
        if recipient is not None:
            return recipient
        raise Invalid("this SSH key is incomplete, or age cannot encrypt to it", hint=_EXPECTED)
    raise Invalid("this is not a public key", hint=_EXPECTED)


def new_request_keys() -> tuple[str, str]:
    """The keys of a vault's letter box: the public recipient, and the identity that its members share."""
    identity = age_keys.identity(os.urandom(32))
    recipient = age_keys.public_of(identity)
    assert recipient is not None
    return recipient, identity


# --- words -------------------------------------------------------------------------------------------
# 16 bytes as 13 words, which people can compare aloud or copy from paper. The list has 1,024 words of 3 to 7 letters
# that differ in their first four. It is frozen: changing a word would change every fingerprint people have noted.

FINGERPRINT_SIZE: Final = 16
WORD_COUNT: Final = 13
_BITS: Final = 10  # per word
_SPARE_BITS: Final = WORD_COUNT * _BITS - FINGERPRINT_SIZE * 8  # zeros at the end
_SEPARATOR: Final = re.compile(r"[\W_]+")
_HEX: Final = re.compile(r"[0-9a-f]+\Z")
_MAX_INPUT: Final = 1000
_RECOVERY_SIGNING: Final = b"holdfast recovery signing 1\n"
_RECOVERY_AGE: Final = b"holdfast recovery age 1\n"


@cache
def wordlist() -> tuple[str, ...]:
    from importlib import resources

    return tuple((resources.files(__package__) / "wordlist.txt").read_text("ascii").split())


def spell_words(data: bytes) -> str:
    """16 bytes as 13 words joined by dashes."""
    if len(data) != FINGERPRINT_SIZE:
        raise ValueError(f"{len(data)} bytes, not {FINGERPRINT_SIZE}")
    number = int.from_bytes(data, "big") << _SPARE_BITS
    words = wordlist()
    return "-".join(words[number >> _BITS * position & 1023] for position in range(WORD_COUNT - 1, -1, -1))


def is_fingerprint(text: str) -> bool:
    """Whether the text is some device's fingerprint, in any spelling."""
    try:
        return bool(parse_words(text))
    except Invalid:
        return False


def parse_words(text: str, *, subject: str = "fingerprint") -> bytes:
    """The 16 bytes of 13 words, or of 32 hex digits: in any case, separated by anything that is no letter.

    A word may be cut short after its fourth letter. `subject` names the input in messages.
    """
    if len(text) > _MAX_INPUT:
        raise Invalid(f"this is too long for a {subject}", hint=f"A {subject} is {WORD_COUNT} words.")
    parts = [part for part in _SEPARATOR.split(text.lower()) if part]
    joined = "".join(parts)
    if _HEX.match(joined) and (len(joined) == 2 * FINGERPRINT_SIZE or any(letter.isdigit() for letter in joined)):
        if len(joined) != 2 * FINGERPRINT_SIZE:
            raise Invalid(
                f"this {subject} has {len(joined)} hex digits",
                hint=f"It has {2 * FINGERPRINT_SIZE}, or is {WORD_COUNT} words: give all.",
            )
        return bytes.fromhex(joined)
    number = 0
    for part in parts:
        number = number << _BITS | _word_index(part, subject)
    if len(parts) != WORD_COUNT:
        counted = "1 word" if len(parts) == 1 else f"{len(parts)} words"
        raise Invalid(f"this {subject} has {counted}", hint=f"It has {WORD_COUNT}: give all of them.")
    if number & (1 << _SPARE_BITS) - 1:
        raise Invalid(
            f"this is not a {subject}: its last word cannot be {parts[-1]!a}", hint="Compare it word by word."
        )
    return (number >> _SPARE_BITS).to_bytes(FINGERPRINT_SIZE, "big")


def _word_index(part: str, subject: str) -> int:
    index = _indexes().get(part[:4])
    if index is not None and wordlist()[index].startswith(part):
        return index
    import difflib

    close = difflib.get_close_matches(part[:20], wordlist(), n=1, cutoff=0)
    raise Invalid(
        f"{part[:20]!a} is not one of the words of a {subject}",
        hint=f"Did you mean {close[0]!r}?" if close else "Compare it word by word.",
    )


@cache
def _indexes() -> dict[str, int]:
    return {word[:4]: index for index, word in enumerate(wordlist())}


def new_recovery_code() -> str:
    return spell_words(os.urandom(FINGERPRINT_SIZE))


def keys_from_code(code: str) -> DeviceKeys:
    """The device of a recovery code. 128 random bits need no slow derivation."""
    secret = parse_words(code, subject="recovery code")
    return DeviceKeys(_derive(secret, _RECOVERY_SIGNING), age_keys.identity(_derive(secret, _RECOVERY_AGE)))


def _derive(secret: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, None, info).derive(secret)
