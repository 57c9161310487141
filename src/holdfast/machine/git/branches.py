"""Change a repository with the git program, because a person asked for it: branches, squash merges, commits.

The repository's own programs (hooks, filters, merge drivers, whatever its configuration names) are not run here
either, as `git.reader` describes. The person's own configuration applies: their name, their signing, their filters
and hooks. Nothing here uses force: git itself refuses to overwrite uncommitted work.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.core.errors import Conflict, Failed, Invalid
from holdfast.machine.git import config as git_config
from holdfast.machine.git.program import GitResult, GitSlow, message_from, verb_of
from holdfast.machine.git.reader import BASE_OPTIONS, GitFacts, GitReader, is_under

__all__ = ["GitBranches", "GitFacts", "is_under"]


class GitBranches(GitReader):
    """The git of one work tree. `root` is its top, as `worktree.locate` gives it."""

    _read_patience = _compare_patience = 30.0  # a person waits for what they asked for

    # Before a change

    def merged_tree(self, ours: str, theirs: str) -> str | None:
        """The tree that a merge would give; None if it would conflict, or if git is older than 2.38."""
        result = self._git("merge-tree", "--write-tree", ours, theirs)
        return result.text.split("\n")[0] if result.code == 0 else None

    def index_tree(self) -> str | None:
        result = self._git("write-tree")
        return result.text if result.code == 0 else None

    def staged(self) -> bool:
        if self.commit_id() is None:
            return bool(self._output("ls-files", "--cached", "-z").out)
        return self._output_or_none("diff-index", "--cached", "--quiet", "HEAD", "--") is None

    def unwritable(self, old: str, new: str) -> str | None:
        """Why a switch between these commits would write wrong files; None if it would not.

        A filter that only the repository names is not run: its files would be written as they are stored. Files that
        a partial clone has not fetched yet cannot be written at all.
        """
        settings = self._settings(self.place())
        filters = {
            setting.name
            for setting in settings
            if setting.section == "filter" and setting.key in ("smudge", "process")
        }
        filters -= {setting.name for setting in self._personal_settings() if setting.section == "filter"}
        partial = any(setting.key in ("partialclone", "promisor") for setting in settings)
        if not filters and not partial:
            return None
        raw = self._output("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new).out.split(b"\0")
        if filters and (path := self._filtered(raw[1::2], filters)):
            return f"{path} has a filter that only the repository's own configuration names"
        entries = [entry.split(b" ") for entry in raw[::2] if entry]
        blobs = [entry[3] for entry in entries if entry[1] not in (b"000000", b"160000")]  # deleted, a submodule
        blobs_listed = (
            self._change("cat-file", "--batch-check", stdin=b"\n".join([*blobs, b""])).out if partial else b""
        )
        return "some of its files are not fetched (a partial clone)" if b" missing\n" in blobs_listed else None

    def _filtered(self, paths: Sequence[bytes], filters: set[str | None]) -> str | None:
        """The first of the paths that has one of these filters."""
        listed = self._change("check-attr", "-z", "--stdin", "filter", stdin=b"\0".join([*paths, b""])).out
        words = os.fsdecode(listed).split("\0")
        return next((path for path, name in zip(words[::3], words[2::3], strict=False) if name in filters), None)

    # Changes

    def create_branch(self, name: str) -> None:
        """Create a branch at HEAD and switch to it. Work tree and index do not change."""
        self._check_name(name)
        self._switch_to("switch", "--quiet", "--no-track", "--create", name, branch=name)

    def switch(self, name: str) -> None:
        """Switch to a branch. Git refuses if that would overwrite any file, ignored ones included."""
        self._check_name(name)
        self._switch_to("switch", "--quiet", "--no-guess", "--no-overwrite-ignore", name, branch=name)

    def switch_detached(self, commit: str) -> None:
        result = self._run_change("switch", "--quiet", "--detach", "--no-overwrite-ignore", commit)
        if result.code and (self.branch() is not None or self.commit_id() != commit):
            raise self._failed("switch", result)

    def switch_empty(self, name: str) -> None:
        """Switch to a branch without commits: tracked files are removed from the work tree."""
        self._check_name(name)
        self._switch_to("switch", "--quiet", "--no-overwrite-ignore", "--orphan", name, branch=name)

    def point_head(self, name: str) -> None:
        """Point HEAD at another branch. Work tree and index do not change."""
        self._check_name(name)
        self._change("symbolic-ref", "-m", "holdfast", "HEAD", f"refs/heads/{name}")

    def delete_branch(self, name: str, *, expect: str | None = None) -> None:
        """Delete a branch, merged or not, unless it is no longer at the commit `expect`."""
        self._check_name(name)
        if expect is not None and (tip := self.tip(name)) != expect:
            raise Conflict(
                f"Branch {name} changed in the meantime: it is at {(tip or 'no commit')[:12]}",
                hint="Nothing was deleted. Run the command again to include what is new.",
                operation="git branch",
            )
        self._change("branch", "--quiet", "-D", "--end-of-options", name)
        # Git removes the branch's settings from its configuration, which here is not the repository's.
        place = self.place()
        if any((setting.section, setting.name) == ("branch", name) for setting in self._settings(place)):
            config = os.path.join(place.common_dir or "", "config")
            self._run_change("config", "--file", config, "--remove-section", f"branch.{name}")

    def squash_merge(self, commit: str) -> list[str]:
        """Stage what a commit's history adds; returns the paths in conflict."""
        # Each option overrides a setting that could stop the merge or make it do more.
        result = self._run_change(
            *("merge", "--squash", "--ff", "--no-commit", "--no-autostash", "--no-rerere-autoupdate"),
            *("--quiet", "--no-stat", commit),
        )
        if result.code == 0:
            return []
        unmerged = sorted({change.path for change in self.changes() if change.staged == "u"})
        if not unmerged:
            raise self._failed("merge", result)
        return unmerged

    def undo_merge(self) -> str | None:
        """Return to HEAD from a staged or conflicted merge; returns the stash if something had to be stashed."""
        if self._run_change("reset", "--quiet", "--merge").code == 0:
            return None
        # A hook changed files that the merge had staged: its changes are kept.
        self._change("stash", "push", "--quiet", "--message", "holdfast: what a hook changed")
        return "stash@{0}"

    def commit(self, message: str) -> str:
        """Commit what is staged, with the person's own hooks and signing; returns the new commit."""
        before = self.commit_id()
        text = message.encode("utf-8", "replace")
        problem: Failed
        try:
            problem = self._failed("commit", self._run_change("commit", "--quiet", *_AS_GIVEN, stdin=text))
        except GitSlow as slow:
            problem = slow
        # Only HEAD tells: a post-commit hook may fail or hang after the commit is made.
        after = self.commit_id()
        if after is None or after == before:
            raise problem
        return after

    def set_aside(self, name: str, paths: Sequence[str]) -> None:
        """Save these files under a private ref, then restore them as in HEAD."""
        env, index = self._temporary_index()
        ref = f"refs/worktree/holdfast/{name}"
        try:
            if self._git("rev-parse", "--verify", "--quiet", ref).code == 0:
                self._change("read-tree", ref, env=env)
            self._change("update-index", "-z", "--add", "--remove", "--stdin", env=env, stdin=_lines(paths))
            tree = self._change("write-tree", env=env).text
        finally:
            index.unlink(missing_ok=True)
        self._change("update-ref", ref, tree)
        self._change(
            "--literal-pathspecs", "restore", "--source=HEAD", "--staged", "--worktree", *_LISTED, stdin=_lines(paths)
        )

    def put_back(self, name: str) -> list[str]:
        """Undo `set_aside`, except for files that were written since; returns the restored paths."""
        ref = f"refs/worktree/holdfast/{name}"
        listing = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", ref)
        if listing.code:
            return []
        newer = {change.path for change in self.changes()}
        paths = [path for path in os.fsdecode(listing.out).split("\0") if path and path not in newer]
        if paths:
            source = f"--source={ref}"
            self._change(
                "--literal-pathspecs", "restore", source, "--worktree", "--overlay", *_LISTED, stdin=_lines(paths)
            )
        self._change("update-ref", "-d", ref)
        return paths

    # Running git

    def _change(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> GitResult:
        result = self._run_change(*args, stdin=stdin, env=env)
        if result.code:
            raise self._failed(verb_of(args), result)
        return result

    def _run_change(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> GitResult:
        argv = (*BASE_OPTIONS, *self._without_relative_hooks(), *args)
        environment = {**self._environment("change"), **(env or {})}
        # Files, not pipes: a pipe stays open as long as any program that a hook left running.
        with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            input_file.write(stdin)
            input_file.seek(0)
            # Keep the person's locale: hooks need it to read UTF-8, and no output of a change is parsed.
            with self._started(argv, environment, self._patience, input_file, out, err) as process:
                process.wait(self._patience)
            out.seek(0)
            err.seek(0)
            return GitResult(process.returncode, out.read(), message_from(err.read()))

    def _without_relative_hooks(self) -> tuple[str, ...]:
        """The option that disables `core.hooksPath` if it is relative: then it names the repository's hooks."""
        path = git_config.last_value(self._personal_settings(), "core.hookspath") or "~"
        return () if path.startswith("~") or os.path.isabs(path) else ("-c", f"core.hooksPath={os.devnull}")

    def _temporary_index(self) -> tuple[dict[str, str], Path]:
        git_dir = self.place().git_dir
        assert git_dir is not None
        path = Path(git_dir) / "holdfast-aside.index"
        path.unlink(missing_ok=True)
        return {"GIT_INDEX_FILE": str(path)}, path

    def _check_name(self, name: str) -> None:
        if not self.valid_branch_name(name):
            raise Invalid(f"{name!r} is not a branch name git accepts", operation="git check-ref-format")

    def _switch_to(self, *args: str, branch: str) -> None:
        # A post-checkout hook that fails or hangs does so after the switch.
        try:
            result = self._run_change(*args)
        except GitSlow:
            if self.branch() != branch:
                raise
        else:
            if result.code and self.branch() != branch:
                raise self._failed("switch", result)


_AS_GIVEN = ("--cleanup=whitespace", "--file=-")
_LISTED = ("--pathspec-from-file=-", "--pathspec-file-nul")  # any number of paths, and none is taken for an option


def _lines(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
