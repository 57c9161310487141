"""The disk of a path: its free space, and whether it is unsuitable for a database.

SQLite needs shared memory, and locks that every process sees. Network file systems provide neither reliably, and a
cloud service that syncs a folder overwrites a database in use. Both lose data silently.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NETWORK_TYPES: Final = (  # as the kernel names them
    "nfs nfs4 cifs smb smb2 smb3 smbfs afs openafs afpfs ncp ncpfs webdav davfs davfs2 coda 9p.drvfs "
    "ceph lustre gpfs beegfs glusterfs orangefs pvfs2 panfs "
    "fuse.sshfs fuse.rclone fuse.davfs fuse.davfs2 fuse.wdfs fuse.curlftpfs fuse.smbnetfs fuse.gvfsd-fuse "
    "fuse.s3fs fuse.goofys fuse.gcsfuse fuse.mount-s3 fuse.juicefs fuse.ceph fuse.ceph-fuse "
    "fuse.glusterfs fuse.afp fuse.afpfs fuse.google-drive-ocamlfuse fuse.onedriver fuse.mfs fuse.seaweedfs "
    "vboxsf vmhgfs fuse.vmhgfs-fuse prl_fs"
)
_NETWORK: Final = frozenset(_NETWORK_TYPES.split())

# A folder of this name, also followed by brackets or a dash:
# `Dropbox (Personal)`, `OneDrive - Contoso`.
_CLOUD: Final = (
    "Dropbox",
    "OneDrive",
    "Google Drive",
    "GoogleDrive",
    "iCloud Drive",
    "iCloudDrive",
    "Nextcloud",
    "ownCloud",
    "pCloud",
    "pCloudDrive",
    "pCloud Drive",
    "MEGAsync",
    "Box Sync",
    "Proton Drive",
    "Creative Cloud Files",
    "SynologyDrive",
    "YandexDisk",
    "Yandex.Disk",
)
# Files that services leave in their folder, whatever its name.
_MARKERS: Final = (
    (".dropbox.cache", "Dropbox"),
    (".stfolder", "Syncthing"),
    (".nextcloudsync.log", "Nextcloud"),
    (".owncloudsync.log", "ownCloud"),
)
_ANY_CASE: Final = sys.platform in ("darwin", "win32")


def free_space(path: str) -> int | None:
    """Bytes that this user can still write at `path`, which need not exist; None if unknown."""
    try:
        existing = _nearest_existing(path)
        if sys.platform != "win32":
            stats = os.statvfs(existing)
            return stats.f_bavail * stats.f_frsize
        import shutil

        return shutil.disk_usage(existing).free
    except (OSError, ValueError):
        return None


def unsuitable_reason(path: str) -> str | None:
    """Why a database must not be kept at `path`, in a sentence; None if it may be."""
    try:
        full = os.path.realpath(path)
        kind = _file_system(full)
        if kind in _NETWORK:
            kind = kind.removeprefix("fuse.").removeprefix("9p.")
            return f"{full} is on a network file system ({kind}), where locks between processes are not reliable"
        service = _cloud(full)
    except (OSError, ValueError):
        return None
    if service is not None:
        return f"{full} is in a folder that {service} synchronises, which can overwrite a database in use"
    return None


def _nearest_existing(path: str) -> str:
    """The path, or the nearest existing directory above it."""
    nearest = os.path.realpath(path)
    while not os.path.lexists(nearest) and os.path.dirname(nearest) != nearest:
        nearest = os.path.dirname(nearest)
    return nearest


# --- network -----------------------------------------------------------------------------------------


def _file_system(full: str) -> str:
    """The kind of file system, in the words of the system; empty when unknown."""
    if sys.platform == "linux":
        return _kind_by_mounts(full, "/proc/self/mountinfo")
    if sys.platform == "darwin":
        return _kind_by_statfs(_nearest_existing(full))
    if sys.platform == "win32":
        return _kind_by_drive(full)
    return ""


def _kind_by_mounts(full: str, table: str) -> str:
    best, best_kind = "", ""
    with open(table, "rb") as file:
        lines = os.fsdecode(file.read()).split("\n")
    for point, kind in _mounts(lines):
        # Of two mounts on one place, the later one covers the earlier.
        if len(point) >= len(best) and _is_inside(full, point):
            best, best_kind = point, kind
    return best_kind


def _mounts(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Mount point and type of each line: `36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw`."""
    for line in lines:
        left, dash, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if not dash or len(fields) < 6:
            continue
        # A Windows drive seen from WSL is 9p; so is the root of some sandboxes, which is fine.
        drive = kinds[0] == "9p" and "aname=drvfs" in right
        yield _unescaped(fields[4]), "9p.drvfs" if drive else kinds[0]


def _unescaped(field: str) -> str:
    """The kernel writes space, tab, newline and backslash in mount points as three octal digits."""
    first, *rest = field.split("\\")
    out = first
    for part in rest:
        digits = part[:3]
        octal = len(digits) == 3 and all(digit in "01234567" for digit in digits)
        out += chr(int(digits, 8)) + part[3:] if octal else "\\" + part
    return out


def _is_inside(full: str, folder: str) -> bool:
    return full == folder or full.startswith(folder.rstrip("/") + "/")


def _kind_by_statfs(path: str) -> str:
    """macOS: `struct statfs` with 64-bit inodes holds the type's name, 16 bytes, at offset 72."""
    import ctypes

    library = ctypes.CDLL(None)
    # Intel keeps an older call under the plain name; ARM has only the new one.
    call = getattr(library, "statfs$INODE64", None) or library.statfs
    buffer = ctypes.create_string_buffer(4096)
    if call(os.fsencode(path), buffer):
        return ""
    return buffer.raw[72:88].split(b"\0")[0].decode("ascii", "replace")


def _kind_by_drive(full: str) -> str:
    if sys.platform == "win32":
        import ctypes

        root = os.path.splitdrive(full)[0]
        if root.startswith("\\\\") and not root.startswith("\\\\?\\"):
            return "smb"
        return "smb" if ctypes.windll.kernel32.GetDriveTypeW(root + "\\") == 4 else ""
    return ""


# --- cloud -------------------------------------------------------------------------------------------


def _cloud(full: str) -> str | None:
    parts = full.replace(os.sep, "/").split("/")
    if "Mobile Documents" in parts:
        return "iCloud"
    for above, part in pairwise(parts):
        if (above, part) == ("Library", "CloudStorage"):
            return "a cloud service"
    for part in parts:
        for name in _CLOUD:
            if _is_named(part, name):
                return name
    return _has_marker(full)


def _is_named(part: str, name: str) -> bool:
    if _ANY_CASE:
        part, name = part.casefold(), name.casefold()
    return part == name or part.startswith((f"{name} (", f"{name} - ", f"{name}-"))


def _has_marker(full: str) -> str | None:
    folder = full
    while True:
        for marker, service in _MARKERS:
            if os.path.lexists(os.path.join(folder, marker)):
                return service
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
