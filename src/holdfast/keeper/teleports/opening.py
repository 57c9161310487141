"""Opening a vault for the keeper: this device's keys, the remote with its limits, and one process at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.keeper import projects
from holdfast.keeper.teleports.remotes import Remote
from holdfast.machine import files
from holdfast.machine.locks import locked
from holdfast.teleport import key_files
from holdfast.teleport.remotes.interface import Remote as Place
from holdfast.teleport.remotes.limited import Limited
from holdfast.teleport.remotes.patient import Patient
from holdfast.teleport.remotes.registry import open_remote
from holdfast.teleport.vault import Here, Vault

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Transaction
    from holdfast.teleport.keys import DeviceKeys

_PATIENCE = 120.0  # seconds for another process of this home that is at it


def keys(keeper: Keeper) -> DeviceKeys:
    """This device's keys, made on first use; from then on its events carry ids that the keys vouch for."""
    found = key_files.load(keeper.home.path)
    if found is not None:
        return found
    keeper.home.prepare()
    place: key_files.Place = "keyring" if keeper.settings["device.keys"] == "keyring" else "file"
    made = key_files.create(keeper.home.path, name=keeper.device(), place=place, made_at=keeper.now())
    if os.path.lexists(keeper.home.binding(keeper.store_path)):
        keeper.home.renew(keeper.store_path)
    return made


def here(keeper: Keeper) -> Here:
    """This device, as vaults see it."""

    def received(transaction: Transaction, sessions: Iterable[str]) -> None:
        for session in sessions:
            projects.learn(transaction, transaction.state(session))

    store = keeper.store()
    return Here(
        keys=keys(keeper), name=keeper.device(), store=store, transaction=keeper.transaction,
        writer=lambda: keeper.home.writer(keeper.store_path),
        renew=lambda: keeper.home.renew(keeper.store_path),
        now=keeper.now, received=received,
    )  # fmt: skip


@contextmanager
def alone(keeper: Keeper, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Nobody else of this home exchanges anything meanwhile."""
    keeper.home.prepare()
    with locked(os.path.join(keeper.home.path, "sync.lock"), patience=patience, what="syncing"):
        yield


@contextmanager
def place(keeper: Keeper, url: str, *, create: bool = False, hurried: bool = False) -> Iterator[Place]:
    """The remote at an address: tried again while that helps, and never endless."""
    scratch = os.path.join(keeper.home.path, "remotes")
    files.make_private_dir(scratch)
    opened = open_remote(url, scratch=scratch, create=create, environ=keeper.environ)
    try:
        yield Patient(Limited(opened), tries=1 if hurried else 4)
    finally:
        opened.close()


@contextmanager
def vault(keeper: Keeper, remote: Remote, *, hurried: bool = False) -> Iterator[Vault]:
    with place(keeper, remote.url, hurried=hurried) as opened:
        yield Vault(here(keeper), opened, remote.vault)
