"""Read a repository with git's plumbing, in a way that cannot run anything the repository names.

Git takes hooks and configuration from a repository's *common directory*, which `GIT_COMMON_DIR` names. Here it is a
private directory that Holdfast makes: its configuration names no program, and it has no hooks. Refs, index, objects
and work tree are the repository's. So no filter, text conversion, monitor, hook or transport can run, whatever the
repository contains and later versions of git add. The person's configuration does not apply to reading either, except
for settings that name no program.

What cannot be read (no git program, an unknown format, damage, limits) raises a `HoldfastError`; callers record
without it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.machine.git import config, worktree
from holdfast.machine.git.config import is_abbreviated, normalise_remote
from holdfast.machine.git.program import WRITE_PATIENCE, GitFailed, GitProgram, GitResult, GitSlow, verb_of
from holdfast.machine.git.worktree import WorkTree
from holdfast.machine.user_input import read_limited

_MAX_CONFIG_SIZE: Final = 1 << 20
_MAX_LIST_SIZE: Final = 4 << 20  # of files to ignore, of attributes, of the commits at which a shallow clone ends
_MAX_COUNTED_SIZE: Final = 16 << 20  # bytes of a file whose lines are counted
_BINARY: Final = 8000  # bytes at the beginning in which git looks for a NUL
_MAX_SUBMODULES: Final = 200
_MAX_DEPTH: Final = 4  # submodules within submodules

# These override every configuration. Submodules have configurations that were not checked, and a clean-up that does
# not know of other work trees would delete their objects.
BASE_OPTIONS: Final = (
    *("-c", "core.fsmonitor=false", "-c", "submodule.recurse=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)
_BOUNDED: Final = ("-c", f"core.bigFileThreshold={_MAX_COUNTED_SIZE}")
_READING: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
    # Nothing is fetched: no configuration says from where, and no protocol would be allowed.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}

# Files that git opens with every command.
_OWN: Final = ("HEAD", "index", "commondir")
_SHARED: Final = ("packed-refs", "shallow", "objects/info/alternates", "objects/info/commit-graph")
_COPIED: Final = ("info/exclude", "info/attributes", "shallow")
_OPERATIONS: Final = (
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)

_Kind = Literal["plain", "personal", "change"]


class GitFacts(NamedTuple):
    branch: str | None
    commit: str | None
    remote: str | None


class StatusEntry(NamedTuple):
    """One path that is not as committed. `staged` and `unstaged` are git's letters, `.` for no change."""

    path: str
    staged: str
    unstaged: str


