"""Files on this machine: the program's only atomic writer, temporary files, and checks for `doctor`.

Nothing else in Holdfast writes state. New files are private whatever the umask; a planted link, FIFO or device is
refused, never followed. A failure leaves the old file as it was and raises one of the errors in `core.errors`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from holdfast.core.errors import Failed, HoldfastError, Invalid, Refused
from holdfast.machine import host
from holdfast.machine.os_errors import WINDOWS, display_path, explain, retry_interrupted
from holdfast.machine.private_paths import (
    BASE_FLAGS,
    HAS_DIR_FD,
    NOFOLLOW,
    make_private_dir,
    open_below,
    open_private,
    refuse_foreign_links,
    refuse_planted,
    set_mode,
    sync_names,
)
from holdfast.machine.user_input import hash_file, read_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "LooseMode",
    "abandoned_temporaries",
    "display_path",
    "explain",
    "find_loose_modes",
    "hash_file",
    "make_private_dir",
    "open_private",
    "read_limited",
    "remove",
    "remove_abandoned",
    "remove_directory",
    "remove_file",
    "rename",
    "sync_directory",
    "temporaries",
    "temporary_name",
    "write_atomic",
]

PREFIX: Final = ".holdfast-"
SUFFIX: Final = ".tmp"
# A store is created under a temporary name too, and SQLite adds further files.
_ENDINGS: Final = tuple(SUFFIX + own for own in ("", "-journal", "-wal", "-shm"))

_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)

_MAX_LINKS: Final = 40  # the limit of Linux
_ABANDONED_AFTER: Final = 3_600_000  # ms without a write, after which an unknown writer counts as dead


class LooseMode(NamedTuple):
    """A file or directory that more people can open than should, and the mode that it should have."""

    path: str
    mode: int
    expected: int


# --- writing -----------------------------------------------------------------------------------------


def write_atomic(
    path: str,
    data: bytes,
    *,
    follow_own_link: bool = False,
    durable: bool = True,
    displaced: Callable[[str], None] | None = None,
    within: str | None = None,
    mode: int | None = None,
) -> None:
    """Write `data` to `path`: readers, also after a power cut, see either all of the old file or all of the new.

    A new file is 0600, an existing one keeps its mode, unless `mode` is given. With `follow_own_link`, a link of the
    current user (dotfiles) stays and its target is replaced. Without `durable`, the disk is not waited for: for data
    that can be recreated. `displaced` is called with the path of the old file before it is removed: somebody may have
    written to it an instant ago. Below `within`, the root of a project, no directory on the way may be a link.
    """
    try:
        target = _resolve_own_links(path) if follow_own_link else path
        folder, name = os.path.split(target)
        if name in ("", ".", ".."):
            raise Invalid(f"{display_path(path)!r} names no file", hint="Name a file.", operation="write", file=path)
        _write_and_replace(
            _Directory(folder or ".", within), name, data, durable=durable, displaced=displaced, mode=mode
        )
    except (OSError, ValueError) as error:
        raise explain(error, "write", path) from error


class _Directory:
    """The directory of a file, kept open where the system can, so that swapping a parent has no effect."""

    def __init__(self, path: str, within: str | None = None) -> None:
        self.path = path
        refuse_foreign_links(path)
        self.fd: int | None = None
        if HAS_DIR_FD and within is not None:
            self.fd = open_below(path, within)
        elif HAS_DIR_FD:
            self.fd = retry_interrupted(os.open, path, os.O_RDONLY | _DIRECTORY | BASE_FLAGS)
        elif not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def name(self, name: str) -> str:
        return name if self.fd is not None else os.path.join(self.path, name)

    def stat(self) -> os.stat_result:
        return os.stat(self.path if self.fd is None else self.fd)

    def lstat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(self.name(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def put(self, temporary: str, name: str, *, keep: bool) -> str | None:
        """Move a new file into place. With `keep`, return the name that the old file has now."""
        if keep and self.fd is not None:
            if exchange(self.fd, temporary, name):
                previous = self.lstat(temporary)
                if previous is not None and stat.S_ISREG(previous.st_mode):
                    return temporary
                # Something that is not a regular file was planted since the check: undo, and replace it.
                exchange(self.fd, temporary, name)
                self.replace(temporary, name)
                return None
            # Give the old file a second name, so that writes until the last moment stay visible.
            second_name = temporary_name()
            with contextlib.suppress(OSError):
                os.link(name, second_name, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
                self.replace(temporary, name)
                return second_name
        self.replace(temporary, name)
        return None

    def replace(self, temporary: str, name: str) -> None:
        if self.fd is not None:
            retry_interrupted(os.rename, temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            return
        _replace_patiently(self.name(temporary), self.name(name))

    def sync(self) -> None:
        if self.fd is not None:
            sync_names(self.fd)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)


def _write_and_replace(
    directory: _Directory,
    name: str,
    data: bytes,
    *,
    durable: bool,
    displaced: Callable[[str], None] | None,
    mode: int | None,
) -> None:
    temporary: str | None = None
    file = os.path.join(directory.path, name)
    try:
        old = directory.lstat(name)
        if old is not None:
            refuse_planted(old, directory.stat(), file, "write")
        fd, temporary = _create(directory)
        try:
            safe_mode = 0o600 if old is None else _keep_owner(fd, old)
            set_mode(fd, safe_mode if mode is None else mode)
            write_all(fd, data)
            if durable:
                sync_file(fd)
        finally:
            os.close(fd)
        temporary = directory.put(temporary, name, keep=displaced is not None and old is not None)
        try:
            if durable:
                directory.sync()
        except OSError as error:
            raise Failed(
                f"{display_path(file)} was written, but the disk did not confirm that it would survive a power cut",
                hint="Check the disk, then run the command again.",
                operation="write",
                file=file,
            ) from error
        if temporary is not None and displaced is not None:
            displaced(os.path.join(directory.path, temporary))
    finally:
        # Also on KeyboardInterrupt. `temporaries` finds what cannot be removed now.
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(directory.name(temporary), dir_fd=directory.fd)
        directory.close()


def _create(directory: _Directory) -> tuple[int, str]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | BASE_FLAGS
    for _ in range(16):
        name = temporary_name()
        try:
            return retry_interrupted(os.open, directory.name(name), flags, 0o600, dir_fd=directory.fd), name
        except FileExistsError:
            continue
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), directory.path)


def _keep_owner(fd: int, old: os.stat_result) -> int:
    """Give the new file the old one's owner and group if allowed; return the mode that is then safe."""
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if WINDOWS:
        return mode
    for owner in (old.st_uid, -1):
        new = os.fstat(fd)
        if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid):
            return mode
        with contextlib.suppress(OSError):
            os.fchown(fd, owner, old.st_gid)
    # Access of the old group must not become access of another one.
    return mode if os.fstat(fd).st_gid == old.st_gid else mode & ~0o070


