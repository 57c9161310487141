"""Git as a program: what needs more than reading a file, and everything that changes a repository.

One `Git` speaks for one work tree. Reading takes no locks, runs none of the programs a repository can name
for it, and never asks a question; writing runs the person's hooks and signing, as their own git would.
Nothing here uses force: what would overwrite work that is not committed is git's to refuse, and it does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.core.errors import Conflict, Failed, Invalid
from holdfast.machine.git_program import READING, GitProgram, GitSlow
from holdfast.machine.git_remote import is_abbreviated, normalise_remote
from holdfast.machine.worktree import Place, locate


class GitFacts(NamedTuple):
    branch: str | None
    commit: str | None
    remote: str | None


class Change(NamedTuple):
    """One path that is not as committed. `staged` and `loose` are git's letters, `.` for no change."""

    path: str
    staged: str
    loose: str


class Git(GitProgram):
    """The git of one work tree. `root` is its top, as `worktree.locate` gives it."""

    # Asking

    def place(self) -> Place:
        return locate(self.root)

    def is_repository(self) -> bool:
        return self.place().git

    def has_work_tree(self) -> bool:
        return self._ask("rev-parse", "--is-inside-work-tree").text == "true"

    def facts(self) -> GitFacts:
        """What a session notes about its project; nothing at all where there is no repository."""
        if not self.is_repository():
            return GitFacts(None, None, None)
        return GitFacts(self.branch(), self.commit_id(), self.remote())

    def branch(self) -> str | None:
        """The branch HEAD is on, also one without a commit yet; None when detached."""
        ref = self._maybe("symbolic-ref", "--quiet", "HEAD") or ""
        return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None

    def commit_id(self, name: str = "HEAD") -> str | None:
        return self._maybe("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def tip(self, branch: str) -> str | None:
        return self.commit_id(f"refs/heads/{branch}")

    def tree_id(self, commit: str) -> str:
        return self._ask("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").text

    def remote(self) -> str | None:
        """Origin's address, else the first remote's, as other devices would write it, without credentials."""
        # As it is set: `insteadOf` may lead to a mirror on this device alone, and the repository is the same one.
        found: dict[str, str] = {}
        for setting in self._try("config", "-z", "--get-regexp", r"^remote\..*\.url$").text.split("\0"):
            key, _, url = setting.partition("\n")
            if url:
                found.setdefault(key.removeprefix("remote.").removesuffix(".url"), url)
        name = "origin" if "origin" in found else min(found, default="")
        if not name or is_abbreviated(found[name]):
            found = self._as_used()  # an abbreviation of the person's own says nothing before it is spelled out
            name = name if name in found else "origin" if "origin" in found else min(found, default="")
        return normalise_remote(found.get(name, "")) or None

    def _as_used(self) -> dict[str, str]:
        """The address of each remote as git would use it."""
        found: dict[str, str] = {}
        for line in self._try("remote", "--verbose").text.splitlines():
            name, _, rest = line.partition("\t")
            url, fetch, _ = rest.rpartition(" (fetch)")
            if fetch:
                found.setdefault(name, url)
        return found

    def remotes(self) -> list[str]:
        return self._try("remote").text.splitlines()

    def upstream(self, branch: str) -> str | None:
        """The ref of the remote's branch that this one follows."""
        return self._try("for-each-ref", "--format=%(upstream)", f"refs/heads/{branch}").text or None

    def root_commits(self, timeout: float = 1.0) -> list[str]:
        """Where the history began: the same in every clone. Empty when that takes too long to find out."""
        common = self.place().common_dir
        # The end of a shallow clone is not the beginning of the history.
        if common is None or (Path(common) / "shallow").exists():
            return []
        try:
            answer = self._run(
                ("rev-list", "--max-parents=0", "HEAD", "--"),
                env={**READING, "GIT_NO_REPLACE_OBJECTS": "1"},
                timeout=timeout,
            )
        except GitSlow:
            return []
        return sorted(answer.text.split()) if answer.code == 0 else []

    def changes(self) -> list[Change]:
        """Every path that differs from what is committed, untracked ones and submodules included."""
        out = self._ask(
            "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames"
        ).out
        return [_change(entry) for entry in os.fsdecode(out).split("\0") if entry[:1] in ("1", "u", "?")]

    def dirty(self, ignore: Sequence[str] = ()) -> list[str]:
        """The paths that are not as committed. An unmerged one counts even if it is to be ignored."""
        return [c.path for c in self.changes() if c.staged == "u" or not under(c.path, ignore)]

    def unmerged(self) -> list[str]:
        """The paths that a merge left for a person to settle."""
        out = self._ask("ls-files", "--unmerged", "-z").out
        return sorted({entry.partition("\t")[2] for entry in os.fsdecode(out).split("\0") if entry})

    def branch_exists(self, name: str) -> bool:
        return self._maybe("show-ref", "--verify", "--quiet", f"refs/heads/{name}") is not None

    def valid_branch_name(self, name: str) -> bool:
        if name.startswith("-") or name == "HEAD" or "\0" in name:
            return False
        return self._try("check-ref-format", f"refs/heads/{name}").code == 0

    def checked_out_elsewhere(self, branch: str) -> str | None:
        """The other work tree that has this branch checked out."""
        answer = self._try("for-each-ref", "--format=%(worktreepath)", f"refs/heads/{branch}")
        return answer.text if answer.text and not _same(answer.text, self.place().root) else None

    def in_progress(self) -> str | None:
        """The operation somebody has begun here and not finished."""
        place = self.place()
        if place.git_dir is None:
            return None
        base = Path(place.git_dir)
        for name, kind in _OPERATIONS:
            if (base / name).exists():
                return kind
        if (base / "sequencer").exists():  # between two picks there is no CHERRY_PICK_HEAD
            todo = base / "sequencer" / "todo"
            return "revert" if todo.is_file() and todo.read_bytes().startswith(b"revert") else "cherry-pick"
        if (Path(place.common_dir or base) / "reftable").exists():  # there these two are no files
            for name, kind in (("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")):
                if self.commit_id(name) is not None:
                    return kind
        return None

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self._maybe("merge-base", "--is-ancestor", "--end-of-options", older, newer) is not None

    def merge_base(self, one: str, other: str) -> str | None:
        return self._maybe("merge-base", "--end-of-options", one, other)

    def merged_tree(self, ours: str, theirs: str) -> str | None:
        """The tree a merge would give; None if it would conflict, or for a git before 2.38."""
        answer = self._try("merge-tree", "--write-tree", ours, theirs)
        return answer.text.split("\n")[0] if answer.code == 0 else None

    def index_tree(self) -> str | None:
        answer = self._try("write-tree")
        return answer.text if answer.code == 0 else None

    def staged(self) -> bool:
        if self.commit_id() is None:
            return bool(self._ask("ls-files", "--cached", "-z").out)
        return self._maybe("diff-index", "--cached", "--quiet", "HEAD", "--") is None

    def find_commit(self, since: str | None, *, tree: str | None, message: str) -> str | None:
        """The newest of HEAD's own last commits that has this tree, or this message."""
        span = ["HEAD"] if since is None else ["HEAD", f"^{since}"]
        answer = self._try("log", "--first-parent", "-100", "-z", "--format=%H %T %B", *span, "--")
        for entry in answer.out.decode("utf-8", "replace").split("\0"):
            commit, _, rest = entry.partition(" ")
            its_tree, _, text = rest.partition(" ")
            if its_tree and (its_tree == tree or text.split() == message.split()):
                return commit
        return None

    def numstat(self, path: str) -> tuple[int, int] | None:
        """Lines added and removed against HEAD; None for binary files, directories and what is not there."""
        full = Path(self.root, path)
        if full.is_dir() and not full.is_symlink():
            return None
        try:
            inside = full.relative_to(self.root).as_posix()
        except ValueError:
            return None
        plain = ("--numstat", "-z", "--no-ext-diff", "--no-textconv", "--no-renames")
        if self._try("cat-file", "-e", f"HEAD:{inside}").code == 0:
            answer = self._ask(*self._without_filters(), "--literal-pathspecs", "diff", *plain, "HEAD", "--", inside)
            return _counted(answer.out)
        if not full.is_file() and not full.is_symlink():
            return None
        answer = self._try("diff", "--no-index", *plain, "--", os.devnull, str(full))
        return _counted(answer.out) if answer.code in (0, 1) else None

    def _without_filters(self) -> list[str]:
        """Options that keep git from running the filters a repository names: reading runs none of its programs."""
        found = self._try("config", "--null", "--name-only", "--get-regexp", r"^filter\.").out.decode(
            errors="replace"
        )
        names = {name.partition(".")[2].rpartition(".")[0] for name in found.split("\0") if name}
        kinds = ("clean=", "smudge=", "process=", "required=false")
        return [word for name in sorted(names) for kind in kinds for word in ("-c", f"filter.{name}.{kind}")]

    # Changing

    def create_branch(self, name: str) -> None:
        """Go on under a new branch from HEAD. Nothing in the tree or the index changes."""
        self._checked(name)
        self._go("switch", "--quiet", "--no-track", "--create", name, to=name)

    def switch(self, name: str) -> None:
        """Go to a branch. Refused by git where it would overwrite anything, files it ignores included."""
        self._checked(name)
        self._go("switch", "--quiet", "--no-guess", "--no-overwrite-ignore", name, to=name)

    def switch_detached(self, commit: str) -> None:
        answer = self._write("switch", "--quiet", "--detach", "--no-overwrite-ignore", commit)
        if answer.code and (self.branch() is not None or self.commit_id() != commit):
            raise self._failed("switch", answer)

    def switch_empty(self, name: str) -> None:
        """Go to a branch without commits: tracked files leave the tree."""
        self._checked(name)
        self._go("switch", "--quiet", "--no-overwrite-ignore", "--orphan", name, to=name)

    def point_head(self, name: str) -> None:
        """Be on another branch without a change to tree or index."""
        self._checked(name)
        self._done("symbolic-ref", "-m", "holdfast", "HEAD", f"refs/heads/{name}")

    def delete_branch(self, name: str, *, expect: str | None = None) -> None:
        """Delete a branch, merged or not, unless it moved on from what was expected."""
        self._checked(name)
        if expect is not None and (tip := self.tip(name)) != expect:
            raise Conflict(
                f"Branch {name} changed in the meantime: it is at {(tip or 'no commit')[:12]}",
                hint="Nothing was deleted. Run the command again to include what is new.",
                operation="git branch",
            )
        self._done("branch", "--quiet", "-D", "--end-of-options", name)

    def squash_merge(self, commit: str) -> list[str]:
        """Stage what a commit's history adds; the paths in conflict, none when it went well."""
        # Each option has a setting that would otherwise stop the merge or make it do more than this.
        answer = self._write(
            *("merge", "--squash", "--ff", "--no-commit", "--no-autostash", "--no-rerere-autoupdate"),
            *("--quiet", "--no-stat", commit),
        )
        if answer.code == 0:
            return []
        unmerged = sorted({c.path for c in self.changes() if c.staged == "u"})
        if not unmerged:
            raise self._failed("merge", answer)
        return unmerged

    def undo_merge(self) -> str | None:
        """Back to HEAD from a staged or conflicted merge; the stash's name if something had to go there."""
        if self._write("reset", "--quiet", "--merge").code == 0:
            return None
        # A hook changed files that the merge had staged. Theirs or not, it is kept.
        self._done("stash", "push", "--quiet", "--message", "holdfast: what a hook changed")
        return "stash@{0}"

    def commit(self, message: str) -> str:
        """Commit what is staged, hooks and signing included, and give the new commit."""
        before = self.commit_id()
        text = message.encode("utf-8", "replace")
        problem: Failed
        try:
            problem = self._failed("commit", self._write("commit", "--quiet", *_AS_GIVEN, stdin=text))
        except GitSlow as slow:
            problem = slow
        # Only HEAD tells: a post-commit hook may fail or hang after the commit is made.
        after = self.commit_id()
        if after is None or after == before:
            raise problem
        return after

    def set_aside(self, name: str, paths: Sequence[str]) -> None:
        """Keep these files as they are now under a name of ours, then make them as in HEAD."""
        env, index = self._own_index()
        ref = f"refs/worktree/holdfast/{name}"
        try:
            if self._try("rev-parse", "--verify", "--quiet", ref).code == 0:
                self._done("read-tree", ref, env=env)
            self._done("update-index", "-z", "--add", "--remove", "--stdin", env=env, stdin=_lines(paths))
            tree = self._done("write-tree", env=env).text
        finally:
            index.unlink(missing_ok=True)
        self._done("update-ref", ref, tree)
        self._done(
            "--literal-pathspecs", "restore", "--source=HEAD", "--staged", "--worktree", *_LISTED, stdin=_lines(paths)
        )

    def put_back(self, name: str) -> list[str]:
        """Undo `set_aside`, except where somebody has written since; the paths put back."""
        ref = f"refs/worktree/holdfast/{name}"
        listing = self._try("ls-tree", "-r", "-z", "--name-only", "--full-tree", ref)
        if listing.code:
            return []
        newer = {c.path for c in self.changes()}
        paths = [p for p in os.fsdecode(listing.out).split("\0") if p and p not in newer]
        if paths:
            source = f"--source={ref}"
            self._done(
                "--literal-pathspecs", "restore", source, "--worktree", "--overlay", *_LISTED, stdin=_lines(paths)
            )
        self._done("update-ref", "-d", ref)
        return paths

    # The process

    def _own_index(self) -> tuple[dict[str, str], Path]:
        git_dir = self.place().git_dir
        assert git_dir is not None
        path = Path(git_dir) / "holdfast-aside.index"
        path.unlink(missing_ok=True)
        return {"GIT_INDEX_FILE": str(path)}, path

    def _checked(self, name: str) -> None:
        if not self.valid_branch_name(name):
            raise Invalid(f"{name!r} is not a branch name git accepts", operation="git check-ref-format")

    def _go(self, *args: str, to: str) -> None:
        # A post-checkout hook that fails or hangs says nothing about the switch: that has happened.
        try:
            answer = self._write(*args)
        except GitSlow:
            if self.branch() != to:
                raise
        else:
            if answer.code and self.branch() != to:
                raise self._failed("switch", answer)


_OPERATIONS = (
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)
_AS_GIVEN = ("--cleanup=whitespace", "--file=-")
_LISTED = ("--pathspec-from-file=-", "--pathspec-file-nul")  # no limit to how many, no name taken for an option


def under(path: str, parents: Iterable[str]) -> bool:
    """Whether a path is one of these, or inside one of these."""
    for parent in parents:
        plain = parent.replace(os.sep, "/").removeprefix("./").rstrip("/")
        if plain and (path.rstrip("/") == plain or path.startswith(plain + "/")):
            return True
    return False


def _change(entry: str) -> Change:
    kind = entry[0]
    if kind == "?":
        return Change(entry[2:], ".", "?")
    fields = entry.split(" ", 8 if kind == "1" else 10)
    return Change(fields[-1], "u", "u") if kind == "u" else Change(fields[-1], fields[1][0], fields[1][1])


def _counted(out: bytes) -> tuple[int, int] | None:
    if not out:
        return (0, 0)
    added, _, rest = out.partition(b"\t")
    removed = rest.partition(b"\t")[0]
    return (int(added), int(removed)) if added.isdigit() and removed.isdigit() else None


def _lines(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()
