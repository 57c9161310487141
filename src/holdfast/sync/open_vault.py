"""Open a vault: this device's keys, the remote with its limits, and one process at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.errors import Damaged, HoldfastError, Unreachable
from holdfast.machine import files
from holdfast.machine.locks import locked
from holdfast.sync import outgoing, provenance, remote_list
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remotes.base import ObjectInfo, RemoteStore
from holdfast.sync.remotes.index import open_remote
from holdfast.sync.remotes.wrappers import LimitedRemote, RetryingRemote
from holdfast.sync.vault import LocalDevice, Vault
from holdfast.workspace import projects
from holdfast.workspace.keys import key_files
from holdfast.workspace.keys.device_keys import certifies

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.workspace.keys.device_keys import DeviceKeys
    from holdfast.workspace.workspace import Workspace

_PATIENCE = 120.0  # seconds to wait for another process of this home


def device_keys(ws: Workspace) -> DeviceKeys:
    """This device's keys, made on first use; `Damaged` when remotes know it by keys that are lost."""
    stored = key_files.load(ws.home.path)
    if stored is not None:
        return stored
    remotes = remote_list.load(ws.home)
    if remotes:
        first = remotes[0]
        raise Damaged(
            f"this device's keys are missing: there is no {ws.home.device}",
            hint="Restore it from a copy of the home. Without one, ask to join again with new keys:"
            f" holdfast remote remove {first.name}, then holdfast remote add {first.name} {first.url}",
            file=ws.home.device,
        )
    return new_keys(ws)


def new_keys(ws: Workspace) -> DeviceKeys:
    """This device's keys, made if there are none; from then on its writer ids are certified by them."""
    stored = key_files.load(ws.home.path)
    if stored is not None:
        return stored
    ws.home.prepare()
    place: key_files.KeyPlace = "keyring" if ws.settings.known_value("device.keys") == "keyring" else "file"
    created = key_files.create(ws.home.path, name=ws.device(), place=place, made_at=ws.now())
    if os.path.lexists(ws.home.binding(ws.address.key)):
        ws.home.renew(ws.address)
    return created


def _writer(ws: Workspace, signing: bytes) -> str:
    """The present writer id, renewed if the keys do not certify it: making them may have been interrupted."""
    writer = ws.home.writer(ws.address)
    return writer if certifies(writer, signing) else ws.home.renew(ws.address)


def this_device(ws: Workspace) -> LocalDevice:
    """This device, as vaults need it."""

    def received(transaction: Transaction, sessions: Iterable[str]) -> None:
        for session in sessions:
            projects.learn_project(ws, transaction, transaction.state(session))
        outgoing.redact_received(ws, transaction)

    def is_ours(writer: str) -> bool:
        return _device_test(device, vaults)(writer)  # not cached: the membership changes while we sync

    def vaults_of(session: str) -> tuple[str, ...]:
        state = store.state(session)
        return tuple(remote.vault for remote in vaults if remote.receives(state))

    store, own = ws.store(), device_keys(ws)
    vaults = _vaults(ws)
    device = LocalDevice(
        keys=own, name=ws.device(), store=store, transaction=ws.transaction,
        writer=lambda: _writer(ws, own.public.signing),
        renew=lambda: ws.home.renew(ws.address), now=ws.now, received=received,
        is_ours=is_ours, vaults=vaults_of,
    )  # fmt: skip
    return device


def vault_device_test(ws: Workspace) -> Callable[[str], bool]:
    """A test whether a writer is this device or another one of ours."""
    return _device_test(this_device(ws), _vaults(ws))


def _device_test(local: LocalDevice, vaults: Iterable[KnownRemote]) -> Callable[[str], bool]:
    tests: list[Callable[[str], bool]] = []

    def is_ours(writer: str) -> bool:
        if certifies(writer, local.keys.public.signing):
            return True
        if not tests:  # evaluating a membership takes time
            tests.extend(
                provenance.member_test(Vault(local, OfflineRemote(remote.url), remote.vault).membership)
                for remote in vaults
            )
        return any(test(writer) for test in tests)

    return is_ours


def _vaults(ws: Workspace) -> list[KnownRemote]:
    return [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]


def own_mark(ws: Workspace) -> str:
    """What tells our sessions from others' with the same id: our first vault, else this device's keys."""
    own = (remote.vault for remote in _vaults(ws))
    return next(own, None) or device_keys(ws).public.id


@contextmanager
def exclusive(ws: Workspace, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Keep other processes of this home from syncing meanwhile."""
    ws.home.prepare()
    with locked(os.path.join(ws.home.path, "sync.lock"), patience=patience, purpose="syncing"):
        yield


@contextmanager
def remote_at(ws: Workspace, url: str, *, create: bool = False, hurried: bool = False) -> Iterator[RemoteStore]:
    """The remote at an address, with limits and retries."""
    scratch = os.path.join(ws.home.path, "remotes")
    files.make_private_dir(scratch)
    opened = open_remote(url, scratch=scratch, create=create, environ=ws.environ)
    try:
        yield RetryingRemote(LimitedRemote(opened), tries=1 if hurried else 4)
    finally:
        opened.close()


@contextmanager
def vault(ws: Workspace, remote: KnownRemote, *, hurried: bool = False) -> Iterator[Vault]:
    outgoing.redact_outgoing(ws)  # so that no known secret is sealed
    with remote_at(ws, remote.url, hurried=hurried) as opened:
        yield Vault(this_device(ws), opened, remote.vault)


def reopen(vault: Vault) -> Vault:
    """The same vault, read again after a change."""
    return Vault(vault.local, vault.remote, vault.id)


def open_offline(ws: Workspace, remote: KnownRemote) -> Vault:
    """The vault as this device remembers it; the remote is not contacted."""
    return Vault(this_device(ws), OfflineRemote(remote.url), remote.vault)


class OfflineRemote:
    """A remote that is not contacted: every call fails as if it could not be reached."""

    def __init__(self, url: str) -> None:
        self.url = url

    def list(self, prefix: str) -> Sequence[ObjectInfo]:  # noqa: ARG002 (as every remote has it)
        raise self._unreachable()

    def get(self, name: str, limit: int) -> bytes:  # noqa: ARG002
        raise self._unreachable()

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:  # noqa: ARG002
        raise self._unreachable()

    def close(self) -> None:
        pass

    def _unreachable(self) -> HoldfastError:
        return Unreachable("the remote was not contacted", hint="holdfast sync contacts it.")
