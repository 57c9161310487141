"""Hills: how far the scopes of all projects are, uphill while it is found out how, downhill while it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.sessions.hours.table import repository
from holdfast.sessions.locate import at_its_place
from holdfast.store.interface import Filter

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace

_RECENT: Final = 200  # sessions, besides the unfinished ones, in which a scope may have been moved


class Hill(NamedTuple):
    """Where a scope of a project stands: 0 not started, 5 the crest, 10 done."""

    project: str
    scope: str
    position: int
    # None: nobody has moved it yet.
    moved_at: int | None
    # The session to move it in: an unfinished one of the project if there is one, else where it was moved last.
    session: str


def hills(ws: Workspace) -> list[Hill]:
    """The scopes of unfinished sessions and those moved in recent ones, each where it was moved to last."""
    ws.collect()
    store = ws.existing_store()
    if store is None:
        return []
    shown = Filter(archived=False, now=ws.now(), archive_after=ws.home_settings.archive_after)
    unfinished = store.rows(shown._replace(unfinished=True))
    recent = store.rows(shown._replace(limit=_RECENT))
    found: dict[tuple[str, str], Hill] = {}
    for session in dict.fromkeys(row.id for row in (*unfinished, *recent)):
        state = store.state(session)
        if state is not None and not state.deleted:
            _add(found, state)
    return sorted(found.values(), key=lambda one: (one.project, one.scope))


def _add(found: dict[tuple[str, str], Hill], state: State) -> None:
    """Later ones are older: what was said of the session to move a scope in stands."""
    open_ = view.status_of(state) not in FINISHED
    own = view.word(state, "scope")
    moves: dict[str, tuple[int, int] | None] = {own: None} if open_ and own else {}
    moves.update(state.hill)
    which, name = ("", "") if state.project is None else (repository(state.project), state.project.name)
    for scope, move in moves.items():
        at, position = (None, 0) if move is None else move
        new = Hill(name, scope, position, at, state.session)
        old = found.get((which, scope))
        if old is None:
            found[which, scope] = new
        elif at is not None and (old.moved_at is None or (at, position) > (old.moved_at, old.position)):
            found[which, scope] = old._replace(position=position, moved_at=at)


def move(ws: Workspace, session_id: str, scope: str, position: int) -> None:
    """Move a scope on its hill, where the session is worked on or, where that is not known, from here."""
    from holdfast.sessions.work import Work

    try:
        where = at_its_place(ws, session_id)
    except Refused:  # the project is not on this machine, and need not be
        where = ws
    Work(where, session_id).hill(scope, position)
