"""A folder remote passes the suite of all remotes, and is as private as it was created."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.core.errors import Failed, HoldfastError, Refused, Unreachable
from holdfast.sync.remotes import folder_directory
from holdfast.sync.remotes.base import Missing, RemoteStore
from holdfast.sync.remotes.conformance import RemoteConformance
from holdfast.sync.remotes.folder import FolderRemote, data_directory, open_claude_desktop

DAY = 86_400
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes, links and pipes")


class TestFolder(RemoteConformance):
    def open_remote(self, where: str = "one") -> RemoteStore:
        return FolderRemote(str(self.place / where), create=True)

    def plant(self, name: str, data: bytes, where: str = "one") -> bool:
        path = self.place / where / name
        if self.place / where not in Path(os.path.normpath(path)).parents:
            return False
        try:
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(data)
        except OSError:
            return False  # not a valid file name
        return True


class TestFolderWithoutHardLinks(TestFolder):
    """As on FAT, exFAT and some network shares."""

    many = 300

    @pytest.fixture(autouse=True)
    def _no_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "link", _fails(errno.EPERM))


class TestFolderWithoutDescriptors(TestFolder):
    """As on Windows, where directories are addressed by path instead of descriptor."""

    many = 300

    @pytest.fixture(autouse=True)
    def _by_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(folder_directory, "_BY_DESCRIPTOR", False)


class TestClaudeDesktop(TestFolder):
    """The folder in Claude Desktop's data directory behaves like any folder."""

    many = 50
    rounds = 3

    def open_remote(self, where: str = "one") -> RemoteStore:
        (self.place / where / "Claude").mkdir(exist_ok=True, parents=True)
        return open_claude_desktop({"XDG_CONFIG_HOME": str(self.place / where)}, system="linux", create=True)

    def plant(self, name: str, data: bytes, where: str = "one") -> bool:
        return super().plant(name, data, f"{where}/Claude/holdfast")


def _fails(number: int) -> Callable[..., NoReturn]:
    def call(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "remote"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    old = os.umask(0o022)
    yield os.umask
    os.umask(old)


# ── missing folders ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "call",
    [
        lambda remote: remote.list(""),
        lambda remote: remote.get("vault", 1),
        lambda remote: remote.put([("vault", b"")]),
        lambda remote: remote.put([], remove=["vault"]),
    ],
)
def test_folder_is_not_created_when_its_disk_is_not_mounted(
    tmp_path: Path, call: Callable[[RemoteStore], object]
) -> None:
    """Every call on a missing folder fails with a hint and creates nothing."""
    remote = FolderRemote(str(tmp_path / "stick" / "holdfast"))
    with pytest.raises(Unreachable) as raised:
        call(remote)
    assert "not there" in raised.value.message
    assert raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_handle_works_again_when_its_folder_returns(folder: Path) -> None:
    """A disk that is unplugged and plugged in again needs no new handle."""
    remote = FolderRemote(str(folder))
    remote.put([("a", b"a")])
    folder.rename(folder.parent / "away")
    with pytest.raises(Unreachable):
        remote.get("a", 1)
    (folder.parent / "away").rename(folder)
    assert remote.get("a", 1) == b"a"


