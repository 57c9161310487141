"""The devices of this person's vaults: who they are, who asks to be let in, letting them in, and taking them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import Conflict, NotFound, Refused
from holdfast.core.text import clean
from holdfast.keeper.teleports import opening, remotes
from holdfast.keeper.teleports.adding import spelled
from holdfast.keeper.teleports.remotes import Remote
from holdfast.teleport import joining, recovery, removing, syncing, words
from holdfast.teleport.entries import Admit, Rename
from holdfast.teleport.pulling import look
from holdfast.teleport.vault import Vault

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.teleport.joining import Request
    from holdfast.teleport.keys import PublicKeys

_RECOVERY = "recovery code"


class Met(NamedTuple):
    """A vault this device has to do with: at which remote, under which words, and where the device stands in it."""

    remote: str
    id: str
    words: str
    place: str
    confirmed: bool


class Known(NamedTuple):
    """A device as a vault knows it."""

    remote: str
    name: str
    fingerprint: str
    status: str
    admin: bool
    this: bool
    last_word: int | None


def public(keeper: Keeper) -> PublicKeys:
    return opening.keys(keeper).public


def vaults(keeper: Keeper) -> list[Met]:
    from holdfast.teleport.memory import Memory

    found = []
    for one in remotes.load(keeper.home):
        standing = Memory(keeper.store(), one.vault).standing()
        found.append(Met(one.name, one.vault, spelled(one.vault), standing.place, standing.confirmed))
    return found


def known(keeper: Keeper) -> list[Known]:
    """The devices of each vault, as far as this one knows; and, where the remote can be asked, who wants to join."""
    found: list[Known] = []
    for remote in remotes.load(keeper.home):
        with opening.vault(keeper, remote, hurried=True) as vault:
            found += _members(vault, remote)
            if remote.kind == "vault" and vault.membership.is_admin(vault.me):
                found += [
                    Known(remote.name, one.name, one.keys.words, "pending", admin=False, this=False, last_word=one.at)
                    for one in _requests(vault)
                ]
    return found


def _members(vault: Vault, remote: Remote) -> list[Known]:
    words_of: dict[str, int] = {}
    for cursor in vault.memory.cursors().values():
        words_of[cursor.device] = max(cursor.said_at, words_of.get(cursor.device, 0))
    members = vault.membership
    found = [
        Known(
            remote.name, one.name, one.keys.words, one.kind if one.kind != "device" else "member", one.admin,
            device == vault.me, vault.memory.standing().last_sync if device == vault.me else words_of.get(device),
        )
        for device, one in members.members.items()
    ]  # fmt: skip
    found += [
        Known(remote.name, one.name, one.keys.words, "removed", admin=False, this=device == vault.me,
              last_word=words_of.get(device))
        for device, one in members.removed.items()
    ]  # fmt: skip
    return found


def _requests(vault: Vault) -> list[Request]:
    return joining.requests(vault, look(vault.remote.list("h/"), vault.tag).joins)


def _admins(keeper: Keeper) -> list[Remote]:
    """The remotes at which this device may say who belongs there. Asked of memory alone."""
    found = [one for one in remotes.load(keeper.home) if one.kind == "vault"]
    if not found:
        raise remotes.none()
    return found


def approve(keeper: Keeper, fingerprint: str) -> str:
    """Let in the device with this whole fingerprint; gives its name."""
    wanted = words.read(fingerprint).hex()
    asked = False
    with opening.alone(keeper):
        for remote in _admins(keeper):
            with opening.vault(keeper, remote) as vault:
                syncing.sync(vault)
                if not vault.membership.is_admin(vault.me):
                    continue
                asked = True
                if vault.membership.is_member(wanted):
                    raise Conflict("this device belongs to the vault already")
                request = next((one for one in _requests(vault) if one.keys.id == wanted), None)
                if request is not None:
                    joining.approve(vault, request)
                    syncing.sync(vault)
                    return request.name
    if not asked:
        raise Refused(
            "this device may not let others in",
            hint="Do it on one that may: holdfast device list",
        )
    raise NotFound(
        "no device with this fingerprint asks to join",
        hint="On that device: holdfast remote add NAME URL; then compare the words: holdfast device show",
    )


def remove(keeper: Keeper, which: str) -> list[str]:
    """Take a device out of every vault where this one may; gives the remotes where that was done."""
    done: list[str] = []
    refused = False
    with opening.alone(keeper):
        for remote in _admins(keeper):
            with opening.vault(keeper, remote) as vault:
                syncing.sync(vault)
                device = meant(vault, which)
                if device is None:
                    continue
                if not vault.membership.is_admin(vault.me):
                    refused = True
                    continue
                removing.remove(vault, [device]).commit()
                syncing.sync(vault)
                done.append(remote.name)
    if not done:
        if refused:
            raise Refused("this device may not take others out", hint="Do it on one that may: holdfast device list")
        raise NotFound(f"there is no device called {which[:60]!a}", hint="holdfast device list shows them.")
    return done


def meant(vault: Vault, which: str) -> str | None:
    """The id of the member with this name or fingerprint; None when there is none."""
    members = vault.membership.members
    found = [device for device, one in members.items() if which in (one.name, one.keys.words, device)]
    if len(found) > 1:
        choices = ", ".join(members[device].keys.words for device in found)
        raise Conflict(f"several devices are called {which[:60]!a}", hint=f"Give the fingerprint: {choices}")
    return found[0] if found else None


def rename(keeper: Keeper, name: str) -> None:
    """Call this device something else, here and in its vaults."""
    from holdfast.keeper import settings
    from holdfast.teleport import key_files

    name = clean(name, "the device's name", longest=100)
    opening.keys(keeper)
    key_files.set_name(keeper.home.path, name)
    settings.change(keeper.home.config, settings.setting("device.name"), name)
    with opening.alone(keeper):
        for remote in remotes.load(keeper.home):
            with opening.vault(keeper, remote) as vault:
                if vault.membership.is_member(vault.me) and vault.membership.members[vault.me].name != name:
                    change = vault.change()
                    change.say(Rename, device=vault.me, name=name)
                    change.commit()
                    syncing.sync(vault)


def recovery_code(keeper: Keeper, name: str | None = None) -> tuple[str, str]:
    """A new code that can let a device in when all others are gone; older ones are void. Gives it, and the remote."""
    with opening.alone(keeper):
        for remote in _admins(keeper):
            if name not in (None, remote.name):
                continue
            with opening.vault(keeper, remote) as vault:
                syncing.sync(vault)
                if not vault.membership.is_admin(vault.me):
                    continue
                code = recovery.new_code()
                keys = recovery.keys_of(code).public
                older = [device for device, one in vault.membership.members.items() if one.kind == "recovery"]
                change = vault.change()
                change.say(Admit, device=keys, name=_RECOVERY, admin=True, role="recovery")
                change.wrap(keys.age, change.wrapped(vault.ring()))
                if older:
                    removing.remove(vault, older, change)
                change.commit()
                syncing.sync(vault)
                return code, remote.name
    raise Refused("this device may not make a recovery code", hint="Do it on the one that founded the vault.")
