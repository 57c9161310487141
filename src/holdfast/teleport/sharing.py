"""Sharing one session: a small vault of its own, to which people outside are invited.

Everybody of the main vault belongs to it too; nobody in it can see the main vault. A person's key opens what is left
for it, and inside lies a secret: whoever shows that they know it may write, not only read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.teleport import entries, founding, joining, provenance, removing, sealing, wraps
from holdfast.teleport.entries import Admit, Invite, Rename, Share, Uninvite
from holdfast.teleport.membership import Member
from holdfast.teleport.memory import FOUNDING, Standing
from holdfast.teleport.remotes.interface import Missing, Remote, TooLarge
from holdfast.teleport.vault import Change, Here, Vault
from holdfast.teleport.wraps import Wrapped

# Whoever knows a person's public key can leave files for it: too few looked at, and they would bury an offer.
_MOST_LOOKED_AT: Final = 20_000


def shared(main: Vault, session: str) -> Vault | None:
    """The small vault of a session, as this device knows it; None when it was never shared here."""
    for one in main.membership.shares:
        if one.session == session:
            return opened(main, one.vault, one.founding)
    return None


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
        prefix = f"k/{sealing.recipient_tag(wraps.recipient_of(identity))}-"
        for listed in remote.list(prefix)[:_MOST_LOOKED_AT]:
            if listed.size > wraps.LARGEST:
                continue
            try:
                one = wraps.unwrap(remote.get(listed.name, wraps.LARGEST), [identity])
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


def accept(here: Here, remote: Remote, offer: Wrapped) -> Vault:
    """Take part in a shared session: read it from now on, and ask to write when the offer allows that.

    `Refused` when a session of this id is here, other than through this very share.
    """
    signed = entries.unpack(offer.founding)
    vault = Vault(here, remote, offer.vault)
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
