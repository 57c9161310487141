"""Hooks of somebody with whom a session is shared to read: what their agent does goes to a session of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from desks import Desk
from team import Team

from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import PostgresStore, administering, rights, sharing

if TYPE_CHECKING:
    from pathlib import Path

    from server import Server


@pytest.mark.parametrize("writes", [False, True])
def test_what_is_only_shown_is_continued(postgres: Server, database: str, tmp_path: Path, writes: bool) -> None:
    """Nothing is refused and nothing put aside; where writing was allowed too, it goes into the shared session."""
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with administering.connected(admin, "admit") as own:
        rights.admit(own, rights.make_vault(own, team.vault), other.person)
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
        sharing.share(store, session, other.person, writes)
    with ben.keeper() as keeper:
        assert keeper.history(all_projects=True)[0].id == session
    for number in (1, 2):
        ben.ran(number)  # the same conversation, resumed elsewhere
    assert ben.commands() == ["make 0", "make 1", "make 2"]
    assert (ben.waiting(), ben.unread(), ben.errors()) == (0, [], [])
    with ben.keeper() as keeper:
        goals = {row.id: row.goal for row in keeper.history(limit=None, all_projects=True)}
        if writes:
            assert list(goals) == [session]
        else:
            (own_session,) = set(goals) - {session}
            assert keeper.session(own_session).document().continues == session
    assert ada.commands() == (["make 0", "make 1", "make 2"] if writes else ["make 0"])