def test_file_is_refused_as_folder(tmp_path: Path) -> None:
    """The file stays."""
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(Refused):
        FolderRemote(str(tmp_path / "file")).put([("a", b"a")])
    with pytest.raises(HoldfastError):
        FolderRemote(str(tmp_path / "file"), create=True)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_folder_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path or one with ~ is resolved once, when the remote is opened."""
    monkeypatch.chdir(tmp_path)
    assert FolderRemote("sub/../here").url == f"folder:{os.path.join(os.path.realpath(tmp_path), 'here')}"
    assert FolderRemote("~/here").path == os.path.join(os.path.expanduser("~"), "here")


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────


@posix
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.parametrize(
    ("root", "file", "sub"),
    [(0o700, 0o600, 0o700), (0o770, 0o660, 0o770), (0o755, 0o644, 0o755), (0o2775, 0o664, 0o2775)],
)
def test_objects_are_as_private_as_the_folder(
    folder: Path, umask: Callable[[int], int], mask: int, root: int, file: int, sub: int
) -> None:
    """Files and directories take their mode from the folder, whatever the umask."""
    folder.chmod(root)
    umask(mask)
    FolderRemote(str(folder)).put([("vault", b"x"), ("p/a/b", b"x")])
    assert stat.S_IMODE((folder / "vault").stat().st_mode) == file
    assert stat.S_IMODE((folder / "p" / "a" / "b").stat().st_mode) == file
    assert stat.S_IMODE((folder / "p").stat().st_mode) == sub
    assert stat.S_IMODE((folder / "p" / "a").stat().st_mode) == sub


@posix
def test_created_folder_is_private(tmp_path: Path, umask: Callable[[int], int]) -> None:
    umask(0)
    FolderRemote(str(tmp_path / "new"), create=True).put([("a", b"a")])
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new" / "a").stat().st_mode) == 0o600


def test_parent_folder_is_not_created(tmp_path: Path) -> None:
    """If it is missing, its disk is probably not mounted: nothing is created on another disk."""
    with pytest.raises(Unreachable) as raised:
        FolderRemote(str(tmp_path / "stick" / "holdfast"), create=True)
    assert raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    """A subfolder is suggested instead; a Holdfast folder or an almost empty one is accepted."""
    (tmp_path / "notes").write_bytes(b"mine")
    with pytest.raises(Refused) as raised:
        FolderRemote(str(tmp_path), create=True)
    assert f"folder:{tmp_path}/holdfast" in (raised.value.hint or "").replace(os.sep, "/")
    FolderRemote(str(tmp_path / "holdfast"), create=True).put([("h/a", b"a")])
    (tmp_path / "holdfast" / "README").write_bytes(b"")
    FolderRemote(str(tmp_path / "holdfast"), create=True)
    (tmp_path / "stick" / "lost+found").mkdir(parents=True)
    (tmp_path / "stick" / ".Trash").mkdir()
    FolderRemote(str(tmp_path / "stick"), create=True)


@posix
def test_objects_get_the_group_of_a_shared_folder(folder: Path) -> None:
    """Without the right to set the group, only the owner has access."""
    if os.geteuid() != 0:
        pytest.skip("needs a group one is not in by default")
    os.chown(folder, -1, 12345)
    folder.chmod(0o770)
    FolderRemote(str(folder)).put([("p/a", b"a")])
    assert (folder / "p" / "a").stat().st_gid == 12345
    assert (folder / "p").stat().st_gid == 12345


@posix
def test_file_gives_its_group_no_access_when_the_folders_group_cannot_be_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a group one is not in by default")
    os.chown(folder, -1, 12345)
    folder.chmod(0o770)
    monkeypatch.setattr(os, "fchown", _fails(errno.EPERM))
    FolderRemote(str(folder)).put([("a", b"a")])
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o600


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("call", ["write", "fsync", "link", "mkdir"])
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, Failed),
        (errno.EROFS, Failed),
        (errno.EACCES, Failed),
        (errno.EIO, Unreachable),
        (errno.ENODEV, Unreachable),
        (errno.ESTALE, Unreachable),
    ],
)
def test_failed_write_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[HoldfastError]
) -> None:
    """A full disk, a missing right or a removed disk gives an error message; a retry works."""
    remote = FolderRemote(str(folder))
    remote.put([("old", b"old")])
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _fails(number))
        with pytest.raises(kind) as raised:
            remote.put([("p/a", b"a")], remove=["old"])
    assert raised.value.hint
    assert remote.get("old", 3) == b"old"
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
    assert remote.put([("p/b", b"b")]) == frozenset()


def test_failed_put_keeps_the_objects_before_the_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failing at the third of four leaves two, and removes nothing."""
    remote = FolderRemote(str(folder))
    remote.put([("old", b"old")])
    real, made = os.link, 0

    def link(*args: str, **more: int) -> None:
        nonlocal made
        made += 1
        if made == 3:
            raise OSError(errno.EIO, "pulled out")
        real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(Unreachable):
        remote.put([(f"a/{number}", b"x") for number in range(4)], remove=["old"])
    assert [entry.name for entry in remote.list("")] == ["a/0", "a/1", "old"]


