"""Set up remotes: add, confirm and remove one, and show where this device stands at each.

The first vault met at a remote is pinned. What was recorded here before is not uploaded until a person has confirmed
that it is the right one: whoever runs the remote could have put one of their own there.
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
    from holdfast.sync.protocol.entries import Signed
    from holdfast.sync.remotes.base import RemoteStore as Place
    from holdfast.workspace.workspace import Workspace

# `member`: it belonged to the vault before, or its person had the recovery code.
What = Literal["founded", "asked", "member"]


class Added(NamedTuple):
    remote: KnownRemote
    what: What
    words: str
    # Sessions that were here before and wait until a person has confirmed the vault.
    held: int


def add(
    ws: Workspace,
    name: str,
    url: str,
    *,
    this_project: bool = False,
    expected: str | None = None,
    code: str | None = None,
) -> Added:
    """`expected` are the vault's words as another device shows them; `code` is a recovery code."""
    url = checked_url(_spelled_out(ws, url))
    remote_list.free(ws.home, name)
    wanted = None if expected is None else parse_words(expected, what="vault's name")
    if code is not None:
        keys_from_code(code)  # one that is mistyped is said to be so before anything happens
    with open_vault.alone(ws), open_vault.place(ws, url, create=code is None and wanted is None) as place:
        remote_list.free(ws.home, name)  # another process may have taken it while this one waited for its turn
        open_vault.new_keys(ws)
        here = open_vault.here(ws)
        signed = create_vault.existing(place) or _beginning(place)
        vault = create_vault.create_vault(here, place) if signed is None and code is None and wanted is None else None
        what: What = "founded"
        if vault is None:
            signed = signed or create_vault.existing(place)
            if signed is None:
                raise NotFound(
                    "there is no vault at this remote",
                    hint="Look at the address; or leave out the words or the code to found one.",
                )
            not_yet(ws, entries.hash_of(signed.payload))
            vault, what = _existing(ws, place, signed, wanted, code)
        scope = _project(ws) if this_project else ()
        with ws.transaction() as transaction:
            _narrow(vault.memory, transaction, scope)
        remote = KnownRemote(name=name, url=url, vault=vault.id, projects=scope)
        remote_list.add(ws.home, remote)
        held = vault.memory.read(tuple[str, ...], "earlier") or ()
    ws.remotes_changed()
    return Added(remote, what, spelled(remote.vault), len(held))


def _beginning(place: Place) -> Signed | None:
    """What stands there by now, if anything of a vault does; one that has lost its beginning is left alone."""
    if not create_vault.remains(place):
        return None
    signed = create_vault.existing(place)  # somebody may have founded it just now
    if signed is None:
        raise Refused(
            "what lies at this remote belongs to a vault that has lost its beginning",
            hint="On a device that belongs to it: holdfast sync --put-back. Then try again; or choose another place.",
        )
    return signed


def _spelled_out(ws: Workspace, url: str) -> str:
    """`git:origin` is the remote that the repository here has under that name."""
    if not url.startswith("git:"):
        return url
    from holdfast.sync.remotes.git_refs import spelled_out

    return spelled_out(url, ws.place.root)


def _existing(
    ws: Workspace, place: Place, signed: Signed, wanted: bytes | None, code: str | None
) -> tuple[Vault, What]:
    here = open_vault.here(ws)
    own = entries.hash_of(signed.payload)
    if wanted is not None and bytes.fromhex(own)[:16] != wanted:
        raise Refused(
            "the vault at this remote is another one than you expected",
            hint="Somebody may have put it there. Compare on a device that belongs to it: holdfast device show",
        )
    again = create_vault.taken_up(here, place, signed)
    if again is not None:
        again.learn_all()
        if again.membership.is_member(again.me) and not join_vault.left_behind(again):
            return again, "member"
    recovered = None if code is None else _recovered(Vault(here, place, own), signed, code)
    vault = join_vault.ask(here, place, signed)
    there = {session for session, _, _ in vault.memory.streams()}  # who was removed once has sessions of the vault
    earlier = tuple(session for session in ws.store().sessions() if session not in there)
    with ws.transaction() as transaction:
        before = vault.memory.standing()
        known = before.confirmed or wanted is not None or code is not None
        standing = replace(before, place="pending", confirmed=known)
        vault.memory.write(transaction, standing, "standing")
        if earlier and not standing.confirmed:
            vault.memory.write(transaction, earlier, "earlier")
        else:
            vault.memory.forget(transaction, "earlier")
    if recovered is None:
        return vault, "asked"
    request = join_vault.Request(
        vault.memory.standing().request or "", here.keys.public, here.name, here.now(), None, here.keys.possession
    )
    join_vault.approve(recovered, request, admin=True)
    vault.reload()
    join_vault.arrived(vault)
    return vault, "member"


def _recovered(vault: Vault, signed: Signed, code: str) -> Vault:
    """The vault as the recovery code sees it: with the code this person may let their own device in."""
    known = vault.founding() is not None
    with vault.here.transaction() as transaction:
        vault.memory.write_raw(transaction, entries.pack(signed), FOUNDING)
    keys = keys_from_code(code)
    other = Vault(vault.here._replace(keys=keys), vault.remote, vault.id)
    other.ask_for_wraps()
    other.learn_all()
    if not other.membership.is_admin(keys.public.id) or join_vault.left_behind(other):
        if not known:
            create_vault.forget(vault)
        raise Refused(
            "the recovery code does not open this vault",
            hint="Look at the address, and at the code: a newer one makes older ones void.",
        )
    return other


