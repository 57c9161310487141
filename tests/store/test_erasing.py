"""Erasing is complete: no byte of the text is left in any file, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import Busy, Failed
from holdfast.core.events import EventErased, SessionDeleted
from holdfast.store.checks import flaws
from holdfast.store.conformance import (
    BEN,
    OTHER,
    SESSION,
    THIRD,
    Ticks,
    assert_sound,
    draft,
    foreign,
    note,
    put,
    started,
    take,
)
from holdfast.store.interface import Filter
from holdfast.store.sqlite import SqliteStore, quarantine
from holdfast.store.sqlite import connection as opening
from holdfast.store.sqlite import store as sqlite_store

CANARY = "xylophone-canary-4711"
KEPT = "quicksilver-kept-0815"


def opened(place: Path) -> SqliteStore:
    return SqliteStore(str(place / "store.db"), writer=lambda: "a" * 20, wall=Ticks())


def fill(store: SqliteStore) -> None:
    """One session with the canary in its goal, notes, alias, words and snapshots; another one that stays."""
    put(store, SESSION, started(f"Goal {CANARY}", aliases={"craft": f"alias-{CANARY}"}))
    for number in range(80):
        put(store, SESSION, note(f"{CANARY} {number} " + "filler " * (number % 40)))
    put(store, SESSION, note(f"{CANARY} " * 2000))
    put(store, OTHER, started(f"Goal {KEPT}"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    store = opened(place)
    fill(store)
    store.close()
    assert traces(place)
    return place


def traces(place: Path, text: str = CANARY) -> list[str]:
    """Files that still contain the text, as it is, in part, or in hex."""
    needles = [text.encode(), text.split("-", maxsplit=1)[0].encode(), text.encode().hex().encode()]
    files = [path for path in place.rglob("*") if path.is_file()]
    return [path.name for path in files if any(needle in path.read_bytes() for needle in needles)]


def test_erase_leaves_no_byte_of_a_session(home: Path) -> None:
    """Neither while the store is open nor after it is closed."""
    store = opened(home)
    store.erase(SESSION, draft(SessionDeleted()))
    assert traces(home) == []
    assert traces(home, KEPT) == ["store.db"]
    assert_sound(store)
    assert list(flaws(store.events(SESSION))) == []
    store.close()
    assert traces(home) == []
    assert not (home / "store.db.erasing").exists()


def test_erase_leaves_no_byte_of_single_events(home: Path) -> None:
    """The session continues."""
    store = opened(home)
    secret = put(store, OTHER, note("plutonium-canary-99"))
    put(store, OTHER, EventErased(hashes=(secret[0].hash,)))
    assert traces(home, "plutonium-canary-99") == []
    assert_sound(store)
    put(store, OTHER, note("goes on"))
    store.close()


def test_received_deletion_leaves_no_byte(home: Path) -> None:
    """Also of events that arrive after it."""
    store = opened(home)
    whole = list(store.events(SESSION))
    deletion = foreign(BEN, 1, {}, clock=whole[-1].clock + 9, kind="session.deleted")
    take(store, [deletion])
    assert traces(home) == []
    late = foreign(BEN, 2, note(f"late {CANARY}"), clock=whole[-1].clock + 10, prev=deletion)
    take(store, [late])
    assert traces(home) == []
    assert_sound(store)
    store.close()


def test_restore_of_an_old_backup_does_not_revive_a_deleted_session(home: Path, tmp_path: Path) -> None:
    store = opened(home)
    store.backup(str(tmp_path / "copy"))
    store.erase(SESSION, draft(SessionDeleted()))
    store.restore(str(tmp_path / "copy"))
    assert traces(home) == []
    store.close()


def test_erase_covers_the_quarantine(home: Path) -> None:
    """Damaged rows and damaged store files with the session's text are removed; rows that belong to another session
    stay.
    """
    store = opened(home)
    run = store._connection.execute
    run("UPDATE events SET data = CAST(data || ' ' AS BLOB) WHERE session = 1 AND seq = 5")
    run("UPDATE events SET actor = 'eve' WHERE session = 1 AND seq = 6")
    run("UPDATE events SET data = CAST(data || ' ' AS BLOB) WHERE session = 2 AND seq = 1")
    store.repair()
    lines = next((home / "aside").iterdir()).read_bytes().splitlines()
    assert len(lines) == 3
    assert traces(home / "aside")
    (home / "aside" / "store.db.damaged-1").write_bytes(CANARY.encode())
    store.erase(SESSION, draft(SessionDeleted()))
    assert traces(home) == []
    assert next((home / "aside").iterdir()).read_bytes().splitlines() == [lines[2]]
    store.close()


def test_erase_removes_temporary_files_of_killed_processes(home: Path) -> None:
    """Unless a file is young and may still be in use."""
    old, young = home / ".holdfast-0011223344556677.tmp", home / ".holdfast-8899aabbccddeeff.tmp"
    old.write_text(CANARY)
    young.write_text("in use")
    os.utime(old, (1, 1))
    store = opened(home)
    store.erase(SESSION, draft(SessionDeleted()))
    assert traces(home) == []
    assert young.exists()
    store.close()


@pytest.mark.parametrize("step", ["announce", "record", "forget", "vacuum", "unmark"])
def test_interrupted_erase_is_finished_by_the_next_open(home: Path, step: str) -> None:
    """Killed at any step, the session is either untouched or fully erased after the next open."""
    places = {
        "announce": "sqlite_store._announce_erasing = die",
        "record": "store.transaction().__class__.__exit__ = die",
        "forget": "quarantine.forget = die",
        "vacuum": "sqlite_store._forget_leftovers = die",
        "unmark": "os.unlink = die",
    }
    program = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from holdfast.core.events import SessionDeleted\n"
        "from holdfast.store.conformance import SESSION, Ticks, draft\n"
        "from holdfast.store.sqlite import SqliteStore, quarantine\n"
        "from holdfast.store.sqlite import store as sqlite_store\n"
        "def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "store = SqliteStore(sys.argv[1], writer=lambda: 'a' * 20, wall=Ticks())\n"
        f"{places[step]}\n"
        "store.erase(SESSION, draft(SessionDeleted()))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(home / "store.db")], check=False)
    assert killed.returncode == -signal.SIGKILL
    store = opened(home)
    assert_sound(store)
    state = store.state(SESSION)
    assert state is not None
    if state.deleted:
        assert traces(home) == []
    else:
        assert step in ("announce", "record")
        store.erase(SESSION, draft(SessionDeleted()))
    assert traces(home) == []
    assert not (home / "store.db.erasing").exists()
    store.close()


def test_erase_is_finished_later_when_a_reader_blocks_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion counts at once, the error reports what remains, and the next open finishes it."""
    monkeypatch.setattr(sqlite_store, "_ERASE_PATIENCE", 0.01)
    reader = apsw.Connection(str(home / "store.db"))
    reader.execute("BEGIN; SELECT count(*) FROM events")
    list(reader.execute("SELECT count(*) FROM events"))
    store = opened(home)
    store._connection.set_busy_handler(opening.BusyHandler(0.01))
    brief = opening.BusyHandler
    monkeypatch.setattr(opening, "BusyHandler", lambda *_: brief(0.01))
    with pytest.raises(Busy, match="is deleted, but"):
        store.erase(SESSION, draft(SessionDeleted()))
    assert [row.id for row in store.rows(Filter())] == [OTHER]
    put(store, OTHER, note("work goes on"))
    store.close()
    assert (home / "store.db.erasing").exists()
    blocked = opened(home)
    assert blocked.state(OTHER) is not None
    blocked.close()
    assert (home / "store.db.erasing").exists()
    reader.close()
    opened(home).close()
    assert not (home / "store.db.erasing").exists()
    assert traces(home) == []


