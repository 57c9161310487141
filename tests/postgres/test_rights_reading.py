"""Reading rights: a session is visible to its owner and to those it is shared with, and nothing reveals others."""

from __future__ import annotations

import itertools
import re
from contextlib import closing

import psycopg
import pytest
from psycopg import errors as pg

from holdfast.store.interface import Filter
from tests.postgres.team_of_people import EVENT, REFUSED, Team, team

# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────


__all__ = ["team"]

SEEN = {
    "anna": {"private", "read", "write", "open", "common"},
    "bob": {"read", "write", "open", "common", "bobs"},
    "carl": {"open", "common"},
    "dora": {"open", "common", "elsewhere", "left"},
    "gina": {"elsewhere"},
    "boss": {"open", "common"},
}
OF_SESSIONS = {"sessions": "ref", "events": "session", "words": "session", "aliases": "session",
    "snapshots": "session", "aside": "session"}  # fmt: skip


@pytest.mark.parametrize("person", SEEN)
@pytest.mark.parametrize("table", OF_SESSIONS)
def test_rows_of_own_and_shared_sessions_are_visible(team: Team, person: str, table: str) -> None:
    """In every table; the tables' owner is an ordinary member."""
    rows = team.run_as(person, f"SELECT DISTINCT {OF_SESSIONS[table]} FROM holdfast.{table}")
    assert {ref for (ref,) in rows} == {team.refs[label] for label in SEEN[person]}


@pytest.mark.parametrize("person", SEEN)
def test_rows_of_a_home_are_visible_to_its_user_only(team: Team, person: str) -> None:
    """Homes, work trees, local state, paths of projects."""
    whose = "SELECT i.person FROM holdfast.{} x JOIN holdfast.installations i ON i.ref = x.installation"
    queries = (
        "SELECT person FROM holdfast.installations",
        whose.format("places_of_work"),
        whose.format("memory"),
        "SELECT person FROM holdfast.evidence WHERE kind = 'path'",
    )
    for name in queries:
        assert {row[0] for row in team.run_as(person, name)} <= {team.role(person)}, name
    for table in ("places_of_work", "memory"):
        ((mine,), (others,)) = team.run_as(
            "postgres", f"SELECT (SELECT count(*) FROM holdfast.{table} x JOIN holdfast.installations i"
            " ON i.ref = x.installation WHERE (i.person = %s) = own) FROM (VALUES (true), (false)) AS v (own)",
            team.role(person),
        )  # fmt: skip
        assert others
        assert len(team.run_as(person, f"SELECT FROM holdfast.{table}")) == mine


@pytest.mark.parametrize("person", SEEN)
def test_projects_are_visible_through_their_sessions(team: Team, person: str) -> None:
    """A project's name and repository, to every member who sees one of its sessions."""
    due = {f"project-{label}" for label in SEEN[person]}
    assert {row[0] for row in team.run_as(person, "SELECT id FROM holdfast.projects")} == due
    assert {
        row[0] for row in team.run_as(person, "SELECT project FROM holdfast.evidence WHERE kind <> 'path'")
    } == due


def test_shares_are_visible_to_both_sides_only(team: Team) -> None:
    shares = "SELECT session, person, writes FROM holdfast.shares"
    both = {(team.refs["read"], team.role("bob"), False), (team.refs["write"], team.role("bob"), True)}
    assert set(team.run_as("anna", shares)) == both
    assert set(team.run_as("bob", shares)) == both
    assert team.run_as("carl", shares) == team.run_as("boss", shares) == []


def test_members_are_visible_within_their_vaults(team: Team) -> None:
    assert {name for _, name in team.run_as("dora", "TABLE holdfast.mine")} == {"shop", "else"}
    assert {name for _, name in team.run_as("gina", "TABLE holdfast.mine")} == {"else"}
    people = {row[0] for row in team.run_as("gina", "SELECT person FROM holdfast.teammates")}
    assert people == {team.role("dora"), team.role("gina")}