def _project(ws: Workspace) -> tuple[str, ...]:
    """The ids of the project here; it is made known if nobody worked in it yet."""
    store = ws.store()
    known = projects.project_ids(store, ws.place)
    if known:
        return known
    found = projects.find_project(store, projects.observe(ws.place, ""))
    with ws.transaction() as transaction:
        transaction.remember_project(found)
    return (found.id,)


def _narrow(memory: VaultState, transaction: Transaction, scope: tuple[str, ...]) -> None:
    """Only these projects from now on, or all: what was left out before has to be looked at again."""
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
    """A person says that the vault is the right one: what was held back may go. Says how many sessions that are."""
    remote = remote_list.named(ws.home, name)
    if expected is not None and bytes.fromhex(remote.vault)[:16] != parse_words(expected, what="vault's name"):
        raise Refused(
            "these are not the words of the vault at this remote",
            hint=f"Here it is {spelled(remote.vault)}. If that is not yours: holdfast remote remove {name}",
        )
    memory = VaultState(ws.store(), remote.vault)
    with open_vault.alone(ws), ws.transaction() as transaction:
        held = memory.read(tuple[str, ...], "earlier") or ()
        standing: DeviceStatus = replace(memory.standing(), confirmed=True)
        memory.write(transaction, standing, "standing")
        memory.forget(transaction, "earlier")
        _from_the_start(memory, transaction)
    ws.remotes_changed()
    return len(held)


def remove(ws: Workspace, name: str) -> KnownRemote:
    """Forget a remote. What lies there stays, and so does what this device knows of its vault."""
    with open_vault.alone(ws):
        removed = remote_list.remove(ws.home, name)
    ws.remotes_changed()
    return removed


class Met(NamedTuple):
    """A remote, the vault that was met there, and where this device stands in it."""

    remote: KnownRemote
    words: str
    # `pending`: asked to join. `member`: reads and writes. `reader`: only reads. `removed`: belonged to it once.
    # `other-keys`: the vault knows this device by keys that it does not have any more. `no-keys`: it has none.
    status: str
    confirmed: bool
    last_sync: int | None
    error: str | None
    # Sessions that were here before, and wait until a person has confirmed the vault.
    held: int


def spelled(vault: str) -> str:
    """A vault's id as people compare it."""
    return spell_words(bytes.fromhex(vault)[:16])


def met(ws: Workspace, remote: KnownRemote) -> Met:
    memory = VaultState(ws.store(), remote.vault)
    standing, held = memory.standing(), memory.read(tuple[str, ...], "earlier") or ()
    status = "no-keys" if key_files.public(ws.home.path) is None else _status(ws, remote)
    return Met(
        remote, spelled(remote.vault), status, standing.confirmed, standing.last_sync, standing.error, len(held)
    )


def _status(ws: Workspace, remote: KnownRemote) -> str:
    vault = open_vault.remembered(ws, remote)
    standing, members = vault.memory.standing(), vault.membership
    if join_vault.under_other_keys(vault):
        return "other-keys"
    status = "removed" if standing.place == "out" else standing.place
    if status != "pending":  # who asks again after it was removed may not know that it was
        gone = vault.me in members.removed and status != "reader"  # who may write no more may still read
        status = "member" if members.is_member(vault.me) else "removed" if gone else status
    if standing.place == "member" and standing.shut_out:
        status = "removed"  # the entry that says so is sealed with a key that a removed device does not get
    return status


def advice(one: Met, fingerprint: str) -> Iterator[tuple[str, str | None]]:
    """What is wrong or waits between this device and a remote, and what to do about it."""
    remote = one.remote
    if one.status == "pending":
        yield (
            "this device waits to be let in",
            f"On one that belongs to the vault: holdfast device approve {fingerprint}",
        )
    elif one.status == "removed":
        yield (
            "this device was removed from the vault",
            f"holdfast remote remove {remote.name}; to join again: holdfast remote add {remote.name} {remote.url}",
        )
    elif one.status == "other-keys":
        yield (
            "this device has new keys, and the vault knows it by others",
            f"Ask to join again: {remote_list.rejoining(remote)}",
        )
    if one.held and not one.confirmed:
        yield (
            f"{count(one.held, 'earlier session')} held back until you have confirmed that the vault is yours",
            f"With the words that another of your devices shows: holdfast remote confirm {remote.name} WORDS",
        )
    if one.error is not None:
        yield f"the last sync failed: {one.error}", "holdfast sync tries it again."


def all_met(ws: Workspace) -> list[Met]:
    return [met(ws, remote) for remote in remote_list.load(ws.home)]


def not_yet(ws: Workspace, vault: str) -> None:
    """A vault is kept under one name: a second would only sync everything twice."""
    known = next((remote for remote in remote_list.load(ws.home) if remote.vault == vault), None)
    if known is not None:
        raise Conflict(
            f"this vault is set up here already, as {known.name[:60]!a}",
            hint=f"To set it up otherwise: holdfast remote remove {known.name}, then add it again.",
        )
