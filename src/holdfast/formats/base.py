"""What a format is: the contract every one of the four keeps.

A format reads documents that other programs wrote and writes documents they can read. Everything it does is pure:
documents are plain data (what JSON or YAML reads as, key order kept), files are the business of `layout`, `mirror`
and the keeper.

Two functions carry the meaning. `render` shows a state as a document, as of the state's last event. `changes` says
which events lead from one document to another; from no document at all, that is an import. What a rendering cannot
show (unknown fields, the spelling of a time, the order of keys) is no business of either: `remainder` keeps it.

Whatever implements this passes `holdfast.formats.conformance`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

from holdfast.core.canonical import Json
from holdfast.core.events import EventData, ProjectFacts, TimerRules
from holdfast.core.model import SyncFacts
from holdfast.core.state import State

Severity = Literal["error", "warning"]
# A place in a document: keys and positions from the root.
Place: TypeAlias = tuple[str | int, ...]
Document: TypeAlias = dict[str, Json]


class Problem(NamedTuple):
    """What is wrong with a document, and where."""

    place: Place
    message: str
    severity: Severity = "error"


class FormatNote(NamedTuple):
    """An assumption made or a loss accepted, and where."""

    place: Place
    message: str


class TidyDocument(NamedTuple):
    """A document as the specification wants it, and what had to be assumed to get there."""

    document: Document
    notes: list[FormatNote]


class TimedEvent(NamedTuple):
    """Something a document tells: when it happened, and what."""

    at: int
    data: EventData


class ImportContext(NamedTuple):
    """What a document leaves open: where it is read, by whose clock, and in which project."""

    project: ProjectFacts
    device: str
    now: int
    # The local zone's offset from UTC at a moment: for times that name no zone.
    offset: Callable[[int], timedelta]
    # Thresholds of work time that a session begun here would have.
    timer: TimerRules = TimerRules()
    # Settings of the format: for contract, the name under which other models are mirrored.
    models: Mapping[str, str] = {}
    # Tasks of the session that a document is a version of, which it may name without listing them; None without one.
    tasks: Collection[str] | None = None
    # When somebody changed the mirrored file that a document is in; None where it is in no such file.
    edited: int | None = None


_NUMBER: Final = re.compile(r"\s*v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?\s*\Z", re.ASCII)


class Format(ABC):
    """One of the four published layouts."""

    name: ClassVar[str]
    # What it calls itself, and the version Holdfast writes.
    title: ClassVar[str]
    version: ClassVar[str]
    # Its kinds of file, as the schemas are named: one, except for contract.
    kinds: ClassVar[tuple[str, ...]]
    # Lists whose entries have an identity of their own: the place of the list (`*` for any position or key), and
    # the keys that identify an entry; no keys, when the entry is its own identity.
    identities: ClassVar[Mapping[Place, tuple[str, ...]]]
    # Places that follow from the others: written by Holdfast, never taken from a file as a change.
    derived: ClassVar[frozenset[Place]]
    # Derived places that say where the project is on this device: they tell no version from another.
    located: ClassVar[frozenset[Place]] = frozenset()
    # Times that both sides may move, and of which the later is true.
    latest: ClassVar[frozenset[Place]] = frozenset()
    # Places whose author is told when they differ from what follows from the others.
    checked: ClassVar[frozenset[Place]] = frozenset()
    # The key under which a document says when it was last written, if there is one: what is older than the version
    # that it was made from is no edit.
    written_at: ClassVar[str | None] = None
    # Places whose kept spelling holds only while nothing has happened since, such as the device that acted last.
    passing: ClassVar[frozenset[Place]] = frozenset()
    # Where what other formats say may ride along (`convert --carry`): the place of an object that may hold more.
    carries_at: ClassVar[Place] = ("x-holdfast",)

    @abstractmethod
    def detects(self, value: Json) -> str | None:
        """The kind of file this is, by its shape alone; None when it is not one of this format."""

    @abstractmethod
    def problems(self, value: Json, kind: str) -> list[Problem]:
        """Everything about a file of this kind that the specification does not allow. Strict."""

    def broken(self, value: Json, kind: str) -> list[Problem]:
        """The problems without those of mere spelling: what import has to put right, or cannot cope with."""
        return self.problems(value, kind)

    @abstractmethod
    def is_sound(self, raw: bytes, kind: str) -> bool:
        """A quick look at JSON text: True only when `problems` would find nothing. May say False at any time."""

    @abstractmethod
    def tidy(self, value: Json, context: ImportContext) -> TidyDocument:
        """The document with the deviations that are met in the wild put right. Raises `Invalid` when it cannot be."""

    @abstractmethod
    def alias(self, document: Document) -> str:
        """The id by which the document names its session."""

    @abstractmethod
    def changes(
        self, before: Document | None, after: Document, state: State | None, context: ImportContext
    ) -> list[TimedEvent]:
        """The events that lead from one (tidy) document to another, oldest first.

        Without `before`, everything the document tells, `SessionStarted` first. With it, `state` is the session's
        present state, `before` its rendering. What only derived fields say is no change.
        """

    def counted(
        self,
        before: Document,  # noqa: ARG002
        after: Document,  # noqa: ARG002
        state: State,  # noqa: ARG002
        context: ImportContext,  # noqa: ARG002
    ) -> list[TimedEvent]:
        """The working time that whoever made `after` from `before` counted, where the format keeps time."""
        return []

    @abstractmethod
    def render(self, state: State) -> Document:
        """The state as a document, as of its last event."""

    def with_sync(self, document: Document, travel: SyncFacts) -> Document:  # noqa: ARG002
        """A rendering that says how the session travels, where the format has words for that."""
        return document

    def with_path(self, document: Document, path: str) -> Document:  # noqa: ARG002
        """A rendering that says where the project is on this device, where the format has words for that."""
        return document

    @abstractmethod
    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        """The canonical field (`goal`, `agents.ID.status`) a place means, and the value in canonical words."""

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def files(self, document: Document) -> list[tuple[str, Json]]:
        """The files a document consists of, each with its kind: one, except for contract."""
        return [(self.kinds[0], document)]

    def single_file(self, document: Document) -> Document:
        """What of a document one file can hold: all of it, except for contract."""
        return document

    # ── text ─────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, document: Document) -> bytes:
        """The document as a file, JSON unless the format says otherwise."""
        from holdfast.formats.text.json import written

        return written(document)


# ── versions of layouts ──────────────────────────────────────────────────────────────────────────────────


def version_parts(version: Json) -> tuple[int, ...] | None:
    """A version as three numbers, 0 for those it leaves out; None when it is no version."""
    if isinstance(version, bool) or not isinstance(version, (str, int, float)):
        return None
    found = _NUMBER.match(str(version))
    return None if found is None else tuple(int(group or 0) for group in found.groups())


def is_newer(version: Json, known: str) -> bool:
    """Newer in any part: what it changed, nobody here can know."""
    one, other = version_parts(version), version_parts(known)
    return one is not None and other is not None and one > other
