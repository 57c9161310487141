"""The tables that the journal needs from a kind of store, and what they hold besides events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from holdfast.core import times, view
from holdfast.core.envelope import Event
from holdfast.core.state import State
from holdfast.core.text import MAX_TEXT_LENGTH

# ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────


SNAPSHOT_EVERY = 32  # events, or more for a large state: writing it must stay small beside the events
BYTES_PER_EVENT = 512


class StoredState(NamedTuple):
    events: int
    frozen: bytes


def is_due(since: int, size: int) -> bool:
    """Whether to make a snapshot: `since` events after the last one, of `size` bytes."""
    return since >= max(SNAPSHOT_EVERY, size // BYTES_PER_EVENT)


def snapshots_to_keep(counts: list[int]) -> set[int]:
    """The snapshots to keep: the newest, and older ones at ever larger distances."""
    newest, *older = sorted(counts, reverse=True)
    chosen, distance = {newest}, 0
    for count in older:
        if newest - count >= 2 * distance:
            chosen.add(count)
            distance = newest - count
    return chosen


# ── summaries ────────────────────────────────────────────────────────────────────────────────────────────


class SessionSummary(NamedTuple):
    """What listings show of a session, as of its last event: a listing does not change by itself.

    Each field is a column of `sessions`, in every kind of store: what reads and writes it follows from here.
    """

    # These have indexes, and are written apart from the others, when they change.
    project: str
    created_at: int
    # These are written with every event.
    updated_at: int
    ended_at: int | None
    goal: str
    status: str
    progress: float
    name: str
    device: str | None
    working_ms: int
    archived: bool | None
    deleted: bool


NUMBER_INDEXED = 2
WRITTEN_COLUMNS = SessionSummary._fields[NUMBER_INDEXED:]


def summary(state: State) -> SessionSummary:
    """Its values stay within bounds, whatever the events say: a server refuses rows beyond them."""
    project, deleted, ended = state.project, state.deleted, view.ended_at(state)
    device = view.device_of(state)
    return SessionSummary(
        project=project.id if project and view.is_lookup_name(project.id) else "",
        created_at=_moment(state.created_at if state.created_at is not None else state.updated_at),
        updated_at=_moment(state.updated_at),
        ended_at=None if ended is None else _moment(ended),
        goal="" if deleted else (view.text_value(state, "goal") or "")[:MAX_TEXT_LENGTH],
        status=view.shown_status(state),
        progress=view.progress_of(state),
        name=project.name[:MAX_TEXT_LENGTH] if project and not deleted else "",
        device=None if device is None else device[:MAX_TEXT_LENGTH],
        working_ms=min(max(view.worktime(state, state.updated_at).working, 0), times.LATEST - times.EARLIEST),
        archived=state.archived,
        deleted=deleted,
    )


def _moment(ms: int) -> int:
    return min(max(ms, times.EARLIEST), times.LATEST)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────


class Tables(Protocol):
    """Called within a transaction that the store has opened."""

    def version(self, session: str) -> int:
        """How often the session changed; 0 when it is unknown, negative when all its events were withdrawn."""

    def snapshots(self, session: str) -> Iterable[StoredState]:
        """Snapshots of this fold version, newest first."""

    def tail(self, session: str, clock: int) -> Iterable[tuple[Event, bool]]:
        """Events from this written clock on; True with those whose key an earlier event has."""

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]: ...

    def erasures(self, session: str) -> Iterable[Event]:
        """The erasures and deletions, in the same order, without those whose key an earlier event has."""

    def remove(self, events: Iterable[Event]) -> None:
        """Remove these rows; their places are not given out again."""

    def clear_places(self, session: str) -> None:
        """Make this session the current one of no work tree."""

    def has_key(self, session: str, key: str) -> bool: ...

    def recorded_by(self, session: str, key: str) -> set[str]:
        """The writers of the events with this key; on a server, only those recorded by the owner or the caller."""

    def remembered(self, name: str) -> bytes | None: ...

    def remember(self, name: str, value: bytes | None) -> None: ...

    def has_any_key(self, session: str, keys: Sequence[str]) -> bool: ...

    def expect(self, session: str, keys: Iterable[str]) -> None:
        """A hint that these keys will be looked up, one by one."""

    def missing(self, session: str, events: Sequence[Event]) -> list[Event]:
        """The events, all of one session, that have no row, in the order given."""

    def insert(self, events: Sequence[Event]) -> None:
        """Insert new events of one session, which arrive in this order."""

    def add_words(self, session: str, words: list[str]) -> None: ...

    def save(self, session: str, version: int, summary: SessionSummary, *, rebuilt: bool) -> None:
        """Store the summary. `rebuilt`: something other than adding events at the end happened."""

    def only_added(self, session: str, version: int) -> bool:
        """Whether everything since this version was added at the end of the log; False where that is unknown."""

    def save_names(self, session: str, summary: SessionSummary, aliases: Iterable[str]) -> None:
        """Store what a session is looked up by: project, creation, aliases. Rarely changes."""

    def save_snapshot(
        self, session: str, snapshot: StoredState, clock: int, keep: Callable[[list[int]], set[int]]
    ) -> None:
        """Add a snapshot, and keep of the older ones those whose counts `keep` returns."""

    def drop_snapshots(self, session: str, clock: int) -> None:
        """Drop snapshots at or after this clock: a late event makes them wrong."""

    def mark_duplicates(self, session: str) -> bool:
        """Mark all events with the same key but the first by written clock; True if one stopped counting."""

    def drop_words(self, session: str) -> None: ...

    def erase_data(self, session: str, hashes: Iterable[str] | None) -> bool:
        """Drop data and salt of these events, or of all but the deletion, and everything derived from them.

        False if there was no data to drop: then nothing derived from it is left either.
        """
