"""A dashboard for tests: the real server on loopback, in a thread of this process, with its own home."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.keeper.keeper import Keeper
from holdfast.web.serve import Dashboard


class Site:
    """A home, and projects in directories next to it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home = top / "home"

    def project(self, name: str = "harbour") -> Path:
        path = self.top / "projects" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def keeper(self, project: str = "harbour") -> Keeper:
        return Keeper.open(str(self.project(project)), home=str(self.home), actor="ada", device="desk")


@contextmanager
def serving(
    site: Site,
    project: str = "harbour",
    *,
    port: int | None = None,
    like: Dashboard | None = None,
    named: bool = False,
) -> Iterator[Dashboard]:
    """A running dashboard, optionally on this port, or in place of an earlier one after a restart.

    It uses its own host name only on request: HTTP libraries, unlike browsers, do not resolve it.
    """
    dashboard = Dashboard(lambda: site.keeper(project), port if like is None else like.secrets.port, named=named)
    if like is not None:
        dashboard.secrets.__dict__.update(like.secrets.__dict__)
    thread = threading.Thread(target=dashboard.serve, daemon=True)
    thread.start()
    try:
        _wait_for(dashboard.secrets.port)
        yield dashboard
    finally:
        dashboard.stop()
        thread.join(timeout=10)
        assert not thread.is_alive()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as made:
                made.sendall(
                    b"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port
                )
                if made.recv(1):
                    return
        except OSError:
            pass
        assert time.monotonic() < deadline, "the dashboard did not start"
        time.sleep(0.02)
