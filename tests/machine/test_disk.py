"""The disk under a path: free space, network file systems in real and written mount tables, cloud folders."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.machine import disk

linux = pytest.mark.skipif(sys.platform != "linux", reason="this is how Linux tells it")

TABLE = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 0:40 / /home/anna rw,relatime shared:7 master:2 - nfs4 server:/anna rw,vers=4.2
41 40 254:1 / /home/anna/local rw - xfs /dev/vdb rw
42 27 0:42 / /mnt/my\040share rw - cifs //server/share rw
43 27 0:43 / /mnt/odd\134name\011tab\012line rw - nfs server:/x rw
44 27 0:44 / /mnt/ssh rw - fuse.sshfs anna@server: rw
45 27 0:45 / /mnt/cover rw - nfs server:/y rw
46 45 0:46 / /mnt/cover rw - tmpfs tmpfs rw
47 27 0:47 / /mnt/c rw - 9p drvfs rw,aname=drvfs;path=C:\;uid=1000
48 27 0:48 / /mnt/sandbox rw - 9p none rw,trans=fd
49 27 0:49 / /mnt/rclone rw - fuse.rclone drive: rw
50 27 0:50 / /mnt/dav rw - fuse.davfs https://dav rw
51 27 0:51 / /mnt/vm rw - vboxsf shared rw
52 27 0:52 / /mnt/ü rw - smb3 //server/u rw
a line that nobody understands
53 27 - nfs
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A mount table as the kernel writes it."""
    (tmp_path / "mountinfo").write_text(TABLE, encoding="utf-8")
    return str(tmp_path / "mountinfo")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home", "ext4"),
        ("/home/annabel", "ext4"),
        ("/home/anna", "nfs4"),
        ("/home/anna/.local/share/holdfast", "nfs4"),
        ("/home/anna/local", "xfs"),
        ("/home/anna/local/deep/er", "xfs"),
        ("/mnt/my share/x", "cifs"),
        ("/mnt/my", "ext4"),
        ("/mnt/odd\\name\ttab\nline/x", "nfs"),
        ("/mnt/ssh/x", "fuse.sshfs"),
        ("/mnt/cover/x", "tmpfs"),
        ("/mnt/c/Users", "9p.drvfs"),
        ("/mnt/sandbox/x", "9p"),
        ("/mnt/rclone", "fuse.rclone"),
        ("/mnt/dav", "fuse.davfs"),
        ("/mnt/vm/x", "vboxsf"),
        ("/mnt/ü/x", "smb3"),
        ("/proc/1", "proc"),
    ],
)
def test_longest_mount_point_above_a_path_counts(table: str, path: str, kind: str) -> None:
    """Whole names only, octal escapes decoded, a later mount covering an earlier one."""
    assert disk._kind_by_mounts(path, table) == kind


@linux
@pytest.mark.parametrize("path", ["/home/anna/x", "/mnt/my share", "/mnt/ssh/a/b", "/mnt/c/Users/anna", "/mnt/vm"])
def test_network_file_system_is_unsuitable(monkeypatch: pytest.MonkeyPatch, table: str, path: str) -> None:
    """The reason names path and type, also for paths that do not exist yet."""
    monkeypatch.setattr(disk, "_file_system", lambda full: disk._kind_by_mounts(full, table))
    reason = disk.unsuitable_reason(path)
    assert reason is not None
    assert reason.startswith(f"{path} is on a network file system (")


@linux
@pytest.mark.parametrize("path", ["/home/anna/local/x", "/mnt/cover/x", "/mnt/sandbox/x", "/srv/x"])
def test_local_file_system_is_suitable(monkeypatch: pytest.MonkeyPatch, table: str, path: str) -> None:
    """Also below or over a network mount, and in a sandbox."""
    monkeypatch.setattr(disk, "_file_system", lambda full: disk._kind_by_mounts(full, table))
    assert disk.unsuitable_reason(path) is None


@linux
def test_link_into_a_network_file_system_is_unsuitable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: str
) -> None:
    monkeypatch.setattr(disk, "_file_system", lambda full: disk._kind_by_mounts(full, table))
    (tmp_path / "home").symlink_to("/home/anna/state")
    assert disk.unsuitable_reason(str(tmp_path / "home" / "new")) is not None


