"""Nothing that others planted in a folder is followed, opened, or read without end."""

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
    """A link in the folder, to a file or a directory, is neither read, listed nor written through."""
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
    """A pipe nobody writes to does not hold anyone up: it is left out of listings, and reading it is refused."""
    os.mkfifo(folder / "vault")
    remote = FolderRemote(str(folder))
    assert list(remote.list("")) == []
    with pytest.raises(Refused, match="pipe"):
        remote.get("vault", 100)
    assert remote.put([("vault", b"x")]) == frozenset({"vault"})


@posix
def test_something_swapped_in_after_looking_is_not_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever puts a link where a file was an instant ago does not get it read."""
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
def test_the_folder_itself_may_be_a_link_of_ones_own(folder: Path, tmp_path: Path) -> None:
    """The person named the folder: their own link to it is followed."""
    (tmp_path / "link").symlink_to(folder)
    FolderRemote(str(tmp_path / "link")).put([("a", b"a")])
    assert (folder / "a").read_bytes() == b"a"


def test_other_things_in_the_folder_are_left_alone(folder: Path) -> None:
    """Directories and files with names of their own stay as they are."""
    (folder / "Photos").mkdir()
    (folder / "Photos" / "a").write_bytes(b"photo")
    (folder / ".git").mkdir()
    remote = FolderRemote(str(folder))
    remote.put([("a", b"a")], remove=["photos"])
    assert [entry.name for entry in remote.list("")] == ["a"]
    assert (folder / "Photos" / "a").read_bytes() == b"photo"


def test_a_listing_has_an_end(folder: Path) -> None:
    """A folder with more names than any vault needs is refused, whatever the names are."""
    for number in range(12):
        (folder / f"FOREIGN {number}").touch()
    assert list(FolderRemote(str(folder), most=12).list("")) == []
    with pytest.raises(Refused):
        FolderRemote(str(folder), most=11).list("")


def test_an_object_that_grows_is_not_read_beyond_the_limit(folder: Path) -> None:
    """What others made larger than asked for is too large, however large it is."""
    with open(folder / "vault", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ObjectTooLarge):
        FolderRemote(str(folder)).get("vault", 1000)
    assert list(FolderRemote(str(folder)).list("")) == [ObjectInfo("vault", 1 << 40)]


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="nothing is closed to root")
def test_folder_object_and_directory_that_are_closed_to_us_hide_no_others(folder: Path) -> None:
    """What another user of a shared folder left there for nobody to read is missing, and all else is there."""
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
