"""Mirrored files and git: unfinished merges, and files that must never be committed."""

from __future__ import annotations

import os
import re
from typing import Final

from holdfast.core import limits
from holdfast.core.errors import HoldfastError, Refused
from holdfast.machine import files
from holdfast.machine.git.worktree import WorkTree, main_of, named_git_dir

# Written above the lines that keep files out of the repository.
_WHY: Final = "# The session's running state (kept by Holdfast, never committed)"
_MARKERS: Final = re.compile(rb"^(?:<{7}|>{7})(?: |\r?$)", re.MULTILINE)
# One of these exists while an operation is under way that can leave entries unmerged.
_UNDER_WAY: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "AUTO_MERGE")


def unmerged_reason(data: bytes) -> str | None:
    """Why a file must be left alone for now; None if it may be touched."""
    return "it contains conflict markers" if _MARKERS.search(data) else None


def unmerged_paths(place: WorkTree) -> set[str]:
    """Paths within the work tree that git lists as unmerged."""
    if place.git_dir is None or not any(os.path.lexists(os.path.join(place.git_dir, name)) for name in _UNDER_WAY):
        # `git stash pop` leaves none of these, only markers in the file.
        return set()
    from holdfast.machine.git.reader import GitReader

    try:
        return set(GitReader(place.root).unmerged())
    except HoldfastError:
        return set()


# ── never committed ──────────────────────────────────────────────────────────────────────────────────────


def exclude(place: WorkTree, lines: tuple[str, ...]) -> None:
    """Make git ignore these paths in this clone: its `info/exclude` dirties no work tree and belongs to no branch.

    Raises if the repository has no such file itself, or a link is in the way.
    """
    if not can_commit(place):
        return
    path = _exclude_file(place)
    old = _read_ignored(path)
    new = _with_lines(old, lines)
    if new != old:
        folder, common = os.path.dirname(path), os.path.dirname(os.path.dirname(path))
        # As readable as the rest of the git directory: others may work with this clone.
        mode = os.stat(common).st_mode & 0o777
        if not os.path.isdir(folder):
            files.make_private_dir(folder, within=common)
            os.chmod(folder, mode)
        files.write_atomic(path, new, within=common, mode=None if os.path.lexists(path) else mode & 0o666)


def include(place: WorkTree, lines: tuple[str, ...]) -> bool:
    """Remove what `exclude` added; what somebody else wrote stays. Returns whether anything was removed."""
    if not can_commit(place):
        return False
    path = _exclude_file(place)
    old = _read_ignored(path)
    new = _without_lines(old, lines)
    if new != old:
        files.write_atomic(path, new, within=os.path.dirname(os.path.dirname(path)))
    return new != old


def add_to_gitignore(root: str, lines: tuple[str, ...]) -> bool:
    """Add missing lines to the work tree's `.gitignore`; returns whether any were added."""
    path = os.path.join(root, ".gitignore")
    old = _read_ignored(path)
    new = _with_lines(old, lines)
    if new != old:
        files.write_atomic(path, new, within=root)
    return new != old


def is_in_gitignore(root: str, lines: tuple[str, ...]) -> bool:
    try:
        return not _missing(_read_ignored(os.path.join(root, ".gitignore")), lines)
    except HoldfastError:
        return False


def can_commit(place: WorkTree) -> bool:
    """Whether git would commit from here, even to a repository this directory does not belong to."""
    if place.git:
        return place.root != place.common_dir
    named = named_git_dir(place.root)
    return named is not None and os.path.lexists(os.path.join(named, "HEAD"))


def _exclude_file(place: WorkTree) -> str:
    """`info/exclude` of the repository, which all its work trees share.

    A `.git` that leads out of the project could name anybody's repository: it counts only if that one names the
    project.
    """
    common, root = place.common_dir, place.root
    if common is None or not (
        common == os.path.join(root, ".git")
        or place.git_dir != common  # a linked work tree, which that repository knows
        or main_of(common) == root
    ):
        raise Refused(
            "the repository of this work tree is elsewhere and does not point back to it",
            hint="`git worktree repair` may fix that.",
            operation="mirror",
            file=os.path.join(root, ".git"),
        )
    return os.path.join(common, "info", "exclude")


def _read_ignored(path: str) -> bytes:
    for name in (path, os.path.dirname(path)):
        if os.path.islink(name) and os.path.basename(name) in (".gitignore", "exclude", "info"):
            raise Refused(
                f"{os.path.basename(name)} is a link, and Holdfast does not follow links in a project",
                hint="Replace it with a regular file.",
                operation="mirror",
                file=name,
            )
    if not os.path.lexists(path):
        return b""
    return files.read_limited(path, limits.MAX_DOCUMENT_SIZE, subject=os.path.basename(path))


def _missing(text: bytes, lines: tuple[str, ...]) -> list[str]:
    present = {line.strip() for line in text.decode("utf-8", "replace").splitlines()}
    return [line for line in lines if line not in present and f"/{line}" not in present]


def _with_lines(old: bytes, lines: tuple[str, ...]) -> bytes:
    missing = _missing(old, lines)
    if not missing:
        return old
    end = b"\r\n" if b"\r\n" in old else b"\n"
    text = old if not old or old.endswith(b"\n") else old + end
    return text + (b"" if not text else end) + end.join(line.encode() for line in (_WHY, *missing)) + end


def _without_lines(old: bytes, lines: tuple[str, ...]) -> bytes:
    """Without our comment, the lines below it, and the empty line before it."""
    remaining: list[bytes] = []
    ours = False
    for line in old.splitlines(keepends=True):
        stripped = line.strip().decode("utf-8", "replace")
        if stripped == _WHY:
            ours = True
            if remaining and not remaining[-1].strip():
                remaining.pop()
        elif not ours or stripped not in lines:
            ours = False
            remaining.append(line)
    return b"".join(remaining)
