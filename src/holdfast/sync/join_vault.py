"""Who asks to be let in, as the last sync saw it: remembered, so that it can be told without asking the remote."""

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
from holdfast.sync.protocol.entries import Admit, Signed
from holdfast.sync.protocol.heads import HeadName, PublishedHead
from holdfast.sync.protocol.sealing import NO_KEY, Unsealable
from holdfast.sync.read_heads import HEAD_LIMIT, look
from holdfast.sync.remotes.base import Missing, ObjectTooLarge, RemoteStore
from holdfast.sync.state import FOUNDING
from holdfast.sync.vault import ThisDevice, Vault
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import PublicKeys, verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from holdfast.sync.read_heads import HeadListing
    from holdfast.sync.state import VaultState

# Anybody who can write to the remote can leave requests: what nobody would read through is not fetched by each sync.
_MOST_ASKING: Final = 20
_MEMORY_NAME: Final = "asking"


class Asks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A device that asks to be let in."""

    object: str
    device: str
    words: str
    name: str
    at: int


def remembered(memory: VaultState) -> tuple[Asks, ...]:
    return memory.read(tuple[Asks, ...], _MEMORY_NAME) or ()


def remember(vault: Vault, listing: HeadListing) -> None:
    """Those that are still there are kept, those that came are read; whoever may not let others in keeps none."""
    members, before = vault.membership, remembered(vault.memory)
    there = set(listing.joins) if members.session is None and members.is_admin(vault.me) else set()
    known = [asks for asks in before if asks.object in there and not members.is_member(asks.device)]
    new = sorted(there - {asks.object for asks in before})
    if new:
        new = random.SystemRandom().sample(new, min(len(new), max(0, _MOST_ASKING - len(known))))
        known += [
            Asks(
                object=request.object,
                device=request.keys.id,
                words=request.keys.words,
                name=request.name,
                at=request.at,
            )
            for request in requests(vault, new)
        ]
    if tuple(known) != before:
        with vault.here.transaction() as transaction:
            vault.memory.write(transaction, tuple(known), _MEMORY_NAME)


LIMIT: Final = 16 << 10
_ACCEPT: Final = b"holdfast accept 1\n"
# What is read at once, chosen anew each time; what is no request is passed over from then on.
_MOST: Final = 2_000
_MOST_LIVES: Final = 1_000
_MOST_RIVALS: Final = 16
_MOST_PASSED_OVER: Final = 20_000
_NAME: Final = re.compile(r"h/join-[0-9a-f]{32}", re.ASCII)
_CODE: Final = 8  # hex digits at the end of a name, which show an invitation


class _Letter(msgspec.Struct, frozen=True, kw_only=True):
    holdfast: int = 1
    vault: str
    signing: bytes
    age: str
    name: str
    at: int
    proof: bytes | None = None
    possession: bytes | None = None


class Request(NamedTuple):
    """A device that asks to be let in, and the proof from its invitation, if it has one."""

    object: str
    keys: PublicKeys
    name: str
    at: int
    proof: bytes | None
    # That the device has the signing key it names; None in a request by an earlier version.
    possession: bytes | None = None


def proof_of(secret: bytes, keys: PublicKeys) -> bytes:
    """What only the holder of an invitation's secret can say about these keys, and everybody can check."""
    return signer(secret).sign(_ACCEPT + _words(keys))


def proves(request: Request, invited: bytes) -> bool:
    """Whether a request shows the secret that belongs to the public half in an invitation."""
    return request.proof is not None and verify(invited, _ACCEPT, _words(request.keys), request.proof)


