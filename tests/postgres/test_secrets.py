"""Passwords go to the right server and nowhere else: not into an error, a log, a list of processes, or to another
server.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import logging
import os
import select
import socket
import ssl
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from psycopg import sql

from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import admin, connections, errors
from tests.postgres.failing_proxy import FailingProxy
from tests.postgres.team import Team, note, opened
from tests.support.postgres.server import Server

MARK = "Zaubernuss"
PASSWORD = f"{MARK} '\"@/%#:{MARK}\\"
URL = f"postgresql://anna:{quote(PASSWORD, safe='')}@"
DAY = dt.timedelta(days=1)


# ── certificates ─────────────────────────────────────────────────────────────────────────────────────────


class Authority:
    """Signs certificates for this machine, like an organisation's own authority."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = str(folder / f"{name}.pem")
        self._write(self.file, self._signed(self.name, self._key, is_authority=True))

    def certificate(self, name: str, address: str = "127.0.0.1") -> tuple[str, str]:
        """A certificate for a server at an address, and its key: two files."""
        key = ec.generate_private_key(ec.SECP256R1())
        files = str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key")
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._write(files[0], self._signed(subject, key, address=address))
        shape = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        Path(files[1]).write_bytes(key.private_bytes(*shape))
        return files

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, address: str = "", is_authority: bool = False
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder(
                self.name, subject, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )  # fmt: skip
        if address:
            names = [x509.IPAddress(ipaddress.ip_address(address))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, path: str, certificate: x509.Certificate) -> None:
        Path(path).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


class Environment:
    """A server that requires passwords, a role with one and a vault for it; and two certificate authorities."""

    def __init__(self, server: Server, authority: Authority, other_authority: Authority) -> None:
        self.server, self.authority, self.other_authority = server, authority, other_authority
        server.database("guarded")
        admin.init(PostgresAddress(server.url("guarded", socket=True)))
        self.team = Team(server, server.url("guarded"))
        person = sql.Identifier(self.team.person)
        server.sql(sql.SQL("ALTER ROLE {} PASSWORD {}").format(person, sql.Literal(PASSWORD)))
        (self.session,) = self.team.begin(["one"])

    def url(self, *, port: int | None = None, password: str = PASSWORD, more: str = "") -> str:
        where = f"127.0.0.1:{port or self.server.port}/{self.team.name}?vault={self.team.vault}"
        return f"postgresql://{self.team.person}:{quote(password, safe='')}@{where}{more}"

    def require_proof(self, authority: Authority) -> str:
        return f"&sslmode=verify-full&sslrootcert={quote(authority.file)}"


@pytest.fixture(scope="module")
def env(made_once: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    folder = tmp_path_factory.mktemp("authorities")
    with Server(passwords=True) as server:
        yield Environment(server, Authority("ours", folder), Authority("theirs", folder))


# ── errors and logs ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Everything that is logged."""
    with caplog.at_level(logging.DEBUG):
        yield caplog


def assert_password_absent(error: HoldfastError, all_logs: pytest.LogCaptureFixture) -> None:
    texts = [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]
    texts += [repr(error.__context__), repr(error.__cause__), all_logs.text, *map(repr, all_logs.records)]
    for text in texts:
        assert MARK not in text
        assert quote(MARK) not in text


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("127.0.0.1:1/db", "unreachable"),
        ("no.such.host.invalid/db", "unreachable"),
        ("127.0.0.1:99999/db", "invalid"),
        ("127.0.0.1:1/db?sslmode=bogus", "invalid"),
        ("127.0.0.1:1/db?target_session_attrs=bogus", "invalid"),
        ("127.0.0.1:1/db?keepalives_idle=soon", "invalid"),
        ("127.0.0.1:1/db?hostaddr=nonsense", "invalid"),
        ("127.0.0.1:1/db?ssl_min_protocol_version=x", "invalid"),
        ("127.0.0.1:1/db?sslmode=verify-full&sslrootcert=/nowhere", "unreachable"),
        ("127.0.0.1:1/db?connect_timeout=soon", "invalid"),
        ("/db?host=/nowhere", "unreachable"),
    ],
)
def test_connection_error_does_not_contain_the_password(
    where: str, kind: str, all_logs: pytest.LogCaptureFixture
) -> None:
    """Whatever is wrong with the rest of the address."""
    for attempt in (lambda: opened(URL + where, "x"), lambda: admin.init(PostgresAddress(URL + where))):
        with pytest.raises(HoldfastError) as caught:
            attempt()
        assert caught.value.kind == kind
        assert_password_absent(caught.value, all_logs)


