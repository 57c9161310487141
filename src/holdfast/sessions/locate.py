"""Act on a session from outside its project, as a dashboard or a server does.

What is recorded is noted with where it happened (branch, commit, which work tree is at the session), so a verb is
best done by the keeper of the place where the session is worked on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.errors import NotFound, Refused
from holdfast.core.events import ProjectFacts
from holdfast.core.wording import one_line
from holdfast.workspace import projects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.state import State
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace

W = TypeVar("W", bound="Workspace")


def at_its_place(ws: W, session_id: str) -> W:
    """The keeper of the work tree that is at the session, or of its project's directory on this machine.

    It can be used for as long as the given one is open.
    """
    store = ws.existing_store()
    state = None if store is None else store.state(session_id)
    if store is None or state is None or state.deleted:
        raise NotFound("there is no such session", session=session_id)
    root = directory(store, session_id, state.project, prefer=ws.place.root)
    if root is None:
        project = state.project
        name = one_line(project.name) if project is not None else "of the session"
        where = f" ({one_line(project.remote)})" if project is not None and project.remote else ""
        raise Refused(
            f"the project {name} is not on this machine",
            hint=f"Clone it{where}, then in its directory: holdfast resume {session_id[:8]}",
            session=session_id,
        )
    return ws if root == ws.place.root else ws.at(root)


def belongs_here(ws: Workspace, session_id: str) -> bool:
    """Whether a session is of the project at the keeper's place, or is taken to be once somebody goes on with it."""
    from holdfast.sessions import resume_check

    store = ws.existing_store()
    state = None if store is None else store.state(session_id)
    if store is None or state is None or state.project is None:
        return True
    if projects.same(store, ws.place, state.project):
        return True
    return resume_check.unclaimed(ws, state.project, foreign=resume_check.left_by_another(ws, state))


def path_here(ws: Workspace, state: State) -> str | None:
    """The directory of a session's project on this machine."""
    store = ws.existing_store()
    if store is None or state.project is None:
        return None
    if state.project.id in projects.seen_at(store, ws.place):
        return ws.place.main
    found = (path for path in projects.directories(store, state.project) if os.path.isdir(path))
    return next(found, None)


def directory(
    store: Store,
    session_id: str,
    project: ProjectFacts | None,
    *,
    places: Sequence[str] | None = None,
    prefer: str | None = None,
) -> str | None:
    """Where to go on with a session on this machine: a work tree that is at it, else its project's directory.

    `places` are the work trees that are at it, for whoever knows them already; of several, `prefer` comes first.
    """
    at_it = store.places(session_id) if places is None else places
    for found in (at_it, [] if project is None else projects.directories(store, project)):
        there = [path for path in found if os.path.isdir(path)]
        if there:
            return prefer if prefer in there else there[0]
    return None
