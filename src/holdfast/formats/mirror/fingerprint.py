"""Fingerprints of mirrored files: one `stat` shows whether a file was touched since."""

from __future__ import annotations

import os
import stat
from typing import Final

import msgspec

from holdfast.core import limits
from holdfast.core.canonical import digest
from holdfast.core.errors import Refused
from holdfast.machine.files import read_limited

MAX_SIZE: Final = limits.MAX_DOCUMENT_SIZE  # larger files are no session documents
# Two writes within one tick of the file system's clock look alike.
_TICK: Final = 20_000_000  # nanoseconds


class Fingerprint(msgspec.Struct, frozen=True, array_like=True):
    inode: int
    size: int
    changed: int
    touched: int
    # When the fingerprint was taken.
    at: int = 0

    @property
    def is_young(self) -> bool:
        """Taken so soon after a change that another change could hide behind it."""
        return self.at - max(self.changed, self.touched) < _TICK

    def matches(self, other: Fingerprint) -> bool:
        return (self.inode, self.size, self.changed, self.touched) == (
            other.inode,
            other.size,
            other.changed,
            other.touched,
        )


def take(path: str, now: int) -> Fingerprint | None:
    """The file's fingerprint; None without a file. `now` in nanoseconds. Anything but a regular file is refused."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(info.st_mode):
        raise Refused(
            "a mirrored file is not a regular file",
            hint="Move it away; Holdfast does not follow links there.",
            operation="mirror",
            file=path,
        )
    return Fingerprint(info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, now)


def read(path: str) -> bytes:
    return read_limited(path, MAX_SIZE, subject="a mirrored file")


def hash_of(data: bytes) -> str:
    return digest(data)
