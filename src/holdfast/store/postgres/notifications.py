"""Notifications of others' changes, over a connection that real networks cut now and then.

A line that is lost is made again; what was told meanwhile nobody knows, so it counts as a change. The line is asked
for a sign of life while nothing is said: a network may be gone without a word.
"""

from __future__ import annotations

import time
from typing import Final

import psycopg
from psycopg import sql

from holdfast.machine.wall import monotonic
from holdfast.store.postgres import conninfo
from holdfast.store.postgres.pool import AttentiveLine

_SIGN: Final = 15.0  # seconds of silence after which the line is tried
_ANSWER: Final = 5.0  # seconds for the other side to answer
_SHORTEST, _LONGEST = 0.25, 10.0  # seconds between two attempts to make the line again


class PostgresChangeListener:
    """Not for two threads at once."""

    def __init__(self, url: str, channel: str) -> None:
        self._parameters = conninfo.parameters(url)
        self._channel = channel
        self._line: AttentiveLine | None = None
        self._pause = _SHORTEST
        self._next = 0.0
        self._quiet_since = monotonic()
        self._connect()

    def wait(self, timeout: float) -> bool:
        """Wait at most so many seconds; True when something may have changed since this was asked last."""
        until = monotonic() + timeout
        if self._line is None:
            time.sleep(max(0.0, min(timeout, self._next - monotonic())))
            return self._connect() if monotonic() >= self._next else False
        try:
            if self._line.info.status != psycopg.pq.ConnStatus.OK:
                raise psycopg.OperationalError
            for _ in self._line.notifies(timeout=max(0.0, until - monotonic()), stop_after=1):
                self._quiet_since = monotonic()
                return True
            if monotonic() - self._quiet_since > _SIGN:
                self._line.execute("SELECT")
                self._quiet_since = monotonic()
        except (psycopg.Error, OSError):
            self.close()
            self._next = 0.0
        return False

    def _connect(self) -> bool:
        """Whether the line is there; then something may have happened before it was."""
        try:
            self._line = AttentiveLine.connect(**self._parameters, autocommit=True)  # type: ignore[arg-type]
            self._line.patience = _ANSWER
            self._line.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except (psycopg.Error, OSError):
            self.close()
            self._next = monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST)
            return False
        self._pause, self._quiet_since = _SHORTEST, monotonic()
        return True

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()
