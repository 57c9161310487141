"""Opening a vault for the keeper: this device's keys, the remote with its limits, and one process at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.errors import Damaged, HoldfastError, Unreachable
from holdfast.keeper import cleansing, projects
from holdfast.keeper.teleports import remotes
from holdfast.keeper.teleports.remotes import Remote
from holdfast.machine import files
from holdfast.machine.locks import locked
from holdfast.teleport import key_files, provenance
from holdfast.teleport.keys import certifies
from holdfast.teleport.remotes.interface import Found
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
    """This device's keys, made on first use. Where vaults know it by earlier ones, none are made in passing."""
    found = key_files.load(keeper.home.path)
    if found is not None:
        return found
    known = remotes.load(keeper.home)
    if known:
        first = known[0]
        raise Damaged(
            f"this device's keys are gone: there is no {keeper.home.device}",
            hint="Bring it back from a copy of the home. Without one, ask to join again with new keys:"
            f" holdfast remote remove {first.name}, then holdfast remote add {first.name} {first.url}",
            file=keeper.home.device,
        )
    return new_keys(keeper)


def new_keys(keeper: Keeper) -> DeviceKeys:
    """Keys, unless there are some; from then on this device's events carry ids that they vouch for."""
    found = key_files.load(keeper.home.path)
    if found is not None:
        return found
    keeper.home.prepare()
    place: key_files.Place = "keyring" if keeper.settings.certain("device.keys") == "keyring" else "file"
    made = key_files.create(keeper.home.path, name=keeper.device(), place=place, made_at=keeper.now())
    if os.path.lexists(keeper.home.binding(keeper.address.key)):
        keeper.home.renew(keeper.address)
    return made


def _writer(keeper: Keeper, signing: bytes) -> str:
    """The id of this life. Whoever made the keys may have been stopped before it came to one that they vouch for."""
    found = keeper.home.writer(keeper.address)
    return found if certifies(found, signing) else keeper.home.renew(keeper.address)


def here(keeper: Keeper) -> Here:
    """This device, as vaults see it."""

    def received(transaction: Transaction, sessions: Iterable[str]) -> None:
        for session in sessions:
            projects.learn(keeper, transaction, transaction.state(session))
        cleansing.take_in(keeper, transaction)

    def is_ours(writer: str) -> bool:
        return _device_test(found, vaults)(writer)  # anew: who belongs changes while we sync

    def taking(session: str) -> tuple[str, ...]:
        state = store.state(session)
        return tuple(one.vault for one in vaults if one.takes(state))

    store, own = keeper.store(), keys(keeper)
    vaults = _vaults(keeper)
    found = Here(
        keys=own, name=keeper.device(), store=store, transaction=keeper.transaction,
        writer=lambda: _writer(keeper, own.public.signing),
        renew=lambda: keeper.home.renew(keeper.address), now=keeper.now, received=received,
        is_ours=is_ours, vaults=taking,
    )  # fmt: skip
    return found


def device_test(keeper: Keeper) -> Callable[[str], bool]:
    """Tells whether a writer is this device or another one of ours, as the vaults stand now."""
    return _device_test(here(keeper), _vaults(keeper))


def _device_test(here: Here, vaults: Iterable[Remote]) -> Callable[[str], bool]:
    tests: list[Callable[[str], bool]] = []

    def is_ours(writer: str) -> bool:
        if certifies(writer, here.keys.public.signing):
            return True
        if not tests:  # reading who belongs to a vault takes time
            tests.extend(
                provenance.device_test(Vault(here, Nowhere(one.url), one.vault).membership) for one in vaults
            )
        return any(test(writer) for test in tests)

    return is_ours


def _vaults(keeper: Keeper) -> list[Remote]:
    return [one for one in remotes.load(keeper.home) if one.kind == "vault"]


def own_mark(keeper: Keeper) -> str:
    """What tells our sessions from others' of the same id: the first vault of ours, else this device's keys."""
    own = (one.vault for one in _vaults(keeper))
    return next(own, None) or keys(keeper).public.id


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
    cleansing.cleanse(keeper)  # whatever is done with it: what is sealed then holds no secret we know of
    with place(keeper, remote.url, hurried=hurried) as opened:
        yield Vault(here(keeper), opened, remote.vault)


def again(vault: Vault) -> Vault:
    """The same vault, looked at anew after it was changed."""
    return Vault(vault.here, vault.remote, vault.id)


def remembered(keeper: Keeper, remote: Remote) -> Vault:
    """The vault as this device knows it, without asking the remote anything."""
    return Vault(here(keeper), Nowhere(remote.url), remote.vault)


class Nowhere:
    """A remote that is not asked: whatever needs it fails as if it were out of reach."""

    def __init__(self, url: str) -> None:
        self.url = url

    def list(self, prefix: str) -> Sequence[Found]:  # noqa: ARG002 (as every remote has it)
        raise self._away()

    def get(self, name: str, limit: int) -> bytes:  # noqa: ARG002
        raise self._away()

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:  # noqa: ARG002
        raise self._away()

    def close(self) -> None:
        pass

    def _away(self) -> HoldfastError:
        return Unreachable("the remote was not asked", hint="holdfast sync asks it.")
