"""Reading repositories with a configuration of ours: every layout that git has, and the settings that still apply."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.machine.git.branches import GitBranches
from holdfast.machine.git.program import GitFailed
from holdfast.machine.git.reader import GitFacts, GitReader


@pytest.fixture(autouse=True)
def settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    file = home / "gitconfig"
    file.write_text(
        '[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n[protocol "file"]\nallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", "")
    return file


def sh(where: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def made(where: Path, *options: str) -> Path:
    where.mkdir()
    sh(where, "init", "-q", *options)
    (where / "a.txt").write_text("one\ntwo\n")
    sh(where, "add", ".")
    sh(where, "commit", "-q", "-m", "first")
    return where


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return made(tmp_path / "repo")


def assert_reads_like_git(where: Path) -> None:
    """A reader must agree with git about a work tree."""
    reader = GitReader(str(where))
    head = sh(where, "rev-parse", "HEAD")
    assert reader.facts()[:2] == ("main", head)
    assert reader.commit_id() == head
    assert reader.changes() == []
    (where / "a.txt").write_text("one\n2\n3\n")
    assert [change.path for change in reader.changes()] == ["a.txt"]
    assert reader.numstat("a.txt") == (2, 1)


def test_sha256_repository_is_read(tmp_path: Path) -> None:
    """The object format is passed on from a configuration that git does not see."""
    where = made(tmp_path / "repo", "--object-format=sha256")
    assert len(GitReader(str(where)).commit_id() or "") == 64
    assert_reads_like_git(where)


def test_reftable_repository_is_read_or_refused(tmp_path: Path) -> None:
    """Depending on whether the installed git supports the format."""
    try:
        where = made(tmp_path / "repo", "--ref-format=reftable")
    except subprocess.CalledProcessError:
        where = made(tmp_path / "old")
        with (where / ".git/config").open("a") as config:
            config.write("[core]\nrepositoryformatversion = 1\n[extensions]\nrefStorage = reftable\n")
        (where / ".git/HEAD").write_text("ref: refs/heads/.invalid\n")
        with pytest.raises(GitFailed) as caught:
            GitReader(str(where)).facts()
        assert "refstorage" in (caught.value.hint or "")
        return
    assert_reads_like_git(where)


def test_linked_work_tree_is_read(repo: Path, tmp_path: Path) -> None:
    """Index and HEAD are its own, objects and refs the main repository's."""
    sh(repo, "switch", "-q", "-c", "side")
    sh(repo, "worktree", "add", "-q", "../tree", "main")
    assert_reads_like_git(tmp_path / "tree")


def test_submodule_is_read(repo: Path, tmp_path: Path) -> None:
    """Its git directory is inside another repository's."""
    library = made(tmp_path / "library")
    sh(repo, "submodule", "add", "-q", str(library), "lib")
    assert_reads_like_git(repo / "lib")


def test_separate_git_directory_is_read(tmp_path: Path) -> None:
    """`.git` is a file that names it."""
    assert_reads_like_git(made(tmp_path / "repo", f"--separate-git-dir={tmp_path}/elsewhere.git"))


def test_shallow_clone_is_read(repo: Path, tmp_path: Path) -> None:
    """Its truncated history is not damage."""
    sh(repo, "commit", "-q", "--allow-empty", "-m", "second")
    sh(tmp_path, "clone", "-q", "--no-local", "--depth", "1", str(repo), "shallow")
    where = tmp_path / "shallow"
    reader = GitReader(str(where))
    assert reader.is_ancestor("HEAD", "HEAD")
    assert reader.merge_base("HEAD", "origin/main") == sh(where, "rev-parse", "HEAD")
    assert_reads_like_git(where)


def test_clone_with_borrowed_objects_is_read(repo: Path, tmp_path: Path) -> None:
    """Objects in another repository are read too."""
    sh(tmp_path, "clone", "-q", "--shared", str(repo), "borrower")
    assert_reads_like_git(tmp_path / "borrower")


def test_packed_refs_split_index_and_sparse_checkout_are_read(repo: Path) -> None:
    """As in large repositories."""
    sh(repo, "pack-refs", "--all")
    sh(repo, "gc", "-q")
    sh(repo, "update-index", "--split-index")
    assert_reads_like_git(repo)
    sh(repo, "checkout", "-q", "--", ".")
    (repo / "sub").mkdir()
    (repo / "sub/b").write_text("b\n")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "b")
    sh(repo, "sparse-checkout", "set", "--no-cone", "/a.txt")
    assert not (repo / "sub/b").exists()
    assert GitReader(str(repo)).changes() == []


