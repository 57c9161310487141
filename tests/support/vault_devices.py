"""Devices in one process, for tests of the sync engine: real stores, real keys, and a shared remote."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from holdfast.core.envelope import Event
from holdfast.core.events import EventData, NoteAdded, ProjectFacts, SessionStarted
from holdfast.core.state import State, freeze
from holdfast.store.interface import Draft, Transaction
from holdfast.store.sqlite import SqliteStore
from holdfast.sync import create_vault, join_vault, removal, vault_shares
from holdfast.sync.protocol import heads, packs
from holdfast.sync.protocol.packs import Stretch
from holdfast.sync.read_heads import read_listing
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, RemoteStore
from holdfast.sync.state import Published
from holdfast.sync.sync import sync_vault
from holdfast.sync.sync_report import SyncReport
from holdfast.sync.vault import LocalDevice, Vault
from holdfast.workspace.keys.device_keys import DeviceKeys, certified_writer, certifies


class Shelf:
    """A remote in memory that counts requests, and whose objects a test can change."""

    url = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        self.asked.append(("list", prefix))
        return [ObjectInfo(name, len(data)) for name, data in sorted(self.objects.items()) if name.startswith(prefix)]

    def get(self, name: str, limit: int) -> bytes:
        self.asked.append(("get", name))
        data = self.objects.get(name)
        if data is None:
            raise Missing("there is no such object")
        if len(data) > limit:
            raise ObjectTooLarge("the object is too large")
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

    def __init__(
        self,
        directory: str,
        name: str,
        remote: RemoteStore,
        *,
        wall: int = 1_800_000_000_000,
        like: Device | None = None,
    ) -> None:
        """A new one; or, `like` another: the same keys and writer, with a store of its own."""
        self.name = name
        self.remote = remote
        self.keys: DeviceKeys = DeviceKeys.generate() if like is None else like.keys
        self._writer = certified_writer(self.keys.public.signing) if like is None else like.writer
        self.time = wall
        self.path = os.path.join(directory, f"{name}.db")
        self.store = self._opened()
        self.vault_id: str = "" if like is None else like.vault_id
        # Called at each step of the store; a test may raise there.
        self.step: Callable[[str], None] = lambda _: None

    def _opened(self) -> SqliteStore:
        store = SqliteStore(self.path, writer=lambda: self._writer, wall=lambda: self.time * 1000)
        # No test here cuts the power, and syncing the disk would take most of their time.
        store._connection.execute("PRAGMA synchronous = OFF")
        return store

    def copy(self, path: str) -> str:
        """A copy of the store as a file, as in a backup of the home."""
        self.store.close()
        shutil.copy(self.path, path)
        self.store = self._opened()
        return path

    def put_back(self, path: str, *, writer: str | None = None) -> None:
        """Restores the home as it was at the time of the copy, with the given writer."""
        self.store.close()
        for end in ("-wal", "-shm"):
            if os.path.exists(self.path + end):
                os.unlink(self.path + end)
        shutil.copy(path, self.path)
        self._writer = writer or self._writer
        self.store = self._opened()

    def lose(self) -> None:
        """Loses everything but the keys and the vault's id."""
        self.store.close()
        for end in ("", "-wal", "-shm"):
            if os.path.exists(self.path + end):
                os.unlink(self.path + end)
        self.store = self._opened()

    def forget(self) -> None:
        """Keeps the events, and loses everything else that the store remembers."""
        with self.store.transaction() as transaction:
            for name in self.store.remembered_under("vault/"):
                transaction.remember(name, None)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self.step("begin")
        with self.store.transaction() as transaction:
            yield transaction
        self.step("committed")

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

    def local(self) -> LocalDevice:
        return LocalDevice(
            keys=self.keys, name=self.name, store=self.store, transaction=self.transaction,
            writer=lambda: self._writer, renew=self.renew, now=lambda: self.time, received=_nothing,
            is_ours=lambda writer: certifies(writer, self.keys.public.signing), vaults=lambda _: None,
        )  # fmt: skip

    def vault(self) -> Vault:
        return Vault(self.local(), self.remote, self.vault_id)

    # ── a person's actions ────────────────────────────────────────────────────────────────────────────────

    def create_vault(self) -> Self:
        vault = create_vault.create_vault(self.local(), self.remote)
        assert vault is not None
        self.vault_id = vault.id
        return self

    def ask(self) -> Self:
        signed = create_vault.read_founding(self.remote)
        assert signed is not None
        self.vault_id = join_vault.request_to_join(self.local(), self.remote, signed).id
        return self

    def approve(self, other: Device, *, admin: bool = False) -> None:
        vault = self.vault()
        sync_vault(vault)
        requests = join_vault.list_requests(vault, read_listing(self.remote.list("h/"), vault.tag).joins)
        join_vault.approve(
            vault, next(request for request in requests if request.keys.id == other.keys.public.id), admin=admin
        )
        self.sync()

    def remove(self, *others: Device) -> None:
        vault = self.vault()
        sync_vault(vault)
        removal.remove(vault, [other.keys.public.id for other in others]).commit()
        self.sync()

    def share(self, session: str, guest: Device, *, write: bool = True) -> None:
        main = self.vault()
        sync_vault(main)
        small = vault_shares.find_or_create_share(main, session)
        vault_shares.invite(small, f"{guest.name}@example.org", [guest.keys.public.age], write=write, expires=None)
        self.sync()

    def revoke(self, session: str, guest: Device) -> None:
        main = self.vault()
        sync_vault(main)
        small = vault_shares.find_share(main, session)
        assert small is not None
        vault_shares.uninvite(small, f"{guest.name}@example.org")
        self.sync()

    def accept(self) -> None:
        """Accepts what was shared with this device's key."""
        shares = vault_shares.offers(self.remote, [self.keys.identity])
        self.vault_id = vault_shares.accept(self.local(), self.remote, shares[0]).id
        self.sync()

    def sync(self, *, put_back: bool = False) -> SyncReport:
        self.time += 1000
        return sync_vault(self.vault(), put_back=put_back)

    def start(self, session: str, goal: str = "Keep what matters") -> str:
        project = ProjectFacts(id="p1", name="project")
        self.record(session, SessionStarted(goal=goal, project=project, device=self.name))
        return session

    def note(self, session: str, words: str) -> None:
        self.record(session, NoteAdded(text=words))

    def record(self, session: str, *data: EventData) -> None:
        self.time += 1000
        with self.store.transaction() as transaction:
            for item in data:
                transaction.record(session, Draft(item, self.time, self.name))

    # ── results ──────────────────────────────────────────────────────────────────────────────────────────

    def state(self, session: str) -> State | None:
        return self.store.state(session)

    def log(self) -> dict[str, set[tuple[str, bytes | None]]]:
        """Every event of every session, with whether its data is present."""
        entries = {
            session: {(event.hash, event.data) for event in self.store.events(session)}
            for session in self.store.sessions()
        }
        return {session: events for session, events in entries.items() if events}

    def states(self) -> dict[str, bytes]:
        return {event: freeze(state) for event in self.log() if (state := self.state(event)) is not None}

    def files(self) -> bytes:
        """All bytes of the store's files."""
        content = b""
        for end in ("", "-wal", "-shm"):
            if os.path.exists(self.path + end):
                with open(self.path + end, "rb") as file:
                    content += file.read()
        return content

    def events(self, session: str) -> list[Event]:
        return list(self.store.events(session))

    def notes(self, session: str) -> list[str]:
        state = self.state(session)
        return [] if state is None else [note.text for note in state.notes]