@pytest.mark.parametrize(
    "asked",
    ["TABLE holdfast.sessions", "TABLE holdfast.mine", "TABLE holdfast.facts", "TABLE holdfast.teammates",
     "SELECT holdfast.horizon()", "SELECT nextval('holdfast.places')",
     "SELECT holdfast.begin_writing(1, 1, NULL, NULL)",
     "SET ROLE holdfast_member"],
)  # fmt: skip
def test_roles_outside_every_vault_have_no_rights(team: Team, asked: str) -> None:
    with pytest.raises(REFUSED):
        team.run_as("eve", asked)


def test_dismissed_member_sees_and_changes_nothing(team: Team) -> None:
    """Although they stay in the group role, which belongs to the whole server."""
    for table in ("sessions", "mine", "teammates", "events", "words", "aliases", "shares", "projects", "evidence",
                  "installations", "memory", "places_of_work", "snapshots", "aside"):  # fmt: skip
        assert team.run_as("fred", f"SELECT 1 FROM holdfast.{table}") == []
    for statement in (
        "INSERT INTO holdfast.sessions (vault, id) VALUES (1, 'mine')",
        "INSERT INTO holdfast.installations (vault, id) VALUES (1, 'mine')",
        "INSERT INTO holdfast.projects (vault, id, name) VALUES (1, 'mine', 'mine')",
    ):
        with pytest.raises(REFUSED):
            team.run_as("fred", statement)
    for statement in (
        "UPDATE holdfast.sessions SET goal = 'mine' RETURNING 1",
        "UPDATE holdfast.shares SET writes = true RETURNING 1",
        "DELETE FROM holdfast.shares RETURNING 1",
        "DELETE FROM holdfast.events RETURNING 1",
    ):
        assert team.run_as("fred", statement) == []


@pytest.mark.parametrize(
    "asked",
    ["TABLE holdfast.events_0", "TABLE holdfast.members", "TABLE holdfast.vaults", "TABLE pg_statistic",
     "SET ROLE {anna}", "SET SESSION AUTHORIZATION {anna}", "SET ROLE {boss}",
     "SET row_security = off; TABLE holdfast.sessions",
     "COPY holdfast.events_0 TO STDOUT", "SELECT pg_read_file('postgresql.conf')", "TABLE pg_authid",
     "SELECT setval('holdfast.places', 1)", "SELECT last_value FROM holdfast.sessions_ref_seq"],
)  # fmt: skip
def test_bypassing_the_row_rules_is_refused(team: Team, asked: str) -> None:
    """Partitions, tables of the owner, other roles, statistics."""
    with pytest.raises(REFUSED):
        team.run_as("carl", asked)


@pytest.mark.parametrize(
    "asked",
    ["SELECT * FROM holdfast.sessions FOR UPDATE", "UPDATE holdfast.sessions SET goal = goal RETURNING *",
     "DELETE FROM holdfast.words RETURNING session", "UPDATE holdfast.events SET double = double RETURNING session",
     "DELETE FROM holdfast.snapshots RETURNING session, 'Secret'"],
)  # fmt: skip
def test_changes_return_only_visible_rows(team: Team, asked: str) -> None:
    """Only of sessions that one may write to; carl may write to the common one."""
    shown = repr(team.run_as("carl", asked))
    assert str(team.refs["common"]) in shown
    assert "rivate" not in shown
    assert "ead" not in re.sub("[0-9a-f]{8,}", "", shown.replace("eadline", ""))  # random hex digits may contain it


def test_copy_statement_obeys_the_row_rules(team: Team) -> None:
    """COPY TO gives the same rows, and COPY FROM is refused."""
    with team.line("carl").transaction(force_rollback=True), team.line("carl").cursor() as cursor:
        with cursor.copy("COPY holdfast.sessions (goal) TO STDOUT") as copy:
            assert {bytes(row) for row in copy} == {b"Secret open\n", b"Secret common\n"}
        with pytest.raises(pg.FeatureNotSupported), cursor.copy("COPY holdfast.words FROM STDIN") as copy:
            copy.write_row((1, "word", team.refs["private"]))


