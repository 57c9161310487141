"""Ids derived from a document or a conversation, while another member has a session with that id or name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest

from holdfast.core.errors import Invalid
from holdfast.core.events import NativeLinked
from holdfast.formats import cycle
from holdfast.formats.import_ import import_files
from holdfast.keeper import doctor
from holdfast.sessions import conflicts
from holdfast.sessions.format_names import imported_id
from holdfast.sessions.history import latest
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import draft
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres import admin as postgres_admin
from tests.postgres.machines import Machine
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


class TwoMembers(NamedTuple):
    """Ada and Ben in one vault, each with a machine."""

    ada: Machine
    ben: Machine
    ada_role: str
    ben_role: str


@pytest.fixture
def two_members(postgres: Server, database: str, tmp_path: Path) -> TwoMembers:
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as own:
        postgres_admin.admit_to_vault(own, postgres_admin.make_vault(own, team.vault), other.person)
    ada = Machine(tmp_path, team.url(), "ada")
    ben = Machine(tmp_path, other.url().replace(other.vault, team.vault), "ben")
    return TwoMembers(ada, ben, team.person, other.person)


def _store(keeper: Keeper) -> PostgresStore:
    store = keeper.store()
    assert isinstance(store, PostgresStore)
    return store


def _import(machine: Machine, document: Mapping[str, object], *, salvage: bool = False) -> str:
    """Import a document; returns the id of its session."""
    path = machine.project / "session.json"
    path.write_text(json.dumps(document))
    with machine.keeper() as keeper:
        (imported,) = import_files(keeper, [str(path)], None, salvage=salvage)
        assert imported.error is None
        assert imported.session is not None
        return imported.session


@pytest.mark.parametrize("shared", [None, False, True])
def test_import_uses_an_own_session_when_another_member_has_its_id(
    two_members: TwoMembers, shared: bool | None
) -> None:
    """Hidden, shared to read, or shared to write: Ada's document always goes to the same session of her own."""
    theirs = _import(two_members.ben, {**CRAFT, "goal": "Ben's"})
    assert theirs == ALIAS
    if shared is not None:
        with two_members.ben.keeper() as keeper:
            _store(keeper).team.share(theirs, two_members.ada_role, shared)
    hers = _import(two_members.ada, {**CRAFT, "goal": "Ada's"})
    assert hers != theirs
    assert _import(two_members.ada, {**CRAFT, "goal": "Ada's, changed"}) == hers
    with two_members.ada.keeper() as keeper:
        assert keeper.session(hers).document().goal == "Ada's, changed"
    with two_members.ben.keeper() as keeper:
        assert [(row.id, row.goal) for row in keeper.history(all_projects=True)] == [(theirs, "Ben's")]


def test_salvaged_file_becomes_a_session_of_each_member(two_members: TwoMembers) -> None:
    """Although the id follows from its content."""
    theirs, hers = (_import(machine, HAND_MADE, salvage=True) for machine in (two_members.ben, two_members.ada))
    assert theirs != hers
    assert _import(two_members.ada, HAND_MADE, salvage=True) == hers


def test_reference_is_ambiguous_when_a_members_id_is_a_prefix_of_an_own_one(two_members: TwoMembers) -> None:
    """Ben knows the prefix that is printed for hers; her full id still means hers."""
    with two_members.ada.keeper() as keeper:
        hers = keeper.start("Ada's").id
    with two_members.ben.keeper() as keeper:
        store = _store(keeper)
        for taken in (hers[:8], f"{hers}-more"):
            with store.transaction() as transaction:
                transaction.record(taken, draft(NativeLinked(agent="claude", id="x")))
            store.team.share(taken, two_members.ada_role, True)
    with two_members.ada.keeper() as keeper:
        with pytest.raises(Invalid, match="matches 3 sessions"):
            keeper.session(hers[:8])
        assert keeper.session(hers).id == hers


