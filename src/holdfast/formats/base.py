"""The interface of a format, which all four implement.

A format reads documents that other programs wrote and writes documents they can read. Everything it does is pure:
documents are plain data (what JSON or YAML reads as, key order kept); files are the mirror's and the use cases' part.

Two functions carry the meaning. `render` shows a state as a document, as of the state's last event. `changes` returns
the events that lead from one document to another; from no document at all, that is an import. What a rendering cannot
show (unknown fields, the spelling of a time, the order of keys) is kept by `remainder`.

Every implementation passes `holdfast.formats.conformance`.
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


# Suffix of the key that keeps a value which a format cannot use, or entries of a list as they were written.
KEPT_SUFFIX: Final = "_as_found"


class Problem(NamedTuple):
    """What is wrong with a document, and where."""

    place: Place
    message: str
    severity: Severity = "error"


class FormatNote(NamedTuple):
    """An assumption or a loss, and where."""

    place: Place
    message: str


class RepairedDocument(NamedTuple):
    """A document as the specification requires it, with notes on what was assumed."""

    document: Document
    notes: list[FormatNote]


class TimedEvent(NamedTuple):
    """An event and its time."""

    at: int
    data: EventData


class ImportContext(NamedTuple):
    """What a document does not say: the project, the device, the clock and the zone of the import."""

    project: ProjectFacts
    device: str
    now: int
    # The local zone's offset from UTC at a time, for times without a zone.
    offset: Callable[[int], timedelta]
    # Thresholds of work time for a session that starts here.
    timer: TimerRules = TimerRules()
    # Settings of the format: for contract, the names of other models.
    models: Mapping[str, str] = {}
    # Tasks of the session that the document belongs to, which it may name without listing; None without a session.
    tasks: Collection[str] | None = None
    # When the mirrored file was changed; None if the document is not from one.
    edited: int | None = None


_NUMBER: Final = re.compile(r"\s*v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?\s*\Z", re.ASCII)


class Format(ABC):
    """One of the four published layouts."""

    name: ClassVar[str]
    # Its own title, and the version that Holdfast writes.
    title: ClassVar[str]
    version: ClassVar[str]
    # Its kinds of file, named like the schemas: one, except for contract.
    kinds: ClassVar[tuple[str, ...]]
    # Lists whose entries have an identity: the place of the list (`*` for any position or key), and the keys that
    # identify an entry; no keys if the whole entry is its identity.
    identities: ClassVar[Mapping[Place, tuple[str, ...]]]
    # Places derived from others: written by Holdfast, never imported as a change.
    derived: ClassVar[frozenset[Place]]
    # Derived places with the project's path on this device: they do not distinguish versions.
    located: ClassVar[frozenset[Place]] = frozenset()
    # Times that both sides may change; the later one wins.
    latest: ClassVar[frozenset[Place]] = frozenset()
    # Derived places whose editor is notified when they differ from the derived value.
    checked: ClassVar[frozenset[Place]] = frozenset()
    # The key for the time a document was last written, if any: a document older than its base version is not an edit.
    written_at: ClassVar[str | None] = None
    # Places whose kept spelling holds only until the next event, such as the device that acted last.
    passing: ClassVar[frozenset[Place]] = frozenset()
    # Where `convert --carry` keeps what other formats say: the place of an object that may have extra keys.
    carries_at: ClassVar[Place] = ("x-holdfast",)

    @abstractmethod
    def detects(self, value: Json) -> str | None:
        """The kind of file, by its shape alone; None when it is not of this format."""

    @abstractmethod
    def problems(self, value: Json, kind: str) -> list[Problem]:
        """Everything the specification does not allow in a file of this kind. Strict."""

    def broken(self, value: Json, kind: str) -> list[Problem]:
        """The problems except those of mere spelling: what an import must repair or refuse."""
        return self.problems(value, kind)

    @abstractmethod
    def is_sound(self, raw: bytes, kind: str) -> bool:
        """A quick check of JSON text: True only if `problems` would find nothing. May return False at any time."""

    @abstractmethod
    def repair(self, value: Json, context: ImportContext) -> RepairedDocument:
        """The document with known deviations repaired. Raises `Invalid` when that is impossible."""

    @abstractmethod
    def alias(self, document: Document) -> str:
        """The id by which the document names its session."""

    @abstractmethod
    def changes(
        self, before: Document | None, after: Document, state: State | None, context: ImportContext
    ) -> list[TimedEvent]:
        """The events that lead from one (repaired) document to another, oldest first.

        Without `before`, all of the document, `SessionStarted` first. With it, `state` is the session's present state
        and `before` its rendering. Differences in derived fields alone are no change.
        """

    def counted(
        self,
        before: Document,  # noqa: ARG002
        after: Document,  # noqa: ARG002
        state: State,  # noqa: ARG002
        context: ImportContext,  # noqa: ARG002
    ) -> list[TimedEvent]:
        """The working time counted by the program that made `after` from `before`, if the format keeps time."""
        return []

    @abstractmethod
    def render(self, state: State) -> Document:
        """The state as a document, as of its last event."""

    def with_sync(self, document: Document, facts: SyncFacts) -> Document:  # noqa: ARG002
        """A rendering with the session's sync status, if the format has fields for it."""
        return document

    def with_path(self, document: Document, path: str) -> Document:  # noqa: ARG002
        """A rendering with the project's path on this device, if the format has a field for it."""
        return document

    @abstractmethod
    def field(self, place: Place, value: Json) -> tuple[str, Json] | None:
        """The canonical field (`goal`, `agents.ID.status`) for a place, and the canonical value."""

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def files(self, document: Document) -> list[tuple[str, Json]]:
        """The files of a document, each with its kind: one, except for contract."""
        return [(self.kinds[0], document)]

    def single_file(self, document: Document) -> Document:
        """The part of a document that one file can hold: all of it, except for contract."""
        return document

    # ── text ─────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, document: Document) -> bytes:
        """The document as a file: JSON by default."""
        from holdfast.formats.text.json import render_json

        return render_json(document)


# ── versions of layouts ──────────────────────────────────────────────────────────────────────────────────


def version_parts(version: Json) -> tuple[int, ...] | None:
    """A version as three numbers, 0 for missing ones; None when it is not a version."""
    if isinstance(version, bool) or not isinstance(version, (str, int, float)):
        return None
    match = _NUMBER.match(str(version))
    return None if match is None else tuple(int(group or 0) for group in match.groups())


def is_newer(version: Json, known: str) -> bool:
    """Is the version newer in any part? Its changes are unknown here then."""
    parts, known_parts = version_parts(version), version_parts(known)
    return parts is not None and known_parts is not None and parts > known_parts
