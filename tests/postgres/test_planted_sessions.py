"""A team's store in which a member says things in sessions of their own under ids of another's, or adds to hers."""

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
from holdfast.store.postgres import PostgresStore, members
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
    """Two devices of anna's in one vault: one whose store is the team's, and one with a store of its own."""

    team: Team
    srv: Device
    lap: Device

    def close(self) -> None:
        self.srv.close()
        self.lap.close()


def devices(team: Team, directory: Path, *, admin: str = "srv") -> Devices:
    remote = FolderRemote(str(directory / "remote"), create=True)

    class OnServer(Device):
        def _opened(self) -> PostgresStore:  # type: ignore[override]
            return PostgresStore(
                team.address("anna", "shop"), writer=lambda: self._writer, wall=lambda: self.time * 1000,
                here=lambda _: f"srv {directory}", renew=self.renew,
            )  # fmt: skip

    devices_ = Devices(team, OnServer(str(directory), "srv", remote), Device(str(directory), "lap", remote))
    first, second = (devices_.srv, devices_.lap) if admin == "srv" else (devices_.lap, devices_.srv)
    join(first.create_vault(), second)
    settle([devices_.srv, devices_.lap])
    return devices_


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(tmp_path / "home.db"), writer=lambda: "f" * 32, wall=Ticks())) as store:
        yield store


def new_id() -> str:
    return f"{secrets.token_hex(4)}-0000-7000-8000-000000000000"


def event(session: str, kind: str, data: Json, **more: Any) -> Event:
    """By a writer that bob made up, later than all that anybody recorded."""
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


def planted(team: Team, session: str, *events: Event, writes: bool) -> None:
    """A row of bob's with this id and these events, which he shares with anna."""
    line = team.line("bob")
    line.execute("INSERT INTO holdfast.sessions (vault, id) VALUES (1, %s)", (session,))
    insert(team, session, *events)
    with closing(team.store("bob")) as bob:
        members.share(bob, session, team.role("anna"), writes=writes)


def bob_reads(team: Team, session: str) -> list[bytes]:
    sql = "SELECT e.data FROM holdfast.events e JOIN holdfast.sessions s ON s.ref = e.session WHERE s.id = %s"
    return [bytes(data or b"") for (data,) in team.line("bob").execute(sql, (session,)).fetchall()]


def texts(store: SqliteStore, session: str) -> list[str]:
    state = store.state(session)
    assert state is not None
    return [] if state.deleted else [kept.text for kept in state.notes]


# ── ids of anna's in rows of bob's ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("says", ["deleted", "erased", "aborted"])
@pytest.mark.parametrize("writes", [False, True])
def test_own_session_is_left_as_it_is_when_a_member_decides_over_its_id_on_a_server_that_is_copied(
    team: Team, home: SqliteStore, says: str, *, writes: bool
) -> None:
    """`store copy URL home`: the row of that id is bob's, whose word about hers counts for nothing."""
    session = new_id()
    made = put(home, session, started("Hers"), note(SECRET))
    hashes: Json = [item.hash for item in made]
    erased: Json = {"hashes": hashes, "instead": {made[1].hash: {"text": "of bob's"}}}
    kind, data = {
        "deleted": ("session.deleted", {}), "erased": ("event.erased", erased), "aborted": ("session.aborted", {}),
    }[says]  # fmt: skip
    planted(team, session, event(session, kind, data), writes=writes)
    with closing(team.store("anna")) as server:
        for _ in range(2):
            done = copy(server, home)
            (left,) = (item for item in done.left_out if item.session == session)
            assert "they are not united" in left.reason
    assert texts(home, session) == [SECRET]
    state = home.state(session)
    assert state is not None
    assert [item.hash for item in home.events(session)] == [item.hash for item in made]


@pytest.mark.parametrize("known", [False, True])
def test_copy_adds_nothing_to_a_members_row_of_an_own_session(team: Team, home: SqliteStore, *, known: bool) -> None:
    """`store copy home URL`, where bob knows the id, or also what began the session."""
    session = new_id()
    (first,) = put(home, session, started("Hers"))
    planted(team, session, *([first] if known else []), writes=True)
    take(home, [event(session, "note.added", {"text": SECRET})])  # by a later life of hers
    with closing(team.store("anna")) as server:
        for _ in range(2):
            (left,) = (item for item in copy(home, server).left_out if item.session == session)
            assert "another member's" in left.reason or "not united" in left.reason
    assert not any(SECRET.encode() in data for data in bob_reads(team, session))


def test_restore_adds_nothing_to_a_members_row_of_an_own_session(
    team: Team, home: SqliteStore, tmp_path: Path
) -> None:
    """Bob has the event that began it, so the two have something in common."""
    session = new_id()
    (first,) = put(home, session, started("Hers"))
    planted(team, session, first, writes=True)
    take(home, [event(session, "note.added", {"text": SECRET})])
    home.backup(str(tmp_path / "backup"))
    with closing(team.store("anna")) as server:
        assert session in [item.session for item in server.restore(str(tmp_path / "backup")).left_out]
    assert not any(SECRET.encode() in data for data in bob_reads(team, session))


