"""Writing rights with plain SQL: one's own sessions, and those shared for writing, and only as Holdfast would."""

from __future__ import annotations

from binascii import crc32
from contextlib import closing

import pytest
from psycopg import errors as pg

from holdfast.core.events import EventErased, SessionDeleted
from holdfast.core.fold import fold
from holdfast.core.state import FOLD_VERSION, State, freeze
from holdfast.store.conformance import draft, note, put
from holdfast.store.interface import Filter
from holdfast.store.postgres import PostgresStore
from tests.postgres.team_of_people import EVENT, REFUSED, Team, team

__all__ = ["team"]


def event(label: str) -> str:
    return EVENT.replace("{ref}", f"{{{label}}}").replace("{id}", f"{{{label}_id}}")


_OWN_HOME = "(SELECT ref FROM holdfast.installations)"


@pytest.mark.parametrize(
    ("person", "statement"),
    [("anna", event("private")), ("bob", event("write")), ("carl", event("common")), ("dora", event("elsewhere")),
     ("anna", "UPDATE holdfast.sessions SET everyone = 'read' WHERE ref = {private}"),
     ("bob", "UPDATE holdfast.sessions SET version = version + 1, goal = 'x' WHERE ref = {write}"),
     ("anna", "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({private}, 1, '{carl}', true)"),
     ("anna", "UPDATE holdfast.shares SET writes = true WHERE session = {read}"),
     ("anna", "DELETE FROM holdfast.shares WHERE session = {read}"),
     ("bob", "INSERT INTO holdfast.words (session, word) VALUES ({write}, 'new')"),
     ("bob", "DELETE FROM holdfast.words WHERE session = {write}"),
     ("bob", "INSERT INTO holdfast.aliases (alias, session) VALUES ('new', {write})"),
     ("bob", "DELETE FROM holdfast.snapshots WHERE session = {write}"),
     ("bob", "INSERT INTO holdfast.snapshots (session, count, clock, fold, state) VALUES ({write}, 1, 1, 1, '')"),
     ("anna", "UPDATE holdfast.snapshots SET state = '' WHERE session = {private}"),
     ("anna", "INSERT INTO holdfast.aside (session, name, found) VALUES ({private}, 'new', '')"),
     ("anna", "UPDATE holdfast.events SET data = NULL, salt = NULL WHERE session = {private}"),
     ("anna", "DELETE FROM holdfast.events WHERE session = {private}"),
     ("carl", "INSERT INTO holdfast.sessions (vault, id) VALUES (1, 'new')"),
     ("carl", "INSERT INTO holdfast.installations (vault, id) VALUES (1, 'new')"),
     ("anna", f"SELECT holdfast.remember({_OWN_HOME}, 'new', '')"),
     ("anna", f"SELECT holdfast.point({_OWN_HOME}, '/n', 'x')"),
     ("carl", "INSERT INTO holdfast.projects (vault, id, name) VALUES (1, 'new', 'n')"),
     ("carl", "INSERT INTO holdfast.evidence (vault, kind, value, project) VALUES (1, 'remote', 'r', 'new')"),
     ("carl", "SELECT nextval('holdfast.places')"), ("carl", "SELECT holdfast.horizon()")],
)  # fmt: skip
def test_allowed_statement_succeeds(team: Team, person: str, statement: str) -> None:
    """On one's own sessions, and those shared for writing."""
    assert team.run_as(person, statement)