class GitReader(GitProgram):
    """Reads the repository of one work tree. `root` is its top, as `worktree.locate` gives it."""

    # Seconds for one command, and for comparing the whole work tree: recording an event waits this long.
    _read_patience = 2.0
    _compare_patience = 4.0

    def __init__(self, root: str, *, env: Mapping[str, str] | None = None, patience: float = WRITE_PATIENCE) -> None:
        super().__init__(root, env=env, patience=patience)
        self._directory: str | None = None
        self._written: dict[str, Mapping[str, bytes]] = {}
        self._personal: list[config.GitSetting] | None = None

    def place(self) -> WorkTree:
        return worktree.locate(self.root)

    def is_repository(self) -> bool:
        return self.place().git

    def has_work_tree(self) -> bool:
        place = self.place()
        if place.git_dir is None or place.git_dir == place.root:
            return False
        linked = place.git_dir != place.common_dir
        return linked or not config.is_true(config.last_value(self._settings(place), "core.bare"))

    # HEAD

    def facts(self) -> GitFacts:
        """What a session records about its repository; all None if there is none."""
        place = self.place()
        if not place.git:
            return GitFacts(None, None, None)
        head = worktree.head(place)
        if head.commit is None:  # before the first commit; or refs of another kind, or very many
            head = worktree.GitHead(self.branch(), self.commit_id())
        return GitFacts(head.branch, head.commit, self.remote())

    def branch(self) -> str | None:
        """The branch HEAD is on, also one without a commit yet; None when detached."""
        ref = self._output_or_none("symbolic-ref", "--quiet", "HEAD") or ""
        return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None

    def commit_id(self, name: str = "HEAD") -> str | None:
        return self._output_or_none("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def tip(self, branch: str) -> str | None:
        return self.commit_id(f"refs/heads/{branch}")

    def tree_id(self, commit: str) -> str:
        return self._output("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").text

    def branch_exists(self, name: str) -> bool:
        return self._output_or_none("show-ref", "--verify", "--quiet", f"refs/heads/{name}") is not None

    def valid_branch_name(self, name: str) -> bool:
        if name.startswith("-") or name == "HEAD" or "\0" in name:
            return False
        return self._git("check-ref-format", f"refs/heads/{name}").code == 0

    def checked_out_elsewhere(self, branch: str) -> str | None:
        """The other work tree that has this branch checked out."""
        place = self.place()
        for root, head in worktree.worktree_heads(place):
            if head.branch == branch and not _same(root, place.root):
                return root
        return None

    def in_progress(self) -> str | None:
        """The operation that was begun here and is not finished, such as a merge."""
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
        if (Path(place.common_dir or base) / "reftable").exists():  # there, these two are refs and not files
            for name, kind in (("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")):
                if self.commit_id(name) is not None:
                    return kind
        return None

    # Remotes

    def remote(self) -> str | None:
        """Origin's address, else the first remote's, as other devices would write it, without credentials."""
        # The address as configured: `insteadOf` may lead to a mirror that only this device uses.
        addresses: dict[str, str] = {}
        for setting in self._settings(self.place()):
            if (setting.section, setting.key) == ("remote", "url") and setting.name and setting.value:
                addresses.setdefault(setting.name, setting.value)
        name = "origin" if "origin" in addresses else min(addresses, default="")
        if name and is_abbreviated(addresses[name]):
            # An abbreviation (`insteadOf`) means nothing on other devices.
            return normalise_remote(self.remote_address(name) or "") or None
        return normalise_remote(addresses.get(name, "")) or None

    def remote_address(self, name: str) -> str | None:
        """The address of a remote as git would use it."""
        result = self._git("remote", "get-url", "--", name, personal=True)
        return result.text.split("\n")[0] if result.code == 0 else None

    def remotes(self) -> list[str]:
        return self._git("remote").text.splitlines()

    def upstream(self, branch: str) -> str | None:
        """The ref of the remote's branch that this one follows."""
        return self._git("for-each-ref", "--format=%(upstream)", f"refs/heads/{branch}").text or None

    # Commits

    def root_commits(self, timeout: float = 1.0) -> list[str]:
        """The first commits of the history, the same in every clone; empty if finding them takes too long."""
        common = self.place().common_dir
        # The end of a shallow clone is not the beginning of the history.
        if common is None or os.path.lexists(os.path.join(common, "shallow")):
            return []
        try:
            result = self._git(
                *("rev-list", "--max-parents=0", "HEAD", "--"),
                env={"GIT_NO_REPLACE_OBJECTS": "1"},
                timeout=timeout,
            )
        except GitSlow:
            return []
        return sorted(result.text.split()) if result.code == 0 else []

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self._output_or_none("merge-base", "--is-ancestor", "--end-of-options", older, newer) is not None

    def merge_base(self, commit: str, other: str) -> str | None:
        return self._output_or_none("merge-base", "--end-of-options", commit, other)

    def find_commit(self, since: str | None, *, tree: str | None, message: str) -> str | None:
        """The newest of HEAD's own last commits that has this tree, or this message."""
        span = ["HEAD"] if since is None else ["HEAD", f"^{since}"]
        result = self._git("log", "--first-parent", "-100", "-z", "--format=%H %T %B", *span, "--")
        for entry in result.out.decode("utf-8", "replace").split("\0"):
            commit, _, rest = entry.partition(" ")
            its_tree, _, text = rest.partition(" ")
            if its_tree and (its_tree == tree or text.split() == message.split()):
                return commit
        return None

    # The work tree

    def changes(self, *, depth: int = 0) -> list[StatusEntry]:
        """Every path that differs from what is committed, untracked ones and submodules included."""
        if not self.has_work_tree():  # with GIT_COMMON_DIR set, git would take any directory for a work tree
            raise GitFailed(f"{self.root} has no work tree", operation="git status", file=self.root)
        result = self._git(
            *("status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"),
            "--ignore-submodules=dirty",  # otherwise git runs in each, with its own configuration
            personal=True,
            timeout=self._compare_patience,
        )
        if result.code:
            raise self._failed("status", result)
        changes = [
            _status_entry(entry) for entry in os.fsdecode(result.out).split("\0") if entry[:1] in ("1", "u", "?")
        ]
        known = {change.path for change in changes}
        for path in self._submodules() if depth < _MAX_DEPTH else ():
            inner = GitReader(os.path.join(self.root, path), env=self._env)
            if path not in known and inner.changes(depth=depth + 1):
                changes.append(StatusEntry(path, ".", "M"))
        return changes

    def dirty(self, ignore: Sequence[str] = ()) -> list[str]:
        """The paths that are not as committed. An unmerged one counts even if it is to be ignored."""
        return [change.path for change in self.changes() if change.staged == "u" or not is_under(change.path, ignore)]

    def unmerged(self) -> list[str]:
        """The paths with merge conflicts."""
        out = self._output("ls-files", "--unmerged", "-z").out
        return sorted({entry.partition("\t")[2] for entry in os.fsdecode(out).split("\0") if entry})

    def tracks(self, path: str) -> bool:
        """Whether the index has a file."""
        return bool(self._output("--literal-pathspecs", "ls-files", "-z", "--", path.replace(os.sep, "/")).out)

    def numstat(self, path: str) -> tuple[int, int] | None:
        """Lines added and removed against HEAD; None for binary files, directories and what is not there."""
        full = Path(self.root, path)
        if (full.is_dir() and not full.is_symlink()) or not self.has_work_tree():
            return None
        try:
            relative = full.relative_to(self.root).as_posix()
        except ValueError:
            return None
        compared = self._git(
            *("--literal-pathspecs", "diff-index", "--numstat", "-z", "--no-ext-diff", "--no-textconv"),
            *("--no-renames", "--ignore-submodules=all", "HEAD", "--", relative),
            personal=True,
        )
        if compared.code == 0 and compared.out:
            return _line_counts(compared.out)
        if self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"HEAD:{relative}").code == 0:
            if compared.code:
                raise self._failed("diff-index", compared)
            return (0, 0)
        return lines_of(str(full))

    def _submodules(self) -> list[str]:
        """The paths of the submodules that are checked out."""
        text = worktree.read_text(os.path.join(self.root, ".gitmodules"), _MAX_CONFIG_SIZE)
        try:
            settings = config.parse(text or "")
        except ValueError:
            return []
        paths = [setting.value for setting in settings if (setting.section, setting.key) == ("submodule", "path")]
        submodules: list[str] = []
        for path in paths[:_MAX_SUBMODULES]:
            full = os.path.join(self.root, path)
            real = os.path.realpath(self.root)
            if "\0" in path or not os.path.realpath(full).startswith(real + os.sep):
                continue
            if os.path.lexists(os.path.join(full, ".git")) and worktree.locate(full).git:
                submodules.append(path)
        return submodules

    # Running git

    def _git(
        self,
        *args: str,
        personal: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> GitResult:
        """Run git. `personal`: apply harmless settings of the person, such as how files are compared."""
        argv = (*BASE_OPTIONS, *_BOUNDED, *args)
        environment = {**self._environment("personal" if personal else "plain"), **(env or {})}
        return self._run(argv, env=environment, timeout=self._read_patience if timeout is None else timeout)

    def _output(self, *args: str) -> GitResult:
        result = self._git(*args)
        if result.code:
            raise self._failed(verb_of(args), result)
        return result

    def _output_or_none(self, *args: str) -> str | None:
        """The output, or None for git's exit code 1. A repository that git cannot read is an error."""
        result = self._git(*args)
        if result.code > 1 or result.code < 0:
            raise self._failed(verb_of(args), result)
        return result.text if result.code == 0 else None

    def _environment(self, kind: _Kind) -> dict[str, str]:
        """The variables that point git to this repository and to a configuration of ours.

        A `change` that the person asked for also applies their configuration. Reading does not: a `personal`
        configuration has the harmless part of it, and a `plain` one is cheaper.
        """
        place = self.place()
        if place.git_dir is None or place.common_dir is None:
            raise GitFailed(f"there is no git repository at {self.root}", operation="git", file=self.root)
        _refuse_pipes(place.git_dir, place.common_dir)
        settings = self._settings(place)
        harmless = config.harmless_settings(settings)
        if kind == "personal":
            harmless = config.harmless_settings(self._personal_settings(), personal=True) or harmless
        common = self._common_directory(kind, place, settings, harmless)
        env = {
            **({} if kind == "change" else _READING),
            "GIT_DIR": place.git_dir,
            "GIT_COMMON_DIR": common,
            "GIT_OBJECT_DIRECTORY": os.path.join(place.common_dir, "objects"),
        }
        return env if place.root == place.git_dir else {**env, "GIT_WORK_TREE": place.root}

    def _personal_settings(self) -> list[config.GitSetting]:
        """The settings that apply: the person's configuration, and the harmless part of the repository's."""
        if self._personal is None:
            env = self._environment("change")
            result = self._run(("config", "--null", "--list"), env=env, timeout=self._read_patience)
            self._personal = config.parse_list(os.fsdecode(result.out)) if result.code == 0 else []
        return self._personal

    def _settings(self, place: WorkTree) -> list[config.GitSetting]:
        """The repository's configuration. It reaches git only through `config.harmless_settings`."""
        assert place.common_dir is not None
        assert place.git_dir is not None
        settings = self._parsed(os.path.join(place.common_dir, "config"))
        if config.is_true(config.last_value(settings, "extensions.worktreeconfig")):
            settings += self._parsed(os.path.join(place.git_dir, "config.worktree"))
        return settings

    def _parsed(self, path: str) -> list[config.GitSetting]:
        text = worktree.read_text(path, _MAX_CONFIG_SIZE)
        if text is None and os.path.lexists(path):
            raise self._unreadable(path, f"it is not a regular file, or larger than {_MAX_CONFIG_SIZE >> 20} MiB")
        try:
            return config.parse(text or "")
        except ValueError as problem:
            raise self._unreadable(path, str(problem)) from None

    def _unreadable(self, path: str, reason: str) -> GitFailed:
        return GitFailed(
            "the repository's configuration cannot be read",
            hint=f"{path}: {reason}",
            operation="git config",
            file=path,
        )

    def _common_directory(
        self,
        kind: _Kind,
        place: WorkTree,
        settings: Sequence[config.GitSetting],
        harmless: Sequence[config.GitSetting],
    ) -> str:
        """Write the directory that replaces the repository's: data only, no hooks."""
        assert place.common_dir is not None
        layout = config.layout(settings)
        if isinstance(layout, str):
            raise self._unreadable(os.path.join(place.common_dir, "config"), layout)
        files = {"config": os.fsencode(config.render([*layout, *harmless]))}
        for path in _COPIED:
            text = worktree.read_text(os.path.join(place.common_dir, path), _MAX_LIST_SIZE)
            files[path] = os.fsencode(text or "")
        try:
            if self._directory is None:
                self._directory = _private_directory(self)
            common = os.path.join(self._directory, kind)
            if self._written.get(kind) != files:
                _write_all(common, files)
                self._written[kind] = files
        except OSError as problem:
            raise GitFailed(
                f"git needs a temporary directory: {problem.strerror}", operation="git", file=problem.filename
            ) from problem
        return common


def is_under(path: str, parents: Iterable[str]) -> bool:
    """Whether a path is one of these, or inside one of these."""
    for parent in parents:
        plain = parent.replace(os.sep, "/").removeprefix("./").rstrip("/")
        if plain and (path.rstrip("/") == plain or path.startswith(plain + "/")):
            return True
    return False


def _refuse_pipes(git_dir: str, common_dir: str) -> None:
    """Refuse pipes in the place of git's files: opening one would block."""
    for path in (
        *(os.path.join(git_dir, name) for name in _OWN),
        *(os.path.join(common_dir, name) for name in _SHARED),
    ):
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):
            continue
        if not stat.S_ISREG(mode):
            raise GitFailed(f"{path} is not a regular file", operation="git", file=path)


