"""Where each format keeps its files in a work tree, and which of them show a session.

A layout is pure, except for `gather`, which reads the document a file belongs to. A new format's layout is one class
here (or in a separate package, like contract's) and one line in `LAYOUTS`.
"""

from __future__ import annotations

import os
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.envelope import Event
from holdfast.core.errors import Invalid
from holdfast.core.lifecycle import FINISHED
from holdfast.core.model import Row, SyncFacts
from holdfast.core.state import State
from holdfast.formats import registry
from holdfast.formats.base import Document, Format, Place
from holdfast.formats.craft import fields as craft_fields
from holdfast.formats.mirror.fingerprint import hash_of
from holdfast.formats.mirror.fingerprint import read as read_file
from holdfast.formats.mirror.state import WrittenFile
from holdfast.formats.remainder import render_with_remainder
from holdfast.formats.text.read import read

_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,120}\Z")


class ShownSession(NamedTuple):
    """A session shown in a work tree, and whether it is the current one there."""

    state: State
    current: bool
    # Its events from a clock on, in log order.
    events: Callable[[int], Iterable[Event]] = lambda _: ()
    # How it is synced; asked only when a file is written.
    sync_facts: Callable[[], SyncFacts | None] = lambda: None
    # Where its project is on this device; asked only when a file that says so is written.
    path: Callable[[], str | None] = lambda: None

    @property
    def as_of(self) -> str:
        """The session's last event."""
        return self.state.last[3] if self.state.last else ""

    @property
    def unfinished(self) -> bool:
        return view.status_of(self.state) not in FINISHED


class WantedFile(NamedTuple):
    """What a file should contain, and of which session; no session if it is derived from several.

    No data for a file that is up to date.
    """

    session: str
    data: bytes | None
    # The hash of the file that the data was merged into; "" if there was none.
    merged: str = ""


class MirrorLayout(ABC):
    name: ClassVar[str]
    # Files that another program may create at any time, and folders of such files.
    fixed: ClassVar[tuple[str, ...]] = ()
    folders: ClassVar[tuple[str, ...]] = ()
    # What git must ignore, if the specification wants its files out of the repository.
    ignored: ClassVar[tuple[str, ...]] = ()
    # Files that list the sessions, in which other programs may list theirs.
    indexes: ClassVar[tuple[str, ...]] = ()
    # Whether another program stops the session by deleting its file.
    deleting_stops: ClassVar[bool] = False
    # Whether its files say how a session is synced, which changes without any event in the session.
    shows_sync_facts: ClassVar[bool] = False
    # Whether a session stays in the file another program started it in, whatever its name.
    keeps_file_names: ClassVar[bool] = False
    # Whether `update_files` writes the files, rather than the caller of `wanted`.
    writes_itself: ClassVar[bool] = False

    def __init__(self, models: Mapping[str, str] | None = None) -> None:
        """`models`: names for models that a format has no name for."""
        self.models = models or {}

    @property
    def rules(self) -> Format:
        return registry.format_named(self.name)

    def notes(self, session: ShownSession) -> list[str]:  # noqa: ARG002
        """What is shown differently than it is, to be reported once."""
        return []

    @abstractmethod
    def holds(self, path: str) -> bool:
        """Whether this file, by its path in the tree, could be (part of) a session's document."""

    @abstractmethod
    def wanted(
        self,
        root: str,
        sessions: Sequence[ShownSession],
        unchanged: Mapping[str, WrittenFile],
        known: Mapping[str, WrittenFile],
    ) -> dict[str, WantedFile]:
        """Every file of these sessions, by its path in the tree.

        `known` are all files written before, `unchanged` those of them that are unchanged since.
        """

    def usual_path(self, document: Document) -> str:
        """The path of a document's session, in layouts that keep file names."""
        raise NotImplementedError

    def check_index(self, path: str, data: bytes) -> None:  # noqa: B027
        """Raise `Invalid` if one of `indexes` contains something that entries cannot be merged into."""

    def listed(self, root: str) -> list[str]:
        """The files that are in its folders now."""
        return [f"{folder}/{name}" for folder in self.folders for name in _names(absolute_path(root, folder))]

    def content(self, root: str, path: str) -> bytes:
        return read_file(absolute_path(root, path))

    def gather(self, root: str, path: str, data: bytes) -> list[tuple[str, Json]]:  # noqa: ARG002
        """The documents that a file with this content is (part of), each with the path that identifies its session.

        Raises `Invalid` if it is not a document.
        """
        return [(path, read(data, path).value)]

    def gather_displaced(self, root: str, path: str, data: bytes) -> list[tuple[str, Json]]:
        """Like `gather`, for content that another program had at a path until our write replaced it."""
        return self.gather(root, path, data)

    def is_torn(self, path: str, data: bytes) -> bool:
        """Whether somebody could be in the middle of writing this file."""
        try:
            read(data, path)
        except Invalid:
            return True
        return False

    def file_with(self, path: str, place: Place) -> str:  # noqa: ARG002
        """The file that contains a place of the document whose session `path` identifies."""
        return path

    def may_be_set_aside(self, path: str) -> bool:  # noqa: ARG002
        """Whether the file may be set aside if it breaks the rules."""
        return True

    def is_shared(self, path: str, data: bytes) -> bool:  # noqa: ARG002
        """Whether several sessions, perhaps of other programs too, are in this file and can still be separated."""
        return False

    def salvage_entries(self, path: str, data: bytes) -> bytes | None:  # noqa: ARG002
        """What stays of a file that was set aside: entries of others that can still be read."""
        return None

    def update_files(
        self,
        root: str,
        due: Sequence[ShownSession],
        known: Mapping[str, WrittenFile],
        displaced: Callable[[str, str], bool],
    ) -> dict[str, WrittenFile]:
        """For layouts that write their files themselves, under their own locks: how each file was left.

        `displaced` gets a path and where to find what is or was there, and returns whether it is new. The result has
        the hash of what was written; for a file that is only appended to, its size instead.
        """
        raise NotImplementedError

    def erase(
        self,
        root: str,
        feature_ids: Collection[str],
        known: Mapping[str, WrittenFile],
        displaced: Callable[[str, str], bool],
    ) -> dict[str, WrittenFile]:
        """For the same layouts: remove what is left of deleted sessions. Returns the files this changed."""
        raise NotImplementedError

    def written(self, session: ShownSession) -> tuple[Document, bytes]:
        path = session.path() if self.rules.located else None
        document = render_with_remainder(session.state, self.rules, session.sync_facts(), path)
        return document, self.rules.write(document)


