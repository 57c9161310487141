"""What conversations do around every verb: payloads of hooks are drained, and status lines follow.

An agent that runs `holdfast` means the session of its own conversation. Some programs name the conversation in the
environment of what they run; of the others, the process that their hooks reported is an ancestor of the command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from holdfast.conversations import status_cache
from holdfast.core import view
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.machine.process import ProcessIdentity, ancestors
from holdfast.sessions import ownership
from holdfast.sessions.work_trees import open_sessions
from holdfast.workspace import spool
from holdfast.workspace.followers import Follower, Presence, ResumeDifference, WorkCommit

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.store.interface import Transaction
    from holdfast.workspace.workspace import Workspace


class Ingest(Follower):
    """Drains the spool before a verb, and forgets what is kept of the conversations of a deleted session."""

    name = "drain"
    failure = "Payloads of hooks were not recorded"

    def collect(self, ws: Workspace) -> None:
        if spool.has_entries(ws.home.path, ws.spool_tag):
            from holdfast.conversations.ingest.drain import drain

            drain(ws, patience=ws.patience)

    def conversation(self, ws: Workspace) -> str | None:

        return running_conversation(ws)

    def starting(self, ws: Workspace, transaction: Transaction, session: str) -> None:
        if ws.conversation is not None:
            from holdfast.conversations.move import move_within

            move_within(ws, transaction, ws.conversation, session)

    def deleting(self, ws: Workspace, state: State) -> None:
        if state.native:
            from holdfast.conversations import details, status_cache_writer
            from holdfast.conversations.backfill import placement
            from holdfast.sessions.changes import compare

            compare.forget(ws, state.session)
            details.forget(ws, state)
            placement.remember_deleted(ws.home.path, view.lookup_names(state))
            status_cache_writer.forget_conversations(ws.home.path, view.lookup_names(state))

    def resume_differences(self, ws: Workspace, state: State) -> Iterator[ResumeDifference]:
        """Agent programs that the session's conversations used and that are not installed here."""
        if ws.agent_dirs is None:
            return
        from shutil import which

        from holdfast.conversations.connect.agent_settings import settings_of

        path = ws.agent_dirs.environ.get("PATH", "")
        for name in sorted({native.agent for native in state.native.values()} & {*AGENT_PROGRAMS}):
            title, programs = AGENT_PROGRAMS[name].title, settings_of(name).programs
            if not any(which(program, path=path) for program in programs):
                yield ResumeDifference(
                    "program", f"{title} is not installed here; a conversation of the session used it",
                    f"install {title}, so that `{programs[0]}` is found on PATH", blocking=False,
                )  # fmt: skip


class StatusCache(Follower):
    """Updates the files that status lines read after something was recorded."""

    name = "status cache"
    failure = "The status line could not be updated"

    def __init__(self, ws: Workspace) -> None:
        self._read = Presence(status_cache.directory(ws.home.path))

    def committed(self, ws: Workspace, commit: WorkCommit) -> None:
        if self._read():
            from holdfast.conversations import status_cache_writer

            status_cache_writer.refresh(ws, commit.sessions)


# ── the conversation a command runs in ─────────────────────────────────────────────────────────────────


_MAX_ID_LENGTH: Final = 200


def running_conversation(ws: Workspace) -> str | None:
    """The conversation that this process runs in, as `agent:id`, if hooks report it; else None."""
    for agent, program in AGENT_PROGRAMS.items():
        conversation = "" if program.variable is None else ws.environ.get(program.variable, "")
        if 0 < len(conversation) <= _MAX_ID_LENGTH and _reports(ws, view.native_name(agent, conversation), agent):
            return view.native_name(agent, conversation)
    open_here = open_sessions(ws)
    if not any(native.process is not None for state in open_here for native in state.native.values()):
        return None
    above = ancestors(os.getpid())
    running = [
        native
        for state in open_here
        for native in state.native.values()
        if native.process is not None
        and native.process.started
        and native.closed_at is None
        and ProcessIdentity(*astuple(native.process)) in above
        and ownership.is_linked(ws, state, view.native_name(native.agent, native.id))
    ]
    latest = max(running, key=lambda native: native.linked_at, default=None)
    return None if latest is None else view.native_name(latest.agent, latest.id)


def _reports(ws: Workspace, name: str, agent: str) -> bool:
    """Whether hooks report the conversation: it has a session, or its program is connected."""
    store = ws.existing_store()
    if store is not None and store.find(name):
        return True
    from holdfast.conversations.connect.registry import DIRECTORY

    try:
        names = os.listdir(os.path.join(ws.home.path, DIRECTORY))
    except OSError:
        return False
    return any(name.startswith(agent) for name in names)
