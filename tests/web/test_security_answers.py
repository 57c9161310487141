"""Coming in, doing something, and what binds every answer that goes out."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import httpx
import pytest

from holdfast.web.security import LARGEST, Secrets
from tests.web.dashboard import Site, serving
from tests.web.raw_requests import LOOPBACK, MEMBER, OURS, Answer, House, ask, bound, get, post, read_answer
from tests.web.samples import rich


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    site = Site(tmp_path_factory.mktemp("gate"))
    with serving(site, named=True) as dashboard:
        made = House(site, dashboard)
        yield made
        made.keeper.close()


# ── entering ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_address_lets_in_and_leaves_no_trace(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Who enters gets a cookie that no script and no other site can use; the token is in no answer and no log."""
    caplog.set_level(logging.DEBUG)
    answer = ask(house, get("/enter/TOKEN"))
    assert answer.code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert house.secrets.token not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {piece.strip() for piece in cookie.split(";")}
    assert "max-age" not in cookie.lower()
    assert "expires" not in cookie.lower()
    bound(answer)
    inside = ask(house, get("/now", f"Cookie: {cookie.split(';')[0]}"))
    assert inside.code == 200
    assert house.secrets.token.encode() not in inside.body
    assert house.secrets.token not in caplog.text
    assert ask(house, get("/enter/TOKEN")).code == 303  # the person's own address is good while this runs


def test_a_ticket_is_good_once(house: House) -> None:
    """Whoever has it after the browser is not let in, and the person is told, since it may be the other way round."""
    path, told = f"/enter/{house.secrets.ticket()}", []
    house.secrets.reused = lambda: told.append(1)
    assert ask(house, get(path).replace("GET", "HEAD", 1)).code == 401  # looking does not spend it
    assert ask(house, get(path)).code == 303
    again = ask(house, get(path))
    assert again.code == 401
    assert "set-cookie" not in again.headers
    assert b"This link was used before" in again.body
    assert told == [1]
    assert ask(house, get(path, MEMBER)).code == 303  # the browser that is in goes on, by its Back button too
    assert ask(house, get("/enter/nobody")).code == 401
    assert told == [1]


def test_a_ticket_that_was_withdrawn_lets_nobody_in(house: House) -> None:
    """The browser never came."""
    ticket = house.secrets.ticket()
    house.secrets.withdraw(ticket)
    assert ask(house, get(f"/enter/{ticket}")).code == 401
    assert not house.secrets.is_spent(ticket)


def test_every_run_has_secrets_of_its_own() -> None:
    """Token, pass, word and tickets of one run open no other, and none follows from a weaker one."""
    one, other = Secrets(80), Secrets(80)
    known = {one.token, one.pass_, one.word, one.ticket(), other.token, other.pass_, other.word, other.ticket()}
    assert len(known) == 8
    assert all(len(secret) >= 32 for secret in known)
    assert not other.admits(one.token)
    assert not other.admits(one.ticket())


# ── doing ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ((MEMBER, OURS), "text=by+a+form&word=WORD"),
        ((MEMBER, "X-Holdfast-Word: WORD"), "text=by+a+script"),
        (("Authorization: Bearer TOKEN",), "text=by+a+program"),
    ],
)
def test_who_belongs_here_may_change_something(house: House, lines: tuple[str, ...], body: str) -> None:
    """Our own forms, with and without scripts, and a program that has the token."""
    before, sent = house.events(), house.filled(body).encode()
    answer = ask(house, post(*lines, f"Content-Length: {len(sent)}"), sent)
    assert answer.code == 200
    assert f'href="/session/{house.session}"' in answer.body.decode()
    assert house.events() == before + 1


@pytest.mark.parametrize(
    ("came", "back"),
    [("http://OWN/now", "/now"), ("http://OWN/history?search=x", "/history?search=x"),
     ("http://OWN/session/ID/dialog/note", "/session/ID"), ("http://[", "/session/ID"),
     ("http://OWN//evil.example", "/session/ID"), ("http://OWN/nothing", "/session/ID"),
     ("http://evil.example/now", "/session/ID"), ("http://OWN@evil.example/now", "/session/ID"),
     ("javascript:alert(1)", "/session/ID")],
)  # fmt: skip
def test_plain_form_leads_back_to_its_page(house: House, came: str, back: str) -> None:
    """On one of our own pages, whatever is said of where they came from."""
    sent = house.filled("text=back&word=WORD").encode()
    answer = ask(house, post(MEMBER, OURS, f"Referer: {came}", f"Content-Length: {len(sent)}"), sent)
    assert answer.code == 200
    assert f'href="{house.filled(back)}"' in answer.body.decode().partition("<main")[2]


