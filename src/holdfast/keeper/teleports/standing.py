"""How this device stands with each of its remotes: from memory alone, so that it can be told anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import Conflict
from holdfast.keeper.teleports import opening, remotes
from holdfast.keeper.teleports.remotes import Remote
from holdfast.teleport import words

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Met(NamedTuple):
    """A remote, the vault that was met there, and where this device stands in it."""

    remote: Remote
    words: str
    # `pending`: asked to join. `member`: reads and writes. `reader`: only reads. `removed`: belonged to it once.
    status: str
    confirmed: bool
    last_sync: int | None
    error: str | None
    # Sessions that were here before, and wait until a person has confirmed the vault.
    held: int


def spelled(vault: str) -> str:
    """A vault's id as people compare it."""
    return words.spell(bytes.fromhex(vault)[:16])


def met(keeper: Keeper, remote: Remote) -> Met:
    vault = opening.remembered(keeper, remote)
    standing, members = vault.memory.standing(), vault.membership
    status = "removed" if standing.place == "out" else standing.place
    if status != "pending":  # who asks again after it was removed may not know that it was
        status = "member" if members.is_member(vault.me) else "removed" if vault.me in members.removed else status
    held = vault.memory.read(tuple[str, ...], "earlier") or ()
    return Met(
        remote, spelled(remote.vault), status, standing.confirmed, standing.last_sync, standing.error, len(held)
    )


def all_met(keeper: Keeper) -> list[Met]:
    return [met(keeper, one) for one in remotes.load(keeper.home)]


def not_yet(keeper: Keeper, vault: str) -> None:
    """A vault is kept under one name: a second would only sync everything twice."""
    known = next((one for one in remotes.load(keeper.home) if one.vault == vault), None)
    if known is not None:
        raise Conflict(
            f"this vault is set up here already, as {known.name[:60]!a}",
            hint=f"To set it up otherwise: holdfast remote remove {known.name}, then add it again.",
        )