@linux
def test_real_mount_table_gives_every_path_a_type(tmp_path: Path) -> None:
    assert disk._file_system(str(tmp_path)) != ""
    assert disk._file_system("/proc/self") == "proc"


@pytest.mark.parametrize("failure", [OSError("no table"), ValueError("odd")])
def test_disk_is_suitable_when_the_mount_table_is_unreadable(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fail(full: str) -> str:
        raise failure

    monkeypatch.setattr(disk, "_file_system", fail)
    assert disk.unsuitable_reason("/home/x") is None


@pytest.mark.parametrize(
    ("below", "service"),
    [
        ("Dropbox/holdfast", "Dropbox"),
        ("Dropbox (Personal)/x", "Dropbox"),
        ("OneDrive/x", "OneDrive"),
        ("OneDrive - Contoso Ltd/x", "OneDrive"),
        ("Google Drive/x", "Google Drive"),
        ("Library/Mobile Documents/com~apple~CloudDocs/x", "iCloud"),
        ("Library/CloudStorage/Box-Box/x", "a cloud service"),
        ("iCloudDrive/x", "iCloudDrive"),
        ("Nextcloud/x", "Nextcloud"),
        ("ownCloud/x", "ownCloud"),
        ("pCloudDrive/x", "pCloudDrive"),
        ("MEGAsync/x", "MEGAsync"),
    ],
)
def test_cloud_folder_is_unsuitable(tmp_path: Path, below: str, service: str) -> None:
    """By the name of any directory in the path, whether or not it exists."""
    reason = disk.unsuitable_reason(str(tmp_path / below))
    assert reason is not None
    assert f"that {service} synchronises" in reason


@pytest.mark.parametrize(
    "below", ["x", "Dropboxes/x", "my Dropbox notes", "OneDriver/x", "Library/x", "Box/x", "Sync"]
)
def test_folder_with_a_similar_name_is_suitable(tmp_path: Path, below: str) -> None:
    assert disk.unsuitable_reason(str(tmp_path / below)) is None


@linux
def test_cloud_folder_names_are_case_sensitive_like_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On Linux `dropbox` may be anything; on macOS and Windows it is Dropbox."""
    assert disk.unsuitable_reason(str(tmp_path / "dropbox" / "x")) is None
    monkeypatch.setattr(disk, "_ANY_CASE", True)
    assert disk.unsuitable_reason(str(tmp_path / "dropbox" / "x")) is not None


@pytest.mark.parametrize(("marker", "service"), [(".stfolder", "Syncthing"), (".dropbox.cache", "Dropbox")])
def test_folder_with_a_marker_of_a_service_is_unsuitable(tmp_path: Path, marker: str, service: str) -> None:
    """Syncthing syncs any folder, and leaves its marker there."""
    (tmp_path / "mine" / marker).mkdir(parents=True)
    assert service in (disk.unsuitable_reason(str(tmp_path / "mine" / "a" / "b")) or "")
    assert disk.unsuitable_reason(str(tmp_path / "other")) is None


@pytest.mark.parametrize("path", ["a\0b", "", "\ud800"])
def test_impossible_paths_are_suitable(path: str) -> None:
    """Opening them will fail with the right error."""
    assert disk.unsuitable_reason(path) is None


def test_free_space_is_that_of_the_disk(tmp_path: Path) -> None:
    """For existing and future paths."""
    free = disk.free_space(str(tmp_path))
    assert free is not None
    assert 0 < free <= shutil.disk_usage(tmp_path).total
    assert disk.free_space(str(tmp_path / "not" / "yet" / "there")) is not None


@pytest.mark.parametrize("failure", [OSError("no"), ValueError("odd")])
def test_unknown_free_space_is_none(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def fail(path: str) -> object:
        raise failure

    monkeypatch.setattr(os, "statvfs", fail)
    assert disk.free_space("/") is None


def test_file_system_type_is_read_from_statfs_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing call gives none."""
    import ctypes

    def statfs(path: bytes, buffer: Any) -> int:
        if path == b"/gone":
            return -1
        buffer[72:77] = b"smbfs"
        return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(statfs=statfs))
    assert disk._kind_by_statfs("/Volumes/share") == "smbfs"
    assert disk._kind_by_statfs("/gone") == ""
