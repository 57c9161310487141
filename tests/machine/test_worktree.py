"""Where a directory belongs, asked of repositories that real git made, and of files made to mislead."""

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


def none(where: Path) -> WorkTree:
    return WorkTree(str(where), str(where), False, None, None)


def test_ordinary_repository_from_a_subdirectory(tmp_path: Path) -> None:
    """A directory deep inside belongs to the repository around it."""
    repo = made(tmp_path / "repo")
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    dot = str(repo / ".git")
    assert locate(str(deep)) == WorkTree(str(repo), str(repo), True, dot, dot)
    assert head(locate(str(deep))) == GitHead("main", git(repo, "rev-parse", "HEAD"))


def test_no_git_at_all(tmp_path: Path) -> None:
    """Without git the directory is its own project."""
    assert locate(str(tmp_path)) == none(tmp_path)
    assert head(locate(str(tmp_path))) == GitHead(None, None)


def test_a_relative_path_and_a_link_lead_to_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is reached, a place has one name."""
    repo = made(tmp_path / "repo")
    (repo / "src").mkdir()
    (tmp_path / "link").symlink_to(repo / "src")
    monkeypatch.chdir(tmp_path)
    assert locate("link") == locate("repo/src") == locate(str(repo))


def test_linked_worktree_belongs_to_the_main_repository(tmp_path: Path) -> None:
    """A worktree has a root and a HEAD of its own and shares the main repository."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    place = locate(str(tmp_path / "tree"))
    assert place == WorkTree(
        str(tmp_path / "tree"), str(repo), True, str(repo / ".git/worktrees/tree"), str(repo / ".git")
    )
    assert head(place) == GitHead("side", git(repo, "rev-parse", "side"))


def test_worktree_of_a_worktree(tmp_path: Path) -> None:
    """A worktree made from within another belongs to the same main repository."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../one")
    git(tmp_path / "one", "worktree", "add", "-q", "inner")
    assert locate(str(tmp_path / "one" / "inner")).main == str(repo)


@pytest.mark.parametrize("by_git", [True, False])
def test_moved_worktree(tmp_path: Path, by_git: bool) -> None:
    """A worktree is found again after a move, with git's help or without."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../one")
    if by_git:
        git(repo, "worktree", "move", "../one", "../two")
    else:
        (tmp_path / "one").rename(tmp_path / "two")
    place = locate(str(tmp_path / "two"))
    assert (place.root, place.main, place.git) == (str(tmp_path / "two"), str(repo), True)
    assert head(place).branch == "one"


def test_moved_worktree_is_a_project_of_its_own_until_git_repairs_it_when_its_files_are_new(tmp_path: Path) -> None:
    """A copy cannot be told from a forgery once the original is removed; `git worktree repair` confirms it."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert locate(str(tmp_path / "two")) == none(tmp_path / "two")
    shutil.rmtree(tmp_path / "one")
    git(tmp_path / "two", "worktree", "repair")
    assert locate(str(tmp_path / "two")).main == str(repo)


@pytest.mark.parametrize("written", ["relative", "through a link", "with CRLF", "with slashes"])
def test_worktree_is_known_however_its_paths_are_written(tmp_path: Path, written: str) -> None:
    """Relative paths (`worktree.useRelativePaths`), a linked directory such as macOS has for `/tmp`, Windows."""
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
def test_made_up_git_file_does_not_join_another_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dot: str | None, common: str | None
) -> None:
    """An unpacked archive can name any repository of this machine, by a relative path too: that one decides."""
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
    assert locate(str(evil / "g")) == none(evil)
    assert locate(str(tmp_path / "tree")).main == str(repo)


def test_worktree_without_its_repository(tmp_path: Path) -> None:
    """A worktree cut off from its repository is not taken for part of the one around it."""
    outer = made(tmp_path / "outer")
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../outer/tree")
    repo.rename(tmp_path / "moved")
    (outer / "tree" / "sub").mkdir()
    assert locate(str(outer / "tree" / "sub")) == none(outer / "tree")


def test_submodule_is_a_project_of_its_own(tmp_path: Path) -> None:
    """A submodule's root and main are the same, and not the repository around it."""
    library = made(tmp_path / "library")
    repo = made(tmp_path / "repo")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    place = locate(str(repo / "lib"))
    assert (place.root, place.main) == (str(repo / "lib"), str(repo / "lib"))
    assert place.git_dir == place.common_dir == str(repo / ".git/modules/lib")
    assert head(place).commit == git(library, "rev-parse", "HEAD")


