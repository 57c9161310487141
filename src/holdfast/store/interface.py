"""The contract that every kind of store keeps.

A store holds the log (immutable events) and what is derived from it (states, listings, the search index), which can
be rebuilt. Acknowledged means durable: when a transaction's block is left without an exception, its events survive
`kill -9` and a power cut; when it is left with one, nothing of it happened.

Every implementation passes `holdfast.store.conformance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias

from holdfast.core.envelope import Event
from holdfast.core.events import EventData, ProjectFacts
from holdfast.core.model import Row
from holdfast.core.state import State

# The name in a store's memory for the place (a decimal number) after which events from elsewhere arrived. Whoever has
# processed them removes it.
UNSEEN = "arrivals/unseen"
# The hint for a server that does not answer, also for those who ran no command.
AWAY = "Try again when the server is back; hooks keep storing payloads meanwhile."


class Draft(NamedTuple):
    """An event before it has its place in a stream."""

    data: EventData
    at: int
    actor: str
    key: str | None = None


class ListedProject(NamedTuple):
    """A project under one of its ids, and how many sessions it has."""

    id: str
    name: str
    sessions: int


class Filter(NamedTuple):
    """Which sessions a listing shows. Results come newest first: by creation, then by id."""

    # Sessions of these projects: devices that had not met may have given one repository several ids.
    projects: tuple[str, ...] | None = None
    search: str | None = None
    status: str | None = None
    since: int | None = None
    limit: int | None = None
    # Only what follows this session in a listing: when it was created, and its id.
    before: tuple[int, str] | None = None
    unfinished: bool = False
    # Of projects with this name.
    name: str | None = None
    # Only archived sessions, or only the others.
    archived: bool | None = None
    # Sessions that ended this long before `now` count as archived.
    now: int = 0
    archive_after: int | None = None


class Damage(NamedTuple):
    """A finding of a check of the store."""

    check: str
    detail: str
    session: str | None = None


class Arrival(NamedTuple):
    """An event and its place in the order in which events reached this store. Places only grow."""

    place: int
    event: Event


class KnownProject(NamedTuple):
    """A project as a store knows it, with the evidence by which it is found again: pairs of kind and value."""

    id: str
    name: str
    evidence: tuple[tuple[str, str], ...]


class LocalState(NamedTuple):
    """Everything that is not in the log, as of one time: what belongs to this machine, and evidence of projects."""

    # Work trees, and their current sessions.
    places: dict[str, str]
    projects: list[KnownProject]
    memory: dict[str, bytes]
    # The names (`checks.missing_event_name`) of events that a repair could not bring back.
    missing_events: frozenset[str] = frozenset()


# What identifies an event's row among those of its session.
RowKey: TypeAlias = tuple[int, str]


def row_key(event: Event) -> RowKey:
    return event.clock, event.hash


class UnsoundEvents(NamedTuple):
    """Events that other people recorded in a session and that no copy takes over, and why."""

    reason: str
    rows: frozenset[RowKey]


class NotCopied(NamedTuple):
    """A session that was not copied, or not as a whole, and why; its goal, where that is known."""

    session: str
    reason: str
    goal: str | None = None


class CopyResult(NamedTuple):
    """How many sessions the target now has in full, and how many events were new."""

    sessions: int
    events: int
    left_out: tuple[NotCopied, ...] = ()


class ShareGrant(NamedTuple):
    """Whom a session is shared with, None for every member of its vault, and whether they may write."""

    person: str | None
    writes: bool


class StoreInfo(NamedTuple):
    """What a store is. For a file, what only servers have is None; sizes of a server cover all its vaults."""

    # The version of its tables.
    version: int | None = None
    # On a server an estimate, None before it has one.
    events: int | None = None
    bytes: int | None = None
    server: str | None = None
    vault: str | None = None
    person: str | None = None
    partitions: int | None = None
    # Whether row-level security does not bind this person.
    above: bool | None = None
    # Whether the connection stays within this machine; whether it is encrypted, and the server proved who it is.
    local: bool | None = None
    encrypted: bool | None = None
    proven: bool | None = None


class Team(Protocol):
    """The people of a store on a server, and whom sessions are shared with. Only its owner shares a session."""

    def people(self) -> list[str]:
        """Everybody in the vault."""

    def shares(self, session: str) -> list[ShareGrant]:
        """Whom a session is shared with, every member first. Only the owner sees other people's shares."""

    def share(self, session: str, person: str | None, writes: bool) -> None:
        """Let another member, or every member, read a session, or write to it too. The last call counts."""

    def unshare(self, session: str, person: str | None) -> None:
        """Take a share back. The share with every member and those with single members are independent."""


# Returns why the events of a session are not taken over; None when they are.
RefusalCheck: TypeAlias = Callable[[str, Iterable[Event]], str | None]


