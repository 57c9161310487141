"""From a store's URL to what libpq is told, and what of it may be said.

Without a word in the URL, a server that is not on this machine must prove who it is: libpq alone would talk to anybody
who answers. Connections notice within seconds that the other side is gone, and never keep a lock for longer.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.core.errors import Invalid

PATIENCE: Final = 30.0  # seconds to wait for another writer; transactions last milliseconds
_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
# Of the server: one that sleeps with the right to write must not keep others waiting for ever.
_SETTINGS: Final = {
    "application_name": "holdfast",
    "lock_timeout": f"{int(PATIENCE * 1000)}",
    "idle_in_transaction_session_timeout": "60000",
    "client_min_messages": "error",
    "search_path": "pg_catalog,holdfast",
    "timezone": "UTC",
}
_NETWORK: Final = {
    "connect_timeout": "5", "keepalives": "1", "keepalives_idle": "10", "keepalives_interval": "5",
    "keepalives_count": "3", "tcp_user_timeout": "20000",
}  # fmt: skip


def vault_of(url: str) -> str | None:
    """The team that the URL names (`?vault=NAME`); None where there is just one."""
    return dict(parse_qsl(urlsplit(url).query)).get("vault")


def parameters(url: str, *, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """What psycopg connects with. A URL that libpq does not understand is never repeated: it may hold a password."""
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "vault"]
    plain = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(query)))
    try:
        found = {name: str(value) for name, value in conninfo_to_dict(plain).items() if value is not None}
    except psycopg.Error:
        raise Invalid(
            "the store's URL is not one that PostgreSQL understands",
            hint="It is postgresql://person@host:port/database; special characters in it are written as %XX.",
        ) from None
    told = {name: value for name, value in {**_NETWORK, **_proof(found), **found}.items() if value != ""}
    wanted = {**_SETTINGS, **(settings or {})}
    options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in wanted.items())
    told["options"] = f"{options} {found.get('options', '')}".strip()
    return told


def _proof(found: Mapping[str, str]) -> dict[str, str]:
    """How sure to be of the server, where the URL and the environment say nothing."""
    host = found.get("hostaddr", found.get("host", os.environ.get("PGHOST", "")))
    is_local = all(one in _LOCAL or one.startswith(("/", "@")) for one in host.split(","))
    if is_local or "sslmode" in found or "PGSSLMODE" in os.environ or "service" in found:
        return {}
    proof = {"sslmode": "verify-full"}
    if "sslrootcert" not in found and "PGSSLROOTCERT" not in os.environ:
        # What this machine trusts: the library that libpq brings along may look for it elsewhere.
        known = ssl.get_default_verify_paths().cafile
        proof["sslrootcert"] = known if known is not None else "system"
    return proof


def secrets_of(url: str) -> list[str]:
    """What must not be said: found in an error, it is cut out."""
    parts = urlsplit(url)
    found = [value for name, value in parse_qsl(parts.query) if "pass" in name]
    try:
        password = parts.password
    except ValueError:
        password = None
    if password:
        from urllib.parse import unquote

        found += [password, unquote(password)]
    return [one for one in found if one]
