"""The checks that every request passes first: host, origin, tokens, sizes.

The dashboard listens on loopback, where every page in the person's browser and every program on the machine can reach
it. So the Host must be ours (another name pointed at 127.0.0.1 is not); a request needs the secret of this run (a
cookie that no other site can send along, or a bearer token); and one that changes something must come from our own
pages and carry the word only they know. Responses may load nothing from elsewhere and run no script but ours.

A browser sends a cookie to every port of the host that set it, so also to anything else on 127.0.0.1. The pages are
therefore under a random name, below `localhost`, which browsers resolve to this machine by themselves: the
cookie belongs to that name, and is sent only to it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.errors import Refused
from holdfast.web import responses
from holdfast.web.render import FORM_WORD

MAX_REQUEST: Final = 1 << 20  # bytes of a request: notes are short
_MAX_HEAD: Final = 32 << 10  # bytes of its head
ENTRY_PATH: Final = "/enter/"
REDIRECT_PREFIX: Final = "over."  # prefix of a ticket that leads from a well-known address to our own
KNOWN_CLIENT: Final = "holdfast.known"  # in a scope: the client has shown that it belongs here
PUBLIC_PATHS: Final = ("/static/",)  # nothing private in there
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
WORD_HEADER: Final = "x-holdfast-word"

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A download is not a page: wherever it is opened, it may do nothing here.
_SANDBOX: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers would then hide where a form comes from.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}

_REDIRECTED_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Holdfast</title>
<link rel="icon" href="/static/icon.svg"><meta http-equiv="refresh" content="0;url=/"></head>
<body><p><a href="/">Holdfast's dashboard</a></p></body></html>"""
_PRIVATE_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Holdfast</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/holdfast.css"></head>
<body><main class="alone"><h1>This dashboard is private</h1>
<p>Open it with the address that <code>holdfast ui</code> printed in the terminal. If that was a while ago,
run <code>holdfast ui</code> again.</p></main></body></html>"""


_USED_LINK_PAGE: Final = _PRIVATE_PAGE.replace("This dashboard is private", "This link was used before").replace(
    "<p>Open it", "<p>It works only once. If you did not use it, press Ctrl-C in the terminal and run "
    "<code>holdfast ui</code> again. Otherwise open the dashboard"
)  # fmt: skip


class Secrets:
    """The secrets that give access: new for every run, stored nowhere."""

    def __init__(self, port: int, *, named: bool = False) -> None:
        self.port = port
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"holdfast-{port}"
        # The cookie's value, which is not the token itself.
        self.cookie_value = self._derived(b"cookie")
        # What our own pages send with every change.
        self.word = self._derived(b"word")
        # Where programs find us; browsers too, unless there is a name that only this run knows.
        self.plain_host = f"127.0.0.1:{port}"
        self.own_host = f"{self._derived(b'name')[:32]}.localhost:{port}" if named else self.plain_host
        self._tickets: set[str] = set()
        self._spent: set[str] = set()
        self._lock = threading.Lock()
        # Called when a used ticket is shown again.
        self.reused: Callable[[], None] = lambda: None

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts browsers may ask for: our own name alone, if there is one."""
        return _host_spellings(self.own_host) if self.own_host != self.plain_host else self.known_hosts

    @property
    def known_hosts(self) -> frozenset[str]:
        """The hosts anybody may ask for."""
        names = ("127.0.0.1", "localhost", "[::1]")
        return frozenset().union(*(_host_spellings(f"{name}:{self.port}") for name in names))

    def _derived(self, purpose: bytes) -> str:
        return hmac.new(self.token.encode(), purpose, hashlib.sha256).hexdigest()

    def ticket(self, kind: str = "") -> str:
        """A ticket that gives access once."""
        ticket = kind + secrets.token_urlsafe(24)
        with self._lock:
            self._tickets.add(ticket)
        return ticket

    def withdraw(self, ticket: str) -> None:
        """Make a ticket useless."""
        with self._lock:
            self._tickets.discard(ticket)

    def admits(self, ticket: str) -> bool:
        with self._lock:
            if ticket in self._tickets:
                self._tickets.discard(ticket)
                self._spent.add(ticket)
                return True
        return equal_secrets(ticket, self.token)

    def is_used(self, ticket: str) -> bool:
        """Whether this ticket was used before: by the same browser, or by another person."""
        with self._lock:
            return ticket in self._spent


def _host_spellings(host: str) -> frozenset[str]:
    name, _, port = host.rpartition(":")
    return frozenset({host, name} if port == "80" else {host})  # which browsers leave out


def equal_secrets(secret: str, other: str) -> bool:
    return hmac.compare_digest(secret.encode(errors="replace"), other.encode())


