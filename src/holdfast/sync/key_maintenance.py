"""Maintain the keys of a vault: exactly the members have them, and old ones are replaced.

For shares, an admin device also answers invited requests, ends expired invitations, and keeps the devices of the main
vault in the shares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from holdfast.sync import create_vault, event_rights, join_vault, removal, vault_shares
from holdfast.sync.protocol import entries, sealing
from holdfast.sync.protocol.ancestry import followed
from holdfast.sync.protocol.entries import Admit, EntryHeader, Invite, Remove, Rename
from holdfast.sync.read_heads import HeadListing
from holdfast.sync.vault import Vault

# How many devices one invitation lets in.
_MAX_DEVICES: Final = 16
# Requests without an invitation whose names are remembered.
_MAX_UNINVITED: Final = 50_000


def maintain(vault: Vault, listing: HeadListing, main: Vault | None, *, lost: bool) -> None:
    """Maintain the keys of one vault after it was read. `lost`: the remote lost objects, which are put back."""
    members = vault.membership
    if not members.is_member(vault.me):
        return
    if members.is_admin(vault.me) and members.session is not None:
        _end_expired_invites(vault)
        if main is not None:
            _follow_main_members(vault, main)
            _end_unauthorized_invites(vault, main)
        _answer_requests(vault, listing)
    if main is not None:
        _update_own_name(vault, main)
    if vault.sealing_key() is None and not (vault.ask_for_wraps() and vault.sealing_key() is not None):
        change = vault.change()
        change.new_key()
        change.commit()
    if vault.membership.is_admin(vault.me):
        _wrap_missing_keys(vault)
    if lost:
        _put_back(vault)


def _end_expired_invites(vault: Vault) -> None:
    now = vault.local.now()
    live = [invite for invite in vault.membership.invites if invite.live and invite.expires is not None]
    expired = [invited.hash for invited in live if invited.expires is not None and invited.expires <= now]
    if expired:
        vault_shares.end_invites(vault, expired)


def _follow_main_members(vault: Vault, main: Vault) -> None:
    """Admit the devices of the main vault to its share, and remove those that left it."""
    share_members, main_members = vault.membership, main.membership
    new = [(device, member) for device, member in main_members.members.items() if not share_members.is_member(device)]
    departed = [
        device
        for device, member in share_members.members.items()
        if member.kind != "guest" and not main_members.is_member(device)
    ]
    if new:
        change = vault.change()
        for _, member in new:
            vault_shares.admit_member(change, member)
            change.wrap(member.keys.age, change.wrapped(vault.ring()))
        change.commit()
    if departed:
        removal.remove(vault, departed).commit()


def _end_unauthorized_invites(vault: Vault, main: Vault) -> None:
    """End invitations by devices that may not share the session; those by removed admins stay."""
    members = vault.membership
    unauthorized = [
        invite.hash
        for invite in members.invites
        if invite.live
        and invite.by != members.founder
        and not event_rights.may_share(main, invite.by, members.session)
    ]
    if unauthorized:
        vault_shares.end_invites(vault, unauthorized)


def _update_own_name(vault: Vault, main: Vault) -> None:
    """Give this device the name in the share that it has in the main vault."""
    main_member, member = main.membership.members.get(vault.me), vault.membership.members.get(vault.me)
    if main_member is not None and member is not None and main_member.name != member.name:
        change = vault.change()
        change.add(Rename, device=vault.me, name=main_member.name)
        change.commit()


def _answer_requests(vault: Vault, listing: HeadListing) -> None:
    """Let in devices that prove an invitation to write."""
    invited = [invite for invite in vault.membership.invites if invite.write]
    if not invited or not listing.joins:
        return
    live = [item for item in invited if item.live]
    members = vault.membership
    places_left = {invited.hash: _MAX_DEVICES for invited in live}
    for member in members.members.values():
        if member.invite in places_left:
            places_left[member.invite] -= 1
    obsolete: list[str] = []
    # Read before, without any of these invitations: anybody can leave such requests, and each is read once.
    known = sorted((item.hash, item.live) for item in invited)
    invites_digest = hashlib.sha256(repr(known).encode()).hexdigest()
    before = vault.memory.read(dict[str, set[str]], "uninvited") or {}
    uninvited = before.get(invites_digest, set()) & set(listing.joins)
    names = join_vault.in_reading_order(vault, set(listing.joins) - uninvited, [invited.secret for invited in live])
    answered: set[str] = set()
    for request in join_vault.read_requests(vault, names):
        if request.keys.id in answered:
            continue
        invite = next((invited for invited in live if join_vault.proves(request, invited.secret)), None)
        if invite is None and any(join_vault.proves(request, item.secret) for item in invited):
            obsolete.append(request.object)  # the invitation was revoked before anybody answered
        elif request.keys.id in members.removed and not (
            invite and _invited_after_removal(vault, invite.hash, request.keys.id)
        ):
            # The remote may only be replaying the request: a removed device needs a new invitation.
            if invite is None:
                uninvited.add(request.object)
            vault.report.reject(request.object, request.name, "a removed device asks to join again")
        elif invite is None:
            uninvited.add(request.object)
        elif not places_left[invite.hash]:
            vault.report.reject(request.object, request.name, "more devices ask to join than one invitation admits")
        else:
            places_left[invite.hash] -= 1
            answered.add(request.keys.id)
            join_vault.approve(vault, request, role="guest", invite=invite.hash)
    if uninvited:
        remembered = sorted(uninvited)[:_MAX_UNINVITED]
        vault.report.reject(remembered[0], "", "a request to join proves no invitation")
        if before != {invites_digest: set(remembered)}:
            with vault.local.transaction() as transaction:
                vault.memory.write(transaction, {invites_digest: remembered}, "uninvited")
    if obsolete:
        vault.remote.put([], remove=obsolete)


def _invited_after_removal(vault: Vault, invited: str, device: str) -> bool:
    """Whether the invitation was made by somebody who knew of the device's removal."""
    removals = set()
    for entry_hash, signed in vault.known.items():
        entry = entries.read(signed.payload)
        if isinstance(entry, Remove) and entry.device == device:
            removals.add(entry_hash)
    return removals <= _ancestors(vault, [invited])


