"""Who may enter and who may change something, tested with hostile requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from holdfast.web.actions import VERBS
from holdfast.web.security import MAX_REQUEST
from tests.web.dashboard import Site, serving
from tests.web.raw_requests import MEMBER, OURS, RunningDashboard, assert_security_headers, get, post, send

NOTE: Final = "text=hurt&word=WORD"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    site = Site(tmp_path_factory.mktemp("gate"))
    with serving(site, named=True) as dashboard:
        made = RunningDashboard(site, dashboard)
        yield made
        made.keeper.close()


class Case(NamedTuple):
    lines: str
    code: int
    body: str = ""


CASES: Final[Mapping[str, Case]] = {
    # ── a foreign name that resolves to this machine ──
    "rebound name": Case(get("/now", MEMBER, host="evil.example:PORT"), 421),
    "rebound name without port": Case(get("/now", MEMBER, host="evil.example"), 421),
    "rebound name that begins like ours": Case(get("/now", MEMBER, host="127.0.0.1.evil.example:PORT"), 421),
    "name that ends like ours": Case(get("/now", MEMBER, host="evil-localhost:PORT"), 421),
    "our address, no port": Case(get("/now", MEMBER, host="127.0.0.1"), 421),
    "our address, another port": Case(get("/now", MEMBER, host="127.0.0.1:1"), 421),
    "our name, a port and more": Case(get("/now", MEMBER, host="OWN.evil.example"), 421),
    "somebody before our name": Case(get("/now", MEMBER, host="evil@OWN"), 421),
    "a name below ours": Case(get("/now", MEMBER, host="x.OWN"), 421),
    "another name of this machine": Case(get("/now", MEMBER, host="0123456789abcdef.localhost:PORT"), 421),
    "another address of this machine": Case(get("/now", MEMBER, host="127.0.0.2:PORT"), 421),
    "the number in another spelling": Case(get("/now", MEMBER, host="2130706433:PORT"), 421),
    "every address": Case(get("/now", MEMBER, host="0.0.0.0:PORT"), 421),
    "our name with a dot": Case(get("/now", MEMBER, host="localhost.:PORT"), 421),
    "no host": Case(get("/now", MEMBER, host=""), 400),
    "empty host": Case(get("/now", MEMBER, "Host: ", host=""), 421),
    "two hosts": Case(get("/now", MEMBER, "Host: evil.example"), 400),
    "forwarded for another host": Case(get("/now", MEMBER, "X-Forwarded-Host: evil.example"), 200),
    "rebound name, static": Case(get("/static/holdfast.js", host="evil.example:PORT"), 421),
    "rebound name, entry": Case(get("/enter/TOKEN", host="evil.example:PORT"), 421),
    "rebound name, bearer": Case(get("/api/v1/now", "Authorization: Bearer TOKEN", host="evil.example:PORT"), 421),
    "absolute address of another": Case(get("http://evil.example/now", MEMBER), 400),
    "absolute address, host of another": Case(get("http://OWN/now", MEMBER, host="evil.example"), 421),
    # ── well-known loopback names: for programs, never for a leaked cookie ──
    "the cookie at localhost": Case(get("/now", MEMBER, host="localhost:PORT"), 401),
    "the cookie at our address": Case(get("/now", MEMBER, host="127.0.0.1:PORT"), 401),
    "a change at our address": Case(
        post(MEMBER, "Origin: http://127.0.0.1:PORT", "X-Holdfast-Word: WORD").replace("OWN", "127.0.0.1:PORT", 1),
        401, NOTE,
    ),
    "bearer at our address": Case(get("/api/v1/now", "Authorization: Bearer TOKEN", host="127.0.0.1:PORT"), 200),
    "bearer at localhost": Case(get("/api/v1/now", "Authorization: Bearer TOKEN", host="LocalHost:PORT"), 200),
    "static at our address": Case(get("/static/icon.svg", host="127.0.0.1:PORT"), 200),
    "wrong ticket at our address": Case(get("/enter/nobody", host="127.0.0.1:PORT"), 401),
    # ── no credentials, or foreign ones ──
    "no cookie": Case(get("/now"), 401),
    "no cookie, a page": Case(get("/session/ID", "Accept: text/html"), 401),
    "no cookie, live": Case(get("/live?page=/now&version="), 401),
    "no cookie, api": Case(get("/api/v1/now"), 401),
    "no cookie, download": Case(get("/session/ID/export?format=craft"), 401),
    "no cookie, nothing there": Case(get("/nothing"), 401),
    "cookie of another run": Case(get("/now", "Cookie: holdfast-PORT=" + "0" * 64), 401),
    "the token as the cookie": Case(get("/now", "Cookie: holdfast-PORT=TOKEN"), 401),
    "the word as the cookie": Case(get("/now", "Cookie: holdfast-PORT=WORD"), 401),
    "empty cookie": Case(get("/now", "Cookie: holdfast-PORT="), 401),
    "cookie under another name": Case(get("/now", "Cookie: holdfast-1=" + "0" * 64), 401),
    "a planted cookie before ours": Case(get("/now", "Cookie: holdfast-PORT=planted; COOKIE"), 200),
    "cookies of other programs": Case(get("/now", 'Cookie: a={"b":"c,d"}; =; ;;x; COOKIE; e="f'), 200),
    "wrong bearer": Case(get("/api/v1/now", "Authorization: Bearer " + "A" * 43), 401),
    "empty bearer": Case(get("/api/v1/now", "Authorization: Bearer "), 401),
    "bearer beyond ASCII": Case(get("/api/v1/now", "Authorization: Bearer t\u00f6ken"), 401),
    "the pass as bearer": Case(get("/api/v1/now", "Authorization: Bearer COOKIE"), 401),
    "token in the address": Case(get("/now?token=TOKEN"), 401),
    "wrong ticket": Case(get("/enter/nobody"), 401),
    "empty ticket": Case(get("/enter/"), 401),
    "ticket beyond ASCII": Case(get("/enter/%ff%fe%00"), 401),
    "bearer": Case(get("/api/v1/now", "Authorization: bearer TOKEN"), 200),
    # ── another site in the person's browser, with the cookie ──
    "cross-site form": Case(post(MEMBER, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"), 403, NOTE),
    "cross-site form, old browser": Case(post(MEMBER, "Origin: https://evil.example"), 403, NOTE),
    "form without origin": Case(post(MEMBER), 403, NOTE),
    "form with a referrer only": Case(post(MEMBER, "Referer: http://OWN/now"), 403, NOTE),
    "origin null": Case(post(MEMBER, "Origin: null"), 403, NOTE),
    "origin empty": Case(post(MEMBER, "Origin: "), 403, NOTE),
    "another port here": Case(post(MEMBER, "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"), 403, NOTE),
    "no port here": Case(post(MEMBER, "Origin: http://127.0.0.1"), 403, NOTE),
    "the other name of this machine": Case(post(MEMBER, "Origin: http://127.0.0.1:PORT"), 403, NOTE),
    "https of ours": Case(post(MEMBER, "Origin: https://OWN"), 403, NOTE),
    "origin that begins like ours": Case(post(MEMBER, "Origin: http://OWN.evil.example"), 403, NOTE),
    "two origins": Case(post(MEMBER, OURS, "Origin: https://evil.example"), 403, NOTE),
    "same-site, not same-origin": Case(post(MEMBER, OURS, "Sec-Fetch-Site: same-site"), 403, NOTE),
    "a browser extension": Case(post(MEMBER, "Origin: chrome-extension://abc"), 403, NOTE),
    "navigating POST": Case(
        post(MEMBER, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), 403, NOTE
    ),
    "ours without the word": Case(post(MEMBER, OURS), 409, "text=hurt"),
    "ours with a wrong word": Case(post(MEMBER, OURS), 409, "text=hurt&word=" + "0" * 64),
    "ours with the token as word": Case(post(MEMBER, OURS), 409, "text=hurt&word=TOKEN"),
    "wrong word in the header": Case(post(MEMBER, OURS, "X-Holdfast-Word: no"), 409, NOTE),
    "plain text that looks like a form": Case(post(MEMBER, OURS, "Content-Type: text/plain"), 400, NOTE),
    "JSON instead of a form": Case(post(MEMBER, OURS, "Content-Type: application/json"), 400, '{"word":"WORD"}'),
    "no cookie, ours otherwise": Case(post(OURS, "X-Holdfast-Word: WORD"), 401, NOTE),
    "multipart": Case(post(MEMBER, OURS, "Content-Type: multipart/form-data; boundary=x"), 400, "--x\r\n"),
    "no type at all": Case(post(MEMBER, OURS, "Content-Type:"), 400, NOTE),
    "a form that is no UTF-8": Case(post(MEMBER, OURS), 400, "text=%ff&word=WORD"),
    "a form with a NUL": Case(post(MEMBER, OURS), 400, "text=%00&word=WORD"),
    "a form of very many fields": Case(post(MEMBER, OURS), 400, "&".join(f"x{n}=1" for n in range(200))),
    "other site reads the API": Case(get("/api/v1/now", MEMBER, "Origin: https://evil.example"), 403),
    "other site's script tag": Case(
        get("/api/v1/now", MEMBER, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"), 403
    ),
    "other site's frame": Case(
        get("/now", MEMBER, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"), 403
    ),
    "other site's link": Case(
        get("/now", MEMBER, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), 200
    ),
    "preflight": Case(
        "OPTIONS /session/ID/note HTTP/1.1\nHost: OWN\nOrigin: https://evil.example\n"
        "Access-Control-Request-Method: POST", 403,
    ),
    # ── other methods than POST ──
    "get of an action": Case(get("/session/ID/note?text=hurt&word=WORD", MEMBER, "X-Holdfast-Word: WORD"), 405),
    "head of an action": Case(get("/session/ID/pause", MEMBER).replace("GET", "HEAD", 1), 405),
    "method in a header": Case(get("/session/ID/pause", MEMBER, "X-HTTP-Method-Override: POST"), 405),
    "method in the address": Case(get("/session/ID/pause?_method=POST", MEMBER), 405),
    "put": Case(post(MEMBER, OURS, "X-Holdfast-Word: WORD", method="PUT"), 405, NOTE),
    "delete": Case(post(MEMBER, OURS, "X-Holdfast-Word: WORD", path="/session/ID", method="DELETE"), 405),
    "trace": Case(post(MEMBER, OURS, method="TRACE", path="/now"), 405),
    "options": Case(get("/now", MEMBER).replace("GET", "OPTIONS", 1), 405),
    "unknown method": Case(get("/now", MEMBER, OURS).replace("GET", "HURT", 1), 405),
    "post to a page": Case(post(MEMBER, OURS, "X-Holdfast-Word: WORD", path="/now"), 405, NOTE),
    # ── paths ──
    "out of static": Case(get("/static/../gate.py"), 404),
    "out of static, spelled": Case(get("/static/%2e%2e/gate.py"), 404),
    "out of static, backslash": Case(get("/static/..%5cgate.py"), 404),
    "out of static, absolute": Case(get("/static//etc/passwd"), 404),
    "static with a NUL": Case(get("/static/%00"), 404),
    "static itself": Case(get("/static/"), 404),
    "through static to a page": Case(get("/static/../now"), 404),
    "id out of its place": Case(get("/session/..%2f..%2fetc%2fpasswd", MEMBER), 404),
    "id with a NUL": Case(get("/session/%00/export?format=craft", MEMBER), 400),
    "id that is a template": Case(get("/session/%7B%7B7*7%7D%7D", MEMBER), 404),
    "id that breaks the header": Case(get("/session/x%0d%0aSet-Cookie:%20a=b", MEMBER), 404),
    "dialog out of its place": Case(get("/session/ID/dialog/..%2flayout", MEMBER), 404),
    "dialog that is none": Case(get("/session/ID/dialog/alone", MEMBER), 404),
    "format that is none": Case(get("/session/ID/export?format=../../x", MEMBER), 400),
    "report that is none": Case(get("/session/ID/report?format=exe", MEMBER), 400),
    # ── too much ──
    "long body announced": Case(post(MEMBER, OURS, f"Content-Length: {MAX_REQUEST + 1}"), 413),
    "endless length": Case(post(MEMBER, OURS, "Content-Length: " + "9" * 18), 413),
    "length that is none": Case(post(MEMBER, OURS, "Content-Length: many"), 400),
    "two lengths": Case(post(MEMBER, OURS, "Transfer-Encoding: chunked", "Content-Length: 4"), 400, "0\r\n\r\n"),
    "two lengths, the other first": Case(
        post(MEMBER, OURS, "Content-Length: 1", "Transfer-Encoding: chunked"), 400, "0\r\n\r\n"
    ),
    "length below nothing": Case(post(MEMBER, OURS, "Content-Length: -1"), 400),
    "many headers": Case(get("/now", MEMBER, *(f"X-{n}: {'y' * 50}" for n in range(800))), 431),
    # More than is read at once, and so too long for the HTTP parser before it is complete.
    "header bomb": Case(get("/now", MEMBER, "X-Bomb: " + "x" * 400_000), 400),
    "very many headers": Case(get("/now", MEMBER, *(f"X-{n}: {'y' * 50}" for n in range(6000))), 400),
    "long address": Case(get("/now?x=" + "y" * 50_000, MEMBER), 431),
    "not HTTP": Case("\x16\x03\x01 hello", 400),
    "websocket": Case(
        get("/live", MEMBER, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Origin: https://evil.example"), 403,
    ),
    "websocket without a cookie": Case(
        get("/live", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 401,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_request_gets_the_expected_answer(running: RunningDashboard, case: Case) -> None:
    """Each gets its expected status, changes nothing, and has all security headers."""
    before = running.event_count()
    body = running.fill(case.body).encode()
    lines = case.lines
    if body and "Content-Length" not in lines:
        lines += f"\nContent-Length: {len(body)}"
    answer = send(running, lines, body)
    assert answer.code == case.code, answer.body[:500]
    if "content-length" in answer.headers:  # otherwise it was no request, and never reached us
        assert_security_headers(answer)
    assert running.secrets.token.encode() not in answer.body
    assert running.secrets.cookie_value.encode() not in answer.body
    assert "set-cookie" not in answer.headers
    assert running.event_count() == before


def test_chosen_port_answers_at_every_loopback_name(tmp_path: Path) -> None:
    """Without its own host name the dashboard answers at each loopback name and no other."""
    site = Site(tmp_path)
    with serving(site) as dashboard:
        plain = RunningDashboard(site, dashboard)
        assert plain.own_host == f"127.0.0.1:{plain.port}"
        for host, code in (
            ("127.0.0.1:PORT", 200), ("localhost:PORT", 200), ("LOCALHOST:PORT", 200), ("[::1]:PORT", 200),
            ("127.0.0.1", 421), ("localhost.:PORT", 421), ("x.localhost:PORT", 421), ("127.0.0.2:PORT", 421),
        ):  # fmt: skip
            assert send(plain, get("/now", MEMBER, host=host)).code == code, host
        plain.keeper.close()


@pytest.mark.parametrize("address", VERBS)
def test_only_post_with_the_word_changes_something(running: RunningDashboard, address: str) -> None:
    """At every action's address."""
    before, path = running.event_count(), address.replace("{id}", "ID")
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        answer = send(running, post(MEMBER, OURS, "X-Holdfast-Word: WORD", path=path, method=method))
        assert answer.code == 405
        assert answer.headers["allow"] == "POST"
        assert_security_headers(answer)
    assert send(running, post(MEMBER, OURS, "Content-Length: 0", path=path)).code == 409
    assert running.event_count() == before
