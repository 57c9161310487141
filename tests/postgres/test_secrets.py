"""Passwords go to the right server and nowhere else: not into an error, a log, a list of processes, to strangers."""

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
from tests.postgres.failing_proxy import Cutter
from tests.postgres.team import Team, note, opened
from tests.support.postgres.server import Server

MARK = "Zaubernuss"
PASSWORD = f"{MARK} '\"@/%#:{MARK}\\"
URL = f"postgresql://anna:{quote(PASSWORD, safe='')}@"
DAY = dt.timedelta(days=1)


# ── certificates ─────────────────────────────────────────────────────────────────────────────────────────


class Authority:
    """Signs certificates for this machine, as an organisation's own authority would."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = str(folder / f"{name}.pem")
        self._write(self.file, self._signed(self.name, self._key, is_authority=True))

    def certified(self, name: str, address: str = "127.0.0.1") -> tuple[str, str]:
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
    """A server that wants passwords, a person with one, and a vault for them; and who signs certificates."""

    def __init__(self, server: Server, authority: Authority, other_authority: Authority) -> None:
        self.server, self.authority, self.stranger = server, authority, other_authority
        server.database("guarded")
        admin.init(PostgresAddress(server.url("guarded", socket=True)))
        self.team = Team(server, server.url("guarded"))
        person = sql.Identifier(self.team.person)
        server.sql(sql.SQL("ALTER ROLE {} PASSWORD {}").format(person, sql.Literal(PASSWORD)))
        (self.session,) = self.team.begin(["one"])

    def url(self, *, port: int | None = None, password: str = PASSWORD, more: str = "") -> str:
        where = f"127.0.0.1:{port or self.server.port}/{self.team.name}?vault={self.team.vault}"
        return f"postgresql://{self.team.person}:{quote(password, safe='')}@{where}{more}"

    def proven(self, authority: Authority) -> str:
        return f"&sslmode=verify-full&sslrootcert={quote(authority.file)}"


@pytest.fixture(scope="module")
def env(made_once: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    folder = tmp_path_factory.mktemp("authorities")
    with Server(passwords=True) as server:
        yield Environment(server, Authority("ours", folder), Authority("theirs", folder))


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def overheard(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Everything that anybody logs."""
    with caplog.at_level(logging.DEBUG):
        yield caplog


def quiet_about_it(error: HoldfastError, overheard: pytest.LogCaptureFixture) -> None:
    texts = [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]
    texts += [repr(error.__context__), repr(error.__cause__), overheard.text, *map(repr, overheard.records)]
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
def test_a_server_that_cannot_be_reached(where: str, kind: str, overheard: pytest.LogCaptureFixture) -> None:
    """Whatever is wrong with the rest of the address, the password is not in what is said of it."""
    for attempt in (lambda: opened(URL + where, "x"), lambda: admin.init(PostgresAddress(URL + where))):
        with pytest.raises(HoldfastError) as caught:
            attempt()
        assert caught.value.kind == kind
        quiet_about_it(caught.value, overheard)


def test_a_wrong_password(env: Environment, overheard: pytest.LogCaptureFixture) -> None:
    """Exit code 7, whom to ask, and nothing of either password."""
    with pytest.raises(Unreachable, match="refused the login") as caught:
        opened(env.url(password=f"{MARK}?"), "x")
    assert "PGPASSWORD" in str(caught.value.hint)
    quiet_about_it(caught.value, overheard)


def test_the_right_password_is_seen_by_nobody(env: Environment, overheard: pytest.LogCaptureFixture) -> None:
    """Neither in what the server shows of its connections, nor in lists of processes, nor in how a store is shown."""
    with closing(opened(env.url(), "laptop")) as store:
        note(store, env.session, "n 1")
        seen = env.server.sql("SELECT a::text FROM pg_stat_activity a")
        if os.path.exists("/proc"):
            pids = (os.getpid(), *env.server.backends())
            for pid in pids:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # of a line that was just closed
                    seen.append((Path(f"/proc/{pid}/cmdline").read_text(),))
            assert len(seen) >= 2
        shown = f"{seen} {store!r} {store.url} {store.pool!r} {overheard.text}"
    assert MARK not in shown
    assert MARK not in env.server.log()


def test_a_line_that_is_cut_tells_nothing(env: Environment, overheard: pytest.LogCaptureFixture) -> None:
    """In the middle of a transaction, and when all is refused."""
    with Cutter(env.server, tcp=True) as line:
        port = line._where[1]
        with closing(opened(env.url(port=port), "laptop")) as store:

            def cut_off() -> None:
                with store.transaction() as transaction:
                    line.refuse()
                    transaction.state(env.session)

            with pytest.raises(Unreachable) as caught:
                cut_off()
            quiet_about_it(caught.value, overheard)
            with pytest.raises(Unreachable) as caught:
                store.version()
            quiet_about_it(caught.value, overheard)


