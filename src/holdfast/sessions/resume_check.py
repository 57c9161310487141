"""Check whether a session that another device left can be resumed in this project.

Events are synced, files are not. So before a session is resumed here, what it depends on is checked: the project, its
branch and commit, the files it changed, the programs of its conversations. Each difference comes with a command that
fixes it. Some block: an agent would build on files that are not here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Refused
from holdfast.core.events import ProjectFacts
from holdfast.core.state import State
from holdfast.workspace import projects
from holdfast.workspace.followers import ResumeDifference

if TYPE_CHECKING:
    from holdfast.machine.git.reader import GitReader
    from holdfast.sessions.resume import FileLanding
    from holdfast.workspace.workspace import Workspace

_NAMED: Final = 3  # files named in a sentence
_SHORT: Final = 10  # digits of a commit
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
# From another device's events: it must not be an option or a program to git.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9/~.][A-Za-z0-9@:/~.+_-]*")
_HOST: Final = re.compile(r"[a-z0-9.-]+\.[a-z]{2,}(:\d+)?/.+")


def left_by_another(ws: Workspace, state: State) -> bool:
    """Whether another device worked on the session last. An earlier writer of this device does not count."""
    last = state.last_writer
    if not last or last == ws.home.writer(ws.address):
        return False
    from holdfast.workspace.keys.device_keys import is_certified

    if is_certified(last):
        return not _certified_here(ws, last)
    # A writer without keys is only known by its device's name and its directory.
    path = None if state.project is None else state.project.path
    return state.devices.get(last) != ws.device() or not os.path.isdir(path or "")


def _certified_here(ws: Workspace, writer: str) -> bool:
    if not os.path.lexists(ws.home.device):
        return False
    from holdfast.workspace.keys import device_keys, key_files

    public = key_files.public(ws.home.path)
    return public is not None and device_keys.certifies(writer, public.signing)


def check(
    ws: Workspace, state: State, files: Sequence[FileLanding], *, foreign: bool
) -> tuple[ResumeDifference, ...]:
    """How this project differs from what the session was left with, by another device or this one. Reads only."""
    project = state.project
    if project is None:
        return ()
    if not projects.is_same_project(ws.store(), ws.place, project) and not would_claim_project(
        ws, project, foreign=foreign
    ):
        return (_other_project(state, project, blocking=foreign),)
    # This device worked here last: only the files themselves may differ, after a crash.
    if not foreign:
        return ()
    left = view.device_of(state) or "the other device"
    differences: list[ResumeDifference] = []
    fetch = None
    if ws.place.git:
        from holdfast.machine.git.reader import GitReader

        git = GitReader(ws.place.root)
        try:
            differences += _commit(git, state, project)
            if not any(difference.blocking for difference in differences):
                fetch = _LeftPosition.of(git, state, project).fetch_command(git.branch())
            differences += _dirt(git, files, ws.own_paths())
        except HoldfastError as error:
            differences.append(ResumeDifference("git", error.message, error.hint, blocking=False))
    if any(difference.blocking for difference in differences):
        differences += _changed(files, None)  # fetching the missing commit may restore them
    else:
        differences += _changed(
            files, f"commit and push them on {left}, then here: {fetch}" if fetch else f"copy them from {left}"
        )
    for follower in ws.followers:
        differences += follower.resume_differences(ws, state)
    return tuple(differences)


def refuse(differences: Sequence[ResumeDifference], state: State) -> None:
    """Refuse to resume if a difference blocks; the hint says how to fix each."""
    blocking = [difference for difference in differences if difference.blocking]
    if not blocking:
        return
    mend = [f"{difference.what}: {difference.fix}" for difference in blocking if difference.fix]
    raise Refused(
        f"this work tree differs from what {view.device_of(state) or 'another device'} left: "
        + "; ".join(difference.detail for difference in blocking),
        hint="\n".join([*mend, f"Or resume anyway: holdfast resume {state.session[:8]} --force"]),
        session=state.session,
    )


# ── the project ──────────────────────────────────────────────────────────────────────────────────────────


def would_claim_project(ws: Workspace, project: ProjectFacts, *, foreign: bool) -> bool:
    """Whether resuming a session here makes its project this one.

    That is so if only a path is known of it (another device's, or one that no longer exists) and nothing of this one.
    """
    if not projects.has_only_path(project) or (not foreign and os.path.isdir(project.path or "")):
        return False
    return not projects.project_ids(ws.store(), ws.place)


def _other_project(state: State, project: ProjectFacts, *, blocking: bool) -> ResumeDifference:
    go = f"holdfast resume {state.session[:8]} --project"
    if project.remote and _ADDRESS.fullmatch(project.remote) and "::" not in project.remote:
        name = project.remote.rstrip("/").rpartition("/")[2] or project.name
        address = f"https://{project.remote}" if _HOST.fullmatch(project.remote) else project.remote
        detail = f"the session belongs to {project.name} ({project.remote}), and this is another project"
        return ResumeDifference(
            "project", detail, f"git clone {shlex.quote(address)} && {go} {shlex.quote(name)}", blocking
        )
    return ResumeDifference(
        "project", f"the session belongs to {project.name}, and this is another project", f"{go} DIR", blocking
    )


# ── commit and branch ─────────────────────────────────────────────────────────────────────────────────────


def _commit(git: GitReader, state: State, project: ProjectFacts) -> Iterator[ResumeDifference]:
    """The commit it was left at must be part of what is checked out; another branch does not block."""
    left = _LeftPosition.of(git, state, project)
    current, branch, commit, short = git.branch(), left.branch, left.commit, left.short
    if commit is not None and git.commit_id(commit) is None:
        of_branch = "" if branch is None else f" of branch {branch}"
        yield ResumeDifference(
            "commit",
            f"commit {short}{of_branch}, {left.words}, is not in this repository (was it pushed?)",
            left.fetch_command(current), blocking=True,
        )  # fmt: skip
    elif commit is not None and not git.is_ancestor(commit, "HEAD"):
        behind = git.is_ancestor("HEAD", commit)
        yield ResumeDifference(
            "commit", f"the checkout {'is behind' if behind else 'does not contain'} commit {short}, {left.words}",
            left.reach_command(current, behind=behind), blocking=True,
        )  # fmt: skip
    elif branch is not None and current != branch:
        yield ResumeDifference(
            "branch", f"the session is on branch {branch}, but {current or 'no branch'} is checked out here",
            left.switch_command(), blocking=False,
        )  # fmt: skip
    elif commit is not None and commit != git.commit_id():
        yield ResumeDifference(
            "commit", f"the checkout has commits after {short}, {left.words}", None, blocking=False
        )


class _LeftPosition(NamedTuple):
    """The branch and commit where the work was left, and commands that lead there, which must work when pasted."""

    git: GitReader
    session: str
    branch: str | None
    commit: str | None
    # How the commit is known.
    words: str

    @classmethod
    def of(cls, git: GitReader, state: State, project: ProjectFacts) -> _LeftPosition:
        # A session with its own branch starts on the branch it came from.
        own_branch = None if state.noted_by else view.text_value(state, "branch")
        branch = own_branch or project.git_branch
        device = state.devices.get(state.noted_by)
        # Text from another device's events becomes part of a command only if it is well-formed.
        return cls(
            git,
            state.session[:8],
            branch if branch is not None and git.valid_branch_name(branch) else None,
            project.git_commit if _COMMIT.fullmatch(project.git_commit or "") else None,
            f"on which {device} left the session" if device else "on which the session began",
        )

    @property
    def short(self) -> str:
        return (self.commit or "")[:_SHORT]

    def fetch_command(self, current: str | None) -> str:
        """The command that gets a commit this repository does not have."""
        if self.branch is None:
            return f"git fetch && git checkout {self.short}"
        if current == self.branch:
            return self._pull_command()
        if not self.git.branch_exists(self.branch):
            return f"git fetch && git switch {shlex.quote(self.branch)}"
        return self._other_tree_command() or f"git switch {shlex.quote(self.branch)} && {self._pull_command()}"

    def reach_command(self, current: str | None, *, behind: bool) -> str:
        """The command for a commit that is in the repository but not in what is checked out."""
        if self.branch is None:
            return f"git checkout {self.short}"
        if current == self.branch:
            return self._fast_forward_command() if behind else f"git merge {self.short}"
        return self.switch_command()

    def switch_command(self) -> str:
        """The command that switches to the branch, with the commit in it."""
        branch = shlex.quote(self.branch or "")
        tip = None if self.branch is None else self.git.tip(self.branch)
        if tip is None:
            return f"git fetch && git switch {branch}"
        elsewhere = self._other_tree_command()
        if elsewhere is not None:
            return elsewhere
        if self.commit is None or self.git.is_ancestor(self.commit, tip):
            return f"git switch {branch}"
        behind = self.git.is_ancestor(tip, self.commit)
        return f"git switch {branch} && {self._fast_forward_command() if behind else f'git merge {self.short}'}"

    def _fast_forward_command(self) -> str:
        """Fast-forward to the commit: by pulling, if the upstream branch has it."""
        assert self.branch is not None
        assert self.commit is not None
        upstream = self.git.upstream(self.branch)
        is_upstream = upstream is not None and self.git.is_ancestor(self.commit, upstream)
        return self._pull_command() if is_upstream else f"git merge --ff-only {self.short}"

    def _pull_command(self) -> str:
        assert self.branch is not None
        if self.git.upstream(self.branch) is not None:
            return "git pull --ff-only"
        remotes = self.git.remotes()
        name = "origin" if "origin" in remotes or not remotes else remotes[0]
        return f"git pull --ff-only {shlex.quote(name)} {shlex.quote(self.branch)}"

    def _other_tree_command(self) -> str | None:
        """The command for a branch that is checked out in another work tree: git allows one at a time."""
        tree = None if self.branch is None else self.git.checked_out_elsewhere(self.branch)
        return None if tree is None else f"holdfast resume {self.session} --project {shlex.quote(tree)}"


def _dirt(git: GitReader, files: Sequence[FileLanding], ignore: Sequence[str]) -> Iterator[ResumeDifference]:
    known_paths = {file.path for file in files if file.landing == "landed"}
    dirty = [path for path in git.dirty(ignore) if path not in known_paths]
    if dirty:
        yield ResumeDifference(
            "dirty", f"there are uncommitted changes here: {_listed(dirty)}",
            "git stash --include-untracked", blocking=False,
        )  # fmt: skip


# ── files ───────────────────────────────────────────────────────────────────────────────────


def _changed(files: Sequence[FileLanding], fix: str | None) -> Iterator[ResumeDifference]:
    other = [file.path for file in files if file.landing in ("not landed", "changed since")]
    if other:
        yield ResumeDifference(
            "files", f"files that the session changed are different here: {_listed(other)}",
            fix, blocking=True,
        )  # fmt: skip


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more} more" if more > 0 else "")
