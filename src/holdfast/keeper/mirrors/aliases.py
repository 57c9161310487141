"""Aliases: once a format has shown a session under an id, it keeps it, whatever becomes of goal and scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Conflict
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.core.vocabulary import AliasGiven
from holdfast.formats import naming
from holdfast.keeper.own_devices import own_test
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
    if name is None:
        return state
    if format_name in state.aliases:
        _refuse_anothers(keeper, state, format_name)
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


def _refuse_anothers(keeper: Keeper, state: State, format_name: str) -> None:
    """Raise `Conflict` where a guest gave the session the id of another one here: its files would be written over."""
    if own_test(keeper, state.session)(state.aliased_by.get(format_name, "")):
        return
    store, alias = keeper.store(), state.aliases[format_name]
    for session in store.find(alias):
        other = store.state(session)
        if other is None or session == state.session:
            continue
        if alias == session or alias in other.aliases.values():
            raise Conflict(
                f"somebody else gave session {state.session[:8]} the id of session {session[:8]} in {format_name}:"
                f" {shorten(alias, 60)!a}",
                hint=f"Go on with a copy of your own: holdfast fork {state.session[:8]}",
                session=state.session,
            )
