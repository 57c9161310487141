"""Hooks of somebody with whom a session is shared to read: what their agent does goes to a session of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.core.errors import Refused
from holdfast.core.events import SessionEdited
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import PostgresStore, members
from holdfast.store.postgres import admin as postgres_admin
from tests.postgres.machines import Desk
from tests.postgres.team import Team

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres.server import Server


@pytest.mark.parametrize("writes", [False, True])
def test_conversation_that_another_member_linked_draws_no_work_into_their_session(
    postgres: Server, database: str, tmp_path: Path, writes: bool
) -> None:
    """Whoever shares a session could name any conversation in it: ours begins a session of its own, and nothing is
    refused or put aside.
    """
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as own:
        postgres_admin.admit_to_vault(own, postgres_admin.make_vault(own, team.vault), other.person)
    ada = Desk(tmp_path, team.url(), "ada")
    ben = Desk(tmp_path, other.url().replace(other.vault, team.vault), "ben")
    for desk in (ada, ben):
        desk.connect()
    ada.hook("tell", "UserPromptSubmit", prompt="Build the shop", prompt_id="p1")
    ada.ran(0)
    with ada.keeper() as keeper:
        session = keeper.session().id
        store = keeper.store()
        assert isinstance(store, PostgresStore)
        members.share(store, session, other.person, writes)
    with ben.keeper() as keeper:
        assert keeper.history(all_projects=True)[0].id == session
    for number in (1, 2):
        ben.ran(number)  # a conversation of the same id
    assert ben.commands() == ["make 0", "make 1", "make 2"]
    assert (ben.waiting(), ben.unread(), ben.errors()) == (0, [], [])
    with ben.keeper() as keeper:
        goals = {row.id: row.goal for row in keeper.history(limit=None, all_projects=True)}
        assert len(set(goals) - {session}) == 1
    assert ada.commands() == ["make 0"]


def test_member_who_resumes_a_shared_session_draws_no_new_conversation_of_its_owner_into_it(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    """Nor does the owner's command act on the branch that the member names; the owner's own word counts."""
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as own:
        postgres_admin.admit_to_vault(own, postgres_admin.make_vault(own, team.vault), other.person)
    ada = Desk(tmp_path, team.url(), "ada")
    ben = Desk(tmp_path, other.url().replace(other.vault, team.vault), "ben")
    ada.connect()
    ada.hook("tell", "UserPromptSubmit", prompt="Build the shop", prompt_id="p1")
    with ada.keeper() as keeper:
        session = keeper.session().id
        store = keeper.store()
        assert isinstance(store, PostgresStore)
        members.share(store, session, other.person, True)
    with ben.keeper() as keeper:
        keeper.session(session).resume(force=True)
        keeper.recorder.record(session, lambda _: [SessionEdited(branch="precious")])
    ada.hook("tell", "UserPromptSubmit", "talk-2", prompt="Private", prompt_id="p2")
    with ada.keeper() as keeper:
        goals = {row.goal: row.id for row in keeper.history(limit=None)}
        assert set(goals) == {"Build the shop", "Private"}
        with pytest.raises(Refused, match="not by one of your devices"):
            keeper.session(session).stop(discard=True)
        keeper.session(goals["Private"]).complete()
        keeper.session(session).resume()
    ada.hook("tell", "UserPromptSubmit", "talk-3", prompt="Joins", prompt_id="p3")
    with ada.keeper() as keeper:
        assert {native.id for native in keeper.session(session).document().native} == {"talk-1", "talk-3"}
