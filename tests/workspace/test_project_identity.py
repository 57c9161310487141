"""Clones of one repository on two devices are one project, whatever their paths and ids."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Refused
from holdfast.core.events import ProjectFacts
from holdfast.workspace import projects
from tests.support.two_devices import Devices, carry, git_at


def test_project_with_two_ids_is_listed_as_one(tmp_path: Path) -> None:
    """Both devices made an id of their own; listings, the latest session and files cover both."""
    devices = Devices(tmp_path, git=True)
    mine, theirs = devices.laptop.start("Mine"), devices.desktop.start("Theirs")
    assert projects.project_ids(devices.laptop.store(), devices.laptop.place) != ()
    devices.meet()
    for keeper in (devices.laptop, devices.desktop):
        assert {row.id for row in keeper.history()} == {mine.id, theirs.id}
        latest = keeper.latest_unfinished()
        assert latest is not None
        assert latest.id == theirs.id
    ids = [projects.project_ids(keeper.store(), keeper.place) for keeper in (devices.laptop, devices.desktop)]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 2
    (devices.here / "new.py").write_text("x\n")
    devices.laptop.session(theirs.id).changed("new.py", "created")


def test_project_without_a_remote_is_identified_by_its_first_commit(tmp_path: Path) -> None:
    devices = Devices(tmp_path, git=True, remote=None)
    mine, theirs = devices.laptop.start("Mine"), devices.desktop.start("Theirs")
    devices.meet()
    assert {row.id for row in devices.laptop.history()} == {mine.id, theirs.id}
    assert {row.id for row in devices.desktop.history()} == {mine.id, theirs.id}


def test_project_stays_one_when_a_remote_is_added_on_one_device(tmp_path: Path) -> None:
    """The common first commit is enough."""
    devices = Devices(tmp_path, git=True)
    git_at(devices.there, "remote", "remove", "origin")
    mine, theirs = devices.laptop.start("Mine"), devices.desktop.start("Theirs")
    devices.meet()
    for keeper in (devices.laptop, devices.desktop):
        assert {row.id for row in keeper.history()} == {mine.id, theirs.id}


def test_fork_with_another_remote_is_another_project(tmp_path: Path) -> None:
    """The first commit is the same, the remote is not."""
    devices = Devices(tmp_path, git=True)
    git_at(devices.there, "remote", "set-url", "origin", "https://example.org/other.git")
    mine, theirs = devices.laptop.start("Mine"), devices.desktop.start("Theirs")
    devices.meet()
    assert [row.id for row in devices.laptop.history()] == [mine.id]
    assert [row.id for row in devices.desktop.history()] == [theirs.id]


def test_new_clone_finds_its_sessions_by_the_remote(tmp_path: Path) -> None:
    """Nothing was recorded there yet; new sessions take the known id."""
    devices = Devices(tmp_path, git=True)
    mine = devices.laptop.start("Mine")
    carry(devices.laptop, devices.desktop)
    assert [row.id for row in devices.desktop.history()] == [mine.id]
    theirs = devices.desktop.start("Theirs")
    before, after = devices.laptop.state(mine.id).project, devices.desktop.state(theirs.id).project
    assert before is not None
    assert after is not None
    assert before.id == after.id


def test_project_is_not_identified_by_the_path_on_another_device(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    mine = devices.laptop.start("Mine")
    carry(devices.laptop, devices.desktop)
    # The desktop, in the same path as the laptop.
    sibling = devices.opened("desktop", devices.here)
    assert sibling.history() == []
    assert sibling.store().projects_with("path", str(devices.here)) == []
    assert [row.id for row in sibling.history(all_projects=True)] == [mine.id]


def test_project_without_git_is_located_by_resuming_there(tmp_path: Path) -> None:
    """The directory becomes the project's place, and its other sessions follow."""
    devices = Devices(tmp_path)
    first = devices.laptop.start("First")
    second = devices.laptop.start("Second", replace=True)
    carry(devices.laptop, devices.desktop)
    assert devices.desktop.history() == []
    resumed = devices.desktop.session(second.id).resume()
    assert resumed.differences == ()
    assert {row.id for row in devices.desktop.history()} == {first.id, second.id}
    (devices.there / "a.txt").write_text("x")
    devices.desktop.session(second.id).changed("a.txt", "created")


def test_directory_of_another_project_is_not_claimed_by_resuming_there(tmp_path: Path) -> None:
    """It is refused, and with force the projects stay separate."""
    devices = Devices(tmp_path)
    mine = devices.laptop.start("Mine")
    theirs = devices.desktop.start("Theirs")
    carry(devices.laptop, devices.desktop)
    with pytest.raises(Refused, match="another project"):
        devices.desktop.session(mine.id).resume()
    resumed = devices.desktop.session(mine.id).resume(force=True)
    assert [difference.what for difference in resumed.differences] == ["project"]
    assert [row.id for row in devices.desktop.history()] == [theirs.id]


