"""Key wraps: ordinary age files, opened by us, by `age` and by SSH keys; everything else is rejected."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid, Refused
from holdfast.sync.protocol import wraps
from holdfast.sync.protocol.wraps import KeyWrap, read_identity, recipient_of, unwrap, wrap
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import DeviceKeys, new_request_keys

pyrage = import_module("pyrage")  # it has no types
IN_CI = bool(os.environ.get("HOLDFAST_CI"))  # read at import: tests run with an empty environment
DEVICE = DeviceKeys.generate()
BOX = new_request_keys()[1]
FULL = KeyWrap(
    vault="0f" * 32,
    founding=b"\x00the signed founding entry\xff",
    keys=[bytes([each]) * 32 for each in range(3)],
    box=BOX,
    session="2026-11-15-add-oauth",
    secret=b"\xff" * 32,
)
BARE = KeyWrap(vault="0f" * 32, founding=b"", keys=[])


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        if IN_CI:
            pytest.fail(f"{name} is not installed, and this run must not leave anything out")
        pytest.skip(f"{name} is not installed")
    return path


def expected(wrapped: KeyWrap) -> dict[str, object]:
    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return {
        "holdfast": 1,
        "vault": wrapped.vault,
        "founding": text(wrapped.founding),
        "keys": [text(key) for key in wrapped.keys],
        "box": wrapped.box,
        "session": wrapped.session,
        "secret": None if wrapped.secret is None else text(wrapped.secret),
    }


def private(key: Ed25519PrivateKey, encryption: KeySerializationEncryption | None = None) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, encryption or NoEncryption())


def test_wrap_round_trips() -> None:
    """The device's identity opens it, also among other identities."""
    for wrapped in (FULL, BARE):
        blob = wrap(DEVICE.public.age, wrapped)
        assert unwrap(blob, [DeviceKeys.generate().identity, DEVICE.identity]) == wrapped


def test_wrap_contains_the_documented_json() -> None:
    """Any other program can read it."""
    for wrapped in (FULL, BARE):
        plain = pyrage.decrypt(wrap(DEVICE.public.age, wrapped), [pyrage.x25519.Identity.from_str(DEVICE.identity)])
        assert json.loads(plain) == expected(wrapped)


def test_wrap_for_another_recipient_does_not_open() -> None:
    """With no identity, another device's, or an invalid one."""
    blob = wrap(DEVICE.public.age, FULL)
    other: list[list[str | bytes]] = [
        [], [DeviceKeys.generate().identity], ["nonsense", b"\xff", "AGE-SECRET-KEY-1XYZ", "é"],
    ]  # fmt: skip
    for identities in other:
        assert unwrap(blob, identities) is None


def test_wrap_repr_shows_no_secret() -> None:
    assert BOX not in repr(FULL)
    assert "x00" not in repr(FULL)


def test_age_program_opens_a_wrap(tmp_path: Path) -> None:
    """`age -d` with the device's identity in a file prints the JSON."""
    age_program = program("age")
    (tmp_path / "identity").write_text(f"# a comment\n{DEVICE.identity}\n")
    (tmp_path / "wrap").write_bytes(wrap(DEVICE.public.age, FULL))
    done = subprocess.run(
        [age_program, "-d", "-i", str(tmp_path / "identity"), str(tmp_path / "wrap")], capture_output=True, check=True
    )
    assert json.loads(done.stdout) == expected(FULL)


def test_ssh_key_opens_a_wrap(tmp_path: Path) -> None:
    """With us and with `age`; a key with a passphrase is refused with a hint."""
    keygen = program("ssh-keygen")
    for kind in ("ed25519", "rsa"):
        path = tmp_path / kind
        subprocess.run([keygen, "-q", "-t", kind, "-N", "", "-C", "me at home", "-f", str(path)], check=True)
        identities = read_identity(path.read_bytes())
        public = path.with_suffix(".pub").read_text()
        blob = wrap(public, FULL)
        assert unwrap(blob, identities) == FULL
        assert public.startswith(recipient_of(identities[0]) + " ")
        if shutil.which("age") or IN_CI:
            done = subprocess.run(
                [program("age"), "-d", "-i", str(path)], input=blob, capture_output=True, check=True
            )
            assert json.loads(done.stdout) == expected(FULL)
    path = tmp_path / "protected"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "password", "-f", str(path)], check=True)
    with pytest.raises(Refused, match="passphrase") as caught:
        read_identity(path.read_bytes())
    assert "ssh-keygen -p" in str(caught.value.hint)


def test_changed_wrap_does_not_open_as_anything_else() -> None:
    """No byte can be changed, removed or appended."""
    blob = wrap(DEVICE.public.age, FULL)
    for at in range(len(blob)):
        changed = bytearray(blob)
        changed[at] ^= 0x01
        assert unwrap(bytes(changed), [DEVICE.identity]) in (None, FULL), at  # parts of the padding have no meaning
        assert unwrap(blob[:at], [DEVICE.identity]) is None
    assert unwrap(blob + b"\0", [DEVICE.identity]) is None


@given(st.binary(max_size=300), st.booleans())
def test_garbage_is_not_a_wrap(garbage: bytes, begun: bool) -> None:
    blob = b"age-encryption.org/v1\n-> X25519 " + garbage + b"\n--- " + garbage if begun else garbage
    assert unwrap(blob, [DEVICE.identity]) is None


