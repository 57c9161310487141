"""The result of a sync: counts, and everything that was rejected with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

# More than this says nothing more to anybody, and whoever keeps the objects decides how many are bad.
_MAX_REJECTED: Final = 1_000

# How far a long sync is: done, of how many, and what is counted.
Progress: TypeAlias = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """Nobody watches."""


class RejectedObject(NamedTuple):
    """Something at a remote that was not taken in: where it is, whose it says it is, and why not."""

    pack: str
    device: str
    reason: str


class DeletedSession(NamedTuple):
    """A session that was here, and that another device deleted; what it was about is known a last time."""

    session: str
    goal: str
    device: str
    # The work trees that were at it.
    places: tuple[str, ...]


class SyncReport:
    def __init__(self) -> None:
        self.pushed = 0
        self.pulled = 0
        # Sessions of which something was sent.
        self.sent: set[str] = set()
        self.rejected: list[RejectedObject] = []
        self._known: set[RejectedObject] = set()
        # Sessions that something new was learned of.
        self.sessions: set[str] = set()
        self.deleted: list[DeletedSession] = []
        # Sentences for a person: waiting for approval, cut off, sessions held back.
        self.notes: list[str] = []

    def reject(self, pack: str, device: str, reason: str) -> None:
        entry = RejectedObject(pack, device, reason)
        if entry in self._known:
            return
        if len(self.rejected) >= _MAX_REJECTED:
            entry = RejectedObject("", "", "and more that was turned away")
            if entry in self._known:
                return
        self._known.add(entry)
        self.rejected.append(entry)

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def add(self, other: SyncReport) -> None:
        self.pushed += other.pushed
        self.pulled += other.pulled
        self.sent |= other.sent
        for refused in other.rejected:
            self.reject(*refused)
        self.sessions |= other.sessions
        self.deleted += [deleted for deleted in other.deleted if deleted not in self.deleted]
        for sentence in other.notes:
            self.note(sentence)
