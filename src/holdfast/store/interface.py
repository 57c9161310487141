"""What a store is: the contract every kind of store keeps, in the words of the log.

A store holds the log (events, immutable) and what is derived from it (states, listings, the search index, all of
which can be rebuilt). Acknowledged means durable: when a transaction's block is left without an exception, its
events survive `kill -9` and a power cut; when it is left with one, nothing of it happened.

Whatever implements this passes `holdfast.store.conformance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeAlias

from holdfast.core.envelope import Event
from holdfast.core.events import EventData, ProjectFacts
from holdfast.core.model import Row
from holdfast.core.state import State

# In its memory a store notes here after which place events came in from elsewhere (a decimal number). Whoever looks
# through them takes the note away.
UNSEEN = "arrivals/unseen"
# What to do about a server that is away. Not everybody who meets it ran a command.
AWAY = "When the server is back, it goes on; hooks keep handing over meanwhile."


class Draft(NamedTuple):
    """An event before it has its place in a stream."""

    data: EventData
    at: int
    actor: str
    key: str | None = None


class ListedProject(NamedTuple):
    """A project under one of its ids, and how many sessions there are of it."""

    id: str
    name: str
    sessions: int


class Filter(NamedTuple):
    """Which sessions a listing shows. Results come newest first: by creation, then by id."""

    # Of one of these projects: one repository may have been given several ids, on devices that had not met.
    projects: tuple[str, ...] | None = None
    search: str | None = None
    status: str | None = None
    since: int | None = None
    limit: int | None = None
    # Only what comes after this session in a listing: when it was created, and its id.
    before: tuple[int, str] | None = None
    unfinished: bool = False
    # Of projects of this name.
    name: str | None = None
    # Only what is archived, or only what is not.
    archived: bool | None = None
    # With a moment: sessions that ended this long before it count as archived.
    now: int = 0
    archive_after: int | None = None


class Damage(NamedTuple):
    """What a check of the store found. `session` and `what` name the damage."""

    check: str
    detail: str
    session: str | None = None


class Arrival(NamedTuple):
    """An event and its place in the order in which this store got to know its events. Places only grow."""

    place: int
    event: Event


class KnownProject(NamedTuple):
    """A project as a store knows it, with every piece of evidence that finds it again: its kind, and its value."""

    id: str
    name: str
    evidence: tuple[tuple[str, str], ...]


class LocalState(NamedTuple):
    """All that stands beside the log, as of one moment: what is of this machine, and how projects are found."""

    # Work trees, and the sessions they are at.
    places: dict[str, str]
    projects: list[KnownProject]
    memory: dict[str, bytes]
    # The names (`derived.aside`) of events that a repair could not bring back.
    missing_events: frozenset[str] = frozenset()


# An event as a row of a store: no two rows of a session have the same.
RowKey: TypeAlias = tuple[int, str]


def row_key(event: Event) -> RowKey:
    return event.clock, event.hash


class UnsoundEvents(NamedTuple):
    """Events that other people put into a session and that no copy takes over, and why."""

    reason: str
    rows: frozenset[RowKey]


class NotCopied(NamedTuple):
    """A session that was not carried over, or not whole, and why; its goal, where that is known."""

    session: str
    reason: str
    goal: str | None = None


class CopyResult(NamedTuple):
    """What came over: sessions that are there now, as they are in the source, and events that were new."""

    sessions: int
    events: int
    left_out: tuple[NotCopied, ...] = ()


# Why the events of a session are not taken in from a backup; None when they are.
RefusalCheck: TypeAlias = Callable[[str, Iterable[Event]], str | None]


class ChangeListener(Protocol):
    """Is told by the store when somebody changed something, so that nobody has to look all the time."""

    def wait(self, timeout: float) -> bool:
        """Wait at most so many seconds; True when something may have changed since this was asked last."""

    def close(self) -> None: ...


class Transaction(Protocol):
    """The right to write: one at a time in the whole store. States read here are current until the end."""

    def writer(self) -> str:
        """The id under which this transaction records."""

    def state(self, session: str) -> State:
        """The state of a session, empty when it has no events. Do not change it: `record` does."""

    def record(self, session: str, draft: Draft) -> Event | None:
        """Append one event to this writer's stream; None when its key is recorded already."""

    def knows(self, session: str, key: str) -> bool:
        """Whether an event with this key is recorded in the session."""

    def expect(self, session: str, keys: Iterable[str]) -> None:
        """These keys will be asked for, or recorded with: where that is far away, they are looked up all at once."""

    def receive(self, events: Iterable[Event], *, own_only: bool = False) -> int:
        """Take in events of other writers (or one's own, restored), whatever their order; says how many were new.

        What an erasure or deletion in the log covers comes in without its data. From which place on something came in
        is remembered as `UNSEEN`. With `own_only` nothing is added to a session that is another person's here, also
        where they let others write to it: then all of it is `Refused`.
        """

    def set_current(self, place: str, session: str | None) -> None:
        """Point a work tree at its current session. Local: never part of the log."""

    def remember_project(self, project: ProjectFacts) -> None:
        """Remember a project and the evidence that finds it again."""

    def remember_evidence(self, known: KnownProject) -> None:
        """Remember a project and evidence of it as another store had them; what is known already stays."""

    def changed(self) -> frozenset[str]:
        """The sessions that it changed, once it is over."""

    def remembered(self, name: str) -> bytes | None:
        """What is kept under this name, as this transaction has it."""

    def remember(self, name: str, value: bytes | None) -> None:
        """Keep something small beside the log, or nothing any more; it stands or falls with the events around it."""

    def record_missing(self, session: str, names: Iterable[str]) -> None:
        """Note that a repair, elsewhere, could not bring these back; a session of somebody else is left as it is."""

    def withdraw(self, session: str, after: Mapping[str, int]) -> list[Event]:
        """Take the events of these writers beyond a number each out of the log, as if they had never arrived; gives
        them, stream by stream.
        """