def test_waiting_for_a_line_in_vain(
    env: Environment, overheard: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers, neither yes nor no: after a while that is said, and no more."""
    monkeypatch.setattr(connections, "_MAX_WAIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        with pytest.raises(Unreachable, match="does not answer") as caught:
            opened(env.url(port=port, more="&connect_timeout=2"), "x")
    quiet_about_it(caught.value, overheard)


def test_what_repeats_a_secret_is_not_passed_on() -> None:
    """Should libpq ever quote the password, its words are dropped whole: gaps would show where it stood."""
    error = psycopg.OperationalError(f"connection failed: bad thing near {MARK}")
    explained = errors.explain(error, "open the store", "postgresql://x", [MARK])
    assert explained is not None
    assert explained.message == "the server cannot be reached"
    harmless = errors.explain(error, "open the store", "postgresql://x", [PASSWORD])
    assert harmless is not None
    assert "bad thing" in harmless.message


def test_words_in_names_are_no_reasons() -> None:
    """A host called after what could be wrong does not make it so."""
    for host in ("ssl.example", "password.example"):
        message = f'connection failed: connection to server at "{host}", port 1 failed: Connection refused'
        explained = errors.explain(psycopg.OperationalError(message), "open the store", "x")
        assert explained is not None
        assert explained.message == "the server cannot be reached (Connection refused)"


# ── who the server is ────────────────────────────────────────────────────────────────────────────────────


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
def test_who_is_not_on_this_machine_proves_who_they_are(
    url: str, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the address says otherwise; libpq alone would talk to anybody."""
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    parameters = connections.connection_parameters(url)
    assert parameters.get("sslmode") == mode
    assert ("sslrootcert" in parameters) == (mode == "verify-full")


def test_the_environment_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said there is not overruled; and a host that is named there is as far away as any other."""
    monkeypatch.setenv("PGHOST", "db.example")
    assert connections.connection_parameters("postgresql:///team")["sslmode"] == "verify-full"
    monkeypatch.setenv("PGSSLROOTCERT", "/own.pem")
    assert "sslrootcert" not in connections.connection_parameters("postgresql:///team")
    monkeypatch.setenv("PGSSLMODE", "require")
    assert "sslmode" not in connections.connection_parameters("postgresql:///team")


class Front:
    """Answers at a port, in the clear or with TLS, and does with a line what `met` says."""

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
                self._threads.append(threading.Thread(target=self._talk, args=(line,), daemon=True))
                self._threads[-1].start()

    def _talk(self, line: socket.socket) -> None:
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
                self.met(line, begin)

    def met(self, line: socket.socket, begin: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)


class Proven(Front):
    """The server behind a certificate: what runs here was built without TLS of its own."""

    def __init__(self, server: Server, files: tuple[str, str]) -> None:
        self._port = server.port
        super().__init__(files)

    def met(self, line: socket.socket, begin: bytes) -> None:
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


def test_the_right_authority_is_accepted_and_another_is_not(
    env: Environment, overheard: pytest.LogCaptureFixture
) -> None:
    """T18: the certificate must be signed by who is named, and be made out to the host that was asked for."""
    with closing(Proven(env.server, env.authority.certified("server"))) as front:
        with closing(opened(env.url(port=front.port, more=env.proven(env.authority)), "laptop")) as store:
            note(store, env.session, "n 1")
            assert store.run_query(lambda pipeline: pipeline.connection.pgconn.ssl_in_use)
        with pytest.raises(Unreachable, match="did not prove who it is") as caught:
            opened(env.url(port=front.port, more=env.proven(env.stranger)), "laptop")
        quiet_about_it(caught.value, overheard)
        here = env.url(port=front.port, more=env.proven(env.authority))
        elsewhere = here.replace("@127.0.0.1", "@localhost")
        with pytest.raises(Unreachable, match="did not prove who it is"):
            opened(elsewhere, "laptop")


class Impostor(Front):
    """In the middle, with a certificate of its own: asks for the password in the clear, and keeps what comes."""

    heard = b""

    def met(self, line: socket.socket, begin: bytes) -> None:
        self.heard += begin + line.recv(4096)
        line.sendall(b"R" + (8).to_bytes(4) + (3).to_bytes(4))  # your password, please, as it is
        self.heard += line.recv(4096)


@pytest.mark.parametrize("kind", ["another authority", "another host", "no TLS"])
def test_nobody_in_the_middle_gets_the_password(env: Environment, kind: str) -> None:
    """T18: whoever cannot prove to be the server is told nothing: no password, and not even a name."""
    files = None
    if kind != "no TLS":
        theirs = kind == "another authority"
        files = env.stranger.certified("it") if theirs else env.authority.certified("next", "127.0.0.2")
    with closing(Impostor(files)) as impostor:
        with pytest.raises(Unreachable, match="no encryption" if files is None else "did not prove who it is"):
            opened(env.url(port=impostor.port, more=env.proven(env.authority)), "laptop")
        assert impostor.heard == b""
    with closing(Impostor(files)) as impostor:  # it would have been given to it
        with pytest.raises(Unreachable):
            opened(env.url(port=impostor.port, more="&sslmode=prefer"), "laptop")
        assert MARK.encode() in impostor.heard
