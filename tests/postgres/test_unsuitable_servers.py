"""Servers that cannot do what is needed, or not now: the error, and that nothing is changed."""

from __future__ import annotations

import glob
import os
import pwd
import secrets
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg import sql

from holdfast.core.errors import Busy, Damaged, Failed, NotFound, Refused, Unreachable
from holdfast.core.events import NoteAdded
from holdfast.store.address import PostgresAddress
from holdfast.store.conformance import assert_sound
from holdfast.store.interface import Draft, Filter
from holdfast.store.postgres import PostgresStore, admin, schema
from tests.postgres.team import NOW, Team, note, opened
from tests.support.postgres import programs
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


def _alter_role(team: Team, setting: str) -> None:
    """For the role's next connections."""
    team.server.sql(sql.SQL("ALTER ROLE {} " + setting).format(sql.Identifier(team.person)))


def test_replica_can_be_read_and_reports_changes(team: Team) -> None:
    """Writing is refused with a hint."""
    (session,) = team.begin(["one"])
    with closing(team.store()) as writing:
        with team.server.standby() as standby:
            note(writing, session, "n 1")
            assert standby.follows(team.server)
            with closing(team.store(through=standby)) as known, closing(team.store("new", through=standby)) as new:
                for store in (known, new):
                    state = store.state(session)
                    assert state is not None
                    assert [item.text for item in state.notes] == ["n 1"]
                    assert [row.id for row in store.rows(Filter())] == [session]
                    with pytest.raises(Failed, match="is read-only") as caught:
                        note(store, session, "n 2")
                    assert caught.value.exit_code == 1
                before = new.version()
                note(writing, session, "n 3")
                assert standby.follows(team.server)
                assert new.version() != before
                assert_sound(new)
                listening = new.listen()  # replicas send no notifications: listeners poll
                assert listening is not None
                assert not listening.wait(0.01)
                listening.close()
        assert len(list(writing.events(session))) == 3


def test_read_only_role_can_read(team: Team) -> None:
    """Writing is refused with the same message as on a replica."""
    (session,) = team.begin(["one"])
    _alter_role(team, "SET default_transaction_read_only = on")
    with closing(opened(team.url() + "&application_name=other", "laptop")) as store:
        assert store.state(session) is not None
        with pytest.raises(Failed, match="is read-only"):
            note(store, session, "n 1")


def test_missing_older_and_newer_schema_are_reported(postgres: Server, team: Team) -> None:
    """With a hint how to create or upgrade it."""
    name = f"empty_{secrets.token_hex(4)}"
    url = postgres.database(name)
    for where in (url, url.replace(name, "nowhere")):
        with pytest.raises(NotFound) as caught:
            opened(where, "laptop")
        assert caught.value.exit_code == 3
        assert "holdfast store init" in str(caught.value.hint)
    postgres.drop(name)
    with pytest.raises(Refused, match="older Holdfast") as old:
        schema.refuse_other_versions(1, "x", known=2)
    assert "store init" in str(old.value.hint)
    with pytest.raises(Refused, match="newer Holdfast"):
        schema.refuse_other_versions(3, "x", known=2)


@pytest.mark.parametrize("version", ["abc", "", "-1", "1.0", "9" * 5000, "0", None])
def test_store_without_a_valid_version_is_reported(postgres: Server, version: str | None) -> None:
    """And `store init` leaves the tables alone."""
    name = f"odd_{secrets.token_hex(4)}"
    url = postgres.database(name)
    admin.init(PostgresAddress(url))
    postgres.sql("DELETE FROM holdfast.facts", database=name)
    if version is not None:
        postgres.sql("INSERT INTO holdfast.facts VALUES ('version', %s)", version, database=name)
    with pytest.raises((Damaged, NotFound)) as caught:
        opened(url, "laptop")
    assert caught.value.hint is not None
    message = "their version is missing" if version in (None, "0") else "version of the store's tables cannot be read"
    with pytest.raises(Damaged, match=message) as refused:
        admin.init(PostgresAddress(url))
    assert "holdfast.facts" in str(refused.value.hint)
    postgres.sql(
        "INSERT INTO holdfast.facts VALUES ('version', %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        str(len(schema.MIGRATIONS)),
        database=name,
    )
    assert admin.init(PostgresAddress(url)).done == []
    postgres.drop(name)


def test_init_completes_a_schema_with_only_the_facts_table(postgres: Server) -> None:
    name = f"begun_{secrets.token_hex(4)}"
    url = postgres.database(name)
    postgres.sql(
        "CREATE SCHEMA holdfast; CREATE TABLE holdfast.facts (name text PRIMARY KEY, value text NOT NULL)",
        database=name,
    )
    admin.init(PostgresAddress(url))
    opened(url, "laptop").close()
    postgres.drop(name)


