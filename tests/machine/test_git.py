"""Git as a program: real repositories, awkward names, hostile settings, and no git at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.machine.git.branches import GitBranches, GitFacts, is_under
from holdfast.machine.git.config import normalise_remote
from holdfast.machine.git.program import GitFailed, GitMissing, GitSlow

AWKWARD = ["with space", "новый файл", "-dash", "star*", "[x]", ":(top)magic", "quote\"'", "tab\there", "new\nline"]
needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="hooks as sh scripts")


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


def empty(where: Path) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    sh(where, "init", "-q")
    return where


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    where = empty(tmp_path / "repo")
    (where / "a.txt").write_text("one\ntwo\n")
    sh(where, "add", ".")
    sh(where, "commit", "-q", "-m", "first")
    return where


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def hook(settings: Path, name: str, body: str) -> None:
    """Installs a hook of the person's own, which runs in all their repositories."""
    path = script(settings.parent / "hooks" / name, body)
    with settings.open("a") as file:
        file.write(f"[core]\nhooksPath = {path.parent}\n")


# Facts


def test_facts_have_branch_commit_and_remote(repo: Path) -> None:
    sh(repo, "remote", "add", "origin", "https://me:secret@GitHub.com/o/r.git")
    assert GitBranches(str(repo)).facts() == GitFacts("main", sh(repo, "rev-parse", "HEAD"), "github.com/o/r")


def test_facts_lack_the_branch_when_detached_and_the_commit_when_unborn(repo: Path, tmp_path: Path) -> None:
    """Without a repository there are none."""
    sh(repo, "switch", "-q", "--detach")
    assert GitBranches(str(repo)).facts() == GitFacts(None, sh(repo, "rev-parse", "HEAD"), None)
    assert GitBranches(str(empty(tmp_path / "new"))).facts() == GitFacts("main", None, None)
    (tmp_path / "plain").mkdir()
    assert GitBranches(str(tmp_path / "plain")).facts() == GitFacts(None, None, None)


def test_remote_prefers_origin_and_expands_abbreviations(repo: Path) -> None:
    """The person's own abbreviations are resolved first."""
    sh(repo, "config", "url.git@github.com:.insteadOf", "gh:")
    sh(repo, "remote", "add", "fork", "gh:me/fork")
    assert GitBranches(str(repo)).remote() == "github.com/me/fork"
    sh(repo, "remote", "add", "origin", "gh:o/r")
    assert GitBranches(str(repo)).remote() == "github.com/o/r"


def test_remote_ignores_a_mirror_that_one_device_fetches_from(repo: Path) -> None:
    sh(repo, "remote", "add", "origin", "https://github.com/o/r.git")
    sh(repo, "config", "url.https://mirror.example.org/gh/.insteadOf", "https://github.com/")
    assert GitBranches(str(repo)).remote() == "github.com/o/r"
    sh(repo, "remote", "set-url", "origin", "git@github.com:o/r.git")
    sh(repo, "config", "url.ssh://git@ssh.github.com:443/.insteadOf", "git@github.com:")
    assert GitBranches(str(repo)).remote() == "github.com/o/r"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/o/r.git", "github.com/o/r"),
        ("https://me:secret@GitHub.com/o/r", "github.com/o/r"),
        ("https://tok@en@github.com:443/o/r.git/", "github.com/o/r"),
        ("https://me:se/cr@et@github.com/o/r", "github.com/o/r"),
        ("https://github.com/o/r.git?token=secret#secret", "github.com/o/r"),
        ("git@github.com:o/r.git", "github.com/o/r"),
        ("GitHub.com:/o/r", "github.com/o/r"),
        ("me:secret@github.com:o/r", "github.com/o/r"),
        ("[git@github.com:22]:o/r.git", "github.com/o/r"),
        ("[git@host:2222]:o/r.git", "host:2222/o/r"),
        ("https://[::1]/o/r", "[::1]/o/r"),
        ("git@[::1]:o/r", "[::1]/o/r"),
        ("ssh://git@github.com:22/o/r.git", "github.com/o/r"),
        ("git+ssh://git@github.com/o/r.git", "github.com/o/r"),
        ("ssh://git@host:2222/o/r", "host:2222/o/r"),
        ("git://github.com/o/r", "github.com/o/r"),
        ("https://host", "host"),
        ("codecommit::eu-west-1://profile@repo", "repo"),
        ("ext::sh -c secret", ""),
        ("/srv/git/r.git", "/srv/git/r"),
        ("file:///srv/git/r.git", "/srv/git/r"),
        ("../r.git", "../r"),
        ("./odd:name", "./odd:name"),
        ("C:\\work\\r", "C:\\work\\r"),
        ("", ""),
    ],
)
def test_normalized_remote_is_one_address_without_secrets(url: str, expected: str) -> None:
    """However the URL is written."""
    assert normalise_remote(url) == expected
    assert "secret" not in normalise_remote(url)