def test_worktree_of_a_submodule_belongs_to_the_submodule(tmp_path: Path) -> None:
    """The main work tree of a submodule's worktree is found through its configuration."""
    library = made(tmp_path / "library")
    repo = made(tmp_path / "repo")
    git(repo, "submodule", "add", "-q", str(library), "lib")
    git(repo / "lib", "worktree", "add", "-q", str(tmp_path / "side"))
    assert locate(str(tmp_path / "side")).main == str(repo / "lib")


def test_a_work_tree_that_does_not_point_back_is_not_believed(tmp_path: Path) -> None:
    """A repository cannot claim somebody else's directory as its main work tree."""
    git(tmp_path, "init", "-q", "--bare", "bare")
    other = made(tmp_path / "other")
    git(other, "push", "-q", str(tmp_path / "bare"), "main")
    git(tmp_path / "bare", "worktree", "add", "-q", "../tree", "main")
    with (tmp_path / "bare" / "config").open("a") as config:
        config.write(f"[core]\n\tworktree = {other}\n")
    assert locate(str(tmp_path / "tree")).main == str(tmp_path / "bare")


def test_bare_repository_and_its_worktree(tmp_path: Path) -> None:
    """The main place of a bare repository's worktree is the repository itself."""
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    other = made(tmp_path / "other")
    git(other, "push", "-q", str(tmp_path / "bare.git"), "main")
    git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree", "main")
    bare = str(tmp_path / "bare.git")
    assert locate(str(tmp_path / "tree")).main == bare
    assert locate(str(tmp_path / "bare.git" / "refs")) == WorkTree(bare, bare, True, bare, bare)


def test_inside_the_git_directory(tmp_path: Path) -> None:
    """A hook that runs inside `.git` belongs to the repository."""
    repo = made(tmp_path / "repo")
    assert locate(str(repo / ".git" / "refs")).root == str(repo)


def test_separate_git_directory(tmp_path: Path) -> None:
    """A git directory kept elsewhere does not make a worktree."""
    git(tmp_path, "init", "-q", "--separate-git-dir", "store", "tree")
    place = locate(str(tmp_path / "tree"))
    assert (place.root, place.main, place.git_dir) == (
        str(tmp_path / "tree"),
        str(tmp_path / "tree"),
        str(tmp_path / "store"),
    )


@pytest.mark.parametrize("as_link", [False, True])
@pytest.mark.parametrize("name", ["store.git", "store/.git"])
def test_separate_git_directory_by_hand(tmp_path: Path, name: str, as_link: bool) -> None:
    """A git directory that was moved out of the work tree, under any name, also with a link to it."""
    repo = made(tmp_path / "repo")
    (tmp_path / "store").mkdir()
    (repo / ".git").rename(tmp_path / name)
    if as_link:
        (repo / ".git").symlink_to(tmp_path / name, target_is_directory=True)
    else:
        (repo / ".git").write_text(f"gitdir: {tmp_path / name}\n")
    where = str(tmp_path / name)
    assert locate(str(repo)) == WorkTree(str(repo), str(repo), True, where, where)


