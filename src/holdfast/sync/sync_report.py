"""The result of a sync: counts, and everything that was rejected with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

# The owner of the remote decides how many objects are bad.
_MAX_REJECTED: Final = 1_000

# Progress of a long sync: done, total, and what is counted.
Progress: TypeAlias = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """Report no progress."""


class RejectedObject(NamedTuple):
    """An object at a remote that was rejected: where it is, whose it claims to be, and why."""

    pack: str
    device: str
    reason: str


class DeletedSession(NamedTuple):
    """A session of this store that another device deleted."""

    session: str
    goal: str
    device: str
    # The work trees whose current session it was.
    places: tuple[str, ...]


class SyncReport:
    def __init__(self) -> None:
        self.pushed = 0
        self.pulled = 0
        # Sessions with events that were sent.
        self.sent: set[str] = set()
        self.rejected: list[RejectedObject] = []
        self._known: set[RejectedObject] = set()
        # Sessions with new events.
        self.sessions: set[str] = set()
        self.deleted: list[DeletedSession] = []
        # Sentences for a person.
        self.notes: list[str] = []

    def reject(self, pack: str, device: str, reason: str) -> None:
        entry = RejectedObject(pack, device, reason)
        if entry in self._known:
            return
        if len(self.rejected) >= _MAX_REJECTED:
            entry = RejectedObject("", "", "and more objects were rejected")
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
