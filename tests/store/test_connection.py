"""Opening whatever is at the store's path: the right error, the right exit code, and not a byte changed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Invalid, NotFound, Refused
from holdfast.store.conformance import SESSION, Ticks, note, put, started
from holdfast.store.interface import Filter
from holdfast.store.sqlite import SqliteStore, pages
from holdfast.store.sqlite import connection as opening

PAGE = 4096


def opened(path: Path, *, create: bool = False) -> SqliteStore:
    return SqliteStore(str(path), writer=lambda: "a" * 20, wall=Ticks(), create=create)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with some events, in a directory of its own."""
    place = tmp_path / "home"
    place.mkdir()
    store = opened(place / "store.db", create=True)
    put(store, SESSION, started(), *(note(f"note {number}") for number in range(20)))
    store.close()
    return place / "store.db"


@pytest.fixture
def killed(path: Path, tmp_path: Path) -> Path:
    """The same store after a kill: five more events are only in the journal."""
    store = opened(path)
    for number in range(5):
        put(store, SESSION, note(f"unsaved {number}"))
    copy = tmp_path / "killed"
    copy.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{copy / 'store.db'}{ending}")
    store.close()
    return copy / "store.db"


def refused(path: Path, kind: type[HoldfastError], code: int) -> HoldfastError:
    """Opening fails this way, for reading and for writing, and changes no byte."""
    before = path.read_bytes() if path.is_file() else None
    for create in (False, True):
        with pytest.raises(kind) as caught:
            opened(path, create=create)
        assert type(caught.value) is kind
        assert caught.value.exit_code == code
        assert caught.value.hint or kind is NotFound
    if before is not None:
        assert path.read_bytes() == before
    return caught.value


def test_open_reports_a_missing_store(tmp_path: Path) -> None:
    """Without permission to create one, nothing is created."""
    with pytest.raises(NotFound):
        opened(tmp_path / "store.db")
    assert os.listdir(tmp_path) == []


def test_open_creates_no_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        opened(tmp_path / "nowhere" / "store.db", create=True)