def test_put_succeeds_when_its_own_link_is_reported_as_existing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system that lost its answer reports our own file as existing: it is still ours."""
    real = os.link

    def link(*args: str, **more: int) -> None:
        real(*args, **more)  # type: ignore[arg-type]
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", link)
    assert FolderRemote(str(folder)).put([("a", b"a")]) == frozenset()


# ── leftovers of killed writers ──────────────────────────────────────────────────────────────────────────


def test_stale_temporaries_are_removed(folder: Path) -> None:
    """A killed writer's file is not an object; the next put removes it after a day, and never earlier."""
    now = folder.stat().st_mtime
    for name, age in ((".holdfast-00.tmp", 2), (".holdfast-01.tmp", 0.5), (".holdfast-02.claim", 2), (".mine", 9)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (now - age * DAY,) * 2)
    remote = FolderRemote(str(folder))
    assert list(remote.list("")) == []
    remote.put([("a", b"a")])
    assert sorted(os.listdir(folder)) == [".holdfast-01.tmp", ".mine", "a"]


def test_stale_claim_does_not_block_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links: a killed writer's claim expires after ten minutes."""
    monkeypatch.setattr(os, "link", _fails(errno.ENOTSUP))
    monkeypatch.setattr(folder_directory, "_CLAIM_TRIES", 3)
    remote = FolderRemote(str(folder))
    seen: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_, **__: seen.extend(n for n in os.listdir(folder) if "claim" in n))
        remote.put([("a", b"a")])
    (claim,) = seen
    assert os.listdir(folder) == []
    (folder / claim).touch()
    with pytest.raises(Unreachable):
        remote.put([("a", b"a")])
    before = (folder / claim).stat().st_mtime - 700
    os.utime(folder / claim, (before, before))
    assert remote.put([("a", b"a")]) == frozenset()
    assert os.listdir(folder) == ["a"]


def test_claim_is_the_same_wherever_the_folder_is_mounted(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two machines that reach one folder by different paths claim the same name, so only one creates it."""
    monkeypatch.setattr(os, "link", _fails(errno.EPERM))
    (tmp_path / "elsewhere").symlink_to(folder)
    handles = [FolderRemote(str(folder)), FolderRemote(str(tmp_path / "elsewhere"))]
    for number in range(30):
        start = threading.Barrier(2)
        won: list[bool] = []

        def create(handle: FolderRemote, number: int = number, start: threading.Barrier = start) -> None:
            start.wait()
            won.append(not handle.put([(f"a/{number}", handle.url.encode())]))  # noqa: B023 (joined below)

        threads = [threading.Thread(target=create, args=(handle,)) for handle in handles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == [False, True]


# ── Claude Desktop ───────────────────────────────────────────────────────────────────────────────────────


@posix
@pytest.mark.parametrize(
    ("system", "environ", "wanted"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.config/Claude"),
        ("linux", {"HOME": "/home/me", "XDG_CONFIG_HOME": "/etc/me"}, "/etc/me/Claude"),
        ("linux", {"HOME": "/home/me", "XDG_CONFIG_HOME": "not/whole"}, "/home/me/.config/Claude"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Application Support/Claude"),
        ("win32", {"APPDATA": "/c/me/roaming"}, "/c/me/roaming/Claude"),
        ("win32", {"USERPROFILE": "/c/me"}, "/c/me/AppData/Roaming/Claude"),
    ],
)
def test_data_directory_of_claude_desktop_depends_on_the_system(
    system: str, environ: dict[str, str], wanted: str
) -> None:
    """The environment can name another one."""
    assert data_directory(environ, system) == wanted


def test_claude_desktop_remote_is_refused_without_claude_desktop(tmp_path: Path) -> None:
    """Nothing is created, and the error says what to do."""
    with pytest.raises(Refused) as raised:
        open_claude_desktop({"HOME": str(tmp_path)}, system="linux", create=True)
    assert raised.value.hint
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Refused, match="no home"):
        open_claude_desktop({}, system="darwin")


def test_claude_desktop_folder_is_created_when_the_remote_is_added(tmp_path: Path) -> None:
    """Opening the remote later does not create it again."""
    (tmp_path / ".config" / "Claude").mkdir(parents=True)
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(Unreachable):
        open_claude_desktop(environ, system="linux").list("")
    assert open_claude_desktop(environ, system="linux", create=True).url == "claude-desktop:"
    remote = open_claude_desktop(environ, system="linux")
    remote.put([("a", b"a")])
    assert os.listdir(tmp_path / ".config" / "Claude" / "holdfast") == ["a"]
    with pytest.raises(Missing):
        remote.get("b", 1)
