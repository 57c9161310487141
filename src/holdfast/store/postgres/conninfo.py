"""From a store's URL to what libpq is told, and what of it may be said.

Without a word in the URL, a server that is not on this machine must prove who it is: libpq alone would talk to
anybody who answers. Connections notice within seconds that the other side is gone, and never keep a lock for longer.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from holdfast.core.errors import Invalid
from holdfast.store.address import PostgresAddress

PATIENCE: Final = 30.0  # seconds to wait for another writer; transactions last milliseconds
_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
# Of the server: one that sleeps with the right to write must not keep others waiting for ever.
_SETTINGS: Final = {
    "application_name": "holdfast",
    "lock_timeout": f"{int(PATIENCE * 1000)}",
    "idle_in_transaction_session_timeout": "60000",
    "client_min_messages": "error",
    "search_path": "pg_catalog,holdfast",
    # There are no statistics of texts (see rights.sql): planning anew for each value finds nothing better.
    "plan_cache_mode": "force_generic_plan",
    "timezone": "UTC",
    # The server, too, notices that the other side is gone; where its system cannot, it goes without.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_NETWORK: Final = {
    "connect_timeout": "5", "keepalives": "1", "keepalives_idle": "10", "keepalives_interval": "5",
    "keepalives_count": "3", "tcp_user_timeout": "20000",
}  # fmt: skip
_SECRET: Final = frozenset({"password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret"})


def vault_of(url: str) -> str | None:
    """The team that the URL names (`?vault=NAME`); None where there is just one."""
    return PostgresAddress(url).parameters.get("vault")


def parameters(url: str, *, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """What psycopg connects with. A URL that libpq does not understand is never repeated: it may hold a password."""
    given = {name: value for name, value in PostgresAddress(url).parameters.items() if name != "vault"}
    if given.pop("ssl", "") == "true":  # as others write it
        given.setdefault("sslmode", "require")
    options = {name: value for name, value in {**_NETWORK, **given, **_proof(given)}.items() if value != ""}
    wanted = {**_SETTINGS, **(settings or {})}
    settings_options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in wanted.items())
    options["options"] = f"{settings_options} {given.get('options', '')}".strip()
    try:
        make_conninfo(**options)
    except psycopg.Error:
        raise Invalid(
            "the store's URL is not one that PostgreSQL understands",
            hint="It is postgresql://person@host:port/database; special characters in it are written as %XX.",
        ) from None
    return options


def _proof(given: Mapping[str, str]) -> dict[str, str]:
    """How sure to be of the server, where the URL and the environment say nothing."""
    asked = (given.get("hostaddr"), given.get("host"), os.environ.get("PGHOSTADDR"), os.environ.get("PGHOST"))
    host = next(filter(None, asked), "")
    is_local = all(name in _LOCAL or name.startswith(("/", "@")) for name in host.split(","))
    if is_local or given.get("sslmode") or os.environ.get("PGSSLMODE") or given.get("service"):
        return {}
    proof = {"sslmode": "verify-full"}
    if not given.get("sslrootcert") and not os.environ.get("PGSSLROOTCERT"):
        # What this machine trusts: the library that libpq brings along may look for it elsewhere.
        proof["sslrootcert"] = ssl.get_default_verify_paths().cafile or "system"
    return proof


def secrets_of(url: str) -> list[str]:
    """What must not be said: words in which it is found are not passed on."""
    return [value for name, value in PostgresAddress(url).parameters.items() if value and name in _SECRET]
