"""What conversations do around every verb: payloads of hooks are drained, and status lines follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.conversations import status_cache
from holdfast.core import view
from holdfast.workspace import spool
from holdfast.workspace.followers import Follower, Presence, ResumeDifference, WorkCommit

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.store.interface import Transaction
    from holdfast.workspace.workspace import Workspace


class Ingest(Follower):
    """Drains the spool before a verb. What agents' conversations keep goes with a session that is deleted."""

    name = "drain"
    failure = "What hooks left was not recorded"

    def collect(self, ws: Workspace) -> None:
        if spool.has_entries(ws.home.path, ws.spool_tag):
            from holdfast.conversations.ingest.drain import drain

            drain(ws, patience=ws.patience)

    def conversation(self, ws: Workspace) -> str | None:
        from holdfast.conversations.current import conversation

        return conversation(ws)

    def starting(self, ws: Workspace, transaction: Transaction, session: str) -> None:
        if ws.conversation is not None:
            from holdfast.conversations.move import move_within

            move_within(ws, transaction, ws.conversation, session)

    def deleting(self, ws: Workspace, state: State) -> None:
        if state.native:
            from holdfast.conversations import details, status_cache_writer
            from holdfast.conversations.backfill import progress
            from holdfast.sessions.changes import compare

            compare.forget(ws, state.session)
            details.forget(ws, state)
            progress.remember(ws.home.path, view.lookup_names(state))
            status_cache_writer.forget_talks(ws.home.path, view.lookup_names(state))

    def resume_differences(self, ws: Workspace, state: State) -> Iterator[ResumeDifference]:
        """Agent programs with which the session's conversations were held, and that are not here."""
        if ws.agent_dirs is None:
            return
        from shutil import which

        from holdfast.conversations.adapters.index import NAMES, load_adapter
        from holdfast.conversations.connect.wiring import wiring

        path = ws.agent_dirs.environ.get("PATH", "")
        for name in sorted({native.agent for native in state.native.values()} & {*NAMES}):
            title, programs = load_adapter(name).title, wiring(name).programs
            if not any(which(program, path=path) for program in programs):
                yield ResumeDifference(
                    "program", f"{title} is not installed here; a conversation of the session used it",
                    f"install {title}, so that `{programs[0]}` is found on PATH", blocking=False,
                )  # fmt: skip


class StatusCache(Follower):
    """Lets the files that status lines read follow what was recorded."""

    name = "glance"
    failure = "The status line could not be brought up to date"

    def __init__(self, ws: Workspace) -> None:
        self._read = Presence(status_cache.directory(ws.home.path))

    def committed(self, ws: Workspace, commit: WorkCommit) -> None:
        if self._read():
            from holdfast.conversations import status_cache_writer

            status_cache_writer.refresh(ws, commit.sessions)
