"""The session this agent works on: the one it began or took up here.

"The current one" may become another while an agent is at work: a person begins something else in the same directory.
What the agent then records, or finishes, is not meant for that one.
"""

from __future__ import annotations

from holdfast.core import view
from holdfast.core.errors import NotFound, Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import shorten
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import KeptSession
from holdfast.keeper.wording import STATUS, one_line

_ENDS = ("session.completed", "session.aborted")


class Mine:
    """By work tree; for as long as the server runs, which serves one client."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}

    def took(self, session: KeptSession) -> None:
        self._sessions[session.keeper.place.root] = session.id

    def finished(self, session: KeptSession) -> None:
        for root in [root for root, one in self._sessions.items() if one == session.id]:
            del self._sessions[root]

    def current(self, keeper: Keeper) -> KeptSession:
        """The current session, where it is the agent's own or the agent has none."""
        found = keeper.current()
        trouble = self.displaced(keeper, found)
        if trouble is not None:
            trouble.message += "; nothing was done"
            raise trouble
        if found is None:
            raise NotFound("there is no current session here", hint="Start one: holdfast start GOAL")
        return found

    def displaced(self, keeper: Keeper, found: KeptSession | None) -> Refused | None:
        """What to say where the agent's own session is not the one that is current."""
        mine = self._sessions.get(keeper.place.root)
        if mine is None or (found is not None and found.id == mine):
            return None
        other = None if found is None else _named(found)
        ended = _ended(keeper, mine)
        if ended is not None:
            instead = "" if found is None else f" To work in {other}, resume_session with session {found.id[:8]}."
            return Refused(ended, hint=f"Begin a new one: start_session.{instead}", session=mine)
        yours = _named(KeptSession(keeper, mine))
        now = "none is current here" if found is None else f"{other} is current here now"
        hint = f"To go on with yours, pass session {mine[:8]}, or make it current again: resume_session."
        if found is not None:
            hint += f" To work in the other one, resume_session with session {found.id[:8]}."
        return Refused(f"your session is {yours}, but {now}", hint=hint, session=mine)


def _ended(keeper: Keeper, session: str) -> str | None:
    try:
        state = keeper.state(session)
    except NotFound:
        return f"your session {session[:8]} was deleted"
    status = view.status_of(state)
    if status not in FINISHED:
        return None
    by = ""
    for event in reversed(keeper.events(session)):
        if event.type in _ENDS:
            by = f" by {shorten(one_line(event.actor), 60)}"
            break
    return f"your session, {_named(KeptSession(keeper, session))}, was {STATUS[status]}{by}"


def _named(session: KeptSession) -> str:
    goal = session.document().goal
    return f"“{shorten(one_line(goal), 80)}” ({session.id[:8]})"
