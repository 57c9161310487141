"""Addresses of stores, as people write them: a file on this machine, or a database on a server.

The address of a server may hold a password. It has two forms: `url`, which may be shown, logged and stored, and
`secret`, which goes only into the environment of our own processes and into private files. A URL is parsed by the
rules of libpq, and more strictly where another reading could show part of a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn, TypeAlias

from holdfast.core.errors import Invalid

if TYPE_CHECKING:
    from holdfast.store.interface import Store

_SQLITE: Final = "sqlite:///"
_SERVERS: Final = ("postgresql://", "postgres://")
_KINDS: Final = "HOLDFAST_STORE is sqlite:///PATH or postgresql://USER@HOST/DATABASE."
_MAX_URL_LENGTH: Final = 4000  # hooks read no more than that
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_HOST: Final = re.compile(r"(?!\.+\Z)[\w.:-]*|[/@].+")  # a name, an IP address, or the path of a socket
_PORTS: Final = re.compile(r"[0-9,]*")
# The parameters of libpq, and those of them that could hold a secret: `options` can set anything.
_SECRETS: Final = frozenset({
    "password", "passfile", "sslpassword", "options", "scram_client_key", "scram_server_key", "oauth_client_secret",
})  # fmt: skip
_PUBLIC: Final = frozenset({
    "user", "host", "hostaddr", "port", "dbname", "service", "servicefile", "application_name",
    "fallback_application_name", "client_encoding", "connect_timeout", "target_session_attrs", "load_balance_hosts",
    "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "replication",
    "ssl", "sslmode", "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslcertmode", "sslrootcert", "sslcrl",
    "sslcrldir", "sslsni", "sslkeylogfile", "ssl_min_protocol_version", "ssl_max_protocol_version",
    "min_protocol_version", "max_protocol_version", "channel_binding", "require_auth", "requirepeer", "gssencmode",
    "krbsrvname", "gsslib", "gssdelegation", "oauth_issuer", "oauth_client_id", "oauth_scope",
    "vault",  # Holdfast's own parameter: which team of the database
})  # fmt: skip


class SqliteAddress(NamedTuple):
    """A file on this machine."""

    path: str

    @property
    def kind(self) -> Literal["sqlite"]:
        return "sqlite"

    @property
    def url(self) -> str:
        return _SQLITE + self.path

    @property
    def secret(self) -> str:
        return self.url

    @property
    def key(self) -> str:
        return self.path

    @property
    def hides(self) -> bool:
        return False

    @property
    def server(self) -> None:
        return None

    def is_there(self) -> bool:
        return os.path.lexists(self.path)

    def stamp(self) -> int | None:
        """Identifies the file that has this name now; None when there is none, or it cannot be read."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev << 128 | status.st_ino


