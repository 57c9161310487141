"""Who belongs to a vault, and who may see a session that is not theirs."""

from __future__ import annotations

from typing import NamedTuple

from psycopg import sql

from holdfast.core.errors import NotFound
from holdfast.store.postgres.lines import Line
from holdfast.store.postgres.schema import GROUP

DEFAULT_VAULT = "team"


class Share(NamedTuple):
    """Whom a session is shared with; nobody in particular means every member of its vault."""

    person: str | None
    writes: bool


def make_vault(line: Line, name: str) -> int:
    """The number of a vault, made if there is none of this name."""
    found = line.execute(
        "INSERT INTO holdfast.vaults (name) VALUES (%s) ON CONFLICT (name) DO UPDATE SET name = excluded.name"
        " RETURNING ref",
        (name,),
    ).fetchone()
    assert found is not None
    return int(found[0])


def admit(line: Line, vault: int, person: str) -> bool:
    """Let a person into a vault; False when they were in it. Their role must be there."""
    if line.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (person,)).fetchone() is None:
        raise NotFound(f"the server knows no person {person!a}", hint="Make the role first: CREATE ROLE name LOGIN")
    with line.transaction():
        if line.execute("SELECT pg_has_role(%s, %s, 'member')", (person, GROUP)).fetchone() != (True,):
            line.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(GROUP), sql.Identifier(person)))
        made = line.execute(
            "INSERT INTO holdfast.members (vault, person) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1",
            (vault, person),
        ).fetchone()
    return made is not None


def dismiss(line: Line, vault: int, person: str) -> None:
    """What a person made stays in the vault; they see nothing of it any more."""
    gone = line.execute(
        "DELETE FROM holdfast.members WHERE vault = %s AND person = %s RETURNING 1", (vault, person)
    ).fetchone()
    if gone is None:
        raise NotFound(f"{person!a} is no member")


def members(line: Line, vault: int) -> list[str]:
    rows = line.execute("SELECT person FROM holdfast.teammates WHERE vault = %s ORDER BY person", (vault,))
    return [str(person) for (person,) in rows]
