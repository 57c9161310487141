"""Copies, backups and restores among several members: what the user may not write or repair is left out by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from psycopg import sql

from holdfast.core.errors import Damaged
from holdfast.core.events import SessionDeleted
from holdfast.store import store_copy
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import (
    ANNA,
    BEN,
    OTHER,
    SESSION,
    THIRD,
    Ticks,
    assert_sound,
    draft,
    everything,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import Store
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres import admin as postgres_admin
from holdfast.store.sqlite import SqliteStore
from holdfast.store.store_copy import Progress, copy
from tests.postgres.team import Team
from tests.support.postgres.server import Server


class TwoMembers(NamedTuple):
    """Anna and Ben in one vault; Anna has SESSION and OTHER there. Ben has a file at home, with THIRD only."""

    team: Team
    person: str
    anna: PostgresStore
    ben: PostgresStore
    home: SqliteStore

    def damage(self, session: str) -> None:
        """As a superuser: change the data of its last event."""
        with self.team.server.connect(self.team.name) as line:
            line.execute("SET session_replication_role = replica")
            changed = line.execute(
                "UPDATE holdfast.events SET data = '{}' WHERE place = (SELECT max(e.place) FROM holdfast.events e"
                " JOIN holdfast.sessions s ON s.ref = e.session JOIN holdfast.vaults v ON v.ref = s.vault"
                " WHERE s.id = %s AND v.name = %s)",
                (session, self.team.vault),
            )
            assert changed.rowcount == 1


def opened(path: Path, writer: str = BEN) -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: writer, wall=Ticks())


@pytest.fixture
def two_members(postgres: Server, database: str, tmp_path: Path) -> Iterator[TwoMembers]:
    team = Team(postgres, database)
    person = team.server.role(f"ben_{team.person}")
    admin = PostgresAddress(f"{team.server.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as line:
        postgres_admin.admit_to_vault(line, postgres_admin.make_vault(line, team.vault), person)
    address = PostgresAddress(f"{team.server.url(team.name, person)}&vault={team.vault}")
    ben = PostgresStore(address, writer=lambda: BEN, wall=Ticks(), installation=lambda _: "ben")
    with closing(team.store()) as anna, closing(ben), closing(opened(tmp_path / "home.db")) as home:
        put(anna, SESSION, started("Build the shop"), note("blue"))
        put(anna, OTHER, started("Paint it"), note("green"))
        put(home, THIRD, started("Ben's alone"), note("mine"))
        yield TwoMembers(team, person, anna, ben, home)


def reasons(left: tuple[tuple[str, str, str | None], ...]) -> dict[str, tuple[str, str | None]]:
    return {session: (reason, goal) for session, reason, goal in left}


def events(store: Store, session: str) -> list[str]:
    return [event.hash for event in store.events(session)]


def test_copy_leaves_out_sessions_of_others_each_time(
    two_members: TwoMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden or shared: the rest is copied, and nothing is added to another member's session."""
    monkeypatch.setattr(store_copy, "PORTION", 3)
    for session in (SESSION, OTHER):
        take(two_members.home, two_members.anna.events(session))
        put(two_members.home, session, note("Ben's own words"))
    put(two_members.home, THIRD, note("the last"))
    two_members.anna.team.share(OTHER, two_members.person, writes=False)
    for _ in range(2):
        done = copy(two_members.home, two_members.ben)
        left = reasons(done.left_out)
        assert {session: goal for session, (_, goal) in left.items()} == {
            SESSION: "Build the shop",
            OTHER: "Paint it",
        }
        assert "does not share it with you" in left[SESSION][0]
        assert "a session of another member with this id already exists there" in left[OTHER][0]
        assert done.sessions == 1
        assert events(two_members.ben, THIRD) == events(two_members.home, THIRD)
        assert len(events(two_members.anna, SESSION)) == len(events(two_members.anna, OTHER)) == 2
    assert done.events == 0
    for session in (SESSION, OTHER):
        two_members.anna.team.share(session, two_members.person, writes=True)
    done = copy(two_members.home, two_members.ben)
    assert (done.sessions, done.events, [item.session for item in done.left_out]) == (1, 0, [SESSION, OTHER])
    assert len(events(two_members.anna, SESSION)) == len(events(two_members.anna, OTHER)) == 2
    assert_sound(two_members.ben)


def test_copy_accepts_read_only_sessions_that_are_there_already(two_members: TwoMembers, tmp_path: Path) -> None:
    """Nothing is new in a session that is shared for reading, so nothing is refused."""
    two_members.anna.team.share(OTHER, two_members.person, writes=False)
    copy(two_members.ben, two_members.home)
    assert copy(two_members.home, two_members.ben) == (2, 2, ())
    two_members.ben.backup(str(tmp_path / "backup"))
    assert two_members.ben.restore(str(tmp_path / "backup")) == (2, 0, ())


