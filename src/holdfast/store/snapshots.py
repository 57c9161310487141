"""Snapshots of a state: how often one is made, and which are kept. A late event makes those after it wrong."""

from __future__ import annotations

from typing import NamedTuple

SNAPSHOT_EVERY = 32  # events, or more for a large state: writing it must stay small beside the events
BYTES_PER_EVENT = 512


class StoredState(NamedTuple):
    events: int
    frozen: bytes


def is_due(since: int, size: int) -> bool:
    """Whether to make one, so many events after the last, which was so large."""
    return since >= max(SNAPSHOT_EVERY, size // BYTES_PER_EVENT)


def ladder(counts: list[int]) -> set[int]:
    """Which snapshots to keep: the newest, and older ones at ever larger distances."""
    newest, *older = sorted(counts, reverse=True)
    kept, distance = {newest}, 0
    for count in older:
        if newest - count >= 2 * distance:
            kept.add(count)
            distance = newest - count
    return kept
