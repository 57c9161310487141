"""Look into the directories of agents: list files, stamp them, and note what cannot be read.

Only names and stamps are read here. What the system refuses is passed over, since most callers need not know; those
that must (`backfill`) collect it. A transcript whose size is anybody's is read within a limit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NamedTuple


class DirectoryEntry(NamedTuple):
    path: str
    name: str
    stamp: str


def stamp_of(status: os.stat_result) -> str:
    """A value that changes whenever the file does."""
    return f"{status.st_size}.{status.st_mtime_ns}"


def stamp(path: str, *, directory: bool = False) -> str | None:
    """The stamp of a file, or of a directory if one is expected; None for anything else, including links."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError) as error:
        note_read_error(path, error)
        return None
    is_expected = stat.S_ISDIR if directory else stat.S_ISREG
    return stamp_of(status) if is_expected(status.st_mode) else None


def list_names(directory: str) -> list[str]:
    """The names of everything in a directory, sorted."""
    try:
        return sorted(os.listdir(directory))
    except (OSError, ValueError) as error:
        note_read_error(directory, error)
        return []


def list_directories(root: str, *, linked: bool = False) -> list[str]:
    """The paths of the directories in a directory, sorted; links to directories only if `linked`."""
    try:
        with os.scandir(root) as listing:
            return sorted(entry.path for entry in listing if entry.is_dir(follow_symlinks=linked))
    except (OSError, ValueError) as error:
        note_read_error(root, error)
        return []


def list_files(directory: str, *endings: str) -> list[DirectoryEntry]:
    """The files in a directory whose names end so, sorted, and never links."""
    entries: list[DirectoryEntry] = []
    try:
        with os.scandir(directory) as listing:
            for entry in listing:
                if entry.name.endswith(endings) and entry.is_file(follow_symlinks=False):
                    with suppress(OSError):  # it was removed just now
                        status = entry.stat(follow_symlinks=False)
                        entries.append(DirectoryEntry(entry.path, entry.name, stamp_of(status)))
    except (OSError, ValueError) as error:
        note_read_error(directory, error)
        return []
    return sorted(entries)


# ── what cannot be read ──────────────────────────────────────────────────────────────────────────────────

_read_errors: ContextVar[dict[str, str] | None] = ContextVar("_read_errors", default=None)


@contextmanager
def collect_read_errors() -> Iterator[dict[str, str]]:
    """Within the block, collect what the system refuses: paths, and the reason for each."""
    errors: dict[str, str] = {}
    token = _read_errors.set(errors)
    try:
        yield errors
    finally:
        _read_errors.reset(token)


def note_read_error(path: str, error: Exception) -> None:
    """Note that a path could not be read. A missing file is no refusal: agents clean up meanwhile."""
    errors = _read_errors.get()
    if errors is not None and not isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
        errors.setdefault(path, (getattr(error, "strerror", None) or str(error)).lower())


# ── how much is read ─────────────────────────────────────────────────────────────────────────────────────


class ReadLimitExceeded(Exception):
    """One transcript, all its files together, is larger than is allowed."""


class _ReadBudget:
    def __init__(self, size: int, files: int) -> None:
        self.size = size
        self.files = files


_budget: ContextVar[_ReadBudget | None] = ContextVar("_budget", default=None)


@contextmanager
def limit_reading(size: int, files: int) -> Iterator[None]:
    """Within the block, reading more bytes or files than this raises `ReadLimitExceeded`."""
    token = _budget.set(_ReadBudget(size, files))
    try:
        yield
    finally:
        _budget.reset(token)


def count_reading(*, size: int = 0, files: int = 0) -> None:
    """Count what is about to be read."""
    budget = _budget.get()
    if budget is not None:
        budget.size -= size
        budget.files -= files
        if budget.size < 0 or budget.files < 0:
            raise ReadLimitExceeded
