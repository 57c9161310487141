"""One work tree while its lock is held: its state, its log, and the place where refused files are kept."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import shorten
from holdfast.core.times import file_stamp as stamp_of
from holdfast.formats.convert import state_of
from holdfast.formats.document_paths import covered, note_words
from holdfast.formats.import_context import import_context
from holdfast.formats.mirror import fingerprint
from holdfast.formats.mirror.layouts import MirrorLayout, folder_stamp, inside
from holdfast.formats.mirror.moved_tasks import PENDING
from holdfast.formats.mirror.read_back import take_file
from holdfast.formats.mirror.state import MirroredTree, MirrorState, RejectedFile, WrittenFile
from holdfast.formats.stored_remainder import shown as shown_as
from holdfast.machine import files
from holdfast.machine.files import free_name

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


# What becomes of a file that shows a session as unfinished that has ended.
_BECAME: Final = {
    "written": "the file was brought up to date",
    "removed": "the file was removed, and the session stays in history",
    "left": "the file is left as git has it",
}
# What is assumed of one file says enough with so many sentences; `import` lists all of them.
_MOST_NOTES: Final = 8


class LockedTree:
    """One work tree while its lock is held."""

    def __init__(self, ws: Workspace, memory: MirrorState, tree: MirroredTree, tell: Callable[[str], None]) -> None:
        self.keeper = ws
        self.memory = memory
        self.tree = tree
        self.tell = tell
        self.place = ws.place
        self.root = ws.place.root
        # Hashes of what was taken in since the lock was had: no need to take it in twice.
        self.taken: set[str] = set()
        # Sessions as they were read, and how far the log was before that.
        self._states: dict[str, State | None] = {}
        self._as_of: str | None = None

    def nanos(self) -> int:
        return self.keeper.wall.micros() * 1000

    def stamps(self, one: MirrorLayout) -> dict[str, int]:
        return {folder: folder_stamp(inside(self.root, folder)) for folder in one.folders}

    def as_of(self) -> str:
        """How far the log was before anything was rendered: what is recorded after that is news for the next look."""
        if self._as_of is None:
            self._states.clear()
            self._as_of = stamp(self.keeper)
        return self._as_of

    def state(self, session: str) -> State | None:
        """A session as of then. Several formats show it, and it is read once."""
        self.as_of()
        if session not in self._states:
            self._states[session] = self.keeper.store().state(session)
        return self._states[session]

    def forget_log(self) -> None:
        """Something is being recorded: what was read of the log is read again."""
        self._as_of = None

    def keep(self, state: State) -> None:
        self._states[state.session] = state

    def record(
        self,
        one: MirrorLayout,
        path: str,
        value: Json,
        *,
        made_current: bool,
        edited: int | None = None,
        came_in: str | None = None,
    ) -> bool:
        """Take in what a file says, which was `edited` then; True when that was news.

        `came_in`: the file that it stands in.
        """
        self.forget_log()
        file = self.tree.files[one.name].get(path)
        shown = None if file is None else file.session or None
        written = self.memory.written(self.place.main)
        taken = take_file(
            self.keeper, value, one.rules, shown=shown, written=written.__contains__,
            lines=self.tree.lines.setdefault(one.name, {}), made_current=made_current, edited=edited,
            file_of=lambda place: inside(self.root, one.part(path, place)),
        )  # fmt: skip
        sessions = self.tree.sessions.setdefault(one.name, [])
        new = taken.session not in sessions
        if new:
            sessions.append(taken.session)
        if came_in is not None and one.keeps_names:
            self._keep_name(one, came_in, taken.session)
        goes = came_in in one.fixed and came_in not in self.tree.files[one.name] and not one.writes_itself
        self._tell_of_ended(one, came_in or path, value, taken.session, "removed" if goes else "written")
        told = [
            note
            for note in taken.notes
            if taken.new or note.place == (PENDING,) or covered(one.rules.checked, note.place)
        ]
        for note in told[:_MOST_NOTES]:
            self.tell(f"{path}: {note_words(note)}.")
        if taken.conflicts:
            self.tell(f"{path} was changed on both sides: holdfast status shows the conflict.")
        return new or bool(taken.events)

    def _keep_name(self, one: MirrorLayout, path: str, session: str) -> None:
        """A session stays in the file that its program began it in, unless it has one already."""
        there, state = self.tree.files[one.name], self.keeper.store().state(session)
        if path in there or state is None or any(file.session == session for file in there.values()):
            return
        usual = one.usual_path(shown_as(state, one.rules))
        if path == usual or not os.path.lexists(inside(self.root, usual)):
            there[path] = WrittenFile(session, "", fingerprint.Print(0, 0, 0, 0), "", 0)

    # ── sessions that have ended ─────────────────────────────────────────────────────────────────────────

    def tell_of_ended(self, one: MirrorLayout, path: str, data: bytes, *, what: str) -> bool:
        """Whether a file shows a session as unfinished that has ended; that is told, and `what` becomes of it."""
        found = False
        with contextlib.suppress(HoldfastError):
            for _, value in one.gather(self.root, path, data):
                found |= self._tell_of_ended(one, path, value, None, what)
        return found

    def _tell_of_ended(self, one: MirrorLayout, path: str, value: Json, session: str | None, what: str) -> bool:
        here, store = import_context(self.keeper), self.keeper.store()
        tidied = None if session is not None else one.rules.tidy(value, here)
        named = [session or ""] if tidied is None else store.find(one.rules.alias(tidied.document))
        states = [state for found in named if (state := store.state(found)) is not None and not state.deleted]
        status = view.status_of(states[0]) if len(states) == 1 else ""
        if status not in FINISHED:
            return False
        document = (tidied or one.rules.tidy(value, here)).document
        if view.status_of(state_of(document, one.rules, here)) in FINISHED:
            return False
        short = states[0].session[:8]
        self.tell(
            f"{path} showed session {short} as unfinished, which is {status}: {_BECAME[what]}. "
            f"To go on from it: holdfast start GOAL --continues {short}"
        )
        return True

    # ── what is refused ──────────────────────────────────────────────────────────────────────────────────

    def set_aside(self, one: MirrorLayout, path: str, error: HoldfastError) -> None:
        """Nothing is thrown away because it could not be read, or broke the rules."""
        full = inside(self.root, path)
        aside = self._free_name(path)
        files.rename(full, inside(self.root, aside), within=self.root)
        if path in self.tree.files[one.name]:
            self.tree.files[one.name][path].print = fingerprint.Print(0, 0, 0, 0)  # it belongs there, and is not
        self.tree.strange[one.name].pop(path, None)
        self._note_aside(one, path, aside, error)

    def put_aside(self, one: MirrorLayout, path: str, data: bytes, error: HoldfastError) -> None:
        """The same for what stood there an instant ago."""
        aside = self._free_name(path)
        files.write_atomic(inside(self.root, aside), data, within=self.root)
        self._note_aside(one, path, aside, error)

    def _free_name(self, path: str) -> str:
        aside = free_name(inside(self.root, f"{path}.rejected-{stamp_of(self.keeper.now())}"))
        return f"{path}{aside.removeprefix(inside(self.root, path))}"

    def _note_aside(self, one: MirrorLayout, path: str, aside: str, error: HoldfastError) -> None:
        self.tree.reject(one.name, RejectedFile(path, aside, shorten(error.message, 300), self.keeper.now()))
        self.tell(f"{path} was set aside as {os.path.basename(aside)}: {error.message}.")

    def is_news(self, data: bytes, expected: str | None) -> bool:
        """Did somebody else write this?"""
        hashed = fingerprint.hash_of(data)
        if hashed == expected or hashed in self.taken:
            return False
        return not self.memory.knows(self.place.main, hashed)


def stamp(ws: Workspace) -> str:
    """Changes with everything that is recorded, and with what this work tree is at."""
    store = ws.existing_store()
    if store is None:
        return ""
    return f"{store.latest_time()} {store.current(ws.place.root)} {ws.settings['contract.model']}"


def refuse_links(root: str, path: str) -> None:
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
