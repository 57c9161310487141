"""Opening a vault for the keeper: this device's keys, the remote with its limits, and one process at a time."""

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
from holdfast.sync.remotes.base import ObjectInfo
from holdfast.sync.remotes.base import RemoteStore as Place
from holdfast.sync.remotes.index import open_remote
from holdfast.sync.remotes.wrappers import LimitedRemote, Patient
from holdfast.sync.vault import ThisDevice, Vault
from holdfast.workspace import projects
from holdfast.workspace.keys import key_files
from holdfast.workspace.keys.device_keys import certifies

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.workspace.keys.device_keys import DeviceKeys
    from holdfast.workspace.workspace import Workspace

_PATIENCE = 120.0  # seconds for another process of this home that is at it


def keys(ws: Workspace) -> DeviceKeys:
    """This device's keys, made on first use. Where vaults know it by earlier ones, none are made in passing."""
    found = key_files.load(ws.home.path)
    if found is not None:
        return found
    known = remote_list.load(ws.home)
    if known:
        first = known[0]
        raise Damaged(
            f"this device's keys are gone: there is no {ws.home.device}",
            hint="Bring it back from a copy of the home. Without one, ask to join again with new keys:"
            f" holdfast remote remove {first.name}, then holdfast remote add {first.name} {first.url}",
            file=ws.home.device,
        )
    return new_keys(ws)


def new_keys(ws: Workspace) -> DeviceKeys:
    """Keys, unless there are some; from then on this device's events carry ids that they vouch for."""
    found = key_files.load(ws.home.path)
    if found is not None:
        return found
    ws.home.prepare()
    place: key_files.KeyPlace = "keyring" if ws.settings.certain("device.keys") == "keyring" else "file"
    made = key_files.create(ws.home.path, name=ws.device(), place=place, made_at=ws.now())
    if os.path.lexists(ws.home.binding(ws.address.key)):
        ws.home.renew(ws.address)
    return made


def _writer(ws: Workspace, signing: bytes) -> str:
    """The id of this life. Whoever made the keys may have been stopped before it came to one that they vouch for."""
    found = ws.home.writer(ws.address)
    return found if certifies(found, signing) else ws.home.renew(ws.address)


def here(ws: Workspace) -> ThisDevice:
    """This device, as vaults see it."""

    def received(transaction: Transaction, sessions: Iterable[str]) -> None:
        for session in sessions:
            projects.learn_project(ws, transaction, transaction.state(session))
        outgoing.take_in(ws, transaction)

    def is_ours(writer: str) -> bool:
        return _device_test(found, vaults)(writer)  # anew: who belongs changes while we sync

    def taking(session: str) -> tuple[str, ...]:
        state = store.state(session)
        return tuple(remote.vault for remote in vaults if remote.takes(state))

    store, own = ws.store(), keys(ws)
    vaults = _vaults(ws)
    found = ThisDevice(
        keys=own, name=ws.device(), store=store, transaction=ws.transaction,
        writer=lambda: _writer(ws, own.public.signing),
        renew=lambda: ws.home.renew(ws.address), now=ws.now, received=received,
        is_ours=is_ours, vaults=taking,
    )  # fmt: skip
    return found


def device_test(ws: Workspace) -> Callable[[str], bool]:
    """Tells whether a writer is this device or another one of ours, as the vaults stand now."""
    return _device_test(here(ws), _vaults(ws))


def _device_test(here: ThisDevice, vaults: Iterable[KnownRemote]) -> Callable[[str], bool]:
    tests: list[Callable[[str], bool]] = []

    def is_ours(writer: str) -> bool:
        if certifies(writer, here.keys.public.signing):
            return True
        if not tests:  # reading who belongs to a vault takes time
            tests.extend(
                provenance.device_test(Vault(here, Nowhere(remote.url), remote.vault).membership) for remote in vaults
            )
        return any(test(writer) for test in tests)

    return is_ours


def _vaults(ws: Workspace) -> list[KnownRemote]:
    return [remote for remote in remote_list.load(ws.home) if remote.kind == "vault"]


def own_mark(ws: Workspace) -> str:
    """What tells our sessions from others' of the same id: the first vault of ours, else this device's keys."""
    own = (remote.vault for remote in _vaults(ws))
    return next(own, None) or keys(ws).public.id


@contextmanager
def alone(ws: Workspace, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Nobody else of this home exchanges anything meanwhile."""
    ws.home.prepare()
    with locked(os.path.join(ws.home.path, "sync.lock"), patience=patience, what="syncing"):
        yield


@contextmanager
def place(ws: Workspace, url: str, *, create: bool = False, hurried: bool = False) -> Iterator[Place]:
    """The remote at an address: tried again while that helps, and never endless."""
    scratch = os.path.join(ws.home.path, "remotes")
    files.make_private_dir(scratch)
    opened = open_remote(url, scratch=scratch, create=create, environ=ws.environ)
    try:
        yield Patient(LimitedRemote(opened), tries=1 if hurried else 4)
    finally:
        opened.close()


@contextmanager
def vault(ws: Workspace, remote: KnownRemote, *, hurried: bool = False) -> Iterator[Vault]:
    outgoing.cleanse(ws)  # whatever is done with it: what is sealed then holds no secret we know of
    with place(ws, remote.url, hurried=hurried) as opened:
        yield Vault(here(ws), opened, remote.vault)


def again(vault: Vault) -> Vault:
    """The same vault, looked at anew after it was changed."""
    return Vault(vault.here, vault.remote, vault.id)


def remembered(ws: Workspace, remote: KnownRemote) -> Vault:
    """The vault as this device knows it, without asking the remote anything."""
    return Vault(here(ws), Nowhere(remote.url), remote.vault)


class Nowhere:
    """A remote that is not asked: whatever needs it fails as if it were out of reach."""

    def __init__(self, url: str) -> None:
        self.url = url

    def list(self, prefix: str) -> Sequence[ObjectInfo]:  # noqa: ARG002 (as every remote has it)
        raise self._away()

    def get(self, name: str, limit: int) -> bytes:  # noqa: ARG002
        raise self._away()

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:  # noqa: ARG002
        raise self._away()

    def close(self) -> None:
        pass

    def _away(self) -> HoldfastError:
        return Unreachable("the remote was not asked", hint="holdfast sync asks it.")
