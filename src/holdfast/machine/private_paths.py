"""Directories and files that only this user can read, and the refusal of planted ones.

New directories are 0700 and new files 0600 whatever the umask. This is for the home and for files that are kept open
(the database, locks, logs); `files.write_atomic` writes whole files. What existed before keeps its mode.

A user who can write to a directory on the way can plant links, pipes and devices; a program that follows them
discloses or destroys their targets. Whose links are trusted follows the rule of Linux for sticky directories.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Failed, HoldfastError, Invalid, Refused
from holdfast.machine.os_errors import WINDOWS, display_path, explain, retry_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

# Absent on some systems, where only the checks by lstat and fstat protect.
NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
BASE_FLAGS: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
# Opening a FIFO that was planted after the check must not block.
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
_EFFECTIVE_IDS: Final = os.access in os.supports_effective_ids
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
HAS_DIR_FD: Final = {os.open, os.rename, os.stat, os.unlink, os.mkdir, os.link} <= os.supports_dir_fd


def make_private_dir(path: str, *, within: str | None = None) -> None:
    """Make sure that `path` is a directory we can write to; new directories are 0700, parents too.

    An existing directory keeps its mode. A link to a directory of ours is accepted, but not below `within`, the root
    of a project.
    """
    if within is not None and HAS_DIR_FD:
        try:
            os.close(open_below(path, within, make=True))
        except (OSError, ValueError) as error:
            raise explain(error, "make", path) from error
        return
    try:
        full = os.path.abspath(path)  # removes a final slash, which would follow a link
        above = os.path.dirname(full)
        refuse_foreign_links(above)
        _make_with_parents(full)
        info = os.lstat(full)
        if stat.S_ISLNK(info.st_mode):
            _accept_link(full, info, os.stat(above))
        elif not stat.S_ISDIR(info.st_mode):
            raise _obstacle_error(full, path)
        elif is_foreign(info, os.stat(above)):
            raise Refused(
                f"{display_path(path)} belongs to another user",
                hint="Choose another place.",
                operation="use",
                file=path,
            )
    except (OSError, ValueError) as error:
        raise explain(error, "make", path) from error
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE_IDS):
        raise Failed(
            f"{display_path(path)} is not writable",
            hint="Check who owns it and its mode, or choose another place.",
            operation="use",
            file=path,
        )


def _make_with_parents(path: str) -> None:
    missing: list[str] = []
    parent = path
    while not os.path.lexists(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    if missing and not os.path.isdir(parent):
        raise _obstacle_error(parent, path)
    for directory in reversed(missing):
        try:
            retry_interrupted(os.mkdir, directory, 0o700)
        except FileExistsError:
            continue  # another process made it; the caller checks it
        if not WINDOWS and os.lstat(directory).st_mode & 0o700 != 0o700:
            os.chmod(directory, 0o700)  # an umask that takes rights from the owner
        _sync_new_name(directory)


def open_below(path: str, root: str, *, make: bool = False) -> int:
    """A descriptor of the directory at `path`, reached from `root` without following any link, not even one planted
    meanwhile. `make`: create missing directories, 0700.
    """
    fd = retry_interrupted(os.open, root, os.O_RDONLY | _DIRECTORY | BASE_FLAGS)
    reached = root
    try:
        for part in os.path.relpath(path, root).split(os.sep):
            if part == os.curdir:
                continue
            reached = os.path.join(reached, part)
            below = _open_part(part, fd, reached, make=make)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_part(name: str, above: int, path: str, *, make: bool) -> int:
    flags = os.O_RDONLY | _DIRECTORY | NOFOLLOW | BASE_FLAGS
    try:
        if name == os.pardir:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return retry_interrupted(os.open, name, flags, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
        _make_part(name, above)
        return retry_interrupted(os.open, name, flags, dir_fd=above)
    except OSError as error:
        # The error for a link depends on the system.
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, getattr(errno, "EMLINK", errno.ELOOP)):
            raise
        raise Refused(
            f"{display_path(path)} is not a directory, or a link to one, and Holdfast follows no links in a project",
            hint=f"Replace it with a directory, or remove it: {display_path(path)}",
            operation="write",
            file=path,
        ) from None


def _make_part(name: str, above: int) -> None:
    try:
        retry_interrupted(os.mkdir, name, 0o700, dir_fd=above)
    except FileExistsError:
        return  # another process made it
    try:
        if os.stat(name, dir_fd=above, follow_symlinks=False).st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=above)  # an umask that takes rights from the owner
        sync_names(above)
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=above)  # a failed command leaves nothing behind
        raise


def _sync_new_name(path: str) -> None:
    """Make the name of a new directory survive a power cut: its parent stores it."""
    if WINDOWS:
        return
    try:
        fd = retry_interrupted(os.open, os.path.dirname(path), os.O_RDONLY | BASE_FLAGS)
    except PermissionError:
        return  # a directory that we may write to but not read: it cannot be synced
    try:
        sync_names(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(path)  # a failed command leaves nothing behind, so the next one starts over
        raise
    finally:
        os.close(fd)


def sync_names(directory: int) -> None:
    """Make the names in an open directory survive a power cut."""
    try:
        retry_interrupted(os.fsync, directory)
    except OSError as error:
        # Some file systems (FUSE, CIFS) cannot sync a directory; they order renames themselves.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise


def _obstacle_error(path: str, expected: str) -> HoldfastError:
    return Invalid(
        f"{display_path(path)} is in the way: it is not a directory",
        hint="Move it away, or choose another place.",
        operation="make",
        file=expected,
    )


def _accept_link(path: str, link: os.stat_result, above: os.stat_result) -> None:
    try:
        end = os.stat(path)
    except FileNotFoundError:
        raise Refused(
            f"{display_path(path)} is a broken link",
            hint="Remove the link, or make the directory it names.",
            operation="use",
            file=path,
        ) from None
    if not stat.S_ISDIR(end.st_mode):
        raise _obstacle_error(path, path)
    if WINDOWS:
        return
    if is_foreign(link, above) or end.st_uid != os.geteuid():
        raise Refused(
            f"{display_path(path)} is a link, and it or the directory it leads to belongs to another user",
            hint="Use a directory of your own.",
            operation="use",
            file=path,
        )


def open_private(path: str, flags: int) -> int:
    """`os.open` for a file of ours: 0600 if new, never through a link, only a regular file."""
    try:
        return _open_checked(path, flags)
    except (OSError, ValueError) as error:
        raise explain(error, "open", path) from error


def _open_checked(path: str, flags: int) -> int:
    refuse_foreign_links(os.path.dirname(path) or ".")
    parent = os.stat(os.path.dirname(path) or ".")
    safe = (flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)) | NOFOLLOW | BASE_FLAGS | _NONBLOCK
    for _ in range(16):
        if flags & os.O_CREAT:
            try:
                fd = retry_interrupted(os.open, path, safe | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
            else:
                _finish_or_close(fd, lambda fd: set_mode(fd, 0o600))
                return fd
        try:
            # Check before opening and after: opening a device can already have an effect.
            refuse_planted(os.lstat(path), parent, path, "open")
            fd = retry_interrupted(os.open, path, safe)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                continue  # removed between the two attempts
            raise
        _finish_or_close(fd, lambda fd: refuse_planted(os.fstat(fd), parent, path, "open"))
        if flags & os.O_TRUNC:  # only now: the target of a planted hard link must not be emptied
            _finish_or_close(fd, lambda fd: os.ftruncate(fd, 0))
        return fd
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)


def _finish_or_close(fd: int, step: Callable[[int], None]) -> None:
    try:
        step(fd)
        if _NONBLOCK:
            os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise


def set_mode(fd: int, mode: int) -> None:
    """Set the mode, whatever the umask."""
    if WINDOWS or stat.S_IMODE(os.fstat(fd).st_mode) == mode:
        return
    try:
        os.fchmod(fd, mode)
    except OSError as error:
        # A file system without modes (FAT): its mount decides, and `files.find_loose_modes` reports it.
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.ENOTSUP):
            raise


# ── what must not be there ───────────────────────────────────────────────────────────────────────────────

_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def file_kind(mode: int) -> str | None:
    """The kind of file in words; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((words for test, words in _KINDS if test(mode)), "not a regular file")


