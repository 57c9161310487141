"""Share one session: a small separate vault, to which other people are invited.

All devices of the main vault belong to it too; guests cannot see the main vault. An invited person's key opens a
wrap, and a wrap for writers holds a secret: a device that proves it may write, not only read.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.sync import create_vault, event_rights, join_vault, provenance, removal
from holdfast.sync.protocol import entries, sealing, wraps
from holdfast.sync.protocol.entries import Admit, Invite, Rename, ShareEntry, Uninvite, VaultFounded
from holdfast.sync.protocol.membership import SharedSession, VaultMember
from holdfast.sync.protocol.sealing import Unsealable
from holdfast.sync.protocol.wraps import KeyWrap
from holdfast.sync.remotes.base import Missing, ObjectTooLarge, RemoteStore
from holdfast.sync.state import FOUNDING, DeviceStatus
from holdfast.sync.vault import LocalDevice, Vault, VaultChange
from holdfast.workspace.keys import age

# Anyone who knows a person's public key can leave files for it: this many are read, chosen at random each time.
_MAX_FILES: Final = 20_000
_MAX_OF_SESSION: Final = 4
_MAX_OFFER: Final = 64 << 10  # bytes: a thousand keys of one session
# Keys of one offer, and how many of them may be unproven: fewer than are tried with each object.
_MAX_KEYS: Final = 8_000
_MAX_UNPROVEN_KEYS: Final = 500
_SECRET_LENGTH: Final = 32


def find_share(main: Vault, session: str) -> Vault | None:
    """The vault of a shared session, as this device knows it; None when it was never shared here."""
    for share in main.membership.shares:
        if share.session == session and event_rights.may_share(main, share.by, session):
            return open_share(main, share.vault, share.founding)
    return None


def followed_shares(main: Vault) -> list[SharedSession]:
    """The shares to follow. A device that is not an admin can announce any number of them: only the first few of each
    session that is here count.
    """
    members = main.membership
    sessions = frozenset(main.local.store.sessions()) if members.shares else frozenset[str]()
    shares: list[SharedSession] = []
    announced: Counter[tuple[str, str]] = Counter()
    for share in members.shares:
        announced[share.by, share.session] += 1
        trusted = share.by == main.me or members.is_admin(share.by)
        if trusted or (share.session in sessions and announced[share.by, share.session] <= _MAX_OF_SESSION):
            shares.append(share)
    return shares


def open_share(main: Vault, vault_id: str, packed: bytes) -> Vault:
    vault = Vault(main.local, main.remote, vault_id, main=main)
    if vault.founding() is None:
        with main.local.transaction() as transaction:
            vault.memory.write_raw(transaction, packed, FOUNDING)
            vault.memory.write(transaction, DeviceStatus(place="member", confirmed=True), "standing")
    return vault


def find_or_create_share(main: Vault, session: str) -> Vault:
    """The vault of a session, created if there is none yet."""
    existing = find_share(main, session)
    if existing is not None:
        return existing
    vault = create_vault.prepare(main.local, main.remote, session=session)
    change = vault.change()
    change.add(Rename, device=vault.me, name=main.local.name)
    for device, member in main.membership.members.items():
        if device != vault.me:
            admit_member(change, member)
    change.new_key()
    change.commit()
    signed = vault.founding()
    assert signed is not None
    announcement = main.change()
    announcement.add(ShareEntry, share=vault.id, founding=entries.pack(signed), session=session)
    announcement.commit()
    return vault


def admit_member(change: VaultChange, member: VaultMember) -> None:
    """Admit a device of the main vault to a share, with the rights it has there."""
    change.add(
        Admit, device=member.keys, name=member.name, admin=member.admin, role=member.kind,
        possession=member.possession,
    )  # fmt: skip


def invite(vault: Vault, email: str, recipients: Sequence[str], *, write: bool, expires: int | None) -> None:
    """Invite a person to read the session, and with `write` to write, once a device of theirs proves the secret."""
    secret = os.urandom(32) if write else None
    change = vault.change()
    change.add(
        Invite, email=email, recipients=tuple(recipients), write=write, expires=expires,
        secret=b"" if secret is None else join_vault.signer(secret).public_key().public_bytes_raw(),
    )  # fmt: skip
    for recipient in recipients:
        change.wrap(recipient, change.wrapped(vault.ring(), secret=secret))
    change.commit()


def uninvite(vault: Vault, email: str) -> bool:
    """Revoke the share with a person, with a new key. False when it is not shared with them."""
    address = email.strip().lower()
    invited = [
        invited.hash for invited in vault.membership.invites if invited.live and invited.email.lower() == address
    ]
    if invited:
        end_invites(vault, invited)
    return bool(invited)


def end_invites(vault: Vault, invites: Iterable[str]) -> None:
    """End these invitations, and remove the devices that joined by them."""
    ended = set(invites)
    change = vault.change()
    for name in sorted(ended):
        change.add(Uninvite, invite=name)
    guests = [device for device, member in vault.membership.members.items() if member.invite in ended]
    removal.remove(vault, guests, change).commit()


# ── at the other end ─────────────────────────────────────────────────────────────────────────────────────


def offers(remote: RemoteStore, identities: Sequence[str | bytes]) -> list[KeyWrap]:
    """The sessions shared with the holder of these identities, with all keys and secrets left for them.

    New keys are left without the secret, revoked invitations stay, and former guests can leave files with anything in
    them: only the entries say which of that is right.
    """
    by_vault: dict[str, _OfferParts] = {}
    for identity in identities:
        prefix = wraps.prefix_of(wraps.recipient_of(identity))
        files = [wrapped for wrapped in remote.list(prefix) if wraps.MIN_BYTES <= wrapped.size <= _MAX_OFFER]
        for listed in random.SystemRandom().sample(files, min(len(files), _MAX_FILES)):
            try:
                wrapped = wraps.unwrap(remote.get(listed.name, _MAX_OFFER), [identity])
            except (Missing, ObjectTooLarge):
                continue
            founder = None if wrapped is None or wrapped.session is None else _genuine_founding(wrapped)
            if wrapped is not None and founder is not None:
                parts = by_vault.setdefault(wrapped.vault, _OfferParts(remote, wrapped, founder.box))
                common = age.shared_secret(identity, founder.device.age) if isinstance(identity, str) else None
                parts.add(wrapped, by_founder=wraps.is_by_author(common, listed.name.removeprefix(prefix)))
    return [parts.offer() for parts in by_vault.values()]


class _OfferParts:
    """Collects what several files hold for one share. Keys that are tried first come last in an offer."""

    def __init__(self, remote: RemoteStore, first: KeyWrap, box: str) -> None:
        self._remote = remote
        self._first = first
        self._public_box = box
        self._box: str | None = None
        self._secrets: dict[bytes, None] = {}
        self._of_founder: dict[bytes, None] = {}
        # In a flood: keys that open the entry which their file names, and the other keys of such files.
        self._proven: dict[bytes, None] = {}
        self._with_proven: dict[bytes, None] = {}
        self._others: dict[bytes, None] = {}

    def add(self, wrapped: KeyWrap, *, by_founder: bool) -> None:
        keys = dict.fromkeys(wrapped.keys)
        if by_founder:
            self._of_founder |= keys
        elif len(self._others | keys) <= _MAX_UNPROVEN_KEYS:
            self._others |= keys
        elif len(self._with_proven) < _MAX_KEYS and (key := self._opening_key(wrapped)) is not None:
            self._proven[key] = None
            self._with_proven |= keys
        if self._box is None and wrapped.box is not None and age.public_of(wrapped.box) == self._public_box:
            self._box = wrapped.box
        if wrapped.secret is not None and len(wrapped.secret) == _SECRET_LENGTH:
            self._secrets[wrapped.secret] = None

    def _opening_key(self, wrapped: KeyWrap) -> bytes | None:
        """The new key that opens the entry which a file names, if any."""
        if wrapped.entry is None:
            return None
        name = f"m/{sealing.vault_tag(wrapped.vault)}/{sealing.entry_name(wrapped.vault, wrapped.entry)}"
        try:
            sealed = self._remote.get(name, entries.LIMIT)
        except (Missing, ObjectTooLarge):
            return None
        limit = entries.unpacked_limit(len(sealed))
        for key in wrapped.keys:
            if key not in self._proven:
                with contextlib.suppress(Unsealable):
                    sealing.unseal([key], "entry", wrapped.vault, name, sealed, limit=limit)
                    return key
        return None

    def offer(self) -> KeyWrap:
        keys = list(self._of_founder | self._proven | self._others | self._with_proven)[:_MAX_KEYS]
        secrets = tuple(self._secrets)
        return msgspec.structs.replace(
            self._first, keys=keys[::-1], box=self._box, secret=secrets[0] if secrets else None, secrets=secrets
        )


def _genuine_founding(offer: KeyWrap) -> VaultFounded | None:
    """The founding entry of the share, if it is genuine."""
    signed = entries.unpack_or_none(offer.founding)
    founding = None if signed is None else entries.founding_of(signed)
    if signed is None or founding is None or entries.hash_of(signed.payload) != offer.vault:
        return None
    return founding if founding.session == offer.session else None


def founder_of(offer: KeyWrap) -> str:
    """The id of the device that shares the session, by signature; empty when the entry is not genuine."""
    signed = entries.unpack_or_none(offer.founding)
    founding = None if signed is None else entries.founding_of(signed)
    return "" if founding is None else founding.device.id


def accept(local: LocalDevice, remote: RemoteStore, offer: KeyWrap, *, max_unpacked: int | None = None) -> Vault:
    """Accept a shared session: read it from now on, and ask to write if the offer allows it.

    `Refused` when a session with this id is here, except through the same share. `max_unpacked`: see `Vault`.
    """
    signed = entries.unpack(offer.founding)
    vault = Vault(local, remote, offer.vault, max_unpacked=max_unpacked)
    wrap = wraps.wrap(local.keys.public.age, offer)
    with local.transaction() as transaction:
        provenance.claim_for_share(transaction, offer.session or "", offer.vault)
        vault.memory.write_raw(transaction, offer.founding, FOUNDING)
        vault.memory.write_raw(transaction, wrap, "wrap", "accepted")
        if vault.memory.raw("standing") is None:
            vault.memory.write(transaction, DeviceStatus(place="reader", confirmed=True), "standing")
    if offer.secret is not None and not vault.membership.is_member(vault.me):
        if len(offer.secrets) > 1:
            vault.fetch_admission()
        join_vault.request_to_join(local, remote, signed, secret=proven_secret(vault, offer) or offer.secret)
    return vault


def proven_secret(vault: Vault, offer: KeyWrap) -> bytes | None:
    """The secret of a valid invitation to write, if the offer has one."""
    invited = {invited.secret for invited in vault.membership.invites if invited.live and invited.write}
    pairs = ((secret, join_vault.signer(secret).public_key().public_bytes_raw()) for secret in offer.secrets)
    return next((secret for secret, public in pairs if public in invited), None)
