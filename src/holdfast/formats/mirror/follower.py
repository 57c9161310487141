"""The mirrors' follower: reads changed mirrored files before every verb, and writes the files after it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.workspace.followers import Follower, Presence, WorkCommit

if TYPE_CHECKING:
    from holdfast.formats.mirror.mirrors import Mirrors
    from holdfast.workspace.workspace import Workspace


class MirrorFollower(Follower):
    name = "mirrors"
    failure = "The mirrored files could not be written"

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._present = Presence(ws.home.mirrors)
        self._mirrors: Mirrors | None = None

    @property
    def mirrors(self) -> Mirrors:
        if self._mirrors is None:
            from holdfast.formats.mirror.mirrors import Mirrors

            self._mirrors = Mirrors(self._ws)
        return self._mirrors

    def collect(self, ws: Workspace) -> None:  # noqa: ARG002
        if self._mirrors is not None or self._present():
            self.mirrors.collect()

    def committed(self, ws: Workspace, commit: WorkCommit) -> None:  # noqa: ARG002
        if self._mirrors is not None or self._present():
            self.mirrors.write()

    def notices_shown(self, ws: Workspace) -> None:  # noqa: ARG002
        if self._mirrors is not None:
            self._mirrors.mark_reported()

    def becoming_current(self, ws: Workspace, session: str) -> None:
        if os.path.isdir(ws.home.mirrors):
            self.mirrors.note_current(session)

    def limit_action(self, ws: Workspace) -> str | None:
        on = os.path.isdir(ws.home.mirrors) and any(layout.name == "timer" for layout in self.mirrors.formats())
        return "pause" if on else None

    def holds_one_session(self, ws: Workspace) -> bool:  # noqa: ARG002
        from holdfast.formats.project_files import SINGLE

        return any(layout.name in SINGLE for layout in self.mirrors.formats())

    def own_paths(self, ws: Workspace) -> Sequence[str]:
        return self.mirrors.paths() if os.path.isdir(ws.home.mirrors) else ()

    def feature_path(self, ws: Workspace, feature_id: str) -> str | None:
        from holdfast.formats.mirror.contract import layout, registry

        root = layout.root_of(ws.place.root)
        path = os.path.join(root, feature_id)
        if os.path.lexists(path):
            return path
        if os.path.isdir(root):
            with suppress(HoldfastError):  # an unreadable registry is reported where it is used
                return path if registry.entry(root, feature_id) is not None else None
        return None

    def synced(self, ws: Workspace) -> None:
        """Rewrite files that say how their sessions are synced, and show what came."""
        if os.path.isdir(ws.home.mirrors):
            self.mirrors.write_sync_facts()
            self.mirrors.write()

    def remotes_changed(self, ws: Workspace) -> None:
        """Rewrite the mirrored files of every work tree on this device."""
        if not os.path.isdir(ws.home.mirrors):
            return
        from holdfast.formats.mirror.work_trees import MirroredTrees

        everywhere = MirroredTrees(ws)
        everywhere.refresh()
        for tree in everywhere.trees.values():
            mirrors_of(tree).write_sync_facts()
            tree.follow()
            for sentence in tree.notices:
                ws.note(sentence)


def mirrors_of(ws: Workspace) -> Mirrors:
    """The mirrors of a workspace's work tree."""
    return next(follower for follower in ws.followers if isinstance(follower, MirrorFollower)).mirrors
