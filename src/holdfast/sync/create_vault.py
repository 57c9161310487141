"""Create a vault: its first entry, its first key, and the public key for requests to join."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from holdfast.core.errors import Invalid, Refused
from holdfast.sync.protocol import entries
from holdfast.sync.protocol.entries import Rename, Signed
from holdfast.sync.protocol.wraps import Wrapped
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, RemoteStore
from holdfast.sync.state import FOUNDING, DeviceStatus
from holdfast.sync.vault import ThisDevice, Vault
from holdfast.workspace.keys import device_keys

PUBLIC: Final = "vault"


def existing(remote: RemoteStore) -> Signed | None:
    """The founding entry of the vault at a remote; None when there is none yet."""
    try:
        return entries.read_founding(remote.get(PUBLIC, entries.FOUNDING_LIMIT))
    except Missing:
        return None


def missing(remote: RemoteStore) -> bool:
    """Whether nothing stands where every vault has its beginning."""
    try:
        remote.get(PUBLIC, entries.FOUNDING_LIMIT)
    except Missing:
        return True
    except ObjectTooLarge:
        return False
    return False


def replaced(vault: Vault) -> str | None:
    """What is wrong with the object by which others find the vault; None when it is the one that we know."""
    try:
        there = entries.hash_of(entries.read_founding(vault.remote.get(PUBLIC, entries.FOUNDING_LIMIT)).payload)
    except Missing:
        return "the object that names the vault is missing"
    except (Refused, Invalid) as error:  # too large, or a link in the place of it
        return f"the object that names the vault cannot be read: {error.message}"
    return None if there == vault.id else "the object that names the vault is another vault's: somebody replaced it"


def prepared(here: ThisDevice, remote: RemoteStore, *, session: str | None = None) -> Vault:
    """A new vault, known to this device alone: everything of it is written down, and nothing is sent yet."""
    recipient, secret = device_keys.new_box()
    found = entries.VaultFounded(
        vault="", parents=(), by=here.keys.public.id, at=here.now(), device=here.keys.public, nonce=os.urandom(16),
        box=recipient, session=session,
    )  # fmt: skip
    signed = entries.sign(here.keys, found)
    vault = Vault(here, remote, entries.hash_of(signed.payload))
    with here.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
        vault.memory.write(transaction, DeviceStatus(place="member", confirmed=True, device=vault.me), "standing")
    first = Wrapped(vault=vault.id, founding=entries.pack(signed), keys=[], box=secret, session=session)
    vault.use(first)  # nobody else has the box's secret yet
    return vault


def create_vault(here: ThisDevice, remote: RemoteStore) -> Vault | None:
    """Create the vault of a remote; None when somebody else was quicker."""
    vault = prepared(here, remote)
    change = vault.change()
    change.say(Rename, device=vault.me, name=here.name)
    change.new_key()
    change.write_down()
    signed = vault.founding()
    assert signed is not None
    if PUBLIC in remote.put([(PUBLIC, entries.founding_document(signed))]):
        forget(vault)
        return None
    vault.flush()
    return vault


def taken_up(here: ThisDevice, remote: RemoteStore, signed: Signed) -> Vault | None:
    """Go on with a vault that this very device founded, and did not get to the end of; None when it is another's."""
    vault = Vault(here, remote, entries.hash_of(signed.payload))
    if vault.founding() is None or not vault.membership.is_member(vault.me):
        return None
    vault.flush()
    return vault


def forget(vault: Vault) -> None:
    """Leave no trace of a vault in this store."""
    with vault.here.transaction() as transaction:
        for name in vault.here.store.remembered_under(vault.memory.name("")):
            transaction.remember(name, None)


def remains(remote: RemoteStore) -> bool:
    """Whether a vault lies there that has lost its beginning: another one must not be founded on top of it."""
    return any(remote.list(prefix) for prefix in ("h/", "m/"))


def lost(vault: Vault, there: Iterable[ObjectInfo]) -> list[Signed]:
    """The entries that this device knows and that a listing of `m/` does not show."""
    names = {item.name for item in there}
    # What was never sent is not lost.
    names |= {name for name, _ in vault.waiting()}
    founding = vault.founding()
    return [
        signed
        for own, signed in vault.known.items()
        if vault.entry_name(own) not in names and (founding is None or signed.payload != founding.payload)
    ]


def put_back(vault: Vault) -> bool:
    """Put back what the remote has lost of the vault itself, and leave whatever is there; False when that is all."""
    key = vault.sealing_key()
    founding = vault.founding()
    if key is None or founding is None:
        return False
    objects = [] if vault.membership.session else [(PUBLIC, entries.founding_document(founding))]
    gone = lost(vault, vault.remote.list(f"m/{vault.tag}/"))
    objects += [vault.sealed_entry(key, signed) for signed in gone]
    return len(vault.remote.put(objects)) < len(objects) if objects else False