def test_root_commits_are_equal_in_a_clone_and_unknown_in_a_shallow_one(repo: Path, tmp_path: Path) -> None:
    root = sh(repo, "rev-parse", "HEAD")
    sh(repo, "commit", "-q", "--allow-empty", "-m", "second")
    sh(tmp_path, "clone", "-q", "--no-local", "--depth", "1", str(repo), "shallow")
    assert GitBranches(str(repo)).root_commits() == [root]
    assert GitBranches(str(tmp_path / "shallow")).root_commits() == []
    assert GitBranches(str(empty(tmp_path / "new"))).root_commits() == []
    assert GitBranches(str(repo)).root_commits(timeout=0) == []


# Uncommitted changes


def test_clean_tree_has_no_uncommitted_changes(repo: Path) -> None:
    """Ignored files do not count."""
    (repo / ".gitignore").write_text("*.log\n")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "ignore")
    (repo / "x.log").write_text("noise")
    assert GitBranches(str(repo)).dirty() == []


def test_every_kind_of_uncommitted_change_is_listed(repo: Path) -> None:
    """Modified, staged, deleted, renamed, untracked and with another type."""
    for name in ("modified", "staged", "deleted", "old", "type"):
        (repo / name).write_text(name * 20)
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "files")
    (repo / "modified").write_text("x")
    (repo / "staged").write_text("x")
    sh(repo, "add", "staged")
    (repo / "deleted").unlink()
    sh(repo, "mv", "old", "new")
    (repo / "type").unlink()
    (repo / "type").symlink_to("a.txt")
    (repo / "dir").mkdir()
    (repo / "dir" / "untracked").write_text("x")
    dirty = GitBranches(str(repo)).dirty()
    assert sorted(dirty) == ["deleted", "dir/untracked", "modified", "new", "old", "staged", "type"]


def test_unmerged_files_count_even_when_ignored(repo: Path) -> None:
    sh(repo, "switch", "-q", "-c", "side")
    (repo / "a.txt").write_text("side\n")
    sh(repo, "commit", "-q", "-a", "-m", "side")
    sh(repo, "switch", "-q", "main")
    (repo / "a.txt").write_text("main\n")
    sh(repo, "commit", "-q", "-a", "-m", "main")
    subprocess.run(["git", "merge", "-q", "side"], cwd=repo, check=False, capture_output=True)
    assert GitBranches(str(repo)).dirty(["a.txt"]) == ["a.txt"]
    assert GitBranches(str(repo)).in_progress() == "merge"


@pytest.mark.skipif(sys.platform == "win32", reason="names Windows does not have")
def test_uncommitted_changes_have_exact_names(repo: Path) -> None:
    """With spaces, line breaks, dashes and patterns, tracked and untracked."""
    for name in AWKWARD:
        (repo / name).write_text("x")
    git = GitBranches(str(repo))
    assert sorted(git.dirty()) == sorted(AWKWARD)
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "awkward")
    assert git.dirty() == []
    for name in AWKWARD:
        (repo / name).write_text("changed")
    assert sorted(git.dirty()) == sorted(AWKWARD)


@pytest.mark.skipif(sys.platform != "linux", reason="only here names are bytes")
def test_uncommitted_changes_keep_names_outside_utf8(repo: Path) -> None:
    (repo / os.fsdecode(b"caf\xe9")).write_text("x")
    assert GitBranches(str(repo)).dirty() == [os.fsdecode(b"caf\xe9")]


