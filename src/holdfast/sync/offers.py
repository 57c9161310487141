"""List offers of shared sessions: who offers what to this device, with which rights, before anything is accepted.

Anyone with a public key and write access to the remote can leave an offer. Its contents are read into a scratch
store, and only signatures say whose it is: the fingerprint of the device that signed the invitation.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.core.text import printable, shorten
from holdfast.machine import files
from holdfast.machine.wall import monotonic
from holdfast.store import origin
from holdfast.store.sqlite import SqliteStore
from holdfast.sync import open_vault, people, remote_list, vault_shares
from holdfast.sync.people import Person
from holdfast.sync.protocol import wraps
from holdfast.sync.protocol.membership import Invitation, Membership
from holdfast.sync.protocol.wraps import KeyWrap
from holdfast.sync.pull import Pull
from holdfast.sync.read_heads import read_listing
from holdfast.sync.remotes.wrappers import LimitedRemote, OverLimit
from holdfast.sync.vault import LocalDevice, Vault
from holdfast.workspace.keys.device_keys import PublicKeys

if TYPE_CHECKING:
    from holdfast.sync.remotes.base import RemoteStore
    from holdfast.workspace.workspace import Workspace

# Anybody can leave offers of any size: limits on their number, and on the time and bytes for each.
_MAX_OFFERS: Final = 200
_MAX_SECONDS: Final = 120.0
_REQUESTS_EACH: Final = 5_000
_BYTES_EACH: Final = 32 << 20
_SECONDS_EACH: Final = 30.0
_UNPACKED_BYTES_EACH: Final = 20 << 20
_SCRATCH: Final = "offer.db"
_SESSION_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


class Offer(NamedTuple):
    """A session that somebody offers. `name` is the share's vault id, which cannot be forged."""

    name: str
    session: str
    goal: str | None
    # Their address if the device is known, else the name the device gives itself; and its words.
    sender: str
    fingerprint: str
    known: bool
    revoked: bool
    writes: bool
    expires: int | None
    # A session with this id is here already: the offer cannot be accepted.
    taken: bool
    wrapped: KeyWrap


def list_offers(
    ws: Workspace,
    remote: RemoteStore,
    identities: Sequence[str | bytes],
    skip: Collection[str],
    *,
    name: str | None = None,
) -> tuple[list[Offer], int]:
    """The readable offers at a remote for these identities, except `skip`; and how many were not read.

    Offers of known people are read first. `name`: only offers whose names begin with it.
    """
    local = open_vault.this_device(ws)
    recipients = {wraps.recipient_of(identity) for identity in identities}
    trusted = _Trust(ws)
    readable: list[Offer] = []
    offers = [offer for offer in vault_shares.offers(remote, identities) if offer.vault not in skip]
    if name is not None:
        offers = [offer for offer in offers if offer.vault.startswith(name.lower())]
    random.SystemRandom().shuffle(offers)
    offers.sort(key=lambda offer: not trusted.knows(vault_shares.founder_of(offer)))
    read_count, until = 0, monotonic() + _MAX_SECONDS
    for wrapped in offers[:_MAX_OFFERS]:
        if monotonic() > until:
            break
        read_count += 1
        with _scratch_device(ws, local) as scratch:
            offer = _read_offer(ws, scratch, remote, wrapped, recipients, trusted)
        if offer is not None:
            readable.append(offer)
    readable.sort(key=lambda offer: (not offer.known, offer.revoked, offer.name))
    return readable, len(offers) - read_count


