"""The status of each remote for this device, from memory alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import Conflict
from holdfast.core.wording import count
from holdfast.sync import join_vault, open_vault, remote_list
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.state import VaultState
from holdfast.workspace.keys import key_files, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.workspace.workspace import Workspace


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
    return words.spell(bytes.fromhex(vault)[:16])


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
