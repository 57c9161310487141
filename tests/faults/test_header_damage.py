"""F22: every byte of the headers that SQLite itself relies on: of the file, of its journal, of the shared memory.

A header is a hundred bytes without a checksum, and decides whether anything else is read. Doctor reports damage that
has an effect; a repair fixes it, reports nothing that its checks contradict, and carries over what only this machine
knows (current sessions, projects, state of remotes), or lists what it lost.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Final

import apsw
import pytest

from holdfast.cli.main import main
from holdfast.core.events import NoteAdded
from holdfast.store.interface import Draft
from holdfast.store.sqlite import SqliteStore
from tests.faults.harness.figures import record_figures
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

__all__ = ["filled", "killed", "template"]  # fixtures

# Any value is valid there, without an effect: change counters, the schema cookie, SQLite's own version.
WITHOUT_EFFECT: Final = {*range(24, 28), *range(40, 44), *range(92, 100)}
# One byte of each field, for the sample.
FIELDS: Final = (3, 16, 18, 19, 20, 25, 31, 39, 47, 62, 68)
LOCAL: Final = ("places", "projects", "evidence", "memory")
FRAME: Final = 24 + PAGE


def flips(offsets: range, sample: tuple[int, ...], seed: int) -> list[tuple[int, int]]:
    """Offsets and what to flip there: a random bit of the sample, every bit of each, or every other value of each."""
    rng = random.Random(seed)
    few = [(offset, 1 << rng.randrange(8)) for offset in sample]
    bits = [(offset, 1 << bit) for offset in offsets for bit in range(8)]
    values = [(offset, value) for offset in offsets for value in range(1, 256)]
    return {0: few, 1: bits, 2: values}[scale(0, 1, 2)]


def flip(path: Path, offset: int, mask: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([old ^ mask]))


@pytest.fixture
def with_local_state(filled: FilledHome) -> FilledHome:
    """With a second work tree, a second project, and state of a remote."""
    store = SqliteStore(str(filled.home / "store.db"), writer=lambda: "c" * 20, wall=lambda: AT * 1000)
    with store.transaction() as transaction:
        transaction.set_current("/somewhere/else", filled.main)
        transaction.remember_project(project_facts())
        transaction.remember("vault/1/cursor", b"7")
        transaction.remember(f"origin/share/{filled.other}", b"another")
        transaction.remember(f"origin/share/{filled.other}", b"its vault")
    store.close()
    return filled


def local(filled: FilledHome) -> dict[str, list[object]]:
    """What only this machine knows."""
    connection = apsw.Connection(str(filled.home / "store.db"))
    tables = {table: list[object](connection.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in LOCAL}
    connection.close()
    return tables


def is_consistent(report: DoctorReport) -> bool:
    """Whether messages, checks and exit code of a repair agree."""
    unrepaired = any("not repaired" in sentence for sentence in report.repaired)
    return unrepaired == bool({"store", "file"} & report.failed()) == (report.code == 6)


def put_back(path: Path, content: bytes) -> None:
    """Restore the store file, and remove its journal."""
    for other in path.parent.glob("store.db-*"):
        other.unlink()
    path.write_bytes(content)


def test_flipped_byte_of_the_header_is_reported_and_repaired(
    with_local_state: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without loss, unless it has no effect; commands report the damage."""
    path = with_local_state.home / "store.db"
    content, due = path.read_bytes(), local(with_local_state)
    chosen = flips(range(100), FIELDS, seed=1)
    for offset, mask in chosen:
        put_back(path, content)
        flip(path, offset, mask)
        try:
            report = doctor(with_local_state, capsys)
            if offset in WITHOUT_EFFECT:
                assert report.failed() == set(), report
            else:
                assert report.failed() & {"store", "file"}, report
                code = main(["note", "x", "--json", "--project", str(with_local_state.project)])
                answer = json.loads(capsys.readouterr().out)
                assert code == 0 or (code, answer["error"]["kind"]) == (6, "damaged"), answer
                put_back(path, content)
                flip(path, offset, mask)
            repaired = doctor(with_local_state, capsys, "--repair")
            assert is_consistent(repaired), repaired
            assert repaired.code == 0, repaired
            assert any("nothing is lost" in message for message in repaired.repaired) == (
                offset not in WITHOUT_EFFECT
            )
            assert local(with_local_state) == due
            assert survivors(with_local_state).keys() == with_local_state.events.keys()
        except BaseException as error:
            error.add_note(f"byte {offset} of the header flipped by {mask:#04x}")
            raise
    record_figures(fault="F22", verb="header", flips=len(chosen))


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_header_that_forbids_writing_is_reported_and_repaired(
    mask: int, with_local_state: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte 18: every write failed as read-only, doctor called the store sound, a repair said both."""
    flip(with_local_state.home / "store.db", 18, mask)
    assert main(["note", "x", "--project", str(with_local_state.project)]) == 6
    assert "its header forbids writing" in capsys.readouterr().err
    report = doctor(with_local_state, capsys)
    assert report.failed() == {"store"}
    repaired = doctor(with_local_state, capsys, "--repair")
    assert (repaired.code, repaired.failed()) == (0, set())
    assert main(["note", "x", "--project", str(with_local_state.project)]) == 0


@pytest.mark.parametrize("offset", [61, 62, 63])
def test_flipped_bit_of_the_version_is_damage(
    offset: int, with_local_state: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes 61 to 63: the tables are those of this version, so no newer program wrote the store."""
    flip(with_local_state.home / "store.db", offset, 0x10)
    report = doctor(with_local_state, capsys)
    assert report.failed() == {"store"}
    assert "its tables are those of version 2" in report.checks["store"]["detail"]
    assert doctor(with_local_state, capsys, "--repair").code == 0
    assert survivors(with_local_state).keys() == with_local_state.events.keys()


def test_repair_does_not_touch_a_sound_store(
    with_local_state: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """So it cannot fail on a read-only one either."""
    path = with_local_state.home / "store.db"
    before = path.stat()
    report = doctor(with_local_state, capsys, "--repair")
    assert (report.code, report.repaired) == (0, [])
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize("number", range(scale(5, 200, 3000)))
def test_flipped_byte_of_the_schema_loses_no_event(
    number: int, with_local_state: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest of the first page says where each table is; other losses are listed."""
    path = with_local_state.home / "store.db"
    due = local(with_local_state)
    rng = random.Random(number)
    flip(path, rng.randrange(100, PAGE), rng.randrange(1, 256))
    report = doctor(with_local_state, capsys)
    repaired = doctor(with_local_state, capsys, "--repair")
    assert is_consistent(repaired), repaired
    assert repaired.code == 0, repaired
    assert bool(report.failed()) == bool(repaired.repaired)
    state = local(with_local_state)
    sentences = " ".join(repaired.repaired)
    if state["places"] != due["places"]:
        assert "Which session is current" in sentences
    if state["evidence"] != due["evidence"]:
        assert "Where projects lie" in sentences
    if state["memory"] != due["memory"]:
        assert "What was known about remotes" in sentences
    assert survivors(with_local_state).keys() == with_local_state.events.keys()


@pytest.mark.parametrize("damage", ["the tables' names", "a page of events"])
def test_replaced_store_keeps_the_current_session(
    damage: str, with_local_state: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """And where sessions came from; remotes are listed as forgotten."""
    path = with_local_state.home / "store.db"
    due = local(with_local_state)
    content = bytearray(path.read_bytes())
    start = 0 if damage == "the tables' names" else 2 * PAGE
    content[start : start + PAGE] = random.Random(1).randbytes(PAGE)
    path.write_bytes(content)
    repaired = doctor(with_local_state, capsys, "--repair")
    assert repaired.code == 0, repaired
    state = local(with_local_state)
    assert state["places"] == due["places"]
    assert (f"origin/share/{with_local_state.other}", b"its vault") in state["memory"]
    assert any("What was known about remotes" in message for message in repaired.repaired)
    assert main(["status", "--json", "--project", str(with_local_state.project)]) == 0
    assert json.loads(capsys.readouterr().out)["session"]["id"] == with_local_state.other


def test_replaced_store_lists_lost_current_sessions(
    with_local_state: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the page with the current sessions is lost, the repair says so and what to do."""
    connection = apsw.Connection(str(with_local_state.home / "store.db"))
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'places'").fetchall()
    connection.close()
    with (with_local_state.home / "store.db").open("r+b") as file:
        file.seek((int(str(page)) - 1) * PAGE)
        file.write(bytes(PAGE))
    repaired = doctor(with_local_state, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert any(
        "Not all current sessions of work trees" in message and "holdfast resume ID" in message
        for message in repaired.repaired
    )
    assert survivors(with_local_state).keys() == with_local_state.events.keys()


# ── the journal and the shared memory ────────────────────────────────────────────────────────────────────


@pytest.fixture
def with_journal(killed: FilledHome) -> FilledHome:
    """A kill left the journal, and the latest current session is only in it."""
    path = str(killed.home / "store.db")
    live = SqliteStore(path, writer=lambda: "d" * 20, wall=lambda: AT * 1000 + 9)
    events = dict(killed.events)
    with live.transaction() as transaction:
        transaction.set_current("/somewhere/else", killed.main)
    for number in range(3):
        with live.transaction() as transaction:
            made = transaction.record(killed.main, Draft(NoteAdded(text=f"last {number}"), AT + 700 + number, "caro"))
            assert made is not None
            events[made.hash] = made
    kept = {name: (killed.home / name).read_bytes() for name in ("store.db", "store.db-wal", "store.db-shm")}
    live.close()
    for name, content in kept.items():
        (killed.home / name).write_bytes(content)
        os.chmod(killed.home / name, 0o600)
    return killed._replace(events=events)


def test_flipped_byte_of_the_journal_header_loses_nothing(
    with_journal: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """The frames repeat what the header says: all of the journal is replayed."""
    kept = {name: (with_journal.home / name).read_bytes() for name in ("store.db", "store.db-wal")}
    chosen = flips(range(32), (0, 9, 13, 22, 31), seed=2)
    for offset, mask in chosen:
        for name in os.listdir(with_journal.home):
            if name.startswith("store.db-"):
                (with_journal.home / name).unlink()
        for name, content in kept.items():
            (with_journal.home / name).write_bytes(content)
        flip(with_journal.home / "store.db-wal", offset, mask)
        try:
            report = doctor(with_journal, capsys)
            assert report.failed() == {"store"}, report
            assert "journal" in report.checks["store"]["detail"]
            repaired = doctor(with_journal, capsys, "--repair")
            assert is_consistent(repaired), repaired
            assert repaired.code == 0, repaired
            assert any("nothing is lost" in message for message in repaired.repaired)
            assert ("/somewhere/else", with_journal.main) in local(with_journal)["places"]
            assert survivors(with_journal).keys() == with_journal.events.keys()
        except BaseException as error:
            error.add_note(f"byte {offset} of the journal's header flipped by {mask:#04x}")
            raise
    record_figures(fault="F22", verb="journal", flips=len(chosen))


@pytest.mark.parametrize("number", range(scale(4, 100, 1000)))
def test_flipped_byte_of_the_journal_loses_at_most_one_frame(
    number: int, with_journal: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later frames are still used."""
    path = with_journal.home / "store.db-wal"
    rng = random.Random(number)
    frames = (path.stat().st_size - 32) // FRAME
    flip(path, 32 + rng.randrange(frames - 8) * FRAME + rng.randrange(FRAME), rng.randrange(1, 256))
    doctor(with_journal, capsys)
    repaired = doctor(with_journal, capsys, "--repair")
    assert is_consistent(repaired), repaired
    assert repaired.code == 0, repaired
    places = local(with_journal)["places"]
    if ("/somewhere/else", with_journal.main) not in places:
        assert any("current sessions of work trees" in message.lower() for message in repaired.repaired), repaired
    assert len(with_journal.events.keys() - survivors(with_journal).keys()) <= 1


def test_flipped_byte_of_the_shared_memory_has_no_effect(
    with_journal: FilledHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first process that opens the store creates it anew."""
    kept = {name: (with_journal.home / name).read_bytes() for name in ("store.db", "store.db-wal", "store.db-shm")}
    chosen = flips(range(136), (0, 12, 60, 96), seed=3)
    for offset, mask in chosen:
        for name, content in kept.items():
            (with_journal.home / name).write_bytes(content)
        flip(with_journal.home / "store.db-shm", offset, mask)
        try:
            assert doctor(with_journal, capsys).failed() == set()
            assert survivors(with_journal).keys() == with_journal.events.keys()
        except BaseException as error:
            error.add_note(f"byte {offset} of the shared memory flipped by {mask:#04x}")
            raise
    record_figures(fault="F22", verb="shared memory", flips=len(chosen))
