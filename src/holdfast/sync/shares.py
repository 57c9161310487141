"""Share a session with a person, revoke it, and accept sessions that others share."""

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
from holdfast.sync import offers as offer_reader
from holdfast.sync.offers import Offer
from holdfast.sync.protocol import wraps
from holdfast.sync.protocol.wraps import KeyWrap
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remotes.index import checked_url
from holdfast.sync.sync import sync_vault
from holdfast.sync.vault import Vault

if TYPE_CHECKING:
    from holdfast.sync.remotes.base import RemoteStore
    from holdfast.workspace.workspace import Workspace

_MAX_IDENTITY = 64 << 10
_MIN_NAME_LENGTH: Final = 4
_T = TypeVar("_T")


class ShareResult(NamedTuple):
    email: str
    remote: str
    url: str
    write: bool
    expires: int | None
    # This device's fingerprint, by which they recognise the offer.
    words: str


class AcceptedShare(NamedTuple):
    session: str
    remote: str
    # Whether this person may write; and whether this device was let in already.
    writes: bool
    admitted: bool


# ── sharing ───────────────────────────────────────────────────────────────────────────────────────────────


def share(
    ws: Workspace,
    session: str,
    email: str,
    *,
    write: bool = True,
    expires: int | None = None,
    name: str | None = None,
) -> ShareResult:
    """Let a person read this session, and write unless `write` is false, through its remote."""
    if expires is not None and expires <= ws.now():
        raise Invalid("the share would expire before it starts", hint="Give a time in the future: --expires 7d")
    if origin.is_members(ws.store(), session):
        raise Refused(
            "the session belongs to another member of the team's store: only they may share it",
            hint=f"You can share a copy of your own: holdfast fork {session[:8]}",
            session=session,
        )
    person = people.find(ws.home, email)
    shared_with_me.refuse_sharing(ws, session)
    with open_vault.exclusive(ws):
        remote = _choose_vault(ws, name)
        with open_vault.vault(ws, remote) as main:
            sync_vault(main)
            if not main.membership.is_member(main.me):
                raise Refused(
                    "this device does not belong to the vault",
                    hint=f"See: holdfast remote list. The words of this device: {main.local.keys.public.words}",
                )
            if session in (main.memory.read(tuple[str, ...], "earlier") or ()):
                raise Refused(
                    "the session is not sent until you confirm the vault",
                    hint=f"Compare its words on another device, then: holdfast remote confirm {remote.name}",
                    session=session,
                )
            vault = vault_shares.find_or_create_share(main, session)
            vault_shares.uninvite(vault, person.email)  # shared again: with other rights, or for longer
            vault_shares.invite(vault, person.email, person.keys, write=write, expires=expires)
            sync_vault(open_vault.reopen(main))
    ws.remotes_changed()
    words = open_vault.device_keys(ws).public.words
    return ShareResult(person.email, remote.name, remote.url, write, expires, words)


def revoke(ws: Workspace, session: str, email: str) -> list[str]:
    """Revoke every share of this session with this person; return the remotes."""
    done: list[str] = []
    unreachable: HoldfastError | None = None
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
                unreachable = unreachable or error
    ws.remotes_changed()
    if not done:
        raise unreachable or NotFound(
            f"the session is not shared with {email[:80]!a}",
            hint="Check the spelling of the address: holdfast people list",
            session=session,
        )
    return done


def _choose_vault(ws: Workspace, name: str | None) -> KnownRemote:
    known = [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]
    matching = (
        known if name is None else [remote for remote in known if remote.name == remote_list.find(ws.home, name).name]
    )
    if not matching:
        raise NotFound(
            "no remote is set up for sharing", hint="For example: holdfast remote add team s3://BUCKET/PREFIX"
        )
    if len(matching) > 1:
        choices = " or --remote ".join(remote.name for remote in matching)
        raise Refused("there are several remotes", hint=f"Name one: --remote {choices}")
    return matching[0]


# ── accepting ───────────────────────────────────────────────────────────────────────────────────────────────


def identities(path: str) -> list[str | bytes]:
    """The secret keys in a file: an age identity, or an SSH private key."""
    return wraps.read_identity(files.read_limited(path, _MAX_IDENTITY, subject="the identity"))


class Offers(list[Offer]):
    """Offers, and how many more were not read."""

    unread = 0


def offers(ws: Workspace, *, url: str | None = None, keys: Sequence[str | bytes] = ()) -> Offers:
    """The offers for this device and for the holder of these secret keys. Nothing is accepted."""
    unread = 0

    def list_at(remote: RemoteStore, _: str) -> list[Offer]:
        nonlocal unread
        result, more = _list_offers(ws, remote, keys)
        unread += more
        return result

    with open_vault.exclusive(ws):
        result = Offers(_at_each_remote(ws, url, list_at))
    result.unread = unread
    return result


def _list_offers(
    ws: Workspace, remote: RemoteStore, keys: Sequence[str | bytes], name: str | None = None
) -> tuple[list[Offer], int]:
    joined = {remote.vault for remote in remote_list.load(ws.home)}
    identities = [open_vault.device_keys(ws).identity, *keys]
    return offer_reader.list_offers(ws, remote, identities, offer_reader.own_shares(ws) | joined, name=name)


