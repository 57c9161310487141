"""The atomic writer and related functions, against real files, planted links, umasks and failing calls."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.errors import (
    Conflict,
    Failed,
    HoldfastError,
    Invalid,
    NotFound,
    Refused,
)
from holdfast.machine import files, os_errors, private_paths
from holdfast.machine.files import exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OTHER = 65534  # nobody
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")

OLD, NEW = b"old content", b"new content, and a little more of it"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".holdfast-")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of ours, where state belongs."""
    folder = tmp_path / "home"
    folder.mkdir(0o700)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Something valuable elsewhere that a planted link leads to."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_bytes(b"precious")
    (folder / "file").chmod(0o640)
    (folder / "folder").mkdir()
    (folder / "folder" / "inside").write_bytes(b"precious too")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The umasks that people have, and one that nobody should."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a directory: kind and mode, link count, size, modification time, content."""
    entries: dict[str, tuple[object, ...]] = {}
    for root, folders, names in os.walk(folder):
        for name in folders + names:
            path = os.path.join(root, name)
            info = os.lstat(path)
            content = b""
            if stat.S_ISREG(info.st_mode):
                with contextlib.suppress(PermissionError), open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(info.st_mode):
                content = os.fsencode(os.readlink(path))
            entries[path] = (info.st_mode, info.st_nlink, info.st_size, info.st_mtime_ns, content)
    return entries


# --- the plain case ----------------------------------------------------------------------------------


def test_new_file_contains_exactly_what_was_written(place: Path) -> None:
    """And nothing else is left in the directory."""
    files.write_atomic(str(place / "state"), NEW)
    assert (place / "state").read_bytes() == NEW
    assert os.listdir(place) == ["state"]


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 20])
def test_content_of_any_size_is_written_completely(place: Path, size: int) -> None:
    data = os.urandom(size)
    files.write_atomic(str(place / "state"), data)
    assert (place / "state").read_bytes() == data


def test_relative_path_is_written_in_the_working_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    files.write_atomic("state", NEW)
    assert (place / "state").read_bytes() == NEW


def test_readers_see_the_old_or_the_new_content_and_never_a_mixture(place: Path) -> None:
    """While the file is replaced a hundred times."""
    path = place / "state"
    versions = {bytes([number]) * 5000 for number in range(4)}
    files.write_atomic(str(path), next(iter(versions)))
    stop = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(25):
        for version in versions:
            files.write_atomic(str(path), version)
    stop.set()
    reader.join()
    assert seen <= versions


def test_open_reader_keeps_the_old_file(place: Path) -> None:
    """The file is replaced, not rewritten."""
    path = place / "state"
    path.write_bytes(OLD)
    with path.open("rb") as reader:
        files.write_atomic(str(path), NEW)
        assert reader.read() == OLD


def test_concurrent_writers_leave_one_of_their_contents(place: Path) -> None:
    """And no temporary."""
    path = str(place / "state")

    def write(data: bytes) -> None:
        for _ in range(50):
            files.write_atomic(path, data)

    threads = [threading.Thread(target=write, args=(letter * 3000,)) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (place / "state").read_bytes() in (b"a" * 3000, b"b" * 3000)
    assert not leftovers(place)


@pytest.mark.parametrize("name", ["", ".", "..", "folder/"])
def test_path_without_a_file_name_is_invalid(place: Path, name: str) -> None:
    with pytest.raises(Invalid):
        files.write_atomic(os.path.join(str(place), name), NEW)


def test_missing_directory_raises_not_found(place: Path) -> None:
    """The writer creates no directories, and the error names the path."""
    with pytest.raises(NotFound) as caught:
        files.write_atomic(str(place / "nowhere" / "state"), NEW)
    assert caught.value.file == str(place / "nowhere" / "state")


def test_file_in_place_of_a_parent_directory_is_invalid(place: Path) -> None:
    (place / "file").write_bytes(OLD)
    with pytest.raises(Invalid):
        files.write_atomic(str(place / "file" / "state"), NEW)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 300])
def test_impossible_names_are_typed_errors(place: Path, name: str) -> None:
    """NUL, lone surrogates, and names that are too long."""
    for attempt in (
        lambda: files.write_atomic(str(place / name), NEW),
        lambda: files.open_private(str(place / name), os.O_RDWR | os.O_CREAT),
        lambda: files.make_private_dir(str(place / name)),
        lambda: files.read_limited(str(place / name), 10, subject="the plan"),
        lambda: files.hash_file(str(place / name)),
    ):
        with pytest.raises(Invalid) as caught:
            attempt()
        assert caught.value.message.isprintable()
    assert os.listdir(place) == []


# --- modes -------------------------------------------------------------------------------------------


def test_new_files_are_private_under_any_umask(place: Path, umask: int) -> None:
    """0600."""
    files.write_atomic(str(place / "written"), NEW)
    os.close(files.open_private(str(place / "opened"), os.O_RDWR | os.O_CREAT))
    assert mode(place / "written") == 0o600
    assert mode(place / "opened") == 0o600


def test_new_directories_are_private_under_any_umask(place: Path, umask: int) -> None:
    """0700, for the parents too."""
    files.make_private_dir(str(place / "a" / "b" / "c"))
    for made in ("a", "a/b", "a/b/c"):
        assert mode(place / made) == 0o700


@pytest.mark.parametrize("kept", [0o600, 0o644, 0o640, 0o666, 0o400, 0o755])
def test_replaced_file_keeps_its_mode(place: Path, umask: int, kept: int) -> None:
    """Somebody chose it."""
    path = place / "state"
    path.write_bytes(OLD)
    path.chmod(kept)
    files.write_atomic(str(path), NEW)
    assert mode(path) == kept


def test_opened_file_keeps_its_mode(place: Path, umask: int) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    path.chmod(0o644)
    os.close(files.open_private(str(path), os.O_RDWR | os.O_CREAT))
    assert mode(path) == 0o644


