"""The project of a directory, in repositories that real git made and in files made to mislead."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.core.errors import Invalid, NotFound
from holdfast.machine.git import worktree
from holdfast.machine.git.worktree import GitHead, WorkTree, head, locate


@pytest.fixture(autouse=True)
def _own_git_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    settings = home / "gitconfig"
    settings.write_text(
        '[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n[protocol "file"]\nallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", "")


def git(where: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def made(where: Path, *, commit: bool = True) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    git(where, "init", "-q")
    if commit:
        git(where, "commit", "-q", "--allow-empty", "-m", "first")
    return where


def without_git(where: Path) -> WorkTree:
    return WorkTree(str(where), str(where), False, None, None)


def test_subdirectory_belongs_to_the_repository_around_it(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    dot = str(repo / ".git")
    assert locate(str(deep)) == WorkTree(str(repo), str(repo), True, dot, dot)
    assert head(locate(str(deep))) == GitHead("main", git(repo, "rev-parse", "HEAD"))


def test_directory_without_git_is_its_own_project(tmp_path: Path) -> None:
    assert locate(str(tmp_path)) == without_git(tmp_path)
    assert head(locate(str(tmp_path))) == GitHead(None, None)


def test_relative_path_and_link_lead_to_the_same_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = made(tmp_path / "repo")
    (repo / "src").mkdir()
    (tmp_path / "link").symlink_to(repo / "src")
    monkeypatch.chdir(tmp_path)
    assert locate("link") == locate("repo/src") == locate(str(repo))


def test_linked_work_tree_belongs_to_the_main_repository(tmp_path: Path) -> None:
    """It has a root and a HEAD of its own."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    place = locate(str(tmp_path / "tree"))
    assert place == WorkTree(
        str(tmp_path / "tree"), str(repo), True, str(repo / ".git/worktrees/tree"), str(repo / ".git")
    )
    assert head(place) == GitHead("side", git(repo, "rev-parse", "side"))


def test_work_tree_made_in_another_belongs_to_the_main_repository(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../one")
    git(tmp_path / "one", "worktree", "add", "-q", "inner")
    assert locate(str(tmp_path / "one" / "inner")).main == str(repo)


@pytest.mark.parametrize("by_git", [True, False])
def test_moved_work_tree_is_recognized(tmp_path: Path, by_git: bool) -> None:
    """With git's help or without."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../one")
    if by_git:
        git(repo, "worktree", "move", "../one", "../two")
    else:
        (tmp_path / "one").rename(tmp_path / "two")
    place = locate(str(tmp_path / "two"))
    assert (place.root, place.main, place.git) == (str(tmp_path / "two"), str(repo), True)
    assert head(place).branch == "one"


def test_moved_work_tree_with_new_files_is_separate_until_git_repairs_it(tmp_path: Path) -> None:
    """Once the original is removed, a copy cannot be distinguished from a forgery."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert locate(str(tmp_path / "two")) == without_git(tmp_path / "two")
    shutil.rmtree(tmp_path / "one")
    git(tmp_path / "two", "worktree", "repair")
    assert locate(str(tmp_path / "two")).main == str(repo)


@pytest.mark.parametrize("written", ["relative", "through a link", "with CRLF", "with slashes"])
def test_work_tree_is_recognized_however_its_paths_are_written(tmp_path: Path, written: str) -> None:
    """Relative (`worktree.useRelativePaths`), through a link such as macOS's `/tmp`, or as on Windows."""
    repo = made(tmp_path / "repo")
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    git(repo, "worktree", "add", "-q", "../tree")
    back = repo / ".git/worktrees/tree/gitdir"
    if written == "relative":
        (tmp_path / "tree/.git").write_text("gitdir: ../repo/.git/worktrees/tree\n")
        back.write_text("../../../../tree/.git\n")
    elif written == "through a link":
        (tmp_path / "tree/.git").write_text(f"gitdir: {tmp_path}/link/repo/.git/worktrees/tree\n")
        back.write_text(f"{tmp_path}/link/tree/.git\n")
    elif written == "with CRLF":
        back.write_bytes(back.read_bytes().rstrip() + b"\r\n")
    else:
        back.write_text((tmp_path / "tree/.git").as_posix() + "\n")
    assert locate(str(tmp_path / "tree")).main == str(repo)
    assert locate(str(tmp_path / "link/tree")).main == str(repo)


MADE_UP = {
    "work tree": ("gitdir: g\n", "../../repo/.git\n"),
    "work tree below the repository's": ("gitdir: ../repo/.git/worktrees/g\n", None),
    "work tree that is another's": ("gitdir: ../repo/.git/worktrees/tree\n", None),
    "work tree whose directory was removed": ("gitdir: ../repo/.git/worktrees/removed\n", None),
    "git directory that is another's": ("gitdir: ../repo/.git\n", None),
    "git directory of another's submodule": ("gitdir: ../repo/.git/modules/lib\n", None),
    "link": (None, None),
}


@pytest.mark.parametrize(("dot", "common"), MADE_UP.values(), ids=MADE_UP.keys())
def test_forged_git_file_does_not_join_another_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dot: str | None, common: str | None
) -> None:
    """An unpacked archive can name any repository of this machine, but that one does not name it back."""
    library = made(tmp_path / "library")
    repo = made(tmp_path / "repo")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    git(repo, "worktree", "add", "-q", "../tree")
    git(repo, "worktree", "add", "-q", "../removed")
    shutil.rmtree(tmp_path / "removed")
    monkeypatch.setattr(worktree, "_MAX_CTIME_DIFFERENCE", 0.01)
    time.sleep(0.05)
    evil = tmp_path / "evil"
    (evil / "g").mkdir(parents=True)
    if dot is None:
        (evil / ".git").symlink_to("../repo/.git", target_is_directory=True)
    else:
        (evil / ".git").write_text(dot)
    if common is not None:
        (evil / "g/commondir").write_text(common)
        (evil / "g/HEAD").write_text("ref: refs/heads/main\n")
        (evil / "g/gitdir").write_text(f"{evil}/.git\n")
    assert locate(str(evil / "g")) == without_git(evil)
    assert locate(str(tmp_path / "tree")).main == str(repo)


