"""A pool of keepers: requests come in parallel, but a keeper serves one at a time.

Keepers are opened when needed, lent out, and reused. They work in threads, so that a quick request does not wait for
a slow remote.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

from holdfast.core.errors import HoldfastError
from holdfast.workspace.unit import name_feature

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

T = TypeVar("T")
_MOST: Final = 8  # at once; further requests wait


class KeeperPool:
    def __init__(self, open_keeper: Callable[[], Keeper]) -> None:
        self.open_keeper = open_keeper
        # Each with its store's file: a store that was replaced since must not be written to.
        self._free: list[tuple[Keeper, int | None]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._threads: anyio.CapacityLimiter | None = None

    async def ask(self, work: Callable[[Keeper], T]) -> T:
        """Run work with a keeper in a thread; its result."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_MOST)
        return await anyio.to_thread.run_sync(partial(self._do, work), limiter=self._threads)

    def _do(self, work: Callable[[Keeper], T]) -> T:
        with self.keeper() as keeper:
            return work(keeper)

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        keeper = self._lent()
        try:
            yield keeper
        except BaseException as error:
            if isinstance(error, HoldfastError):
                name_feature(keeper, error)
            keeper.close()  # whatever its state, the next request gets a fresh one
            raise
        with self._lock:
            if not self._closed:
                self._free.append((keeper, keeper.address.stamp()))
                return
        keeper.close()

    def _lent(self) -> Keeper:
        while True:
            with self._lock:
                if not self._free:
                    return self.open_keeper()
                keeper, known = self._free.pop()
            if keeper.address.stamp() == known:
                return keeper
            keeper.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for keeper, _ in free:
            keeper.close()