def test_temporary_is_private_while_it_is_written(place: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = os.fsync

    def look(fd: int) -> None:
        seen.extend(stat.S_IMODE(os.lstat(place / name).st_mode) for name in leftovers(place))
        real(fd)

    monkeypatch.setattr(os, "fsync", look)
    files.write_atomic(str(place / "state"), NEW)
    assert seen == [0o600]


@needs_root
def test_file_replaced_by_root_keeps_its_owner(place: Path) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    os.chown(path, OTHER, OTHER)
    files.write_atomic(str(path), NEW)
    assert (path.stat().st_uid, path.stat().st_gid) == (OTHER, OTHER)


def test_group_that_cannot_be_kept_loses_its_permissions(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another group must not be able to read the file."""
    path = place / "state"
    path.write_bytes(OLD)
    path.chmod(0o660)
    real = os.fstat

    def other_group(fd: int) -> os.stat_result:
        fields = list(real(fd))
        fields[5] += 1
        return os.stat_result(fields)

    def forbid(fd: int, uid: int, gid: int) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "fstat", other_group)
    monkeypatch.setattr(os, "fchown", forbid)
    files.write_atomic(str(path), NEW)
    assert mode(path) == 0o600


def test_file_system_without_modes_can_be_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as FAT."""

    def forbid(fd: int, mode: int) -> None:
        raise PermissionError(errno.EPERM, "no modes here")

    monkeypatch.setattr(os, "fchmod", forbid)
    before = os.umask(0o277)  # so that the mode has to be set
    try:
        files.write_atomic(str(place / "state"), NEW)
    finally:
        os.umask(before)
    assert (place / "state").exists()


# --- planted -----------------------------------------------------------------------------------------


def _socket(at: Path) -> None:
    before = os.getcwd()
    os.chdir(at.parent)  # the path of a socket is limited to about a hundred characters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(at.name)
    finally:
        os.chdir(before)


def _open_pipe(at: Path, victim: Path) -> None:
    os.mkfifo(at)
    at.chmod(0o666)


def _owned_by_other(at: Path, victim: Path) -> None:
    at.symlink_to(victim / "file")
    os.lchown(at, OTHER, OTHER)


def _file_of_other(at: Path, victim: Path) -> None:
    at.parent.chmod(0o1777)
    at.write_bytes(b"bait")
    at.chmod(0o666)
    os.chown(at, OTHER, OTHER)


def _chain(at: Path, victim: Path, end: str) -> None:
    (victim / "second").symlink_to(victim / end)
    (victim / "first").symlink_to("second")
    at.symlink_to(victim / "first")


def _circle(at: Path, victim: Path) -> None:
    at.symlink_to(victim / "back")
    (victim / "back").symlink_to(at)


def _hard_link_of_link(at: Path, victim: Path) -> None:
    (victim / "link").symlink_to("file")
    os.link(victim / "link", at, follow_symlinks=False)


def _locked(at: Path, victim: Path, how: int) -> None:
    (victim / "file").chmod(how)
    at.symlink_to(victim / "file")


def _full_directory(at: Path, victim: Path) -> None:
    at.mkdir()
    (at / "inside").write_bytes(OLD)


def _hard_link_of_hard_link(at: Path, victim: Path) -> None:
    os.link(victim / "file", victim / "second")
    os.link(victim / "second", at)


def _own_second_name(at: Path, victim: Path) -> None:
    (at.parent / "other name").write_bytes(OLD)
    os.link(at.parent / "other name", at)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "link to a file": lambda at, v: at.symlink_to(v / "file"),
    "relative link to a file": lambda at, v: at.symlink_to("../victim/file"),
    "link to a read-only file": lambda at, v: _locked(at, v, 0o444),
    "link to a file nobody may read": lambda at, v: _locked(at, v, 0o000),
    "link to an executable": lambda at, v: _locked(at, v, 0o755),
    "link to nothing": lambda at, v: at.symlink_to(v / "missing"),
    "link to nothing in nothing": lambda at, v: at.symlink_to(v / "missing" / "file"),
    "link to nothing beside it": lambda at, v: at.symlink_to("beside"),
    "link through a file": lambda at, v: at.symlink_to(v / "file" / "x"),
    "link to a directory": lambda at, v: at.symlink_to(v / "folder"),
    "link to a directory, with a slash": lambda at, v: at.symlink_to(f"{v}/folder/"),
    "link to its own directory": lambda at, v: at.symlink_to("."),
    "link to the directory above": lambda at, v: at.symlink_to(".."),
    "link to the root": lambda at, v: at.symlink_to("/"),
    "link to /dev/null": lambda at, v: at.symlink_to("/dev/null"),
    "link to /dev/full": lambda at, v: at.symlink_to("/dev/full"),
    "link to /dev/tty": lambda at, v: at.symlink_to("/dev/tty"),
    "link to standard output": lambda at, v: at.symlink_to("/dev/stdout"),
    "link to our own memory": lambda at, v: at.symlink_to("/proc/self/mem"),
    "link to a pipe": lambda at, v: at.symlink_to(v / "pipe"),
    "link to itself": lambda at, v: at.symlink_to(at.name),
    "links in a circle": _circle,
    "links to a file": lambda at, v: _chain(at, v, "file"),
    "links to a directory": lambda at, v: _chain(at, v, "folder"),
    "links to nothing": lambda at, v: _chain(at, v, "missing"),
    "pipe": lambda at, v: os.mkfifo(at),
    "pipe for everybody": _open_pipe,
    "socket": lambda at, v: _socket(at),
    "empty directory": lambda at, v: at.mkdir(),
    "directory with files": _full_directory,
    "hard link": lambda at, v: os.link(v / "file", at),
    "hard link to a hard link": _hard_link_of_hard_link,
    "hard link to a link": _hard_link_of_link,
    "second name of our own file": _own_second_name,
}
PLANTED_BY_ROOT: dict[str, Callable[[Path, Path], object]] = {
    "character device": lambda at, v: os.mknod(at, stat.S_IFCHR | 0o666, os.makedev(1, 3)),
    "block device": lambda at, v: os.mknod(at, stat.S_IFBLK | 0o666, os.makedev(7, 200)),
    "link of another user": _owned_by_other,
    "file of another user in a place for all": _file_of_other,
}


def every_planted() -> list[Any]:
    return [
        *(pytest.param(plant, id=name) for name, plant in PLANTED.items()),
        *(pytest.param(plant, id=name, marks=needs_root) for name, plant in PLANTED_BY_ROOT.items()),
    ]


def test_planted_cases_are_at_least_thirty() -> None:
    """docs/reliability.md promises this number (F13)."""
    assert len(PLANTED) >= 30


@pytest.mark.parametrize("plant", every_planted())
def test_writing_refuses_planted_files(place: Path, victim: Path, plant: Callable[..., object]) -> None:
    """The error has path and hint, and neither the planted file nor its target is touched."""
    path = place / "state"
    plant(path, victim)
    before = snapshot(victim), snapshot(place)
    with pytest.raises(Refused) as caught:
        files.write_atomic(str(path), NEW)
    assert caught.value.file == str(path)
    assert caught.value.hint
    assert (snapshot(victim), snapshot(place)) == before


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC])
@pytest.mark.parametrize("plant", every_planted())
def test_opening_refuses_planted_files(place: Path, victim: Path, plant: Callable[..., object], flags: int) -> None:
    """Also with truncation."""
    path = place / "state"
    plant(path, victim)
    before = snapshot(victim), snapshot(place)
    with pytest.raises(Refused):
        files.open_private(str(path), flags)
    assert (snapshot(victim), snapshot(place)) == before


