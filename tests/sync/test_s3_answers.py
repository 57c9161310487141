"""How an S3 remote handles a server's answers: wrong, slow, false, or redirecting."""

from __future__ import annotations

import datetime as dt
import ipaddress
import itertools
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.core.errors import Failed, HoldfastError, NotFound, Refused, Unreachable
from holdfast.sync.remotes import s3
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge
from holdfast.sync.remotes.s3 import S3Remote
from tests.sync.scripted_s3 import KEYS, Answer, Request, error, listing, scripted


def calls(remote: S3Remote) -> list[Callable[[], object]]:
    return [
        lambda: remote.put([("h/a", b"x")]),
        lambda: remote.get("h/a", 10),
        lambda: remote.list("h/"),
        lambda: remote.put([], remove=["h/a", "h/b"]),
    ]


@pytest.mark.parametrize(
    ("status", "code", "kind", "word"),
    [
        (400, "ExpiredToken", Failed, "AWS_SESSION_TOKEN"),
        (400, "AuthorizationHeaderMalformed", Failed, "region"),
        (301, "PermanentRedirect", Refused, "region"),
        (307, "TemporaryRedirect", Failed, "region"),
        (401, "Unauthorized", Refused, "GetObject"),
        (403, "AccessDenied", Refused, "ListBucket"),
        (403, "SignatureDoesNotMatch", Failed, "AWS_SECRET_ACCESS_KEY"),
        (403, "RequestTimeTooSkewed", Failed, "clock"),
        (404, "NoSuchBucket", NotFound, "address"),
        (400, "InvalidRequest", Failed, "address"),
        (501, "NotImplemented", Refused, "If-None-Match"),
        (400, "RequestTimeout", Unreachable, ""),
        (408, "Whatever", Unreachable, ""),
        (429, "TooManyRequests", Unreachable, ""),
        (500, "InternalError", Unreachable, ""),
        (503, "SlowDown", Unreachable, ""),
    ],
)
def test_s3_errors_are_translated(status: int, code: str, kind: type[HoldfastError], word: str) -> None:
    """Of every call; a retry is offered only where it helps, and no secret is repeated."""
    with scripted(lambda _: error(status, code)) as server:
        for call in calls(S3Remote.open(server.url, KEYS)):
            with pytest.raises(HoldfastError) as caught:
                call()
            raised = caught.value
            # A status without a detailed body may give a less exact error, never one of another kind.
            assert isinstance(raised, kind) or (status == 307 and isinstance(raised, Refused))
            assert raised.retry_helps == (kind is Unreachable)
            assert word in (raised.hint or "")
            text = f"{raised!r} {raised.hint}"
            assert not any(secret in text for secret in ("AKIDEXAMPLE", "verysecret", "tokentoken", "feedbeef"))
            assert raised.__suppress_context__
            assert raised.__cause__ is None
        ours = [asked for asked in server.asked if "/probe/" not in asked.path]
        assert len(ours) == 4, "nothing was tried again by the client"


def test_conflicting_operation_is_not_reported_as_an_existing_object() -> None:
    """A server that is removing the object answers so: it was not created, and does not exist."""
    there = [True]

    def answer(asked: Request) -> Answer:
        if asked.method == "PUT":
            return error(409, "ConditionalRequestConflict")
        return Answer(200, b"x") if there[0] else error(404, "NoSuchKey")

    with scripted(answer) as server:
        remote = S3Remote.open(server.url, KEYS)
        assert remote.put([("h/a", b"x")]) == {"h/a"}
        there[0] = False
        with pytest.raises(Unreachable):
            remote.put([("h/a", b"x")], remove=["h/b"])
        assert "POST" not in [asked.method for asked in server.asked]


def test_put_removes_only_after_all_creations() -> None:
    """And creates nothing after a failure."""

    def answer(asked: Request) -> Answer:
        return error(500, "InternalError") if asked.path.endswith("h/b") else Answer(200)

    with scripted(answer) as server:
        with pytest.raises(Unreachable):
            S3Remote.open(server.url, KEYS).put([("h/a", b""), ("h/b", b""), ("h/c", b"")], remove=["h/old"])
        assert [asked.path for asked in server.asked] == ["/bucket/prefix/h/a", "/bucket/prefix/h/b"]


