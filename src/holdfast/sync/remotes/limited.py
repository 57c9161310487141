"""A remote with limits for one sync: whoever keeps the objects decides how many there are and how large they are.

Without limits a hostile or broken remote could keep a device reading for ever, or fill its memory and disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.errors import Refused
from holdfast.machine.wall import monotonic
from holdfast.sync.remotes.base import ObjectInfo, ObjectTooLarge, RemoteStore, foreign_at, replace_unreadable


class OverLimit(Refused):
    """One sync asked for more than a sync may. What was done until then stays done; the next one goes on."""


class LimitedRemote:
    """The same remote, until something is used up: from then on every call that needs it is refused."""

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
        """Requests, bytes read, names in one listing, and the time since now."""
        self.url = remote.url
        self._remote = remote
        self._requests, self._most_requests = 0, requests
        self._bytes, self._most_bytes = 0, bytes
        self._listing = listing
        self._seconds = seconds
        self._clock = clock
        self._began = clock()

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        self._ask(1)
        found = self._remote.list(prefix)
        if len(found) > self._listing:
            raise self._over(f"it lists more than {self._listing:,} objects at once")
        return found

    def get(self, name: str, limit: int) -> bytes:
        self._ask(1)
        left = self._most_bytes - self._bytes
        if left <= 0:
            raise self._over(f"more than {self._most_bytes:,} bytes were to be read")
        try:
            data = self._remote.get(name, min(limit, left))
        except ObjectTooLarge:
            # How much of it was read before that was known, only the remote could say.
            self._bytes += min(limit, left)
            if left < limit:
                raise self._over(f"more than {self._most_bytes:,} bytes were to be read") from None
            raise
        self._bytes += len(data)
        return data

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        """Refused as a whole, before anything is written, when there are too many."""
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
        if self._requests + requests > self._most_requests:
            raise self._over(f"it took more than {self._most_requests:,} requests")
        self._requests += requests

    def _over(self, what: str) -> OverLimit:
        return OverLimit(
            f"the sync was stopped at its limits: {what}",
            hint="Sync again to go on. If that does not end, the remote holds what no device of yours put there.",
            operation="sync",
        )
