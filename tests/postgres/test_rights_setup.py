"""Setting a store up, again and again, where nobody is a superuser."""

from __future__ import annotations

import pytest

from holdfast.core.errors import Invalid, NotFound, Refused
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import admin
from tests.postgres.team import opened
from tests.postgres.team_of_people import REFUSED, Team, team
from tests.support.postgres import programs
from tests.support.postgres.server import Server

__all__ = ["team"]

_RIGHTS = (
    "SELECT c.relname, c.relacl::text, c.relrowsecurity, c.relforcerowsecurity, (SELECT array_agg(a.attacl::text"
    " ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid),"
    " (SELECT array_agg(p.polname ORDER BY p.polname) FROM pg_policy p WHERE p.polrelid = c.oid), (SELECT"
    " array_agg(t.tgname ORDER BY t.tgname) FROM pg_trigger t"
    " WHERE t.tgrelid = c.oid AND NOT t.tgisinternal), c.reloptions::text FROM pg_class c"
    " WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S') ORDER BY 1"
)


def test_doing_it_again_changes_nothing(team: Team) -> None:
    """The second time there is nothing left to do, and every right is as it was."""
    before = team.said("postgres", _RIGHTS)
    made = admin.init(team.address("boss", "shop"), admit=[team.role("anna")])
    assert made.done == []
    assert team.said("postgres", _RIGHTS) == before


def test_rights_granted_by_mistake_show_nothing_and_end(team: Team) -> None:
    """Whoever grants all there is to everybody opens neither partitions nor people; the next set-up takes it back."""
    before = team.said("postgres", _RIGHTS)
    for right in ("TABLES", "SEQUENCES"):
        team.line("boss").execute(f"GRANT ALL ON ALL {right} IN SCHEMA holdfast TO holdfast_member, PUBLIC")
    for table in ("events_0", "members", "vaults"):
        assert team.said("carl", f"TABLE holdfast.{table}") == []
    with pytest.raises(REFUSED):
        team.said("carl", "INSERT INTO holdfast.members VALUES (2, '{carl}')")
    admin.init(team.address("boss", "shop"))
    assert team.said("postgres", _RIGHTS) == before


def test_divided_anew_everything_holds(team: Team) -> None:
    """New partitions are as closed as the old ones, and the rules of rows are those of before."""
    ((before,),) = team.said("postgres", "SELECT count(*) FROM holdfast.events")
    admin.divide(team.address("boss", "shop"), 3)
    for number in range(3):
        with pytest.raises(REFUSED):
            team.said("carl", f"TABLE holdfast.events_{number}")
    assert team.said("postgres", "SELECT count(*) FROM holdfast.events") == [(before,)]
    assert {row[0] for row in team.said("carl", "SELECT DISTINCT session FROM holdfast.events")} == {
        team.refs["open"], team.refs["common"]
    }  # fmt: skip
    with pytest.raises(REFUSED):
        team.said("bob", "UPDATE holdfast.events SET data = NULL, salt = NULL WHERE session = {write}")


def test_the_group_is_nobody(team: Team) -> None:
    """Every member can become the group: it sees nothing, and is not let into a vault. Nor is who is not there."""
    assert team.said("carl", "SET LOCAL ROLE holdfast_member; TABLE holdfast.sessions") == []
    with pytest.raises(Invalid, match="holdfast_member"):
        admin.admit(team.address("boss", "shop"), "holdfast_member")
    with pytest.raises(NotFound, match="has no role"):
        admin.admit(team.address("boss", "shop"), "nobody_at_all")


def test_tables_of_different_people_are_not_set_up(team: Team) -> None:
    """Where something in the schema is somebody else's, no rights are given to anybody."""
    team.line("postgres").execute("CREATE TABLE holdfast.planted (x integer)")
    try:
        with pytest.raises(Refused, match="different people"):
            admin.init(team.address("boss", "shop"))
    finally:
        team.line("postgres").execute("DROP TABLE holdfast.planted")


def test_without_superusers() -> None:
    """A role that may make roles and owns a database sets up everything, on an older server too; and one whose server
    has the group from somebody else is told what it needs.
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
        # The group is the whole server's: who is dismissed stays in it, and sees nothing.
        assert server.sql("TABLE holdfast.mine", database="one", user="bob") == []
        assert server.sql("SELECT owner FROM holdfast.sessions", database="one", user="bob") == []
        assert server.sql("SELECT pg_has_role('bob', 'holdfast_member', 'usage')") == [(True,)]
        with pytest.raises(Refused, match="not a member of any vault"):
            opened(server.url("one", "bob"), "laptop")
        admin.admit(two, "boss")
        admin.dismiss(two, "anna")
        assert server.sql("TABLE holdfast.mine", database="one", user="anna") == [(1, "team")]
        assert server.sql("TABLE holdfast.mine", database="two", user="anna") == []
        # Without its owner the store goes on, and who left can be admitted again.
        assert server.sql("SELECT owner FROM holdfast.sessions", database="one", user="anna") == [("anna",)]
        assert admin.admit(one, "bob")
