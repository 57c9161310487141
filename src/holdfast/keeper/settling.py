"""Settling a work tree: what others wrote into mirrored files is taken in, then each file is written as it should be.

All of it under one lock per work tree, and rendered inside it. What cannot be taken in is set aside under its own
name with the reason; nothing is thrown away.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid, Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import shorten
from holdfast.core.times import text
from holdfast.keeper.aliases import give
from holdfast.keeper.taking import take_file
from holdfast.machine import files
from holdfast.mirror import prints, repository
from holdfast.mirror.layouts import Layout, Showing, Wanted, folder_stamp, inside
from holdfast.mirror.locks import locked
from holdfast.mirror.memory import Memory, Rejected, Tree, Written

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.core.event import Event
    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Store

_NO_PRINT: Final = prints.Print(0, 0, 0, 0)
# Somebody who writes the file every millisecond is asked to wait, not waited for.
_MOST_ROUNDS: Final = 5


def settle(
    keeper: Keeper, memory: Memory, formats: Sequence[Layout], tell: Callable[[str], None], *, everything: bool
) -> None:
    """Bring files and log together. With `everything`, folders are read even if nothing seems to have come."""
    with locked(memory.lock(keeper.place.root), what="writing mirrored files"):
        settling = _Settling(keeper, memory, tell)
        tree = memory.tree(keeper.place.root)
        for _ in range(_MOST_ROUNDS):
            # What one format took in, the others must show.
            taken = [settling.settled(tree, one, everything=everything) for one in formats]
            if not any(taken):
                break
        memory.save(tree)


class _Settling:
    def __init__(self, keeper: Keeper, memory: Memory, tell: Callable[[str], None]) -> None:
        self._keeper = keeper
        self._memory = memory
        self._tell = tell
        self._place = keeper.place
        self._root = keeper.place.root

    def _nanos(self) -> int:
        return self._keeper.wall.micros() * 1000

    def settled(self, tree: Tree, one: Layout, *, everything: bool) -> bool:
        """Take in and write one format; True when something was taken in, so that the others must be looked at."""
        try:
            taken = self._take_in_all(tree, one, everything=everything)
            late = self._write_all(tree, one)
        except (HoldfastError, OSError) as error:
            reason = error.message if isinstance(error, HoldfastError) else str(error)
            tree.trouble[one.name] = reason
            self._tell(f"The {one.name} files could not be written: {reason}.")
            return False
        tree.trouble.pop(one.name, None)
        return taken or late

    def _take_in_all(self, tree: Tree, one: Layout, *, everything: bool) -> bool:
        now = self._nanos()
        there = tree.files.setdefault(one.name, {})
        listed = tree.listed.setdefault(one.name, {})
        held = tree.held[one.name] = {}
        paths = dict.fromkeys([*there, *one.fixed])
        stamps = {folder: folder_stamp(inside(self._root, folder)) for folder in one.folders}
        if everything or stamps != listed:
            paths.update(dict.fromkeys(one.listed(self._root)))
            listed.clear()
            listed.update(stamps)
        taken = False
        for path in paths:
            file = there.get(path)
            found = prints.look(inside(self._root, path), now)
            if found is None or not one.holds(path):
                continue
            if file is not None and found.fits(file.print) and not file.print.young:
                continue
            taken |= self._take_in(tree, one, path, held)
        return taken

    def _take_in(self, tree: Tree, one: Layout, path: str, held: dict[str, str]) -> bool:
        data = prints.read(inside(self._root, path))
        file = tree.files[one.name].get(path)
        if file is not None and prints.hash_of(data) == file.hash:
            return False
        if self._memory.knows(self._place.main, prints.hash_of(data)):
            return False  # a checkout or a stash brought an earlier version back: no edit
        why = repository.disputed(self._place, path, data)
        if why is not None:
            held[path] = why
            self._tell(f"{path} is left alone: {why}.")
            return False
        try:
            values = one.gather(self._root, path)
            return any([self._record(tree, one, path, value) for value in values])  # noqa: C419 (each of them)
        except (Invalid, Refused, Conflict, Damaged) as error:
            self._set_aside(tree, one, path, error)
            return True

    def _record(self, tree: Tree, one: Layout, path: str, value: Json) -> bool:
        file = tree.files[one.name].get(path)
        taken = take_file(self._keeper, value, one.rules, shown=None if file is None else file.session or None)
        sessions = tree.sessions.setdefault(one.name, [])
        if taken.session not in sessions:
            sessions.append(taken.session)
        if taken.conflicts:
            self._tell(f"{path} was changed on both sides: holdfast status shows the conflict.")
        return bool(taken.events)

    def _set_aside(self, tree: Tree, one: Layout, path: str, error: HoldfastError) -> None:
        """Nothing is thrown away because it could not be read, or broke the rules."""
        full = inside(self._root, path)
        aside = self._free_name(path)
        os.rename(full, inside(self._root, aside))
        files.sync_directory(os.path.dirname(full))
        tree.files[one.name].pop(path, None)
        self._note_aside(tree, one, path, aside, error)

    def _free_name(self, path: str) -> str:
        stamp = text(self._keeper.now())[:19].replace("-", "").replace(":", "") + "Z"
        aside, number = f"{path}.rejected-{stamp}", 1
        while os.path.lexists(inside(self._root, aside)):
            number += 1
            aside = f"{path}.rejected-{stamp}-{number}"
        return aside

    def _note_aside(self, tree: Tree, one: Layout, path: str, aside: str, error: HoldfastError) -> None:
        tree.reject(one.name, Rejected(path, aside, shorten(error.message, 300), self._keeper.now()))
        self._tell(f"{path} was set aside as {os.path.basename(aside)}: {error.message}.")

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────

    def _write_all(self, tree: Tree, one: Layout) -> bool:
        """Write what is not as it should be; True when somebody wrote in the very moment."""
        showing = self._showing(tree, one)
        itself = self._bring_up(tree, one, showing)
        late = self._write_wanted(tree, one, showing) if itself is None else itself
        tree.listed[one.name] = {folder: folder_stamp(inside(self._root, folder)) for folder in one.folders}
        return late

    def _write_wanted(self, tree: Tree, one: Layout, showing: Sequence[Showing]) -> bool:
        there = tree.files.setdefault(one.name, {})
        held = tree.held.get(one.name, {})
        wanted = one.wanted(self._root, showing)
        as_of = {each.state.session: each.as_of for each in showing}
        now = self._nanos()
        due = {
            path: want for path, want in wanted.items() if path not in held and self._is_due(there, path, want, now)
        }
        if due:
            self._memory.know(self._place.main, [prints.hash_of(want.data) for want in due.values()])
        late = False
        for path, want in due.items():
            late |= self._put(tree, one, path, want)
            self._remember(there, path, Written(want.session, "", _NO_PRINT, "", 0), prints.hash_of(want.data))
        for path, want in wanted.items():
            if path in there:
                there[path].as_of = as_of.get(want.session, "")
        for path in [path for path in there if path not in wanted and path not in held]:
            self._take_away(path, there.pop(path))
        return late

    def _bring_up(self, tree: Tree, one: Layout, showing: Sequence[Showing]) -> bool | None:
        """Let a layout write its files itself; None when it does not."""
        there = tree.files.setdefault(one.name, {})
        held = tree.held.get(one.name, {})
        if held:
            return False
        late: list[tuple[str, bytes]] = []

        def displaced(path: str, old: str) -> None:
            with contextlib.suppress(HoldfastError, OSError):
                data = prints.read(old)
                if not self._memory.knows(self._place.main, prints.hash_of(data)):
                    late.append((path, data))

        now = self._nanos()
        due = [each for each in showing if not self._is_shown(there, each, now)]
        left = one.bring_up(self._root, due, there, displaced)
        if left is None:
            return None
        for path, file in left.items():
            self._remember(there, path, file, None)
        self._memory.know(self._place.main, [there[path].hash for path in left if path in there])
        shown = {each.state.session for each in showing}
        for path in [path for path, file in there.items() if file.session and file.session not in shown]:
            self._take_away(path, there.pop(path))
        return any([self._take_in_late(tree, one, path, data) for path, data in late])  # noqa: C419 (each of them)

    def _is_shown(self, there: dict[str, Written], each: Showing, now: int) -> bool:
        files_of = [(path, file) for path, file in there.items() if file.session == each.state.session]
        return bool(files_of) and all(
            file.as_of == each.as_of
            and (found := prints.look(inside(self._root, path), now)) is not None
            and found.fits(file.print)
            for path, file in files_of
        )

    def _remember(self, there: dict[str, Written], path: str, file: Written, hashed: str | None) -> None:
        full = inside(self._root, path)
        found = prints.look(full, self._nanos())
        if found is None:
            there.pop(path, None)
            return
        file.print, file.at = found, self._keeper.now()
        file.hash = prints.hash_of(prints.read(full)) if hashed is None else hashed
        there[path] = file

    def _is_due(self, there: dict[str, Written], path: str, want: Wanted, now: int) -> bool:
        file = there.get(path)
        found = prints.look(inside(self._root, path), now)
        if file is None or found is None or file.hash != prints.hash_of(want.data) or file.session != want.session:
            return True
        if not found.fits(file.print):
            return prints.hash_of(prints.read(inside(self._root, path))) != file.hash or _refresh(file, found)
        if file.print.young:
            if prints.hash_of(prints.read(inside(self._root, path))) != file.hash:
                return True
            file.print = found
        return False

    def _put(self, tree: Tree, one: Layout, path: str, want: Wanted) -> bool:
        """Write one file; what somebody wrote between our look and this moment is taken in, not lost."""
        full = inside(self._root, path)
        _refuse_links(self._root, path)
        files.make_private_dir(os.path.dirname(full))
        file = tree.files[one.name].get(path)
        expected = None if file is None else file.hash
        late: list[bytes] = []

        def displaced(old: str) -> None:
            with contextlib.suppress(HoldfastError, OSError):
                data = prints.read(old)
                hashed = prints.hash_of(data)
                if hashed != expected and data != want.data and not self._memory.knows(self._place.main, hashed):
                    late.append(data)

        files.write_atomic(full, want.data, displaced=displaced)
        return bool(late) and self._take_in_late(tree, one, path, late[0])

    def _take_in_late(self, tree: Tree, one: Layout, path: str, data: bytes) -> bool:
        from holdfast.formats.reading import read

        try:
            return self._record(tree, one, path, one.part(path, read(data, path).value))
        except (Invalid, Refused, Conflict) as error:
            aside = self._free_name(path)
            files.write_atomic(inside(self._root, aside), data)
            self._note_aside(tree, one, path, aside, error)
            return False

    def _take_away(self, path: str, file: Written) -> None:
        """A file whose session has gone elsewhere: removed while it is still what we wrote."""
        full = inside(self._root, path)
        found = prints.look(full, self._nanos())
        if found is not None and prints.hash_of(prints.read(full)) == file.hash:
            os.unlink(full)
            files.sync_directory(os.path.dirname(full))

    def _showing(self, tree: Tree, one: Layout) -> list[Showing]:
        store = self._keeper.store()
        current = store.current(self._root)
        ids = tree.sessions.setdefault(one.name, [])
        if current is not None and current not in ids:
            state = store.state(current)
            if state is not None and view.status_of(state) not in FINISHED:
                ids.append(current)
        found: list[Showing] = []
        for session in list(ids):
            state = store.state(session)
            if state is None or state.deleted or state.created_at is None:
                ids.remove(session)
            else:
                known = give(self._keeper, state, one.name)
                found.append(Showing(known, session == current, _events(store, session)))
        return found


def _refresh(file: Written, found: prints.Print) -> bool:
    """Touched, but not changed: only its fingerprint is another."""
    file.print = found
    return False


def _events(store: Store, session: str) -> Callable[[int], Iterator[Event]]:
    return lambda clock: store.events(session, since=clock)


def _refuse_links(root: str, path: str) -> None:
    """No folder on the way to a mirrored file may lead out of the work tree."""
    at = root
    for step in path.split("/")[:-1]:
        at = os.path.join(at, step)
        if os.path.islink(at):
            raise Refused(
                "a link stands where a mirrored folder belongs",
                hint="Move it away; Holdfast follows no links there.",
                operation="mirror",
                file=at,
            )
