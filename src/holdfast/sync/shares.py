"""Sharing one session with a person, taking part in one that was shared, and taking it back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.core.errors import HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.core.wording import count
from holdfast.machine import files
from holdfast.store import origin
from holdfast.sync import (
    create_vault,
    join_vault,
    open_vault,
    outgoing,
    people,
    remote_list,
    shared_with_me,
    vault_shares,
)
from holdfast.sync import offers as offering
from holdfast.sync.offers import Offer
from holdfast.sync.protocol import wraps
from holdfast.sync.protocol.wraps import KeyWrap
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remotes.index import checked_url
from holdfast.sync.sync import sync_vault
from holdfast.sync.vault import Vault

if TYPE_CHECKING:
    from holdfast.sync.remotes.base import RemoteStore as Place
    from holdfast.workspace.workspace import Workspace

_MAX_IDENTITY = 64 << 10
_SHORTEST_NAME: Final = 4
_T = TypeVar("_T")


class ShareResult(NamedTuple):
    email: str
    remote: str
    url: str
    write: bool
    expires: int | None
    # The fingerprint of this device, by which they know whose offer it is.
    words: str


class AcceptedShare(NamedTuple):
    session: str
    remote: str
    # Whether the person may write; and whether this device was let in to do so already.
    writes: bool
    admitted: bool


# ── giving ───────────────────────────────────────────────────────────────────────────────────────────────


def share(
    ws: Workspace,
    session: str,
    email: str,
    *,
    write: bool = True,
    expires: int | None = None,
    name: str | None = None,
) -> ShareResult:
    """Let a person read this session (and write, unless told otherwise) at the remote it travels by."""
    if expires is not None and expires <= ws.now():
        raise Invalid("the share would be over before it began", hint="Give a time to come: --expires 7d")
    if origin.is_members(ws.store(), session):
        raise Refused(
            "the session is another member's of the team's store: only they share it",
            hint=f"A copy of your own can be shared: holdfast fork {session[:8]}",
            session=session,
        )
    person = people.find(ws.home, email)
    shared_with_me.refuse_widening(ws, session)
    with open_vault.exclusive(ws):
        remote = _home_of(ws, name)
        with open_vault.vault(ws, remote) as main:
            sync_vault(main)
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
            vault = vault_shares.begin(main, session)
            vault_shares.uninvite(vault, person.email)  # shared anew: with other rights, or for longer
            vault_shares.invite(vault, person.email, person.keys, write=write, expires=expires)
            sync_vault(open_vault.reopen(main))
    ws.remotes_changed()
    words = open_vault.keys(ws).public.words
    return ShareResult(person.email, remote.name, remote.url, write, expires, words)


def revoke(ws: Workspace, session: str, email: str) -> list[str]:
    """Take it back wherever it was shared with this person; gives the remotes."""
    done: list[str] = []
    away: HoldfastError | None = None
    with open_vault.exclusive(ws):
        for remote in remote_list.load(ws.home):
            if remote.kind != "vault":
                continue
            try:
                with open_vault.vault(ws, remote) as main:
                    sync_vault(main)
                    vault = vault_shares.find_share(main, session)
                    if vault is not None and vault_shares.uninvite(vault, email):
                        sync_vault(open_vault.reopen(main))
                        done.append(remote.name)
            except Unreachable as error:
                away = away or error
    ws.remotes_changed()
    if not done:
        raise away or NotFound(
            f"the session is not shared with {email[:80]!a}",
            hint="holdfast people list shows how you spelled their address.",
            session=session,
        )
    return done


def _home_of(ws: Workspace, name: str | None) -> KnownRemote:
    known = [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]
    matching = (
        known if name is None else [remote for remote in known if remote.name == remote_list.find(ws.home, name).name]
    )
    if not matching:
        raise NotFound(
            "no remote is set up to share by", hint="For instance: holdfast remote add team s3://BUCKET/PREFIX"
        )
    if len(matching) > 1:
        choices = " or --remote ".join(remote.name for remote in matching)
        raise Refused("there are several remotes", hint=f"Say which: --remote {choices}")
    return matching[0]


# ── taking ───────────────────────────────────────────────────────────────────────────────────────────────


def identities(path: str) -> list[str | bytes]:
    """The secret keys in a file: an age identity, or an SSH private key."""
    return wraps.read_identity(files.read_limited(path, _MAX_IDENTITY, what="the identity"))


class Offers(list[Offer]):
    """Offers, and how many more there are that were not looked into."""

    unread = 0


def offers(ws: Workspace, *, url: str | None = None, keys: Sequence[str | bytes] = ()) -> Offers:
    """Who offers what to this device, or to the holder of these secret keys. Nothing is taken in."""
    unread = 0

    def look(place: Place, _: str) -> list[Offer]:
        nonlocal unread
        result, more = _offered(ws, place, keys)
        unread += more
        return result

    with open_vault.exclusive(ws):
        result = Offers(_at_each(ws, url, look))
    result.unread = unread
    return result


def _offered(
    ws: Workspace, place: Place, keys: Sequence[str | bytes], name: str | None = None
) -> tuple[list[Offer], int]:
    joined = {remote.vault for remote in remote_list.load(ws.home)}
    identities = [open_vault.keys(ws).identity, *keys]
    return offering.listed(ws, place, identities, offering.own_shares(ws) | joined, name=name)


def accept(
    ws: Workspace,
    *,
    url: str | None = None,
    keys: Sequence[str | bytes] = (),
    name: str | None = None,
) -> list[AcceptedShare]:
    """Take part in one offered session, by its name; without one, in all whose sender is trusted and not revoked.

    Sessions that were accepted before are looked at again: they may be shared with other rights by now.
    """
    deleted: list[str] = []
    waiting: list[Offer] = []
    with open_vault.exclusive(ws):
        outgoing.cleanse(ws)
        done = _at_each(ws, url, lambda place, at: _accepted_at(ws, place, at, keys, name, deleted, waiting))
    if done:
        ws.remotes_changed()
        return done
    where = "" if url is None else f" {url}"
    if waiting and name is None:
        raise Refused(
            f"{count(len(waiting), 'offer')} that nobody you trust has made, or that cannot be taken",
            hint=f"Look at them: holdfast accept{where} --list. Then take one by its name, for instance:"
            f" holdfast accept{where} {waiting[0].name[:8]}",
        )
    if name is not None and not deleted:
        raise NotFound(f"there is no offer {name[:70]!a}", hint=f"They are shown by: holdfast accept{where} --list")
    if deleted:
        raise NotFound(
            "what was shared with this device there was deleted", hint="holdfast history shows what is here."
        )
    raise NotFound(
        "nothing was shared with this device there",
        hint="Whoever shares needs your key: holdfast device show (what begins with age1), or your SSH key;"
        " for the latter: holdfast accept URL --identity FILE",
    )


def _at_each(ws: Workspace, url: str | None, look: Callable[[Place, str], list[_T]]) -> list[_T]:
    """Look at one address, or at every remote there is; one that is away is an error only if nothing is found."""
    places = (
        [checked_url(url)] if url is not None else list({remote.url: None for remote in remote_list.load(ws.home)})
    )
    if not places:
        raise NotFound("no remote is set up to look for shared sessions", hint="Say where: holdfast accept URL")
    done: list[_T] = []
    away: HoldfastError | None = None
    for where in places:
        try:
            with open_vault.remote_at(ws, where) as place:
                done += look(place, where)
        except Unreachable as error:
            away = away or error
    if away is not None and not done:
        raise away
    return done


def _accepted_at(
    ws: Workspace, place: Place, where: str, keys: Sequence[str | bytes], name: str | None, deleted: list[str],
    waiting: list[Offer],
) -> list[AcceptedShare]:  # fmt: skip
    """What was accepted there. `gone`: sessions that were deleted; `waiting`: offers that take a person's word."""
    joined = {remote.vault for remote in remote_list.load(ws.home) if remote.kind == "share"}
    wanted: list[KeyWrap] = []
    if name is None:
        known = vault_shares.offers(place, [open_vault.keys(ws).identity, *keys])
        wanted += [wrapped for wrapped in known if wrapped.vault in joined]
    for offer in _offered(ws, place, keys, name)[0]:
        if _is_deleted(ws, offer.session) and (name is None or _is_named(offer, name)):
            deleted.append(offer.session)
        elif (name is None and offer.known and not offer.revoked and not offer.taken) or _is_named(offer, name):
            wanted.append(offer.wrapped)
        else:
            waiting.append(offer)
    if name is not None and len(wanted) > 1:
        choices = ", ".join(wrapped.vault[:16] for wrapped in wanted)
        raise Refused(f"several offers begin with {name[:70]!a}", hint=f"Give more of it: {choices}")
    results = (_accept(ws, place, where, wrapped, deleted) for wrapped in wanted)
    return [accepted for accepted in results if accepted is not None]


