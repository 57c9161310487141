"""Sessions and work trees: where a session is worked on, and which sessions are open in a work tree.

Events are recorded with where they happened (branch, commit, work tree), so a dashboard or a server acts on a session
through the workspace of its work tree. Two conversations at once in one work tree are two open sessions. Which
session was worked on in which work tree only this machine knows: it is kept in the store's memory, in the transaction
that makes a session current.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.core import view
from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import NotFound, Refused
from holdfast.core.events import ProjectFacts
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import State
from holdfast.core.wording import one_line
from holdfast.workspace import projects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.state import State
    from holdfast.store.interface import Store, Transaction
    from holdfast.workspace.workspace import Workspace


W = TypeVar("W", bound="Workspace")


def workspace_of_session(ws: W, session_id: str) -> W:
    """The workspace of the work tree whose current session it is, or of its project's directory on this machine.

    It is usable while the given one is open.
    """
    store = ws.existing_store()
    state = None if store is None else store.state(session_id)
    if store is None or state is None or state.deleted:
        raise NotFound("there is no such session", session=session_id)
    root = directory(store, session_id, state.project, prefer=ws.place.root)
    if root is None:
        project = state.project
        name = one_line(project.name) if project is not None else "of the session"
        remote = f" ({one_line(project.remote)})" if project is not None and project.remote else ""
        raise Refused(
            f"the project {name} is not on this machine",
            hint=f"Clone it{remote}, then in its directory: holdfast resume {session_id[:8]}",
            session=session_id,
        )
    return ws if root == ws.place.root else ws.at(root)


def belongs_here(ws: Workspace, session_id: str) -> bool:
    """Whether a session belongs to this workspace's project, or will once it is resumed here."""
    from holdfast.sessions import resume_check

    store = ws.existing_store()
    state = None if store is None else store.state(session_id)
    if store is None or state is None or state.project is None:
        return True
    if projects.is_same_project(store, ws.place, state.project):
        return True
    return resume_check.would_claim_project(ws, state.project, foreign=resume_check.left_by_another(ws, state))


def path_here(ws: Workspace, state: State) -> str | None:
    """The directory of the session's project on this machine, if it is here."""
    store = ws.existing_store()
    if store is None or state.project is None:
        return None
    if state.project.id in projects.stored_project_ids(store, ws.place):
        return ws.place.main
    directories = (path for path in projects.directories(store, state.project) if os.path.isdir(path))
    return next(directories, None)


def directory(
    store: Store,
    session_id: str,
    project: ProjectFacts | None,
    *,
    places: Sequence[str] | None = None,
    prefer: str | None = None,
) -> str | None:
    """Where to resume a session on this machine: a work tree whose current session it is, else its project's
    directory.

    `places` are those work trees, if already known; of several, `prefer` comes first.
    """
    at_it = store.places(session_id) if places is None else places
    for paths in (at_it, [] if project is None else projects.directories(store, project)):
        existing = [path for path in paths if os.path.isdir(path)]
        if existing:
            return prefer if prefer in existing else existing[0]
    return None


# ── open sessions of a work tree ───────────────────────────────────────────────────────────────────────


_PREFIX: Final = "open/"
_MAX_REMEMBERED: Final = 100


def note_open(ws: Workspace, transaction: Transaction, session: str) -> None:
    """Note that a session is open in this work tree, and forget sessions that no longer are."""
    known = _decoded(transaction.remembered(_name(ws)))
    if known[-1:] == [session]:
        return
    others = [name for name in known if name != session and _is_open(ws, transaction.state(name))]
    transaction.remember(_name(ws), msgspec.msgpack.encode([*others, session][-_MAX_REMEMBERED:]))


def make_current(ws: Workspace, transaction: Transaction, session: str) -> None:
    """Make a session the current one of this work tree; mirrors will show it."""
    for follower in ws.followers:
        follower.becoming_current(ws, session)
    transaction.set_current(ws.place.root, session)
    note_open(ws, transaction, session)


def open_among(
    ws: Workspace, source: Store | Transaction, current: str | None, state_of: Callable[[str], State | None]
) -> list[State]:
    """The open sessions of this work tree (unfinished, not archived, not over), newest first."""
    known = _decoded(source.remembered(_name(ws)))
    ids = [*reversed(known)] if current is None else [current, *(name for name in reversed(known) if name != current)]
    states = (state_of(name) for name in ids)
    return [state for state in states if state is not None and _is_open(ws, state)]


def open_sessions(ws: Workspace) -> list[State]:
    """The open sessions of this work tree, after draining."""
    ws.collect()
    store = ws.existing_store()
    return [] if store is None else open_among(ws, store, store.current(ws.place.root), store.state)


def _is_open(ws: Workspace, state: State) -> bool:
    return (
        bool(state.count) and not state.deleted and not state.archived
        and view.status_of(state) not in FINISHED and not ws.is_over(state)
    )  # fmt: skip


def _name(ws: Workspace) -> str:
    return f"{_PREFIX}{digest(ws.place.root.encode(errors='surrogatepass'))[:32]}"


def _decoded(value: bytes | None) -> list[str]:
    try:
        return [] if value is None else msgspec.msgpack.decode(value, type=decodable(list[str]))
    except msgspec.MsgspecError:  # of another version
        return []
