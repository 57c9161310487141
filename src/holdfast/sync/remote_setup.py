"""Set up remotes: add, confirm and remove one, and show the status of this device at each.

The first vault met at a remote is pinned. What was recorded here before is not uploaded until a person has confirmed
that it is the right one: the owner of the remote could have put another one there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from holdfast.core.errors import Conflict, NotFound, Refused
from holdfast.core.wording import count
from holdfast.sync import create_vault, join_vault, open_vault, remote_list
from holdfast.sync.protocol import entries
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remotes.index import checked_url
from holdfast.sync.state import FOUNDING, DeviceStatus, Published, VaultState
from holdfast.sync.vault import Vault
from holdfast.workspace import projects
from holdfast.workspace.keys import key_files
from holdfast.workspace.keys.device_keys import keys_from_code, parse_words, spell_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.interface import Transaction
    from holdfast.sync.protocol.entries import SignedEntry
    from holdfast.sync.remotes.base import RemoteStore
    from holdfast.workspace.workspace import Workspace

# `member`: it belonged to the vault before, or used the recovery code.
AddOutcome = Literal["founded", "asked", "member"]


class AddedRemote(NamedTuple):
    remote: KnownRemote
    outcome: AddOutcome
    words: str
    # Sessions that were here before and wait until a person confirms the vault.
    waiting: int


def add(
    ws: Workspace,
    name: str,
    url: str,
    *,
    this_project: bool = False,
    expected: str | None = None,
    code: str | None = None,
) -> AddedRemote:
    """Add a remote. `expected`: the vault's words as another device shows them; `code`: a recovery code."""
    url = checked_url(_spelled_out(ws, url))
    remote_list.check_free(ws.home, name)
    wanted = None if expected is None else parse_words(expected, subject="vault's name")
    if code is not None:
        keys_from_code(code)  # a mistyped code is refused before anything happens
    with open_vault.exclusive(ws), open_vault.remote_at(ws, url, create=code is None and wanted is None) as place:
        remote_list.check_free(ws.home, name)  # another process may have taken it meanwhile
        open_vault.new_keys(ws)
        here = open_vault.this_device(ws)
        signed = create_vault.read_founding(place) or _beginning(place)
        vault = create_vault.create_vault(here, place) if signed is None and code is None and wanted is None else None
        outcome: AddOutcome = "founded"
        if vault is None:
            signed = signed or create_vault.read_founding(place)
            if signed is None:
                raise NotFound(
                    "there is no vault at this remote",
                    hint="Check the address; or leave out the words or the code to create one.",
                )
            refuse_known_vault(ws, entries.hash_of(signed.payload))
            vault, outcome = _existing(ws, place, signed, wanted, code)
        scope = _project(ws) if this_project else ()
        with ws.transaction() as transaction:
            _narrow(vault.memory, transaction, scope)
        remote = KnownRemote(name=name, url=url, vault=vault.id, projects=scope)
        remote_list.add(ws.home, remote)
        waiting = vault.memory.read(tuple[str, ...], "earlier") or ()
    ws.remotes_changed()
    return AddedRemote(remote, outcome, vault_words(remote.vault), len(waiting))


def _beginning(place: RemoteStore) -> SignedEntry | None:
    """The founding entry, if there is a vault; `Refused` where it lost that entry."""
    if not create_vault.has_remains(place):
        return None
    signed = create_vault.read_founding(place)  # somebody may have created it just now
    if signed is None:
        raise Refused(
            "the vault at this remote has lost its founding entry",
            hint="On a device that belongs to it: holdfast sync --put-back. Then try again; or choose another place.",
        )
    return signed


def _spelled_out(ws: Workspace, url: str) -> str:
    """Replace `git:origin` by the address that the repository here has for that name."""
    if not url.startswith("git:"):
        return url
    from holdfast.sync.remotes.git_refs import spelled_out

    return spelled_out(url, ws.place.root)


