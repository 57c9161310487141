"""Mirrors: live files in a project, in one of the four formats, kept equal to the sessions in both directions.

Before anything is answered, what others wrote into the files is taken in; after every change the files are written
again. Both happen under one lock per work tree, and the files are rendered inside it: whoever holds it last writes
what is true last. A file that breaks the rules is set aside and restored; the command that noticed does its own job
all the same, and tells.
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
from holdfast.formats.mirror.layouts import MirrorLayout, folder_stamp, inside, make_layout
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
    """The mirrors of one keeper's work tree."""

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._place = ws.place
        self.stored = MirrorState(ws.home.path)
        # Files that another program deleted, as far as they were told of here.
        self.deleted: set[str] = set()
        self._looked = False

    # ── before and after ─────────────────────────────────────────────────────────────────────────────────

    def collect(self) -> None:
        """Take in what others wrote, and bring the files up to date, if there is anything to do."""
        if self._ws.collects == "once" and self._looked:
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
                patience = 0.0  # who is at it writes what is true; nobody else's word is waited for
        except HoldfastError:
            pass  # told below, file by file
        self._settle(formats, patience=patience)
        self._report_deleted(self.stored.tree(self._place.root))

    def _report_deleted(self, tree: MirroredTree) -> None:
        for path, removed in tree.removed.items():
            if not removed.reported:
                self.deleted.add(path)
                self._ws.note(
                    f"{path} was deleted, so the session is paused. Go on with it: holdfast resume. "
                    "End it: holdfast stop"
                )

    def mark_reported(self) -> None:
        """A person has read what was told of deleted files: it is not told again."""
        if not self.deleted:
            return
        # Whoever holds the lock for long lets it be told once more.
        with (
            contextlib.suppress(HoldfastError, OSError),
            locked(self.stored.lock(self._place.root), patience=0, what="telling of a deleted file"),
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
        """After a sync: files that say how their sessions travel are written again where that has changed."""
        formats = [item for item in self.formats() if item.shows_sync_facts]
        if formats:
            self._settle(formats, again=True)

    def formats(self) -> list[MirrorLayout]:
        """The layouts of the mirrors that are on here, as the project's main work tree says."""
        if not self.stored.exists():
            return []
        return [self._layout(name) for name in self.stored.switch().on.get(self._place.main, {})]

    def paths(self) -> list[str]:
        """Every path that mirrors use here: none of them counts as somebody's work."""
        paths: list[str] = []
        for item in self.formats():
            paths += [*item.fixed, *item.folders, *self.stored.tree(self._place.root).files.get(item.name, ())]
        return paths

    # ── switching ────────────────────────────────────────────────────────────────────────────────────────

    def switch_on(self, name: str, *, current_stays: bool | None = None, gitignore: bool = False) -> None:
        """Begin to mirror. What is there already is taken in first; what is none of the format's is left alone.

        Where a file holds another session than the current one, the one that was worked on last is current after
        that, unless `current_stays` says which. What became of the other is told. Files that must not be committed
        are ignored by this clone alone; with `gitignore`, by everybody's.
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
        # Before the mirror is on: nothing that is imported becomes current by that.
        older = self._import_competing(name) if current_stays else None
        self._prepare_tree(name, unreadable)
        self.stored.set(self._place.main, name, self._ws.now())
        if older is not None:
            session, version = older
            self.stored.know(self._place.main, [version])
            self.stored.note_session(self._place.root, session)
        self._settle([layout], everything=True)
        self._ws.follow()

    def current_stays(self, name: str) -> bool | None:
        """Whether the current session was worked on later than the one in the file; None where there are not two."""
        current, file = current_session(self._ws), self._competing_file(name)
        if current is None or file is None or file.known == current:
            return None
        return file.changed <= self._ws.state(current).updated_at

    def _competing_file(self, name: str) -> ProjectFile | None:
        """The file of a format for one session, where it holds an unfinished one that the store does not know."""
        files_here = (
            project_files.files(self._ws, at_work=True, thorough=True) if name in project_files.SINGLE else []
        )
        return next((file for file in files_here if file.format == name and file.unfinished), None)

    def _import_competing(self, name: str) -> tuple[str, str] | None:
        """Import what the file holds, though another session stays current; the file shows that one from now on.

        Gives the session, and the hash of the file that told it: what is in the log is no news for the mirror.
        """
        file = self._competing_file(name)
        if file is None:
            return None
        data = fingerprint.read(file.path)
        imported = project_files.import_file(self._ws, file)
        shown = os.path.relpath(file.path, self._place.root)
        self._ws.note(
            f"{shown} held another session, of {format_time(file.changed)[:10]}: it was imported as "
            f"{imported[:8]}, and the file shows the current one. "
            f"To go on with the other: holdfast resume {imported[:8]}"
        )
        return imported, fingerprint.hash_of(data)

    def committed(self, layout: MirrorLayout) -> list[str]:
        """Files of a format that must not be committed, and that git tracks all the same."""
        there = [path for path in layout.fixed if layout.ignored and os.path.lexists(inside(self._place.root, path))]
        return [
            path
            for path in there
            if project_files.is_tracked(self._ws, inside(self._place.root, path), unknown=False)
        ]

    def _keep_out_of_git(self, layout: MirrorLayout, *, gitignore: bool) -> None:
        if not layout.ignored or not git_ignore.can_commit(self._place):
            return
        for path in self.committed(layout):
            self._ws.note(f"git tracks {path}, and the next commit takes it: git rm --cached {path}")
        if gitignore:
            git_ignore.add_to_gitignore(self._place.root, layout.ignored)
        try:
            git_ignore.exclude(self._place, layout.ignored)
        except HoldfastError as error:
            if not git_ignore.is_in_gitignore(self._place.root, layout.ignored):
                error.hint = f"{error.hint or ''} Or: holdfast mirror on {layout.name} --gitignore".strip()
                raise

    def _prepare_tree(self, name: str, unreadable: Sequence[tuple[str, str]]) -> None:
        """Sessions that were begun here for the sake of other mirrors are not shown in this one.

        Files that nothing more can be had from get another name.
        """
        with locked(self.stored.lock(self._place.root), what="switching a mirror on"):
            tree = self.stored.tree(self._place.root)
            tree.came[name] = len(self.stored.sessions(self._place.root))
            for path, why in unreadable:
                aside = project_files.set_aside(self._ws, inside(self._place.root, path))
                kept = f"{posixpath.dirname(path)}/{os.path.basename(aside)}"
                tree.reject(name, RejectedFile(path, kept, why, self._ws.now()))
                self._ws.note(f"{path} was kept as {os.path.basename(aside)}: {why}.")
            # What was deleted while nothing was mirrored stops no session.
            for path in [path for path in tree.files.get(name, {}) if not os.path.lexists(inside(tree.root, path))]:
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
                self._ws.note(f"git goes on ignoring {layout.ignored[0]}: {error.message}.")
        self.stored.set(self._place.main, name, None)

    def changed_outside(self) -> set[str]:
        """The formats of which somebody else changed a file since it was written. To be asked before absorbing."""
        tree = self.stored.tree(self._place.root)
        return {item.name for item in self.formats() if self._differs(tree, item)}

    def status(self, changed: Container[str] = ()) -> list[MirrorStatus]:
        """Every mirror as it is; `changed` are those that were found changed by somebody else just now."""
        tree = self.stored.tree(self._place.root)
        mirrors: list[MirrorStatus] = []
        for item in self.formats():
            there = tree.files.get(item.name, {})
            refused = {
                path: foreign.reason for path, foreign in tree.foreign.get(item.name, {}).items() if foreign.reason
            }
            left_alone = {**refused, **tree.left_alone.get(item.name, {})}
            mirrors.append(
                MirrorStatus(
                    item.name, sorted(there), max((file.at for file in there.values()), default=None),
                    item.name in changed or bool(left_alone) or self._differs(tree, item),
                    tree.rejected.get(item.name, []),
                    left_alone, tree.failures.get(item.name),
                )
            )  # fmt: skip
        return mirrors

    def _differs(self, tree: MirroredTree, layout: MirrorLayout) -> bool:
        """Whether a file is not what we left there. One look, and a reading of what was touched."""
        there, root = tree.files.get(layout.name, {}), self._place.root
        foreign = tree.foreign.get(layout.name, {})
        with contextlib.suppress(HoldfastError):
            for path, file in there.items():
                now = fingerprint.take(inside(root, path), self._nanos())
                if now is None:
                    return True
                if (not now.matches(file.print) or file.print.is_young) and file.hash:
                    if fingerprint.hash_of(fingerprint.read(inside(root, path))) != file.hash:
                        return True
                elif not now.matches(file.print):
                    return True
            return any(
                path not in there and path not in foreign and os.path.lexists(inside(root, path))
                for path in layout.fixed
            )
        return True

    def _refuse_foreign_files(self, layout: MirrorLayout) -> list[tuple[str, str]]:
        """A hand-made file where a mirror would write: what somebody keeps there is not ours to replace.

        Gives the files that cannot be read and hold nothing that the log does not have, and why.
        """
        root = self._place.root
        unusable: list[tuple[str, str]] = []
        for path in layout.fixed:
            if not os.path.lexists(inside(root, path)):
                continue
            at_fault = path
            try:
                refuse_links(root, path)
                fingerprint.take(inside(root, path), 0)
                data = layout.content(root, path)
                if git_ignore.unmerged_reason(data) is None:
                    for where, value in layout.gather(root, path, data):
                        at_fault = where
                        layout.rules.tidy(value, self._context())
            except (Invalid, Damaged, Refused) as error:
                hint = None if isinstance(error, Refused) else self._recovery_hint(layout, at_fault)
                if hint is None and not isinstance(error, Refused):
                    unusable.append((path, shorten(error.message, 300)))
                    continue
                raise Conflict(
                    f"{at_fault} is there and is no {layout.name} file: {error.message}",
                    hint=hint or error.hint,
                    file=at_fault,
                ) from error
        return unusable

    def _recovery_hint(self, layout: MirrorLayout, path: str) -> str | None:
        """How to take over what a file holds that is no sound one of a format; None where nothing is to be had."""
        if layout.name not in project_files.SINGLE:
            return f"holdfast validate {path} says what is wrong with it."
        files_here = project_files.files(self._ws, at_work=True, thorough=True)
        file = next((file for file in files_here if file.format == layout.name), None)
        if file is None:
            return None
        if file.recoverable and not file.foreign:
            return (
                f"Take over what it holds: holdfast recover {file.typed} --start\n"
                f"Then, once more: holdfast mirror on {layout.name} (the file is kept under another name)"
            )
        if file.foreign:
            return f"Take over what it holds (holdfast import --salvage {file.typed}), then move it away."
        return None

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────

    def _untouched(self, tree: MirroredTree, layout: MirrorLayout) -> bool:
        """One `stat` a file: is everything as we left it?"""
        root, now = self._place.root, self._nanos()
        there, foreign = tree.files.get(layout.name, {}), tree.foreign.get(layout.name, {})
        if layout.name in tree.failures or tree.left_alone.get(layout.name):
            return False
        for path, file in there.items():
            seen = fingerprint.take(inside(root, path), now)
            if seen is None or not seen.matches(file.print):
                return False
            # Young no more is worth remembering: the next look need not read.
            if (file.print.is_young and file.hash) and (
                not seen.is_young or fingerprint.hash_of(fingerprint.read(inside(root, path))) != file.hash
            ):
                return False
        for path in {*foreign, *layout.fixed} - there.keys():
            seen = fingerprint.take(inside(root, path), now)
            if path not in foreign:
                if seen is not None:
                    return False
            elif seen is None or not seen.matches(foreign[path].print) or foreign[path].print.is_young:
                return False
        stamps = {folder: folder_stamp(inside(root, folder)) for folder in layout.folders}
        return stamps == tree.listed.get(layout.name, {})

    def _is_current(self, tree: MirroredTree, layout: MirrorLayout) -> bool:
        """Whoever changed a session last may have died before its files were written."""
        if tree.as_of.get(layout.name) != stamp(self._ws):
            return False
        store = self._ws.existing_store()
        current = None if store is None else store.current(self._place.root)
        state = None if store is None or current is None else store.state(current)
        if state is None or state.deleted or view.status_of(state) in FINISHED:
            return True  # how far the log was is enough for what is not worked on
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
            return  # whoever holds the lock writes what was recorded until it lets go
        except HoldfastError as error:
            # The log has everything; the files follow when they can.
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
