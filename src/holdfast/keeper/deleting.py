"""Deleting a session: nothing of its text is left in any file of the home, and what showed it follows.

A session that somebody may still be working on is deleted only by force.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.vocabulary import SessionDeleted
from holdfast.store.interface import Draft

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.keeper.keeper import Keeper


def needs_force(keeper: Keeper, state: State) -> bool:
    """Whether somebody may still be working on the session."""
    return view.status_of(state) not in FINISHED and not keeper.is_over(state)


def delete(keeper: Keeper, session: str, *, force: bool, at: int | None) -> str:
    state = keeper.state(session)
    if os.path.lexists(keeper.home.remotes):
        from holdfast.keeper.teleports import guesting

        guesting.refuse_deleting(keeper, session)
    if needs_force(keeper, state) and not force:
        raise Refused(
            f"session {session[:8]} is unfinished ({view.status_of(state)}): it was not deleted",
            hint=f"Finish it first, or delete it as it is: holdfast delete {session[:8]} --confirm --force",
            operation="delete",
            session=session,
        )
    moment = keeper.recorder.moment(at, state.latest.get(keeper.home.writer(keeper.address)), session)
    if state.native:
        from holdfast.keeper.captures import comparison, conversations, glance, gone

        comparison.forget(keeper, session)
        conversations.forget(keeper, state)
        gone.remember(keeper.home.path, view.names(state))
        glance.forget_talks(keeper.home.path, view.names(state))
    if keeper.upkeep.shared_by_others(session) is not None:
        # First: were we stopped in between, the others would be told of a deletion that they do not heed.
        guesting.leave(keeper, session)
        keeper.told.append("It was shared with you: your copy is gone, and the others keep theirs.")
    keeper.store().erase(session, Draft(SessionDeleted(), moment, keeper.recorder.actor))
    keeper.upkeep.follow(frozenset({session}))
    keeper.upkeep.travel()
    return session
