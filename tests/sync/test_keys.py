"""A device's keys, fingerprint, signatures and writer ids, and the keys of other people."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.workspace.keys import age, device_keys
from holdfast.workspace.keys.device_keys import ENTRY, HEAD, STREAM, DeviceKeys, PublicKeys, verify

pyrage = import_module("pyrage")  # it has no types
VECTORS = json.loads((Path(__file__).parent / "vectors" / "devices.json").read_text("utf-8"))
PRIME = 2**255 - 19
DOMAINS = (ENTRY, HEAD, STREAM)
secrets = st.binary(min_size=32, max_size=32)


def test_vectors_match_the_primitives() -> None:
    """Fingerprints, signatures and writer ids, recomputed from the primitives alone."""
    for item in VECTORS:
        signer = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(item["seed"]))
        signing = signer.public_key().public_bytes_raw()
        recipient = str(pyrage.x25519.Identity.from_str(item["identity"]).to_public())
        assert (signing.hex(), recipient) == (item["signing"], item["age"])
        print_ = hashlib.sha256(b"holdfast device 1\n" + signing + recipient.encode()).hexdigest()[:32]
        assert print_ == item["fingerprint"]
        nonce = bytes.fromhex(item["nonce"])
        writer = nonce.hex() + hashlib.sha256(b"holdfast writer 1\n" + signing + nonce).hexdigest()[:24]
        assert writer == item["writer"]
        for each in item["signatures"]:
            message = each["domain"].encode() + bytes.fromhex(each["payload"])
            assert signer.sign(message).hex() == each["signature"]


def test_holdfast_gives_the_vectors() -> None:
    for item in VECTORS:
        made = DeviceKeys(bytes.fromhex(item["seed"]), age.identity(bytes.fromhex(item["age_secret"])))
        assert made.identity == item["identity"]
        assert made.public == PublicKeys(bytes.fromhex(item["signing"]), item["age"])
        assert (made.public.id, made.public.words) == (item["fingerprint"], item["words"])
        assert device_keys.certified_writer(made.public.signing, bytes.fromhex(item["nonce"])) == item["writer"]
        for domain, each in zip((ENTRY, HEAD, STREAM), item["signatures"], strict=True):
            assert domain.decode() == each["domain"]
            assert made.sign(domain, bytes.fromhex(each["payload"])).hex() == each["signature"]


@given(secrets)
def test_age_reads_our_keys(secret: bytes) -> None:
    """And derives the same public key."""
    identity = age.identity(secret)
    assert age.secret_of(identity) == secret
    recipient = age.public_of(identity)
    assert recipient == str(pyrage.x25519.Identity.from_str(identity).to_public())
    assert recipient == age.recipient(X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw())
    assert age.is_recipient(recipient)


@given(secrets, st.integers(4, 61), st.sampled_from("qpzry9x8gf2tvdw0s3jn54khce6mua7lb1ioA é"))
def test_mistyped_age_key_is_invalid(secret: bytes, at: int, letter: str) -> None:
    """One wrong letter anywhere is detected."""
    recipient = age.public_of(age.identity(secret))
    assert recipient is not None
    changed = recipient[:at] + letter + recipient[at + 1 :]
    assert age.is_recipient(changed) == (changed == recipient)


def test_generated_keys_differ_and_show_no_secrets() -> None:
    """Their repr contains no secret."""
    one, other = DeviceKeys.generate(), DeviceKeys.generate()
    assert one.public.id != other.public.id
    assert len(one.seed) == 32
    assert one.identity.startswith("AGE-SECRET-KEY-1")
    for text in (repr(one), str(one), f"{one}"):
        assert one.public.id in text
        assert one.identity not in text
        assert one.seed.hex() not in text


def test_short_seed_and_broken_identity_are_refused() -> None:
    good = DeviceKeys.generate()
    for seed, identity in (
        (b"short", good.identity),
        (good.seed, "AGE-SECRET-KEY-1XYZ"),
        (good.seed, good.public.age),
    ):
        with pytest.raises(Invalid):
            DeviceKeys(seed, identity)


def test_weak_or_malformed_public_key_is_rejected() -> None:
    """Keys whose secret everybody knows, and non-keys, can be neither created nor decoded."""
    good = DeviceKeys.generate().public
    eighth = 325606250916557431795983626356110631294008115727848805560023387167927233504
    weak = [each.to_bytes(32, "little") for each in (0, 1, PRIME - 1, PRIME, PRIME + 1, eighth, 2**255 + 1)]
    weak_signers = [each.to_bytes(32, "little") for each in (0, 1, PRIME - 1, PRIME, PRIME + 1)]
    torsion = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
    wrong = [(good.signing, age.recipient(each)) for each in weak]
    wrong += [(each, good.age) for each in (*weak_signers, torsion, b"", good.signing + b"\0")]
    wrong += [(good.signing, each) for each in ("", "age1", good.age.upper(), good.age + " ", "agé1" + good.age[4:])]
    for signing, recipient in wrong:
        with pytest.raises(ValueError):
            PublicKeys(signing, recipient)
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode({"signing": signing, "age": recipient}), type=PublicKeys)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(good), type=PublicKeys) == good


@given(st.binary(max_size=100), st.sampled_from(DOMAINS), st.sampled_from(DOMAINS))
def test_signature_is_valid_for_one_kind_and_one_content(payload: bytes, domain: bytes, other: bytes) -> None:
    device = DeviceKeys.generate()
    signature = device.sign(domain, payload)
    signing = device.public.signing
    assert verify(signing, domain, payload, signature)
    assert verify(signing, other, payload, signature) == (other == domain)
    assert not verify(signing, domain, payload + b"\0", signature)
    assert not verify(DeviceKeys.generate().public.signing, domain, payload, signature)
    assert not verify(signing, domain, payload, bytes([signature[0] ^ 1]) + signature[1:])


@given(st.binary(max_size=70), st.binary(max_size=20), st.binary(max_size=130))
def test_verifying_garbage_never_raises(signing: bytes, payload: bytes, signature: bytes) -> None:
    """The result is False, whatever a remote serves."""
    assert verify(signing, ENTRY, payload, signature) is False
    assert verify(signing.ljust(32, b"\0")[:32], ENTRY, payload, signature.ljust(64, b"\0")[:64]) is False


def test_certified_writer_matches_only_its_device() -> None:
    """Older ids are plain."""
    one, other = DeviceKeys.generate().public.signing, DeviceKeys.generate().public.signing
    writer = device_keys.certified_writer(one)
    assert len(writer) == 36
    assert device_keys.is_certified(writer)
    assert writer != device_keys.certified_writer(one)
    assert device_keys.certifies(writer, one)
    assert not device_keys.certifies(writer, other)
    for plain in ("0123456789abcdef0123", "", writer.upper().replace("0", "A"), writer + "\n", "é" * 36):
        assert not device_keys.is_certified(plain)
        assert not device_keys.certifies(plain, one)


# --- people's keys -----------------------------------------------------------------------------------


def ssh_line(blob: bytes, kind: str = "ssh-ed25519") -> str:
    name = kind.encode()
    inner = struct.pack(">I", len(name)) + name + struct.pack(">I", len(blob)) + blob
    return f"{kind} {base64.b64encode(inner).decode()}"


def test_age_key_is_accepted_in_any_spelling() -> None:
    """Surrounding blanks and capitals are allowed by age; one spelling is stored."""
    key = DeviceKeys.generate().public.age
    assert device_keys.check_recipient(f"  {key}\n") == key
    assert device_keys.check_recipient(key.upper()) == key


def test_comment_of_an_ssh_key_is_removed() -> None:
    """ed25519 and RSA keys are accepted as age accepts them."""
    public = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert device_keys.check_recipient(f"{public} me@laptop at home\n") == public
    assert device_keys.check_recipient(public.replace(" ", "  ")) == public
    rsa = generate_private_key(65537, 2048).public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert device_keys.check_recipient(f"{rsa} work") == rsa


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a public key"),
        ("hello", "not a public key"),
        ("AGE-SECRET-KEY-1QQQ", "secret key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "secret key"),
        ("age1qqqq", "incomplete"),
        ("age1yubikey1qwsrvf5", "plugin"),
        ("ecdsa-sha2-nistp256 AAAA", "cannot encrypt to SSH keys of the type 'ecdsa-sha2-nistp256'"),
        ("sk-ssh-ed25519@openssh.com AAAA", "cannot encrypt"),
        ("ssh-dss AAAA", "cannot encrypt"),
        ("ssh-ed25519", "incomplete"),
        ("ssh-ed25519 AAAA!", "incomplete"),
        ("ssh-ed25519 AAAA", "incomplete"),
        (ssh_line(bytes(31)), "incomplete"),
        (ssh_line(b"\x01" + bytes(31)), "incomplete"),
        (ssh_line(bytes(32)), "incomplete"),
        (ssh_line(bytes(range(40)), "ssh-rsa"), "incomplete"),
        (ssh_line(b"\x09" + bytes(31)) + "\nssh-ed25519 AAAA", "more than one"),
    ],
)
def test_other_keys_are_invalid(text: str, message: str) -> None:
    """The error says which keys are possible and never repeats a secret."""
    with pytest.raises(Invalid, match=message) as caught:
        device_keys.check_recipient(text)
    assert caught.value.hint
    assert "QQQ" not in caught.value.message


@given(st.text(max_size=120))
def test_any_text_is_a_key_or_invalid(text: str) -> None:
    for given_ in (text, f"age1{text}", f"ssh-ed25519 {text}", f"ssh-rsa {text}"):
        with pytest.raises(Invalid):
            device_keys.check_recipient(given_)


def test_box_is_a_pair_of_age_keys() -> None:
    """Its identity opens what is sealed to its recipient."""
    recipient, identity = device_keys.new_request_keys()
    assert device_keys.check_recipient(recipient) == recipient
    assert age.decrypt([identity], age.encrypt(recipient, b"a letter")) == b"a letter"