@pytest.mark.parametrize(
    ("person", "statement"),
    [  # events in sessions that are not theirs, or read-only
     ("carl", event("private")), ("bob", event("read")), ("carl", event("open")), ("gina", event("common")),
     ("boss", event("private")),
     # under another name, at another place, counted or not
     ("bob", event("write").replace("(session,", "(put_by, session,").replace("VALUES (", "VALUES ('{anna}', ")),
     ("bob", event("write").replace("(session,", "(place, session,").replace("VALUES (", "VALUES (1, ")),
     ("bob", event("write").replace("(session,", "(double, session,").replace("VALUES (", "VALUES (1, ")),
     ("anna", "UPDATE holdfast.events SET put_by = '{bob}' WHERE session = {private}"),
     ("anna", "UPDATE holdfast.events SET session = {write} WHERE session = {private}"),
     ("anna", "UPDATE holdfast.events SET hash = '\\x01' WHERE session = {private}"),
     ("anna", "UPDATE holdfast.events SET place = 1 WHERE session = {private}"),
     # existing events are not changed, not erased by another, and not excluded
     ("anna", "UPDATE holdfast.events SET data = '{{}}' WHERE session = {private}"),
     ("bob", "UPDATE holdfast.events SET data = NULL, salt = NULL WHERE session = {write}"),
     ("bob", "UPDATE holdfast.events SET double = 1 WHERE session = {write}"),
     ("bob", "UPDATE holdfast.events SET double = 7 WHERE session = {write}"),
     ("bob", event("write").replace("note.added", "session.deleted")),
     ("bob", event("write").replace("note.added", "session.started")),
     # owner and visibility of a session
     ("anna", "UPDATE holdfast.sessions SET owner = '{bob}' WHERE ref = {private}"),
     ("anna", "UPDATE holdfast.sessions SET vault = 2 WHERE ref = {private}"),
     ("anna", "UPDATE holdfast.sessions SET id = 'x' WHERE ref = {private}"),
     ("bob", "UPDATE holdfast.sessions SET owner = '{bob}' WHERE ref = {write}"),
     ("bob", "UPDATE holdfast.sessions SET everyone = 'write' WHERE ref = {write}"),
     ("carl", "UPDATE holdfast.sessions SET everyone = '' WHERE ref = {common}"),
     ("bob", "UPDATE holdfast.sessions SET deleted = 1 WHERE ref = {write}"),
     ("bob", "UPDATE holdfast.sessions SET version = 0 WHERE ref = {write}"),
     ("bob", "UPDATE holdfast.sessions SET version = -1000 WHERE ref = {write}"),
     ("bob", ("UPDATE holdfast.sessions SET version = version + 5 WHERE ref = {write}; "
              "UPDATE holdfast.sessions SET version = version - 1 WHERE ref = {write}")),
     ("anna", "DELETE FROM holdfast.sessions WHERE ref = {private}"),
     ("carl", "INSERT INTO holdfast.sessions (vault, id) VALUES (2, 'new')"),
     ("carl", "INSERT INTO holdfast.sessions (vault, id, owner) VALUES (1, 'new', '{anna}')"),
     ("carl", "INSERT INTO holdfast.sessions (ref, vault, id) OVERRIDING SYSTEM VALUE VALUES (1, 1, 'new')"),
     ("fred", "INSERT INTO holdfast.sessions (vault, id) VALUES (1, 'new')"),
     # shares
     ("bob", "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({write}, 1, '{carl}', true)"),
     ("bob", ("INSERT INTO holdfast.shares (session, vault, owner, person, writes)"
              " VALUES ({read}, 1, '{anna}', '{carl}', true)")),
     ("carl", "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({private}, 1, '{carl}', true)"),
     ("anna", "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({private}, 2, '{dora}', true)"),
     ("anna", "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({private}, 1, '{gina}', true)"),
     ("anna", "INSERT INTO holdfast.shares (session, vault, person, writes) VALUES ({private}, 1, '{anna}', true)"),
     ("anna", "UPDATE holdfast.shares SET person = '{carl}' WHERE session = {read}"),
     # derived data
     ("bob", "INSERT INTO holdfast.words (session, word) VALUES ({read}, 'new')"),
     ("carl", "INSERT INTO holdfast.words (session, word) VALUES ({elsewhere}, 'new')"),
     ("bob", "INSERT INTO holdfast.aliases (alias, session) VALUES ('new', {read})"),
     ("bob", "INSERT INTO holdfast.snapshots (session, count, clock, fold, state) VALUES ({read}, 1, 1, 1, '')"),
     ("bob", ("INSERT INTO holdfast.snapshots (session, person, count, clock, fold, state)"
              " VALUES ({write}, '{anna}', 999, 1, 1, '')")),
     ("bob", "INSERT INTO holdfast.aside (session, name, found) VALUES ({write}, 'new', '')"),
     # other homes, and claims in another person's name
     ("carl", "INSERT INTO holdfast.installations (vault, id) VALUES (2, 'home of gina')"),
     ("carl", "INSERT INTO holdfast.installations (vault, person, id) VALUES (1, '{anna}', 'home of anna')"),
     ("anna", "UPDATE holdfast.installations SET person = '{bob}'"),
     ("carl", "INSERT INTO holdfast.projects (vault, person, id, name) VALUES (1, '{anna}', 'project-read', 'x')"),
     ("carl", "INSERT INTO holdfast.projects (vault, id, name) VALUES (2, 'new', 'x')"),
     ("carl", "INSERT INTO holdfast.evidence (vault, kind, value, project) VALUES (1, 'path', '/home/anna', 'new')"),
     ("anna", "UPDATE holdfast.projects SET name = 'x'"), ("anna", "DELETE FROM holdfast.evidence"),
     ("carl", "DELETE FROM holdfast.memory"), ("carl", "UPDATE holdfast.memory SET value = ''"),
     ("carl", "DELETE FROM holdfast.places_of_work"),
     # the tables themselves
     ("carl", "INSERT INTO holdfast.members VALUES (2, '{carl}')"), ("carl", "DELETE FROM holdfast.members"),
     ("carl", "INSERT INTO holdfast.vaults (name) VALUES ('mine')"),
     ("carl", "UPDATE holdfast.facts SET value = '9'"),
     ("carl", "INSERT INTO holdfast.mine VALUES (2, 'else')"), ("carl", "DELETE FROM holdfast.teammates"),
     ("carl", "INSERT INTO holdfast.my_vaults VALUES (2)"),
     ("carl", "DELETE FROM holdfast.events_0"), ("carl", "TRUNCATE holdfast.events"),
     ("carl", "TRUNCATE holdfast.words"), ("carl", "DROP TABLE holdfast.words"),
     ("carl", "DROP SCHEMA holdfast CASCADE"),
     ("carl", "CREATE TABLE holdfast.mine_too (x integer)"),
     ("carl", "CREATE FUNCTION holdfast.texteq() RETURNS integer LANGUAGE sql AS 'SELECT 1'"),
     ("carl", ("CREATE TRIGGER x BEFORE INSERT ON holdfast.events FOR EACH ROW EXECUTE FUNCTION"
               " suppress_redundant_updates_trigger()")),
     ("carl", "CREATE POLICY x ON holdfast.sessions"),
     ("carl", "ALTER TABLE holdfast.sessions DISABLE ROW LEVEL SECURITY"),
     ("carl", "CREATE RULE x AS ON INSERT TO holdfast.words DO INSTEAD NOTHING"),
     ("carl", "ALTER VIEW holdfast.mine RESET (security_barrier)"), ("carl", "SELECT holdfast.append_only()"),
     ("carl", "GRANT holdfast_member TO {eve}"), ("carl", "SET session_replication_role = replica"),
     ("carl", "GRANT SELECT ON holdfast.sessions TO {eve} GRANTED BY {boss}"),
     ("carl", "ALTER SEQUENCE holdfast.places RESTART"), ("carl", "SELECT setval('holdfast.places', 1)"),
     ("carl", "SET LOCAL holdfast.administering = 'on'; INSERT INTO holdfast.sessions (vault, id) VALUES (2, 'x')"),
    ],
)  # fmt: skip
def test_forbidden_statement_is_refused(team: Team, person: str, statement: str) -> None:
    """By the server, whatever program sends it."""
    with pytest.raises((REFUSED, pg.FeatureNotSupported, pg.ObjectNotInPrerequisiteState, pg.InvalidGrantor)
                       if "mine VALUES" in statement or "GRANTED BY" in statement else REFUSED):  # fmt: skip
        team.run_as(person, statement)


