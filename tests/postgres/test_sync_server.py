"""Sync between devices whose stores are on a server and devices with their own: all have the same sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.core import view
from holdfast.core.canonical import canonical_json
from holdfast.core.envelope import make_event
from holdfast.core.events import (
    AgentCompleted,
    AgentStarted,
    EventErased,
    ProjectFacts,
    SessionDeleted,
    SessionEdited,
    SessionStarted,
)
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import Draft
from holdfast.store.postgres import PostgresStore, admin
from holdfast.sync.remotes.folder import FolderRemote
from tests.postgres.team import Team
from tests.support.vault_devices import Device, join, settle

if TYPE_CHECKING:
    from tests.support.postgres.server import Server


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    return FolderRemote(str(tmp_path / "remote"), create=True)


def on_server(team: Team, directory: Path, name: str, remote: FolderRemote) -> Device:
    """A device with its own keys and local state, and the team's sessions."""

    class OnServer(Device):
        def _opened(self) -> PostgresStore:  # type: ignore[override]
            return PostgresStore(
                PostgresAddress(team.url()), writer=lambda: self._writer, wall=lambda: self.time * 1000,
                installation=lambda _: name,
            )  # fmt: skip

    return OnServer(str(directory), name, remote)


def test_server_and_file_converge(team: Team, tmp_path: Path, remote: FolderRemote) -> None:
    """What is recorded, edited concurrently, erased and deleted on either."""
    anna, ben = on_server(team, tmp_path, "anna", remote), Device(str(tmp_path), "ben", remote)
    join(anna.create_vault(), ben)
    for device, session in ((anna, "s1"), (ben, "s2")):
        device.start(session)
        device.note(session, "hello")
        device.record(session, AgentStarted(id="a", type="code", task="Code"), AgentCompleted(id="a"))
    settle([anna, ben])
    anna.record("s1", SessionEdited(goal="Here"))
    ben.record("s1", SessionEdited(goal="RemoteOverview"))
    (note,) = (event for event in anna.events("s1") if event.type == "note.added")
    anna.record("s1", EventErased(hashes=(note.hash,)))
    ben.record("s2", SessionDeleted())
    settle([anna, ben])
    assert anna.states() == ben.states()
    assert anna.log() == ben.log()
    for device in (anna, ben):
        state = device.state("s1")
        assert state is not None
        assert len(view.conflicts(state)) == 1
    assert list(anna.store.check()) == list(ben.store.check()) == []
    anna.close()
    ben.close()


def test_session_id_of_another_member_does_not_block_sync(
    postgres: Server, team: Team, tmp_path: Path, remote: FolderRemote
) -> None:
    """A session of the vault has the id of another member's: it is reported, and all others are received."""
    other_team = Team(postgres, team.name)
    with admin.connected(PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}"), "admit") as own:
        admin.admit_to_vault(own, admin.make_vault(own, team.vault), other_team.person)
    theirs = PostgresStore(
        PostgresAddress(other_team.url().replace(other_team.vault, team.vault)), writer=lambda: "f" * 32,
        wall=lambda: 1_800_000_000_000_000, installation=lambda _: "elsewhere",
    )  # fmt: skip
    with theirs.transaction() as transaction:
        began = SessionStarted(goal="Theirs", project=ProjectFacts(id="p9", name="other"), device="theirs")
        transaction.record("s1", Draft(began, 1_800_000_000_000, "somebody"))
    theirs.close()
    ben, anna = Device(str(tmp_path), "ben", remote), on_server(team, tmp_path, "anna", remote)
    join(ben.create_vault(), anna)
    ben.start("s1")
    ben.start("s2")
    settle([ben, anna])
    assert anna.state("s1") is None
    assert anna.state("s2") is not None
    assert any(refused.device == "ben" for refused in anna.sync().rejected)
    anna.close()
    ben.close()


def test_erasure_by_another_member_is_not_sent_to_other_devices(
    team: Team, tmp_path: Path, remote: FolderRemote
) -> None:
    """It was put into the owner's session under an earlier version: her devices would apply what she sends."""
    anna, ben = on_server(team, tmp_path, "anna", remote), Device(str(tmp_path), "ben", remote)
    join(anna.create_vault(), ben)
    anna.start("s1")
    anna.note("s1", "precious")
    (note,) = (event for event in anna.events("s1") if event.type == "note.added")
    erasure = make_event(
        session="s1", writer="b0b" + "0" * 29, seq=1, prev=None, clock=note.clock + 1, at=note.at, actor="bob",
        type="event.erased", version=1, salt=bytes(16), data=canonical_json({"hashes": [note.hash]}),
    )  # fmt: skip
    with team.server.connect(team.name) as line:
        line.execute("SET session_replication_role = replica")
        line.execute(
            "INSERT INTO holdfast.events (session, put_by, writer, seq, clock, at, v, type, actor, body, hash, data,"
            " salt)"
            " SELECT s.ref, 'bob', %s, 1, %s, %s, 1, %s, 'bob', %s, %s, %s, %s FROM holdfast.sessions s"
            " JOIN holdfast.vaults v ON v.ref = s.vault WHERE s.id = 's1' AND v.name = %s",
            (erasure.writer, erasure.clock, erasure.at, erasure.type, bytes.fromhex(erasure.body),
             bytes.fromhex(erasure.hash), erasure.data, erasure.salt, team.vault),
        )  # fmt: skip
        line.execute("UPDATE holdfast.sessions SET version = version + 1, anew = version + 1 WHERE id = 's1'")
    anna.note("s1", "later")
    settle([anna, ben])
    assert ben.notes("s1") == anna.notes("s1") == ["precious", "later"]
    anna.store.repair()
    settle([anna, ben])
    assert ben.notes("s1") == anna.notes("s1") == ["precious", "later"]
    anna.close()
    ben.close()


def test_two_devices_with_the_same_server_store_sync_independently(
    team: Team, tmp_path: Path, remote: FolderRemote
) -> None:
    """Whichever of them syncs, everything is sent once, without conflicts."""
    anna, abel = (on_server(team, tmp_path, name, remote) for name in ("anna", "abel"))
    ben = Device(str(tmp_path), "ben", remote)
    join(anna.create_vault(), ben, abel)
    for number, device in enumerate((anna, abel, ben)):
        device.start(f"s{number}")
    settle([anna, abel, ben])
    for device in (anna, abel, ben):
        for session in ("s0", "s1", "s2"):
            device.note(session, f"{device.name} in {session}")
        settle([anna, abel, ben], rounds=1)
    settle([anna, abel, ben])
    assert anna.states() == abel.states() == ben.states()
    assert anna.log() == abel.log() == ben.log()
    assert ben.notes("s1") == ["anna in s1", "abel in s1", "ben in s1"]
    for device in (anna, abel, ben):
        assert list(device.store.check()) == []
        device.close()