def test_listings_ignore_a_shared_row_without_events(two_members: TwoMembers) -> None:
    """Even the newest one in Ada's own project; doctor warns that it is somebody else's."""
    with two_members.ada.keeper() as keeper:
        hers = keeper.start("Ada's").id
        (event, *_) = keeper.events(hers)
        project = json.loads(event.data or b"")["project"]["id"]
    with two_members.ben.keeper() as keeper:
        _store(keeper).register_installation()
    with psycopg.connect(two_members.ben.url.partition("&vault=")[0], autocommit=True) as line:
        now = event.at + 3_600_000
        line.execute("INSERT INTO holdfast.sessions (vault, id) SELECT vault, 'empty' FROM holdfast.mine")
        line.execute(
            "UPDATE holdfast.sessions SET version = 1, everyone = 'read', goal = 'x', project = %s,"
            " status = 'in_progress', created_at = %s, updated_at = %s WHERE id = 'empty'",
            (project, now, now),
        )
    with two_members.ada.keeper() as keeper:
        assert {row.id for row in keeper.history()} == {hers, "empty"}
        for by in ("scope", "day", "project"):
            assert keeper.hours(by).total.sessions == 1
        keeper.hours("agent")
        assert conflicts.sessions_with_conflicts(keeper) == []
        assert len(cycle.cycle(keeper).sessions) == 1
        latest, unfinished = keeper.latest(), keeper.latest_unfinished()
        assert latest is not None
        assert unfinished is not None
        assert (latest.id, unfinished.id) == (hers, hers)
        (listing,) = (check for check in doctor.run_checks(keeper) if check.name == "listing")
        assert listing.status == "warning"
        assert listing.fix == "These are shared by another person, who has to repair them."


def test_fallback_id_of_an_import_cannot_be_guessed(two_members: TwoMembers) -> None:
    """It is made with a secret of hers: who has taken the first id cannot know the second."""
    ids = [imported_id("craft", ALIAS, 0), imported_id("story claude", "talk-1", 0)]
    with two_members.ben.keeper() as keeper:
        store = _store(keeper)
        with store.transaction() as transaction:
            for name in ids:
                transaction.record(name, draft(NativeLinked(agent="claude", id="x")))
        assert [store.own_id(name) for name in ids] == ids
    with two_members.ada.keeper() as keeper:
        store = _store(keeper)
        others = [store.own_id(name) for name in ids]
        assert not set(others) & set(ids)
        assert others == [store.own_id(name) for name in ids]
        assert store.own_id("never-seen") == "never-seen"


def test_conversation_stays_in_the_own_session_when_a_member_links_it(two_members: TwoMembers) -> None:
    """Ben knows its id, and shares a newer session that links it: what Ada does is not recorded there."""
    two_members.ada.connect()
    two_members.ada.hook("tell", "UserPromptSubmit", prompt="Build the shop", prompt_id="p1")
    two_members.ada.report_command(0)
    assert two_members.ada.commands() == ["make 0"]
    with two_members.ben.keeper() as keeper:
        session = keeper.start("A trap").id
        store = _store(keeper)
        with store.transaction() as transaction:
            transaction.record(session, draft(NativeLinked(agent="claude", id="talk-1"), keeper.now()))
        store.team.share(session, two_members.ada_role, writes=True)
    two_members.ada.report_command(1)
    assert two_members.ada.commands() == ["make 0", "make 1"]
    assert two_members.ben.commands() == []


def test_own_unfinished_session_comes_before_a_later_one_of_a_member(two_members: TwoMembers) -> None:
    """What a member shares with everyone, without asking them, draws no work of theirs into it."""
    with two_members.ada.keeper() as keeper:
        own = keeper.start("Own work").id
    with two_members.ben.keeper() as keeper:
        bait = keeper.start("Bait")
        _store(keeper).team.share(bait.id, two_members.ada_role, writes=True)
        bait.note("later")
    with two_members.ada.keeper() as keeper:
        rows = keeper.history(limit=None, all_projects=True, unfinished=True)
        assert {row.id for row in rows} == {own, bait.id}
        assert latest(keeper, rows) == own
