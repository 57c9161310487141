"""The devices of this person's vaults: list them, approve requests to join, remove and rename them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.core.text import check_text
from holdfast.sync import join_vault, open_vault, remote_list, removal, vault_shares
from holdfast.sync.protocol.entries import Admit, Rename
from holdfast.sync.read_heads import read_listing
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remote_setup import status_of
from holdfast.sync.removal import UnacceptedCount
from holdfast.sync.sync import sync_vault
from holdfast.sync.vault import Vault
from holdfast.workspace.keys.device_keys import is_fingerprint, keys_from_code, new_recovery_code, parse_words

if TYPE_CHECKING:
    from holdfast.sync.join_vault import JoinRequest
    from holdfast.workspace.keys.device_keys import PublicKeys
    from holdfast.workspace.workspace import Workspace

_RECOVERY = "recovery code"
ON_ADMIN_DEVICE = "Do it on an admin device; see: holdfast device list"

Status = Literal["member", "recovery", "guest", "removed", "pending"]


class KnownDevice(NamedTuple):
    """A device as a vault knows it."""

    remote: str
    name: str
    fingerprint: str
    status: str
    admin: bool
    this: bool
    last_active: int | None
    # For a removed device: how much of it is unaccepted.
    unaccepted: UnacceptedCount | None = None


class DeviceList(NamedTuple):
    devices: list[KnownDevice]
    # Remotes that could not be asked who wants to join: their devices are listed as known before.
    failed: dict[str, HoldfastError]


class ApprovedDevice(NamedTuple):
    name: str
    fingerprint: str
    remote: str
    admin: bool


class DeviceRemoval(NamedTuple):
    """A device that was removed, or whose request was declined."""

    name: str
    fingerprint: str
    remotes: list[str]
    declined: bool


class RecoveryCode(NamedTuple):
    code: str
    remote: str
    # Whether it replaces an earlier code.
    renewed: bool


def public_keys(ws: Workspace) -> PublicKeys:
    return open_vault.device_keys(ws).public


# ── listing ─────────────────────────────────────────────────────────────────────────────────────────


def list_devices(ws: Workspace) -> DeviceList:
    """The known devices of each vault and, where the remote can be asked, those that want to join."""
    devices: list[KnownDevice] = []
    failed: dict[str, HoldfastError] = {}
    for remote in remote_list.load(ws.home):
        vault = open_vault.open_offline(ws, remote)
        devices += remembered(ws, vault, remote)
        if remote.kind != "vault" or not vault.membership.is_admin(vault.me):
            continue
        try:
            with open_vault.vault(ws, remote, hurried=True) as opened:
                devices += [
                    KnownDevice(
                        remote.name,
                        request.name,
                        request.keys.words,
                        "pending",
                        admin=False,
                        this=False,
                        last_active=request.at,
                    )
                    for request in join_vault.list_requests(opened, _join_request_names(opened))
                ]
        except HoldfastError as error:
            failed[remote.name] = error
    return DeviceList(devices, failed)


def remembered(ws: Workspace, vault: Vault, remote: KnownRemote) -> list[KnownDevice]:
    """The devices of a vault as known here, this one first; the remote is not asked."""
    return sorted(
        _members(ws, vault, remote), key=lambda device: (not device.this, device.status == "removed", device.name)
    )


def _members(ws: Workspace, vault: Vault, remote: KnownRemote) -> list[KnownDevice]:
    last_published: dict[str, int] = {}
    for cursor in vault.memory.cursors().values():
        last_published[cursor.device] = max(cursor.published_at, last_published.get(cursor.device, 0))
    members, own_status, status = vault.membership, vault.memory.status(), status_of(ws, remote).status
    devices = []
    for device, member in members.members.items():
        this = device == vault.me
        # A device that was removed, or asked again since, cannot read its present status.
        stale = this and status in ("removed", "pending")
        kind = status if stale else member.kind if member.kind != "device" else "member"
        last_word = own_status.last_sync if this else last_published.get(device)
        devices.append(
            KnownDevice(
                remote.name, member.name, member.keys.words, kind, member.admin and not stale, this, last_word
            )
        )
    unaccepted = removal.count_unaccepted(vault.memory)
    devices += [
        KnownDevice(remote.name, item.name, item.keys.words, "removed", admin=False, this=device == vault.me,
              last_active=last_published.get(device), unaccepted=unaccepted.get(device))
        for device, item in members.removed.items()
        if item.name != _RECOVERY or device == vault.me
    ]  # fmt: skip
    devices += _removed_guests(vault, remote)
    if not any(device.this for device in devices) and own_status.place == "pending":
        devices.append(
            KnownDevice(remote.name, vault.local.name, vault.local.keys.public.words, "pending",
                  admin=False, this=True, last_active=None)
        )  # fmt: skip
    return devices


def _removed_guests(vault: Vault, remote: KnownRemote) -> list[KnownDevice]:
    """Removed guests of shared sessions that have unaccepted events."""
    guests: dict[str, KnownDevice] = {}
    for share in share_vaults(vault):
        for device, unaccepted in removal.count_unaccepted(share.memory).items():
            removed = share.membership.removed.get(device)
            if removed is not None and device not in vault.membership.removed:
                before = guests[device].unaccepted if device in guests else None
                total = (
                    UnacceptedCount(*map(sum, zip(unaccepted, before, strict=True)))
                    if before is not None
                    else unaccepted
                )
                guests[device] = KnownDevice(
                    remote.name, removed.name, removed.keys.words, "removed", admin=False, this=False,
                    last_active=None, unaccepted=total,
                )  # fmt: skip
    return list(guests.values())


def share_vaults(vault: Vault) -> list[Vault]:
    """The vaults of the sessions that a vault shares."""
    return [
        vault_shares.open_share(vault, session.vault, session.founding)
        for session in vault_shares.followed_shares(vault)
    ]


def _join_request_names(vault: Vault) -> list[str]:
    return read_listing(vault.remote.list("h/"), vault.tag).joins


# ── approving and removing ───────────────────────────────────────────────────────────────────────────


def for_each_vault(ws: Workspace, act: Callable[[KnownRemote, Vault], bool], *, name: str | None = None) -> None:
    """Call `act` with every vault of ours, freshly synced; True means that it changed something.

    A remote that cannot be reached does not stop the others; its error is raised only when nothing was done.
    """
    remotes = [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]
    if not remotes:
        raise remote_list.no_remotes()
    if name is not None:
        remotes = [remote for remote in remotes if remote.name == remote_list.find(ws.home, name).name]
    unreachable: HoldfastError | None = None
    done = False
    with open_vault.exclusive(ws):
        for remote in remotes:
            try:
                with open_vault.vault(ws, remote) as vault:
                    sync_vault(vault)
                    if act(remote, open_vault.reopen(vault)):
                        done = True
                        sync_vault(open_vault.reopen(vault))
            except Unreachable as error:
                unreachable = unreachable or error
    if unreachable is not None and not done:
        raise unreachable


def approve(ws: Workspace, fingerprint: str, *, admin: bool = False) -> ApprovedDevice:
    """Let in the device with this whole fingerprint; a member can be made an admin.

    Where the remote lost what a member needs to get in, it is put back.
    """
    device = parse_words(fingerprint).hex()
    approved: list[ApprovedDevice] = []
    already = refused = False

    def act(remote: KnownRemote, vault: Vault) -> bool:
        nonlocal already, refused
        if approved:
            return False
        members = vault.membership
        if not members.is_admin(vault.me):
            refused = True
            return False
        member = members.members.get(device)
        if member is not None:
            restored = join_vault.restore_access(vault, member.keys)
            if admin and not member.admin and member.kind == "device":
                change = vault.change()
                change.add(
                    Admit, device=member.keys, name=member.name, admin=True, role="device",
                    possession=member.possession,
                )  # fmt: skip
                change.commit()
            elif not restored:
                already = True
                return False
            approved.append(ApprovedDevice(member.name, member.keys.words, remote.name, admin))
            return True
        request = join_vault.find_request(vault, _join_request_names(vault), device)
        if request is None:
            return False
        join_vault.approve(vault, request, admin=admin)
        approved.append(ApprovedDevice(request.name, request.keys.words, remote.name, admin))
        return True

    for_each_vault(ws, act)
    if approved:
        return approved[0]
    if already:
        raise Conflict("this device belongs to the vault already")
    if refused:
        raise Refused("this device is not an admin of the vault", hint=ON_ADMIN_DEVICE)
    raise NotFound(
        "no device with this fingerprint asks to join",
        hint="On that device: holdfast remote add NAME URL; then compare the words: holdfast device show",
    )


def remove(ws: Workspace, name_or_words: str) -> DeviceRemoval:
    """Remove a device from every vault where this one may; a request to join, by fingerprint, is declined."""
    done: list[str] = []
    removed: list[tuple[str, str]] = []
    refused = declined = False

    def act(remote: KnownRemote, vault: Vault) -> bool:
        nonlocal refused, declined
        device = find_member(vault, name_or_words)
        if device == vault.me:
            raise Refused(
                "a device cannot remove itself",
                hint="Do it on another admin device; to stop syncing here: holdfast remote remove NAME",
            )
        if not vault.membership.is_admin(vault.me):
            refused = refused or device is not None
            return False
        if device is None:
            request = _request_to_decline(vault, name_or_words)
            if request is None:
                return False
            vault.remote.put([], remove=[request.object])
            declined = True
            removed.append((request.name, request.keys.words))
        else:
            member = vault.membership.members[device]
            removal.remove(vault, [device]).commit()
            removed.append((member.name, member.keys.words))
        done.append(remote.name)
        return True

    for_each_vault(ws, act)
    if done:
        return DeviceRemoval(*removed[0], done, declined)
    if refused:
        raise Refused("this device may not remove others", hint=ON_ADMIN_DEVICE)
    raise NotFound(f"no device called {name_or_words[:60]!a}", hint="holdfast device list shows the devices.")


def _request_to_decline(vault: Vault, words: str) -> JoinRequest | None:
    """The request to decline, by the fingerprint of its device."""
    try:
        device = parse_words(words).hex()
    except Invalid:
        return None
    return join_vault.find_request(vault, _join_request_names(vault), device)


def find_member(vault: Vault, name_or_words: str) -> str | None:
    """The id of the member with this name or fingerprint, if any."""
    members = vault.membership.members
    matches = [device for device, member in members.items() if is_meant(member.name, member.keys, name_or_words)]
    if len(matches) > 1:
        choices = ", ".join(members[device].keys.words for device in matches)
        raise Conflict(f"several devices are called {name_or_words[:60]!a}", hint=f"Give the fingerprint: {choices}")
    return matches[0] if matches else None


def is_meant(name: str, keys: PublicKeys, name_or_words: str) -> bool:
    """Whether this device is meant. A fingerprint, in any spelling, matches no name: each device chooses its own."""
    return parse_words(name_or_words).hex() == keys.id if is_fingerprint(name_or_words) else name == name_or_words


# ── names and codes ──────────────────────────────────────────────────────────────────────────────────────


def rename(ws: Workspace, name: str) -> list[str]:
    """Rename this device, here and in its vaults; return the remotes that could not be reached."""
    from holdfast.workspace import settings
    from holdfast.workspace.keys import key_files

    name = check_text(name.strip(), "the device's name", max_length=100)
    open_vault.device_keys(ws)
    key_files.set_name(ws.home.path, name)
    settings.change(ws.home.config, settings.find_setting("device.name"), name)
    unreachable: list[str] = []
    with open_vault.exclusive(ws):
        for remote in remote_list.load(ws.home):
            vault = open_vault.open_offline(ws, remote)
            member = vault.membership.members.get(vault.me)
            if member is None or member.name == name:
                continue
            change = vault.change()
            change.add(Rename, device=vault.me, name=name)
            change.store()
            try:
                with open_vault.vault(ws, remote) as reached:
                    sync_vault(reached)
            except Unreachable:
                unreachable.append(remote.name)
    return unreachable


def recovery_code(ws: Workspace, name: str | None = None) -> RecoveryCode:
    """A new code that lets a device in when all others are lost; older codes become void."""
    remotes = [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]
    if name is None and len(remotes) > 1:
        choices = " or --remote ".join(remote.name for remote in remotes)
        raise Refused("there are several remotes, and each has its own code", hint=f"Name one: --remote {choices}")
    codes: list[RecoveryCode] = []

    def act(remote: KnownRemote, vault: Vault) -> bool:
        if not vault.membership.is_admin(vault.me):
            return False
        code = new_recovery_code()
        secret = keys_from_code(code)
        keys = secret.public
        older = [device for device, member in vault.membership.members.items() if member.kind == "recovery"]
        change = vault.change()
        change.add(Admit, device=keys, name=_RECOVERY, admin=True, role="recovery", possession=secret.possession)
        change.wrap(keys.age, change.wrapped(vault.ring()))
        if older:
            removal.remove(vault, older, change)
        change.commit()
        codes.append(RecoveryCode(code, remote.name, bool(older)))
        return True

    for_each_vault(ws, act, name=name)
    if codes:
        return codes[0]
    raise Refused("this device may not make a recovery code", hint=ON_ADMIN_DEVICE)
