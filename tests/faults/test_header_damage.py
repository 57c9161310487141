"""F22: every byte of the headers that SQLite itself relies on: of the file, of its journal, of the shared memory.

A header is a hundred bytes that no checksum protects, and what stands in them decides whether anything else is read.
Doctor names what is damaged, or it has no effect; a repair puts it right, says nothing that its checks contradict,
and carries over what only this machine knows (current sessions, projects, what is known of remotes), or lists it.
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
from tests.faults.harness.figures import tell
from tests.support.scale import scale

__all__ = ["ground", "killed", "template"]  # fixtures

# No value is wrong there, and none has an effect: counters of changes, the schema's cookie, SQLite's own version.
WITHOUT_EFFECT: Final = {*range(24, 28), *range(40, 44), *range(92, 100)}
# One byte of each field, where the sample looks.
FIELDS: Final = (3, 16, 18, 19, 20, 25, 31, 39, 47, 62, 68)
LOCAL: Final = ("places", "projects", "evidence", "memory")
FRAME: Final = 24 + PAGE


def flips(offsets: range, sample: tuple[int, ...], seed: int) -> list[tuple[int, int]]:
    """Offsets and what to turn there: a bit of some of them, every bit of each, or each other value of each."""
    chance = random.Random(seed)
    few = [(offset, 1 << chance.randrange(8)) for offset in sample]
    bits = [(offset, 1 << bit) for offset in offsets for bit in range(8)]
    values = [(offset, value) for offset in offsets for value in range(1, 256)]
    return {0: few, 1: bits, 2: values}[scale(0, 1, 2)]


def turn(path: Path, offset: int, mask: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([old ^ mask]))


@pytest.fixture
def furnished(ground: Ground) -> Ground:
    """With a second work tree, a second project, and something known of a remote."""
    store = SqliteStore(str(ground.home / "store.db"), writer=lambda: "c" * 20, wall=lambda: AT * 1000)
    with store.transaction() as transaction:
        transaction.set_current("/somewhere/else", ground.main)
        transaction.remember_project(a_project())
        transaction.remember("vault/1/cursor", b"7")
        transaction.remember(f"origin/share/{ground.other}", b"another")
        transaction.remember(f"origin/share/{ground.other}", b"its vault")
    store.close()
    return ground


def local(ground: Ground) -> dict[str, list[object]]:
    """What only this machine knows."""
    connection = apsw.Connection(str(ground.home / "store.db"))
    found = {table: list[object](connection.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in LOCAL}
    connection.close()
    return found


def is_consistent(told: Told) -> bool:
    """Whether sentences, checks and exit code of a repair say the same."""
    unrepaired = any("not repaired" in sentence for sentence in told.repaired)
    return unrepaired == bool({"store", "file"} & told.failed()) == (told.code == 6)


def put_back(path: Path, content: bytes) -> None:
    """The store as it was, and nothing beside it."""
    for other in path.parent.glob("store.db-*"):
        other.unlink()
    path.write_bytes(content)


def test_every_byte_of_the_header(furnished: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """A turned bit is without effect, or named and repaired without any loss; commands say what is wrong."""
    path = furnished.home / "store.db"
    content, due = path.read_bytes(), local(furnished)
    chosen = flips(range(100), FIELDS, seed=1)
    for offset, mask in chosen:
        put_back(path, content)
        turn(path, offset, mask)
        try:
            told = doctor(furnished, capsys)
            if offset in WITHOUT_EFFECT:
                assert told.failed() == set(), told
            else:
                assert told.failed() & {"store", "file"}, told
                code = main(["note", "x", "--json", "--project", str(furnished.project)])
                answer = json.loads(capsys.readouterr().out)
                assert code == 0 or (code, answer["error"]["kind"]) == (6, "damaged"), answer
                put_back(path, content)
                turn(path, offset, mask)
            repaired = doctor(furnished, capsys, "--repair")
            assert is_consistent(repaired), repaired
            assert repaired.code == 0, repaired
            assert any("nothing is lost" in said for said in repaired.repaired) == (offset not in WITHOUT_EFFECT)
            assert local(furnished) == due
            assert survivors(furnished).keys() == furnished.events.keys()
        except BaseException as error:
            error.add_note(f"byte {offset} of the header turned by {mask:#04x}")
            raise
    tell(fault="F22", verb="header", flips=len(chosen))


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_a_header_that_forbids_writing_is_named_and_repaired(
    mask: int, furnished: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte 18: every write failed as read-only, doctor called the store sound, a repair said both."""
    turn(furnished.home / "store.db", 18, mask)
    assert main(["note", "x", "--project", str(furnished.project)]) == 6
    assert "its header forbids writing" in capsys.readouterr().err
    told = doctor(furnished, capsys)
    assert told.failed() == {"store"}
    repaired = doctor(furnished, capsys, "--repair")
    assert (repaired.code, repaired.failed()) == (0, set())
    assert main(["note", "x", "--project", str(furnished.project)]) == 0


