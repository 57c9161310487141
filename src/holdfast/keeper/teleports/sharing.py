"""Sharing one session with a person, taking part in one that was shared, and taking it back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import NotFound, Refused
from holdfast.keeper.teleports import opening, people, remotes
from holdfast.keeper.teleports.remotes import Remote
from holdfast.teleport import sharing, syncing
from holdfast.teleport.remotes.registry import checked_url
from holdfast.teleport.vault import Vault

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


class Shared(NamedTuple):
    email: str
    remote: str
    url: str
    write: bool
    expires: int | None


class Accepted(NamedTuple):
    session: str
    remote: str
    writes: bool


def share(
    keeper: Keeper,
    session: str,
    email: str,
    *,
    write: bool = True,
    expires: int | None = None,
    name: str | None = None,
) -> Shared:
    """Let a person read this session (and write, unless told otherwise) at the remote it travels by."""
    person = people.named(keeper.home, email)
    with opening.alone(keeper):
        remote = _home_of(keeper, name)
        with opening.vault(keeper, remote) as main:
            syncing.sync(main)
            if not main.membership.is_member(main.me):
                raise Refused("this device does not belong to the vault yet", hint="It waits to be approved.")
            vault = sharing.begin(main, session)
            for one in vault.membership.invites:
                if one.live and one.email == person.email:
                    sharing.end(vault, [one.hash])  # shared anew: with other rights, or for longer
            sharing.invite(vault, person.email, person.keys, write=write, expires=expires)
            syncing.sync(_again(keeper, main))
    return Shared(person.email, remote.name, remote.url, write, expires)


def revoke(keeper: Keeper, session: str, email: str) -> list[str]:
    """Take it back wherever it was shared with this person; gives the remotes."""
    done = []
    with opening.alone(keeper):
        for remote in remotes.load(keeper.home):
            if remote.kind != "vault":
                continue
            with opening.vault(keeper, remote) as main:
                syncing.sync(main)
                vault = sharing.shared(main, session)
                if vault is None or not any(one.live and _same(one.email, email) for one in vault.membership.invites):
                    continue
                for one in vault.membership.invites:
                    if one.live and _same(one.email, email):
                        sharing.end(vault, [one.hash])
                syncing.sync(_again(keeper, main))
                done.append(remote.name)
    if not done:
        raise NotFound(f"the session is not shared with {email[:80]!a}", session=session)
    return done


def accept(keeper: Keeper, *, url: str | None = None, identities: Sequence[str | bytes] = ()) -> list[Accepted]:
    """Take part in every session that was shared with this device, or with the holder of these identities."""
    places = {one.url: one.name for one in remotes.load(keeper.home)} if url is None else {checked_url(url): ""}
    if not places:
        raise NotFound("no remote is set up to look for shared sessions", hint="Say where: holdfast accept URL")
    done: list[Accepted] = []
    with opening.alone(keeper):
        for where in places:
            with opening.place(keeper, where) as place:
                here = opening.here(keeper)
                for offer in sharing.offers(place, [here.keys.identity, *identities]):
                    vault = sharing.accept(here, place, offer)
                    _remember(keeper, vault, where, offer.session or "")
                    syncing.sync(vault)
                    done.append(Accepted(offer.session or "", where, offer.secret is not None))
    if not done:
        raise NotFound(
            "nothing was shared with this device there",
            hint="Give whoever shares your key: holdfast device show (the line that begins with age1).",
        )
    return done


def _remember(keeper: Keeper, vault: Vault, url: str, session: str) -> None:
    known = remotes.load(keeper.home)
    if any(one.vault == vault.id for one in known):
        return
    name = f"shared-{session[:8]}"
    taken = {one.name for one in known}
    while name in taken:
        name = f"shared-{session[:8]}-{os.urandom(2).hex()}"
    remotes.add(keeper.home, Remote(name=name, url=url, vault=vault.id, kind="share", session=session))


def _home_of(keeper: Keeper, name: str | None) -> Remote:
    found = [one for one in remotes.load(keeper.home) if one.kind == "vault" and name in (None, one.name)]
    if not found:
        raise NotFound(
            "no remote is set up to share by", hint="For instance: holdfast remote add team s3://BUCKET/PREFIX"
        )
    if len(found) > 1:
        raise Refused(
            "there are several remotes", hint="Say which: --remote " + " or --remote ".join(r.name for r in found)
        )
    return found[0]


def _again(keeper: Keeper, main: Vault) -> Vault:
    """The same vault, looked at anew after it was changed."""
    return Vault(opening.here(keeper), main.remote, main.id)


def _same(one: str, other: str) -> bool:
    return one.lower() == other.strip().lower()
