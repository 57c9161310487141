"""Take a snapshot of a work tree, and list what differs from the previous one.

Git is read through `GitHistory`, within `core.limits`. Ignored files, mirrored files and files known to hold secrets
are left out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.core import limits
from holdfast.core.canonical import digest
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.text import check_relative_path
from holdfast.machine import files
from holdfast.machine.git import worktree
from holdfast.machine.git.history import GitCommit, GitHistory
from holdfast.machine.git.reader import StatusEntry, is_under
from holdfast.sessions.changes.tree_state import AS_COMMITTED, MISSING, LogMark, TreeEntry, TreeSnapshot

_TICK: Final = 2_000_000_000  # ns: the coarsest time stamps of a file system
_YOUNG: Final = 20  # ms
# Names of files that hold secrets.
_SECRET: Final = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "credentials", "credentials.json",
)  # fmt: skip
_MAX_LISTED: Final = 20  # commits whose files are listed
# Entries of HEAD's log for a commit that was just made.
_MADE: Final = re.compile(
    r"(?:commit|cherry-pick|revert|am|merge)\b(?!.*: Fast-forward$)"
    r"|(?:rebase|pull)\b[^:]*\((?!start|finish|abort)\w+\):|pull\b.*: Merge made"
)
_REWRITES: Final = re.compile(r"commit \(amend\)|(?:rebase|pull)\b[^:]*\(")
_FOLDS: Final = re.compile(r"(?:rebase|pull)\b[^:]*\((?:squash|fixup)\)")
_BEGINS_REBASE: Final = re.compile(r"(?:rebase|pull)\b[^:]*\(start\)")
_ENDS_REBASE: Final = re.compile(r"(?:rebase|pull)\b[^:]*\((?:finish|abort)\)")
_TO_FOLD: Final = re.compile(r"^(?:(?:squash|fixup|amend)! )+")

Action = Literal["created", "modified", "deleted"]


class FileDifference(NamedTuple):
    """A changed file: between which moments, and its entry before and after."""

    path: str
    action: Action
    since: int
    until: int
    hash_before: str | None
    hash_after: str | None
    before: TreeEntry | None
    now: TreeEntry | None
    lines: tuple[int, int] | None = None


class NewCommit(NamedTuple):
    commit: GitCommit
    branch: str | None
    replaces: str | None
    folded: tuple[str, ...] = ()

    @property
    def is_amended(self) -> bool:
        return self.replaces is not None and self.commit.action.startswith("commit (amend)")


class TreeComparison(NamedTuple):
    """A work tree's new snapshot, and the differences from the previous one."""

    snapshot: TreeSnapshot
    differences: list[FileDifference]
    commits: list[NewCommit]


def compare_tree(git: GitHistory, before: TreeSnapshot, now: int, mirrored: Sequence[str]) -> TreeComparison:
    """Compare a work tree with its snapshot. Raises a `HoldfastError` if that exceeds a limit."""
    place = git.place()
    head = worktree.head(place)
    listed = {change.path: change for change in git.changes() if _is_compared(change.path, mirrored)}
    if len(listed) > limits.MAX_TREE_PATHS:
        raise Refused(
            f"{len(listed):,} paths differ from the commit, more than the limit of {limits.MAX_TREE_PATHS:,}"
        )
    log, commits = _commits(git, before, head)
    committed: dict[str, Action] = {}
    # A rebased commit was in the work tree before; an amend may add files.
    adding = [
        commit
        for commit in commits
        if commit.is_amended or (commit.replaces is None and len(commit.commit.parents) < 2)
    ]
    for commit in adding[-_MAX_LISTED:]:
        for action, path in git.files_of(commit.commit.sha, since=commit.replaces):
            if not _is_compared(path, mirrored):
                continue
            if committed.get(path) == "created" and action == "deleted":
                del committed[path]
            else:
                committed[path] = _combined_action(committed.get(path), action)
    comparing = _Comparing(git, before, now)
    for path in sorted({*listed, *before.entries, *committed}):
        comparing.compare(path, listed.get(path), committed.get(path))
    snapshot = TreeSnapshot(now, head.commit, comparing.entries, log)
    return TreeComparison(snapshot, comparing.with_lines(), commits)