@pytest.mark.parametrize(
    ("table", "value"),
    [("sessions", "goal"), ("events", "convert_from(data, 'UTF8')"), ("snapshots", "person"),
     ("mine", "name"), ("teammates", "person"), ("projects", "name"), ("evidence", "project"),
     ("shares", "person")],
)  # fmt: skip
def test_functions_in_conditions_get_visible_rows_only(team: Team, table: str, value: str) -> None:
    """Even one that is cheap enough to be evaluated first."""
    line, notices = team.line("gina"), []
    line.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    with line.transaction(force_rollback=True):
        line.execute(
            "CREATE FUNCTION pg_temp.tell(said text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS"
            " $$ BEGIN RAISE NOTICE '%', said; RETURN true; END $$"
        )
        line.execute(f"SELECT count(*) FROM holdfast.{table} WHERE pg_temp.tell({value})")
        assert table == "shares" or notices
    for notice, of in itertools.product(
        notices, ("anna", "bob", "private", "read", "write", "common", "shop", "left")
    ):
        assert of not in notice


def test_plans_do_not_depend_on_values_of_others(team: Team) -> None:
    """The estimate is the same for a word in hundreds of hidden rows, and for none."""
    boss = team.line("postgres")
    boss.execute("INSERT INTO holdfast.vaults (name) VALUES ('full')")
    boss.execute(
        "INSERT INTO holdfast.sessions (vault, owner, id, goal) SELECT v.ref, 'hidden', 'id' || n, 'Merger'"
        " FROM holdfast.vaults v, generate_series(1, 400) n WHERE v.name = 'full'"
    )
    boss.execute("ANALYZE")

    def expected(person: str, condition: str) -> list[str]:
        return [row[0] for row in team.run_as(person, f"EXPLAIN SELECT FROM holdfast.{condition}")]

    try:
        for asked in ("sessions WHERE goal = '{}'", "sessions WHERE goal > '{}'", "sessions WHERE owner = '{}'"):
            one, other = (expected("carl", asked.format(word)) for word in ("Merger", "Mercer"))
            assert [row.replace("Mercer", "Merger") for row in other] == one
        assert (
            team.run_as("carl", "SELECT * FROM pg_stats WHERE schemaname = 'holdfast' AND tablename <> 'facts'") == []
        )
    finally:
        boss.execute("DELETE FROM holdfast.sessions WHERE goal = 'Merger'")


@pytest.mark.parametrize(
    "statement",
    [EVENT.replace("{{}}", "").replace("{id}", "x"),
     "INSERT INTO holdfast.words (session, word) VALUES ({ref}, 'secret')",
     "INSERT INTO holdfast.words (session, word) VALUES ({ref}, 'secret') ON CONFLICT DO NOTHING",
     "INSERT INTO holdfast.aliases (alias, session) VALUES ('alias-private', {ref})",
     "INSERT INTO holdfast.aside (session, name, found) VALUES ({ref}, 'Secret', '')",
     "INSERT INTO holdfast.snapshots (session, count, clock, fold, state) VALUES ({ref}, 1, 1, 1, '')",
     "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({ref}, 1, '{bob}', true)",
     ("INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({ref}, 1, '{bob}', true)"
      " ON CONFLICT (session, person) DO UPDATE SET writes = true"),
     "SELECT holdfast.point({home}, '/home/anna/read', 'x')",
     "SELECT holdfast.point({home}, '/home/anna/read', NULL)",
     "SELECT holdfast.remember({home}, 'of read', '')", "SELECT holdfast.remember({home}, 'of read', NULL)",
     ("INSERT INTO holdfast.evidence (vault, kind, value, project, installation)"
      " VALUES (1, 'path', '/', 'p', {home})")],
)  # fmt: skip
def test_refusals_do_not_reveal_what_exists(team: Team, statement: str) -> None:
    """The same message, whether the target exists or not: keys and references are checked after the rules."""
    ((home,),) = team.run_as("postgres", "SELECT ref FROM holdfast.installations WHERE person = '{anna}'")
    messages = []
    for ref, where in ((team.refs["read"], home), (987654321, 987654321)):
        with pytest.raises(REFUSED) as caught:
            team.run_as("carl", statement.replace("{ref}", str(ref)).replace("{home}", str(where)))
        messages.append((str(caught.value), caught.value.diag.message_detail))
    assert messages[0] == messages[1]


