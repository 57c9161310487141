"""Find a directory's work tree, main repository, branch and commit, by reading files only.

`holdfast status` does this each time, so no process is started and nothing slow is imported, not even pathlib. The
files may come from anybody (an unpacked archive, a clone): only regular files of bounded size are read, and what does
not lead to a repository counts as none. `git.reader` asks git for what files cannot tell.
"""

from __future__ import annotations

import os
from typing import NamedTuple

_POINTER_LIMIT = 8 << 10  # `.git`, `commondir`, HEAD, loose refs: one path or one name
_CONFIG_LIMIT = 256 << 10
_PACKED_LIMIT = 16 << 20  # about 200,000 refs; beyond, asking git is faster
_NO_BLOCK = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_MAX_WORK_TREES = 1000
_MAX_CTIME_DIFFERENCE = 2.0  # seconds
_REGULAR, _TYPE = 0o100000, 0o170000

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class WorkTree(NamedTuple):
    """`root` is the work tree; `main` the main repository's, the same unless this is a linked worktree."""

    root: str
    main: str
    git: bool
    git_dir: str | None
    common_dir: str | None


class GitHead(NamedTuple):
    """`commit` without `branch`: detached. `branch` without `commit`: unborn, or known only to git."""

    branch: str | None
    commit: str | None


class _Dirs(NamedTuple):
    root: str
    git_dir: str
    common_dir: str
    linked: bool


def locate(directory: str) -> WorkTree:
    """The work tree of a directory: that of the nearest repository around it, else the directory itself."""
    start = _existing_directory(directory)
    at = start
    while True:
        repository = _repository_at(at)
        if isinstance(repository, _Dirs):
            main = main_of(repository.common_dir) if repository.linked else repository.root
            return WorkTree(repository.root, main, True, repository.git_dir, repository.common_dir)
        if repository is not None:
            return WorkTree(repository, repository, False, None, None)
        parent = os.path.dirname(at)
        if parent == at:
            return WorkTree(start, start, False, None, None)
        at = parent


def head(place: WorkTree, *, packed: int = _PACKED_LIMIT) -> GitHead:
    """Branch and commit of a work tree, as far as its files and at most `packed` bytes of packed refs tell."""
    if place.git_dir is None or place.common_dir is None:
        return GitHead(None, None)
    text = read_text(os.path.join(place.git_dir, "HEAD"), _POINTER_LIMIT)
    if text is None:
        return GitHead(None, None)
    if not text.startswith("ref:"):
        return GitHead(None, _object_id(text))
    ref = text[4:].strip()
    # A reftable repository writes `.invalid` here, so that old programs refuse it.
    if not _is_safe_ref(ref) or ref == "refs/heads/.invalid":
        return GitHead(None, None)
    branch = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None
    return GitHead(branch, _resolve(place.common_dir, ref, packed))


def worktree_heads(place: WorkTree) -> Iterator[tuple[str, GitHead]]:
    """The root and head of every work tree of this repository, this one included, as far as the files show."""
    if place.common_dir is None:
        return
    main = main_of(place.common_dir)
    if main != place.common_dir:
        yield main, head(WorkTree(main, main, True, place.common_dir, place.common_dir))
    folder = os.path.join(place.common_dir, "worktrees")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names[:_MAX_WORK_TREES]:
        git_dir = os.path.join(folder, name)
        dot = _target_of(git_dir, read_text(os.path.join(git_dir, "gitdir"), _POINTER_LIMIT), "")
        if dot is not None:
            root = os.path.dirname(dot)
            yield root, head(WorkTree(root, main, True, git_dir, place.common_dir))


