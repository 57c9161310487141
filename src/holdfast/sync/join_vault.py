"""Join a vault: leave a request, read and approve requests, and complete the join once one was approved.

Anyone with write access to the remote can leave requests: each is read once, and only some at a time.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core.decode import decodable
from holdfast.core.errors import Invalid
from holdfast.core.text import MAX_NAME_LENGTH, printable
from holdfast.sync import create_vault
from holdfast.sync.protocol import entries, heads, wraps
from holdfast.sync.protocol.entries import Admit, SignedEntry
from holdfast.sync.protocol.heads import HeadName, PublishedHead
from holdfast.sync.protocol.sealing import NO_KEY, Unsealable
from holdfast.sync.read_heads import HEAD_LIMIT, read_listing
from holdfast.sync.remotes.base import Missing, ObjectTooLarge, RemoteStore
from holdfast.sync.state import FOUNDING
from holdfast.sync.vault import LocalDevice, Vault
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import PublicKeys, verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from holdfast.sync.read_heads import HeadListing
    from holdfast.sync.state import VaultState

# Requests that are remembered for display.
_MAX_REMEMBERED: Final = 20
_MEMORY_NAME: Final = "asking"
MAX_REQUEST_BYTES: Final = 16 << 10
_PROOF_CONTEXT: Final = b"holdfast accept 1\n"
# Requests read at once, chosen at random each time; objects that are no request are skipped from then on.
_MAX_READ: Final = 2_000
_MAX_LIVES: Final = 1_000
_MAX_RIVALS: Final = 16
_MAX_PASSED_OVER: Final = 20_000
_NAME: Final = re.compile(r"h/join-[0-9a-f]{32}", re.ASCII)
_CODE_LENGTH: Final = 8  # hex digits at the end of a name, derived from an invitation


class RememberedRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A device that asks to join, as the last sync saw it."""

    object: str
    device: str
    words: str
    name: str
    at: int


def remembered_requests(memory: VaultState) -> tuple[RememberedRequest, ...]:
    return memory.read(tuple[RememberedRequest, ...], _MEMORY_NAME) or ()


def remember_requests(vault: Vault, listing: HeadListing) -> None:
    """Keep requests that are still there and read new ones; only admin devices keep any."""
    members, before = vault.membership, remembered_requests(vault.memory)
    listed = set(listing.joins) if members.session is None and members.is_admin(vault.me) else set()
    current = [request for request in before if request.object in listed and not members.is_member(request.device)]
    new = sorted(listed - {request.object for request in before})
    if new:
        new = random.SystemRandom().sample(new, min(len(new), max(0, _MAX_REMEMBERED - len(current))))
        current += [
            RememberedRequest(
                object=request.object,
                device=request.keys.id,
                words=request.keys.words,
                name=request.name,
                at=request.at,
            )
            for request in list_requests(vault, new)
        ]
    if tuple(current) != before:
        with vault.local.transaction() as transaction:
            vault.memory.write(transaction, tuple(current), _MEMORY_NAME)


class _RequestDocument(msgspec.Struct, frozen=True, kw_only=True):
    holdfast: int = 1
    vault: str
    signing: bytes
    age: str
    name: str
    at: int
    proof: bytes | None = None
    possession: bytes | None = None


class JoinRequest(NamedTuple):
    """A device that asks to join, with the proof from its invitation, if it has one."""

    object: str
    keys: PublicKeys
    name: str
    at: int
    proof: bytes | None
    # Proves that the device has the signing key it names; None in a request by an earlier version.
    possession: bytes | None = None


def sign_proof(secret: bytes, keys: PublicKeys) -> bytes:
    """A signature over these keys that only the holder of an invitation's secret can make."""
    return signer(secret).sign(_PROOF_CONTEXT + _signed_bytes(keys))


def proves(request: JoinRequest, invited: bytes) -> bool:
    """Whether a request proves the secret that belongs to the public half in an invitation."""
    return request.proof is not None and verify(invited, _PROOF_CONTEXT, _signed_bytes(request.keys), request.proof)


