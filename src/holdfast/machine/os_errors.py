"""Turn errors of the operating system into those of `core.errors`.

Every module of this layer uses it, so that the same problem reads the same everywhere:
`cannot write /x/y: the disk is full`.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from holdfast.core.errors import Conflict, Failed, HoldfastError, Invalid, NotFound, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")

WINDOWS: Final = os.name == "nt"

_FREE_SPACE: Final = "Free some space and run the command again; nothing was changed."
_AGAIN: Final = "Run the command again; nothing was changed."
_REASONS: Final[dict[int, tuple[type[HoldfastError], str, str]]] = {
    errno.ENOSPC: (Failed, "the disk is full", _FREE_SPACE),
    getattr(errno, "EDQUOT", errno.ENOSPC): (Failed, "your disk quota is used up", _FREE_SPACE),
    errno.EFBIG: (Failed, "it would be larger than this system allows", "Raise the limit (ulimit -f)."),
    errno.EACCES: (Failed, "permission denied", "Check who owns it and its mode, and the directories above."),
    errno.EPERM: (Failed, "the system does not permit it", "Check its owner, mode and file attributes."),
    errno.EROFS: (Failed, "the file system is read-only", "Choose a place that can be written to."),
    errno.EMFILE: (Failed, "this process has too many files open", "Raise the limit (ulimit -n)."),
    errno.ENFILE: (Failed, "this machine has too many files open", "Close some programs and try again."),
    errno.EIO: (Failed, "the disk reported an error", "Check the disk, and back up what can be read."),
    errno.EEXIST: (Conflict, "it already exists", "Choose another name, or move it away."),
    errno.EINTR: (Failed, "it was interrupted repeatedly", _AGAIN),
    errno.EBUSY: (Failed, "something else is using it", _AGAIN),
    errno.ENAMETOOLONG: (Invalid, "the name is too long", "Use a shorter name or path."),
    errno.ELOOP: (Refused, "it is a link, or a loop of links is in its path", "Remove the link."),
    errno.ENOTDIR: (Invalid, "part of its path is not a directory", "Check the path."),
    errno.EISDIR: (Invalid, "it is a directory", "Name a file."),
    errno.ENOENT: (NotFound, "it, or a directory above it, does not exist", "Check the path."),
    errno.EINVAL: (Invalid, "this system does not accept the name", "Use another name."),
}


def explain(error: OSError | ValueError, operation: str, path: str) -> HoldfastError:
    """An error that people can act on: `cannot write /x/y: the disk is full`."""
    cannot = f"cannot {operation} {display_path(path)}"
    if not isinstance(error, OSError):
        reason = "the path contains a NUL" if "\0" in path else "the path is not valid text on this system"
        return Invalid(
            f"{cannot}: {reason}", hint="Use another name.", operation=operation, file=path, details=str(error)
        )
    kind, reason, hint = _REASONS.get(error.errno or 0, (Failed, "", ""))
    if WINDOWS and isinstance(error, PermissionError):
        hint = "Another program may have it open: close it and run the command again."
    reason = reason or (error.strerror or "the system gave no reason").lower()
    name = errno.errorcode.get(error.errno or 0)
    details = f"{name}: {error.strerror}" if name and error.strerror else None
    return kind(f"{cannot}: {reason}", hint=hint or None, operation=operation, file=path, details=details)


def display_path(path: str) -> str:
    """The path for a message, with control characters and undecodable bytes escaped."""
    return path if path.isprintable() else path.encode("unicode_escape").decode("ascii")


def retry_interrupted(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Repeat an interrupted call: Python repeats most itself, but network file systems interrupt others too."""
    for _ in range(100):
        try:
            return call(*args, **kwargs)
        except InterruptedError:
            continue
    return call(*args, **kwargs)