FOLLOWED = {
    "link to a file",
    "relative link to a file",
    "links to a file",
    "link to nothing",
    "link to nothing beside it",
    "links to nothing",
    "link to a read-only file",
    "link to a file nobody may read",
    "link to an executable",
    "hard link to a link",
}
# For root this is a link of its own, to the file that the output of the tests goes to.
UNCLEAR = {"link to standard output"}


@pytest.mark.parametrize(
    "plant",
    [
        *(pytest.param(plant, id=name) for name, plant in PLANTED.items() if name not in FOLLOWED | UNCLEAR),
        *(pytest.param(plant, id=name, marks=needs_root) for name, plant in PLANTED_BY_ROOT.items()),
    ],
)
def test_following_own_links_refuses_all_other_planted_files(
    place: Path, victim: Path, plant: Callable[..., object]
) -> None:
    """Only links of ours that end in a regular file are followed."""
    path = place / "state"
    plant(path, victim)
    before = snapshot(victim), snapshot(place)
    with pytest.raises(HoldfastError):
        files.write_atomic(str(path), NEW, follow_own_link=True)
    assert (snapshot(victim), snapshot(place)) == before


@pytest.mark.parametrize("name", sorted(FOLLOWED))
def test_own_links_are_followed_when_asked(place: Path, victim: Path, name: str) -> None:
    """As with dotfiles: the link stays, and the file at its end is replaced."""
    path = place / "state"
    PLANTED[name](path, victim)
    files.write_atomic(str(path), NEW, follow_own_link=True)
    assert path.is_symlink()
    end = path.resolve()
    if mode(end) & stat.S_IRUSR:
        assert path.read_bytes() == NEW
    assert not leftovers(place)
    assert not leftovers(victim)


def test_followed_file_keeps_its_mode(place: Path, victim: Path) -> None:
    """That of the file at the end of the link."""
    (place / "state").symlink_to(victim / "file")
    files.write_atomic(str(place / "state"), NEW, follow_own_link=True)
    assert mode(victim / "file") == 0o640


@needs_root
def test_link_chain_is_refused_when_another_user_owns_a_link(place: Path, victim: Path) -> None:
    """Although the first link is ours."""
    _owned_by_other(victim / "theirs", victim)
    (place / "state").symlink_to(victim / "theirs")
    with pytest.raises(Refused):
        files.write_atomic(str(place / "state"), NEW, follow_own_link=True)
    assert (victim / "file").read_bytes() == b"precious"


def test_parent_that_is_our_link_is_accepted(place: Path, tmp_path: Path) -> None:
    """A home may be on another disk; only the last component must not be a link."""
    (tmp_path / "link").symlink_to(place)
    files.write_atomic(str(tmp_path / "link" / "state"), NEW)
    os.close(files.open_private(str(tmp_path / "link" / "other"), os.O_RDWR | os.O_CREAT))
    assert (place / "state").read_bytes() == NEW


@needs_root
def test_parent_is_refused_when_it_is_another_users_link(place: Path, tmp_path: Path) -> None:
    """In a directory that everybody can write."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(place)
    os.lchown(shared / "link", OTHER, OTHER)
    for attempt in (
        lambda: files.write_atomic(str(shared / "link" / "state"), NEW),
        lambda: files.open_private(str(shared / "link" / "state"), os.O_RDWR | os.O_CREAT),
        lambda: files.make_private_dir(str(shared / "link" / "new")),
        lambda: files.make_private_dir(str(shared / "link")),
    ):
        with pytest.raises(Refused):
            attempt()
    assert os.listdir(place) == []


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_parent_swapped_for_a_link_meanwhile_redirects_nothing(
    place: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The directory is kept open."""
    away = place.with_name("away")
    real = getattr(os, call)
    before = snapshot(victim)

    def swap(*args: Any, **kwargs: Any) -> Any:
        if not away.exists() and (call != "open" or "dir_fd" in kwargs):
            os.replace(place, away)
            place.symlink_to(victim)
        return real(*args, **kwargs)

    monkeypatch.setattr(os, call, swap)
    files.write_atomic(str(place / "file"), NEW)
    assert snapshot(victim) == before
    assert (away / "file").read_bytes() == NEW
    assert not leftovers(away)


