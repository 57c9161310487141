"""Settle a work tree: read what others wrote into mirrored files, then write each file as it should be.

To be done with the work tree's lock held, so that nobody who writes its files is at work. What we wrote ourselves, or
only half of, is removed. What somebody else wrote, and a killed writer had just replaced, is kept under another name.
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
from holdfast.formats.mirror.layouts import MirrorLayout, folder_stamp, inside
from holdfast.formats.mirror.locked_tree import LockedTree, refuse_links, stamp
from holdfast.formats.mirror.state import ForeignFile, MirrorState, RemovedFile, WrittenFile
from holdfast.formats.mirror.write import Rewriting
from holdfast.formats.project_files import is_tracked
from holdfast.machine import files
from holdfast.machine.files import write_atomic
from holdfast.machine.locks import PATIENCE, locked
from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.formats.mirror.fingerprint import Print
    from holdfast.workspace.workspace import Workspace

_OLD: Final = 60_000_000_000  # nanoseconds: others with locks of their own may be at work in a directory of ours
# With hundreds of features, not every directory is looked into each time: the doctor does.
_MOST_FOLDERS: Final = 64
_LEFT: Final = "left-behind"


def sweep(desk: LockedTree, one: MirrorLayout) -> None:
    known = desk.tree.files.get(one.name, {})
    paths = dict.fromkeys([*one.folders, *map(os.path.dirname, (*one.fixed, *known))])
    for folder in list(paths)[:_MOST_FOLDERS]:
        full = inside(desk.root, folder)
        for path in files.temporaries(full) if os.path.isdir(full) and not os.path.islink(full) else ():
            with contextlib.suppress(OSError, HoldfastError):
                _clear(desk, one, f"{folder}/{os.path.basename(path)}")


def _clear(desk: LockedTree, one: MirrorLayout, path: str) -> None:
    full = inside(desk.root, path)
    found = fingerprint.look(full, desk.nanos())
    if found is None or found.at - max(found.changed, found.touched) < _OLD:
        return
    data = fingerprint.read(full)
    if one.is_torn(_named(one, path), data) or not desk.is_news(data, None):
        os.unlink(full)
        return
    why = Refused("a writer that was killed had just replaced it")
    desk.put_aside(one, f"{os.path.dirname(path)}/{_LEFT}", data, why)
    os.unlink(full)


def _named(one: MirrorLayout, path: str) -> str:
    """A name by which its content can be read: of the kind that its folder holds."""
    return path + (".yaml" if one.writes_itself else ".json")


# Somebody who writes the file every millisecond is asked to wait, not waited for.
_MOST_ROUNDS: Final = 5
_MOST_TURNS: Final = 20
# Programs that empty a file and then fill it are given this long before what they wrote counts as broken.
_WAITS: Final = (0.01, 0.02, 0.05, 0.1, 0.15)
_FRESH: Final = 500_000_000  # nanoseconds
_WHAT: Final = "writing mirrored files"
_LOOK_AGAIN: Final = 0.05  # seconds


def settle(
    ws: Workspace,
    memory: MirrorState,
    formats: Sequence[MirrorLayout],
    tell: Callable[[str], None],
    *,
    everything: bool,
    again: bool = False,
    patience: float = PATIENCE,
) -> None:
    """Bring files and log together. With `everything`, folders are read even if nothing seems to have come; with
    `again`, files are written anew where they differ, though nothing has happened in their sessions.

    Whoever finds another at it asks to be served, and leaves as soon as that is done: many at once settle few times.
    Without `patience` nobody is waited for. Raises `Busy` when it took too long.
    """
    root = ws.place.root
    try:
        with locked(memory.lock(root), patience=0, what=_WHAT):
            _settle_for_all(ws, memory, formats, tell, everything=everything, again=again)
    except Busy:
        if not patience:
            raise
    else:
        return
    mine = memory.ask(root)
    until = monotonic() + patience
    while everything or again or memory.tree(root).served < mine:
        try:
            with locked(memory.lock(root), patience=_LOOK_AGAIN, what=_WHAT):
                if everything or again or memory.tree(root).served < mine:
                    _settle_for_all(ws, memory, formats, tell, everything=everything, again=again)
                return
        except Busy:
            if monotonic() > until:
                raise


def _settle_for_all(
    ws: Workspace,
    memory: MirrorState,
    formats: Sequence[MirrorLayout],
    tell: Callable[[str], None],
    *,
    everything: bool,
    again: bool,
) -> None:
    for _ in range(_MOST_TURNS):
        before, asked = stamp(ws), memory.asked(ws.place.root)
        desk = LockedTree(ws, memory, memory.tree(ws.place.root), tell)
        for file in [file for layout in formats if again for file in desk.tree.files.get(layout.name, {}).values()]:
            file.as_of = ""
        _settle(desk, formats, everything=everything)
        desk.tree.served = asked
        memory.save(desk.tree)
        # Whoever recorded something meanwhile waits to be served.
        if (stamp(ws), memory.asked(ws.place.root)) == (before, asked):
            break
    memory.count_anew(desk.tree)


def _settle(desk: LockedTree, formats: Sequence[MirrorLayout], *, everything: bool) -> None:
    settling = _Settling(desk, formats)
    for _ in range(_MOST_ROUNDS):
        # What one format took in, the others must show.
        taken = [settling.settled(layout, everything=everything) for layout in formats]
        if not any(taken):
            return


class _Settling:
    def __init__(self, desk: LockedTree, formats: Sequence[MirrorLayout]) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._root = desk.root
        self._writing = Rewriting(desk)
        # Path -> why it was not taken in, though it may be set aside yet: a session may belong there.
        self._left_alone: dict[str, str] = {}
        # Files that were lost with their whole folder, before another format makes that again; and those that could
        # not be written, since something else stood there.
        self._lost = {
            path
            for layout in formats
            for path in layout.fixed
            if layout.deleting_stops
            and (layout.name in desk.tree.trouble or not folder_stamp(os.path.dirname(inside(desk.root, path))))
        }

    def settled(self, one: MirrorLayout, *, everything: bool) -> bool:
        """Take in and write one format; True when something was taken in, so that the others must be looked at."""
        tree = self._tree
        try:
            for path in (*one.fixed, *(f"{folder}/-" for folder in one.folders)):
                refuse_links(self._root, path)
            taken = self._take_in_all(one, everything=everything)
            as_of = self._desk.as_of()
            late = self._writing.write_all(one)
            self._tell_of_left_alone(one)
            sweep(self._desk, one)
        except (HoldfastError, OSError) as error:
            reason = error.message if isinstance(error, HoldfastError) else str(error)
            tree.trouble[one.name] = reason
            self._desk.tell(f"The {one.name} files could not be written: {reason}.")
            return False
        tree.trouble.pop(one.name, None)
        tree.as_of[one.name] = as_of
        return taken or late

    # ── taking in ────────────────────────────────────────────────────────────────────────────────────────

    def _take_in_all(self, one: MirrorLayout, *, everything: bool) -> bool:
        tree, desk = self._tree, self._desk
        there = tree.files.setdefault(one.name, {})
        strange = tree.strange.setdefault(one.name, {})
        held = tree.held[one.name] = {}
        paths = dict.fromkeys([*there, *strange, *one.fixed])
        if everything or desk.stamps(one) != tree.listed.get(one.name, {}):
            paths.update(dict.fromkeys(one.listed(self._root)))
        unmerged = git_ignore.unmerged(desk.place)
        taken = False
        for path in paths:
            if path in unmerged:
                self._hold(held, path, "git has not merged it yet")
                continue
            found = fingerprint.look(inside(self._root, path), desk.nanos())
            if found is None and one.deleting_stops and path in there and path not in self._lost:
                found = self._look_again(path)
                taken |= found is None and self._stop(path, there[path].session)
            if found is None:
                strange.pop(path, None)
                continue
            left = there[path].print if path in there else strange[path].print if path in strange else None
            if not one.holds(path) or (left is not None and found.fits(left) and not left.young):
                continue
            taken |= self._take_in(one, path, found)
        return taken

    def _look_again(self, path: str) -> Print | None:
        """A file that is not there: who replaces it by deleting it first gets a moment."""
        full = inside(self._root, path)
        for wait in _WAITS:
            if self._desk.nanos() - folder_stamp(os.path.dirname(full)) >= _FRESH:
                break
            time.sleep(wait)
            found = fingerprint.look(full, self._desk.nanos())
            if found is not None:
                return found
        return fingerprint.look(full, self._desk.nanos())

    def _stop(self, path: str, session: str) -> bool:
        """Pause the session whose file was deleted: that is how another program stops it. True when that was news."""
        ws, deleted = self._desk.keeper, folder_stamp(os.path.dirname(inside(self._root, path))) // 1_000_000
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
        self._desk.forget_log()
        return True

    def _hold(self, held: dict[str, str], path: str, why: str) -> None:
        held[path] = why
        self._desk.tell(f"{path} is left alone: {why}.")

    def _take_in(self, one: MirrorLayout, path: str, found: Print) -> bool:
        tree, desk = self._tree, self._desk
        file = tree.files[one.name].get(path)
        if file is not None and not file.hash and found.fits(file.print):
            file.print = found  # only ever added to: its size tells
            return False
        data = one.content(self._root, path)
        hashed = fingerprint.hash_of(data)
        if file is not None and hashed == file.hash:
            file.print = found
            return False
        if hashed in desk.taken:
            self._taken(one, path, hashed, found)
            return False
        stood = tree.strange[one.name].get(path)
        if stood is not None and stood.hash == hashed:
            tree.strange[one.name][path] = ForeignFile(found, stood.reason, hashed)  # as it was, and told already
            return False
        if desk.memory.knows(desk.place.main, hashed) and not self._may_be_put_back(one, file):
            self._came_back(one, path, data, ForeignFile(found, "", hashed))
            return False
        why = git_ignore.disputed(data)
        if why is not None:
            self._hold(tree.held[one.name], path, why)
            return False
        try:
            values = self._gathered(one, path, data)
            edited = found.changed // 1_000_000
            taken = [
                desk.record(one, where, value, made_current=path in one.fixed, edited=edited, came_in=path)
                for where, value in values
            ]
        except Conflict as error:  # another file it belongs with waits for somebody to finish a merge
            self._hold(tree.held[one.name], path, error.message)
            return False
        except (Invalid, Refused, Damaged) as error:
            return self._refuse(one, path, error, ForeignFile(found, shorten(error.message, 300), hashed))
        desk.taken.add(hashed)
        self._taken(one, path, hashed, found)
        return any(taken)

    def _may_be_put_back(self, one: MirrorLayout, file: WrittenFile | None) -> bool:
        """Whether somebody who changed a file by hand may have written what stood there before: in a format whose
        files do not say when they were written, and that git never brings back.
        """
        return one.deleting_stops and file is not None and file.session in self._tree.lines.get(one.name, {})

    def _came_back(self, one: MirrorLayout, path: str, data: bytes, seen: ForeignFile) -> None:
        """A checkout, a stash or somebody's copy brought an earlier version back: no edit.

        Where no file belongs any more, since its session has ended, it goes: the log has all of it. What git tracks
        is left as git has it.
        """
        desk, stays = self._desk, one.writes_itself or path not in one.fixed or path in self._tree.files[one.name]
        tracked = not stays and is_tracked(desk.keeper, inside(self._root, path))
        if desk.tell_of_ended(one, path, data, what="left" if tracked else "written" if stays else "removed"):
            if one.writes_itself:
                self._make_due(one, path)
            elif not stays and not tracked:
                desk.taken.add(seen.hash)
        if path not in self._tree.files[one.name]:
            self._tree.strange[one.name][path] = seen

    def _taken(self, one: MirrorLayout, path: str, hashed: str, found: Print) -> None:
        """What was taken in is no news until the file changes again."""
        file = self._tree.files[one.name].get(path)
        if file is None and not (one.writes_itself and path in one.fixed):
            self._tree.strange[one.name][path] = ForeignFile(found, "", hashed)
        elif file is None:
            self._tree.files[one.name][path] = WrittenFile("", hashed, found, "", self._desk.keeper.now())
        elif one.writes_itself:
            file.print = found
            file.hash = hashed if file.hash else ""
            self._make_due(one, path)

    def _make_due(self, one: MirrorLayout, path: str) -> None:
        """What was taken in need not be what is true: the file is written again where it differs."""
        for where, file in self._tree.files[one.name].items():
            if file.hash and (where == path or path in one.fixed):
                file.as_of = ""

    def _gathered(self, one: MirrorLayout, path: str, data: bytes) -> list[tuple[str, Json]]:
        """The documents in a file. One that makes no sense and was written just now may not be finished."""
        for wait in _WAITS:
            try:
                return one.gather(self._root, path, data)
            except (Invalid, Damaged):
                found = fingerprint.look(inside(self._root, path), self._desk.nanos())
                if found is None or abs(found.at - found.changed) >= _FRESH:  # filled since we looked at the clock
                    raise
            time.sleep(wait)
            data = one.content(self._root, path)
        return one.gather(self._root, path, data)

    def _refuse(self, one: MirrorLayout, path: str, error: HoldfastError, seen: ForeignFile) -> bool:
        """What breaks the rules is put aside where it stands in the place of ours; else it is somebody's own."""
        broken = self._meant(one, error) or path
        there = self._tree.files[one.name]
        if not one.may_go(broken) or (broken not in there and broken not in one.fixed):
            self._tree.strange[one.name][path] = seen
            if path in there:
                there[path].print = seen.print  # told once
                self._desk.tell(f"{path} is left alone: {error.message}.")
            else:
                self._left_alone[path] = error.message
            return False
        data = one.content(self._root, broken)
        if one.is_shared(broken, data):
            # Others' entries stand in it too: they stay, a copy is put aside, and ours is written again.
            self._desk.taken.add(fingerprint.hash_of(data))
            self._desk.put_aside(one, broken, data, error)
            self._taken(one, broken, fingerprint.hash_of(data), seen.print)
            return True
        self._desk.set_aside(one, broken, error)
        left = one.salvaged(broken, data)
        if left is not None:
            write_atomic(inside(self._root, broken), left, within=self._root)
        return True

    def _tell_of_left_alone(self, one: MirrorLayout) -> None:
        """Of files that were not taken in, once it is known which of them had to make room."""
        there, strange = self._tree.files[one.name], self._tree.strange[one.name]
        for path, why in self._left_alone.items():
            if path in there:
                strange.pop(path, None)  # set aside, and told
            else:
                self._desk.tell(f"{path} is left alone: {why}.")
        self._left_alone.clear()

    def _meant(self, one: MirrorLayout, error: HoldfastError) -> str | None:
        """The file an error speaks of, where one document has several."""
        if error.file is None:
            return None
        path = os.path.relpath(error.file, self._root).replace(os.sep, "/")
        return path if one.holds(path) else None
