"""The devices of this person's vaults: who they are, who asks to be let in, letting them in, and taking them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.core.text import clean
from holdfast.keeper.teleports import opening, remotes
from holdfast.keeper.teleports.remotes import Remote
from holdfast.keeper.teleports.standing import met
from holdfast.teleport import held, joining, recovery, removing, sharing, syncing, words
from holdfast.teleport.entries import Admit, Rename
from holdfast.teleport.hearing import look
from holdfast.teleport.held import Waiting
from holdfast.teleport.vault import Vault

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.teleport.joining import Request
    from holdfast.teleport.keys import PublicKeys

_RECOVERY = "recovery code"
ON_ANOTHER = "Do it on one that may: holdfast device list"

Status = Literal["member", "recovery", "guest", "removed", "pending"]


class Known(NamedTuple):
    """A device as a vault knows it."""

    remote: str
    name: str
    fingerprint: str
    status: str
    admin: bool
    this: bool
    last_word: int | None
    # Of a removed device: what it wrote that nobody has accepted.
    held: Waiting | None = None


class Listed(NamedTuple):
    devices: list[Known]
    # Remotes that could not be asked who wants to join: what is told of them is what was known before.
    failed: dict[str, HoldfastError]


class Approved(NamedTuple):
    name: str
    fingerprint: str
    remote: str
    admin: bool


class Taken(NamedTuple):
    """A device that was taken out, or whose request was declined."""

    name: str
    fingerprint: str
    remotes: list[str]
    declined: bool


class Code(NamedTuple):
    code: str
    remote: str
    # Whether it makes an earlier one void.
    renewed: bool


def public(keeper: Keeper) -> PublicKeys:
    return opening.keys(keeper).public


# ── who there is ─────────────────────────────────────────────────────────────────────────────────────────


def known(keeper: Keeper) -> Listed:
    """The devices of each vault, as far as this one knows; and, where the remote can be asked, who wants to join."""
    found: list[Known] = []
    failed: dict[str, HoldfastError] = {}
    for remote in remotes.load(keeper.home):
        vault = opening.remembered(keeper, remote)
        found += remembered(keeper, vault, remote)
        if remote.kind != "vault" or not vault.membership.is_admin(vault.me):
            continue
        try:
            with opening.vault(keeper, remote, hurried=True) as asked:
                found += [
                    Known(remote.name, one.name, one.keys.words, "pending", admin=False, this=False, last_word=one.at)
                    for one in joining.requests(asked, _joins(asked))
                ]
        except HoldfastError as error:
            failed[remote.name] = error
    return Listed(found, failed)


def remembered(keeper: Keeper, vault: Vault, remote: Remote) -> list[Known]:
    """The devices of a vault as this one knows them, itself first: the remote is not asked."""
    return sorted(_members(keeper, vault, remote), key=lambda one: (not one.this, one.status == "removed", one.name))


def _members(keeper: Keeper, vault: Vault, remote: Remote) -> list[Known]:
    heard: dict[str, int] = {}
    for cursor in vault.memory.cursors().values():
        heard[cursor.device] = max(cursor.said_at, heard.get(cursor.device, 0))
    members, standing, status = vault.membership, vault.memory.standing(), met(keeper, remote).status
    found = []
    for device, one in members.members.items():
        this = device == vault.me
        # Who was removed, or has asked anew since, cannot read what the vault says of it by now.
        stale = this and status in ("removed", "pending")
        kind = status if stale else one.kind if one.kind != "device" else "member"
        word = standing.last_sync if this else heard.get(device)
        found.append(Known(remote.name, one.name, one.keys.words, kind, one.admin and not stale, this, word))
    waits = held.waiting(vault.memory)
    found += [
        Known(remote.name, one.name, one.keys.words, "removed", admin=False, this=device == vault.me,
              last_word=heard.get(device), held=waits.get(device))
        for device, one in members.removed.items()
        if one.name != _RECOVERY or device == vault.me
    ]  # fmt: skip
    found += _guests_held_back(vault, remote)
    if not any(one.this for one in found) and standing.place == "pending":
        found.append(
            Known(remote.name, vault.here.name, vault.here.keys.public.words, "pending", admin=False, this=True,
                  last_word=None)
        )  # fmt: skip
    return found


def _guests_held_back(vault: Vault, remote: Remote) -> list[Known]:
    """Guests of shared sessions that were removed, where something of them waits for somebody to decide."""
    found: dict[str, Known] = {}
    for small in shares(vault):
        for device, waits in held.waiting(small.memory).items():
            gone = small.membership.removed.get(device)
            if gone is not None and device not in vault.membership.removed:
                before = found[device].held if device in found else None
                both = Waiting(*map(sum, zip(waits, before, strict=True))) if before is not None else waits
                found[device] = Known(
                    remote.name, gone.name, gone.keys.words, "removed", admin=False, this=False, last_word=None,
                    held=both,
                )  # fmt: skip
    return list(found.values())


def shares(vault: Vault) -> list[Vault]:
    """The small vaults of the sessions that are shared from a vault."""
    return [sharing.opened(vault, one.vault, one.founding) for one in sharing.followed(vault)]


def _joins(vault: Vault) -> list[str]:
    return look(vault.remote.list("h/"), vault.tag).joins


# ── letting in, and taking out ───────────────────────────────────────────────────────────────────────────


def at_each(keeper: Keeper, act: Callable[[Remote, Vault], bool], *, name: str | None = None) -> None:
    """Do something at every vault of ours, freshly synced, until it says that it is done.

    A remote that is out of reach holds up no other; it is the answer only where nothing else was.
    """
    found = [one for one in remotes.load(keeper.home) if one.kind == "vault"]
    if not found:
        raise remotes.none()
    if name is not None:
        found = [one for one in found if one.name == remotes.named(keeper.home, name).name]
    away: HoldfastError | None = None
    done = False
    with opening.alone(keeper):
        for remote in found:
            try:
                with opening.vault(keeper, remote) as vault:
                    syncing.sync(vault)
                    if act(remote, opening.again(vault)):
                        done = True
                        syncing.sync(opening.again(vault))
            except Unreachable as error:
                away = away or error
    if away is not None and not done:
        raise away


def approve(keeper: Keeper, fingerprint: str, *, admin: bool = False) -> Approved:
    """Let in the device with this whole fingerprint. One that is in already can be made one that lets others in.

    Where the remote has lost what a device that was let in needs, it gets it again.
    """
    wanted = words.read(fingerprint).hex()
    found: list[Approved] = []
    already = refused = False

    def act(remote: Remote, vault: Vault) -> bool:
        nonlocal already, refused
        if found:
            return False
        members = vault.membership
        if not members.is_admin(vault.me):
            refused = True
            return False
        member = members.members.get(wanted)
        if member is not None:
            helped = joining.help_in(vault, member.keys)
            if admin and not member.admin and member.kind == "device":
                change = vault.change()
                change.say(
                    Admit, device=member.keys, name=member.name, admin=True, role="device",
                    possession=member.possession,
                )  # fmt: skip
                change.commit()
            elif not helped:
                already = True
                return False
            found.append(Approved(member.name, member.keys.words, remote.name, admin))
            return True
        request = joining.request_of(vault, _joins(vault), wanted)
        if request is None:
            return False
        joining.approve(vault, request, admin=admin)
        found.append(Approved(request.name, request.keys.words, remote.name, admin))
        return True

    at_each(keeper, act)
    if found:
        return found[0]
    if already:
        raise Conflict("this device belongs to the vault already")
    if refused:
        raise Refused("this device may not let others in", hint=ON_ANOTHER)
    raise NotFound(
        "no device with this fingerprint asks to join",
        hint="On that device: holdfast remote add NAME URL; then compare the words: holdfast device show",
    )


def remove(keeper: Keeper, which: str) -> Taken:
    """Take a device out of every vault where this one may; a request to join, by its fingerprint, is declined."""
    done: list[str] = []
    whose: list[tuple[str, str]] = []
    refused = declined = False

    def act(remote: Remote, vault: Vault) -> bool:
        nonlocal refused, declined
        device = meant(vault, which)
        if device == vault.me:
            raise Refused(
                "this is the very device you are at: it cannot take itself out",
                hint="Do it on another one that may; to stop syncing here: holdfast remote remove NAME",
            )
        if not vault.membership.is_admin(vault.me):
            refused = refused or device is not None
            return False
        if device is None:
            request = _declined(vault, which)
            if request is None:
                return False
            vault.remote.put([], remove=[request.object])
            declined = True
            whose.append((request.name, request.keys.words))
        else:
            member = vault.membership.members[device]
            removing.remove(vault, [device]).commit()
            whose.append((member.name, member.keys.words))
        done.append(remote.name)
        return True

    at_each(keeper, act)
    if done:
        return Taken(*whose[0], done, declined)
    if refused:
        raise Refused("this device may not take others out", hint=ON_ANOTHER)
    raise NotFound(f"there is no device called {which[:60]!a}", hint="holdfast device list shows them.")


def _declined(vault: Vault, which: str) -> Request | None:
    """The request that a person turns away, by the fingerprint of its device."""
    try:
        device = words.read(which).hex()
    except Invalid:
        return None
    return joining.request_of(vault, _joins(vault), device)


def meant(vault: Vault, which: str) -> str | None:
    """The id of the member with this name or fingerprint; None when there is none."""
    members = vault.membership.members
    found = [device for device, one in members.items() if one.name == which or fits(one.keys, which)]
    if len(found) > 1:
        choices = ", ".join(members[device].keys.words for device in found)
        raise Conflict(f"several devices are called {which[:60]!a}", hint=f"Give the fingerprint: {choices}")
    return found[0] if found else None


def fits(keys: PublicKeys, written: str) -> bool:
    """Whether somebody wrote this fingerprint, in whichever way."""
    try:
        return words.read(written).hex() == keys.id
    except Invalid:
        return False


# ── names and codes ──────────────────────────────────────────────────────────────────────────────────────


def rename(keeper: Keeper, name: str) -> list[str]:
    """Call this device something else, here and in its vaults; gives the remotes that hear of it later."""
    from holdfast.keeper import settings
    from holdfast.teleport import key_files

    name = clean(name.strip(), "the device's name", longest=100)
    opening.keys(keeper)
    key_files.set_name(keeper.home.path, name)
    settings.change(keeper.home.config, settings.setting("device.name"), name)
    later: list[str] = []
    with opening.alone(keeper):
        for remote in remotes.load(keeper.home):
            vault = opening.remembered(keeper, remote)
            member = vault.membership.members.get(vault.me)
            if member is None or member.name == name:
                continue
            change = vault.change()
            change.say(Rename, device=vault.me, name=name)
            change.write_down()
            try:
                with opening.vault(keeper, remote) as reached:
                    syncing.sync(reached)
            except Unreachable:
                later.append(remote.name)
    return later


def recovery_code(keeper: Keeper, name: str | None = None) -> Code:
    """A new code that can let a device in when all others are gone; older ones are void."""
    found = [one for one in remotes.load(keeper.home) if one.kind == "vault"]
    if name is None and len(found) > 1:
        choices = " or --remote ".join(one.name for one in found)
        raise Refused(
            "there are several remotes, and each has a code of its own", hint=f"Say which: --remote {choices}"
        )
    made: list[Code] = []

    def act(remote: Remote, vault: Vault) -> bool:
        if not vault.membership.is_admin(vault.me):
            return False
        code = recovery.new_code()
        secret = recovery.keys_of(code)
        keys = secret.public
        older = [device for device, one in vault.membership.members.items() if one.kind == "recovery"]
        change = vault.change()
        change.say(Admit, device=keys, name=_RECOVERY, admin=True, role="recovery", possession=secret.possession)
        change.wrap(keys.age, change.wrapped(vault.ring()))
        if older:
            removing.remove(vault, older, change)
        change.commit()
        made.append(Code(code, remote.name, bool(older)))
        return True

    at_each(keeper, act, name=name)
    if made:
        return made[0]
    raise Refused("this device may not make a recovery code", hint=ON_ANOTHER)
