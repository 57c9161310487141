"""A pool of keepers for servers: requests come in parallel, but a keeper serves one thread at a time.

Keepers are opened when needed, lent out, and reused. One is closed after an error, after some time, and when its
store's file was replaced: settings change, and stores are repaired and restored.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from holdfast.core.errors import HoldfastError
from holdfast.machine.wall import monotonic
from holdfast.workspace.unit import name_feature

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

T = TypeVar("T")
_MAX_THREADS: Final = 8  # further requests wait


class _FreeKeeper(NamedTuple):
    keeper: Keeper
    until: float
    # Identifies the store's file: a store that was replaced must not be written to.
    file: int | None


class KeeperPool:
    def __init__(self, open_keeper: Callable[[], Keeper], *, max_age: float = math.inf) -> None:
        self.open_keeper = open_keeper
        self._max_age = max_age  # seconds
        self._free: list[_FreeKeeper] = []
        self._lock = threading.Lock()
        self._closed = False
        self._threads: anyio.CapacityLimiter | None = None

    async def ask(self, work: Callable[[Keeper], T]) -> T:
        """Run work with a keeper in a thread; returns its result."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_MAX_THREADS)
        return await anyio.to_thread.run_sync(partial(self._run, work), limiter=self._threads)

    def _run(self, work: Callable[[Keeper], T]) -> T:
        with self.keeper() as keeper:
            return work(keeper)

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        keeper, until = self._take()
        try:
            yield keeper
        except BaseException as error:
            if isinstance(error, HoldfastError):
                name_feature(keeper, error)
            keeper.close()  # its state is unknown: the next request gets a new keeper
            raise
        with self._lock:
            if not self._closed:
                self._free.append(_FreeKeeper(keeper, until, keeper.address.stamp()))
                return
        keeper.close()

    def _take(self) -> tuple[Keeper, float]:
        while True:
            with self._lock:
                if not self._free:
                    break
                keeper, until, file = self._free.pop()
            if monotonic() < until and keeper.address.stamp() == file:
                return keeper, until
            keeper.close()
        return self.open_keeper(), monotonic() + self._max_age

    def close(self) -> None:
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for entry in free:
            entry.keeper.close()