class Store(Protocol):
    """Where log and states live."""

    url: str

    def transaction(
        self, *, patience: float | None = None, about: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """The right to write. Who has little time says how many seconds others may keep it waiting (then: `Busy`).
        `about` is the session that it will be about, where that is known: a server is asked once less.
        """

    def state(self, session: str) -> State | None:
        """The present state; None when the store knows no such session."""

    def events(self, session: str, *, since: int = 0) -> Iterator[Event]:
        """The events of a session in log order, duplicates of a key included; all, or from an effective clock on."""

    def rows(self, which: Filter) -> list[Row]: ...

    def projects(self) -> list[ListedProject]:
        """The projects that sessions are of, by name."""

    def versions(self, of: Sequence[str] | None = None) -> dict[str, int]:
        """Every session that listings show, or of these, with a number that is another one after every change."""

    def sessions(self) -> Iterator[str]:
        """The id of every session, deleted ones included, in order of creation."""

    def find(self, reference: str) -> list[str]:
        """Ids of sessions that a UUID, a prefix of it, or an alias could mean."""

    def own_id(self, session: str) -> str:
        """The id under which to record what is made of a document, given the one that follows from the document: the
        same, unless a session of that id is somebody else's here, whether they share it or not. Then one that nobody
        else can have taken, the same each time.
        """

    def current(self, place: str) -> str | None: ...

    def places(self, session: str) -> list[str]:
        """The work trees that are at a session."""

    def projects_with(self, kind: str, value: str) -> list[str]:
        """Ids of projects with this piece of evidence: `path`, `remote`, `root`."""

    def evidence(self, project: str) -> list[tuple[str, str]]:
        """Every piece of evidence of a project: its kind, and its value."""

    def remembered(self, name: str) -> bytes | None:
        """What a transaction kept under this name."""

    def remembered_under(self, prefix: str) -> dict[str, bytes]:
        """Everything kept under names that begin so, in order of the names."""

    def arrived(self, after: int, limit: int) -> list[Arrival]:
        """Events in the order in which they came into this store, those after a place; at most `limit`."""

    def latest_place(self) -> int:
        """The place of the event that arrived last; 0 while there is none."""

    def stream(self, session: str, writer: str, first: int, last: int) -> list[Event]:
        """A stretch of one stream, in its order; numbers that are not here are left out."""

    def version(self) -> int:
        """Differs from what it was whenever another connection changed anything in between; costs next to nothing."""

    def local_state_version(self) -> str:
        """Differs from what it was when something other than events did: where work trees are, what is kept."""

    def local_state(self) -> LocalState:
        """What `copying` carries to another store together with the log."""

    def listen(self) -> ChangeListener | None:
        """A line on which changes are told from now on; None where a store cannot, and `version` is asked instead."""

    def latest_time(self) -> int | None:
        """The time of the event recorded last: what a machine with a broken clock can go on from."""

    def erase(self, session: str, deletion: Draft) -> None:
        """Record the deletion of a session and make it true: nothing of its text is left in any file."""

    def is_own_stream(self, session: str, writer: str) -> bool:
        """Whether whoever asks put all events of this stream there, as far as the store keeps persons apart."""

    def is_read_only(self, session: str) -> bool:
        """Whether somebody shares it with whoever asks, and not for writing."""

    def may_repair(self, session: str) -> bool:
        """Whether damage to it is for whoever asks to mend; False where it is somebody else's."""

    def unsound(self, session: str) -> UnsoundEvents | None:
        """What others put into a session and no copy takes over: in each stream all that the same person put there,
        from the first event on that is damaged, or erases what is not theirs. None where there is no such event.
        """

    def backup(self, path: str) -> tuple[NotCopied, ...]:
        """Write a copy that `restore` can read, never over an existing file; says what is not in it.

        Complete, but for sessions of others that are damaged, and for what is `unsound`.
        """

    def restore(self, path: str, refuses: RefusalCheck = lambda _session, _events: None) -> CopyResult:
        """Unite with a backup: events it has and this store lacks are added, but for what is not ours to write, and
        sessions that `refuses` gives a reason for.
        """

    def check(self) -> Iterator[Damage]:
        """Everything that is wrong: files, chains, states, listings, search."""

    def repair(self) -> list[str]:
        """Rebuild what is derived, set damaged events aside; says in sentences what was done and what is lost."""

    def close(self) -> None: ...
