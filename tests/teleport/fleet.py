"""Devices in one process: real stores, real keys, and a remote they share. What the engine's tests are made of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Self

from holdfast.core.event import Event
from holdfast.core.state import State
from holdfast.core.vocabulary import Data, NoteAdded, Project, SessionStarted
from holdfast.store.interface import Draft, Transaction
from holdfast.store.sqlite import SqliteStore
from holdfast.teleport import founding, joining, syncing
from holdfast.teleport.keys import DeviceKeys, certified_writer
from holdfast.teleport.pulling import look
from holdfast.teleport.remotes.interface import Found, Missing, Remote, TooLarge
from holdfast.teleport.report import Report
from holdfast.teleport.vault import Here, Vault


class Shelf:
    """A remote in memory that counts what is asked of it, and that a test can reach into."""

    url = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []

    def list(self, prefix: str) -> Sequence[Found]:
        self.asked.append(("list", prefix))
        return [Found(name, len(data)) for name, data in sorted(self.objects.items()) if name.startswith(prefix)]

    def get(self, name: str, limit: int) -> bytes:
        self.asked.append(("get", name))
        data = self.objects.get(name)
        if data is None:
            raise Missing("there is no such object")
        if len(data) > limit:
            raise TooLarge("the object is too large")
        return data

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        self.asked.append(("put", " ".join(name for name, _ in objects)))
        there = frozenset(name for name, _ in objects if name in self.objects)
        for name, data in objects:
            self.objects.setdefault(name, data)
        for name in remove:
            self.objects.pop(name, None)
        return there

    def close(self) -> None:
        pass


class Device:
    """One device with a store of its own."""

    def __init__(self, directory: str, name: str, remote: Remote, *, wall: int = 1_800_000_000_000) -> None:
        self.name = name
        self.remote = remote
        self.keys = DeviceKeys.generate()
        self._writer = certified_writer(self.keys.public.signing)
        self.time = wall
        self.store = SqliteStore(
            os.path.join(directory, f"{name}.db"), writer=lambda: self._writer, wall=lambda: self.time * 1000
        )
        self.vault_id = ""

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self.store.close()

    def renew(self) -> str:
        self._writer = certified_writer(self.keys.public.signing)
        return self._writer

    @property
    def writer(self) -> str:
        return self._writer

    def here(self) -> Here:
        return Here(
            keys=self.keys, name=self.name, store=self.store, transaction=self.store.transaction,
            writer=lambda: self._writer, renew=self.renew, now=lambda: self.time, received=_nothing,
        )  # fmt: skip

    def vault(self) -> Vault:
        return Vault(self.here(), self.remote, self.vault_id)

    # ── what a person does ───────────────────────────────────────────────────────────────────────────────

    def found(self) -> Self:
        vault = founding.found(self.here(), self.remote)
        assert vault is not None
        self.vault_id = vault.id
        return self

    def ask(self) -> Self:
        signed = founding.existing(self.remote)
        assert signed is not None
        self.vault_id = joining.ask(self.here(), self.remote, signed).id
        return self

    def approve(self, other: Device, *, admin: bool = False) -> None:
        vault = self.vault()
        syncing.sync(vault)
        found = joining.requests(vault, look(self.remote.list("h/"), vault.tag).joins)
        joining.approve(vault, joining.by_fingerprint(found, other.keys.public.id), admin=admin)
        self.sync()

    def sync(self) -> Report:
        self.time += 1000
        return syncing.sync(self.vault())

    def start(self, session: str, goal: str = "Keep what matters") -> str:
        project = Project(id="p1", name="project")
        self.record(session, SessionStarted(goal=goal, project=project, device=self.name))
        return session

    def note(self, session: str, words: str) -> None:
        self.record(session, NoteAdded(text=words))

    def record(self, session: str, *data: Data) -> None:
        self.time += 1000
        with self.store.transaction() as transaction:
            for one in data:
                transaction.record(session, Draft(one, self.time, self.name))

    # ── what there is to see ─────────────────────────────────────────────────────────────────────────────

    def state(self, session: str) -> State | None:
        return self.store.state(session)

    def events(self, session: str) -> list[Event]:
        return list(self.store.events(session))

    def notes(self, session: str) -> list[str]:
        state = self.state(session)
        return [] if state is None else [one.text for one in state.notes]


def join(first: Device, *others: Device, admin: bool = False) -> None:
    """Everybody in the first one's vault."""
    for other in others:
        other.ask()
        first.approve(other, admin=admin)
        other.sync()


def settle(devices: Iterable[Device], rounds: int = 3) -> None:
    everybody = list(devices)
    for _ in range(rounds):
        for device in everybody:
            device.sync()


def _nothing(transaction: Transaction, sessions: Iterable[str]) -> None:
    """Projects are the keeper's."""
