"""A session's branch from opening to ending, with real git, interrupted at every step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Failed, Invalid, NotFound, Refused
from holdfast.machine.git.branches import GitBranches
from holdfast.machine.git.program import GitFailed, GitMissing, GitSlow
from holdfast.sessions.branches import DiscardedBranch, KeptBranch, OpenedBranch, discard, keep, open_branch

BRANCH = "session/20260102-auth-login"
MESSAGE = "Add login\n\nSession: 20260102 09:00-10:00 (50 min actual, 10 min paused)"
MIRROR = ".ai-session/login-2026-01-02/history.jsonl"
needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="hooks as sh scripts")


@pytest.fixture(autouse=True)
def settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path_factory.mktemp("home") / "gitconfig"
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


def write(where: Path, name: str, text: str) -> None:
    (where / name).parent.mkdir(parents=True, exist_ok=True)
    (where / name).write_text(text)


def commit(where: Path, name: str, text: str) -> str:
    write(where, name, text)
    sh(where, "add", "-f", "--", name)
    sh(where, "commit", "-q", "--no-verify", "--no-gpg-sign", "-m", f"change {name}")
    return sh(where, "rev-parse", "HEAD")


def hook(settings: Path, name: str, body: str) -> Path:
    """Installs a hook of the person's own, which runs in all their repositories."""
    path = settings.parent / "hooks" / name
    write(settings.parent, f"hooks/{name}", f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    with settings.open("a") as file:
        file.write(f"[core]\nhooksPath = {path.parent}\n")
    return path


def branches(where: Path) -> list[str]:
    return sh(where, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/worktree").split()


def on(where: Path) -> str:
    return sh(where, "symbolic-ref", "--short", "HEAD")


@pytest.fixture
def unborn(tmp_path: Path) -> Path:
    where = tmp_path / "repo"
    where.mkdir()
    sh(where, "init", "-q")
    return where


@pytest.fixture
def repo(unborn: Path) -> Path:
    commit(unborn, "a.txt", "one\n")
    return unborn


@pytest.fixture
def session(repo: Path) -> Path:
    """A repository with a session branch that is two commits ahead."""
    open_branch(GitBranches(str(repo)), BRANCH)
    commit(repo, "b.txt", "b\n")
    commit(repo, "a.txt", "one\ntwo\n")
    return repo


# Opening


def test_open_keeps_uncommitted_changes(repo: Path) -> None:
    """And records where the session came from."""
    write(repo, "a.txt", "changed\n")
    write(repo, "new.txt", "new\n")
    head = sh(repo, "rev-parse", "HEAD")
    assert open_branch(GitBranches(str(repo)), BRANCH) == OpenedBranch(BRANCH, "main", head)
    assert (repo / "a.txt").read_text() == "changed\n"
    assert sh(repo, "status", "--porcelain") == "M a.txt\n?? new.txt"


def test_open_from_a_detached_head_records_the_commit(repo: Path) -> None:
    """There is no branch to return to."""
    sh(repo, "switch", "-q", "--detach")
    assert open_branch(GitBranches(str(repo)), BRANCH) == OpenedBranch(BRANCH, None, sh(repo, "rev-parse", "HEAD"))


def test_open_before_the_first_commit_records_the_unborn_branch(unborn: Path) -> None:
    write(unborn, "f", "x")
    sh(unborn, "add", "f")
    assert open_branch(GitBranches(str(unborn)), BRANCH) == OpenedBranch(BRANCH, "main", None)
    assert sh(unborn, "ls-files") == "f"


def test_open_is_refused_without_a_repository(tmp_path: Path) -> None:
    """Or in a bare one; the hint says what to do."""
    with pytest.raises(Refused) as caught:
        open_branch(GitBranches(str(tmp_path)), BRANCH)
    assert "git init" in (caught.value.hint or "")
    sh(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(Refused, match="bare"):
        open_branch(GitBranches(str(tmp_path / "bare")), BRANCH)


def test_open_reports_a_missing_git_program(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissing):
        open_branch(GitBranches(str(repo)), BRANCH)


@pytest.mark.parametrize("taken", [BRANCH, "session"])
def test_open_fails_with_a_conflict_when_the_name_is_taken(repo: Path, taken: str) -> None:
    """Also when another branch's name is in its way; nothing changes."""
    sh(repo, "branch", taken)
    with pytest.raises(Conflict, match=taken) as caught:
        open_branch(GitBranches(str(repo)), BRANCH)
    assert caught.value.exit_code == 5
    assert on(repo) == "main"


def test_open_fails_with_a_conflict_when_the_name_is_an_unborn_branch(unborn: Path) -> None:
    open_branch(GitBranches(str(unborn)), BRANCH)
    with pytest.raises(Conflict):
        open_branch(GitBranches(str(unborn)), BRANCH)


def test_open_refuses_a_name_that_git_does_not_accept(repo: Path) -> None:
    with pytest.raises(Invalid):
        open_branch(GitBranches(str(repo)), "session/a..b")


def test_branch_is_left_alone_during_another_git_operation(session: Path) -> None:
    """During a bisect neither opening nor ending is possible."""
    git = GitBranches(str(session))
    sh(session, "bisect", "start")
    for action in (
        lambda: open_branch(git, "session/other"),
        lambda: keep(git, BRANCH, "main", MESSAGE),
        lambda: discard(git, BRANCH, "main"),
    ):
        with pytest.raises(Refused, match="bisect"):
            action()
    assert branches(session) == ["main", BRANCH]


def test_open_and_keep_in_a_linked_work_tree_leave_the_main_one_unchanged(repo: Path, tmp_path: Path) -> None:
    sh(repo, "worktree", "add", "-q", "-b", "side", "../tree")
    git = GitBranches(str(tmp_path / "tree"))
    assert open_branch(git, BRANCH).came_from == "side"
    commit(tmp_path / "tree", "b.txt", "b\n")
    keep(git, BRANCH, "side", MESSAGE)
    assert on(tmp_path / "tree") == "side"
    assert on(repo) == "main"


# Keeping


def test_keep_makes_one_commit_on_the_original_branch(session: Path) -> None:
    """The session branch is deleted."""
    old, tip = sh(session, "rev-parse", "main"), sh(session, "rev-parse", "HEAD")
    write(session, "b.log", "ignored")
    write(session, ".git/info/exclude", "*.log\n")
    kept = keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert kept == KeptBranch(sh(session, "rev-parse", "main"), tip)
    assert sh(session, "rev-parse", "main^@") == old
    assert sh(session, "rev-parse", "main^{tree}") == sh(session, "rev-parse", f"{tip}^{{tree}}")
    assert sh(session, "log", "-1", "--format=%B") == MESSAGE
    assert (on(session), branches(session)) == ("main", ["main"])
    assert (session / "b.log").read_text() == "ignored"
    assert sh(session, "status", "--porcelain") == ""


def test_keep_adds_its_commit_after_newer_work_on_the_original_branch(session: Path) -> None:
    sh(session, "switch", "-q", "main")
    other = commit(session, "c.txt", "c\n")
    sh(session, "switch", "-q", BRANCH)
    keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert sh(session, "rev-parse", "main~1") == other
    assert sh(session, "ls-files").split() == ["a.txt", "b.txt", "c.txt"]


def test_keep_without_commits_makes_no_commit(repo: Path) -> None:
    """It returns and deletes the branch."""
    head = sh(repo, "rev-parse", "HEAD")
    open_branch(GitBranches(str(repo)), BRANCH)
    assert keep(GitBranches(str(repo)), BRANCH, "main", MESSAGE) == KeptBranch(None, head)
    assert (on(repo), branches(repo), sh(repo, "rev-parse", "HEAD")) == ("main", ["main"], head)


def test_keep_of_commits_that_cancel_out_makes_no_commit(repo: Path) -> None:
    """And leaves no prepared message behind."""
    open_branch(GitBranches(str(repo)), BRANCH)
    commit(repo, "a.txt", "two\n")
    commit(repo, "a.txt", "one\n")
    assert keep(GitBranches(str(repo)), BRANCH, "main", MESSAGE).commit is None
    assert not (repo / ".git/SQUASH_MSG").exists()
    assert branches(repo) == ["main"]


@pytest.mark.parametrize("kind", ["modified", "staged", "untracked", "renamed", "deleted"])
@pytest.mark.parametrize("end", ["keep", "discard"])
def test_keep_and_discard_are_refused_with_uncommitted_changes(session: Path, kind: str, end: str) -> None:
    """They are named and left as they are."""
    if kind == "untracked":
        write(session, "new file", "x")
    elif kind == "renamed":
        sh(session, "mv", "a.txt", "z.txt")
    elif kind == "deleted":
        (session / "a.txt").unlink()
    else:
        write(session, "a.txt", "changed\n")
    if kind == "staged":
        sh(session, "add", ".")
    before = sh(session, "status", "--porcelain=v2")
    git = GitBranches(str(session))
    with pytest.raises(Refused, match=r"new file|a\.txt"):
        keep(git, BRANCH, "main", MESSAGE) if end == "keep" else discard(git, BRANCH, "main")
    assert sh(session, "status", "--porcelain=v2") == before
    assert (on(session), branches(session)) == (BRANCH, ["main", BRANCH])


def test_refusal_lists_five_uncommitted_files_and_a_count(session: Path) -> None:
    """A line break in a name does not break the sentence."""
    for n in range(6):
        write(session, f"{n}\nx", "")
    with pytest.raises(Refused) as caught:
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert "and 1 more" in caught.value.message
    assert "\n" not in caught.value.message
    assert "git stash -u" in (caught.value.hint or "")


def test_keep_is_refused_on_another_branch(session: Path) -> None:
    """Or with a detached HEAD; nothing changes."""
    sh(session, "switch", "-q", "-c", "third")
    for args in ([], ["switch", "-q", "--detach"]):
        if args:
            sh(session, *args)
        with pytest.raises(Refused, match="not on the session's branch") as caught:
            keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
        assert f"git switch {BRANCH}" in (caught.value.hint or "")
        with pytest.raises(Refused):
            discard(GitBranches(str(session)), BRANCH, "main")


def test_keep_is_refused_after_a_detached_start(session: Path) -> None:
    """The hint says how to merge by hand."""
    with pytest.raises(Refused) as caught:
        keep(GitBranches(str(session)), BRANCH, None, MESSAGE)
    assert "git merge --squash" in (caught.value.hint or "")
    assert branches(session) == ["main", BRANCH]


def test_keep_is_refused_when_the_original_branch_was_deleted(session: Path) -> None:
    """The branch is not created again."""
    sh(session, "branch", "-q", "-D", "main")
    with pytest.raises(Refused, match=r"main, from which .* was created, no longer exists"):
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    with pytest.raises(Refused, match="no longer exists"):
        discard(GitBranches(str(session)), BRANCH, "main")
    assert on(session) == BRANCH


def test_keep_is_refused_when_the_original_branch_is_checked_out_elsewhere(session: Path, tmp_path: Path) -> None:
    """The branch of another work tree must not change."""
    sh(session, "worktree", "add", "-q", "../tree", "main")
    with pytest.raises(Refused, match="tree"):
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    with pytest.raises(Refused, match="tree"):
        discard(GitBranches(str(session)), BRANCH, "main")
    assert on(session) == BRANCH


def test_ending_is_refused_when_another_work_tree_has_the_session_branch(session: Path, tmp_path: Path) -> None:
    """The session is ended in that work tree."""
    sh(session, "switch", "-q", "main")
    sh(session, "worktree", "add", "-q", "../tree", BRANCH)
    with pytest.raises(Refused, match="is checked out in"):
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert sh(session, "log", "--format=%s", "main") == "change a.txt"


def test_keep_is_undone_on_a_merge_conflict(session: Path) -> None:
    """Both branches are unchanged, and the files are named."""
    tip = sh(session, "rev-parse", "HEAD")
    sh(session, "switch", "-q", "main")
    old = commit(session, "a.txt", "other\n")
    sh(session, "switch", "-q", BRANCH)
    with pytest.raises(Conflict, match=r"a\.txt") as caught:
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert "git merge main" in (caught.value.hint or "")
    assert (on(session), sh(session, "rev-parse", "HEAD"), sh(session, "rev-parse", "main")) == (BRANCH, tip, old)
    assert sh(session, "status", "--porcelain") == ""
    assert not (session / ".git/SQUASH_MSG").exists()
    # and the hint's commands work
    subprocess.run(["git", "merge", "-q", "main"], cwd=session, check=False, capture_output=True)
    commit(session, "a.txt", "both\n")
    assert keep(GitBranches(str(session)), BRANCH, "main", MESSAGE).commit is not None
    assert (session / "a.txt").read_text() == "both\n"


def test_keep_is_undone_on_a_conflict_of_file_and_directory(session: Path) -> None:
    """The files that git moves aside are removed."""
    commit(session, "x", "file\n")
    sh(session, "switch", "-q", "main")
    commit(session, "x/y", "dir\n")
    sh(session, "switch", "-q", BRANCH)
    with pytest.raises(Conflict):
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert on(session) == BRANCH
    assert sh(session, "status", "--porcelain") == ""


@needs_sh
def test_keep_is_undone_when_a_hook_fails(session: Path, settings: Path) -> None:
    """The error quotes the hook."""
    tip, old = sh(session, "rev-parse", "HEAD"), sh(session, "rev-parse", "main")
    hook(settings, "pre-commit", "echo 'tests are red' >&2; exit 1")
    with pytest.raises(GitFailed) as caught:
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert "tests are red" in (caught.value.hint or "")
    assert (on(session), sh(session, "rev-parse", "HEAD"), sh(session, "rev-parse", "main")) == (BRANCH, tip, old)
    assert sh(session, "status", "--porcelain") == ""


@needs_sh
def test_keep_stashes_changes_of_a_failing_hook(session: Path, settings: Path) -> None:
    """The tree is as before."""
    hook(settings, "pre-commit", "echo formatted > b.txt; exit 1")
    with pytest.raises(GitFailed, match="commit") as caught:
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert "stash@{0}" in (caught.value.hint or "")
    assert (on(session), sh(session, "status", "--porcelain")) == (BRANCH, "")
    assert sh(session, "show", "stash@{0}:b.txt") == "formatted"


@needs_sh
def test_keep_reports_where_it_stopped_when_it_cannot_be_undone(session: Path, settings: Path) -> None:
    """And that nothing is lost."""
    path = hook(settings, "pre-commit", "touch .git/index.lock; exit 1")
    with pytest.raises(Failed, match="switching back") as caught:
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert f"git switch {BRANCH}" in (caught.value.hint or "")
    path.unlink()
    (session / ".git/index.lock").unlink(missing_ok=True)
    assert keep(GitBranches(str(session)), BRANCH, "main", MESSAGE).commit is not None


@needs_sh
def test_keep_accepts_changes_that_a_hook_stages(session: Path, settings: Path) -> None:
    hook(settings, "pre-commit", "echo formatted > b.txt; git add b.txt")
    keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert sh(session, "show", "main:b.txt") == "formatted"
    assert sh(session, "status", "--porcelain") == ""


def test_keep_is_undone_without_a_git_identity(session: Path, settings: Path) -> None:
    """The error quotes git."""
    settings.write_text("[user]\nuseConfigOnly = true\n")
    with pytest.raises(GitFailed) as caught:
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert "user.email" in (caught.value.hint or "") or "email" in (caught.value.hint or "")
    assert (on(session), sh(session, "status", "--porcelain")) == (BRANCH, "")


@needs_sh
@pytest.mark.parametrize("body", ["exit 1", "sleep 60"])
def test_keep_is_undone_when_signing_fails_or_hangs(session: Path, settings: Path, tmp_path: Path, body: str) -> None:
    """The person wants signatures: signing is neither skipped nor waited for without limit."""
    signer = tmp_path / "signer"
    signer.write_text(f"#!/bin/sh\n{body}\n")
    signer.chmod(0o755)
    with settings.open("a") as file:
        file.write(f"[commit]\ngpgSign = true\n[gpg]\nprogram = {signer}\n")
    with pytest.raises((GitFailed, GitSlow)):
        keep(GitBranches(str(session), patience=1.0), BRANCH, "main", MESSAGE)
    assert (on(session), sh(session, "status", "--porcelain")) == (BRANCH, "")


def test_keep_does_not_overwrite_a_file_that_is_now_ignored(repo: Path) -> None:
    """A file that the session stopped tracking is not replaced by its old version."""
    commit(repo, ".env", "default")
    open_branch(GitBranches(str(repo)), BRANCH)
    sh(repo, "rm", "-q", "--cached", ".env")
    commit(repo, ".gitignore", ".env\n")
    write(repo, ".env", "SECRET")
    git = GitBranches(str(repo))
    for end in (lambda: keep(git, BRANCH, "main", MESSAGE), lambda: discard(git, BRANCH, "main")):
        with pytest.raises(GitFailed) as caught:
            end()
        assert ".env" in (caught.value.hint or "")
        assert (repo / ".env").read_text() == "SECRET"
        assert (on(repo), branches(repo)) == (BRANCH, ["main", BRANCH])


def test_keep_merges_awkward_file_names(session: Path) -> None:
    """Line breaks, dashes and patterns."""
    names = ["new\nline", "-dash", "st*r", "ünï"] if sys.platform != "win32" else ["-dash", "ünï"]
    for name in names:
        commit(session, name, name)
    keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert all((session / name).read_text() == name for name in names)


def test_keep_makes_the_first_commit_when_there_was_none_at_the_start(unborn: Path) -> None:
    """On the branch that was unborn."""
    git = GitBranches(str(unborn))
    opened = open_branch(git, BRANCH)
    commit(unborn, "a", "1")
    commit(unborn, "b", "2")
    kept = keep(git, BRANCH, "main", MESSAGE, had_commits=opened.commit is not None)
    assert kept.commit == sh(unborn, "rev-parse", "main")
    assert sh(unborn, "rev-list", "--count", "main") == "1"
    assert (on(unborn), branches(unborn)) == ("main", ["main"])
    assert sh(unborn, "status", "--porcelain") == ""


@needs_sh
def test_keep_before_the_first_commit_is_undone_when_a_hook_fails(unborn: Path, settings: Path) -> None:
    git = GitBranches(str(unborn))
    open_branch(git, BRANCH)
    commit(unborn, "a", "1")
    hook(settings, "pre-commit", "exit 1")
    with pytest.raises(GitFailed):
        keep(git, BRANCH, "main", MESSAGE, had_commits=False)
    assert (on(unborn), branches(unborn), sh(unborn, "status", "--porcelain")) == (BRANCH, [BRANCH], "")


def test_ending_without_any_commit_restores_the_unborn_branch(unborn: Path) -> None:
    """Files stay."""
    git = GitBranches(str(unborn))
    open_branch(git, BRANCH)
    assert keep(git, BRANCH, "main", MESSAGE, had_commits=False) == KeptBranch(None, None)
    assert on(unborn) == "main"
    open_branch(git, BRANCH)
    write(unborn, "f", "x")
    with pytest.raises(Refused):
        keep(git, BRANCH, "main", MESSAGE, had_commits=False)
    assert discard(git, BRANCH, "main", had_commits=False) == DiscardedBranch(None)
    assert (on(unborn), (unborn / "f").read_text()) == ("main", "x")


# Mirror files


def test_untracked_mirror_files_do_not_prevent_an_ending(session: Path) -> None:
    """They are kept."""
    write(session, ".claude/session-state.json", "{}")
    keep(GitBranches(str(session)), BRANCH, "main", MESSAGE, [".claude/session-state.json"])
    assert (session / ".claude/session-state.json").read_text() == "{}"


@pytest.mark.parametrize("end", ["keep", "discard"])
@pytest.mark.parametrize("tracked_before", [True, False])
def test_tracked_mirror_files_keep_their_newest_content(repo: Path, end: str, tracked_before: bool) -> None:
    """Committed in the session and changed since."""
    if tracked_before:
        commit(repo, MIRROR, "1\n")
    git = GitBranches(str(repo))
    open_branch(git, BRANCH)
    commit(repo, MIRROR, "1\n2\n")
    commit(repo, "b.txt", "b\n")
    write(repo, MIRROR, "1\n2\n3\n")
    if end == "keep":
        keep(git, BRANCH, "main", MESSAGE, [".ai-session"])
        assert sh(repo, "show", f"main:{MIRROR}") == "1\n2"
    else:
        discard(git, BRANCH, "main", [".ai-session"])
    assert (repo / MIRROR).read_text() == "1\n2\n3\n"
    assert (on(repo), branches(repo)) == ("main", ["main"])


def test_tracked_mirror_files_keep_their_newest_content_after_a_conflict(session: Path) -> None:
    commit(session, MIRROR, "1\n")
    sh(session, "switch", "-q", "main")
    commit(session, "a.txt", "other\n")
    sh(session, "switch", "-q", BRANCH)
    write(session, MIRROR, "1\n2\n")
    with pytest.raises(Conflict):
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE, [MIRROR])
    assert (session / MIRROR).read_text() == "1\n2\n"
    assert (on(session), branches(session)) == (BRANCH, ["main", BRANCH])


# Discarding


def test_discard_deletes_the_branch_and_names_its_last_commit(session: Path) -> None:
    tip = sh(session, "rev-parse", "HEAD")
    assert discard(GitBranches(str(session)), BRANCH, "main") == DiscardedBranch(tip)
    assert (on(session), branches(session)) == ("main", ["main"])
    assert (session / "a.txt").read_text() == "one\n"
    assert not (session / "b.txt").exists()
    assert discard(GitBranches(str(session)), BRANCH, "main") == DiscardedBranch(None)


def test_discard_returns_to_the_commit_of_a_detached_start(repo: Path) -> None:
    """Also when repeated."""
    sh(repo, "switch", "-q", "--detach")
    git = GitBranches(str(repo))
    opened = open_branch(git, BRANCH)
    commit(repo, "b.txt", "b\n")
    with pytest.raises(Refused):
        discard(git, BRANCH, None)
    discard(git, BRANCH, None, commit=opened.commit)
    assert git.branch() is None
    assert git.commit_id() == opened.commit
    assert discard(git, BRANCH, None, commit=opened.commit) == DiscardedBranch(None)


def test_discard_restores_the_unborn_branch(unborn: Path) -> None:
    """Without tracked files."""
    git = GitBranches(str(unborn))
    open_branch(git, BRANCH)
    commit(unborn, "a", "1")
    discard(git, BRANCH, "main", had_commits=False)
    assert (on(unborn), branches(unborn)) == ("main", [])
    assert not (unborn / "a").exists()


# Killed in between


class Killed(BaseException):
    """Derives from BaseException, so that no handler of the product cleans up."""


class KilledGit(GitBranches):
    """A git that dies after one step and does nothing from then on."""

    def __init__(self, root: str, step: str) -> None:
        super().__init__(root)
        self.step = step
        self.dead = False

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name.startswith("_") or name in ("step", "dead", "root"):
            return value

        def mortal(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            result = value(*args, **kwargs)
            if name == self.step:
                self.dead = True
                raise Killed
            return result

        return mortal


STEPS = ["set_aside", "switch", "squash_merge", "commit", "delete_branch", "put_back"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("diverged", [False, True])
def test_keep_can_be_finished_after_being_killed_at_any_step(session: Path, step: str, diverged: bool) -> None:
    """With the same result as without interruption."""
    commit(session, MIRROR, "1\n")
    tip = sh(session, "rev-parse", "HEAD")
    if diverged:
        sh(session, "switch", "-q", "main")
        commit(session, "c.txt", "c\n")
        sh(session, "switch", "-q", BRANCH)
    old = sh(session, "rev-parse", "main")
    write(session, MIRROR, "1\n2\n")
    with pytest.raises(Killed):
        keep(KilledGit(str(session), step), BRANCH, "main", MESSAGE, [MIRROR])
    kept = keep(GitBranches(str(session)), BRANCH, "main", MESSAGE, [MIRROR])
    assert kept.commit == sh(session, "rev-parse", "main")
    assert kept.tip in (tip, None)
    assert sh(session, "rev-parse", "main^@") == old
    assert sh(session, "log", "-1", "--format=%B") == MESSAGE
    assert sh(session, "show", "main:a.txt") == "one\ntwo"
    assert (on(session), branches(session)) == ("main", ["main"])
    assert (session / MIRROR).read_text() == "1\n2\n"
    assert sh(session, "status", "--porcelain").split() == ["M", MIRROR]
    assert not (session / ".git/SQUASH_MSG").exists()


@pytest.mark.parametrize("step", ["point_head", "commit", "delete_branch"])
def test_keep_can_be_finished_after_being_killed_before_the_first_commit(unborn: Path, step: str) -> None:
    open_branch(GitBranches(str(unborn)), BRANCH)
    commit(unborn, "a", "1")
    with pytest.raises(Killed):
        keep(KilledGit(str(unborn), step), BRANCH, "main", MESSAGE, had_commits=False)
    kept = keep(GitBranches(str(unborn)), BRANCH, "main", MESSAGE, had_commits=False)
    assert kept.commit == sh(unborn, "rev-parse", "main")
    assert sh(unborn, "rev-list", "--count", "main") == "1"
    assert (branches(unborn), sh(unborn, "status", "--porcelain")) == (["main"], "")


def test_keep_refuses_work_staged_after_it_was_killed(session: Path) -> None:
    """Killed between merge and commit, it must not commit what somebody staged since."""
    with pytest.raises(Killed):
        keep(KilledGit(str(session), "squash_merge"), BRANCH, "main", MESSAGE)
    write(session, "mine.txt", "mine\n")
    with pytest.raises(Refused, match=r"mine\.txt"):
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    sh(session, "add", "mine.txt")
    with pytest.raises(Refused, match=r"mine\.txt"):
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert sh(session, "show", ":mine.txt") == "mine"
    sh(session, "rm", "-q", "--cached", "mine.txt")
    (session / "mine.txt").unlink()
    assert keep(GitBranches(str(session)), BRANCH, "main", MESSAGE).commit is not None


@pytest.mark.parametrize("step", ["set_aside", "switch", "put_back", "delete_branch"])
def test_discard_can_be_finished_after_being_killed_at_any_step(session: Path, step: str) -> None:
    commit(session, MIRROR, "1\n")
    write(session, MIRROR, "1\n2\n")
    with pytest.raises(Killed):
        discard(KilledGit(str(session), step), BRANCH, "main", [MIRROR])
    discard(GitBranches(str(session)), BRANCH, "main", [MIRROR])
    assert (on(session), branches(session)) == ("main", ["main"])
    assert (session / MIRROR).read_text() == "1\n2\n"


def test_keep_is_refused_when_the_branch_was_deleted_by_hand(session: Path) -> None:
    """The error says how to end the session."""
    sh(session, "switch", "-q", "main")
    sh(session, "merge", "-q", BRANCH)
    sh(session, "branch", "-q", "-D", BRANCH)
    with pytest.raises(NotFound) as caught:
        keep(GitBranches(str(session)), BRANCH, "main", MESSAGE)
    assert "without --keep" in (caught.value.hint or "")


def test_keep_works_when_the_original_branch_is_already_checked_out(session: Path) -> None:
    """With a clean tree."""
    sh(session, "switch", "-q", "main")
    assert keep(GitBranches(str(session)), BRANCH, "main", MESSAGE).commit == sh(session, "rev-parse", "main")
