"""Files an agent edited: their paths in the project, and their hashes before and after.

Hooks run after the edit. The file on disk is the result of the edit only if it was not written to since;
otherwise the payload has to suffice. No content is kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.conversations.adapters.base import HookEvent
from holdfast.conversations.ingest import subagents
from holdfast.conversations.signals import Edited
from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.events import EventData, ExtraKept, FileChanged
from holdfast.core.state import State
from holdfast.core.text import check_relative_path
from holdfast.machine import files
from holdfast.machine.git.worktree import WorkTree

_MAX_REVERTED: Final = 16 * 1024 * 1024  # bytes: larger files are not reverted in memory to get their previous hash
_MAX_OUTSIDE: Final = 100
_BOMS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


class _FileHashes(NamedTuple):
    before: str | None
    after: str | None


def file_events(state: State, event: HookEvent, signal: Edited, at: int, place: WorkTree) -> Iterator[EventData]:
    path = _find_in_work_tree(state, signal.path, event.cwd, place)
    if path is None:
        yield from _outside(state, signal.path)
        return
    root, relative = path
    latest = next((change for change in reversed(state.files) if change.path == relative), None)
    full = os.path.join(root, *relative.split("/"))
    hashes = _hashes(full, signal, at)
    previous = None if latest is None else latest.hash_after
    # Some programs report other line ends than files have: their hashes count if the result matches or, where that
    # can no longer be checked, if the file would look the same everywhere.
    reliable = (
        signal.after == hashes.after if hashes.after and signal.after else _looks_as_reported(full, signal, previous)
    )
    before = (signal.before if reliable else None) or hashes.before or previous
    yield FileChanged(
        path=relative, action=signal.action, agent=subagents.known_agent(state, signal.agent),
        lines_added=signal.lines_added, lines_removed=signal.lines_removed,
        hash_before=None if signal.action == "created" else before,
        hash_after=None if signal.action == "deleted" else hashes.after or (signal.after if reliable else None),
        by="tool", among=(view.native_name(event.agent, event.conversation),),
    )  # fmt: skip


def _find_in_work_tree(state: State, path: str, cwd: str | None, place: WorkTree) -> tuple[str, str] | None:
    """The work tree of a file and its path there; None if it is in none of this session's."""
    if not os.path.isabs(path):
        path = os.path.join(cwd if cwd and os.path.isabs(cwd) else place.root, path)
    try:
        full = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    except (OSError, ValueError):
        return None
    session_root = None if state.project is None else state.project.path
    for root in (place.root, place.main, session_root):
        real = None if root is None else os.path.realpath(root)
        if root is not None and real is not None and full.startswith(real.rstrip(os.sep) + os.sep):
            try:
                return root, check_relative_path(os.path.relpath(full, real).replace(os.sep, "/"))
            except Invalid:
                return None
    return None


def _outside(state: State, path: str) -> Iterator[EventData]:
    from holdfast.conversations.adapters.clean_text import plain

    known = state.extra.get("files_outside")
    paths: list[Json] = list(known) if isinstance(known, list) else []
    name = plain(path, 500)
    if name and name not in paths:
        yield ExtraKept(name="files_outside", value=[*paths, name][-_MAX_OUTSIDE:])


def _hashes(full: str, signal: Edited, at: int) -> _FileHashes:
    """The hashes before and after, as far as the disk still shows this edit."""
    if signal.action == "deleted":
        return _FileHashes(None, None)
    try:
        status = os.lstat(full)
        # Times of files and payloads are only exact to some milliseconds.
        if status.st_mtime_ns // 1_000_000 > at + 5:
            return _FileHashes(None, None)
        after = files.hash_file(full)
    except (OSError, ValueError, HoldfastError):
        return _FileHashes(None, None)
    before = _hash_before(full, signal) if status.st_size <= _MAX_REVERTED else None
    return _FileHashes(before, after)


def _looks_as_reported(full: str, signal: Edited, previous: str | None) -> bool:
    """Whether a file has the line ends and encoding that programs report."""
    if signal.before is None and signal.after is None:
        return False
    try:
        if not stat.S_ISREG(os.lstat(full).st_mode):
            return False
        content = files.read_limited(full, _MAX_REVERTED, subject="an edited file")
    except FileNotFoundError:
        # It no longer exists: it did have them if the program created it, or started from content we know.
        return signal.action == "created" or (previous is not None and previous == signal.before)
    except (OSError, ValueError, HoldfastError):
        return False
    return not content.startswith(_BOMS) and b"\r" not in content and b"\0" not in content


def _hash_before(full: str, signal: Edited) -> str | None:
    """The hash before the edit, if reverting it is unambiguous."""
    from hashlib import sha256

    if not signal.old or not signal.new:
        return None
    try:
        content = files.read_limited(full, _MAX_REVERTED, subject="an edited file")
        old, new = signal.old.encode(), signal.new.encode()
    except (HoldfastError, UnicodeEncodeError):
        return None
    if b"\0" in content:
        return None  # another encoding: the text has other bytes
    if b"\r\n" in content and b"\r\n" not in new:
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    if content.count(new) != 1:
        return None
    return sha256(content.replace(new, old)).hexdigest()
