"""Nothing that others plant in a folder remote is followed, opened, or read without a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError, Refused
from holdfast.sync.remotes import folder_directory
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge
from holdfast.sync.remotes.folder import FolderRemote

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such links and pipes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "remote"
    made.mkdir(mode=0o700)
    return made


@posix
def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    """A link to a file or a directory is neither read, listed nor written through."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (folder / "vault").symlink_to(outside / "secret")
    (folder / "dangling").symlink_to(outside / "new")
    (folder / "p").symlink_to(outside)
    remote = FolderRemote(str(folder))
    assert list(remote.list("")) == []
    for name in ("vault", "p/secret", "dangling"):
        with pytest.raises(Refused):
            remote.get(name, 100)
    assert remote.put([("vault", b"x"), ("dangling", b"x")]) == frozenset({"vault", "dangling"})
    with pytest.raises(Refused):
        remote.put([("p/new", b"x")])
    with pytest.raises(Refused):
        remote.list("p/")
    with pytest.raises(Refused):
        remote.put([], remove=["p/secret"])
    remote.put([], remove=["vault", "dangling"])
    assert sorted(os.listdir(outside)) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"
    assert os.listdir(folder) == ["p"]


@posix
def test_pipes_and_devices_are_not_opened(folder: Path) -> None:
    """A pipe without a writer blocks nobody: it is not listed, and reading it is refused."""
    os.mkfifo(folder / "vault")
    remote = FolderRemote(str(folder))
    assert list(remote.list("")) == []
    with pytest.raises(Refused, match="pipe"):
        remote.get("vault", 100)
    assert remote.put([("vault", b"x")]) == frozenset({"vault"})


@posix
def test_link_swapped_in_after_the_check_is_not_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    remote = FolderRemote(str(folder))
    remote.put([("vault", b"vault")])
    real = folder_directory.Directory.look

    def look(self: folder_directory.Directory, name: str) -> os.stat_result | None:
        info = real(self, name)
        if name == "vault" and info is not None:
            (folder / "vault").unlink()
            (folder / "vault").symlink_to(tmp_path / "secret")
        return info

    monkeypatch.setattr(folder_directory.Directory, "look", look)
    with pytest.raises(HoldfastError):
        remote.get("vault", 100)


@posix
def test_link_to_the_folder_is_followed(folder: Path, tmp_path: Path) -> None:
    """The person named it: their own link to the folder works."""
    (tmp_path / "link").symlink_to(folder)
    FolderRemote(str(tmp_path / "link")).put([("a", b"a")])
    assert (folder / "a").read_bytes() == b"a"


def test_other_files_in_the_folder_are_left_alone(folder: Path) -> None:
    """Directories and files with foreign names stay unchanged."""
    (folder / "Photos").mkdir()
    (folder / "Photos" / "a").write_bytes(b"photo")
    (folder / ".git").mkdir()
    remote = FolderRemote(str(folder))
    remote.put([("a", b"a")], remove=["photos"])
    assert [entry.name for entry in remote.list("")] == ["a"]
    assert (folder / "Photos" / "a").read_bytes() == b"photo"


def test_listing_is_refused_with_too_many_names(folder: Path) -> None:
    """Whatever the names are."""
    for number in range(12):
        (folder / f"FOREIGN {number}").touch()
    assert list(FolderRemote(str(folder), max_names=12).list("")) == []
    with pytest.raises(Refused):
        FolderRemote(str(folder), max_names=11).list("")


def test_growing_object_is_not_read_beyond_the_limit(folder: Path) -> None:
    """An object larger than requested is too large, however large it is."""
    with open(folder / "vault", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ObjectTooLarge):
        FolderRemote(str(folder)).get("vault", 1000)
    assert list(FolderRemote(str(folder)).list("")) == [ObjectInfo("vault", 1 << 40)]


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="nothing is closed to root")
def test_unreadable_object_and_directory_hide_no_others(folder: Path) -> None:
    """Another user of a shared folder made them unreadable: they count as missing."""
    remote = FolderRemote(str(folder))
    remote.put([("h/a", b"a"), ("h/closed", b"x"), ("h/below/a", b"x"), ("vault", b"vault")])
    (folder / "h/closed").chmod(0)
    (folder / "h/below").chmod(0)
    try:
        assert [entry.name for entry in remote.list("")] == ["h/a", "h/closed", "vault"]
        assert [entry.name for entry in remote.list("h/")] == ["h/a", "h/closed"]
        assert remote.get("h/a", 1) == b"a"
        with pytest.raises(Missing):
            remote.get("h/closed", 1)
    finally:
        (folder / "h/below").chmod(0o700)
