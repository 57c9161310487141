"""Serving: the dashboard on a free port of loopback, until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import uvicorn

from holdfast.core.errors import Conflict
from holdfast.web.app import make_app
from holdfast.web.gate import ENTRY, Secrets

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.web.live import Live

HOST: Final = "127.0.0.1"
_GRACE: Final = 1  # seconds that open streams are given when the server ends


class Dashboard:
    """A dashboard whose address is known, and taken, before it answers."""

    def __init__(self, open_keeper: Callable[[], Keeper], port: int | None = None) -> None:
        self._socket = _bound(port)
        number: int = self._socket.getsockname()[1]
        self.secrets = Secrets(number)
        self.origin = f"http://{HOST}:{number}"
        app = make_app(open_keeper, self.secrets)
        config = uvicorn.Config(
            app, log_config=None, log_level="critical", access_log=False, server_header=False,
            lifespan="on", timeout_graceful_shutdown=_GRACE, limit_concurrency=500, proxy_headers=False, ws="none",
        )  # fmt: skip
        self._server = _Server(config, app.state.live)

    @property
    def address(self) -> str:
        """For the person, in their terminal: good while this runs."""
        return f"{self.origin}{ENTRY}{self.secrets.token}"

    def ticket(self) -> str:
        """For the browser: good once."""
        return f"{self.origin}{ENTRY}{self.secrets.ticket()}"

    def serve(self) -> None:
        """Answer until a signal or `stop` ends it."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """Open pages listen for as long as they are open: at the end they are let go first."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._live.end()
        await super().shutdown(sockets)


def _bound(port: int | None) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows: nobody may take the port over
        made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port or 0))
        made.listen(100)
    except (OSError, OverflowError) as error:
        made.close()
        raise Conflict(
            f"port {port} cannot be used here ({getattr(error, 'strerror', None) or error})",
            hint="Choose another one, or leave --port out for one that is free.",
        ) from None
    return made
