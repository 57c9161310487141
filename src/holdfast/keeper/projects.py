"""Projects: which one a directory belongs to, found again by evidence after a move, a rename or a clone."""

from __future__ import annotations

import os

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.vocabulary import Project
from holdfast.machine.worktree import Place
from holdfast.store.interface import Store


def known(store: Store, place: Place) -> str | None:
    """The project at this place, if the store has heard of it: by path at once, else by what git says."""
    by_path = store.project_at("path", place.main)
    if by_path:
        return by_path[0]
    return _by_evidence(store, observe(place, "")) if place.git else None


def _by_evidence(store: Store, seen: Project) -> str | None:
    if seen.remote:
        found = store.project_at("remote", seen.remote)
        return found[0] if found else None
    for root in seen.roots:
        found = store.project_at("root", root)
        if found:
            return found[0]
    return None


def observe(place: Place, project_id: str) -> Project:
    """The project as it is here and now. Whatever git cannot say in time is left out."""
    name = os.path.basename(place.main.rstrip(os.sep)) or place.main
    if not place.git:
        return Project(id=project_id, name=name, path=place.main)
    from holdfast.machine.git import Git, GitFacts

    git = Git(place.root)
    try:
        facts = git.facts()
        roots = git.root_commits(timeout=0.5)
    except HoldfastError:
        facts, roots = GitFacts(None, None, None), []
    return Project(
        id=project_id, name=name, path=place.main, git_branch=facts.branch, git_commit=facts.commit,
        remote=facts.remote, roots=tuple(sorted(roots)[:4]),
    )  # fmt: skip


def found(store: Store, seen: Project) -> Project:
    """The project as observed, under the id it is known by, or a new random one."""
    by_path = store.project_at("path", seen.path or "")
    known_by = by_path[0] if by_path else _by_evidence(store, seen)
    return msgspec.structs.replace(seen, id=known_by or os.urandom(8).hex())