def signer(secret: bytes) -> Ed25519PrivateKey:
    """An invitation's secret is a signing key of its own: its public half stands in the invitation."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret)


def _words(keys: PublicKeys) -> bytes:
    return keys.signing + keys.age.encode()


def ask(here: ThisDevice, remote: RemoteStore, signed: Signed, *, secret: bytes | None = None) -> Vault:
    """Leave a request to join the vault that this founding entry began."""
    read = entries.founding_of(signed)
    if read is None:
        raise Invalid("what is at the remote is not a Holdfast vault", hint="Choose another place.")
    vault = Vault(here, remote, entries.hash_of(signed.payload))
    standing = vault.memory.standing()
    invited = None if secret is None else signer(secret).public_key().public_bytes_raw()
    name = standing.request
    # What was asked for under other keys, or by another invitation, is taken back: nobody could use the answer.
    if name is None or standing.device not in ("", vault.me) or (invited and not _shows(vault, name, invited)):
        name = _prefix(vault, vault.me) + os.urandom(4).hex()
        name += os.urandom(4).hex() if invited is None else _code(vault, name, invited)
    gone = [standing.request] if standing.request not in (None, name) else []
    with here.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
        vault.memory.write(transaction, replace(standing, request=name, device=vault.me), "standing")
    public = here.keys.public
    letter = _Letter(
        vault=vault.id, signing=public.signing, age=public.age, name=here.name, at=here.now(),
        proof=None if secret is None else proof_of(secret, public), possession=here.keys.possession,
    )  # fmt: skip
    remote.put([(name, age.encrypt(read.box, msgspec.json.encode(letter)))], remove=gone)
    return vault


def request_of(vault: Vault, names: Iterable[str], device: str) -> Request | None:
    """The request of the device that a person means; the names that are its own are looked at first."""
    own = _prefix(vault, device)
    names = set(names)
    first = {name for name in names if name.startswith(own)}
    for some in (first, names - first):
        for request in requests(vault, some):
            if request.keys.id == device:
                return request
    return None


def _prefix(vault: Vault, device: str) -> str:
    """How the name of a device's request begins: whoever knows its fingerprint finds it among any number."""
    return heads.JOINS + hashlib.sha256(f"holdfast request\n{vault.id}\n{device}".encode()).hexdigest()[:16]


def _shows(vault: Vault, name: str, invited: bytes) -> bool:
    """Whether the name of a request is one of who knows this invitation, by its public half."""
    return _code(vault, name[:-_CODE], invited) == name[-_CODE:]


def _code(vault: Vault, start: str, invited: bytes) -> str:
    said = f"holdfast invited\n{vault.id}\n{invited.hex()}\n".encode() + start.encode("utf-8", "surrogatepass")
    return hashlib.sha256(said).hexdigest()[:_CODE]


def by_turns(vault: Vault, names: Iterable[str], invited: Iterable[bytes]) -> list[str]:
    """Requests in the order to read them: by turns for each invitation that their names show, and then the rest."""
    rest = list(names)
    random.SystemRandom().shuffle(rest)
    turns = [[name for name in rest if _shows(vault, name, public)] for public in invited]
    first = [name for turn in zip_longest(*turns) for name in turn if name is not None]
    return list(dict.fromkeys([*first, *rest]))


def requests(vault: Vault, names: Iterable[str]) -> list[Request]:
    """The requests that were left for this vault, as far as they can be read: one of each device."""
    new = sorted(set(names))
    random.SystemRandom().shuffle(new)
    found: dict[str, Request] = {}
    for request in read(vault, new):
        found.setdefault(request.keys.id, request)
    return list(found.values())


def read(vault: Vault, names: Iterable[str]) -> list[Request]:
    """Those of these that are requests by who is not let in, the first ones, in their order."""
    box = vault.box()
    if box is None:
        return []
    before = vault.memory.read(set[str], "no requests") or set()
    found: list[Request] = []
    none: set[str] = set()
    for name in [name for name in names if name not in before and _NAME.fullmatch(name)][:_MOST]:
        try:
            request = _read(vault, name, vault.remote.get(name, LIMIT), box)
        except Missing:
            continue
        except ObjectTooLarge:
            request = None
        if request is None:
            none.add(name)
        elif not vault.membership.is_member(request.keys.id):
            found.append(request)
    if none:
        with vault.here.transaction() as transaction:
            kept = before | none if len(before) < _MOST_PASSED_OVER else none
            vault.memory.write(transaction, sorted(kept), "no requests")
    return found


def _read(vault: Vault, name: str, blob: bytes, box: str) -> Request | None:
    plain = age.decrypt([box], blob)
    if plain is None:
        return None  # for another vault at this remote, or no request at all
    try:
        letter = msgspec.json.decode(plain, type=decodable(_Letter))
        keys = PublicKeys(letter.signing, letter.age)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        vault.report.reject(name, "", "a request to join is malformed")
        return None
    if letter.vault != vault.id or letter.holdfast != 1:
        vault.report.reject(name, "", "a request to join is for another vault, or of a version not known here")
        return None
    if not _has_signing_key(vault, keys, letter.possession):
        vault.report.reject(name, "", "a request to join does not prove that its signing key is its own")
        return None
    # The name is shown to people who decide by it: nothing in it moves a cursor or hides.
    return Request(name, keys, printable(letter.name[:MAX_NAME_LENGTH]), letter.at, letter.proof, letter.possession)


