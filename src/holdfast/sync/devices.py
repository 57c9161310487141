"""The devices of this person's vaults: who they are, who asks to be let in, letting them in, and taking them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.core.text import check_text
from holdfast.sync import device_removal, join_vault, open_vault, remote_list, vault_shares
from holdfast.sync.device_removal import Unaccepted
from holdfast.sync.protocol.entries import Admit, Rename
from holdfast.sync.read_heads import look
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remote_setup import met
from holdfast.sync.sync import sync_vault
from holdfast.sync.vault import Vault
from holdfast.workspace.keys.device_keys import keys_from_code, new_recovery_code, parse_words

if TYPE_CHECKING:
    from holdfast.sync.join_vault import Request
    from holdfast.workspace.keys.device_keys import PublicKeys
    from holdfast.workspace.workspace import Workspace

_RECOVERY = "recovery code"
ON_ANOTHER = "Do it on one that may: holdfast device list"

Status = Literal["member", "recovery", "guest", "removed", "pending"]


class KnownDevice(NamedTuple):
    """A device as a vault knows it."""

    remote: str
    name: str
    fingerprint: str
    status: str
    admin: bool
    this: bool
    last_word: int | None
    # Of a removed device: what it wrote that nobody has accepted.
    held: Unaccepted | None = None


class DeviceList(NamedTuple):
    devices: list[KnownDevice]
    # Remotes that could not be asked who wants to join: what is told of them is what was known before.
    failed: dict[str, HoldfastError]


class Approved(NamedTuple):
    name: str
    fingerprint: str
    remote: str
    admin: bool


class DeviceRemoval(NamedTuple):
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


def public(ws: Workspace) -> PublicKeys:
    return open_vault.keys(ws).public


# ── who there is ─────────────────────────────────────────────────────────────────────────────────────────


def known(ws: Workspace) -> DeviceList:
    """The devices of each vault, as far as this one knows; and, where the remote can be asked, who wants to join."""
    found: list[KnownDevice] = []
    failed: dict[str, HoldfastError] = {}
    for remote in remote_list.load(ws.home):
        vault = open_vault.remembered(ws, remote)
        found += remembered(ws, vault, remote)
        if remote.kind != "vault" or not vault.membership.is_admin(vault.me):
            continue
        try:
            with open_vault.vault(ws, remote, hurried=True) as asked:
                found += [
                    KnownDevice(
                        remote.name,
                        request.name,
                        request.keys.words,
                        "pending",
                        admin=False,
                        this=False,
                        last_word=request.at,
                    )
                    for request in join_vault.requests(asked, _joins(asked))
                ]
        except HoldfastError as error:
            failed[remote.name] = error
    return DeviceList(found, failed)


def remembered(ws: Workspace, vault: Vault, remote: KnownRemote) -> list[KnownDevice]:
    """The devices of a vault as this one knows them, itself first: the remote is not asked."""
    return sorted(_members(ws, vault, remote), key=lambda one: (not one.this, one.status == "removed", one.name))


def _members(ws: Workspace, vault: Vault, remote: KnownRemote) -> list[KnownDevice]:
    heard: dict[str, int] = {}
    for cursor in vault.memory.cursors().values():
        heard[cursor.device] = max(cursor.said_at, heard.get(cursor.device, 0))
    members, standing, status = vault.membership, vault.memory.standing(), met(ws, remote).status
    found = []
    for device, member in members.members.items():
        this = device == vault.me
        # Who was removed, or has asked anew since, cannot read what the vault says of it by now.
        stale = this and status in ("removed", "pending")
        kind = status if stale else member.kind if member.kind != "device" else "member"
        word = standing.last_sync if this else heard.get(device)
        found.append(
            KnownDevice(remote.name, member.name, member.keys.words, kind, member.admin and not stale, this, word)
        )
    waits = device_removal.waiting(vault.memory)
    found += [
        KnownDevice(remote.name, item.name, item.keys.words, "removed", admin=False, this=device == vault.me,
              last_word=heard.get(device), held=waits.get(device))
        for device, item in members.removed.items()
        if item.name != _RECOVERY or device == vault.me
    ]  # fmt: skip
    found += _guests_held_back(vault, remote)
    if not any(device.this for device in found) and standing.place == "pending":
        found.append(
            KnownDevice(remote.name, vault.here.name, vault.here.keys.public.words, "pending", admin=False, this=True,
                  last_word=None)
        )  # fmt: skip
    return found


def _guests_held_back(vault: Vault, remote: KnownRemote) -> list[KnownDevice]:
    """Guests of shared sessions that were removed, where something of them waits for somebody to decide."""
    found: dict[str, KnownDevice] = {}
    for small in shares(vault):
        for device, waits in device_removal.waiting(small.memory).items():
            gone = small.membership.removed.get(device)
            if gone is not None and device not in vault.membership.removed:
                before = found[device].held if device in found else None
                both = Unaccepted(*map(sum, zip(waits, before, strict=True))) if before is not None else waits
                found[device] = KnownDevice(
                    remote.name, gone.name, gone.keys.words, "removed", admin=False, this=False, last_word=None,
                    held=both,
                )  # fmt: skip
    return list(found.values())


def shares(vault: Vault) -> list[Vault]:
    """The small vaults of the sessions that are shared from a vault."""
    return [vault_shares.opened(vault, session.vault, session.founding) for session in vault_shares.followed(vault)]


def _joins(vault: Vault) -> list[str]:
    return look(vault.remote.list("h/"), vault.tag).joins


# ── letting in, and taking out ───────────────────────────────────────────────────────────────────────────


def at_each(ws: Workspace, act: Callable[[KnownRemote, Vault], bool], *, name: str | None = None) -> None:
    """Do something at every vault of ours, freshly synced, until it says that it is done.

    A remote that is out of reach holds up no other; it is the answer only where nothing else was.
    """
    found = [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]
    if not found:
        raise remote_list.none()
    if name is not None:
        found = [remote for remote in found if remote.name == remote_list.named(ws.home, name).name]
    away: HoldfastError | None = None
    done = False
    with open_vault.alone(ws):
        for remote in found:
            try:
                with open_vault.vault(ws, remote) as vault:
                    sync_vault(vault)
                    if act(remote, open_vault.again(vault)):
                        done = True
                        sync_vault(open_vault.again(vault))
            except Unreachable as error:
                away = away or error
    if away is not None and not done:
        raise away


def approve(ws: Workspace, fingerprint: str, *, admin: bool = False) -> Approved:
    """Let in the device with this whole fingerprint. One that is in already can be made one that lets others in.

    Where the remote has lost what a device that was let in needs, it gets it again.
    """
    wanted = parse_words(fingerprint).hex()
    found: list[Approved] = []
    already = refused = False

    def act(remote: KnownRemote, vault: Vault) -> bool:
        nonlocal already, refused
        if found:
            return False
        members = vault.membership
        if not members.is_admin(vault.me):
            refused = True
            return False
        member = members.members.get(wanted)
        if member is not None:
            helped = join_vault.help_in(vault, member.keys)
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
        request = join_vault.request_of(vault, _joins(vault), wanted)
        if request is None:
            return False
        join_vault.approve(vault, request, admin=admin)
        found.append(Approved(request.name, request.keys.words, remote.name, admin))
        return True

    at_each(ws, act)
    if found:
        return found[0]
    if already:
        raise Conflict("this device belongs to the vault already")
    if refused:
        raise Refused("this device may not admit others", hint=ON_ANOTHER)
    raise NotFound(
        "no device with this fingerprint asks to join",
        hint="On that device: holdfast remote add NAME URL; then compare the words: holdfast device show",
    )


def remove(ws: Workspace, which: str) -> DeviceRemoval:
    """Take a device out of every vault where this one may; a request to join, by its fingerprint, is declined."""
    done: list[str] = []
    whose: list[tuple[str, str]] = []
    refused = declined = False

    def act(remote: KnownRemote, vault: Vault) -> bool:
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
            device_removal.remove(vault, [device]).commit()
            whose.append((member.name, member.keys.words))
        done.append(remote.name)
        return True

    at_each(ws, act)
    if done:
        return DeviceRemoval(*whose[0], done, declined)
    if refused:
        raise Refused("this device may not remove others", hint=ON_ANOTHER)
    raise NotFound(f"there is no device called {which[:60]!a}", hint="holdfast device list shows them.")


def _declined(vault: Vault, which: str) -> Request | None:
    """The request that a person turns away, by the fingerprint of its device."""
    try:
        device = parse_words(which).hex()
    except Invalid:
        return None
    return join_vault.request_of(vault, _joins(vault), device)


def meant(vault: Vault, which: str) -> str | None:
    """The id of the member with this name or fingerprint; None when there is none."""
    members = vault.membership.members
    found = [device for device, member in members.items() if member.name == which or fits(member.keys, which)]
    if len(found) > 1:
        choices = ", ".join(members[device].keys.words for device in found)
        raise Conflict(f"several devices are called {which[:60]!a}", hint=f"Give the fingerprint: {choices}")
    return found[0] if found else None


def fits(keys: PublicKeys, written: str) -> bool:
    """Whether somebody wrote this fingerprint, in whichever way."""
    try:
        return parse_words(written).hex() == keys.id
    except Invalid:
        return False


# ── names and codes ──────────────────────────────────────────────────────────────────────────────────────


def rename(ws: Workspace, name: str) -> list[str]:
    """Call this device something else, here and in its vaults; gives the remotes that hear of it later."""
    from holdfast.workspace import settings
    from holdfast.workspace.keys import key_files

    name = check_text(name.strip(), "the device's name", max_length=100)
    open_vault.keys(ws)
    key_files.set_name(ws.home.path, name)
    settings.change(ws.home.config, settings.find_setting("device.name"), name)
    later: list[str] = []
    with open_vault.alone(ws):
        for remote in remote_list.load(ws.home):
            vault = open_vault.remembered(ws, remote)
            member = vault.membership.members.get(vault.me)
            if member is None or member.name == name:
                continue
            change = vault.change()
            change.say(Rename, device=vault.me, name=name)
            change.write_down()
            try:
                with open_vault.vault(ws, remote) as reached:
                    sync_vault(reached)
            except Unreachable:
                later.append(remote.name)
    return later


def recovery_code(ws: Workspace, name: str | None = None) -> Code:
    """A new code that can let a device in when all others are gone; older ones are void."""
    found = [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]
    if name is None and len(found) > 1:
        choices = " or --remote ".join(remote.name for remote in found)
        raise Refused(
            "there are several remotes, and each has a code of its own", hint=f"Say which: --remote {choices}"
        )
    made: list[Code] = []

    def act(remote: KnownRemote, vault: Vault) -> bool:
        if not vault.membership.is_admin(vault.me):
            return False
        code = new_recovery_code()
        secret = keys_from_code(code)
        keys = secret.public
        older = [device for device, member in vault.membership.members.items() if member.kind == "recovery"]
        change = vault.change()
        change.say(Admit, device=keys, name=_RECOVERY, admin=True, role="recovery", possession=secret.possession)
        change.wrap(keys.age, change.wrapped(vault.ring()))
        if older:
            device_removal.remove(vault, older, change)
        change.commit()
        made.append(Code(code, remote.name, bool(older)))
        return True

    at_each(ws, act, name=name)
    if made:
        return made[0]
    raise Refused("this device may not make a recovery code", hint=ON_ANOTHER)
