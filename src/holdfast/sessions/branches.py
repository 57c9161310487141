"""The git branch of a session: created at its start, squash-merged (kept) or discarded at its end.

Uncommitted work is never touched. `keep` can be repeated after it was killed at any point, because it recognises each
of its states from the repository alone, never from a note of ours that could be stale:

    on the session branch, clean       nothing happened yet: start
    on the old branch, clean           switched: merge. If the squash commit was already made, the same merge
                                       stages nothing, which proves that the branch can be deleted
    on the old branch, things staged   merged, not committed: true only if the index is exactly the tree that
                                       the merge gives and no file differs from it. Then commit; else it is
                                       somebody's work: refuse
    no session branch                  done, if the old branch has a commit with this message

Mirror files are Holdfast's own and do not count as dirt. Where git tracks them they would still stop a switch,
so they are kept under a ref of this work tree meanwhile, and restored where nothing was written in between.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import Conflict, Failed, HoldfastError, Invalid, NotFound, Refused
from holdfast.machine.git.branches import GitBranches, is_under

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class OpenedBranch(NamedTuple):
    """`came_from` is None for a detached start, `commit` for a start before the first commit."""

    branch: str
    came_from: str | None
    commit: str | None


class KeptBranch(NamedTuple):
    """The squash commit (None if there was nothing to merge), and the tip of the deleted branch."""

    commit: str | None
    tip: str | None


class DiscardedBranch(NamedTuple):
    """The tip of the deleted branch: `git branch NAME TIP` restores it."""

    tip: str | None


def open_branch(
    git: GitBranches, name: str, announce: Callable[[OpenedBranch], None] = lambda _: None
) -> OpenedBranch:
    """Switch to a new branch and keep uncommitted changes. `announce` is called just before the branch is created."""
    operation = "start --branch"
    if not git.is_repository():
        raise Refused(
            "There is no git repository here, so no branch can be created",
            hint="Run `git init` first, or leave out --branch.",
            operation=operation,
            file=git.root,
        )
    if not git.has_work_tree():
        raise Refused(
            "This repository is bare: it has no work tree to check a branch out in",
            hint="Start in a work tree of it (`git worktree add`), or leave out --branch.",
            operation=operation,
            file=git.root,
        )
    _refuse_unfinished(git, operation)
    if not git.valid_branch_name(name):
        raise Invalid(f"{name!r} is not a branch name git accepts", operation=operation)
    came_from, commit = git.branch(), git.commit_id()
    parts = name.split("/")
    for taken in ("/".join(parts[: depth + 1]) for depth in range(len(parts))):
        if taken == came_from or git.branch_exists(taken):
            raise Conflict(
                f"Branch {taken} already exists" + ("" if taken == name else f", so {name} cannot be created"),
                hint="Rename or delete it, or leave out --branch.",
                operation=operation,
            )
    opened = OpenedBranch(name, came_from, commit)
    announce(opened)
    git.create_branch(name)
    return opened


def undo_open(git: GitBranches, opened: OpenedBranch) -> None:
    """Undo `open_branch`, when the session could not be recorded after all."""
    if opened.commit is None:
        if opened.came_from is not None:
            git.point_head(opened.came_from)
        return
    if opened.came_from is None:
        git.switch_detached(opened.commit)
    else:
        git.switch(opened.came_from)
    git.delete_branch(opened.branch, expect=opened.commit)


def keep(
    git: GitBranches,
    branch: str,
    came_from: str | None,
    message: str,
    ignore: Sequence[str] = (),
    *,
    had_commits: bool = True,
) -> KeptBranch:
    """Return, squash-merge, commit, and delete the session branch.

    `had_commits=False`: the session started before the first commit.
    """
    operation = "stop --keep"
    if came_from is None or came_from == branch:
        _refuse_missing(git, branch, operation)
        raise Refused(
            f"{branch} has no branch to return to",
            hint=f"Merge it where you want it (`git switch BRANCH`, `git merge --squash {branch}`), "
            "then `holdfast stop`.",
            operation=operation,
        )
    head, tip = _locate_branch(git, branch, came_from, operation)
    if tip is None:
        return _without_commits(git, branch, came_from, message, ignore, on_branch=head == branch)
    old = git.tip(came_from)
    _refuse_unreachable(git, came_from, operation, branch=branch, exists=old is not None or not had_commits)

    staged = head == came_from and _is_our_squash(git, old, tip, ignore)
    if not staged:
        _refuse_dirt(git, ignore, operation)
        _refuse_unwritable(
            git, tip, old, operation, by_hand=f"`git switch {came_from}`, `git merge --squash {branch}`"
        )
    with _mirrors_aside(git, branch, () if staged else ignore):
        if not staged:
            _return(git, came_from, exists=old is not None)
            _merge(git, branch, came_from, old, tip)
        commit = _commit(git, branch, old, tip, message)
        git.delete_branch(branch, expect=tip)
    return KeptBranch(commit, tip)


def discard(
    git: GitBranches,
    branch: str,
    came_from: str | None,
    ignore: Sequence[str] = (),
    *,
    commit: str | None = None,
    had_commits: bool = True,
) -> DiscardedBranch:
    """Return, then delete the session branch. `commit` is the one to return to after a detached start."""
    operation = "stop --discard"
    if (came_from is None and commit is None) or came_from == branch:
        _refuse_missing(git, branch, operation)
        raise Refused(
            f"{branch} has no branch to return to",
            hint="Switch to another branch (`git switch BRANCH`), and delete it if you do not need it.",
            operation=operation,
        )
    head, tip = _locate_branch(git, branch, came_from, operation, detached_at=commit)
    if tip is None and head != branch:
        git.put_back(_aside_name(branch))
        return DiscardedBranch(None)  # an earlier discard deleted it
    if tip is not None:  # without a commit, only HEAD is renamed and no file is touched
        _refuse_dirt(git, ignore, operation)
        target = commit if came_from is None else git.tip(came_from)
        _refuse_unwritable(
            git, tip, target, operation, by_hand=f"`git switch {came_from or '--detach'}`, `git branch -D {branch}`"
        )
    exists = came_from is None or git.branch_exists(came_from)
    if came_from is not None:
        _refuse_unreachable(git, came_from, operation, branch=branch, exists=exists or not had_commits or tip is None)
    with _mirrors_aside(git, branch, ignore if tip else ()):
        if head == branch and came_from is None:
            assert commit is not None
            git.switch_detached(commit)
        elif head == branch and came_from is not None:
            _go_back(git, came_from, exists=exists, tip=tip)
        if tip is not None:
            git.delete_branch(branch, expect=tip)
    return DiscardedBranch(tip)


def _go_back(git: GitBranches, came_from: str, *, exists: bool, tip: str | None) -> None:
    if exists:
        git.switch(came_from)
    elif tip is None:
        git.point_head(came_from)
    else:
        git.switch_empty(came_from)


def _locate_branch(
    git: GitBranches, branch: str, came_from: str | None, operation: str, *, detached_at: str | None = None
) -> tuple[str | None, str | None]:
    """The branch of HEAD, and the tip of the session branch; refuses if the branch cannot be ended from here."""
    if not git.is_repository():
        raise Refused("There is no longer a git repository here", operation=operation, file=git.root)
    _refuse_unfinished(git, operation)
    head = git.branch()
    back = head == came_from if came_from is not None else head is None and git.commit_id() == detached_at
    if head != branch and not back:
        _refuse_missing(git, branch, operation)
        position = f"on {head}" if head else f"at {(git.commit_id() or 'no commit')[:12]}, on no branch"
        raise Refused(
            f"The work tree is {position}, not on the session's branch {branch}",
            hint=f"Run `git switch {branch}`, then try again.",
            operation=operation,
            file=git.root,
        )
    elsewhere = git.checked_out_elsewhere(branch) if back else None
    if elsewhere is not None:
        raise Refused(
            f"The session's branch {branch} is checked out in {elsewhere}",
            hint="End the session there, or switch that work tree to another branch.",
            operation=operation,
            file=elsewhere,
        )
    return head, git.tip(branch)


def _without_commits(
    git: GitBranches, branch: str, came_from: str, message: str, ignore: Sequence[str], *, on_branch: bool
) -> KeptBranch:
    if not on_branch:
        commit = git.find_commit(None, tree=None, message=message)
        if commit is None:
            raise NotFound(
                f"Branch {branch} no longer exists",
                hint="If it is merged already, `holdfast stop` without --keep ends the session.",
                operation="stop --keep",
            )
        git.put_back(_aside_name(branch))
        return KeptBranch(commit, None)
    # Without a commit the branch is only a name in HEAD, so returning only changes that name.
    _refuse_dirt(git, ignore, "stop --keep")
    if git.branch_exists(came_from):
        git.switch(came_from)
    else:
        git.point_head(came_from)
    return KeptBranch(None, None)


def _is_our_squash(git: GitBranches, old: str | None, tip: str, ignore: Sequence[str]) -> bool:
    """Whether the old branch has the staged merge of a `keep` that was killed before its commit."""
    changes = git.changes()
    if any(
        change.staged == "u" or (change.unstaged != "." and not is_under(change.path, ignore)) for change in changes
    ):
        return False
    if all(change.staged == "." for change in changes):
        return False
    is_fast_forward = old is None or git.is_ancestor(old, tip)
    expected = git.tree_id(tip) if is_fast_forward else git.merged_tree(str(old), tip)
    return expected is not None and git.index_tree() == expected


def _return(git: GitBranches, came_from: str, *, exists: bool) -> None:
    if exists:
        git.switch(came_from)
    else:
        git.point_head(came_from)  # the index stays the session's, which is all its first commit needs


def _merge(git: GitBranches, branch: str, came_from: str, old: str | None, tip: str) -> None:
    if old is None:
        return
    if git.merge_base(old, tip) is None and git.find_commit(None, tree=git.tree_id(tip), message=""):
        return  # it began before the first commit, and an earlier `keep` made that one
    try:
        conflicts = git.squash_merge(tip)
    except HoldfastError as problem:
        raise _rolled_back(git, branch, old, problem) from problem
    if conflicts:
        raise _rolled_back(
            git,
            branch,
            old,
            Conflict(
                f"{branch} and {came_from} conflict in: {_list_paths(conflicts)}",
                hint=f"Nothing was lost, and you are on {branch} again. Run `git merge {came_from}`, "
                "resolve the conflicts, commit, then stop again.",
                operation="stop --keep",
            ),
        )


def _commit(git: GitBranches, branch: str, old: str | None, tip: str, message: str) -> str | None:
    if not git.staged():
        if git.commit_id() is None:
            return None  # nothing but empty commits before the first one
        git.undo_merge()  # removes the message git prepared, which the next commit would get
        base = git.merge_base("HEAD", tip)
        if base == tip or (base is not None and git.tree_id(base) == git.tree_id(tip)):
            return None
        return git.find_commit(base, tree=git.tree_id(tip), message=message)
    try:
        commit = git.commit(message)
    except HoldfastError as problem:
        raise _rolled_back(git, branch, old, problem) from problem
    if old is not None and not git.is_ancestor(old, commit):
        raise Conflict(
            f"A hook moved the branch away from {old[:12]} during the commit",
            hint=f"{branch} still exists: look at `git log`, then stop again.",
            operation="stop --keep",
        )
    return commit


def _rolled_back(git: GitBranches, branch: str, old: str | None, problem: HoldfastError) -> HoldfastError:
    """Return to the session branch; returns the error to raise, which names the branch if returning fails."""
    try:
        stash = git.undo_merge() if old is not None else None
        if old is not None:
            git.switch(branch)
        else:
            git.point_head(branch)
    except HoldfastError as second:
        return Failed(
            f"{problem.message}, and switching back to {branch} failed",
            hint=f"{problem.hint or ''}\n{second.hint or second.message}\n"
            f"{branch} is unchanged: move away what blocks it, then `git switch {branch}`.".lstrip(),
            operation="stop --keep",
            file=git.root,
        )
    if isinstance(problem, Conflict):
        return problem
    note = f" What a hook changed is in {stash}." if stash else ""
    problem.hint = f"{problem.hint or ''}\nNothing was merged, and you are on {branch} again.{note}".lstrip()
    return problem


@contextmanager
def _mirrors_aside(git: GitBranches, branch: str, ignore: Sequence[str]) -> Iterator[None]:
    name = _aside_name(branch)
    # Untracked mirror files are not affected by a switch.
    paths = (
        [change.path for change in git.changes() if change.unstaged != "?" and is_under(change.path, ignore)]
        if ignore
        else []
    )
    if paths:
        git.set_aside(name, paths)
    try:
        yield
    finally:
        git.put_back(name)


def _aside_name(branch: str) -> str:
    return f"aside/{branch}"


def _refuse_missing(git: GitBranches, branch: str, operation: str) -> None:
    """A session that another program started may name a branch that this repository does not have."""
    if not git.is_repository() or not (git.branch_exists(branch) or git.branch() == branch):
        raise NotFound(
            f"There is no branch {branch} here",
            hint="End the session without it: holdfast stop",
            operation=operation,
            file=git.root,
        )


def _refuse_unfinished(git: GitBranches, operation: str) -> None:
    under_way = git.in_progress()
    if under_way is not None:
        raise Refused(
            f"A {under_way} is in progress in this work tree",
            hint=f"Finish or abort it (`git status` says how), then run `holdfast {operation}` again.",
            operation=operation,
            file=git.root,
        )


def _refuse_dirt(git: GitBranches, ignore: Sequence[str], operation: str) -> None:
    dirty = git.dirty(ignore)
    if dirty:
        raise Refused(
            f"There are uncommitted changes: {_list_paths(dirty)}",
            hint="Commit or stash them (`git stash -u`), then try again.",
            operation=operation,
            file=git.root,
        )


def _refuse_unwritable(git: GitBranches, tip: str, target: str | None, operation: str, *, by_hand: str) -> None:
    problem = None if target is None else git.unwritable(tip, target)
    if problem is not None:
        raise Refused(
            "Holdfast runs no program that only a repository names, and without it the work tree would be wrong:"
            f" {problem}",
            hint=f"Do it with git: {by_hand}; then `holdfast stop`. Or name the filter in your own configuration: "
            "`git config --global`.",
            operation=operation,
            file=git.root,
        )


def _refuse_unreachable(git: GitBranches, came_from: str, operation: str, *, branch: str, exists: bool) -> None:
    if not exists:
        raise Refused(
            f"Branch {came_from}, from which {branch} was created, no longer exists",
            hint=f"Recreate it (`git branch {came_from} COMMIT`), or merge {branch} by hand and `holdfast stop`.",
            operation=operation,
        )
    elsewhere = git.checked_out_elsewhere(came_from)
    if elsewhere is not None:
        raise Refused(
            f"Branch {came_from}, from which {branch} was created, is checked out in {elsewhere}",
            hint=f"Switch that work tree to another branch, or merge {branch} there and `holdfast stop` here.",
            operation=operation,
            file=elsewhere,
        )


def _list_paths(paths: Sequence[str]) -> str:
    """Up to five paths, escaped so that they are safe to print."""
    listed = ", ".join(path if path.isprintable() else ascii(path) for path in paths[:5])
    return listed if len(paths) <= 5 else f"{listed} and {len(paths) - 5} more"