@pytest.mark.parametrize(
    ("person", "statement"),
    [("carl", "UPDATE holdfast.sessions SET goal = 'x' WHERE ref = {private}"),
     ("bob", "UPDATE holdfast.sessions SET goal = 'x' WHERE ref = {read}"),
     ("carl", "UPDATE holdfast.sessions SET goal = 'x' WHERE ref = {open}"),
     ("boss", "UPDATE holdfast.sessions SET owner = '{boss}' WHERE ref = {private}"),
     ("boss", "DELETE FROM holdfast.sessions WHERE ref <> {common}"),
     ("boss", "TABLE holdfast.memory"),
     ("carl", "SET LOCAL holdfast.administering = 'on'; SELECT FROM holdfast.sessions WHERE ref = {private}"),
     ("carl", "SET LOCAL holdfast.administering = 'on'; DELETE FROM holdfast.shares"),
     ("bob", "UPDATE holdfast.shares SET writes = true"), ("bob", "DELETE FROM holdfast.shares"),
     ("bob", "DELETE FROM holdfast.events WHERE session = {write}"),
     ("bob", "DELETE FROM holdfast.events WHERE session = {read}"),
     ("bob", "UPDATE holdfast.events SET data = NULL, salt = NULL WHERE session = {read}"),
     ("carl", "DELETE FROM holdfast.events WHERE session = {private}"),
     ("bob", "DELETE FROM holdfast.words WHERE session = {read}"),
     ("bob", "DELETE FROM holdfast.aliases WHERE session = {read}"),
     ("bob", "DELETE FROM holdfast.snapshots WHERE session = {read}"),
     ("bob", "UPDATE holdfast.snapshots SET state = '' WHERE session = {write}"),
     ("bob", "DELETE FROM holdfast.aside WHERE session = {write}"),
     ("carl", "UPDATE holdfast.installations SET clock = 1")],
)  # fmt: skip
def test_statement_changes_no_row_of_others(team: Team, person: str, statement: str) -> None:
    """It is allowed, but matches no row of another member."""
    assert team.run_as(person, statement) == []