def test_files_under_ignore_do_not_count(repo: Path) -> None:
    """Names that only begin alike do."""
    for name in (".claude/session-state.json", ".claude/other.json", ".ai-session/f/plan.md", ".ai-session2/x"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("x")
    dirty = GitBranches(str(repo)).dirty(["./.claude/session-state.json", ".ai-session/", ""])
    assert sorted(dirty) == [".ai-session2/x", ".claude/other.json"]
    assert not is_under("a", [""])


def test_dirty_submodule_counts(repo: Path, tmp_path: Path) -> None:
    """Whatever its settings say about ignoring changes."""
    library = empty(tmp_path / "library")
    (library / "f").write_text("x")
    sh(library, "add", ".")
    sh(library, "commit", "-q", "-m", "lib")
    sh(repo, "submodule", "add", "-q", str(library), "lib")
    sh(repo, "config", "-f", ".gitmodules", "submodule.lib.ignore", "all")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "sub")
    git = GitBranches(str(repo))
    assert git.dirty() == []
    (repo / "lib" / "new").write_text("x")
    assert git.dirty() == ["lib"]


def test_reading_runs_no_program_configured_in_the_repository(repo: Path, tmp_path: Path) -> None:
    trap = script(tmp_path / "trap", f"touch {tmp_path}/sprung")
    sh(repo, "config", "core.fsmonitor", str(trap))
    sh(repo, "config", "diff.external", str(trap))
    git = GitBranches(str(repo))
    (repo / "a.txt").write_text("changed\n")
    git.dirty()
    git.facts()
    git.numstat("a.txt")
    assert not (tmp_path / "sprung").exists()


# Branches


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("session/20260102-auth-login", True),
        ("-x", False),
        ("a..b", False),
        ("a b", False),
        ("HEAD", False),
        ("@{-1}", False),
        ("x.lock", False),
        ("", False),
        ("nul\0", False),
        ("ünïcode", True),
    ],
)
def test_branch_name_is_valid_when_git_accepts_it(repo: Path, name: str, valid: bool) -> None:
    assert GitBranches(str(repo)).valid_branch_name(name) is valid


def test_create_branch_keeps_tree_and_index(repo: Path) -> None:
    (repo / "a.txt").write_text("staged\n")
    sh(repo, "add", ".")
    (repo / "a.txt").write_text("loose\n")
    (repo / "new").write_text("x")
    before = sh(repo, "status", "--porcelain=v2")
    GitBranches(str(repo)).create_branch("session/x")
    assert sh(repo, "symbolic-ref", "--short", "HEAD") == "session/x"
    assert sh(repo, "status", "--porcelain=v2") == before


def test_create_branch_before_the_first_commit(tmp_path: Path) -> None:
    """The unborn branch is left for the new one."""
    where = empty(tmp_path / "new")
    (where / "f").write_text("x")
    sh(where, "add", "f")
    GitBranches(str(where)).create_branch("session/x")
    assert GitBranches(str(where)).branch() == "session/x"
    assert sh(where, "ls-files") == "f"


@needs_sh
def test_switch_succeeds_when_the_post_checkout_hook_fails_or_hangs(repo: Path, settings: Path) -> None:
    """It runs after the switch."""
    hook(settings, "post-checkout", "exit 3")
    GitBranches(str(repo)).create_branch("one")
    hook(settings, "post-checkout", "sleep 60")
    GitBranches(str(repo), patience=0.5).switch("main")
    assert GitBranches(str(repo)).branch() == "main"


def test_switch_is_refused_when_files_would_be_overwritten(repo: Path) -> None:
    """Changed files, and ignored ones, which git alone would overwrite."""
    git = GitBranches(str(repo))
    git.create_branch("side")
    (repo / ".env").write_text("tracked")
    sh(repo, "add", "-f", ".env")
    sh(repo, "commit", "-q", "-m", "env")
    git.switch("main")
    (repo / ".gitignore").write_text(".env\n")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "ignore")
    (repo / ".env").write_text("SECRET")
    with pytest.raises(GitFailed) as caught:
        git.switch("side")
    assert ".env" in (caught.value.hint or "")
    assert (repo / ".env").read_text() == "SECRET"
    assert git.branch() == "main"


def test_delete_branch_is_refused_when_the_branch_has_moved(repo: Path) -> None:
    git = GitBranches(str(repo))
    sh(repo, "branch", "side")
    with pytest.raises(Conflict):
        git.delete_branch("side", expect="0" * 40)
    assert git.branch_exists("side")
    git.delete_branch("side", expect=git.commit_id())
    assert not git.branch_exists("side")
    with pytest.raises(Invalid):
        git.delete_branch("--all")