def _existing(
    ws: Workspace, place: RemoteStore, signed: SignedEntry, wanted: bytes | None, code: str | None
) -> tuple[Vault, AddOutcome]:
    here = open_vault.this_device(ws)
    own = entries.hash_of(signed.payload)
    if wanted is not None and bytes.fromhex(own)[:16] != wanted:
        raise Refused(
            "the vault at this remote is not the one you expected",
            hint="Somebody may have put it there. Compare on a device that belongs to it: holdfast device show",
        )
    again = create_vault.resume(here, place, signed)
    if again is not None:
        again.learn_all()
        if again.membership.is_member(again.me) and not join_vault.is_locked_out(again):
            return again, "member"
    recovered = None if code is None else _recovered(Vault(here, place, own), signed, code)
    vault = join_vault.ask(here, place, signed)
    vault_sessions = {
        session for session, _, _ in vault.memory.streams()
    }  # a device that was removed has sessions of the vault
    earlier = tuple(session for session in ws.store().sessions() if session not in vault_sessions)
    with ws.transaction() as transaction:
        before = vault.memory.status()
        known = before.confirmed or wanted is not None or code is not None
        status = replace(before, place="pending", confirmed=known)
        vault.memory.write(transaction, status, "standing")
        if earlier and not status.confirmed:
            vault.memory.write(transaction, earlier, "earlier")
        else:
            vault.memory.forget(transaction, "earlier")
    if recovered is None:
        return vault, "asked"
    request = join_vault.JoinRequest(
        vault.memory.status().request or "", here.keys.public, here.name, here.now(), None, here.keys.possession
    )
    join_vault.approve(recovered, request, admin=True)
    vault.reload()
    join_vault.complete_join(vault)
    return vault, "member"


def _recovered(vault: Vault, signed: SignedEntry, code: str) -> Vault:
    """The vault as seen with the recovery code's keys, which may let this device in."""
    known = vault.founding() is not None
    with vault.here.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
    keys = keys_from_code(code)
    other = Vault(vault.here._replace(keys=keys), vault.remote, vault.id)
    other.ask_for_wraps()
    other.learn_all()
    if not other.membership.is_admin(keys.public.id) or join_vault.is_locked_out(other):
        if not known:
            create_vault.forget(vault)
        raise Refused(
            "the recovery code does not open this vault",
            hint="Check the address and the code: a newer code makes older ones void.",
        )
    return other


def _project(ws: Workspace) -> tuple[str, ...]:
    """The ids of the project here; it is added to the store if it is new."""
    store = ws.store()
    known = projects.project_ids(store, ws.place)
    if known:
        return known
    project = projects.find_project(store, projects.observe(ws.place, ""))
    with ws.transaction() as transaction:
        transaction.remember_project(project)
    return (project.id,)


def _narrow(memory: VaultState, transaction: Transaction, scope: tuple[str, ...]) -> None:
    """Send only these projects from now on, or all; what was left out before is looked at again."""
    before = memory.read(tuple[str, ...], "projects") or ()
    if scope:
        memory.write(transaction, scope, "projects")
    else:
        memory.forget(transaction, "projects")
    if scope != before:
        _from_the_start(memory, transaction)


def _from_the_start(memory: VaultState, transaction: Transaction) -> None:
    for writer, own in memory.under(Published, "own"):
        memory.write(transaction, replace(own, place=0), "own", writer)


def confirm(ws: Workspace, name: str, expected: str | None) -> int:
    """Confirm the vault: sessions that waited may be sent. Return how many these are."""
    remote = remote_list.find(ws.home, name)
    if expected is not None and bytes.fromhex(remote.vault)[:16] != parse_words(expected, subject="vault's name"):
        raise Refused(
            "these are not the words of the vault at this remote",
            hint=f"Its words are {vault_words(remote.vault)}. If it is not yours: holdfast remote remove {name}",
        )
    memory = VaultState(ws.store(), remote.vault)
    with open_vault.exclusive(ws), ws.transaction() as transaction:
        waiting = memory.read(tuple[str, ...], "earlier") or ()
        status: DeviceStatus = replace(memory.status(), confirmed=True)
        memory.write(transaction, status, "standing")
        memory.forget(transaction, "earlier")
        _from_the_start(memory, transaction)
    ws.remotes_changed()
    return len(waiting)


