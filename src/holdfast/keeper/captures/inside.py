"""Finds the conversation that a command runs in: an agent that runs `holdfast` means its own session.

Some programs name the conversation in the environment of what they run. Of the others the process is known, from
their hooks: it is among the ancestors of the command.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import NativeState, State
from holdfast.keeper.open_sessions import open_sessions
from holdfast.machine.process import Identity, ancestors

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_NAMED: Final = {"CLAUDE_CODE_SESSION_ID": "claude", "CODEX_THREAD_ID": "codex"}
_LONGEST: Final = 200


def conversation(keeper: Keeper) -> str | None:
    """The conversation that this process runs in, as `agent:id`, if it is one that hooks report; else None."""
    for variable, agent in _NAMED.items():
        said = keeper.environ.get(variable, "")
        if 0 < len(said) <= _LONGEST and _reports(keeper, view.native_name(agent, said), agent):
            return view.native_name(agent, said)
    open_here = open_sessions(keeper)
    if not any(native.process is not None for state in open_here for native in state.native.values()):
        return None
    above = ancestors(os.getpid())
    found = [
        native
        for state in open_here
        for native in state.native.values()
        if native.process is not None
        and native.process.started
        and native.moved_to is None
        and native.closed_at is None
        and Identity(*astuple(native.process)) in above
    ]
    latest = max(found, key=lambda native: native.linked_at, default=None)
    return None if latest is None else view.native_name(latest.agent, latest.id)


def _reports(keeper: Keeper, name: str, agent: str) -> bool:
    """Whether hooks report the conversation: it has a session, or its program is connected."""
    store = keeper.existing_store()
    if store is not None and store.find(name):
        return True
    from holdfast.keeper.captures.connections import DIRECTORY

    try:
        kept = os.listdir(os.path.join(keeper.home.path, DIRECTORY))
    except OSError:
        return False
    return any(one.startswith(agent) for one in kept)


def session_of(keeper: Keeper, name: str) -> State | None:
    """The session that a conversation belongs to, an unfinished one before all others."""
    store = keeper.existing_store()
    states = [store.state(one) for one in store.find(name)] if store is not None else []
    found = [state for state in states if state is not None and not state.deleted and native_of(state, name)]
    return max(found, key=lambda state: (view.status_of(state) not in FINISHED, state.created_at or 0), default=None)


def native_of(state: State, name: str) -> NativeState | None:
    """The conversation `agent:id` of a session, unless it was moved to another one."""
    native = state.native.get(name.replace(":", "\n", 1))
    return None if native is None or native.moved_to is not None else native