def test_checked_out_elsewhere_names_the_other_work_tree(repo: Path, tmp_path: Path) -> None:
    """Not this one, nor a link to it."""
    sh(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    assert GitBranches(str(repo)).checked_out_elsewhere("side") == str(tmp_path / "tree")
    assert GitBranches(str(repo)).checked_out_elsewhere("main") is None
    (tmp_path / "link").symlink_to(repo)
    assert GitBranches(str(tmp_path / "link")).checked_out_elsewhere("main") is None
    assert GitBranches(str(repo)).checked_out_elsewhere("absent") is None


@pytest.mark.parametrize("kind", ["rebase", "cherry-pick", "revert", "bisect"])
def test_operation_in_progress_is_detected(repo: Path, kind: str) -> None:
    base = sh(repo, "rev-parse", "HEAD")
    sh(repo, "switch", "-q", "-c", "side")
    (repo / "a.txt").write_text("side\n")
    sh(repo, "commit", "-q", "-a", "-m", "side")
    sh(repo, "switch", "-q", "main")
    for text in ("main\n", "more\n"):
        (repo / "a.txt").write_text(text)
        sh(repo, "commit", "-q", "-a", "-m", text)
    assert GitBranches(str(repo)).in_progress() is None
    command = {
        "rebase": ["rebase", "side"],
        "cherry-pick": ["cherry-pick", "side"],
        "revert": ["revert", "--no-edit", "HEAD~1"],
        "bisect": ["bisect", "start", "HEAD", base],
    }[kind]
    subprocess.run(["git", *command], cwd=repo, check=False, capture_output=True)
    assert GitBranches(str(repo)).in_progress() == kind


def test_operation_in_another_work_tree_does_not_count(repo: Path, tmp_path: Path) -> None:
    sh(repo, "worktree", "add", "-q", "../tree")
    sh(repo, "bisect", "start")
    assert GitBranches(str(repo)).in_progress() == "bisect"
    assert GitBranches(str(tmp_path / "tree")).in_progress() is None


# Lines


def test_numstat_counts_added_and_removed_lines(repo: Path, tmp_path: Path) -> None:
    """Of changed, new, deleted, unchanged, binary and missing files."""
    git = GitBranches(str(repo))
    assert git.numstat("a.txt") == (0, 0)
    (repo / "a.txt").write_text("one\n2\n3\n")
    assert git.numstat("a.txt") == (2, 1)
    assert git.numstat(str(repo / "a.txt")) == (2, 1)
    (repo / "new").write_text("1\n2\n3\n")
    assert git.numstat("new") == (3, 0)
    (repo / "empty").write_text("")
    assert git.numstat("empty") == (0, 0)
    (repo / "bin").write_bytes(b"\0\1\2")
    assert git.numstat("bin") is None
    assert git.numstat("absent") is None
    assert git.numstat(".") is None
    assert git.numstat(str(tmp_path / "outside")) is None
    (repo / "a.txt").unlink()
    assert git.numstat("a.txt") == (0, 2)
    new = empty(tmp_path / "unborn")
    (new / "f").write_text("x\n")
    assert GitBranches(str(new)).numstat("f") == (1, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="names Windows does not have")
def test_numstat_takes_names_literally(repo: Path) -> None:
    """Also names that look like options or patterns."""
    git = GitBranches(str(repo))
    for name in AWKWARD:
        (repo / name).write_text("1\n")
        assert git.numstat(name) == (1, 0)
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "awkward")
    for name in AWKWARD:
        (repo / name).write_text("1\n2\n")
        assert git.numstat(name) == (1, 0)


# Moving files away


def test_files_set_aside_are_put_back_exactly(repo: Path) -> None:
    """Except where somebody wrote meanwhile."""
    git = GitBranches(str(repo))
    (repo / "b.txt").write_text("b\n")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "b")
    (repo / "a.txt").write_text("mine\n")
    (repo / "b.txt").write_text("mine too\n")
    git.set_aside("aside/session/x", ["a.txt", "b.txt"])
    assert git.dirty() == []
    (repo / "b.txt").write_text("newer\n")
    assert git.put_back("aside/session/x") == ["a.txt"]
    assert (repo / "a.txt").read_text() == "mine\n"
    assert (repo / "b.txt").read_text() == "newer\n"
    assert git.put_back("aside/session/x") == []
    assert sh(repo, "for-each-ref", "refs/worktree") == ""
    assert not (repo / ".git/holdfast-aside.index").exists()


