"""Which hashes of a story can be believed. Agents show files with line ends, and in an encoding, that the files
may not have, and nothing in a transcript tells. Sure are files that the agent made itself, what it made of those, and
what still stands on the disk as it was told; everything else is not said.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import msgspec

from holdfast.capture.signals import Edited
from holdfast.capture.transcripts import Story
from holdfast.core.errors import HoldfastError
from holdfast.keeper.captures.stories import inside
from holdfast.machine import files

_LARGEST: Final = 16 << 20  # bytes: beyond, a file is not looked at


def settle(story: Story, roots: tuple[str, ...], on_disk: Callable[[str], str | None]) -> None:
    """Take back the hashes of a story that are not sure; `on_disk` has those of what is in the project now."""
    changes: dict[str, list[int]] = {}
    for place, one in enumerate(story.told):
        if isinstance(one.signal, Edited):
            path = inside(one.signal.path, story.cwd, roots)
            if path is not None:
                changes.setdefault(path, []).append(place)
    for path, places in changes.items():
        edits = [one.signal for place in places if isinstance((one := story.told[place]).signal, Edited)]
        for place, settled in zip(places, _settled(edits, path, on_disk), strict=True):
            story.told[place] = story.told[place]._replace(signal=settled)


def _settled(edits: list[Edited], path: str, on_disk: Callable[[str], str | None]) -> list[Edited]:
    # Whether an edit found what the one before it had left, by the agent's word.
    linked = [False, *(two.before is not None and two.before == one.after for one, two in pairwise(edits))]
    sure = [False] * len(edits)
    for place, edit in enumerate(edits):
        sure[place] = edit.action == "created" or (linked[place] and sure[place - 1])
    last = edits[-1].after
    if not sure[-1] and last is not None:
        sure[-1] = on_disk(path) == last
    for place in range(len(edits) - 1, 0, -1):
        sure[place - 1] |= linked[place] and sure[place]
    return [
        msgspec.structs.replace(
            edit,
            before=edit.before if linked[place] and sure[place - 1] else None,
            after=edit.after if sure[place] else None,
        )
        for place, edit in enumerate(edits)
    ]


def disk(roots: tuple[str, ...]) -> Callable[[str], str | None]:
    """The hashes of files in these work trees, and of none that a link leads to elsewhere."""
    bases = [os.path.realpath(root) for root in roots]

    def found(path: str) -> str | None:
        for base in bases:
            full = os.path.join(base, *path.split("/"))
            try:
                status = os.lstat(full)
                if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                    continue
                if os.path.realpath(full) != full:
                    continue
                return files.hash_file(full, _LARGEST)
            except (OSError, ValueError, HoldfastError):
                continue
        return None

    return found