class _Comparing:
    """One comparison: its entries, its differences, and the bytes it may still hash."""

    def __init__(self, git: GitHistory, before: TreeSnapshot, now: int) -> None:
        self._git = git
        self._before = before
        self._now = now
        self._budget = limits.MAX_TREE_HASHED_SIZE
        self.entries: dict[str, TreeEntry] = {}
        self._differences: list[FileDifference] = []

    def compare(self, path: str, change: StatusEntry | None, committed: Action | None) -> None:
        before = self._before.entries.get(path)
        full = os.path.join(self._git.root, *path.split("/"))
        try:
            status = os.lstat(full)
        except (OSError, ValueError):
            status = None
        if status is not None and not stat.S_ISREG(status.st_mode):
            return  # a link, a submodule, or a directory instead of a file
        now = TreeEntry(0, 0, 0, None, MISSING) if status is None else _entry(status)
        if before is not None and before.kind != AS_COMMITTED and before.is_as(now) and not self._is_young(before):
            if change is not None:
                self.entries[path] = msgspec.structs.replace(before, since=0)
            return
        action = self._action(before, now, change, committed)
        if status is not None:
            now.hash = self._hash(full, status)
        if change is not None:
            self.entries[path] = now
        if action is None or (before is not None and before.hash is not None and before.hash == now.hash):
            return
        since = (before.since if before is not None else 0) or self._before.at
        moments = _when(full, status, since, self._now)
        if moments is not None:
            was = None if before is None else before.hash
            self._differences.append(
                FileDifference(
                    path, action, *moments, None if action == "created" else was, now.hash, before,
                    now if change is not None else None,
                )
            )  # fmt: skip

    def _action(
        self, before: TreeEntry | None, now: TreeEntry, change: StatusEntry | None, committed: Action | None
    ) -> Action | None:
        """The action between two entries; None if nothing changed."""
        was_there = before is not None and before.kind == ""
        if now.kind == MISSING:
            if change is None and committed is None and not was_there:
                return None
            return None if before is not None and before.kind == MISSING else "deleted"
        if was_there:
            return "modified"
        if before is not None and before.kind == MISSING:
            return "created"
        if change is None:  # as committed before and now: only a commit can have changed it
            return committed
        if committed == "deleted":  # it existed before, and exists again
            return "modified"
        is_new = committed == "created" or change.unstaged == "?" or change.staged == "A"
        return "created" if is_new else "modified"

    def _is_young(self, before: TreeEntry) -> bool:
        """Whether it changed so shortly before the snapshot that a later change could have the same time stamp."""
        return before.kind == "" and before.changed // 1_000_000 >= self._before.at - _YOUNG

    def _hash(self, full: str, status: os.stat_result) -> str | None:
        if status.st_size > min(limits.MAX_TREE_FILE_SIZE, self._budget):
            return None
        self._budget -= status.st_size
        try:
            return files.hash_file(full, limits.MAX_TREE_FILE_SIZE)
        except (OSError, ValueError, HoldfastError):
            return None

    def with_lines(self) -> list[FileDifference]:
        """Add line counts to differences of files that were as committed before."""
        fresh = [
            difference.path
            for difference in self._differences
            if difference.before is None or difference.before.kind == AS_COMMITTED
        ]
        counted = self._git.lines_changed(self._before.head, fresh[: limits.MAX_TREE_CHANGES])
        return [
            difference._replace(
                lines=counted.get(difference.path)
                or (_added(self._git.root, difference) if difference.path in fresh else None)
            )
            for difference in self._differences
        ]


def _added(root: str, difference: FileDifference) -> tuple[int, int] | None:
    from holdfast.machine.git.reader import lines_of

    return lines_of(os.path.join(root, *difference.path.split("/"))) if difference.action == "created" else None


def _entry(status: os.stat_result) -> TreeEntry:
    return TreeEntry(status.st_mtime_ns, status.st_ctime_ns, status.st_size, None)


