"""An open directory of a folder remote: no planted link is followed, and a name is given only once.

Others write to the same folder, from other machines too. So every step goes from an open directory to the next, where
the system can, and a file gets its name by a hard link, which fails when the name is taken.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from typing import Final, Self

from holdfast.core.errors import Refused, Unreachable
from holdfast.machine.files import PREFIX, SUFFIX
from holdfast.machine.os_errors import WINDOWS, display_path, retry_interrupted
from holdfast.machine.private_paths import BASE_FLAGS, NOFOLLOW, file_kind, set_mode, sync_names

CLAIM: Final = ".claim"

_BY_DESCRIPTOR: Final = {os.open, os.rename, os.stat, os.unlink, os.mkdir, os.link} <= os.supports_dir_fd
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_PATIENT: Final = getattr(os, "O_NONBLOCK", 0)  # a FIFO planted between check and open must not block us
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | BASE_FLAGS
_CHUNK: Final = 1 << 20
# Errors of file systems without hard links: FAT, exFAT, some network shares, some of FUSE.
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK, errno.EXDEV}
)
_CLAIM_STALE: Final = 600.0  # seconds: a claim is held for two system calls
_CLAIM_TRIES: Final = 200


class Directory:
    """An open directory; on a system without `dir_fd` (Windows) its path, checked before each step."""

    def __init__(self, path: str, fd: int | None) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def open(cls, path: str) -> Directory:
        """Open a directory that the person named: links on the way to it are followed."""
        if not _BY_DESCRIPTOR:
            if not stat.S_ISDIR(os.stat(path).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            return cls(path, None)
        return cls(path, retry_interrupted(os.open, path, os.O_RDONLY | _DIRECTORY | BASE_FLAGS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def at(self, name: str) -> str:
        return name if self.fd is not None else os.path.join(self.path, name)

    def shown(self, name: str) -> str:
        return display_path(os.path.join(self.path, name))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────

    def stat(self) -> os.stat_result:
        return os.stat(self.path if self.fd is None else self.fd)

    def look(self, name: str) -> os.stat_result | None:
        try:
            return retry_interrupted(os.stat, self.at(name), dir_fd=self.fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entries(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self.path if self.fd is None else self.fd) as iterator:
            yield from iterator

    def step(self, name: str) -> Directory | None:
        """The subdirectory of this name, if there is one. A link is refused, wherever it leads."""
        info = self.look(name)
        if info is None or stat.S_ISREG(info.st_mode):
            return None
        if not stat.S_ISDIR(info.st_mode):
            raise self._planted(name, info.st_mode)
        path = os.path.join(self.path, name)
        if self.fd is None:
            return Directory(path, None)
        try:
            return Directory(
                path,
                retry_interrupted(os.open, name, os.O_RDONLY | _DIRECTORY | NOFOLLOW | BASE_FLAGS, dir_fd=self.fd),
            )
        except FileNotFoundError:
            return None

    def read(self, name: str, limit: int) -> bytes | None:
        """At most `limit` bytes of a regular file; None when there is none."""
        info = self.look(name)
        if info is None or stat.S_ISDIR(info.st_mode):
            return None
        if not stat.S_ISREG(info.st_mode):
            raise self._planted(name, info.st_mode)
        try:
            fd = retry_interrupted(
                os.open, self.at(name), os.O_RDONLY | NOFOLLOW | BASE_FLAGS | _PATIENT, dir_fd=self.fd
            )
        except FileNotFoundError:
            return None
        try:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode):
                raise self._planted(name, mode)
            parts: list[bytes] = []
            while limit > 0 and (part := retry_interrupted(os.read, fd, min(limit, _CHUNK))):
                parts.append(part)
                limit -= len(part)
        finally:
            os.close(fd)
        return b"".join(parts)

    def _planted(self, name: str, mode: int) -> Refused:
        file = os.path.join(self.path, name)
        return Refused(
            f"{self.shown(name)} is {file_kind(mode)}, and remotes never read or write through it",
            hint=f"Look at it with ls -l, and move it away if it does not belong there: {self.shown(name)}",
            operation="use",
            file=file,
        )

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────

    def make(self, name: str, like: os.stat_result) -> Directory:
        """The subdirectory of this name, created if need be, as accessible to others as `like` is."""
        try:
            retry_interrupted(os.mkdir, self.at(name), 0o700, dir_fd=self.fd)
        except FileExistsError:
            is_new = False
        else:
            is_new = True
        directory = self.step(name)
        if directory is None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.path.join(self.path, name))
        try:
            if is_new and directory.fd is not None:
                share(directory.fd, like, stat.S_IMODE(like.st_mode) & 0o3777 if _is_shared(like) else 0o700)
                self.sync()
        except BaseException:
            directory.close()
            raise
        return directory

    def temporary(self, like: os.stat_result) -> tuple[int, str]:
        """A new file under a temporary name that no object can have, open for writing."""
        for _ in range(16):
            name = f"{PREFIX}{os.urandom(8).hex()}{SUFFIX}"
            try:
                fd = retry_interrupted(os.open, self.at(name), _NEW, 0o600, dir_fd=self.fd)
            except FileExistsError:
                continue
            try:
                share(fd, like, stat.S_IMODE(like.st_mode) & 0o666 if _is_shared(like) else 0o600)
            except BaseException:
                os.close(fd)
                self.remove(name)
                raise
            return fd, name
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)

    def remove(self, name: str) -> None:
        """Remove what has this name, unless it is a directory; of a link, the link itself."""
        info = self.look(name)
        if info is None or stat.S_ISDIR(info.st_mode):
            return
        with contextlib.suppress(FileNotFoundError):
            retry_interrupted(os.unlink, self.at(name), dir_fd=self.fd)

    def sync(self) -> None:
        if self.fd is not None:
            sync_names(self.fd)


def _is_shared(like: os.stat_result) -> bool:
    return not WINDOWS and bool(like.st_mode & 0o077)


def share(fd: int, like: os.stat_result, mode: int) -> None:
    """Give a new file this mode and the group of `like`, whatever the umask.

    If it cannot have that group, its own group gets no access.
    """
    if WINDOWS:
        return
    if _is_shared(like) and os.fstat(fd).st_gid != like.st_gid:
        with contextlib.suppress(OSError):
            os.fchown(fd, -1, like.st_gid)
        if os.fstat(fd).st_gid != like.st_gid:
            mode &= ~0o070
    set_mode(fd, mode)


# ── giving a name once ─────────────────────────────────────────────────────────────────────────────────────────


def name_once(root: Directory, temporary: str, folder: Directory, name: str) -> bool:
    """Give the finished file `temporary` of `root` its name in `folder`; False when that is taken."""
    try:
        retry_interrupted(
            os.link,
            root.at(temporary),
            folder.at(name),
            src_dir_fd=root.fd,
            dst_dir_fd=folder.fd,
            follow_symlinks=False,
        )
    except FileExistsError:
        # If a server's answer was lost, the system asks again, and the server finds its own link.
        ours, present = root.look(temporary), folder.look(name)
        return ours is not None and present is not None and os.path.samestat(ours, present)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _name_claimed(root, temporary, folder, name)
    return True


def _name_claimed(root: Directory, temporary: str, folder: Directory, name: str) -> bool:
    """Give a name without hard links: the process that creates the claim file of a name may check and rename.

    A claim is held for two system calls. One that is ten minutes old, by the file system's clock, was left by a
    killed process, and is removed.
    """
    path = os.path.join(folder.path, name)
    within = os.path.relpath(path, root.path).replace(os.sep, "/")  # the same on every machine
    claim = f"{PREFIX}{hashlib.sha256(os.fsencode(within)).hexdigest()[:32]}{CLAIM}"
    for _ in range(_CLAIM_TRIES):
        if folder.look(name) is not None:
            return False
        try:
            os.close(retry_interrupted(os.open, root.at(claim), _NEW, 0o600, dir_fd=root.fd))
            break
        except FileExistsError:
            existing, ours = root.look(claim), root.look(temporary)
            if existing is not None and ours is not None and ours.st_mtime - existing.st_mtime > _CLAIM_STALE:
                root.remove(claim)
            else:
                time.sleep(0.01 + os.urandom(1)[0] / 10_000)
    else:
        raise Unreachable(
            f"{display_path(path)} is being written by another process that does not finish",
            hint="Try again in ten minutes: leftovers of a killed process are removed then.",
            operation="write",
            file=path,
        )
    try:
        if folder.look(name) is not None:
            return False
        # On Windows this does not replace either, which makes it doubly sure.
        retry_interrupted(os.rename, root.at(temporary), folder.at(name), src_dir_fd=root.fd, dst_dir_fd=folder.fd)
    except FileExistsError:
        return False
    finally:
        root.remove(claim)
    return True
