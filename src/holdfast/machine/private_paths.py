"""Directories and files that only this user can read: 0700 and 0600 whatever the umask.

For the home and for files that are kept open (the database, locks, logs); whole files are written by
`files.write_atomic`. What was there before keeps its mode, and is refused when somebody planted it.
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

# Absent on some systems, where the checks by lstat and fstat have to do alone.
NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
BASE_FLAGS: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
# A FIFO put in place between looking and opening must not hold us up.
_PATIENT: Final = getattr(os, "O_NONBLOCK", 0)
_EFFECTIVE: Final = os.access in os.supports_effective_ids
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
HAS_DIR_FD: Final = {os.open, os.rename, os.stat, os.unlink, os.mkdir, os.link} <= os.supports_dir_fd


def make_private_dir(path: str, *, within: str | None = None) -> None:
    """See to it that `path` is a directory we can write to; what has to be made is 0700, parents too.

    A directory that was there keeps its mode. A link is accepted when it leads to a directory of ours; below
    `within`, the root of a project, no link is.
    """
    if within is not None and HAS_DIR_FD:
        try:
            os.close(open_below(path, within, make=True))
        except (OSError, ValueError) as error:
            raise explain(error, "make", path) from error
        return
    try:
        full = os.path.abspath(path)  # also without a final slash, which would follow a link
        above = os.path.dirname(full)
        refuse_foreign_links(above)
        _make_with_parents(full)
        info = os.lstat(full)
        if stat.S_ISLNK(info.st_mode):
            _accept_link(full, info, os.stat(above))
        elif not stat.S_ISDIR(info.st_mode):
            raise _in_the_way(full, path)
        elif is_foreign(info, os.stat(above)):
            raise Refused(
                f"{display_path(path)} belongs to another user",
                hint="Choose another place.",
                operation="use",
                file=path,
            )
    except (OSError, ValueError) as error:
        raise explain(error, "make", path) from error
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
        raise Failed(
            f"{display_path(path)} is not writable",
            hint="Check who owns it and its mode, or choose another place.",
            operation="use",
            file=path,
        )


def _make_with_parents(path: str) -> None:
    missing: list[str] = []
    above = path
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    if missing and not os.path.isdir(above):
        raise _in_the_way(above, path)
    for each in reversed(missing):
        try:
            retry_interrupted(os.mkdir, each, 0o700)
        except FileExistsError:
            continue  # another process was quicker; what it made is looked at by the caller
        if not WINDOWS and os.lstat(each).st_mode & 0o700 != 0o700:
            os.chmod(each, 0o700)  # an unusual umask, which took rights from ourselves
        _keep_name(each)


def open_below(path: str, root: str, *, make: bool = False) -> int:
    """A descriptor of the directory at `path`, reached from `root` without following a link, also not one that is
    put in place meanwhile. `make`: what is missing is made, 0700.
    """
    fd = retry_interrupted(os.open, root, os.O_RDONLY | _DIRECTORY | BASE_FLAGS)
    here = root
    try:
        for part in os.path.relpath(path, root).split(os.sep):
            if part == os.curdir:
                continue
            here = os.path.join(here, part)
            below = _open_part(part, fd, here, make=make)
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
        # What a link is called here depends on the system.
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, getattr(errno, "EMLINK", errno.ELOOP)):
            raise
        raise Refused(
            f"{display_path(path)} is not a directory, or a link to one, and Holdfast follows no links in a project",
            hint=f"Replace it by a directory, or remove it: {display_path(path)}",
            operation="write",
            file=path,
        ) from None


def _make_part(name: str, above: int) -> None:
    try:
        retry_interrupted(os.mkdir, name, 0o700, dir_fd=above)
    except FileExistsError:
        return  # another process was quicker
    try:
        if os.stat(name, dir_fd=above, follow_symlinks=False).st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=above)  # an unusual umask, which took rights from ourselves
        sync_names(above)
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=above)  # a command that failed leaves nothing
        raise


def _keep_name(made: str) -> None:
    """Syncing what is in a directory does not save the directory's own name: that is kept by the one above it."""
    if WINDOWS:
        return
    try:
        fd = retry_interrupted(os.open, os.path.dirname(made), os.O_RDONLY | BASE_FLAGS)
    except PermissionError:
        return  # one we may add to and not read: nobody can sync it
    try:
        sync_names(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(made)  # a command that failed leaves nothing, and the next one tries all of it again
        raise
    finally:
        os.close(fd)


def sync_names(directory: int) -> None:
    """Make the names in an open directory survive a power cut."""
    try:
        retry_interrupted(os.fsync, directory)
    except OSError as error:
        # Some file systems (FUSE, CIFS) know no sync of a directory; they order renames themselves.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise


def _in_the_way(path: str, wanted: str) -> HoldfastError:
    return Invalid(
        f"{display_path(path)} is in the way: it is not a directory",
        hint="Move it away, or choose another place.",
        operation="make",
        file=wanted,
    )


def _accept_link(path: str, link: os.stat_result, above: os.stat_result) -> None:
    try:
        end = os.stat(path)
    except FileNotFoundError:
        raise Refused(
            f"{display_path(path)} is a link that leads nowhere",
            hint="Remove the link, or make the directory it names.",
            operation="use",
            file=path,
        ) from None
    if not stat.S_ISDIR(end.st_mode):
        raise _in_the_way(path, path)
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
    """`os.open` for a file of ours: 0600 when it is made, never through a link, only a regular file."""
    try:
        return _open_checked(path, flags)
    except (OSError, ValueError) as error:
        raise explain(error, "open", path) from error


def _open_checked(path: str, flags: int) -> int:
    refuse_foreign_links(os.path.dirname(path) or ".")
    parent = os.stat(os.path.dirname(path) or ".")
    safe = (flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)) | NOFOLLOW | BASE_FLAGS | _PATIENT
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
            # Before opening as well as after: opening a device can already do something to it.
            refuse_planted(os.lstat(path), parent, path, "open")
            fd = retry_interrupted(os.open, path, safe)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                continue  # removed between the two attempts
            raise
        _finish_or_close(fd, lambda fd: refuse_planted(os.fstat(fd), parent, path, "open"))
        if flags & os.O_TRUNC:  # only now: a planted hard link must not lose its content
            _finish_or_close(fd, lambda fd: os.ftruncate(fd, 0))
        return fd
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)


