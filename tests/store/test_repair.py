"""Repair from the inside: what it keeps, what it reports, and that an interruption costs nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast.core.envelope import Event
from holdfast.core.errors import Busy, Damaged, Invalid, NotFound, Refused
from holdfast.store.checks import flaws
from holdfast.store.conformance import (
    BEN,
    OTHER,
    PROJECT,
    SESSION,
    Ticks,
    assert_sound,
    everything,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import Filter
from holdfast.store.sqlite import SqliteStore, page_scan, pages, quarantine, repair
from holdfast.store.sqlite import connection as opening

PAGE = 4096


def opened(path: Path, *, create: bool = False) -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: "a" * 20, wall=Ticks(), create=create)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with two sessions, a place, a project and a few dozen events."""
    (tmp_path / "home").mkdir()
    store = opened(tmp_path / "home" / "store.db", create=True)
    put(store, SESSION, started(aliases={"craft": "alias-one"}), *(note(f"note {number}") for number in range(60)))
    put(store, OTHER, started("Other"), note("long " * 3000))
    with store.transaction() as transaction:
        transaction.set_current("/home/me/shop", SESSION)
        transaction.remember_project(PROJECT)
    store.close()
    return tmp_path / "home" / "store.db"


def shown(path: Path) -> dict[str, object]:
    store = opened(path)
    everything_shown = everything(store)
    assert [damage for damage in store.check() if damage.check != "aside"] == []
    store.close()
    return everything_shown


def corrupt(path: Path, offset: int = 0, data: bytes = b"\0" * 100) -> bytes:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    return path.read_bytes()


def test_repair_leaves_a_sound_store_alone(path: Path) -> None:
    """Nothing is reported or set aside; places, projects and aliases stay."""
    before = shown(path)
    assert repair.repair(str(path)) == []
    assert shown(path) == before
    store = opened(path)
    assert store.current("/home/me/shop") == SESSION
    assert store.projects_with("path", "/home/me/shop") == ["project-1"]
    store.close()
    assert not (path.parent / "aside").exists()


def test_repair_recovers_everything_after_a_corrupt_header(path: Path) -> None:
    """A new file has everything; the corrupt one is kept to the byte."""
    before = shown(path)
    corrupted = corrupt(path)
    report = repair.repair(str(path))
    assert shown(path) == before
    kept = list((path.parent / "aside").iterdir())
    assert [item.read_bytes() for item in kept] == [corrupted]
    assert "nothing is lost" in report[0]
    assert str(kept[0]) in report[1]
    assert sorted(os.listdir(path.parent)) == ["aside", "store.db"]
    store = opened(path)
    assert store.projects_with("path", "/home/me/shop") == ["project-1"]
    store.close()


def test_repair_recovers_events_from_the_journal(path: Path, tmp_path: Path) -> None:
    """Events that had reached only the journal when the file was corrupted."""
    store = opened(path)
    put(store, SESSION, note("only in the journal"))
    expected = everything(store)
    copy = tmp_path / "copy"
    copy.mkdir()
    for ending in ("", "-wal"):
        (copy / f"store.db{ending}").write_bytes(Path(f"{path}{ending}").read_bytes())
    store.close()
    corrupt(copy / "store.db", 0, bytes(30 * PAGE)[: 10 * PAGE])
    wal = (copy / "store.db-wal").read_bytes()
    repair.repair(str(copy / "store.db"))
    assert {item.name.partition("damaged-")[2][-4:] for item in (copy / "aside").iterdir()} >= {"-wal"}
    assert wal in [item.read_bytes() for item in (copy / "aside").iterdir()]
    store = opened(copy / "store.db")
    hashes = [event.hash for event in store.events(SESSION)]
    assert hashes[-1] == [event.hash for event in _events(expected, SESSION)][-1]
    assert [damage for damage in store.check() if damage.check != "aside"] == []
    store.close()


def _events(snapshot: dict[str, object], session: str) -> list[Event]:
    events = snapshot[session][0]  # type: ignore[index]
    assert isinstance(events, list)
    return events