def test_administration_is_refused_for_members(team: Team) -> None:
    """The error does not mention rules and tables."""
    where = PostgresAddress(team.url())
    for attempt in (
        lambda: admin.repartition(where, 3),
        lambda: admin.admit(where, "postgres"),
        lambda: admin.dismiss(where, team.person),
        lambda: admin.hand_over(where, "postgres", team.person),
        lambda: admin.init(where),
    ):
        with pytest.raises(Refused, match="only the owner of the tables does that") as caught:
            attempt()
        assert "permission" not in caught.value.message


def test_init_is_refused_without_createrole_or_create(postgres: Server) -> None:
    """In another role's database; the error says which rights are needed."""
    name, person = f"alien_{secrets.token_hex(4)}", postgres.role(f"carl_{secrets.token_hex(4)}")
    postgres.database(name)
    with pytest.raises(Refused, match="may not create roles") as caught:
        admin.init(PostgresAddress(postgres.url(name, person)))
    assert "CREATEROLE" in str(caught.value.hint)
    postgres.drop(name)


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        (
            "SELECT pg_advisory_xact_lock(1212547073, ref::integer) FROM holdfast.installations",
            "process of this home",
        ),
        ("LOCK TABLE holdfast.events IN SHARE ROW EXCLUSIVE MODE", "being repartitioned"),
        ("SELECT pg_advisory_xact_lock(1212547074, lock) FROM generate_series(0, 1023) AS lock", "same session"),
        ("UPDATE holdfast.sessions SET goal = goal", "same session"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_busy_error_says_who_holds_the_lock(team: Team, lock: str, message: str, known: bool) -> None:
    """The home's own lock, the table's or the session's, each with its own message."""
    (session,) = team.begin(["one"])
    with closing(team.store()) as store:
        note(store, session, "n 1")
        with admin.connected(PostgresAddress(team.server.url(team.name)), "hold") as line, line.transaction():
            line.execute(lock)
            begun = store.transaction(patience=0.1, about=session if known else None)
            with pytest.raises(Busy, match=message) as caught, begun as transaction:
                transaction.record(session, Draft(NoteAdded(text="n 2"), NOW, "anna"))
        assert "pg_locks" in str(caught.value.hint)
        note(store, session, "n 3")


def test_open_store_of_a_dismissed_member_refuses_to_write(team: Team) -> None:
    """With a hint what to do."""
    (session,) = team.begin(["one"])
    where = PostgresAddress(f"{team.server.url(team.name)}&vault={team.vault}")
    with closing(team.store()) as store:
        note(store, session, "n 1")
        admin.dismiss(where, team.person)
        for about in (None, session):
            begun = store.transaction(about=about)
            with pytest.raises(Refused, match="no longer a member of this vault") as caught, begun:
                pass
            assert "store admit" in str(caught.value.hint)


def test_repair_reports_what_it_rebuilt(team: Team) -> None:
    """A listing and a search index that were changed by hand; the second repair reports nothing."""
    (session,) = team.begin(["one"])
    with closing(team.store()) as store:
        note(store, session, "n 1")
        team.server.sql(
            "UPDATE holdfast.sessions SET goal = 'another'; DELETE FROM holdfast.words", database=team.name
        )
        assert {damage.check for damage in store.check()} == {"listing", "search"}
        report = store.repair()
        assert [name.partition(": ")[2] for name in report] == [
            "its listing was rebuilt from the log.", "its search index was rebuilt from the log."
        ]  # fmt: skip
        assert store.repair() == []
        assert_sound(store)


def test_role_that_was_not_admitted_is_refused(postgres: Server, team: Team) -> None:
    """Known to the server, but not to the store; to the store, but not to the vault; or to neither."""
    outsider = postgres.role(f"carl_{secrets.token_hex(4)}")
    with pytest.raises(Refused, match="not a member") as caught:
        opened(postgres.url(team.name, outsider), "laptop")
    assert "holdfast store admit" in str(caught.value.hint)
    with pytest.raises(Refused, match="not a member of the vault"):
        opened(f"{postgres.url(team.name, team.person)}&vault=other", "laptop")
    with pytest.raises(Unreachable, match="has no such role"):
        opened(postgres.url(team.name, "nobody at all"), "laptop")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_init_refuses_a_database_without_unicode(postgres: Server, encoding: str) -> None:
    """Before anything is created."""
    name = f"latin_{secrets.token_hex(4)}"
    make = sql.SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE 'C' ENCODING {}")
    postgres.sql(make.format(sql.Identifier(name), sql.Literal(encoding)))
    with pytest.raises(Refused, match=encoding) as caught:
        admin.init(PostgresAddress(postgres.url(name)))
    assert "--encoding=UTF8" in str(caught.value.hint)
    assert postgres.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'", database=name) == []
    postgres.drop(name)


def test_connection_limit_of_the_server_is_reported(team: Team) -> None:
    """In the server's own words."""
    _alter_role(team, "CONNECTION LIMIT 0")
    with pytest.raises(Unreachable, match="too many connections"):
        team.store()
    _alter_role(team, "CONNECTION LIMIT 1")
    with closing(team.store()) as one, closing(team.store("two")) as two:
        assert one.pool is two.pool  # one connection is enough for many stores
        assert one.version() == two.version()


def test_statement_timeout_of_the_server_is_reported_as_busy(team: Team) -> None:
    """Retrying helps, and nothing was recorded."""
    (session,) = team.begin(["one"])
    _alter_role(team, "SET statement_timeout = 100")
    with closing(opened(team.url() + "&application_name=hasty", "a")) as hasty, closing(team.store("b")) as slow:
        with slow.transaction() as transaction:
            transaction.state(session)
            with pytest.raises(Busy, match="the server stopped it"):
                note(hasty, session, "n 1")
        note(hasty, session, "n 2")
        assert len(list(hasty.events(session))) == 2


def test_transaction_ended_by_an_administrator_has_no_effect(team: Team) -> None:
    """The next one uses a new connection."""
    (session,) = team.begin(["one"])

    def terminated_transaction(store: PostgresStore) -> None:
        with store.transaction() as transaction:
            transaction.record(session, Draft(NoteAdded(text="n 1"), NOW, "anna"))
            team.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", team.person)

    with closing(team.store()) as store:
        with pytest.raises(Unreachable):
            terminated_transaction(store)
        note(store, session, "n 2")
        assert_sound(store)
        assert len(list(store.events(session))) == 2


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk() -> Iterator[str]:
    """A small file system for a database."""
    place = programs.folder("holdfast-pg-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], check=False).returncode:
        os.rmdir(place)
        pytest.skip("file systems cannot be mounted here")
    try:
        user = programs.owner()
        if user is not None:
            os.chown(place, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
        os.rmdir(place)


def fill_disk(filler: Path) -> None:
    with filler.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")
def test_full_disk_of_the_server_is_reported(small_disk: str) -> None:
    """Writing changes nothing, reading works; with free space writing works again."""
    # A server of its own: dirty pages of other databases could not be written either.
    with Server() as server:
        server.sql(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(small_disk)))
        server.sql("CREATE DATABASE small TABLESPACE small")
        admin.init(PostgresAddress(server.url("small")))
        team = Team(server, server.url("small"))
        (session,) = team.begin(["one"])
        filler = Path(small_disk) / "filler"
        with closing(team.store()) as store:
            kept = [note(store, session, "n 0")]
            with pytest.raises(OSError, match="No space"):
                fill_disk(filler)
            with pytest.raises(Failed, match="disk is full") as caught:
                kept.extend(note(store, session, f"{'x' * 2000} {number}") for number in range(1, 200))
            assert caught.value.exit_code == 1
            assert [event.hash for event in store.events(session)][1:] == kept
            assert_sound(store)
            filler.unlink()
            kept.append(note(store, session, "room again"))
            assert [event.hash for event in store.events(session)][1:] == kept
            assert_sound(store)


# ── a wrong clock ────────────────────────────────────────────────────────────────────────────────────────


def test_store_works_when_the_servers_clock_is_years_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time of ours comes from the server."""
    libraries = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    if not libraries:
        pytest.skip("faketime is not installed")
    real = programs.environ()
    monkeypatch.setattr(programs, "environ", lambda: {**real, "LD_PRELOAD": libraries[0], "FAKETIME": "-9y"})
    with Server() as server:
        assert server.sql("SELECT extract(year FROM now()) < 2020") == [(True,)]
        team = Team(server, prepared(server, "elsewhen"))
        (session,) = team.begin(["one"])
        done = []
        with closing(team.store("a")) as one, closing(team.store("b")) as two:
            listening = two.listen()
            assert listening is not None
            waiting = threading.Thread(target=lambda: done.append(listening.wait(30)))
            waiting.start()
            note(one, session, "a 1")
            waiting.join()
            listening.close()
            note(two, session, "b 1")
            assert done == [True]
            assert {event.at for event in one.events(session)} == {NOW}
            state = one.state(session)
            assert state is not None
            assert [each.text for each in state.notes] == ["a 1", "b 1"]
            assert_sound(two)
