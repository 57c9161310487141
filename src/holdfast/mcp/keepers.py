"""Keepers that are kept open for a while. A keeper serves one thread at a time, so those who use the same take turns.

They are let go after some time, and after trouble: settings change, stores are repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from holdfast.core.errors import HoldfastError
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.recorded import told
from holdfast.keeper.telling import name_feature
from holdfast.machine.wall import monotonic

T = TypeVar("T")

_MOST_KEPT: Final = 8
_KEPT_FOR: Final = 30.0  # seconds


class _Kept(NamedTuple):
    keeper: Keeper
    until: float
    # Which file the store is: a repair or a restored backup puts another one in its place.
    file: int | None


class Keepers:
    """Keepers of directories, used one after the other."""

    def __init__(self, open_keeper: Callable[[str], Keeper]) -> None:
        self._open = open_keeper
        self._kept: dict[str, _Kept] = {}
        self._turn = anyio.Lock(fast_acquire=True)

    async def use(self, directory: Callable[[], str], work: Callable[[Keeper], T]) -> T:
        async with self._turn:
            return await to_thread.run_sync(self._work, directory, work)

    def close(self) -> None:
        for kept in self._kept.values():
            kept.keeper.close()
        self._kept.clear()

    def _work(self, which: Callable[[], str], work: Callable[[Keeper], T]) -> T:
        directory = which()
        try:
            keeper = self._keeper(directory)
            keeper.upkeep.recorded.begin()
            return work(keeper)
        except HoldfastError as error:
            if (kept := self._kept.get(directory)) is not None:
                name_feature(kept.keeper, error)
            if error.kind in ("damaged", "busy"):
                self._let_go(directory)
            if error.kind == "unreachable" and kept is not None:
                raise told(kept.keeper, error, writes=False) from None
            raise
        except BaseException:
            self._let_go(directory)
            raise

    def _keeper(self, directory: str) -> Keeper:
        now = monotonic()
        kept = self._kept.pop(directory, None)
        if kept is not None and (now > kept.until or kept.keeper.address.stamp() != kept.file):
            kept.keeper.close()
            kept = None
        if kept is None:
            kept = _Kept(keeper := self._open(directory), now + _KEPT_FOR, keeper.address.stamp())
            while len(self._kept) >= _MOST_KEPT:
                self._let_go(next(iter(self._kept)))
        self._kept[directory] = kept
        return kept.keeper

    def _let_go(self, directory: str) -> None:
        kept = self._kept.pop(directory, None)
        if kept is not None:
            kept.keeper.close()