def test_every_creation_is_conditional() -> None:
    """Even of large objects: a multipart upload would not be."""
    with scripted(lambda _: Answer(200)) as server:
        S3Remote.open(server.url, KEYS).put([("p/a", b""), ("p/b", bytes(9 << 20))])
        assert [(asked.method, asked.headers["if-none-match"]) for asked in server.asked] == [("PUT", "*")] * 2


def test_removing_a_missing_object_succeeds_when_the_server_reports_an_error() -> None:
    """Existing ones are removed all the same."""

    def answer(asked: Request) -> Answer:
        many = asked.body.count(b"<Key>") > 1
        fault = b"<Error><Key>prefix/h/a</Key><Code>NoSuchKey</Code><Message>M</Message></Error>"
        return Answer(
            200, b"<DeleteResult>" + (fault if many else b"<Deleted><Key>k</Key></Deleted>") + b"</DeleteResult>"
        )

    with scripted(answer) as server:
        S3Remote.open(server.url, KEYS).put([], remove=["h/a", "h/b"])
        assert len(server.asked) == 3


def test_refused_removal_is_reported() -> None:
    """Even though the response as a whole was a success."""
    fault = b"<Error><Key>prefix/h/a</Key><Code>AccessDenied</Code><Message>M</Message></Error>"
    with (
        scripted(lambda _: Answer(200, b"<DeleteResult>" + fault + b"</DeleteResult>")) as server,
        pytest.raises(HoldfastError) as caught,
    ):
        S3Remote.open(server.url, KEYS).put([], remove=["h/a"])
    assert isinstance(caught.value, Refused)


def test_false_listing_is_bounded() -> None:
    """Foreign names are left out; a listing that never ends is given up."""
    pages = itertools.count()
    names = ("prefix/h/a", "prefix/h/", "prefix/", "prefix/H", "prefix/h/a b", "elsewhere/h/x", "prefix/h/a")
    with scripted(lambda _: listing(*names)) as server:
        assert S3Remote.open(server.url, KEYS).list("h/") == [ObjectInfo("h/a", 3)]

    def endless(_: Request) -> Answer:
        page = next(pages)
        return listing(*(f"prefix/h/{page}-{number}" for number in range(1000)), more=True)

    with scripted(endless) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(s3, "MAX_LISTED", 5000)
        with pytest.raises(ObjectTooLarge):
            S3Remote.open(server.url, KEYS).list("h/")
        assert len(server.asked) < 10
    broken = b"<ListBucketResult><Contents><Key>prefix/h/a</Key></Contents></ListBucketResult>"
    for nonsense in (b"<html>", b"<!DOCTYPE x><ListBucketResult>&x;</ListBucketResult>", broken):
        with (
            scripted(partial(_always, Answer(200, nonsense))) as server,
            pytest.raises(Failed, match="cannot be read"),
        ):
            S3Remote.open(server.url, KEYS).list("h/")


# Keys as S3 allows them, and as its answers have them when the client did not ask for them encoded.
UNREADABLE_KEYS = {
    "h/a\tb": "h/a&#x9;b",
    "h/a\x01b": "h/a&#x1;b",
    "h/a\x00b": "h/a&#0;b",
    "h/a\x7fb": "h/a\x7fb",
    "h//x": "h//x",
    "h/./x": "h/./x",
    "h/../x": "h/../x",
    "h/..": "h/..",
    "//": "//",
    "h/\x1b]0;x": "h/&#x1b;]0;x",
}


