"""The doctor's checks of sync: this device's keys, and each remote: what it lacks and what was rejected.

Being offline is no fault, and what was rejected did no harm: both are warnings. Without a remote nothing is asked,
and little of this is loaded.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Damaged, HoldfastError
from holdfast.core.times import format_time
from holdfast.core.wording import count, one_line
from holdfast.workspace.followers import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.interface import Store
    from holdfast.sync.remote_list import KnownRemote
    from holdfast.sync.vault import Vault
    from holdfast.workspace.workspace import Workspace

_MAX_SHOWN: Final = 3


def keys(ws: Workspace, _: Store | None) -> Check:
    """Whether this device's keys are intact and private."""
    path = ws.home.device
    if not os.path.lexists(path):
        if os.path.lexists(ws.home.remotes):
            return Check(
                "keys", "failed", f"{path} is missing, although this device has remotes",
                "Restore it from a copy of the home. Without one, ask to join again with new keys: holdfast remote"
                " remove NAME, then holdfast remote add NAME URL",
            )  # fmt: skip
        return Check("keys", "ok", "none yet: adding a remote creates them")
    from holdfast.workspace.keys import key_files

    try:
        device_keys = key_files.load(ws.home.path)
    except HoldfastError as error:
        return Check("keys", "failed", error.message, error.hint)
    stored = key_files.device(ws.home.path)
    assert device_keys is not None
    assert stored is not None
    place = "the OS keyring" if stored.place == "keyring" else path
    return Check("keys", "ok", f"{one_line(stored.name)}, in {place}: {device_keys.public.words}")


def remotes(ws: Workspace, store: Store | None) -> list[Check]:
    """One check per remote, or one that says there is none."""
    if not os.path.lexists(ws.home.remotes):
        return [Check("remotes", "ok", "none is set up")]
    from holdfast.sync import people, remote_list

    try:
        known = remote_list.load(ws.home)
        people.load(ws.home)  # `Damaged` where that list is
    except HoldfastError as error:
        return [Check("remotes", "failed", error.message, error.hint)]
    if not known:
        return [Check("remotes", "ok", "none is set up")]
    if store is None:
        return [Check("remotes", "warning", "not checked: the store cannot be opened")]
    if keys(ws, store).status != "ok":
        return [Check("remotes", "warning", "not checked: this device's keys cannot be used")]
    return [_check_or_failure(ws, remote) for remote in known]


def _check_or_failure(ws: Workspace, remote: KnownRemote) -> Check:
    name = f"remote {one_line(remote.name)}"
    try:
        return _check_remote(ws, remote, name)
    except Damaged as error:
        return Check(name, "failed", error.message, error.hint)
    except HoldfastError as error:
        return Check(name, "warning", error.message, error.hint)
    except Exception as error:  # noqa: BLE001 (one failing check must not stop the others)
        return Check(name, "failed", f"it could not be checked ({type(error).__name__}: {error})")


def _check_remote(ws: Workspace, remote: KnownRemote, name: str) -> Check:
    from holdfast.sync import open_vault

    findings: list[tuple[str, str | None]] = list(_check_status(ws, remote))
    try:
        with open_vault.vault(ws, remote, hurried=True) as vault:
            findings += _check_objects(vault, remote)
    except HoldfastError as error:
        if not error.retry_helps:
            raise
        findings.insert(0, (f"it cannot be reached: {error.message}", error.hint or "The next sync tries again."))
    last_sync = _last_sync(ws, remote)
    if not findings:
        return Check(name, "ok", f"{remote.url}: {last_sync}")
    shown = "; ".join(one_line(finding) for finding, _ in findings[:_MAX_SHOWN])
    more = f"; and {len(findings) - _MAX_SHOWN} more" if len(findings) > _MAX_SHOWN else ""
    fixes = dict.fromkeys(fix for _, fix in findings[:_MAX_SHOWN] if fix)
    return Check(name, "warning", f"{shown}{more} ({last_sync})", " ".join(fixes) or None)


def _last_sync(ws: Workspace, remote: KnownRemote) -> str:
    from holdfast.sync.state import VaultState

    last = VaultState(ws.store(), remote.vault).status().last_sync
    return "never synced" if last is None else f"last synced at {format_time(last)}"