# ── attacks through the owner's own program ────────────────────────────────────────────────────────────────


def test_writer_cannot_make_the_owner_erase_events_of_others(team: Team) -> None:
    """The owner's program applies erasures: others cannot insert one, however it names the event."""
    with closing(team.store("bob")) as bob, closing(team.store("anna")) as anna:
        first = next(anna.events(team.id("write")))
        statement = (
            "INSERT INTO holdfast.events (session, writer, seq, clock, at, v, type, actor, body, hash, data, salt)"
            " VALUES (%s, 'w', 1, 1, 1, 1, 'event.erased', 'a', sha256(''), sha256(%s), %s, 'sixteen bytes ..')"
        )
        for name in (first.hash, first.hash.upper(), f" {first.hash}\\n", f"{first.hash[:4]}\\t{first.hash[4:]}"):
            values = (team.refs["write"], name.encode(), f'{{"h\\u0061shes": [1, "{name}"]}}'.encode())
            with pytest.raises(REFUSED):
                team.run_as("bob", statement, *values)
            assert team.run_as("anna", statement, *values)
        own = put(bob, team.id("write"), note("by bob"))[0]
        put(bob, team.id("write"), EventErased(hashes=(own.hash,)))
        assert [item.data for item in anna.events(team.id("write")) if item.hash == own.hash] == [None]
        assert next(anna.events(team.id("write"))).data is not None


