"""What the owner of the database does: set the store up, admit people, partition the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from holdfast.core.errors import Invalid, NotFound
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import conninfo, errors, rights, schema
from holdfast.store.postgres.pool import Line


class InitResult(NamedTuple):
    """What `init` did, in sentences, and the vault it was about."""

    vault: str
    done: list[str]


@contextmanager
def connected(address: PostgresAddress, operation: str) -> Iterator[Line]:
    """A line of one's own, and errors in a person's words."""
    try:
        # Making indexes and dividing the log may take its time, and others may be at work.
        settings = {"lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}
        with psycopg.connect(**conninfo.parameters(address.secret, settings=settings), autocommit=True) as line:  # type: ignore[arg-type]
            yield line
    except (psycopg.Error, MemoryError) as error:
        hidden = conninfo.secrets_of(address.secret)
        raise (errors.spoken(error, operation, address.url, hidden) or error) from None


def init(address: PostgresAddress, *, admit: Sequence[str] = (), partitions: int | None = None) -> InitResult:
    """Make the store or bring it up to date, make the vault that the URL names, and let people in.

    Whoever does this is let in too. Doing it again does no harm.
    """
    vault = conninfo.vault_of(address.secret) or rights.DEFAULT_VAULT
    with connected(address, errors.SET_UP) as line:
        done = schema.make(line, address.url, partitions=partitions)
        with line.transaction():
            ref = rights.make_vault(line, vault)
            myself = line.execute("SELECT CURRENT_USER::text").fetchone()
            for person in dict.fromkeys([str(myself[0]) if myself else "", *admit]):
                if rights.admit(line, ref, person):
                    done.append(f"admitted {person}")
    return InitResult(vault, done)


def _vault(line: Line, address: PostgresAddress) -> int:
    schema.refuse_others(schema.version_of(line), address.url)
    named = conninfo.vault_of(address.secret)
    vaults = line.execute("SELECT ref, name FROM holdfast.vaults ORDER BY ref").fetchall()
    if named is None and len(vaults) > 1:
        raise Invalid("the store has several vaults", hint="Say which: ?vault=NAME", file=address.url)
    for ref, name in vaults:
        if named in (None, name):
            return int(ref)
    raise NotFound("there is no such vault", hint=errors.INIT, file=address.url)


def admit(address: PostgresAddress, person: str) -> bool:
    with connected(address, "admit a person") as line:
        return rights.admit(line, _vault(line, address), person)


def dismiss(address: PostgresAddress, person: str) -> None:
    with connected(address, "dismiss a person") as line:
        rights.dismiss(line, _vault(line, address), person)


def hand_over(address: PostgresAddress, person: str, to: str) -> int:
    """Give what somebody left behind, who was dismissed, to a member; how many sessions that were."""
    with connected(address, "hand over sessions") as line:
        return rights.hand_over(line, _vault(line, address), person, to)


def divide(address: PostgresAddress, parts: int) -> int:
    """Divide the log into so many parts; gives how many there were."""
    with connected(address, "divide the log") as line:
        schema.refuse_others(schema.version_of(line), address.url)
        before = schema.partitions(line)
        if before != parts:
            schema.divide(line, parts)
        return before
