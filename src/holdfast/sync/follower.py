"""What sync does around every verb: it knows which sessions are shared by others, and sends soon what was
recorded.
"""

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
    """Loads nothing where there is no list of remotes: who shares nothing pays nothing."""

    name = "sync"
    failure = "What was recorded could not be sent"

    def __init__(self) -> None:
        # The sessions that others shared with this device, by the list of remotes as it was seen last.
        self._shares: dict[str, str] = {}
        self._shares_of: tuple[int, int, int] | None = None

    def committed(self, ws: Workspace, commit: WorkCommit) -> None:
        if commit.matters:
            self.send_soon(ws)

    def send_soon(self, ws: Workspace) -> None:
        """Let what was recorded reach other devices, where there are any."""
        if os.path.lexists(ws.home.remotes):
            from holdfast.sync import background

            background.ask(ws)

    def shared_by(self, ws: Workspace, session: str) -> str | None:
        """The vault by which somebody shares this session with us; None where it is our own."""
        try:
            seen = os.lstat(ws.home.remotes)
        except OSError:
            return None
        if (now := (seen.st_mtime_ns, seen.st_size, seen.st_ino)) != self._shares_of:
            from holdfast.sync.shared_with_me import shares

            self._shares, self._shares_of = shares(ws.home), now
        vault = self._shares.get(session)
        if vault is None:
            return None
        from holdfast.sync.shared_with_me import is_through

        return vault if is_through(ws, session, vault) else None

    def write_refusal(self, ws: Workspace, session: str) -> Refused | None:
        vault = self.shared_by(ws, session)
        if vault is None:
            return None
        from holdfast.sync.shared_with_me import reads_only

        if not reads_only(ws, vault):
            return None
        return Refused(
            "the session is shared with you to read: nothing can be recorded in it",
            hint=f"Go on with a copy of your own: holdfast fork {session[:8]}",
            session=session,
        )

    def refuse_deleting(self, ws: Workspace, session: str) -> None:
        if os.path.lexists(ws.home.remotes):
            from holdfast.sync import shared_with_me

            shared_with_me.refuse_deleting(ws, session)

    def deleting(self, ws: Workspace, state: State) -> None:
        if self.shared_by(ws, state.session) is not None:
            from holdfast.sync import shared_with_me

            # First: were we stopped in between, the others would be told of a deletion that they do not heed.
            shared_with_me.leave(ws, state.session)
            ws.note("It was shared with you: your copy is gone, and the others keep theirs.")

    def is_own_writer(self, ws: Workspace) -> Callable[[str], bool] | None:
        from holdfast.sync import open_vault

        return open_vault.device_test(ws)

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

        return session_status.travel_of(ws, state)
