"""Adding a remote: the vault there is founded, or this device asks to be let into it.

The first vault met at a remote is pinned. What was recorded here before is not uploaded until a person has confirmed
that it is the right one: whoever runs the remote could have put one of their own there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from holdfast.core.errors import Refused
from holdfast.keeper import projects
from holdfast.keeper.teleports import opening, remotes
from holdfast.keeper.teleports.remotes import Remote
from holdfast.teleport import entries, founding, joining, recovery, words
from holdfast.teleport.memory import Own, Standing
from holdfast.teleport.remotes.registry import checked_url

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.teleport.entries import Signed
    from holdfast.teleport.remotes.interface import Remote as Place
    from holdfast.teleport.vault import Vault


What = Literal["founded", "asked", "member"]


class Added(NamedTuple):
    remote: Remote
    what: What
    words: str
    # Sessions that were here before and wait until a person has confirmed the vault.
    held: int


def spelled(vault: str) -> str:
    """A vault's id as people compare it."""
    return words.spell(bytes.fromhex(vault)[:16])


def add(
    keeper: Keeper,
    name: str,
    url: str,
    *,
    this_project: bool = False,
    expected: str | None = None,
    code: str | None = None,
) -> Added:
    """`expected` are the vault's words as another device shows them; `code` is a recovery code."""
    url = checked_url(url)
    remotes.free(keeper.home, name)
    wanted = None if expected is None else words.read(expected)
    scope = _project(keeper) if this_project else ()
    with opening.alone(keeper), opening.place(keeper, url, create=True) as place:
        here = opening.here(keeper)
        signed = founding.existing(place)
        vault = founding.found(here, place) if signed is None and code is None and wanted is None else None
        what: What = "founded"
        if vault is None:
            signed = signed or founding.existing(place)
            if signed is None:
                raise Refused(
                    "there is no vault at this remote", hint="Leave out the words or the code to found one."
                )
            vault, what = _existing(keeper, place, signed, wanted, code)
        with keeper.transaction() as transaction:
            if scope:
                vault.memory.write(transaction, scope, "projects")
        remote = Remote(name=name, url=url, vault=vault.id, projects=scope)
        remotes.add(keeper.home, remote)
        held = vault.memory.read(tuple[str, ...], "earlier") or ()
    return Added(remote, what, spelled(remote.vault), len(held))


def _existing(
    keeper: Keeper, place: Place, signed: Signed, wanted: bytes | None, code: str | None
) -> tuple[Vault, What]:
    here = opening.here(keeper)
    own = bytes.fromhex(entries.hash_of(signed.payload))
    if wanted is not None and own[:16] != wanted:
        raise Refused(
            "the vault at this remote is another one than you expected",
            hint="Somebody may have put it there. Compare on a device that belongs to it: holdfast device show",
        )
    again = founding.taken_up(here, place, signed)
    if again is not None:
        return again, "member"
    earlier = tuple(keeper.store().sessions())
    vault = joining.ask(here, place, signed)
    with keeper.transaction() as transaction:
        standing = replace(vault.memory.standing(), confirmed=wanted is not None or code is not None)
        vault.memory.write(transaction, standing, "standing")
        if not standing.confirmed and earlier:
            vault.memory.write(transaction, earlier, "earlier")
    if code is None:
        return vault, "asked"
    _recover(vault, code)
    return vault, "member"


def _recover(vault: Vault, code: str) -> None:
    """With the recovery code this person may let their own device in."""
    from holdfast.teleport.vault import Vault

    keys = recovery.keys_of(code)
    other = Vault(vault.here._replace(keys=keys), vault.remote, vault.id)
    other.ask_for_wraps()
    other.learn_all()
    if not other.membership.is_admin(keys.public.id):
        raise Refused(
            "the recovery code does not open this vault",
            hint="Check the words; a newer code makes older ones void. The request to join was left all the same.",
        )
    standing = vault.memory.standing()
    request = joining.Request(standing.request or "", vault.here.keys.public, vault.here.name, vault.here.now(), None)
    joining.approve(other, request, admin=True)
    vault.reload()
    joining.arrived(vault)


def _project(keeper: Keeper) -> tuple[str, ...]:
    """The ids of the project here; it is made known if nobody worked in it yet."""
    store = keeper.store()
    known = projects.known(store, keeper.place)
    if known:
        return known
    found = projects.found(store, projects.observe(keeper.place, ""))
    with keeper.transaction() as transaction:
        transaction.know_project(found)
    return (found.id,)


def confirm(keeper: Keeper, name: str, expected: str | None) -> int:
    """A person says that the vault is the right one: what was held back may go. Says how many sessions that are."""
    from holdfast.teleport.memory import Memory

    remote = remotes.named(keeper.home, name)
    if expected is not None and bytes.fromhex(remote.vault)[:16] != words.read(expected):
        raise Refused(
            "these are not the words of the vault at this remote",
            hint=f"Here it is {spelled(remote.vault)}. If that is not yours: holdfast remote remove {name}",
        )
    memory = Memory(keeper.store(), remote.vault)
    held = memory.read(tuple[str, ...], "earlier") or ()
    with keeper.transaction() as transaction:
        standing: Standing = replace(memory.standing(), confirmed=True)
        memory.write(transaction, standing, "standing")
        memory.forget(transaction, "earlier")
        for writer, own in memory.under(Own, "own"):
            memory.write(transaction, replace(own, place=0), "own", writer)
    return len(held)