def write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        written = retry_interrupted(os.write, fd, left)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        left = left[written:]


def remove(path: str, *, within: str | None = None) -> None:
    """Remove a name durably; below `within`, as `write_atomic` writes there. Raises `OSError`."""
    folder, name = os.path.split(path)
    directory = _Directory(folder or ".", within)
    try:
        os.unlink(directory.name(name), dir_fd=directory.fd)
        directory.sync()
    finally:
        directory.close()


def rename(path: str, new: str, *, within: str | None = None) -> None:
    """Give a file another name in the same directory, durably; below `within`, as `write_atomic` writes there.
    Raises `OSError`.
    """
    folder, name = os.path.split(path)
    directory = _Directory(folder or ".", within)
    try:
        directory.replace(name, os.path.basename(new))
        directory.sync()
    finally:
        directory.close()


def changed_at(status: os.stat_result, since: int) -> int:
    """When a file's content changed, in nanoseconds: its modification time, unless that was set to a time before
    `since`, as copying and unpacking do; then its change time.
    """
    if os.name == "nt" or since <= status.st_mtime_ns <= status.st_ctime_ns:
        return status.st_mtime_ns
    return status.st_ctime_ns


def sync_directory(path: str) -> None:
    """Make the names in a directory survive a power cut: a file just linked there, or removed."""
    directory = _Directory(path)
    try:
        directory.sync()
    finally:
        directory.close()


