"""Sharing one session: a small vault of its own, to which people outside are invited.

Everybody of the main vault belongs to it too; nobody in it can see the main vault. A person's key opens what is left
for it, and inside lies a secret: whoever shows that they know it may write, not only read.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.teleport import authority, entries, founding, joining, provenance, removing, wraps
from holdfast.teleport.entries import Admit, Invite, Rename, Share, Uninvite
from holdfast.teleport.membership import Member, SharedSession
from holdfast.teleport.memory import FOUNDING, Standing
from holdfast.teleport.remotes.interface import Missing, Remote, TooLarge
from holdfast.teleport.vault import Change, Here, Vault
from holdfast.teleport.wraps import Wrapped

# Whoever knows a person's public key can leave files for it: so many are looked at, chosen anew each time.
_MOST_LOOKED_AT: Final = 20_000
_MOST_OF_SESSION: Final = 4
_LARGEST_OFFER: Final = 64 << 10  # bytes: a thousand keys of one session


def shared(main: Vault, session: str) -> Vault | None:
    """The small vault of a session, as this device knows it; None when it was never shared here."""
    for one in main.membership.shares:
        if one.session == session and authority.may_share(main, one.by, session):
            return opened(main, one.vault, one.founding)
    return None


def followed(main: Vault) -> list[SharedSession]:
    """The shared sessions that are looked at. A device that is no admin can announce any number of them, of sessions
    that nobody has: of those it announces count the first few of each session that is here.
    """
    members = main.membership
    here = frozenset(main.here.store.sessions()) if members.shares else frozenset[str]()
    found: list[SharedSession] = []
    announced: Counter[tuple[str, str]] = Counter()
    for one in members.shares:
        announced[one.by, one.session] += 1
        trusted = one.by == main.me or members.is_admin(one.by)
        if trusted or (one.session in here and announced[one.by, one.session] <= _MOST_OF_SESSION):
            found.append(one)
    return found


def opened(main: Vault, vault_id: str, packed: bytes) -> Vault:
    vault = Vault(main.here, main.remote, vault_id, main=main)
    if vault.founding() is None:
        with main.here.transaction() as transaction:
            vault.memory.write_raw(transaction, packed, FOUNDING)
            vault.memory.write(transaction, Standing(place="member", confirmed=True), "standing")
    return vault


def begin(main: Vault, session: str) -> Vault:
    """The small vault of a session, made if there is none yet."""
    found = shared(main, session)
    if found is not None:
        return found
    vault = founding.prepared(main.here, main.remote, session=session)
    change = vault.change()
    change.say(Rename, device=vault.me, name=main.here.name)
    for device, member in main.membership.members.items():
        if device != vault.me:
            let_in(change, member)
    change.new_key()
    change.commit()
    signed = vault.founding()
    assert signed is not None
    told = main.change()
    told.say(Share, share=vault.id, founding=entries.pack(signed), session=session)
    told.commit()
    return vault


def let_in(change: Change, member: Member) -> None:
    """A device of the main vault belongs to what it shares, and is there what it is in the main vault."""
    change.say(
        Admit, device=member.keys, name=member.name, admin=member.admin, role=member.kind,
        possession=member.possession,
    )  # fmt: skip


def invite(vault: Vault, email: str, recipients: Sequence[str], *, write: bool, expires: int | None) -> None:
    """Let a person read the session; and write, once one of their devices has shown the secret."""
    secret = os.urandom(32) if write else None
    change = vault.change()
    change.say(
        Invite, email=email, recipients=tuple(recipients), write=write, expires=expires,
        secret=b"" if secret is None else joining.signer(secret).public_key().public_bytes_raw(),
    )  # fmt: skip
    for recipient in recipients:
        change.wrap(recipient, change.wrapped(vault.ring(), secret=secret))
    change.commit()


def uninvite(vault: Vault, email: str) -> bool:
    """Take it back: a new key that they do not get. False when it is not shared with this person."""
    wanted = email.strip().lower()
    invited = [one.hash for one in vault.membership.invites if one.live and one.email.lower() == wanted]
    if invited:
        end(vault, invited)
    return bool(invited)


def end(vault: Vault, invites: Iterable[str]) -> None:
    """End these invitations, and what the devices that came by them may do."""
    ended = set(invites)
    change = vault.change()
    for one in sorted(ended):
        change.say(Uninvite, invite=one)
    guests = [device for device, member in vault.membership.members.items() if member.invite in ended]
    removing.remove(vault, guests, change).commit()


# ── at the other end ─────────────────────────────────────────────────────────────────────────────────────


def offers(remote: Remote, identities: Sequence[str | bytes]) -> list[Wrapped]:
    """Sessions that were shared with the holder of these identities: all keys, and the secret that came last.

    Each new key is left without the secret, and an invitation that was taken back stays where it was left.
    """
    found: dict[str, Wrapped] = {}
    secrets: dict[str, tuple[int, bytes]] = {}
    for identity in identities:
        prefix = wraps.prefix_of(wraps.recipient_of(identity))
        left = [one for one in remote.list(prefix) if wraps.SMALLEST <= one.size <= _LARGEST_OFFER]
        if len(left) > _MOST_LOOKED_AT:
            left = random.SystemRandom().sample(left, _MOST_LOOKED_AT)
        for listed in left:
            try:
                one = wraps.unwrap(remote.get(listed.name, _LARGEST_OFFER), [identity])
            except (Missing, TooLarge):
                continue
            if one is not None and one.session is not None and _is_whole(one):
                known = found.get(one.vault)
                if known is None or len(one.keys) > len(known.keys):
                    found[one.vault] = one
                if one.secret is not None and len(one.keys) > secrets.get(one.vault, (-1, b""))[0]:
                    secrets[one.vault] = len(one.keys), one.secret
    return [msgspec.structs.replace(one, secret=secrets.get(vault, (0, None))[1]) for vault, one in found.items()]


def _is_whole(offer: Wrapped) -> bool:
    signed = entries.unpack_or_none(offer.founding)
    read = None if signed is None else entries.founding_of(signed)
    return (
        signed is not None
        and read is not None
        and entries.hash_of(signed.payload) == offer.vault
        and read.session == offer.session
    )


def founder_of(offer: Wrapped) -> str:
    """The device that shares the session, as its signature shows; empty when nobody's does."""
    signed = entries.unpack_or_none(offer.founding)
    found = None if signed is None else entries.founding_of(signed)
    return "" if found is None else found.device.id


def accept(here: Here, remote: Remote, offer: Wrapped, *, room: int | None = None) -> Vault:
    """Take part in a shared session: read it from now on, and ask to write when the offer allows that.

    `Refused` when a session of this id is here, other than through this very share. `room`: see `Vault`.
    """
    signed = entries.unpack(offer.founding)
    vault = Vault(here, remote, offer.vault, room=room)
    mine = wraps.wrap(here.keys.public.age, offer)
    with here.transaction() as transaction:
        provenance.claim(transaction, offer.session or "", offer.vault)
        vault.memory.write_raw(transaction, offer.founding, FOUNDING)
        vault.memory.write_raw(transaction, mine, "wrap", "accepted")
        if vault.memory.raw("standing") is None:
            vault.memory.write(transaction, Standing(place="reader", confirmed=True), "standing")
    if offer.secret is not None and not vault.membership.is_member(vault.me):
        joining.ask(here, remote, signed, secret=offer.secret)
    return vault
