"""What a person may want to know of the store they use: what it is, how they reach it, what they may do there."""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

import psycopg

from holdfast.store.postgres import schema
from holdfast.store.postgres.pipeline import Talk
from holdfast.store.postgres.store import PostgresStore

# A table that nobody has looked through yet has less than no rows.
_LOG: Final = (
    "SELECT count(*), count(*) FILTER (WHERE reltuples < 0), coalesce(sum(greatest(reltuples, 0)), 0)::bigint"
    " FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass)"
)
_PROVEN: Final = ("verify-ca", "verify-full")


class ServerInfo(NamedTuple):
    """Sizes are those of all vaults of the database; `events` is what the server estimates, None before it did."""

    server: str
    version: int
    vault: str
    person: str
    partitions: int
    events: int | None
    bytes: int
    # Whether this person is one whom row-level security does not bind.
    above: bool
    # Whether the line stays within this machine; whether it is encrypted, and the server had to prove itself.
    local: bool
    encrypted: bool
    proven: bool


def server_info(store: PostgresStore) -> ServerInfo:
    return store.asked(lambda talk: _looked(talk, store.vault), "look at the store")


def _looked(talk: Talk, vault: int) -> ServerInfo:
    above = talk.one("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = CURRENT_USER")
    sizes = talk.one(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c"
        " WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r'"
    )
    ((partitions, unknown, events),) = talk.ask(_LOG)
    encrypted = talk.line.pgconn.ssl_in_use
    return ServerInfo(
        server=str(talk.one("SHOW server_version")),
        version=schema.version_of(talk.line),
        vault=str(talk.one("SELECT name FROM holdfast.mine WHERE vault = %s", (vault,))),
        person=str(talk.one("SELECT CURRENT_USER::text")),
        partitions=int(partitions),
        events=None if unknown else int(events),
        bytes=int(sizes),
        above=bool(above),
        local=_is_local(talk.line.info),
        encrypted=encrypted,
        proven=encrypted and talk.line.info.get_parameters().get("sslmode") in _PROVEN,
    )


def _is_local(info: psycopg.ConnectionInfo) -> bool:
    """A socket, or an address that no other machine has."""
    if info.host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(info.hostaddr).is_loopback
    except (ValueError, psycopg.NotSupportedError):
        return False
