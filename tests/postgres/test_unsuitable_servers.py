"""Servers that cannot do what is asked of them, or not now: what is said, and that nothing is changed."""

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


def _set(team: Team, setting: str) -> None:
    """For the person's next connections."""
    team.server.sql(sql.SQL("ALTER ROLE {} " + setting).format(sql.Identifier(team.person)))


def test_a_replica_reads_and_does_not_write(team: Team) -> None:
    """What is there can be read, and that something changed is seen; writing says where to go."""
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
                    with pytest.raises(Failed, match="only reads") as caught:
                        note(store, session, "n 2")
                    assert caught.value.exit_code == 1
                before = new.version()
                note(writing, session, "n 3")
                assert standby.follows(team.server)
                assert new.version() != before
                assert_sound(new)
                listening = new.listen()  # replicas tell nothing: whoever listens looks every now and then
                assert listening is not None
                assert not listening.wait(0.01)
                listening.close()
        assert len(list(writing.events(session))) == 3


def test_a_person_who_may_only_read(team: Team) -> None:
    """Set to read-only by whoever runs the server: the same words as for a replica."""
    (session,) = team.begin(["one"])
    _set(team, "SET default_transaction_read_only = on")
    with closing(opened(team.url() + "&application_name=other", "laptop")) as store:
        assert store.state(session) is not None
        with pytest.raises(Failed, match="only reads"):
            note(store, session, "n 1")


def test_other_schemas(postgres: Server, team: Team) -> None:
    """None: how to make one. An older or a newer one: who has to upgrade what."""
    name = f"empty_{secrets.token_hex(4)}"
    url = postgres.database(name)
    for where in (url, url.replace(name, "nowhere")):
        with pytest.raises(NotFound) as caught:
            opened(where, "laptop")
        assert caught.value.exit_code == 3
        assert "holdfast store init" in str(caught.value.hint)
    postgres.drop(name)
    with pytest.raises(Refused, match="older Holdfast") as old:
        schema.refuse_others(1, "x", known=2)
    assert "store init" in str(old.value.hint)
    with pytest.raises(Refused, match="newer Holdfast"):
        schema.refuse_others(3, "x", known=2)


@pytest.mark.parametrize("version", ["abc", "", "-1", "1.0", "9" * 5000, "0", None])
def test_a_store_that_does_not_say_its_version(postgres: Server, version: str | None) -> None:
    """Whatever stands there, or nothing: what is wrong is said, and setting up leaves the tables alone."""
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


def test_facts_that_were_made_before_the_tables(postgres: Server) -> None:
    """A table of that name and nothing else: the store is set up."""
    name = f"begun_{secrets.token_hex(4)}"
    url = postgres.database(name)
    postgres.sql(
        "CREATE SCHEMA holdfast; CREATE TABLE holdfast.facts (name text PRIMARY KEY, value text NOT NULL)",
        database=name,
    )
    admin.init(PostgresAddress(url))
    opened(url, "laptop").close()
    postgres.drop(name)


def test_what_only_the_owner_of_the_tables_does(team: Team) -> None:
    """A member who tries is told whose business it is, and nothing of rules and tables."""
    where = PostgresAddress(team.url())
    for attempt in (
        lambda: admin.divide(where, 3),
        lambda: admin.admit(where, "postgres"),
        lambda: admin.dismiss(where, team.person),
        lambda: admin.hand_over(where, "postgres", team.person),
        lambda: admin.init(where),
    ):
        with pytest.raises(Refused, match="only the owner of the tables does that") as caught:
            attempt()
        assert "permission" not in caught.value.message


