"""Deleting a session: nothing of its text is left in any file of the home, and what showed it follows.

A session that somebody may still be working on is deleted only by force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.errors import Refused
from holdfast.core.events import SessionDeleted
from holdfast.core.lifecycle import FINISHED
from holdfast.store.interface import Draft

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


def needs_force(ws: Workspace, state: State) -> bool:
    """Whether somebody may still be working on the session."""
    return view.status_of(state) not in FINISHED and not ws.is_over(state)


def delete(ws: Workspace, session: str, *, force: bool, at: int | None) -> str:
    state = ws.state(session)
    for follower in ws.followers:
        follower.refuse_deleting(ws, session)
    if needs_force(ws, state) and not force:
        raise Refused(
            f"session {session[:8]} is unfinished ({view.status_of(state)}): it was not deleted",
            hint=f"Finish it first, or delete it as it is: holdfast delete {session[:8]} --confirm --force",
            operation="delete",
            session=session,
        )
    moment = ws.recorder.moment(at, state.latest.get(ws.home.writer(ws.address)), session)
    for follower in ws.followers:
        follower.deleting(ws, state)
    ws.store().erase(session, Draft(SessionDeleted(), moment, ws.recorder.actor))
    ws.recorded({session}, matters=True)
    ws.follow()
    return session
