"""A reader of vaults written from docs/internals/sync.md and docs/internals/log.md alone.

It imports nothing of Holdfast: what it can read, another program can. It omits the limits, and reports about hostile
remotes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.sync.independent_members import ADMIN, GUEST, Members, SignedEntry, entry_hash, signed_by

pyrage = import_module("pyrage")  # it has no types
try:
    zstd = import_module("compression.zstd")
except ImportError:
    zstd = import_module("backports.zstd")

HEAD = re.compile(r"h/([0-9a-f]{16})\.([0-9a-f]{20})-([0-9]{12})")
Folder = Mapping[str, bytes]


def tag(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).digest()[:size].hex()


def vault_tag(vault: str) -> str:
    return tag(f"holdfast vault tag\n{vault}", 8)


class Opened(NamedTuple):
    """A vault with everything this device can read of it."""

    vault: str
    session: str | None
    members: Members
    events: list[dict[str, Any]]


def wraps(folder: Folder, identity: str, recipient: str) -> list[dict[str, Any]]:
    """The content of the key wraps for an age identity."""
    prefix = "k/" + tag(f"holdfast recipient\n{recipient}", 16) + "-"
    key = pyrage.x25519.Identity.from_str(identity)
    return [json.loads(pyrage.decrypt(data, [key])) for name, data in folder.items() if name.startswith(prefix)]


def founding(folder: Folder) -> SignedEntry:
    """The public founding entry of the main vault."""
    document = json.loads(folder["vault"])
    assert document["holdfast"] == 1
    return base64.b64decode(document["entry"]), base64.b64decode(document["signature"])


def read(folder: Folder, identity: str, recipient: str) -> dict[str, Opened]:
    """Every vault at a remote that this device has keys for, by id."""
    mine: dict[str, list[dict[str, Any]]] = {}
    for wrap in wraps(folder, identity, recipient):
        assert wrap["holdfast"] == 1
        mine.setdefault(wrap["vault"], []).append(wrap)
    return {vault: _vault(folder, vault, wraps) for vault, wraps in mine.items()}


def _vault(folder: Folder, vault: str, wraps: list[dict[str, Any]]) -> Opened:
    ring = {base64.b64decode(key) for entry in wraps for key in entry["keys"]}
    first = msgspec.msgpack.decode(base64.b64decode(wraps[0]["founding"]), type=SignedEntry)
    assert entry_hash(first[0]) == vault
    session = msgspec.msgpack.decode(first[0])["session"]
    if session is None:
        assert founding(folder) == first
    members = Members([first, *_entries(folder, vault, ring)], vault)
    named = {key for key in ring if hashlib.sha256(b"holdfast key id\n" + key).digest()[:16].hex() in members.keys}
    events: dict[str, dict[str, Any]] = {}
    for head in _heads(folder, vault, ring, members):
        for name, _, _, size, digest in head["packs"]:
            full = f"p/{vault_tag(vault)}/{name}"
            sealed = folder[full]
            assert len(sealed) == size
            assert hashlib.sha256(sealed).digest() == digest
            for event in _events(unseal(named, "pack", vault, full, sealed), vault, session, members):
                events[event["hash"]] = event
    return Opened(vault, session, members, sorted(events.values(), key=lambda one: (one["clock"], one["hash"])))


def unseal(ring: set[bytes], kind: str, vault: str, name: str, sealed: bytes) -> bytes:
    assert sealed[:4] == b"HFS1"
    salt, hint = sealed[4:36], sealed[36:44]
    header = f"holdfast seal 1\n{kind}\n{vault}\n{name}".encode()
    for key in ring:
        made = HKDF(SHA256(), 40, salt, header).derive(key)
        if hmac.compare_digest(made[32:], hint):
            packed = AESGCM(made[:32]).decrypt(bytes(12), sealed[44:], sealed[:44] + header)
            plain: bytes = zstd.decompress(packed)
            return plain
    raise ValueError(f"no key opens {name}")


def _entries(folder: Folder, vault: str, ring: set[bytes]) -> Iterator[SignedEntry]:
    prefix = f"m/{vault_tag(vault)}/"
    for name, sealed in folder.items():
        if name.startswith(prefix):
            signed = msgspec.msgpack.decode(unseal(ring, "entry", vault, name, sealed), type=SignedEntry)
            assert name == prefix + tag(f"holdfast entry name\n{vault}\n{entry_hash(signed[0])}", 20)
            yield signed


def _heads(folder: Folder, vault: str, ring: set[bytes], members: Members) -> Iterator[dict[str, Any]]:
    """The newest head of each writer, if signed by the device it names and that device belongs to the vault."""
    newest: dict[str, tuple[int, str]] = {}
    for name in folder:
        parts = HEAD.fullmatch(name)
        if parts is not None and parts[1] == vault_tag(vault):
            newest[parts[2]] = max(newest.get(parts[2], (0, "")), (int(parts[3]), name))
    for life, (counter, name) in newest.items():
        payload, signature = msgspec.msgpack.decode(unseal(ring, "head", vault, name, folder[name]), type=SignedEntry)
        head = msgspec.msgpack.decode(payload)
        assert (head["v"], head["vault"], head["counter"]) == (1, vault, counter)
        assert tag(f"holdfast life tag\n{vault}\n{head['writer']}", 10) == life
        keys = members.keys_of.get(head["device"])
        if head["device"] not in members.members or keys is None:
            continue
        assert signed_by(keys["signing"], b"holdfast head 1\n", payload, signature)
        assert certified(head["writer"], keys["signing"])
        covered = 0
        for _, first, last, _, _ in head["packs"]:
            assert covered + 1 == first <= last
            covered = last
        yield head


def certified(writer: str, signing: bytes) -> bool:
    if len(writer) != 36:
        return False
    nonce = bytes.fromhex(writer[:12])
    return writer[12:] == hashlib.sha256(b"holdfast writer 1\n" + signing + nonce).hexdigest()[:24]


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────


def _events(plain: bytes, vault: str, only: str | None, members: Members) -> Iterator[dict[str, Any]]:
    version, stretches = msgspec.msgpack.decode(plain)
    assert version == 1
    for session, writer, first, prev, device, signature, packed in stretches:
        events = _linked(session, writer, first, prev, packed)
        words = f"{vault}\n{session}\n{writer}\n{events[-1]['seq']}\n{events[-1]['hash']}".encode()
        keys = members.keys_of.get(device)
        if device not in members.members or keys is None or only not in (None, session):
            continue
        assert signed_by(keys["signing"], b"holdfast stream 1\n", words, signature)
        role = members.members[device]
        if certified(writer, keys["signing"]) or role == ADMIN or (len(writer) == 20 and role != GUEST):
            yield from events


def _linked(
    session: str, writer: str, first: int, before: bytes | None, packed: list[list[Any]]
) -> list[dict[str, Any]]:
    events = []
    prev = None if before is None else before.hex()
    for seq, (v, clock, at, seen, key, actor, type_, data, salt, body) in enumerate(packed, first):
        digest = body if data is None else hashlib.sha256(salt + data).digest()
        envelope = {
            "v": v, "session": session, "writer": writer, "seq": seq, "clock": clock, "at": moment(at),
            "seen": seen or [], "key": key, "actor": actor, "type": type_, "body": digest.hex(), "prev": prev,
        }  # fmt: skip
        canonical = json.dumps(envelope, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        prev = hashlib.sha256(b"holdfast event 1\n" + canonical).hexdigest()
        content = None if data is None else json.loads(data)
        events.append({**envelope, "hash": prev, "data": content, "salt": None if salt is None else salt.hex()})
    return events


def moment(ms: int) -> str:
    written = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    return written.replace("+00:00", "Z")