def test_bare_repository_has_no_work_tree(repo: Path, tmp_path: Path) -> None:
    """It has facts; reading files is an error."""
    sh(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    reader = GitReader(str(tmp_path / "bare.git"))
    assert (reader.has_work_tree(), reader.facts().branch) == (False, "main")
    with pytest.raises(HoldfastError):
        reader.changes()
    assert GitReader(str(repo)).has_work_tree()
    sh(repo, "config", "core.bare", "true")
    assert not GitReader(str(repo)).has_work_tree()


def test_ignore_rules_of_every_place_apply(repo: Path, settings: Path, tmp_path: Path) -> None:
    """In the work tree, in the repository's own list, and in the person's."""
    (tmp_path / "mine").write_text("*.mine\n")
    with settings.open("a") as file:
        file.write(f"[core]\nexcludesFile = {tmp_path}/mine\n")
    (repo / ".gitignore").write_text("*.tree\n.gitignore\n")
    (repo / ".git/info").mkdir(exist_ok=True)
    (repo / ".git/info/exclude").write_text("*.own\n")
    for name in ("x.mine", "x.tree", "x.own", "x.new"):
        (repo / name).write_text("x")
    assert GitReader(str(repo)).dirty() == ["x.new"]


@pytest.mark.parametrize("whose", ["person", "repository"])
def test_line_endings_are_compared_according_to_autocrlf(repo: Path, settings: Path, whose: str) -> None:
    """Windows line endings in the work tree are no change then."""
    where = settings if whose == "person" else repo / ".git/config"
    with where.open("a") as file:
        file.write("[core]\nautocrlf = true\n")
    (repo / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert GitReader(str(repo)).numstat("a.txt") == (0, 0)
    (repo / "a.txt").write_bytes(b"one\r\n2\r\n")
    assert GitReader(str(repo)).numstat("a.txt") == (1, 1)


def test_filters_of_the_person_run_for_changes_only(repo: Path, settings: Path, tmp_path: Path) -> None:
    """Reading runs none."""
    for name in ("clean", "smudge"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\ncat\n")
        (tmp_path / name).chmod(0o755)
    with settings.open("a") as file:
        file.write(f'[filter "mine"]\nclean = {tmp_path}/clean\nsmudge = {tmp_path}/smudge\n')
    (repo / ".git/info").mkdir(exist_ok=True)
    (repo / ".git/info/attributes").write_text("*.txt filter=mine\n")
    (repo / "a.txt").write_text("changed\n")
    git = GitBranches(str(repo))
    git.changes()
    git.numstat("a.txt")
    assert not list(tmp_path.glob("ran-*"))
    sh(repo, "checkout", "-q", "--", ".")
    git.create_branch("side")
    (repo / "b.txt").write_text("b\n")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "b")
    git.switch("main")
    (tmp_path / "ran-smudge").unlink(missing_ok=True)
    assert git.unwritable("main", "side") is None
    git.switch("side")
    assert (tmp_path / "ran-smudge").exists()


def test_commit_has_the_identity_that_the_repository_sets(repo: Path) -> None:
    """It names no program."""
    sh(repo, "config", "user.email", "work@example.org")
    (repo / "a.txt").write_text("x\n")
    sh(repo, "add", ".")
    GitBranches(str(repo)).commit("message")
    assert sh(repo, "log", "-1", "--format=%an %ae") == "A work@example.org"


def test_commit_has_the_identity_that_is_included_by_the_remotes_address(
    repo: Path, settings: Path, tmp_path: Path
) -> None:
    """Conditional includes of the person apply."""
    (tmp_path / "work").write_text("[user]\nemail = byremote@example.org\n")
    with settings.open("a") as file:
        file.write(f'[includeIf "hasconfig:remote.*.url:https://work.example.org/**"]\npath = {tmp_path}/work\n')
    sh(repo, "remote", "add", "origin", "https://work.example.org/o/r.git")
    (repo / "a.txt").write_text("x\n")
    sh(repo, "add", ".")
    GitBranches(str(repo)).commit("message")
    assert sh(repo, "log", "-1", "--format=%ae") == sh(repo, "config", "user.email") == "byremote@example.org"


def test_deleted_branch_leaves_no_settings_behind(repo: Path) -> None:
    """Its section is removed from the repository's configuration, as git does."""
    sh(repo, "branch", "side")
    sh(repo, "config", "branch.side.remote", ".")
    sh(repo, "config", "branch.side.merge", "refs/heads/main")
    assert GitReader(str(repo)).upstream("side") == "refs/heads/main"
    GitBranches(str(repo)).delete_branch("side")
    assert "side" not in (repo / ".git/config").read_text()


def test_commit_removes_no_objects_of_other_work_trees(repo: Path, tmp_path: Path, settings: Path) -> None:
    """No garbage collection runs, which would not know of them."""
    sh(repo, "worktree", "add", "-q", "--detach", "../tree")
    (tmp_path / "tree/lonely").write_text("only here\n")
    sh(tmp_path / "tree", "add", ".")
    sh(tmp_path / "tree", "commit", "-q", "-m", "lonely")
    sh(tmp_path / "tree", "reflog", "expire", "--expire=now", "--all")
    with settings.open("a") as file:
        file.write("[gc]\nauto = 1\nautoDetach = false\npruneExpire = now\n[maintenance]\nauto = true\n")
    for number in range(5):
        (repo / "a.txt").write_text(f"{number}\n")
        subprocess.run(["git", "-c", "gc.auto=0", "add", "."], cwd=repo, check=True)
        GitBranches(str(repo)).commit("message")
    assert sh(tmp_path / "tree", "show", "HEAD:lonely") == "only here"


def test_private_directory_is_removed_with_the_reader(repo: Path) -> None:
    before = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("holdfast-git-")}
    reader = GitReader(str(repo))
    assert reader.commit_id() is not None
    del reader
    after = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("holdfast-git-")}
    assert after <= before


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="everybody's directory is root's too")
def test_facts_are_read_from_files_without_a_temporary_directory(
    repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Everything else is an error with the reason."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    monkeypatch.setattr(tempfile, "tempdir", str(closed))
    assert GitReader(str(repo)).facts() == GitFacts("main", sh(repo, "rev-parse", "HEAD"), None)
    with pytest.raises(GitFailed, match="temporary"):
        GitReader(str(repo)).changes()
