"""Aliases: once a format has shown a session under an id, it keeps it, whatever becomes of goal and scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.core.state import State
from holdfast.core.vocabulary import AliasGiven
from holdfast.formats import naming
from holdfast.store.interface import Draft

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_NAMES: Final[dict[str, Callable[[State, int], str]]] = {
    "orchestrator": naming.orchestrator_id,
    "timer": naming.timer_id,
    "contract": naming.feature_id,
}


def give(keeper: Keeper, state: State, format_name: str) -> State:
    """The state with an id in this format, unique in the store. Craft uses the session's own."""
    name = _NAMES.get(format_name)
    if name is None or format_name in state.aliases:
        return state
    store = keeper.store()
    with store.transaction() as transaction:
        state = transaction.state(state.session)
        if format_name in state.aliases:
            return state
        number = 1
        while store.find(alias := name(state, number)):
            number += 1
        given = AliasGiven(format=format_name, id=alias)
        transaction.record(state.session, Draft(given, state.updated_at, keeper.recorder.actor))
        return transaction.state(state.session)
