"""A team's store in which a member records in sessions of their own under ids of another's, or adds to hers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from psycopg import sql

from holdfast.core.canonical import Json, canonical_json
from holdfast.core.envelope import Event, make_event
from holdfast.core.errors import Refused
from holdfast.core.events import NoteAdded
from holdfast.store import origin
from holdfast.store.conformance import Ticks, note, put, started, take
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteStore
from holdfast.store.store_copy import copy
from holdfast.sync import shares as vault_sharing
from holdfast.sync.remotes.folder import FolderRemote
from tests.postgres.machines import Machine
from tests.postgres.team_of_people import Team, team
from tests.postgres.test_hostile_members import _COLUMNS, row
from tests.support.vault_devices import Device, join, settle

__all__ = ["team"]

SECRET: Final = "words of anna's alone"


class Devices(NamedTuple):
    """Two of anna's devices in one vault: one whose store is the team's, and one with a store of its own."""

    team: Team
    on_server: Device
    own_device: Device

    def close(self) -> None:
        self.on_server.close()
        self.own_device.close()


def devices(team: Team, directory: Path, *, admin: str = "srv") -> Devices:
    remote = FolderRemote(str(directory / "remote"), create=True)

    class OnServer(Device):
        def _opened(self) -> PostgresStore:  # type: ignore[override]
            return PostgresStore(
                team.address("anna", "shop"), writer=lambda: self._writer, wall=lambda: self.time * 1000,
                installation=lambda _: f"srv {directory}", renew=self.renew,
            )  # fmt: skip

    devices_ = Devices(team, OnServer(str(directory), "srv", remote), Device(str(directory), "lap", remote))
    first, second = (
        (devices_.on_server, devices_.own_device) if admin == "srv" else (devices_.own_device, devices_.on_server)
    )
    join(first.create_vault(), second)
    settle([devices_.on_server, devices_.own_device])
    return devices_


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(tmp_path / "home.db"), writer=lambda: "f" * 32, wall=Ticks())) as store:
        yield store


def new_id() -> str:
    return f"{secrets.token_hex(4)}-0000-7000-8000-000000000000"


def event(session: str, kind: str, data: Json, **more: Any) -> Event:
    """By a writer that bob invented, later than all other events."""
    facts: dict[str, Any] = {
        "session": session, "writer": secrets.token_hex(10), "seq": 1, "prev": None, "clock": 1_900_000_000_000_000,
        "at": 1_900_000_000_000, "actor": "bob", "type": kind, "version": 1, "salt": bytes(16),
        "data": canonical_json(data), **more,
    }  # fmt: skip
    return make_event(**facts)


def insert(team: Team, session: str, *events: Event) -> None:
    """By bob in plain SQL."""
    line = team.line("bob")
    with line.transaction():
        for item in events:
            line.execute(
                sql.SQL(
                    "INSERT INTO holdfast.events (session, {}) SELECT ref{} FROM holdfast.sessions WHERE id = %s"
                ).format(sql.SQL(", ").join(map(sql.Identifier, _COLUMNS)), sql.SQL(", %s") * len(_COLUMNS)),
                (*row(item), session),
            )
        line.execute(
            "UPDATE holdfast.sessions SET version = version + 1, anew = version + 1,"
            " latest = (SELECT last_value FROM holdfast.places) WHERE id = %s",
            (session,),
        )


def plant(team: Team, session: str, *events: Event, writes: bool) -> None:
    """A row of bob's with this id and these events, shared with anna."""
    line = team.line("bob")
    line.execute("INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s)", (session,))
    insert(team, session, *events)
    with closing(team.store("bob")) as bob:
        bob.team.share(session, team.role("anna"), writes=writes)


def data_visible_to_bob(team: Team, session: str) -> list[bytes]:
    sql = "SELECT e.data FROM holdfast.events e JOIN holdfast.sessions s ON s.ref = e.session WHERE s.id = %s"
    return [bytes(data or b"") for (data,) in team.line("bob").execute(sql, (session,)).fetchall()]


def texts(store: SqliteStore, session: str) -> list[str]:
    state = store.state(session)
    assert state is not None
    return [] if state.deleted else [kept.text for kept in state.notes]