def test_copy_leaves_out_a_session_that_is_no_longer_shared(two_members: TwoMembers) -> None:
    """It was copied home while it was shared."""
    two_members.anna.team.share(SESSION, two_members.person, writes=True)
    copy(two_members.ben, two_members.home)
    two_members.anna.team.unshare(SESSION, two_members.person)
    put(two_members.home, SESSION, note("at home"))
    done = copy(two_members.home, two_members.ben)
    assert ([copied.session for copied in done.left_out], done.sessions) == ([SESSION], 1)
    assert events(two_members.ben, THIRD) == events(two_members.home, THIRD)


def test_copy_leaves_out_a_deletion_of_another_members_session(two_members: TwoMembers) -> None:
    """Deleted at home, it stays on the server."""
    two_members.anna.team.share(SESSION, two_members.person, writes=True)
    copy(two_members.ben, two_members.home)
    two_members.home.erase(SESSION, draft(SessionDeleted()))
    done = copy(two_members.home, two_members.ben)
    assert [(copied.session, copied.goal) for copied in done.left_out] == [(SESSION, None)]
    state = two_members.anna.state(SESSION)
    assert state is not None
    assert not state.deleted


def test_restore_leaves_out_sessions_of_others(two_members: TwoMembers, tmp_path: Path) -> None:
    """Also where they are shared."""
    for session in (SESSION, OTHER):
        take(two_members.home, two_members.anna.events(session))
        put(two_members.home, session, note("Ben's own words"))
    two_members.home.backup(str(tmp_path / "backup"))
    two_members.anna.team.share(OTHER, two_members.person, writes=False)
    done = two_members.ben.restore(str(tmp_path / "backup"))
    assert (done.sessions, done.events) == (1, 2)
    assert {copied.session: copied.goal for copied in done.left_out} == {SESSION: "Build the shop", OTHER: "Paint it"}
    assert events(two_members.ben, THIRD) == events(two_members.home, THIRD)
    for session in (SESSION, OTHER):
        two_members.anna.team.share(session, two_members.person, writes=True)
    done = two_members.ben.restore(str(tmp_path / "backup"))
    assert (done.sessions, done.events, len(done.left_out)) == (1, 0, 2)
    assert len(events(two_members.anna, SESSION)) == len(events(two_members.anna, OTHER)) == 2
    assert_sound(two_members.ben)


def test_damage_in_a_session_of_another_member_is_left_out(two_members: TwoMembers, tmp_path: Path) -> None:
    """Of a copy and of a backup; its owner's copy is refused until she repairs it."""
    copy(two_members.home, two_members.ben)
    for session in (SESSION, OTHER):
        two_members.anna.team.share(session, None, writes=True)
    two_members.damage(SESSION)
    fresh = opened(tmp_path / "fresh.db", ANNA)
    done = copy(two_members.ben, fresh)
    ((session, reason, _),) = done.left_out
    assert (session, done.sessions) == (SESSION, 2)
    assert "event 2 is damaged" in reason
    assert "its owner repairs it" in reason
    assert sorted(fresh.sessions()) == sorted([OTHER, THIRD])
    assert two_members.ben.backup(str(tmp_path / "backup")) == done.left_out
    again = opened(tmp_path / "again.db", ANNA)
    assert again.restore(str(tmp_path / "backup")) == (2, 4, ())
    for attempt in (lambda: copy(two_members.anna, again), lambda: two_members.anna.backup(str(tmp_path / "annas"))):
        with pytest.raises(Damaged, match="nothing was copied") as caught:
            attempt()
        assert caught.value.session == SESSION
    assert not (tmp_path / "annas").exists()
    two_members.anna.repair()
    done = copy(two_members.ben, fresh)
    assert (done.sessions, done.left_out) == (3, ())
    assert everything(fresh) == everything(two_members.ben)
    fresh.close()
    again.close()


def test_damage_that_appears_during_a_copy_is_left_out(two_members: TwoMembers, tmp_path: Path) -> None:
    """After the session was checked."""
    copy(two_members.home, two_members.ben)
    two_members.anna.team.share(SESSION, None, writes=False)

    def on_progress(progress: Progress) -> None:
        if progress == ("checking", progress.of, progress.of):
            two_members.damage(SESSION)

    with closing(opened(tmp_path / "fresh.db", ANNA)) as fresh:
        done = copy(two_members.ben, fresh, on_progress=on_progress)
        assert ([copied.session for copied in done.left_out], done.sessions) == ([SESSION], 1)
        assert events(fresh, THIRD) == events(two_members.home, THIRD)


