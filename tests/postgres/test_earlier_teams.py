"""A team's database as an earlier version left it: dumped, restored on a new server, migrated, read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.generations.facts import Program, facts
from tests.fixtures.generations.files import NAMES, TEAM, Generation, differences, unexpected
from tests.support.postgres import programs
from tests.support.postgres.server import Server

DATABASE = "generation_restored"


@pytest.fixture(params=NAMES)
def restored(request: pytest.FixtureRequest, tmp_path: Path, postgres: Server) -> Iterator[Generation]:
    """The dump in a database of its own, with the roles it names."""
    generation = Generation(request.param, tmp_path)
    known = {name for (name,) in postgres.sql("SELECT rolname FROM pg_roles")}
    for role in TEAM:
        if role not in known:
            postgres.role(role)
    if "holdfast_member" not in known:
        postgres.sql("CREATE ROLE holdfast_member NOLOGIN")
    for role in TEAM:
        postgres.sql(
            f"GRANT holdfast_member TO {role}"
        )  # a role of the server: a dump of one database does not have it
    postgres.database(DATABASE)
    # Readable for the user that runs the server.
    dump = Path(postgres.folder, "generation.sql")
    dump.write_bytes((generation.root / "team.sql").read_bytes())
    dump.chmod(0o644)
    programs.run(
        "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(dump), "-h", postgres.folder, "-p", str(postgres.port),
        "-U", "postgres", DATABASE,
    )  # fmt: skip
    dump.unlink()
    yield generation
    postgres.drop(DATABASE)


def member(generation: Generation, server: Server, role: str) -> Program:
    return generation.program(role, store=server.url(DATABASE, role))


def test_restored_team_database_is_read_by_both_members(restored: Generation, postgres: Server) -> None:
    """Each member sees what they saw before, and what the other writes where they may."""
    ada, ben = (member(restored, postgres, role) for role in TEAM)
    ada("store", "init", postgres.url(DATABASE))  # an owner migrates it
    for role, program in zip(TEAM, (ada, ben), strict=True):
        current = facts(program, restored.said["moment"])
        assert unexpected(differences(restored.facts(role), current)) == [], role
    ids = {row["goal"]: row["id"] for role in TEAM for row in restored.facts(role)["history"]}
    ben("resume", ids["Ada and Ben write"], "--force")
    ben("note", "Later, by Ben")
    assert ada("show", ids["Ada and Ben write"])["session"]["notes"][-1]["text"] == "Later, by Ben"
    assert ben("resume", ids["Everybody reads"], "--force", codes=(1,))["error"]["kind"] == "refused"
    assert ben("show", ids["Ada alone"], codes=(3,))["error"]["kind"] == "not_found"
    for program in (ada, ben):
        checks = program("doctor", codes=(0, 6))["checks"]
        assert [check for check in checks if check["status"] == "failed"] == []
