"""The ground: whether this place is fit to go on with a session that another device left.

Events travel, files do not. So before a session goes on here, what it stood on there is looked for: the project, its
branch and commit, the files it changed, the programs of its conversations. Each difference comes with the command
that mends it. Some make going on unsafe: an agent would build on what is not there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Refused
from holdfast.core.state import State
from holdfast.core.vocabulary import Project
from holdfast.keeper import projects

if TYPE_CHECKING:
    from holdfast.capture.places import Places
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.resuming import Landed
    from holdfast.machine.git_reader import GitReader

_NAMED: Final = 3  # files named in a sentence
_SHORT: Final = 10  # digits of a commit
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
# Another device wrote it: nothing that git would take for an option or for a program to run.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9/~.][A-Za-z0-9@:/~.+_-]*")
_HOST: Final = re.compile(r"[a-z0-9.-]+\.[a-z]{2,}(:\d+)?/.+")


class Difference(NamedTuple):
    """One thing that is not as the session left it, what mends it, and whether it makes going on unsafe."""

    what: str
    detail: str
    fix: str | None
    blocking: bool


def left_by_another(keeper: Keeper, state: State) -> bool:
    """Whether another device worked on the session last. An earlier life of this one is no other."""
    last = state.last_writer
    if not last or last == keeper.home.writer(keeper.address):
        return False
    from holdfast.teleport.keys import is_certified

    if is_certified(last):
        return not _certified_here(keeper, last)
    # Of a life without keys there is only what it was called, and where it worked.
    path = None if state.project is None else state.project.path
    return state.devices.get(last) != keeper.device() or not os.path.isdir(path or "")


def _certified_here(keeper: Keeper, writer: str) -> bool:
    if not os.path.lexists(keeper.home.device):
        return False
    from holdfast.teleport import key_files, keys

    public = key_files.public(keeper.home.path)
    return public is not None and keys.certifies(writer, public.signing)


def check(keeper: Keeper, state: State, files: Sequence[Landed], *, foreign: bool) -> tuple[Difference, ...]:
    """What differs here from what the session was left on, by another device or by this one. Reads only."""
    project = state.project
    if project is None:
        return ()
    if not projects.same(keeper.store(), keeper.place, project) and not unclaimed(keeper, project, foreign=foreign):
        return (_elsewhere(state, project, blocking=foreign),)
    # Who worked here last knows this ground: what a crash left behind is told by the files themselves.
    if not foreign:
        return ()
    left = view.device_of(state) or "the other device"
    found: list[Difference] = []
    bring = None
    if keeper.place.git:
        from holdfast.machine.git_reader import GitReader

        git = GitReader(keeper.place.root)
        try:
            found += _commit(git, state, project)
            if not any(one.blocking for one in found):
                bring = _Left.of(git, state, project).fetched(git.branch())
            # Mirrored files are nobody's work.
            ours = keeper.mirrors.paths() if os.path.isdir(keeper.home.mirrors) else ()
            found += _dirt(git, files, ours)
        except HoldfastError as error:
            found.append(Difference("git", error.message, error.hint, blocking=False))
    if any(one.blocking for one in found):
        found += _changed(files, None)  # they may well come with the commit
    else:
        found += _changed(
            files, f"commit and push them on {left}, then here: {bring}" if bring else f"copy them from {left}"
        )
    if keeper.places is not None:
        found += _programs(state, keeper.places)
    return tuple(found)


def refuse(differences: Sequence[Difference], state: State) -> None:
    """Say what makes going on unsafe, and how to mend it."""
    blocking = [one for one in differences if one.blocking]
    if not blocking:
        return
    mend = [f"{one.what}: {one.fix}" for one in blocking if one.fix]
    raise Refused(
        f"the ground differs from what {view.device_of(state) or 'another device'} left: "
        + "; ".join(one.detail for one in blocking),
        hint="\n".join([*mend, f"Or go on regardless: holdfast resume {state.session[:8]} --force"]),
        session=state.session,
    )


# ── the project ──────────────────────────────────────────────────────────────────────────────────────────


def unclaimed(keeper: Keeper, project: Project, *, foreign: bool) -> bool:
    """Whether a project may be taken to be here because a person goes on with it here.

    So it is when nothing is known of it but a path, which is another device's or leads nowhere any more, and nothing
    of this place either.
    """
    if not projects.only_a_path(project) or (not foreign and os.path.isdir(project.path or "")):
        return False
    return not projects.known(keeper.store(), keeper.place)


def _elsewhere(state: State, project: Project, *, blocking: bool) -> Difference:
    go = f"holdfast resume {state.session[:8]} --project"
    if project.remote and _ADDRESS.fullmatch(project.remote) and "::" not in project.remote:
        name = project.remote.rstrip("/").rpartition("/")[2] or project.name
        address = f"https://{project.remote}" if _HOST.fullmatch(project.remote) else project.remote
        detail = f"the session belongs to {project.name} ({project.remote}), and this is another project"
        return Difference(
            "project", detail, f"git clone {shlex.quote(address)} && {go} {shlex.quote(name)}", blocking
        )
    return Difference(
        "project", f"the session belongs to {project.name}, and this is another project", f"{go} DIR", blocking
    )


# ── what git says ────────────────────────────────────────────────────────────────────────────────────────


def _commit(git: GitReader, state: State, project: Project) -> Iterator[Difference]:
    """The commit it was left on must be part of what is checked out; on which branch is a smaller matter."""
    left = _Left.of(git, state, project)
    here, branch, commit, short = git.branch(), left.branch, left.commit, left.short
    if commit is not None and git.commit_id(commit) is None:
        of = "" if branch is None else f" of branch {branch}"
        yield Difference(
            "commit",
            f"commit {short}{of}, {left.words}, is not in this repository (was it pushed?)",
            left.fetched(here), blocking=True,
        )  # fmt: skip
    elif commit is not None and not git.is_ancestor(commit, "HEAD"):
        behind = git.is_ancestor("HEAD", commit)
        yield Difference(
            "commit", f"what is checked out is {'behind' if behind else 'without'} commit {short}, {left.words}",
            left.reached(here, behind=behind), blocking=True,
        )  # fmt: skip
    elif branch is not None and here != branch:
        yield Difference(
            "branch", f"the session is on branch {branch}, and here is {here or 'no branch'}",
            left.switched(), blocking=False,
        )  # fmt: skip
    elif commit is not None and commit != git.commit_id():
        yield Difference(
            "commit", f"what is checked out has more than commit {short}, {left.words}", None, blocking=False
        )


class _Left(NamedTuple):
    """Where the work was left, and the commands that lead there from here. Each of them must do so as it stands."""

    git: GitReader
    session: str
    branch: str | None
    commit: str | None
    # How that place is known.
    words: str

    @classmethod
    def of(cls, git: GitReader, state: State, project: Project) -> _Left:
        # A session with a branch of its own begins on the one it came from.
        own = None if state.noted_by else view.word(state, "branch")
        branch = own or project.git_branch
        by = state.devices.get(state.noted_by)
        # Whatever stands in another device's events becomes part of a command only if it is what it should be.
        return cls(
            git,
            state.session[:8],
            branch if branch is not None and git.valid_branch_name(branch) else None,
            project.git_commit if _COMMIT.fullmatch(project.git_commit or "") else None,
            f"on which {by} left the session" if by else "on which the session began",
        )

    @property
    def short(self) -> str:
        return (self.commit or "")[:_SHORT]

    def fetched(self, here: str | None) -> str:
        """What is not in this repository comes with its branch, or by itself where there was none."""
        if self.branch is None:
            return f"git fetch && git checkout {self.short}"
        if here == self.branch:
            return self._pull()
        if not self.git.branch_exists(self.branch):
            return f"git fetch && git switch {shlex.quote(self.branch)}"
        return self._elsewhere() or f"git switch {shlex.quote(self.branch)} && {self._pull()}"

    def reached(self, here: str | None, *, behind: bool) -> str:
        """The commit is in the repository, and not in what is checked out."""
        if self.branch is None:
            return f"git checkout {self.short}"
        if here == self.branch:
            return self._forward() if behind else f"git merge {self.short}"
        return self.switched()

    def switched(self) -> str:
        """The branch, with the commit in it."""
        branch = shlex.quote(self.branch or "")
        tip = None if self.branch is None else self.git.tip(self.branch)
        if tip is None:
            return f"git fetch && git switch {branch}"
        elsewhere = self._elsewhere()
        if elsewhere is not None:
            return elsewhere
        if self.commit is None or self.git.is_ancestor(self.commit, tip):
            return f"git switch {branch}"
        behind = self.git.is_ancestor(tip, self.commit)
        return f"git switch {branch} && {self._forward() if behind else f'git merge {self.short}'}"

    def _forward(self) -> str:
        """To the commit, which is here and further on: with the branch it comes from, where git knows that one."""
        assert self.branch is not None
        assert self.commit is not None
        upstream = self.git.upstream(self.branch)
        known = upstream is not None and self.git.is_ancestor(self.commit, upstream)
        return self._pull() if known else f"git merge --ff-only {self.short}"

    def _pull(self) -> str:
        assert self.branch is not None
        if self.git.upstream(self.branch) is not None:
            return "git pull --ff-only"
        remotes = self.git.remotes()
        name = "origin" if "origin" in remotes or not remotes else remotes[0]
        return f"git pull --ff-only {shlex.quote(name)} {shlex.quote(self.branch)}"

    def _elsewhere(self) -> str | None:
        """Git has a branch checked out in one work tree at a time."""
        tree = None if self.branch is None else self.git.checked_out_elsewhere(self.branch)
        return None if tree is None else f"holdfast resume {self.session} --project {shlex.quote(tree)}"


def _dirt(git: GitReader, files: Sequence[Landed], ours: Sequence[str]) -> Iterator[Difference]:
    known = {one.path for one in files if one.what == "landed"}
    dirty = [path for path in git.dirty(ours) if path not in known]
    if dirty:
        yield Difference(
            "dirty", f"there are changes here that are not committed: {_listed(dirty)}",
            "git stash --include-untracked", blocking=False,
        )  # fmt: skip


# ── files and programs ───────────────────────────────────────────────────────────────────────────────────


def _changed(files: Sequence[Landed], fix: str | None) -> Iterator[Difference]:
    other = [one.path for one in files if one.what in ("not landed", "changed since")]
    if other:
        yield Difference(
            "files", f"files that the session changed are not here as it left them: {_listed(other)}",
            fix, blocking=True,
        )  # fmt: skip


def _programs(state: State, places: Places) -> Iterator[Difference]:
    from shutil import which

    from holdfast.capture.registry import NAMES, agent
    from holdfast.capture.wiring import wiring

    path = places.environ.get("PATH", "")
    for name in sorted({one.agent for one in state.native.values()} & {*NAMES}):
        programs = wiring(name).programs
        if not any(which(program, path=path) for program in programs):
            yield Difference(
                "program", f"{agent(name).title} is not here, with which a conversation of the session was held",
                f"install {agent(name).title}, so that `{programs[0]}` is found on PATH", blocking=False,
            )  # fmt: skip


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more} more" if more > 0 else "")
