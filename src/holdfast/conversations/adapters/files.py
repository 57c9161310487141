"""What the directories of agents hold, without reading any of it: files, and stamps that change when they do."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple

from holdfast.conversations.adapters import read_errors


class DirectoryEntry(NamedTuple):
    path: str
    name: str
    stamp: str


def stamp_of(status: os.stat_result) -> str:
    """Changes whenever a file does."""
    return f"{status.st_size}.{status.st_mtime_ns}"


def stamp(path: str, *, directory: bool = False) -> str | None:
    """The stamp of a file, or of a directory where that is meant; None for anything else, links among it."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError) as error:
        read_errors.note(path, error)
        return None
    wanted = stat.S_ISDIR if directory else stat.S_ISREG
    return stamp_of(status) if wanted(status.st_mode) else None


def names(directory: str) -> list[str]:
    """Everything in a directory, in order."""
    try:
        return sorted(os.listdir(directory))
    except (OSError, ValueError) as error:
        read_errors.note(directory, error)
        return []


def directories(top: str, *, linked: bool = False) -> list[str]:
    """The paths of the directories in a directory, in order; links to others only where they are wanted."""
    try:
        with os.scandir(top) as listing:
            return sorted(entry.path for entry in listing if entry.is_dir(follow_symlinks=linked))
    except (OSError, ValueError) as error:
        read_errors.note(top, error)
        return []


def files(directory: str, *ends: str) -> list[DirectoryEntry]:
    """The files in a directory whose names end so, in order, and never links."""
    found: list[DirectoryEntry] = []
    try:
        with os.scandir(directory) as listing:
            for entry in listing:
                if entry.name.endswith(ends) and entry.is_file(follow_symlinks=False):
                    with suppress(OSError):  # it was taken away just now
                        found.append(
                            DirectoryEntry(entry.path, entry.name, stamp_of(entry.stat(follow_symlinks=False)))
                        )
    except (OSError, ValueError) as error:
        read_errors.note(directory, error)
        return []
    return sorted(found)
