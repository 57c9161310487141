"""Acting on a session from outside its project: which directory is meant."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import NotFound, Refused
from holdfast.sessions.work_trees import belongs_here, workspace_of_session


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("shop", "desk"):
        (tmp_path / name).mkdir()
    return tmp_path.resolve()


@pytest.fixture
def outside(root: Path) -> Iterator[Keeper]:
    """A keeper without a project, like the dashboard's."""
    with opened(root, "desk") as keeper:
        yield keeper


def opened(root: Path, name: str) -> Keeper:
    return Keeper.open(str(root / name), home=str(root / "home"))


def test_locate_prefers_the_work_tree_at_the_session(root: Path, outside: Keeper) -> None:
    """Its keeper records there, and everybody sees it."""
    with opened(root, "shop") as shop:
        session = shop.start("Build the shop")
    there = workspace_of_session(outside, session.id)
    assert there.place.root == str(root / "shop")
    there.session().pause("lunch")
    assert outside.session(session.id).document().status == "paused"


def test_session_is_located_in_the_projects_directory_without_a_work_tree(root: Path, outside: Keeper) -> None:
    """When another session is current there, or none."""
    with opened(root, "shop") as shop:
        first = shop.start("Build the shop")
        shop.start("Paint it", replace=True)
        assert workspace_of_session(outside, first.id).place.root == str(root / "shop")
        assert workspace_of_session(shop, first.id) is shop


def test_locate_is_refused_with_a_hint_when_the_project_is_not_here(root: Path, outside: Keeper) -> None:
    """The directory was removed; the hint names the command."""
    with opened(root, "shop") as shop:
        session = shop.start("Build the shop")
    shutil.rmtree(root / "shop")
    with pytest.raises(Refused, match="shop is not on this machine") as caught:
        workspace_of_session(outside, session.id)
    assert f"holdfast resume {session.id[:8]}" in (caught.value.hint or "")


def test_locate_does_not_find_an_unknown_session(outside: Keeper) -> None:
    """With and without a store."""
    with pytest.raises(NotFound):
        workspace_of_session(outside, "nobody")
    outside.start("Tidy up")
    with pytest.raises(NotFound):
        workspace_of_session(outside, "nobody")


def test_session_belongs_only_to_its_own_project(root: Path, outside: Keeper) -> None:
    with opened(root, "shop") as shop:
        session = shop.start("Build the shop")
        assert belongs_here(shop, session.id)
    assert not belongs_here(outside, session.id)
