"""Entering, acting, and the security headers of every response."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import httpx
import pytest

from holdfast.web.security import MAX_REQUEST, Secrets
from tests.web.dashboard import Site, serving
from tests.web.raw_requests import (
    LOOPBACK,
    MEMBER,
    OURS,
    Answer,
    RunningDashboard,
    assert_security_headers,
    get,
    post,
    read_answer,
    send,
)
from tests.web.sample_sessions import rich


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    site = Site(tmp_path_factory.mktemp("gate"))
    with serving(site, named=True) as dashboard:
        made = RunningDashboard(site, dashboard)
        yield made
        made.keeper.close()


# ── entering ─────────────────────────────────────────────────────────────────────────────────────────────


def test_entering_sets_a_strict_cookie_and_leaks_no_token(
    running: RunningDashboard, caplog: pytest.LogCaptureFixture
) -> None:
    """The token is in no response and no log."""
    caplog.set_level(logging.DEBUG)
    answer = send(running, get("/enter/TOKEN"))
    assert answer.code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert running.secrets.token not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {piece.strip() for piece in cookie.split(";")}
    assert "max-age" not in cookie.lower()
    assert "expires" not in cookie.lower()
    assert_security_headers(answer)
    inside = send(running, get("/now", f"Cookie: {cookie.split(';')[0]}"))
    assert inside.code == 200
    assert running.secrets.token.encode() not in inside.body
    assert running.secrets.token not in caplog.text
    assert send(running, get("/enter/TOKEN")).code == 303  # the person's own address is valid while this runs


def test_ticket_is_valid_once(running: RunningDashboard) -> None:
    """A second use is refused, and the person is warned, since the first may have been an attacker's."""
    path, warnings = f"/enter/{running.secrets.ticket()}", []
    running.secrets.reused = lambda: warnings.append(1)
    assert send(running, get(path).replace("GET", "HEAD", 1)).code == 401  # a HEAD or preview does not use it up
    assert send(running, get(path)).code == 303
    again = send(running, get(path))
    assert again.code == 401
    assert "set-cookie" not in again.headers
    assert b"This link was used before" in again.body
    assert warnings == [1]
    assert send(running, get(path, MEMBER)).code == 303  # the browser that entered stays in, even by its Back button
    assert send(running, get("/enter/nobody")).code == 401
    assert warnings == [1]


def test_withdrawn_ticket_is_refused(running: RunningDashboard) -> None:
    """The browser never came."""
    ticket = running.secrets.ticket()
    running.secrets.withdraw(ticket)
    assert send(running, get(f"/enter/{ticket}")).code == 401
    assert not running.secrets.is_used(ticket)


def test_every_run_has_its_own_secrets() -> None:
    """They open no other run, and none is derived from a weaker one."""
    one, other = Secrets(80), Secrets(80)
    known = {
        one.token,
        one.cookie_value,
        one.word,
        one.ticket(),
        other.token,
        other.cookie_value,
        other.word,
        other.ticket(),
    }
    assert len(known) == 8
    assert all(len(secret) >= 32 for secret in known)
    assert not other.admits(one.token)
    assert not other.admits(one.ticket())


# ── actions ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ((MEMBER, OURS), "text=by+a+form&word=WORD"),
        ((MEMBER, "X-Holdfast-Word: WORD"), "text=by+a+script"),
        (("Authorization: Bearer TOKEN",), "text=by+a+program"),
    ],
)
def test_own_forms_and_token_may_change_something(
    running: RunningDashboard, lines: tuple[str, ...], body: str
) -> None:
    """With and without scripts."""
    before, sent = running.event_count(), running.fill(body).encode()
    answer = send(running, post(*lines, f"Content-Length: {len(sent)}"), sent)
    assert answer.code == 200
    assert f'href="/session/{running.session}"' in answer.body.decode()
    assert running.event_count() == before + 1