def test_wrap_with_a_weak_share_is_rejected() -> None:
    """Such a share gives everybody the same secret."""
    lines = age.encrypt(DEVICE.public.age, b"{}").split(b"\n")
    lines[1] = b"-> X25519 " + b"A" * 43
    assert unwrap(b"\n".join(lines), [DEVICE.identity]) is None


@pytest.mark.parametrize(
    "inside",
    [
        b"", b"\xff", b"[]", b"{}", b"[" * 100_000,
        json.dumps(expected(FULL) | {"holdfast": 2}).encode(),
        json.dumps(expected(FULL) | {"vault": "../up"}).encode(),
        json.dumps(expected(FULL) | {"vault": "0F" * 32}).encode(),
        json.dumps(expected(FULL) | {"keys": ["AAAA"]}).encode(),
        json.dumps(expected(FULL) | {"keys": ["?"]}).encode(),
        json.dumps(expected(FULL) | {"box": "age1"}).encode(),
        json.dumps({"holdfast": 1, "vault": "0f" * 32}).encode(),
    ],
)  # fmt: skip
def test_age_file_with_other_content_is_not_a_wrap(inside: bytes) -> None:
    """Anybody can encrypt to a device."""
    assert unwrap(age.encrypt(DEVICE.public.age, inside), [DEVICE.identity]) is None


def test_unknown_fields_of_a_wrap_are_ignored() -> None:
    more = json.dumps(expected(FULL) | {"colour": "green"}).encode()
    assert unwrap(age.encrypt(DEVICE.public.age, more), [DEVICE.identity]) == FULL


def test_too_large_wrap_is_neither_created_nor_opened() -> None:
    """Nor one whose header would cost much time."""
    with pytest.raises(Refused, match="bytes"):
        wrap(DEVICE.public.age, KeyWrap(vault="0f" * 32, founding=bytes(wraps.MAX_BYTES), keys=[]))
    large = age.encrypt(DEVICE.public.age, json.dumps(expected(FULL)).encode() + b" " * wraps.MAX_BYTES)
    assert unwrap(large, [DEVICE.identity]) is None
    many = [pyrage.x25519.Recipient.from_str(DEVICE.public.age)] * 200
    assert unwrap(pyrage.encrypt(json.dumps(expected(FULL)).encode(), many), [DEVICE.identity]) is None


def test_weak_or_broken_recipient_is_refused_before_encrypting() -> None:
    for recipient in (age.recipient(bytes(32)), "age1qqq", "nobody"):
        with pytest.raises(Invalid):
            wrap(recipient, FULL)
        with pytest.raises(Invalid, match="nothing can be encrypted"):
            age.encrypt(recipient, b"a letter")


# --- a person's own secret key -----------------------------------------------------------------------


def test_age_identity_file_is_read() -> None:
    """Comments and empty lines are skipped, every identity is read."""
    other = DeviceKeys.generate()
    text = f"# created: today\r\n\r\n{DEVICE.identity}\r\n# {DEVICE.public.age}\r\n {other.identity.lower()}\n"
    identities = read_identity(text.encode())
    assert identities == [DEVICE.identity, other.identity]
    assert [recipient_of(each) for each in identities] == [DEVICE.public.age, other.public.age]
    assert recipient_of(DEVICE.identity.encode()) == DEVICE.public.age


def test_age_keygen_file_is_read(tmp_path: Path) -> None:
    subprocess.run([program("age-keygen"), "-o", str(tmp_path / "key")], check=True, capture_output=True)
    text = (tmp_path / "key").read_bytes()
    (identity,) = read_identity(text)
    assert recipient_of(identity).encode() in text


def test_ssh_private_keys_are_read() -> None:
    """OpenSSH keys and older RSA keys give their public key."""
    key = Ed25519PrivateKey.generate()
    (identity,) = read_identity(b"\n" + private(key))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert recipient_of(identity) == public
    assert unwrap(wrap(public, FULL), [identity, DEVICE.identity]) == FULL
    rsa = generate_private_key(65537, 2048)
    (old,) = read_identity(rsa.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    assert unwrap(wrap(recipient_of(old), FULL), [old]) == FULL


def test_protected_identities_are_refused() -> None:
    """Anything that needs a passphrase or a plugin is refused with a hint."""
    rsa, secret = generate_private_key(65537, 2048), BestAvailableEncryption(b"password")
    protected = [
        rsa.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, secret),
        rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret),
        age.encrypt(DEVICE.public.age, DEVICE.identity.encode()),
        b"-----BEGIN AGE ENCRYPTED FILE-----\nAAAA\n",
        b"# a card\nAGE-PLUGIN-YUBIKEY-1QQQQ\n",
    ]
    for text in protected:
        with pytest.raises(Refused) as caught:
            read_identity(text)
        assert caught.value.hint


def test_other_identities_are_invalid() -> None:
    """Public keys, other kinds of keys and garbage; the error does not repeat them."""
    ec = generate_ec(SECP256R1())
    wrong = [
        b"", b"# nothing\n", b"\xff\xfe", b"hello", DEVICE.public.age.encode(), DEVICE.identity[:-1].encode(),
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", b"-----BEGIN NOTHING-----",
        private(Ed25519PrivateKey.generate())[:-60],
        Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ec.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        generate_private_key(65537, 1024).private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(Invalid) as caught:
            read_identity(text)
        assert caught.value.hint
        assert DEVICE.identity[:30] not in caught.value.message


@given(st.binary(max_size=300), st.sampled_from([b"", b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"-----BEGIN RSA"]))
def test_any_identity_is_read_or_refused(text: bytes, start: bytes) -> None:
    with pytest.raises((Invalid, Refused)):
        read_identity(start + text)
