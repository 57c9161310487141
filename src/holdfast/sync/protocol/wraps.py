"""Key wraps: what a new member of a vault needs, as an ordinary age file for one recipient.

Anyone who knows a recipient can make such a file and leave it at the remote. Its contents count only once signed
membership entries confirm them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.sync.protocol import sealing
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import check_recipient

MAX_BYTES: Final = 1 << 20  # bytes: many thousands of epochs
MIN_BYTES: Final = 256  # bytes: less than the header of an age file and a vault's id take
_VAULT: Final = re.compile(r"[0-9a-f]{64}\Z")
_ENTRY: Final = re.compile(r"[0-9a-f]{64}\Z")


class KeyWrap(msgspec.Struct, frozen=True, kw_only=True):
    vault: str
    founding: bytes
    keys: list[bytes]
    box: str | None = None
    session: str | None = None
    secret: bytes | None = None
    # The membership entry that tells the recipient about these keys; earlier versions gave none.
    entry: str | None = None
    # Of several files together: every secret in them. The invitations say which one is right.
    secrets: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"<KeyWrap {self.vault[:16]}>"  # the rest is secret and must not be logged


class _WrapDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON of a wrap, with a version and bytes in base64."""

    holdfast: int
    vault: str
    founding: bytes
    keys: list[bytes]
    box: str | None
    session: str | None
    secret: bytes | None
    entry: str | None = None


# --- names at a remote -------------------------------------------------------------------------------
#
# Anyone who knows a recipient can leave any number of files for it. The last half of a name therefore holds two
# codes: one that only the recipient and holders of the vault's box can make, removed devices included; and one that
# only the recipient and the author of the file can make. The recipient reads files in turn from each author.

_CODE_LENGTH: Final = 4  # hex digits
_BY_BOX: Final = b"holdfast wrap name\n"
_BY_AUTHOR: Final = b"holdfast wrap author\n"


def prefix_of(recipient: str) -> str:
    return f"k/{sealing.recipient_tag(recipient)}-"


def new_name(recipient: str, box: str | None, identity: str) -> str:
    """A name for a wrap, by the vault's secret that opens requests to join and the author's age identity."""
    start = os.urandom(4).hex()
    by_box = None if box is None else age.shared_secret(box, recipient)
    by_author = age.shared_secret(identity, recipient)
    return (
        prefix_of(recipient)
        + start
        + (os.urandom(2).hex() if by_box is None else _code(_BY_BOX, by_box, start))
        + (os.urandom(2).hex() if by_author is None else _code(_BY_AUTHOR, by_author, start))
    )


def is_by_box(common: bytes | None, suffix: str) -> bool:
    """Whether a holder of the vault's box chose this end of a name; `common` is their shared secret.

    Names by earlier versions have this code only.
    """
    return common is not None and _code(_BY_BOX, common, suffix[:8]) == suffix[8 : 8 + _CODE_LENGTH]


def is_by_author(common: bytes | None, suffix: str) -> bool:
    """Whether one device chose this end of a name; `common` is the shared secret of recipient and author."""
    return common is not None and _code(_BY_AUTHOR, common, suffix[:8]) == suffix[8 + _CODE_LENGTH :]


def _code(kind: bytes, common: bytes, start: str) -> str:
    return hashlib.sha256(kind + common + start.encode("utf-8", "surrogatepass")).hexdigest()[:_CODE_LENGTH]


def wrap(recipient: str, wrapped: KeyWrap) -> bytes:
    """An age file that the holder of the recipient's key can open, with Holdfast or with `age`."""
    recipient = check_recipient(recipient)
    document = _WrapDocument(
        1, wrapped.vault, wrapped.founding, wrapped.keys, wrapped.box, wrapped.session, wrapped.secret, wrapped.entry
    )
    sealed = age.encrypt(recipient, msgspec.json.encode(document))
    if len(sealed) > MAX_BYTES:
        raise Refused(
            f"the keys of this vault take {len(sealed):,} bytes", hint=f"The limit for a wrap is {MAX_BYTES:,} bytes."
        )
    return sealed


def unwrap(blob: bytes, identities: Sequence[str | bytes]) -> KeyWrap | None:
    """Open a wrap with one of these identities; None when it is for another recipient, or no wrap."""
    plain = age.decrypt(identities, blob) if len(blob) <= MAX_BYTES else None
    if plain is None:
        return None
    try:
        document = msgspec.json.decode(plain, type=decodable(_WrapDocument))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if document.holdfast != 1 or not _VAULT.match(document.vault) or any(len(key) != 32 for key in document.keys):
        return None
    if document.box is not None and age.secret_of(document.box) is None:
        return None
    return KeyWrap(
        vault=document.vault,
        founding=document.founding,
        keys=document.keys,
        box=document.box,
        session=document.session,
        secret=document.secret,
        entry=document.entry if document.entry is not None and _ENTRY.match(document.entry) else None,
    )


# --- a person's own secret key -----------------------------------------------------------------------

_PLUGIN: Final = b"AGE-PLUGIN-"
_ENCRYPTED: Final = (age.MAGIC, b"-----BEGIN AGE ENCRYPTED FILE-----")
_PROTECTED_HINT: Final = (
    "Holdfast does not ask for passphrases: copy the file, remove the passphrase from the copy with ssh-keygen -p, "
    "and delete the copy afterwards; or ask for the session to be shared with an age key."
)


def read_identity(text: bytes) -> list[str | bytes]:
    """The identities in an age identity file or an SSH private key, as `unwrap` takes them."""
    start = text.lstrip()
    if start.startswith(_ENCRYPTED):
        raise Refused("this age identity is protected by a passphrase", hint="Pipe it in: age -d FILE | … -")
    if start.startswith(b"-----BEGIN"):
        recipient_of(start)  # raises an error that says what is wrong
        if not age.is_ssh_identity(start):
            raise _unusable_key_error()
        return [start]
    identities: list[str | bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith(b"#"):
            continue
        if entry.upper().startswith(_PLUGIN):
            raise Refused(
                "this age identity belongs to a plugin",
                hint="Give an identity file that holds the secret key itself.",
            )
        identity = entry.decode("ascii", "replace")
        if age.secret_of(identity) is None:
            raise Invalid(
                f"line {number} of the identity is not an age secret key",
                hint="Give an age identity file (AGE-SECRET-KEY-1…) or an SSH private key.",
            )
        identities.append(identity.upper())
    if not identities:
        raise Invalid("the file holds no secret key", hint="Give an age identity file or an SSH private key.")
    return identities


def recipient_of(identity: str | bytes) -> str:
    """The public key of an identity, by which its wraps are named."""
    if isinstance(identity, str) or not identity.startswith(b"-----BEGIN"):
        text = identity if isinstance(identity, str) else identity.decode("ascii", "replace")
        public = age.public_of(text)
        if public is None:
            raise Invalid("this is not an age secret key", hint="It begins with AGE-SECRET-KEY-1.")
        return public
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    ssh = identity.startswith(b"-----BEGIN OPENSSH")
    load = serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key
    try:
        key = load(identity, None)
        line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    except TypeError:
        raise Refused("this private key is protected by a passphrase", hint=_PROTECTED_HINT) from None
    except (ValueError, UnsupportedAlgorithm, AttributeError):
        raise _unusable_key_error() from None
    return check_recipient(line.decode("ascii"))


def _unusable_key_error() -> HoldfastError:
    return Invalid("age cannot use this private key", hint="Give an ed25519 SSH key, or an age key.")