def signer(secret: bytes) -> Ed25519PrivateKey:
    """The signing key of an invitation's secret; its public half is in the invitation."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret)


def _signed_bytes(keys: PublicKeys) -> bytes:
    return keys.signing + keys.age.encode()


def request_to_join(
    local: LocalDevice, remote: RemoteStore, signed: SignedEntry, *, secret: bytes | None = None
) -> Vault:
    """Leave a request to join the vault with this founding entry."""
    founding = entries.founding_of(signed)
    if founding is None:
        raise Invalid("there is no Holdfast vault at the remote", hint="Choose another place.")
    vault = Vault(local, remote, entries.hash_of(signed.payload))
    status = vault.memory.status()
    invited = None if secret is None else signer(secret).public_key().public_bytes_raw()
    name = status.request
    # A request with other keys or another invitation is withdrawn: its answer would be of no use.
    if (
        name is None
        or status.device not in ("", vault.me)
        or (invited and not _knows_invitation(vault, name, invited))
    ):
        name = _prefix(vault, vault.me) + os.urandom(4).hex()
        name += os.urandom(4).hex() if invited is None else _invitation_code(vault, name, invited)
    obsolete = [status.request] if status.request not in (None, name) else []
    with local.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
        vault.memory.write(transaction, replace(status, request=name, device=vault.me), "standing")
    public = local.keys.public
    document = _RequestDocument(
        vault=vault.id, signing=public.signing, age=public.age, name=local.name, at=local.now(),
        proof=None if secret is None else sign_proof(secret, public), possession=local.keys.possession,
    )  # fmt: skip
    remote.put([(name, age.encrypt(founding.box, msgspec.json.encode(document)))], remove=obsolete)
    return vault


def find_request(vault: Vault, names: Iterable[str], device: str) -> JoinRequest | None:
    """The request of this device, if any; names with its own prefix are read first."""
    own = _prefix(vault, device)
    names = set(names)
    first = {name for name in names if name.startswith(own)}
    for group in (first, names - first):
        for request in list_requests(vault, group):
            if request.keys.id == device:
                return request
    return None


def _prefix(vault: Vault, device: str) -> str:
    """The prefix of a device's request: with the fingerprint it can be picked out of any number."""
    return heads.JOINS + hashlib.sha256(f"holdfast request\n{vault.id}\n{device}".encode()).hexdigest()[:16]


def _knows_invitation(vault: Vault, name: str, invited: bytes) -> bool:
    """Whether the author of a request's name knows the invitation, by its public half."""
    return _invitation_code(vault, name[:-_CODE_LENGTH], invited) == name[-_CODE_LENGTH:]


def _invitation_code(vault: Vault, start: str, invited: bytes) -> str:
    text = f"holdfast invited\n{vault.id}\n{invited.hex()}\n".encode() + start.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_CODE_LENGTH]


def in_reading_order(vault: Vault, names: Iterable[str], invited: Iterable[bytes]) -> list[str]:
    """Requests in the order to read them: in turn for each invitation that their names show, then the rest."""
    rest = list(names)
    random.SystemRandom().shuffle(rest)
    turns = [[name for name in rest if _knows_invitation(vault, name, public)] for public in invited]
    first = [name for turn in zip_longest(*turns) for name in turn if name is not None]
    return list(dict.fromkeys([*first, *rest]))


def list_requests(vault: Vault, names: Iterable[str]) -> list[JoinRequest]:
    """The readable requests for this vault, one per device."""
    new = sorted(set(names))
    random.SystemRandom().shuffle(new)
    by_device: dict[str, JoinRequest] = {}
    for request in read_requests(vault, new):
        by_device.setdefault(request.keys.id, request)
    return list(by_device.values())


def read_requests(vault: Vault, names: Iterable[str]) -> list[JoinRequest]:
    """The requests among these by devices that are not members, in their order, up to a limit."""
    box = vault.box()
    if box is None:
        return []
    before = vault.memory.read(set[str], "no requests") or set()
    requests_read: list[JoinRequest] = []
    invalid: set[str] = set()
    for name in [name for name in names if name not in before and _NAME.fullmatch(name)][:_MAX_READ]:
        try:
            request = _parse_request(vault, name, vault.remote.get(name, MAX_REQUEST_BYTES), box)
        except Missing:
            continue
        except ObjectTooLarge:
            request = None
        if request is None:
            invalid.add(name)
        elif not vault.membership.is_member(request.keys.id):
            requests_read.append(request)
    if invalid:
        with vault.local.transaction() as transaction:
            kept = before | invalid if len(before) < _MAX_PASSED_OVER else invalid
            vault.memory.write(transaction, sorted(kept), "no requests")
    return requests_read


def _parse_request(vault: Vault, name: str, blob: bytes, box: str) -> JoinRequest | None:
    plain = age.decrypt([box], blob)
    if plain is None:
        return None  # for another vault at this remote, or no request at all
    try:
        document = msgspec.json.decode(plain, type=decodable(_RequestDocument))
        keys = PublicKeys(document.signing, document.age)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        vault.report.reject(name, "", "a request to join is malformed")
        return None
    if document.vault != vault.id or document.holdfast != 1:
        vault.report.reject(name, "", "a request to join is for another vault, or by an unknown version")
        return None
    if not _has_signing_key(vault, keys, document.possession):
        vault.report.reject(name, "", "a request to join does not prove that its signing key is its own")
        return None
    # People decide by the name: no control characters.
    return JoinRequest(
        name, keys, printable(document.name[:MAX_NAME_LENGTH]), document.at, document.proof, document.possession
    )