class OrchestratorLayout(MirrorLayout):
    name = "orchestrator"
    current = ".claude/orchestrator-session.json"
    archive = ".claude/orchestrator-history"
    fixed = (current,)
    folders = (archive,)

    def holds(self, path: str) -> bool:
        return path == self.current or _is_json_in(path, self.archive)

    def wanted(
        self,
        root: str,  # noqa: ARG002
        sessions: Sequence[ShownSession],
        unchanged: Mapping[str, WrittenFile],
        known: Mapping[str, WrittenFile],  # noqa: ARG002
    ) -> dict[str, WantedFile]:
        wanted_files: dict[str, WantedFile] = {}
        paths = _paths_by_version(unchanged)
        for session in sessions:
            is_current = session.current and session.unfinished
            before = paths.get((session.state.session, session.as_of, session.state.count))
            if before is not None and is_current == (before == self.current):
                wanted_files[before] = WantedFile(session.state.session, None)
                continue
            document, data = self.written(session)
            path = self.current if is_current else f"{self.archive}/{safe_name(self.rules.alias(document))}.json"
            wanted_files[path] = WantedFile(session.state.session, data)
        return wanted_files


class TimerLayout(MirrorLayout):
    name = "timer"
    current = ".claude/session-state.json"
    fixed = (current,)
    ignored = (current, f"{current}.rejected-*")
    deleting_stops = True

    def holds(self, path: str) -> bool:
        return path == self.current

    def wanted(
        self,
        root: str,  # noqa: ARG002
        sessions: Sequence[ShownSession],
        unchanged: Mapping[str, WrittenFile],  # noqa: ARG002
        known: Mapping[str, WrittenFile],  # noqa: ARG002
    ) -> dict[str, WantedFile]:
        current = next((session for session in sessions if session.current and session.unfinished), None)
        return {} if current is None else {self.current: WantedFile(current.state.session, self.written(current)[1])}


