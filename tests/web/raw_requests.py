"""Requests to a dashboard as no HTTP library would send them: exactly these lines, over a socket."""

from __future__ import annotations

import contextlib
import re
import socket
from typing import Final, NamedTuple

import httpx

from holdfast.web.security import HEADERS
from holdfast.web.serve import Dashboard
from tests.web.dashboard import Site
from tests.web.sample_sessions import rich

FORM: Final = "application/x-www-form-urlencoded"
MEMBER: Final = "Cookie: COOKIE"
OURS: Final = "Origin: http://OWN"
LOOPBACK: Final = "127.0.0.1"


class RunningDashboard:
    """A dashboard with one session in progress, and a browser's cookie."""

    def __init__(self, site: Site, dashboard: Dashboard) -> None:
        self.site = site
        self.session = rich(site)
        self.keeper = site.keeper()
        self.dashboard = dashboard
        self.secrets = dashboard.secrets
        self.port = dashboard.secrets.port
        self.own_host = dashboard.secrets.own_host
        self.cookie = f"{self.secrets.cookie}={self.secrets.cookie_value}"

    def event_count(self) -> int:
        """Number of events in the session."""
        return len(self.keeper.events(self.session))

    def fill(self, text: str) -> str:
        """A test's text with the secrets of this run inserted as whole words; a ticket may contain `ID` by chance."""
        known = {
            "COOKIE": self.cookie,
            "PORT": str(self.port),
            "TOKEN": self.secrets.token,
            "WORD": self.secrets.word,
            "ID": self.session,
            "OWN": self.own_host,
        }
        return re.sub(rf"\b({'|'.join(known)})\b", lambda match: known[match[0]], text)


class Answer(NamedTuple):
    code: int
    headers: httpx.Headers
    body: bytes


def send(running: RunningDashboard, head: str, body: bytes = b"") -> Answer:
    """Send exactly these lines."""
    with socket.create_connection((LOOPBACK, running.port), timeout=10) as made:
        with contextlib.suppress(ConnectionError):  # the server may have stopped reading
            made.sendall(running.fill(head).replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
        return read_answer(made, stream=head.startswith("HEAD "))


def read_answer(made: socket.socket, *, stream: bool = False) -> Answer:
    """The response; of a stream, or without a body, only what arrives with the head."""
    taken = b""
    while b"\r\n\r\n" not in taken and (piece := _piece(made)):
        taken += piece
    if not taken:
        return Answer(400, httpx.Headers(), b"")  # cut off
    head, _, body = taken.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = httpx.Headers([(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)])
    while not stream and len(body) < int(headers.get("content-length", 0)) and (piece := _piece(made)):
        body += piece
    return Answer(int(first.split(" ")[1]), headers, body)


def _piece(made: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return made.recv(65536)
    return b""


def get(path: str = "/now", *lines: str, host: str = "OWN") -> str:
    return "\n".join([f"GET {path} HTTP/1.1", *([f"Host: {host}"] if host else []), *lines])


def post(*lines: str, path: str = "/session/ID/note", method: str = "POST") -> str:
    form = [] if any(line.lower().startswith("content-type") for line in lines) else [f"Content-Type: {FORM}"]
    return "\n".join([f"{method} {path} HTTP/1.1", "Host: OWN", *form, *lines])


def assert_security_headers(answer: Answer) -> None:
    """The response has every security header."""
    for name, value in HEADERS.items():
        assert answer.headers.get_list(name) == [value], name
    assert "no-" in answer.headers["cache-control"]
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers
