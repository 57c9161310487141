"""The open sessions of a work tree: two conversations at once in one tree are two sessions.

Which session was worked on in which tree is this machine's own knowledge, kept in the store's memory in the
transaction that makes a session current. The last of them is the current one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import view
from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store.interface import Store, Transaction
    from holdfast.workspace.workspace import Workspace

_PREFIX: Final = "open/"
_MOST: Final = 100


def note(ws: Workspace, transaction: Transaction, session: str) -> None:
    """Keep that a session is worked on in the keeper's work tree; what is open there no longer is left out."""
    known = _decoded(transaction.remembered(_name(ws)))
    if known[-1:] == [session]:
        return
    others = [name for name in known if name != session and _is_open(ws, transaction.state(name))]
    transaction.remember(_name(ws), msgspec.msgpack.encode([*others, session][-_MOST:]))


def make_current(ws: Workspace, transaction: Transaction, session: str) -> None:
    """Point this work tree at a session; mirrors will show it, whatever comes after it."""
    for follower in ws.followers:
        follower.becoming_current(ws, session)
    transaction.set_current(ws.place.root, session)
    note(ws, transaction, session)


def among(
    ws: Workspace, source: Store | Transaction, current: str | None, state_of: Callable[[str], State | None]
) -> list[State]:
    """The unfinished sessions of the keeper's work tree that nobody put away and that are not over, latest first."""
    known = _decoded(source.remembered(_name(ws)))
    ids = [*reversed(known)] if current is None else [current, *(name for name in reversed(known) if name != current)]
    states = (state_of(name) for name in ids)
    return [state for state in states if state is not None and _is_open(ws, state)]


def open_sessions(ws: Workspace) -> list[State]:
    """The same, after taking in what others left for us."""
    ws.collect()
    store = ws.existing_store()
    return [] if store is None else among(ws, store, store.current(ws.place.root), store.state)


def _is_open(ws: Workspace, state: State) -> bool:
    return (
        bool(state.count) and not state.deleted and not state.archived
        and view.status_of(state) not in FINISHED and not ws.is_over(state)
    )  # fmt: skip


def _name(ws: Workspace) -> str:
    return f"{_PREFIX}{digest(ws.place.root.encode(errors='surrogatepass'))[:32]}"


def _decoded(kept: bytes | None) -> list[str]:
    try:
        return [] if kept is None else msgspec.msgpack.decode(kept, type=decodable(list[str]))
    except msgspec.MsgspecError:  # of another version
        return []
