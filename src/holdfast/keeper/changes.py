"""Files that changed: what is there now, seen without keeping any of it."""

from __future__ import annotations

import os
from typing import NamedTuple

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.machine import files
from holdfast.machine.worktree import Place


class Seen(NamedTuple):
    hash: str | None
    lines_added: int | None
    lines_removed: int | None


def observe(place: Place, path: str, action: str, notices: list[str]) -> Seen:
    """What is at a path of the project now. What git cannot say is left out, and `notices` says so."""
    full = os.path.join(place.root, *path.split("/"))
    inside = os.path.realpath(os.path.dirname(full))
    root = os.path.realpath(place.root)
    if inside != root and not inside.startswith(root + os.sep):
        raise Invalid(f"{path[:80]!a} leads outside the project", hint="A directory on the way is a link.", file=path)
    found = None if action == "deleted" else files.hash_file(full)
    counted = None
    if place.git:
        from holdfast.machine.git_reader import GitReader

        try:
            counted = GitReader(place.root).numstat(path)
        except HoldfastError as error:
            notices.append(f"Recorded without counts of lines, because git cannot be asked: {error.message}.")
    return Seen(found, *(counted if counted is not None else (None, None)))