def _is_named(offer: Offer, name: str | None) -> bool:
    return name is not None and len(name) >= _SHORTEST_NAME and offer.name.startswith(name.lower())


def _accept(ws: Workspace, place: Place, where: str, offer: KeyWrap, deleted: list[str]) -> AcceptedShare | None:
    here = open_vault.this_device(ws)
    session = offer.session or ""
    known = any(remote.vault == offer.vault for remote in remote_list.load(ws.home))
    if _is_deleted(ws, session):
        deleted.append(session)
        return None
    # First to read: who was invited, and whether the secret is of an invitation that still stands, is in it.
    vault = vault_shares.accept(here, place, replace(offer, secret=None))
    sync_vault(vault)
    if not known and ws.store().state(session) is None:
        _forget(ws, vault, session)  # it was taken back: what its keys open is gone
        return None
    if _is_deleted(ws, session):
        deleted.append(session)
        if not known:
            _forget(ws, vault, session)
        return None
    name = _remember(ws, vault, where, session)
    admitted = vault.membership.is_member(vault.me)
    secret = None if admitted else vault_shares.proven_secret(vault, offer)
    if secret is not None:
        vault_shares.accept(here, place, replace(offer, secret=secret, secrets=(secret,)))
    elif not admitted:
        join_vault.withdraw_request(vault)  # asked when it was still shared to write
    return AcceptedShare(session, name, admitted or secret is not None, admitted)


def _forget(ws: Workspace, vault: Vault, session: str) -> None:
    create_vault.forget(vault)
    with ws.transaction() as transaction:
        origin.forget(transaction, session)


def _is_deleted(ws: Workspace, session: str) -> bool:
    state = ws.store().state(session)
    return state is not None and state.deleted


def _remember(ws: Workspace, vault: Vault, url: str, session: str) -> str:
    known = remote_list.load(ws.home)
    before = next((remote for remote in known if remote.vault == vault.id), None)
    if before is not None:
        return before.name
    name = f"shared-{session[:8]}"
    taken = {remote.name for remote in known}
    while name in taken:
        name = f"shared-{session[:8]}-{os.urandom(2).hex()}"
    remote_list.add(ws.home, KnownRemote(name=name, url=url, vault=vault.id, kind="share", session=session))
    return name
