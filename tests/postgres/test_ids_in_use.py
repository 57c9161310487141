"""Ids that follow from a document or a conversation, where another member has a session of that id or name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from holdfast.core.vocabulary import NativeLinked
from holdfast.formats.naming import imported_id
from holdfast.keeper.documents.imports import import_files
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import draft
from holdfast.store.postgres import PostgresStore, administering, rights, sharing
from tests.postgres.machines import Desk
from tests.postgres.team import Team

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.keeper import Keeper
    from tests.support.postgres.server import Server

ALIAS = "5ca1ab1e-2222-4333-8444-555555555555"
CRAFT = {
    "schema_version": "1.0.0", "session_id": ALIAS, "created_at": "2026-11-16T09:00:00Z",
    "updated_at": "2026-11-16T09:30:00Z", "goal": "Build the shop", "mode": "default", "status": "in_progress",
    "progress": 0.5,
}  # fmt: skip
HAND_MADE = {"title": "By hand", "todo": ["one"], "status": "in progress"}


class Two(NamedTuple):
    """Ada and Ben in one vault, each at a desk."""

    ada: Desk
    ben: Desk
    ada_is: str
    ben_is: str


@pytest.fixture
def two(postgres: Server, database: str, tmp_path: Path) -> Two:
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with administering.connected(admin, "admit") as own:
        rights.admit(own, rights.make_vault(own, team.vault), other.person)
    ada = Desk(tmp_path, team.url(), "ada")
    ben = Desk(tmp_path, other.url().replace(other.vault, team.vault), "ben")
    return Two(ada, ben, team.person, other.person)


def _store(keeper: Keeper) -> PostgresStore:
    store = keeper.store()
    assert isinstance(store, PostgresStore)
    return store


def _imported(desk: Desk, document: Mapping[str, object], *, salvage: bool = False) -> str:
    """Import a document; the id of its session."""
    path = desk.project / "session.json"
    path.write_text(json.dumps(document))
    with desk.keeper() as keeper:
        (found,) = import_files(keeper, [str(path)], None, salvage=salvage)
        assert found.error is None
        assert found.session is not None
        return found.session


@pytest.mark.parametrize("shared", [None, False, True])
def test_an_import_neither_meets_nor_misses_another_members_session_of_its_id(two: Two, shared: bool | None) -> None:
    """Hidden, shared to read, or shared to write: ada's goes to a session of her own, the same one each time, and
    nothing of it to ben's.
    """
    theirs = _imported(two.ben, {**CRAFT, "goal": "Ben's"})
    assert theirs == ALIAS
    if shared is not None:
        with two.ben.keeper() as keeper:
            sharing.share(_store(keeper), theirs, two.ada_is, shared)
    hers = _imported(two.ada, {**CRAFT, "goal": "Ada's"})
    assert hers != theirs
    assert _imported(two.ada, {**CRAFT, "goal": "Ada's, changed"}) == hers
    with two.ada.keeper() as keeper:
        assert keeper.session(hers).document().goal == "Ada's, changed"
    with two.ben.keeper() as keeper:
        assert [(row.id, row.goal) for row in keeper.history(all_projects=True)] == [(theirs, "Ben's")]


def test_a_hand_made_file_is_taken_in_by_each_member_for_themselves(two: Two) -> None:
    """The id of its session follows from all that it holds."""
    theirs, hers = (_imported(desk, HAND_MADE, salvage=True) for desk in (two.ben, two.ada))
    assert theirs != hers
    assert _imported(two.ada, HAND_MADE, salvage=True) == hers


def test_nobody_takes_the_other_id_of_an_import_first(two: Two) -> None:
    """It is made with a secret of hers: who has taken the first cannot know the second."""
    ids = [imported_id("craft", ALIAS, 0), imported_id("story claude", "talk-1", 0)]
    with two.ben.keeper() as keeper:
        store = _store(keeper)
        with store.transaction() as transaction:
            for one in ids:
                transaction.record(one, draft(NativeLinked(agent="claude", id="x")))
        assert [store.own_id(one) for one in ids] == ids
    with two.ada.keeper() as keeper:
        store = _store(keeper)
        others = [store.own_id(one) for one in ids]
        assert not set(others) & set(ids)
        assert others == [store.own_id(one) for one in ids]
        assert store.own_id("never-seen") == "never-seen"


def test_a_conversation_goes_on_in_ones_own_session_when_a_member_names_it_in_theirs(two: Two) -> None:
    """Ben knows its id, and lets ada write to a newer session that names it: what she does is not his to read."""
    two.ada.connect()
    two.ada.hook("tell", "UserPromptSubmit", prompt="Build the shop", prompt_id="p1")
    two.ada.ran(0)
    assert two.ada.commands() == ["make 0"]
    with two.ben.keeper() as keeper:
        session = keeper.start("A trap").id
        store = _store(keeper)
        with store.transaction() as transaction:
            transaction.record(session, draft(NativeLinked(agent="claude", id="talk-1"), keeper.now()))
        sharing.share(store, session, two.ada_is, writes=True)
    two.ada.ran(1)
    assert two.ada.commands() == ["make 0", "make 1"]
    assert two.ben.commands() == []