def test_work_tree_without_its_repository_is_not_part_of_the_one_around_it(tmp_path: Path) -> None:
    outer = made(tmp_path / "outer")
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../outer/tree")
    repo.rename(tmp_path / "moved")
    (outer / "tree" / "sub").mkdir()
    assert locate(str(outer / "tree" / "sub")) == without_git(outer / "tree")


def test_submodule_is_a_project_of_its_own(tmp_path: Path) -> None:
    """Its root is its main work tree."""
    library = made(tmp_path / "library")
    repo = made(tmp_path / "repo")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    place = locate(str(repo / "lib"))
    assert (place.root, place.main) == (str(repo / "lib"), str(repo / "lib"))
    assert place.git_dir == place.common_dir == str(repo / ".git/modules/lib")
    assert head(place).commit == git(library, "rev-parse", "HEAD")


def test_work_tree_of_a_submodule_belongs_to_the_submodule(tmp_path: Path) -> None:
    """As its configuration says."""
    library = made(tmp_path / "library")
    repo = made(tmp_path / "repo")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    git(repo / "lib", "worktree", "add", "-q", str(tmp_path / "side"))
    assert locate(str(tmp_path / "side")).main == str(repo / "lib")


def test_repository_cannot_claim_a_directory_that_does_not_name_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    other = made(tmp_path / "other")
    git(other, "push", "-q", str(tmp_path / "bare"), "main")
    git(tmp_path / "bare", "worktree", "add", "-q", "../tree", "main")
    with (tmp_path / "bare" / "config").open("a") as config:
        config.write(f"[core]\n\tworktree = {other}\n")
    assert locate(str(tmp_path / "tree")).main == str(tmp_path / "bare")


def test_work_tree_of_a_bare_repository_belongs_to_the_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    other = made(tmp_path / "other")
    git(other, "push", "-q", str(tmp_path / "bare.git"), "main")
    git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree", "main")
    bare = str(tmp_path / "bare.git")
    assert locate(str(tmp_path / "tree")).main == bare
    assert locate(str(tmp_path / "bare.git" / "refs")) == WorkTree(bare, bare, True, bare, bare)


def test_git_directory_belongs_to_its_repository(tmp_path: Path) -> None:
    """A hook may run there."""
    repo = made(tmp_path / "repo")
    assert locate(str(repo / ".git" / "refs")).root == str(repo)


def test_separate_git_directory_makes_no_linked_work_tree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--separate-git-dir", "store", "tree")
    place = locate(str(tmp_path / "tree"))
    assert (place.root, place.main, place.git_dir) == (
        str(tmp_path / "tree"),
        str(tmp_path / "tree"),
        str(tmp_path / "store"),
    )


@pytest.mark.parametrize("as_link", [False, True])
@pytest.mark.parametrize("name", ["store.git", "store/.git"])
def test_git_directory_moved_by_hand_is_followed(tmp_path: Path, name: str, as_link: bool) -> None:
    """Under any name, also with a link to it."""
    repo = made(tmp_path / "repo")
    (tmp_path / "store").mkdir()
    (repo / ".git").rename(tmp_path / name)
    if as_link:
        (repo / ".git").symlink_to(tmp_path / name, target_is_directory=True)
    else:
        (repo / ".git").write_text(f"gitdir: {tmp_path / name}\n")
    where = str(tmp_path / name)
    assert locate(str(repo)) == WorkTree(str(repo), str(repo), True, where, where)