def _private_directory(owner: object) -> str:
    """A temporary directory, removed with its owner or with the process."""
    import shutil
    import tempfile
    import weakref

    path = tempfile.mkdtemp(prefix="holdfast-git-")
    weakref.finalize(owner, shutil.rmtree, path, ignore_errors=True)  # noqa: TID251  # made just above
    return path


def _write_all(directory: str, files: Mapping[str, bytes]) -> None:
    os.makedirs(os.path.join(directory, "refs"), exist_ok=True)
    os.makedirs(os.path.join(directory, "info"), exist_ok=True)
    for path, data in files.items():
        # An empty `shallow` has another meaning than none.
        full = os.path.join(directory, path)
        if data:
            Path(full).write_bytes(data)
        else:
            Path(full).unlink(missing_ok=True)


def _status_entry(entry: str) -> StatusEntry:
    kind = entry[0]
    if kind == "?":
        return StatusEntry(entry[2:], ".", "?")
    fields = entry.split(" ", 8 if kind == "1" else 10)
    return StatusEntry(fields[-1], "u", "u") if kind == "u" else StatusEntry(fields[-1], fields[1][0], fields[1][1])


def _line_counts(out: bytes) -> tuple[int, int] | None:
    added, _, rest = out.partition(b"\t")
    removed = rest.partition(b"\t")[0]
    return (int(added), int(removed)) if added.isdigit() and removed.isdigit() else None


def lines_of(path: str) -> tuple[int, int] | None:
    """The lines of a file that is not in HEAD, counted as git would; None where git would call it binary."""
    if os.path.islink(path):
        return (1, 0)
    try:
        data = read_limited(path, _MAX_COUNTED_SIZE, subject="the file")
    except HoldfastError:
        return None
    if b"\0" in data[:_BINARY]:
        return None
    return (data.count(b"\n") + (data[-1:] not in (b"", b"\n")), 0)


def _same(path: str, other: str) -> bool:
    return Path(path).resolve() == Path(other).resolve()
