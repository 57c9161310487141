"""Projects: which one a directory belongs to, found again by evidence after a move, a rename or a clone.

A project is a repository, not a path: two devices that gave one repository an id each, before they met, have two ids
for it, and what is known of both (addresses, first commits) makes them one. Paths count only where they were seen.
On one device, two directories that began with the same commit are one project only if an address says so: they may
have been made from one template.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core import view
from holdfast.core.errors import Conflict, HoldfastError, NotFound
from holdfast.core.events import GitPositionNoted, ProjectFacts
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import State
from holdfast.machine import files
from holdfast.machine.git import worktree
from holdfast.machine.git.worktree import WorkTree, same_directory
from holdfast.store import origin
from holdfast.store.interface import Filter, Store, Transaction

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


def project_ids(store: Store, place: WorkTree) -> tuple[str, ...]:
    """Every id of the project at this place, in a fixed order: by stored evidence, else by what git says."""
    at_path = store.projects_with("path", place.main)
    evidence = [(kind, value) for name in at_path for kind, value in store.evidence(name) if kind != "path"]
    if not evidence and place.git:
        observed = observe(place, "")
        return tuple(sorted({*at_path, *_matching_projects(store, _remotes(observed), observed.roots, [place.main])}))
    return tuple(
        sorted(
            {
                *at_path,
                *_matching_projects(
                    store, _values_of("remote", evidence), _values_of("root", evidence), [place.main]
                ),
            }
        )
    )


def stored_project_ids(store: Store, place: WorkTree) -> set[str]:
    """The ids of the project at this place that the store knows; git is not run."""
    at_path = store.projects_with("path", place.main)
    evidence = [(kind, value) for name in at_path for kind, value in store.evidence(name) if kind != "path"]
    return {
        *at_path,
        *_matching_projects(store, _values_of("remote", evidence), _values_of("root", evidence), [place.main]),
    }


def directories(store: Store, project: ProjectFacts) -> list[str]:
    """The directories on this machine where a project was seen, whichever of its ids it has here."""
    evidence = store.evidence(project.id)
    remotes = {*_values_of("remote", evidence), *_remotes(project)}
    matching = _matching_projects(
        store, remotes, {*_values_of("root", evidence), *project.roots}, _values_of("path", evidence)
    )
    return list(dict.fromkeys(
        path for name in (project.id, *sorted(matching)) for path in _values_of("path", store.evidence(name))
    ))  # fmt: skip


def _matching_projects(store: Store, remotes: Iterable[str], roots: Iterable[str], paths: Sequence[str]) -> set[str]:
    """The projects with one of these addresses, and those with the same first commit and no other address.

    `paths` are the directories on this machine of the project that they are compared with.
    """
    addresses = set(remotes)
    matching = {name for remote in addresses for name in store.projects_with("remote", remote)}
    for name in {name for root in roots for name in store.projects_with("root", root)} - matching:
        other_addresses = set(_values_of("remote", store.evidence(name)))
        # A fork has the same first commit: only its directory distinguishes it.
        if (not addresses or not other_addresses) and not _has_other_directory(store, name, paths, addresses):
            matching.add(name)
    return matching


def _has_other_directory(store: Store, project: str, paths: Sequence[str], addresses: Collection[str] = ()) -> bool:
    """Whether a project with the same first commit as the one at these paths has another directory here.

    A missing directory was moved, perhaps to one of these paths, unless they are known as another project's.
    """
    evidence = store.evidence(project)
    other_paths = _values_of("path", evidence)
    if not other_paths or not paths or any(same_directory(path, other) for path in paths for other in other_paths):
        return False
    # The address of a clone may be the path of the directory that was cloned.
    if _is_address(other_paths, addresses) or _is_address(paths, _values_of("remote", evidence)):
        return False
    return any(store.projects_with("path", path) for path in paths) or any(map(os.path.isdir, other_paths))


def _is_address(paths: Iterable[str], addresses: Iterable[str]) -> bool:
    from holdfast.machine.git.config import normalise_remote

    # After `git clone .`, the address ends with a dot.
    paths_as_addresses = {os.path.normpath(normalise_remote(path)) for path in paths}
    return not paths_as_addresses.isdisjoint(map(os.path.normpath, addresses))


def _values_of(kind: str, evidence: Iterable[tuple[str, str]]) -> list[str]:
    return [value for name, value in evidence if name == kind]


def _remotes(project: ProjectFacts) -> tuple[str, ...]:
    return (project.remote,) if project.remote else ()


def _by_evidence(store: Store, observed: ProjectFacts) -> str | None:
    """One of our projects with this address, or else with this first commit.

    Never a project that is known only through shares: another person chose its id and could claim anything about it.
    """
    if observed.remote:
        return _first_own(store, store.projects_with("remote", observed.remote))
    same_roots = list(dict.fromkeys(name for root in observed.roots for name in store.projects_with("root", root)))
    paths = [observed.path] if observed.path else []
    candidates = [name for name in same_roots if not _has_other_directory(store, name, paths)]
    if len(candidates) < len(same_roots):
        # A second copy on this machine is a new project; if the directory of the first is missing, it was moved.
        candidates = [name for name in candidates if _values_of("path", store.evidence(name))]
    name = os.path.basename(observed.path or "")
    candidates.sort(
        key=lambda project: all(
            os.path.basename(path) != name for path in _values_of("path", store.evidence(project))
        )
    )
    return _first_own(store, candidates)


def _first_own(store: Store, projects: Iterable[str]) -> str | None:
    return next((name for name in projects if not _is_shared(store, name)), None)


def observe(place: WorkTree, project_id: str, notices: list[str] | None = None) -> ProjectFacts:
    """The facts of the project as it is now. What git does not report in time is left out, with a notice."""
    name = os.path.basename(place.main.rstrip(os.sep)) or place.main
    if not place.git:
        return ProjectFacts(id=project_id, name=name, path=place.main)
    from holdfast.machine.git.reader import GitFacts, GitReader

    git = GitReader(place.root)
    facts, roots = GitFacts(None, None, None), []
    try:
        facts = git.facts()
        roots = git.root_commits(timeout=0.5)
    except HoldfastError as error:
        if notices is not None:
            missing = "where its history began" if any(facts) else "branch, commit and remote"
            notices.append(f"Recorded without {missing}, because git cannot be asked: {error.message}.")
    return ProjectFacts(
        id=project_id, name=name, path=place.main, git_branch=facts.branch, git_commit=facts.commit,
        remote=facts.remote, roots=tuple(sorted(roots)[:4]),
    )  # fmt: skip


def find_project(store: Store, observed: ProjectFacts) -> ProjectFacts:
    """The project as observed, under the id it is known by, or a new random one."""
    by_path = store.projects_with("path", observed.path or "")
    known_by = by_path[0] if by_path else _by_evidence(store, observed)
    return msgspec.structs.replace(observed, id=known_by or os.urandom(8).hex())


# ── projects that were moved ─────────────────────────────────────────────────────────────────────────────


class ProjectDirectories(NamedTuple):
    """A project that has sessions, with the directories of this device where it was seen."""

    id: str
    name: str
    paths: list[str]
    sessions: int


def list_projects(store: Store) -> list[ProjectDirectories]:
    return [
        ProjectDirectories(project.id, project.name, _values_of("path", store.evidence(project.id)), project.sessions)
        for project in store.projects()
    ]


def moved_from(store: Store, place: WorkTree) -> str | None:
    """The directory that this one may have been before it was moved or renamed: a missing one, with sessions.

    A repository is recognised by what git says. Any other directory has only its path, so a person has to confirm it.
    """
    if place.git or store.projects_with("path", place.main):
        return None
    name, parent = os.path.basename(place.main), os.path.dirname(place.main)
    missing = [
        path
        for project in list_projects(store)
        if all(kind == "path" for kind, _ in store.evidence(project.id))
        and not any(os.path.isdir(path) for path in project.paths)
        for path in project.paths
    ]
    candidates = [path for path in missing if os.path.basename(path) == name or os.path.dirname(path) == parent]
    return candidates[0] if len(candidates) == 1 else None


def reconnect(ws: Workspace, old: str) -> list[ProjectDirectories]:
    """Make the project here the one that was at another path: its sessions belong here from now on."""
    store, place = ws.store(), ws.place
    path = os.path.normpath(os.path.join(place.main, os.path.expanduser(old)))
    ids = store.projects_with("path", path)
    if not ids:
        raise NotFound(f"no project is known at {files.display_path(path)}", hint="See them: holdfast project list")
    if os.path.isdir(path) and not os.path.samefile(path, place.main):
        raise Conflict(
            "a directory is still there, and the project belongs to it",
            hint="Reconnect a project after it was moved; or continue one session here: holdfast resume ID",
            file=path,
        )
    reconnected = [project for project in list_projects(store) if project.id in ids]
    with ws.transaction() as transaction:
        for project in reconnected:
            transaction.remember_project(
                ProjectFacts(id=project.id, name=os.path.basename(place.main), path=place.main)
            )
    return reconnected


# ── projects of other devices ────────────────────────────────────────────────────────────────────────────


def learn_project(ws: Workspace, transaction: Transaction, state: State) -> None:
    """Remember the project of a session that another device sent, without its path.

    The same path may be anything on this device. A project known only by a path is found here once a person resumes
    one of its sessions (`claim_project`). Nobody who shares a session with us can change the name or the repositories
    of one of our own projects.
    """
    project = state.project
    if project is None or state.deleted:
        return
    if origin.share_of(transaction, state.session) is not None and not _is_shared(ws.store(), project.id):
        return
    transaction.remember_project(msgspec.structs.replace(project, path=None))


def _is_shared(store: Store, project: str) -> bool:
    """Whether a project is known only through shares: it has no directory here, and no session of our own."""
    if _values_of("path", store.evidence(project)):
        return False
    shared = origin.through_shares(store)
    return all(row.id in shared for row in store.rows(Filter(projects=(project,))))


def claim_project(transaction: Transaction, place: WorkTree, project: ProjectFacts) -> None:
    """Make this place part of that project, because a person says so."""
    transaction.remember_project(ProjectFacts(id=project.id, name=project.name, path=place.main))


def has_only_path(project: ProjectFacts) -> bool:
    """Whether only its path is known, which means nothing on another device."""
    return not project.remote and not project.roots


def is_same_project(store: Store, place: WorkTree, project: ProjectFacts) -> bool:
    """Whether this place is that project, by its id or by what git says of both."""
    if project.id in project_ids(store, place):
        return True
    if not place.git or has_only_path(project):
        return False
    observed = observe(place, "")
    if observed.remote and project.remote:
        return observed.remote == project.remote
    remotes = {*_remotes(observed), *_remotes(project)}
    return not set(observed.roots).isdisjoint(project.roots) and not _has_other_directory(
        store, project.id, [place.main], remotes
    )


# ── where the work is in git ─────────────────────────────────────────────────────────────────────────────

_MAX_BRANCH_LENGTH: Final = 250  # characters
_MAX_PACKED_SIZE: Final = 1 << 20  # bytes of packed refs: this is read whenever an agent starts or ends


def changed_git_position(ws: Workspace, state: State, *, is_current: bool = False) -> GitPositionNoted | None:
    """The branch and commit of this work tree, if the log does not know them: others may want to follow the work.

    None where the session is not worked on here: another project, or a work tree with another current session.
    `is_current`: the session is known to be current here. Only git's files are read; git is not started.
    """
    project, place = state.project, ws.place
    if project is None or not place.git or view.status_of(state) in FINISHED:
        return None
    head = worktree.head(place, packed=_MAX_PACKED_SIZE)
    recorded = worktree.GitHead(project.git_branch, project.git_commit)
    # Of what only git can read (reftables, very many refs), the recorded value stays.
    if head in (recorded, (None, None), (recorded.branch, None)):
        return None
    branch = head.branch
    if branch is not None and (len(branch) > _MAX_BRANCH_LENGTH or not branch.isprintable()):
        return None
    store = ws.store()
    if not is_current and store.current(place.root) != state.session:
        return None
    if project.id not in stored_project_ids(store, place):
        return None
    return GitPositionNoted(branch=branch, commit=head.commit)