def _check_status(ws: Workspace, remote: KnownRemote) -> Iterator[tuple[str, str | None]]:
    """What is known here: this device's status, and what was rejected."""
    from holdfast.sync import open_vault, removal, session_status
    from holdfast.sync.accept_late import describe_unaccepted
    from holdfast.sync.read_heads import name_of
    from holdfast.sync.remote_setup import advice, status_of
    from holdfast.sync.state import VaultState

    status = status_of(ws, remote)
    yield from advice(status, _fingerprint(ws))
    if status.status not in ("pending", "removed", "other-keys") and (
        stuck := session_status.count_unsendable(ws, remote)
    ):
        yield (
            f"{count(stuck, 'session')} with events that this device may not send: it does not have their keys",
            f"On an admin device: holdfast device approve {_fingerprint(ws)} --admin; then sync both.",
        )
    memory = VaultState(ws.store(), remote.vault)
    vault = open_vault.open_offline(ws, remote)
    for device, pending in removal.count_unaccepted(memory).items():
        name = name_of(vault, device)
        yield (
            f"{name} was removed; what it wrote since is not accepted ({describe_unaccepted(pending)})",
            f"To accept it, on an admin device: holdfast device admit {shlex.quote(name)}",
        )
    for item in sorted(memory.rejections(), key=lambda rejection: -rejection.at):
        by = f" from {item.device}" if item.device else ""
        where = f" ({item.pack})" if item.pack else ""
        yield f"not accepted{by}: {item.reason}{where}", _REJECTION_HINT


_REJECTION_HINT: Final = (
    "Nothing is lost here. holdfast sync tries again; if it stays, sync the device that wrote it, and check who can"
    " write to the remote."
)


_PUT_BACK: Final = "On this device: holdfast sync --put-back"


def _fingerprint(ws: Workspace) -> str:
    from holdfast.workspace.keys import key_files

    public = key_files.public(ws.home.path)
    return "FINGERPRINT" if public is None else public.words


def _check_objects(vault: Vault, remote: KnownRemote) -> Iterator[tuple[str, str | None]]:
    """What the remote shows of the pinned vault, and of what this device published there."""
    from holdfast.sync import create_vault
    from holdfast.sync.devices import share_vaults
    from holdfast.sync.protocol import entries

    if remote.kind == "vault":
        signed = create_vault.read_founding(vault.remote)
        if signed is None:
            yield (
                "the vault is no longer there",
                "Check that the disk is mounted and the address right. If it is lost: holdfast sync --put-back",
            )
            return
        if entries.hash_of(signed.payload) != remote.vault:
            yield (
                "somebody replaced the vault that this device belongs to with another one",
                "Ask the owner of the remote. What is here is safe, and nothing is sent to the other vault.",
            )
            return
    elif not vault.wrapped():
        return
    if vault.membership.is_member(vault.me):
        lost: dict[str, str | None] = {}
        for item in [vault, *share_vaults(vault)]:
            lost.update(_check_lost(item))
        yield from lost.items()


def _check_lost(vault: Vault) -> Iterator[tuple[str, str | None]]:
    """What the remote has lost of one vault."""
    from holdfast.sync import create_vault, retired_writers
    from holdfast.sync.read_heads import read_listing

    if create_vault.lost_entries(vault, vault.remote.list(f"m/{vault.tag}/")):
        yield "membership entries of the vault are no longer there: no new device can join", _PUT_BACK
    listed = {item.name for item in vault.remote.list(f"p/{vault.tag}/")}
    missing = 0
    for life in retired_writers.lives(vault, read_listing(vault.remote.list("h/"), vault.tag)):
        if life.shown:
            missing += sum(vault.pack_name(pack.name) not in listed for pack in life.packs)
        elif life.writer == vault.local.writer():
            yield "what this device published last is no longer there", "holdfast sync puts it back."
        else:
            yield "what this device published earlier is no longer there", _PUT_BACK
    if missing:
        are = "is" if missing == 1 else "are"
        yield f"{count(missing, 'pack')} of this device {are} no longer there", f"The events are here. {_PUT_BACK}"
