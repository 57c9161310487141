"""The doctor's look at travelling: this device's keys, and each remote with what it holds, hides and was turned away.

Being offline is nothing wrong, and what was turned away did no harm: both are warnings. Without a remote nothing is
asked, and nothing of this is loaded but the few lines that find that out.
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

_SHOWN: Final = 3


def keys(ws: Workspace, _: Store | None) -> Check:
    """Whether this device's keys are whole, and nobody else's to read."""
    path = ws.home.device
    if not os.path.lexists(path):
        if os.path.lexists(ws.home.remotes):
            return Check(
                "keys", "failed", f"{path} is gone, although this device has remotes",
                "Bring it back from a copy of the home. Without one, ask to join again with new keys: holdfast remote"
                " remove NAME, then holdfast remote add NAME URL",
            )  # fmt: skip
        return Check("keys", "ok", "none yet: the first remote makes them")
    from holdfast.workspace.keys import key_files

    try:
        found = key_files.load(ws.home.path)
    except HoldfastError as error:
        return Check("keys", "failed", error.message, error.hint)
    kept = key_files.device(ws.home.path)
    assert found is not None
    assert kept is not None
    where = "the OS keyring" if kept.place == "keyring" else path
    return Check("keys", "ok", f"{one_line(kept.name)}, in {where}: {found.public.words}")


def remotes(ws: Workspace, store: Store | None) -> list[Check]:
    """One check for each remote; one that says so where there is none."""
    if not os.path.lexists(ws.home.remotes):
        return [Check("remotes", "ok", "none is set up")]
    from holdfast.sync.remote_list import load

    try:
        known = load(ws.home)
        _look_at_people(ws)
    except HoldfastError as error:
        return [Check("remotes", "failed", error.message, error.hint)]
    if not known:
        return [Check("remotes", "ok", "none is set up")]
    if store is None:
        return [Check("remotes", "warning", "not checked: the store cannot be opened")]
    if keys(ws, store).status != "ok":
        return [Check("remotes", "warning", "not checked: this device's keys cannot be used")]
    return [_guarded(ws, remote) for remote in known]


def _look_at_people(ws: Workspace) -> None:
    """Raises where the list of people is damaged."""
    from holdfast.sync.people import load

    load(ws.home)


def _guarded(ws: Workspace, remote: KnownRemote) -> Check:
    name = f"remote {one_line(remote.name)}"
    try:
        return _remote(ws, remote, name)
    except Damaged as error:
        return Check(name, "failed", error.message, error.hint)
    except HoldfastError as error:
        return Check(name, "warning", error.message, error.hint)
    except Exception as error:  # noqa: BLE001 (a doctor that falls over helps nobody)
        return Check(name, "failed", f"it could not be checked ({type(error).__name__}: {error})")


def _remote(ws: Workspace, remote: KnownRemote, name: str) -> Check:
    from holdfast.sync import open_vault

    told: list[tuple[str, str | None]] = list(_remembered(ws, remote))
    try:
        with open_vault.vault(ws, remote, hurried=True) as vault:
            told += _there(vault, remote)
    except HoldfastError as error:
        if not error.retry_helps:
            raise
        told.insert(0, (f"it cannot be reached: {error.message}", error.hint or "It is tried again by itself."))
    last = _last(ws, remote)
    if not told:
        return Check(name, "ok", f"{remote.url}: {last}")
    shown = "; ".join(one_line(what) for what, _ in told[:_SHOWN])
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    fixes = dict.fromkeys(fix for _, fix in told[:_SHOWN] if fix)
    return Check(name, "warning", f"{shown}{more} ({last})", " ".join(fixes) or None)


def _last(ws: Workspace, remote: KnownRemote) -> str:
    from holdfast.sync.state import VaultState

    last = VaultState(ws.store(), remote.vault).standing().last_sync
    return "never synced" if last is None else f"last synced at {format_time(last)}"


def _remembered(ws: Workspace, remote: KnownRemote) -> Iterator[tuple[str, str | None]]:
    """What is known of it here: where this device stands, and what was turned away."""
    from holdfast.sync import device_removal, open_vault, session_status
    from holdfast.sync.accept_late import held_back
    from holdfast.sync.read_heads import name_of
    from holdfast.sync.remote_setup import advice, met
    from holdfast.sync.state import VaultState

    stands = met(ws, remote)
    yield from advice(stands, _words(ws))
    if stands.status not in ("pending", "removed", "other-keys") and (stuck := session_status.unsendable(ws, remote)):
        yield (
            f"{count(stuck, 'session')} with events that this device may not send: they are of keys it does not have",
            f"On a device that lets others in: holdfast device approve {_words(ws)} --admin; then sync both.",
        )
    memory = VaultState(ws.store(), remote.vault)
    vault = open_vault.remembered(ws, remote)
    for device, waits in device_removal.waiting(memory).items():
        name = name_of(vault, device)
        yield (
            f"{name} was removed, and what it wrote since is held back ({held_back(waits)})",
            f"To take it in, on a device that lets others in: holdfast device admit {shlex.quote(name)}",
        )
    for item in sorted(memory.turned(), key=lambda turned: -turned.at):
        by = f" of {item.device}" if item.device else ""
        where = f" ({item.pack})" if item.pack else ""
        yield f"turned away{by}: {item.reason}{where}", _ADVICE


_ADVICE: Final = (
    "Nothing is lost here. holdfast sync looks again; if it stays, let the device that wrote it sync, and look at"
    " who can write to the remote."
)


_PUT_BACK: Final = "On this device: holdfast sync --put-back"


def _words(ws: Workspace) -> str:
    from holdfast.workspace.keys import key_files

    public = key_files.public(ws.home.path)
    return "FINGERPRINT" if public is None else public.words


def _there(vault: Vault, remote: KnownRemote) -> Iterator[tuple[str, str | None]]:
    """What the remote shows: the vault that was met there first, and everything that this device has put there."""
    from holdfast.sync import create_vault
    from holdfast.sync.devices import shares
    from holdfast.sync.protocol import entries

    if remote.kind == "vault":
        signed = create_vault.existing(vault.remote)
        if signed is None:
            yield (
                "the vault is no longer there",
                "Is the disk mounted, is it the right place? If it is gone for good: holdfast sync --put-back",
            )
            return
        if entries.hash_of(signed.payload) != remote.vault:
            yield (
                "another vault stands there than the one this device belongs to: somebody put it there",
                "Ask whoever runs the remote. What is here is safe, and nothing is sent to the other one.",
            )
            return
    elif not vault.wrapped():
        return
    if vault.membership.is_member(vault.me):
        told: dict[str, str | None] = {}
        for item in [vault, *shares(vault)]:
            told.update(_lost(item))
        yield from told.items()


def _lost(vault: Vault) -> Iterator[tuple[str, str | None]]:
    """What is not there any more of one vault."""
    from holdfast.sync import create_vault, retired_writers
    from holdfast.sync.read_heads import look

    if create_vault.lost(vault, vault.remote.list(f"m/{vault.tag}/")):
        yield "entries on who belongs to the vault are no longer there: nobody new finds in", _PUT_BACK
    shown = {item.name for item in vault.remote.list(f"p/{vault.tag}/")}
    missing = 0
    for life in retired_writers.lives(vault, look(vault.remote.list("h/"), vault.tag)):
        if life.shown:
            missing += sum(vault.pack_name(pack.name) not in shown for pack in life.packs)
        elif life.writer == vault.here.writer():
            yield "what this device published last is no longer there", "holdfast sync puts it back."
        else:
            yield "what this device published earlier is no longer there", _PUT_BACK
    if missing:
        are = "is" if missing == 1 else "are"
        yield f"{count(missing, 'pack')} of this device {are} no longer there", f"The events are here. {_PUT_BACK}"
