"""F22: damage planted in a store, one kind at a time. Doctor names it, repair saves what can be saved.

Afterwards doctor finds nothing wrong, every surviving event is one of the originals to the byte, every state is the
fold of its events, and work goes on. `saved` says how many events each kind of damage may cost.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from holdfast.cli.main import main
from holdfast.core.events import SessionStarted
from holdfast.core.state import State, freeze, thaw
from holdfast.store.interface import Draft
from holdfast.store.sqlite import SqliteStore, schema
from tests.faults.harness.damaged import (
    AT,
    PAGE,
    Ground,
    Told,
    a_project,
    doctor,
    ground,
    killed,
    survivors,
    template,
)
from tests.support.scale import scale

LEAF = 40  # events that fit on a page, at most
ALL = 10_000

__all__ = ["ground", "killed", "template"]  # fixtures


Plant = Callable[[Ground], None]


class Damage(NamedTuple):
    plant: Plant
    # At least one of these checks names it.
    named: set[str]
    # How many events it may cost at most.
    lost: int = 0


# ── damage inside rows ───────────────────────────────────────────────────────────────────────────────────


def sql(*statements: str) -> Plant:
    """Through SQLite itself: the file stays sound, what it says does not."""

    def plant(ground: Ground) -> None:
        connection = apsw.Connection(str(ground.home / "store.db"))
        ref = connection.execute("SELECT ref FROM sessions WHERE id = ?", (ground.main,)).fetchall()[0][0]
        other = connection.execute("SELECT ref FROM sessions WHERE id = ?", (ground.other,)).fetchall()[0][0]
        for statement in statements:
            connection.execute(statement.replace(":main", str(ref)).replace(":other", str(other)))
        connection.close()

    return plant


def event(change: str, seq: int = 20, writer: int = 1) -> Plant:
    return sql(f"UPDATE events SET {change} WHERE session = :main AND writer = {writer} AND seq = {seq}")


LAST = "session = :main AND ord = (SELECT max(ord) FROM events WHERE session = :main AND writer <> 3)"
# Never the byte that is there: salts are random.
FLIP = "substr({0}, 1, 3) || CASE substr({0}, 4, 1) WHEN x'ff' THEN x'00' ELSE x'ff' END || substr({0}, 5)"


def snapshot(change: Callable[[bytes], bytes]) -> Plant:
    def plant(ground: Ground) -> None:
        connection = apsw.Connection(str(ground.home / "store.db"))
        rows = list(connection.execute("SELECT rowid, state FROM snapshots"))
        assert rows
        for row, frozen in rows:
            connection.execute("UPDATE snapshots SET state = ? WHERE rowid = ?", (change(frozen), row))
        connection.close()

    return plant


def renoted(frozen: bytes) -> bytes:
    """A snapshot that reads well and says something else."""
    state: State = thaw(frozen)
    state.tags.update({"never given": None})
    return freeze(state)


def cut(size: int) -> Plant:
    """To this many bytes, or by as many when negative."""

    def plant(ground: Ground) -> None:
        path = ground.home / "store.db"
        os.truncate(path, size if size >= 0 else path.stat().st_size + size)

    return plant


ROWS: dict[str, Damage] = {
    "the last page cut": Damage(cut(-PAGE), {"file", "store", "chain"}, LEAF),
    "a hundred bytes cut": Damage(cut(-100), {"file", "store", "chain"}, LEAF),
    "a bit of the data": Damage(event(f"data = CAST({FLIP.format('data')} AS BLOB)"), {"chain"}, 1),
    "other data": Damage(event("""data = CAST('{"text":"forged"}' AS BLOB)"""), {"chain"}, 1),
    "a bit of the salt": Damage(event(f"salt = CAST({FLIP.format('salt')} AS BLOB)"), {"chain"}, 1),
    "no salt": Damage(event("salt = NULL"), {"chain"}, 1),
    "a bit of the digest": Damage(event(f"body = CAST({FLIP.format('body')} AS BLOB)"), {"chain"}),
    "a digest that is text": Damage(event("body = 'text'"), {"chain"}),
    "a bit of the hash": Damage(event(f"hash = CAST({FLIP.format('hash')} AS BLOB)"), {"chain"}),
    "the last hash": Damage(sql(f"UPDATE events SET hash = zeroblob(32) WHERE {LAST}"), {"chain"}, 1),
    "a bit of the hash before": Damage(event(f"prev = CAST({FLIP.format('prev')} AS BLOB)"), {"chain"}),
    "no hash before": Damage(event("prev = NULL"), {"chain"}),
    "the clock": Damage(event("clock = clock + 1"), {"chain"}, 1),
    "a clock at its end": Damage(event("clock = 9223372036854775807"), {"chain"}, 1),
    "the number": Damage(event("seq = 5000"), {"chain"}, 1),
    "a number that is text": Damage(event("seq = 'twenty'"), {"chain"}, 1),
    "the time": Damage(event("at = at - 86400000"), {"chain"}, 1),
    "a time beyond the calendar": Damage(event("at = 9000000000000000000"), {"chain"}, 1),
    "the version": Damage(event("v = 7"), {"chain"}, 1),
    "the type": Damage(event("type = 'session.deleted'"), {"chain"}, 1),
    "a type that is not text": Damage(event("type = CAST(x'ff00fe' AS TEXT)"), {"chain"}, 1),
    "the actor": Damage(event("actor = 'mallory'"), {"chain"}, 1),
    "an actor that is not text": Damage(event("actor = CAST(x'c3' AS TEXT)"), {"chain"}, 1),
    "a key": Damage(event("key = 'made up'"), {"chain"}, 1),
    "the heads seen": Damage(event("seen = NULL", seq=1, writer=2), {"chain"}, 1),
    "heads that are no heads": Damage(event("seen = x'ff'"), {"chain"}, 1),
    "data of a deleted kind": Damage(event("data = zeroblob(100000)"), {"chain"}, 1),
    "a row in the middle is gone": Damage(
        sql("DELETE FROM events WHERE session = :main AND writer = 1 AND seq = 20"), {"chain"}, 1
    ),
    "ten rows are gone": Damage(
        sql("DELETE FROM events WHERE session = :main AND writer = 1 AND seq BETWEEN 20 AND 29"), {"chain"}, 10
    ),
    "the first row is gone": Damage(
        sql("DELETE FROM events WHERE session = :main AND writer = 1 AND seq = 1"), {"chain"}, 1
    ),
    "the last row is gone": Damage(sql(f"DELETE FROM events WHERE {LAST}"), {"listing"}, 1),
    "all rows of a session are gone": Damage(sql("DELETE FROM events WHERE session = :other"), {"listing"}, 50),
    "a row twice": Damage(
        sql(
            "INSERT INTO events SELECT (SELECT max(ord) + 1 FROM events), session, writer, seq, clock, at, v, type,"
            " actor, key, double, seen, body, prev, hash, data, salt FROM events"
            " WHERE session = :main AND writer = 1 AND seq = 20"
        ),
        {"chain"},
    ),
    "rows swapped between sessions": Damage(
        sql(
            "UPDATE events SET session = -1 WHERE session = :main AND writer = 1 AND seq = 9",
            "UPDATE events SET session = :main WHERE session = :other AND writer = 1 AND seq = 9",
            "UPDATE events SET session = :other WHERE session = -1",
        ),
        {"chain"},
    ),
    "a row under another writer": Damage(event("writer = 2"), {"chain"}),
    "a row under no writer": Damage(event("writer = 99"), {"chain"}),
    "the row of a writer is gone": Damage(sql("DELETE FROM writers WHERE ref = 2"), {"chain"}),
    "the id of a writer": Damage(sql(f"UPDATE writers SET id = '{'0' * 20}' WHERE ref = 1"), {"chain"}),
    "the only trace of a writer": Damage(sql(f"UPDATE writers SET id = '{'0' * 20}' WHERE ref = 2"), {"chain"}, 30),
    "the row of a session is gone": Damage(sql("DELETE FROM sessions WHERE ref = :main"), {"chain"}),
    "the id of a session": Damage(
        sql("UPDATE sessions SET id = '00000000-2222-4333-8444-555555555555' WHERE ref = :main"), {"chain"}
    ),
    "a mark of a double": Damage(event("double = 1"), {"state"}),
    "no mark of a double": Damage(sql("UPDATE events SET double = 0"), {"state"}),
    "a snapshot changed": Damage(snapshot(renoted), {"state"}),
    "a bit of a snapshot": Damage(snapshot(lambda old: old[:50] + bytes([old[50] ^ 1]) + old[51:]), {"state"}),
    "a snapshot cut": Damage(snapshot(lambda old: old[: len(old) // 2]), {"state"}),
    "a snapshot of nothing": Damage(snapshot(lambda old: b""), {"state"}),
    "a snapshot of another log": Damage(sql("UPDATE snapshots SET count = count + 100000"), {"state"}),
    "a snapshot of another session": Damage(
        sql("DELETE FROM snapshots WHERE session = :other", "UPDATE snapshots SET session = :other"), {"state"}
    ),
    "words are gone": Damage(sql("DELETE FROM words WHERE word LIKE 'b%'"), {"search"}),
    "words nobody wrote": Damage(sql("INSERT INTO words VALUES ('zebra', :main)"), {"search"}),
    "an alias is gone": Damage(sql("DELETE FROM aliases"), {"search"}),
    "an alias nobody gave": Damage(sql("INSERT INTO aliases VALUES ('mine', :other)"), {"search"}),
    "the goal in the listing": Damage(sql("UPDATE sessions SET goal = 'Something else'"), {"listing"}),
    "a goal that is not text": Damage(sql("UPDATE sessions SET goal = CAST(x'ff' AS TEXT)"), {"listing"}),
    "the status in the listing": Damage(sql("UPDATE sessions SET status = 'completed'"), {"listing"}),
    "the time in the listing": Damage(sql("UPDATE sessions SET working_ms = working_ms + 1"), {"listing"}),
    "a session listed as deleted": Damage(sql("UPDATE sessions SET deleted = 1 WHERE ref = :main"), {"listing"}),
    "a session that is not listed": Damage(sql("UPDATE sessions SET version = 0 WHERE ref = :main"), {"listing"}),
    "a session without events": Damage(sql("INSERT INTO sessions (id, version) VALUES ('nobody', 3)"), {"listing"}),
    "an index is gone": Damage(sql("DROP INDEX events_in_order"), {"file"}),
    "a table is gone": Damage(sql("DROP TABLE words"), {"file"}),
    "the table of projects is gone": Damage(sql("DROP TABLE projects"), {"file"}),
    "a current session that is not text": Damage(sql("UPDATE places SET session = CAST(session AS BLOB)"), {"file"}),
    "a work tree that is not text": Damage(sql("UPDATE places SET path = CAST(path AS BLOB)"), {"file"}),
    "a project that is not text": Damage(sql("UPDATE evidence SET value = CAST(value AS BLOB)"), {"file"}),
    "something kept that is text": Damage(sql("UPDATE memory SET value = CAST(value AS TEXT)"), {"file"}),
    "an actor that is bytes": Damage(event("actor = CAST(actor AS BLOB)"), {"chain"}),
    "data that is text": Damage(event("data = CAST(data AS TEXT)"), {"chain"}),
    "a key that is bytes": Damage(
        sql("UPDATE events SET key = CAST(key AS BLOB) WHERE key IS NOT NULL AND writer = 1"), {"chain"}
    ),
    "a table that nobody made": Damage(sql("CREATE TABLE planted (x)"), {"file"}),
    "a trigger that nobody made": Damage(
        sql("CREATE TRIGGER planted AFTER INSERT ON events BEGIN DELETE FROM words; END"), {"file"}
    ),
}


# ── damage in the file ───────────────────────────────────────────────────────────────────────────────────


def at(offset: int, data: bytes) -> Plant:
    def plant(ground: Ground) -> None:
        with (ground.home / "store.db").open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return plant


def page_of(ground: Ground, name: str, kind: str = "", which: int = 0) -> int:
    connection = apsw.Connection(str(ground.home / "store.db"))
    rows = connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype LIKE ? ORDER BY pageno",
                              (name, kind or "%")).fetchall()  # fmt: skip
    connection.close()
    return int(str(rows[which][0]))


def page(name: str, kind: str = "", which: int = 0, *, noise: bool = False) -> Plant:
    def plant(ground: Ground) -> None:
        data = random.Random(which).randbytes(PAGE) if noise else bytes(PAGE)
        at((page_of(ground, name, kind, which) - 1) * PAGE, data)(ground)

    return plant


def part(name: str, kind: str, offset: int, data: bytes) -> Plant:
    return lambda ground: at((page_of(ground, name, kind) - 1) * PAGE + offset, data)(ground)


def content(data: bytes) -> Plant:
    def plant(ground: Ground) -> None:
        (ground.home / "store.db").write_bytes(data)

    return plant


PAGES: dict[str, Damage] = {
    "a page of events zeroed": Damage(page("events", "leaf", 3), {"file"}, LEAF),
    "a page of events garbled": Damage(page("events", "leaf", 4, noise=True), {"file"}, LEAF),
    "the root of the events zeroed": Damage(page("events", "internal"), {"file", "store"}),
    "the root of the events garbled": Damage(page("events", "internal", noise=True), {"file", "store"}),
    "cell pointers of a page of events": Damage(part("events", "leaf", 8, b"\xff" * 12), {"file"}, LEAF),
    "the number of cells of a page": Damage(part("events", "leaf", 3, b"\x7f\xff"), {"file"}, LEAF),
    "an overflow page zeroed": Damage(page("events", "overflow"), {"file", "chain"}, 1),
    "an overflow page garbled": Damage(page("events", "overflow", noise=True), {"file", "chain"}, 1),
    "an index zeroed": Damage(page("events_in_order"), {"file", "store"}),
    "an index garbled": Damage(page("events_in_order", noise=True), {"file", "store"}),
    "an index of keys garbled": Damage(page("events_by_key", noise=True), {"file"}),
    "the sessions zeroed": Damage(page("sessions"), {"file", "store"}),
    "the sessions' ids zeroed": Damage(page("sqlite_autoindex_sessions_1"), {"file", "store"}),
    "the writers zeroed": Damage(page("writers"), {"file", "chain", "store"}),
    "the words zeroed": Damage(page("words"), {"file"}),
    "the words garbled": Damage(page("words", noise=True), {"file"}),
    "the aliases garbled": Damage(page("aliases", noise=True), {"file"}),
    "the snapshots zeroed": Damage(page("snapshots"), {"file", "store"}),
    "the places garbled": Damage(page("places", noise=True), {"file"}),
    "the projects garbled": Damage(page("evidence", noise=True), {"file"}),
    "the facts zeroed": Damage(page("facts"), {"file", "store"}),
    "the tables' names zeroed": Damage(page("sqlite_schema"), {"store"}),
    "the tables' names garbled": Damage(page("sqlite_schema", noise=True), {"store"}),
    "the tables' names, but not the header": Damage(at(100, bytes(PAGE - 100)), {"store"}),
    "the magic words": Damage(at(0, b"SQLite format 4\0"), {"store"}),
    "the size of pages": Damage(at(16, b"\x00\x03"), {"store"}),
    "the version of the format": Damage(at(18, b"\xff\xff"), {"store"}),
    "the payload fractions": Damage(at(21, b"\x01\x02\x03"), {"store"}),
    "the number of pages": Damage(at(28, b"\x00\x00\x00\x02"), {"file", "store"}),
    "the list of free pages": Damage(at(32, b"\x00\x00\x00\x03\x00\x00\x00\x09"), {"file"}),
    "the encoding": Damage(at(56, b"\x00\x00\x00\x02"), {"store"}),
    "the version of the tables": Damage(at(60, bytes(4)), {"store"}),
    "whose file it is": Damage(at(68, bytes(4)), {"store"}),
    "the whole header": Damage(at(0, bytes(100)), {"store"}),
    "half of it cut": Damage(cut(20 * PAGE), {"file", "store"}, ALL),
    "all but one page cut": Damage(cut(PAGE), {"file", "store"}, ALL),
    "all but fifty bytes cut": Damage(cut(50), {"store"}, ALL),
    "cut to nothing": Damage(cut(0), {"store"}, ALL),
    "zeros": Damage(content(bytes(40 * PAGE)), {"store"}, ALL),
    "a text": Damage(content(b"This was a store once.\n" * 900), {"store"}, ALL),
    "noise": Damage(content(random.Random(1).randbytes(30 * PAGE)), {"store"}, ALL),
}


@pytest.mark.parametrize("name", ROWS)
def test_damaged_rows(name: str, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """What a row says no longer fits: doctor names it, repair mends it or sets it aside, and the rest is whole."""
    _suffer(ROWS[name], ground, capsys)


@pytest.mark.parametrize("name", PAGES)
def test_damaged_files(name: str, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """The file itself is damaged: every event that can still be found moves to a new one, the old one is kept."""
    damage = PAGES[name]
    damage.plant(ground)
    damaged = (ground.home / "store.db").read_bytes()
    told = _suffer(Damage(lambda _: None, damage.named, damage.lost), ground, capsys)
    kept = [path for path in (ground.home / "aside").iterdir() if ".damaged-" in path.name]
    assert [path.read_bytes() for path in kept] == [damaged]
    assert any(str(kept[0]) in sentence for sentence in told.repaired)


@pytest.mark.parametrize("name", [*ROWS, *PAGES])
def test_every_command_says_what_is_wrong(name: str, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any repair, commands work or say that stored data is damaged; none falls over."""
    (ROWS.get(name) or PAGES[name]).plant(ground)
    for words in (["status", ground.main], ["show", ground.main], ["log", ground.main], ["history"], ["note", "x"]):
        capsys.readouterr()
        code = main([*words, "--json", "--project", str(ground.project)])
        told = json.loads(capsys.readouterr().out)
        if code:
            kind = told["error"]["kind"]
            assert (code, kind) in ((6, "damaged"), (3, "not_found")), (words, told)
    assert not (ground.home / "errors.log").exists()


