"""What a person can read of others with plain SQL: what is shared with them, and not a word more."""

from __future__ import annotations

import itertools
import re

import psycopg
import pytest
from psycopg import errors as pg

from tests.postgres.team_of_people import EVENT, REFUSED, Team, team

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
def test_rows_are_seen_of_sessions_that_are_ones_own_or_shared(team: Team, person: str, table: str) -> None:
    """Of every table, a person sees the rows of these sessions; whoever owns the tables is a person like all."""
    rows = team.said(person, f"SELECT DISTINCT {OF_SESSIONS[table]} FROM holdfast.{table}")
    assert {ref for (ref,) in rows} == {team.refs[label] for label in SEEN[person]}


@pytest.mark.parametrize("person", SEEN)
def test_what_is_of_one_home_is_seen_by_its_person(team: Team, person: str) -> None:
    """Homes, work trees, memories, paths of projects: one's own, and nobody else's."""
    whose = "SELECT i.person FROM holdfast.{} x JOIN holdfast.installations i ON i.ref = x.installation"
    asked = (
        "SELECT person FROM holdfast.installations",
        whose.format("places_of_work"),
        whose.format("memory"),
        "SELECT person FROM holdfast.evidence WHERE kind = 'path'",
    )
    for name in asked:
        assert {row[0] for row in team.said(person, name)} <= {team.role(person)}, name
    for table in ("places_of_work", "memory"):
        ((mine,), (others,)) = team.said(
            "postgres", f"SELECT (SELECT count(*) FROM holdfast.{table} x JOIN holdfast.installations i"
            " ON i.ref = x.installation WHERE (i.person = %s) = own) FROM (VALUES (true), (false)) AS v (own)",
            team.role(person),
        )  # fmt: skip
        assert others
        assert len(team.said(person, f"SELECT FROM holdfast.{table}")) == mine


@pytest.mark.parametrize("person", SEEN)
def test_projects_are_known_with_a_session_in_them(team: Team, person: str) -> None:
    """A project's name and the address of its repository are known to whoever sees a session of it."""
    due = {f"project-{label}" for label in SEEN[person]}
    assert {row[0] for row in team.said(person, "SELECT id FROM holdfast.projects")} == due
    assert {row[0] for row in team.said(person, "SELECT project FROM holdfast.evidence WHERE kind <> 'path'")} == due


def test_shares_are_known_to_who_gave_and_to_who_got_them(team: Team) -> None:
    """Nobody else learns whom a session is shared with."""
    shares = "SELECT session, person, writes FROM holdfast.shares"
    both = {(team.refs["read"], team.role("bob"), False), (team.refs["write"], team.role("bob"), True)}
    assert set(team.said("anna", shares)) == both
    assert set(team.said("bob", shares)) == both
    assert team.said("carl", shares) == team.said("boss", shares) == []


def test_people_are_known_within_their_vaults(team: Team) -> None:
    """Vaults and people are those of one's own vaults."""
    assert {name for _, name in team.said("dora", "TABLE holdfast.mine")} == {"shop", "else"}
    assert {name for _, name in team.said("gina", "TABLE holdfast.mine")} == {"else"}
    people = {row[0] for row in team.said("gina", "SELECT person FROM holdfast.teammates")}
    assert people == {team.role("dora"), team.role("gina")}


@pytest.mark.parametrize(
    "asked",
    ["TABLE holdfast.sessions", "TABLE holdfast.mine", "TABLE holdfast.facts", "TABLE holdfast.teammates",
     "SELECT holdfast.horizon()", "SELECT nextval('holdfast.places')",
     "SELECT holdfast.begin_writing(1, 1, NULL, NULL)",
     "SET ROLE holdfast_member"],
)  # fmt: skip
def test_strangers_are_shown_nothing(team: Team, asked: str) -> None:
    """Who was never in a vault has no rights at all."""
    with pytest.raises(REFUSED):
        team.said("eve", asked)


def test_dismissed_people_are_shown_nothing(team: Team) -> None:
    """They stay in the group, which is the whole server's: it shows them nothing, and they can put nothing there."""
    for table in ("sessions", "mine", "teammates", "events", "words", "aliases", "shares", "projects", "evidence",
                  "installations", "memory", "places_of_work", "snapshots", "aside"):  # fmt: skip
        assert team.said("fred", f"SELECT 1 FROM holdfast.{table}") == []
    for told in (
        "INSERT INTO holdfast.sessions (vault, id) VALUES (1, 'mine')",
        "INSERT INTO holdfast.installations (vault, id) VALUES (1, 'mine')",
        "INSERT INTO holdfast.projects (vault, id, name) VALUES (1, 'mine', 'mine')",
    ):
        with pytest.raises(REFUSED):
            team.said("fred", told)
    for told in (
        "UPDATE holdfast.sessions SET goal = 'mine' RETURNING 1",
        "UPDATE holdfast.shares SET writes = true RETURNING 1",
        "DELETE FROM holdfast.shares RETURNING 1",
        "DELETE FROM holdfast.events RETURNING 1",
    ):
        assert team.said("fred", told) == []