def test_a_directory_that_only_has_the_name_is_passed_by(tmp_path: Path) -> None:
    """Like git, the search walks on past an empty directory named `.git`."""
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
    """A `.git` file that leads to no repository is no repository, and no crash."""
    (tmp_path / ".git").write_bytes(written)
    assert locate(str(tmp_path)) == none(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs, no modes")
def test_git_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A FIFO does not block, and an unreadable file, a broken link or a loop does not raise."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "shut").write_text("gitdir: x")
    (tmp_path / "shut").chmod(0)
    for name in ("fifo", "loop", "shut", "absent"):
        place = tmp_path / f"in-{name}"
        place.mkdir()
        (place / ".git").symlink_to(tmp_path / name)
        assert locate(str(place)) == none(place)


@pytest.mark.parametrize("common", [b"", b"/nowhere\n", b"\0", b"x" * 100_000])
def test_hostile_commondir_counts_as_no_git(tmp_path: Path, common: bytes) -> None:
    """A worktree's pointer to its repository is not followed to nonsense."""
    repo = made(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../tree")
    (repo / ".git/worktrees/tree/commondir").write_bytes(common)
    assert locate(str(tmp_path / "tree")) == none(tmp_path / "tree")


def test_what_is_not_there(tmp_path: Path) -> None:
    """A missing directory, a file, and a name no path can have are three clear errors."""
    with pytest.raises(NotFound):
        locate(str(tmp_path / "absent"))
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="is a file"):
        locate(str(tmp_path / "file"))
    with pytest.raises((Invalid, NotFound)):
        locate(str(tmp_path / "file" / "below"))
    with pytest.raises(Invalid):
        locate("a\0b")


def test_head_unborn_and_detached(tmp_path: Path) -> None:
    """Before the first commit there is only a branch; detached there is only a commit."""
    repo = made(tmp_path / "repo", commit=False)
    assert head(locate(str(repo))) == GitHead("main", None)
    git(repo, "commit", "-q", "--allow-empty", "-m", "first")
    git(repo, "switch", "-q", "--detach")
    assert head(locate(str(repo))) == GitHead(None, git(repo, "rev-parse", "HEAD"))


def test_head_from_packed_refs(tmp_path: Path) -> None:
    """A branch is found in the packed refs, also beside one whose name it ends."""
    repo = made(tmp_path / "repo")
    git(repo, "branch", "x/main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(repo, "pack-refs", "--all")
    assert not (repo / ".git/refs/heads/main").exists()
    assert head(locate(str(repo))) == GitHead("main", git(repo, "rev-parse", "HEAD"))


def test_head_through_a_symbolic_branch(tmp_path: Path) -> None:
    """A branch that is a name for another is followed."""
    repo = made(tmp_path / "repo")
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert head(locate(str(repo))) == GitHead("alias", git(repo, "rev-parse", "main"))


@pytest.mark.parametrize(
    "written",
    ["ref: refs/heads/.invalid", "ref: ../../secret", "ref: /etc/passwd", "ref: refs/../../x", "ref:", "junk", ""],
)
def test_head_that_leads_astray(tmp_path: Path, written: str) -> None:
    """A reftable's stand-in and names that leave the repository give nothing."""
    repo = made(tmp_path / "repo")
    place = locate(str(repo))
    (repo / ".git/HEAD").write_text(written)
    assert head(place) == GitHead(None, None)


def test_a_ref_that_points_at_itself(tmp_path: Path) -> None:
    """A circle of names ends."""
    repo = made(tmp_path / "repo")
    (repo / ".git/refs/heads/main").write_text("ref: refs/heads/main\n")
    assert head(locate(str(repo))) == GitHead("main", None)


def test_locating_starts_no_process_and_imports_nothing_heavy() -> None:
    """The way of `status` stays light: asked in a fresh interpreter."""
    code = (
        "import sys; before = set(sys.modules); import holdfast.machine.git.worktree as w; w.head(w.locate('.'));"
        "print(sorted((set(sys.modules) - before) & {'subprocess', 'pathlib', 'shutil', 'dataclasses'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
