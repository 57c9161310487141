"""The session files in a directory: those at the formats' own places, at any depth, and those that may be some.

Only looked at, never followed: links are passed over, as are version control, other programs' packages, what
Holdfast set aside and what was being written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from holdfast.formats.detect import CONTRACT_HOME, may_be_meant, named_like, placed
from holdfast.machine.files import PREFIX, explain

_PASSED_OVER: Final = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox"))
MOST: Final = 200_000  # entries; a home directory named by mistake should end


class Walked(NamedTuple):
    """What was found: paths as the person would write them, sorted."""

    # At a place of a format, with the format and the kind of file.
    placed: list[tuple[str, tuple[str, str]]]
    # Of a name that a session file may have.
    loose: list[str]
    # Directories that could not be looked into.
    closed: list[tuple[str, OSError]]
    # The contract's own directories, and the directories of features in them.
    homes: list[str]
    features: list[str]


def session_files(root: str) -> Walked:
    found = Walked([], [], [], [], [])
    below: list[str] = []
    collected: list[str] = []
    top = os.path.abspath(root)
    left = MOST
    # The path to show, and the absolute one, by which places are recognised.
    folders = [(root, top)]
    while folders and left > 0:
        here, absolute = folders.pop()
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            found.closed.append((here, error))
            continue
        left -= len(listed)
        contract = CONTRACT_HOME in (os.path.basename(absolute), os.path.basename(os.path.dirname(absolute)))
        if contract:
            (found.homes if os.path.basename(absolute) == CONTRACT_HOME else found.features).append(here)
        inner: list[tuple[str, str]] = []
        for entry in listed:
            name = entry.name
            if _set_aside(name) or (contract and name.startswith(".")):
                continue
            if entry.is_dir(follow_symlinks=False):
                # What stands in a feature's directory is the feature's own, not another project.
                if name not in _PASSED_OVER and not (contract and os.path.basename(absolute) != CONTRACT_HOME):
                    inner.append((entry.path, os.path.join(absolute, name)))
            elif may_be_meant(name) and entry.is_file(follow_symlinks=False):
                owner = placed(f"{absolute}/{name}")
                if owner is not None:
                    found.placed.append((entry.path, owner))
                elif named_like(name):
                    (found.loose if absolute == top else below).append(entry.path)
                elif absolute == top:
                    collected.append(entry.path)
        folders.extend(reversed(inner))
    if not found.placed:
        # A directory of documents that somebody collected, rather than a project.
        found.loose.extend([*collected, *below])
    return found


def suspicious(root: str, sessions: Iterable[str]) -> Callable[[str], bool]:
    """Of files that cannot be read, where nothing has a place of its own: which may have been sessions?

    Those in the directory that was named, and those that lie among sessions; not every broken file of a whole tree.
    """
    folders = {os.path.abspath(root), *(os.path.dirname(os.path.abspath(path)) for path in sessions)}
    return lambda path: os.path.dirname(os.path.abspath(path)) in folders


def refuse_circle(path: str) -> None:
    """Raise when a path that was named is a link that leads nowhere but to itself, whoever wants to read it."""
    if path != "-" and os.path.islink(path):
        try:
            os.stat(path)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise explain(error, "read", path) from error


def _set_aside(name: str) -> bool:
    return ".rejected-" in name or name.startswith(PREFIX)