@pytest.mark.parametrize(
    "asked",
    ["TABLE holdfast.events_0", "TABLE holdfast.members", "TABLE holdfast.vaults", "TABLE pg_statistic",
     "SET ROLE {anna}", "SET SESSION AUTHORIZATION {anna}", "SET ROLE {boss}",
     "SET row_security = off; TABLE holdfast.sessions",
     "COPY holdfast.events_0 TO STDOUT", "SELECT pg_read_file('postgresql.conf')", "TABLE pg_authid",
     "SELECT setval('holdfast.places', 1)", "SELECT last_value FROM holdfast.sessions_ref_seq"],
)  # fmt: skip
def test_ways_around_the_rules_are_closed(team: Team, asked: str) -> None:
    """Partitions, tables of the owner, other people's names, statistics: none of it is a member's."""
    with pytest.raises(REFUSED):
        team.said("carl", asked)


@pytest.mark.parametrize(
    "asked",
    ["SELECT * FROM holdfast.sessions FOR UPDATE", "UPDATE holdfast.sessions SET goal = goal RETURNING *",
     "DELETE FROM holdfast.words RETURNING session", "UPDATE holdfast.events SET double = double RETURNING session",
     "DELETE FROM holdfast.snapshots RETURNING session, 'Secret'"],
)  # fmt: skip
def test_changing_shows_no_more_than_reading(team: Team, asked: str) -> None:
    """What a change gives back is of sessions that one may write to; carl may write to the common one."""
    shown = repr(team.said("carl", asked))
    assert str(team.refs["common"]) in shown
    assert "rivate" not in shown
    assert "ead" not in re.sub("[0-9a-f]{8,}", "", shown.replace("eadline", ""))  # chance writes it in numbers


def test_copying_out_is_reading(team: Team) -> None:
    """COPY gives the same rows, and brings none in past the rules."""
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
def test_conditions_never_see_rows_of_others(team: Team, table: str, value: str) -> None:
    """A function that tells what it is given, cheap enough to be asked first, is asked of visible rows alone."""
    line, told = team.line("gina"), []
    line.add_notice_handler(lambda said: told.append(said.message_primary or ""))
    with line.transaction(force_rollback=True):
        line.execute(
            "CREATE FUNCTION pg_temp.tell(said text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS"
            " $$ BEGIN RAISE NOTICE '%', said; RETURN true; END $$"
        )
        line.execute(f"SELECT count(*) FROM holdfast.{table} WHERE pg_temp.tell({value})")
        assert table == "shares" or told
    for said, of in itertools.product(told, ("anna", "bob", "private", "read", "write", "common", "shop", "left")):
        assert of not in said


def test_plans_do_not_tell_of_values(team: Team) -> None:
    """What the planner expects is the same for a word that others have in hundreds of rows, and for none."""
    boss = team.line("postgres")
    boss.execute("INSERT INTO holdfast.vaults (name) VALUES ('full')")
    boss.execute(
        "INSERT INTO holdfast.sessions (vault, owner, id, goal) SELECT v.ref, 'hidden', 'id' || n, 'Merger'"
        " FROM holdfast.vaults v, generate_series(1, 400) n WHERE v.name = 'full'"
    )
    boss.execute("ANALYZE")

    def expected(person: str, condition: str) -> list[str]:
        return [row[0] for row in team.said(person, f"EXPLAIN SELECT FROM holdfast.{condition}")]

    try:
        for asked in ("sessions WHERE goal = '{}'", "sessions WHERE goal > '{}'", "sessions WHERE owner = '{}'"):
            one, other = (expected("carl", asked.format(word)) for word in ("Merger", "Mercer"))
            assert [row.replace("Mercer", "Merger") for row in other] == one
        assert (
            team.said("carl", "SELECT * FROM pg_stats WHERE schemaname = 'holdfast' AND tablename <> 'facts'") == []
        )
    finally:
        boss.execute("DELETE FROM holdfast.sessions WHERE goal = 'Merger'")


@pytest.mark.parametrize(
    "told",
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
def test_refusals_do_not_tell_what_is_there(team: Team, told: str) -> None:
    """The same words, whether what was aimed at is there or not: keys and references come after the rules."""
    ((home,),) = team.said("postgres", "SELECT ref FROM holdfast.installations WHERE person = '{anna}'")
    said = []
    for ref, where in ((team.refs["read"], home), (987654321, 987654321)):
        with pytest.raises(REFUSED) as caught:
            team.said("carl", told.replace("{ref}", str(ref)).replace("{home}", str(where)))
        said.append((str(caught.value), caught.value.diag.message_detail))
    assert said[0] == said[1]


def test_an_id_in_use_is_told_only_to_who_knows_it(team: Team) -> None:
    """A session's id is one within a vault; who has it already learns that it is taken, and nothing else."""
    made = "INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s)"
    assert team.said("carl", made, "another") == [()]
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        team.said("carl", made, team.id("private"))
    assert caught.value.diag.message_detail is None


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "a\\b", ".", ".hidden", "a\nb", "\x1b[2J", "", "x" * 201]
)
def test_no_session_has_an_id_that_others_take_for_something_else(team: Team, name: str) -> None:
    """Ids come from anybody who shares a session; none is the way to a file, or a command to a terminal."""
    with pytest.raises(pg.CheckViolation):
        team.said("carl", "INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s)", name)