def test_moved_directory_is_recognized_after_resuming_there(tmp_path: Path) -> None:
    """On one device, without git."""
    devices = Devices(tmp_path)
    mine = devices.laptop.start("Mine")
    devices.laptop.close()
    moved = tmp_path / "moved"
    devices.here.rename(moved)
    keeper = devices.opened("laptop", moved)
    assert keeper.history() == []
    assert keeper.session(mine.id).resume().differences == ()
    assert [row.id for row in keeper.history()] == [mine.id]


def test_sibling_directory_is_not_claimed_while_the_project_exists(tmp_path: Path) -> None:
    """On one device: the resume reports the difference, and the projects stay separate."""
    devices = Devices(tmp_path)
    mine = devices.laptop.start("Mine")
    other = tmp_path / "other"
    other.mkdir()
    keeper = devices.opened("laptop", other)
    resumed = keeper.session(mine.id).resume()
    assert [(difference.what, difference.blocking) for difference in resumed.differences] == [("project", False)]
    assert keeper.history() == []


class Copies:
    """Directories of one device that were copied from one template, each a repository with the same first commit."""

    def __init__(self, root: Path, *names: str, remote: str | None = None) -> None:
        self.devices = Devices(root, git=True, remote=None)
        self.root = root
        self.keepers = [self.copied(name, remote) for name in names]

    def copied(self, name: str, remote: str | None = None) -> Keeper:
        git_at(self.root, "clone", "-q", str(self.devices.here), name)
        git_at(self.root / name, "remote", "remove", "origin")
        if remote is not None:
            git_at(self.root / name, "remote", "add", "origin", remote)
        return self.opened(name)

    def opened(self, name: str) -> Keeper:
        return self.devices.opened("laptop", self.root / name)


def listed(keeper: Keeper) -> list[str]:
    return [row.goal for row in keeper.history()]


def project_of(keeper: Keeper, session: str) -> ProjectFacts:
    summary = keeper.state(session).project
    assert summary is not None
    return summary


def project_ids(keeper: Keeper, *, all_projects: bool = False) -> set[str]:
    return {project_of(keeper, row.id).id for row in keeper.history(all_projects=all_projects)}


def test_projects_copied_from_one_template_stay_separate(tmp_path: Path) -> None:
    """Both directories exist and no remote connects them; neither listings nor briefings mix them."""
    copies = Copies(tmp_path, "customer-a", "customer-b")
    template, one, other = copies.devices.laptop, *copies.keepers
    started = [keeper.start(f"Work {number}") for number, keeper in enumerate((one, other, template))]
    assert [listed(keeper) for keeper in (one, other, template)] == [["Work 0"], ["Work 1"], ["Work 2"]]
    assert len(project_ids(one, all_projects=True)) == 3
    for keeper, session in zip((one, other, template), started, strict=True):
        latest = keeper.latest_unfinished()
        assert latest is not None
        assert latest.id == session.id
        for each in started:
            is_same = projects.is_same_project(keeper.store(), keeper.place, project_of(keeper, each.id))
            assert is_same == (each is session)
    # The project of a removed directory stays separate.
    shutil.rmtree(tmp_path / "customer-a")
    assert listed(other) == ["Work 1"]


def test_clones_with_one_remote_are_one_project(tmp_path: Path) -> None:
    one, other = Copies(tmp_path, "main", "second", remote="https://example.org/shop.git").keepers
    one.start("Mine")
    assert listed(other) == ["Mine"]
    other.start("Theirs", replace=True)
    assert len(project_ids(one)) == 1
    assert sorted(listed(one)) == ["Mine", "Theirs"]


@pytest.mark.parametrize("ending", ["", "/.git", "/."])
def test_clone_of_a_local_directory_is_the_same_project(tmp_path: Path, ending: str) -> None:
    copies = Copies(tmp_path)
    copies.devices.laptop.start("Mine")
    git_at(tmp_path, "clone", "-q", f"{copies.devices.here}{ending}", "clone")
    clone = copies.opened("clone")
    assert listed(clone) == ["Mine"]
    clone.start("Theirs", replace=True)
    assert sorted(listed(clone)) == sorted(listed(copies.devices.laptop)) == ["Mine", "Theirs"]


def test_moved_repository_is_recognized_when_a_copy_exists(tmp_path: Path) -> None:
    copies = Copies(tmp_path, "customer-a", "customer-b")
    for keeper, goal in zip(copies.keepers, ("Mine", "Theirs"), strict=True):
        keeper.start(goal)
        keeper.close()
    (tmp_path / "old").mkdir()
    (tmp_path / "customer-a").rename(tmp_path / "old" / "customer-a")
    moved = copies.opened("old/customer-a")
    assert listed(moved) == ["Mine"]
    moved.start("Go on", replace=True)
    assert sorted(listed(moved)) == ["Go on", "Mine"]
    assert len(project_ids(moved)) == 1
    assert listed(copies.opened("customer-b")) == ["Theirs"]