def test_damaged_rows_are_kept_as_json_lines(path: Path) -> None:
    """Each row as it was, with its ids, in a private file."""
    store = opened(path)
    store._connection.execute("UPDATE events SET data = x'00ff' WHERE session = 1 AND seq = 7")
    store.close()
    report = repair.repair(str(path))
    (kept,) = (path.parent / "aside").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    (line,) = kept.read_bytes().splitlines()
    row = msgspec.json.decode(line)
    assert (row["session_id"], row["writer_id"], row["seq"], row["data"]) == (SESSION, "a" * 20, 7, "00ff")
    assert [name for name in report if f"Session {SESSION}: event 7 (note.added) is damaged" in name]
    assert [name for name in report if "event 7 is missing; it could not be saved" in name]
    assert repair.repair(str(path)) == [], "a known loss is not reported again"


def test_restore_fills_the_gap_of_a_repair(path: Path, tmp_path: Path) -> None:
    """The event that was set aside returns, and its gap is no longer reported."""
    store = opened(path)
    store.backup(str(tmp_path / "copy"))
    store._connection.execute("UPDATE events SET data = x'00ff' WHERE session = 1 AND seq = 7")
    store.repair()
    assert {damage.check for damage in store.check()} == {"aside"}
    assert store.restore(str(tmp_path / "copy")).events == 1
    assert [damage.detail for damage in store.check() if "set aside" not in damage.detail] == []
    assert list(flaws(store.events(SESSION))) == []
    store._connection.execute("UPDATE events SET data = x'00ff' WHERE session = 1 AND seq = 7")
    assert {damage.check for damage in store.check()} >= {"chain"}, "new damage at the same place is reported"
    store.close()


def test_repair_reports_events_lost_at_the_end_of_a_stream(path: Path) -> None:
    """They leave no gap, but the listing has a later time; reported once."""
    store = opened(path)
    put(store, SESSION, note("last words"), at=1_900_000_000_000)
    store._connection.execute("DELETE FROM events WHERE ord = (SELECT max(ord) FROM events)")
    store.close()
    report = repair.repair(str(path))
    assert [name for name in report if "up to 2030-03-17T17:46:40.000Z, could not be saved" in name]
    assert repair.repair(str(path)) == []


def test_repair_keeps_a_foreign_clock_far_ahead(path: Path) -> None:
    """Later events still come after everything received before the repair."""
    store = opened(path)
    take(store, [foreign(BEN, 1, note("ahead"), clock=2**50)])
    store.repair()
    assert put(store, OTHER, note("x"))[0].clock > 2**50
    assert_sound(store)
    store.close()


@pytest.mark.parametrize("kind", ["missing", "directory", "link", "newer", "foreign"])
def test_repair_refuses_what_is_not_a_damaged_store(path: Path, kind: str) -> None:
    due: type[Exception]
    match kind:
        case "missing":
            path.unlink()
            due = NotFound
        case "directory":
            path.unlink()
            path.mkdir()
            due = Invalid
        case "link":
            path.rename(path.with_name("real.db"))
            path.symlink_to(path.with_name("real.db"))
            due = Refused
        case "newer":
            _make_newer(path)
            due = Refused
        case _:
            path.write_bytes(_songs(path))
            due = Invalid
    before = sorted(os.listdir(path.parent))
    with pytest.raises(due):
        repair.repair(str(path))
    assert sorted(os.listdir(path.parent)) == before


def _make_newer(path: Path) -> None:
    import apsw

    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE later (x); PRAGMA user_version = 99")
    connection.close()


def _songs(path: Path) -> bytes:
    import apsw

    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE songs (title)")
    data: bytes = connection.serialize("main")
    connection.close()
    return data