def test_a_body_without_a_length_is_bounded_too(house: House) -> None:
    """What is sent in pieces is read up to the limit, and refused."""
    before = house.events()
    with socket.create_connection((LOOPBACK, house.port), timeout=10) as made:
        head = house.filled(post(MEMBER, OURS, "Transfer-Encoding: chunked")).replace("\n", "\r\n")
        made.sendall(head.encode() + b"\r\n\r\n")
        piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
        for _ in range(LARGEST // 0x10000 + 2):
            made.sendall(piece)
        answer = read_answer(made)
    assert answer.code == 413
    bound(answer)
    assert house.events() == before


# ── what goes out ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    ["/", "/now", "/session/ID", "/history", "/hours", "/hill", "/devices", "/api/v1/now", "/api/v1/openapi.json",
     "/static/holdfast.css", "/session/ID/dialog/note", "/session/none", "/nothing", "/static/nothing"],
)  # fmt: skip
def test_every_page_has_security_headers(house: House, path: str) -> None:
    """Pages, documents, files, redirections and errors all carry the policy."""
    bound(ask(house, get(path, MEMBER)))


def test_stream_has_security_headers(house: House) -> None:
    """The headers come before the first event."""
    with socket.create_connection((LOOPBACK, house.port), timeout=10) as made:
        pages = "page=http://[&version=&page=/session/%00&version=&page=/now&version="  # some are none
        head = house.filled(get(f"/live?{pages}", MEMBER)).replace("\n", "\r\n")
        made.sendall(head.encode() + b"\r\n\r\n")
        answer = read_answer(made, stream=True)
    assert answer.code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    bound(answer)


def test_unexpected_error_has_security_headers_and_is_logged(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that nobody foresaw says nothing of the inside, carries the policy, and is noted for the doctor."""
    site = Site(tmp_path_factory.mktemp("broken"))
    session = rich(site)
    with serving(site) as dashboard:

        def breaks(*_: object, **__: object) -> str:
            raise RuntimeError("the inside")

        monkeypatch.setattr("holdfast.sessions.report.markdown", breaks)
        address = f"{dashboard.origin}/session/{session}/report?format=md"
        for accept in ("text/html", "application/json"):
            headers = {"Authorization": f"Bearer {dashboard.secrets.token}", "Accept": accept}
            answer = httpx.get(address, headers=headers)
            assert answer.status_code == 500
            assert "the inside" not in answer.text
            bound(Answer(500, answer.headers, answer.content))
    noted = "".join(path.read_text() for path in site.home.glob("*error*"))
    assert "the inside" in noted


@pytest.mark.parametrize(
    ("path", "kind"),
    [("export?format=craft", "application/json"), ("export?format=orchestrator", "application/json"),
     ("export?format=timer", "application/json"), ("export?format=contract", "application/yaml"),
     ("report?format=md", "text/markdown; charset=utf-8"), ("report?format=html", "text/html; charset=utf-8")],
)  # fmt: skip
def test_a_download_is_no_page_of_ours(house: House, path: str, kind: str) -> None:
    """It is saved, under a name that nobody else chose, and if it is opened after all it may do nothing."""
    answer = ask(house, get(f"/session/ID/{path}", MEMBER))
    assert answer.code == 200
    assert answer.headers["content-type"] == kind
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="session-{house.session}-')
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


# ── who asks slowly ──────────────────────────────────────────────────────────────────────────────────────


def test_half_requests_stop_nobody(house: House) -> None:
    """Many connections that say nothing, or not all of it, and some that never read: others are answered."""
    sockets: list[socket.socket] = []
    try:
        for number in range(60):
            made = socket.create_connection((LOOPBACK, house.port), timeout=10)
            sockets.append(made)
            if number % 3 == 1:
                made.sendall(b"GET /now HTTP/1.1\r\nHost: ")
            elif number % 3 == 2:
                head = house.filled(post(MEMBER, OURS, "Content-Length: 1000")).replace("\n", "\r\n")
                made.sendall(head.encode() + b"\r\n\r\ntext=half")
        for path in ("/now", f"/session/{house.session}", "/api/v1/now"):
            assert ask(house, get(path, MEMBER)).code == 200
    finally:
        for made in sockets:
            made.close()
    assert ask(house, get("/now", MEMBER)).code == 200
