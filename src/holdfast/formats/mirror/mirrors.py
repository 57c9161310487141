"""Mirrors: live files in a project, in one of the four formats, kept equal to the sessions in both directions.

Before a command answers, changes to the files are read; after every change to a session the files are written. Both
happen under one lock per work tree, and files are rendered while it is held, so the last process to hold it writes
the latest state. A file that breaks the rules is set aside and restored; the command that noticed still does its own
job, and reports it.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core import view
from holdfast.core.errors import Busy, Conflict, Damaged, HoldfastError, Invalid, Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import shorten
from holdfast.core.times import format_time
from holdfast.formats import project_files
from holdfast.formats.mirror import fingerprint, git_ignore
from holdfast.formats.mirror.layouts import MirrorLayout, absolute_path, folder_stamp, make_layout
from holdfast.formats.mirror.locked_tree import refuse_links, stamp
from holdfast.formats.mirror.state import MirroredTree, MirrorState, RejectedFile
from holdfast.machine.locks import PATIENCE, locked
from holdfast.sessions.history import current_session

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from holdfast.formats.base import ImportContext
    from holdfast.formats.project_files import ProjectFile
    from holdfast.workspace.workspace import Workspace


class MirrorStatus(NamedTuple):
    """One mirror, for people: its files, when one was last written, and what others did to them."""

    format: str
    paths: list[str]
    last_written: int | None
    changed_outside: bool
    rejected: list[RejectedFile]
    left_alone: dict[str, str]
    failure: str | None


class Mirrors:
    """The mirrors of a workspace's work tree."""

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._place = ws.place
        self.stored = MirrorState(ws.home.path)
        # Deleted files that were reported by this process.
        self.deleted: set[str] = set()
        self._looked = False

    # ── before and after ─────────────────────────────────────────────────────────────────────────────────

    def collect(self) -> None:
        """Read what others wrote, and bring the files up to date, if there is anything to do."""
        if self._ws.collect_mode == "once" and self._looked:
            return
        self._looked = True
        formats = self.formats()
        if not formats:
            return
        tree = self.stored.tree(self._place.root)
        patience = PATIENCE
        try:
            if all(self._untouched(tree, item) for item in formats):
                if all(self._is_current(tree, item) for item in formats):
                    self._report_deleted(tree)
                    return
                patience = 0.0  # the lock's holder writes the truth, so there is nothing to wait for
        except HoldfastError:
            pass  # reported below, file by file
        self._settle(formats, patience=patience)
        self._report_deleted(self.stored.tree(self._place.root))

    def _report_deleted(self, tree: MirroredTree) -> None:
        for path, removed in tree.removed.items():
            if not removed.reported:
                self.deleted.add(path)
                self._ws.note(
                    f"{path} was deleted, so the session is paused. To continue: holdfast resume. "
                    "To end it: holdfast stop"
                )

    def mark_reported(self) -> None:
        """A person has read the reports about deleted files: they are not repeated."""
        if not self.deleted:
            return
        # If the lock is taken for long, the report is repeated once more.
        with (
            contextlib.suppress(HoldfastError, OSError),
            locked(self.stored.lock(self._place.root), patience=0, purpose="reporting a deleted file"),
        ):
            tree = self.stored.tree(self._place.root)
            for path in self.deleted & tree.removed.keys():
                tree.removed[path].reported = True
            self.stored.save(tree)
        self.deleted.clear()

    def write(self) -> None:
        """Bring the files up to date after a change."""
        formats = self.formats()
        if formats:
            self._settle(formats)

    def write_sync_facts(self) -> None:
        """After a sync: rewrite files that say how their sessions are synced, if that has changed."""
        formats = [item for item in self.formats() if item.shows_sync_facts]
        if formats:
            self._settle(formats, again=True)

    def formats(self) -> list[MirrorLayout]:
        """The layouts of the mirrors that are on here, as set in the project's main work tree."""
        if not self.stored.exists():
            return []
        return [self._layout(name) for name in self.stored.switch().on.get(self._place.main, {})]

    def paths(self) -> list[str]:
        """Every path that mirrors use here: changes to them are not counted as work."""
        paths: list[str] = []
        for item in self.formats():
            paths += [*item.fixed, *item.folders, *self.stored.tree(self._place.root).files.get(item.name, ())]
        return paths

    # ── switching ────────────────────────────────────────────────────────────────────────────────────────

    def switch_on(self, name: str, *, current_stays: bool | None = None, gitignore: bool = False) -> None:
        """Begin to mirror. Existing files are read first; files that are not of the format are left alone.

        If a file contains another session than the current one, the one worked on last becomes current, unless
        `current_stays` decides. What became of the other is reported. Files that must not be committed are ignored in
        this clone; with `gitignore`, in everybody's.
        """
        layout = self._layout(name)
        if any(other.name == name for other in self.formats()):
            raise Conflict(f"the mirror {name} is on already", hint="holdfast mirror status shows it.")
        for path in (*layout.fixed, *(f"{folder}/-" for folder in layout.folders)):
            refuse_links(self._place.root, path)
        unreadable = self._refuse_foreign_files(layout)
        self._keep_out_of_git(layout, gitignore=gitignore)
        self._ws.home.prepare()
        self._ws.store()
        if current_stays is None:
            current_stays = self.current_stays(name)
        # Before the mirror is on, so that nothing imported becomes current.
        older = self._import_competing(name) if current_stays else None
        self._prepare_tree(name, unreadable)
        self.stored.set(self._place.main, name, self._ws.now())
        if older is not None:
            session, version = older
            self.stored.remember(self._place.main, [version])
            self.stored.note_session(self._place.root, session)
        self._settle([layout], everything=True)
        self._ws.follow()

    def current_stays(self, name: str) -> bool | None:
        """Whether the current session was worked on later than the one in the file; None unless there are two."""
        current, file = current_session(self._ws), self._competing_file(name)
        if current is None or file is None or file.known == current:
            return None
        return file.changed <= self._ws.state(current).updated_at

    def _competing_file(self, name: str) -> ProjectFile | None:
        """The file of a single-session format, if it contains an unfinished session the store does not know."""
        files_here = (
            project_files.find_files(self._ws, at_work=True, thorough=True) if name in project_files.SINGLE else []
        )
        return next((file for file in files_here if file.format == name and file.unfinished), None)

    def _import_competing(self, name: str) -> tuple[str, str] | None:
        """Import the file's session while another one stays current; from now on the file shows the current one.

        Returns the session, and the file's hash: what is in the log is not new for the mirror.
        """
        file = self._competing_file(name)
        if file is None:
            return None
        data = fingerprint.read(file.path)
        imported = project_files.import_file(self._ws, file)
        shown = os.path.relpath(file.path, self._place.root)
        self._ws.note(
            f"{shown} contained another session, from {format_time(file.changed)[:10]}: it was imported as "
            f"{imported[:8]}, and the file shows the current one. "
            f"To continue the other one: holdfast resume {imported[:8]}"
        )
        return imported, fingerprint.hash_of(data)

    def committed(self, layout: MirrorLayout) -> list[str]:
        """Files of a format that must not be committed, but are tracked by git."""
        existing = [
            path for path in layout.fixed if layout.ignored and os.path.lexists(absolute_path(self._place.root, path))
        ]
        return [
            path
            for path in existing
            if project_files.is_tracked(self._ws, absolute_path(self._place.root, path), unknown=False)
        ]

    def _keep_out_of_git(self, layout: MirrorLayout, *, gitignore: bool) -> None:
        if not layout.ignored or not git_ignore.can_commit(self._place):
            return
        for path in self.committed(layout):
            self._ws.note(f"git tracks {path}, so the next commit includes it: git rm --cached {path}")
        if gitignore:
            git_ignore.add_to_gitignore(self._place.root, layout.ignored)
        try:
            git_ignore.exclude(self._place, layout.ignored)
        except HoldfastError as error:
            if not git_ignore.is_in_gitignore(self._place.root, layout.ignored):
                error.hint = f"{error.hint or ''} Or: holdfast mirror on {layout.name} --gitignore".strip()
                raise

    def _prepare_tree(self, name: str, unreadable: Sequence[tuple[str, str]]) -> None:
        """Sessions started here for other mirrors are not shown in this one.

        Files with nothing left to recover get another name.
        """
        with locked(self.stored.lock(self._place.root), purpose="switching a mirror on"):
            tree = self.stored.tree(self._place.root)
            tree.came[name] = len(self.stored.sessions(self._place.root))
            for path, why in unreadable:
                aside = project_files.set_aside(self._ws, absolute_path(self._place.root, path))
                aside_path = f"{posixpath.dirname(path)}/{os.path.basename(aside)}"
                tree.reject(name, RejectedFile(path, aside_path, why, self._ws.now()))
                self._ws.note(f"{path} was kept as {os.path.basename(aside)}: {why}.")
            # Files deleted while nothing was mirrored stop no session.
            for path in [
                path for path in tree.files.get(name, {}) if not os.path.lexists(absolute_path(tree.root, path))
            ]:
                del tree.files[name][path]
                tree.removed.pop(path, None)
            self.stored.save(tree)

    def note_current(self, session: str) -> None:
        """A session is about to become current here."""
        if self.formats():
            self.stored.note_session(self._place.root, session)

    def switch_off(self, name: str) -> None:
        """Stop mirroring. The files stay as they are."""
        make_layout(name)
        layout = next((layout for layout in self.formats() if layout.name == name), None)
        if layout is None:
            raise Conflict(f"the mirror {name} is off already", hint="holdfast mirror status shows it.")
        if layout.ignored:
            try:
                if git_ignore.include(self._place, layout.ignored):
                    self._ws.note(f"git no longer ignores {layout.ignored[0]}.")
            except HoldfastError as error:
                self._ws.note(f"git still ignores {layout.ignored[0]}: {error.message}.")
        self.stored.set(self._place.main, name, None)

    def changed_outside(self) -> set[str]:
        """The formats with a file that somebody else changed since it was written. Ask before collecting."""
        tree = self.stored.tree(self._place.root)
        return {item.name for item in self.formats() if self._differs(tree, item)}

    def status(self, changed: Container[str] = ()) -> list[MirrorStatus]:
        """Every mirror's status; `changed` are formats that were just found changed by somebody else."""
        tree = self.stored.tree(self._place.root)
        mirrors: list[MirrorStatus] = []
        for item in self.formats():
            written = tree.files.get(item.name, {})
            refused = {
                path: foreign.reason for path, foreign in tree.foreign.get(item.name, {}).items() if foreign.reason
            }
            left_alone = {**refused, **tree.left_alone.get(item.name, {})}
            mirrors.append(
                MirrorStatus(
                    item.name, sorted(written), max((file.at for file in written.values()), default=None),
                    item.name in changed or bool(left_alone) or self._differs(tree, item),
                    tree.rejected.get(item.name, []),
                    left_alone, tree.failures.get(item.name),
                )
            )  # fmt: skip
        return mirrors

    def _differs(self, tree: MirroredTree, layout: MirrorLayout) -> bool:
        """Whether a file is not as we left it. One look, and one read of what was touched."""
        written, root = tree.files.get(layout.name, {}), self._place.root
        foreign = tree.foreign.get(layout.name, {})
        with contextlib.suppress(HoldfastError):
            for path, file in written.items():
                now = fingerprint.take(absolute_path(root, path), self._nanos())
                if now is None:
                    return True
                if (not now.matches(file.print) or file.print.is_young) and file.hash:
                    if fingerprint.hash_of(fingerprint.read(absolute_path(root, path))) != file.hash:
                        return True
                elif not now.matches(file.print):
                    return True
            return any(
                path not in written and path not in foreign and os.path.lexists(absolute_path(root, path))
                for path in layout.fixed
            )
        return True

    def _refuse_foreign_files(self, layout: MirrorLayout) -> list[tuple[str, str]]:
        """Refuse if a handmade file is where a mirror would write: it is not ours to replace.

        Returns the files that cannot be read and contain nothing the log lacks, and why.
        """
        root = self._place.root
        unusable: list[tuple[str, str]] = []
        for path in layout.fixed:
            if not os.path.lexists(absolute_path(root, path)):
                continue
            at_fault = path
            try:
                refuse_links(root, path)
                fingerprint.take(absolute_path(root, path), 0)
                data = layout.content(root, path)
                if git_ignore.unmerged_reason(data) is None:
                    for where, value in layout.gather(root, path, data):
                        at_fault = where
                        layout.rules.repair(value, self._context())
            except (Invalid, Damaged, Refused) as error:
                hint = None if isinstance(error, Refused) else self._recovery_hint(layout, at_fault)
                if hint is None and not isinstance(error, Refused):
                    unusable.append((path, shorten(error.message, 300)))
                    continue
                raise Conflict(
                    f"{at_fault} exists but is not a {layout.name} file: {error.message}",
                    hint=hint or error.hint,
                    file=at_fault,
                ) from error
        return unusable

    def _recovery_hint(self, layout: MirrorLayout, path: str) -> str | None:
        """How to recover what an unusable file contains; None if there is nothing to recover."""
        if layout.name not in project_files.SINGLE:
            return f"holdfast validate {path} shows what is wrong with it."
        files_here = project_files.find_files(self._ws, at_work=True, thorough=True)
        file = next((file for file in files_here if file.format == layout.name), None)
        if file is None:
            return None
        if file.recoverable and not file.foreign:
            return (
                f"Recover what it contains: holdfast recover {file.shell_path} --start\n"
                f"Then again: holdfast mirror on {layout.name} (the file is kept under another name)"
            )
        if file.foreign:
            return f"Recover what it contains (holdfast import --salvage {file.shell_path}), then move it away."
        return None

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────

    def _untouched(self, tree: MirroredTree, layout: MirrorLayout) -> bool:
        """One `stat` per file: whether everything is as we left it."""
        root, now = self._place.root, self._nanos()
        written, foreign = tree.files.get(layout.name, {}), tree.foreign.get(layout.name, {})
        if layout.name in tree.failures or tree.left_alone.get(layout.name):
            return False
        for path, file in written.items():
            disk_print = fingerprint.take(absolute_path(root, path), now)
            if disk_print is None or not disk_print.matches(file.print):
                return False
            # Worth saving once it is no longer young, so that the next look need not read the file.
            if (file.print.is_young and file.hash) and (
                not disk_print.is_young
                or fingerprint.hash_of(fingerprint.read(absolute_path(root, path))) != file.hash
            ):
                return False
        for path in {*foreign, *layout.fixed} - written.keys():
            disk_print = fingerprint.take(absolute_path(root, path), now)
            if path not in foreign:
                if disk_print is not None:
                    return False
            elif disk_print is None or not disk_print.matches(foreign[path].print) or foreign[path].print.is_young:
                return False
        stamps = {folder: folder_stamp(absolute_path(root, folder)) for folder in layout.folders}
        return stamps == tree.listed.get(layout.name, {})

    def _is_current(self, tree: MirroredTree, layout: MirrorLayout) -> bool:
        """Whether the files show the latest events: the process that recorded them may have died before writing."""
        if tree.as_of.get(layout.name) != stamp(self._ws):
            return False
        store = self._ws.existing_store()
        current = None if store is None else store.current(self._place.root)
        state = None if store is None or current is None else store.state(current)
        if state is None or state.deleted or view.status_of(state) in FINISHED:
            return True  # for a session that is not current, the log stamp is enough
        as_of = state.last[3] if state.last else ""
        if any(tree.removed[path].session == current for path in layout.fixed if path in tree.removed):
            return view.status_of(state) == "paused"
        shown = [file for file in tree.files.get(layout.name, {}).values() if file.session == current]
        return bool(shown) and all(file.as_of == as_of for file in shown)

    def _settle(
        self,
        formats: Sequence[MirrorLayout],
        *,
        everything: bool = False,
        again: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        from holdfast.formats.mirror.settle import settle

        try:
            settle(
                self._ws.quiet(), self.stored, formats, self._ws.note, everything=everything, again=again,
                patience=patience,
            )  # fmt: skip
        except Busy:
            return  # the holder of the lock writes what was recorded until it releases it
        except HoldfastError as error:
            # The log has everything; the files follow when possible.
            self._ws.note(f"The mirrored files could not be written: {error.message}.")

    # ── what is used above ───────────────────────────────────────────────────────────────────────────────

    def _layout(self, name: str) -> MirrorLayout:
        from holdfast.formats.import_context import models

        return make_layout(name, models(self._ws) if name == "contract" else None)

    def _context(self) -> ImportContext:
        from holdfast.formats.import_context import import_context

        return import_context(self._ws)

    def _nanos(self) -> int:
        return self._ws.wall.micros() * 1000
