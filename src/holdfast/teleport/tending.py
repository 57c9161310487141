"""What a device does for a vault besides reading and writing: it sees to it that just those who belong have keys.

Where it may, it also answers requests that prove themselves, ends what has expired, and lets the devices of the main
vault into the sessions that it shares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from holdfast.teleport import authority, entries, founding, joining, removing, sealing, sharing
from holdfast.teleport.entries import Admit, Header, Invite, Remove, Rename
from holdfast.teleport.entry_limits import followed
from holdfast.teleport.hearing import Listing
from holdfast.teleport.vault import Vault

# How many devices one invitation lets in.
_MOST_DEVICES: Final = 16
# Requests without an invitation whose names are remembered.
_MOST_UNINVITED: Final = 50_000


def tend(vault: Vault, listing: Listing, main: Vault | None, *, lost: bool) -> None:
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
    live = [one for one in vault.membership.invites if one.live and one.expires is not None]
    over = [one.hash for one in live if one.expires is not None and one.expires <= now]
    if over:
        sharing.end(vault, over)


def _follow(vault: Vault, main: Vault) -> None:
    """The devices of the main vault belong to what it shares; those that left it do not."""
    here, there = vault.membership, main.membership
    new = [(device, member) for device, member in there.members.items() if not here.is_member(device)]
    gone = [device for device, one in here.members.items() if one.kind != "guest" and not there.is_member(device)]
    if new:
        change = vault.change()
        for _, member in new:
            sharing.let_in(change, member)
            change.wrap(member.keys.age, change.wrapped(vault.ring()))
        change.commit()
    if gone:
        removing.remove(vault, gone).commit()


def _uninvite(vault: Vault, main: Vault) -> None:
    """End invitations by devices that may not share the session; what removed admins invited stays."""
    members = vault.membership
    wrong = [
        invite.hash
        for invite in members.invites
        if invite.live and invite.by != members.founder and not authority.may_share(main, invite.by, members.session)
    ]
    if wrong:
        sharing.end(vault, wrong)


def _name(vault: Vault, main: Vault) -> None:
    """This device is called the same where it shares a session."""
    known, here = main.membership.members.get(vault.me), vault.membership.members.get(vault.me)
    if known is not None and here is not None and known.name != here.name:
        change = vault.change()
        change.say(Rename, device=vault.me, name=known.name)
        change.commit()


def _answer(vault: Vault, listing: Listing) -> None:
    """Let in the devices of people who were invited to write, and prove it."""
    invited = [one for one in vault.membership.invites if one.write]
    if not invited or not listing.joins:
        return
    live = [one for one in invited if one.live]
    members = vault.membership
    room = {one.hash: _MOST_DEVICES for one in live}
    for member in members.members.values():
        if member.invite in room:
            room[member.invite] -= 1
    over: list[str] = []
    # Read before, and without any of these invitations: anybody can leave such requests, and each is read once.
    known = sorted((one.hash, one.live) for one in invited)
    mark = hashlib.sha256(repr(known).encode()).hexdigest()
    before = vault.memory.read(dict[str, set[str]], "uninvited") or {}
    uninvited = before.get(mark, set()) & set(listing.joins)
    names = joining.by_turns(vault, set(listing.joins) - uninvited, [one.secret for one in live])
    answered: set[str] = set()
    for request in joining.read(vault, names):
        if request.keys.id in answered:
            continue
        by = next((one for one in live if joining.proves(request, one.secret)), None)
        if by is None and any(joining.proves(request, one.secret) for one in invited):
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
            joining.approve(vault, request, role="guest", invite=by.hash)
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
    founding.put_back(vault)
    change = vault.change()
    for recipient in vault.membership.recipient_keys():
        change.wrap(recipient, change.wrapped(vault.ring()))
    change.commit()
