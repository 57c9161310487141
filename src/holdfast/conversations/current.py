"""Find the conversation that a command runs in: an agent that runs `holdfast` means its own session.

Some programs name the conversation in the environment of what they run. Of the others the process is known, from
their hooks: it is among the ancestors of the command.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from holdfast.core import view
from holdfast.machine.process import ProcessIdentity, ancestors
from holdfast.sessions import ownership
from holdfast.sessions.work_trees import open_sessions

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_NAMED: Final = {"CLAUDE_CODE_SESSION_ID": "claude", "CODEX_THREAD_ID": "codex"}
_LONGEST: Final = 200


def conversation(ws: Workspace) -> str | None:
    """The conversation that this process runs in, as `agent:id`, if it is one that hooks report; else None."""
    for variable, agent in _NAMED.items():
        said = ws.environ.get(variable, "")
        if 0 < len(said) <= _LONGEST and _reports(ws, view.native_name(agent, said), agent):
            return view.native_name(agent, said)
    open_here = open_sessions(ws)
    if not any(native.process is not None for state in open_here for native in state.native.values()):
        return None
    above = ancestors(os.getpid())
    found = [
        native
        for state in open_here
        for native in state.native.values()
        if native.process is not None
        and native.process.started
        and native.closed_at is None
        and ProcessIdentity(*astuple(native.process)) in above
        and ownership.is_linked(ws, state, view.native_name(native.agent, native.id))
    ]
    latest = max(found, key=lambda native: native.linked_at, default=None)
    return None if latest is None else view.native_name(latest.agent, latest.id)


def _reports(ws: Workspace, name: str, agent: str) -> bool:
    """Whether hooks report the conversation: it has a session, or its program is connected."""
    store = ws.existing_store()
    if store is not None and store.find(name):
        return True
    from holdfast.conversations.connect.registry import DIRECTORY

    try:
        kept = os.listdir(os.path.join(ws.home.path, DIRECTORY))
    except OSError:
        return False
    return any(name.startswith(agent) for name in kept)
