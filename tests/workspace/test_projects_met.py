"""One repository on two devices is one project, whatever path and id each of them gave it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Refused
from holdfast.core.events import ProjectFacts
from holdfast.workspace import projects
from tests.support.two_devices import Devices, carry, git_at


def test_devices_that_met_late_see_each_others_sessions(tmp_path: Path) -> None:
    """Both made an id of their own for the repository; listings, the latest and files know both."""
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


def test_without_an_address_the_first_commit_tells(tmp_path: Path) -> None:
    """A repository without a remote is known by where its history begins."""
    devices = Devices(tmp_path, git=True, remote=None)
    mine, theirs = devices.laptop.start("Mine"), devices.desktop.start("Theirs")
    devices.meet()
    assert {row.id for row in devices.laptop.history()} == {mine.id, theirs.id}
    assert {row.id for row in devices.desktop.history()} == {mine.id, theirs.id}


def test_an_address_given_later_does_not_part_them(tmp_path: Path) -> None:
    """One of them has no remote yet: the common beginning is enough."""
    devices = Devices(tmp_path, git=True)
    git_at(devices.there, "remote", "remove", "origin")
    mine, theirs = devices.laptop.start("Mine"), devices.desktop.start("Theirs")
    devices.meet()
    for keeper in (devices.laptop, devices.desktop):
        assert {row.id for row in keeper.history()} == {mine.id, theirs.id}


def test_a_fork_of_the_repository_is_another_project(tmp_path: Path) -> None:
    """The same beginning under another address: sessions stay apart."""
    devices = Devices(tmp_path, git=True)
    git_at(devices.there, "remote", "set-url", "origin", "https://example.org/other.git")
    mine, theirs = devices.laptop.start("Mine"), devices.desktop.start("Theirs")
    devices.meet()
    assert [row.id for row in devices.laptop.history()] == [mine.id]
    assert [row.id for row in devices.desktop.history()] == [theirs.id]


def test_a_clone_that_never_saw_holdfast_finds_its_sessions(tmp_path: Path) -> None:
    """Nothing was recorded there yet; the address alone finds what arrived, and new sessions take that id."""
    devices = Devices(tmp_path, git=True)
    mine = devices.laptop.start("Mine")
    carry(devices.laptop, devices.desktop)
    assert [row.id for row in devices.desktop.history()] == [mine.id]
    theirs = devices.desktop.start("Theirs")
    before, after = devices.laptop.state(mine.id).project, devices.desktop.state(theirs.id).project
    assert before is not None
    assert after is not None
    assert before.id == after.id


def test_a_foreign_path_says_nothing_here(tmp_path: Path) -> None:
    """Another project at the path where the other device keeps its own must not be taken for it."""
    devices = Devices(tmp_path)
    mine = devices.laptop.start("Mine")
    carry(devices.laptop, devices.desktop)
    # The desktop, looking at the very path that the laptop named.
    beside = devices.opened("desktop", devices.here)
    assert beside.history() == []
    assert beside.store().projects_with("path", str(devices.here)) == []
    assert [row.id for row in beside.history(all_projects=True)] == [mine.id]


def test_a_person_says_where_a_project_without_evidence_is(tmp_path: Path) -> None:
    """Going on with its session in a directory makes that directory its place; the rest of its history follows."""
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


def test_a_directory_that_is_another_project_is_not_claimed(tmp_path: Path) -> None:
    """There is a project here already: going on is refused, and with force nothing is mixed up."""
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
    """On one device: a project without git was moved; resuming a session there says so."""
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
    """On one device, in another directory: it goes on as ever, the difference is told, projects stay apart."""
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
    found = keeper.state(session).project
    assert found is not None
    return found


def project_ids(keeper: Keeper, *, all_projects: bool = False) -> set[str]:
    return {project_of(keeper, row.id).id for row in keeper.history(all_projects=all_projects)}


def test_projects_stay_apart_when_both_were_copied_from_one_template(tmp_path: Path) -> None:
    """Both directories are there and no address connects them: no listing and no briefing mixes them."""
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
    # The project of a directory that was removed later is still another one.
    shutil.rmtree(tmp_path / "customer-a")
    assert listed(other) == ["Work 1"]


def test_clones_are_one_project_when_they_have_one_remote(tmp_path: Path) -> None:
    one, other = Copies(tmp_path, "main", "second", remote="https://example.org/shop.git").keepers
    one.start("Mine")
    assert listed(other) == ["Mine"]
    other.start("Theirs", replace=True)
    assert len(project_ids(one)) == 1
    assert sorted(listed(one)) == ["Mine", "Theirs"]


@pytest.mark.parametrize("ending", ["", "/.git", "/."])
def test_clone_is_the_same_project_when_its_remote_is_the_directory_it_was_cloned_from(
    tmp_path: Path, ending: str
) -> None:
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
