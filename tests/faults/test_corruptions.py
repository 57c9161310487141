"""F22: damage planted in a store, one kind at a time. Doctor reports it, repair recovers what can be recovered.

Afterwards doctor finds nothing wrong, every surviving event equals its original to the byte, every state is the fold
of its events, and recording works. `lost` says how many events each kind of damage may cost.
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
from tests.faults.harness.filled_home import (
    AT,
    PAGE,
    DoctorReport,
    FilledHome,
    doctor,
    filled,
    killed,
    project_facts,
    survivors,
    template,
)
from tests.support.scale import scale

LEAF = 40  # events that fit on a page, at most
ALL = 10_000

__all__ = ["filled", "killed", "template"]  # fixtures


Plant = Callable[[FilledHome], None]


class Damage(NamedTuple):
    plant: Plant
    # At least one of these checks reports it.
    named: set[str]
    # How many events it may cost at most.
    lost: int = 0


# ── damage inside rows ───────────────────────────────────────────────────────────────────────────────────


def sql(*statements: str) -> Plant:
    """Through SQLite itself: the file stays valid, its content does not."""

    def plant(filled: FilledHome) -> None:
        connection = apsw.Connection(str(filled.home / "store.db"))
        ref = connection.execute("SELECT ref FROM sessions WHERE id = ?", (filled.main,)).fetchall()[0][0]
        other = connection.execute("SELECT ref FROM sessions WHERE id = ?", (filled.other,)).fetchall()[0][0]
        for statement in statements:
            connection.execute(statement.replace(":main", str(ref)).replace(":other", str(other)))
        connection.close()

    return plant


def event(change: str, seq: int = 20, writer: int = 1) -> Plant:
    return sql(f"UPDATE events SET {change} WHERE session = :main AND writer = {writer} AND seq = {seq}")


LAST = "session = :main AND ord = (SELECT max(ord) FROM events WHERE session = :main AND writer <> 3)"
# Never the existing byte: salts are random.
FLIP = "substr({0}, 1, 3) || CASE substr({0}, 4, 1) WHEN x'ff' THEN x'00' ELSE x'ff' END || substr({0}, 5)"


def snapshot(change: Callable[[bytes], bytes]) -> Plant:
    def plant(filled: FilledHome) -> None:
        connection = apsw.Connection(str(filled.home / "store.db"))
        rows = list(connection.execute("SELECT rowid, state FROM snapshots"))
        assert rows
        for row, frozen in rows:
            connection.execute("UPDATE snapshots SET state = ? WHERE rowid = ?", (change(frozen), row))
        connection.close()

    return plant


def with_a_false_tag(frozen: bytes) -> bytes:
    """A valid snapshot of another state."""
    state: State = thaw(frozen)
    state.tags.update({"never given": None})
    return freeze(state)


def cut(size: int) -> Plant:
    """To this many bytes, or by this many when negative."""

    def plant(filled: FilledHome) -> None:
        path = filled.home / "store.db"
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
    "a snapshot changed": Damage(snapshot(with_a_false_tag), {"state"}),
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
    def plant(filled: FilledHome) -> None:
        with (filled.home / "store.db").open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return plant


def page_of(filled: FilledHome, name: str, kind: str = "", which: int = 0) -> int:
    connection = apsw.Connection(str(filled.home / "store.db"))
    rows = connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype LIKE ? ORDER BY pageno",
                              (name, kind or "%")).fetchall()  # fmt: skip
    connection.close()
    return int(str(rows[which][0]))


def page(name: str, kind: str = "", which: int = 0, *, noise: bool = False) -> Plant:
    def plant(filled: FilledHome) -> None:
        data = random.Random(which).randbytes(PAGE) if noise else bytes(PAGE)
        at((page_of(filled, name, kind, which) - 1) * PAGE, data)(filled)

    return plant


def part(name: str, kind: str, offset: int, data: bytes) -> Plant:
    return lambda filled: at((page_of(filled, name, kind) - 1) * PAGE + offset, data)(filled)


def content(data: bytes) -> Plant:
    def plant(filled: FilledHome) -> None:
        (filled.home / "store.db").write_bytes(data)

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
def test_damaged_row_is_reported_and_repaired(
    name: str, filled: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """Doctor reports it, repair fixes it or sets it aside, and the rest is complete."""
    _assert_repairable(ROWS[name], filled, capsys)


@pytest.mark.parametrize("name", PAGES)
def test_damaged_file_is_replaced_and_kept(name: str, filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """Every event that can be read moves to a new file, the old one is kept."""
    damage = PAGES[name]
    damage.plant(filled)
    damaged = (filled.home / "store.db").read_bytes()
    report = _assert_repairable(Damage(lambda _: None, damage.named, damage.lost), filled, capsys)
    kept = [path for path in (filled.home / "aside").iterdir() if ".damaged-" in path.name]
    assert [path.read_bytes() for path in kept] == [damaged]
    assert any(str(kept[0]) in sentence for sentence in report.repaired)


@pytest.mark.parametrize("name", [*ROWS, *PAGES])
def test_commands_work_or_report_damage(name: str, filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any repair; none fails with an internal error."""
    (ROWS.get(name) or PAGES[name]).plant(filled)
    for words in (["status", filled.main], ["show", filled.main], ["log", filled.main], ["history"], ["note", "x"]):
        capsys.readouterr()
        code = main([*words, "--json", "--project", str(filled.project)])
        answer = json.loads(capsys.readouterr().out)
        if code:
            kind = answer["error"]["kind"]
            assert (code, kind) in ((6, "damaged"), (3, "not_found")), (words, answer)
    assert not (filled.home / "errors.log").exists()


