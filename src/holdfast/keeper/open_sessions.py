"""The open sessions of a work tree: two conversations at once in one tree are two sessions.

Which session was worked on in which tree is this machine's own knowledge, kept in the store's memory in the
transaction that makes a session current. The last of them is the current one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import view
from holdfast.core.canonical import digest
from holdfast.core.decoding import decodable
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Store, Transaction

_PREFIX: Final = "open/"
_MOST: Final = 100


def note(keeper: Keeper, transaction: Transaction, session: str) -> None:
    """Keep that a session is worked on in the keeper's work tree; what is open there no longer is left out."""
    known = _decoded(transaction.remembered(_name(keeper)))
    if known[-1:] == [session]:
        return
    others = [one for one in known if one != session and _is_open(keeper, transaction.state(one))]
    transaction.remember(_name(keeper), msgspec.msgpack.encode([*others, session][-_MOST:]))


def among(
    keeper: Keeper, source: Store | Transaction, current: str | None, state_of: Callable[[str], State | None]
) -> list[State]:
    """The unfinished sessions of the keeper's work tree that nobody put away and that are not over, latest first."""
    known = _decoded(source.remembered(_name(keeper)))
    ids = [*reversed(known)] if current is None else [current, *(one for one in reversed(known) if one != current)]
    states = (state_of(one) for one in ids)
    return [state for state in states if state is not None and _is_open(keeper, state)]


def open_sessions(keeper: Keeper) -> list[State]:
    """The same, after taking in what others left for us."""
    keeper.absorb()
    store = keeper.existing_store()
    return [] if store is None else among(keeper, store, store.current(keeper.place.root), store.state)


def _is_open(keeper: Keeper, state: State) -> bool:
    return (
        bool(state.count) and not state.deleted and not state.archived
        and view.status_of(state) not in FINISHED and not keeper.is_over(state)
    )  # fmt: skip


def _name(keeper: Keeper) -> str:
    return f"{_PREFIX}{digest(keeper.place.root.encode(errors='surrogatepass'))[:32]}"


def _decoded(kept: bytes | None) -> list[str]:
    try:
        return [] if kept is None else msgspec.msgpack.decode(kept, type=decodable(list[str]))
    except msgspec.MsgspecError:  # of another version
        return []
