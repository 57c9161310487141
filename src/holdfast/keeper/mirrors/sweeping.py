"""Sweeping up in mirrors' folders: temporary files of writers that were killed.

To be done with the work tree's lock held, so that nobody who writes its files is at work. What we wrote ourselves, or
only half of, is removed. What somebody else wrote, and a killed writer had just replaced, is kept under another name.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError, Refused
from holdfast.machine import files
from holdfast.mirror import prints
from holdfast.mirror.layouts import Layout, inside

if TYPE_CHECKING:
    from holdfast.keeper.mirrors.desk import Desk

_OLD: Final = 60_000_000_000  # nanoseconds: others with locks of their own may be at work in a directory of ours
# With hundreds of features, not every directory is looked into each time: the doctor does.
_MOST_FOLDERS: Final = 64
_LEFT: Final = "left-behind"


def sweep(desk: Desk, one: Layout) -> None:
    known = desk.tree.files.get(one.name, {})
    paths = dict.fromkeys([*one.folders, *map(os.path.dirname, (*one.fixed, *known))])
    for folder in list(paths)[:_MOST_FOLDERS]:
        full = inside(desk.root, folder)
        for path in files.temporaries(full) if os.path.isdir(full) and not os.path.islink(full) else ():
            with contextlib.suppress(OSError, HoldfastError):
                _clear(desk, one, f"{folder}/{os.path.basename(path)}")


def _clear(desk: Desk, one: Layout, path: str) -> None:
    full = inside(desk.root, path)
    found = prints.look(full, desk.nanos())
    if found is None or found.at - max(found.changed, found.touched) < _OLD:
        return
    data = prints.read(full)
    if one.is_torn(_named(one, path), data) or not desk.is_news(data, None):
        os.unlink(full)
        return
    why = Refused("a writer that was killed had just replaced it")
    desk.put_aside(one, f"{os.path.dirname(path)}/{_LEFT}", data, why)
    os.unlink(full)


def _named(one: Layout, path: str) -> str:
    """A name by which its content can be read: of the kind that its folder holds."""
    return path + (".yaml" if one.writes_itself else ".json")
