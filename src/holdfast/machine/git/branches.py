"""Change a repository with the git program: branches, squash merges, commits, because a person asked for it.

The repository's own programs (hooks, filters, merge drivers, whatever its configuration names) are not run here
either, in the way that `git_reader` describes. The person's own configuration is in force: their name, their signing,
their filters and hooks. Nothing here uses force: git itself refuses to overwrite uncommitted work.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.core.errors import Conflict, Failed, Invalid
from holdfast.machine.git import config as git_config
from holdfast.machine.git.program import GitAnswer, GitSlow, verb_of, words_of
from holdfast.machine.git.reader import BASE_OPTIONS, GitFacts, GitReader, is_under

__all__ = ["GitBranches", "GitFacts", "is_under"]


class GitBranches(GitReader):
    """The git of one work tree. `root` is its top, as `worktree.locate` gives it."""

    _read_patience = _compare_patience = 30.0  # a person waits for what they asked for

    # Asking what a change needs to know

    def merged_tree(self, ours: str, theirs: str) -> str | None:
        """The tree a merge would give; None if it would conflict, or for a git before 2.38."""
        answer = self._git("merge-tree", "--write-tree", ours, theirs)
        return answer.text.split("\n")[0] if answer.code == 0 else None

    def index_tree(self) -> str | None:
        answer = self._git("write-tree")
        return answer.text if answer.code == 0 else None

    def staged(self) -> bool:
        if self.commit_id() is None:
            return bool(self._output("ls-files", "--cached", "-z").out)
        return self._output_or_none("diff-index", "--cached", "--quiet", "HEAD", "--") is None

    def unwritable(self, old: str, new: str) -> str | None:
        """Why going from one commit to the other would write wrong files; None if it would not.

        A filter that only the repository names is not run: its files would be written as they are stored. And what a
        partial clone has not fetched yet cannot be written at all.
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
        there = self._done("cat-file", "--batch-check", stdin=b"\n".join([*blobs, b""])).out if partial else b""
        return "files of it are not fetched yet, and this is a partial clone" if b" missing\n" in there else None

    def _filtered(self, paths: Sequence[bytes], filters: set[str | None]) -> str | None:
        """The first of the paths that has one of these filters."""
        listed = self._done("check-attr", "-z", "--stdin", "filter", stdin=b"\0".join([*paths, b""])).out
        words = os.fsdecode(listed).split("\0")
        return next((path for path, name in zip(words[::3], words[2::3], strict=False) if name in filters), None)

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
        # Git takes what it followed out of the configuration, and here that is another file.
        place = self.place()
        if any((setting.section, setting.name) == ("branch", name) for setting in self._settings(place)):
            config = os.path.join(place.common_dir or "", "config")
            self._write("config", "--file", config, "--remove-section", f"branch.{name}")

    def squash_merge(self, commit: str) -> list[str]:
        """Stage what a commit's history adds; the paths in conflict, none when it went well."""
        # Each option has a setting that would otherwise stop the merge or make it do more than this.
        answer = self._write(
            *("merge", "--squash", "--ff", "--no-commit", "--no-autostash", "--no-rerere-autoupdate"),
            *("--quiet", "--no-stat", commit),
        )
        if answer.code == 0:
            return []
        unmerged = sorted({change.path for change in self.changes() if change.staged == "u"})
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
        """Commit what is staged, with the person's own hooks and signing, and give the new commit."""
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
            if self._git("rev-parse", "--verify", "--quiet", ref).code == 0:
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
        """Undo `set_aside`, except for files that were written since; returns the restored paths."""
        ref = f"refs/worktree/holdfast/{name}"
        listing = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", ref)
        if listing.code:
            return []
        newer = {change.path for change in self.changes()}
        paths = [path for path in os.fsdecode(listing.out).split("\0") if path and path not in newer]
        if paths:
            source = f"--source={ref}"
            self._done(
                "--literal-pathspecs", "restore", source, "--worktree", "--overlay", *_LISTED, stdin=_lines(paths)
            )
        self._done("update-ref", "-d", ref)
        return paths

    # The process

    def _done(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> GitAnswer:
        answer = self._write(*args, stdin=stdin, env=env)
        if answer.code:
            raise self._failed(verb_of(args), answer)
        return answer

    def _write(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> GitAnswer:
        words = (*BASE_OPTIONS, *self._without_relative_hooks(), *args)
        environment = {**self._environment("change"), **(env or {})}
        # Files, not pipes: a pipe would end only with the last program that a hook left running behind it.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            # The person's locale is kept: hooks read UTF-8 by it, and no message of a change is parsed.
            with self._started(words, environment, self._patience, given, out, err) as process:
                process.wait(self._patience)
            out.seek(0)
            err.seek(0)
            return GitAnswer(process.returncode, out.read(), words_of(err.read()))

    def _without_relative_hooks(self) -> tuple[str, ...]:
        """Hooks in a directory of the person's are theirs; a path from the work tree leads to the repository's."""
        path = git_config.last_value(self._personal_settings(), "core.hookspath") or "~"
        return () if path.startswith("~") or os.path.isabs(path) else ("-c", f"core.hooksPath={os.devnull}")

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


_AS_GIVEN = ("--cleanup=whitespace", "--file=-")
_LISTED = ("--pathspec-from-file=-", "--pathspec-file-nul")  # no limit to how many, no name taken for an option


def _lines(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
