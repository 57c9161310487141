"""Read what happened in a repository: the log of HEAD, commits and their files, and which commit changed a line.

`GitReader` asks git, so nothing that the repository names is run: no text conversion, no filter, no signature
program; the repository's own configuration is not in force.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from holdfast.core import limits
from holdfast.machine.git import config
from holdfast.machine.git.program import GitFailed
from holdfast.machine.git.reader import GitReader

TRAILER: Final = "Holdfast-Session"
_PATIENCE: Final = 20.0  # seconds for a question that a person asked
_FIELDS: Final = ("%H", "%gd", "%T", "%P", "%at", "%ct", "%ae", "%gs", f"%(trailers:key={TRAILER},valueonly)", "%s")
_FORMAT: Final = "--format=tformat:" + "".join(f"{field}%x00" for field in _FIELDS)
_REFLOG_TIME: Final = re.compile(r"@\{(\d{1,12}) ")
_ACTIONS: Final = {"A": "created", "D": "deleted"}
_NO_COMMIT: Final = re.compile(r"0+")
_UNREPLACED: Final = {"GIT_NO_REPLACE_OBJECTS": "1"}
_MAX_BLOB_SIZE: Final = 16 << 20


class GitCommit(NamedTuple):
    """A commit. `at` is when HEAD came to it, or when it was committed, in milliseconds. Git counts seconds: it was
    at some moment from `since` to `until`; see `precisely`.
    """

    sha: str
    at: int
    since: int
    until: int
    tree: str
    parents: tuple[str, ...]
    authored: int
    author: str
    subject: str
    # Of an entry in the log of HEAD: what was done, such as `commit (amend): Fix the cart`.
    action: str = ""
    # The sessions that its trailers name.
    sessions: tuple[str, ...] = ()


class BlamedLine(NamedTuple):
    """The commit that a line is from (None: not committed), and the path of the file there."""

    commit: str | None
    path: str


class GitHistory(GitReader):
    """Reads the history of the repository of one work tree."""

    _compare_patience = limits.TREE_SECONDS

    def head_log(self, limit: int) -> list[GitCommit]:
        """The reflog of HEAD in this work tree, latest first; empty without one."""
        result = self._git("log", "-g", f"-{limit}", "--date=raw", _FORMAT, "HEAD", "--", env=_UNREPLACED)
        return _commits(result.out) if result.code == 0 else []

    def with_exact_time(self, commit: GitCommit) -> GitCommit:
        """The same with the exact time at which it was made, if its object is still a loose file."""
        name = os.path.join(self.place().common_dir or "", "objects", commit.sha[:2], commit.sha[2:])
        try:
            written = os.lstat(name).st_mtime_ns // 1_000_000
        except (OSError, ValueError):
            return commit
        return commit._replace(since=written, until=written) if commit.since <= written <= commit.until else commit

    def log(self, tip: str, *, excluding: Sequence[str] = (), limit: int = 100) -> list[GitCommit]:
        """The commits that lead to `tip`, latest first, except those that lead to others."""
        others = [f"^{other}" for other in excluding]
        result = self._git("log", f"-{limit}", _FORMAT, "--end-of-options", tip, *others, "--", env=_UNREPLACED)
        return _commits(result.out) if result.code == 0 else []

    def commit(self, name: str) -> GitCommit | None:
        """The commit that a name means; None if there is none."""
        result = self._git(
            "log", "--no-walk", "-1", _FORMAT, "--end-of-options", f"{name}^{{commit}}", "--", env=_UNREPLACED
        )
        return next(iter(_commits(result.out)), None) if result.code == 0 else None

    def files_of(self, commit: str, *, since: str | None = None) -> list[tuple[str, str]]:
        """What a commit did to files: `created`, `modified` or `deleted`, and the path. Nothing for a merge.

        `since` another commit: how they differ.
        """
        compared = [commit] if since is None else [since, commit]
        result = self._git(
            *("diff-tree", "--root", "-r", "-z", "--no-renames", "--no-commit-id", "--name-status"),
            *("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--end-of-options", *compared),
            env=_UNREPLACED,
        )
        parts = os.fsdecode(result.out).split("\0") if result.code == 0 else []
        pairs = zip(parts[::2], parts[1::2], strict=False)
        return [(_ACTIONS.get(letter, "modified"), path) for letter, path in pairs]

    def files_changed_by(self, path: str, limit: int) -> list[GitCommit]:
        """The latest commits that changed a file."""
        result = self._git(
            *("--literal-pathspecs", "log", f"-{limit}", "--no-merges", _FORMAT, "HEAD", "--", path),
            env=_UNREPLACED, timeout=_PATIENCE,
        )  # fmt: skip
        return _commits(result.out) if result.code == 0 else []

    def blob_hash(self, commit: str, path: str) -> str | None:
        """SHA-256 of a file in a commit, without any conversion; None if it is missing or too large."""
        name = f"{commit}:{path}"
        size = self._git("cat-file", "-s", name, env=_UNREPLACED)
        if size.code or not size.text.isdigit() or int(size.text) > _MAX_BLOB_SIZE:
            return None
        result = self._git("cat-file", "blob", name, env=_UNREPLACED)
        return sha256(result.out).hexdigest() if result.code == 0 else None

    def lines_changed(self, commit: str | None, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Lines added and removed in the work tree against a commit, by path; binary files are left out."""
        if not paths or not self.has_work_tree():
            return {}
        result = self._git(
            *("--literal-pathspecs", "diff-index", "--numstat", "-z", "--no-ext-diff", "--no-textconv"),
            *("--no-renames", "--ignore-submodules=all", commit or "HEAD", "--", *paths),
            personal=True,
        )
        counts: dict[str, tuple[int, int]] = {}
        for entry in os.fsdecode(result.out).split("\0") if result.code == 0 else ():
            added, _, rest = entry.partition("\t")
            removed, _, path = rest.partition("\t")
            if added.isdigit() and removed.isdigit():
                counts[path] = (int(added), int(removed))
        return counts

    def hooks_path(self) -> tuple[str | None, str | None]:
        """`core.hooksPath` as the repository sets it, and as the person does."""
        own = config.last_value(self._settings(self.place()), "core.hookspath")
        return own, config.last_value(self._personal_settings(), "core.hookspath")

    def add_trailer(self, path: str, trailer: str) -> None:
        """Add a trailer to a message in a file, unless it has one of that name."""
        self._output("interpret-trailers", "--in-place", "--if-exists", "doNothing", "--trailer", trailer, "--", path)

    def blame(self, path: str, line: int) -> BlamedLine:
        """The commit that a line of a file in the work tree is from."""
        if not self.has_work_tree():
            raise GitFailed(f"{self.root} has no work tree", operation="git blame", file=self.root)
        result = self._git(
            *("blame", "--porcelain", "--no-textconv", "-L", f"{line},{line}", "--", path),
            personal=True, timeout=_PATIENCE,
        )  # fmt: skip
        if result.code:
            if self._git("cat-file", "-e", f"HEAD:{path}", env=_UNREPLACED).code:
                return BlamedLine(None, path)
            raise self._failed("blame", result)
        lines = os.fsdecode(result.out).splitlines()
        sha = lines[0].split(" ")[0] if lines else ""
        was = next((line.removeprefix("filename ") for line in lines if line.startswith("filename ")), path)
        return BlamedLine(None if _NO_COMMIT.fullmatch(sha) else sha or None, was)


def _commits(out: bytes) -> list[GitCommit]:
    parts = out.decode("utf-8", "replace").split("\0")
    width = len(_FIELDS)
    commits: list[GitCommit] = []
    for start in range(0, len(parts) - width, width):
        sha, selector, tree, parents, authored, committed, author, action, sessions, subject = parts[
            start : start + width
        ]
        moment = _REFLOG_TIME.search(selector)
        at = int(moment[1] if moment else committed or 0) * 1000
        commits.append(
            GitCommit(
                sha.strip(), at, at, at + 999, tree, tuple(parents.split()),
                int(authored or 0) * 1000, author, subject, action, tuple(sessions.split()),
            )
        )  # fmt: skip
    return commits
