"""Connections: everybody on the machine can open some, so nobody may keep others out with them.

Who begins a request has a few seconds to end it. Of connections over which nobody has shown that they belong here,
there are never more than so many: then the oldest goes, and the person, who asks at once, is heard.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.web.gate import KNOWN

MOST_STRANGERS: Final = 100
HEAD: Final = 6.0  # seconds for what stands before a request, from the moment it could have come
BODY: Final = 15.0  # seconds for the request itself

_TIMES: Final = {h11.IDLE: HEAD, h11.SEND_BODY: BODY}
_numbers = itertools.count()


class Connection(H11Protocol):
    """One connection, and how long it may take to say something."""

    times = _TIMES
    _clock: asyncio.TimerHandle | None = None
    _awaited: object = None  # what the clock runs for
    _number = 0

    @property
    def is_known(self) -> bool:
        return bool((self.scope or {}).get(KNOWN))  # there is none before the first request

    @property
    def is_asking(self) -> bool:
        """The request is not all there yet."""
        return self.conn.their_state in self.times

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._number = next(_numbers)
        self._watch()
        strangers = [
            one for one in self.connections if isinstance(one, Connection) and one is not self and not one.is_known
        ]
        if len(strangers) >= MOST_STRANGERS:
            min(strangers, key=lambda one: (not one.is_asking, one._number)).give_up()  # noqa: SLF001 (its own kind)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def give_up(self) -> None:
        self._stop()
        self.connections.discard(self)  # at once: the next one who comes counts
        self.transport.abort()

    def _watch(self) -> None:
        """The clock starts when there is something to wait for, and goes on until that is there."""
        awaited = self.conn.their_state if self.is_asking and not self.transport.is_closing() else None
        if awaited is self._awaited:
            return
        self._stop()
        self._awaited = awaited
        if awaited is not None:
            self._clock = self.loop.call_later(self.times[awaited], self.give_up)

    def _stop(self) -> None:
        self._awaited = None
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