@pytest.mark.parametrize("encodes", [True, False], ids=["encodes keys", "does not encode keys"])
@pytest.mark.parametrize("key", UNREADABLE_KEYS, ids=ascii)
def test_invalid_key_hides_no_other(key: str, *, encodes: bool) -> None:
    """On whichever page it is, it is reported, and all objects of all pages are listed."""

    def answer(asked: Request) -> Answer:
        wants_encoded = encodes and "encoding-type=url" in asked.path
        shown = quote(f"prefix/{key}") if wants_encoded else f"prefix/{UNREADABLE_KEYS[key]}"
        if "continuation-token=next" in asked.path:
            page = listing("prefix/h/c", shown, "prefix/h/d")
        else:
            page = listing("prefix/h/a", shown, "prefix/h/b", more=True)
        kind = b"<EncodingType>url</EncodingType></ListBucketResult>" if wants_encoded else b"</ListBucketResult>"
        return page._replace(body=page.body.replace(b"</ListBucketResult>", kind))

    with scripted(answer) as server:
        remote = S3Remote.open(server.url, KEYS)
        assert [entry.name for entry in remote.list("h/")] == ["h/a", "h/b", "h/c", "h/d"]
        if encodes:
            assert remote.foreign == [key]
        assert all(asked.method == "GET" and asked.path.startswith("/bucket?") for asked in server.asked)


@pytest.mark.parametrize(
    "given", [error(403, "InvalidObjectState"), error(403, "AccessDenied"), error(400, "InvalidRequest")]
)
def test_unreadable_object_counts_as_missing_when_others_are_readable(given: Answer) -> None:
    """Archived, encrypted with a customer's key, or without access."""
    one = partial(_one, given)
    with scripted(one) as server, pytest.raises(Missing):
        S3Remote.open(server.url, KEYS).get("h/a", 10)
    with scripted(lambda _: given) as server, pytest.raises(HoldfastError) as caught:
        S3Remote.open(server.url, KEYS).get("h/a", 10)
    assert not isinstance(caught.value, Missing)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (error(403, "AccessDenied"), Refused),
        (error(503, "SlowDown"), Unreachable),
        (error(404, "NoSuchBucket"), NotFound),
        (Answer(302, b"", (("Location", "http://127.0.0.1:9/elsewhere"),)), Refused),
    ],
)
def test_fallback_listing_translates_errors_too(given: Answer, kind: type[HoldfastError]) -> None:
    """It follows no redirect either."""
    first = listing("prefix/h//x")
    with (
        scripted(lambda asked: given if "encoding-type=url" in asked.path else first) as server,
        pytest.raises(kind) as caught,
    ):
        S3Remote.open(server.url, KEYS).list("h/")
    assert "feedbeef" not in str(caught.value)


def test_object_over_the_limit_is_not_read() -> None:
    """Its announced size is enough."""
    answer = Answer(200, b"", (("Content-Length", str(1 << 40)),))
    with scripted(lambda _: answer) as server:
        with pytest.raises(ObjectTooLarge):
            S3Remote.open(server.url, KEYS).get("p/a", 1000)
        assert len(server.asked) == 1


def test_truncated_object_is_an_error() -> None:
    """The connection ended early."""
    answer = Answer(200, b"half", (("Content-Length", "8"),))
    with scripted(lambda _: answer) as server, pytest.raises(Unreachable):
        S3Remote.open(server.url, KEYS).get("p/a", 1000)


def test_redirects_are_not_followed() -> None:
    """The target receives no signature, no token, and no object name."""
    with scripted(lambda _: Answer(200, b"stolen")) as elsewhere:
        to = f"http://localhost:{elsewhere.port}/x"
        answers = [Answer(status, b"", (("Location", to),)) for status in (301, 302, 303, 307, 308)]
        for answer in answers:
            with scripted(partial(_always, answer)) as server:
                for call in calls(S3Remote.open(server.url, KEYS)):
                    with pytest.raises(Refused, match="elsewhere"):
                        call()
        assert elsewhere.asked == []


