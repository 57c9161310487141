"""An S3 server on loopback that gives scripted answers and records the requests."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "verysecret", "AWS_SESSION_TOKEN": "tokentoken"}


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Scripted(NamedTuple):
    endpoint: str
    asked: list[Request]
    port: int

    @property
    def url(self) -> str:
        return f"s3://bucket/prefix?endpoint={self.endpoint}"


def error(status: int, code: str) -> Answer:
    """An error document as S3 servers send it, with optional extra fields."""
    body = (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message>"
        "<AWSAccessKeyId>AKIDEXAMPLE</AWSAccessKeyId><StringToSign>AWS4-HMAC-SHA256 tokentoken</StringToSign>"
        "<SignatureProvided>feedbeef</SignatureProvided></Error>"
    )
    return Answer(status, body.encode())


def listing(*names: str, more: bool = False) -> Answer:
    entries = "".join(
        f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>x</ETag>"
        "<Size>3</Size></Contents>"
        for name in names
    )
    if more:
        entries += "<IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>"
    return Answer(200, f"<?xml version='1.0'?><ListBucketResult>{entries}</ListBucketResult>".encode())


@contextlib.contextmanager
def scripted(answer: Callable[[Request], Answer], tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    asked: list[Request] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, body)
            asked.append(request)
            given = answer(request)
            self.send_response(given.status)
            for name, value in (("ETag", '"x"'), ("Connection", "close"), *given.headers):
                self.send_header(name, value)
            if not any(name == "Content-Length" for name, _ in given.headers):
                self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(given.body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_CONNECT = _any  # noqa: N815 (their names)

        def log_message(self, *args: object) -> None: ...

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up in the middle is part of the play."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    port = server.server_port
    try:
        yield Scripted(f"{'https' if tls else 'http'}://127.0.0.1:{port}", asked, port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