def test_used_id_is_revealed_only_to_a_member_who_knows_it(team: Team) -> None:
    """Ids are unique within a vault; nothing else is revealed."""
    made = "INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s)"
    assert team.run_as("carl", made, "another") == [()]
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        team.run_as("carl", made, team.id("private"))
    assert caught.value.diag.message_detail is None


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "a\\b", ".", ".hidden", "a\nb", "\x1b[2J", "", "x" * 201]
)
def test_unsafe_session_ids_are_refused(team: Team, name: str) -> None:
    """Ids come from any member who shares a session; none may be a path or a terminal sequence."""
    with pytest.raises(pg.CheckViolation):
        team.run_as("carl", "INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s)", name)


# ── queries ──────────────────────────────────────────────────────────────────────────────────────────────


_PLAN = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) "
# A word of anna's private session, and a word of the same length that does not exist.
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
    ((home,),) = team.run_as("postgres", "SELECT ref FROM holdfast.installations WHERE person = '{anna}'")
    return str(home)


@pytest.mark.parametrize("person", ["carl", "gina", "fred"])
@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_functions_reveal_nothing_to_others(team: Team, person: str, asked: str) -> None:
    """A member, one of another vault, a dismissed one: no rows, and the same plan for any text."""
    asked = asked.replace(_HOME, _home(team))
    plans = []
    for text in (_THERE, _MISSING):
        given = team.run_as(person, f"SELECT x FROM {asked.replace('@', text)} AS x")
        assert [row for row in given if row != (None,)] == []
        plan = team.run_as(person, f"{_PLAN} SELECT * FROM {asked.replace('@', text)} AS x")
        plans.append(repr(plan).replace(_MISSING, _THERE))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_functions_answer_the_owner(team: Team, asked: str) -> None:
    """Also the superuser under her role, but not under another one."""
    asked = asked.replace(_HOME, _home(team)).replace("@", _THERE)
    given = team.run_as("anna", f"SELECT x FROM {asked} AS x")
    assert [row for row in given if row != (None,)] != []
    # The superuser can take any role, and then sees what that role sees.
    assert team.run_as("postgres", f"SET LOCAL ROLE {{anna}}; SELECT x FROM {asked} AS x") == given
    other = team.run_as("postgres", f"SET LOCAL ROLE {{carl}}; SELECT x FROM {asked} AS x")
    assert [row for row in other if row != (None,)] == []
    for role in ("holdfast_member", "{carl}"):
        taken = f"SET LOCAL ROLE {role}; SELECT x FROM {asked} AS x"
        if role == "{carl}":
            with pytest.raises(REFUSED):
                team.run_as("anna", taken)
        else:
            assert [row for row in team.run_as("anna", taken) if row != (None,)] == []


