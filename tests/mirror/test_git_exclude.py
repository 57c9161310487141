"""The timer's file is never committed: the clone's own exclude file prevents it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import HoldfastError, Refused
from holdfast.formats.mirror import git_ignore
from holdfast.machine.git.worktree import locate
from tests.support.mirrored_project import TIMER, Project, git

LINES = (TIMER, f"{TIMER}.rejected-*")


@pytest.fixture(autouse=True)
def settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path_factory.mktemp("git") / "gitconfig"
    file.write_text(
        "[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n[commit]\ngpgsign = false\n"
        '[protocol "file"]\nallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    repository_at(project.path)
    return project


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


def repository_at(path: Path) -> None:
    path.mkdir(exist_ok=True)
    git(path, "init", "-q")
    (path / "README.md").write_text("hello\n")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")


def exclude_of(path: Path) -> Path:
    return path / ".git" / "info" / "exclude"


def staged(path: Path) -> list[str]:
    """What `git add -A` would commit."""
    git(path, "add", "-A")
    return git(path, "diff", "--cached", "--name-only").split()


def test_ignore_line_does_not_make_the_tree_dirty(project: Project, keeper: Keeper) -> None:
    keeper.mirrors.switch_on("timer")
    keeper.start("Build the shop")
    assert project.file(TIMER).exists()
    assert git(project.path, "status", "--porcelain", "--untracked-files=all") == ""
    assert not project.file(".gitignore").exists()
    assert staged(project.path) == []


@pytest.mark.parametrize("ending", ["keep", "discard"])
def test_stop_of_a_branch_is_not_blocked_by_the_ignore_line(ending: str, project: Project, keeper: Keeper) -> None:
    keeper.mirrors.switch_on("timer")
    session = keeper.start("Build the shop", branch=True)
    (project.path / "shop.txt").write_text("open\n")
    git(project.path, "add", "-A")
    git(project.path, "commit", "-q", "-m", "shop")
    session.stop(keep=ending == "keep", discard=ending == "discard", reason="because")
    assert git(project.path, "branch", "--show-current") == "main"
    assert staged(project.path) == []


def test_ignore_line_is_effective_on_every_branch(project: Project, keeper: Keeper) -> None:
    """Even on one made before the mirror was on; rejected copies are ignored too."""
    git(project.path, "branch", "before")
    keeper.mirrors.switch_on("timer")
    keeper.start("Build the shop")
    git(project.path, "switch", "-q", "before")
    project.file(f"{TIMER}.rejected-20261116T120000Z").write_text("{}")
    assert staged(project.path) == []


@pytest.mark.parametrize("lost", ["the lines", "the file", "the folder"])
def test_lost_ignore_line_is_restored_by_the_next_write(lost: str, project: Project, keeper: Keeper) -> None:
    keeper.mirrors.switch_on("timer")
    session = keeper.start("Build the shop")
    exclude = exclude_of(project.path)
    if lost == "the lines":
        exclude.write_text("*.pyc\n")
    else:
        exclude.unlink()
    if lost == "the folder":
        exclude.parent.rmdir()
    session.note("goes on")
    assert staged(project.path) == []
    assert (lost == "the lines") == exclude.read_text().startswith("*.pyc\n")
    assert exclude.stat().st_mode & 0o044 == 0o044, "others who share the clone read it too"


def test_repository_created_after_mirror_on_gets_the_line(tmp_path: Path) -> None:
    project = Project(tmp_path, "timer")
    with project.open() as keeper:
        keeper.start("Build the shop")
    git(project.path, "init", "-q")
    with project.open() as keeper:
        keeper.session().note("goes on")
    assert TIMER not in staged(project.path)


def test_linked_work_trees_share_the_line(project: Project, keeper: Keeper, tmp_path: Path) -> None:
    keeper.mirrors.switch_on("timer")
    other = tmp_path / "other"
    git(project.path, "worktree", "add", "-q", str(other))
    exclude_of(project.path).unlink()
    with project.open(other) as there:
        there.start("Build the shop")
    assert (other / TIMER).exists()
    assert staged(other) == []
    assert TIMER in exclude_of(project.path).read_text()


def test_submodule_has_its_own_exclude_file(project: Project, tmp_path: Path) -> None:
    repository_at(tmp_path / "part")
    git(project.path, "submodule", "add", "-q", str(tmp_path / "part"), "part")
    with project.open(project.path / "part") as keeper:
        keeper.mirrors.switch_on("timer")
        keeper.start("Build the part")
    assert staged(project.path / "part") == []
    assert TIMER not in exclude_of(project.path).read_text()


@pytest.mark.parametrize(
    "old",
    [b"", b"*.pyc\n", b"*.pyc\r\nbuild\r\n", b"# mine\n\n*.log\n", b"*.pyc\n\n\n", f"{TIMER}\n".encode(), None],
    ids=repr,
)
def test_mirror_off_removes_only_the_added_line(old: bytes | None, project: Project, keeper: Keeper) -> None:
    exclude = exclude_of(project.path)
    if old is None:
        exclude.unlink(missing_ok=True)
    else:
        exclude.write_bytes(old)
    for _ in range(2):
        keeper.mirrors.switch_on("timer")
        added = exclude.read_bytes()
        assert added.startswith(old or b"")
        assert all(added.decode().splitlines().count(line) == 1 for line in LINES)
        assert added.count(b"\n") == added.count(b"\r\n") or b"\r\n" not in added
        keeper.mirrors.switch_off("timer")
        assert exclude.read_bytes() == (old or b"")


def test_gitignore_gets_the_line_only_on_request(project: Project, keeper: Keeper) -> None:
    """It keeps the line: it belongs to the person then."""
    keeper.mirrors.switch_on("timer", gitignore=True)
    before = project.file(".gitignore").read_bytes()
    assert before.decode().splitlines().count(TIMER) == 1
    keeper.mirrors.switch_off("timer")
    keeper.mirrors.switch_on("timer")
    assert project.file(".gitignore").read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"*.pyc\r\nbuild\r\n", b"*.pyc\r\nbuild\r\n\r\n"),
        (b"*.pyc", b"*.pyc\n\n"),
        (b"/.claude/session-state.json\n/.claude/session-state.json.rejected-*\n", None),
    ],
)
def test_content_of_gitignore_stays(old: bytes, new: bytes | None, tmp_path: Path) -> None:
    """CRLF is kept, a last line without an end gets one, and an entry with a leading slash counts."""
    (tmp_path / ".gitignore").write_bytes(old)
    assert git_ignore.add_to_gitignore(str(tmp_path), LINES) == (new is not None)
    text = (tmp_path / ".gitignore").read_bytes()
    assert text.startswith(new or old)
    assert text.endswith(b"\r\n" if b"\r\n" in old else b"\n")
    assert text.count(b"\n") == text.count(b"\r\n") or b"\r\n" not in old
    assert not git_ignore.add_to_gitignore(str(tmp_path), LINES)


# ── nothing outside the project ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("link", ["info", "info/exclude"])
def test_links_in_the_git_directory_are_not_followed(
    link: str, project: Project, keeper: Keeper, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "exclude").write_text("precious\n")
    spot = project.path / ".git" / link
    subprocess.run(["rm", "-rf", str(spot)], check=True)
    spot.symlink_to(outside if link == "info" else outside / "exclude")
    with pytest.raises(Refused, match="link") as refused:
        keeper.mirrors.switch_on("timer")
    assert "--gitignore" in str(refused.value.hint)
    keeper.mirrors.switch_on("timer", gitignore=True)
    keeper.start("Build the shop").note("n")
    assert keeper.notices == []
    assert TIMER not in staged(project.path)
    assert os.listdir(outside) == ["exclude"]
    assert (outside / "exclude").read_text() == "precious\n"
    assert spot.is_symlink()


@pytest.mark.parametrize("pretending", ["a separate directory", "a linked work tree", "a link"])
def test_git_directory_of_somebody_else_is_left_alone(pretending: str, tmp_path: Path) -> None:
    """An unpacked archive can name any repository on this machine as its own."""
    theirs = tmp_path / "theirs"
    repository_at(theirs)
    before = exclude_of(theirs).read_bytes()
    project = Project(tmp_path)
    dot = project.path / ".git"
    if pretending == "a separate directory":
        dot.write_text(f"gitdir: {theirs}/.git\n")
    elif pretending == "a link":
        dot.symlink_to(theirs / ".git")
    else:
        own = project.path / "own"
        own.mkdir()
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "commondir").write_text(f"{theirs}/.git\n")
        (own / "gitdir").write_text(f"{dot}\n")
        dot.write_text(f"gitdir: {own}\n")
    assert not locate(str(project.path)).git
    with project.open() as keeper, pytest.raises(HoldfastError):
        keeper.mirrors.switch_on("timer")
    assert exclude_of(theirs).read_bytes() == before
