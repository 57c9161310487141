"""What git is doing with mirrored files: a merge that a person has yet to settle is nobody else's business."""

from __future__ import annotations

import os
import re
from typing import Final

from holdfast.core import limits
from holdfast.core.errors import HoldfastError, Refused
from holdfast.machine import files
from holdfast.machine.worktree import Place

_MARKERS: Final = re.compile(rb"^(?:<{7}|>{7})(?: |\r?$)", re.MULTILINE)
# Something that can leave entries unmerged is under way while one of these exists.
_UNDER_WAY: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "AUTO_MERGE")


def disputed(data: bytes) -> str | None:
    """Why a file must be left alone for now; None when nothing stands against touching it."""
    return "it holds conflict markers" if _MARKERS.search(data) else None


def unmerged(place: Place) -> set[str]:
    """Paths within the work tree that git lists as unmerged."""
    if place.git_dir is None or not any(os.path.lexists(os.path.join(place.git_dir, name)) for name in _UNDER_WAY):
        # `git stash pop` leaves none of these behind, but markers in the file.
        return set()
    from holdfast.machine.git_reader import GitReader

    try:
        return set(GitReader(place.root).unmerged())
    except HoldfastError:
        return set()


def ignore(root: str, lines: tuple[str, ...]) -> bool:
    """Add lines to the work tree's `.gitignore` that are not there yet; says whether anything was added."""
    path = os.path.join(root, ".gitignore")
    if os.path.islink(path):
        raise Refused(
            ".gitignore is a link, and Holdfast follows no links in a project",
            hint=f"Replace it by a file; these lines go into it: {', '.join(lines)}",
            operation="mirror",
            file=path,
        )
    old = files.read_limited(path, limits.DOCUMENT, what=".gitignore") if os.path.lexists(path) else b""
    there = {line.strip() for line in old.decode("utf-8", "replace").splitlines()}
    missing = [line for line in lines if line not in there and f"/{line}" not in there]
    if not missing:
        return False
    end = b"\r\n" if b"\r\n" in old else b"\n"
    text = old if not old or old.endswith(b"\n") else old + end
    added = ["# The session's running state (kept by Holdfast, never committed)", *missing]
    text += (b"" if not text else end) + end.join(line.encode() for line in added) + end
    files.write_atomic(path, text)
    return True
