"""One work tree while its lock is held: its state, its log, and where refused files are kept."""

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
from holdfast.formats.document_paths import is_covered, note_words
from holdfast.formats.import_context import import_context
from holdfast.formats.mirror import fingerprint
from holdfast.formats.mirror.base_version import PENDING
from holdfast.formats.mirror.layouts import MirrorLayout, absolute_path, folder_stamp
from holdfast.formats.mirror.read_back import MirroredFile, read_back
from holdfast.formats.mirror.state import MirroredTree, MirrorState, RejectedFile, WrittenFile
from holdfast.formats.remainder import render_with_remainder as shown_as
from holdfast.machine import files
from holdfast.machine.files import free_name

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


# What becomes of a file that shows an ended session as unfinished.
_BECAME: Final = {
    "written": "the file was updated",
    "removed": "the file was removed, and the session stays in history",
    "left": "the file is left as git has it",
}
# So many sentences about one file are enough; `import` lists all of them.
_MAX_NOTES: Final = 8


class LockedTree:
    """One work tree while its lock is held."""

    def __init__(self, ws: Workspace, stored: MirrorState, tree: MirroredTree, report: Callable[[str], None]) -> None:
        self.ws = ws
        self.stored = stored
        self.tree = tree
        self.report = report
        self.place = ws.place
        self.root = ws.place.root
        # Hashes of content read under this lock, which need not be read again.
        self.read_hashes: set[str] = set()
        # Sessions as they were read, and how far the log was before that.
        self._states: dict[str, State | None] = {}
        self._as_of: str | None = None

    def nanos(self) -> int:
        return self.ws.wall.micros() * 1000

    def stamps(self, layout: MirrorLayout) -> dict[str, int]:
        return {folder: folder_stamp(absolute_path(self.root, folder)) for folder in layout.folders}

    def as_of(self) -> str:
        """How far the log was before anything was rendered: what is recorded later is new for the next round."""
        if self._as_of is None:
            self._states.clear()
            self._as_of = stamp(self.ws)
        return self._as_of

    def state(self, session: str) -> State | None:
        """A session as of then, read once although several formats show it."""
        self.as_of()
        if session not in self._states:
            self._states[session] = self.ws.store().state(session)
        return self._states[session]

    def forget_log(self) -> None:
        """Something is being recorded, so the log has to be read again."""
        self._as_of = None

    def keep(self, state: State) -> None:
        self._states[state.session] = state

    def record(
        self,
        layout: MirrorLayout,
        path: str,
        value: Json,
        *,
        made_current: bool,
        edited: int | None = None,
        source: str | None = None,
    ) -> bool:
        """Record what a file says, edited at `edited`; True if that was news.

        `source`: the file that contains it.
        """
        self.forget_log()
        file = self.tree.files[layout.name].get(path)
        shown = None if file is None else file.session or None
        written = self.stored.written(self.place.main)
        mirrored = MirroredFile(
            value, layout.rules, shown, made_current, written.__contains__, edited,
            file_of=lambda place: absolute_path(self.root, layout.file_with(path, place)),
        )  # fmt: skip
        imported = read_back(self.ws, mirrored, self.tree.edit_chains.setdefault(layout.name, {}))
        sessions = self.tree.sessions.setdefault(layout.name, [])
        new = imported.session not in sessions
        if new:
            sessions.append(imported.session)
        if source is not None and layout.keeps_file_names:
            self._keep_name(layout, source, imported.session)
        will_be_removed = (
            source in layout.fixed and source not in self.tree.files[layout.name] and not layout.writes_itself
        )
        self._report_ended(
            layout, source or path, value, imported.session, "removed" if will_be_removed else "written"
        )
        notes = [
            note
            for note in imported.notes
            if imported.new or note.place == (PENDING,) or is_covered(layout.rules.checked, note.place)
        ]
        for note in notes[:_MAX_NOTES]:
            self.report(f"{path}: {note_words(note)}.")
        if imported.conflicts:
            self.report(f"{path} was changed on both sides: holdfast status shows the conflict.")
        return new or bool(imported.events)

    def _keep_name(self, layout: MirrorLayout, path: str, session: str) -> None:
        """A session stays in the file that its program started it in, unless it has one already."""
        written, state = self.tree.files[layout.name], self.ws.store().state(session)
        if path in written or state is None or any(file.session == session for file in written.values()):
            return
        usual = layout.usual_path(shown_as(state, layout.rules))
        if path == usual or not os.path.lexists(absolute_path(self.root, usual)):
            written[path] = WrittenFile(session, "", fingerprint.Fingerprint(0, 0, 0, 0), "", 0)

    # ── sessions that have ended ─────────────────────────────────────────────────────────────────────────

    def report_ended(self, layout: MirrorLayout, path: str, data: bytes, *, outcome: str) -> bool:
        """Report a file that shows an ended session as unfinished, with its `outcome`; returns whether it does."""
        reported = False
        with contextlib.suppress(HoldfastError):
            for _, value in layout.gather(self.root, path, data):
                reported |= self._report_ended(layout, path, value, None, outcome)
        return reported

    def _report_ended(self, layout: MirrorLayout, path: str, value: Json, session: str | None, outcome: str) -> bool:
        context, store = import_context(self.ws), self.ws.store()
        repaired = None if session is not None else layout.rules.repair(value, context)
        named = [session or ""] if repaired is None else store.find(layout.rules.alias(repaired.document))
        states = [
            state for session_id in named if (state := store.state(session_id)) is not None and not state.deleted
        ]
        status = view.status_of(states[0]) if len(states) == 1 else ""
        if status not in FINISHED:
            return False
        document = (repaired or layout.rules.repair(value, context)).document
        if view.status_of(state_of(document, layout.rules, context)) in FINISHED:
            return False
        short = states[0].session[:8]
        self.report(
            f"{path} showed session {short} as unfinished, but it is {status}: {_BECAME[outcome]}. "
            f"To continue it: holdfast start GOAL --continues {short}"
        )
        return True

    # ── what is refused ──────────────────────────────────────────────────────────────────────────────────

    def set_aside(self, layout: MirrorLayout, path: str, error: HoldfastError) -> None:
        """Keep a file that could not be read or broke the rules under another name."""
        full = absolute_path(self.root, path)
        aside = self._free_name(path)
        files.rename(full, absolute_path(self.root, aside), within=self.root)
        if path in self.tree.files[layout.name]:
            self.tree.files[layout.name][path].print = fingerprint.Fingerprint(
                0, 0, 0, 0
            )  # it belongs there, and is missing
        self.tree.foreign[layout.name].pop(path, None)
        self._note_aside(layout, path, aside, error)

    def keep_copy(self, layout: MirrorLayout, path: str, data: bytes, error: HoldfastError) -> None:
        """The same for content that was there an instant ago."""
        aside = self._free_name(path)
        files.write_atomic(absolute_path(self.root, aside), data, within=self.root)
        self._note_aside(layout, path, aside, error)

    def _free_name(self, path: str) -> str:
        aside = free_name(absolute_path(self.root, f"{path}.rejected-{stamp_of(self.ws.now())}"))
        return f"{path}{aside.removeprefix(absolute_path(self.root, path))}"

    def _note_aside(self, layout: MirrorLayout, path: str, aside: str, error: HoldfastError) -> None:
        self.tree.reject(layout.name, RejectedFile(path, aside, shorten(error.message, 300), self.ws.now()))
        self.report(f"{path} was set aside as {os.path.basename(aside)}: {error.message}.")

    def is_foreign(self, data: bytes, expected: str | None) -> bool:
        """Whether somebody else wrote this."""
        hashed = fingerprint.hash_of(data)
        if hashed == expected or hashed in self.read_hashes:
            return False
        return not self.stored.was_written(self.place.main, hashed)


def stamp(ws: Workspace) -> str:
    """A value that changes whenever something is recorded, and with the work tree's current session."""
    store = ws.existing_store()
    if store is None:
        return ""
    return f"{store.latest_time()} {store.current(ws.place.root)} {ws.settings['contract.model']}"


def refuse_links(root: str, path: str) -> None:
    """Refuse links: no folder on the way to a mirrored file may lead out of the work tree."""
    at = root
    for step in path.split("/")[:-1]:
        at = os.path.join(at, step)
        if os.path.islink(at):
            raise Refused(
                "a mirrored folder is a link",
                hint="Move it away; Holdfast does not follow links there.",
                operation="mirror",
                file=at,
            )