def accept(
    ws: Workspace,
    *,
    url: str | None = None,
    keys: Sequence[str | bytes] = (),
    name: str | None = None,
) -> list[AcceptedShare]:
    """Accept one offered session, by its name; without one, all from trusted senders that are not revoked.

    Sessions that were accepted before are read again: their rights may have changed.
    """
    deleted: list[str] = []
    waiting: list[Offer] = []
    with open_vault.exclusive(ws):
        outgoing.redact_outgoing(ws)
        done = _at_each_remote(
            ws, url, lambda remote, address: _accept_at(ws, remote, address, keys, name, deleted, waiting)
        )
    if done:
        ws.remotes_changed()
        return done
    where = "" if url is None else f" {url}"
    if waiting and name is None:
        raise Refused(
            f"{count(len(waiting), 'offer')} from people you do not trust, or that cannot be accepted",
            hint=f"To see them: holdfast accept{where} --list. Then accept one by its name, for example:"
            f" holdfast accept{where} {waiting[0].name[:8]}",
        )
    if name is not None and not deleted:
        raise NotFound(f"no offer {name[:70]!a}", hint=f"To see the offers: holdfast accept{where} --list")
    if deleted:
        raise NotFound(
            "what was shared with this device there was deleted", hint="See what is here: holdfast history"
        )
    raise NotFound(
        "nothing was shared with this device there",
        hint="The person who shares needs your key: holdfast device show (what begins with age1), or your SSH key;"
        " for the latter: holdfast accept URL --identity FILE",
    )


def _at_each_remote(ws: Workspace, url: str | None, visit: Callable[[RemoteStore, str], list[_T]]) -> list[_T]:
    """Call `visit` with one address, or with every remote; an unreachable one is an error only if all are."""
    urls = [checked_url(url)] if url is not None else list({remote.url: None for remote in remote_list.load(ws.home)})
    if not urls:
        raise NotFound(
            "no remote is set up to look for shared sessions", hint="Give the address: holdfast accept URL"
        )
    done: list[_T] = []
    unreachable: HoldfastError | None = None
    for address in urls:
        try:
            with open_vault.remote_at(ws, address) as remote:
                done += visit(remote, address)
        except Unreachable as error:
            unreachable = unreachable or error
    if unreachable is not None and not done:
        raise unreachable
    return done


def _accept_at(
    ws: Workspace, store: RemoteStore, url: str, keys: Sequence[str | bytes], name: str | None, deleted: list[str],
    waiting: list[Offer],
) -> list[AcceptedShare]:  # fmt: skip
    """What was accepted there; adds to `deleted` sessions, and to `waiting` offers that a person has to choose."""
    joined = {remote.vault for remote in remote_list.load(ws.home) if remote.kind == "share"}
    chosen: list[KeyWrap] = []
    if name is None:
        known = vault_shares.offers(store, [open_vault.device_keys(ws).identity, *keys])
        chosen += [wrapped for wrapped in known if wrapped.vault in joined]
    for offer in _list_offers(ws, store, keys, name)[0]:
        if _is_deleted(ws, offer.session) and (name is None or _is_named(offer, name)):
            deleted.append(offer.session)
        elif (name is None and offer.known and not offer.revoked and not offer.taken) or _is_named(offer, name):
            chosen.append(offer.wrapped)
        else:
            waiting.append(offer)
    if name is not None and len(chosen) > 1:
        choices = ", ".join(wrapped.vault[:16] for wrapped in chosen)
        raise Refused(f"several offers begin with {name[:70]!a}", hint=f"Give more of the name: {choices}")
    results = (_accept(ws, store, url, wrapped, deleted) for wrapped in chosen)
    return [accepted for accepted in results if accepted is not None]


def _is_named(offer: Offer, name: str | None) -> bool:
    return name is not None and len(name) >= _MIN_NAME_LENGTH and offer.name.startswith(name.lower())


def _accept(ws: Workspace, store: RemoteStore, url: str, offer: KeyWrap, deleted: list[str]) -> AcceptedShare | None:
    local = open_vault.this_device(ws)
    session = offer.session or ""
    known = any(remote.vault == offer.vault for remote in remote_list.load(ws.home))
    if _is_deleted(ws, session):
        deleted.append(session)
        return None
    # First only to read: the share itself says whether the invitation is still valid.
    vault = vault_shares.accept(local, store, replace(offer, secret=None))
    sync_vault(vault)
    if not known and ws.store().state(session) is None:
        _forget(ws, vault, session)  # it was revoked
        return None
    if _is_deleted(ws, session):
        deleted.append(session)
        if not known:
            _forget(ws, vault, session)
        return None
    name = _remember(ws, vault, url, session)
    admitted = vault.membership.is_member(vault.me)
    secret = None if admitted else vault_shares.proven_secret(vault, offer)
    if secret is not None:
        vault_shares.accept(local, store, replace(offer, secret=secret, secrets=(secret,)))
    elif not admitted:
        join_vault.withdraw_request(vault)  # left when it was still shared to write
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