def test_open_refuses_a_directory(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    refused(tmp_path / "store.db", Invalid, 4)


def test_open_refuses_a_named_pipe_at_once(tmp_path: Path) -> None:
    """It does not wait for a writer."""
    os.mkfifo(tmp_path / "store.db")
    refused(tmp_path / "store.db", Invalid, 4)


def test_open_refuses_a_symlink(path: Path, tmp_path: Path) -> None:
    """Even one to a sound store; a dangling link is no reason to create a store."""
    (tmp_path / "link.db").symlink_to(path)
    refused(tmp_path / "link.db", Refused, 1)
    (tmp_path / "dangling.db").symlink_to(tmp_path / "target.db")
    refused(tmp_path / "dangling.db", Refused, 1)
    assert not (tmp_path / "target.db").exists()


def test_open_follows_a_symlinked_directory(path: Path, tmp_path: Path) -> None:
    """A home may be a link to a directory: that is the user's choice."""
    (tmp_path / "home-link").symlink_to(path.parent)
    store = opened(tmp_path / "home-link" / "store.db")
    assert store.state(SESSION) is not None
    store.close()


def test_open_reports_an_empty_file_as_damage(path: Path) -> None:
    """A truncated file is not a new store."""
    os.truncate(path, 0)
    assert "empty" in refused(path, Damaged, 6).message


@pytest.mark.parametrize("size", [1, 15, 16, 99, 100, 511, 512, 4095, 4096, 4097, 8192, 3 * PAGE + 7])
def test_open_reports_zeros_noise_and_text_as_damage(path: Path, size: int) -> None:
    """Whatever the size of the file."""
    for content in (bytes(size), b"\xa5" * size, (b"once upon a time\n" * size)[:size]):
        path.write_bytes(content)
        refused(path, Damaged, 6)


@pytest.mark.parametrize("share", range(0, 100, 9))
def test_truncated_store_is_damaged_or_complete(path: Path, share: int) -> None:
    """It never shows fewer events unless the check reports it."""
    whole = path.read_bytes()
    for size in {len(whole) * share // 100, len(whole) * share // 100 // PAGE * PAGE} - {0}:
        path.write_bytes(whole[:size])
        with suppress(Damaged):
            store = opened(path)
            # The last pages may be empty ones: then nothing is lost.
            assert list(store.check()) or len(list(store.events(SESSION))) == 21
            store.close()
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("offset", "data"),
    [(0, b"\0"), (16, b"\0\3"), (18, b"\x09\x09"), (21, b"\1\1\1"), (56, b"\0\0\0\3"), (68, b"XXXX"), (100, b"\xff")],
)
def test_open_reports_a_garbled_header_as_damage(path: Path, offset: int, data: bytes) -> None:
    """Never as another program's file or as a new store."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    refused(path, Damaged, 6)


@pytest.mark.skipif(os.geteuid() == 0, reason="for root every file is readable")
def test_open_reports_an_unreadable_file(path: Path) -> None:
    """Unreadable is not missing: nothing is created in its place."""
    os.chmod(path, 0)
    refused(path, Failed, 1)


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────


def notes(path: Path) -> int:
    store = opened(path)
    state = store.state(SESSION)
    assert state is not None
    assert list(store.check()) == []
    store.close()
    return len(state.notes)


def test_journal_is_replayed_after_a_kill(killed: Path) -> None:
    assert notes(killed) == 25


def test_store_without_its_journal_is_sound_but_older(killed: Path) -> None:
    """It is as it was at the last checkpoint."""
    Path(f"{killed}-wal").unlink()
    assert notes(killed) == 20


@pytest.mark.parametrize("share", [0, 1, 30, 60, 99])
def test_truncated_journal_yields_whole_transactions(killed: Path, share: int) -> None:
    wal = Path(f"{killed}-wal")
    os.truncate(wal, wal.stat().st_size * share // 100)
    assert 20 <= notes(killed) < 25


@pytest.mark.parametrize("offset", [0, 4, 8, 16, 24, 32 + 24 + 50, 32 + 4, 32 + 8, 32 + 16])
def test_open_reports_a_garbled_journal(killed: Path, offset: int) -> None:
    """Neither the journal nor the store file is touched."""
    wal = Path(f"{killed}-wal")
    content = bytearray(wal.read_bytes())
    content[offset : offset + 4] = b"\xde\xad\xbe\xef"
    wal.write_bytes(content)
    before = killed.read_bytes()
    with pytest.raises(Damaged, match="journal") as caught:
        opened(killed)
    assert caught.value.exit_code == 6
    assert wal.read_bytes() == content
    assert killed.read_bytes() == before


def test_journal_of_zeros_counts_as_empty(killed: Path) -> None:
    """A file system may leave zeros after a power cut: that is not damage."""
    wal = Path(f"{killed}-wal")
    wal.write_bytes(bytes(wal.stat().st_size))
    assert notes(killed) == 20


def test_open_does_not_mistake_a_busy_journal_for_damage(path: Path) -> None:
    """Another process keeps writing and restarting the journal."""
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from holdfast.store.conformance import SESSION, Ticks, note, put\n"
        "from holdfast.store.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1], writer=lambda: 'b' * 20, wall=Ticks())\n"
        "print('ready', flush=True)\n"
        "for number in range(150):\n"
        "    put(store, SESSION, note('busy'))\n"
        "    if number % 7 == 0: store._connection.execute('PRAGMA wal_checkpoint(RESTART)')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    opens = 0
    while process.poll() is None:
        opened(path).close()
        opens += 1
    process.stdout.close()
    assert process.returncode == 0
    assert opens > 1
    assert notes(path) == 170


def test_page_reader_returns_the_same_bytes_as_sqlite(killed: Path) -> None:
    """The image read without SQLite is the database with its journal applied."""
    image = pages.read(str(killed))
    assert image.leftover == []
    opened(killed).close()
    assert image.data == killed.read_bytes()


# ── read-only media ──────────────────────────────────────────────────────────────────────────────────────


def assert_read_only(path: Path, due: int) -> None:
    """Everything can be read, writing is refused with a message, and no byte and no file changes."""
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    store = opened(path)
    state = store.state(SESSION)
    assert state is not None
    assert len(state.notes) == due
    assert len(store.rows(Filter(search="note"))) == 1
    assert list(store.check()) == []
    with pytest.raises(Failed, match=r"read-only|disk is full"):
        put(store, SESSION, note("no"))
    assert len(list(store.events(SESSION))) == due + 1
    store.close()
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


def forbid_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like read-only media: SQLite cannot open anything for writing. (Root may write where modes forbid it.)"""

    def refuse(path: str) -> apsw.Connection:
        raise apsw.CantOpenError

    monkeypatch.setattr(opening, "_open", refuse)


def test_closed_store_is_readable_without_write_access(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_writing(monkeypatch)
    assert_read_only(path, 20)


def test_store_with_a_journal_is_readable_without_write_access(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is read although nothing can be written next to it."""
    forbid_writing(monkeypatch)
    assert_read_only(killed, 25)


def test_damaged_journal_is_reported_without_write_access(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = Path(f"{killed}-wal")
    content = bytearray(wal.read_bytes())
    content[32 + 24 : 32 + 28] = b"\xde\xad\xbe\xef"
    wal.write_bytes(content)
    forbid_writing(monkeypatch)
    with pytest.raises(Damaged, match="journal"):
        opened(killed)


def in_namespace(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script where this user may mount things; skip where the system does not allow that."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare program here")
    allowed = subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True)
    if allowed.returncode:
        pytest.skip("user namespaces are not permitted here")
    return subprocess.run(
        ["unshare", "-Urm", "sh", "-ec", script, "sh", *args], check=False, capture_output=True, text=True
    )


READ = """
import sys
from holdfast.store.conformance import SESSION, Ticks, note, put
from holdfast.store.sqlite import SqliteStore
from holdfast.core.errors import Failed
store = SqliteStore(sys.argv[1], writer=lambda: "a" * 20, wall=Ticks())
print(len(store.state(SESSION).notes))
try:
    put(store, SESSION, note("no"))
except Failed as error:
    print(error.message)
"""


@pytest.mark.parametrize("which", ["path", "killed"])
def test_store_is_readable_on_a_read_only_mount(which: str, request: pytest.FixtureRequest) -> None:
    """Writing reports that the store is read-only."""
    path: Path = request.getfixturevalue(which)
    done = in_namespace(
        'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"; shift; exec "$@"',
        str(path.parent), sys.executable, "-c", READ, str(path),
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.split("\n", 1)[0] == ("20" if which == "path" else "25")
    assert "read-only" in done.stdout


@pytest.mark.parametrize("which", ["path", "killed"])
def test_store_is_readable_on_a_full_disk(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Writing reports that the disk is full."""
    path: Path = request.getfixturevalue(which)
    (tmp_path / "full").mkdir()
    done = in_namespace(
        'mount -t tmpfs -o size=1m tmpfs "$1"; cp "$2"/* "$1"; dd if=/dev/zero of="$1/fill" bs=4k 2>/dev/null || :'
        '; shift 2; exec "$@"',
        str(tmp_path / "full"), str(path.parent), sys.executable, "-c", READ, str(tmp_path / "full" / "store.db"),
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.split("\n", 1)[0] == ("20" if which == "path" else "25")
    assert "the disk is full" in done.stdout


# ── creating, waiting ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def _umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.mark.usefixtures("_umask")
def test_new_store_is_private_and_leaves_no_other_file(tmp_path: Path) -> None:
    """Store and journal have mode 0600 whatever the umask, and no temporary file stays."""
    store = opened(tmp_path / "store.db", create=True)
    put(store, SESSION, started())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
    store.close()
    assert os.listdir(tmp_path) == ["store.db"]


def test_create_leaves_nothing_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a store nor a temporary file."""

    def refuse(temporary: str, path: str) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(opening, "put_in_place", refuse)
    with pytest.raises(Failed, match="disk is full"):
        opened(tmp_path / "store.db", create=True)
    assert os.listdir(tmp_path) == []


def test_create_uses_a_store_that_appears_meanwhile(path: Path) -> None:
    """Of two processes that create it at once, the second uses the first one's."""
    before = path.stat().st_ino
    opening.create(str(path))
    assert path.stat().st_ino == before
    assert sorted(os.listdir(path.parent)) == ["store.db"]
    assert notes(path) == 20


def test_busy_is_raised_when_a_writer_never_ends(path: Path) -> None:
    """Another process holds the write lock too long: busy, and retrying helps."""
    one, two = opened(path), opened(path)
    two._connection.set_busy_handler(opening.BusyHandler(0.05))
    with one.transaction(), pytest.raises(Busy) as caught:
        put(two, SESSION, note("no"))
    assert caught.value.retry_helps
    put(two, SESSION, note("yes"))
    one.close()
    two.close()


def test_sqlite_versions_with_known_bugs_are_rejected() -> None:
    """Versions with the WAL-reset bug and the withdrawn one; ours is sound."""
    assert opening.sqlite_is_sound(opening.sqlite_version())
    known = ("3.40.1", "3.51.2", "3.51.3", "3.52.0", "3.53.0", "4.0")
    assert [name for name in known if opening.sqlite_is_sound(name)] == ["3.51.3", "3.53.0", "4.0"]