def test_wrong_password_is_reported_without_either_password(
    env: Environment, all_logs: pytest.LogCaptureFixture
) -> None:
    """With a hint where to set it."""
    with pytest.raises(Unreachable, match="refused the login") as caught:
        opened(env.url(password=f"{MARK}?"), "x")
    assert "PGPASSWORD" in str(caught.value.hint)
    assert_password_absent(caught.value, all_logs)


def test_password_is_not_visible_anywhere(env: Environment, all_logs: pytest.LogCaptureFixture) -> None:
    """Not in the server's list of connections, not in a process list, not in a store's representation."""
    with closing(opened(env.url(), "laptop")) as store:
        note(store, env.session, "n 1")
        seen = env.server.sql("SELECT a::text FROM pg_stat_activity a")
        if os.path.exists("/proc"):
            pids = (os.getpid(), *env.server.backends())
            for pid in pids:
                with contextlib.suppress(
                    FileNotFoundError, ProcessLookupError
                ):  # of a connection that was just closed
                    seen.append((Path(f"/proc/{pid}/cmdline").read_text(),))
            assert len(seen) >= 2
        shown = f"{seen} {store!r} {store.url} {store.pool!r} {all_logs.text}"
    assert MARK not in shown
    assert MARK not in env.server.log()


def test_cut_connection_does_not_reveal_the_password(env: Environment, all_logs: pytest.LogCaptureFixture) -> None:
    """During a transaction, and when new connections are refused."""
    with FailingProxy(env.server, tcp=True) as line:
        port = line._where[1]
        with closing(opened(env.url(port=port), "laptop")) as store:

            def cut_off() -> None:
                with store.transaction() as transaction:
                    line.refuse()
                    transaction.state(env.session)

            with pytest.raises(Unreachable) as caught:
                cut_off()
            assert_password_absent(caught.value, all_logs)
            with pytest.raises(Unreachable) as caught:
                store.version()
            assert_password_absent(caught.value, all_logs)


