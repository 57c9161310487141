"""Sync around every verb: refuses writes in sessions shared read-only, and sends what was recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.core.errors import Refused
from holdfast.workspace.followers import Follower, WorkCommit

if TYPE_CHECKING:
    from holdfast.core.model import Sync, SyncFacts
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


class SyncFollower(Follower):
    """Loads nothing where there is no list of remotes."""

    name = "sync"
    failure = "What was recorded could not be sent"

    def __init__(self) -> None:
        # Sessions that others shared with this device, as of the list of remotes last read.
        self._shares: dict[str, str] = {}
        self._shares_of: tuple[int, int, int] | None = None

    def committed(self, ws: Workspace, commit: WorkCommit) -> None:
        if commit.needs_sync:
            self.send_soon(ws)

    def send_soon(self, ws: Workspace) -> None:
        """Start a background sync, if there are remotes."""
        if os.path.lexists(ws.home.remotes):
            from holdfast.sync import background

            background.request_sync(ws)

    def shared_by(self, ws: Workspace, session: str) -> str | None:
        """The vault through which somebody shares this session with us; None for our own."""
        try:
            info = os.lstat(ws.home.remotes)
        except OSError:
            return None
        if (version := (info.st_mtime_ns, info.st_size, info.st_ino)) != self._shares_of:
            from holdfast.sync.shared_with_me import shares

            self._shares, self._shares_of = shares(ws.home), version
        vault = self._shares.get(session)
        if vault is None:
            return None
        from holdfast.sync.shared_with_me import is_shared_with_us

        return vault if is_shared_with_us(ws, session, vault) else None

    def write_refusal(self, ws: Workspace, session: str) -> Refused | None:
        vault = self.shared_by(ws, session)
        if vault is None:
            return None
        from holdfast.sync.shared_with_me import is_read_only

        if not is_read_only(ws, vault):
            return None
        return Refused(
            "the session is read-only for you",
            hint=f"Continue with a copy of your own: holdfast fork {session[:8]}",
            session=session,
        )

    def refuse_deleting(self, ws: Workspace, session: str) -> None:
        if os.path.lexists(ws.home.remotes):
            from holdfast.sync import shared_with_me

            shared_with_me.refuse_deleting(ws, session)

    def deleting(self, ws: Workspace, state: State) -> None:
        if self.shared_by(ws, state.session) is not None:
            from holdfast.sync import shared_with_me

            # First: otherwise a crash could send the others a deletion that they ignore.
            shared_with_me.leave(ws, state.session)
            ws.note("It was shared with you: your copy is deleted, and the others keep theirs.")

    def is_own_writer(self, ws: Workspace) -> Callable[[str], bool] | None:
        from holdfast.sync import open_vault

        return open_vault.vault_device_test(ws)

    def own_mark(self, ws: Workspace) -> str | None:
        from holdfast.sync import open_vault

        return open_vault.own_mark(ws)

    def sync_of(self, ws: Workspace, state: State) -> Sync | None:
        if not os.path.lexists(ws.home.remotes):
            return None
        from holdfast.sync import session_status

        return session_status.sync_of(ws, state)

    def sync_facts(self, ws: Workspace, state: State) -> SyncFacts | None:
        if not os.path.lexists(ws.home.remotes):
            return None
        from holdfast.sync import session_status

        return session_status.sync_facts(ws, state)
