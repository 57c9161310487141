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
    url = checked_url(_resolve_url(ws, url))
    remote_list.check_free(ws.home, name)
    expected_id = None if expected is None else parse_words(expected, subject="vault's name")
    if code is not None:
        keys_from_code(code)  # a mistyped code is refused before anything happens
    with (
        open_vault.exclusive(ws),
        open_vault.remote_at(ws, url, create=code is None and expected_id is None) as store,
    ):
        remote_list.check_free(ws.home, name)  # another process may have taken it meanwhile
        open_vault.new_keys(ws)
        local = open_vault.this_device(ws)
        signed = create_vault.read_founding(store) or _find_founding(store)
        vault = (
            create_vault.create_vault(local, store)
            if signed is None and code is None and expected_id is None
            else None
        )
        outcome: AddOutcome = "founded"
        if vault is None:
            signed = signed or create_vault.read_founding(store)
            if signed is None:
                raise NotFound(
                    "there is no vault at this remote",
                    hint="Check the address; or leave out the words or the code to create one.",
                )
            refuse_known_vault(ws, entries.hash_of(signed.payload))
            vault, outcome = _join_existing(ws, store, signed, expected_id, code)
        scope = _current_project(ws) if this_project else ()
        with ws.transaction() as transaction:
            _limit_projects(vault.memory, transaction, scope)
        remote = KnownRemote(name=name, url=url, vault=vault.id, projects=scope)
        remote_list.add(ws.home, remote)
        waiting = vault.memory.read(tuple[str, ...], "earlier") or ()
    ws.remotes_changed()
    return AddedRemote(remote, outcome, vault_words(remote.vault), len(waiting))


def _find_founding(remote: RemoteStore) -> SignedEntry | None:
    """The founding entry, if there is a vault; `Refused` where it lost that entry."""
    if not create_vault.has_remains(remote):
        return None
    signed = create_vault.read_founding(remote)  # somebody may have created it just now
    if signed is None:
        raise Refused(
            "the vault at this remote has lost its founding entry",
            hint="On a device that belongs to it: holdfast sync --put-back. Then try again; or choose another place.",
        )
    return signed


def _resolve_url(ws: Workspace, url: str) -> str:
    """Replace `git:origin` by the address that the repository here has for that name."""
    if not url.startswith("git:"):
        return url
    from holdfast.sync.remotes.git_refs import resolve_remote_name

    return resolve_remote_name(url, ws.place.root)


def _join_existing(
    ws: Workspace, remote: RemoteStore, signed: SignedEntry, expected_id: bytes | None, code: str | None
) -> tuple[Vault, AddOutcome]:
    local = open_vault.this_device(ws)
    vault_id = entries.hash_of(signed.payload)
    if expected_id is not None and bytes.fromhex(vault_id)[:16] != expected_id:
        raise Refused(
            "the vault at this remote is not the one you expected",
            hint="Somebody may have put it there. Compare on a device that belongs to it: holdfast device show",
        )
    resumed = create_vault.resume(local, remote, signed)
    if resumed is not None:
        resumed.fetch_all_entries()
        if resumed.membership.is_member(resumed.me) and not join_vault.is_locked_out(resumed):
            return resumed, "member"
    recovered = None if code is None else _open_with_code(Vault(local, remote, vault_id), signed, code)
    vault = join_vault.request_to_join(local, remote, signed)
    vault_sessions = {
        session for session, _, _ in vault.memory.streams()
    }  # a device that was removed has sessions of the vault
    earlier = tuple(session for session in ws.store().sessions() if session not in vault_sessions)
    with ws.transaction() as transaction:
        before = vault.memory.status()
        known = before.confirmed or expected_id is not None or code is not None
        status = replace(before, place="pending", confirmed=known)
        vault.memory.write(transaction, status, "standing")
        if earlier and not status.confirmed:
            vault.memory.write(transaction, earlier, "earlier")
        else:
            vault.memory.forget(transaction, "earlier")
    if recovered is None:
        return vault, "asked"
    request = join_vault.JoinRequest(
        vault.memory.status().request or "", local.keys.public, local.name, local.now(), None, local.keys.possession
    )
    join_vault.approve(recovered, request, admin=True)
    vault.reload()
    join_vault.complete_join(vault)
    return vault, "member"


def _open_with_code(vault: Vault, signed: SignedEntry, code: str) -> Vault:
    """The vault as seen with the recovery code's keys, which may let this device in."""
    known = vault.founding() is not None
    with vault.local.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
    keys = keys_from_code(code)
    admin_vault = Vault(vault.local._replace(keys=keys), vault.remote, vault.id)
    admin_vault.ask_for_wraps()
    admin_vault.fetch_all_entries()
    if not admin_vault.membership.is_admin(keys.public.id) or join_vault.is_locked_out(admin_vault):
        if not known:
            create_vault.forget(vault)
        raise Refused(
            "the recovery code does not open this vault",
            hint="Check the address and the code: a newer code makes older ones void.",
        )
    return admin_vault


def _current_project(ws: Workspace) -> tuple[str, ...]:
    """The ids of the project here; it is added to the store if it is new."""
    store = ws.store()
    known = projects.project_ids(store, ws.place)
    if known:
        return known
    project = projects.find_project(store, projects.observe(ws.place, ""))
    with ws.transaction() as transaction:
        transaction.remember_project(project)
    return (project.id,)


def _limit_projects(memory: VaultState, transaction: Transaction, scope: tuple[str, ...]) -> None:
    """Send only these projects from now on, or all; what was left out before is looked at again."""
    before = memory.read(tuple[str, ...], "projects") or ()
    if scope:
        memory.write(transaction, scope, "projects")
    else:
        memory.forget(transaction, "projects")
    if scope != before:
        _rescan_store(memory, transaction)


def _rescan_store(memory: VaultState, transaction: Transaction) -> None:
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
        _rescan_store(memory, transaction)
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
    vault = open_vault.open_offline(ws, remote)
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
            f"Ask to join again: {remote_list.rejoin_commands(remote)}",
        )
    if status.waiting and not status.confirmed:
        yield (
            f"{count(status.waiting, 'earlier session')} not sent until you confirm that the vault is yours",
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