def remove(ws: Workspace, name: str) -> KnownRemote:
    """Forget a remote. What is there stays, and so does what this device remembers of its vault."""
    with open_vault.exclusive(ws):
        removed = remote_list.remove(ws.home, name)
    ws.remotes_changed()
    return removed


class RemoteStatus(NamedTuple):
    """A remote, its pinned vault, and this device's status in it."""

    remote: KnownRemote
    words: str
    # `pending`: asked to join. `member`: reads and writes. `reader`: only reads. `removed`: was removed.
    # `other-keys`: the vault knows this device by keys that it no longer has. `no-keys`: it has none.
    status: str
    confirmed: bool
    last_sync: int | None
    error: str | None
    # Sessions that were here before, and wait until a person confirms the vault.
    waiting: int


def vault_words(vault: str) -> str:
    """A vault's id in words, for people to compare."""
    return spell_words(bytes.fromhex(vault)[:16])


def status_of(ws: Workspace, remote: KnownRemote) -> RemoteStatus:
    memory = VaultState(ws.store(), remote.vault)
    own_status, waiting = memory.status(), memory.read(tuple[str, ...], "earlier") or ()
    status = "no-keys" if key_files.public(ws.home.path) is None else _status(ws, remote)
    return RemoteStatus(
        remote,
        vault_words(remote.vault),
        status,
        own_status.confirmed,
        own_status.last_sync,
        own_status.error,
        len(waiting),
    )


def _status(ws: Workspace, remote: KnownRemote) -> str:
    vault = open_vault.remembered(ws, remote)
    own_status, members = vault.memory.status(), vault.membership
    if join_vault.has_other_keys(vault):
        return "other-keys"
    status = "removed" if own_status.place == "out" else own_status.place
    if status != "pending":  # a device that asks again may not know that it was removed
        # A guest that may no longer write may still read.
        was_removed = vault.me in members.removed and status != "reader"
        status = "member" if members.is_member(vault.me) else "removed" if was_removed else status
    if own_status.place == "member" and own_status.shut_out:
        status = "removed"  # a removed device cannot read the entry that says so
    return status


def advice(status: RemoteStatus, fingerprint: str) -> Iterator[tuple[str, str | None]]:
    """What is wrong or pending between this device and a remote, and what to do about it."""
    remote = status.remote
    if status.status == "pending":
        yield (
            "this device waits for approval",
            f"On one that belongs to the vault: holdfast device approve {fingerprint}",
        )
    elif status.status == "removed":
        yield (
            "this device was removed from the vault",
            f"holdfast remote remove {remote.name}; to join again: holdfast remote add {remote.name} {remote.url}",
        )
    elif status.status == "other-keys":
        yield (
            "this device has new keys, and the vault knows it by its old ones",
            f"Ask to join again: {remote_list.rejoining(remote)}",
        )
    if status.waiting and not status.confirmed:
        yield (
            f"{count(status.waiting, 'earlier session')} held back until you confirm that the vault is yours",
            f"With the words that another of your devices shows: holdfast remote confirm {remote.name} WORDS",
        )
    if status.error is not None:
        yield f"the last sync failed: {status.error}", "holdfast sync tries again."


def all_statuses(ws: Workspace) -> list[RemoteStatus]:
    return [status_of(ws, remote) for remote in remote_list.load(ws.home)]


def refuse_known_vault(ws: Workspace, vault: str) -> None:
    """Refuse a vault that is set up under another name: it would sync everything twice."""
    known = next((remote for remote in remote_list.load(ws.home) if remote.vault == vault), None)
    if known is not None:
        raise Conflict(
            f"this vault is set up here already, as {known.name[:60]!a}",
            hint=f"To change it: holdfast remote remove {known.name}, then add it again.",
        )
