"""Restarts after a power cut and checks what must be there, with the code under test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from holdfast.keeper.keeper import Keeper
from holdfast.store.checks import flaws
from holdfast.store.sqlite import SqliteStore
from tests.faults.harness import invariants
from tests.faults.harness.disk import Disk, State
from tests.faults.harness.warm_sandbox import empty, write_tree
from tests.faults.harness.workload import CANARY

_LIMIT = re.compile(rb"limit = (\d+)")


class Promise(NamedTuple):
    """What had been acknowledged when the power failed."""

    hashes: frozenset[str]
    config: int
    backup: bool
    erased: bool


class Machine:
    """A directory in which states of the disk are restored and opened, many hundreds a second."""

    def __init__(self, disk: Disk) -> None:
        memory = "/dev/shm"
        place = memory if os.path.isdir(memory) and os.access(memory, os.W_OK) else None
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-power-", dir=place))
        self.home = os.path.join(self.root, "home")
        self.project = os.path.join(self.root, "project")
        self.path = os.path.join(self.home, "store.db")
        self._promises = _promises(disk)
        self._images: set[int] = set()
        self._copies: set[int] = set()
        self.checked = 0
        self.extended = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.root)

    def start(self, state: State) -> None:
        """Restart with this state; anything lost or wrong raises AssertionError or another exception."""
        promise = self._promises[state.moment]
        self.checked += 1
        empty(self.root)
        write_tree(self.root, state.files)
        if not os.path.lexists(self.path):
            assert not promise.hashes, f"the whole store is lost, with {len(promise.hashes)} acknowledged events"
        elif self.checked % 8:
            self._check_events(promise)
        if self.checked % 8 == 0 or not os.path.lexists(self.path):
            self._append_and_check(promise)
        self._check_files(state, promise)

    def _check_events(self, promise: Promise) -> None:
        store = SqliteStore(self.path, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
        try:
            hashes = {row[0].hex() for row in store._connection.execute("SELECT hash FROM events")}
        finally:
            store.close()
        _compare(promise, hashes)
        with open(self.path, "rb") as file:
            image = hash(file.read())
        if image not in self._images:
            # The file after opening. Many states lead to the same image, which is fully checked once.
            self._images.add(image)
            invariants.read_view(self.home, self.project, self.project)

    def _append_and_check(self, promise: Promise) -> None:
        """Without a check first: the next command appends, and both old and new events are there."""
        self.extended += 1
        with Keeper.open(self.project, home=self.home, actor="tester") as keeper:
            session = keeper.start("after the power came back", replace=True)
            session.note("and on")
        store = SqliteStore(self.path, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
        try:
            events = {session: list(store.events(session)) for session in store.sessions()}
        finally:
            store.close()
        _compare(promise, {event.hash for some in events.values() for event in some})
        assert len(events[session.id]) >= 2, "what was appended after the restart is missing"
        broken = [flaw for some in events.values() for flaw in flaws(some)]
        assert not broken, f"the chain is broken: {broken}"

    def _check_files(self, state: State, promise: Promise) -> None:
        config = _read(os.path.join(self.home, "config.toml"))
        limit = _LIMIT.search(config or b"")
        assert config is None or limit is not None, f"the settings are torn: {config!r}"
        assert (int(limit[1]) if limit else 0) >= promise.config, "an acknowledged setting is lost"
        copy = os.path.join(self.home, "copy.db")
        if os.path.lexists(copy):
            copy_hash = hash(state.files.get("home/copy.db"))
            if copy_hash not in self._copies:
                self._copies.add(copy_hash)
                invariants.complete_copy(copy)
        elif promise.backup:
            message = "an acknowledged backup is lost"
            raise AssertionError(message)
        if promise.erased:
            for name in os.listdir(self.home):
                content = _read(os.path.join(self.home, name)) if name != "copy.db" else b""
                assert CANARY.encode() not in (content or b""), f"erased data is in {name}"
        unnamed = [name for name in invariants.leftovers(self.home) if name != "copy.db"]
        assert not unnamed, f"left behind unnamed: {unnamed}"


def _compare(promise: Promise, hashes: set[str]) -> None:
    lost = promise.hashes - hashes
    assert not lost, f"{len(lost)} of {len(promise.hashes)} acknowledged events are lost"


def _promises(disk: Disk) -> list[Promise]:
    """What was acknowledged before each moment."""
    acks = dict(disk.acks)
    promises: list[Promise] = []
    current = Promise(frozenset(), 0, backup=False, erased=False)
    for moment in range(disk.length + 1):
        promises.append(current)
        ack: Mapping[str, Any] | None = acks.get(moment)
        if ack is not None:
            current = Promise(
                current.hashes | frozenset(ack["hashes"]) if ack["hashes"] else current.hashes,
                int(ack.get("config", current.config)),
                backup=current.backup or "backup" in ack,
                erased=current.erased or "erased" in ack,
            )
    return promises


def _read(path: str) -> bytes | None:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read()
    return None
