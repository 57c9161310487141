"""`connect git` adds a trailer with the session to commits; `disconnect git` restores everything."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main


class Repository:
    def __init__(self, where: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.root, self.user = where / "home", where / "shop", where / "user"
        self._capsys = capsys
        for name in [name for name in os.environ if name.startswith(("HOLDFAST_", "GIT_"))]:
            monkeypatch.delenv(name)
        around = {
            "HOME": str(self.user), "HOLDFAST_HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": ":",
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        for name, value in around.items():
            monkeypatch.setenv(name, value)
        self.root.mkdir(parents=True)
        self.user.mkdir()
        monkeypatch.chdir(self.root)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, at: Path | None = None, code: int = 0) -> str:
        done = subprocess.run(
            ["git", *words], cwd=at or self.root, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def holdfast(self, *words: str, code: int = 0) -> Any:
        self._capsys.readouterr()
        assert main([*words, "--json"]) == code
        out, err = self._capsys.readouterr()
        return json.loads(out or err)

    def commit(self, message: str, *words: str, at: Path | None = None) -> str:
        """Commits and returns the whole message."""
        self.git("commit", "-q", "--allow-empty", "-m", message, *words, at=at)
        return self.git("log", "-1", "--format=%B", at=at).strip()

    def hooks(self, directory: str = ".git/hooks") -> dict[str, tuple[bytes, int]]:
        there = self.root / directory
        return (
            {path.name: (path.read_bytes(), path.stat().st_mode) for path in sorted(there.iterdir())}
            if there.is_dir()
            else {}
        )


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Repository:
    return Repository(tmp_path, monkeypatch, capsys)


def test_commit_names_the_current_session(shop: Repository) -> None:
    """If there is one; an amended commit keeps its trailer."""
    before = shop.hooks()
    shop.holdfast("connect", "git")
    assert shop.commit("Begin") == "Begin"
    session = shop.holdfast("start", "Add the tax")["session"]["id"]
    assert shop.commit("Add it") == f"Add it\n\nHoldfast-Session: {session}"
    assert shop.commit("Add it all", "--amend").count("Holdfast-Session") == 1
    assert shop.holdfast("why", "HEAD")["sessions"][0]["certainty"] == "certain"
    shop.holdfast("pause")
    assert shop.commit("While paused") == "While paused"
    shop.holdfast("disconnect", "git")
    assert shop.hooks() == before
    shop.holdfast("resume")
    assert shop.commit("Without") == "Without"


def test_existing_hook_runs_first_and_can_refuse(shop: Repository) -> None:
    """It is moved unchanged, and restored byte for byte."""
    hook = shop.root / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ngrep -q forbidden "$1" && exit 3\necho \'Checked-by: me\' >> "$1"\n')
    hook.chmod(0o755)
    before = shop.hooks()
    shop.holdfast("start", "Add the tax")
    for _ in range(2):
        shop.holdfast("connect", "git")
    assert len(shop.hooks()) == len(before) + 1
    message = shop.commit("Add it")
    assert "Checked-by: me" in message
    assert "Holdfast-Session:" in message
    shop.git("commit", "--allow-empty", "-m", "forbidden", code=1)
    shop.holdfast("disconnect", "git")
    assert shop.hooks() == before


@pytest.mark.parametrize("path", [".husky", ".git/own"])
def test_hooks_path_of_the_repository_is_followed(shop: Repository, path: str) -> None:
    shop.git("config", "core.hooksPath", path)
    shop.holdfast("start", "Add the tax")
    shop.holdfast("connect", "git")
    assert "Holdfast-Session:" in shop.commit("Add it")
    shop.holdfast("disconnect", "git")
    assert not (shop.root / path).exists()


def test_hooks_path_of_the_repository_outside_it_is_refused(shop: Repository, tmp_path: Path) -> None:
    """A repository must not choose where we write."""
    shop.git("config", "core.hooksPath", str(tmp_path / "user"))
    assert "outside" in shop.holdfast("connect", "git", code=1)["error"]["message"]
    assert list((tmp_path / "user").iterdir()) == []


def test_hooks_path_of_the_person_is_used_for_all_repositories(shop: Repository, tmp_path: Path) -> None:
    own = tmp_path / "user" / "hooks"
    own.mkdir()
    shop.git("config", "--global", "core.hooksPath", "~/hooks")
    shop.holdfast("start", "Add the tax")
    assert shop.holdfast("connect", "git", "--scope", "project", code=1)["error"]["kind"] == "refused"
    (connected,) = shop.holdfast("connect", "git")["connections"]
    assert connected["scope"] == "user"
    assert "Holdfast-Session:" in shop.commit("Add it")
    shop.holdfast("uninstall")
    assert list(own.iterdir()) == []


def test_user_scope_is_refused_without_a_global_hooks_path(shop: Repository) -> None:
    assert "--scope project" in shop.holdfast("connect", "git", "--scope", "user", code=1)["error"]["hint"]


def test_hook_does_nothing_when_holdfast_is_missing(shop: Repository) -> None:
    shop.holdfast("start", "Add the tax")
    shop.holdfast("connect", "git")
    shop.home.rename(shop.home.with_name("gone"))
    assert shop.commit("Add it") == "Add it"
    shop.holdfast("disconnect", "git")  # nothing is remembered: our hook is recognized by its content
    assert "commit-msg" not in shop.hooks()


def test_commit_aborted_by_an_empty_message_stays_aborted(shop: Repository) -> None:
    shop.holdfast("start", "Add the tax")
    shop.holdfast("connect", "git")
    shop.git("commit", "--allow-empty", code=1)


def test_work_trees_of_a_repository_share_the_hook_and_have_their_own_sessions(
    shop: Repository, tmp_path: Path
) -> None:
    shop.commit("Begin")
    shop.git("worktree", "add", "-q", str(tmp_path / "side"))
    shop.holdfast("connect", "git")
    session = shop.holdfast("start", "Add the tax")["session"]["id"]
    assert shop.commit("In the other", at=tmp_path / "side") == "In the other"
    assert shop.commit("Here").endswith(session)


def test_directory_without_a_repository_is_refused(shop: Repository, tmp_path: Path) -> None:
    (shop.root / ".git").rename(tmp_path / "away")
    assert shop.holdfast("connect", "git", code=1)["error"]["kind"] == "refused"