class SecurityMiddleware:
    """ASGI middleware in front of everything."""

    def __init__(self, app: ASGIApp, *, secrets: Secrets) -> None:
        self.app = app
        self.secrets = secrets
        self.own_hosts, self.hosts = secrets.hosts, secrets.hosts | secrets.known_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        FORM_WORD.set(self.secrets.word)
        out = _SecureSend(scope, send)
        answer = self._refusal(scope) or self._admit(scope) or self._unauthorized(scope)
        if answer is not None:
            await answer(scope, receive, out)
            return
        try:
            await self.app(scope, _limit_body(receive), out)
        except ClientDisconnect:
            return  # the client left in the middle of its request
        except Exception as error:
            if out.started:  # it is too late for another answer
                raise
            await (await responses.unexpected_error(Request(scope), error))(scope, receive, out)

    # ── who may come in ──────────────────────────────────────────────────────────────────────────────────

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self.hosts or len(headers.getlist("host")) != 1:
            return PlainTextResponse("Holdfast's dashboard is reached by its own address only.\n", 421)
        if not scope["path"].startswith("/"):
            return PlainTextResponse("This is not a proxy.\n", 400)
        if sum(len(piece) for line in headers.raw for piece in line) + len(scope["query_string"]) > _MAX_HEAD:
            return PlainTextResponse("The request headers are too large.\n", 431)
        if "transfer-encoding" in headers and "content-length" in headers:  # two lengths would be ambiguous
            return PlainTextResponse(
                "A request must have exactly one Content-Length.\n", 400, {"connection": "close"}
            )
        if not _has_allowed_length(headers):
            return PlainTextResponse("The request is too large.\n", 413)
        origin = headers.get("origin")
        if origin is not None and (origin.lower() != f"http://{host}" or len(headers.getlist("origin")) != 1):
            return PlainTextResponse("This came from another site.\n", 403)
        site = headers.get("sec-fetch-site", "none")
        navigates = (
            scope["method"] in SAFE_METHODS
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest", "document") == "document"
        )
        if site not in ("none", "same-origin") and not navigates:
            return PlainTextResponse("This came from another site.\n", 403)
        return None

    def _admit(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        if not path.startswith(ENTRY_PATH) or scope["method"] != "GET":
            return None
        shown = path.removeprefix(ENTRY_PATH)
        if not self.secrets.admits(shown):
            return self._spent(scope) if self.secrets.is_used(shown) else HTMLResponse(_PRIVATE_PAGE, 401)
        scope[KNOWN_CLIENT] = True
        if self._host(scope) not in self.own_hosts:
            # A person came with the token to a well-known address.
            return RedirectResponse(
                f"http://{self.secrets.own_host}{ENTRY_PATH}{self.secrets.ticket(REDIRECT_PREFIX)}", 303
            )
        if path.startswith(ENTRY_PATH + REDIRECT_PREFIX):
            # After a redirect from another site a browser would omit the cookie again, so our own page leads on.
            answer: Response = HTMLResponse(_REDIRECTED_PAGE)
        else:
            answer = RedirectResponse("/", 303)
        answer.set_cookie(self.secrets.cookie, self.secrets.cookie_value, httponly=True, samesite="strict", path="/")
        return answer

    def _spent(self, scope: Scope) -> Response:
        """For a used ticket: a browser that has access continues, others see what it means."""
        if self._host(scope) in self.own_hosts and self._has_cookie(Headers(scope=scope)):
            return RedirectResponse("/", 303)
        self.secrets.reused()
        return HTMLResponse(_USED_LINK_PAGE, 401)

    def _host(self, scope: Scope) -> str:
        return Headers(scope=scope).get("host", "").lower()

    def _unauthorized(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        headers = Headers(scope=scope)
        safe = scope["method"] in SAFE_METHODS
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and equal_secrets(shown.strip(), self.secrets.token):
            scope[KNOWN_CLIENT] = scope["program"] = True  # no browser sends this by itself
            return None
        scope[KNOWN_CLIENT] = self._host(scope) in self.own_hosts and self._has_cookie(headers)
        if safe and path.startswith(PUBLIC_PATHS):
            return None
        if not scope[KNOWN_CLIENT]:
            return self._unknown(Request(scope))
        # A browser says where a change comes from. Anything else must send the word in a header, which no form can
        # do.
        if not safe and not (headers.get("origin") or equal_secrets(headers.get(WORD_HEADER, ""), self.secrets.word)):
            return PlainTextResponse("Changes are made from the dashboard's own pages.\n", 403)
        return None

    def _unknown(self, request: Request) -> Response:
        if responses.wants_document(request):
            refusal = Refused("this needs the token of this run", hint="holdfast ui --json --no-open prints it.")
            answer = responses.error(request, refusal, code=401)
        elif "text/html" in request.headers.get("accept", ""):
            answer = HTMLResponse(_PRIVATE_PAGE, 401)
        else:
            answer = PlainTextResponse("Not authorized.\n", 401)
        answer.headers["www-authenticate"] = "Bearer"
        return answer

    def _has_cookie(self, headers: Headers) -> bool:
        """Whether our cookie is among the cookies, some of which may be other programs' and have the same name."""
        pieces = (piece.strip().partition("=") for line in headers.getlist("cookie") for piece in line.split(";"))
        return any(
            name == self.secrets.cookie and equal_secrets(value, self.secrets.cookie_value)
            for name, _, value in pieces
        )


class _SecureSend:
    """Adds the security headers to every response."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.path: str = scope["path"]
        self.send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if "content-disposition" in headers:
                headers["content-security-policy"] = _SANDBOX
            # The content is private: it stays out of the browser's cache.
            headers["cache-control"] = "no-cache" if self.path.startswith(PUBLIC_PATHS) else "no-store"
        await self.send(message)


def _has_allowed_length(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    return length.isascii() and length.isdigit() and int(length[:12]) <= MAX_REQUEST


def _limit_body(receive: Receive) -> Receive:
    """Limits a body of unknown length to the same size."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_REQUEST:
            raise HTTPException(413, "it is too large")
        return message

    return bounded
