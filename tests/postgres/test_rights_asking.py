"""Whether somebody can find out a text that they may not read, by having the server look for it and tell how."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.store.interface import Filter
from tests.postgres.team_of_people import REFUSED, Team, team

__all__ = ["team"]

_PLAN = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) "
# What anna keeps to herself, and something as long that nobody has.
_THERE, _MISSING = ("private", "pryvate")
HIDDEN = {"words": "word", "aliases": "alias", "evidence": "value", "places_of_work": "path", "memory": "name"}
_SHOP, _HOME = "1", "{home}"
ASKED = {
    "found": f"holdfast.found({_SHOP}, ARRAY['secret'], 'secret@')",
    "found whole": f"holdfast.found({_SHOP}, ARRAY['secret@'], 's')",
    "called": f"holdfast.called({_SHOP}, 'alias-@')",
    "words": "holdfast.words_of({private})",
    "aliases": "holdfast.aliases_of({private})",
    "a remote": f"holdfast.projects_at({_SHOP}, 'remote', 'git.example/@', 0)",
    "a path": f"holdfast.projects_at({_SHOP}, 'path', '/home/anna/@', {_HOME})",
    "evidence": f"holdfast.evidence_of({_SHOP}, 'project-@', {_HOME})",
    "places": f"holdfast.places_at({_HOME})",
    "current": f"holdfast.current_at({_HOME}, '/home/anna/@')",
    "remembered": f"holdfast.remembered({_HOME}, 'of @')",
    "all remembered": f"holdfast.remembered_under({_HOME}, '')",
}


def _home(team: Team) -> str:
    ((home,),) = team.said("postgres", "SELECT ref FROM holdfast.installations WHERE person = '{anna}'")
    return str(home)


@pytest.mark.parametrize("person", ["carl", "gina", "fred"])
@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_functions_tell_others_nothing(team: Team, person: str, asked: str) -> None:
    """A member, one of another vault, one who was dismissed: nothing is given, and any text has the same plan."""
    asked = asked.replace(_HOME, _home(team))
    plans = []
    for text in (_THERE, _MISSING):
        given = team.said(person, f"SELECT x FROM {asked.replace('@', text)} AS x")
        assert [row for row in given if row != (None,)] == []
        plan = team.said(person, f"{_PLAN} SELECT * FROM {asked.replace('@', text)} AS x")
        plans.append(repr(plan).replace(_MISSING, _THERE))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_functions_answer_whoever_may_know(team: Team, asked: str) -> None:
    """The same questions have an answer for the person whose it is, also under a role that they took."""
    asked = asked.replace(_HOME, _home(team)).replace("@", _THERE)
    given = team.said("anna", f"SELECT x FROM {asked} AS x")
    assert [row for row in given if row != (None,)] != []
    # The superuser may be anybody; then they see what these do.
    assert team.said("postgres", f"SET LOCAL ROLE {{anna}}; SELECT x FROM {asked} AS x") == given
    other = team.said("postgres", f"SET LOCAL ROLE {{carl}}; SELECT x FROM {asked} AS x")
    assert [row for row in other if row != (None,)] == []
    for role in ("holdfast_member", "{carl}"):
        taken = f"SET LOCAL ROLE {role}; SELECT x FROM {asked} AS x"
        if role == "{carl}":
            with pytest.raises(REFUSED):
                team.said("anna", taken)
        else:
            assert [row for row in team.said("anna", taken) if row != (None,)] == []


@pytest.mark.parametrize("table", HIDDEN)
@pytest.mark.parametrize(
    "told",
    ["SELECT {column} FROM {table}", "SELECT 1 FROM {table} WHERE {column} = 'x'", "TABLE {table}",
     "SELECT 1 FROM {table} ORDER BY {column}", "SELECT count({column}) FROM {table}", "SELECT t FROM {table} t",
     "DELETE FROM {table} WHERE {column} = 'x'", "DELETE FROM {table} RETURNING {column}",
     "EXPLAIN SELECT 1 FROM {table} WHERE {column} = 'x'", "COPY {table} TO STDOUT",
     "SELECT 1 FROM {table} JOIN (VALUES ('x')) AS v ({column}) USING ({column})"],
)  # fmt: skip
def test_texts_with_an_index_cannot_be_named(team: Team, table: str, told: str) -> None:
    """Not even one's own: how many rows an index gave before the rules took them away would be told."""
    with pytest.raises(REFUSED):
        team.said("anna", told.format(table=f"holdfast.{table}", column=HIDDEN[table]))


