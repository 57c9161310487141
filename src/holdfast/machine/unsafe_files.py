"""What must not be where a file of ours belongs: links, pipes, devices, files of other users.

Whoever can write to a directory on the way can plant them, and a program that follows them gives away or
destroys what they lead to. The rule of whose links count is the one Linux uses for sticky directories.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from holdfast.core.errors import Refused
from holdfast.machine.os_errors import WINDOWS, display_path, explain

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
