"""Addresses: where a store is, as people write it down. A file of this machine, or a database on a server.

An address of a server may hold a password. It has two forms: `url`, which may be shown, logged and kept, and
`secret`, which goes nowhere but into the environment of our own processes and into private files. A URL is read by
the rules of libpq, and more strictly where another reading could take part of a password for what is shown.
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
_MAX_URL_LENGTH: Final = 4000  # characters: hooks read no more than that
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_HOST: Final = re.compile(r"(?!\.+\Z)[\w.:-]*|[/@].+")  # a name, a number, or where a socket is
_PORTS: Final = re.compile(r"[0-9,]*")
# What libpq takes, and what of that could be a secret: `options` can set anything, also what an extension keeps.
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
    "vault",  # which team of the database: our own word
})  # fmt: skip


class SqliteAddress(NamedTuple):
    """A file of this machine."""

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

    def is_there(self) -> bool:
        return os.path.lexists(self.path)

    def stamp(self) -> int | None:
        """Which file it is now, whatever it is called; None when it is gone, or cannot be looked at."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev << 128 | status.st_ino


class PostgresAddress(NamedTuple):
    """A database on a server. Shown, it is without its password, also where somebody shows it by mistake."""

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
        """Everything it says, the password too, by the names that libpq has for it; and our own, `vault`."""
        return _read(self.secret)

    @property
    def hides(self) -> bool:
        """Whether there is something in it that must not be seen."""
        return any(value for name, value in self.parameters.items() if name in _SECRETS)

    def is_there(self) -> bool:
        """Whether one can be opened is for the server to say."""
        return True

    def stamp(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"PostgresAddress({self.url!r})"


Address: TypeAlias = SqliteAddress | PostgresAddress


def address(url: str) -> Address:
    """The address that a URL names. What is refused is not repeated: nobody knows what stands in it."""
    if url.startswith(_SERVERS):
        _read(url)
        return PostgresAddress(url)
    if not url.startswith(_SQLITE):
        raise Invalid("that is not a kind of store", hint=_KINDS)
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
    here: Callable[[bool], str | None],
    renew: Callable[[], str] | None = None,
    patience: float | None = None,
) -> Store:
    """The store at an address. `here` is this installation's id: asked with True, it makes one if there is none.
    `renew` makes another writer, where this one's stream turns out to be another person's.
    `patience` is how many seconds a server may take to say something, for who cannot wait.
    """
    if isinstance(address, SqliteAddress):
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(address.path, writer=writer, wall=wall)
    from importlib.util import find_spec

    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        from holdfast.core.errors import missing_extra

        raise missing_extra("a store on a PostgreSQL server needs", "postgres", operation="open the store")
    from holdfast.store.postgres import PostgresStore

    return PostgresStore(address, writer=writer, wall=wall, here=here, renew=renew, patience=patience)


# ── reading the URL of a server ──────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=16)
def _read(url: str) -> Mapping[str, str]:
    """What a URL says, by the names that libpq has for it."""
    if len(url) > _MAX_URL_LENGTH:
        _refuse("it is too long")
    if not url.isprintable():
        _refuse("it holds characters that cannot be printed")
    rest = url.partition("://")[2]
    parameters: dict[str, str] = {}
    before, at, after = rest.partition("@")
    if at and "/" not in before:
        parameters["user"], _, parameters["password"] = (_plain(part) for part in before.partition(":"))
        rest = after
    if "@" in rest:
        _refuse("a stray @ is in it")
    where, _, query = rest.partition("?")
    hosts, _, database = where.partition("/")
    parameters["host"], parameters["port"] = _hosts(hosts)
    parameters["dbname"] = _plain(database)
    parameters = {name: value for name, value in parameters.items() if value}
    for pair in query.split("&") if query else ():
        name, equals, value = pair.partition("=")
        name = _plain(name)
        if not equals or "=" in value or name not in _SECRETS | _PUBLIC:
            _refuse("after its ? something stands that PostgreSQL has no name for")
        parameters[name] = _plain(value)
    if not all(_HOST.fullmatch(host) for host in parameters.get("host", "").split(",")):
        _refuse("its host can be none")
    if not _PORTS.fullmatch(parameters.get("port", "")):
        _refuse("its port is not a number")
    return parameters


def _hosts(written: str) -> tuple[str, str]:
    """The hosts and the ports of `host:port,[host]:port,…`, each with commas between them."""
    hosts, ports = [], []
    for name in written.split(","):
        if name.startswith("["):
            host, closed, port = name[1:].partition("]")
            if not host or not closed or port[:1] not in ("", ":"):
                _refuse("its host can be none")
            port = port[1:]
        else:
            host, _, port = name.partition(":")
        hosts.append(_plain(host))
        ports.append(port)
    return ",".join(hosts) if any(hosts) else "", ",".join(ports) if any(ports) else ""


def _plain(text: str) -> str:
    from urllib.parse import unquote

    if _BAD_ESCAPE.search(text):
        _refuse("a % in it begins no character: written as one, it is %25")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        _refuse("it is not UTF-8")


def _refuse(why: str) -> NoReturn:
    raise Invalid(
        f"the store's URL cannot be understood: {why}",
        hint="It is postgresql://USER:PASSWORD@HOST:PORT/DATABASE; in a password, @ is %40, / is %2F and % is %25.",
    ) from None


@lru_cache(maxsize=16)
def _shown(url: str) -> str:
    """The same without anything secret, written in one way however it was written before."""
    from urllib.parse import quote

    parameters = {name: value for name, value in _read(url).items() if value and name not in _SECRETS}
    user = quote(parameters.pop("user", ""), safe="")
    hosts, ports = parameters.get("host", "").split(","), parameters.get("port", "").split(",")
    where = ""
    if not any("/" in host or "@" in host for host in hosts) and len(ports) in (1, len(hosts)):
        if len(ports) < len(hosts):
            ports *= len(hosts)
        named = (f"[{host}]" if ":" in host else quote(host, safe="") for host in hosts)
        where = ",".join(f"{host}:{port}" if port else host for host, port in zip(named, ports, strict=True))
        parameters = {name: value for name, value in parameters.items() if name not in ("host", "port")}
    database = parameters.pop("dbname", "")
    query = "&".join(f"{name}={quote(parameters[name], safe='/,:')}" for name in sorted(parameters))
    return "".join((
        "postgresql://", f"{user}@" if user else "", where, f"/{quote(database, safe='')}" if database else "",
        f"?{query}" if query else "",
    ))  # fmt: skip