# The process


def test_missing_git_is_a_typed_error(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissing) as caught:
        GitBranches(str(repo)).changes()
    assert "Install git" in (caught.value.hint or "")
    assert caught.value.exit_code == 1
    assert GitBranches(str(repo)).facts().branch == "main"  # which is read from files


@needs_sh
def test_git_in_the_working_directory_is_not_run(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative PATH entries are skipped, since they could lead into an unpacked archive."""
    script(repo / "git", "touch sprung")
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    assert GitBranches(str(repo)).branch() == "main"
    assert not (repo / "sprung").exists()


def test_missing_work_tree_raises_not_found(tmp_path: Path) -> None:
    """After it was removed."""
    with pytest.raises(NotFound):
        GitBranches(str(tmp_path / "absent")).branch()


def test_variables_of_another_repositorys_hook_are_ignored(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = empty(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    assert GitBranches(str(repo)).commit_id() is not None


def test_damaged_repository_is_an_error(repo: Path) -> None:
    """It is not taken for a detached HEAD or an unborn branch."""
    (repo / ".git/config").write_text("[broken")
    with pytest.raises(GitFailed) as caught:
        GitBranches(str(repo)).facts()
    assert "config" in (caught.value.hint or "")


@needs_sh
def test_refused_commit_reports_the_hooks_message(repo: Path, settings: Path) -> None:
    """And changes nothing."""
    hook(settings, "pre-commit", "echo 'tests are red' >&2; exit 1")
    (repo / "a.txt").write_text("x")
    sh(repo, "add", ".")
    before = sh(repo, "rev-parse", "HEAD")
    with pytest.raises(GitFailed) as caught:
        GitBranches(str(repo)).commit("message")
    assert caught.value.hint == "tests are red"
    assert sh(repo, "rev-parse", "HEAD") == before


@needs_sh
def test_hanging_signing_program_is_stopped(repo: Path, settings: Path, tmp_path: Path) -> None:
    """With the processes it started."""
    signer = script(tmp_path / "signer", "sleep 60 & sleep 60")
    with settings.open("a") as file:
        file.write(f"[commit]\ngpgSign = true\n[gpg]\nprogram = {signer}\n")
    (repo / "a.txt").write_text("x")
    sh(repo, "add", ".")
    with pytest.raises(GitSlow) as caught:
        GitBranches(str(repo), patience=0.5).commit("message")
    assert "signing" in (caught.value.hint or "")
    assert not (repo / ".git/index.lock").exists()


@needs_sh
def test_commit_succeeds_when_the_post_commit_hook_hangs(repo: Path, settings: Path) -> None:
    hook(settings, "post-commit", "sleep 60")
    (repo / "a.txt").write_text("x")
    sh(repo, "add", ".")
    assert GitBranches(str(repo), patience=0.5).commit("# kept as written\n\nSession: x") == sh(
        repo, "rev-parse", "HEAD"
    )
    assert sh(repo, "log", "-1", "--format=%B") == "# kept as written\n\nSession: x"


def test_squash_merge_works_with_any_settings(repo: Path, settings: Path) -> None:
    """About fast-forwards and stashes."""
    git = GitBranches(str(repo))
    git.create_branch("side")
    (repo / "b").write_text("b")
    sh(repo, "add", ".")
    sh(repo, "commit", "-q", "-m", "b")
    git.switch("main")
    with settings.open("a") as file:
        file.write("[merge]\nff = false\nautoStash = true\n[rerere]\nenabled = true\nautoUpdate = true\n")
    assert git.squash_merge(git.tip("side") or "") == []
    assert git.staged()
    assert git.undo_merge() is None
    assert not git.staged()
    assert not (repo / ".git/SQUASH_MSG").exists()


@needs_sh
def test_background_program_of_a_hook_is_not_waited_for(repo: Path, settings: Path) -> None:
    """Nor ended."""
    hook(settings, "post-checkout", "sleep 20 & echo $! > .git/left")
    GitBranches(str(repo), patience=10).create_branch("side")
    pid = int((repo / ".git/left").read_text())
    os.kill(pid, 0)
    os.kill(pid, 9)
