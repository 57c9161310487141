"""Turn errors of SQLite and the system into errors that tell a person what to do."""

from __future__ import annotations

import os
from types import TracebackType

import apsw

from holdfast.core.errors import Busy, Damaged, Failed, HoldfastError, Invalid
from holdfast.machine import files

PATIENCE = 30.0  # seconds to wait for another writer; transactions last milliseconds
SAVES = "holdfast doctor --repair saves what can be read; after that, holdfast restore FILE adds what a backup has."
_ROOM = 256 * 1024  # bytes that SQLite needs for shared memory and the smallest transaction


class explaining:  # noqa: N801 (used like a function: `with explaining("open the store", path):`)
    """Explains errors that are raised in the block."""

    __slots__ = ("operation", "path")

    def __init__(self, operation: str, path: str) -> None:
        self.operation = operation
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        explained = None if error is None else explain(error, self.operation, self.path)
        if explained is not None:
            raise explained from None


def explain(error: BaseException, operation: str, path: str) -> HoldfastError | None:
    """The error to raise instead; None when this one explains itself or is not ours."""
    cannot = f"cannot {operation}"
    match error:
        case HoldfastError():
            return None
        case apsw.BusyError():
            return Busy(
                f"{cannot}: another process has locked the store for {PATIENCE:.0f} seconds",
                hint="Try again; if it lasts, look for a stopped holdfast process.",
                operation=operation, file=path,
            )  # fmt: skip
        case apsw.FullError():
            return _full(operation, path)
        case apsw.CorruptError() | apsw.NotADBError() | apsw.SQLError() | apsw.MismatchError() | UnicodeDecodeError():
            # Our statements are constant: if they do not fit the tables, the tables are damaged.
            return Damaged(f"the store is damaged ({error})", hint=SAVES, operation=operation, file=path)
        case apsw.ReadOnlyError() | apsw.CantOpenError() if _is_full(path):
            return _full(operation, path)
        case apsw.ReadOnlyError():
            return Failed(
                f"{cannot}: the store is read-only", hint="Check its permissions.", operation=operation, file=path
            )
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return Failed(
                f"{cannot}: {error}", hint="Check that the file and its directory are yours.",
                operation=operation, file=path,
            )  # fmt: skip
        case apsw.TooBigError():
            return Invalid(f"{cannot}: the text is too long", operation=operation, file=path)
        case MemoryError():
            return Failed(f"{cannot}: out of memory; nothing was changed", operation=operation, file=path)
        case apsw.Error():
            return Failed(
                f"{cannot}: {error}; nothing was changed", hint="holdfast doctor shows the details.",
                operation=operation, file=path,
            )  # fmt: skip
        case OSError():
            return files.explain(error, operation, path)
    return None


def _full(operation: str, path: str) -> HoldfastError:
    return Failed(
        f"cannot {operation}: the disk is full; nothing was changed",
        hint="Free some space and run the command again.",
        operation=operation, file=path,
    )  # fmt: skip


def _is_full(path: str) -> bool:
    """Whether nothing can be written for lack of space rather than permission."""
    place = os.path.dirname(path) or "."
    if not hasattr(os, "statvfs") or not os.access(place, os.W_OK):
        return False
    try:
        space = os.statvfs(place)
    except OSError:
        return False
    return space.f_bavail * space.f_frsize < _ROOM or (space.f_files > 0 and space.f_favail == 0)