def test_erase_reports_a_full_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion itself is done; the marker file stays for the next open."""

    def full(directory: str) -> None:
        raise OSError(28, "No space left on device")

    store = opened(home)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_store, "_forget_leftovers", full)
        with pytest.raises(Failed, match=r"is deleted, but its bytes are not erased yet: .*disk is full"):
            store.erase(SESSION, draft(SessionDeleted()))
    assert (home / "store.db.erasing").exists()
    store.close()
    opened(home).close()
    assert traces(home) == []


def test_erasing_marker_does_not_block_a_reader(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On read-only media a store with the marker can still be read."""

    def refuse(path: str) -> apsw.Connection:
        raise apsw.CantOpenError

    (home / "store.db.erasing").touch()
    monkeypatch.setattr(opening, "_open", refuse)
    store = opened(home)
    assert store.state(OTHER) is not None
    store.close()
    assert (home / "store.db.erasing").exists()


def test_erase_is_idempotent(home: Path) -> None:
    """Also for a session with nothing left to erase."""
    store = opened(home)
    put(store, THIRD, started("Third"))
    for session in (SESSION, SESSION, THIRD):
        store.erase(session, draft(SessionDeleted()))
    assert_sound(store)
    assert traces(home) == []
    assert quarantine.entries(str(home / "store.db")) == []
    store.close()