def _has_signing_key(vault: Vault, keys: PublicKeys, possession: bytes | None) -> bool:
    """Whether a device proves that it has the signing key it names.

    Earlier versions gave no proof: their requests are believed where no other device is known to have that key.
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
    vault: Vault, request: Request, *, admin: bool = False, role: str = "device", invite: str | None = None
) -> None:
    """Let a device in: one entry, one wrap; and whatever it needs to find in that the remote has lost."""
    change = vault.change()
    change.say(
        Admit, device=request.keys, name=request.name, admin=admin, role=role, invite=invite,
        possession=request.possession,
    )  # fmt: skip
    change.wrap(request.keys.age, change.wrapped(vault.ring()))
    change.write_down()
    create_vault.put_back(vault)
    vault.flush(remove=[request.object] if request.object else [])


def help_in(vault: Vault, keys: PublicKeys) -> bool:
    """Of a device that was let in: put back what it needs to find in; False when nothing of that was lost."""
    prefix, common = wraps.prefix_of(keys.age), age.shared_secret(vault.here.keys.identity, keys.age)
    done = create_vault.put_back(vault)
    # Anybody can leave files there: only what this device left tells that the keys are not lost.
    if not any(wraps.is_by_author(common, item.name.removeprefix(prefix)) for item in vault.remote.list(prefix)):
        change = vault.change()
        change.wrap(keys.age, change.wrapped(vault.ring()))
        change.commit()
        done = True
    return done


def arrived(vault: Vault) -> bool:
    """Whether the request was heard: then this device belongs to the vault from now on."""
    vault.ask_for_wraps()
    if not vault.wrapped():
        return False
    vault.reload()
    vault.learn_anew()
    if not vault.membership.is_member(vault.me) or left_behind(vault):
        return False
    signed = vault.founding()
    assert signed is not None
    with vault.here.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
        standing = replace(vault.memory.standing(), place="member", device=vault.me)
        vault.memory.write(transaction, standing, "standing")
    take_back(vault)
    return True


def under_other_keys(vault: Vault) -> bool:
    """Whether the vault knows this home, and by other keys than it has now: nothing of it is heard there any more."""
    standing, members = vault.memory.standing(), vault.membership
    if standing.device in ("", vault.me) or members.is_member(vault.me) or vault.me in members.removed:
        return False
    return standing.place != "out" and not (standing.place == "reader" and vault.wrapped())


def left_behind(vault: Vault) -> bool:
    """Whether the vault has gone on with keys that we do not have: whoever was removed cannot read that they were.

    Anybody can put a head there that does not open: it counts where we, or a device of the vault, have seen another
    one of the same life. Where no head opens, what cannot be read of the entries decides.
    """
    known = set(vault.memory.cursors())
    locked: set[str] = set()
    opened = False
    lives = list(look(vault.remote.list("h/"), vault.tag).rivals.items())
    random.SystemRandom().shuffle(lives)
    for life, rivals in sorted(lives, key=lambda item: item[0] not in known)[:_MOST_LIVES]:
        head, is_locked = _newest_head(vault, rivals)
        if head is not None:
            opened = True
            known |= {item.life for item in head.seen}
        elif is_locked:
            locked.add(life)
    if locked and not opened:
        vault.learn_all()
        return bool(vault.report.rejected)
    return bool(locked & known)


def _newest_head(vault: Vault, rivals: list[HeadName]) -> tuple[PublishedHead | None, bool]:
    """The newest head of a life that a device of the vault signed; and whether one has a key unknown here."""
    locked = False
    for listed in rivals[:_MOST_RIVALS]:
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


def take_back(vault: Vault) -> None:
    """Take away the request that was heard. It is forgotten here only when it is gone there."""
    standing = vault.memory.standing()
    if standing.request is None:
        return
    vault.remote.put([], remove=[standing.request])
    with vault.here.transaction() as transaction:
        vault.memory.write(transaction, replace(standing, request=None), "standing")