def _existing_directory(directory: str) -> str:
    from holdfast.core.errors import Failed, Invalid, NotFound

    try:
        real = os.path.realpath(directory)
        is_directory = os.stat(real).st_mode & _TYPE == 0o040000
    except ValueError:
        raise Invalid(f"{directory[:200]!r} cannot be a path", operation="locate") from None
    except FileNotFoundError:
        raise NotFound(f"There is no directory {directory}", operation="locate", file=directory) from None
    except NotADirectoryError:
        is_directory = False
    except OSError as problem:
        raise Failed(
            f"{directory} cannot be opened: {problem.strerror}", operation="locate", file=directory
        ) from problem
    if not is_directory:
        raise Invalid(
            f"{directory} is a file, not a directory",
            hint="Give the project's directory.",
            operation="locate",
            file=directory,
        )
    return real


def _repository_at(at: str) -> _Dirs | str | None:
    """The repository here; the directory itself if its `.git` is broken, which ends the search; or None."""
    dot = os.path.join(at, ".git")
    if os.path.isdir(dot):
        if _is_repository(dot):
            real = os.path.realpath(dot)
            return _Dirs(at, real, real, linked=False) if real == dot or _is_own(at, real) else at
        # Like git, ignore a directory that merely has the name.
    elif os.path.lexists(dot):
        # A work tree without its repository is still a work tree: it must not become part of a repository around
        # it, such as a home directory.
        return _follow_git_file(at, dot) or at
    if _is_repository(at):
        # A bare repository, or the inside of a `.git`, where hooks run.
        root = os.path.dirname(at) if os.path.basename(at) == ".git" else at
        return _Dirs(root, at, at, linked=False)
    return None


def _follow_git_file(at: str, dot: str) -> _Dirs | None:
    """The repository that a `.git` file names, if that repository belongs to this directory.

    An unpacked archive can name any repository of this machine; it must not become part of that project.
    """
    git_dir = named_git_dir(at)
    if git_dir is None:
        return None
    common_file = os.path.join(git_dir, "commondir")
    if not os.path.lexists(common_file):
        # A submodule or a separate git directory: a separate project.
        own = _is_repository(git_dir) and _is_own(at, git_dir)
        return _Dirs(at, git_dir, git_dir, linked=False) if own else None
    common = _target_of(git_dir, read_text(common_file, _POINTER_LIMIT), "")
    if common is None or not _is_repository(common) or not os.path.lexists(os.path.join(git_dir, "HEAD")):
        return None
    return _Dirs(at, git_dir, common, linked=True) if _is_known(dot, git_dir, common) else None


def named_git_dir(root: str) -> str | None:
    """The git directory that `.git` is or names, whether or not it belongs to this work tree."""
    dot = os.path.join(root, ".git")
    target = dot if os.path.isdir(dot) else _target_of(root, read_text(dot, _POINTER_LIMIT), "gitdir: ")
    return os.path.realpath(target) if target is not None and os.path.isdir(target) else None


def _is_own(at: str, git_dir: str) -> bool:
    """Whether a git directory that lies elsewhere does not belong to another work tree.

    A separate git directory does not name its work tree. One named `.git` seems to belong to the directory around it,
    unless that contains nothing else.
    """
    main = main_of(git_dir)
    if main == git_dir or same_directory(main, at):
        return True
    try:
        return os.path.basename(git_dir) == ".git" and os.listdir(main) == [".git"]
    except OSError:
        return False


def _is_known(dot: str, git_dir: str, common: str) -> bool:
    """Whether the main repository has a linked work tree with this `.git` file."""
    if not same_directory(os.path.dirname(git_dir), os.path.join(common, "worktrees")):
        return False
    recorded = _target_of(git_dir, read_text(os.path.join(git_dir, "gitdir"), _POINTER_LIMIT), "")
    if recorded is None or os.path.basename(recorded) != ".git":
        return False
    if os.path.lexists(recorded):
        return same_directory(os.path.dirname(recorded), os.path.dirname(dot))
    # Moved without git. `git worktree add` wrote both files at once; in an archive or a copy, one is newer.
    try:
        return (
            abs(os.stat(dot).st_ctime - os.stat(os.path.join(git_dir, "commondir")).st_ctime) < _MAX_CTIME_DIFFERENCE
        )
    except OSError:
        return False


