"""What the owner of the database does: set the store up, admit and dismiss members, partition the log.

What members may do is written in sql/rights.sql.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg import sql

from holdfast.core.errors import Conflict, Invalid, NotFound, Refused
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import connections, errors, schema
from holdfast.store.postgres.connections import Connection
from holdfast.store.postgres.schema import GROUP

DEFAULT_VAULT: Final = "team"
_INHERIT_OPTION: Final = 160000  # since this version, a grant says whether it is inherited
# Row-level security binds the owner of the tables too, except while this setting is on (rights.sql).
_AS_OWNER: Final = "SELECT set_config('holdfast.administering', 'on', true)"


class InitResult(NamedTuple):
    """What `init` did, in sentences, and in which vault."""

    vault: str
    done: list[str]


@contextmanager
def connected(address: PostgresAddress, operation: str) -> Iterator[Connection]:
    """A connection outside of the pool, with errors that tell a person what to do."""
    try:
        # Building indexes and dividing the log may take long, and others may be at work.
        settings = {"lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}
        parameters = connections.connection_parameters(address.secret, settings=settings)
        with psycopg.connect(**parameters, autocommit=True) as connection:  # type: ignore[arg-type]
            yield connection
    except (psycopg.Error, MemoryError) as error:
        hidden = connections.secrets_of(address.secret)
        raise (errors.explain(error, operation, address.url, hidden) or error) from None


def init(address: PostgresAddress, *, admit: Sequence[str] = (), partitions: int | None = None) -> InitResult:
    """Create or upgrade the store, create the vault that the URL names, and admit people, the caller among them.

    Doing it again does no harm.
    """
    vault = connections.vault_of(address.secret) or DEFAULT_VAULT
    with connected(address, errors.SET_UP) as connection:
        done = schema.make(connection, address.url, partitions=partitions)
        with connection.transaction():
            ref = make_vault(connection, vault)
            myself = connection.execute("SELECT CURRENT_USER::text").fetchone()
            for person in dict.fromkeys([str(myself[0]) if myself else "", *admit]):
                if admit_to_vault(connection, ref, person):
                    done.append(f"admitted {person}")
    return InitResult(vault, done)


def _vault(connection: Connection, address: PostgresAddress) -> int:
    schema.refuse_other_versions(schema.version_of(connection), address.url)
    named = connections.vault_of(address.secret)
    vaults = connection.execute("SELECT ref, name FROM holdfast.vaults ORDER BY ref").fetchall()
    if named is None and len(vaults) > 1:
        raise Invalid("the store has several vaults", hint="Say which: ?vault=NAME", file=address.url)
    for ref, name in vaults:
        if named in (None, name):
            return int(ref)
    raise NotFound("there is no such vault", hint=errors.INIT, file=address.url)


def admit(address: PostgresAddress, person: str) -> bool:
    with connected(address, "admit a person") as connection:
        return admit_to_vault(connection, _vault(connection, address), person)


def dismiss(address: PostgresAddress, person: str) -> None:
    with connected(address, "dismiss a person") as connection:
        dismiss_from_vault(connection, _vault(connection, address), person)


def hand_over(address: PostgresAddress, person: str, to: str) -> int:
    """Give the sessions of a dismissed person to a member; returns how many they were."""
    with connected(address, "hand over sessions") as connection:
        return hand_over_sessions(connection, _vault(connection, address), person, to)


def repartition(address: PostgresAddress, parts: int) -> int:
    """Divide the log into so many partitions; returns how many there were."""
    with connected(address, "divide the log") as connection:
        schema.refuse_other_versions(schema.version_of(connection), address.url)
        before = schema.partitions(connection)
        if before != parts:
            schema.repartition(connection, parts)
        return before


# ── vaults and members ───────────────────────────────────────────────────────────────────────────────────


def make_vault(connection: Connection, name: str) -> int:
    """The number of the vault with this name, created if there is none."""
    row = connection.execute(
        "INSERT INTO holdfast.vaults (name) VALUES (%s) ON CONFLICT (name) DO UPDATE SET name = excluded.name"
        " RETURNING ref",
        (name,),
    ).fetchone()
    assert row is not None
    return int(row[0])


def admit_to_vault(connection: Connection, vault: int, person: str) -> bool:
    """Admit a person, whose role must exist, to a vault; False when they are in it already."""
    if person == GROUP:
        raise Invalid(f"{GROUP} is the role of all members, not a person: each of them could act as it")
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (person,)).fetchone() is None:
        raise NotFound(f"the server has no role {person!a}", hint="Create it first: CREATE ROLE name LOGIN")
    with connection.transaction():
        _let_into_group(connection, person)
        made = connection.execute(
            "INSERT INTO holdfast.members (vault, person) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1",
            (vault, person),
        ).fetchone()
    return made is not None


def _has_rights(connection: Connection, person: str) -> bool:
    """Whether they have the group's rights: who created the group is in it, but may not inherit from it."""
    return connection.execute("SELECT pg_has_role(%s, %s, 'usage')", (person, GROUP)).fetchone() == (True,)


