"""Sharing one session with a person, taking part in one that was shared, and taking it back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from holdfast.core.errors import HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.keeper import cleansing
from holdfast.keeper.teleports import opening, people, remotes
from holdfast.keeper.teleports.remotes import Remote
from holdfast.machine import files
from holdfast.teleport import founding, joining, sharing, syncing, wraps
from holdfast.teleport.remotes.registry import checked_url
from holdfast.teleport.vault import Vault

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_LARGEST_IDENTITY = 64 << 10


class Shared(NamedTuple):
    email: str
    remote: str
    url: str
    write: bool
    expires: int | None


class Accepted(NamedTuple):
    session: str
    remote: str
    # Whether the person may write; and whether this device was let in to do so already.
    writes: bool
    admitted: bool


# ── giving ───────────────────────────────────────────────────────────────────────────────────────────────


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
    if expires is not None and expires <= keeper.now():
        raise Invalid("the share would be over before it began", hint="Give a time to come: --expires 7d")
    person = people.named(keeper.home, email)
    with opening.alone(keeper):
        remote = _home_of(keeper, name)
        with opening.vault(keeper, remote) as main:
            syncing.sync(main)
            if not main.membership.is_member(main.me):
                raise Refused(
                    "this device does not belong to the vault",
                    hint=f"Where it stands: holdfast remote list. Its words: {main.here.keys.public.words}",
                )
            if session in (main.memory.read(tuple[str, ...], "earlier") or ()):
                raise Refused(
                    "the session is held back until you have confirmed the vault",
                    hint=f"Compare its words on another device, then: holdfast remote confirm {remote.name}",
                    session=session,
                )
            vault = sharing.begin(main, session)
            sharing.uninvite(vault, person.email)  # shared anew: with other rights, or for longer
            sharing.invite(vault, person.email, person.keys, write=write, expires=expires)
            syncing.sync(opening.again(main))
    return Shared(person.email, remote.name, remote.url, write, expires)


def revoke(keeper: Keeper, session: str, email: str) -> list[str]:
    """Take it back wherever it was shared with this person; gives the remotes."""
    done: list[str] = []
    away: HoldfastError | None = None
    with opening.alone(keeper):
        for remote in remotes.load(keeper.home):
            if remote.kind != "vault":
                continue
            try:
                with opening.vault(keeper, remote) as main:
                    syncing.sync(main)
                    vault = sharing.shared(main, session)
                    if vault is not None and sharing.uninvite(vault, email):
                        syncing.sync(opening.again(main))
                        done.append(remote.name)
            except Unreachable as error:
                away = away or error
    if not done:
        raise away or NotFound(
            f"the session is not shared with {email[:80]!a}",
            hint="holdfast people list shows how you spelled their address.",
            session=session,
        )
    return done


def _home_of(keeper: Keeper, name: str | None) -> Remote:
    known = [one for one in remotes.load(keeper.home) if one.kind == "vault"]
    found = known if name is None else [one for one in known if one.name == remotes.named(keeper.home, name).name]
    if not found:
        raise NotFound(
            "no remote is set up to share by", hint="For instance: holdfast remote add team s3://BUCKET/PREFIX"
        )
    if len(found) > 1:
        choices = " or --remote ".join(one.name for one in found)
        raise Refused("there are several remotes", hint=f"Say which: --remote {choices}")
    return found[0]


# ── taking ───────────────────────────────────────────────────────────────────────────────────────────────


def identities(path: str) -> list[str | bytes]:
    """The secret keys in a file: an age identity, or an SSH private key."""
    return wraps.read_identity(files.read_limited(path, _LARGEST_IDENTITY, what="the identity"))


def accept(keeper: Keeper, *, url: str | None = None, keys: Sequence[str | bytes] = ()) -> list[Accepted]:
    """Take part in every session that was shared with this device, or with the holder of these secret keys."""
    places = [checked_url(url)] if url is not None else list({one.url: None for one in remotes.load(keeper.home)})
    if not places:
        raise NotFound("no remote is set up to look for shared sessions", hint="Say where: holdfast accept URL")
    done: list[Accepted] = []
    gone: list[str] = []
    away: HoldfastError | None = None
    with opening.alone(keeper):
        ours = _ours(keeper)
        for where in places:
            try:
                done += _accepted_at(keeper, where, keys, ours, gone)
            except Unreachable as error:
                away = away or error
    if not done and gone and away is None:
        raise NotFound(
            "what was shared with this device there was deleted", hint="holdfast history shows what is here."
        )
    if not done:
        raise away or NotFound(
            "nothing was shared with this device there",
            hint="Whoever shares needs your key: holdfast device show (what begins with age1), or your SSH key;"
            " for the latter: holdfast accept URL --identity FILE",
        )
    return done


def _ours(keeper: Keeper) -> set[str]:
    """Sessions that we share ourselves: keys for them are left for our own devices too."""
    return {
        one.vault
        for remote in remotes.load(keeper.home)
        if remote.kind == "vault"
        for one in opening.remembered(keeper, remote).membership.shares
    }


def _accepted_at(
    keeper: Keeper, where: str, keys: Sequence[str | bytes], ours: set[str], gone: list[str]
) -> list[Accepted]:
    """What was accepted there; sessions that were deleted, here or by their owner, are added to `gone`."""
    done = []
    cleansing.cleanse(keeper)
    with opening.place(keeper, where) as place:
        here = opening.here(keeper)
        for offer in sharing.offers(place, [here.keys.identity, *keys]):
            session = offer.session or ""
            if offer.vault in ours:
                continue
            known = any(one.vault == offer.vault for one in remotes.load(keeper.home))
            if _is_deleted(keeper, session):
                gone.append(session)
                continue
            # First to read: who was invited, and whether the secret is of an invitation that still stands, is in it.
            vault = sharing.accept(here, place, replace(offer, secret=None))
            syncing.sync(vault)
            if not known and keeper.store().state(session) is None:
                founding.forget(vault)  # it was taken back: what its keys open is gone
                continue
            if _is_deleted(keeper, session):
                gone.append(session)
                if not known:
                    founding.forget(vault)
                continue
            name = _remember(keeper, vault, where, session)
            admitted = vault.membership.is_member(vault.me)
            invited = not admitted and _may_write(vault, offer.secret)
            if invited:
                sharing.accept(here, place, offer)
            elif not admitted:
                joining.take_back(vault)  # asked when it was still shared to write
            done.append(Accepted(session, name, admitted or invited, admitted))
    return done


def _is_deleted(keeper: Keeper, session: str) -> bool:
    state = keeper.store().state(session)
    return state is not None and state.deleted


def _may_write(vault: Vault, secret: bytes | None) -> bool:
    if secret is None:
        return False
    shown = joining.signer(secret).public_key().public_bytes_raw()
    return any(one.live and one.write and one.secret == shown for one in vault.membership.invites)


def _remember(keeper: Keeper, vault: Vault, url: str, session: str) -> str:
    known = remotes.load(keeper.home)
    before = next((one for one in known if one.vault == vault.id), None)
    if before is not None:
        return before.name
    name = f"shared-{session[:8]}"
    taken = {one.name for one in known}
    while name in taken:
        name = f"shared-{session[:8]}-{os.urandom(2).hex()}"
    remotes.add(keeper.home, Remote(name=name, url=url, vault=vault.id, kind="share", session=session))
    return name
