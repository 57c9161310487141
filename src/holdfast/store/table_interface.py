"""What the journal asks of a kind of store: the few things that each must do for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from holdfast.core.envelope import Event
from holdfast.store.snapshots import StoredState
from holdfast.store.summary import SessionSummary


class Tables(Protocol):
    """Within a transaction that the store has opened."""

    def version(self, session: str) -> int:
        """How often the session changed; 0 when it is unknown, less when all its events were taken out again."""

    def snapshots(self, session: str) -> Iterable[StoredState]:
        """Those of this fold version, newest first."""

    def tail(self, session: str, clock: int) -> Iterable[tuple[Event, bool]]:
        """Events from this clock on, as their clocks were written; True with those whose key an earlier one has."""

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]: ...

    def erasures(self, session: str) -> Iterable[Event]:
        """The events that say that data is erased, in the same order, without those whose key an earlier one has."""

    def take_out(self, events: Iterable[Event]) -> None:
        """Remove these rows; places go on from where they were."""

    def leave(self, session: str) -> None:
        """No work tree is at this session any more."""

    def has_key(self, session: str, key: str) -> bool: ...

    def recorded_by(self, session: str, key: str) -> set[str]:
        """The writers of the events with this key; on a server, of those that the owner or this person put there."""

    def remembered(self, name: str) -> bytes | None:
        """What is kept beside the log."""

    def has_any_key(self, session: str, keys: Sequence[str]) -> bool: ...

    def expect(self, session: str, keys: Iterable[str]) -> None:
        """These will be asked for, one by one."""

    def missing(self, session: str, events: Sequence[Event]) -> list[Event]:
        """Those of these events of one session that have no row, in the order given."""

    def insert(self, events: Sequence[Event]) -> None:
        """New events of one session: they arrive in this order."""

    def add_words(self, session: str, words: list[str]) -> None: ...

    def save(self, session: str, version: int, summary: SessionSummary, *, anew: bool) -> None:
        """`anew`: it is not only what was there with something added at its end."""

    def only_added(self, session: str, version: int) -> bool:
        """Whether everything since this version came in at the end of the log; False where that is not known."""

    def save_names(self, session: str, summary: SessionSummary, aliases: Iterable[str]) -> None:
        """What a session is found by: its project, when it was created, its aliases. Rarely changes."""

    def save_snapshot(
        self, session: str, snapshot: StoredState, clock: int, keep: Callable[[list[int]], set[int]]
    ) -> None:
        """Add one, and keep of the older ones those whose counts `keep` returns."""

    def drop_snapshots(self, session: str, clock: int) -> None:
        """Those at or after this clock: a late event makes them wrong."""

    def mark_duplicates(self, session: str) -> bool:
        """Of events with one key, mark all but the first by written clock; says whether one stopped counting."""

    def drop_words(self, session: str) -> None: ...

    def erase_data(self, session: str, hashes: Iterable[str] | None) -> bool:
        """Drop data and salt of these events, or of all but the deletion; and all that was derived from them.

        Says whether there was any data left to drop: if not, nothing derived from it was left either.
        """
