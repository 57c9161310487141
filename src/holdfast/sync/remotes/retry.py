"""A remote that is tried again: networks and disks fail for a moment, and every call is safe to repeat.

    Patient(Limited(remote, …))

in this order, so that what is tried again counts against the limits too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.machine.wall import monotonic
from holdfast.sync.remotes.base import (
    Missing,
    ObjectInfo,
    ObjectTooLarge,
    RemoteStore,
    foreign_at,
    replace_unreadable,
)

_T = TypeVar("_T")

_FIRST: Final = 0.25  # seconds; each further wait is up to twice as long
_LONGEST: Final = 8.0


class Patient:
    """The same remote. Only errors that say trying again helps are tried again."""

    def __init__(
        self,
        remote: RemoteStore,
        *,
        tries: int = 4,
        seconds: float = 60.0,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`tries` are for one call; `seconds` for all calls together, spent on those that failed at first."""
        self.url = remote.url
        self._remote = remote
        self._tries = tries
        self._left = seconds
        self._wait = wait
        self._clock = clock

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        return self._tried(lambda _: self._remote.list(prefix))

    def get(self, name: str, limit: int) -> bytes:
        return self._tried(lambda _: self._remote.get(name, limit))

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        def attempt(number: int) -> frozenset[str]:
            there = self._remote.put(objects, remove=remove)
            return there if number == 1 else frozenset(there - self._ours(objects, there))

        return self._tried(attempt)

    @property
    def foreign(self) -> Sequence[str]:
        return foreign_at(self._remote)

    def replace_unreadable(self) -> None:
        replace_unreadable(self._remote)

    def close(self) -> None:
        self._remote.close()

    def _ours(self, objects: Sequence[tuple[str, bytes]], there: frozenset[str]) -> set[str]:
        """Those that hold exactly our bytes: an attempt that was said to have failed had created them."""
        ours = set()
        for name, data in objects:
            if name not in there:
                continue
            try:
                if self._remote.get(name, len(data)) == data:
                    ours.add(name)
            except (Missing, ObjectTooLarge):
                continue  # somebody else's, or removed since: no longer ours to claim
        return ours

    def _tried(self, call: Callable[[int], _T]) -> _T:
        began = self._clock()
        number = 1
        while True:
            try:
                done = call(number)
            except HoldfastError as error:
                wait = _jittered(number)
                out_of_time = self._clock() - began + wait > self._left
                if not error.retry_helps or number >= self._tries or out_of_time:
                    self._spent(began, number if error.retry_helps else number - 1)
                    raise
            else:
                self._spent(began, number - 1)
                return done
            self._wait(wait)
            number += 1

    def _spent(self, began: float, failures: int) -> None:
        if failures:
            self._left -= self._clock() - began


def _jittered(number: int) -> float:
    """Between half of it and all of it: devices that failed together do not come back together."""
    longest = min(_FIRST * 2.0**number, _LONGEST)
    return longest * (0.5 + os.urandom(1)[0] / 510)