def refuse_planted(info: os.stat_result, parent: os.stat_result, path: str, operation: str) -> None:
    kind = file_kind(info.st_mode)
    if kind is None and info.st_nlink > 1:
        kind = "a file with a second name (a hard link)"
    if kind is None and is_foreign(info, parent):
        kind = "a file of another user"
    if kind is not None:
        raise Refused(
            f"{display_path(path)} is {kind}, and Holdfast does not {operation} through it",
            hint=f"Look at it with ls -l, and move it away if it does not belong there: {display_path(path)}",
            operation=operation,
            file=path,
        )


def is_foreign(info: os.stat_result, parent: os.stat_result) -> bool:
    """Whether another user may have planted it: the rule of Linux for links in sticky directories.

    A directory that only some users can write to is trusted.
    """
    if WINDOWS or not parent.st_mode & stat.S_IWOTH:
        return False
    return info.st_uid not in (os.geteuid(), 0, parent.st_uid)


def refuse_foreign_links(folder: str) -> None:
    """Refuse a directory that is reached through another user's link, as in /tmp. The user's own links are fine."""
    if WINDOWS:
        return
    above = os.path.abspath(folder)
    while True:
        parent = os.path.dirname(above)
        if parent == above:
            return
        # The caller reports what is missing.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            info = os.lstat(above)
            if stat.S_ISLNK(info.st_mode) and is_foreign(info, os.stat(parent)):
                raise Refused(
                    f"{display_path(above)} is a link made by another user",
                    hint="Remove it, or choose another place.",
                    operation="write",
                    file=folder,
                )
        above = parent


def refuse_leading_outside(path: str, root: str, operation: str) -> str:
    """The real path of a file below `root`; refuse one outside, since a repository can contain links.

    `.git` counts as outside: files there name programs.
    """
    base, end = os.path.realpath(root), os.path.realpath(path)
    try:
        parts = os.path.relpath(end, base).split(os.sep)
    except ValueError:  # another drive
        parts = [os.pardir]
    if parts[0] == os.pardir or ".git" in (part.lower() for part in parts):
        raise Refused(
            f"{display_path(path)} leads out of the project, to {display_path(end)}, and Holdfast does "
            f"not {operation} through it",
            hint="A link in the project leads there: replace it with a file or directory, or remove it: "
            f"{display_path(path)}",
            operation=operation,
            file=path,
        )
    return end


def refuse_other_users(path: str, root: str) -> str:
    """The real path of a project's file that may be written: below `root`, missing or a regular file of this user.

    If root runs this in another user's project, the file may also belong to the owner of the project.
    """
    end = refuse_leading_outside(path, root, "write")
    try:
        info = os.lstat(end)
        refuse_planted(info, os.stat(os.path.dirname(end)), path, "write")
        allowed = () if WINDOWS else (os.geteuid(), *((os.stat(root).st_uid,) if os.geteuid() == 0 else ()))
    except (FileNotFoundError, NotADirectoryError):
        return end
    except OSError as error:
        raise explain(error, "write", path) from error
    if allowed and info.st_uid not in allowed:
        raise Refused(
            f"{display_path(path)} belongs to another user",
            hint="Ask its owner, or replace it with a file of your own.",
            operation="write",
            file=path,
        )
    return end