class CraftLayout(MirrorLayout):
    name = "craft"
    folder = ".craft/cache/orchestration-sessions"
    index = f"{folder}/index.json"
    folders = (folder,)
    indexes = (index,)
    shows_sync_facts = True
    keeps_file_names = True

    def holds(self, path: str) -> bool:
        return _is_json_in(path, self.folder) and path != self.index

    def usual_path(self, document: Document) -> str:
        return f"{self.folder}/{safe_name(self.rules.alias(document))}.json"

    def written(self, session: ShownSession) -> tuple[Document, bytes]:
        from holdfast.formats.craft.render import as_original_program_has_it

        document, _ = super().written(session)
        return document, self.rules.write(as_original_program_has_it(document))

    def wanted(
        self,
        root: str,
        sessions: Sequence[ShownSession],
        unchanged: Mapping[str, WrittenFile],
        known: Mapping[str, WrittenFile],
    ) -> dict[str, WantedFile]:
        wanted_files: dict[str, WantedFile] = {}
        paths, begun_in = (
            _paths_by_version(unchanged),
            {file.session: path for path, file in known.items() if file.session},
        )
        fresh: list[Row] = []
        for session in sessions:
            before = paths.get((session.state.session, session.as_of, session.state.count))
            if before is not None:
                wanted_files[before] = WantedFile(session.state.session, None)
                continue
            document, data = self.written(session)
            path = begun_in.get(session.state.session) or self.usual_path(document)
            wanted_files[path] = WantedFile(session.state.session, data)
            fresh.append(_row(session.state))
        index = self._indexed(root, sessions, wanted_files, fresh, known)
        if index is not None:
            wanted_files[self.index] = index
        return wanted_files

    def check_index(self, path: str, data: bytes) -> None:
        from holdfast.formats.craft.render import index_entries

        if data.strip():
            index_entries(read(data, path).value)

    def _indexed(
        self,
        root: str,
        sessions: Sequence[ShownSession],
        wanted_files: Mapping[str, WantedFile],
        fresh: list[Row],
        known: Mapping[str, WrittenFile],
    ) -> WantedFile | None:
        """The present index with the entries of our sessions brought up to date; None for an empty one.

        What an untouched index says of sessions without new events is still true.
        """
        from holdfast.formats.craft.render import index_names, is_index_empty, merge_index

        names = {_id_of(path) for path in wanted_files}
        stems = {file.session: _id_of(path) for path, file in wanted_files.items()}
        files = {craft_fields.shown_id(session.state): stems[session.state.session] for session in sessions}
        ended = {_id_of(path) for path in known if self.holds(path)} - names
        data, index_now = self._read_index(root)
        listed, hashed = index_names(index_now), "" if data is None else hash_of(data)
        untouched = self.index in known and known[self.index].hash == hashed
        if not untouched or names - listed - {files[row.id] for row in fresh}:
            fresh = [_row(session.state) for session in sessions]
        if index_now and not names and listed.isdisjoint(ended) and not (untouched and is_index_empty(index_now)):
            return WantedFile("", None)  # only others' entries
        index = merge_index(index_now, fresh, ended, files)
        if is_index_empty(index) and (untouched or data is None):
            return None
        return WantedFile("", data if index == index_now else self.rules.write(index), hashed)

    def _read_index(self, root: str) -> tuple[bytes | None, Document]:
        """The present index and its content; empty if it is unusable."""
        from holdfast.formats.craft.render import index_entries

        path = absolute_path(root, self.index)
        if not os.path.lexists(path):
            return None, {}
        data = read_file(path)
        try:
            value = read(data, self.index).value
            index_entries(value)
        except Invalid:
            return data, {}
        assert isinstance(value, dict)
        return data, value


def _paths_by_version(unchanged: Mapping[str, WrittenFile]) -> dict[tuple[str, str, int], str]:
    """By session, event and number of events, the path that shows it."""
    return {(file.session, file.as_of, file.events): path for path, file in unchanged.items() if file.session}


def _id_of(path: str) -> str:
    return posixpath.basename(path).removesuffix(".json")


def _row(state: State) -> Row:
    listed = view.session(state, state.updated_at)
    return Row(
        id=craft_fields.shown_id(state), goal=listed.goal, status=listed.status, progress=listed.progress,
        project=listed.project.name, device=listed.device, created_at=listed.created_at, updated_at=listed.updated_at,
        working_ms=listed.time.working_ms, archived=bool(state.archived),
    )  # fmt: skip


def _contract(models: Mapping[str, str] | None) -> MirrorLayout:
    from holdfast.formats.mirror.contract.mirror import ContractLayout

    return ContractLayout(models)


LAYOUTS: Final[dict[str, Callable[[Mapping[str, str] | None], MirrorLayout]]] = {
    "orchestrator": OrchestratorLayout,
    "timer": TimerLayout,
    "contract": _contract,
    "craft": CraftLayout,
}


def make_layout(name: str, models: Mapping[str, str] | None = None) -> MirrorLayout:
    if name not in LAYOUTS:
        raise Invalid(f"there is no format {name[:40]!a}", hint=f"Formats are {', '.join(LAYOUTS)}.")
    return LAYOUTS[name](models)


def absolute_path(root: str, path: str) -> str:
    """The full path of a path in a work tree."""
    return os.path.join(root, *path.split("/"))


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_file(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError:
        return []


def folder_stamp(folder: str) -> int:
    """A value that changes whenever a name in the folder does; 0 if there is no folder."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def safe_name(alias: str) -> str:
    """A safe file name for any id."""
    return alias if _SAFE.match(alias) else digest(alias.encode(errors="surrogatepass"))[:16]


def _is_json_in(path: str, folder: str) -> bool:
    parent, name = posixpath.split(path)
    return parent == folder and name.endswith(".json") and not name.startswith(".")