def test_copy_leaves_out_a_session_damaged_in_the_target(two_members: TwoMembers) -> None:
    """It is shared with us; the user's own sessions are copied and verified."""
    take(two_members.home, two_members.anna.events(SESSION))
    two_members.anna.team.share(SESSION, two_members.person, writes=True)
    two_members.damage(SESSION)
    done = copy(two_members.home, two_members.ben)
    ((session, reason, goal),) = done.left_out
    assert (session, goal, done.sessions) == (SESSION, "Build the shop", 1)
    assert "differs" in reason
    assert events(two_members.ben, THIRD) == events(two_members.home, THIRD)


def test_copy_and_backup_keep_the_list_of_missing_events(two_members: TwoMembers, tmp_path: Path) -> None:
    """Their doctor warns as it does at home, and does not fail."""
    put(two_members.anna, OTHER, note("white"))
    two_members.team.server.sql(
        "DELETE FROM holdfast.events WHERE seq = 2 AND session = (SELECT s.ref FROM holdfast.sessions s"
        " JOIN holdfast.vaults v ON v.ref = s.vault WHERE s.id = %s AND v.name = %s)",
        OTHER, two_members.team.vault, database=two_members.team.name,
    )  # fmt: skip
    two_members.anna.repair()
    known = two_members.anna.local_state().missing_events
    assert len(known) == 1
    with closing(opened(tmp_path / "copy.db")) as copied, closing(opened(tmp_path / "restored.db")) as restored:
        assert copy(two_members.anna, copied).left_out == ()
        two_members.anna.backup(str(tmp_path / "backup"))
        restored.restore(str(tmp_path / "backup"))
        server = Team(two_members.team.server, two_members.team.server.url(two_members.team.name))
        with closing(server.store()) as back:
            copy(copied, back)
            for store in (two_members.anna, copied, restored, back):
                assert store.local_state().missing_events == known
                assert [(damage.check, damage.detail) for damage in store.check()] == [
                    ("aside", "event 2 is missing")
                ]
        with closing(opened(tmp_path / "whole.db")) as whole:
            put(whole, SESSION, started())
            copy(two_members.home, whole)
            assert whole.local_state().missing_events == frozenset()


def test_copy_does_not_mark_present_events_as_missing(two_members: TwoMembers, tmp_path: Path) -> None:
    """A target that has the event which the source lost keeps it."""
    put(two_members.home, THIRD, note("white"))
    with closing(opened(tmp_path / "whole.db")) as whole:
        copy(two_members.home, whole)
        connection = two_members.home._connection
        connection.execute("DELETE FROM events WHERE seq = 2")
        two_members.home.repair()
        assert len(two_members.home.local_state().missing_events) == 1
        copy(two_members.home, whole)
        assert whole.local_state().missing_events == frozenset()
        assert_sound(whole)


def test_invalid_events_of_a_member_do_not_stop_a_copy_or_backup(two_members: TwoMembers, tmp_path: Path) -> None:
    """Inserted by hand, before the server refused them."""
    copy(two_members.home, two_members.ben)
    two_members.anna.team.share(SESSION, None, writes=True)
    wrong: list[tuple[str, object]] = [
        ("hash", b""), ("hash", bytes(32)), ("body", b"\0"), ("prev", b"x"), ("seq", -5), ("clock", 2**63 - 1),
        ("at", -(2**63)), ("v", 999), ("type", "session.deleted?"), ("actor", "\x01\x07"), ("seen", b"\xff"),
        ("salt", b""), ("data", b"\xff{"), ("writer", ""),
    ]  # fmt: skip
    with two_members.team.server.connect(two_members.team.name) as line:
        line.execute("SET session_replication_role = replica")
        for number, (column, value) in enumerate(wrong, 1):
            made: dict[str, object] = {
                "writer": BEN, "seq": number, "clock": 1, "at": 1, "v": 1, "type": "note.added", "actor": "ben",
                "put_by": two_members.person, "body": bytes(32), "hash": bytes(31) + bytes([number]), "data": b"{}",
                "salt": bytes(16),
                column: value,
            }  # fmt: skip
            statement = sql.SQL(
                "INSERT INTO holdfast.events (session, {}) SELECT s.ref, {} FROM holdfast.sessions s"
                " JOIN holdfast.vaults v ON v.ref = s.vault WHERE s.id = %s AND v.name = %s"
            ).format(
                sql.SQL(", ").join(map(sql.Identifier, made)), sql.SQL(", ").join([sql.Placeholder()] * len(made))
            )
            assert line.execute(statement, (*made.values(), SESSION, two_members.team.vault)).rowcount == 1
    with closing(opened(tmp_path / "fresh.db", ANNA)) as fresh:
        done = copy(two_members.ben, fresh)
        assert ([copied.session for copied in done.left_out], done.sessions) == ([SESSION], 1)
        assert events(fresh, THIRD) == events(two_members.home, THIRD)
        assert [copied.session for copied in two_members.ben.backup(str(tmp_path / "backup"))] == [SESSION]
