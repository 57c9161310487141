"""Remotes around a remote: one with limits for a sync, one that tries again.

    RetryingRemote(LimitedRemote(remote, …))

in this order, so that what is tried again counts against the limits too. Without limits a hostile or broken remote
could keep a device reading for ever, or fill its memory and disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from holdfast.core.errors import HoldfastError, Refused
from holdfast.machine.wall import monotonic
from holdfast.sync.remotes.base import (
    Missing,
    ObjectInfo,
    ObjectTooLarge,
    RemoteStore,
    foreign_at,
    replace_unreadable,
)


class OverLimit(Refused):
    """A sync exceeded its limits. What was done until then stays; the next sync continues."""


class LimitedRemote:
    """A remote with limits for one sync: once one is used up, every call that needs it is refused."""

    def __init__(
        self,
        remote: RemoteStore,
        *,
        requests: int = 100_000,
        bytes: int = 4 << 30,  # noqa: A002 (the word for it)
        listing: int = 200_000,
        seconds: float = 3600.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Limits on requests, bytes read, names in one listing, and time from now on."""
        self.url = remote.url
        self._remote = remote
        self._requests, self._max_requests = 0, requests
        self._bytes, self._max_bytes = 0, bytes
        self._listing = listing
        self._seconds = seconds
        self._clock = clock
        self._began = clock()

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        self._ask(1)
        listed = self._remote.list(prefix)
        if len(listed) > self._listing:
            raise self._over(f"it lists more than {self._listing:,} objects at once")
        return listed

    def get(self, name: str, limit: int) -> bytes:
        self._ask(1)
        left = self._max_bytes - self._bytes
        if left <= 0:
            raise self._over(f"more than {self._max_bytes:,} bytes were to be read")
        try:
            data = self._remote.get(name, min(limit, left))
        except ObjectTooLarge:
            # How much of it was transferred is unknown here.
            self._bytes += min(limit, left)
            if left < limit:
                raise self._over(f"more than {self._max_bytes:,} bytes were to be read") from None
            raise
        self._bytes += len(data)
        return data

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        """Refused as a whole, before anything is written, when there are too many objects."""
        self._ask(max(1, len(objects) + len(remove)))
        return self._remote.put(objects, remove=remove)

    @property
    def foreign(self) -> Sequence[str]:
        return foreign_at(self._remote)

    def replace_unreadable(self) -> None:
        replace_unreadable(self._remote)

    def close(self) -> None:
        self._remote.close()

    def _ask(self, requests: int) -> None:
        if self._clock() - self._began > self._seconds:
            raise self._over(f"it took longer than {self._seconds:,.0f} seconds")
        if self._requests + requests > self._max_requests:
            raise self._over(f"it took more than {self._max_requests:,} requests")
        self._requests += requests

    def _over(self, limit: str) -> OverLimit:
        return OverLimit(
            f"the sync was stopped at its limits: {limit}",
            hint="Sync again to continue. If that does not end, the remote holds objects that are not yours.",
            operation="sync",
        )


_T = TypeVar("_T")

_FIRST_WAIT: Final = 0.25  # seconds; each further wait is up to twice as long
_MAX_WAIT: Final = 8.0


class RetryingRemote:
    """A remote that retries calls whose error says that trying again helps. Every call is safe to repeat."""

    def __init__(
        self,
        remote: RemoteStore,
        *,
        tries: int = 4,
        seconds: float = 60.0,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`tries`: attempts per call; `seconds`: time for retries of all calls together."""
        self.url = remote.url
        self._remote = remote
        self._tries = tries
        self._left = seconds
        self._wait = wait
        self._clock = clock

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        return self._retry(lambda _: self._remote.list(prefix))

    def get(self, name: str, limit: int) -> bytes:
        return self._retry(lambda _: self._remote.get(name, limit))

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        def attempt(number: int) -> frozenset[str]:
            existing = self._remote.put(objects, remove=remove)
            return existing if number == 1 else frozenset(existing - self._created_by_us(objects, existing))

        return self._retry(attempt)

    @property
    def foreign(self) -> Sequence[str]:
        return foreign_at(self._remote)

    def replace_unreadable(self) -> None:
        replace_unreadable(self._remote)

    def close(self) -> None:
        self._remote.close()

    def _created_by_us(self, objects: Sequence[tuple[str, bytes]], existing: frozenset[str]) -> set[str]:
        """Those that hold exactly our bytes: an earlier attempt that seemed to fail created them."""
        ours = set()
        for name, data in objects:
            if name not in existing:
                continue
            try:
                if self._remote.get(name, len(data)) == data:
                    ours.add(name)
            except (Missing, ObjectTooLarge):
                continue  # somebody else's, or removed since
        return ours

    def _retry(self, call: Callable[[int], _T]) -> _T:
        began = self._clock()
        number = 1
        while True:
            try:
                result = call(number)
            except HoldfastError as error:
                wait = _jittered(number)
                out_of_time = self._clock() - began + wait > self._left
                if not error.retry_helps or number >= self._tries or out_of_time:
                    self._use_time(began, number if error.retry_helps else number - 1)
                    raise
            else:
                self._use_time(began, number - 1)
                return result
            self._wait(wait)
            number += 1

    def _use_time(self, began: float, failures: int) -> None:
        if failures:
            self._left -= self._clock() - began


def _jittered(number: int) -> float:
    """The next wait, randomised: devices that failed together must not retry together."""
    longest = min(_FIRST_WAIT * 2.0**number, _MAX_WAIT)
    return longest * (0.5 + os.urandom(1)[0] / 510)
