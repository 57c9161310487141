"""Hills of all projects: every scope once, at its latest position, with a session to move it in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.times import MINUTE
from holdfast.sessions.overview import Hill, hills, move_scope


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with at(tmp_path, "desk") as keeper:
        yield keeper


def at(root: Path, name: str) -> Keeper:
    (root / name).mkdir(exist_ok=True)
    return Keeper.open(str(root / name), home=str(root / "home"))


def test_hills_are_empty_without_a_store(keeper: Keeper) -> None:
    """And none is created."""
    assert hills(keeper) == []


def test_scope_is_at_its_latest_position(keeper: Keeper, tmp_path: Path) -> None:
    """In whichever session it was moved; equal names in two projects are two scopes."""
    with at(tmp_path, "shop") as shop, at(tmp_path, "house") as house:
        start = keeper.now() - 30 * MINUTE
        first = shop.start("Search", scope="Search", at=start)
        first.hill("Search", 3, at=start + MINUTE).hill("Checkout", 10, at=start + 2 * MINUTE)
        first.complete(at=start + 3 * MINUTE)
        second = shop.start("Search again", scope="Search", at=start + 4 * MINUTE)
        third = house.start("Find things", scope="Search", at=start + 5 * MINUTE)
        third.hill("Search", 1, at=start + 6 * MINUTE)
    assert hills(keeper) == [
        Hill("house", "Search", 1, start + 6 * MINUTE, third.id),
        Hill("shop", "Checkout", 10, start + 2 * MINUTE, first.id),
        Hill("shop", "Search", 3, start + MINUTE, second.id),
    ]


def test_scope_is_at_the_foot_when_it_was_never_moved(keeper: Keeper) -> None:
    """While a session works on it; a finished one shows no hill."""
    session = keeper.start("Search", scope="Search")
    assert hills(keeper) == [Hill("desk", "Search", 0, None, session.id)]
    session.complete()
    assert hills(keeper) == []


def test_scope_can_be_moved_from_any_directory(keeper: Keeper, tmp_path: Path) -> None:
    """An impossible move is refused and changes nothing."""
    with at(tmp_path, "shop") as shop:
        session = shop.start("Search", scope="Search")
    move_scope(keeper, session.id, "Search", 4)
    (tmp_path / "shop").rename(tmp_path / "moved away")
    move_scope(keeper, session.id, "Search", 6)
    assert [hill.position for hill in hills(keeper)] == [6]
    with pytest.raises(Invalid):
        move_scope(keeper, session.id, "Search", 11)
    keeper.session(session.id).complete()
    with pytest.raises(Refused):
        move_scope(keeper, session.id, "Search", 7)
    with pytest.raises(HoldfastError):
        move_scope(keeper, "nobody", "Search", 7)
    assert [hill.position for hill in hills(keeper)] == [6]
