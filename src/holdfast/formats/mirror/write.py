"""Write mirrored files that are out of date, without losing anything that somebody else writes meanwhile."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.errors import Conflict, HoldfastError, Invalid, Refused
from holdfast.core.events import AliasGiven
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.formats.mirror import fingerprint, git_ignore
from holdfast.formats.mirror.layouts import MirrorLayout, ShownSession, WantedFile, absolute_path
from holdfast.formats.mirror.locked_tree import LockedTree, refuse_links
from holdfast.formats.mirror.state import WrittenFile
from holdfast.machine import files
from holdfast.sessions import format_names
from holdfast.sessions.ownership import own_test
from holdfast.sessions.work_trees import path_here
from holdfast.store.interface import Draft

if TYPE_CHECKING:
    from holdfast.core.envelope import Event
    from holdfast.core.model import SyncFacts
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace

_NAMES: Final[dict[str, Callable[[State, int], str]]] = {
    "orchestrator": format_names.orchestrator_id,
    "timer": format_names.timer_id,
    "contract": format_names.feature_id,
}


def with_alias(ws: Workspace, state: State, format_name: str) -> State:
    """The state with an id in this format, unique in the store. Craft uses the session's own id."""
    name = _NAMES.get(format_name)
    if name is None:
        return state
    if format_name in state.aliases:
        _refuse_alias_of_another(ws, state, format_name)
        return state
    store = ws.store()
    with store.transaction() as transaction:
        state = transaction.state(state.session)
        if format_name in state.aliases:
            return state
        number = 1
        while store.find(alias := name(state, number)):
            number += 1
        alias_given = AliasGiven(format=format_name, id=alias)
        transaction.record(state.session, Draft(alias_given, state.updated_at, ws.recorder.actor))
        return transaction.state(state.session)


def _refuse_alias_of_another(ws: Workspace, state: State, format_name: str) -> None:
    """Raise `Conflict` if a guest gave the session another one's id: that one's files would be overwritten."""
    if own_test(ws, state.session)(state.aliased_by.get(format_name, "")):
        return
    store, alias = ws.store(), state.aliases[format_name]
    for session in store.find(alias):
        other = store.state(session)
        if other is None or session == state.session:
            continue
        if alias == session or alias in other.aliases.values():
            raise Conflict(
                f"somebody else gave session {state.session[:8]} the id of session {session[:8]} in {format_name}:"
                f" {shorten(alias, 60)!a}",
                hint=f"Continue in a copy of your own: holdfast fork {state.session[:8]}",
                session=state.session,
            )


NO_FINGERPRINT: Final = fingerprint.Fingerprint(0, 0, 0, 0)
_MAX_NOTED: Final = 50
_TICK: Final = 20_000_000  # nanoseconds: two names created within it may hide behind each other
# A program that had emptied the file when we replaced it is about to fill it.
_WAITS: Final = (0.01, 0.02, 0.05, 0.1)