@pytest.mark.parametrize("table", HIDDEN)
@pytest.mark.parametrize(
    "statement",
    ["SELECT {column} FROM {table}", "SELECT 1 FROM {table} WHERE {column} = 'x'", "TABLE {table}",
     "SELECT 1 FROM {table} ORDER BY {column}", "SELECT count({column}) FROM {table}", "SELECT t FROM {table} t",
     "DELETE FROM {table} WHERE {column} = 'x'", "DELETE FROM {table} RETURNING {column}",
     "EXPLAIN SELECT 1 FROM {table} WHERE {column} = 'x'", "COPY {table} TO STDOUT",
     "SELECT 1 FROM {table} JOIN (VALUES ('x')) AS v ({column}) USING ({column})"],
)  # fmt: skip
def test_indexed_text_columns_cannot_be_queried(team: Team, table: str, statement: str) -> None:
    """Not even one's own: the plan would reveal how many rows an index returned before the rules filtered them."""
    with pytest.raises(REFUSED):
        team.run_as("anna", statement.format(table=f"holdfast.{table}", column=HIDDEN[table]))


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
def test_row_rules_are_evaluated_before_conditions(
    team: Team, person: str, table: str, there: str, setting: str
) -> None:
    """The plan's counts are the same whether a condition matches hidden rows or none."""
    changed = {"work_mem": "'64kB'", "cpu_operator_cost": "0"}.get(setting, "off")
    plans = []
    for condition in (
        there,
        there.replace("Secret", "Sekret").replace("'\\x", "'\\xff"),
    ):
        plan = team.run_as(
            person, f"SET LOCAL {setting} = {changed}; {_PLAN} SELECT 1 FROM holdfast.{table} WHERE {condition}"
        )
        plans.append([str(row[0]) for row in plan])
    steps = [[row for row in plan if not any(shown in row for shown in (" Filter: (", "Cond: ("))] for plan in plans]
    if team.run_as(person, f"SELECT 1 FROM holdfast.{table} WHERE {there}") == []:
        assert steps[0] == steps[1]
    for row in plans[0]:
        if row.strip().startswith("Filter:") and "holdfast." in row:
            assert row.strip().removeprefix("Filter: ").lstrip("(").startswith("holdfast.")


def test_index_function_cannot_query_as_the_maintaining_role(team: Team) -> None:
    """An index on a member's own table is computed by the role that maintains the database."""
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
            team.run_as("postgres", f"REINDEX TABLE {mine}.bait")
        assert team.run_as("carl", f"SELECT {mine}.asks(1)") == [(1,)]
    finally:
        team.server.sql(f"DROP SCHEMA {mine} CASCADE", database=team.database)


def test_search_finds_visible_sessions_only(team: Team) -> None:
    """By words and aliases."""
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


def test_custom_operators_do_not_change_the_row_rules(team: Team) -> None:
    """A schema with another `=` comes first in the search path."""
    mine = f"bent_{team.mark}"
    team.server.sql(f"CREATE SCHEMA {mine} AUTHORIZATION {team.role('carl')}", database=team.database)
    tables = ("sessions", "events", "words", "shares", "projects", "evidence", "installations", "memory")
    counted = "SELECT " + ", ".join(f"(SELECT count(*) FROM holdfast.{table})" for table in tables)
    before = team.run_as("carl", counted)
    carl = team.line("carl")
    for given in ("text", "bigint", "integer", "name"):
        carl.execute(
            f"CREATE FUNCTION {mine}.yes({given}, {given}) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';"
            f"CREATE OPERATOR {mine}.= (LEFTARG = {given}, RIGHTARG = {given}, FUNCTION = {mine}.yes)"
        )
    try:
        bent = f"SET LOCAL search_path = {mine}, pg_catalog; "
        assert team.run_as("carl", bent + "SELECT 1 = 2") == [(True,)]
        assert team.run_as("carl", bent + counted) == before
        for asked in (
            f"words_of({team.refs['private']})",
            "found(1, '{{}}', 'secretp')",
            "called(1, 'alias-private')",
        ):
            assert team.run_as("carl", f"{bent} SELECT holdfast.{asked}") == []
    finally:
        team.server.sql(f"DROP SCHEMA {mine} CASCADE", database=team.database)
