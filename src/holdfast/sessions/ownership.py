"""Ownership: which writers of a session are our devices, and which session a conversation belongs to.

Anybody who may write in a session can name any conversation there, or record that it moved: that must neither draw
our work into their session nor divert it from ours. Only events of our own devices count, the latest of them first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import NativeState, State
from holdfast.store import origin

if TYPE_CHECKING:
    from holdfast.core.own_events import IsOwn
    from holdfast.workspace.workspace import Workspace


def session_of(ws: Workspace, name: str) -> State | None:
    """The session that a conversation, `agent:id`, belongs to."""
    store = ws.existing_store()
    states = [store.state(item) for item in store.find(name)] if store is not None else []
    return best_session(ws, (state for state in states if state is not None), name)


def best_session(ws: Workspace, states: Iterable[State], name: str) -> State | None:
    """The session among these that a conversation belongs to: unfinished before finished, writable before read-only,
    then the newest.
    """
    linked = [state for state in states if state.count and not state.deleted and is_linked(ws, state, name)]
    if len(linked) < 2:
        return linked[0] if linked else None
    store = ws.store()
    linked = [state for state in linked if store.may_repair(state.session)] or linked
    return max(
        linked,
        key=lambda state: (
            view.status_of(state) not in FINISHED,
            not ws.is_read_only(state.session),
            state.created_at or 0,
        ),
    )


def is_linked(ws: Workspace, state: State, name: str) -> bool:
    """Whether our devices recorded that the conversation belongs to this session."""
    native = native_of(state, name)
    if native is None:
        return False
    # The usual case, without loading keys: hooks call this.
    this = ws.home.known_writer(ws.address)
    if this in native.writers and not native.moved_by and own_test(ws, state.session)(this or ""):
        return True
    latest = _latest_of_ours(ws, state, native.writers)
    return latest is not None and latest not in native.moved_by


def was_linked(ws: Workspace, state: State, name: str) -> bool:
    """Whether our devices ever recorded so, even if the conversation was moved later."""
    native = native_of(state, name)
    return native is not None and _latest_of_ours(ws, state, native.writers) is not None


def moved_here_at(ws: Workspace, state: State, name: str) -> int | None:
    """When one of our devices last moved the conversation to this session; None if none did."""
    native = native_of(state, name)
    moved = {} if native is None else native.moved_here
    is_own = own_test(ws, state.session)
    return max((at for writer, at in moved.items() if is_own(writer)), default=None)


def native_of(state: State, name: str) -> NativeState | None:
    """The conversation `agent:id` of a session, whoever recorded it."""
    return state.native.get(name.replace(":", "\n", 1))


def _latest_of_ours(ws: Workspace, state: State, writers: tuple[str, ...]) -> str | None:
    is_own = own_test(ws, state.session)
    return next((writer for writer in reversed(writers) if is_own(writer)), None)


# ── own devices ────────────────────────────────────────────────────────────────────────────────────────


def own_device_test(ws: Workspace) -> Callable[[str], bool]:
    """A test whether a certified writer is one of our devices, by the present membership of our vaults."""
    tests = [test for follower in ws.followers if (test := follower.is_own_writer(ws)) is not None]
    return lambda writer: any(is_own_writer(writer) for is_own_writer in tests)


def own_test(ws: Workspace, session: str) -> IsOwn:
    """A test whether a writer of the session is one of our devices.

    Hooks call it: nothing is looked up for this device itself, and nothing twice.
    """
    this = ws.home.known_writer(ws.address)
    known: dict[str, bool] = {}
    devices: list[Callable[[str], bool]] = []

    def looked_up(writer: str) -> bool:
        store = ws.store()
        if not origin.is_own_stream(store, session, writer) or origin.member_of(store, session) is not None:
            return False
        if writer == this or not os.path.lexists(ws.home.remotes):
            return True
        from holdfast.workspace.keys.device_keys import is_certified

        if not is_certified(writer) and origin.share_of(store, session) is None:
            return True
        if not devices:
            devices.append(own_device_test(ws))
        return devices[0](writer)

    def is_own(writer: str) -> bool:
        # On a server, the owner of a session can put events into it that name this device as their writer.
        if writer == this and ws.address.path is not None:
            return True
        if writer not in known:
            known[writer] = looked_up(writer)
        return known[writer]

    return is_own
