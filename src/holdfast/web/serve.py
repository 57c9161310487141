"""Serve the dashboard on loopback, with limits on connections.

Every user of the machine can open connections, but must not lock others out with them. A request has to be complete
within seconds. Connections whose client has not shown that it belongs here are limited in number: beyond the limit
the oldest is closed, and the person, whose browser asks at once, gets through.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import HANDLED_SIGNALS

from holdfast.core.errors import Conflict, Invalid
from holdfast.web.app import make_app
from holdfast.web.security import ENTRY_PATH, KNOWN_CLIENT, REDIRECT_PREFIX, Secrets

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.web.live import Live

MAX_UNKNOWN: Final = 100
HEAD_SECONDS: Final = 6.0  # seconds for a request's head, from the moment it could have come
BODY_SECONDS: Final = 15.0  # seconds for the request itself

_TIMES: Final = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}
_numbers = itertools.count()


class LimitedConnection(H11Protocol):
    """One connection, with a limit on how long a request may take."""

    times = _TIMES
    _clock: asyncio.TimerHandle | None = None
    _awaited: object = None  # the state the timer waits to leave
    _number = 0

    @property
    def is_known(self) -> bool:
        return bool((self.scope or {}).get(KNOWN_CLIENT))  # no scope before the first request

    @property
    def is_incomplete(self) -> bool:
        """Whether the request is still incomplete."""
        return self.conn.their_state in self.times

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._number = next(_numbers)
        self._watch()
        unknown = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedConnection) and connection is not self and not connection.is_known
        ]
        if len(unknown) >= MAX_UNKNOWN:
            min(unknown, key=lambda connection: (not connection.is_incomplete, connection._number)).close_now()  # noqa: SLF001 (its own kind)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def close_now(self) -> None:
        self._stop()
        self.connections.discard(self)  # at once, so that the next connection is counted right
        self.transport.abort()

    def _watch(self) -> None:
        """Start the timer when there is something to wait for; it runs until that has come."""
        awaited = self.conn.their_state if self.is_incomplete and not self.transport.is_closing() else None
        if awaited is self._awaited:
            return
        self._stop()
        self._awaited = awaited
        if awaited is not None:
            self._clock = self.loop.call_later(self.times[awaited], self.close_now)

    def _stop(self) -> None:
        self._awaited = None
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


_HOST: Final = "127.0.0.1"
_MAX_CONNECTIONS: Final = 500  # of clients that belong here
_GRACE_SECONDS: Final = 1  # seconds that open streams get when the server ends


class Dashboard:
    """A dashboard whose address is known and reserved before it answers."""

    def __init__(
        self, open_keeper: Callable[[], Keeper], port: int | None = None, *, named: bool | None = None
    ) -> None:
        """Without a port it takes a free one, and a random name if browsers here can resolve it; a given port keeps
        the address the same.
        """
        self._socket = _listening_socket(port)
        number: int = self._socket.getsockname()[1]
        self.secrets = Secrets(number, named=port is None and browsers_resolve_names() if named is None else named)
        app = make_app(open_keeper, self.secrets)
        config = uvicorn.Config(
            app, log_config=None, log_level="critical", access_log=False, server_header=False, http=LimitedConnection,
            lifespan="on", timeout_graceful_shutdown=_GRACE_SECONDS, limit_concurrency=_MAX_CONNECTIONS + MAX_UNKNOWN,
            proxy_headers=False, ws="none",
        )  # fmt: skip
        self._server = _Server(config, app.state.live)

    @property
    def origin(self) -> str:
        """For browsers."""
        return f"http://{self.secrets.own_host}"

    @property
    def plain(self) -> str:
        """For programs, which may not resolve the name; a browser that comes here is redirected to the origin."""
        return f"http://{self.secrets.plain_host}"

    @property
    def address(self) -> str:
        """For the person, in the terminal: valid while this runs."""
        return f"{self.origin}{ENTRY_PATH}{self.secrets.token}"

    def ticket(self) -> str:
        """A URL for the browser, written to a private file: valid once."""
        return f"{self.origin}{ENTRY_PATH}{self.secrets.ticket(REDIRECT_PREFIX)}"

    def serve(self) -> None:
        """Serve until a signal or `stop` ends it."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """A server that ends open streams before it shuts down: they would last forever."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """As usual, but signals that are ignored (nohup, a background job) stay ignored."""
        ignored = [number for number in HANDLED_SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
        with super().capture_signals():
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._live.end()
        await super().shutdown(sockets)


def browsers_resolve_names(system: str = sys.platform) -> bool:
    """Whether browsers here resolve names below `localhost`. All do so by themselves, except Safari: it asks the
    system, which knows them only in later versions.
    """
    if system != "darwin":
        return True
    try:
        return all(address[4][0] in ("127.0.0.1", "::1") for address in socket.getaddrinfo("any.localhost", 80))
    except OSError:
        return False


def _listening_socket(port: int | None) -> socket.socket:
    if port is not None and not 1 <= port <= 65535:
        raise Invalid(
            f"{port} is not a port number", hint="Ports are 1 to 65535; leave --port out for one that is free."
        )
    # With the protocol named: only then does asyncio send small responses at once (TCP_NODELAY).
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows: no other process may take the port over
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port or 0))
        listener.listen(100)
    except OSError as error:
        listener.close()
        raise Conflict(
            f"port {port} cannot be used here ({error.strerror or error})",
            hint="Choose another one, or leave --port out for one that is free.",
        ) from None
    return listener