def remove_directory(path: str) -> bool:
    """Remove an empty directory; False if it is not empty or does not exist."""
    try:
        retry_interrupted(os.rmdir, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            return False
        raise explain(error, "remove", path) from error
    return True


def remove_file(path: str) -> None:
    """Remove a file if it exists."""
    try:
        retry_interrupted(os.unlink, path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise explain(error, "remove", path) from error


def sync_file(fd: int) -> None:
    if sys.platform == "darwin":
        # fsync on macOS stops at the drive's cache, which a power cut erases.
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError:
            pass  # network and foreign file systems do not support it
        else:
            return
    retry_interrupted(os.fsync, fd)


def _replace_patiently(source: str, target: str) -> None:
    """Retry on Windows, where virus scanners and indexers open a new file for some milliseconds."""
    import time

    wait = 0.01
    while True:
        try:
            os.replace(source, target)
        except PermissionError:
            if wait > 1:  # the waits so far add up to more than a second
                raise
            time.sleep(wait)
            wait *= 2
        else:
            return


def _resolve_own_links(path: str) -> str:
    """The target of the user's own links, which may be missing."""
    target = path
    for _ in range(_MAX_LINKS):
        try:
            info = os.lstat(target)
        except FileNotFoundError:
            return target
        if not stat.S_ISLNK(info.st_mode):
            return target
        if not WINDOWS and info.st_uid != os.geteuid():
            raise Refused(
                f"{display_path(target)} is a link that belongs to another user",
                hint="Only your own links are followed: replace it with a file or with your own link.",
                operation="write",
                file=path,
            )
        target = os.path.join(os.path.dirname(target), os.readlink(target))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


# --- temporary files -----------------------------------------------------------------------------------


def temporary_name() -> str:
    """A name for an unfinished file. It identifies the writing process: see `abandoned_temporaries`."""
    return f"{PREFIX}{os.urandom(8).hex()}.{_process_label(os.getpid())}{SUFFIX}"


@lru_cache(maxsize=1)
def _process_label(pid: int) -> str:
    """A process in names of temporary files: the scope of its pid, its pid, and its start time."""
    from holdfast.machine.process import identify

    own = identify(pid)
    started = "" if own is None else own.started
    return f"{_pid_scope()}.{pid}.{started}"


def _pid_scope() -> str:
    """An id of the machine, boot and namespace in which a pid is unique."""
    from hashlib import sha256

    boot = host.boot_id()
    # A boot id derived from the clock differs between processes.
    known = "" if boot.startswith("time:") else boot
    return sha256(f"{host.machine_id()}\n{known}\n{host.pid_namespace()}".encode()).hexdigest()[:12]


def abandoned_temporaries(directory: str, now: int) -> list[str]:
    """Those of `temporaries` whose process is dead, or has not written for an hour and cannot be known here: it is of
    another machine, or an older version made the name.
    """
    dead: list[str] = []
    for path in temporaries(directory):
        liveness = _liveness(os.path.basename(path))
        with contextlib.suppress(FileNotFoundError):
            if liveness == "dead" or (
                liveness == "unknown" and now - os.lstat(path).st_mtime_ns // 1_000_000 > _ABANDONED_AFTER
            ):
                dead.append(path)
    return dead


def _liveness(name: str) -> Literal["alive", "dead", "unknown"]:
    """Whether the process that a temporary file's name identifies is alive."""
    _, _, label = name.removeprefix(PREFIX).rpartition(SUFFIX)[0].partition(".")
    numbering, pid, started = (*label.split(".", 2), "", "", "")[:3]
    if numbering != _pid_scope() or not pid.isdecimal():
        return "unknown"
    from holdfast.machine.process import ProcessIdentity, liveness

    return liveness(ProcessIdentity(int(pid), started, host.boot_id(), host.pid_namespace(), host.machine_id()))


def remove_abandoned(directory: str, now: int) -> None:
    """Remove what killed writers left in one of our directories."""
    try:
        dead = abandoned_temporaries(directory, now)
    except (OSError, HoldfastError):
        return  # the code that needs the directory reports it
    for path in dead:
        with contextlib.suppress(OSError):
            os.unlink(path)


# --- checks for `doctor` -----------------------------------------------------------------------------


def temporaries(directory: str) -> list[str]:
    """The temporary files in a directory, as full paths."""
    try:
        with os.scandir(directory) as entries:
            return sorted(
                entry.path
                for entry in entries
                if entry.name.startswith(PREFIX)
                and entry.name.endswith(_ENDINGS)
                and entry.is_file(follow_symlinks=False)
            )
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise explain(error, "list", directory) from error


def find_loose_modes(paths: Iterable[str]) -> list[LooseMode]:
    """Those of `paths` that others than their owner can open. Windows has no modes, so none."""
    loose_modes: list[LooseMode] = []
    for path in () if WINDOWS else paths:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise explain(error, "look at", path) from error
        # An executable file (the hook script) stays executable.
        expected = 0o700 if stat.S_ISDIR(mode) else 0o600 | (mode & 0o100)
        if stat.S_IMODE(mode) & ~expected & 0o777:
            loose_modes.append(LooseMode(path, stat.S_IMODE(mode), expected))
    return loose_modes


_SWAP: Final = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS: the same number by chance


def exchange(folder: int, first: str, second: str) -> bool:
    """Exchange two names in an open directory; False if the system or file system cannot."""
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    if name is None:
        return False
    import ctypes

    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return False
    done = call(
        ctypes.c_int(folder), os.fsencode(first), ctypes.c_int(folder), os.fsencode(second), ctypes.c_uint(_SWAP)
    )
    return bool(done == 0)


def free_name(path: str) -> str:
    """The path itself, or the path with the first number that no file has."""
    name, number = path, 1
    while os.path.lexists(name):
        number += 1
        name = f"{path}-{number}"
    return name