def test_writers_snapshot_is_used_by_the_writer_only(team: Team) -> None:
    """However new it is; and invalid bytes affect nobody else."""
    session, ref = team.id("write"), team.refs["write"]
    false = freeze(State(session=session, count=10**6, last=(2**50, "w", 1, "h"), deleted=True))
    for frozen in (false, b"\xff" * 100, b""):
        with team.line("bob").transaction():
            team.line("bob").execute(
                "INSERT INTO holdfast.snapshots (session, count, clock, fold, state) VALUES (%s, 1000000, 1, %s, %s)"
                " ON CONFLICT (session, person, count) DO UPDATE SET state = excluded.state",
                (ref, FOLD_VERSION, frozen),
            )
        with closing(team.store("anna")) as anna:
            assert anna.state(session) == fold(list(anna.events(session)), session)
            assert [damage for damage in anna.check() if damage.check != "aside"] == []
    team.line("bob").execute("DELETE FROM holdfast.snapshots WHERE person = CURRENT_USER")


def test_hostile_snapshot_of_the_owner_is_ignored_by_readers(team: Team) -> None:
    """One of another session, an empty or an invalid one."""
    session, ref = team.id("read"), team.refs["read"]
    deep = b"\x91" * 100_000
    others = State(session=team.id("bobs"), last=(1, "w", 1, "h"))
    nested = crc32(deep).to_bytes(4, "big") + deep
    for frozen in (freeze(others), freeze(State(session=session)), deep, nested):
        team.line("anna").execute(
            "INSERT INTO holdfast.snapshots (session, count, clock, fold, state) VALUES (%s, 1000000, 1, %s, %s)"
            " ON CONFLICT (session, person, count) DO UPDATE SET state = excluded.state",
            (ref, FOLD_VERSION, frozen),
        )
        with closing(team.store("bob")) as bob:
            assert bob.state(session) == fold(list(bob.events(session)), session)
    team.line("anna").execute("DELETE FROM holdfast.snapshots WHERE count = 1000000")


def test_falsified_listing_is_reported_and_repaired(team: Team) -> None:
    """A writer can change what listings show; the log restores it."""
    team.line("bob").execute("UPDATE holdfast.sessions SET goal = 'False' WHERE ref = %s", (team.refs["write"],))
    team.line("bob").execute("DELETE FROM holdfast.words WHERE session = %s", (team.refs["write"],))
    with closing(team.store("anna")) as anna:
        assert {damage.check for damage in anna.check()} >= {"listing", "search"}
        anna.repair()
        assert {damage.check for damage in anna.check()} <= {"aside"}
        assert "Secret write" in [row.goal for row in anna.rows(Filter(search="secretwrite"))]


def test_members_with_a_write_share_record_under_their_own_names(team: Team) -> None:
    """And a reader only reads."""
    with closing(team.store("bob")) as bob, closing(team.store("anna")) as anna, closing(team.store("carl")) as carl:
        put(bob, team.id("common"), note("by bob"))
        put(carl, team.id("common"), note("by carl"))
        put(anna, team.id("common"), note("by anna"))
        assert bob.state(team.id("common")) == carl.state(team.id("common")) == anna.state(team.id("common"))
        rows = team.run_as(
            "carl", "SELECT put_by FROM holdfast.events WHERE session = {common} ORDER BY place DESC LIMIT 3"
        )
        assert [row[0] for row in rows] == [team.role(name) for name in ("anna", "carl", "bob")]
        _assert_refused(carl, team.id("open"))
        assert carl.state(team.id("open")) is not None
        assert carl.state(team.id("private")) is None


def test_only_the_owner_deletes_a_shared_session(team: Team) -> None:
    """A writer's deletion is refused; the owner's is visible to all."""
    session = team.id("common")
    with closing(team.store("bob")) as bob, closing(team.store("anna")) as anna:
        _assert_refused(bob, session, SessionDeleted())
        assert bob.state(session) == anna.state(session)
        anna.erase(session, draft(SessionDeleted()))
        state = bob.state(session)
        assert state is not None
        assert state.deleted
    rows = team.run_as("postgres", "SELECT e.* FROM holdfast.events e WHERE session = {common} AND data IS NOT NULL")
    assert len(rows) == 1


def _assert_refused(store: PostgresStore, session: str, data: object = None) -> None:
    from holdfast.core.errors import Refused

    with pytest.raises(Refused):
        put(store, session, data or note("no"))  # type: ignore[arg-type]