class MirrorWriter:
    def __init__(self, locked: LockedTree) -> None:
        self._locked = locked
        self._tree = locked.tree
        self._root = locked.root

    def write_all(self, layout: MirrorLayout) -> bool:
        """Write what is out of date; True if somebody wrote at the same moment."""
        written = self._tree.files.setdefault(layout.name, {})
        showing = self._showing(layout)
        was_displaced = (
            self._update_files(layout, showing) if layout.writes_itself else self._write_wanted(layout, showing)
        )
        foreign = self._tree.foreign.setdefault(layout.name, {})
        for path in [path for path, file in foreign.items() if path in written and not file.reason]:
            del foreign[path]
        self._list(layout)
        return was_displaced

    def _list(self, layout: MirrorLayout) -> None:
        """Remember the folders as they are, unless something new appeared in one meanwhile."""
        stamps, now = self._locked.stamps(layout), self._locked.nanos()
        known = {
            *self._tree.files[layout.name],
            *self._tree.foreign.get(layout.name, ()),
            *self._tree.left_alone.get(layout.name, ()),
        }
        new = any(path not in known and layout.holds(path) for path in layout.listed(self._root))
        certain_stamps = {folder: 0 if new or now - at < _TICK else at for folder, at in stamps.items()}
        self._tree.listed[layout.name] = {
            folder: certain_stamps[folder] if at else 0 for folder, at in stamps.items()
        }

    # ── one by one ───────────────────────────────────────────────────────────────────────────────────────

    def _write_wanted(self, layout: MirrorLayout, showing: Sequence[ShownSession]) -> bool:
        written = self._tree.files[layout.name]
        left_alone = self._tree.left_alone.get(layout.name, {})
        as_left = {
            path: file for path, file in written.items() if path not in left_alone and self._is_as_left(path, file)
        }
        self._check_indexes(layout, {*as_left, *left_alone})
        wanted = self._without_removed(layout, layout.wanted(self._root, showing, as_left, written), showing)
        as_of = {session.state.session: session.as_of for session in showing}
        counts = {session.state.session: session.state.count for session in showing}
        before = {*written}
        due = {
            path: file
            for path, file in wanted.items()
            if path not in left_alone
            and file.data is not None
            and self._is_due(written, path, file.data, file.session)
        }
        # A file that somebody wrote exactly as we would have is one of our versions.
        new = [file for path, file in wanted.items() if path in due or (path in written and path not in before)]
        if new:
            hashes = [fingerprint.hash_of(file.data or b"") for file in new]
            events = dict.fromkeys(as_of[file.session] for file in new if file.session in as_of)
            self._locked.stored.remember(self._locked.place.main, [*hashes, *events])
        if due:
            self._keep_out_of_git(layout)
        was_displaced = False
        for path, file in due.items():
            data = file.data or b""
            was_displaced |= self._write_file(layout, path, data, file.merged)
            self._remember(written, path, WrittenFile(file.session, fingerprint.hash_of(data), NO_FINGERPRINT, "", 0))
        for path, file in wanted.items():
            if path in written:
                written[path].as_of = as_of.get(file.session, "")
                written[path].events = counts.get(file.session, 0)
        for path in [path for path in written if path not in wanted and path not in left_alone]:
            was_displaced |= self._remove_file(layout, path, written.pop(path))
        foreign = self._tree.foreign.get(layout.name, {})
        for path in layout.fixed:
            # An ended session that somebody put there: it has been read, and is in the archive.
            foreign_file = foreign.get(path)
            if foreign_file is not None and path not in wanted and foreign_file.hash in self._locked.read_hashes:
                was_displaced |= self._remove_file(
                    layout, path, WrittenFile("", foreign_file.hash, foreign_file.print, "", 0)
                )
                del foreign[path]
        return was_displaced

    def _check_indexes(self, layout: MirrorLayout, sound: Collection[str]) -> None:
        """Set aside an unusable index. It is rebuilt, and nothing is lost."""
        for path in layout.indexes:
            full = absolute_path(self._root, path)
            if path in sound or fingerprint.take(full, self._locked.nanos()) is None:
                continue
            try:
                layout.check_index(path, _read_finished(layout, path, full))
            except Invalid as error:
                self._locked.set_aside(layout, path, error)

    def _without_removed(
        self, layout: MirrorLayout, wanted: dict[str, WantedFile], showing: Sequence[ShownSession]
    ) -> dict[str, WantedFile]:
        """A file that another program deleted to stop a session stays away until the session goes on or the file is
        back.
        """
        removed = self._tree.removed
        paused = {each.state.session for each in showing if view.status_of(each.state) == "paused"}
        for path in [path for path in removed if layout.holds(path)]:
            session = removed[path].session
            stays = path in wanted and wanted[path].session == session and session in paused
            if stays and fingerprint.take(absolute_path(self._root, path), self._locked.nanos()) is None:
                del wanted[path]
            else:
                del removed[path]
        return wanted

    def _keep_out_of_git(self, layout: MirrorLayout) -> None:
        """At every write: somebody may have removed the line, or created a repository since."""
        if not layout.ignored:
            return
        try:
            git_ignore.exclude(self._locked.place, layout.ignored)
        except HoldfastError as error:
            if not git_ignore.is_in_gitignore(self._root, layout.ignored):
                self._locked.report(f"git does not ignore {layout.ignored[0]}: {error.message}.")

    def _is_as_left(self, path: str, file: WrittenFile) -> bool:
        disk_print = fingerprint.take(absolute_path(self._root, path), self._locked.nanos())
        return disk_print is not None and disk_print.matches(file.print) and not file.print.is_young

    def _is_due(self, written: dict[str, WrittenFile], path: str, data: bytes, session: str) -> bool:
        full = absolute_path(self._root, path)
        file, disk_print = written.get(path), fingerprint.take(full, self._locked.nanos())
        hashed = fingerprint.hash_of(data)
        if disk_print is None:
            return True
        if file is None:
            if fingerprint.hash_of(fingerprint.read(full)) != hashed:
                return True
            written[path] = WrittenFile(session, hashed, disk_print, "", self._locked.ws.now())
            return False
        if file.hash != hashed or file.session != session:
            return True
        if not disk_print.matches(file.print) or file.print.is_young:
            if fingerprint.hash_of(fingerprint.read(full)) != hashed:
                return True
            file.print = disk_print  # touched, or no longer young
        return False

    def _write_file(self, layout: MirrorLayout, path: str, new: bytes, merged: str) -> bool:
        """Write one file. What somebody wrote since our last look is read, not lost.

        `merged`: the hash of the index that the new content was merged into.
        """
        full = absolute_path(self._root, path)
        refuse_links(self._root, path)
        files.make_private_dir(os.path.dirname(full), within=self._root)
        file = self._tree.files[layout.name].get(path)
        displaced_contents: list[bytes] = []
        if not os.path.lexists(full) and _create_file(full, new, self._root):
            return False

        def displaced(old: str) -> None:
            with contextlib.suppress(HoldfastError, OSError):
                data = _read_finished(layout, path, old)
                if path in layout.indexes:
                    displaced_contents.extend([data] if data.strip() and fingerprint.hash_of(data) != merged else [])
                elif data != new and self._locked.is_foreign(data, None if file is None else file.hash):
                    displaced_contents.append(data)

        files.write_atomic(full, new, displaced=displaced, within=self._root)
        if displaced_contents and path in layout.indexes:
            files.write_atomic(
                full, displaced_contents[0], within=self._root
            )  # the next round merges our entries into it
            return True
        return bool(displaced_contents) and self._read_displaced(layout, path, displaced_contents[0])

    def _remove_file(self, layout: MirrorLayout, path: str, file: WrittenFile) -> bool:
        """Remove a file whose session is shown elsewhere. It is renamed first: it may have been written just now."""
        full = absolute_path(self._root, path)
        if fingerprint.take(full, self._locked.nanos()) is None:
            return False
        hashed = fingerprint.hash_of(fingerprint.read(full))
        if hashed != file.hash and hashed not in self._locked.read_hashes:
            return True  # the next round reads it
        folder = os.path.dirname(full)
        aside = _temporary(folder)
        files.rename(full, aside, within=self._root)
        data = _read_finished(layout, path, aside)
        was_displaced = self._locked.is_foreign(data, file.hash) and self._read_displaced(layout, path, data)
        os.unlink(aside)
        return was_displaced

    def _read_displaced(self, layout: MirrorLayout, path: str, data: bytes) -> bool:
        try:
            values = layout.gather_displaced(self._root, path, data)
            self._locked.read_hashes.add(fingerprint.hash_of(data))
            are_new = [
                self._locked.record(layout, where, value, made_current=path in layout.fixed)
                for where, value in values
            ]
            return any(are_new)
        except (Invalid, Refused, Conflict) as error:
            self._locked.keep_copy(layout, path, data, error)
            return False

    # ── layouts that write themselves ────────────────────────────────────────────────────────────────────

    def _update_files(self, layout: MirrorLayout, showing: Sequence[ShownSession]) -> bool:
        written = self._tree.files[layout.name]
        if self._tree.left_alone.get(layout.name):
            return False
        displaced_files: list[tuple[str, bytes]] = []

        def displaced(path: str, old: str) -> bool:
            with contextlib.suppress(HoldfastError, OSError):
                data = _read_finished(layout, path, old)
                if self._locked.is_foreign(data, written[path].hash if path in written else None):
                    displaced_files.append((path, data))
                    return True
            return False

        named = layout.models.get("*", "")
        complete = self._tree.model in ("", named) and all(
            path in written and os.path.lexists(absolute_path(self._root, path)) for path in layout.fixed
        )
        by_session: dict[str, list[tuple[str, WrittenFile]]] = {}
        for path, file in written.items():
            by_session.setdefault(file.session, []).append((path, file))
        due = [
            session
            for session in showing
            if not complete or not self._is_shown(by_session.get(session.state.session, []), session)
        ]
        updated = layout.update_files(self._root, due, written, displaced)
        hashes = [file.hash for file in updated.values() if len(file.hash) > 1]
        self._locked.stored.remember(
            self._locked.place.main, [*hashes, *dict.fromkeys(session.as_of for session in due)]
        )
        for path, file in updated.items():
            self._remember(written, path, file)
        self._tree.model = named
        self._report_notes(layout, due)
        shown = {session.state.session for session in showing}
        removed = {path: file for path, file in written.items() if file.session and file.session not in shown}
        for path, file in removed.items():
            if file.hash:
                self._remove_file(layout, path, file)
        if removed and not displaced_files:
            features = {path.split("/")[1] for path, file in removed.items() if self._is_deleted(file.session)}
            for path, file in layout.erase(self._root, features, written, displaced).items() if features else ():
                self._locked.stored.remember(self._locked.place.main, [file.hash] if len(file.hash) > 1 else [])
                self._remember(written, path, file)
            for path in removed:
                del written[path]
        return any([self._read_displaced(layout, path, data) for path, data in displaced_files])  # noqa: C419 (each of them)

    def _is_deleted(self, session: str) -> bool:
        state = self._locked.ws.store().state(session)
        return state is not None and bool(state.deleted)

    def _report_notes(self, layout: MirrorLayout, due: Sequence[ShownSession]) -> None:
        for note in (note for each in due for note in layout.notes(each)):
            if note not in self._tree.noted:
                self._tree.noted = [*self._tree.noted, note][-_MAX_NOTED:]
                self._locked.report(f"{note[0].upper()}{note[1:]}.")

    def _is_shown(self, files_of: Sequence[tuple[str, WrittenFile]], session: ShownSession) -> bool:
        now = self._locked.nanos()
        return bool(files_of) and all(
            (file.as_of, file.events) == (session.as_of, session.state.count)
            and (disk_print := fingerprint.take(absolute_path(self._root, path), now)) is not None
            and disk_print.matches(file.print)
            for path, file in files_of
        )

    # ── what is remembered ───────────────────────────────────────────────────────────────────────────────

    def _remember(self, written: dict[str, WrittenFile], path: str, file: WrittenFile) -> None:
        """Remember how a file was left. If it is no longer what we wrote, without a fingerprint: the next look reads
        it.
        """
        full = absolute_path(self._root, path)
        expected = file.print.size
        disk_print = fingerprint.take(full, self._locked.nanos())
        if disk_print is None:
            written.pop(path, None)
            return
        ours = (
            disk_print.size == expected if not file.hash else fingerprint.hash_of(fingerprint.read(full)) == file.hash
        )
        file.print, file.at = disk_print if ours else NO_FINGERPRINT, self._locked.ws.now()
        written[path] = file

    # ── what is shown ────────────────────────────────────────────────────────────────────────────────────

    def _showing(self, layout: MirrorLayout) -> list[ShownSession]:
        ws = self._locked.ws
        store = ws.store()
        current = store.current(self._root)
        ids = self._tree.sessions.setdefault(layout.name, [])
        became_current = self._locked.stored.sessions(self._root)
        ids += [
            session
            for session in dict.fromkeys(became_current[self._tree.came.get(layout.name, 0) :])
            if session not in ids
        ]
        self._tree.came[layout.name] = len(became_current)
        if current is not None and current not in ids:
            state = store.state(current)
            if state is not None and view.status_of(state) not in FINISHED:
                ids.append(current)
        shown: list[ShownSession] = []
        for session in list(ids):
            state = self._locked.state(session)
            if state is None or state.created_at is None:
                continue  # another process is about to start it
            if state.deleted:
                ids.remove(session)
            else:
                known = with_alias(ws, state, layout.name)
                self._locked.keep(known)
                shown.append(
                    ShownSession(
                        known, session == current, _events(store, session), _sync_facts(ws, known),
                        partial(path_here, ws, known),
                    )
                )  # fmt: skip
        return shown


def _events(store: Store, session: str) -> Callable[[int], Iterator[Event]]:
    return lambda clock: store.events(session, since=clock)


def _sync_facts(ws: Workspace, state: State) -> Callable[[], SyncFacts | None]:
    return lambda: ws.sync_facts(state)


def _temporary(folder: str) -> str:
    return os.path.join(folder, files.temporary_name())


def _create_file(full: str, data: bytes, root: str) -> bool:
    """Create a file. False if there is one already, or if this file system cannot tell."""
    temporary = _temporary(os.path.dirname(full))
    files.write_atomic(temporary, data, within=root)
    try:
        os.link(temporary, full)
    except OSError:
        return False
    finally:
        os.unlink(temporary)
        files.sync_directory(os.path.dirname(full))
    return True


def _read_finished(layout: MirrorLayout, path: str, old: str) -> bytes:
    """The content of a file. Somebody who has just emptied it gets a moment to fill it."""
    data = fingerprint.read(old)
    for wait in _WAITS:
        if not layout.is_torn(path, data):
            break
        time.sleep(wait)
        data = fingerprint.read(old)
    return data
