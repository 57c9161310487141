"""Membership of vaults, and sharing of sessions."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound, Refused
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import note, put
from holdfast.store.interface import Draft, Filter, ShareGrant
from holdfast.store.postgres import PostgresStore, admin
from tests.postgres.team import opened
from tests.postgres.team_of_people import REFUSED, Team, team
from tests.support.postgres import programs
from tests.support.postgres.server import Server

# ── setting up ───────────────────────────────────────────────────────────────────────────────────────────


_RIGHTS = (
    "SELECT c.relname, c.relacl::text, c.relrowsecurity, c.relforcerowsecurity, (SELECT array_agg(a.attacl::text"
    " ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid),"
    " (SELECT array_agg(p.polname ORDER BY p.polname) FROM pg_policy p WHERE p.polrelid = c.oid), (SELECT"
    " array_agg(t.tgname ORDER BY t.tgname) FROM pg_trigger t"
    " WHERE t.tgrelid = c.oid AND NOT t.tgisinternal), c.reloptions::text FROM pg_class c"
    " WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S') ORDER BY 1"
)


def test_init_is_idempotent(team: Team) -> None:
    """Nothing is left to do, and every right is as before."""
    before = team.run_as("postgres", _RIGHTS)
    made = admin.init(team.address("boss", "shop"), admit=[team.role("anna")])
    assert made.done == []
    assert team.run_as("postgres", _RIGHTS) == before


def test_rights_granted_by_mistake_show_nothing_and_are_revoked_by_init(team: Team) -> None:
    """Granting everything to everyone opens neither partitions nor memberships."""
    before = team.run_as("postgres", _RIGHTS)
    for right in ("TABLES", "SEQUENCES"):
        team.line("boss").execute(f"GRANT ALL ON ALL {right} IN SCHEMA holdfast TO holdfast_member, PUBLIC")
    for table in ("events_0", "members", "vaults"):
        assert team.run_as("carl", f"TABLE holdfast.{table}") == []
    with pytest.raises(REFUSED):
        team.run_as("carl", "INSERT INTO holdfast.members VALUES (2, '{carl}')")
    admin.init(team.address("boss", "shop"))
    assert team.run_as("postgres", _RIGHTS) == before


def test_new_partitions_are_protected(team: Team) -> None:
    """And the row rules are the same."""
    ((before,),) = team.run_as("postgres", "SELECT count(*) FROM holdfast.events")
    admin.repartition(team.address("boss", "shop"), 3)
    for number in range(3):
        with pytest.raises(REFUSED):
            team.run_as("carl", f"TABLE holdfast.events_{number}")
    assert team.run_as("postgres", "SELECT count(*) FROM holdfast.events") == [(before,)]
    assert {row[0] for row in team.run_as("carl", "SELECT DISTINCT session FROM holdfast.events")} == {
        team.refs["open"], team.refs["common"]
    }  # fmt: skip
    with pytest.raises(REFUSED):
        team.run_as("bob", "UPDATE holdfast.events SET data = NULL, salt = NULL WHERE session = {write}")


def test_group_role_sees_nothing_and_cannot_be_admitted(team: Team) -> None:
    """Every member can switch to it. A missing role cannot be admitted either."""
    assert team.run_as("carl", "SET LOCAL ROLE holdfast_member; TABLE holdfast.sessions") == []
    with pytest.raises(Invalid, match="holdfast_member"):
        admin.admit(team.address("boss", "shop"), "holdfast_member")
    with pytest.raises(NotFound, match="has no role"):
        admin.admit(team.address("boss", "shop"), "nobody_at_all")


def test_init_refuses_a_schema_with_tables_of_other_roles(team: Team) -> None:
    """No rights are granted then."""
    team.line("postgres").execute("CREATE TABLE holdfast.planted (x integer)")
    try:
        with pytest.raises(Refused, match="different people"):
            admin.init(team.address("boss", "shop"))
    finally:
        team.line("postgres").execute("DROP TABLE holdfast.planted")


def test_init_works_without_a_superuser() -> None:
    """With CREATEROLE and an own database, on an old server too; where somebody else made the group role, the error
    says what is needed.
    """
    with Server(version=programs.OLDEST) as server:
        server.sql("CREATE ROLE boss LOGIN CREATEROLE; CREATE ROLE other LOGIN CREATEROLE")
        for person in ("anna", "bob"):
            server.role(person)
        server.sql("ALTER ROLE bob NOINHERIT")
        server.database("one", owner="boss")
        server.database("two", owner="other")
        one, two = (PostgresAddress(server.url(name, who)) for name, who in (("one", "boss"), ("two", "other")))
        made = admin.init(one, admit=["anna", "bob"])
        assert made.done[-3:] == ["admitted boss", "admitted anna", "admitted bob"]
        assert admin.init(one, admit=["anna", "bob"]).done == []
        for person in ("boss", "anna", "bob"):
            assert server.sql("TABLE holdfast.mine", database="one", user=person) == [(1, "team")]
            made_one = "INSERT INTO holdfast.sessions (vault, id) VALUES (1, CURRENT_USER) RETURNING owner"
            assert server.sql(made_one, database="one", user=person) == [(person,)]
            assert server.sql("SELECT owner FROM holdfast.sessions", database="one", user=person) == [(person,)]
        with pytest.raises(Refused) as caught:
            admin.init(two)
        assert "WITH ADMIN OPTION" in str(caught.value.hint)
        server.sql("GRANT holdfast_member TO other WITH ADMIN OPTION")
        admin.init(two, admit=["anna"])
        admin.dismiss(one, "bob")
        admin.dismiss(one, "boss")
        # The group role belongs to the whole server: a dismissed member stays in it, and sees nothing.
        assert server.sql("TABLE holdfast.mine", database="one", user="bob") == []
        assert server.sql("SELECT owner FROM holdfast.sessions", database="one", user="bob") == []
        assert server.sql("SELECT pg_has_role('bob', 'holdfast_member', 'usage')") == [(True,)]
        with pytest.raises(Refused, match="not a member of any vault"):
            opened(server.url("one", "bob"), "laptop")
        admin.admit(two, "boss")
        admin.dismiss(two, "anna")
        assert server.sql("TABLE holdfast.mine", database="one", user="anna") == [(1, "team")]
        assert server.sql("TABLE holdfast.mine", database="two", user="anna") == []
        # Without its owner the store still works, and a dismissed member can be admitted again.
        assert server.sql("SELECT owner FROM holdfast.sessions", database="one", user="anna") == [("anna",)]
        assert admin.admit(one, "bob")


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────


__all__ = ["team"]


def test_share_and_unshare_apply_at_once(team: Team) -> None:
    """The last call counts, for one member and for everyone separately."""
    session, carl = team.id("private"), team.role("carl")
    with closing(team.store("anna")) as anna, closing(team.store("carl")) as other:
        assert anna.team.shares(session) == []
        anna.team.share(session, carl, writes=False)
        assert anna.team.shares(session) == other.team.shares(session) == [ShareGrant(carl, writes=False)]
        with pytest.raises(Refused):
            put(other, session, note("no"))
        anna.team.share(session, carl, writes=True)
        assert put(other, session, note("yes"))
        anna.team.share(session, carl, writes=False)
        with pytest.raises(Refused):
            put(other, session, note("no"))
        anna.team.share(session, None, writes=True)
        assert anna.team.shares(session) == [ShareGrant(None, writes=True), ShareGrant(carl, writes=False)]
        assert put(other, session, note("as everyone"))
        anna.team.unshare(session, None)
        anna.team.unshare(session, carl)
        assert other.state(session) is None
        assert anna.team.shares(session) == []


def test_writing_to_a_read_only_share_is_refused(team: Team) -> None:
    """With a message for users, wherever in a transaction the server refuses it."""
    session, carl = team.id("private"), team.role("carl")

    def write_at_length(store: PostgresStore) -> None:
        with store.transaction() as transaction:
            for number in range(3):
                transaction.record(session, Draft(note(f"no {number}"), 1_000_000, "carl"))
            store.state(session)
            store.rows(Filter())

    with closing(team.store("anna")) as anna, closing(team.store("carl")) as other:
        anna.team.share(session, carl, writes=False)
        with pytest.raises(Refused, match="shared with you read-only") as caught:
            put(other, session, note("no"))
        with pytest.raises(Refused, match="cannot write to the session") as late:
            write_at_length(other)
        for refused in (caught.value, late.value):
            assert "row-level" not in str(refused)
            assert "store share" in str(refused.hint)
        anna.team.unshare(session, carl)


def test_sharing_changes_the_store_version(team: Team) -> None:
    """For the member it is shared with, also when it is revoked."""
    with closing(team.store("anna")) as anna, closing(team.store("carl")) as carl:
        before = carl.version()
        anna.team.share(team.id("private"), team.role("carl"), writes=False)
        shared = carl.version()
        anna.team.unshare(team.id("private"), team.role("carl"))
        assert len({before, shared, carl.version()} - {before}) >= 1
        assert shared != before


def test_refused_shares_say_why(team: Team) -> None:
    """Another's session, an invisible one, a missing member, oneself, a share that never existed."""
    with closing(team.store("anna")) as anna, closing(team.store("bob")) as bob, closing(team.store("carl")) as carl:
        with pytest.raises(Refused, match="only its owner") as caught:
            bob.team.share(team.id("write"), team.role("carl"), writes=True)
        assert team.role("anna") in str(caught.value.hint)
        with pytest.raises(Refused, match="only its owner"):
            bob.team.unshare(team.id("write"), team.role("bob"))
        for unseen in (team.id("private"), "nothing"):
            with pytest.raises(NotFound, match="no such session"):
                carl.team.share(unseen, None, writes=True)
        with pytest.raises(NotFound, match="not a member") as not_found:
            anna.team.share(team.id("private"), team.role("gina"), writes=True)
        assert team.role("bob") in str(not_found.value.hint)
        assert team.role("gina") not in str(not_found.value.hint)
        with pytest.raises(Invalid, match="yours already"):
            anna.team.share(team.id("private"), team.role("anna"), writes=True)
        for person in (None, team.role("dora")):
            with pytest.raises(NotFound, match="not shared with"):
                anna.team.unshare(team.id("private"), person)
        assert bob.team.people() == sorted(team.role(name) for name in ("anna", "bob", "boss", "carl", "dora"))


