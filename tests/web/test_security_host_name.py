"""The host name of one run: the browser's cookie for it is sent to no other program on this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from holdfast.core.errors import Conflict, Invalid
from holdfast.web import serve as served
from holdfast.web.security import ENTRY_PATH, Secrets
from holdfast.web.serve import Dashboard
from tests.web.dashboard import Site, serving
from tests.web.raw_requests import RunningDashboard, get, send
from tests.web.sample_sessions import rich


@contextmanager
def other_server() -> Iterator[tuple[str, list[str]]]:
    """Another program on this machine, and every cookie it received."""
    shown: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title>")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", shown
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_other_local_servers_do_not_receive_the_cookie(tmp_path: Path, browser: Browser) -> None:
    """After entering with a ticket, the browser is at the private name."""
    site = Site(tmp_path)
    session = rich(site)
    with serving(site, named=True) as dashboard, other_server() as (other, shown):
        context = browser.new_context()
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=dashboard.origin)
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(dashboard.ticket())
        page.wait_for_url(f"{dashboard.origin}/now")
        expect(page.locator("#pulse")).to_have_text("live")
        page.goto(f"{dashboard.origin}/session/{session}")
        expect(page.locator("#pulse")).to_have_text("live")
        assert page.evaluate("[isSecureContext, typeof SharedWorker]") == [True, "function"]
        page.locator(".actions").get_by_role("button", name="Copy the resume command").first.click()
        expect(page.locator(".toast").filter(has_text="Copied.").first).to_be_visible()
        page.locator(".actions").get_by_role("button", name="Pause", exact=True).first.click()
        expect(page.locator(".toast").filter(has_text="aused").first).to_be_visible()
        assert errors == []
        port = other.rpartition(":")[2]
        for place in (other, f"localhost:{port}", f"x.localhost:{port}"):
            elsewhere = context.new_page()
            elsewhere.goto(f"http://{place}/")
            elsewhere.reload()
        assert len(shown) >= 6
        assert set(shown) == {""}
        cookies = context.cookies()
        assert [typed_dict_type["domain"] for typed_dict_type in cookies] == [
            dashboard.secrets.own_host.partition(":")[0]
        ]
        context.close()


def test_private_name_is_not_revealed(tmp_path: Path) -> None:
    """It is long, differs between runs, and is in no response to outsiders; a ticket used meanwhile is spent."""
    site = Site(tmp_path)
    with serving(site, named=True) as dashboard:
        running = RunningDashboard(site, dashboard)
        plain, name = dashboard.secrets.plain_host, running.own_host.partition(".")[0]
        assert len(name) == 32
        assert name != Secrets(running.port, named=True).own_host.partition(".")[0]
        for path in ("/", "/now", "/enter/nobody", "/nothing", "/static/holdfast.js", "/api/v1/now"):
            answer = send(running, get(path, host=plain))
            assert name not in str(answer.headers) + answer.body.decode()
        ticket = f"{ENTRY_PATH}{dashboard.secrets.ticket()}"
        crossed = send(running, get(ticket, host=plain))
        assert (crossed.code, "set-cookie" in crossed.headers) == (303, False)
        assert send(running, get(ticket, host=plain)).code == 401
        there = urlsplit(crossed.headers["location"])
        assert there.netloc == running.own_host
        entered = send(running, get(there.path))
        assert (entered.code, "set-cookie" in entered.headers) == (200, True)
        assert send(running, get(there.path)).code == 401
        assert send(running, get(f"{ENTRY_PATH}TOKEN", host=plain)).headers["location"].startswith(dashboard.origin)
        running.keeper.close()


def test_chosen_port_uses_the_loopback_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does a browser that cannot resolve the name; an impossible port is refused with our message."""
    site = Site(tmp_path)
    free = Dashboard(site.keeper)
    free._socket.close()
    assert free.origin.endswith(f".localhost:{free.secrets.port}")
    asked = Dashboard(site.keeper, free.secrets.port)
    assert asked.origin == f"http://127.0.0.1:{free.secrets.port}"
    with pytest.raises(Conflict, match=f"port {free.secrets.port} cannot be used here"):
        Dashboard(site.keeper, free.secrets.port)
    asked._socket.close()
    for port in (0, -1, 65536, 99999):
        with pytest.raises(Invalid, match=f"^{port} is not a port number$"):
            Dashboard(site.keeper, port)

    def unknown(*_: object) -> object:
        raise OSError("who is that?")

    assert served.browsers_resolve_names("linux")
    assert served.browsers_resolve_names("win32")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert not served.browsers_resolve_names("darwin")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(2, 1, 6, "", ("127.0.0.1", 80))])
    assert served.browsers_resolve_names("darwin")
