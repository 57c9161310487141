"""Copies, backups and restores among several people: what is not one's own to write or repair is left out by name."""

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
from holdfast.store.postgres import PostgresStore, members
from holdfast.store.postgres import admin as postgres_admin
from holdfast.store.sqlite import SqliteStore
from holdfast.store.store_copy import Progress, copy
from tests.postgres.team import Team
from tests.support.postgres.server import Server


class Two(NamedTuple):
    """Anna and Ben in one vault; Anna has SESSION and OTHER there. Ben has a file at home, with THIRD alone."""

    team: Team
    person: str
    anna: PostgresStore
    ben: PostgresStore
    home: SqliteStore

    def damage(self, session: str) -> None:
        """As somebody who may do everything: the data of its last event is another."""
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
def two(postgres: Server, database: str, tmp_path: Path) -> Iterator[Two]:
    team = Team(postgres, database)
    person = team.server.role(f"ben_{team.person}")
    admin = PostgresAddress(f"{team.server.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as line:
        postgres_admin.admit_to_vault(line, postgres_admin.make_vault(line, team.vault), person)
    address = PostgresAddress(f"{team.server.url(team.name, person)}&vault={team.vault}")
    ben = PostgresStore(address, writer=lambda: BEN, wall=Ticks(), here=lambda _: "ben")
    with closing(team.store()) as anna, closing(ben), closing(opened(tmp_path / "home.db")) as home:
        put(anna, SESSION, started("Build the shop"), note("blue"))
        put(anna, OTHER, started("Paint it"), note("green"))
        put(home, THIRD, started("Ben's alone"), note("mine"))
        yield Two(team, person, anna, ben, home)


def reasons(left: tuple[tuple[str, str, str | None], ...]) -> dict[str, tuple[str, str | None]]:
    return {session: (reason, goal) for session, reason, goal in left}


def events(store: Store, session: str) -> list[str]:
    return [event.hash for event in store.events(session)]


def test_what_is_not_ours_is_left_out_and_tried_again(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is hidden and one that is shared: the rest is there, and nothing is added to what is not one's own."""
    monkeypatch.setattr(store_copy, "PORTION", 3)
    for session in (SESSION, OTHER):
        take(two.home, two.anna.events(session))
        put(two.home, session, note("Ben's own words"))
    put(two.home, THIRD, note("the last"))
    members.share(two.anna, OTHER, two.person, writes=False)
    for _ in range(2):
        done = copy(two.home, two.ben)
        left = reasons(done.left_out)
        assert {session: goal for session, (_, goal) in left.items()} == {
            SESSION: "Build the shop",
            OTHER: "Paint it",
        }
        assert "does not share it with you" in left[SESSION][0]
        assert "another member's: nothing is added to it" in left[OTHER][0]
        assert done.sessions == 1
        assert events(two.ben, THIRD) == events(two.home, THIRD)
        assert len(events(two.anna, SESSION)) == len(events(two.anna, OTHER)) == 2
    assert done.events == 0
    for session in (SESSION, OTHER):
        members.share(two.anna, session, two.person, writes=True)
    done = copy(two.home, two.ben)
    assert (done.sessions, done.events, [item.session for item in done.left_out]) == (1, 0, [SESSION, OTHER])
    assert len(events(two.anna, SESSION)) == len(events(two.anna, OTHER)) == 2
    assert_sound(two.ben)


def test_copy_accepts_read_only_sessions_that_are_there_already(two: Two, tmp_path: Path) -> None:
    """There and back with a session that is shared for reading: nothing is new, so nothing is refused."""
    members.share(two.anna, OTHER, two.person, writes=False)
    copy(two.ben, two.home)
    assert copy(two.home, two.ben) == (2, 2, ())
    two.ben.backup(str(tmp_path / "backup"))
    assert two.ben.restore(str(tmp_path / "backup")) == (2, 0, ())


def test_unshared_since_it_was_copied(two: Two) -> None:
    """Brought home while it was shared; when it is not any more, it stays at home, and everything else goes."""
    members.share(two.anna, SESSION, two.person, writes=True)
    copy(two.ben, two.home)
    members.unshare(two.anna, SESSION, two.person)
    put(two.home, SESSION, note("at home"))
    done = copy(two.home, two.ben)
    assert ([copied.session for copied in done.left_out], done.sessions) == ([SESSION], 1)
    assert events(two.ben, THIRD) == events(two.home, THIRD)


def test_what_only_an_owner_records_is_left_out(two: Two) -> None:
    """Deleted at home, a session of somebody else is not deleted there."""
    members.share(two.anna, SESSION, two.person, writes=True)
    copy(two.ben, two.home)
    two.home.erase(SESSION, draft(SessionDeleted()))
    done = copy(two.home, two.ben)
    assert [(copied.session, copied.goal) for copied in done.left_out] == [(SESSION, None)]
    state = two.anna.state(SESSION)
    assert state is not None
    assert not state.deleted


def test_a_restore_takes_in_all_that_it_may(two: Two, tmp_path: Path) -> None:
    """In one step; what is somebody else's is named, and left as it is also where it is shared."""
    for session in (SESSION, OTHER):
        take(two.home, two.anna.events(session))
        put(two.home, session, note("Ben's own words"))
    two.home.backup(str(tmp_path / "backup"))
    members.share(two.anna, OTHER, two.person, writes=False)
    done = two.ben.restore(str(tmp_path / "backup"))
    assert (done.sessions, done.events) == (1, 2)
    assert {copied.session: copied.goal for copied in done.left_out} == {SESSION: "Build the shop", OTHER: "Paint it"}
    assert events(two.ben, THIRD) == events(two.home, THIRD)
    for session in (SESSION, OTHER):
        members.share(two.anna, session, two.person, writes=True)
    done = two.ben.restore(str(tmp_path / "backup"))
    assert (done.sessions, done.events, len(done.left_out)) == (1, 0, 2)
    assert len(events(two.anna, SESSION)) == len(events(two.anna, OTHER)) == 2
    assert_sound(two.ben)


def test_damage_of_somebody_else_stops_nobody(two: Two, tmp_path: Path) -> None:
    """Left out of a copy and of a backup; its owner is stopped, repairs it, and then everybody has it."""
    copy(two.home, two.ben)
    for session in (SESSION, OTHER):
        members.share(two.anna, session, None, writes=True)
    two.damage(SESSION)
    fresh = opened(tmp_path / "fresh.db", ANNA)
    done = copy(two.ben, fresh)
    ((session, reason, _),) = done.left_out
    assert (session, done.sessions) == (SESSION, 2)
    assert "event 2 is damaged" in reason
    assert "its owner repairs it" in reason
    assert sorted(fresh.sessions()) == sorted([OTHER, THIRD])
    assert two.ben.backup(str(tmp_path / "backup")) == done.left_out
    again = opened(tmp_path / "again.db", ANNA)
    assert again.restore(str(tmp_path / "backup")) == (2, 4, ())
    for attempt in (lambda: copy(two.anna, again), lambda: two.anna.backup(str(tmp_path / "annas"))):
        with pytest.raises(Damaged, match="nothing was copied") as caught:
            attempt()
        assert caught.value.session == SESSION
    assert not (tmp_path / "annas").exists()
    two.anna.repair()
    done = copy(two.ben, fresh)
    assert (done.sessions, done.left_out) == (3, ())
    assert everything(fresh) == everything(two.ben)
    fresh.close()
    again.close()


def test_damage_of_somebody_else_that_comes_meanwhile(two: Two, tmp_path: Path) -> None:
    """After it was checked: while it is copied, it is found all the same, and left out."""
    copy(two.home, two.ben)
    members.share(two.anna, SESSION, None, writes=False)

    def on_progress(progress: Progress) -> None:
        if progress == ("checking", progress.of, progress.of):
            two.damage(SESSION)

    with closing(opened(tmp_path / "fresh.db", ANNA)) as fresh:
        done = copy(two.ben, fresh, on_progress=on_progress)
        assert ([copied.session for copied in done.left_out], done.sessions) == ([SESSION], 1)
        assert events(fresh, THIRD) == events(two.home, THIRD)


def test_a_target_that_somebody_else_must_repair(two: Two) -> None:
    """Damage in the target, in a session that is shared with us: what is ours is carried and proven."""
    take(two.home, two.anna.events(SESSION))
    members.share(two.anna, SESSION, two.person, writes=True)
    two.damage(SESSION)
    done = copy(two.home, two.ben)
    ((session, reason, goal),) = done.left_out
    assert (session, goal, done.sessions) == (SESSION, "Build the shop", 1)
    assert "differs" in reason
    assert events(two.ben, THIRD) == events(two.home, THIRD)


def test_what_a_repair_missed_is_known_in_the_copy(two: Two, tmp_path: Path) -> None:
    """Wherever it is copied or restored to, the doctor is warned as at home, and not alarmed."""
    put(two.anna, OTHER, note("white"))
    two.team.server.sql(
        "DELETE FROM holdfast.events WHERE seq = 2 AND session = (SELECT s.ref FROM holdfast.sessions s"
        " JOIN holdfast.vaults v ON v.ref = s.vault WHERE s.id = %s AND v.name = %s)",
        OTHER, two.team.vault, database=two.team.name,
    )  # fmt: skip
    two.anna.repair()
    known = two.anna.local_state().missing_events
    assert len(known) == 1
    with closing(opened(tmp_path / "copy.db")) as copied, closing(opened(tmp_path / "restored.db")) as restored:
        assert copy(two.anna, copied).left_out == ()
        two.anna.backup(str(tmp_path / "backup"))
        restored.restore(str(tmp_path / "backup"))
        server = Team(two.team.server, two.team.server.url(two.team.name))
        with closing(server.store()) as back:
            copy(copied, back)
            for store in (two.anna, copied, restored, back):
                assert store.local_state().missing_events == known
                assert [(damage.check, damage.detail) for damage in store.check()] == [
                    ("aside", "event 2 is missing")
                ]
        with closing(opened(tmp_path / "whole.db")) as whole:
            put(whole, SESSION, started())
            copy(two.home, whole)
            assert whole.local_state().missing_events == frozenset()


def test_copy_does_not_mark_present_events_as_missing(two: Two, tmp_path: Path) -> None:
    """A copy that has the event which the source lost does not believe that it is gone."""
    put(two.home, THIRD, note("white"))
    with closing(opened(tmp_path / "whole.db")) as whole:
        copy(two.home, whole)
        connection = two.home._connection
        connection.execute("DELETE FROM events WHERE seq = 2")
        two.home.repair()
        assert len(two.home.local_state().missing_events) == 1
        copy(two.home, whole)
        assert whole.local_state().missing_events == frozenset()
        assert_sound(whole)


def test_whatever_a_member_put_there_stops_nobody(two: Two, tmp_path: Path) -> None:
    """Events made by hand, before the server refused them: everything else is copied and backed up."""
    copy(two.home, two.ben)
    members.share(two.anna, SESSION, None, writes=True)
    wrong: list[tuple[str, object]] = [
        ("hash", b""), ("hash", bytes(32)), ("body", b"\0"), ("prev", b"x"), ("seq", -5), ("clock", 2**63 - 1),
        ("at", -(2**63)), ("v", 999), ("type", "session.deleted?"), ("actor", "\x01\x07"), ("seen", b"\xff"),
        ("salt", b""), ("data", b"\xff{"), ("writer", ""),
    ]  # fmt: skip
    with two.team.server.connect(two.team.name) as line:
        line.execute("SET session_replication_role = replica")
        for number, (column, value) in enumerate(wrong, 1):
            made: dict[str, object] = {
                "writer": BEN, "seq": number, "clock": 1, "at": 1, "v": 1, "type": "note.added", "actor": "ben",
                "put_by": two.person, "body": bytes(32), "hash": bytes(31) + bytes([number]), "data": b"{}",
                "salt": bytes(16),
                column: value,
            }  # fmt: skip
            statement = sql.SQL(
                "INSERT INTO holdfast.events (session, {}) SELECT s.ref, {} FROM holdfast.sessions s"
                " JOIN holdfast.vaults v ON v.ref = s.vault WHERE s.id = %s AND v.name = %s"
            ).format(
                sql.SQL(", ").join(map(sql.Identifier, made)), sql.SQL(", ").join([sql.Placeholder()] * len(made))
            )
            assert line.execute(statement, (*made.values(), SESSION, two.team.vault)).rowcount == 1
    with closing(opened(tmp_path / "fresh.db", ANNA)) as fresh:
        done = copy(two.ben, fresh)
        assert ([copied.session for copied in done.left_out], done.sessions) == ([SESSION], 1)
        assert events(fresh, THIRD) == events(two.home, THIRD)
        assert [copied.session for copied in two.ben.backup(str(tmp_path / "backup"))] == [SESSION]
