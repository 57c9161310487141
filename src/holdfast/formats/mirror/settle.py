"""Settle a work tree: read what others wrote into mirrored files, then bring each file up to date.

Call it with the work tree's lock held, so that no other process writes the files. Temporary files that we wrote, in
full or in part, are removed. What somebody else wrote and a killed writer had just replaced is kept under another
name.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.errors import Busy, Conflict, Damaged, HoldfastError, Invalid, Refused
from holdfast.core.events import SessionPaused
from holdfast.core.text import shorten
from holdfast.core.wording import FILE_DELETED
from holdfast.formats.mirror import fingerprint, git_ignore
from holdfast.formats.mirror.layouts import MirrorLayout, absolute_path, folder_stamp
from holdfast.formats.mirror.locked_tree import LockedTree, refuse_links, stamp
from holdfast.formats.mirror.state import ForeignFile, MirrorState, RemovedFile, WrittenFile
from holdfast.formats.mirror.write import MirrorWriter
from holdfast.formats.project_files import is_tracked
from holdfast.machine import files
from holdfast.machine.files import write_atomic
from holdfast.machine.locks import PATIENCE, locked
from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.formats.mirror.fingerprint import Fingerprint
    from holdfast.workspace.workspace import Workspace

_OLD: Final = 60_000_000_000  # nanoseconds: others may work in our directory under locks of their own
# With hundreds of features, not every directory is searched each time: the doctor does that.
_MAX_FOLDERS: Final = 64
_LEFT_BEHIND: Final = "left-behind"


def remove_leftovers(locked_tree: LockedTree, layout: MirrorLayout) -> None:
    known = locked_tree.tree.files.get(layout.name, {})
    paths = dict.fromkeys([*layout.folders, *map(os.path.dirname, (*layout.fixed, *known))])
    for folder in list(paths)[:_MAX_FOLDERS]:
        full = absolute_path(locked_tree.root, folder)
        for path in files.temporaries(full) if os.path.isdir(full) and not os.path.islink(full) else ():
            with contextlib.suppress(OSError, HoldfastError):
                _clear(locked_tree, layout, f"{folder}/{os.path.basename(path)}")


def _clear(locked_tree: LockedTree, layout: MirrorLayout, path: str) -> None:
    full = absolute_path(locked_tree.root, path)
    disk_print = fingerprint.take(full, locked_tree.nanos())
    if disk_print is None or disk_print.at - max(disk_print.changed, disk_print.touched) < _OLD:
        return
    data = fingerprint.read(full)
    if layout.is_torn(_name_for_reader(layout, path), data) or not locked_tree.is_foreign(data, None):
        os.unlink(full)
        return
    why = Refused("a killed writer had just replaced it")
    locked_tree.keep_copy(layout, f"{os.path.dirname(path)}/{_LEFT_BEHIND}", data, why)
    os.unlink(full)


def _name_for_reader(layout: MirrorLayout, path: str) -> str:
    """A file name from which the reader knows the syntax."""
    return path + (".yaml" if layout.writes_itself else ".json")


# A program that writes the file every millisecond has to wait.
_MAX_ROUNDS: Final = 5
_MAX_TURNS: Final = 20
# Programs that empty a file before filling it get this long until its content counts as broken.
_WAITS: Final = (0.01, 0.02, 0.05, 0.1, 0.15)
_RECENT: Final = 500_000_000  # nanoseconds
_PURPOSE: Final = "writing mirrored files"
_LOOK_AGAIN: Final = 0.05  # seconds


def settle(
    ws: Workspace,
    stored: MirrorState,
    formats: Sequence[MirrorLayout],
    report: Callable[[str], None],
    *,
    everything: bool,
    again: bool = False,
    patience: float = PATIENCE,
) -> None:
    """Bring files and log together. With `everything`, folders are read even if nothing seems new; with `again`,
    files that differ are rewritten even without new events in their sessions.

    A process that finds the lock taken asks to be served, and leaves as soon as it is: many at once settle few times.
    Without `patience` nothing is waited for. Raises `Busy` after too long.
    """
    root = ws.place.root
    try:
        with locked(stored.lock(root), patience=0, purpose=_PURPOSE):
            _settle_for_all(ws, stored, formats, report, everything=everything, again=again)
    except Busy:
        if not patience:
            raise
    else:
        return
    request = stored.request_settling(root)
    until = monotonic() + patience
    while everything or again or stored.tree(root).served < request:
        try:
            with locked(stored.lock(root), patience=_LOOK_AGAIN, purpose=_PURPOSE):
                if everything or again or stored.tree(root).served < request:
                    _settle_for_all(ws, stored, formats, report, everything=everything, again=again)
                return
        except Busy:
            if monotonic() > until:
                raise


def _settle_for_all(
    ws: Workspace,
    stored: MirrorState,
    formats: Sequence[MirrorLayout],
    report: Callable[[str], None],
    *,
    everything: bool,
    again: bool,
) -> None:
    for _ in range(_MAX_TURNS):
        before, requests = stamp(ws), stored.request_count(ws.place.root)
        locked_tree = LockedTree(ws, stored, stored.tree(ws.place.root), report)
        for file in [
            file for layout in formats if again for file in locked_tree.tree.files.get(layout.name, {}).values()
        ]:
            file.as_of = ""
        _settle(locked_tree, formats, everything=everything)
        locked_tree.tree.served = requests
        stored.save(locked_tree.tree)
        # A process that recorded something meanwhile waits to be served.
        if (stamp(ws), stored.request_count(ws.place.root)) == (before, requests):
            break
    stored.reset_request_count(locked_tree.tree)


def _settle(locked_tree: LockedTree, formats: Sequence[MirrorLayout], *, everything: bool) -> None:
    settling = _Settlement(locked_tree, formats)
    for _ in range(_MAX_ROUNDS):
        # What was read in one format has to be shown in the others.
        taken = [settling.settled(layout, everything=everything) for layout in formats]
        if not any(taken):
            return


class _Settlement:
    def __init__(self, locked: LockedTree, formats: Sequence[MirrorLayout]) -> None:
        self._locked = locked
        self._tree = locked.tree
        self._root = locked.root
        self._writing = MirrorWriter(locked)
        # Path -> why it was not read. It may still be set aside, if one of our files belongs there.
        self._left_alone: dict[str, str] = {}
        # Files lost together with their folder, before another format creates it again; and files that could not be
        # written because something else was in their place.
        self._lost = {
            path
            for layout in formats
            for path in layout.fixed
            if layout.deleting_stops
            and (
                layout.name in locked.tree.failures
                or not folder_stamp(os.path.dirname(absolute_path(locked.root, path)))
            )
        }

    def settled(self, layout: MirrorLayout, *, everything: bool) -> bool:
        """Read and write one format; True if something new was read, so that the others must be looked at."""
        tree = self._tree
        try:
            for path in (*layout.fixed, *(f"{folder}/-" for folder in layout.folders)):
                refuse_links(self._root, path)
            taken = self._read_all(layout, everything=everything)
            as_of = self._locked.as_of()
            late = self._writing.write_all(layout)
            self._report_left_alone(layout)
            remove_leftovers(self._locked, layout)
        except (HoldfastError, OSError) as error:
            reason = error.message if isinstance(error, HoldfastError) else str(error)
            tree.failures[layout.name] = reason
            self._locked.report(f"The {layout.name} files could not be written: {reason}.")
            return False
        tree.failures.pop(layout.name, None)
        tree.as_of[layout.name] = as_of
        return taken or late

    # ── taking in ────────────────────────────────────────────────────────────────────────────────────────

    def _read_all(self, layout: MirrorLayout, *, everything: bool) -> bool:
        tree, locked = self._tree, self._locked
        written = tree.files.setdefault(layout.name, {})
        foreign = tree.foreign.setdefault(layout.name, {})
        left_alone = tree.left_alone[layout.name] = {}
        paths = dict.fromkeys([*written, *foreign, *layout.fixed])
        if everything or locked.stamps(layout) != tree.listed.get(layout.name, {}):
            paths.update(dict.fromkeys(layout.listed(self._root)))
        unmerged = git_ignore.unmerged_paths(locked.place)
        taken = False
        for path in paths:
            if path in unmerged:
                self._leave_alone(left_alone, path, "git has not merged it yet")
                continue
            disk_print = fingerprint.take(absolute_path(self._root, path), locked.nanos())
            if disk_print is None and layout.deleting_stops and path in written and path not in self._lost:
                disk_print = self._wait_for(path)
                taken |= disk_print is None and self._stop(path, written[path].session)
            if disk_print is None:
                foreign.pop(path, None)
                continue
            known = written[path].print if path in written else foreign[path].print if path in foreign else None
            if not layout.holds(path) or (known is not None and disk_print.matches(known) and not known.is_young):
                continue
            taken |= self._read_file(layout, path, disk_print)
        return taken

    def _wait_for(self, path: str) -> Fingerprint | None:
        """Give programs that delete a file before they write it again some time to do so."""
        full = absolute_path(self._root, path)
        for wait in _WAITS:
            if self._locked.nanos() - folder_stamp(os.path.dirname(full)) >= _RECENT:
                break
            time.sleep(wait)
            disk_print = fingerprint.take(full, self._locked.nanos())
            if disk_print is not None:
                return disk_print
        return fingerprint.take(full, self._locked.nanos())

    def _stop(self, path: str, session: str) -> bool:
        """Pause the session whose file was deleted: that is how another program stops it. True if that was news."""
        ws, deleted = self._locked.ws, folder_stamp(os.path.dirname(absolute_path(self._root, path))) // 1_000_000
        state = ws.store().state(session) if session else None
        if state is None or ws.store().current(self._root) != session or ws.is_read_only(session):
            return False
        status = view.status_of(state)
        if status not in ("in_progress", "paused"):
            return False
        self._tree.removed[path] = RemovedFile(session)
        if status == "paused":
            return False
        with ws.transaction(about=session) as transaction:
            at = min(max(deleted, transaction.state(session).updated_at), ws.now())
            ws.recorder.append_reported(transaction, session, [(at, SessionPaused(reason=FILE_DELETED))], keys=None)
        self._locked.forget_log()
        return True

    def _leave_alone(self, left_alone: dict[str, str], path: str, why: str) -> None:
        left_alone[path] = why
        self._locked.report(f"{path} is left alone: {why}.")

    def _read_file(self, layout: MirrorLayout, path: str, disk_print: Fingerprint) -> bool:
        tree, locked = self._tree, self._locked
        file = tree.files[layout.name].get(path)
        if file is not None and not file.hash and disk_print.matches(file.print):
            file.print = disk_print  # only appended to: its size is enough
            return False
        data = layout.content(self._root, path)
        hashed = fingerprint.hash_of(data)
        if file is not None and hashed == file.hash:
            file.print = disk_print
            return False
        if hashed in locked.read_hashes:
            self._note_read(layout, path, hashed, disk_print)
            return False
        known = tree.foreign[layout.name].get(path)
        if known is not None and known.hash == hashed:
            tree.foreign[layout.name][path] = ForeignFile(
                disk_print, known.reason, hashed
            )  # unchanged, and reported already
            return False
        if locked.stored.was_written(locked.place.main, hashed) and not self._may_be_restored_by_hand(layout, file):
            self._note_restored(layout, path, data, ForeignFile(disk_print, "", hashed))
            return False
        why = git_ignore.unmerged_reason(data)
        if why is not None:
            self._leave_alone(tree.left_alone[layout.name], path, why)
            return False
        try:
            values = self._documents(layout, path, data)
            edited = disk_print.changed // 1_000_000
            taken = [
                locked.record(layout, where, value, made_current=path in layout.fixed, edited=edited, source=path)
                for where, value in values
            ]
        except Conflict as error:  # a file it belongs with has an unfinished merge
            self._leave_alone(tree.left_alone[layout.name], path, error.message)
            return False
        except (Invalid, Refused, Damaged) as error:
            return self._refuse(layout, path, error, ForeignFile(disk_print, shorten(error.message, 300), hashed))
        locked.read_hashes.add(hashed)
        self._note_read(layout, path, hashed, disk_print)
        return any(taken)

    def _may_be_restored_by_hand(self, layout: MirrorLayout, file: WrittenFile | None) -> bool:
        """Whether somebody may have restored earlier content by hand: in a format whose files do not say when they
        were written, and which git never restores.
        """
        return (
            layout.deleting_stops and file is not None and file.session in self._tree.edit_chains.get(layout.name, {})
        )

    def _note_restored(self, layout: MirrorLayout, path: str, data: bytes, foreign: ForeignFile) -> None:
        """A checkout, a stash or a copy restored an earlier version: not an edit.

        If no file belongs there any more, since its session has ended, it is removed: the log has all of it. What git
        tracks is left as git has it.
        """
        locked, stays = (
            self._locked,
            layout.writes_itself or path not in layout.fixed or path in self._tree.files[layout.name],
        )
        tracked = not stays and is_tracked(locked.ws, absolute_path(self._root, path))
        if locked.report_ended(layout, path, data, outcome="left" if tracked else "written" if stays else "removed"):
            if layout.writes_itself:
                self._mark_for_writing(layout, path)
            elif not stays and not tracked:
                locked.read_hashes.add(foreign.hash)
        if path not in self._tree.files[layout.name]:
            self._tree.foreign[layout.name][path] = foreign

    def _note_read(self, layout: MirrorLayout, path: str, hashed: str, disk_print: Fingerprint) -> None:
        """Remember that a file was read: it is not new until it changes again."""
        file = self._tree.files[layout.name].get(path)
        if file is None and not (layout.writes_itself and path in layout.fixed):
            self._tree.foreign[layout.name][path] = ForeignFile(disk_print, "", hashed)
        elif file is None:
            self._tree.files[layout.name][path] = WrittenFile("", hashed, disk_print, "", self._locked.ws.now())
        elif layout.writes_itself:
            file.print = disk_print
            file.hash = hashed if file.hash else ""
            self._mark_for_writing(layout, path)

    def _mark_for_writing(self, layout: MirrorLayout, path: str) -> None:
        """What was read need not be the truth: the file is rewritten if it differs."""
        for where, file in self._tree.files[layout.name].items():
            if file.hash and (where == path or path in layout.fixed):
                file.as_of = ""

    def _documents(self, layout: MirrorLayout, path: str, data: bytes) -> list[tuple[str, Json]]:
        """The documents in a file. If it makes no sense and was written just now, it may be incomplete, so wait a
        moment.
        """
        for wait in _WAITS:
            try:
                return layout.gather(self._root, path, data)
            except (Invalid, Damaged):
                disk_print = fingerprint.take(absolute_path(self._root, path), self._locked.nanos())
                if (
                    disk_print is None or abs(disk_print.at - disk_print.changed) >= _RECENT
                ):  # filled since we looked at the clock
                    raise
            time.sleep(wait)
            data = layout.content(self._root, path)
        return layout.gather(self._root, path, data)

    def _refuse(self, layout: MirrorLayout, path: str, error: HoldfastError, foreign: ForeignFile) -> bool:
        """Set aside a file that breaks the rules if one of ours belongs there; otherwise leave it alone."""
        broken = self._file_at_fault(layout, error) or path
        written = self._tree.files[layout.name]
        if not layout.may_be_set_aside(broken) or (broken not in written and broken not in layout.fixed):
            self._tree.foreign[layout.name][path] = foreign
            if path in written:
                written[path].print = foreign.print  # reported once
                self._locked.report(f"{path} is left alone: {error.message}.")
            else:
                self._left_alone[path] = error.message
            return False
        data = layout.content(self._root, broken)
        if layout.is_shared(broken, data):
            # It contains others' entries too: it stays, a copy is set aside, and ours are written again.
            self._locked.read_hashes.add(fingerprint.hash_of(data))
            self._locked.keep_copy(layout, broken, data, error)
            self._note_read(layout, broken, fingerprint.hash_of(data), foreign.print)
            return True
        self._locked.set_aside(layout, broken, error)
        salvaged = layout.salvage_entries(broken, data)
        if salvaged is not None:
            write_atomic(absolute_path(self._root, broken), salvaged, within=self._root)
        return True

    def _report_left_alone(self, layout: MirrorLayout) -> None:
        """Report files that were not read, once it is known which of them were set aside."""
        written, foreign = self._tree.files[layout.name], self._tree.foreign[layout.name]
        for path, why in self._left_alone.items():
            if path in written:
                foreign.pop(path, None)  # set aside and reported
            else:
                self._locked.report(f"{path} is left alone: {why}.")
        self._left_alone.clear()

    def _file_at_fault(self, layout: MirrorLayout, error: HoldfastError) -> str | None:
        """The file an error is about, if a document has several."""
        if error.file is None:
            return None
        path = os.path.relpath(error.file, self._root).replace(os.sep, "/")
        return path if layout.holds(path) else None
