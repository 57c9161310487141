"""Write the mirrored files that are not as they should be, without losing a word that somebody else wrote
meanwhile.
"""

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
from holdfast.formats.mirror.layouts import MirrorLayout, Showing, WantedFile, inside
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


def give(ws: Workspace, state: State, format_name: str) -> State:
    """The state with an id in this format, unique in the store. Craft uses the session's own."""
    name = _NAMES.get(format_name)
    if name is None:
        return state
    if format_name in state.aliases:
        _refuse_anothers(ws, state, format_name)
        return state
    store = ws.store()
    with store.transaction() as transaction:
        state = transaction.state(state.session)
        if format_name in state.aliases:
            return state
        number = 1
        while store.find(alias := name(state, number)):
            number += 1
        given = AliasGiven(format=format_name, id=alias)
        transaction.record(state.session, Draft(given, state.updated_at, ws.recorder.actor))
        return transaction.state(state.session)


def _refuse_anothers(ws: Workspace, state: State, format_name: str) -> None:
    """Raise `Conflict` where a guest gave the session the id of another one here: its files would be written over."""
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
                hint=f"Go on with a copy of your own: holdfast fork {state.session[:8]}",
                session=state.session,
            )


NO_PRINT: Final = fingerprint.Print(0, 0, 0, 0)
_MOST_NOTED: Final = 50
_TICK: Final = 20_000_000  # nanoseconds: names made within it may hide behind each other
# A program that had emptied the file when we replaced it is about to fill it.
_WAITS: Final = (0.01, 0.02, 0.05, 0.1)