@pytest.mark.parametrize(
    ("came", "back"),
    [("http://OWN/now", "/now"), ("http://OWN/history?search=x", "/history?search=x"),
     ("http://OWN/session/ID/dialog/note", "/session/ID"), ("http://[", "/session/ID"),
     ("http://OWN//evil.example", "/session/ID"), ("http://OWN/nothing", "/session/ID"),
     ("http://evil.example/now", "/session/ID"), ("http://OWN@evil.example/now", "/session/ID"),
     ("javascript:alert(1)", "/session/ID")],
)  # fmt: skip
def test_plain_form_leads_back_to_its_page(running: RunningDashboard, came: str, back: str) -> None:
    """Always a page of ours, whatever the request claims."""
    sent = running.fill("text=back&word=WORD").encode()
    answer = send(running, post(MEMBER, OURS, f"Referer: {came}", f"Content-Length: {len(sent)}"), sent)
    assert answer.code == 200
    assert f'href="{running.fill(back)}"' in answer.body.decode().partition("<main")[2]


def test_chunked_body_is_limited(running: RunningDashboard) -> None:
    before = running.event_count()
    with socket.create_connection((LOOPBACK, running.port), timeout=10) as made:
        head = running.fill(post(MEMBER, OURS, "Transfer-Encoding: chunked")).replace("\n", "\r\n")
        made.sendall(head.encode() + b"\r\n\r\n")
        piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
        for _ in range(MAX_REQUEST // 0x10000 + 2):
            made.sendall(piece)
        answer = read_answer(made)
    assert answer.code == 413
    assert_security_headers(answer)
    assert running.event_count() == before


# ── responses ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    ["/", "/now", "/session/ID", "/history", "/hours", "/hill", "/devices", "/api/v1/now", "/api/v1/openapi.json",
     "/static/holdfast.css", "/session/ID/dialog/note", "/session/none", "/nothing", "/static/nothing"],
)  # fmt: skip
def test_every_page_has_security_headers(running: RunningDashboard, path: str) -> None:
    """And every document, file, redirect and error."""
    assert_security_headers(send(running, get(path, MEMBER)))


def test_stream_has_security_headers(running: RunningDashboard) -> None:
    """Before the first event."""
    with socket.create_connection((LOOPBACK, running.port), timeout=10) as made:
        pages = "page=http://[&version=&page=/session/%00&version=&page=/now&version="  # some have none
        head = running.fill(get(f"/live?{pages}", MEMBER)).replace("\n", "\r\n")
        made.sendall(head.encode() + b"\r\n\r\n")
        answer = read_answer(made, stream=True)
    assert answer.code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert_security_headers(answer)


def test_unexpected_error_has_security_headers_and_is_logged(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response says nothing about internals."""
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
            assert_security_headers(Answer(500, answer.headers, answer.content))
    noted = "".join(path.read_text() for path in site.home.glob("*error*"))
    assert "the inside" in noted


@pytest.mark.parametrize(
    ("path", "kind"),
    [("export?format=craft", "application/json"), ("export?format=orchestrator", "application/json"),
     ("export?format=timer", "application/json"), ("export?format=contract", "application/yaml"),
     ("report?format=md", "text/markdown; charset=utf-8"), ("report?format=html", "text/html; charset=utf-8")],
)  # fmt: skip
def test_download_cannot_act_as_a_page(running: RunningDashboard, path: str, kind: str) -> None:
    """It has a fixed name, and may do nothing if opened."""
    answer = send(running, get(f"/session/ID/{path}", MEMBER))
    assert answer.code == 200
    assert answer.headers["content-type"] == kind
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="session-{running.session}-')
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


# ── slow requests ────────────────────────────────────────────────────────────────────────────────────────


def test_incomplete_requests_block_nobody(running: RunningDashboard) -> None:
    """Many silent, half-sent and never-reading connections: others are answered."""
    sockets: list[socket.socket] = []
    try:
        for number in range(60):
            made = socket.create_connection((LOOPBACK, running.port), timeout=10)
            sockets.append(made)
            if number % 3 == 1:
                made.sendall(b"GET /now HTTP/1.1\r\nHost: ")
            elif number % 3 == 2:
                head = running.fill(post(MEMBER, OURS, "Content-Length: 1000")).replace("\n", "\r\n")
                made.sendall(head.encode() + b"\r\n\r\ntext=half")
        for path in ("/now", f"/session/{running.session}", "/api/v1/now"):
            assert send(running, get(path, MEMBER)).code == 200
    finally:
        for made in sockets:
            made.close()
    assert send(running, get("/now", MEMBER)).code == 200