def test_link_planted_between_check_and_rename_is_replaced_and_not_followed(
    place: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def swap(*args: Any, **kwargs: Any) -> None:
        (place / "state").symlink_to(victim / "file")
        real(*args, **kwargs)

    monkeypatch.setattr(os, "rename", swap)
    files.write_atomic(str(place / "state"), NEW)
    assert (victim / "file").read_bytes() == b"precious"
    assert (place / "state").read_bytes() == NEW
    assert not (place / "state").is_symlink()


def test_directory_planted_between_check_and_rename_is_a_typed_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def swap(*args: Any, **kwargs: Any) -> None:
        (place / "state").mkdir()
        real(*args, **kwargs)

    monkeypatch.setattr(os, "rename", swap)
    with pytest.raises(HoldfastError):
        files.write_atomic(str(place / "state"), NEW)
    assert os.listdir(place) == ["state"]


def test_pipe_planted_between_check_and_open_does_not_hang(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    real = os.open

    def swap(name: str, flags: int, *args: Any, **kwargs: Any) -> int:
        if name == str(path):
            path.unlink()
            os.mkfifo(path)
        return real(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(HoldfastError):
        files.open_private(str(path), os.O_RDONLY)
    path.unlink()
    path.write_bytes(OLD)
    assert files.hash_file(str(path)) is None


def test_links_swapped_in_constantly_never_reach_their_target(place: Path, victim: Path) -> None:
    path = place / "state"
    stop = threading.Event()
    before = snapshot(victim)
    spare = place.with_name("spare")

    def plant() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            with contextlib.suppress(OSError):
                match turn % 3:
                    case 0:
                        spare.symlink_to(victim / "file")
                    case 1:
                        os.mkfifo(spare)
                    case _:
                        spare.symlink_to(victim / "missing")
                os.replace(spare, path)

    racer = threading.Thread(target=plant)
    racer.start()
    written = 0
    try:
        for _ in range(200):
            with contextlib.suppress(HoldfastError):
                files.write_atomic(str(path), NEW)
                written += 1
            with contextlib.suppress(HoldfastError):
                os.close(files.open_private(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    finally:
        stop.set()
        racer.join()
    assert snapshot(victim) == before
    assert not leftovers(place)


# --- failing calls -----------------------------------------------------------------------------------

ERRNOS = ["EIO", "ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EMFILE", "ENFILE", "EINTR", "EFBIG", "EBUSY"]


@pytest.mark.parametrize("existed", [True, False])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (call, name)
        for call in ("open", "write", "fsync", "rename", "close", "fchmod")
        for name in ERRNOS
        if (call, name) != ("fchmod", "EPERM")  # a file system without modes is tolerated, and has a test of its own
    ],
)
def test_failing_call_leaves_the_old_file(
    place: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str, existed: bool
) -> None:
    """A typed error, no temporary, and the next attempt works."""
    path = place / "state"
    if existed:
        path.write_bytes(OLD)
        path.chmod(0o640)
    number = getattr(errno, name)
    real = getattr(os, call)
    failed: list[int] = []

    def fail(*args: Any, **kwargs: Any) -> Any:
        # The first close is the file's, the second the directory's.
        if call == "close":
            real(*args, **kwargs)
            if failed:
                return None
        failed.append(number)
        raise OSError(number, os.strerror(number))

    before = os.umask(0o277)  # so that the mode has to be set
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(HoldfastError) as caught:
                files.write_atomic(str(path), NEW)
    finally:
        os.umask(before)
    assert failed
    assert caught.value.file == str(path)
    assert caught.value.operation == "write"
    assert caught.value.hint
    assert os.listdir(place) == (["state"] if existed else [])
    if existed:
        assert path.read_bytes() == OLD
        assert mode(path) == 0o640
    files.write_atomic(str(path), NEW)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_interrupted_call_is_repeated(place: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """One EINTR is no failure."""
    real = getattr(os, call)
    times: list[int] = []

    def interrupt(*args: Any, **kwargs: Any) -> Any:
        times.append(1)
        if len(times) == 1:
            raise InterruptedError(errno.EINTR, "interrupted")
        return real(*args, **kwargs)

    monkeypatch.setattr(os, call, interrupt)
    files.write_atomic(str(place / "state"), NEW)
    assert (place / "state").read_bytes() == NEW
    assert len(times) > 1


@pytest.mark.parametrize("most", [1, 7])
def test_short_writes_are_continued(place: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The system may take fewer bytes than it was given."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:most]))
    files.write_atomic(str(place / "state"), NEW)
    assert (place / "state").read_bytes() == NEW


def test_short_write_before_a_full_disk_leaves_the_old_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual way for a disk to get full."""
    path = place / "state"
    path.write_bytes(OLD)
    real = os.write
    times: list[int] = []

    def half(fd: int, data: bytes) -> int:
        times.append(1)
        if len(times) > 1:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data[:5])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(Failed, match="the disk is full"):
        files.write_atomic(str(path), NEW)
    assert path.read_bytes() == OLD
    assert not leftovers(place)


def test_write_of_zero_bytes_is_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not become an endless loop."""
    monkeypatch.setattr(os, "write", lambda fd, data: 0)
    with pytest.raises(Failed):
        files.write_atomic(str(place / "state"), NEW)
    assert os.listdir(place) == []


def test_keyboard_interrupt_leaves_no_temporary(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised again."""

    def stop(fd: int) -> None:
        raise KeyboardInterrupt

    (place / "state").write_bytes(OLD)
    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        files.write_atomic(str(place / "state"), NEW)
    assert os.listdir(place) == ["state"]
    assert (place / "state").read_bytes() == OLD


def test_failed_sync_of_the_directory_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file is in place; the error says so, and that a power cut may undo it."""
    real = os.fsync

    def fail(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, "disk")
        real(fd)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Failed, match="was written, but"):
        files.write_atomic(str(place / "state"), NEW)
    assert (place / "state").read_bytes() == NEW
    assert not leftovers(place)


def test_directory_that_cannot_be_synced_is_accepted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no fsync of a directory."""
    real = os.fsync

    def fail(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not here")
        real(fd)

    monkeypatch.setattr(os, "fsync", fail)
    files.write_atomic(str(place / "state"), NEW)
    assert (place / "state").read_bytes() == NEW


def test_file_and_directory_are_synced_in_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content, then the rename, then the directory."""
    done: list[str] = []
    real_sync, real_rename = os.fsync, os.rename

    def sync(fd: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_sync(fd)

    def rename(*args: Any, **kwargs: Any) -> None:
        done.append("rename")
        real_rename(*args, **kwargs)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    files.write_atomic(str(place / "state"), NEW)
    assert done == ["file", "rename", "directory"]


def test_taken_temporary_name_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or link planted there is left alone."""
    guess = bytes(8)
    names = [guess, guess, guess, b"unguess!"]
    monkeypatch.setattr(os, "urandom", lambda size: names.pop(0))
    planted = place / files.temporary_name()
    planted.symlink_to(place / "elsewhere")
    files.write_atomic(str(place / "state"), NEW)
    assert (place / "state").read_bytes() == NEW
    assert planted.is_symlink()
    assert not (place / "elsewhere").exists()


def test_temporary_names_are_tried_only_so_often(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    planted = place / files.temporary_name()
    planted.write_bytes(OLD)
    with pytest.raises(Conflict):
        files.write_atomic(str(place / "state"), NEW)
    assert planted.read_bytes() == OLD


def test_file_size_limit_leaves_the_old_file(place: Path) -> None:
    """A real RLIMIT_FSIZE, in a process of its own."""
    (place / "state").write_bytes(OLD)
    script = (
        "import resource, sys\n"
        "from holdfast.machine import files\n"
        "from holdfast.core.errors import Failed\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "try:\n    files.write_atomic(sys.argv[1], b'x' * 5000)\n"
        "except Failed as error:\n    print(error.message)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(place / "state")], capture_output=True, text=True, check=True
    )
    assert "larger than this system allows" in ran.stdout
    assert os.listdir(place) == ["state"]
    assert (place / "state").read_bytes() == OLD


@needs_root
def test_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A filled tmpfs of 64 KiB; reading works, and writing again once there is space."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    script = (
        "import os, sys\n"
        "from holdfast.machine import files\n"
        "from holdfast.core.errors import Failed\n"
        "folder = sys.argv[1]; path = folder + '/state'\n"
        "files.write_atomic(path, b'old')\n"
        "files.write_atomic(folder + '/ballast', b'x' * 40_000)\n"
        "try:\n    files.write_atomic(path, b'y' * 60_000)\n"
        "except Failed as error:\n    print(error.message)\n"
        "assert files.read_limited(path, 10, subject='it') == b'old'\n"
        "assert sorted(os.listdir(folder)) == ['ballast', 'state']\n"
        "os.unlink(folder + '/ballast')\n"
        "files.write_atomic(path, b'y' * 40_000)\n"
        "print('recovered')\n"
    )
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs "$1" && exec "$2" -c "$3" "$1"',
         "sh", str(tmp_path), sys.executable, script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "unshare" in ran.stderr or "mount" in ran.stderr:
        pytest.skip(f"mounting is not possible here: {ran.stderr.strip()}")
    assert "the disk is full" in ran.stdout, ran.stderr
    assert "recovered" in ran.stdout, ran.stderr


@not_root
def test_read_only_directory_is_a_typed_error(place: Path) -> None:
    """For an ordinary user."""
    place.chmod(0o500)
    try:
        with pytest.raises(Failed, match="permission denied"):
            files.write_atomic(str(place / "state"), NEW)
        with pytest.raises(Failed):
            files.make_private_dir(str(place / "new"))
        with pytest.raises(Failed, match="not writable"):
            files.make_private_dir(str(place))
    finally:
        place.chmod(0o700)


# --- the displaced file ------------------------------------------------------------------------------


class Displaced:
    """Records the displaced file: its content and name; the new file must be in place by then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[bytes] = []
        self.names: list[str] = []

    def __call__(self, old: str) -> None:
        assert os.path.dirname(old) == str(self.path.parent)
        self.names.append(os.path.basename(old))
        with open(old, "rb") as file:
            self.seen.append(file.read())
        assert self.path.read_bytes() == NEW


def _no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "exchange", lambda *_: False)


@pytest.fixture(params=["exchanging", "by a second name"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without the system's exchange of two names."""
    if request.param != "exchanging":
        _no_exchange(monkeypatch)
    return str(request.param)


@pytest.mark.usefixtures("either_way")
def test_displaced_file_is_shown_before_it_is_removed(place: Path) -> None:
    """Under another name in the same directory, with the new file in place."""
    path = place / "state"
    path.write_bytes(OLD)
    displaced = Displaced(path)
    files.write_atomic(str(path), NEW, displaced=displaced)
    assert displaced.seen == [OLD]
    assert displaced.names != ["state"]
    assert os.listdir(place) == ["state"]


@pytest.mark.usefixtures("either_way")
def test_displaced_is_not_called_for_a_new_file(place: Path) -> None:
    displaced = Displaced(place / "state")
    files.write_atomic(str(place / "state"), NEW, displaced=displaced)
    assert displaced.seen == []
    assert os.listdir(place) == ["state"]


def _just_before_naming(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Runs `act` in the last moment before the rename."""
    put = files._Directory.put

    def late(self: files._Directory, temporary: str, name: str, *, keep: bool) -> str | None:
        act()
        return put(self, temporary, name, keep=keep)

    monkeypatch.setattr(files._Directory, "put", late)


@pytest.mark.usefixtures("either_way")
def test_displaced_file_has_content_written_just_before_the_rename(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    displaced = Displaced(path)
    _just_before_naming(monkeypatch, lambda: path.write_bytes(b"theirs, just now"))
    files.write_atomic(str(path), NEW, displaced=displaced)
    assert displaced.seen == [b"theirs, just now"]
    assert os.listdir(place) == ["state"]


@pytest.mark.usefixtures("either_way")
def test_displaced_file_is_one_renamed_into_place_just_before(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    displaced = Displaced(path)

    def rename() -> None:
        (place / "theirs").write_bytes(b"theirs, in one step")
        (place / "theirs").rename(path)

    _just_before_naming(monkeypatch, rename)
    files.write_atomic(str(path), NEW, displaced=displaced)
    assert displaced.seen == [b"theirs, in one step"]
    assert os.listdir(place) == ["state"]


@pytest.mark.usefixtures("either_way")
def test_displaced_file_contains_writes_until_the_last_moment(place: Path) -> None:
    """Of a program that opened the old file before."""
    path = place / "state"
    path.write_bytes(OLD)
    seen: list[bytes] = []
    with path.open("ab", buffering=0) as theirs:

        def displaced(old: str) -> None:
            theirs.write(b" and more")
            seen.append(files.read_limited(old, 100, subject="it"))

        files.write_atomic(str(path), NEW, displaced=displaced)
    assert seen == [OLD + b" and more"]
    assert path.read_bytes() == NEW


@pytest.mark.usefixtures("either_way")
def test_file_removed_just_before_the_rename_is_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    displaced = Displaced(path)
    _just_before_naming(monkeypatch, path.unlink)
    files.write_atomic(str(path), NEW, displaced=displaced)
    assert displaced.seen == []
    assert path.read_bytes() == NEW
    assert os.listdir(place) == ["state"]


@pytest.mark.usefixtures("either_way")
def test_displaced_callback_that_fails_leaves_the_new_file_and_no_temporary(place: Path) -> None:
    """Its error reaches the caller."""
    path = place / "state"
    path.write_bytes(OLD)

    def displaced(old: str) -> None:
        raise Conflict(f"not this one: {os.path.basename(old)}")

    with pytest.raises(Conflict, match="not this one"):
        files.write_atomic(str(path), NEW, displaced=displaced)
    assert path.read_bytes() == NEW
    assert os.listdir(place) == ["state"]


@pytest.mark.usefixtures("either_way")
def test_new_file_takes_the_mode_of_the_displaced_one(place: Path) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    path.chmod(0o640)
    files.write_atomic(str(path), NEW, displaced=lambda _: None)
    assert mode(path) == 0o640


def test_file_is_replaced_without_exchange_or_hard_links(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On FAT nothing can be shown."""
    path = place / "state"
    path.write_bytes(OLD)
    _no_exchange(monkeypatch)

    def forbid(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", forbid)
    displaced = Displaced(path)
    files.write_atomic(str(path), NEW, displaced=displaced)
    assert displaced.seen == []
    assert path.read_bytes() == NEW
    assert os.listdir(place) == ["state"]


def test_every_version_written_by_others_is_read_or_shown(place: Path) -> None:
    """Another program keeps renaming versions into place while we replace the file."""
    path = place / "state"
    path.write_bytes(b"theirs 0")
    shown: list[bytes] = []
    done = threading.Event()

    def others() -> None:
        for number in range(1, 200):
            (place / "theirs").write_bytes(b"theirs %d" % number)
            os.rename(place / "theirs", path)
            # The next version would replace this one unseen: wait until we have replaced it.
            while path.read_bytes() == b"theirs %d" % number:
                pass
        done.set()

    writer = threading.Thread(target=others)
    writer.start()
    while not done.is_set():
        files.write_atomic(
            str(path),
            b"ours",
            durable=False,
            displaced=lambda old: shown.append(files.read_limited(old, 99, subject="it")),
        )
    writer.join()
    # The first version may have been replaced by the second.
    assert {b"theirs %d" % number for number in range(1, 200)} <= set(shown)
    assert not leftovers(place)


@pytest.mark.usefixtures("either_way")
def test_directory_planted_just_before_the_rename_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    displaced = Displaced(path)

    def plant() -> None:
        path.unlink()
        path.mkdir()
        (path / "inside").write_bytes(b"precious")

    _just_before_naming(monkeypatch, plant)
    with pytest.raises(HoldfastError):
        files.write_atomic(str(path), NEW, displaced=displaced)
    assert displaced.seen == []
    assert (path / "inside").read_bytes() == b"precious"
    assert os.listdir(place) == ["state"]


def test_link_planted_just_before_the_rename_is_neither_followed_nor_shown(
    place: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "state"
    path.write_bytes(OLD)
    before = snapshot(victim)
    displaced = Displaced(path)

    def plant() -> None:
        path.unlink()
        path.symlink_to(victim / "file")

    _just_before_naming(monkeypatch, plant)
    files.write_atomic(str(path), NEW, displaced=displaced)
    assert displaced.seen == []
    assert not path.is_symlink()
    assert path.read_bytes() == NEW
    assert snapshot(victim) == before
    assert os.listdir(place) == ["state"]


def test_reproducible_file_is_written_without_syncing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is still replaced atomically."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    path = place / "state"
    files.write_atomic(str(path), OLD, durable=False)
    files.write_atomic(str(path), NEW, durable=False, displaced=lambda _: None)
    assert synced == []
    assert path.read_bytes() == NEW
    files.write_atomic(str(path), OLD)
    assert len(synced) == 2


def test_exchange_swaps_two_names(place: Path) -> None:
    (place / "one").write_bytes(b"1")
    (place / "other").write_bytes(b"2")
    folder = os.open(place, os.O_RDONLY)
    try:
        if not exchange(folder, "one", "other"):
            pytest.skip("this file system cannot exchange names")
        assert ((place / "one").read_bytes(), (place / "other").read_bytes()) == (b"2", b"1")
        assert exchange(folder, "one", "missing") is False
        assert sorted(os.listdir(place)) == ["one", "other"]
    finally:
        os.close(folder)


@pytest.mark.parametrize("missing", ["the platform", "the call"])
def test_exchange_reports_a_system_without_it(place: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    (place / "one").write_bytes(b"1")
    (place / "other").write_bytes(b"2")
    if missing == "the platform":
        monkeypatch.setattr(sys, "platform", "win32")
    else:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    folder = os.open(place, os.O_RDONLY)
    try:
        assert exchange(folder, "one", "other") is False
    finally:
        os.close(folder)
    assert (place / "one").read_bytes() == b"1"


# --- Windows, as far as it can be tested elsewhere ---------------------------------------------------


def test_writing_works_without_directory_descriptors(
    place: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It replaces, refuses links and leaves nothing behind."""
    monkeypatch.setattr(files, "HAS_DIR_FD", False)
    path = place / "state"
    files.write_atomic(str(path), OLD)
    files.write_atomic(str(path), NEW)
    assert path.read_bytes() == NEW
    (place / "link").symlink_to(victim / "file")
    with pytest.raises(Refused):
        files.write_atomic(str(place / "link"), NEW)
    with pytest.raises(NotFound):
        files.write_atomic(str(place / "missing" / "state"), NEW)
    assert sorted(os.listdir(place)) == ["link", "state"]


@pytest.mark.parametrize("failures", [3, 1000])
def test_file_locked_by_another_program_is_retried(
    place: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """For a moment; if it stays locked, that is an error and all is unchanged."""
    monkeypatch.setattr(files, "HAS_DIR_FD", False)
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    path = place / "state"
    path.write_bytes(OLD)
    real = os.replace

    def locked(source: str, target: str) -> None:
        if len(waits) < failures:
            raise PermissionError(errno.EACCES, "held")
        real(source, target)

    monkeypatch.setattr(os, "replace", locked)
    if failures == 3:
        files.write_atomic(str(path), NEW)
        assert path.read_bytes() == NEW
    else:
        with pytest.raises(Failed):
            files.write_atomic(str(path), NEW)
        assert path.read_bytes() == OLD
        assert 1 < sum(waits) < 2
    assert waits == sorted(waits)
    assert not leftovers(place)


def test_permission_error_on_windows_hints_at_a_program_with_the_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_errors, "WINDOWS", True)
    error = files.explain(PermissionError(errno.EACCES, "denied"), "write", "C:\\x")
    assert error.hint is not None
    assert "have it open" in error.hint


# --- error messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("ENOSPC", Failed, "the disk is full"),
        ("EDQUOT", Failed, "quota"),
        ("EACCES", Failed, "permission denied"),
        ("EPERM", Failed, "not permit"),
        ("EROFS", Failed, "read-only"),
        ("EMFILE", Failed, "too many files"),
        ("ENFILE", Failed, "too many files"),
        ("EIO", Failed, "the disk reported an error"),
        ("ENAMETOOLONG", Invalid, "too long"),
        ("ELOOP", Refused, "link"),
        ("ENOTDIR", Invalid, "not a directory"),
        ("EISDIR", Invalid, "a directory"),
        ("ENOENT", NotFound, "does not exist"),
        ("EEXIST", Conflict, "already exists"),
    ],
)
def test_common_errno_has_its_own_error_and_hint(name: str, kind: type[HoldfastError], words: str) -> None:
    number = getattr(errno, name)
    error = files.explain(OSError(number, os.strerror(number)), "write", "/x/y")
    assert type(error) is kind
    assert error.message.startswith("cannot write /x/y: ")
    assert words in error.message
    assert error.hint
    assert (error.operation, error.file) == ("write", "/x/y")


def test_other_errno_keeps_the_systems_message() -> None:
    """Or says that there was none."""
    assert files.explain(OSError(errno.EXDEV, "Odd"), "write", "/x").message == "cannot write /x: odd"
    assert files.explain(OSError(), "write", "/x").message == "cannot write /x: the system gave no reason"


def test_paths_in_messages_are_escaped() -> None:
    """Control characters, newlines and stray bytes."""
    for path in ("a\x1b[31mb", "a\nb", "a\udcffb", "a\u202eb"):
        message = files.explain(OSError(errno.EIO, ""), "read", path).message
        assert message.isprintable()
        message.encode("utf-8")


# --- directories -------------------------------------------------------------------------------------


def test_existing_directory_keeps_its_mode(place: Path) -> None:
    place.chmod(0o755)
    files.make_private_dir(str(place))
    files.make_private_dir(str(place) + "/")
    assert mode(place) == 0o755


def test_home_can_be_a_link_to_our_directory(place: Path, tmp_path: Path) -> None:
    """With and without a trailing slash, and for directories below it."""
    (tmp_path / "link").symlink_to(place)
    files.make_private_dir(str(tmp_path / "link"))
    files.make_private_dir(str(tmp_path / "link") + "/")
    files.make_private_dir(str(tmp_path / "link" / "new"))
    assert mode(place / "new") == 0o700


@needs_root
def test_home_is_refused_when_it_links_to_another_users_directory(place: Path, tmp_path: Path) -> None:
    os.chown(place, OTHER, OTHER)
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(Refused):
        files.make_private_dir(str(tmp_path / "link"))


@needs_root
def test_directory_of_another_user_in_tmp_is_refused(tmp_path: Path) -> None:
    """It has the name we wanted."""
    tmp_path.chmod(0o1777)
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", OTHER, OTHER)
    with pytest.raises(Refused):
        files.make_private_dir(str(tmp_path / "home"))


@pytest.mark.parametrize("below", ["", "a", "a/b"])
def test_file_in_place_of_a_directory_is_invalid(place: Path, below: str) -> None:
    """The error names it and says what to do."""
    (place / "file").write_bytes(OLD)
    with pytest.raises(Invalid, match="in the way") as caught:
        files.make_private_dir(os.path.join(str(place / "file"), below))
    assert caught.value.hint
    assert (place / "file").read_bytes() == OLD


@pytest.mark.parametrize("kind", ["dangling", "loop", "file", "pipe"])
def test_directory_is_not_created_through_a_broken_link(place: Path, victim: Path, kind: str) -> None:
    ends = {"dangling": victim / "missing", "loop": place / "link", "file": victim / "file"}
    (place / "link").symlink_to(ends.get(kind, victim / "pipe"))
    before = snapshot(victim)
    for path in (place / "link", place / "link" / "below"):
        with pytest.raises((Refused, Invalid)):
            files.make_private_dir(str(path))
    assert snapshot(victim) == before


def test_directory_created_by_another_process_meanwhile_is_accepted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when two commands start at once."""
    real = os.mkdir

    def create_first(path: str, mode: int) -> None:
        real(path, mode)
        raise FileExistsError(errno.EEXIST, "exists")

    monkeypatch.setattr(os, "mkdir", create_first)
    files.make_private_dir(str(place / "a" / "b"))
    assert (place / "a" / "b").is_dir()


def test_directory_on_a_read_only_file_system_is_a_typed_error() -> None:
    """Also for root."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no /proc here")
    with pytest.raises(HoldfastError) as caught:
        files.make_private_dir("/proc/self/holdfast")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS"])
def test_failing_mkdir_is_a_typed_error(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """And nothing is left behind."""
    number = getattr(errno, name)

    def fail(path: str, mode: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mkdir", fail)
    with pytest.raises(Failed):
        files.make_private_dir(str(place / "a"))
    assert os.listdir(place) == []


# --- descriptors -------------------------------------------------------------------------------------


def test_opened_file_is_usable_and_not_inherited(place: Path) -> None:
    """By child programs."""
    fd = files.open_private(str(place / "state"), os.O_RDWR | os.O_CREAT)
    try:
        os.write(fd, NEW)
        assert os.pread(fd, 100, 0) == NEW
        assert not os.get_inheritable(fd)
        assert os.get_blocking(fd)
    finally:
        os.close(fd)


def test_opening_truncates_our_own_file(place: Path) -> None:
    """As O_TRUNC asks."""
    (place / "state").write_bytes(OLD)
    os.close(files.open_private(str(place / "state"), os.O_WRONLY | os.O_TRUNC))
    assert (place / "state").read_bytes() == b""


def test_exclusive_opening_of_an_existing_file_is_a_conflict(place: Path) -> None:
    """As O_EXCL asks."""
    (place / "state").write_bytes(OLD)
    with pytest.raises(Conflict):
        files.open_private(str(place / "state"), os.O_RDWR | os.O_CREAT | os.O_EXCL)
    assert (place / "state").read_bytes() == OLD


def test_opening_a_missing_file_raises_not_found(place: Path) -> None:
    """Without O_CREAT."""
    with pytest.raises(NotFound):
        files.open_private(str(place / "state"), os.O_RDONLY)
    assert os.listdir(place) == []


def test_file_that_appears_and_disappears_is_an_error_after_some_tries(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: str, flags: int, *args: Any) -> int:
        number = errno.EEXIST if flags & os.O_CREAT else errno.ENOENT
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(Failed):
        files.open_private(str(place / "state"), os.O_RDWR | os.O_CREAT)


@pytest.mark.parametrize("name", ["EIO", "ENOSPC", "EMFILE", "EACCES"])
def test_failed_opening_leaks_no_descriptor(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """When a step after opening fails."""
    number = getattr(errno, name)

    def fail(fd: int, mode: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(private_paths, "set_mode", fail)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(Failed):
        files.open_private(str(place / "state"), os.O_RDWR | os.O_CREAT)
    assert len(os.listdir("/dev/fd")) == before


# --- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_reading_accepts_content_up_to_the_limit(place: Path, size: int) -> None:
    (place / "input").write_bytes(b"x" * size)
    assert files.read_limited(str(place / "input"), 100, subject="the plan") == b"x" * size


def test_reading_more_than_the_limit_is_invalid(place: Path) -> None:
    """The message has the limit in the user's unit."""
    (place / "input").write_bytes(b"x" * 101)
    with pytest.raises(Invalid, match=r"the plan: .*input is larger than 100 bytes"):
        files.read_limited(str(place / "input"), 100, subject="the plan")
    (place / "input").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(Invalid, match="1 MiB"):
        files.read_limited(str(place / "input"), 1 << 20, subject="the plan")


def test_file_that_grows_while_it_is_read_is_limited(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "input").write_bytes(b"x" * 10)
    monkeypatch.setattr(os, "read", lambda fd, size: b"y" * size)
    with pytest.raises(Invalid):
        files.read_limited(str(place / "input"), 100, subject="the plan")


def test_input_can_be_a_link(place: Path, victim: Path) -> None:
    """The user named it."""
    (place / "input").symlink_to(victim / "file")
    assert files.read_limited(str(place / "input"), 100, subject="the plan") == b"precious"


def test_missing_input_raises_not_found(place: Path) -> None:
    """Exit code 3."""
    with pytest.raises(NotFound):
        files.read_limited(str(place / "input"), 100, subject="the plan")


@pytest.mark.parametrize("path", ["folder", "pipe", "/dev/zero", "/dev/null"])
def test_input_must_be_a_regular_file(victim: Path, path: str) -> None:
    """Directories, pipes and endless devices are refused before they are opened."""
    with pytest.raises(Invalid) as caught:
        files.read_limited(os.path.join(victim, path), 100, subject="the plan")
    assert caught.value.hint


@not_root
def test_unreadable_input_is_a_typed_error(place: Path) -> None:
    """It is not taken for a missing file."""
    (place / "input").write_bytes(OLD)
    (place / "input").chmod(0o000)
    with pytest.raises(Failed, match="permission denied"):
        files.read_limited(str(place / "input"), 100, subject="the plan")
    with pytest.raises(Failed):
        files.hash_file(str(place / "input"))


@pytest.mark.parametrize("name", ["EIO", "EACCES", "EMFILE"])
def test_failing_read_is_a_typed_error(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Neither reading nor hashing takes it for a missing file."""
    number = getattr(errno, name)
    (place / "input").write_bytes(OLD)

    def fail(fd: int, size: int) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "read", fail)
    with pytest.raises(Failed):
        files.read_limited(str(place / "input"), 100, subject="the plan")
    with pytest.raises(Failed):
        files.hash_file(str(place / "input"))


class Stdin:
    def __init__(self, buffer: object) -> None:
        self.buffer = buffer


def test_dash_reads_standard_input_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(io.BytesIO(b"x" * 100)))
    assert files.read_limited("-", 100, subject="the plan") == b"x" * 100
    monkeypatch.setattr(sys, "stdin", Stdin(io.BytesIO(b"x" * 101)))
    with pytest.raises(Invalid, match="standard input is larger than 100 bytes"):
        files.read_limited("-", 100, subject="the plan")


def test_endless_standard_input_is_refused_past_the_limit() -> None:
    """A real pipe."""
    script = (
        "from holdfast.machine import files\n"
        "from holdfast.core.errors import Invalid\n"
        "try:\n    files.read_limited('-', 1 << 20, subject='it')\n"
        "except Invalid as error:\n    print(error.message)\n"
    )
    with open("/dev/zero", "rb") as endless:
        ran = subprocess.run(
            [sys.executable, "-c", script], stdin=endless, capture_output=True, text=True, check=True
        )
    assert "larger than 1 MiB" in ran.stdout


def test_missing_standard_input_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(Invalid, match="no standard input"):
        files.read_limited("-", 100, subject="the plan")


def test_failing_standard_input_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken or closed."""
    closed = io.BytesIO(b"x")
    closed.close()
    monkeypatch.setattr(sys, "stdin", Stdin(closed))
    with pytest.raises(Failed):
        files.read_limited("-", 100, subject="the plan")


# --- hashing and listing -----------------------------------------------------------------------------


def test_file_hash_is_sha256(place: Path) -> None:
    """A literal example, since recorded hashes have to stay comparable."""
    (place / "file").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.hash_file(str(place / "file")) == expected
    assert files.hash_file(str(place / "file"), 3) == expected
    assert files.hash_file(str(place / "file"), 2) is None


def test_large_file_is_hashed_in_chunks(place: Path) -> None:
    """With the same result."""
    import hashlib

    data = os.urandom(700_001)
    (place / "file").write_bytes(data)
    assert files.hash_file(str(place / "file")) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("path", ["missing", "file/below", "folder", "pipe", "/dev/zero"])
def test_file_hash_is_none_without_a_regular_file(victim: Path, path: str) -> None:
    """Absent, a directory, a pipe or a device; it never blocks."""
    assert files.hash_file(os.path.join(victim, path)) is None


def test_temporaries_lists_only_ours(place: Path) -> None:
    """Not other files, nor planted directories and links."""
    ours = place / ".holdfast-0011223344556677.tmp"
    ours.write_bytes(b"half")
    (place / ".holdfast-x").write_bytes(b"")
    (place / "a.tmp").write_bytes(b"")
    (place / ".holdfast-dir.tmp").mkdir()
    (place / ".holdfast-link.tmp").symlink_to(ours)
    assert files.temporaries(str(place)) == [str(ours)]
    assert files.temporaries(str(place / "missing")) == []
    with pytest.raises(HoldfastError):
        files.temporaries(str(ours))


def test_temporary_of_a_killed_writer_is_listed(place: Path) -> None:
    """A real SIGKILL between write and rename; the old file is complete."""
    (place / "state").write_bytes(OLD)
    script = (
        "import os, signal, sys\n"
        "from holdfast.machine import files\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_atomic(sys.argv[1], b'new')\n"
    )
    subprocess.run([sys.executable, "-c", script, str(place / "state")], check=False)
    assert (place / "state").read_bytes() == OLD
    assert len(files.temporaries(str(place))) == 1


def test_files_open_to_others_are_reported(place: Path) -> None:
    """Files wider than 0600 and directories wider than 0700, each with the right mode."""
    for name, how in (("a", 0o600), ("b", 0o644), ("c", 0o400), ("d", 0o610)):
        (place / name).write_bytes(b"")
        (place / name).chmod(how)
    paths = [str(place / name) for name in "abcdx"] + [str(place)]
    assert files.find_loose_modes(paths) == [(str(place / "b"), 0o644, 0o600), (str(place / "d"), 0o610, 0o600)]
    place.chmod(0o755)
    assert files.find_loose_modes([str(place)]) == [(str(place), 0o755, 0o700)]
    with pytest.raises(Invalid):
        files.find_loose_modes(["a\0b"])