class PostgresAddress(NamedTuple):
    """A database on a server. Its `repr` has no password either."""

    secret: str

    @property
    def kind(self) -> Literal["postgresql"]:
        return "postgresql"

    @property
    def path(self) -> None:
        return None

    @property
    def url(self) -> str:
        return _shown(self.secret)

    @property
    def key(self) -> str:
        return _shown(self.secret)

    @property
    def parameters(self) -> Mapping[str, str]:
        """Everything in the URL, the password included, by libpq's names; and our own, `vault`."""
        return _read(self.secret)

    @property
    def server(self) -> PostgresAddress:
        """The address of a server, which has members and an administrator; None for a file."""
        return self

    @property
    def hides(self) -> bool:
        """Whether it contains a secret."""
        return any(value for name, value in self.parameters.items() if name in _SECRETS)

    def is_there(self) -> bool:
        """Only the server knows."""
        return True

    def stamp(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"PostgresAddress({self.url!r})"


Address: TypeAlias = SqliteAddress | PostgresAddress


def address(url: str) -> Address:
    """The address that a URL names. A refused URL is not repeated: it may hold a password."""
    if url.startswith(_SERVERS):
        _read(url)
        return PostgresAddress(url)
    if not url.startswith(_SQLITE):
        raise Invalid("unknown store type", hint=_KINDS)
    path = url.removeprefix("sqlite://")
    if path.startswith("/") and os.name == "nt" and path[2:3] == ":":
        path = path[1:]
    if len(path) < 2 or "\0" in path:
        raise Invalid("the store's URL names no file", hint="For instance sqlite:////home/me/holdfast.db")
    return SqliteAddress(os.path.abspath("/" + path.lstrip("/") if os.name != "nt" else path))


def open_store(
    address: Address,
    *,
    writer: Callable[[], str],
    wall: Callable[[], int],
    installation: Callable[[bool], str | None],
    renew: Callable[[], str] | None = None,
    patience: float | None = None,
) -> Store:
    """Open the store at an address.

    `installation` returns this installation's id; with True, it creates one if there is none. `renew` creates another
    writer when this one's stream turns out to be another person's. A server may take `patience` seconds.
    """
    if isinstance(address, SqliteAddress):
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(address.path, writer=writer, wall=wall)
    from importlib.util import find_spec

    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        from holdfast.core.errors import missing_extra

        raise missing_extra("a store on a PostgreSQL server", "postgres", operation="open the store")
    from holdfast.store.postgres import PostgresStore

    return PostgresStore(address, writer=writer, wall=wall, installation=installation, renew=renew, patience=patience)


# ── parsing the URL of a server ──────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=16)
def _read(url: str) -> Mapping[str, str]:
    """The parameters in a URL, by libpq's names."""
    if len(url) > _MAX_URL_LENGTH:
        _refuse("it is too long")
    if not url.isprintable():
        _refuse("it contains unprintable characters")
    rest = url.partition("://")[2]
    parameters: dict[str, str] = {}
    before, at, after = rest.partition("@")
    if at and "/" not in before:
        parameters["user"], _, parameters["password"] = (_plain(part) for part in before.partition(":"))
        rest = after
    if "@" in rest:
        _refuse("unexpected @")
    location, _, query = rest.partition("?")
    hosts, _, database = location.partition("/")
    parameters["host"], parameters["port"] = _hosts(hosts)
    parameters["dbname"] = _plain(database)
    parameters = {name: value for name, value in parameters.items() if value}
    for pair in query.split("&") if query else ():
        name, equals, value = pair.partition("=")
        name = _plain(name)
        if not equals or "=" in value or name not in _SECRETS | _PUBLIC:
            _refuse("unknown parameter after the ?")
        parameters[name] = _plain(value)
    if not all(_HOST.fullmatch(host) for host in parameters.get("host", "").split(",")):
        _refuse("invalid host")
    if not _PORTS.fullmatch(parameters.get("port", "")):
        _refuse("its port is not a number")
    return parameters


def _hosts(text: str) -> tuple[str, str]:
    """The hosts and the ports of `host:port,[host]:port,…`, each with commas between them."""
    hosts, ports = [], []
    for name in text.split(","):
        if name.startswith("["):
            host, bracket, port = name[1:].partition("]")
            if not host or not bracket or port[:1] not in ("", ":"):
                _refuse("invalid host")
            port = port[1:]
        else:
            host, _, port = name.partition(":")
        hosts.append(_plain(host))
        ports.append(port)
    return ",".join(hosts) if any(hosts) else "", ",".join(ports) if any(ports) else ""


def _plain(text: str) -> str:
    from urllib.parse import unquote

    if _BAD_ESCAPE.search(text):
        _refuse("a % that starts no escape; write %25 for a plain %")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        _refuse("it is not UTF-8")


def _refuse(reason: str) -> NoReturn:
    raise Invalid(
        f"invalid store URL: {reason}",
        hint="It is postgresql://USER:PASSWORD@HOST:PORT/DATABASE; in a password, @ is %40, / is %2F and % is %25.",
    ) from None


@lru_cache(maxsize=16)
def _shown(url: str) -> str:
    """The URL without secrets, in one canonical form."""
    from urllib.parse import quote

    parameters = {name: value for name, value in _read(url).items() if value and name not in _SECRETS}
    user = quote(parameters.pop("user", ""), safe="")
    hosts, ports = parameters.get("host", "").split(","), parameters.get("port", "").split(",")
    location = ""
    if not any("/" in host or "@" in host for host in hosts) and len(ports) in (1, len(hosts)):
        if len(ports) < len(hosts):
            ports *= len(hosts)
        named = (f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts)
        location = ",".join(f"{host}:{port}" if port else host for host, port in zip(named, ports, strict=True))
        parameters = {name: value for name, value in parameters.items() if name not in ("host", "port")}
    database = parameters.pop("dbname", "")
    query = "&".join(f"{name}={quote(parameters[name], safe='/,:')}" for name in sorted(parameters))
    return "".join((
        "postgresql://", f"{user}@" if user else "", location, f"/{quote(database, safe='')}" if database else "",
        f"?{query}" if query else "",
    ))  # fmt: skip