def _read_offer(
    ws: Workspace, scratch: LocalDevice, remote: RemoteStore, wrapped: KeyWrap, recipients: set[str], trusted: _Trust
) -> Offer | None:
    """The contents of an offer; None when it was revoked, has expired or cannot be read."""
    limited = LimitedRemote(remote, requests=_REQUESTS_EACH, bytes=_BYTES_EACH, seconds=_SECONDS_EACH)
    try:
        vault = vault_shares.accept(
            scratch, limited, replace(wrapped, secret=None), max_unpacked=_UNPACKED_BYTES_EACH
        )
        vault.fetch_admission()
        # Its goal is shown if it can be read within the limits.
        with contextlib.suppress(OverLimit):
            pull = Pull(vault, read_listing(remote.list("h/"), vault.tag))
            pull.heads.read_all()
            pull.packs()
    except HoldfastError as error:
        if error.retry_helps:
            raise
        return None
    invite = _invitation(vault, recipients, ws.now())
    if invite is None:
        return None
    session = wrapped.session or ""
    if not _SESSION_ID.match(session):  # a short one would be taken for the beginning of another id
        return None
    state = scratch.store.state(session)
    signer = vault.membership.members[invite.by]
    store = ws.store()
    return Offer(
        name=vault.id, session=session,
        goal=None if state is None else shorten(printable(view.text_value(state, "goal") or ""), 200),
        sender=trusted.name(signer.keys) or printable(signer.name), fingerprint=signer.keys.words,
        known=trusted.name(signer.keys) is not None, revoked=trusted.is_revoked(signer.keys),
        writes=invite.write, expires=invite.expires,
        taken=origin.share_of(store, session) not in (None, vault.id)
        or (origin.share_of(store, session) is None and store.state(session) is not None),
        wrapped=wrapped,
    )  # fmt: skip


def _invitation(vault: Vault, recipients: set[str], now: int) -> Invitation | None:
    """The valid invitation by which a member of the share offers it to us, if any."""
    members = vault.membership
    valid = [
        invite
        for invite in members.invites
        if invite.live
        and recipients & set(invite.recipients)
        and members.is_member(invite.by)
        and (invite.expires is None or invite.expires > now)
    ]
    return max(valid, key=lambda invite: invite.write, default=None)


@contextmanager
def _scratch_device(ws: Workspace, local: LocalDevice) -> Iterator[LocalDevice]:
    """This device with a separate empty store, which is deleted afterwards."""
    parent = os.path.join(ws.home.path, "remotes")
    files.make_private_dir(parent)
    path = os.path.join(parent, _SCRATCH)
    _remove_database(path)  # left by a killed process; only one process at a time reads offers
    try:
        store = SqliteStore(path, writer=local.writer, wall=ws.wall.micros)
        try:
            yield local._replace(store=store, transaction=store.transaction, received=lambda _, __: None)
        finally:
            store.close()
    finally:
        _remove_database(path)


def _remove_database(path: str) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ending)


# ── trust ────────────────────────────────────────────────────────────────────────────────────────


class _Trust:
    """Devices whose words a person added, and those that lost access to something of ours."""

    def __init__(self, ws: Workspace) -> None:
        self._people = people.load(ws.home)
        self._devices: set[str] = set()
        self._keys: set[str] = set()
        for members in _memberships(ws):
            self._devices |= members.removed.keys()
            live = {key for invite in members.invites if invite.live for key in invite.recipients}
            self._keys |= {key for invite in members.invites if not invite.live for key in invite.recipients} - live

    def knows(self, device: str) -> bool:
        """Whether the words of this device were added."""
        return any(device in person.devices for person in self._people)

    def name(self, keys: PublicKeys) -> str | None:
        """The address of the person whose device this is, if its words were added."""
        return next((person.email for person in self._people if keys.id in person.devices), None)

    def is_revoked(self, keys: PublicKeys) -> bool:
        """Whether this device, or any key of its person, lost access to something of ours."""
        owners = [person for person in self._people if keys.id in person.devices or keys.age in person.keys]
        return keys.id in self._devices or any(
            self._keys & {keys.age, *person.keys} or self._devices & set(person.devices)
            for person in owners or [Person("", (keys.age,))]
        )


def _memberships(ws: Workspace) -> Iterator[Membership]:
    """The membership of every vault of ours, and of every session that it shares."""
    for remote in remote_list.load(ws.home):
        if remote.kind == "vault":
            vault = open_vault.open_offline(ws, remote)
            yield vault.membership
            yield from (
                vault_shares.open_share(vault, share.vault, share.founding).membership
                for share in vault_shares.followed_shares(vault)
            )


def own_shares(ws: Workspace) -> set[str]:
    """The vaults of sessions that we share ourselves: wraps for our own devices look like offers."""
    return {
        share.vault
        for remote in remote_list.load(ws.home)
        if remote.kind == "vault"
        for share in open_vault.open_offline(ws, remote).membership.shares
    }