def join(first: Device, *others: Device, admin: bool = False) -> None:
    """Adds all others to the first one's vault."""
    for other in others:
        other.ask()
        first.approve(other, admin=admin)
        other.sync()


def settle(devices: Iterable[Device], rounds: int = 3) -> None:
    everybody = list(devices)
    for _ in range(rounds):
        for device in everybody:
            device.sync()


def opened(device: Device) -> dict[str, list[Stretch]]:
    """Every pack at the remote that this device's keys open, with its content, including shares."""
    content = {}
    for vault in _vaults(device):
        vault.ask_for_wraps()
        for listed in device.remote.list(f"p/{vault.tag}/"):
            plain = vault.open("pack", listed.name, device.remote.get(listed.name, 1 << 30), vault.ring)
            content[listed.name] = packs.unpack(plain)
    return content


def named(device: Device) -> set[str]:
    """Every pack that a head at the remote names."""
    names = set()
    for vault in _vaults(device):
        vault.ask_for_wraps()
        for listed in read_listing(device.remote.list("h/"), vault.tag).newest.values():
            plain = vault.open("head", listed.name, device.remote.get(listed.name, 1 << 30), vault.candidates)
            names |= {vault.pack_name(pack.name) for pack in heads.read(plain, vault.id, listed).head.packs}
    return names


def stale(devices: Iterable[Device]) -> set[str]:
    """Packs that were merged, and that their author removes with the next push."""
    return {
        vault.pack_name(name)
        for device in devices
        for vault in _vaults(device)
        for _, own in vault.memory.under(Published, "own")
        for name in own.stale
    }


def _vaults(device: Device) -> list[Vault]:
    main = device.vault()
    return [main, *(vault_shares.open_share(main, share.vault, share.founding) for share in main.membership.shares)]


def _nothing(transaction: Transaction, sessions: Iterable[str]) -> None:
    """Projects belong to the keeper."""
