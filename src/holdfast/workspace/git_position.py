"""On which branch and commit the work of a session is, noted for whoever goes on with it elsewhere.

What a session began on says little once somebody switched, committed or pulled. So with what others will want to
follow, and whenever a person leaves, the log is told where the work is by then, if it does not know. That is asked
of git's files, not of git: it happens on the way of every agent that starts or ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core import view
from holdfast.core.events import GitPositionNoted
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import State
from holdfast.machine.git import worktree
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

_LONGEST: Final = 250  # characters of a branch's name
_PACKED: Final = 1 << 20  # bytes of packed refs that are worth reading here


def changed_position(ws: Workspace, state: State, *, here: bool = False) -> GitPositionNoted | None:
    """What the log does not know of where the work is. `here`: that it is in this work tree need not be asked.

    Nothing where this is not a place of the session's: another project, or a work tree that is at another session.
    """
    project, place = state.project, ws.place
    if project is None or not place.git or view.status_of(state) in FINISHED:
        return None
    head = worktree.head(place, packed=_PACKED)
    known = worktree.GitHead(project.git_branch, project.git_commit)
    # What only git can tell (a new kind of refs, very many of them) is left as it is known.
    if head in (known, (None, None), (known.branch, None)):
        return None
    branch = head.branch
    if branch is not None and (len(branch) > _LONGEST or not branch.isprintable()):
        return None
    store = ws.store()
    if not here and store.current(place.root) != state.session:
        return None
    if project.id not in projects.stored_project_ids(store, place):
        return None
    return GitPositionNoted(branch=branch, commit=head.commit)
