"""Mirrored files under git: checkouts, stashes, pulls, merges and work trees are no edits, and lose none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from tests.support.mirrored_project import FORMATS, HISTORY, ORCHESTRATOR, TIMER, Project, git


@pytest.fixture(autouse=True)
def settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path_factory.mktemp("git") / "gitconfig"
    file.write_text(
        "[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n[pull]\nrebase = false\n"
        '[protocol "file"]\nallow = always\n[commit]\ngpgsign = false\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", "")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    git(project.path, "init", "-q")
    project.write("README.md", "hello\n")
    commit(project)
    with project.open() as keeper:
        for name in FORMATS:
            keeper.mirrors.switch_on(name)
    return project


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


def commit(project: Project, *, where: Path | None = None) -> str:
    git(where or project.path, "add", "-A")
    git(where or project.path, "commit", "-q", "-m", "work")
    return git(where or project.path, "rev-parse", "HEAD")


# ── ignored ──────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_timer_file_is_ignored(project: Project, keeper: Keeper) -> None:
    keeper.start("Build the shop")
    listed = git(project.path, "status", "--porcelain", "--untracked-files=all")
    assert TIMER not in listed
    assert ORCHESTRATOR in listed
    assert ".lock" not in listed


# ── earlier versions ─────────────────────────────────────────────────────────────────────────────────────


def test_checkout_of_an_older_commit_is_no_edit(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    first = commit(project)
    session.decide("Brick")
    session.edit(goal="Sell the shop")
    commit(project)
    count = len(keeper.events(session.id))
    git(project.path, "checkout", "-q", first)
    assert session.document().goal == "Sell the shop"
    assert len(keeper.events(session.id)) == count
    assert keeper.notices == []
    project.in_step(keeper)


def test_stash_and_stash_pop_are_no_edits(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    commit(project)
    session.edit(goal="Sell the shop")
    git(project.path, "stash", "-q")
    assert session.document().goal == "Sell the shop"
    git(project.path, "checkout", "-q", "--", ".")
    git(project.path, "stash", "pop", "-q")
    count = len(keeper.events(session.id))
    assert session.document().goal == "Sell the shop"
    assert len(keeper.events(session.id)) == count
    assert project.rejected() == []
    project.in_step(keeper)


def test_branch_without_the_files_is_no_edit(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    git(project.path, "checkout", "-q", "-b", "with")
    commit(project)
    git(project.path, "checkout", "-q", "main")
    assert not project.file(ORCHESTRATOR).exists()
    assert session.document().goal == "Build the shop"
    project.in_step(keeper)


# ── other people's versions ──────────────────────────────────────────────────────────────────────────────


def test_pulled_version_of_a_teammate_is_imported(project: Project, keeper: Keeper, tmp_path: Path) -> None:
    """They changed the same session's file in their clone, without Holdfast."""
    session = keeper.start("Build the shop")
    commit(project)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project.path), str(clone))
    theirs = json.loads((clone / ORCHESTRATOR).read_text())
    theirs["goal"] = "Sell the shop"
    (clone / ORCHESTRATOR).write_text(json.dumps(theirs, indent=2))
    commit(project, where=clone)
    git(project.path, "pull", "-q", str(clone), "main")
    assert session.document().goal == "Sell the shop"
    assert keeper.notices == []
    project.in_step(keeper)


def conflicting_merge(project: Project, keeper: Keeper) -> str:
    """A merge of two versions of the orchestrator's file that git cannot resolve."""
    session = keeper.start("Build the shop")
    commit(project)
    git(project.path, "checkout", "-q", "-b", "other")
    document = project.json(ORCHESTRATOR)
    project.write(ORCHESTRATOR, {**document, "goal": "Burn the shop"})
    git(project.path, "add", "-A")
    git(project.path, "commit", "-q", "-m", "theirs")
    git(project.path, "checkout", "-q", "main")
    session.edit(goal="Sell the shop")
    commit(project)
    return session.id


def test_conflicting_merge_is_left_alone_until_it_is_resolved(project: Project, keeper: Keeper) -> None:
    name = conflicting_merge(project, keeper)
    git(project.path, "merge", "other", check=False)
    text = project.file(ORCHESTRATOR).read_text()
    assert "<<<<<<<" in text
    session = keeper.session(name)
    session.note("going on")
    assert project.file(ORCHESTRATOR).read_text() == text
    assert any(ORCHESTRATOR in sentence and "left alone" in sentence for sentence in keeper.notices)
    assert [note.text for note in session.document().notes] == ["going on"]
    (mirror,) = [mirrored for mirrored in keeper.mirrors.status() if mirrored.left_alone]
    assert list(mirror.left_alone) == [ORCHESTRATOR]
    assert mirror.changed_outside
    check = next(check for check in keeper.doctor()[0] if check.name == "mirrors")
    assert check.status == "warning"
    git(project.path, "checkout", "-q", "--theirs", "--", ORCHESTRATOR)
    keeper.notices.clear()
    session.note("still unmerged")
    assert any("not merged" in sentence for sentence in keeper.notices)
    git(project.path, "add", "-A")
    git(project.path, "commit", "-q", "-m", "settled")
    document = session.document()
    assert [note.text for note in document.notes] == ["going on", "still unmerged"]
    assert document.goal in ("Burn the shop", "Sell the shop")
    values = {value.value for conflict in document.conflicts for value in conflict.values} | {document.goal}
    assert "Burn the shop" in values
    assert not any(mirrored.left_alone for mirrored in keeper.mirrors.status())
    assert project.rejected() == []
    project.in_step(keeper)