def _has_signing_key(vault: Vault, keys: PublicKeys, possession: bytes | None) -> bool:
    """Whether a device proves that it has the signing key it names.

    Requests by earlier versions have no proof: they are accepted if no other known device has that key.
    """
    if possession is not None:
        return keys.proven_by(possession)
    vaults = (vault,) if vault.main is None else (vault, vault.main)
    return not any(
        device.keys.signing == keys.signing and device.keys != keys
        for known in vaults
        for device in known.membership.everybody()
    )


def approve(
    vault: Vault, request: JoinRequest, *, admin: bool = False, role: str = "device", invite: str | None = None
) -> None:
    """Let a device in: one entry, one wrap, and whatever it needs that the remote lost."""
    change = vault.change()
    change.add(
        Admit, device=request.keys, name=request.name, admin=admin, role=role, invite=invite,
        possession=request.possession,
    )  # fmt: skip
    change.wrap(request.keys.age, change.wrapped(vault.ring()))
    change.store()
    create_vault.put_back(vault)
    vault.flush(remove=[request.object] if request.object else [])


def restore_access(vault: Vault, keys: PublicKeys) -> bool:
    """Put back what a member needs to get in; False when nothing of that was lost."""
    prefix, common = wraps.prefix_of(keys.age), age.shared_secret(vault.local.keys.identity, keys.age)
    done = create_vault.put_back(vault)
    # Anybody can leave files there: only one by this device shows that the keys are not lost.
    if not any(wraps.is_by_author(common, item.name.removeprefix(prefix)) for item in vault.remote.list(prefix)):
        change = vault.change()
        change.wrap(keys.age, change.wrapped(vault.ring()))
        change.commit()
        done = True
    return done


def complete_join(vault: Vault) -> bool:
    """Complete the join if the request was approved; whether it was."""
    vault.ask_for_wraps()
    if not vault.wrapped():
        return False
    vault.reload()
    vault.fetch_admission()
    if not vault.membership.is_member(vault.me) or is_locked_out(vault):
        return False
    signed = vault.founding()
    assert signed is not None
    with vault.local.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
        status = replace(vault.memory.status(), place="member", device=vault.me)
        vault.memory.write(transaction, status, "standing")
    withdraw_request(vault)
    return True


def has_other_keys(vault: Vault) -> bool:
    """Whether the vault knows this home by other keys than it has now: it can neither read nor write there."""
    status, members = vault.memory.status(), vault.membership
    if status.device in ("", vault.me) or members.is_member(vault.me) or vault.me in members.removed:
        return False
    return status.place != "out" and not (status.place == "reader" and vault.wrapped())


def is_locked_out(vault: Vault) -> bool:
    """Whether the vault continued with keys that we do not have: a removed device cannot read that it was removed.

    Anybody can leave a head that does not open: it counts only if we, or a device of the vault, have seen another
    head of the same life. Where no head opens, unreadable entries decide.
    """
    known = set(vault.memory.cursors())
    locked_lives: set[str] = set()
    opened = False
    lives = list(read_listing(vault.remote.list("h/"), vault.tag).rivals.items())
    random.SystemRandom().shuffle(lives)
    for life, rivals in sorted(lives, key=lambda item: item[0] not in known)[:_MAX_LIVES]:
        head, is_locked = _newest_head(vault, rivals)
        if head is not None:
            opened = True
            known |= {item.life for item in head.seen}
        elif is_locked:
            locked_lives.add(life)
    if locked_lives and not opened:
        vault.fetch_all_entries()
        return bool(vault.report.rejected)
    return bool(locked_lives & known)


def _newest_head(vault: Vault, rivals: list[HeadName]) -> tuple[PublishedHead | None, bool]:
    """The newest head of a life signed by a device of the vault; and whether one has an unknown key."""
    locked = False
    for listed in rivals[:_MAX_RIVALS]:
        try:
            plain = vault.open("head", listed.name, vault.remote.get(listed.name, HEAD_LIMIT), vault.candidates)
            claimed = heads.read(plain, vault.id, listed)
        except Unsealable as error:
            locked = locked or error.reason == NO_KEY
        except (Missing, ObjectTooLarge, Invalid):
            continue
        else:
            signing = vault.membership.signing_of(claimed.head.device)
            if signing is not None and claimed.is_by(signing):
                return claimed.head, locked
    return None, locked


def withdraw_request(vault: Vault) -> None:
    """Remove our request from the remote, then forget it."""
    status = vault.memory.status()
    if status.request is None:
        return
    vault.remote.put([], remove=[status.request])
    with vault.local.transaction() as transaction:
        vault.memory.write(transaction, replace(status, request=None), "standing")