# ── ids of anna's in rows of bob's ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("says", ["deleted", "erased", "aborted"])
@pytest.mark.parametrize("writes", [False, True])
def test_copy_from_a_server_keeps_an_own_session_when_a_member_uses_its_id(
    team: Team, home: SqliteStore, says: str, *, writes: bool
) -> None:
    """`store copy URL home`: the row with that id is bob's, and its events do not count for hers."""
    session = new_id()
    made = put(home, session, started("Hers"), note(SECRET))
    hashes: Json = [item.hash for item in made]
    erased: Json = {"hashes": hashes, "instead": {made[1].hash: {"text": "of bob's"}}}
    kind, data = {
        "deleted": ("session.deleted", {}), "erased": ("event.erased", erased), "aborted": ("session.aborted", {}),
    }[says]  # fmt: skip
    plant(team, session, event(session, kind, data), writes=writes)
    with closing(team.store("anna")) as server:
        for _ in range(2):
            done = copy(server, home)
            (left,) = (item for item in done.left_out if item.session == session)
            assert "the two are not merged" in left.reason
    assert texts(home, session) == [SECRET]
    state = home.state(session)
    assert state is not None
    assert [item.hash for item in home.events(session)] == [item.hash for item in made]


@pytest.mark.parametrize("known", [False, True])
def test_copy_to_a_server_adds_nothing_to_a_members_row_with_an_own_id(
    team: Team, home: SqliteStore, *, known: bool
) -> None:
    """`store copy home URL`: bob knows the id, or also the first event of the session."""
    session = new_id()
    (first,) = put(home, session, started("Hers"))
    plant(team, session, *([first] if known else []), writes=True)
    take(home, [event(session, "note.added", {"text": SECRET})])  # by another writer of hers
    with closing(team.store("anna")) as server:
        for _ in range(2):
            (left,) = (item for item in copy(home, server).left_out if item.session == session)
            assert "of another member" in left.reason or "not merged" in left.reason
    assert not any(SECRET.encode() in data for data in data_visible_to_bob(team, session))


def test_restore_adds_nothing_to_a_members_row_with_an_own_id(team: Team, home: SqliteStore, tmp_path: Path) -> None:
    """Bob has its first event, so the two have an event in common."""
    session = new_id()
    (first,) = put(home, session, started("Hers"))
    plant(team, session, first, writes=True)
    take(home, [event(session, "note.added", {"text": SECRET})])
    home.backup(str(tmp_path / "backup"))
    with closing(team.store("anna")) as server:
        assert session in [item.session for item in server.restore(str(tmp_path / "backup")).left_out]
    assert not any(SECRET.encode() in data for data in data_visible_to_bob(team, session))


def test_copied_session_of_a_member_is_updated_but_never_merged_with_an_own_one(
    team: Team, home: SqliteStore, tmp_path: Path
) -> None:
    """Bob's later events come with the next copy; a store with an own session of its id leaves it out."""
    session = new_id()
    with closing(team.store("bob")) as bob, closing(team.store("anna")) as anna:
        put(bob, session, started("Bob's"))
        bob.team.share(session, team.role("anna"), writes=False)
        copy(anna, home)
        put(bob, session, note("more"))
        assert session not in [item.session for item in copy(anna, home).left_out]
        assert texts(home, session) == ["more"]
    with closing(SqliteStore(str(tmp_path / "other.db"), writer=lambda: "e" * 32, wall=Ticks())) as other:
        put(other, session, started("Anna's"))
        assert session in [item.session for item in copy(home, other).left_out]
        home.backup(str(tmp_path / "backup"))
        assert session in [item.session for item in other.restore(str(tmp_path / "backup")).left_out]
        assert texts(other, session) == []


@pytest.mark.parametrize("admin", ["srv", "lap"])
@pytest.mark.parametrize("says", ["session.deleted", "session.aborted"])
def test_session_on_another_device_is_unchanged_when_a_member_uses_its_id(
    team: Team, tmp_path: Path, admin: str, says: str
) -> None:
    """The device on the server does not send bob's row to its vault."""
    there = devices(team, tmp_path, admin=admin)
    session = new_id()
    there.own_device.start(session)
    there.own_device.note(session, SECRET)
    settle([there.own_device])
    plant(team, session, event(session, says, {}), writes=True)
    settle([there.on_server, there.own_device])
    assert there.own_device.notes(session) == [SECRET]
    assert all(item.type != says for item in there.own_device.events(session))
    there.close()