def _let_into_group(connection: Connection, person: str) -> None:
    if _has_rights(connection, person):
        return
    grant = sql.SQL("GRANT {} TO {}").format(sql.Identifier(GROUP), sql.Identifier(person))
    if connection.info.server_version >= _INHERIT_OPTION:
        grant += sql.SQL(" WITH INHERIT TRUE")
    try:
        connection.execute(grant)
    except pg.InsufficientPrivilege:
        raise Refused(
            f"this role may not add members to {GROUP}",
            hint=f"Ask the creator of that role to allow it: GRANT {GROUP} TO name WITH ADMIN OPTION",
        ) from None
    if not _has_rights(connection, person):
        raise Refused(f"{person!a} does not inherit rights", hint="ALTER ROLE name INHERIT, then admit them again.")


def dismiss_from_vault(connection: Connection, vault: int, person: str) -> None:
    """Remove a person from a vault. Their sessions stay in it; their shares end, also if they are admitted again.

    They stay in the group, which belongs to the whole server: another database may have admitted them. Without a
    vault, the group shows them nothing.
    """
    with connection.transaction():
        removed = connection.execute(
            "DELETE FROM holdfast.members WHERE vault = %s AND person = %s RETURNING 1", (vault, person)
        ).fetchone()
        if removed is None:
            raise NotFound(f"{person!a} is not a member")
        connection.execute(_AS_OWNER)
        connection.execute("DELETE FROM holdfast.shares WHERE vault = %s AND person = %s", (vault, person))


def hand_over_sessions(connection: Connection, vault: int, person: str, to: str) -> int:
    """Give the sessions of a dismissed person to a member; returns how many they were. Shares stay as they are."""
    with connection.transaction():
        rows = connection.execute("SELECT person FROM holdfast.members WHERE vault = %s", (vault,)).fetchall()
        members = {str(row) for (row,) in rows}
        if person in members:
            raise Conflict(
                f"{person!a} is still a member and keeps their sessions",
                hint="Dismiss them first: holdfast store dismiss",
            )
        if to not in members:
            raise NotFound(f"{to!a} is not a member", hint="Admit them first: holdfast store admit")
        connection.execute(_AS_OWNER)
        connection.execute(
            "DELETE FROM holdfast.shares WHERE vault = %s AND owner = %s AND person = %s", (vault, person, to)
        )
        # A new place makes everybody's change feed look again.
        count = connection.execute(
            "UPDATE holdfast.sessions SET owner = %s, latest = nextval('holdfast.places')"
            " WHERE vault = %s AND owner = %s",
            (to, vault, person),
        ).rowcount
        # Evidence of projects is visible to those who see sessions of the person who recorded it (rights.sql).
        connection.execute(
            "INSERT INTO holdfast.projects (vault, person, id, name) SELECT vault, %s, id, name"
            " FROM holdfast.projects WHERE vault = %s AND person = %s ON CONFLICT DO NOTHING",
            (to, vault, person),
        )
        connection.execute(
            "INSERT INTO holdfast.evidence (vault, kind, value, project, person)"
            " SELECT vault, kind, value, project, %s FROM holdfast.evidence"
            " WHERE vault = %s AND person = %s AND installation = 0 ON CONFLICT DO NOTHING",
            (to, vault, person),
        )
        connection.execute("SELECT pg_notify(%s, '')", (f"holdfast_{vault}",))
    return count