class ChangeListener(Protocol):
    """Waits for the store to report changes, in place of polling."""

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; True when something may have changed since the last call."""

    def close(self) -> None: ...


class Transaction(Protocol):
    """A write transaction: one at a time in the whole store. States read here stay current until its end."""

    def writer(self) -> str:
        """The writer whose stream this transaction appends to."""

    def state(self, session: str) -> State:
        """The state of a session, empty when it has no events. Only `record` may change it."""

    def record(self, session: str, draft: Draft) -> Event | None:
        """Append one event to this writer's stream; None when its key is recorded already."""

    def knows(self, session: str, key: str) -> bool:
        """Whether an event with this key is recorded in the session."""

    def expect(self, session: str, keys: Iterable[str]) -> None:
        """A hint that these keys will be looked up or recorded, so that a server is asked once for all of them."""

    def receive(self, events: Iterable[Event], *, own_only: bool = False) -> int:
        """Add events of other writers (or one's own, restored), in any order; returns how many were new.

        Events that the log erases come in without their data. The place after which something came in is remembered
        as `UNSEEN`. With `own_only`, nothing is added to a session that belongs to another person here, even if they
        let others write to it: then everything is `Refused`.
        """

    def set_current(self, place: str, session: str | None) -> None:
        """Set the current session of a work tree. Local: never part of the log."""

    def remember_project(self, project: ProjectFacts) -> None:
        """Store a project and the evidence by which it is found again."""

    def remember_evidence(self, known: KnownProject) -> None:
        """Store a project and its evidence as another store had them; what is known already stays."""

    def changed(self) -> frozenset[str]:
        """The sessions that the transaction changed, once it is over."""

    def remembered(self, name: str) -> bytes | None:
        """The value stored under this name, as this transaction sees it."""

    def remember(self, name: str, value: bytes | None) -> None:
        """Store a small value outside of the log, or remove it, atomically with the events of this transaction."""

    def record_missing(self, session: str, names: Iterable[str]) -> None:
        """Note events that a repair elsewhere could not bring back; sessions of other people are left alone."""

    def withdraw(self, session: str, after: Mapping[str, int]) -> list[Event]:
        """Remove each writer's events beyond its number from the log, as if they had never arrived; returns them,
        stream by stream.
        """


class Store(Protocol):
    """One open store."""

    url: str

    @property
    def team(self) -> Team | None:
        """The people of the store; None where it belongs to one person."""

    def describe(self) -> StoreInfo:
        """What the store is."""

    def transaction(
        self, *, patience: float | None = None, about: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """The right to write. `patience` limits how many seconds to wait for others (then `Busy`). `about` names the
        session it is about, if known, which saves a round trip to a server.
        """

    def state(self, session: str) -> State | None:
        """The present state; None when the store knows no such session."""

    def events(self, session: str, *, since: int = 0) -> Iterator[Event]:
        """The events of a session in log order, duplicates of keys included; all, or from an effective clock on."""

    def rows(self, which: Filter) -> list[Row]: ...

    def projects(self) -> list[ListedProject]:
        """The projects that have sessions, by name."""

    def versions(self, of: Sequence[str] | None = None) -> dict[str, int]:
        """Every listed session, or those given, with a number that differs after every change."""

    def sessions(self) -> Iterator[str]:
        """The id of every session, deleted ones included, in order of creation."""

    def find(self, reference: str) -> list[str]:
        """Ids of the sessions that a UUID, a prefix of one, or an alias could mean."""

    def own_id(self, session: str) -> str:
        """The id under which to record a session made from a document that implies `session`.

        It is `session` itself, unless that id belongs to another owner here, shared or not: then one that no other
        owner can have, the same each time.
        """

    def current(self, place: str) -> str | None: ...

    def places(self, session: str) -> list[str]:
        """The work trees whose current session this is."""

    def projects_with(self, kind: str, value: str) -> list[str]:
        """Ids of the projects with this piece of evidence; kinds are `path`, `remote` and `root`."""

    def evidence(self, project: str) -> list[tuple[str, str]]:
        """The evidence of a project: pairs of kind and value."""

    def remembered(self, name: str) -> bytes | None:
        """The value that a transaction stored under this name."""

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        """All values whose names begin with the prefix, in order of the names."""

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        """At most `limit` events in the order in which they reached this store, from behind a place."""

    def latest_place(self) -> int:
        """The place of the event that arrived last; 0 while there is none."""

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        """A part of one stream, in its order; numbers that are missing are left out."""

    def version(self) -> int:
        """Differs after any change by another connection; cheap to ask."""

    def local_state_version(self) -> str:
        """Differs after any change of the local state."""

    def local_state(self) -> LocalState:
        """The local state, which a copy takes over together with the log."""

    def listen(self) -> ChangeListener | None:
        """Waits for changes from now on; None where a store cannot, and `version` has to be polled."""

    def latest_time(self) -> int | None:
        """The time of the event recorded last, from which a machine with a broken clock can go on."""

    def erase(self, session: str, deletion: Draft) -> None:
        """Record the deletion of a session and carry it out: none of its text is left in any file."""

    def is_own_stream(self, session: str, writer: str) -> bool:
        """Whether the caller recorded all events of this stream, as far as the store tells people apart."""

    def is_read_only(self, session: str) -> bool:
        """Whether somebody shares the session with the caller for reading only."""

    def may_repair(self, session: str) -> bool:
        """Whether the caller repairs damage to the session; False where it belongs to somebody else."""

    def unsound(self, session: str) -> UnsoundEvents | None:
        """The events of other people that no copy takes over: in each stream, everything by the same person from
        their first event on that is damaged or erases what is not theirs. None where there is no such event.
        """

    def backup(self, path: str) -> tuple[NotCopied, ...]:
        """Write a copy that `restore` can read, never over an existing file; returns what is not in it.

        It is complete except for damaged sessions of others, and what is `unsound`.
        """

    def restore(self, path: str, refuses: RefusalCheck = lambda _session, _events: None) -> CopyResult:
        """Add the events of a backup that this store lacks, except where others own the session, or `refuses` gives a
        reason against it.
        """

    def check(self) -> Iterator[Damage]:
        """Everything that is wrong: files, chains, states, listings, search."""

    def repair(self) -> list[str]:
        """Rebuild what is derived and set damaged events aside; returns sentences about what was done and lost."""

    def close(self) -> None: ...
