"""Reading repositories with a configuration of ours: every layout git has, and the settings that still count."""

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


def everything(where: Path) -> None:
    """What a reader says of a work tree is what git says."""
    reader = GitReader(str(where))
    head = sh(where, "rev-parse", "HEAD")
    assert reader.facts()[:2] == ("main", head)
    assert reader.commit_id() == head
    assert reader.changes() == []
    (where / "a.txt").write_text("one\n2\n3\n")
    assert [change.path for change in reader.changes()] == ["a.txt"]
    assert reader.numstat("a.txt") == (2, 1)


def test_sha256_repository_is_read(tmp_path: Path) -> None:
    """The format of its objects is in a configuration that git does not see: it is handed on."""
    where = made(tmp_path / "repo", "--object-format=sha256")
    assert len(GitReader(str(where)).commit_id() or "") == 64
    everything(where)


def test_reftable_repository_is_read_or_refused(tmp_path: Path) -> None:
    """Where the installed git knows the format, all is there; where it does not, that is an error with a reason."""
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
    everything(where)


def test_linked_work_tree_is_read(repo: Path, tmp_path: Path) -> None:
    """Its index and HEAD are its own, its objects and refs the main repository's."""
    sh(repo, "switch", "-q", "-c", "side")
    sh(repo, "worktree", "add", "-q", "../tree", "main")
    everything(tmp_path / "tree")


def test_submodule_is_read(repo: Path, tmp_path: Path) -> None:
    """Its git directory lies in another repository's."""
    library = made(tmp_path / "library")
    sh(repo, "submodule", "add", "-q", str(library), "lib")
    everything(repo / "lib")


def test_separate_git_directory_is_read(tmp_path: Path) -> None:
    """`.git` is a file that leads there."""
    everything(made(tmp_path / "repo", f"--separate-git-dir={tmp_path}/elsewhere.git"))


def test_shallow_clone_is_read(repo: Path, tmp_path: Path) -> None:
    """History ends where it was cut, and that is no damage."""
    sh(repo, "commit", "-q", "--allow-empty", "-m", "second")
    sh(tmp_path, "clone", "-q", "--no-local", "--depth", "1", str(repo), "shallow")
    where = tmp_path / "shallow"
    reader = GitReader(str(where))
    assert reader.is_ancestor("HEAD", "HEAD")
    assert reader.merge_base("HEAD", "origin/main") == sh(where, "rev-parse", "HEAD")
    everything(where)


def test_clone_with_borrowed_objects_is_read(repo: Path, tmp_path: Path) -> None:
    """Objects that another repository lends are found."""
    sh(tmp_path, "clone", "-q", "--shared", str(repo), "borrower")
    everything(tmp_path / "borrower")


def test_packed_refs_split_index_and_sparse_checkout_are_read(repo: Path) -> None:
    """Layouts that tools choose for large repositories."""
    sh(repo, "pack-refs", "--all")
    sh(repo, "gc", "-q")
    sh(repo, "update-index", "--split-index")
    everything(repo)
    sh(repo, "checkout", "-q", "--", ".")
    (repo / "sub").mkdir()
    (repo / "sub/b").write_text("b\n")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "b")
    sh(repo, "sparse-checkout", "set", "--no-cone", "/a.txt")
    assert not (repo / "sub/b").exists()
    assert GitReader(str(repo)).changes() == []


def test_bare_repository_has_no_work_tree(repo: Path, tmp_path: Path) -> None:
    """Facts are there; what needs files is an error and no crash."""
    sh(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    reader = GitReader(str(tmp_path / "bare.git"))
    assert (reader.has_work_tree(), reader.facts().branch) == (False, "main")
    with pytest.raises(HoldfastError):
        reader.changes()
    assert GitReader(str(repo)).has_work_tree()
    sh(repo, "config", "core.bare", "true")
    assert not GitReader(str(repo)).has_work_tree()


def test_ignored_files_are_ignored_wherever_the_rule_is_written(repo: Path, settings: Path, tmp_path: Path) -> None:
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
def test_line_ends_are_compared_as_they_are_set(repo: Path, settings: Path, whose: str) -> None:
    """With `core.autocrlf`, line ends of Windows in the work tree are no change."""
    where = settings if whose == "person" else repo / ".git/config"
    with where.open("a") as file:
        file.write("[core]\nautocrlf = true\n")
    (repo / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert GitReader(str(repo)).numstat("a.txt") == (0, 0)
    (repo / "a.txt").write_bytes(b"one\r\n2\r\n")
    assert GitReader(str(repo)).numstat("a.txt") == (1, 1)


def test_person_has_a_filter_that_only_changes_use(repo: Path, settings: Path, tmp_path: Path) -> None:
    """Reading runs nothing of the person's either; what they ask git to do is done with it."""
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
    """Who commits is often set for one repository: that names no program."""
    sh(repo, "config", "user.email", "work@example.org")
    (repo / "a.txt").write_text("x\n")
    sh(repo, "add", ".")
    GitBranches(str(repo)).commit("message")
    assert sh(repo, "log", "-1", "--format=%an %ae") == "A work@example.org"


def test_commit_has_the_identity_that_is_included_by_the_remotes_address(
    repo: Path, settings: Path, tmp_path: Path
) -> None:
    """A person's conditions on a repository's place and remotes hold."""
    (tmp_path / "work").write_text("[user]\nemail = byremote@example.org\n")
    with settings.open("a") as file:
        file.write(f'[includeIf "hasconfig:remote.*.url:https://work.example.org/**"]\npath = {tmp_path}/work\n')
    sh(repo, "remote", "add", "origin", "https://work.example.org/o/r.git")
    (repo / "a.txt").write_text("x\n")
    sh(repo, "add", ".")
    GitBranches(str(repo)).commit("message")
    assert sh(repo, "log", "-1", "--format=%ae") == sh(repo, "config", "user.email") == "byremote@example.org"


def test_deleted_branch_leaves_no_settings_behind(repo: Path) -> None:
    """What it followed is taken out of the repository's own configuration, as git does."""
    sh(repo, "branch", "side")
    sh(repo, "config", "branch.side.remote", ".")
    sh(repo, "config", "branch.side.merge", "refs/heads/main")
    assert GitReader(str(repo)).upstream("side") == "refs/heads/main"
    GitBranches(str(repo)).delete_branch("side")
    assert "side" not in (repo / ".git/config").read_text()


def test_objects_of_other_work_trees_outlive_a_commit(repo: Path, tmp_path: Path, settings: Path) -> None:
    """No clean-up runs: it would see no other work trees, and delete what only they name."""
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
    """Nothing is left in the directory for temporary files."""
    before = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("holdfast-git-")}
    reader = GitReader(str(repo))
    assert reader.commit_id() is not None
    del reader
    after = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("holdfast-git-")}
    assert after <= before


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="everybody's directory is root's too")
def test_facts_without_a_temporary_directory(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What files tell is there; the rest is an error that says why."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    monkeypatch.setattr(tempfile, "tempdir", str(closed))
    assert GitReader(str(repo)).facts() == GitFacts("main", sh(repo, "rev-parse", "HEAD"), None)
    with pytest.raises(GitFailed, match="temporary"):
        GitReader(str(repo)).changes()
