"""Create a vault: its founding entry, its first key, and the public key for requests to join."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from holdfast.core.errors import Invalid, Refused
from holdfast.sync.protocol import entries
from holdfast.sync.protocol.entries import Rename, SignedEntry
from holdfast.sync.protocol.wraps import KeyWrap
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, RemoteStore
from holdfast.sync.state import FOUNDING, DeviceStatus
from holdfast.sync.vault import LocalDevice, Vault
from holdfast.workspace.keys import device_keys

PUBLIC_OBJECT: Final = "vault"


def read_founding(remote: RemoteStore) -> SignedEntry | None:
    """The founding entry of the vault at a remote, if there is a vault."""
    try:
        return entries.read_founding(remote.get(PUBLIC_OBJECT, entries.FOUNDING_LIMIT))
    except Missing:
        return None


def is_missing(remote: RemoteStore) -> bool:
    """Whether the object that every vault begins with is missing."""
    try:
        remote.get(PUBLIC_OBJECT, entries.FOUNDING_LIMIT)
    except Missing:
        return True
    except ObjectTooLarge:
        return False
    return False


def check_public_object(vault: Vault) -> str | None:
    """What is wrong with the object by which others find the vault; None when it is ours."""
    try:
        present = entries.hash_of(
            entries.read_founding(vault.remote.get(PUBLIC_OBJECT, entries.FOUNDING_LIMIT)).payload
        )
    except Missing:
        return "the object that names the vault is missing"
    except (Refused, Invalid) as error:  # too large, or a link in its place
        return f"the object that names the vault cannot be read: {error.message}"
    return None if present == vault.id else "somebody replaced the object that names the vault with another vault's"


def prepare(local: LocalDevice, remote: RemoteStore, *, session: str | None = None) -> Vault:
    """A new vault, stored on this device only: nothing is sent yet."""
    recipient, secret = device_keys.new_request_keys()
    entry = entries.VaultFounded(
        vault="", parents=(), by=local.keys.public.id, at=local.now(), device=local.keys.public, nonce=os.urandom(16),
        box=recipient, session=session,
    )  # fmt: skip
    signed = entries.sign(local.keys, entry)
    vault = Vault(local, remote, entries.hash_of(signed.payload))
    with local.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
        vault.memory.write(transaction, DeviceStatus(place="member", confirmed=True, device=vault.me), "standing")
    first = KeyWrap(vault=vault.id, founding=entries.pack(signed), keys=[], box=secret, session=session)
    vault.use_new_keys(first)  # no other device has the box's secret yet
    return vault


def create_vault(local: LocalDevice, remote: RemoteStore) -> Vault | None:
    """Create the vault of a remote; None when somebody else was faster."""
    vault = prepare(local, remote)
    change = vault.change()
    change.add(Rename, device=vault.me, name=local.name)
    change.new_key()
    change.store()
    signed = vault.founding()
    assert signed is not None
    if PUBLIC_OBJECT in remote.put([(PUBLIC_OBJECT, entries.founding_document(signed))]):
        forget(vault)
        return None
    vault.flush()
    return vault


def resume(local: LocalDevice, remote: RemoteStore, signed: SignedEntry) -> Vault | None:
    """Continue a vault that this device created and did not finish; None when it is another's."""
    vault = Vault(local, remote, entries.hash_of(signed.payload))
    if vault.founding() is None or not vault.membership.is_member(vault.me):
        return None
    vault.flush()
    return vault


def forget(vault: Vault) -> None:
    """Remove every trace of a vault from this store."""
    with vault.local.transaction() as transaction:
        for name in vault.local.store.remembered_under(vault.memory.name("")):
            transaction.remember(name, None)


def has_remains(remote: RemoteStore) -> bool:
    """Whether parts of a vault without a founding entry are there: no other vault may be created on top."""
    return any(remote.list(prefix) for prefix in ("h/", "m/"))


def lost_entries(vault: Vault, listed: Iterable[ObjectInfo]) -> list[SignedEntry]:
    """The entries that this device knows and a listing of `m/` does not show."""
    names = {item.name for item in listed}
    # What was never sent is not lost.
    names |= {name for name, _ in vault.waiting()}
    founding = vault.founding()
    return [
        signed
        for entry_hash, signed in vault.known.items()
        if vault.entry_name(entry_hash) not in names and (founding is None or signed.payload != founding.payload)
    ]


def put_back(vault: Vault) -> bool:
    """Put back what the remote lost of the vault itself; False when nothing was lost."""
    key = vault.sealing_key()
    founding = vault.founding()
    if key is None or founding is None:
        return False
    objects = [] if vault.membership.session else [(PUBLIC_OBJECT, entries.founding_document(founding))]
    absent = lost_entries(vault, vault.remote.list(f"m/{vault.tag}/"))
    objects += [vault.sealed_entry(key, signed) for signed in absent]
    return len(vault.remote.put(objects)) < len(objects) if objects else False