def test_init_is_refused_without_createrole_or_create(postgres: Server) -> None:
    """In a database of somebody else nothing can be set up: which role is needed is said."""
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
        ("LOCK TABLE holdfast.events IN SHARE ROW EXCLUSIVE MODE", "being divided"),
        ("SELECT pg_advisory_xact_lock(1212547074, lock) FROM generate_series(0, 1023) AS lock", "same session"),
        ("UPDATE holdfast.sessions SET goal = goal", "same session"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_busy_says_who_holds_the_lock(team: Team, lock: str, message: str, known: bool) -> None:
    """The home's own lock, the table's or the session's: each in its own words, and where to look."""
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


def test_who_is_dismissed_while_the_store_is_open(team: Team) -> None:
    """From then on nothing is written, whatever it is; and what to do is said."""
    (session,) = team.begin(["one"])
    where = PostgresAddress(f"{team.server.url(team.name)}&vault={team.vault}")
    with closing(team.store()) as store:
        note(store, session, "n 1")
        admin.dismiss(where, team.person)
        for about in (None, session):
            begun = store.transaction(about=about)
            with pytest.raises(Refused, match="not a member of this vault any more") as caught, begun:
                pass
            assert "store admit" in str(caught.value.hint)


def test_repair_reports_what_it_rebuilt(team: Team) -> None:
    """The listing and the words of a session that were changed by hand; the second time there is nothing to say."""
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


def test_person_who_was_not_admitted_is_refused(postgres: Server, team: Team) -> None:
    """Known to the server, not to the store; or to the store, not to the vault; or to nobody."""
    outsider = postgres.role(f"carl_{secrets.token_hex(4)}")
    with pytest.raises(Refused, match="not a member") as caught:
        opened(postgres.url(team.name, outsider), "laptop")
    assert "holdfast store admit" in str(caught.value.hint)
    with pytest.raises(Refused, match="not a member of the vault"):
        opened(f"{postgres.url(team.name, team.person)}&vault=other", "laptop")
    with pytest.raises(Unreachable, match="has no such role"):
        opened(postgres.url(team.name, "nobody at all"), "laptop")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_does_not_keep_every_character(postgres: Server, encoding: str) -> None:
    """It is refused before anything is made."""
    name = f"latin_{secrets.token_hex(4)}"
    make = sql.SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE 'C' ENCODING {}")
    postgres.sql(make.format(sql.Identifier(name), sql.Literal(encoding)))
    with pytest.raises(Refused, match=encoding) as caught:
        admin.init(PostgresAddress(postgres.url(name)))
    assert "--encoding=UTF8" in str(caught.value.hint)
    assert postgres.sql("SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'", database=name) == []
    postgres.drop(name)


def test_too_many_connections(team: Team) -> None:
    """The server's words are passed on: there is nothing wrong here."""
    _set(team, "CONNECTION LIMIT 0")
    with pytest.raises(Unreachable, match="too many connections"):
        team.store()
    _set(team, "CONNECTION LIMIT 1")
    with closing(team.store()) as one, closing(team.store("two")) as two:
        assert one.pool is two.pool  # one line is enough for many stores
        assert one.version() == two.version()


def test_a_statement_that_takes_too_long_for_the_server(team: Team) -> None:
    """Stopped by the server while it waits for another: trying again helps, and nothing was done."""
    (session,) = team.begin(["one"])
    _set(team, "SET statement_timeout = 100")
    with closing(opened(team.url() + "&application_name=hasty", "a")) as hasty, closing(team.store("b")) as slow:
        with slow.transaction() as transaction:
            transaction.state(session)
            with pytest.raises(Busy, match="the server stopped it"):
                note(hasty, session, "n 1")
        note(hasty, session, "n 2")
        assert len(list(hasty.events(session))) == 2


def test_a_transaction_that_somebody_ends(team: Team) -> None:
    """An administrator throws everybody out: nothing of it was done, and the next one finds a line."""
    (session,) = team.begin(["one"])

    def thrown_out(store: PostgresStore) -> None:
        with store.transaction() as transaction:
            transaction.record(session, Draft(NoteAdded(text="n 1"), NOW, "anna"))
            team.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", team.person)

    with closing(team.store()) as store:
        with pytest.raises(Unreachable):
            thrown_out(store)
        note(store, session, "n 2")
        assert_sound(store)
        assert len(list(store.events(session))) == 2


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def little_room() -> Iterator[str]:
    """A file system with next to no room, for a database."""
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


def fill(filler: Path) -> None:
    with filler.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")
def test_the_servers_disk_is_full(little_room: str) -> None:
    """Writing says so and changes nothing, reading goes on; with room again, everything does."""
    # A server of its own: what others' databases need of its memory would have to be written, and cannot.
    with Server() as server:
        server.sql(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(little_room)))
        server.sql("CREATE DATABASE small TABLESPACE small")
        admin.init(PostgresAddress(server.url("small")))
        team = Team(server, server.url("small"))
        (session,) = team.begin(["one"])
        filler = Path(little_room) / "filler"
        with closing(team.store()) as store:
            kept = [note(store, session, "n 0")]
            with pytest.raises(OSError, match="No space"):
                fill(filler)
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


def test_the_servers_clock_is_years_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of ours depends on what time the server thinks it is."""
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