@pytest.mark.parametrize("offset", [61, 62, 63])
def test_a_turned_bit_of_the_version_does_not_lock_the_store(
    offset: int, furnished: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes 61 to 63: the tables are those of this version, so the store is damaged, and no newer program's."""
    turn(furnished.home / "store.db", offset, 0x10)
    told = doctor(furnished, capsys)
    assert told.failed() == {"store"}
    assert "its tables are those of version 2" in told.checks["store"]["detail"]
    assert doctor(furnished, capsys, "--repair").code == 0
    assert survivors(furnished).keys() == furnished.events.keys()


def test_a_sound_store_that_cannot_be_written_needs_no_repair(
    furnished: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repair that finds nothing wrong touches nothing, so it cannot fail either."""
    path = furnished.home / "store.db"
    before = path.stat()
    told = doctor(furnished, capsys, "--repair")
    assert (told.code, told.repaired) == (0, [])
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize("number", range(scale(5, 200, 3000)))
def test_any_byte_of_the_tables_names(number: int, furnished: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest of the first page says where each table is: no event is lost, and what else is lost is listed."""
    path = furnished.home / "store.db"
    due = local(furnished)
    chance = random.Random(number)
    turn(path, chance.randrange(100, PAGE), chance.randrange(1, 256))
    told = doctor(furnished, capsys)
    repaired = doctor(furnished, capsys, "--repair")
    assert is_consistent(repaired), repaired
    assert repaired.code == 0, repaired
    assert bool(told.failed()) == bool(repaired.repaired)
    found = local(furnished)
    sentences = " ".join(repaired.repaired)
    if found["places"] != due["places"]:
        assert "Which session is current" in sentences
    if found["evidence"] != due["evidence"]:
        assert "Where projects lie" in sentences
    if found["memory"] != due["memory"]:
        assert "What was known of remotes" in sentences
    assert survivors(furnished).keys() == furnished.events.keys()


@pytest.mark.parametrize("damage", ["the tables' names", "a page of events"])
def test_a_new_store_keeps_the_current_session(
    damage: str, furnished: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """Made anew, a store knows the current sessions and how sessions came; remotes are listed as forgotten."""
    path = furnished.home / "store.db"
    due = local(furnished)
    content = bytearray(path.read_bytes())
    start = 0 if damage == "the tables' names" else 2 * PAGE
    content[start : start + PAGE] = random.Random(1).randbytes(PAGE)
    path.write_bytes(content)
    repaired = doctor(furnished, capsys, "--repair")
    assert repaired.code == 0, repaired
    found = local(furnished)
    assert found["places"] == due["places"]
    assert (f"origin/share/{furnished.other}", b"its vault") in found["memory"]
    assert any("What was known of remotes" in said for said in repaired.repaired)
    assert main(["status", "--json", "--project", str(furnished.project)]) == 0
    assert json.loads(capsys.readouterr().out)["session"]["id"] == furnished.other


def test_a_new_store_lists_the_current_sessions_it_lost(
    furnished: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the page with the current sessions is lost itself, the repair says so and what to do."""
    connection = apsw.Connection(str(furnished.home / "store.db"))
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'places'").fetchall()
    connection.close()
    with (furnished.home / "store.db").open("r+b") as file:
        file.seek((int(str(page)) - 1) * PAGE)
        file.write(bytes(PAGE))
    repaired = doctor(furnished, capsys, "--repair")
    assert repaired.code == 0, repaired
    assert any(
        "The current sessions of work trees" in said and "holdfast resume ID" in said for said in repaired.repaired
    )
    assert survivors(furnished).keys() == furnished.events.keys()


# ── the journal and the shared memory ────────────────────────────────────────────────────────────────────


@pytest.fixture
def moved(killed: Ground) -> Ground:
    """A kill left the journal, and the latest current session stands in it alone."""
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


def test_every_byte_of_the_journals_header(moved: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """The frames say what a damaged header said: all of the journal is replayed, and nothing is lost."""
    kept = {name: (moved.home / name).read_bytes() for name in ("store.db", "store.db-wal")}
    chosen = flips(range(32), (0, 9, 13, 22, 31), seed=2)
    for offset, mask in chosen:
        for name in os.listdir(moved.home):
            if name.startswith("store.db-"):
                (moved.home / name).unlink()
        for name, content in kept.items():
            (moved.home / name).write_bytes(content)
        turn(moved.home / "store.db-wal", offset, mask)
        try:
            told = doctor(moved, capsys)
            assert told.failed() == {"store"}, told
            assert "journal" in told.checks["store"]["detail"]
            repaired = doctor(moved, capsys, "--repair")
            assert is_consistent(repaired), repaired
            assert repaired.code == 0, repaired
            assert any("nothing is lost" in said for said in repaired.repaired)
            assert ("/somewhere/else", moved.main) in local(moved)["places"]
            assert survivors(moved).keys() == moved.events.keys()
        except BaseException as error:
            error.add_note(f"byte {offset} of the journal's header turned by {mask:#04x}")
            raise
    tell(fault="F22", verb="journal", flips=len(chosen))


@pytest.mark.parametrize("number", range(scale(4, 100, 1000)))
def test_any_byte_of_the_journal(number: int, moved: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """One frame is lost, with it at most the events of one page; what follows it in the journal is used."""
    path = moved.home / "store.db-wal"
    chance = random.Random(number)
    frames = (path.stat().st_size - 32) // FRAME
    turn(path, 32 + chance.randrange(frames - 8) * FRAME + chance.randrange(FRAME), chance.randrange(1, 256))
    doctor(moved, capsys)
    repaired = doctor(moved, capsys, "--repair")
    assert is_consistent(repaired), repaired
    assert repaired.code == 0, repaired
    found = local(moved)["places"]
    if ("/somewhere/else", moved.main) not in found:
        assert any("which session is current" in said.lower() for said in repaired.repaired), repaired
    assert len(moved.events.keys() - survivors(moved).keys()) <= 1


def test_every_byte_of_the_shared_memory(moved: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """It is made anew by whoever opens the store first: whatever stands in it has no effect."""
    kept = {name: (moved.home / name).read_bytes() for name in ("store.db", "store.db-wal", "store.db-shm")}
    chosen = flips(range(136), (0, 12, 60, 96), seed=3)
    for offset, mask in chosen:
        for name, content in kept.items():
            (moved.home / name).write_bytes(content)
        turn(moved.home / "store.db-shm", offset, mask)
        try:
            assert doctor(moved, capsys).failed() == set()
            assert survivors(moved).keys() == moved.events.keys()
        except BaseException as error:
            error.add_note(f"byte {offset} of the shared memory turned by {mask:#04x}")
            raise
    tell(fault="F22", verb="shared memory", flips=len(chosen))
