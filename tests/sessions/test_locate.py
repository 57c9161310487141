"""Acting on a session from outside its project: which place is meant."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import NotFound, Refused
from holdfast.sessions.work_trees import at_its_place, belongs_here


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("shop", "desk"):
        (tmp_path / name).mkdir()
    return tmp_path.resolve()


@pytest.fixture
def desk(root: Path) -> Iterator[Keeper]:
    """A keeper in no project, as a dashboard has it."""
    with opened(root, "desk") as keeper:
        yield keeper


def opened(root: Path, name: str) -> Keeper:
    return Keeper.open(str(root / name), home=str(root / "home"))


def test_the_work_tree_that_is_at_a_session_comes_first(root: Path, desk: Keeper) -> None:
    """What is recorded by its keeper is recorded there, and everybody sees it."""
    with opened(root, "shop") as shop:
        session = shop.start("Build the shop")
    there = at_its_place(desk, session.id)
    assert there.place.root == str(root / "shop")
    there.session().pause("lunch")
    assert desk.session(session.id).document().status == "paused"


def test_session_is_located_in_the_projects_directory_without_a_work_tree(root: Path, desk: Keeper) -> None:
    """Another session is current there, or none: the project is known by where it was seen."""
    with opened(root, "shop") as shop:
        first = shop.start("Build the shop")
        shop.start("Paint it", replace=True)
        assert at_its_place(desk, first.id).place.root == str(root / "shop")
        assert at_its_place(shop, first.id) is shop


def test_locate_is_refused_with_a_hint_when_the_project_is_not_here(root: Path, desk: Keeper) -> None:
    """The directory is gone; the hint names the command."""
    with opened(root, "shop") as shop:
        session = shop.start("Build the shop")
    shutil.rmtree(root / "shop")
    with pytest.raises(Refused, match="shop is not on this machine") as caught:
        at_its_place(desk, session.id)
    assert f"holdfast resume {session.id[:8]}" in (caught.value.hint or "")


def test_of_a_session_that_is_not_there_nothing_is_known(desk: Keeper) -> None:
    """Neither before there is a store, nor after."""
    with pytest.raises(NotFound):
        at_its_place(desk, "nobody")
    desk.start("Tidy up")
    with pytest.raises(NotFound):
        at_its_place(desk, "nobody")


def test_whether_a_session_belongs_to_a_place(root: Path, desk: Keeper) -> None:
    """A session of another project that is on this machine does not belong here; one's own does."""
    with opened(root, "shop") as shop:
        session = shop.start("Build the shop")
        assert belongs_here(shop, session.id)
    assert not belongs_here(desk, session.id)