def _assert_repairable(damage: Damage, filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> DoctorReport:
    damage.plant(filled)
    before = doctor(filled, capsys)
    assert before.code == 6, before
    assert before.failed() & damage.named, before.wrong()
    again = doctor(filled, capsys)
    assert again.failed() == before.failed(), "a check changes nothing"
    repaired = doctor(filled, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert repaired.repaired
    after = doctor(filled, capsys)
    assert after.code == 0, after
    assert after.wrong() <= {"aside"}
    if damage.lost == ALL:
        filled = _with_main_session(filled)
    left = survivors(filled)
    lost = len(filled.events.keys() - left.keys())
    assert lost <= damage.lost, repaired.repaired
    if lost and damage.lost != ALL:
        assert any("could not be saved" in name for name in repaired.repaired), "a loss is reported"
        assert after.wrong() == {"aside"} or damage.named == {"listing"}
    return repaired


def _with_main_session(filled: FilledHome) -> FilledHome:
    """Where everything may be lost, the session has to be started again to record in it."""
    store = SqliteStore(str(filled.home / "store.db"), writer=lambda: "e" * 20, wall=lambda: AT * 1000, create=False)
    with store.transaction() as transaction:
        if not transaction.state(filled.main).count:
            data = SessionStarted(goal="Anew", device="laptop", project=project_facts())
            made = transaction.record(filled.main, Draft(data, AT, "anna"))
            assert made is not None
            filled = filled._replace(events={**filled.events, made.hash: made})
    store.close()
    return filled


@pytest.mark.parametrize("number", range(scale(6, 60, 400)))
@pytest.mark.parametrize("noise", [False, True])
def test_repair_recovers_from_any_lost_page(
    number: int, noise: bool, filled: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left is sound, and doctor reports nothing more."""
    path = filled.home / "store.db"
    pages = path.stat().st_size // PAGE
    which = random.Random(number).randrange(pages)
    data = random.Random(number).randbytes(PAGE) if noise else bytes(PAGE)
    at(which * PAGE, data)(filled)
    doctor(filled, capsys)
    repaired = doctor(filled, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert len(filled.events.keys() - survivors(filled).keys()) <= LEAF


@pytest.mark.parametrize("number", range(scale(10, 200, 3000)))
def test_repair_recovers_from_any_flipped_bit(
    number: int, filled: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a repair only original events are shown."""
    path = filled.home / "store.db"
    rng = random.Random(number)
    where = rng.randrange(path.stat().st_size)
    old = path.read_bytes()[where]
    at(where, bytes([old ^ (1 << rng.randrange(8))]))(filled)
    doctor(filled, capsys)
    repaired = doctor(filled, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert len(filled.events.keys() - survivors(filled).keys()) <= LEAF


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────


def journal(filled: FilledHome, offset: int, data: bytes) -> None:
    with (filled.home / "store.db-wal").open("r+b") as file:
        file.seek(offset)
        file.write(data)


def frame(number: int) -> int:
    return 32 + number * (24 + PAGE)


def test_doctor_reports_nothing_after_a_kill(killed: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """The journal is replayed, and nothing is lost."""
    assert doctor(killed, capsys).wrong() == set()
    assert survivors(killed).keys() == killed.events.keys()


@pytest.mark.parametrize("place", ["header", "salts", "first frame", "second frame", "a frame's number"])
def test_damaged_journal_is_reported_and_recovered(
    place: str, killed: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite would silently stop at the damage and overwrite the rest."""
    offset = {"header": 0, "salts": 16, "first frame": frame(0) + 24 + 100, "second frame": frame(1) + 24 + 9,
              "a frame's number": frame(1)}[place]  # fmt: skip
    journal(killed, offset, b"\xde\xad\xbe\xef")
    files = {name: (killed.home / name).read_bytes() for name in ("store.db", "store.db-wal")}
    report = doctor(killed, capsys)
    assert report.failed() == {"store"}
    assert "journal" in report.checks["store"]["detail"]
    assert files == {name: (killed.home / name).read_bytes() for name in files}, "a check changes nothing"
    repaired = doctor(killed, capsys, "--repair")
    assert repaired.code == 0, repaired
    left = survivors(killed)
    assert len(killed.events.keys() - left.keys()) <= 1
    assert sorted(path.read_bytes() for path in (killed.home / "aside").iterdir()) == sorted(files.values())


def test_torn_end_of_the_journal_is_not_damage(killed: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """A power cut tears the last transaction, which was never acknowledged; it is dropped silently."""
    path = killed.home / "store.db-wal"
    os.truncate(path, path.stat().st_size - 100)
    assert doctor(killed, capsys).wrong() == set()
    assert len(killed.events.keys() - survivors(killed).keys()) == 1


# ── other files ──────────────────────────────────────────────────────────────────────────────────────────


def test_doctor_reports_and_fixes_open_modes(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """Files and directories that others can open; links are left alone."""
    os.chmod(filled.home, 0o755)
    os.chmod(filled.home / "store.db", 0o664)
    (filled.home / "deep").mkdir(mode=0o750)
    (filled.home / "deep" / "file").touch(mode=0o606)
    report = doctor(filled, capsys)
    assert (report.code, report.wrong()) == (0, {"modes"})
    assert "home is 0755" in report.checks["modes"]["detail"]
    repaired = doctor(filled, capsys, "--repair")
    assert repaired.wrong() == set()
    assert len(repaired.repaired) == 4
    modes = {path.relative_to(filled.home).as_posix(): path.stat().st_mode & 0o777 for path in filled.home.rglob("*")}
    assert filled.home.stat().st_mode & 0o777 == 0o700
    assert (modes["store.db"], modes["deep"], modes["deep/file"]) == (0o600, 0o700, 0o600)


def test_doctor_removes_old_temporary_files(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """An hour old, and in the home only."""
    old, young = filled.home / ".holdfast-0011223344556677.tmp", filled.home / ".holdfast-8899aabbccddeeff.tmp"
    outside = filled.home.parent / ".holdfast-0000000000000000.tmp"
    for path in (old, young, outside, old.with_name(old.name + "-wal")):
        path.touch(mode=0o600)
    for path in (old, outside, old.with_name(old.name + "-wal")):
        os.utime(path, (1, 1))
    report = doctor(filled, capsys)
    assert (report.code, report.wrong()) == (0, {"temporaries"})
    assert old.name in report.checks["temporaries"]["detail"]
    assert doctor(filled, capsys, "--repair").wrong() == set()
    assert sorted(path.name for path in filled.home.glob(".holdfast*")) == [young.name]
    assert outside.exists()


def test_doctor_reports_and_erases_data_of_a_deleted_session(
    filled: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["delete", filled.other, "--confirm", "--force", "--project", str(filled.project)]) == 0
    sql("UPDATE events SET data = x'7b7d', salt = zeroblob(16) WHERE session = :other AND seq = 3")(filled)
    report = doctor(filled, capsys)
    assert "erasure" in report.failed()
    assert doctor(filled, capsys, "--repair").code == 0


@pytest.mark.parametrize("name", ["store.db.erasing", "store.db.repairing"])
def test_interrupted_erasing_or_repair_is_finished(
    name: str, filled: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """An erasing is finished by the next process; a repair has to be run again."""
    (filled.home / name).write_bytes(b"\n")
    os.chmod(filled.home / name, 0o600)
    report = doctor(filled, capsys)
    if name.endswith("erasing"):
        assert report.wrong() == set()
    else:
        assert report.failed() == {"store"}
        assert doctor(filled, capsys, "--repair").code == 0
    assert not (filled.home / name).exists()
    assert survivors(filled).keys() == filled.events.keys()


def test_snapshot_of_another_fold_version_is_ignored(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not damage either."""
    sql("UPDATE snapshots SET fold = 99, state = x'00'")(filled)
    assert doctor(filled, capsys).wrong() == set()
    assert survivors(filled).keys() == filled.events.keys()


def test_doctor_reports_unreadable_settings(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """A repair never overwrites them."""
    (filled.home / "config.toml").write_text("not = [toml")
    os.chmod(filled.home / "config.toml", 0o600)
    report = doctor(filled, capsys, "--repair")
    assert report.failed() == {"settings"}
    assert (filled.home / "config.toml").read_text() == "not = [toml"


def test_doctor_warns_of_an_unreadable_writer_binding(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """It costs nothing but a new writer."""
    (filled.home / "writer.json").write_text("{")
    report = doctor(filled, capsys)
    assert (report.code, report.checks["writer"]["status"]) == (0, "warning")
    assert "new writer" in report.checks["writer"]["detail"]


def test_doctor_warns_of_a_copied_home(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """The copy records under a new writer: a warning, not a failure."""
    report = doctor(filled, capsys)
    assert (report.code, report.checks["writer"]["status"]) == (0, "warning")


def test_repair_leaves_a_newer_store_alone(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    """Doctor says that a newer version wrote it."""
    sql("CREATE TABLE later (x)", f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")(filled)
    before = (filled.home / "store.db").read_bytes()
    report = doctor(filled, capsys, "--repair")
    assert report.failed() == {"store"}
    assert "newer" in report.checks["store"]["detail"]
    assert (filled.home / "store.db").read_bytes() == before


def test_repair_leaves_a_foreign_database_alone(filled: FilledHome, capsys: pytest.CaptureFixture[str]) -> None:
    (filled.home / "store.db").unlink()
    connection = apsw.Connection(str(filled.home / "store.db"))
    connection.execute("CREATE TABLE songs (title)")
    connection.close()
    os.chmod(filled.home / "store.db", 0o600)
    before = (filled.home / "store.db").read_bytes()
    report = doctor(filled, capsys, "--repair")
    assert report.failed() == {"store"}
    assert (filled.home / "store.db").read_bytes() == before
    assert not (filled.home / "aside").exists()


def test_repair_starts_a_new_writer_when_events_are_lost(
    filled: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers of lost events are not reused: other devices may have seen them."""
    assert main(["note", "mine", "--project", str(filled.project)]) == 0
    writer = json.loads((filled.home / "writer.json").read_text())["writer"]
    sql(f"UPDATE events SET data = x'00' WHERE {LAST.replace(':main', ':other')}")(filled)
    assert doctor(filled, capsys, "--repair").code == 0
    assert main(["note", "next", "--project", str(filled.project)]) == 0
    assert json.loads((filled.home / "writer.json").read_text())["writer"] != writer


def test_doctor_is_fine_without_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And it creates none."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "none"))
    filled = FilledHome(tmp_path / "none", tmp_path, "", "", {})
    for more in ((), ("--repair",)):
        report = doctor(filled, capsys, *more)
        assert report.code == 0
        assert report.checks["store"]["detail"] == "nothing kept yet"
    assert not (tmp_path / "none").exists()


def test_at_least_forty_kinds_of_damage_are_tested() -> None:
    """The target of F22."""
    assert len(ROWS) + len(PAGES) >= 40