def _finish_or_close(fd: int, step: Callable[[int], None]) -> None:
    try:
        step(fd)
        if _PATIENT:
            os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise


def set_mode(fd: int, mode: int) -> None:
    """Make the mode what it must be, whatever the umask took away."""
    if WINDOWS or stat.S_IMODE(os.fstat(fd).st_mode) == mode:
        return
    try:
        os.fchmod(fd, mode)
    except OSError as error:
        # A file system without modes (FAT): its mount decides, and `modes` reports it.
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
    """What it is, when it is not a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((words for test, words in _KINDS if test(mode)), "not a regular file")


def refuse_planted(info: os.stat_result, parent: os.stat_result, path: str, operation: str) -> None:
    what = file_kind(info.st_mode)
    if what is None and info.st_nlink > 1:
        what = "a file with a second name (a hard link)"
    if what is None and is_foreign(info, parent):
        what = "a file of another user"
    if what is not None:
        raise Refused(
            f"{display_path(path)} is {what}, and Holdfast does not {operation} through it",
            hint=f"Look at it with ls -l, and move it away if it does not belong there: {display_path(path)}",
            operation=operation,
            file=path,
        )


def is_foreign(info: os.stat_result, parent: os.stat_result) -> bool:
    """Whether a stranger may have put it there: the rule Linux uses for links in sticky directories.

    In a directory that not everybody can write to, whoever put it there was allowed to.
    """
    if WINDOWS or not parent.st_mode & stat.S_IWOTH:
        return False
    return info.st_uid not in (os.geteuid(), 0, parent.st_uid)


def refuse_foreign_links(folder: str) -> None:
    """Parents may be links if that is the user's choice; a stranger's link in /tmp is not."""
    if WINDOWS:
        return
    above = os.path.abspath(folder)
    while True:
        parent = os.path.dirname(above)
        if parent == above:
            return
        # What is missing is for the caller to find: he knows what it means.
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
    """Where a file below `root` really is, which must be below it too: a repository can bring links along.

    What git keeps for itself counts as outside: files there name programs.
    """
    base, end = os.path.realpath(root), os.path.realpath(path)
    try:
        way = os.path.relpath(end, base).split(os.sep)
    except ValueError:  # another drive
        way = [os.pardir]
    if way[0] == os.pardir or ".git" in (part.lower() for part in way):
        raise Refused(
            f"{display_path(path)} leads out of the project, to {display_path(end)}, and Holdfast does "
            f"not {operation} through it",
            hint="A link in the project leads there: replace it by a file or directory, or remove it: "
            f"{display_path(path)}",
            operation=operation,
            file=path,
        )
    return end


def refuse_others(path: str, root: str) -> str:
    """Where a file of a project may be written: below `root`, a regular file with one name, of this user or missing.

    Whoever may do everything works on projects of others: for root, it may also be of whom the project is.
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
            hint="Ask its owner, or replace it by a file of your own.",
            operation="write",
            file=path,
        )
    return end
