"""Ids that follow from a document or a conversation, where another member has a session of that id or name."""

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
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import draft
from holdfast.store.postgres import PostgresStore, members
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


class Two(NamedTuple):
    """Ada and Ben in one vault, each at a desk."""

    ada: Machine
    ben: Machine
    ada_is: str
    ben_is: str


@pytest.fixture
def two(postgres: Server, database: str, tmp_path: Path) -> Two:
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as own:
        postgres_admin.admit_to_vault(own, postgres_admin.make_vault(own, team.vault), other.person)
    ada = Machine(tmp_path, team.url(), "ada")
    ben = Machine(tmp_path, other.url().replace(other.vault, team.vault), "ben")
    return Two(ada, ben, team.person, other.person)


def _store(keeper: Keeper) -> PostgresStore:
    store = keeper.store()
    assert isinstance(store, PostgresStore)
    return store


def _imported(machine: Machine, document: Mapping[str, object], *, salvage: bool = False) -> str:
    """Import a document; the id of its session."""
    path = machine.project / "session.json"
    path.write_text(json.dumps(document))
    with machine.keeper() as keeper:
        (imported,) = import_files(keeper, [str(path)], None, salvage=salvage)
        assert imported.error is None
        assert imported.session is not None
        return imported.session


@pytest.mark.parametrize("shared", [None, False, True])
def test_an_import_neither_meets_nor_misses_another_members_session_of_its_id(two: Two, shared: bool | None) -> None:
    """Hidden, shared to read, or shared to write: ada's goes to a session of her own, the same one each time, and
    nothing of it to ben's.
    """
    theirs = _imported(two.ben, {**CRAFT, "goal": "Ben's"})
    assert theirs == ALIAS
    if shared is not None:
        with two.ben.keeper() as keeper:
            members.share(_store(keeper), theirs, two.ada_is, shared)
    hers = _imported(two.ada, {**CRAFT, "goal": "Ada's"})
    assert hers != theirs
    assert _imported(two.ada, {**CRAFT, "goal": "Ada's, changed"}) == hers
    with two.ada.keeper() as keeper:
        assert keeper.session(hers).document().goal == "Ada's, changed"
    with two.ben.keeper() as keeper:
        assert [(row.id, row.goal) for row in keeper.history(all_projects=True)] == [(theirs, "Ben's")]


def test_a_hand_made_file_is_taken_in_by_each_member_for_themselves(two: Two) -> None:
    """The id of its session follows from all that it holds."""
    theirs, hers = (_imported(machine, HAND_MADE, salvage=True) for machine in (two.ben, two.ada))
    assert theirs != hers
    assert _imported(two.ada, HAND_MADE, salvage=True) == hers


def test_reference_is_ambiguous_when_a_members_whole_id_begins_an_own_one(two: Two) -> None:
    """Ben knows the characters by which hers is printed; her own whole id means hers, whatever he adds to it."""
    with two.ada.keeper() as keeper:
        hers = keeper.start("Ada's").id
    with two.ben.keeper() as keeper:
        store = _store(keeper)
        for taken in (hers[:8], f"{hers}-more"):
            with store.transaction() as transaction:
                transaction.record(taken, draft(NativeLinked(agent="claude", id="x")))
            members.share(store, taken, two.ada_is, True)
    with two.ada.keeper() as keeper:
        with pytest.raises(Invalid, match="matches 3 sessions"):
            keeper.session(hers[:8])
        assert keeper.session(hers).id == hers


def test_listings_pass_over_a_row_without_events_when_a_member_shares_it(two: Two) -> None:
    """In ada's own project, as the newest; the doctor names it as somebody else's, and does not fail for it."""
    with two.ada.keeper() as keeper:
        hers = keeper.start("Ada's").id
        (event, *_) = keeper.events(hers)
        project = json.loads(event.data or b"")["project"]["id"]
    with two.ben.keeper() as keeper:
        _store(keeper).register_installation()
    with psycopg.connect(two.ben.url.partition("&vault=")[0], autocommit=True) as line:
        now = event.at + 3_600_000
        line.execute("INSERT INTO holdfast.sessions (vault, id) SELECT vault, 'empty' FROM holdfast.mine")
        line.execute(
            "UPDATE holdfast.sessions SET version = 1, everyone = 'read', goal = 'x', project = %s,"
            " status = 'in_progress', created_at = %s, updated_at = %s WHERE id = 'empty'",
            (project, now, now),
        )
    with two.ada.keeper() as keeper:
        assert {row.id for row in keeper.history()} == {hers, "empty"}
        for by in ("scope", "day", "project"):
            assert keeper.hours(by).total.sessions == 1
        keeper.hours("agent")
        assert conflicts.disputed(keeper) == []
        assert len(cycle.cycle(keeper).sessions) == 1
        latest, unfinished = keeper.latest(), keeper.latest_unfinished()
        assert latest is not None
        assert unfinished is not None
        assert (latest.id, unfinished.id) == (hers, hers)
        (listing,) = (check for check in doctor.examine(keeper) if check.name == "listing")
        assert listing.status == "warning"
        assert listing.fix == "Somebody else shares these: it is up to them to repair them."


def test_nobody_takes_the_other_id_of_an_import_first(two: Two) -> None:
    """It is made with a secret of hers: who has taken the first cannot know the second."""
    ids = [imported_id("craft", ALIAS, 0), imported_id("story claude", "talk-1", 0)]
    with two.ben.keeper() as keeper:
        store = _store(keeper)
        with store.transaction() as transaction:
            for name in ids:
                transaction.record(name, draft(NativeLinked(agent="claude", id="x")))
        assert [store.own_id(name) for name in ids] == ids
    with two.ada.keeper() as keeper:
        store = _store(keeper)
        others = [store.own_id(name) for name in ids]
        assert not set(others) & set(ids)
        assert others == [store.own_id(name) for name in ids]
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
        members.share(store, session, two.ada_is, writes=True)
    two.ada.ran(1)
    assert two.ada.commands() == ["make 0", "make 1"]
    assert two.ben.commands() == []