def test_empty_directory_named_git_is_skipped(tmp_path: Path) -> None:
    """As by git."""
    repo = made(tmp_path / "repo")
    (repo / "sub" / ".git").mkdir(parents=True)
    assert locate(str(repo / "sub")).root == str(repo)


HOSTILE = {
    "empty": b"",
    "garbage": b"\xff\xfe\x00garbage",
    "huge": b"gitdir: " + b"a/" * 1_000_000,
    "nothing there": b"gitdir: /nowhere/at/all\n",
    "no path": b"gitdir: \n",
    "NUL": b"gitdir: /tmp\0/x\n",
    "a directory": b"gitdir: /\n",
    "a device": b"gitdir: /dev/zero\n",
    "itself": b"gitdir: .git\n",
    "too long a name": b"gitdir: " + b"a" * 5000,
    "a share": b"gitdir: //host/share\n",
}


@pytest.mark.parametrize("written", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_git_file_counts_as_no_git(tmp_path: Path, written: bytes) -> None:
    """A `.git` file that names no repository."""
    (tmp_path / ".git").write_bytes(written)
    assert locate(str(tmp_path)) == without_git(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs, no modes")
def test_unreadable_git_file_counts_as_no_git(tmp_path: Path) -> None:
    """A FIFO does not block; no permission, a broken link or a loop does not raise."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "shut").write_text("gitdir: x")
    (tmp_path / "shut").chmod(0)
    for name in ("fifo", "loop", "shut", "absent"):
        place = tmp_path / f"in-{name}"
        place.mkdir()
        (place / ".git").symlink_to(tmp_path / name)
        assert locate(str(place)) == without_git(place)


@pytest.mark.parametrize("common", [b"", b"/nowhere\n", b"\0", b"x" * 100_000])
def test_hostile_commondir_counts_as_no_git(tmp_path: Path, common: bytes) -> None:
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../tree")
    (repo / ".git/worktrees/tree/commondir").write_bytes(common)
    assert locate(str(tmp_path / "tree")) == without_git(tmp_path / "tree")


def test_missing_directory_file_and_impossible_name_are_three_errors(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        locate(str(tmp_path / "absent"))
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="is a file"):
        locate(str(tmp_path / "file"))
    with pytest.raises((Invalid, NotFound)):
        locate(str(tmp_path / "file" / "below"))
    with pytest.raises(Invalid):
        locate("a\0b")


def test_head_has_only_a_branch_when_unborn_and_only_a_commit_when_detached(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo", commit=False)
    assert head(locate(str(repo))) == GitHead("main", None)
    git(repo, "commit", "-q", "--allow-empty", "-m", "first")
    git(repo, "switch", "-q", "--detach")
    assert head(locate(str(repo))) == GitHead(None, git(repo, "rev-parse", "HEAD"))


def test_head_is_read_from_packed_refs(tmp_path: Path) -> None:
    """Also next to a branch whose name ends like it."""
    repo = made(tmp_path / "repo")
    git(repo, "branch", "x/main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(repo, "pack-refs", "--all")
    assert not (repo / ".git/refs/heads/main").exists()
    assert head(locate(str(repo))) == GitHead("main", git(repo, "rev-parse", "HEAD"))


def test_head_follows_a_symbolic_branch(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert head(locate(str(repo))) == GitHead("alias", git(repo, "rev-parse", "main"))


@pytest.mark.parametrize(
    "written",
    ["ref: refs/heads/.invalid", "ref: ../../secret", "ref: /etc/passwd", "ref: refs/../../x", "ref:", "junk", ""],
)
def test_head_outside_the_refs_is_ignored(tmp_path: Path, written: str) -> None:
    """A reftable's placeholder, and names that leave the repository."""
    repo = made(tmp_path / "repo")
    place = locate(str(repo))
    (repo / ".git/HEAD").write_text(written)
    assert head(place) == GitHead(None, None)


def test_head_is_empty_when_refs_form_a_circle(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    (repo / ".git/refs/heads/main").write_text("ref: refs/heads/main\n")
    assert head(locate(str(repo))) == GitHead("main", None)


def test_locating_starts_no_process_and_imports_no_heavy_module() -> None:
    """`status` depends on it; asked in a fresh interpreter."""
    code = (
        "import sys; before = set(sys.modules); import holdfast.machine.git.worktree as w; w.head(w.locate('.'));"
        "print(sorted((set(sys.modules) - before) & {'subprocess', 'pathlib', 'shutil', 'dataclasses'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