def same_directory(directory: str, other: str) -> bool:
    """Whether both are one directory, also by another spelling, as on a case-insensitive file system."""
    try:
        return directory == other or os.path.samefile(directory, other)
    except (OSError, ValueError):
        return False


def _target_of(base: str, text: str | None, prefix: str) -> str | None:
    if text is None or not text.startswith(prefix):
        return None
    target = text[len(prefix) :].rstrip("\r\n")
    # Looking at `\\host\share` would already send credentials to the host.
    if not target or "\0" in target or (target[:2] in ("\\\\", "//") and base[:2] != target[:2]):
        return None
    try:
        return os.path.realpath(os.path.join(base, target))
    except (OSError, ValueError):
        return None


def main_of(common: str) -> str:
    """The main work tree of a repository, by its common directory; that directory itself if there is none."""
    parent, name = os.path.split(common)
    if name == ".git":
        return parent
    # The git directory of a submodule names its work tree in a setting, which counts only if the work tree points
    # back.
    for config in ("config.worktree", "config"):
        setting = _core_worktree(read_text(os.path.join(common, config), _CONFIG_LIMIT) or "")
        tree = _target_of(common, setting, "")
        if tree is not None and named_git_dir(tree) == common:
            return tree
    return common


def _core_worktree(config: str) -> str | None:
    section, worktree = "", None
    for raw in config.splitlines():
        line = raw.strip()
        if line.startswith("["):
            section = line[1:].partition("]")[0].strip().lower()
        elif section == "core":
            key, equals, value = line.partition("=")
            if equals and key.strip().lower() == "worktree":
                worktree = value.strip().strip('"').replace("\\\\", "\\")
    return worktree


def _is_repository(path: str) -> bool:
    join = os.path.join
    return (
        os.path.lexists(join(path, "HEAD"))
        and os.path.isdir(join(path, "objects"))
        and os.path.isdir(join(path, "refs"))
    )


def _resolve(common: str, ref: str, packed: int) -> str | None:
    for _ in range(5):  # git follows as many
        text = read_text(os.path.join(common, ref), _POINTER_LIMIT)
        if text is None:
            return _resolve_packed(common, ref, packed)
        if not text.startswith("ref:"):
            return _object_id(text)
        ref = text[4:].strip()
        if not _is_safe_ref(ref):
            return None
    return None


def _resolve_packed(common: str, ref: str, limit: int) -> str | None:
    packed = "\n" + (read_text(os.path.join(common, "packed-refs"), limit) or "")
    end = packed.find(f" {ref}\n")
    return _object_id(packed[packed.rfind("\n", 0, end) + 1 : end]) if end > 0 else None


def _is_safe_ref(ref: str) -> bool:
    """Whether a ref stays below the repository's `refs` on every system."""
    parts = ref.split("/")
    return parts[0] == "refs" and len(parts) > 1 and not {"", ".", ".."} & {*parts} and not {*"\\:\0"} & {*ref}


def _object_id(text: str) -> str | None:
    name = text.strip()
    return name if len(name) in (40, 64) and not name.strip("0123456789abcdef") else None


def read_text(path: str, limit: int) -> str | None:
    """A regular file's text; None if it is missing, unreadable, too long, or not a regular file."""
    try:
        # Non-blocking: opening a planted FIFO would wait for ever.
        handle = os.open(path, os.O_RDONLY | _NO_BLOCK)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(handle)
        if status.st_mode & _TYPE != _REGULAR or status.st_size > limit:
            return None
        parts: list[bytes] = []
        size = 0
        while size <= limit:
            part = os.read(handle, limit + 1 - size)
            if not part:
                return os.fsdecode(b"".join(parts))
            parts.append(part)
            size += len(part)
    except (OSError, UnicodeError):
        return None
    finally:
        os.close(handle)
    return None