def test_dismissed_member_loses_all_shares(team: Team) -> None:
    """Also when admitted again; their own sessions and another vault stay."""
    where, dora = team.address("boss", "shop"), team.role("dora")
    admin.dismiss(where, dora)
    assert {name for _, name in team.run_as("dora", "TABLE holdfast.mine")} == {"else"}
    assert team.run_as("dora", "SELECT ref FROM holdfast.sessions") == [(team.refs["elsewhere"],)]
    with pytest.raises(NotFound, match="not a member"):
        admin.dismiss(where, dora)
    assert admin.admit(where, dora)
    assert not admin.admit(where, dora)
    seen = {row[0] for row in team.run_as("dora", "SELECT ref FROM holdfast.sessions")}
    assert seen == {team.refs["open"], team.refs["common"], team.refs["elsewhere"]}


def test_sessions_of_a_dismissed_member_are_handed_over(team: Team) -> None:
    """To a member, by the owner of the tables, with their shares."""
    where, fred, bob = team.address("boss", "shop"), team.role("fred"), team.role("bob")
    shared = "INSERT INTO holdfast.shares SELECT {left}, 1, '{fred}', unnest(ARRAY['{carl}', '{bob}']), true"
    team.line("postgres").execute(shared.format(**team.words))
    with pytest.raises(NotFound, match="not a member"):
        admin.hand_over(where, fred, team.role("gina"))
    with pytest.raises(Conflict, match="is still a member"):
        admin.hand_over(where, bob, team.role("carl"))
    with pytest.raises(Refused):
        admin.hand_over(team.address("bob", "shop"), fred, bob)
    assert admin.hand_over(where, fred, bob) == 1
    assert admin.hand_over(where, fred, bob) == 0
    with closing(team.store("bob")) as store, closing(team.store("carl")) as carl:
        assert store.state(team.id("left")) is not None
        kept = set(store.team.shares(team.id("left"))) - {ShareGrant(team.role("dora"), writes=False)}
        assert kept == {ShareGrant(team.role("carl"), writes=True)}
        assert put(carl, team.id("left"), note("still")) + put(store, team.id("left"), note("mine now"))
        assert {damage.check for damage in store.check()} <= {"aside"}
    with pytest.raises(Refused):
        admin.admit(team.address("bob", "shop"), team.role("eve"))
    with pytest.raises(Refused):
        admin.dismiss(team.address("bob", "shop"), team.role("carl"))