def test_environment_of_the_process_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints, proxies, keys and switches that S3 clients read from it."""
    with scripted(lambda _: Answer(200, b"stolen")) as elsewhere, scripted(lambda _: Answer(200, b"right")) as server:
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_PROXY_URL", "HTTP_PROXY"):
            monkeypatch.setenv(name, elsewhere.endpoint)
            monkeypatch.setenv(name.lower(), elsewhere.endpoint)
        for name in ("SKIP_SIGNATURE", "UNSIGNED_PAYLOAD", "S3_EXPRESS", "VIRTUAL_HOSTED_STYLE_REQUEST"):
            monkeypatch.setenv(f"AWS_{name}", "true")
        for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "TOKEN", "BUCKET", "REGION"):
            monkeypatch.setenv(f"AWS_{name}", "polluted")
        remote = S3Remote.open(server.url, {name: KEYS[name] for name in KEYS if name != "AWS_SESSION_TOKEN"})
        assert remote.get("p/a", 100) == b"right"
        assert remote.put([("p/b", b"x")]) == frozenset()
        assert elsewhere.asked == []
        for asked in server.asked:
            assert asked.path.startswith("/bucket/prefix/p/")
            assert "Credential=AKIDEXAMPLE/" in asked.headers["authorization"]
            assert "x-amz-security-token" not in asked.headers
            assert "polluted" not in str(asked)


def test_untrusted_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says; with an own authority it is accepted."""
    pem = _certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    monkeypatch.setenv("AWS_ALLOW_INVALID_CERTIFICATES", "true")
    with scripted(lambda _: Answer(200, b"safe"), tls) as server:
        with pytest.raises(Refused, match="certificate"):
            S3Remote.open(server.url, KEYS).get("p/a", 10)
        assert server.asked == []
        assert S3Remote.open(server.url, {**KEYS, "AWS_CA_BUNDLE": pem}).get("p/a", 10) == b"safe"
        wrong_name = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(Refused, match="certificate"):
            S3Remote.open(wrong_name, {**KEYS, "AWS_CA_BUNDLE": pem}).get("p/a", 10)


def test_refused_connection_and_unknown_host_are_unreachable() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"s3://bucket/x?endpoint=http://127.0.0.1:{listener.getsockname()[1]}"
        for call in calls(S3Remote.open(url, KEYS)):
            with pytest.raises(Unreachable):
                call()


def test_request_to_a_hanging_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a large one that may take longer."""
    monkeypatch.setattr(s3, "REQUEST_SECONDS", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        remote = S3Remote.open(f"s3://bucket/x?endpoint=http://127.0.0.1:{silent.getsockname()[1]}", KEYS)
        several = [*calls(remote), lambda: remote.get("p/large", 8 << 20)]
        with ThreadPoolExecutor(len(several)) as pool:
            for waiting in [pool.submit(call) for call in several]:
                with pytest.raises(Unreachable, match="in time"):
                    waiting.result()


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
def test_ctrl_c_interrupts_a_request() -> None:
    """While the server does not answer."""
    code = (
        f"import sys; from holdfast.sync.remotes.s3 import S3Remote\nS3Remote.open(sys.argv[1], {KEYS!r}).list('h/')"
    )
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(5)
        url = f"s3://bucket/x?endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([sys.executable, "-c", code, url], stderr=subprocess.PIPE) as process:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=25)  # less than the timeout of a request
    assert b"KeyboardInterrupt" in errors


def test_server_without_conditions_is_refused() -> None:
    """It overwrites, or reports an object it does not list; the probe is removed each time."""
    kept: dict[str, bytes] = {}

    def hides(asked: Request) -> Answer:
        if asked.method == "PUT" and asked.path in kept:
            return error(412, "PreconditionFailed")
        if asked.method == "PUT":
            kept[asked.path] = asked.body
        return Answer(200, kept[asked.path]) if asked.path in kept else listing()

    for answer, word in ((partial(_always, Answer(200)), "overwrites"), (hides, "does not list")):
        with scripted(answer) as server:
            with pytest.raises(Refused, match=word):
                S3Remote.open(server.url, KEYS, create=True)
            assert server.asked[-1].method == "POST"
            assert server.asked[-1].path.endswith("?delete")
    with scripted(lambda asked: error(404, "NoSuchKey")) as server, pytest.raises(NotFound) as caught:
        S3Remote.open(server.url, KEYS).get("h/a", 1)
    assert isinstance(caught.value, Missing)


def _one(answer: Answer, asked: Request) -> Answer:
    return answer if asked.path.endswith("/h/a") else error(404, "NoSuchKey")


def _always(answer: Answer, _: Request) -> Answer:
    return answer


def _certificate(tmp_path: Path) -> str:
    """Self-signed, for 127.0.0.1; key and certificate in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    today = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return str(path)
