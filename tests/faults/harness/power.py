"""Starting again after the power was cut: what must be there, looked at with the code under test."""

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
from tests.faults.harness import judge
from tests.faults.harness.disk import Disk, State
from tests.faults.harness.life import CANARY
from tests.faults.harness.room import empty, write_tree

_LIMIT = re.compile(rb"limit = (\d+)")


class Promise(NamedTuple):
    """What had been acknowledged when the power went."""

    hashes: frozenset[str]
    config: int
    backup: bool
    erased: bool


class Machine:
    """A place where states of the disk are put back and opened, many hundreds a second."""

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
        """Power is back: anything lost or wrong is an AssertionError, any exception an error."""
        promise = self._promises[state.moment]
        self.checked += 1
        empty(self.root)
        write_tree(self.root, state.files)
        if not os.path.lexists(self.path):
            assert not promise.hashes, f"the whole store is lost, with {len(promise.hashes)} acknowledged events"
        elif self.checked % 8:
            self._look(promise)
        if self.checked % 8 == 0 or not os.path.lexists(self.path):
            self._go_on(promise)
        self._files(state, promise)

    def _look(self, promise: Promise) -> None:
        store = SqliteStore(self.path, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
        try:
            found = {row[0].hex() for row in store._connection.execute("SELECT hash FROM events")}
        finally:
            store.close()
        _compare(promise, found)
        with open(self.path, "rb") as file:
            image = hash(file.read())
        if image not in self._images:
            # What opening made of the state. Many states come to one image, which is checked whole once.
            self._images.add(image)
            judge.look(self.home, self.project, self.project)

    def _go_on(self, promise: Promise) -> None:
        """Without looking first: the next command appends, and both what was there and that are there."""
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
        assert len(events[session.id]) >= 2, "what was appended after the power came back is not there"
        broken = [flaw for some in events.values() for flaw in flaws(some)]
        assert not broken, f"the chain is broken: {broken}"

    def _files(self, state: State, promise: Promise) -> None:
        config = _read(os.path.join(self.home, "config.toml"))
        found = _LIMIT.search(config or b"")
        assert config is None or found is not None, f"the settings are torn: {config!r}"
        assert (int(found[1]) if found else 0) >= promise.config, "a setting that was made is gone"
        copy = os.path.join(self.home, "copy.db")
        if os.path.lexists(copy):
            told = hash(state.files.get("home/copy.db"))
            if told not in self._copies:
                self._copies.add(told)
                judge.complete_copy(copy)
        elif promise.backup:
            message = "a backup that was made is gone"
            raise AssertionError(message)
        if promise.erased:
            for name in os.listdir(self.home):
                held = _read(os.path.join(self.home, name)) if name != "copy.db" else b""
                assert CANARY.encode() not in (held or b""), f"what was erased is in {name}"
        unnamed = [name for name in judge.leftovers(self.home) if name != "copy.db"]
        assert not unnamed, f"left behind unnamed: {unnamed}"


def _compare(promise: Promise, found: set[str]) -> None:
    lost = promise.hashes - found
    assert not lost, f"{len(lost)} of {len(promise.hashes)} acknowledged events are lost"


def _promises(disk: Disk) -> list[Promise]:
    """What was promised before each moment."""
    given = dict(disk.acks)
    made: list[Promise] = []
    now = Promise(frozenset(), 0, backup=False, erased=False)
    for moment in range(disk.length + 1):
        made.append(now)
        told: Mapping[str, Any] | None = given.get(moment)
        if told is not None:
            now = Promise(
                now.hashes | frozenset(told["hashes"]) if told["hashes"] else now.hashes,
                int(told.get("config", now.config)),
                backup=now.backup or "backup" in told,
                erased=now.erased or "erased" in told,
            )
    return made


def _read(path: str) -> bytes | None:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read()
    return None
