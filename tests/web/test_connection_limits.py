"""Who opens connections and says nothing, or not all of it: others are heard all the same."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import h11
import pytest

from holdfast.web.serve import MAX_UNKNOWN, LimitedConnection
from tests.web.dashboard import Site, serving
from tests.web.raw_requests import LOOPBACK, MEMBER, OURS, House, ask, get, post, read_answer


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    site = Site(tmp_path_factory.mktemp("connections"))
    with serving(site, named=True) as dashboard:
        made = House(site, dashboard)
        yield made
        made.keeper.close()


@pytest.fixture
def open_sockets(house: House) -> Iterator[list[socket.socket]]:
    """Connections that are let go in the end."""
    made: list[socket.socket] = []
    yield made
    for item in made:
        item.close()
    assert ask(house, get("/now", MEMBER)).code == 200


def begun(house: House, text: str, body: bytes = b"") -> socket.socket:
    """A connection over which this was said."""
    made = socket.create_connection((LOOPBACK, house.port), timeout=10)
    with contextlib.suppress(ConnectionError):
        made.sendall(house.filled(text).replace("\n", "\r\n").encode() + body)
    return made


def ended(made: socket.socket) -> bool:
    """Whether the other side let it go; waits for it."""
    try:
        return made.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", ["", "GET /now HTTP/1.1\nHost: ", "GET /static/icon.svg HTTP/1.1\nHost: OWN\n\n"])
def test_many_unknown_connections_lock_nobody_out(house: House, open_sockets: list[socket.socket], sent: str) -> None:
    """Silent, in the middle of a header, or asking for what is anybody's: the oldest of them make room."""
    page = begun(house, get("/live?page=/now&version=", MEMBER) + "\n\n")  # a page that is open all the while
    open_sockets.append(page)
    assert read_answer(page, stream=True).code == 200
    for number in range(MAX_UNKNOWN * 3):
        open_sockets.append(begun(house, sent))
        if number % 50 == 0:
            assert ask(house, get("/now", MEMBER)).code == 200
    assert ask(house, post(MEMBER, OURS, "Content-Length: 9"), b"text=only").code == 409  # heard: the word is missing
    assert ended(open_sockets[1]) or "static" in sent  # that one has an answer before its end
    page.settimeout(0.05)
    with contextlib.suppress(TimeoutError):
        while page.recv(65536):
            pass
        pytest.fail("the open page was let go")


def test_incomplete_request_is_closed_in_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither silence nor half a header nor half a form, not even if a byte comes now and then."""
    monkeypatch.setattr(LimitedConnection, "times", {h11.IDLE: 0.3, h11.SEND_BODY: 0.3})
    before = house.events()
    half = post(MEMBER, OURS, "Content-Length: 1000") + "\n\n"
    for sent, body in (("", b""), ("GET /now HTTP/1.1\nHost: ", b""), (half, b"text=half")):
        with begun(house, sent, body) as made:
            assert ended(made), sent
    with begun(house, "GET /now HTTP/1.1\nX: ") as made, contextlib.suppress(ConnectionError):
        made.settimeout(0.05)
        for _ in range(200):
            made.sendall(b"x")
            if ended(made):
                break
        else:
            pytest.fail("it was waited for")
    assert house.events() == before


def test_an_answer_may_take_longer_than_a_question(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that listens is not cut off, and the next request on a connection has its own time."""
    monkeypatch.setattr(LimitedConnection, "times", {h11.IDLE: 0.4, h11.SEND_BODY: 0.4})
    with begun(house, get("/live?page=/now&version=", MEMBER) + "\n\n") as page:
        assert read_answer(page, stream=True).code == 200
        with begun(house, "") as made:
            for _ in range(4):
                made.sendall(house.filled(get("/static/icon.svg")).replace("\n", "\r\n").encode() + b"\r\n\r\n")
                assert read_answer(made).code == 200
                with contextlib.suppress(TimeoutError):  # a pause that is shorter than its time
                    made.settimeout(0.15)
                    assert made.recv(1) != b""
                made.settimeout(10)
        page.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            while page.recv(65536):
                pass
            pytest.fail("the open page was let go")
