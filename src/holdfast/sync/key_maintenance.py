"""Keep the keys of a vault in order: exactly those who belong have them, and old ones are replaced.

Where it may, it also answers requests that prove themselves, ends what has expired, and lets the devices of the main
vault into the sessions that it shares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from holdfast.sync import authority, create_vault, device_removal, join_vault, vault_shares
from holdfast.sync.protocol import entries, sealing
from holdfast.sync.protocol.ancestry import followed
from holdfast.sync.protocol.entries import Admit, Header, Invite, Remove, Rename
from holdfast.sync.read_heads import HeadListing
from holdfast.sync.vault import Vault

# How many devices one invitation lets in.
_MOST_DEVICES: Final = 16
# Requests without an invitation whose names are remembered.
_MOST_UNINVITED: Final = 50_000


def tend(vault: Vault, listing: HeadListing, main: Vault | None, *, lost: bool) -> None:
    members = vault.membership
    if not members.is_member(vault.me):
        return
    if members.is_admin(vault.me) and members.session is not None:
        _expire(vault)
        if main is not None:
            _follow(vault, main)
            _uninvite(vault, main)
        _answer(vault, listing)
    if main is not None:
        _name(vault, main)
    if vault.sealing_key() is None and not (vault.ask_for_wraps() and vault.sealing_key() is not None):
        change = vault.change()
        change.new_key()
        change.commit()
    if vault.membership.is_admin(vault.me):
        _give(vault)
    if lost:
        _put_back(vault)


def _expire(vault: Vault) -> None:
    now = vault.here.now()
    live = [invite for invite in vault.membership.invites if invite.live and invite.expires is not None]
    over = [invited.hash for invited in live if invited.expires is not None and invited.expires <= now]
    if over:
        vault_shares.end(vault, over)


def _follow(vault: Vault, main: Vault) -> None:
    """The devices of the main vault belong to what it shares; those that left it do not."""
    here, there = vault.membership, main.membership
    new = [(device, member) for device, member in there.members.items() if not here.is_member(device)]
    gone = [
        device for device, member in here.members.items() if member.kind != "guest" and not there.is_member(device)
    ]
    if new:
        change = vault.change()
        for _, member in new:
            vault_shares.let_in(change, member)
            change.wrap(member.keys.age, change.wrapped(vault.ring()))
        change.commit()
    if gone:
        device_removal.remove(vault, gone).commit()


def _uninvite(vault: Vault, main: Vault) -> None:
    """End invitations by devices that may not share the session; what removed admins invited stays."""
    members = vault.membership
    wrong = [
        invite.hash
        for invite in members.invites
        if invite.live and invite.by != members.founder and not authority.may_share(main, invite.by, members.session)
    ]
    if wrong:
        vault_shares.end(vault, wrong)


def _name(vault: Vault, main: Vault) -> None:
    """This device is called the same where it shares a session."""
    known, here = main.membership.members.get(vault.me), vault.membership.members.get(vault.me)
    if known is not None and here is not None and known.name != here.name:
        change = vault.change()
        change.say(Rename, device=vault.me, name=known.name)
        change.commit()


def _answer(vault: Vault, listing: HeadListing) -> None:
    """Let in the devices of people who were invited to write, and prove it."""
    invited = [invite for invite in vault.membership.invites if invite.write]
    if not invited or not listing.joins:
        return
    live = [item for item in invited if item.live]
    members = vault.membership
    room = {invited.hash: _MOST_DEVICES for invited in live}
    for member in members.members.values():
        if member.invite in room:
            room[member.invite] -= 1
    over: list[str] = []
    # Read before, and without any of these invitations: anybody can leave such requests, and each is read once.
    known = sorted((item.hash, item.live) for item in invited)
    mark = hashlib.sha256(repr(known).encode()).hexdigest()
    before = vault.memory.read(dict[str, set[str]], "uninvited") or {}
    uninvited = before.get(mark, set()) & set(listing.joins)
    names = join_vault.by_turns(vault, set(listing.joins) - uninvited, [invited.secret for invited in live])
    answered: set[str] = set()
    for request in join_vault.read(vault, names):
        if request.keys.id in answered:
            continue
        by = next((invited for invited in live if join_vault.proves(request, invited.secret)), None)
        if by is None and any(join_vault.proves(request, item.secret) for item in invited):
            over.append(request.object)  # the invitation was taken back before anybody answered, and nobody will
        elif request.keys.id in members.removed and not (by and _since(vault, by.hash, request.keys.id)):
            # Its request may only have been shown again: whoever was removed is let in by a person, who invites anew.
            if by is None:
                uninvited.add(request.object)
            vault.report.reject(request.object, request.name, "a device that was removed asks to take part again")
        elif by is None:
            uninvited.add(request.object)
        elif not room[by.hash]:
            vault.report.reject(request.object, request.name, "more devices than one person has ask to take part")
        else:
            room[by.hash] -= 1
            answered.add(request.keys.id)
            join_vault.approve(vault, request, role="guest", invite=by.hash)
    if uninvited:
        few = sorted(uninvited)[:_MOST_UNINVITED]
        vault.report.reject(few[0], "", "a request to take part shows no invitation")
        if before != {mark: set(few)}:
            with vault.here.transaction() as transaction:
                vault.memory.write(transaction, {mark: few}, "uninvited")
    if over:
        vault.remote.put([], remove=over)


def _since(vault: Vault, invited: str, device: str) -> bool:
    """Whether somebody invited this person knowing that the device had been removed."""
    removals = set()
    for own, signed in vault.known.items():
        entry = entries.read(signed.payload)
        if isinstance(entry, Remove) and entry.device == device:
            removals.add(own)
    return removals <= _before(vault, [invited])


def _give(vault: Vault) -> None:
    """Wrap keys for those who came while the keys were made: neither knew of the other."""
    members = vault.membership
    tips = tuple(sorted(members.tips))
    if vault.memory.read(tuple[str, ...], "given") == tips:
        return
    have = {sealing.key_id(key) for key in vault.ring()}
    came: dict[str, set[str]] = {}
    for own, signed in vault.known.items():
        entry = entries.read(signed.payload)
        if isinstance(entry, Admit | Invite):
            for recipient in [entry.device.age] if isinstance(entry, Admit) else entry.recipients:
                came.setdefault(recipient, set()).add(own)
    change = vault.change()
    for recipient in members.recipient_keys():
        tag = sealing.recipient_tag(recipient)
        made = {key.entry for key in members.keys if key.id in have and tag not in key.recipients}
        # Whoever let them in gave them all keys known then.
        if made and recipient in came and made - _before(vault, came[recipient]):
            change.wrap(recipient, change.wrapped(vault.ring()))
    change.remember(tips, "given")
    change.commit()


def _before(vault: Vault, names: Iterable[str]) -> set[str]:
    """Everything that these entries follow."""

    def header_of(own: str) -> Header | None:
        signed = vault.known.get(own)
        return None if signed is None else entries.header_of(signed.payload)

    return followed(header_of, names)


def _put_back(vault: Vault) -> None:
    """The remote lost what we published: perhaps it lost the vault itself. Whatever is there is left as it is."""
    create_vault.put_back(vault)
    change = vault.change()
    for recipient in vault.membership.recipient_keys():
        change.wrap(recipient, change.wrapped(vault.ring()))
    change.commit()