@pytest.mark.parametrize("person", ["carl", "gina"])
@pytest.mark.parametrize(
    ("table", "there"),
    [("sessions", "goal = 'Secret private'"), ("sessions", "goal >= 'Secret pri' AND goal < 'Secret prj'"),
     ("sessions", "goal = ANY ('{{Secret private}}')"), ("sessions", "name = 'Secret private'"),
     ("sessions", "(goal > 'Secret pri') IS TRUE AND goal < 'Secret prj'"),
     ("events", "data >= '\\x7b2274657874223a225365637265747072'::bytea"), ("events", "actor > 'a'"),
     ("snapshots", "state > '\\x00'"), ("aside", "found = 'Secret'"),
     ("projects", "name = 'Secret private'")],
)  # fmt: skip
@pytest.mark.parametrize("setting", ["enable_seqscan", "enable_indexscan", "work_mem", "cpu_operator_cost"])
def test_rules_come_before_conditions(team: Team, person: str, table: str, there: str, setting: str) -> None:
    """What a plan tells of its steps is the same whether a condition holds for rows of others or for none."""
    changed = {"work_mem": "'64kB'", "cpu_operator_cost": "0"}.get(setting, "off")
    plans = []
    for condition in (
        there,
        there.replace("Secret", "Sekret").replace("'\\x", "'\\xff"),
    ):
        told = team.said(
            person, f"SET LOCAL {setting} = {changed}; {_PLAN} SELECT 1 FROM holdfast.{table} WHERE {condition}"
        )
        plans.append([str(row[0]) for row in told])
    steps = [[row for row in plan if not any(shown in row for shown in (" Filter: (", "Cond: ("))] for plan in plans]
    if team.said(person, f"SELECT 1 FROM holdfast.{table} WHERE {there}") == []:
        assert steps[0] == steps[1]
    for row in plans[0]:
        if row.strip().startswith("Filter:") and "holdfast." in row:
            assert row.strip().removeprefix("Filter: ").lstrip("(").startswith("holdfast.")


def test_nobody_asks_in_the_name_of_who_keeps_the_database_up(team: Team) -> None:
    """An index of somebody's own table is computed for whoever keeps it up; it cannot ask in their name."""
    mine = f"trap_{team.mark}"
    team.server.sql(f"CREATE SCHEMA {mine} AUTHORIZATION {team.role('carl')}", database=team.database)
    carl = team.line("carl")
    made = (
        f"CREATE OR REPLACE FUNCTION {mine}.asks(x integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
    )
    carl.execute(f"CREATE TABLE {mine}.bait (x integer); INSERT INTO {mine}.bait VALUES (1)")
    carl.execute(f"{made} RETURN x; END $$; CREATE INDEX trap ON {mine}.bait (({mine}.asks(x)))")
    carl.execute(f"{made} PERFORM holdfast.words_of({team.refs['private']}); RETURN x; END $$")
    try:
        with pytest.raises(REFUSED, match="security-restricted"):
            team.said("postgres", f"REINDEX TABLE {mine}.bait")
        assert team.said("carl", f"SELECT {mine}.asks(1)") == [(1,)]
    finally:
        team.server.sql(f"DROP SCHEMA {mine} CASCADE", database=team.database)


def test_searching_finds_what_is_seen(team: Team) -> None:
    """Words and aliases find one's own sessions, those of everyone and those that are shared; and no others."""
    due = {"anna": {"private", "read", "write", "open", "common"}, "bob": {"read", "write", "open", "common", "bobs"},
           "carl": {"open", "common"}, "dora": {"open", "common", "left"}}  # fmt: skip
    for person, labels in due.items():
        with closing(team.store(person)) as store:
            assert {row.id for row in store.rows(Filter(search="secret"))} == {team.id(label) for label in labels}
            assert {row.id for row in store.rows(Filter(search="1 secretp"))} == {
                team.id(label) for label in labels if label == "private"
            }
            for label in ("private", "open", "elsewhere"):
                assert store.find(f"alias-{label}") == [team.id(label)] * (label in labels)


def test_operators_of_ones_own_do_not_bend_the_rules(team: Team) -> None:
    """Whoever puts a schema with another `=` in their path is still shown what is theirs to see."""
    mine = f"bent_{team.mark}"
    team.server.sql(f"CREATE SCHEMA {mine} AUTHORIZATION {team.role('carl')}", database=team.database)
    tables = ("sessions", "events", "words", "shares", "projects", "evidence", "installations", "memory")
    counted = "SELECT " + ", ".join(f"(SELECT count(*) FROM holdfast.{table})" for table in tables)
    before = team.said("carl", counted)
    carl = team.line("carl")
    for given in ("text", "bigint", "integer", "name"):
        carl.execute(
            f"CREATE FUNCTION {mine}.yes({given}, {given}) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';"
            f"CREATE OPERATOR {mine}.= (LEFTARG = {given}, RIGHTARG = {given}, FUNCTION = {mine}.yes)"
        )
    try:
        bent = f"SET LOCAL search_path = {mine}, pg_catalog; "
        assert team.said("carl", bent + "SELECT 1 = 2") == [(True,)]
        assert team.said("carl", bent + counted) == before
        for asked in (
            f"words_of({team.refs['private']})",
            "found(1, '{{}}', 'secretp')",
            "called(1, 'alias-private')",
        ):
            assert team.said("carl", f"{bent} SELECT holdfast.{asked}") == []
    finally:
        team.server.sql(f"DROP SCHEMA {mine} CASCADE", database=team.database)
