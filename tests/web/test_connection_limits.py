"""Connections that send nothing, or not everything: other requests are still answered."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import h11
import pytest

from holdfast.web.serve import MAX_UNKNOWN, LimitedConnection
from tests.web.dashboard import Site, serving
from tests.web.raw_requests import LOOPBACK, MEMBER, OURS, RunningDashboard, get, post, read_answer, send


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    site = Site(tmp_path_factory.mktemp("connections"))
    with serving(site, named=True) as dashboard:
        made = RunningDashboard(site, dashboard)
        yield made
        made.keeper.close()


@pytest.fixture
def open_sockets(running: RunningDashboard) -> Iterator[list[socket.socket]]:
    """Connections that are closed at the end."""
    made: list[socket.socket] = []
    yield made
    for item in made:
        item.close()
    assert send(running, get("/now", MEMBER)).code == 200


def connection_with(running: RunningDashboard, text: str, body: bytes = b"") -> socket.socket:
    """A connection over which this was sent."""
    made = socket.create_connection((LOOPBACK, running.port), timeout=10)
    with contextlib.suppress(ConnectionError):
        made.sendall(running.fill(text).replace("\n", "\r\n").encode() + body)
    return made


def wait_for_close(made: socket.socket) -> bool:
    """Wait, and return whether the server closed the connection."""
    try:
        return made.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", ["", "GET /now HTTP/1.1\nHost: ", "GET /static/icon.svg HTTP/1.1\nHost: OWN\n\n"])
def test_many_unknown_connections_block_nobody(
    running: RunningDashboard, open_sockets: list[socket.socket], sent: str
) -> None:
    """Silent, mid-header, or asking for public files: the oldest are closed first."""
    page = connection_with(running, get("/live?page=/now&version=", MEMBER) + "\n\n")  # a page that stays open
    open_sockets.append(page)
    assert read_answer(page, stream=True).code == 200
    for number in range(MAX_UNKNOWN * 3):
        open_sockets.append(connection_with(running, sent))
        if number % 50 == 0:
            assert send(running, get("/now", MEMBER)).code == 200
    assert (
        send(running, post(MEMBER, OURS, "Content-Length: 9"), b"text=only").code == 409
    )  # answered: the word is missing
    assert wait_for_close(open_sockets[1]) or "static" in sent  # this one gets a response before its end
    page.settimeout(0.05)
    with contextlib.suppress(TimeoutError):
        while page.recv(65536):
            pass
        pytest.fail("the open page was let go")


def test_incomplete_request_is_closed_in_time(running: RunningDashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence, half a header, half a form, even with a byte now and then."""
    monkeypatch.setattr(LimitedConnection, "times", {h11.IDLE: 0.3, h11.SEND_BODY: 0.3})
    before = running.event_count()
    half = post(MEMBER, OURS, "Content-Length: 1000") + "\n\n"
    for sent, body in (("", b""), ("GET /now HTTP/1.1\nHost: ", b""), (half, b"text=half")):
        with connection_with(running, sent, body) as made:
            assert wait_for_close(made), sent
    with connection_with(running, "GET /now HTTP/1.1\nX: ") as made, contextlib.suppress(ConnectionError):
        made.settimeout(0.05)
        for _ in range(200):
            made.sendall(b"x")
            if wait_for_close(made):
                break
        else:
            pytest.fail("it was waited for")
    assert running.event_count() == before


def test_response_may_take_longer_than_a_request(running: RunningDashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live page is not cut off, and each request on a connection has its own time."""
    monkeypatch.setattr(LimitedConnection, "times", {h11.IDLE: 0.4, h11.SEND_BODY: 0.4})
    with connection_with(running, get("/live?page=/now&version=", MEMBER) + "\n\n") as page:
        assert read_answer(page, stream=True).code == 200
        with connection_with(running, "") as made:
            for _ in range(4):
                made.sendall(running.fill(get("/static/icon.svg")).replace("\n", "\r\n").encode() + b"\r\n\r\n")
                assert read_answer(made).code == 200
                with contextlib.suppress(TimeoutError):  # a pause shorter than the timeout
                    made.settimeout(0.15)
                    assert made.recv(1) != b""
                made.settimeout(10)
        page.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            while page.recv(65536):
                pass
            pytest.fail("the open page was let go")
