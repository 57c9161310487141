"""Which packs to merge: sixteen of one tier become one of the next, so that their number stays logarithmic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from holdfast.teleport.heads import Indexed

AT_ONCE: Final = 16
# A pack that holds this much is left alone: sixteen of them would be more than anybody reads at once.
LARGE: Final = 4 << 20


def tier(pack: Indexed) -> int:
    """0 for one push, 1 for up to 16 of them, 2 for up to 256…"""
    covered, found = pack.last - pack.first + 1, 0
    while covered > 1:
        covered = -(-covered // AT_ONCE)
        found += 1
    return found


def due(packs: Sequence[Indexed], large: Collection[str] = ()) -> list[Indexed]:
    """Sixteen neighbours of one tier to be merged, the lowest tier first; none when there are not so many.

    `large` are the packs that hold `LARGE` bytes or more: how much that is, their size when sealed does not say.
    """
    runs: dict[int, list[Indexed]] = {}
    last: int | None = None
    found: list[list[Indexed]] = []
    for pack in packs:
        own = tier(pack)
        if pack.name in large:
            last = None
            runs.clear()
            continue
        if own != last:
            runs[own] = []
        runs[own].append(pack)
        last = own
        if len(runs[own]) == AT_ONCE:
            found.append(runs[own])
            runs[own] = []
            last = None
    return min(found, key=lambda run: (tier(run[0]), run[0].first), default=[])