def _wrap_missing_keys(vault: Vault) -> None:
    """Wrap keys for members who joined concurrently with the making of a key."""
    members = vault.membership
    tips = tuple(sorted(members.tips))
    if vault.memory.read(tuple[str, ...], "given") == tips:
        return
    own_key_ids = {sealing.key_id(key) for key in vault.ring()}
    admitted_by: dict[str, set[str]] = {}
    for entry_hash, signed in vault.known.items():
        entry = entries.read(signed.payload)
        if isinstance(entry, Admit | Invite):
            for recipient in [entry.device.age] if isinstance(entry, Admit) else entry.recipients:
                admitted_by.setdefault(recipient, set()).add(entry_hash)
    change = vault.change()
    for recipient in members.recipient_keys():
        tag = sealing.recipient_tag(recipient)
        new_keys = {key.entry for key in members.keys if key.id in own_key_ids and tag not in key.recipients}
        # The device that admitted them gave them all keys known by then.
        if new_keys and recipient in admitted_by and new_keys - _ancestors(vault, admitted_by[recipient]):
            change.wrap(recipient, change.wrapped(vault.ring()))
    change.remember(tips, "given")
    change.commit()


def _ancestors(vault: Vault, names: Iterable[str]) -> set[str]:
    """Everything that these entries follow."""

    def header_of(entry_hash: str) -> EntryHeader | None:
        signed = vault.known.get(entry_hash)
        return None if signed is None else entries.header_of(signed.payload)

    return followed(header_of, names)


def _put_back(vault: Vault) -> None:
    """Put back the vault's own objects and wraps, which the remote may have lost with our pushes."""
    create_vault.put_back(vault)
    change = vault.change()
    for recipient in vault.membership.recipient_keys():
        change.wrap(recipient, change.wrapped(vault.ring()))
    change.commit()