def _suffer(damage: Damage, ground: Ground, capsys: pytest.CaptureFixture[str]) -> Told:
    damage.plant(ground)
    before = doctor(ground, capsys)
    assert before.code == 6, before
    assert before.failed() & damage.named, before.wrong()
    again = doctor(ground, capsys)
    assert again.failed() == before.failed(), "looking changes nothing"
    repaired = doctor(ground, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert repaired.repaired
    after = doctor(ground, capsys)
    assert after.code == 0, after
    assert after.wrong() <= {"aside"}
    if damage.lost == ALL:
        ground = _with_main(ground)
    left = survivors(ground)
    lost = len(ground.events.keys() - left.keys())
    assert lost <= damage.lost, repaired.repaired
    if lost and damage.lost != ALL:
        assert any("could not be saved" in name for name in repaired.repaired), "what is lost is said"
        assert after.wrong() == {"aside"} or damage.named == {"listing"}
    return repaired


def _with_main(ground: Ground) -> Ground:
    """Where everything may be lost, the session has to be begun anew to go on."""
    store = SqliteStore(str(ground.home / "store.db"), writer=lambda: "e" * 20, wall=lambda: AT * 1000, create=False)
    with store.transaction() as transaction:
        if not transaction.state(ground.main).count:
            data = SessionStarted(goal="Anew", device="laptop", project=a_project())
            made = transaction.record(ground.main, Draft(data, AT, "anna"))
            assert made is not None
            ground = ground._replace(events={**ground.events, made.hash: made})
    store.close()
    return ground


@pytest.mark.parametrize("number", range(scale(6, 60, 400)))
@pytest.mark.parametrize("noise", [False, True])
def test_any_page(number: int, noise: bool, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever page is lost, what is found afterwards is sound, and doctor has nothing to say any more."""
    path = ground.home / "store.db"
    pages = path.stat().st_size // PAGE
    which = random.Random(number).randrange(pages)
    data = random.Random(number).randbytes(PAGE) if noise else bytes(PAGE)
    at(which * PAGE, data)(ground)
    doctor(ground, capsys)
    repaired = doctor(ground, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert len(ground.events.keys() - survivors(ground).keys()) <= LEAF


@pytest.mark.parametrize("number", range(scale(10, 200, 3000)))
def test_any_bit(number: int, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever bit of the file turns, what is shown after a repair are original events and nothing else."""
    path = ground.home / "store.db"
    chance = random.Random(number)
    where = chance.randrange(path.stat().st_size)
    old = path.read_bytes()[where]
    at(where, bytes([old ^ (1 << chance.randrange(8))]))(ground)
    doctor(ground, capsys)
    repaired = doctor(ground, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert len(ground.events.keys() - survivors(ground).keys()) <= LEAF


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────


def journal(ground: Ground, offset: int, data: bytes) -> None:
    with (ground.home / "store.db-wal").open("r+b") as file:
        file.seek(offset)
        file.write(data)


def frame(number: int) -> int:
    return 32 + number * (24 + PAGE)


def test_an_undamaged_journal_is_replayed(killed: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """A store whose process was killed is sound: nothing to name, nothing lost."""
    assert doctor(killed, capsys).wrong() == set()
    assert survivors(killed).keys() == killed.events.keys()


@pytest.mark.parametrize("place", ["header", "salts", "first frame", "second frame", "a frame's number"])
def test_a_damaged_journal(place: str, killed: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """SQLite would silently stop at the damage and overwrite the rest: doctor says so, repair saves what is there."""
    offset = {"header": 0, "salts": 16, "first frame": frame(0) + 24 + 100, "second frame": frame(1) + 24 + 9,
              "a frame's number": frame(1)}[place]  # fmt: skip
    journal(killed, offset, b"\xde\xad\xbe\xef")
    files = {name: (killed.home / name).read_bytes() for name in ("store.db", "store.db-wal")}
    told = doctor(killed, capsys)
    assert told.failed() == {"store"}
    assert "journal" in told.checks["store"]["detail"]
    assert files == {name: (killed.home / name).read_bytes() for name in files}, "looking changes nothing"
    repaired = doctor(killed, capsys, "--repair")
    assert repaired.code == 0, repaired
    left = survivors(killed)
    assert len(killed.events.keys() - left.keys()) <= 1
    assert sorted(path.read_bytes() for path in (killed.home / "aside").iterdir()) == sorted(files.values())


def test_a_torn_end_of_the_journal_is_no_damage(killed: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """A power cut tears the last transaction, which was never acknowledged: that is normal, and quietly dropped."""
    path = killed.home / "store.db-wal"
    os.truncate(path, path.stat().st_size - 100)
    assert doctor(killed, capsys).wrong() == set()
    assert len(killed.events.keys() - survivors(killed).keys()) == 1


# ── around the store ─────────────────────────────────────────────────────────────────────────────────────


def test_wrong_modes(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Files and directories that others can open are warned of and closed; links are left alone."""
    os.chmod(ground.home, 0o755)
    os.chmod(ground.home / "store.db", 0o664)
    (ground.home / "deep").mkdir(mode=0o750)
    (ground.home / "deep" / "file").touch(mode=0o606)
    told = doctor(ground, capsys)
    assert (told.code, told.wrong()) == (0, {"modes"})
    assert "home is 0755" in told.checks["modes"]["detail"]
    repaired = doctor(ground, capsys, "--repair")
    assert repaired.wrong() == set()
    assert len(repaired.repaired) == 4
    modes = {path.relative_to(ground.home).as_posix(): path.stat().st_mode & 0o777 for path in ground.home.rglob("*")}
    assert ground.home.stat().st_mode & 0o777 == 0o700
    assert (modes["store.db"], modes["deep"], modes["deep/file"]) == (0o600, 0o700, 0o600)


def test_leftover_files(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """What killed processes left is removed once it is an hour old, in the home alone."""
    old, young = ground.home / ".holdfast-0011223344556677.tmp", ground.home / ".holdfast-8899aabbccddeeff.tmp"
    outside = ground.home.parent / ".holdfast-0000000000000000.tmp"
    for path in (old, young, outside, old.with_name(old.name + "-wal")):
        path.touch(mode=0o600)
    for path in (old, outside, old.with_name(old.name + "-wal")):
        os.utime(path, (1, 1))
    told = doctor(ground, capsys)
    assert (told.code, told.wrong()) == (0, {"temporaries"})
    assert old.name in told.checks["temporaries"]["detail"]
    assert doctor(ground, capsys, "--repair").wrong() == set()
    assert sorted(path.name for path in ground.home.glob(".holdfast*")) == [young.name]
    assert outside.exists()


def test_data_left_of_a_deleted_session(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """A deletion in the log whose data is still there is damage of the worst kind: it is named and made good."""
    assert main(["delete", ground.other, "--confirm", "--force", "--project", str(ground.project)]) == 0
    sql("UPDATE events SET data = x'7b7d', salt = zeroblob(16) WHERE session = :other AND seq = 3")(ground)
    told = doctor(ground, capsys)
    assert "erasure" in told.failed()
    assert doctor(ground, capsys, "--repair").code == 0


@pytest.mark.parametrize("name", ["store.db.erasing", "store.db.repairing"])
def test_marks_of_interrupted_work(name: str, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """An erasing that was cut off is finished by whoever comes next; a repair has to be run again."""
    (ground.home / name).write_bytes(b"\n")
    os.chmod(ground.home / name, 0o600)
    told = doctor(ground, capsys)
    if name.endswith("erasing"):
        assert told.wrong() == set()
    else:
        assert told.failed() == {"store"}
        assert doctor(ground, capsys, "--repair").code == 0
    assert not (ground.home / name).exists()
    assert survivors(ground).keys() == ground.events.keys()


def test_a_snapshot_of_another_version_is_passed_over(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """What another version of the program folded is neither used nor damage."""
    sql("UPDATE snapshots SET fold = 99, state = x'00'")(ground)
    assert doctor(ground, capsys).wrong() == set()
    assert survivors(ground).keys() == ground.events.keys()


def test_broken_settings(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings that cannot be read are a failed check with its own remedy, and never overwritten by a repair."""
    (ground.home / "config.toml").write_text("not = [toml")
    os.chmod(ground.home / "config.toml", 0o600)
    told = doctor(ground, capsys, "--repair")
    assert told.failed() == {"settings"}
    assert (ground.home / "config.toml").read_text() == "not = [toml"


def test_a_broken_binding(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """A writer's binding that cannot be read costs nothing but a new writer, and doctor says so."""
    (ground.home / "writer.json").write_text("{")
    told = doctor(ground, capsys)
    assert (told.code, told.checks["writer"]["status"]) == (0, "warning")
    assert "new writer" in told.checks["writer"]["detail"]


def test_a_copied_home_is_told(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy of a home goes on under a new writer: a warning, no failure."""
    told = doctor(ground, capsys)
    assert (told.code, told.checks["writer"]["status"]) == (0, "warning")


def test_a_newer_store_is_left_alone(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """What a later program wrote is not damage: doctor says what it is, and a repair does not touch it."""
    sql("CREATE TABLE later (x)", f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")(ground)
    before = (ground.home / "store.db").read_bytes()
    told = doctor(ground, capsys, "--repair")
    assert told.failed() == {"store"}
    assert "newer" in told.checks["store"]["detail"]
    assert (ground.home / "store.db").read_bytes() == before


def test_a_foreign_database_is_left_alone(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """A database of another program at our place is named, never repaired."""
    (ground.home / "store.db").unlink()
    connection = apsw.Connection(str(ground.home / "store.db"))
    connection.execute("CREATE TABLE songs (title)")
    connection.close()
    os.chmod(ground.home / "store.db", 0o600)
    before = (ground.home / "store.db").read_bytes()
    told = doctor(ground, capsys, "--repair")
    assert told.failed() == {"store"}
    assert (ground.home / "store.db").read_bytes() == before
    assert not (ground.home / "aside").exists()


def test_repair_begins_a_new_writer_when_events_are_lost(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of a stream whose events were lost are not given out again: others may have seen them."""
    assert main(["note", "mine", "--project", str(ground.project)]) == 0
    writer = json.loads((ground.home / "writer.json").read_text())["writer"]
    sql(f"UPDATE events SET data = x'00' WHERE {LAST.replace(':main', ':other')}")(ground)
    assert doctor(ground, capsys, "--repair").code == 0
    assert main(["note", "next", "--project", str(ground.project)]) == 0
    assert json.loads((ground.home / "writer.json").read_text())["writer"] != writer


def test_nothing_kept_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a home everything is well, and looking makes none."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "none"))
    ground = Ground(tmp_path / "none", tmp_path, "", "", {})
    for more in ((), ("--repair",)):
        told = doctor(ground, capsys, *more)
        assert told.code == 0
        assert told.checks["store"]["detail"] == "nothing kept yet"
    assert not (tmp_path / "none").exists()


def test_there_are_at_least_forty_kinds() -> None:
    """The target of F22, and that every kind is a kind of its own."""
    assert len(ROWS) + len(PAGES) >= 40