@pytest.mark.parametrize("writes", [False, True])
def test_sync_adds_nothing_to_a_members_row_with_an_own_id(team: Team, tmp_path: Path, *, writes: bool) -> None:
    """An empty row of bob's has the id: events of another device are not added to it, and that is reported."""
    there = devices(team, tmp_path)
    session = new_id()
    there.own_device.start(session)
    plant(team, session, writes=writes)
    there.own_device.note(session, SECRET)
    other = new_id()
    there.own_device.start(other)
    there.own_device.sync()
    assert any(
        session[:8] in item.reason and "another member of" in item.reason for item in there.on_server.sync().rejected
    )
    settle([there.on_server, there.own_device])
    assert data_visible_to_bob(team, session) == []
    assert there.on_server.state(other) is not None
    there.close()


# ── sessions of members ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("forged", [False, True])
def test_members_session_is_not_sent_to_the_own_vault(team: Team, tmp_path: Path, *, forged: bool) -> None:
    """Neither under his name nor under her device's: other devices would trust it."""
    there = devices(team, tmp_path)
    session = new_id()
    start: Json = {"goal": "Bob's trap", "device": "srv", "project": {"id": "p1", "name": "shop"}, "branch": "main"}
    made = event(session, "session.started", start, **({"writer": there.on_server.writer} if forged else {}))
    linked = event(session, "native.linked", {"agent": "claude", "id": "conv-1"}, writer=made.writer, seq=2,
                   prev=made.hash, clock=made.clock + 1)  # fmt: skip
    plant(team, session, made, linked, writes=True)
    assert any(session[:8] in note for note in there.on_server.sync().notes)
    settle([there.on_server, there.own_device])
    assert there.own_device.state(session) is None
    assert there.on_server.state(session) is not None
    there.close()


def test_members_events_in_an_own_session_are_not_sent_to_the_own_vault(team: Team, tmp_path: Path) -> None:
    """Bob has a write share: another device of hers would act on a branch and a conversation that he names."""
    there = devices(team, tmp_path)
    session = new_id()
    there.on_server.start(session)
    people = there.on_server.store.team
    assert people is not None
    people.share(session, team.role("bob"), writes=True)
    settle([there.on_server, there.own_device])
    edited = event(session, "session.edited", {"branch": "precious"})
    linked = event(session, "native.linked", {"agent": "claude", "id": "conv-1"})
    insert(team, session, edited, linked)
    there.on_server.record(session, NoteAdded(text=SECRET))
    assert any(session[:8] in note for note in there.on_server.sync().notes)
    settle([there.on_server, there.own_device])
    assert there.own_device.notes(session) == [SECRET]
    assert {edited.hash, linked.hash}.isdisjoint(item.hash for item in there.own_device.events(session))
    assert {edited.hash, linked.hash} <= {item.hash for item in there.on_server.events(session)}
    there.close()


def test_members_events_are_not_sent_to_the_own_vault_after_a_copy_home(team: Team, tmp_path: Path) -> None:
    """A file has no members: which streams are bob's is remembered with the copy."""
    there = devices(team, tmp_path)
    session = new_id()
    edited = event(session, "session.edited", {"branch": "precious"})
    with closing(team.store("anna")) as anna:
        put(anna, session, started("Hers"))
        anna.team.share(session, team.role("bob"), writes=True)
        insert(team, session, edited)
        copy(anna, there.own_device.store)
    assert edited.hash in {item.hash for item in there.own_device.events(session)}
    assert not origin.is_own_stream(there.own_device.store, session, edited.writer)
    assert any(note.startswith("Sent without") and session[:8] in note for note in there.own_device.sync().notes)
    there.close()


def test_members_session_is_not_sent_to_the_own_vault_after_a_copy_home(team: Team, tmp_path: Path) -> None:
    """A file has no members: that it was bob's is remembered with the copy."""
    there = devices(team, tmp_path)
    session = new_id()
    with closing(team.store("bob")) as bob, closing(team.store("anna")) as anna:
        put(bob, session, started("Bob's"))
        bob.team.share(session, team.role("anna"), writes=True)
        copy(anna, there.own_device.store)
    assert there.own_device.state(session) is not None
    assert any(session[:8] in note for note in there.own_device.sync().notes)
    there.close()


def test_members_session_cannot_be_shared_through_the_own_vault(team: Team, tmp_path: Path) -> None:
    """Although bob lets anna write to it."""
    session = new_id()
    with closing(team.store("bob")) as bob:
        put(bob, session, started("Bob's"))
        bob.team.share(session, team.role("anna"), writes=True)
    machine = Machine(tmp_path, team.address("anna", "shop").secret)
    with machine.keeper() as keeper, pytest.raises(Refused, match="only they may share it"):
        vault_sharing.share(keeper, session, "carl@example.org")
