"""Who belongs to a vault: done by whoever owns the tables. What members may do is said in sql/rights.sql."""

from __future__ import annotations

from typing import Final

from psycopg import errors as pg
from psycopg import sql

from holdfast.core.errors import Conflict, Invalid, NotFound, Refused
from holdfast.store.postgres.pool import Line
from holdfast.store.postgres.schema import GROUP

DEFAULT_VAULT: Final = "team"
_SINCE_INHERIT: Final = 160000  # from here on a grant says for itself whether it is inherited
# The rules of rows bind the owner of the tables as everybody; this says that they act as their owner now.
_AS_OWNER: Final = "SELECT set_config('holdfast.administering', 'on', true)"


def make_vault(line: Line, name: str) -> int:
    """The number of a vault, made if there is none of this name."""
    row = line.execute(
        "INSERT INTO holdfast.vaults (name) VALUES (%s) ON CONFLICT (name) DO UPDATE SET name = excluded.name"
        " RETURNING ref",
        (name,),
    ).fetchone()
    assert row is not None
    return int(row[0])


def admit(line: Line, vault: int, person: str) -> bool:
    """Let a person into a vault; False when they were in it. Their role must be there."""
    if person == GROUP:
        raise Invalid(f"{GROUP} is all members, not one of them: whoever is in it could be it")
    if line.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (person,)).fetchone() is None:
        raise NotFound(f"the server knows no person {person!a}", hint="Make the role first: CREATE ROLE name LOGIN")
    with line.transaction():
        _let_into_group(line, person)
        made = line.execute(
            "INSERT INTO holdfast.members (vault, person) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1",
            (vault, person),
        ).fetchone()
    return made is not None


def _has_rights(line: Line, person: str) -> bool:
    """Whether the group's rights are theirs: whoever made the group is in it, but need not have them."""
    return line.execute("SELECT pg_has_role(%s, %s, 'usage')", (person, GROUP)).fetchone() == (True,)


def _let_into_group(line: Line, person: str) -> None:
    if _has_rights(line, person):
        return
    grant = sql.SQL("GRANT {} TO {}").format(sql.Identifier(GROUP), sql.Identifier(person))
    if line.info.server_version >= _SINCE_INHERIT:
        grant += sql.SQL(" WITH INHERIT TRUE")
    try:
        line.execute(grant)
    except pg.InsufficientPrivilege:
        raise Refused(
            f"this role may not let people into {GROUP}",
            hint=f"Whoever made that role lets it: GRANT {GROUP} TO name WITH ADMIN OPTION",
        ) from None
    if not _has_rights(line, person):
        raise Refused(f"{person!a} does not inherit rights", hint="ALTER ROLE name INHERIT, then admit them again.")


def dismiss(line: Line, vault: int, person: str) -> None:
    """What a person made stays in the vault; they see nothing of it any more, nor when they are admitted again.

    They stay in the group: it is the whole server's, and another database of it may have admitted them. Without a
    vault it shows them nothing.
    """
    with line.transaction():
        removed = line.execute(
            "DELETE FROM holdfast.members WHERE vault = %s AND person = %s RETURNING 1", (vault, person)
        ).fetchone()
        if removed is None:
            raise NotFound(f"{person!a} is not a member")
        line.execute(_AS_OWNER)
        line.execute("DELETE FROM holdfast.shares WHERE vault = %s AND person = %s", (vault, person))


def hand_over(line: Line, vault: int, person: str, to: str) -> int:
    """Give the sessions of somebody who was dismissed to a member; how many they were. Who shared them still does."""
    with line.transaction():
        rows = line.execute("SELECT person FROM holdfast.members WHERE vault = %s", (vault,)).fetchall()
        members = {str(row) for (row,) in rows}
        if person in members:
            raise Conflict(
                f"{person!a} is a member: their sessions are theirs",
                hint="Dismiss them first: holdfast store dismiss",
            )
        if to not in members:
            raise NotFound(f"{to!a} is not a member", hint="Admit them first: holdfast store admit")
        line.execute(_AS_OWNER)
        line.execute(
            "DELETE FROM holdfast.shares WHERE vault = %s AND owner = %s AND person = %s", (vault, person, to)
        )
        # A new place: whoever follows what they can see looks again.
        given = line.execute(
            "UPDATE holdfast.sessions SET owner = %s, latest = nextval('holdfast.places')"
            " WHERE vault = %s AND owner = %s",
            (to, vault, person),
        ).rowcount
        # What is said of their projects is known to who sees sessions of whoever said it (rights.sql).
        line.execute(
            "INSERT INTO holdfast.projects (vault, person, id, name) SELECT vault, %s, id, name"
            " FROM holdfast.projects WHERE vault = %s AND person = %s ON CONFLICT DO NOTHING",
            (to, vault, person),
        )
        line.execute(
            "INSERT INTO holdfast.evidence (vault, kind, value, project, person)"
            " SELECT vault, kind, value, project, %s FROM holdfast.evidence"
            " WHERE vault = %s AND person = %s AND installation = 0 ON CONFLICT DO NOTHING",
            (to, vault, person),
        )
        line.execute("SELECT pg_notify(%s, '')", (f"holdfast_{vault}",))
    return given