def test_members_session_that_was_copied_is_followed_and_never_united_with_an_own_one(
    team: Team, home: SqliteStore, tmp_path: Path
) -> None:
    """What bob adds to it comes with the next copy; a store that has an own session of its id leaves it out."""
    session = new_id()
    with closing(team.store("bob")) as bob, closing(team.store("anna")) as anna:
        put(bob, session, started("Bob's"))
        members.share(bob, session, team.role("anna"), writes=False)
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
def test_session_on_another_device_is_as_it_was_when_a_member_decides_over_its_id(
    team: Team, tmp_path: Path, admin: str, says: str
) -> None:
    """The device at the server takes nothing of bob's row for the word of its vault."""
    there = devices(team, tmp_path, admin=admin)
    session = new_id()
    there.lap.start(session)
    there.lap.note(session, SECRET)
    settle([there.lap])
    planted(team, session, event(session, says, {}), writes=True)
    settle([there.srv, there.lap])
    assert there.lap.notes(session) == [SECRET]
    assert all(item.type != says for item in there.lap.events(session))
    there.close()


@pytest.mark.parametrize("writes", [False, True])
def test_sync_adds_nothing_to_a_members_row_of_an_own_session(team: Team, tmp_path: Path, *, writes: bool) -> None:
    """An empty row of bob's has the id: what another device wrote stays out of it, and that is said."""
    there = devices(team, tmp_path)
    session = new_id()
    there.lap.start(session)
    planted(team, session, writes=writes)
    there.lap.note(session, SECRET)
    other = new_id()
    there.lap.start(other)
    there.lap.sync()
    assert any(session[:8] in item.reason and "another member's" in item.reason for item in there.srv.sync().rejected)
    settle([there.srv, there.lap])
    assert bob_reads(team, session) == []
    assert there.srv.state(other) is not None
    there.close()


# ── what members say ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("forged", [False, True])
def test_session_of_a_member_is_not_sent_to_ones_own_vault(team: Team, tmp_path: Path, *, forged: bool) -> None:
    """Not in his name and not in the name of her device: there, hooks and commands would take it for her word."""
    there = devices(team, tmp_path)
    session = new_id()
    start: Json = {"goal": "Bob's trap", "device": "srv", "project": {"id": "p1", "name": "shop"}, "branch": "main"}
    made = event(session, "session.started", start, **({"writer": there.srv.writer} if forged else {}))
    linked = event(session, "native.linked", {"agent": "claude", "id": "conv-1"}, writer=made.writer, seq=2,
                   prev=made.hash, clock=made.clock + 1)  # fmt: skip
    planted(team, session, made, linked, writes=True)
    assert any(session[:8] in note for note in there.srv.sync().notes)
    settle([there.srv, there.lap])
    assert there.lap.state(session) is None
    assert there.srv.state(session) is not None
    there.close()


def test_what_a_member_adds_to_an_own_session_is_not_sent_to_ones_own_vault(team: Team, tmp_path: Path) -> None:
    """Bob has a write share: another device of hers would act on a branch and a conversation that he names."""
    there = devices(team, tmp_path)
    session = new_id()
    there.srv.start(session)
    members.share(there.srv.store, session, team.role("bob"), writes=True)  # type: ignore[arg-type]
    settle([there.srv, there.lap])
    edited = event(session, "session.edited", {"branch": "precious"})
    linked = event(session, "native.linked", {"agent": "claude", "id": "conv-1"})
    insert(team, session, edited, linked)
    there.srv.record(session, NoteAdded(text=SECRET))
    assert any(session[:8] in note for note in there.srv.sync().notes)
    settle([there.srv, there.lap])
    assert there.lap.notes(session) == [SECRET]
    assert {edited.hash, linked.hash}.isdisjoint(item.hash for item in there.lap.events(session))
    assert {edited.hash, linked.hash} <= {item.hash for item in there.srv.events(session)}
    there.close()


def test_what_a_member_added_is_not_sent_to_ones_own_vault_when_the_session_was_copied_home(
    team: Team, tmp_path: Path
) -> None:
    """A file keeps no persons apart: which streams are bob's is remembered with the copy."""
    there = devices(team, tmp_path)
    session = new_id()
    edited = event(session, "session.edited", {"branch": "precious"})
    with closing(team.store("anna")) as anna:
        put(anna, session, started("Hers"))
        members.share(anna, session, team.role("bob"), writes=True)
        insert(team, session, edited)
        copy(anna, there.lap.store)
    assert edited.hash in {item.hash for item in there.lap.events(session)}
    assert not origin.is_own_stream(there.lap.store, session, edited.writer)
    assert any(note.startswith("Sent without") and session[:8] in note for note in there.lap.sync().notes)
    there.close()


def test_members_session_that_was_copied_home_is_not_sent_to_ones_own_vault(team: Team, tmp_path: Path) -> None:
    """A file keeps no persons apart: that it was bob's is remembered with the copy."""
    there = devices(team, tmp_path)
    session = new_id()
    with closing(team.store("bob")) as bob, closing(team.store("anna")) as anna:
        put(bob, session, started("Bob's"))
        members.share(bob, session, team.role("anna"), writes=True)
        copy(anna, there.lap.store)
    assert there.lap.state(session) is not None
    assert any(session[:8] in note for note in there.lap.sync().notes)
    there.close()


def test_session_of_a_member_is_not_shared_through_ones_own_vault(team: Team, tmp_path: Path) -> None:
    """Bob lets anna write to it; whom it is offered to is for him to say."""
    session = new_id()
    with closing(team.store("bob")) as bob:
        put(bob, session, started("Bob's"))
        members.share(bob, session, team.role("anna"), writes=True)
    machine = Machine(tmp_path, team.address("anna", "shop").secret)
    with machine.keeper() as keeper, pytest.raises(Refused, match="only they may share it"):
        vault_sharing.share(keeper, session, "carl@example.org")