def test_stopped_rebase_is_left_alone(project: Project, keeper: Keeper) -> None:
    name = conflicting_merge(project, keeper)
    git(project.path, "rebase", "other", check=False)
    text = project.file(ORCHESTRATOR).read_text()
    assert "<<<<<<<" in text
    keeper.session(name).note("going on")
    assert project.file(ORCHESTRATOR).read_text() == text
    assert any("left alone" in sentence for sentence in keeper.notices)
    git(project.path, "checkout", "-q", "-f", "other")
    git(project.path, "rebase", "--quit", check=False)
    keeper.session(name).note("gone on")
    assert not any(mirrored.left_alone for mirrored in keeper.mirrors.status())
    assert keeper.session(name).document().notes[-1].text == "gone on"


def test_conflict_markers_without_git_are_left_alone(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    lines = project.file(ORCHESTRATOR).read_text().replace('  "goal"', '<<<<<<< ours\n  "goal"', 1)
    project.write(ORCHESTRATOR, lines + ">>>>>>> theirs\n")
    before = project.file(ORCHESTRATOR).read_text()
    session.note("on")
    assert project.file(ORCHESTRATOR).read_text() == before
    project.file(ORCHESTRATOR).unlink()
    session.note("settled")
    project.in_step(keeper)


def test_contract_files_with_conflict_markers_are_left_alone(project: Project, keeper: Keeper) -> None:
    """State is not written while its plan is unmerged."""
    session = keeper.start("Build the shop")
    session.add_task("Paint it", task_id="paint")
    text = project.file(project.plan()).read_text()
    broken = f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n"
    project.write(project.plan(), broken)
    session.start_task("paint")
    session.edit(model="opus")
    assert project.file(project.plan()).read_text() == broken
    assert any("left alone" in sentence for sentence in keeper.notices)
    assert project.rejected() == []
    project.write(project.plan(), text)
    assert session.document().tasks[0].status == "in_progress"
    project.in_step(keeper)


# ── work trees ───────────────────────────────────────────────────────────────────────────────────────────


def test_two_work_trees_each_show_their_session(project: Project, keeper: Keeper, tmp_path: Path) -> None:
    """The checkout gives the second the file of the first: neither an edit nor its own session."""
    session = keeper.start("Build the shop")
    commit(project)
    second = tmp_path / "second"
    git(project.path, "worktree", "add", "-q", "-b", "side", str(second))
    with project.open(second) as other:
        assert other.current() is None
        assert (second / ORCHESTRATOR).exists()
        mine = other.start("Paint the shop")
        assert json.loads((second / ORCHESTRATOR).read_text())["goal"] == "Paint the shop"
        assert project.json(ORCHESTRATOR)["goal"] == "Build the shop"
        session.decide("Brick")
        mine.decide("Green")
        assert project.json(ORCHESTRATOR)["decisions_made"][0]["decision"] == "Brick"
        theirs = json.loads((second / ORCHESTRATOR).read_text())
        assert [item["decision"] for item in theirs["decisions_made"]] == ["Green"]
        theirs["goal"] = "Paint it twice"
        (second / ORCHESTRATOR).write_text(json.dumps(theirs))
        assert mine.document().goal == "Paint it twice"
        assert session.document().goal == "Build the shop"
        assert (keeper.notices, other.notices) == ([], [])
    project.in_step(keeper)


def test_edit_in_another_work_tree_is_imported(project: Project, keeper: Keeper, tmp_path: Path) -> None:
    """An agent edits the copy that git checked out there: both trees show it then."""
    session = keeper.start("Build the shop")
    commit(project)
    second = tmp_path / "second"
    git(project.path, "worktree", "add", "-q", "-b", "side", str(second))
    document = json.loads((second / ORCHESTRATOR).read_text())
    (second / ORCHESTRATOR).write_text(json.dumps({**document, "mode": "debug"}))
    with project.open(second) as other:
        assert other.session(session.id).document().mode == "debug"
    assert session.document().mode == "debug"
    assert project.json(ORCHESTRATOR)["mode"] == "debug"


def test_session_branch_can_be_kept_with_mirrors_on(project: Project, keeper: Keeper) -> None:
    """Mirrored files do not make the tree dirty."""
    git(project.path, "add", "-A")
    git(project.path, "commit", "-q", "-m", "ignore")
    session = keeper.start("Build the shop", branch=True)
    project.write("shop.txt", "open\n")
    git(project.path, "add", "shop.txt")
    git(project.path, "commit", "-q", "-m", "shop")
    session.note("one")
    assert session.stop(keep=True).commit
    assert git(project.path, "symbolic-ref", "--short", "HEAD") == "main"
    assert project.file("shop.txt").read_text() == "open\n"
    assert project.json(f"{HISTORY}/{project.archives()[0]}")["status"] == "complete"
    project.in_step(keeper)