class Rewriting:
    def __init__(self, desk: LockedTree) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._root = desk.root

    def write_all(self, one: MirrorLayout) -> bool:
        """Write what is not as it should be; True when somebody wrote in the very moment."""
        there = self._tree.files.setdefault(one.name, {})
        showing = self._showing(one)
        late = self._bring_up(one, showing) if one.writes_itself else self._write_wanted(one, showing)
        strange = self._tree.strange.setdefault(one.name, {})
        for path in [path for path, found in strange.items() if path in there and not found.reason]:
            del strange[path]
        self._list(one)
        return late

    def _list(self, one: MirrorLayout) -> None:
        """Remember the folders as they are, unless something came into one while we were at work."""
        stamps, now = self._desk.stamps(one), self._desk.nanos()
        known = {
            *self._tree.files[one.name],
            *self._tree.strange.get(one.name, ()),
            *self._tree.held.get(one.name, ()),
        }
        new = any(path not in known and one.holds(path) for path in one.listed(self._root))
        sure = {folder: 0 if new or now - at < _TICK else at for folder, at in stamps.items()}
        self._tree.listed[one.name] = {folder: sure[folder] if at else 0 for folder, at in stamps.items()}

    # ── one by one ───────────────────────────────────────────────────────────────────────────────────────

    def _write_wanted(self, one: MirrorLayout, showing: Sequence[Showing]) -> bool:
        there = self._tree.files[one.name]
        held = self._tree.held.get(one.name, {})
        as_left = {path: file for path, file in there.items() if path not in held and self._is_as_left(path, file)}
        self._check_indexes(one, {*as_left, *held})
        wanted = self._without_removed(one, one.wanted(self._root, showing, as_left, there), showing)
        as_of = {each.state.session: each.as_of for each in showing}
        counts = {each.state.session: each.state.count for each in showing}
        before = {*there}
        due = {
            path: want
            for path, want in wanted.items()
            if path not in held and want.data is not None and self._is_due(there, path, want.data, want.session)
        }
        # What somebody put there just as we would have written it is a version like those we write.
        new = [want for path, want in wanted.items() if path in due or (path in there and path not in before)]
        if new:
            hashes = [fingerprint.hash_of(want.data or b"") for want in new]
            events = dict.fromkeys(as_of[want.session] for want in new if want.session in as_of)
            self._desk.memory.know(self._desk.place.main, [*hashes, *events])
        if due:
            self._keep_out_of_git(one)
        late = False
        for path, want in due.items():
            data = want.data or b""
            late |= self._put(one, path, data, want.merged)
            self._remember(there, path, WrittenFile(want.session, fingerprint.hash_of(data), NO_PRINT, "", 0))
        for path, want in wanted.items():
            if path in there:
                there[path].as_of = as_of.get(want.session, "")
                there[path].events = counts.get(want.session, 0)
        for path in [path for path in there if path not in wanted and path not in held]:
            late |= self._take_away(one, path, there.pop(path))
        strange = self._tree.strange.get(one.name, {})
        for path in one.fixed:
            # Somebody put a session there that has ended: it has been taken in, and stands in the archive.
            found = strange.get(path)
            if found is not None and path not in wanted and found.hash in self._desk.taken:
                late |= self._take_away(one, path, WrittenFile("", found.hash, found.print, "", 0))
                del strange[path]
        return late

    def _check_indexes(self, one: MirrorLayout, sound: Collection[str]) -> None:
        """Set aside what stands in the place of an index and is none: it is written anew, and nothing is lost."""
        for path in one.indexes:
            full = inside(self._root, path)
            if path in sound or fingerprint.look(full, self._desk.nanos()) is None:
                continue
            try:
                one.check_index(path, _finished(one, path, full))
            except Invalid as error:
                self._desk.set_aside(one, path, error)

    def _without_removed(
        self, one: MirrorLayout, wanted: dict[str, WantedFile], showing: Sequence[Showing]
    ) -> dict[str, WantedFile]:
        """What another program deleted to stop a session stays away until that goes on or the file is back."""
        removed = self._tree.removed
        paused = {each.state.session for each in showing if view.status_of(each.state) == "paused"}
        for path in [path for path in removed if one.holds(path)]:
            session = removed[path].session
            stays = path in wanted and wanted[path].session == session and session in paused
            if stays and fingerprint.look(inside(self._root, path), self._desk.nanos()) is None:
                del wanted[path]
            else:
                del removed[path]
        return wanted

    def _keep_out_of_git(self, one: MirrorLayout) -> None:
        """At every write: somebody may have taken the line out, or made this a repository since."""
        if not one.ignored:
            return
        try:
            git_ignore.exclude(self._desk.place, one.ignored)
        except HoldfastError as error:
            if not git_ignore.is_in_gitignore(self._root, one.ignored):
                self._desk.tell(f"git does not ignore {one.ignored[0]}: {error.message}.")

    def _is_as_left(self, path: str, file: WrittenFile) -> bool:
        found = fingerprint.look(inside(self._root, path), self._desk.nanos())
        return found is not None and found.fits(file.print) and not file.print.young

    def _is_due(self, there: dict[str, WrittenFile], path: str, data: bytes, session: str) -> bool:
        full = inside(self._root, path)
        file, found = there.get(path), fingerprint.look(full, self._desk.nanos())
        hashed = fingerprint.hash_of(data)
        if found is None:
            return True
        if file is None:
            if fingerprint.hash_of(fingerprint.read(full)) != hashed:
                return True
            there[path] = WrittenFile(session, hashed, found, "", self._desk.keeper.now())
            return False
        if file.hash != hashed or file.session != session:
            return True
        if not found.fits(file.print) or file.print.young:
            if fingerprint.hash_of(fingerprint.read(full)) != hashed:
                return True
            file.print = found  # touched, or young no more
        return False

    def _put(self, one: MirrorLayout, path: str, new: bytes, merged: str) -> bool:
        """Write one file; what somebody wrote between our look and this moment is taken in, not lost.

        `merged`: the hash of what the new content of an index was merged into.
        """
        full = inside(self._root, path)
        refuse_links(self._root, path)
        files.make_private_dir(os.path.dirname(full), within=self._root)
        file = self._tree.files[one.name].get(path)
        late: list[bytes] = []
        if not os.path.lexists(full) and _put_new(full, new, self._root):
            return False

        def displaced(old: str) -> None:
            with contextlib.suppress(HoldfastError, OSError):
                data = _finished(one, path, old)
                if path in one.indexes:
                    late.extend([data] if data.strip() and fingerprint.hash_of(data) != merged else [])
                elif data != new and self._desk.is_news(data, None if file is None else file.hash):
                    late.append(data)

        files.write_atomic(full, new, displaced=displaced, within=self._root)
        if late and path in one.indexes:
            files.write_atomic(full, late[0], within=self._root)  # the next round merges our entries into it
            return True
        return bool(late) and self._take_in_late(one, path, late[0])

    def _take_away(self, one: MirrorLayout, path: str, file: WrittenFile) -> bool:
        """A file whose session has gone elsewhere. Under another name first: it may have been written just now."""
        full = inside(self._root, path)
        if fingerprint.look(full, self._desk.nanos()) is None:
            return False
        hashed = fingerprint.hash_of(fingerprint.read(full))
        if hashed != file.hash and hashed not in self._desk.taken:
            return True  # the next round takes it in
        folder = os.path.dirname(full)
        aside = _temporary(folder)
        files.rename(full, aside, within=self._root)
        data = _finished(one, path, aside)
        late = self._desk.is_news(data, file.hash) and self._take_in_late(one, path, data)
        os.unlink(aside)
        return late

    def _take_in_late(self, one: MirrorLayout, path: str, data: bytes) -> bool:
        try:
            values = one.late(self._root, path, data)
            self._desk.taken.add(fingerprint.hash_of(data))
            news = [self._desk.record(one, where, value, made_current=path in one.fixed) for where, value in values]
            return any(news)
        except (Invalid, Refused, Conflict) as error:
            self._desk.put_aside(one, path, data, error)
            return False

    # ── layouts that write themselves ────────────────────────────────────────────────────────────────────

    def _bring_up(self, one: MirrorLayout, showing: Sequence[Showing]) -> bool:
        there = self._tree.files[one.name]
        if self._tree.held.get(one.name):
            return False
        late: list[tuple[str, bytes]] = []

        def displaced(path: str, old: str) -> bool:
            with contextlib.suppress(HoldfastError, OSError):
                data = _finished(one, path, old)
                if self._desk.is_news(data, there[path].hash if path in there else None):
                    late.append((path, data))
                    return True
            return False

        named = one.models.get("*", "")
        complete = self._tree.model in ("", named) and all(
            path in there and os.path.lexists(inside(self._root, path)) for path in one.fixed
        )
        by_session: dict[str, list[tuple[str, WrittenFile]]] = {}
        for path, file in there.items():
            by_session.setdefault(file.session, []).append((path, file))
        due = [
            each
            for each in showing
            if not complete or not self._is_shown(by_session.get(each.state.session, []), each)
        ]
        left = one.bring_up(self._root, due, there, displaced)
        hashes = [file.hash for file in left.values() if len(file.hash) > 1]
        self._desk.memory.know(self._desk.place.main, [*hashes, *dict.fromkeys(each.as_of for each in due)])
        for path, file in left.items():
            self._remember(there, path, file)
        self._tree.model = named
        self._tell_notes(one, due)
        shown = {each.state.session for each in showing}
        gone = {path: file for path, file in there.items() if file.session and file.session not in shown}
        for path, file in gone.items():
            if file.hash:
                self._take_away(one, path, file)
        if gone and not late:
            features = {path.split("/")[1] for path, file in gone.items() if self._is_deleted(file.session)}
            for path, file in one.erase(self._root, features, there, displaced).items() if features else ():
                self._desk.memory.know(self._desk.place.main, [file.hash] if len(file.hash) > 1 else [])
                self._remember(there, path, file)
            for path in gone:
                del there[path]
        return any([self._take_in_late(one, path, data) for path, data in late])  # noqa: C419 (each of them)

    def _is_deleted(self, session: str) -> bool:
        state = self._desk.keeper.store().state(session)
        return state is not None and bool(state.deleted)

    def _tell_notes(self, one: MirrorLayout, due: Sequence[Showing]) -> None:
        for note in (note for each in due for note in one.notes(each)):
            if note not in self._tree.noted:
                self._tree.noted = [*self._tree.noted, note][-_MOST_NOTED:]
                self._desk.tell(f"{note[0].upper()}{note[1:]}.")

    def _is_shown(self, of_it: Sequence[tuple[str, WrittenFile]], each: Showing) -> bool:
        now = self._desk.nanos()
        return bool(of_it) and all(
            (file.as_of, file.events) == (each.as_of, each.state.count)
            and (found := fingerprint.look(inside(self._root, path), now)) is not None
            and found.fits(file.print)
            for path, file in of_it
        )

    # ── what is remembered ───────────────────────────────────────────────────────────────────────────────

    def _remember(self, there: dict[str, WrittenFile], path: str, file: WrittenFile) -> None:
        """How a file was left. Where it is not what we wrote by now, no fingerprint: the next look reads it."""
        full = inside(self._root, path)
        expected = file.print.size
        found = fingerprint.look(full, self._desk.nanos())
        if found is None:
            there.pop(path, None)
            return
        ours = found.size == expected if not file.hash else fingerprint.hash_of(fingerprint.read(full)) == file.hash
        file.print, file.at = found if ours else NO_PRINT, self._desk.keeper.now()
        there[path] = file

    # ── what is shown ────────────────────────────────────────────────────────────────────────────────────

    def _showing(self, one: MirrorLayout) -> list[Showing]:
        ws = self._desk.keeper
        store = ws.store()
        current = store.current(self._root)
        ids = self._tree.sessions.setdefault(one.name, [])
        came = self._desk.memory.sessions(self._root)
        ids += [session for session in dict.fromkeys(came[self._tree.came.get(one.name, 0) :]) if session not in ids]
        self._tree.came[one.name] = len(came)
        if current is not None and current not in ids:
            state = store.state(current)
            if state is not None and view.status_of(state) not in FINISHED:
                ids.append(current)
        found: list[Showing] = []
        for session in list(ids):
            state = self._desk.state(session)
            if state is None or state.created_at is None:
                continue  # about to begin, in another process
            if state.deleted:
                ids.remove(session)
            else:
                known = give(ws, state, one.name)
                self._desk.keep(known)
                found.append(
                    Showing(
                        known, session == current, _events(store, session), _travel(ws, known),
                        partial(path_here, ws, known),
                    )
                )  # fmt: skip
        return found


def _events(store: Store, session: str) -> Callable[[int], Iterator[Event]]:
    return lambda clock: store.events(session, since=clock)


def _travel(ws: Workspace, state: State) -> Callable[[], SyncFacts | None]:
    return lambda: ws.sync_facts(state)


def _temporary(folder: str) -> str:
    return os.path.join(folder, files.temporary_name())


def _put_new(full: str, data: bytes, root: str) -> bool:
    """Put a file where there is none; False when there is one after all, or this file system cannot tell."""
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


def _finished(one: MirrorLayout, path: str, old: str) -> bytes:
    """What stood there. Somebody who had just emptied it gets a moment to fill it."""
    data = fingerprint.read(old)
    for wait in _WAITS:
        if not one.is_torn(path, data):
            break
        time.sleep(wait)
        data = fingerprint.read(old)
    return data