def _when(full: str, status: os.stat_result | None, since: int, now: int) -> tuple[int, int] | None:
    """Between which moments a path got its present content, in milliseconds; None if before `since`."""
    if status is None:
        parent = os.path.dirname(full)
        while not os.path.isdir(parent) and os.path.dirname(parent) != parent:
            parent = os.path.dirname(parent)
        try:  # removing a file changes its directory, but may not be the last change of it
            until = min(os.stat(parent).st_mtime_ns // 1_000_000, now)
        except OSError:
            until = now
        return (since, until) if until >= since else None
    at = files.changed_at(status, since * 1_000_000)
    if at < since * 1_000_000 - _TICK:
        return None
    moment = min(at // 1_000_000, now)
    return moment, moment


def _is_compared(path: str, mirrored: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    if path.endswith("/") or name.startswith(files.PREFIX) or any(fnmatch(name.lower(), item) for item in _SECRET):
        return False
    try:
        return check_relative_path(path) == path and not is_under(path, mirrored)
    except Invalid:
        return False


def _combined_action(first: Action | None, action: str) -> Action:
    """Combine two actions on one file."""
    if first == "created" and action == "modified":
        return "created"
    if first == "deleted" and action == "created":
        return "modified"
    return "created" if action == "created" else "deleted" if action == "deleted" else "modified"


# ── commits ──────────────────────────────────────────────────────────────────────────────────────────────


def _commits(git: GitHistory, before: TreeSnapshot, head: worktree.GitHead) -> tuple[LogMark | None, list[NewCommit]]:
    """The newest entry of HEAD's log, and the commits made here since, oldest first."""
    entries = git.head_log(limits.MAX_TREE_COMMITS)
    if not entries:
        return None, _without_log(git, before, head.commit or git.commit_id())
    newest = mark_of(entries[0])
    new_entries = _entries_since(git, entries, before)
    commits: list[NewCommit] = []
    branch = head.branch
    originals: dict[int, list[GitCommit]] = {}
    for index, entry in enumerate(new_entries):
        if _MADE.match(entry.action):
            replaces = _replaced(git, entries, index, originals) if _REWRITES.match(entry.action) else None
            if replaces != entry.sha:
                folded = _folded(git, entries, index, originals) if _FOLDS.match(entry.action) else ()
                commits.append(NewCommit(git.with_exact_time(entry), branch, replaces, folded))
        branch = _branch_before(entry.action, branch)
    return newest, commits[::-1]


def mark_of(entry: GitCommit) -> LogMark:
    return LogMark(entry.sha, entry.at, digest(entry.action.encode(errors="surrogatepass"))[:16])


def _entries_since(git: GitHistory, entries: list[GitCommit], before: TreeSnapshot) -> list[GitCommit]:
    mark = before.log
    for index, entry in enumerate(entries):
        if mark is not None and mark == mark_of(entry):
            return entries[:index]
    # No earlier mark, or the log was deleted: commits that may have been made since.
    since = before.at if mark is None else mark.at
    return [entry for entry in entries if entry.until >= since and git.with_exact_time(entry).until >= since]


def _without_log(git: GitHistory, before: TreeSnapshot, head: str | None) -> list[NewCommit]:
    """Without a log of HEAD: new commits that lead to HEAD and are young enough."""
    if head is None or before.head is None or head == before.head:
        return []
    commits = git.log(head, excluding=[before.head], limit=limits.MAX_TREE_COMMITS)
    branch = git.branch()
    commits_with_time = [git.with_exact_time(commit) for commit in reversed(commits)]
    return [NewCommit(commit, branch, None) for commit in commits_with_time if commit.until >= before.at]


def _branch_before(action: str, branch: str | None) -> str | None:
    """The branch of HEAD before this entry of its log."""
    if action.startswith("checkout: moving from "):
        name = action.removeprefix("checkout: moving from ").partition(" ")[0]
        return None if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name) else name
    if re.match(r"(?:rebase|pull)\b[^:]*\(finish\): returning to refs/heads/", action):
        return action.partition("refs/heads/")[2].partition(" ")[0]
    return branch


def _replaced(
    git: GitHistory, entries: list[GitCommit], index: int, originals: dict[int, list[GitCommit]]
) -> str | None:
    """The commit that an amend or rebase step replaced: by author time and subject, or by its tree."""
    entry = entries[index]
    previous = entries[index + 1] if index + 1 < len(entries) else None
    if entry.action.startswith("commit (amend)"):
        return None if previous is None else previous.sha
    if previous is not None and entry.parents == previous.parents and _REWRITES.match(entry.action):
        return previous.sha  # a step that amends the previous one: reword, squash, fixup
    sources = _originals(git, entries, index, originals)
    if sources is None:
        return None
    candidates = [commit for commit in sources if (commit.authored, commit.author) == (entry.authored, entry.author)]
    for matches in (
        lambda commit: commit.subject == entry.subject,
        lambda commit: commit.tree == entry.tree,
        lambda _: len(candidates) == 1,
    ):
        for commit in candidates:
            if matches(commit):
                return commit.sha
    return None if previous is None or previous.authored != entry.authored else previous.sha


def _originals(
    git: GitHistory, entries: list[GitCommit], index: int, originals: dict[int, list[GitCommit]]
) -> list[GitCommit] | None:
    """The commits of the branch before the rebase that an entry belongs to, newest first."""
    start = _rebase_start(entries, index)
    if start is None or start + 1 >= len(entries):
        return None
    if start not in originals:
        # Without the commits it was rebased onto.
        onto = entries[start].sha
        originals[start] = git.log(entries[start + 1].sha, excluding=[onto], limit=limits.MAX_TREE_COMMITS)
    return originals[start]


def _rebase_start(entries: list[GitCommit], index: int) -> int | None:
    """Where the rebase of an entry begins in the log."""
    later = range(index + 1, len(entries))
    return next((at for at in later if _BEGINS_REBASE.match(entries[at].action)), None)


def _folded(
    git: GitHistory, entries: list[GitCommit], index: int, originals: dict[int, list[GitCommit]]
) -> tuple[str, ...]:
    """The commits that this rebase step folded into the previous one.

    These are the commits whose messages name it; if the rebase folded all commits that it did not replace, also the
    next of them.
    """
    sources, start = _originals(git, entries, index, originals), _rebase_start(entries, index)
    if sources is None or start is None:
        return ()
    end = next((at for at in range(start - 1, -1, -1) if _ENDS_REBASE.match(entries[at].action)), -1)
    steps = range(start - 1, end, -1)
    folding = [step for step in steps if _FOLDS.match(entries[step].action)]
    replaced = {_replaced(git, entries, step, originals) for step in steps if step not in folding}
    folded_in = [commit for commit in reversed(sources) if commit.sha not in replaced]
    target_subject = next(entries[at].subject for at in range(index + 1, start + 1) if at not in folding)
    folded = [
        commit.sha
        for commit in folded_in
        if commit.subject != target_subject and _TO_FOLD.sub("", commit.subject, count=1) == target_subject
    ]
    if len(folded_in) == len(folding) and not _TO_FOLD.match(
        (next_commit := folded_in[folding.index(index)]).subject
    ):
        folded.append(next_commit.sha)
    return tuple(folded)