def test_connection_timeout_does_not_reveal_the_password(
    env: Environment, all_logs: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server neither accepts nor refuses."""
    monkeypatch.setattr(connections, "_MAX_WAIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        port = silent_server.getsockname()[1]
        with pytest.raises(Unreachable, match="does not answer") as caught:
            opened(env.url(port=port, more="&connect_timeout=2"), "x")
    assert_password_absent(caught.value, all_logs)


def test_message_with_a_secret_is_dropped() -> None:
    """Should libpq ever quote the password, its whole message is dropped: gaps would show where it was."""
    error = psycopg.OperationalError(f"connection failed: bad thing near {MARK}")
    explained = errors.explain(error, "open the store", "postgresql://x", [MARK])
    assert explained is not None
    assert explained.message == "the server cannot be reached"
    harmless = errors.explain(error, "open the store", "postgresql://x", [PASSWORD])
    assert harmless is not None
    assert "bad thing" in harmless.message


def test_host_name_does_not_affect_the_reason() -> None:
    """A host named after an error does not change the message."""
    for host in ("ssl.example", "password.example"):
        message = f'connection failed: connection to server at "{host}", port 1 failed: Connection refused'
        explained = errors.explain(psycopg.OperationalError(message), "open the store", "x")
        assert explained is not None
        assert explained.message == "the server cannot be reached (Connection refused)"


# ── identity of the server──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://db.example/team", "verify-full"),
        ("postgresql://10.0.0.7/team", "verify-full"),
        ("postgresql://localhost,db.example/team", "verify-full"),
        ("postgresql://localhost@db.example/team?sslmode=", "verify-full"),
        ("postgresql://localhost/team?hostaddr=10.0.0.7", "verify-full"),
        ("postgresql://localhost.example/team", "verify-full"),
        ("postgresql://db.example/team?sslmode=require", "require"),
        ("postgresql://db.example/team?ssl=true", "require"),
        ("postgresql://localhost/team", None),
        ("postgresql://127.0.0.1:5433/team", None),
        ("postgresql://[::1]/team", None),
        ("postgresql:///team?host=/run/postgresql", None),
        ("postgresql:///team", None),
    ],
)
def test_remote_server_must_prove_its_identity(url: str, mode: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the address says otherwise; libpq alone would accept any server."""
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    parameters = connections.connection_parameters(url)
    assert parameters.get("sslmode") == mode
    assert ("sslrootcert" in parameters) == (mode == "verify-full")


def test_environment_variables_of_libpq_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not overridden; and a host that they name is remote too."""
    monkeypatch.setenv("PGHOST", "db.example")
    assert connections.connection_parameters("postgresql:///team")["sslmode"] == "verify-full"
    monkeypatch.setenv("PGSSLROOTCERT", "/own.pem")
    assert "sslrootcert" not in connections.connection_parameters("postgresql:///team")
    monkeypatch.setenv("PGSSLMODE", "require")
    assert "sslmode" not in connections.connection_parameters("postgresql:///team")


class TlsListener:
    """Listens on a port, in the clear or with TLS, and passes each connection to `handle`."""

    def __init__(self, files: tuple[str, str] | None) -> None:
        self._files = files
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._negotiate, args=(line,), daemon=True))
                self._threads[-1].start()

    def _negotiate(self, line: socket.socket) -> None:
        line.settimeout(10)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(line)
            begin = line.recv(8)
            if begin[4:] == b"\x04\xd2\x16\x2f":  # TLS?
                line.sendall(b"N" if self._files is None else b"S")
                if self._files is not None:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(*self._files)
                    context.set_alpn_protocols(["postgresql"])
                    line = stack.enter_context(context.wrap_socket(line, server_side=True))
                begin = line.recv(8)
            if begin:
                self.handle(line, begin)

    def handle(self, line: socket.socket, begin: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)


class TlsProxy(TlsListener):
    """The server behind a certificate: the one under test was built without TLS."""

    def __init__(self, server: Server, files: tuple[str, str]) -> None:
        self._port = server.port
        super().__init__(files)

    def handle(self, line: socket.socket, begin: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as behind:
            behind.sendall(begin)
            line.setblocking(False)
            behind.setblocking(False)
            ends = {line: behind, behind: line}
            while True:
                for source in select.select(list(ends), [], [], 0.01)[0] or [line]:
                    with contextlib.suppress(ssl.SSLWantReadError, BlockingIOError):
                        data = source.recv(1 << 16)
                        if not data:
                            return
                        ends[source].sendall(data)


def test_certificate_must_be_signed_by_the_authority_and_match_the_host(
    env: Environment, all_logs: pytest.LogCaptureFixture
) -> None:
    """T18."""
    with closing(TlsProxy(env.server, env.authority.certificate("server"))) as front:
        with closing(opened(env.url(port=front.port, more=env.require_proof(env.authority)), "laptop")) as store:
            note(store, env.session, "n 1")
            assert store.run_query(lambda pipeline: pipeline.connection.pgconn.ssl_in_use)
        with pytest.raises(Unreachable, match="could not be verified") as caught:
            opened(env.url(port=front.port, more=env.require_proof(env.other_authority)), "laptop")
        assert_password_absent(caught.value, all_logs)
        here = env.url(port=front.port, more=env.require_proof(env.authority))
        elsewhere = here.replace("@127.0.0.1", "@localhost")
        with pytest.raises(Unreachable, match="could not be verified"):
            opened(elsewhere, "laptop")


class ImpostorServer(TlsListener):
    """A man in the middle with a certificate of its own: asks for the password in the clear, and keeps
    what it gets.
    """

    received = b""

    def handle(self, line: socket.socket, begin: bytes) -> None:
        self.received += begin + line.recv(4096)
        line.sendall(b"R" + (8).to_bytes(4) + (3).to_bytes(4))  # asks for the password in the clear
        self.received += line.recv(4096)


@pytest.mark.parametrize("kind", ["another authority", "another host", "no TLS"])
def test_man_in_the_middle_gets_no_password(env: Environment, kind: str) -> None:
    """T18: a server that cannot prove its identity gets neither a password nor a user name."""
    files = None
    if kind != "no TLS":
        theirs = kind == "another authority"
        files = env.other_authority.certificate("it") if theirs else env.authority.certificate("next", "127.0.0.2")
    with closing(ImpostorServer(files)) as impostor:
        with pytest.raises(Unreachable, match="no encryption" if files is None else "could not be verified"):
            opened(env.url(port=impostor.port, more=env.require_proof(env.authority)), "laptop")
        assert impostor.received == b""
    with closing(ImpostorServer(files)) as impostor:  # without the check it would get it
        with pytest.raises(Unreachable):
            opened(env.url(port=impostor.port, more="&sslmode=prefer"), "laptop")
        assert MARK.encode() in impostor.received