def test_repair_refuses_a_store_that_is_open_elsewhere(path: Path) -> None:
    """Other processes would keep writing to the old file."""
    program = (
        "import sys\nfrom holdfast.store.conformance import Ticks\nfrom holdfast.store.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1], writer=lambda: 'b' * 20, wall=Ticks())\n"
        "list(store.sessions())\nprint('ready', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        corrupted = corrupt(path)
        with pytest.raises(Busy, match="open"):
            repair.repair(str(path))
        assert path.read_bytes() == corrupted
        process.communicate("")
    assert "nothing is lost" in repair.repair(str(path))[0]


@pytest.mark.parametrize(
    "step", ["quarantine.keep_file", "files.write_atomic", "os.unlink", "os.replace", "Journal.refold"]
)
def test_repair_can_be_run_again_after_a_kill(path: Path, tmp_path: Path, step: str) -> None:
    """Killed right before or after any step, the next repair recovers everything, the journal's events included."""
    store = opened(path)
    put(store, SESSION, note("only in the journal"))
    expected = everything(store)
    copy = tmp_path / "copy"
    copy.mkdir()
    for ending in ("", "-wal"):
        (copy / f"store.db{ending}").write_bytes(Path(f"{path}{ending}").read_bytes())
    store.close()
    corrupt(copy / "store.db")
    program = (
        "import os, signal, sys\n"
        "from holdfast.store.sqlite import quarantine, repair\nfrom holdfast.store.journal import Journal\n"
        "from holdfast.machine import files\n"
        f"old = {step}\n"
        "def die(*args, **more):\n"
        "    if sys.argv[2] == 'after': old(*args, **more)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"{step} = die\n"
        "repair.repair(sys.argv[1])\n"
    )
    for when in ("before", "after"):
        killed = subprocess.run([sys.executable, "-c", program, str(copy / "store.db"), when], check=False)
        assert killed.returncode == -signal.SIGKILL
        if (copy / "store.db.repairing").exists():
            with pytest.raises(Damaged, match="repair"):
                opening.connect(str(copy / "store.db"))
    repair.repair(str(copy / "store.db"))
    store = opened(copy / "store.db")
    assert everything(store) == expected
    store.close()
    assert not (copy / "store.db.repairing").exists()


def test_open_store_can_repair_itself(path: Path) -> None:
    """It closes, repairs and reopens: the same object keeps working."""
    store = opened(path)
    store._connection.execute("DELETE FROM words; UPDATE sessions SET goal = 'wrong'")
    assert {damage.check for damage in store.check()} == {"listing", "search"}
    store.repair()
    assert_sound(store)
    assert [row.id for row in store.rows(Filter(search="note 5"))] == [SESSION]
    put(store, SESSION, note("goes on"))
    assert_sound(store)
    store.close()


def test_scan_reads_every_row_of_a_sound_file(path: Path) -> None:
    """The page scan gives the same rows as SQLite, overflow pages included."""
    scanned = page_scan.scan(pages.read(str(path)))
    store = opened(path)
    rows = list(store._connection.execute("SELECT ord, hash, data FROM events ORDER BY ord"))
    store.close()
    assert sorted((row[0], row[14], row[15]) for row in scanned.events) == rows
    assert scanned.sessions == {1: SESSION, 2: OTHER}
    assert scanned.writers == {1: "a" * 20}


@pytest.mark.parametrize("seed", range(5))
def test_scan_of_noise_reads_no_row_and_ends(seed: int) -> None:
    """Pages that only look like table leaves give no rows, no error, and no endless chain."""
    import random

    rng = random.Random(seed)
    noise = bytearray(rng.randbytes(40 * PAGE))
    for start in range(0, len(noise), PAGE):
        noise[start] = 13
        noise[start + 3 : start + 5] = b"\x01\xff"
    rows = page_scan.scan(pages.Image(bytes(noise), [bytes(noise[:PAGE]), b"", b"\x0d"], bytes(noise)))
    assert all(len(row) == 17 for row in rows.events)
    for start in range(0, len(noise), PAGE):
        noise[start] = rng.choice((2, 10))
    assert page_scan.places(pages.Image(bytes(noise), [], bytes(noise))) == {}


def test_quarantine_lists_its_files(path: Path) -> None:
    """Only finished files count; without any there is no directory."""
    assert quarantine.entries(str(path)) == []
    (path.parent / "aside").mkdir()
    (path.parent / "aside" / ".holdfast-00.tmp").touch()
    (path.parent / "aside" / "events-1.jsonl").touch()
    assert quarantine.entries(str(path)) == ["events-1.jsonl"]
