"""Sharing sessions, letting people go, and handing over what they left."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound, Refused
from holdfast.store.conformance import note, put
from holdfast.store.interface import Draft, Filter, ShareGrant
from holdfast.store.postgres import PostgresStore, admin, members
from tests.postgres.team_of_people import Team, team

__all__ = ["team"]


def test_sharing_and_taking_back(team: Team) -> None:
    """The last word counts, for one person and for everyone apart; what is taken back is seen no more."""
    session, carl = team.id("private"), team.role("carl")
    with closing(team.store("anna")) as anna, closing(team.store("carl")) as other:
        assert members.shares(anna, session) == []
        members.share(anna, session, carl, writes=False)
        assert members.shares(anna, session) == members.shares(other, session) == [ShareGrant(carl, writes=False)]
        with pytest.raises(Refused):
            put(other, session, note("no"))
        members.share(anna, session, carl, writes=True)
        assert put(other, session, note("yes"))
        members.share(anna, session, carl, writes=False)
        with pytest.raises(Refused):
            put(other, session, note("no"))
        members.share(anna, session, None, writes=True)
        assert members.shares(anna, session) == [ShareGrant(None, writes=True), ShareGrant(carl, writes=False)]
        assert put(other, session, note("as everyone"))
        members.unshare(anna, session, None)
        members.unshare(anna, session, carl)
        assert other.state(session) is None
        assert members.shares(anna, session) == []


def test_writing_to_what_is_shared_for_reading(team: Team) -> None:
    """Said in a person's words, wherever in a transaction the server refuses it, and nothing of its rules."""
    session, carl = team.id("private"), team.role("carl")

    def write_at_length(store: PostgresStore) -> None:
        with store.transaction() as transaction:
            for number in range(3):
                transaction.record(session, Draft(note(f"no {number}"), 1_000_000, "carl"))
            store.state(session)
            store.rows(Filter())

    with closing(team.store("anna")) as anna, closing(team.store("carl")) as other:
        members.share(anna, session, carl, writes=False)
        with pytest.raises(Refused, match="shared with you for reading alone") as told:
            put(other, session, note("no"))
        with pytest.raises(Refused, match="cannot write to the session") as late:
            write_at_length(other)
        for refused in (told.value, late.value):
            assert "row-level" not in str(refused)
            assert "store share" in str(refused.hint)
        members.unshare(anna, session, carl)


def test_sharing_is_noticed(team: Team) -> None:
    """Whoever follows the store looks again when something was shared with them, and when it is taken back."""
    with closing(team.store("anna")) as anna, closing(team.store("carl")) as carl:
        before = carl.version()
        members.share(anna, team.id("private"), team.role("carl"), writes=False)
        shared = carl.version()
        members.unshare(anna, team.id("private"), team.role("carl"))
        assert len({before, shared, carl.version()} - {before}) >= 1
        assert shared != before


def test_refusals_say_why(team: Team) -> None:
    """Another's session, one that cannot be seen, a person who is not there, oneself, what was never shared."""
    with closing(team.store("anna")) as anna, closing(team.store("bob")) as bob, closing(team.store("carl")) as carl:
        with pytest.raises(Refused, match="only its owner") as caught:
            members.share(bob, team.id("write"), team.role("carl"), writes=True)
        assert team.role("anna") in str(caught.value.hint)
        with pytest.raises(Refused, match="only its owner"):
            members.unshare(bob, team.id("write"), team.role("bob"))
        for unseen in (team.id("private"), "nothing"):
            with pytest.raises(NotFound, match="no such session"):
                members.share(carl, unseen, None, writes=True)
        with pytest.raises(NotFound, match="not a member") as found:
            members.share(anna, team.id("private"), team.role("gina"), writes=True)
        assert team.role("bob") in str(found.value.hint)
        assert team.role("gina") not in str(found.value.hint)
        with pytest.raises(Invalid, match="yours already"):
            members.share(anna, team.id("private"), team.role("anna"), writes=True)
        for person in (None, team.role("dora")):
            with pytest.raises(NotFound, match="not shared with"):
                members.unshare(anna, team.id("private"), person)
        assert members.people(bob) == sorted(team.role(name) for name in ("anna", "bob", "boss", "carl", "dora"))


def test_who_is_dismissed_sees_nothing_also_when_admitted_again(team: Team) -> None:
    """Shares end with the membership; what others made stays theirs; of two vaults the other one stays."""
    where, dora = team.address("boss", "shop"), team.role("dora")
    admin.dismiss(where, dora)
    assert {name for _, name in team.said("dora", "TABLE holdfast.mine")} == {"else"}
    assert team.said("dora", "SELECT ref FROM holdfast.sessions") == [(team.refs["elsewhere"],)]
    with pytest.raises(NotFound, match="not a member"):
        admin.dismiss(where, dora)
    assert admin.admit(where, dora)
    assert not admin.admit(where, dora)
    seen = {row[0] for row in team.said("dora", "SELECT ref FROM holdfast.sessions")}
    assert seen == {team.refs["open"], team.refs["common"], team.refs["elsewhere"]}


def test_what_a_dismissed_person_left_is_handed_over(team: Team) -> None:
    """To a member, by whoever owns the tables: it is theirs then, and shared as it was."""
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
        kept = set(members.shares(store, team.id("left"))) - {ShareGrant(team.role("dora"), writes=False)}
        assert kept == {ShareGrant(team.role("carl"), writes=True)}
        assert put(carl, team.id("left"), note("still")) + put(store, team.id("left"), note("mine now"))
        assert {damage.check for damage in store.check()} <= {"aside"}
    with pytest.raises(Refused):
        admin.admit(team.address("bob", "shop"), team.role("eve"))
    with pytest.raises(Refused):
        admin.dismiss(team.address("bob", "shop"), team.role("carl"))
