"""A member's view of the store: its facts, the connection, the other members, who sees a session.

The owner of a session shares it, as the person they are; the server checks that once more.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from holdfast.core.errors import Invalid, NotFound, Refused
from holdfast.store.interface import ShareGrant, StoreInfo
from holdfast.store.postgres import schema
from holdfast.store.postgres.pipeline import StatementPipeline

if TYPE_CHECKING:
    from holdfast.store.postgres.store import PostgresStore

# `reltuples` is negative until a table was analyzed.
_LOG: Final = (
    "SELECT count(*), count(*) FILTER (WHERE reltuples < 0), coalesce(sum(greatest(reltuples, 0)), 0)::bigint"
    " FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'holdfast.events'::regclass)"
)
_PROVEN: Final = ("verify-ca", "verify-full")


def server_info(store: PostgresStore) -> StoreInfo:
    return store.run_query(lambda pipeline: _read_info(pipeline, store.vault), "look at the store")


def _read_info(pipeline: StatementPipeline, vault: int) -> StoreInfo:
    bypasses = pipeline.value("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = CURRENT_USER")
    sizes = pipeline.value(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c"
        " WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r'"
    )
    ((partitions, unknown, events),) = pipeline.query(_LOG)
    encrypted = pipeline.connection.pgconn.ssl_in_use
    return StoreInfo(
        server=str(pipeline.value("SHOW server_version")),
        version=schema.version_of(pipeline.connection),
        vault=str(pipeline.value("SELECT name FROM holdfast.mine WHERE vault = %s", (vault,))),
        person=str(pipeline.value("SELECT CURRENT_USER::text")),
        partitions=int(partitions),
        events=None if unknown else int(events),
        bytes=int(sizes),
        above=bool(bypasses),
        local=_is_local(pipeline.connection.info),
        encrypted=encrypted,
        proven=encrypted and pipeline.connection.info.get_parameters().get("sslmode") in _PROVEN,
    )


def _is_local(info: psycopg.ConnectionInfo) -> bool:
    """A socket, or an address that no other machine has."""
    if info.host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(info.hostaddr).is_loopback
    except (ValueError, psycopg.NotSupportedError):
        return False


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────


_RIGHTS: Final = {False: "read", True: "write"}


class _SharedSession(NamedTuple):
    ref: int
    owner: str
    everyone: str
    myself: str


class PostgresTeam:
    """The people of a vault, and the shares of its sessions."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def people(self) -> list[str]:
        return self._store.run_query(lambda pipeline: _people(pipeline, self._store.vault))

    def shares(self, session: str) -> list[ShareGrant]:
        def read_shares(pipeline: StatementPipeline) -> list[ShareGrant]:
            shared = _shared_session(pipeline, self._store, session)
            rows = pipeline.query(
                "SELECT person, writes FROM holdfast.shares WHERE session = %s ORDER BY person", (shared.ref,)
            )
            everyone = [ShareGrant(None, shared.everyone == _RIGHTS[True])] if shared.everyone else []
            return everyone + [ShareGrant(str(person), bool(writes)) for person, writes in rows]

        return self._store.run_query(read_shares)

    def share(self, session: str, person: str | None, writes: bool) -> None:
        with self._store.transaction():
            pipeline = _active_pipeline(self._store)
            shared = _own_session(pipeline, self._store, session)
            if person is None:
                pipeline.send(
                    "UPDATE holdfast.sessions SET everyone = %s WHERE ref = %s", (_RIGHTS[writes], shared.ref)
                )
                return
            if person == shared.myself:
                raise Invalid("the session is yours already", hint="Name another member.", session=session)
            people = _people(pipeline, self._store.vault)
            if person not in people:
                others = ", ".join(name for name in people if name != shared.myself)
                hint = f"Others are: {others}" if others else "There are no others yet: holdfast store admit PERSON"
                raise NotFound(f"{person!a} is not a member of this vault", hint=hint, session=session)
            pipeline.send(
                "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT (session, person) DO UPDATE SET writes = excluded.writes",
                (shared.ref, self._store.vault, person, writes),
            )

    def unshare(self, session: str, person: str | None) -> None:
        with self._store.transaction():
            pipeline = _active_pipeline(self._store)
            shared = _own_session(pipeline, self._store, session)
            if person is None:
                if not shared.everyone:
                    raise NotFound("the session is not shared with everyone", session=session)
                pipeline.send("UPDATE holdfast.sessions SET everyone = '' WHERE ref = %s", (shared.ref,))
                return
            sql = "DELETE FROM holdfast.shares WHERE session = %s AND person = %s RETURNING 1"
            if pipeline.value(sql, (shared.ref, person)) is None:
                raise NotFound(
                    f"the session is not shared with {person!a}",
                    hint="Everyone may see it: holdfast store unshare ID --everyone" if shared.everyone else None,
                    session=session,
                )


def _people(pipeline: StatementPipeline, vault: int) -> list[str]:
    rows = pipeline.query("SELECT person FROM holdfast.teammates WHERE vault = %s ORDER BY person", (vault,))
    return [str(person) for (person,) in rows]


def _active_pipeline(store: PostgresStore) -> StatementPipeline:
    assert store.active is not None
    return store.active


def _shared_session(pipeline: StatementPipeline, store: PostgresStore, session: str) -> _SharedSession:
    sql = "SELECT ref, owner, everyone, CURRENT_USER::text FROM holdfast.sessions WHERE vault = %s AND id = %s"
    for row in pipeline.query(sql, (store.vault, session)):
        return _SharedSession(*row)
    raise NotFound("there is no such session", session=session)


def _own_session(pipeline: StatementPipeline, store: PostgresStore, session: str) -> _SharedSession:
    shared = _shared_session(pipeline, store, session)
    if shared.owner != shared.myself:
        raise Refused("only its owner can share a session", hint=f"Ask {shared.owner!a}.", session=session)
    return shared
